// app.js - which view is shown, by the address.
import { h, settle, place } from "./base.js";
import { follow, stop, offline } from "./data.js";
import { showRuns } from "./runs.js";
import { showRun } from "./run.js";
import { showCompare } from "./compare.js";
import { showPlay } from "./play.js";

const main = document.getElementById("main"), link = document.getElementById("link"), nav = document.getElementById("nav");
let shown = 0, current = null;

function subscribe() {
  if (current) follow(current.curves, { ...current, onState: (up) => { link.textContent = up ? "live" : "connecting…"; } });
}
addEventListener("refollow", subscribe); // another curve was laid over the first

const views = { "": ["Runs", showRuns], run: ["", showRun], compare: ["Compare", showCompare], play: ["Playground", showPlay] };

async function show() {
  const turn = ++shown, { path } = place(), view = views[path[0] || ""] || views[""];
  settle(nav, Object.entries(views).filter(([, v]) => v[0] && !offline).map(([key, v]) => h("a", { href: "#/" + key, "aria-current": key === (path[0] || "") ? "page" : null }, v[0])));
  stop();
  current = null;
  try {
    const made = await view[1](main, path.slice(1));
    if (turn !== shown) return;
    document.title = (main.querySelector("h1")?.textContent || "runs") + " · frugal";
    current = made;
    if (made) subscribe();
    else link.textContent = "";
  } catch (e) {
    if (turn === shown) settle(main, [h("section", { class: "card" }, h("h1", {}, "This cannot be shown"), h("p", {}, e.message), h("p", {}, h("a", { href: "#/" }, "All runs")))]);
  }
}
if (offline && !location.hash) history.replaceState(null, "", offline.start);
let before = location.hash.split("?")[0];
addEventListener("hashchange", () => {
  const now = location.hash.split("?")[0];
  if (now === "#main") return;
  if (now !== before) { before = now; scrollTo(0, 0); }
  show();
});
show();
