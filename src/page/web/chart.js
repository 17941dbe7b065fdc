// chart.js - line charts and waterfalls in SVG: drawn in place, read with the pointer, the keyboard or as a table.
import { h, settle, known, figure, say } from "./base.js";

const svgName = "http://www.w3.org/2000/svg";
export function svg(name, attributes, ...children) {
  const e = document.createElementNS(svgName, name);
  for (const [key, value] of Object.entries(attributes || {})) if (known(value)) e.setAttribute(key, value);
  for (const c of children.flat(2)) if (c !== null && c !== undefined) e.append(c);
  return e;
}

// Some `wanted` round numbers from low to high.
export function ticks(low, high, wanted) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(wanted, 1), size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * size).find((s) => s >= raw * 0.999);
  const out = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return out;
}
function logTicks(low, high) {
  const out = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
    for (const m of high / low > 30 ? [1] : high / low > 4 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]) {
      const v = m * 10 ** e;
      if (v >= low * 0.999 && v <= high * 1.001) out.push(v);
    }
  return out.length >= 2 ? out : ticks(low, high, 4);
}

// Exponential moving average of y; a break (y null) begins anew.
export function smooth(points, by) {
  if (!by) return points;
  let mean = null;
  return points.map((p) => {
    if (!known(p[1])) { mean = null; return p; }
    mean = mean === null ? p[1] : by * mean + (1 - by) * p[1];
    return [p[0], mean];
  });
}

// What lies between low and high of all series, with a little air.
function extent(values, log) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (known(v) && (!log || v > 0)) { if (v < low) low = v; if (v > high) high = v; }
  if (low > high) return log ? [0.1, 1] : [0, 1];
  if (low === high) return log ? [low / 1.2, high * 1.2] : [low - Math.abs(low || 1) * 0.1, high + Math.abs(high || 1) * 0.1];
  return [low, high];
}

