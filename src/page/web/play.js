// play.js - the playground: the planner's levers, answered by the server as they are moved.
import { h, settle, known, count, figure, dollars, dollarTick, span, percent, short, bytes, place, remember, copyButton, segments } from "./base.js";
import { ask } from "./data.js";
import { lineChart, waterfall } from "./chart.js";

// name, label, kind: a slider over powers of ten (low, high), a list, or a choice of a few
const levers = [
  { key: "what", label: "Model", list: "models" },
  { key: "tokens", label: "Tokens", low: 1e7, high: 1e13, text: short, knownOnly: true },
  { key: "steps", label: "Steps", low: 10, high: 1e8, text: short, runOnly: true },
  { key: "depth", label: "Depth", low: 0.25, high: 2, text: (v) => percent(v), linear: true, step: 0.05, usual: 1 },
  { key: "width", label: "Width", low: 0.25, high: 2, text: (v) => percent(v), linear: true, step: 0.05, usual: 1 },
  { key: "batch", label: "Batch", low: 1, high: 65536, text: (v) => count(v) + " samples a step", base: 2 },
  { key: "context", label: "Context", low: 128, high: 131072, text: (v) => count(v) + " tokens", base: 2, knownOnly: true },
  { key: "precision", label: "Precision", few: [["", "auto"], ["fp32", "fp32"], ["bf16", "bf16"], ["fp16", "fp16"]] },
  { key: "recompute", label: "Recompute", few: [["", "auto"], ["none", "none"], ["2", "every 2"], ["all", "all"]] },
  { key: "lora", label: "LoRA", low: 1, high: 1024, text: (v) => "rank " + count(v), base: 2, free: "all weights are trained" },
  { key: "market", label: "Market", few: [["", "any"], ["on-demand", "on demand"], ["spot", "spot"]] },
  { key: "cloud", label: "Cloud", list: "clouds" },
  { key: "region", label: "Region", list: "regions" },
  { key: "machine", label: "Machine", list: "machines" },
  { key: "gpus", label: "GPUs", low: 1, high: 1024, text: count, base: 2 },
  { key: "deadline", label: "Deadline", low: 0.1, high: 5000, text: (v) => span(3600 * v) },
  { key: "spot", label: "Spot lifetime", low: 0.2, high: 1000, text: (v) => span(3600 * v) },
  { key: "save", label: "Checkpoint every", low: 10, high: 100000, text: span },
  { key: "stop", label: "Stop early after", low: 0.05, high: 1, text: (v) => percent(v) + " of the run", linear: true, step: 0.05, usual: 1 },
];
const slider = 1000;
function toValue(l, at) {
  if (l.linear) return Number(at);
  if (l.base) return Math.round(l.low * l.base ** Math.round(Math.log(l.high / l.low) / Math.log(l.base) * at / slider));
  return Number((l.low * (l.high / l.low) ** (at / slider)).toPrecision(2));
}
function toPlace(l, value) { return l.linear ? value : Math.round(slider * Math.log(value / l.low) / Math.log(l.high / l.low)); }

