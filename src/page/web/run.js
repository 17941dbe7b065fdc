// run.js - one run: its curve, its speed, its bill, its machines, messages and settings.
import { h, settle, put, pill, count, figure, dollars, dollarTick, span, percent, short, bytes, metricText, metricName, clockTime, dayTime, known, place, remember, copyButton, segments, download } from "./base.js";
import { learnedCard, textCard } from "./learned.js";
import { lineChart, waterfall, smooth, svgText, csvText } from "./chart.js";
import { ask, askToStop, runs, loadRuns, Curve, axes, offline } from "./data.js";

export const axisFormat = { dollars: dollarTick, seconds: span, step: short, work: short };
export function axisLabel(x, tokens) { return { dollars: "dollars", seconds: "time on the bill", step: "steps", work: tokens ? "tokens" : "samples" }[x]; }

// The points of a curve as [x, y], with a break where a start of the run ends.
export function pointsOf(curve, x, y, evals) {
  const out = [];
  let start = -1;
  for (const p of curve.points) {
    if (evals !== undefined && Boolean(p.eval) !== evals) continue;
    if (!known(p[x])) continue;
    if (start >= 0 && p.start !== start && !evals) out.push([p[x], null]);
    start = p.start;
    if (known(p[y])) out.push([p[x], p[y]]);
  }
  return out;
}
// Where on the axis something happened: the last point before its time.
export function placeOf(curve, x, line) {
  const s = line.wall_ns / 1e9;
  let best = null;
  for (const p of curve.points) if (p.wall_s <= s + 1e-6 && known(p[x])) best = p[x];
  return best;
}
export function marksOf(curve, x) {
  const out = [];
  for (const l of curve.lines) {
    const at = placeOf(curve, x, l);
    if (at === null) continue;
    if (l.event === "interruption") out.push({ x: at, text: "interrupted (" + l.kind + ") at step " + count(l.step) });
    else if (l.event === "rollback") out.push({ x: at, text: "rolled back to step " + count(l.to_step) });
    else if (l.event === "checkpoint" && l.what === "resumed") out.push({ x: at, text: "resumed at step " + count(l.step) });
  }
  return out;
}
// From the newest evaluation to the end of the run: the forecast, with the spread of the last evaluations around it.
function forecastOf(curve, x, steps) {
  const evals = curve.points.filter((p) => p.eval && known(p.value) && known(p[x])), last = evals.at(-1);
  if (!last || !known(last.forecast) || !steps || last.step >= steps || last.step <= 0) return null;
  const first = evals[0], rate = (last[x] - first[x]) / Math.max(last.step - first.step, 1), end = last[x] + rate * (steps - last.step);
  const errors = evals.filter((p) => known(p.forecast)).map((p) => Math.abs(p.forecast - last.forecast)), spread = errors.length > 1 ? Math.max(...errors.slice(-5)) : Math.abs(last.forecast - last.value) * 0.5;
  return { line: [[last[x], last.value], [end, last.forecast]], band: [[last[x], last.value, last.value], [end, last.forecast - spread, last.forecast + spread]], end };
}

function messageOf(l) {
  const at = { note: () => [l.text], finding: () => [l.rule + ": " + l.text, "warn"], verdict: () => [l.text], problem: () => [l.sentence, "warn"],
    open: () => ["run " + l.run + " opened"],
    start: () => ["started on " + l.device + ": " + short(l.parameters) + " parameters, batch " + (l.ranks > 1 ? count(l.step_samples) + " over " + l.ranks + " ranks" : count(l.batch) + (l.accumulate > 1 ? " × " + l.accumulate : "")) + ", " + l.precision + (l.from_step ? ", from step " + count(l.from_step) : "")],
    rollback: () => ["rolled back from step " + count(l.step) + " to " + count(l.to_step) + ": " + l.why, "warn"],
    checkpoint: () => ["checkpoint " + l.what + (l.step ? ", step " + count(l.step) : "") + (known(l.bytes) ? ", " + bytes(l.bytes) : "") + (l.text ? ": " + l.text : ""), ["failed", "damaged", "behind", "not uploaded"].includes(l.what) ? "bad" : ""],
    interruption: () => ["interrupted by " + (l.kind === "notice" ? "a notice: the machine is taken away" : "a " + l.kind) + " at step " + count(l.step) + (l.saved_step ? "; saved at step " + count(l.saved_step) : ""), "bad"],
    done: () => ["ended after " + count(l.steps) + " steps: " + (l.why || l.stopped)] }[l.event];
  return at ? at() : null;
}