// series: [{name, color: 0…7, points: [[x, y]], kind: "line"|"faint"|"dash"|"dots"}], y null: a break.
// bands: [{color, points: [[x, low, high]]}]; marks: [{x, text}]; target: y.
export function lineChart(label, height = 260) {
  const picture = svg("svg", { role: "img", "aria-label": label, tabindex: 0 });
  const tip = h("div", { class: "tip", hidden: true }), legend = h("ul", { class: "legend" });
  const table = h("details", {}, h("summary", {}, "Data as a table"));
  const element = h("div", { class: "chart" }, picture, tip, legend, table);
  let data = { series: [] }, layout = null, cursor = null, queued = false;

  function draw() {
    queued = false;
    const width = Math.max(element.clientWidth, 220), tall = innerWidth >= 2400 ? height * 1.5 : height, letters = innerWidth >= 2400 ? 9.5 : 7;
    const all = data.series.filter((s) => s.points.length);
    const xs = [], ys = [];
    for (const s of all) for (const p of s.points) if (known(p[0])) { xs.push(p[0]); if (s.kind !== "faint" || !data.clip) ys.push(p[1]); }
    for (const b of data.bands || []) for (const p of b.points) { xs.push(p[0]); ys.push(p[1], p[2]); }
    if (known(data.target) && ys.length) ys.push(data.target);
    const log = data.log && ys.some((v) => v > 0);
    const [x0, x1] = extent(xs), [y0, y1] = data.yRange || extent(ys, log);
    const rows = log ? logTicks(y0, y1) : ticks(y0, y1, Math.max(2, Math.round(tall / 55)));
    const names = rows.map((v) => (data.yFormat || figure)(v));
    const left = Math.min(Math.max(...names.map((n) => n.length), 3) * letters + 14, 120), right = 14, top = 10, bottom = data.xLabel ? 42 : 26;
    const inner = width - left - right, tallness = tall - top - bottom;
    const X = (v) => left + ((v - x0) / (x1 - x0)) * inner;
    const Y = (v) => log ? top + tallness * (1 - Math.log(Math.max(v, y0 * 0.5) / y0) / Math.log(y1 / y0)) : top + tallness * (1 - (v - y0) / (y1 - y0));
    layout = { X, Y, x0, x1, left, inner, top, tallness, width, all };
    const nodes = [];
    rows.forEach((v, i) => {
      nodes.push(svg("line", { class: "grid-line", x1: left, x2: left + inner, y1: Y(v).toFixed(1), y2: Y(v).toFixed(1) }));
      nodes.push(svg("text", { x: left - 8, y: (Y(v) + 4).toFixed(1), "text-anchor": "end" }, names[i]));
    });
    const columns = ticks(x0, x1, Math.max(2, Math.floor(inner / (innerWidth >= 2400 ? 150 : 105))));
    columns.forEach((v) => nodes.push(svg("text", { x: X(v).toFixed(1), y: top + tallness + 18, "text-anchor": X(v) > left + inner - 24 ? "end" : "middle" }, (data.xFormat || figure)(v))));
    nodes.push(svg("line", { class: "axis-line", x1: left, x2: left + inner, y1: top + tallness, y2: top + tallness }));
    if (data.xLabel) nodes.push(svg("text", { x: left + inner / 2, y: tall - 4, "text-anchor": "middle" }, data.xLabel));
    for (const b of data.bands || []) if (b.points.length > 1) nodes.push(svg("path", { class: "band c" + b.color, d: "M" + b.points.map((p) => X(p[0]).toFixed(1) + " " + Y(p[2]).toFixed(1)).join("L") + "L" + b.points.slice().reverse().map((p) => X(p[0]).toFixed(1) + " " + Y(p[1]).toFixed(1)).join("L") + "Z" }));
    if (known(data.target)) nodes.push(svg("line", { class: "target", x1: left, x2: left + inner, y1: Y(data.target), y2: Y(data.target) }));
    for (const m of data.marks || []) if (m.x >= x0 && m.x <= x1) {
      nodes.push(svg("line", { class: "mark-line", x1: X(m.x).toFixed(1), x2: X(m.x).toFixed(1), y1: top, y2: top + tallness }, svg("title", {}, m.text)));
      nodes.push(svg("circle", { class: "mark-dot", cx: X(m.x).toFixed(1), cy: top, r: 3.5 }, svg("title", {}, m.text)));
    }
    for (const s of all) {
      if (s.kind === "dots" || s.points.length === 1) { for (const p of s.points) if (known(p[1])) nodes.push(svg("circle", { class: "c" + s.color, cx: X(p[0]).toFixed(1), cy: Y(p[1]).toFixed(1), r: 2.6 })); if (s.kind === "dots") continue; }
      let d = "", pen = "M";
      const at = (v) => (s.kind === "faint" ? Math.min(Math.max(Y(v), top), top + tallness) : Y(v)); // outliers do not leave the chart
      for (const p of s.points) { if (!known(p[1])) { pen = "M"; continue; } d += pen + X(p[0]).toFixed(1) + " " + at(p[1]).toFixed(1); pen = "L"; }
      nodes.push(svg("path", { class: "path c" + s.color + (s.kind === "faint" ? " faint" : s.kind === "dash" ? " dash" : ""), d, "data-name": s.name }));
    }
    picture.setAttribute("viewBox", `0 0 ${width} ${tall}`);
    picture.setAttribute("height", tall);
    if (!all.length) nodes.push(svg("text", { x: width / 2, y: tall / 2, "text-anchor": "middle" }, data.empty || "nothing to draw yet"));
    settle(picture, nodes);
    const named = data.series.filter((s) => s.kind !== "faint" && s.kind !== "dots" && s.points.length && s.name);
    settle(legend, (named.length > 1 || data.marks?.length || known(data.target) ? named : []).map((s) => h("li", {}, h("i", { class: "c" + s.color + (s.kind === "dash" ? " dash" : "") }), s.name))
      .concat(data.legend || []));
    if (table.open) fillTable();
    point();
  }
  function nearest(points, x) {
    let best = null;
    for (const p of points) if (known(p[1]) && (!best || Math.abs(p[0] - x) < Math.abs(best[0] - x))) best = p;
    return best;
  }
  function point(aloud) {
    picture.querySelector(".cross")?.remove();
    tip.hidden = cursor === null || !layout || !layout.all.length;
    if (tip.hidden) return;
    const x = layout.x0 + cursor * (layout.x1 - layout.x0), px = layout.X(x);
    picture.append(svg("line", { class: "cross", x1: px, x2: px, y1: layout.top, y2: layout.top + layout.tallness }));
    const near = layout.all.filter((s) => s.kind !== "faint").map((s) => [s, nearest(s.points, x)]).filter(([, p]) => p);
    const marks = (data.marks || []).filter((m) => Math.abs(layout.X(m.x) - px) < 6);
    const words = near.map(([s, p]) => s.name + " " + (data.yFormat || figure)(p[1]));
    settle(tip, [h("div", { class: "quiet" }, (data.xFormat || figure)(x) + (data.xUnit ? " " + data.xUnit : "")),
      near.map(([s, p]) => h("div", {}, h("span", { class: "swatch c" + s.color }), s.name + " ", h("b", {}, (data.yFormat || figure)(p[1])))),
      marks.map((m) => h("div", {}, m.text))]);
    const flip = px > layout.width * 0.6;
    tip.style.left = flip ? "" : px + 12 + "px";
    tip.style.right = flip ? layout.width - px + 12 + "px" : "";
    tip.style.top = "8px";
    if (aloud) say((data.xFormat || figure)(x) + ": " + words.join(", "));
  }
  function fillTable() {
    const series = data.series.filter((s) => s.kind !== "faint" && s.points.length);
    const xs = [...new Set(series.flatMap((s) => s.points.map((p) => p[0])))].sort((a, b) => a - b), every = Math.max(1, Math.ceil(xs.length / 200));
    const maps = series.map((s) => new Map(s.points));
    settle(table, [h("summary", {}, "Data as a table"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label + ", table" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "num" }, data.xLabel || "x"), series.map((s) => h("th", { scope: "col", class: "num" }, s.name)))),
      h("tbody", {}, xs.filter((_, i) => i % every === 0 || i === xs.length - 1).map((x) => h("tr", {}, h("td", { class: "num" }, (data.xFormat || figure)(x)),
        maps.map((m) => h("td", { class: "num" }, known(m.get(x)) ? (data.yFormat || figure)(m.get(x)) : "")))))))]);
  }
  picture.addEventListener("pointermove", (e) => {
    if (!layout) return;
    const box = picture.getBoundingClientRect();
    cursor = Math.min(Math.max((e.clientX - box.left - layout.left) / layout.inner, 0), 1);
    point();
  });
  picture.addEventListener("pointerleave", () => { cursor = null; point(); });
  picture.addEventListener("blur", () => { cursor = null; point(); });
  picture.addEventListener("keydown", (e) => {
    const by = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -1, End: 1 }[e.key];
    if (e.key === "Escape") { cursor = null; point(); }
    if (!by) return;
    e.preventDefault();
    cursor = Math.min(Math.max((cursor ?? 1) + by, 0), 1);
    point(true);
  });
  table.addEventListener("toggle", () => { if (table.open) fillTable(); });
  function plan() { if (!queued) { queued = true; requestAnimationFrame(draw); } }
  new ResizeObserver(plan).observe(element);
  return { element, picture, update(fresh) { data = fresh; plan(); }, get data() { return data; } };
}

