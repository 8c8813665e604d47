// The frame: which page is shown, the token, and the health in the header.

import {ProblemError, onTokenNeeded, setToken, urlOf} from "./api.js";
import {age, form, field, h, message} from "./parts.js";
import {coming} from "./coming.js";
import {create} from "./create.js";
import {dead} from "./dead.js";
import {deliveries} from "./deliveries.js";
import {queue, queues, targets, tenants} from "./load.js";
import {now} from "./now.js";
import {schedules} from "./schedules.js";
import {timer, timers} from "./timers.js";

const pages = [
  {path: "now", name: "Now", show: now},
  {path: "coming", name: "Coming", show: coming},
  {path: "timers", name: "Timers", show: timers, showOne: timer},
  {path: "schedules", name: "Schedules", show: schedules},
  {path: "deliveries", name: "Deliveries", show: deliveries},
  {path: "new", name: "New", show: create},
  {path: "queues", name: "Queues", show: queues, showOne: queue},
  {path: "targets", name: "Targets", show: targets},
  {path: "dead", name: "Dead letters", show: dead},
  {path: "tenants", name: "Tenants", show: tenants},
];
const main = document.getElementById("main");
const nav = document.getElementById("nav");
const health = document.getElementById("health");
const AGAIN_MS_MIN = 1000; // before a page that could not be read is tried again; doubled each time, up to AGAIN_MS_MAX
const AGAIN_MS_MAX = 15000;
let leave = new AbortController(); // aborts what the shown page does in the background

/** What is behind #: a page, a name within it, and parameters, as in #/timers/ID?label=team:checkout. */
function place() {
  const [path, query] = location.hash.slice(2).split("?");
  const [page, ...rest] = path.split("/");
  return {page: page || "now", rest: rest.map(decodeURIComponent), parameters: new URLSearchParams(query)};
}

/** The daemon did not answer, or is not ready: it may, later. */
const isPassing = (error) => !(error instanceof ProblemError) || error.status === 429 || error.status >= 500;

/** Shows the page that the address names; again after `againMs` if the daemon was not ready, or as soon as it answers. */
async function show(againMs = AGAIN_MS_MIN) {
  leave.abort();
  leave = new AbortController();
  const {page, rest, parameters} = place();
  const known = pages.find((one) => one.path === page) ?? pages[0];
  nav.replaceChildren(...pages.map(({path, name}) => (
    h("a", {href: `#/${path}`, "aria-current": path === known.path ? "page" : undefined}, name))));
  document.title = `${known.name} · Tickwheel`;
  const head = h("div", {class: "head"}, h("h1", {tabindex: "-1"}, known.name));
  const content = h("div", {}, head);
  main.replaceChildren(content);
  const isFirst = document.activeElement === document.body;
  if (!isFirst) head.firstChild.focus();
  const context = {content, head, rest, parameters, signal: leave.signal};
  try {
    await (rest.length && known.showOne ? known.showOne : known.show)(context);
  } catch (error) {
    if (context.signal.aborted) return;
    const isAbsent = !(error instanceof ProblemError);
    content.append(message(isAbsent ? "The daemon is not reachable. This page tries again." : error.message));
    if (isAbsent) console.warn(error);
    if (isPassing(error)) showAgain(context.signal, againMs, isAbsent);
  }
}

/** Shows the page again later; one whose daemon is absent once it answers, so that the message stays until then. */
function showAgain(signal, ms, isAbsent) {
  const next = Math.min(2 * ms, AGAIN_MS_MAX);
  setTimeout(async () => {
    try {
      if (isAbsent && !signal.aborted) await fetch(urlOf("/healthz"), {cache: "no-store", signal});
    } catch {
      showAgain(signal, next, isAbsent);
      return;
    }
    if (!signal.aborted) show(next);
  }, ms);
}

/** Asks for the token in place of the page; one question for all calls that wait for it, in whatever page they were. */
let asking = null, asked; // the promise, and the form that keeps it
onTokenNeeded((wasWrong) => {
  asking ??= new Promise((resolve) => {
    asked = form({class: "row"}, ({token}) => {
      asking = null;
      setToken(token);
      show();
      resolve();
    }, field("Token", "token", {type: "password", required: true, autocomplete: "off", size: 48}),
       h("button", {}, "Show the timers"));
  });
  main.replaceChildren(h("h1", {}, "Token"),
    h("p", {class: "hint"}, "This daemon asks for a token. It is kept in the memory of this page only."),
    wasWrong ? message("The daemon does not know this token.") : "", asked);
  asked.querySelector("input").focus();
  return asking;
});

async function watchHealth() {
  let text = "ready", kind = "good";
  try {
    const response = await fetch(urlOf("/readyz"), {cache: "no-store"});
    if (!response.ok) [text, kind] = [(await response.json()).detail || "not ready", "bad"];
  } catch {
    [text, kind] = ["not reachable", "bad"];
  }
  if (health.textContent !== text) health.textContent = text;
  health.className = kind;
  setTimeout(watchHealth, 2000);
}

addEventListener("hashchange", () => show());
setInterval(() => { if (!document.hidden) age(); }, 1000);
watchHealth();
show();