function yamlOf(settings) {
  const tree = {};
  for (const line of settings.split("\n")) {
    const at = line.indexOf("=");
    if (at < 0) continue;
    const [section, key] = line.slice(0, at).split(".");
    (tree[section] ??= []).push("  " + key + ": " + line.slice(at + 1));
  }
  return Object.entries(tree).map(([section, lines]) => section + ":\n" + lines.join("\n") + "\n").join("");
}
const shellWord = (w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'");
function commandOf(r) {
  return "frugal " + (r.kind === "supervised" ? "run" : r.kind || "train") + " " + shellWord((r.name || "run") + ".yaml") + " " + r.settings.split("\n").filter(Boolean).map(shellWord).join(" ");
}

function stat(name, value, more) { return h("div", { class: "stat" }, h("dt", {}, name), h("dd", {}, value, more ? h("small", {}, more) : null)); }
function statsOf(r, curve) {
  const step = curve.points.findLast((p) => !p.eval), unit = curve.tokens ? "tokens/s" : "samples/s", upTo = (a, b, f) => (known(b) && f(a) !== f(b) ? "up to " + f(b) : null);
  return [
    stat("Steps", count(Math.max(r.steps, step?.step || 0)), r.steps_planned ? "of " + count(r.steps_planned) : null),
    stat("Loss", figure(r.state === "runs" ? step?.loss ?? r.loss : r.loss), r.state === "runs" && step ? "newest batch" : "held-out"),
    known(r.value) ? stat(metricName(r.metric), metricText(r.metric, r.value), known(r.target) ? (r.reached ? "target reached" : "target " + metricText(r.metric, r.target)) : null) : null,
    stat("So far", dollars(r.dollars), known(r.usd_hour) ? dollars(r.usd_hour) + " an hour" : "price not known"),
    r.state === "runs" ? stat("At the end", dollars(r.end_usd), upTo(r.end_usd, r.end_high_usd, dollars)) : known(r.predicted_usd) ? stat("Predicted", dollars(r.predicted_usd), span(r.predicted_s)) : null,
    r.state === "runs" ? stat("Time left", span(r.left_s), upTo(r.left_s, r.left_high_s, span)) : stat("Time", span(r.seconds), r.starts > 1 ? r.starts + " starts" : null),
    step ? stat("Throughput", short(step.rate), unit) : null,
  ].filter(Boolean);
}

// ---- the curve ----
function curveCard(view) {
  const chart = lineChart("Loss of the run", 320), state = place().state;
  view.x = state.get("x") || (view.curve.points.some((p) => p.dollars > 0) ? "dollars" : "step");
  view.y = state.get("y") || "loss";
  view.log = state.get("log") === "1";
  view.smooth = Number(state.get("smooth") || 0.6);
  const draw = () => {
    const { curve, x, y } = view, raw = pointsOf(curve, x, y, false), held = pointsOf(curve, x, y, true), forecast = y === "value" ? forecastOf(curve, x, view.run.steps_planned) : null;
    const series = [];
    if (view.smooth > 0) series.push({ name: "training, each step", color: 0, kind: "faint", points: raw });
    series.push({ name: "training", color: 0, points: smooth(raw, view.smooth) }, { name: "held-out", color: 1, points: held });
    view.others.forEach((c, i) => series.push({ name: (runs.get(c.id)?.name || c.id) + ", " + (c.points.some((p) => p.eval) ? "held-out" : "training"), color: 2 + (i % 6), points: c.points.some((p) => p.eval && known(p[y])) ? pointsOf(c, x, y, true) : smooth(pointsOf(c, x, y, false), view.smooth) }));
    if (forecast) series.push({ name: "forecast", color: 1, kind: "dash", points: forecast.line });
    chart.update({ series, bands: forecast ? [{ color: 1, points: forecast.band }] : [], marks: marksOf(curve, x), target: y === "value" || view.run.metric === "loss" ? view.run.target : null,
      log: view.log, clip: true, xFormat: axisFormat[x], xLabel: axisLabel(x, curve.tokens), yFormat: y === "value" ? (v) => metricText(view.run.metric, v) : figure,
      legend: [known(view.run.target) && (y === "value" || view.run.metric === "loss") ? h("li", {}, "target " + metricText(view.run.metric, view.run.target)) : null, marksOf(curve, x).length ? h("li", {}, "dotted: interruptions and resumes") : null].filter(Boolean) });
  };
  const change = (key) => async (value) => {
    view[key] = value;
    remember({ [key]: value });
    if (key === "x") for (const c of [view.curve, ...view.others]) { c.x = value; if (!offline && c.all > c.points.length) await c.load(value); }
    draw();
  };
  const choices = axes.map(([k, t]) => [k, k === "work" && !view.curve.tokens ? "Samples" : t]);
  const others = [...runs.values()].filter((r) => r.id !== view.run.id).reverse().slice(0, 100);
  const overlay = h("select", { "aria-label": "Lay another run over it", onchange: async (e) => {
    if (!e.target.value) return;
    const c = new Curve(e.target.value);
    await c.load(view.x);
    view.others.push(c);
    view.curves.push(c);
    remember({ with: view.others.map((o) => o.id).join(",") });
    view.refollow();
    draw();
  } }, h("option", { value: "" }, "Lay over…"), others.map((r) => h("option", { value: r.id }, (r.name || "run") + " " + r.id.slice(0, 6))));
  const card = h("section", { class: "card wide", "aria-label": "Curve" }, h("div", { class: "head" }, h("h2", {}, "Curve"),
    segments("Horizontal axis", "axis", choices, view.x, change("x")),
    known(view.run.value) && view.run.metric !== "loss" ? segments("Vertical axis", "quantity", [["loss", "Loss"], ["value", view.run.metric]], view.y, change("y")) : null,
    h("label", { class: "field" }, h("input", { type: "checkbox", checked: view.log, onchange: (e) => { view.log = e.target.checked; remember({ log: view.log ? "1" : null }); draw(); } }), "log"),
    h("label", { class: "field" }, "smooth", h("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: view.smooth, oninput: (e) => { view.smooth = Number(e.target.value); remember({ smooth: view.smooth }); draw(); } })),
    others.length ? overlay : null, h("span", { class: "grow" }),
    h("button", { type: "button", onclick: () => download((view.run.name || "run") + ".svg", "image/svg+xml", svgText(chart.picture)) }, "SVG"),
    h("button", { type: "button", onclick: () => download((view.run.name || "run") + ".csv", "text/csv", csvText(chart)) }, "CSV")), chart.element);
  return { element: card, draw };
}

// ---- speed ----
function speedCard(view) {
  const parts = [["rate", "Throughput", short], ["mfu", "MFU", percent], ["busy", "Utilisation", percent], ["wait", "Waiting for data", percent], ["p95_s", "Step time, 95th percentile", (v) => figure(1000 * v, 3) + " ms"], ["lr", "Learning rate", figure]];
  const made = parts.map(([key, name, format]) => ({ key, name, format, chart: lineChart(name, 150), now: h("b") }));
  const words = h("div"), memory = h("p", { class: "quiet" });
  const draw = () => {
    for (const m of made) {
      const points = pointsOf(view.curve, view.x || "step", m.key, false);
      const last = points.findLast((p) => known(p[1]));
      m.element.hidden = !last;
      m.now.textContent = last ? m.format(last[1]) : "";
      m.chart.update({ series: [{ name: m.name, color: 5, points }], yFormat: m.format, xFormat: axisFormat[view.x || "step"] });
    }
    const verdict = view.curve.last("verdict"), problems = verdict?.problems ? view.curve.find("problem").slice(-verdict.problems) : [], start = view.curve.last("start"), done = view.curve.last("done");
    settle(words, [verdict ? h("p", { class: "verdict" }, (verdict.so_far ? "So far: " : "") + verdict.text + (verdict.usage_text ? ". " + verdict.usage_text : "")) : h("p", { class: "quiet" }, view.run.state === "runs" ? "The verdict comes after ten seconds of steps: what limits the run, and what would make it cheaper." : "It ended without a verdict on what limits it: it was too short, or was killed."),
      problems.length ? h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Problems" }, h("table", { class: "problems" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Problem"), h("th", { scope: "col" }, "Fix"), h("th", { scope: "col", class: "num" }, "Saves"))),
        h("tbody", {}, problems.map((p) => h("tr", {}, h("td", {}, p.text), h("td", {}, h("code", {}, p.fix)), h("td", { class: "num" }, known(p.dollars_run) ? dollars(p.dollars_run) + " a run" : percent(p.gain))))))) : null]);
    const s = view.detail?.segments?.at(-1);
    settle(memory, start ? ["Memory planned " + bytes(start.arena_bytes_planned) + (done ? ", used " + bytes(done.arena_bytes_used) : "") + (known(done?.device_bytes) ? ", on the GPU " + bytes(done.device_bytes) : "") + (s?.peak_rss_bytes ? "; the process at most " + bytes(s.peak_rss_bytes) : "")] : []);
  };
  for (const m of made) m.element = h("div", {}, h("h3", {}, m.name, m.now), m.chart.element);
  return { element: h("section", { class: "card wide", "aria-label": "Speed" }, h("div", { class: "head" }, h("h2", {}, "Speed and what limits it")), words, h("div", { class: "multi" }, made.map((m) => m.element)), memory), draw };
}

