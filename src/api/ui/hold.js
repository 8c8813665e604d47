// Pauses and resumes queues and targets, closes breakers and ends maintenance: each in a dialog that says what it does and shows
// its command.

import {call, curlOf, look, post} from "./api.js";
import {patch} from "./morph.js";
import {action, ask, field, h, number, when, words, zone} from "./parts.js";

/** In words, whether a queue or a target is paused: since when, until when, and the note. */
export function pausedOf({paused}) {
  if (!paused) return undefined;
  return h("div", {class: "paused"},
    h("div", {}, h("strong", {class: "warn"}, "Paused"), " since ", when(paused.since)),
    paused.until ? h("div", {}, "until ", when(paused.until)) : "",
    paused.note ? h("div", {class: "break"}, words(`“${paused.note}”`)) : "");
}

function bodyOf({note, until}) {
  return {...(note.trim() && {note: note.trim()}), ...(until && {until: new Date(until).toISOString()})};
}

function pause(path, what, text, done) {
  ask({
    title: `Pause ${what}`, text, label: "Pause it",
    fields: [field("Note: why it is paused", "note", {maxlength: 256, placeholder: "until the deploy is over"}),
             field(`Until, in ${zone} (left empty: until it is resumed)`, "until", {type: "datetime-local"})],
    command: (given) => curlOf("POST", `${path}/pause`, bodyOf(given)),
    run: (given) => post(`${path}/pause`, bodyOf(given)).then(() => done(`Paused ${what}.`)),
  });
}

function resume(path, what, text, done) {
  ask({title: `Resume ${what}`, text, label: "Resume it", command: () => curlOf("POST", `${path}/resume`),
       run: () => post(`${path}/resume`).then(() => done(`Resumed ${what}.`))});
}

function reset(path, what, done) {
  ask({title: `Reset ${what}`, label: "Close its breakers",
       text: "Closes its breakers and those of its paths. Timers that wait for them are sent at once.",
       command: () => curlOf("POST", `${path}/reset`),
       run: () => post(`${path}/reset`).then((answer) => done(`Reset ${what}: ${number(answer.reset)} had failures.`))});
}

const MAINTENANCE_MS = 3000; // between two looks
const MAINTENANCE = "/v1/admin/maintenance";

/** Shows above each page whether maintenance holds deliveries back, its note and since when timers wait; to the scope admin only. */
export async function watchMaintenance(place) {
  const found = document.hidden ? undefined : await look(MAINTENANCE);
  const waits = found?.maintenance ? (await look("/v1/verdict"))?.waiting.find((one) => one.for === "maintenance") : undefined;
  const end = () => ask({
    title: "End the maintenance", text: "Deliveries to all targets begin again, and workers get items, as after an outage.", label: "End it",
    command: () => curlOf("DELETE", MAINTENANCE), run: () => call("DELETE", MAINTENANCE).then(() => patch(place, []))});
  if (found !== undefined) patch(place, found?.maintenance ? [h("div", {class: "held", role: "status"},
    h("p", {}, h("strong", {}, "Maintenance"), " holds all deliveries back", found.note ? [": ", ...words(`“${found.note}”`)] : "", ". ",
      waits ? [`${number(waits.count)} ${waits.count === 1 ? "timer waits" : "timers wait"}, the first since `, when(waits.oldest), "."] : "No timer has waited for it yet."),
    action("End the maintenance", end, "plain"))] : []);
  setTimeout(() => watchMaintenance(place), MAINTENANCE_MS);
}

/** The buttons for a queue; `done` gets what to tell. */
export function queueButtons({name, paused}, done) {
  const path = `/v1/queues/${encodeURIComponent(name)}`, what = `the queue ${name}`;
  return h("div", {class: "buttons"}, paused
    ? action("Resume", () => resume(path, what, "Workers get its items again.", done), "plain")
    : action("Pause", () => pause(path, what, "Workers get no items of it until it is resumed. What they have leased goes on.",
                                  done), "plain"));
}

/** The button that pauses or resumes a flow. */
export function flowButtons({key, paused}, done) {
  const path = `/v1/flows/${encodeURIComponent(key)}`, what = `the flow ${key}`;
  return paused
    ? action("Resume", () => resume(path, what, "Its timers start again.", done), "plain")
    : action("Pause", () => pause(path, what, "None of its timers starts until it is resumed. Those that run go on.", done), "plain");
}

/** The buttons for a target, whose breakers can be closed when deliveries failed. */
export function targetButtons({target, paused, failures, paths = []}, done) {
  const path = `/v1/targets/${encodeURIComponent(target)}`, what = `the target ${target}`;
  return h("div", {class: "buttons"}, paused
    ? action("Resume", () => resume(path, what, "Deliveries to it begin again, as after an outage.", done), "plain")
    : action("Pause", () => pause(path, what, "No delivery to it begins until it is resumed. Those that have begun end.",
                                  done), "plain"),
    failures || paths.length ? action("Reset", () => reset(path, what, done), "plain") : "");
}
