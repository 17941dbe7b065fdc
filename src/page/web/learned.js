// learned.js - what a model has learned: which class it takes for which, the pictures that it got wrong; what it writes.
import { h, settle, count, percent, place, remember } from "./base.js";

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

// What a text model writes: the newest text, or the one that was leafed back to (text=STEP in the address).
export function textCard(view) {
  const text = h("p", { class: "specimen" }), when = h("span", { class: "quiet" });
  const leaf = (by, label) => h("button", { type: "button", "aria-label": label, title: label, onclick: () => turn(by) }, by < 0 ? "‹" : "›");
  const earlier = leaf(-1, "Earlier text"), later = leaf(1, "Later text");
  const element = h("section", { class: "card wide", "aria-label": "Text", hidden: true }, h("div", { class: "head" }, h("h2", {}, "What it writes"), when, h("span", { class: "leaf" }, earlier, later)), text,
    h("p", { class: "quiet" }, "The bold beginning was given; the rest is drawn at a temperature of 0.8."));
  const all = () => view.curve.find("sample");
  const shown = (list) => { // one that is gone, or none that was chosen: the newest
    const step = place().state.get("text"), at = step ? list.findIndex((e) => String(e.step) === step) : -1;
    return at < 0 ? list.length - 1 : at;
  };
  function turn(by) {
    const list = all(), at = shown(list) + by;
    if (at >= 0 && at < list.length) remember({ text: at === list.length - 1 ? null : list[at].step });
    draw();
  }
  function draw() {
    const list = all(), at = shown(list), e = list[at];
    element.hidden = !e;
    if (!e) return;
    when.textContent = "after step " + count(e.step) + (list.length > 1 ? ", " + (at + 1) + " of " + list.length : "");
    earlier.hidden = later.hidden = list.length < 2;
    earlier.disabled = at === 0;
    later.disabled = at === list.length - 1;
    settle(text, [h("b", {}, e.prompt), e.text]);
  }
  return { element, draw };
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