// ---- money ----
const partColors = { compute: 0, evaluation: 5, redone: 1, loading: 3, checkpoint: 4, starting: 2, booting: 7, idle: 6, storage: 4, requests: 6 };
// The parts as they grew, one upon the other: of each evaluation its start's parts, and those of the starts before it.
function growthOf(curve, usdHour) {
  const names = ["compute", "evaluation", "loading", "checkpoint", "redone", "starting", "booting", "idle"], before = Object.fromEntries(names.map((n) => [n, 0])), rows = [];
  let last = null;
  for (const p of curve.points) {
    if (!p.eval || !known(p.compute) || !known(p.seconds)) continue;
    if (last && p.start !== last.start) for (const n of names) before[n] += last[n] || 0;
    last = p;
    rows.push([p.seconds, names.map((n) => (before[n] + (p[n] || 0)) * (known(usdHour) ? usdHour / 3600 : 1))]);
  }
  const shown = names.map((name, i) => ({ name, i })).filter(({ i }) => rows.some((r) => r[1][i] > 0));
  return shown.map(({ name, i }, k) => ({ name, color: partColors[name], points: rows.map(([x, v]) => {
    const low = shown.slice(0, k).reduce((a, s) => a + v[s.i], 0);
    return [x, low, low + v[i]];
  }) }));
}
function moneyCard(view) {
  const body = h("div"), growth = lineChart("The bill's parts as they grew", 190);
  const draw = () => {
    const d = view.detail, parts = d.parts.filter((p) => p.seconds > 0 || p.dollars > 0), sum = parts.reduce((a, p) => a + (known(d.dollars) ? p.dollars : p.seconds || 0), 0) || 1;
    const part = (p) => (known(d.dollars) ? p.dollars : p.seconds || 0) / sum;
    settle(body, [h("div", { class: "stack", "aria-hidden": "true" }, parts.map((p) => h("i", { class: "c" + (partColors[p.name] ?? 6), style: { width: (100 * part(p)).toFixed(3) + "%" } }))),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Parts of the bill" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Part"), h("th", { scope: "col", class: "num" }, "Dollars"), h("th", { scope: "col", class: "num" }, "Time"), h("th", { scope: "col", class: "num" }, "Share"))),
        h("tbody", {}, parts.map((p) => h("tr", {}, h("td", {}, h("span", { class: "swatch c" + (partColors[p.name] ?? 6) }), p.name), h("td", { class: "num" }, dollars(p.dollars)), h("td", { class: "num" }, span(p.seconds)), h("td", { class: "num" }, percent(part(p))))),
          h("tr", {}, h("td", {}, h("b", {}, "Bill")), h("td", { class: "num" }, h("b", {}, dollars(d.dollars))), h("td", { class: "num" }, span(d.seconds)), h("td", {}))))),
      h("p", { class: "quiet" }, [known(d.useful_percent) ? figure(d.useful_percent, 3) + " % of it made the model better" : null, known(d.usd_million) ? dollars(d.usd_million) + " per million " + d.unit : null, known(d.target_usd) ? dollars(d.target_usd) + " until the target" : null, d.stored_since_usd > 0 ? dollars(d.stored_since_usd) + " of storage since" : null, known(d.predicted_usd) ? "predicted " + dollars(d.predicted_usd) : null].filter(Boolean).join(" · "))]);
  };
  const drawAll = () => {
    const bands = growthOf(view.curve, view.detail.usd_hour);
    growth.element.hidden = !(bands[0]?.points.length > 1);
    growth.update({ series: bands.map((b) => ({ name: b.name, color: b.color, points: b.points.map((p) => [p[0], p[2]]) })), bands, xFormat: span, yFormat: known(view.detail.usd_hour) ? dollarTick : span, xLabel: "time on the bill" });
    draw();
  };
  return { element: h("section", { class: "card", "aria-label": "Bill" }, h("div", { class: "head" }, h("h2", {}, "Where the money went")), body, growth.element), draw: drawAll };
}

