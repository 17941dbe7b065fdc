// learned.js - what a classifier has learned: which class it takes for which, and the pictures that it got wrong.
import { h, settle, count, percent } from "./base.js";

// Bytes in base64, a byte a channel, onto a canvas that the style enlarges.
function picture(m) {
  const canvas = h("canvas", { width: m.width, height: m.height, "data-step": m.step, role: "img", "aria-label": "a picture of class " + m.label + " that was taken for class " + m.guess });
  const raw = atob(m.pixels), image = new ImageData(m.width, m.height);
  for (let i = 0; i < m.width * m.height; i++)
    for (let c = 0; c < 4; c++) image.data[4 * i + c] = c === 3 ? 255 : raw.charCodeAt(m.channels * i + (m.channels === 3 ? c : 0));
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
function tableOf(e) {
  const classes = [...Array(e.classes).keys()], row = (k) => e.counts.slice(k * e.classes, (k + 1) * e.classes);
  const cell = (n, k, guess, all) => h("td", { class: k === guess ? "num right" : "num", style: n && k !== guess ? { background: "color-mix(in srgb, var(--bad) " + Math.min(60, Math.ceil(300 * n / all)) + "%, transparent)" } : {} }, n ? count(n) : "·");
  return h("table", { class: "confusion" }, h("caption", { class: "quiet" }, "Held-out samples: a row for each true class, a column for each predicted one"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Class"), classes.map((k) => h("th", { scope: "col", class: "num" }, String(k))), h("th", { scope: "col", class: "num" }, "Right"))),
    h("tbody", {}, classes.map((k) => {
      const counts = row(k), all = counts.reduce((a, n) => a + n, 0) || 1;
      return h("tr", {}, h("th", { scope: "row" }, String(k)), counts.map((n, guess) => cell(n, k, guess, all)), h("td", { class: "num" }, percent(counts[k] / all)));
    })));
}

export function textCard(view) {
  const text = h("p", { class: "specimen" }), element = h("section", { class: "card wide", "aria-label": "Text", hidden: true }, h("div", { class: "head" }, h("h2", {}, "What it writes"), h("span", { class: "quiet" }, "the beginning was given")), text);
  return { element, draw() {
    const e = view.curve.last("sample");
    element.hidden = !e;
    if (e) settle(text, [h("b", {}, e.prompt), e.text]);
  } };
}

export function learnedCard(view) {
  const table = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of classes" }), pictures = h("div", { class: "pictures" }), when = h("span", { class: "quiet" });
  const element = h("section", { class: "card wide", "aria-label": "Mistakes", hidden: true }, h("div", { class: "head" }, h("h2", {}, "What it takes for what"), when), table, pictures);
  let shown = null;
  const draw = () => {
    const e = view.curve.last("classes"), wrong = e ? view.curve.find("mistake").filter((m) => m.step === e.step) : [], now = e ? e.wall_ns + " " + wrong.length : null;
    if (!e || now === shown) return;
    shown = now;
    element.hidden = false;
    when.textContent = "after step " + count(e.step);
    settle(table, [tableOf(e)]);
    settle(pictures, wrong.length ? [h("h3", {}, "Most certain, and wrong"), h("div", { class: "row" }, wrong.map((m) => h("figure", {}, picture(m), h("figcaption", {}, m.label + ", taken for " + m.guess, h("small", {}, percent(m.probability) + " certain")))))] : []);
  };
  return { element, draw };
}
