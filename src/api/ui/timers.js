// Timers: search, one timer with its history, and what can be done with it.

import {call, curlOf, get, getTimer, mayChange, post, query} from "./api.js";
import {changed, eventsOf, labelsOf, payloadText} from "./change.js";
import {lifeLine} from "./life.js";
import {follow} from "./live.js";
import {patch} from "./morph.js";
import {action, ask, confirmed, curl, definitions, duration, field, form, h, number, table, tell, when} from "./parts.js";

const states = ["scheduled", "delivering", "retrying", "paused", "fired", "cancelled", "dead"];

const columns = [
  {name: "Timer", of: (timer) => h("a", {href: `#/timers/${timer.id}`, class: "mono"}, timer.id)},
  {name: "State", of: (timer) => timer.state},
  {name: "Due", of: (timer) => when(timer.due)},
  {name: "Key", kind: "break", of: (timer) => timer.key},
  {name: "Target", kind: "break", of: (timer) => timer.target},
  {name: "Labels", kind: "break", of: (timer) => labelsOf(timer)},
];

const PAGE_ROWS = 50;

/**
 * The rows of a list, a page at a time: a hundred thousand timers are never in the page at once. A page of the API that is
 * short of rows, or has none, says only how far the daemon looked: the next ones are read until the page is full.
 */
export function paged(path, parameters, caption, shown, signal) {
  const place = h("div", {});
  const cursors = [""];
  let searched; // timers that the daemon looked at for this page
  let page, readings = 0;
  const show = (index, rows, next, isSearching) => patch(place, [
    table(`${caption}, page ${index}`, shown, rows, {empty: isSearching ? "none so far" : "none"}),
    isSearching ? h("p", {class: "hint", role: "status"}, `Searching… ${searched ? `${number(searched)} timers looked at` : ""}`) : "",
    h("div", {class: "buttons"},
      index === 1 ? "" : action("Previous page", () => turn(cursors.slice(0, -1)), "plain"),
      next && !isSearching ? action("Next page", () => turn([...cursors, next]), "plain") : "")]);
  async function load() {
    const reading = ++readings, index = cursors.length, rows = [];
    let next = cursors.at(-1);
    searched = 0;
    do {
      const read = await get(`${path}${query({...parameters, cursor: next, limit: PAGE_ROWS - rows.length})}`, {signal});
      if (reading !== readings) return; // a later one is on its way
      rows.push(...(read.timers ?? read.tenants ?? read.schedules ?? read.deliveries));
      next = read.next;
      searched += read.searched ?? 0;
      if (next && rows.length < PAGE_ROWS && page?.index !== index) show(index, rows, next, true);
    } while (next && rows.length < PAGE_ROWS);
    page = {index, next, rows};
    show(index, rows, next, false);
  }
  async function turn(to) {
    const from = cursors.splice(0, cursors.length, ...to);
    try {
      await load();
    } catch (error) {
      cursors.splice(0, cursors.length, ...from);
      throw error;
    }
  }
  const placeOf = ({next, due}) => next ?? due; // in the list
  const shows = (timer) => page.rows.some(({id}) => id === timer.id);
  /** Whether a change of a timer shows on this page: it is there, or belongs there. */
  function has(timer) {
    const last = page.rows.at(-1);
    return !page.next || !last || placeOf(timer) <= placeOf(last) || shows(timer);
  }
  return {place, load, has, shows};
}

export async function timers(context) {
  const {content, parameters, signal} = context;
  const value = (name) => parameters.get(name) ?? "";
  const search = form({class: "row", role: "search"}, async ({id, ...wanted}) => {
    if (id.trim()) location.hash = `#/timers/${encodeURIComponent(id.trim())}`;
    else location.hash = `#/timers${query(wanted)}`;
  },
  field("Id", "id", {size: 28}),
  field("Key begins with", "key_prefix", {value: value("key_prefix")}),
  field("Key contains", "key_contains", {value: value("key_contains")}),
  field("Label (name:value)", "label", {value: value("label")}),
  field("Target", "target", {value: value("target")}),
  field("State", "state", {options: [["", "live"], ...states.map((state) => [state])]}),
  field("Due from", "due_after", {value: value("due_after"), placeholder: "2026-11-20T23:59:59Z"}),
  field("Due before", "due_before", {value: value("due_before"), placeholder: "2026-11-20T23:59:59Z"}),
  h("button", {}, "Search"));
  search.elements.state.value = value("state");
  const given = Object.fromEntries(parameters);
  const list = paged("/v1/timers", given, "Timers in due order", columns, signal);
  content.append(search, list.place);
  await list.load();
  const {label, target, key_prefix: prefix} = given; // those that events have as well
  follow(context, {load: list.load, parameters: {label, target, key_prefix: prefix}, touches: ({timer}) => timer && list.has(timer)});
}

