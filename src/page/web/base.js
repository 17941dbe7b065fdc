// base.js - elements, numbers as people read them, and the state in the address.

// h("td", {class: "num", onclick: f}, "text", child…): text is always text, so no name or message can become HTML.
export function h(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [k, v] of Object.entries(value)) e.style.setProperty(k, v);
    else e.setAttribute(key, value === true ? "" : value);
  }
  put(e, children);
  return e;
}
export function put(e, children) {
  for (const c of children.flat(3)) if (c !== null && c !== undefined && c !== false) e.append(c);
  return e;
}
// The children of e become these, with as few changes as possible: what is equal stays, and an element with the same
// data-key is changed from within, so that nothing flickers and no focus is lost.
export function settle(e, children) {
  const fresh = children.flat(3).filter((c) => c !== null && c !== undefined && c !== false)
    .map((c) => (c instanceof Node ? c : document.createTextNode(c)));
  for (let i = 0; i < fresh.length; i++) {
    const old = e.childNodes[i];
    if (!old) e.append(fresh[i]);
    else if (old !== fresh[i] && !old.isEqualNode(fresh[i])) {
      const key = fresh[i].dataset?.key;
      if (key && old.dataset?.key === key) morph(old, fresh[i]);
      else old.replaceWith(fresh[i]);
    }
  }
  while (e.childNodes.length > fresh.length) e.lastChild.remove();
  return e;
}
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return; }
  if (old.nodeType !== Node.ELEMENT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return; }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes])
    if (old.getAttribute(name) !== value) { if (name === "style") old.style.cssText = fresh.style.cssText; else old.setAttribute(name, value); } // as the policy allows
  const a = [...old.childNodes], b = [...fresh.childNodes];
  b.forEach((c, i) => (a[i] ? morph(a[i], c) : old.append(c)));
  a.slice(b.length).forEach((c) => c.remove());
}
export const known = (v) => v !== null && v !== undefined && !Number.isNaN(v);

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
export function count(v) { return known(v) ? grouped.format(v) : "–"; }
export function figure(v, digits = 4) {
  if (!known(v)) return "–";
  const a = Math.abs(v);
  if (a !== 0 && (a >= 1e7 || a < 1e-4)) return String(Number(v.toPrecision(digits - 1)).toExponential());
  if (a >= 10000) return grouped.format(v);
  return String(Number(v.toPrecision(digits)));
}
export function dollars(v) {
  if (!known(v)) return "–";
  const a = Math.abs(v), sign = v < 0 ? "-" : "";
  if (a < 5e-10) return "$0.00";
  const places = a >= 10 ? 2 : Math.min(3 - Math.floor(Math.log10(a)), 9);
  return sign + "$" + a.toLocaleString("en-US", { minimumFractionDigits: places, maximumFractionDigits: places });
}
export function dollarTick(v) { return "$" + String(Number(v.toPrecision(6))); }
export function span(s) {
  if (!known(s)) return "–";
  if (s > 0 && s < 0.1) return figure(1000 * s, 2) + " ms";
  if (s < 60) return s < 10 ? s.toFixed(1) + " s" : Math.round(s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + String(Math.round(s % 60)).padStart(2, "0") + " s";
  if (s < 172800) return Math.floor(s / 3600) + " h " + String(Math.floor(s / 60) % 60).padStart(2, "0") + " min";
  return (s / 86400).toFixed(1) + " days";
}
export function bytes(v) {
  if (!known(v)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (v >= 1000 && i < 4) { v /= 1000; i++; }
  return figure(v, 3) + " " + units[i];
}
export function percent(v, digits = 3) { return known(v) ? figure(100 * v, digits) + " %" : "–"; }
export function short(v) {
  if (!known(v)) return "–";
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (Math.abs(v) >= size) return figure(v / size, 3) + " " + unit;
  return figure(v, 3);
}
export function modelOf(r) { return [r.model, known(r.parameters) ? short(r.parameters) : ""].filter(Boolean).join(" "); } // "gpt 10.8 M"; empty: not known
export function clockTime(s) { return new Date(s * 1000).toLocaleTimeString("en-GB"); }
export function dayTime(s) {
  const d = new Date(s * 1000), two = (n) => String(n).padStart(2, "0");
  return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + two(d.getHours()) + ":" + two(d.getMinutes());
}
export function metricName(name) { return name === "loss" ? "held-out loss" : name || "metric"; } // a training loss stands beside it
export function metricText(name, v) { return name === "accuracy" || name === "auc" ? percent(v, 4) : figure(v); }

// What a state is called, and how it looks.
const states = {
  runs: ["running", "runs"], end: ["finished", "good"], target: ["target reached", "good"], killed: ["interrupted: killed", "bad"],
  signal: ["interrupted", "warn"], notice: ["interrupted: machine taken", "warn"], diverged: ["diverged", "bad"],
  budget: ["stopped at its cap", "warn"], patience: ["stopped: no more progress", "warn"], forecast: ["stopped: target out of reach", "warn"],
};
export function stateText(s) { return (states[s] || [s || "unknown"])[0]; }
export function pill(s) { return h("span", { class: "pill " + (states[s] || ["", ""])[1] }, stateText(s)); }

// #/run/ID?x=dollars&log=1
export function place() {
  const [path, query] = location.hash.slice(1).split("?");
  return { path: (path || "/").split("/").filter(Boolean).map(decodeURIComponent), state: new URLSearchParams(query || "") };
}
export function address(path, state) {
  const query = state.toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (query ? "?" + query : "");
}
export function remember(changes) {
  const at = place();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "" || value === false) at.state.delete(key);
    else at.state.set(key, value);
  }
  history.replaceState(null, "", address(at.path, at.state));
}

export function say(text) { document.getElementById("say").textContent = text; }
export async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = h("textarea", { class: "hidden" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(what + " copied");
}
export function copyButton(label, text) {
  const button = h("button", { type: "button", onclick: async () => {
    await copy(typeof text === "function" ? text() : text, label);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}
export function download(name, type, text) {
  const a = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
export function segments(label, name, choices, chosen, onchange) {
  return h("div", { class: "seg", role: "radiogroup", "aria-label": label }, choices.map(([value, text]) =>
    h("label", {}, h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => onchange(value) }), text)));
}
