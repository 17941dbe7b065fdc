// data.js - what the server knows: runs, curves, and one stream of news for all that is shown.
import { known } from "./base.js";

const embedded = document.getElementById("embedded"); // `frugal report --html`: everything is in the file
export const offline = embedded ? JSON.parse(embedded.textContent) : null;

export async function ask(path) {
  if (offline?.planner) return (await globalThis.planner)(path); // scripts/playground: the planner is in the file
  if (offline) {
    if (path in offline) return offline[path];
    throw new Error("not in this file");
  }
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
  return answer.json();
}

// The one thing that can be changed from here; the cookie of the printed address has the token.
export async function askToStop(id) {
  const answer = await fetch("/api/stop?run=" + encodeURIComponent(id), { method: "POST", cache: "no-store" });
  if (!answer.ok) throw new Error((await answer.text()).trim() || answer.statusText);
}

export const runs = new Map(); // id -> row of the list
let generation = -1;
export async function loadRuns() {
  const all = await ask("/api/runs");
  runs.clear();
  for (const r of all.runs) runs.set(r.id, r);
  generation = all.generation;
}

// A run's curve: points as {eval, start, step, seconds, dollars, …}, and its other events.
export class Curve {
  constructor(id) { this.id = id; this.points = []; this.lines = []; this.columns = []; this.next = null; this.tokens = false; }
  async load(x) {
    const all = await ask("/api/curve?run=" + encodeURIComponent(this.id) + (offline ? "" : "&x=" + x + "&points=" + Math.min(Math.max(Math.round(innerWidth), 400), 3000)));
    this.columns = all.columns;
    this.points = all.points.map((p) => this.point(p));
    this.lines = all.lines;
    this.next = all.next;
    this.tokens = all.sample_tokens > 0;
    this.all = all.points_all;
    return this;
  }
  point(values) {
    const p = {};
    this.columns.forEach((name, i) => { p[name] = values[i]; });
    return p;
  }
  add(more) {
    for (const p of more.points) this.points.push(this.point(p));
    this.lines.push(...more.lines);
    const [number, points, lines] = this.next.split(".").map(Number);
    this.next = [number, points + more.points.length, lines + more.lines.length].join(".");
  }
  find(event) { return this.lines.filter((l) => l.event === event); }
  last(event) { return this.lines.findLast((l) => l.event === event); }
}

// One EventSource for the list and the curves that are shown; a new view replaces it.
let source = null, wanted = null, retry = 0;
export function follow(curves, { onRow, onMore, onState }) {
  stop();
  if (offline) return;
  wanted = { curves, onRow, onMore, onState };
  connect();
}
export function stop() {
  source?.close();
  source = null;
  wanted = null;
  clearTimeout(retry);
}
function connect() {
  const w = wanted, parts = w.curves.filter((c) => c.next).map((c) => c.id + ":" + c.next);
  source = new EventSource("/api/live?list=" + generation + (parts.length ? "&follow=" + encodeURIComponent(parts.join(",")) : ""));
  source.addEventListener("open", () => w.onState?.(true));
  source.addEventListener("error", () => { // ours to repeat: the browser's own retry would ask for the old place
    w.onState?.(false);
    source?.close();
    retry = setTimeout(async () => {
      if (wanted !== w) return;
      try { await loadRuns(); for (const c of w.curves) await c.load(c.x || "step"); w.onMore?.(); w.onRow?.(); } catch { /* not back yet */ }
      if (wanted === w) connect();
    }, 1500);
  });
  source.addEventListener("row", (e) => {
    const row = JSON.parse(e.data);
    runs.set(row.id, row);
    w.onRow?.(row);
  });
  source.addEventListener("more", (e) => {
    const more = JSON.parse(e.data), curve = w.curves.find((c) => c.id === more.run);
    if (curve) { curve.add(more); w.onMore?.(curve, more); }
  });
  source.addEventListener("again", async (e) => {
    const curve = w.curves.find((c) => c.id === JSON.parse(e.data).run);
    if (curve) { await curve.load(curve.x || "step"); w.onMore?.(curve); }
  });
}

// The axis of a chart.
export const axes = [["dollars", "Dollars"], ["seconds", "Time"], ["step", "Steps"], ["work", "Tokens"]];
export function hasDollars(curves) { return curves.some((c) => c.points.some((p) => known(p.dollars))); }