// ---- the levers that are on: planned by the playground from the run's settings, once for each state of the run ----
function leversCard(view) {
  const words = h("p", { class: "quiet" }), fall = waterfall("What each lever of this run is worth against a plain run", 200);
  const element = h("section", { class: "card", "aria-label": "Levers" }, h("div", { class: "head" }, h("h2", {}, "Levers and what each is worth")), words, fall.element);
  let asked = null;
  const draw = async () => {
    if (offline || asked === view.run.state) return;
    asked = view.run.state;
    let a;
    try { a = await ask("/api/levers?run=" + encodeURIComponent(view.run.id)); } catch (e) { a = { error: e.message }; }
    const on = (a.levers || []).filter((l, i) => i === 0 || l.usd !== 0), sum = on.reduce((s, l) => s + l.usd, 0), best = a.rows?.[0];
    fall.element.hidden = on.length < 2;
    if (on.length > 1) fall.update([...on.map((l) => ({ name: l.name, value: l.usd })), { name: "with these settings", value: sum }], dollars);
    words.textContent = a.error ? "There is no plan of this run: " + a.error + "." : "By the plan of these settings on " + (/^run.machine=/m.test(view.detail.settings) ? "" : "the cheapest machine of the catalogue, ") + best.machine + (best.gpus ? ", " + best.gpus + (best.gpus === 1 ? " GPU" : " GPUs") : "") + (on.length > 1 ? "; a plain run is on demand, in fp32, and recomputes nothing." : ": no lever is on that changes the bill.");
  };
  element.hidden = Boolean(offline);
  return { element, draw };
}