export async function showPlay(main) {
  const choices = await ask("/api/choices"), chosen = {};
  for (const l of levers) if (place().state.get(l.key)) chosen[l.key] = place().state.get(l.key);
  chosen.what ??= choices.run_file ? "run" : "gpt2";
  const bill = h("dl", { class: "stats" }), problem = h("p", { class: "verdict", role: "status", hidden: true }), why = h("ul"), rows = h("div"), notes = h("ul", { class: "quiet" }), head = h("p", { class: "quiet" });
  const fall = waterfall("What each lever saves against a plain run"), curve = lineChart("Dollars against the deadline", 230);
  let turn = 0, busy = false, again = false, rest = 0, asked = 0, answer = {};

  const query = (part) => "/api/play?part=" + part + "&" + new URLSearchParams(chosen);
  async function update() {
    asked = asked || performance.now();
    if (busy) { again = true; return; }
    busy = true;
    again = false;
    const mine = ++turn, began = asked;
    asked = 0;
    try {
      answer = await ask(query("rows"));
      draw();
      document.body.dataset.playMs = (performance.now() - began).toFixed(1);
      document.body.dataset.playTurn = mine;
    } catch (e) { answer = { error: e.message, rows: [] }; draw(); }
    busy = false;
    if (again) { update(); return; }
    clearTimeout(rest);
    rest = setTimeout(async () => {
      if (!answer.rows?.length) return;
      const more = await ask(query("levers"));
      if (mine === turn && more.levers) drawLevers(more.levers);
      const late = mine === turn ? await ask(query("deadlines")) : null;
      if (mine === turn && late?.deadlines) drawDeadlines(late.deadlines);
    }, 120);
  }
  const stat = (name, value, more) => h("div", { class: "stat" }, h("dt", {}, name), h("dd", {}, value, more ? h("small", {}, more) : null));
  function draw() {
    const best = answer.rows?.[0];
    problem.hidden = !answer.error;
    problem.textContent = answer.error || "";
    head.textContent = answer.parameters ? answer.what + ": " + short(answer.parameters) + " parameters, " + short(answer.work) + (answer.context ? " tokens in " : " samples in ") + count(answer.steps) + " steps of " + count(answer.batch) + (answer.context ? " sequences of " + count(answer.context) + " tokens" : " samples") : "";
    const fill = best ? best.memory_bytes / best.memory_bytes_usable : 0;
    settle(bill, best ? [stat("Dollars", dollars(best.usd), dollars(best.usd_hour) + " an hour"), stat("Time", span(3600 * best.hours), known(best.in_time) ? percent(best.in_time) + " in time" : null),
      stat("Machine", (best.machines > 1 ? best.machines + " × " : "") + best.machine, (best.gpus ? best.gpus + " × " + best.gpu + ", " : "") + best.market),
      h("div", { class: "stat" }, h("dt", {}, "Memory"), h("dd", {}, bytes(best.memory_bytes), h("small", {}, "of " + bytes(best.memory_bytes_usable)), h("div", { class: "bar" }, h("i", { style: { width: Math.min(100 * fill, 100).toFixed(1) + "%" } })))),
      stat("Interruptions", best.interruptions < 0.01 ? "hardly any" : figure(best.interruptions, 3), known(best.save_every_s) ? "a checkpoint every " + span(best.save_every_s) : null),
      stat("Speed", known(best.mfu) ? percent(best.mfu) + " MFU" : figure(best.step_s * 1000, 3) + " ms a step", best.precision + ", recompute " + best.recompute)] : []);
    settle(why, best ? [h("li", {}, dollars(best.usd) + " = " + dollars(best.usd_useful) + " for compute + " + dollars(best.usd_starting) + " for starting + " + dollars(best.usd_lost) + " lost to checkpoints and interruptions + " + dollars(best.usd_storage + best.usd_requests) + " for storage and requests."),
      (answer.why || []).map((t) => h("li", {}, t)), best.cannot ? h("li", {}, "frugal itself cannot train this yet: " + best.cannot + ".") : null, h("li", {}, "Its speed is limited by " + best.bound_by + ".")] : []);
    settle(rows, answer.rows?.length ? [h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "The cheapest ways" }, h("table", { class: "ways" }, h("thead", {}, h("tr", {}, ["Machine", "Market", "Dollars", "Time", "Memory", "How"].map((t, i) => h("th", { scope: "col", class: i > 1 && i < 5 ? "num" : null }, t)))),
      h("tbody", {}, answer.rows.map((r) => h("tr", {}, h("td", {}, (r.machines > 1 ? r.machines + " × " : "") + r.machine), h("td", {}, r.market), h("td", { class: "num" }, dollars(r.usd)), h("td", { class: "num" }, span(3600 * r.hours)), h("td", { class: "num" }, bytes(r.memory_bytes)), h("td", { class: "quiet" }, (r.gpus ? r.gpus + " × " + r.gpu + ", " : "") + r.precision + ", " + r.micro + " × " + r.accumulate + (r.recompute !== "none" ? ", recompute " + r.recompute : "")))))))] : []);
    settle(notes, (answer.notes || []).map((t) => h("li", {}, t)));
  }
  function drawLevers(items) {
    const sum = items.reduce((a, l) => a + l.usd, 0);
    fall.update([...items.map((l) => ({ name: l.name, value: l.usd })), { name: "this run", value: sum }], dollars);
  }
  function drawDeadlines(items) {
    const points = items.map((d) => [d.hours, d.usd]).sort((a, b) => a[0] - b[0]);
    curve.update({ series: [{ name: "cheapest way in time", color: 0, points }, { name: "machines", color: 0, kind: "dots", points }], log: true, xFormat: (v) => figure(v, 3) + " h", yFormat: dollarTick, xLabel: "deadline in hours" });
  }
  function set(key, value) {
    if (value === "" || value === null) delete chosen[key];
    else chosen[key] = value;
    remember({ [key]: value });
    update();
  }
  function control(l) {
    const id = "lever-" + l.key, now = h("output", { for: id, class: "quiet" });
    if (l.few) return h("div", { class: "lever" }, h("span", { class: "name" }, l.label), segments(l.label, id, l.few, chosen[l.key] || "", (v) => set(l.key, v)));
    if (l.list) {
      const all = l.list === "models" ? [...(choices.run_file ? [["run", choices.run_file]] : []), ...choices.models.map((m) => [m.name, m.name + ", " + short(m.parameters)])] : [["", "any"], ...choices[l.list].slice().sort().map((n) => [n, n])];
      return h("div", { class: "lever" }, h("label", { class: "name", for: id }, l.label), h("select", { id, onchange: (e) => { set(l.key, e.target.value); if (l.key === "what") rebuild(); } }, all.map(([v, t]) => h("option", { value: v, selected: v === (chosen[l.key] || "") }, t))));
    }
    const value = chosen[l.key] ? Number(chosen[l.key]) : l.usual, free = value === undefined;
    const input = h("input", { id, type: "range", min: l.linear ? l.low : 0, max: l.linear ? l.high : slider, step: l.linear ? l.step : 1, value: free ? slider / 2 : toPlace(l, value), oninput: (e) => { const v = toValue(l, e.target.value); now.textContent = l.text(v); set(l.key, v === l.usual ? null : String(v)); } });
    now.textContent = free ? l.free || "auto" : l.text(value);
    return h("div", { class: "lever" }, h("label", { class: "name", for: id }, l.label), input, now,
      h("button", { type: "button", class: "reset", "aria-label": "Reset " + l.label, onclick: () => { set(l.key, null); now.textContent = l.usual === undefined ? l.free || "auto" : l.text(l.usual); if (l.usual !== undefined) input.value = toPlace(l, l.usual); } }, "×"));
  }
  const controls = h("div", { class: "levers" });
  const isRun = () => chosen.what === "run";
  function rebuild() { settle(controls, levers.filter((l) => !(l.knownOnly && isRun()) && !(l.runOnly && !isRun())).map(control)); }
  rebuild();
  const yaml = () => {
    const tree = {};
    for (const s of answer.settings || []) { const [path, value] = s.split("="), [section, key] = path.split("."); (tree[section] ??= []).push("  " + key + ": " + value); }
    return Object.entries(tree).map(([s, lines]) => s + ":\n" + lines.join("\n") + "\n").join("");
  };
  settle(main, [h("div", { class: "title" }, h("h1", {}, "Playground"), copyButton("Copy link", () => location.href), copyButton("Copy as run.yaml", yaml), copyButton("Copy command", () => answer.command || ""), h("div", { class: "sub" }, head)),
    h("div", { class: "play" }, h("section", { class: "card", "aria-label": "Levers" }, h("div", { class: "head" }, h("h2", {}, "Levers")), controls),
    h("div", { class: "results" }, h("section", { class: "card", "aria-label": "Cheapest way" }, problem, bill, h("h2", {}, "Why"), why),
      h("section", { class: "card", "aria-label": "Levers' worth" }, h("div", { class: "head" }, h("h2", {}, "What each lever saves")), fall.element),
      h("section", { class: "card", "aria-label": "Deadline" }, h("div", { class: "head" }, h("h2", {}, "Dollars against the deadline")), curve.element),
      h("section", { class: "card", "aria-label": "Ways" }, h("div", { class: "head" }, h("h2", {}, "The cheapest ways")), rows, h("details", {}, h("summary", {}, "Assumed"), notes))))]);
  await update();
  return null;
}