/** The stages of a delivery that was late, as parts of a bar. */
function stages(lateness) {
  const parts = Object.entries(lateness?.stages_ms ?? {});
  if (!parts.length) return "";
  return h("div", {}, h("h2", {}, `Late by ${duration(lateness.late_ms)}`),
    table("Where the time went", [
      {name: "Stage", of: ([name]) => name.replaceAll("_", " ")},
      {name: "Time", kind: "number", of: ([, ms]) => duration(ms)},
      {name: "Share", of: ([name, ms]) => h("meter", {min: 0, max: Math.max(1, lateness.late_ms), value: ms,
                                                       "aria-label": name})},
    ], parts));
}

/** A dialog for target, labels and payload, which changes the version of the timer that was shown only. */
function change(timer, path, done) {
  const patchOf = (given) => changed(timer, given);
  ask({
    title: "Change the timer", text: "It is refused if the timer has changed since.", label: "Change it",
    fields: [field("Target", "target", {value: timer.target, required: true}),
             field("Labels", "labels", {value: labelsOf(timer), placeholder: "team:checkout, order:42"}),
             timer.body_base64 === undefined &&
               field("Payload, JSON", "payload", {rows: 8, spellcheck: "false", value: payloadText(timer)})],
    command: (given) => curlOf("PATCH", path, patchOf(given)),
    run: (given) => call("PATCH", path, {body: patchOf(given), headers: {"If-Match": `"${timer.version}"`}})
      .then(() => done("It is changed.")),
  });
}

function actions(timer, done) {
  const path = `/v1/timers/${timer.id}`;
  const isFinal = isOver(timer);
  const buttons = h("div", {class: "buttons"});
  const add = (...them) => buttons.append(...them);
  if (timer.state === "dead") {
    add(action("Redrive", () => post("/v1/dead/redrive", {ids: [timer.id]}).then(() => done("It is due again."))),
        h("a", {class: "button", href: `#/new?from=${timer.id}`}, "Edit as a new timer"));
  } else if (!isFinal) {
    if (timer.state === "paused")
      add(action("Resume", () => post(`${path}/resume`).then(() => done("It is resumed."))));
    else
      add(action("Pause", () => post(`${path}/pause`).then(() => done("It is paused.")), "plain"),
          action("Fire now", () => post(`${path}/fire`).then(() => done("It is due now.")), "plain"));
    add(action("Change", () => change(timer, path, done), "plain"),
        action("Cancel", async () => {
          if (await confirmed(`Cancel timer ${timer.id}? It will not be delivered.`, "Cancel the timer"))
            await call("DELETE", path).then(() => done("It is cancelled."));
        }, "danger"));
  }
  if (isFinal)
    return h("div", {}, buttons, timer.state === "dead" && curl(curlOf("POST", "/v1/dead/redrive", {ids: [timer.id]})));
  return h("div", {}, buttons, h("div", {class: "forms"},
    form({class: "row"}, ({after}) => post(`${path}/touch`, {after}).then(() => done("Its time is extended.")),
      field("Extend to, from now", "after", {required: true, placeholder: "30m", size: 8}),
      h("button", {class: "plain"}, "Extend")),
    form({class: "row"}, ({after}) => call("PATCH", path, {body: {after}}).then(() => done("Its time is changed.")),
      field("Move to, from now", "after", {required: true, placeholder: "5m", size: 8}),
      h("button", {class: "plain"}, "Move"))),
    curl([curlOf("POST", `${path}/fire`), curlOf("POST", `${path}/pause`, {}), curlOf("POST", `${path}/resume`),
          curlOf("DELETE", path), curlOf("POST", `${path}/touch`, {after: "30m"}),
          curlOf("PATCH", path, {after: "5m"})].join("\n")));
}

function payloadOf(timer) {
  if (timer.payload !== undefined) return h("pre", {tabindex: "0"}, payloadText(timer));
  if (timer.body_base64 !== undefined) return h("pre", {tabindex: "0"}, timer.body_base64);
  return h("p", {class: "dim"}, "none");
}

const isOver = ({state}) => ["fired", "cancelled", "dead"].includes(state);