// ---- machines ----
function interruptedText(notices, starts) {
  const killed = starts.filter((s) => s.ended === "killed").length;
  return [notices.length ? notices.length + (notices.length === 1 ? " interruption; the last at step " : " interruptions; the last at step ") + count(notices.at(-1).step) + "." : null,
    killed ? (killed === 1 ? "One start was" : killed + " starts were") + " killed without notice." : null, notices.length || killed ? null : "No interruption so far."].filter(Boolean).join(" ");
}
function machineCard(view) {
  const body = h("div");
  const draw = () => {
    const checkpoints = view.curve.find("checkpoint"), newest = (what) => checkpoints.findLast((c) => c.what === what), saved = newest("saved"), uploaded = newest("uploaded"), interval = newest("interval"), notices = view.curve.find("interruption"), step = view.curve.points.findLast((p) => !p.eval);
    settle(body, [h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Starts of the run" }, h("table", {}, h("thead", {}, h("tr", {}, ["Start", "Machine", "Steps", "Time", "Ended"].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, view.detail.segments.slice(-12).reverse().map((s) => h("tr", {}, h("td", {}, dayTime(s.begin_s)), h("td", {}, s.machine, h("div", { class: "quiet" }, (s.gpus ? s.gpus + " × " : "") + s.device)), h("td", {}, count(s.step_from) + " – " + count(s.step)), h("td", {}, span(s.seconds)), h("td", {}, s.ended || (view.run.state === "runs" ? "running" : "no end was recorded"))))))),
      h("p", {}, interval ? "Checkpoints " + interval.text : saved ? "" : "No checkpoints are kept."),
      saved ? h("p", {}, "Newest checkpoint: step " + count(saved.step) + ", " + bytes(saved.bytes) + "; training paused " + figure(1000 * saved.blocked_s, 3) + " ms, on disk after " + span(saved.persist_s) + ".") : null,
      uploaded ? h("p", {}, "Newest in the object store: step " + count(uploaded.step) + (saved && saved.step > uploaded.step ? "; step " + count(saved.step) + " is being uploaded" : "") + (known(step?.remote_age_s) ? ", " + span(step.remote_age_s) + " old" : "") + ".") : null,
      h("p", { class: "quiet" }, interruptedText(notices, view.detail.segments))]);
  };
  return { element: h("section", { class: "card", "aria-label": "Machines" }, h("div", { class: "head" }, h("h2", {}, "Machines and checkpoints")), body), draw };
}

