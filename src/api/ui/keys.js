// Keys: to the search, through rows, to sections, and the list of them. They do nothing while one types, and can be switched off.

import {choose, chosen, h} from "./element.js";
import {modal} from "./parts.js";

/** What each key does; those of sections follow g. */
const KEYS = [["/", "to the search"], ["j, k", "to the next and the previous row"], ["Enter", "opens the row"], ["x", "selects the row"],
              ["n", "a new timer"], ["?", "shows this list"]];
const SECTIONS = {o: "overview", u: "upcoming", t: "timers", s: "schedules", k: "calendars", q: "queues", f: "flows", a: "targets", m: "named", d: "deliveries", l: "dead", n: "tenants", c: "cluster"};
const G_MS = 2000; // for the letter behind g

const isTyped = (target) => target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]");
const rows = () => [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a[href], button, input"));

/** Goes `step` rows on from that with the focus; into the first one without it. */
function goOn(step) {
  const all = rows(), at = all.indexOf(document.activeElement.closest?.("tr"));
  const next = all[at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1)];
  next?.querySelector("a[href], button, input:not([type=checkbox])")?.focus();
  next?.scrollIntoView({block: "nearest"});
}

function search() {
  const input = document.querySelector("main form[role=search] input");
  if (!input) {
    location.hash = "#/timers?search";
    return;
  }
  if (!input.checkVisibility()) document.querySelector("main button.filters")?.click();
  input.focus();
  input.select();
}

/** Shows the keys, and the switch that turns them off for those who speak to their computer. */
export function showKeys() {
  const close = () => dialog.close();
  const sections = Object.entries(SECTIONS).map(([key, path]) => [`g ${key}`, document.querySelector(`#nav a[href="#/${path}"]`)?.textContent ?? path]);
  const dialog = h("dialog", {"aria-label": "Keys", class: "keys"}, h("h2", {}, "Keys"),
    h("dl", {}, [...KEYS, ...sections].flatMap(([key, what]) => [h("dt", {}, key.split(/(, | )/).map((one) => (/^(, | )$/.test(one) ? one : h("kbd", {}, one)))),
                                                                h("dd", {}, what)])),
    h("label", {class: "check"}, h("input", {type: "checkbox", checked: chosen("keys", true), onchange: ({target}) => choose("keys", target.checked)}),
      "Keys without Ctrl or Alt do this"),
    h("div", {class: "buttons"}, h("button", {type: "button", onclick: close}, "Close")));
  modal(dialog);
}

let gAt = -Infinity;

function take(event) {
  const {key} = event;
  if (performance.now() - gAt < G_MS) {
    gAt = -Infinity;
    if (!SECTIONS[key]) return;
    location.hash = `#/${SECTIONS[key]}`;
  } else if (key === "g") gAt = performance.now();
  else if (key === "/") search();
  else if (key === "j") goOn(1);
  else if (key === "k") goOn(-1);
  else if (key === "x") document.activeElement.closest?.("tr")?.querySelector("input[type=checkbox]")?.click();
  else if (key === "n") location.hash = "#/new";
  else if (key === "?") showKeys();
  else return;
  event.preventDefault();
}

/** Listens for the keys. */
export function listenForKeys() {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || !chosen("keys", true)) return;
    if (!isTyped(event.target) && !document.querySelector("dialog[open]")) take(event);
  });
}
