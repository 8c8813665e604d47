// The frame: which page is shown, the token, and the health of the daemon.

import {ProblemError, onTokenNeeded, setToken, urlOf} from "./api.js";
import {age, form, field, h, message, when} from "./parts.js";
import {calendar, calendars} from "./calendars.js";
import {clusterPage} from "./cluster.js";
import {coming} from "./coming.js";
import {create} from "./create.js";
import {dead} from "./dead.js";
import {deliveries} from "./deliveries.js";
import {flows} from "./flows.js";
import {watchMaintenance} from "./hold.js";
import {listenForKeys, showKeys} from "./keys.js";
import {queue, queues, targets, tenants} from "./load.js";
import {named} from "./named.js";
import {now} from "./now.js";
import {schedules} from "./schedules.js";
import {firstSteps} from "./start.js";
import {timer} from "./timer.js";
import {timers} from "./timers.js";
import {ZONES, setClock, setZone, zoneChoice} from "./times.js";

/** The overview; that of a daemon without timers begins with the first steps. */
async function overview(context) {
  const steps = firstSteps(context.signal);
  context.content.append(steps.place);
  steps.refresh();
  await now(context);
}

// In groups, as the navigation shows them. `was` is a former path, which links elsewhere may have.
const groups = [
  [{path: "new", name: "New timer", show: create}],
  [{path: "overview", was: "now", name: "Overview", show: overview, hasClock: true},
   {path: "upcoming", was: "coming", name: "Upcoming", show: coming, hasClock: true}],
  [{path: "timers", name: "Timers", show: timers, showOne: timer},
   {path: "schedules", name: "Schedules", show: schedules},
   {path: "calendars", name: "Calendars", show: calendars, showOne: calendar}],
  [{path: "queues", name: "Queues", show: queues, showOne: queue},
   {path: "flows", name: "Flows", show: flows},
   {path: "targets", name: "Targets", show: targets},
   {path: "named", name: "Named targets", show: named},
   {path: "deliveries", name: "Deliveries", show: deliveries},
   {path: "dead", name: "Dead letters", show: dead}],
  [{path: "tenants", name: "Tenants", show: tenants},
   {path: "cluster", name: "Cluster", show: clusterPage}],
];
const pages = groups.flat();
const first = "overview"; // is shown without a path
const byThumb = ["overview", "timers", "new", "dead"]; // sections within reach of the thumb, on a small screen
const main = document.getElementById("main");
const header = document.querySelector("header");
const thumb = document.getElementById("thumb");
const health = document.getElementById("health");
const AGAIN_MS_MIN = 1000; // before a page that could not be read is tried again; doubled each time, up to AGAIN_MS_MAX
const AGAIN_MS_MAX = 15000;
const HEALTH_MS = 2000; // between two looks at the health
const HEALTH_MS_MAX = 5000; // for its answer
const AWAY = "not reachable";
let leave = new AbortController(); // aborts what the shown page does in the background

/** What is behind #: a page, a name within it, and parameters, as in #/timers/ID?label=team:checkout. */
function place() {
  const [path, query] = location.hash.slice(2).split("?");
  const [page, ...rest] = path.split("/");
  return {page: page || first, rest: rest.map(decodeURIComponent), parameters: new URLSearchParams(query)};
}

const pageOf = (path) => pages.find((one) => one.path === path || one.was === path) ?? pageOf(first);

/** The daemon did not answer, or is not ready: it may, later. */
const isPassing = (error) => !(error instanceof ProblemError) || error.status === 429 || error.status >= 500;

const linkTo = ({path, name}, known) => h("a", {
  href: `#/${path}`, class: path === "new" ? "new" : undefined, "aria-current": path === known.path ? "page" : undefined}, name);

function showMenu(isOpen) {
  header.classList.toggle("open", isOpen);
  thumb.querySelector("button").setAttribute("aria-expanded", isOpen);
}

function showSections(known) {
  document.getElementById("nav").replaceChildren(...groups.map((group) => h("ul", {}, group.map((one) => h("li", {}, linkTo(one, known))))));
  thumb.replaceChildren(...byThumb.map((path) => linkTo(pageOf(path), known)),
    h("button", {type: "button", "aria-controls": "menu", onclick: () => showMenu(!header.classList.contains("open"))}, "Menu"));
  showMenu(false);
}

/** Shows the page that the address names; again after `againMs` if the daemon was not ready, or as soon as it answers. */
async function show(againMs = AGAIN_MS_MIN) {
  leave.abort();
  leave = new AbortController();
  const {page, rest, parameters} = place();
  const known = pageOf(page);
  showSections(known);
  const title = h("h1", {tabindex: "-1"});
  const head = h("div", {class: "head"}, title);
  const content = h("div", {}, head);
  const context = {content, head, rest, parameters, signal: leave.signal, setTitle(text) {
    title.textContent = text;
    document.title = `${text} · Tickwheel`;
  }};
  context.setTitle(known.name);
  main.replaceChildren(content);
  const isFirst = document.activeElement === document.body;
  if (!isFirst) title.focus();
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

/** Says above the page that the daemon does not answer, and since when. Once it does, each page reads its data again. */
let away = null;
function showAway(isAway) {
  if (isAway === Boolean(away)) return;
  if (isAway) {
    away = h("p", {class: "away", role: "alert"}, "The daemon has not answered since ", when(new Date().toISOString()),
             ". This page shows what it read before, and goes on by itself.");
    document.getElementById("notices").append(away);
    return;
  }
  away.remove();
  away = null;
  dispatchEvent(new Event("daemonback"));
  const isForm = pageOf(place().page).path === "new" && main.querySelector("form");
  if (!asking && !isForm && !main.querySelector(".live")) show(); // a page that follows events goes on itself
}

async function watchHealth() {
  let text = "ready", kind = "good";
  try {
    const response = await fetch(urlOf("/readyz"), {cache: "no-store", signal: AbortSignal.timeout(HEALTH_MS_MAX)});
    const {detail, now: stands} = await response.json();
    setClock(stands);
    if (!response.ok) [text, kind] = [detail || "not ready", "bad"];
    else if (stands) text = `ready, virtual clock at ${stands.slice(0, 19).replace("T", " ")} UTC`;
  } catch {
    [text, kind] = [AWAY, "bad"];
  }
  showAway(text === AWAY);
  if (health.textContent !== text) health.textContent = text;
  health.className = kind;
  setTimeout(watchHealth, HEALTH_MS);
}

function showTools() {
  const zones = field("Times in", "times_in", {options: ZONES});
  zones.querySelector("select").value = zoneChoice();
  zones.onchange = (event) => {
    setZone(event.target.value);
    if (pageOf(place().page).hasClock) show(); // the times of an axis are no elements that setZone finds
  };
  document.getElementById("tools").append(zones, h("button", {type: "button", class: "plain", onclick: showKeys}, "Keys ", h("kbd", {}, "?")));
}

document.querySelector(".skip").onclick = (event) => {
  event.preventDefault(); // what is behind # names the page
  main.focus();
};
addEventListener("hashchange", () => show());
setInterval(() => { if (!document.hidden) age(); }, 1000);
showTools();
listenForKeys();
watchHealth();
watchMaintenance(document.getElementById("held"));
show();
