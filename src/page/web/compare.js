// compare.js - two runs or more side by side: figures, settings that differ, curves, and the way from bill to bill.
import { h, settle, pill, count, figure, dollars, span, percent, metricText, known, place, remember, segments, download } from "./base.js";
import { lineChart, waterfall, smooth, svgText, csvText } from "./chart.js";
import { ask, runs, loadRuns, Curve, axes } from "./data.js";
import { axisFormat, axisLabel, pointsOf } from "./run.js";

const comparedMax = 8;

function settingsOf(detail) {
  return new Map(detail.settings.split("\n").filter(Boolean).map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
}
function sideBySide(details) {
  const figures = [["State", (d) => pill(d.state)], ["Bill", (d) => dollars(d.dollars)], ["Until the target", (d) => dollars(d.target_usd)], ["Per million " + (details[0].unit || "samples"), (d) => (known(d.usd_million) ? dollars(d.usd_million) : "–")],
    ["Time", (d) => span(d.seconds)], ["Steps", (d) => count(d.steps)], ["Loss", (d) => figure(d.loss)], ["Metric", (d) => (known(d.value) ? d.metric + " " + metricText(d.metric, d.value) : "–")],
    ["Useful", (d) => (known(d.useful_percent) ? figure(d.useful_percent, 3) + " %" : "–")], ["Machine", (d) => d.device], ["Starts", (d) => count(d.starts)], ["Price per hour", (d) => dollars(d.usd_hour)]];
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Figures side by side" }, h("table", { class: "sides" },
    h("thead", {}, h("tr", {}, h("td"), details.map((d, i) => h("th", { scope: "col" }, h("span", { class: "swatch c" + (i % 8) }), h("a", { href: "#/run/" + d.id }, d.name || d.id), h("div", {}, d.id.slice(0, 8)))))),
    h("tbody", {}, figures.map(([name, of]) => h("tr", {}, h("th", { scope: "row" }, name), details.map((d) => h("td", {}, of(d))))))));
}
function differences(details) {
  const all = details.map(settingsOf), keys = [...new Set(all.flatMap((m) => [...m.keys()]))].filter((k) => new Set(all.map((m) => m.get(k))).size > 1);
  if (!keys.length) return h("p", { class: "quiet" }, "Their settings are the same.");
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Settings that differ" }, h("table", { class: "sides" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Setting"), details.map((d, i) => h("th", { scope: "col" }, h("span", { class: "swatch c" + (i % 8) }), d.id.slice(0, 8))))),
    h("tbody", {}, keys.sort().map((k) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, k)), all.map((m) => h("td", {}, m.has(k) ? h("code", {}, m.get(k)) : h("span", { class: "quiet" }, "default"))))))));
}

export async function showCompare(main) {
  const ids = (place().state.get("runs") || "").split(",").filter(Boolean).slice(0, comparedMax);
  if (!runs.size) await loadRuns();
  if (ids.length < 2) {
    settle(main, [h("h1", {}, "Compare"), h("section", { class: "card" }, h("p", {}, "Pick two runs or more in the ", h("a", { href: "#/" }, "list of runs"), ", then “Compare”."))]);
    return null;
  }
  const details = [], curves = [];
  for (const id of ids) { details.push(await ask("/api/run?run=" + encodeURIComponent(id))); curves.push(await new Curve(id).load(place().state.get("x") || "dollars")); }
  const bridge = await ask("/api/compare?runs=" + ids.map(encodeURIComponent).join(","));
  const chart = lineChart("Curves of the runs", 340), fall = waterfall("From the first bill to the last");
  const state = { x: place().state.get("x") || (curves.some((c) => c.points.some((p) => p.dollars > 0)) ? "dollars" : "step"), y: place().state.get("y") || "loss", log: place().state.get("log") === "1" };
  const draw = () => {
    chart.update({ series: curves.map((c, i) => {
      const held = pointsOf(c, state.x, state.y, true), name = (details[i].name || "run") + " " + c.id.slice(0, 6);
      return { name: name + (held.length ? "" : ", training"), color: i % 8, points: held.length ? held : smooth(pointsOf(c, state.x, state.y, false), 0.8) };
    }), target: state.y === "value" ? bridge.target : null, log: state.log, xFormat: axisFormat[state.x], xLabel: axisLabel(state.x, curves[0].tokens), yFormat: state.y === "value" ? (v) => metricText(details[0].metric, v) : figure });
  };
  const change = (key) => (value) => { state[key] = value; remember({ [key]: value }); draw(); };
  const metric = details[0].metric;
  const saved = known(bridge.before) ? bridge.before - bridge.after : null, part = saved !== null && bridge.before > 0 ? percent(Math.abs(saved) / bridge.before) : "";
  settle(main, [h("div", { class: "title" }, h("h1", {}, "Compare " + ids.length + " runs"), h("div", { class: "sub" }, saved === null ? bridge.error : dollars(bridge.before) + " → " + dollars(bridge.after) + " a run, " + part + (saved >= 0 ? " less" : " more") + (known(bridge.target) ? " to " + metric + " " + metricText(metric, bridge.target) : "; they did not all reach the same target") + (known(bridge.runs_per_month) && known(bridge.target) && saved > 0 ? "; " + dollars(saved * bridge.runs_per_month) + " a month" : ""))),
    h("div", { class: "grid" },
      h("section", { class: "card wide", "aria-label": "Curves" }, h("div", { class: "head" }, h("h2", {}, "Curves, held-out"), segments("Horizontal axis", "axis", axes.map(([k, t]) => [k, k === "work" && !curves[0].tokens ? "Samples" : t]), state.x, change("x")),
        metric && metric !== "loss" ? segments("Vertical axis", "quantity", [["loss", "Loss"], ["value", metric]], state.y, change("y")) : null,
        h("label", { class: "field" }, h("input", { type: "checkbox", checked: state.log, onchange: (e) => { state.log = e.target.checked; remember({ log: state.log ? "1" : null }); draw(); } }), "log"), h("span", { class: "grow" }),
        h("button", { type: "button", onclick: () => download("compare.svg", "image/svg+xml", svgText(chart.picture)) }, "SVG"), h("button", { type: "button", onclick: () => download("compare.csv", "text/csv", csvText(chart)) }, "CSV")), chart.element),
      h("section", { class: "card", "aria-label": "From bill to bill" }, h("div", { class: "head" }, h("h2", {}, "From the first bill to the last"), h("span", { class: "grow" }), bridge.levers ? h("button", { type: "button", onclick: () => download("bills.svg", "image/svg+xml", svgText(fall.picture)) }, "SVG") : null), bridge.levers ? fall.element : h("p", { class: "quiet" }, bridge.error)),
      h("section", { class: "card", "aria-label": "Figures" }, h("div", { class: "head" }, h("h2", {}, "Side by side")), sideBySide(details)),
      h("section", { class: "card wide", "aria-label": "Differences" }, h("div", { class: "head" }, h("h2", {}, "What differs in their settings")), differences(details)))]);
  draw();
  if (bridge.levers) fall.update([{ name: "first: " + (details[0].name || details[0].id), value: bridge.before }, ...bridge.levers.map((l) => ({ name: l.what, value: l.dollars })), { name: "last: " + (details.at(-1).name || details.at(-1).id), value: bridge.after }], dollars);
  return { curves, onMore: draw };
}
