// One timer: its life, what it waits for, and what can be done with it.

import {call, curlOf, get, getTimer, mayChange, post, query} from "./api.js";
import {changed, eventsOf, labelsOf, payloadText, targetOf} from "./change.js";
import {isOver, lifeLine} from "./life.js";
import {limitWords} from "./limits.js";
import {follow} from "./live.js";
import {patch} from "./morph.js";
import {action, ask, chip, confirmed, curl, definitions, duration, field, h, idOf, nowMs, number, shortId, table, tell, when} from "./parts.js";
import {previewOf, scheduleWords, skippedOf} from "./recurrence.js";

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
    fields: [field("Target", "target", {value: targetOf(timer), required: true}),
             field("Labels", "labels", {value: labelsOf(timer), placeholder: "team:checkout, order:42"}),
             timer.body_base64 === undefined &&
               field("Payload, JSON", "payload", {rows: 8, spellcheck: "false", value: payloadText(timer)})],
    command: (given) => curlOf("PATCH", path, patchOf(given)),
    run: (given) => call("PATCH", path, {body: patchOf(given), headers: {"If-Match": `"${timer.version}"`}})
      .then(() => done("It is changed.")),
  });
}

/** A dialog for a new time, from now; `method` and `path` are those of the call. */
function askForTime({title, text, label, method, path, value}, told, done) {
  ask({title, text, label, fields: [field("To, from now", "after", {required: true, value, size: 8})],
       command: ({after}) => curlOf(method, path, {after}),
       run: ({after}) => call(method, path, {body: {after}}).then(() => done(told))});
}

function actions(timer, done) {
  const path = `/v1/timers/${timer.id}`;
  const isFinal = isOver(timer);
  const buttons = h("div", {class: "buttons main"});
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
    add(action("Extend", () => askForTime({title: "Extend the time", text: "Its time is never earlier than before.", label: "Extend it",
                                           method: "POST", path: `${path}/touch`, value: "30m"}, "Its time is extended.", done), "plain"),
        action("Move", () => askForTime({title: "Move the time", text: "It gets this time, earlier or later.", label: "Move it",
                                         method: "PATCH", path, value: "5m"}, "Its time is changed.", done), "plain"),
        action("Change", () => change(timer, path, done), "plain"),
        action("Cancel", async () => {
          if (await confirmed(`Cancel ${timer.key ?? `the timer ${timer.id}`}? It will not be delivered.`, "Cancel the timer"))
            await call("DELETE", path).then(() => done("It is cancelled."));
        }, "danger"));
  }
  if (isFinal)
    return h("div", {}, buttons, timer.state === "dead" && curl(curlOf("POST", "/v1/dead/redrive", {ids: [timer.id]})));
  return h("div", {}, buttons,
    curl([curlOf("POST", `${path}/fire`), curlOf("POST", `${path}/pause`, {}), curlOf("POST", `${path}/resume`),
          curlOf("DELETE", path), curlOf("POST", `${path}/touch`, {after: "30m"}),
          curlOf("PATCH", path, {after: "5m"})].join("\n")));
}

function payloadOf(timer) {
  if (timer.payload !== undefined) return h("pre", {tabindex: "0"}, payloadText(timer));
  if (timer.body_base64 !== undefined) return h("pre", {tabindex: "0"}, timer.body_base64);
  return h("p", {class: "dim"}, "none");
}

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
  const place = (...shown) => h("div", {}, h("h2", {}, "Next firings"), ...shown);
  const reason = heldBy(timer, why);
  const first = timer.state === "paused" ? timer.paused.until : why.next;
  if (reason && !first) return place(h("p", {}, `None while ${reason}.`));
  const isHeld = reason && Date.parse(first) > Math.max(Date.parse(timer.due), nowMs()) + 1000;
  const asked = query(previewOf({...schedule, at: schedule.cron ? undefined : timer.due, after: isHeld ? first : undefined, n: isHeld ? 4 : 5}));
  const {instants, skipped} = await get(`/v1/schedule/preview${asked}`, {signal}).catch(() => ({instants: []}));
  return place(h("ol", {}, isHeld ? h("li", {}, when(first, schedule.timezone), ` at the earliest: ${reason}`) : [],
                 instants.map((at) => h("li", {}, when(at, schedule.timezone)))), ...skippedOf(skipped));
}

/** How a firing ended; one that failed leads to its deliveries. */
function outcomeOfRun({outcome, count}, id) {
  const text = count ? `${number(count)} ${outcome}` : outcome;
  return outcome === "failed" ? h("a", {class: "bad", href: `#/deliveries${query({timer: id, outcome})}`}, text) : text;
}