function messagesCard(view) {
  const list = h("ol", { class: "lines", tabindex: 0, "aria-label": "Messages, newest first" });
  const draw = () => {
    const items = [];
    let again = 0, before = null;
    for (const l of view.curve.lines.slice(-600).reverse()) { // of checkpoints in a row, the newest
      const m = messageOf(l), kind = l.event === "checkpoint" && !m[1] && !l.text ? l.what : null;
      if (!m) continue;
      again = kind && kind === before ? again + 1 : 0;
      before = kind;
      if (again) items.at(-1).lastChild.lastChild.textContent = " and " + again + " before it";
      else items.push(h("li", {}, h("time", {}, clockTime(l.wall_ns / 1e9)), h("span", { class: m[1] || null }, m[0], h("span", { class: "quiet" }))));
    }
    settle(list, items.slice(0, 400));
  };
  return { element: h("section", { class: "card", "aria-label": "Messages" }, h("div", { class: "head" }, h("h2", {}, "Messages")), list), draw };
}

function settingsCard(view) {
  const linesOf = (text) => (text || "").split("\n").filter(Boolean), origins = linesOf(view.detail.origins), from = origins.length > 0; // older runs have none
  const rows = linesOf(view.detail.settings).map((line, i) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1), origins[i]]);
  return { element: h("section", { class: "card", "aria-label": "Settings" }, h("div", { class: "head" }, h("h2", {}, "Settings"), h("span", { class: "quiet" }, "those that are not the default"), h("span", { class: "grow" }), copyButton("Copy as run.yaml", () => yamlOf(view.detail.settings))),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Settings of the run" }, h("table", { class: "settings" }, h("thead", {}, h("tr", {}, ["Setting", "Value", from ? "Set by" : null].filter(Boolean).map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, rows.map(([k, v, by]) => h("tr", {}, h("td", {}, h("code", {}, k)), h("td", {}, h("code", {}, v)), from ? h("td", { class: "quiet" }, by || "–") : null)))))), draw() {} };
}

// "Stop after this step": asked twice, since an hour of a machine may hang on it.
function stopControl(view) {
  const box = h("span", { class: "stop", "data-key": "stop" }), text = h("span", { class: "quiet", role: "status" });
  const button = (label, kind, act) => h("button", { type: "button", class: kind, onclick: act }, label);
  const ask1 = button("Stop after this step", null, () => { settle(box, [text, yes, no]); text.textContent = "It saves a checkpoint, if it keeps any, and ends. "; yes.focus(); });
  const no = button("Keep running", null, () => { settle(box, [ask1, text]); text.textContent = ""; ask1.focus(); });
  const yes = button("Stop it", "danger", async () => {
    settle(box, [text]);
    try { await askToStop(view.run.id); text.textContent = "asked to stop…"; } catch (e) { settle(box, [ask1, text]); text.textContent = e.message; }
  });
  const why = { token: "To stop runs, open the address that frugal watch printed.", remote: "It runs on another machine: stop it there." };
  settle(box, [ask1, text]);
  return () => {
    if (view.run.state !== "runs" || offline) { settle(box, [ask1, text]); text.textContent = ""; return null; }
    ask1.disabled = view.detail.stop !== "yes";
    ask1.title = why[view.detail.stop] || "";
    return box;
  };
}

export async function showRun(main, [id]) {
  if (!runs.size) await loadRuns();
  const view = { curve: new Curve(id), others: [], detail: await ask("/api/run?run=" + encodeURIComponent(id)) };
  view.run = { ...view.detail };
  await view.curve.load(place().state.get("x") || "step");
  for (const other of (place().state.get("with") || "").split(",").filter(Boolean).slice(0, 6)) view.others.push(await new Curve(other).load("step"));
  const title = h("div", { class: "title" }), stats = h("dl", { class: "stats card" });
  const stopper = stopControl(view);
  view.curves = [view.curve, ...view.others];
  view.refollow = () => dispatchEvent(new Event("refollow"));
  const cards = [curveCard, learnedCard, textCard, speedCard, moneyCard, leversCard, machineCard, messagesCard, settingsCard].map((make) => make(view));
  const drawHead = () => {
    const r = view.run, start = view.curve.last("start");
    settle(title, [h("h1", {}, r.name || r.id), pill(r.state), copyButton(r.state === "runs" || r.state === "end" || r.state === "target" ? "Copy command to repeat it" : "Copy command to resume it", () => commandOf(view.detail)), stopper(),
      h("div", { class: "sub" }, [r.id, r.kind, r.model, start ? short(start.parameters) + " parameters" : null, r.device, r.machine, start?.precision, r.tags].filter(Boolean).join(" · "))]);
    settle(stats, statsOf(r, view.curve));
  };
  settle(main, [title, stats, h("div", { class: "grid" }, cards.map((c) => c.element))]);
  drawHead();
  cards.forEach((c) => c.draw());
  let queued = false;
  const redraw = () => {
    if (queued) return;
    queued = true;
    setTimeout(() => { queued = false; drawHead(); cards.forEach((c) => c.draw()); }, 200);
  };
  return { curves: view.curves, onRow: async (row) => {
    if (row && row.id !== id) return;
    view.detail = await ask("/api/run?run=" + encodeURIComponent(id));
    view.run = { ...view.detail };
    redraw();
  }, onMore: redraw };
}