// Steps from one sum to another: [{name, value}], the first and the last are sums, those between add to the first.
export function waterfall(label, height = 260) {
  const picture = svg("svg", { role: "img", "aria-label": label });
  const table = h("details", {}, h("summary", {}, "Data as a table"));
  const element = h("div", { class: "chart" }, picture, table);
  let steps = [], format = figure;
  function draw() {
    const width = Math.max(element.clientWidth, 220), row = innerWidth >= 2400 ? 44 : 30, tall = steps.length * row + 8, left = Math.min(width * 0.42, 300), right = 90;
    let at = 0;
    const bars = steps.map((s, i) => {
      const whole = i === 0 || i === steps.length - 1, from = whole ? 0 : at, to = whole ? s.value : at + s.value;
      at = to;
      return { ...s, from, to, whole };
    });
    const most = Math.max(1e-12, ...bars.map((b) => Math.max(b.from, b.to))), least = Math.min(0, ...bars.map((b) => Math.min(b.from, b.to)));
    const X = (v) => left + ((v - least) / (most - least)) * (width - left - right);
    const fits = Math.floor((left - 12) / (innerWidth >= 2400 ? 8.6 : 6.4));
    settle(picture, bars.flatMap((b, i) => {
      const y = i * row + 6, a = Math.min(X(b.from), X(b.to)), w = Math.max(Math.abs(X(b.to) - X(b.from)), 1.5), color = b.whole ? 6 : b.value < 0 ? 0 : 1;
      const name = b.name.length > fits ? b.name.slice(0, fits - 1) + "…" : b.name;
      return [svg("text", { x: left - 10, y: y + row / 2, "text-anchor": "end" }, name, svg("title", {}, b.name)),
        svg("rect", { class: "c" + color, x: a.toFixed(1), y, width: w.toFixed(1), height: row - 10, rx: 3, stroke: "none" }),
        i + 1 < bars.length ? svg("line", { class: "grid-line", x1: X(b.to), x2: X(b.to), y1: y + row - 10, y2: y + row }) : null,
        svg("text", { x: (a + w + 7).toFixed(1), y: y + row / 2 }, (b.whole || b.value <= 0 ? "" : "+") + format(b.value))].filter(Boolean);
    }));
    picture.setAttribute("viewBox", `0 0 ${width} ${tall}`);
    picture.setAttribute("height", tall);
    settle(table, [h("summary", {}, "Data as a table"), h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, steps.map((s) => h("tr", {}, h("th", { scope: "row" }, s.name), h("td", { class: "num" }, format(s.value)))))))]);
  }
  new ResizeObserver(draw).observe(element);
  return { element, picture, update(fresh, as = figure) { steps = fresh; format = as; draw(); } };
}

// The picture as a file of its own: colours and fonts written into it.
export function svgText(picture) {
  const copy = picture.cloneNode(true), from = [picture, ...picture.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((e, i) => {
    const style = getComputedStyle(e);
    for (const key of ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family"]) to[i].setAttribute(key, style.getPropertyValue(key));
    to[i].removeAttribute("class");
  });
  copy.setAttribute("xmlns", svgName);
  copy.setAttribute("width", picture.clientWidth);
  return new XMLSerializer().serializeToString(copy);
}
export function csvText(chart) {
  const cell = (v) => (/[",\n]/.test(v) ? '"' + v.replaceAll('"', '""') + '"' : v);
  const out = ["series," + cell(chart.data.xLabel || "x") + ",value"];
  for (const s of chart.data.series) if (s.kind !== "faint" || chart.data.series.every((t) => t.kind === "faint"))
    for (const p of s.points) if (known(p[1])) out.push(cell(s.name) + "," + p[0] + "," + p[1]);
  return out.join("\n") + "\n";
}