function pastFirings(timer) {
  if (!timer.runs) return [];
  return [h("h2", {}, "Past firings"), table("The last firings, the newest first", [
    {name: "Planned", of: (run) => when(run.planned, timer.schedule?.timezone)},
    {name: "Outcome", of: (run) => outcomeOfRun(run, timer.id)},
    {name: "Attempts", kind: "number", of: (run) => number(run.attempts)},
    {name: "Took", kind: "number", of: (run) => duration(run.duration_ms)},
    {name: "Status", kind: "number", of: (run) => run.status},
    {name: "Error", kind: "break", of: (run) => run.error ?? (run.timer && h("a", {href: `#/timers/${run.timer}`}, run.timer))},
  ], timer.runs, {keyOf: ({planned}) => planned})];
}

/** Each of several targets, and how it stands in the last firing; one leads to the timer that delivers to it. */
function targetsOf(timer) {
  if (!timer.targets) return [];
  return [h("h2", {}, "Targets"), table("The targets, and how each stands in the last firing", [
    {name: "Target", kind: "break", of: ({target, id}) => id ? h("a", {href: `#/timers/${id}`}, target) : target},
    {name: "State", of: ({state}) => chip(state)},
    {name: "Attempts", kind: "number", of: ({attempts}) => attempts === undefined ? "" : number(attempts)},
    {name: "Error", kind: "break", of: (one) => one.last_error},
  ], timer.targets)];
}

/** What is known of a timer, as pairs of a name and its value. */
function detailsOf(found) {
  const schedule = found.schedule, zone = schedule?.timezone;
  return definitions([
    ["Target", found.target], ["Due", when(found.due, zone)], ["Rule", schedule ? JSON.stringify(schedule) : ""],
    ["Flow", found.flow ? h("a", {href: `#/timers${query({flow: found.flow.key})}`}, [found.flow.key, limitWords(found.flow)].filter(Boolean).join(", ")) : ""],
    ["Labels", labelsOf(found)], ["Watches", eventsOf(found)],
    ["Attempts", number(found.attempts)],
    ["Last error", found.last_error && h("a", {class: "bad", href: `#/deliveries${query({timer: found.id, outcome: "failed"})}`}, found.last_error)],
    ["Key", found.key], ["Version", found.version], ["Created", when(found.created, zone)],
    ["Paused since", found.paused ? when(found.paused.since, zone) : ""],
    ["Paused until", found.paused?.until ? when(found.paused.until, zone) : ""], ["Note", found.paused?.note],
    ["Firing of", found.firing_of ? h("a", {href: `#/timers/${found.firing_of}`}, found.firing_of) : ""],
    ["Part of", found.part_of ? h("a", {href: `#/timers/${found.part_of}`}, found.part_of) : ""],
    ["Report of", found.report_of ? h("a", {href: `#/timers/${found.report_of}`}, found.report_of) : ""],
  ]);
}

export async function timer(context) {
  const {content, rest: [id], setTitle, signal} = context;
  const path = `/v1/timers/${encodeURIComponent(id)}`;
  const place = h("div", {});
  const may = await mayChange();
  let shown, readings = 0;
  setTitle(`Timer ${shortId(id)}`);
  async function load() {
    const reading = ++readings;
    const [found, why, life] = await Promise.all([
      getTimer(path, {signal}).catch((error) => error), get(`${path}/explain`, {signal}).catch(() => ({})), lifeLine(id, signal)]);
    if (found instanceof Error) {
      if (found.status !== 404 || !life.isKnown) throw found;
      if (life.key) setTitle(life.key);
      patch(place, [h("p", {class: "about"}, idOf(id)), h("p", {class: "lead"}, "It is over, and no longer kept."), life.of()]);
      return;
    }
    const next = await nextFirings(found, why, signal);
    if (reading !== readings) return; // a later one is on its way
    shown = found;
    if (found.key) setTitle(found.key);
    patch(place, [
      h("p", {class: "about"}, chip(found.state), idOf(found.id), found.schedule ? h("span", {}, scheduleWords(found.schedule)) : ""),
      h("p", {class: "lead"}, why.explanation ?? ""),
      may ? actions(found, done) : h("p", {class: "hint"}, "The token may read, not change: it lacks the scope schedule."),
      h("div", {class: "halves"},
        h("div", {}, life.of(found, why.next), stages(why.lateness), next),
        h("div", {}, h("h2", {}, "Details"), detailsOf(found), h("h2", {}, "Payload"), payloadOf(found))),
      ...targetsOf(found), ...pastFirings(found)]);
  }
  async function done(told) {
    await load();
    tell(content, told);
  }
  content.append(place);
  await load();
  // A key stays for the timer's life; what else events are filtered by may change.
  if (shown) follow(context, {load, parameters: {key_prefix: shown.key}, touches: (event) => !event.timer || event.timer.id === shown.id});
}
