// runs.js - the list of runs.
import { h, settle, pill, stateText, count, figure, dollars, span, metricText, metricName, dayTime, known, modelOf, place, remember, address } from "./base.js";
import { runs, loadRuns, follow } from "./data.js";

const shownAtFirst = 200;
const picked = new Set();

function progress(r) {
  if (!r.steps_planned) return count(r.steps);
  const part = Math.min(r.steps / r.steps_planned, 1);
  return [count(r.steps) + " of " + count(r.steps_planned), h("div", { class: "bar", role: "progressbar", "aria-label": "progress of " + (r.name || r.id), "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.floor(100 * part) }, h("i", { style: { width: (100 * part).toFixed(1) + "%" } }))];
}
function range(low, high, format) {
  if (!known(low)) return "–";
  const a = format(low), b = format(high);
  return known(high) && a !== b ? [a, h("small", {}, "up to " + b)] : a;
}
function row(r, redraw) {
  const box = h("input", { type: "checkbox", "aria-label": "Compare " + (r.name || r.id), onchange: (e) => { e.target.checked ? picked.add(r.id) : picked.delete(r.id); redraw(); } });
  box.checked = picked.has(r.id);
  if (box.checked) box.setAttribute("checked", "");
  return h("tr", { class: "go", "data-run": r.id, "data-key": r.id },
    h("td", { class: "pick" }, box),
    h("td", { class: "name" }, h("a", { href: address(["run", r.id], new URLSearchParams()) }, r.name || r.id), h("small", {}, r.id.slice(0, 8) + " · " + dayTime(r.begin_s) + (r.tags ? " · " + r.tags : ""))),
    h("td", { class: "state" }, pill(r.state)),
    h("td", { class: "more" + (modelOf(r) ? "" : " none"), "data-label": "model" }, modelOf(r) || "–"),
    h("td", { class: "more", "data-label": "on" }, r.device || "–", r.machine ? h("small", {}, r.machine) : null),
    h("td", { class: "num more", "data-label": "steps" }, progress(r)),
    h("td", { class: "num more", "data-label": "loss" }, figure(r.loss)),
    h("td", { class: "num more", "data-label": metricName(r.metric) }, known(r.value) ? metricText(r.metric, r.value) : "–", r.metric && known(r.value) ? h("small", {}, metricName(r.metric) + (known(r.target) ? ", target " + metricText(r.metric, r.target) : "")) : null),
    h("td", { class: "num more", "data-label": "so far" }, dollars(r.dollars), h("small", {}, span(r.seconds))),
    h("td", { class: "num more" + (known(r.end_usd) ? "" : " none"), "data-label": "at the end" }, r.state === "runs" ? range(r.end_usd, r.end_high_usd, dollars) : "–"),
    h("td", { class: "num more" + (known(r.left_s) ? "" : " none"), "data-label": "left" }, r.state === "runs" ? range(r.left_s, r.left_high_s, span) : "–"));
}

export async function showRuns(main) {
  const state = place().state;
  let words = state.get("q") || "", only = state.get("state") || "", most = shownAtFirst, queued = false;
  await loadRuns();
  const body = h("tbody"), more = h("p"), total = h("span", { class: "quiet" }), compare = h("a", { class: "button", href: "#/" }, "Compare");
  const search = h("input", { type: "search", placeholder: "Name, model, machine…", "aria-label": "Find runs", value: words, oninput: (e) => { words = e.target.value; remember({ q: words }); draw(); } });
  const which = h("select", { "aria-label": "State", onchange: (e) => { only = e.target.value; remember({ state: only }); draw(); } },
    [["", "All states"], ["runs", "Running"], ["ended", "Ended"], ["interrupted", "Interrupted"]].map(([v, t]) => h("option", { value: v, selected: v === only }, t)));

  function matches(r) {
    if (only === "runs" && r.state !== "runs") return false;
    const stopped = ["killed", "signal", "notice"].includes(r.state);
    if ((only === "interrupted" && !stopped) || (only === "ended" && (r.state === "runs" || stopped))) return false;
    const text = (r.name + " " + r.id + " " + r.tags + " " + modelOf(r) + " " + r.device + " " + r.machine + " " + stateText(r.state)).toLowerCase();
    return words.toLowerCase().split(/\s+/).every((w) => text.includes(w));
  }
  function draw() {
    queued = false;
    const all = [...runs.values()].filter(matches).reverse();
    all.sort((a, b) => (b.state === "runs") - (a.state === "runs"));
    settle(body, all.slice(0, most).map((r) => row(r, draw)));
    settle(more, all.length > most ? [h("button", { type: "button", onclick: () => { most *= 3; draw(); } }, "Show more")] : []);
    const cost = all.reduce((sum, r) => sum + (r.dollars || 0), 0);
    total.textContent = count(all.length) + (all.length === 1 ? " run, " : " runs, ") + dollars(cost);
    const ids = [...picked].filter((id) => runs.has(id));
    compare.hidden = ids.length < 2;
    compare.href = address(["compare"], new URLSearchParams({ runs: ids.join(",") }));
    compare.textContent = "Compare " + ids.length + " runs";
    compare.className = "button primary";
  }
  const head = ["", "Run", "State", "Model", "Machine", "Progress", "Loss", "Metric", "So far", "At the end", "Time left"];
  settle(main, [h("div", { class: "title" }, h("h1", {}, "Runs"), total),
    h("section", { class: "card" }, h("div", { class: "head" }, search, which, h("span", { class: "grow" }), compare),
      runs.size ? h("table", { class: "runs" }, h("thead", {}, h("tr", {}, head.map((t, i) => h("th", { scope: "col", class: i >= 5 ? "num" : null }, t || h("span", { class: "hidden" }, "Pick"))))), body)
        : h("p", { class: "quiet" }, "No run is recorded yet: ", h("code", {}, "frugal train run.yaml"), " records each run, and it will appear here."),
      more)]);
  draw();
  const empty = !runs.size;
  return { curves: [], onRow() {
    if (empty) { showRuns(main); return; }
    if (!queued) { queued = true; setTimeout(draw, 250); }
  } };
}