/** In words, what holds a timer back, from its explanation; undefined: nothing does. */
function heldBy(timer, {waiting, target}) {
  if (timer.state === "paused") return "it is paused";
  if (waiting?.for === "maintenance") return "maintenance holds deliveries back";
  if (target?.paused) return "its queue or its target is paused";
  if ((target?.breaker ?? "closed") !== "closed") return "its target is left alone, because deliveries failed";
  return timer.state === "retrying" ? "its last attempt failed" : undefined;
}

/** The next firings of a timer that repeats. What holds it back holds them back as well; `why` is its explanation. */
async function nextFirings(timer, why, signal) {
  const schedule = timer.schedule;
  if (!schedule || !(schedule.cron || schedule.every) || isOver(timer)) return "";
  const place = (shown) => h("div", {}, h("h2", {}, "Next firings"), shown);
  const reason = heldBy(timer, why);
  const first = timer.state === "paused" ? timer.paused.until : why.next;
  if (reason && !first) return place(h("p", {}, `None while ${reason}.`));
  const isHeld = reason && Date.parse(first) > Math.max(Date.parse(timer.due), Date.now()) + 1000;
  const given = schedule.cron ? {cron: schedule.cron, timezone: schedule.timezone, dst: schedule.dst}
                              : {every: schedule.every, at: timer.due};
  const asked = query({...given, until: schedule.until, after: isHeld ? first : undefined, n: isHeld ? 4 : 5});
  const {instants} = await get(`/v1/schedule/preview${asked}`, {signal}).catch(() => ({instants: []}));
  return place(h("ol", {}, isHeld ? h("li", {}, when(first), ` at the earliest: ${reason}`) : [],
                 instants.map((at) => h("li", {}, when(at)))));
}

function pastFirings(timer) {
  if (!timer.runs) return [];
  return [h("h2", {}, "Past firings"), table("The last firings, the newest first", [
    {name: "Planned", of: (run) => when(run.planned)},
    {name: "Outcome", of: (run) => (run.count ? `${number(run.count)} ${run.outcome}` : run.outcome)},
    {name: "Attempts", kind: "number", of: (run) => number(run.attempts)},
    {name: "Took", kind: "number", of: (run) => duration(run.duration_ms)},
    {name: "Status", kind: "number", of: (run) => run.status},
    {name: "Error", kind: "break", of: (run) => run.error},
  ], timer.runs, {keyOf: ({planned}) => planned})];
}

export async function timer(context) {
  const {content, rest: [id], signal} = context;
  const path = `/v1/timers/${encodeURIComponent(id)}`;
  const place = h("div", {});
  const may = await mayChange();
  let shown, readings = 0;
  async function load() {
    const reading = ++readings;
    const [found, why, life] = await Promise.all([
      getTimer(path, {signal}).catch((error) => error), get(`${path}/explain`, {signal}).catch(() => ({})), lifeLine(id, signal)]);
    if (found instanceof Error) {
      if (found.status !== 404 || !life.isKnown) throw found;
      patch(place, [h("h2", {class: "mono"}, id), h("p", {}, "It is over, and no longer kept."), life.of()]);
      return;
    }
    const next = await nextFirings(found, why, signal);
    if (reading !== readings) return; // a later one is on its way
    shown = found;
    patch(place, [
      h("h2", {class: "mono"}, found.id),
      why.explanation ? h("p", {}, why.explanation) : "",
      definitions([
        ["State", found.state], ["Due", when(found.due)], ["Key", found.key], ["Target", found.target],
        ["Labels", labelsOf(found)], ["Watches", eventsOf(found)],
        ["Schedule", found.schedule ? JSON.stringify(found.schedule) : ""],
        ["Attempts", number(found.attempts)], ["Last error", found.last_error], ["Version", found.version],
        ["Created", when(found.created)],
        ["Paused since", found.paused ? when(found.paused.since) : ""],
        ["Paused until", found.paused?.until ? when(found.paused.until) : ""], ["Note", found.paused?.note],
        ["Report of", found.report_of ? h("a", {href: `#/timers/${found.report_of}`}, found.report_of) : ""],
      ]),
      may ? actions(found, done) : h("p", {class: "hint"}, "The token may read, not change: it lacks the scope schedule."),
      life.of(found), stages(why.lateness), next, h("h2", {}, "Payload"), payloadOf(found), ...pastFirings(found)]);
  }
  async function done(told) {
    await load();
    tell(content, told);
  }
  content.append(h("p", {}, h("a", {href: "#/timers"}, "All timers")), place);
  await load();
  // A key stays for the timer's life; what else events are filtered by may change.
  if (shown) follow(context, {load, parameters: {key_prefix: shown.key}, touches: (event) => !event.timer || event.timer.id === shown.id});
}
