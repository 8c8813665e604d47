// The timers that repeat: how their last firings ended, what comes next, and what holds them back.

import {curlOf, query} from "./api.js";
import {targetOf} from "./change.js";
import {follow} from "./live.js";
import {curl, dateOf, duration, field, folded, form, h, keyOf, number, when} from "./parts.js";
import {scheduleWords} from "./recurrence.js";
import {paged} from "./timers.js";

const READ_AGAIN_MS = 15000; // breakers and pauses end without an event

const kinds = {done: "ok", failed: "failed", ended: "failed", dropped: "skipped", skipped: "skipped", begun: "ok"};

/** A firing that was dropped after an attempt has failed, as `last` of the API says. */
const kindOf = (run) => (run.outcome === "dropped" && run.attempts ? "failed" : kinds[run.outcome]);
const held = {pause: "it is paused", target_pause: "its queue or its target is paused",
              breaker: "its target is left alone, because deliveries failed", maintenance: "the operator holds all deliveries back"};

/** What a run says, in words. */
function wordsOf({outcome, count, planned, until, status, duration_ms: ms, error}, zone) {
  const time = count > 1 ? `${dateOf(planned, zone)} to ${dateOf(until, zone)}` : dateOf(planned, zone);
  return [count > 1 ? `${number(count)} ${outcome}` : outcome, time, status && `status ${status}`,
          ms !== undefined && `took ${duration(ms)}`, error].filter(Boolean).join(", ");
}

/** A mark for each run, the newest at the right. Tab comes to one of them, the arrow keys to the others. */
function dots({id, runs, schedule}) {
  return runs.length ? h("div", {class: "dots", role: "group", "aria-label": "Last firings"},
    runs.map((run, i) => h("a", {class: `dot ${kindOf(run)}`, href: `#/timers/${id}`, tabindex: i ? "-1" : "0",
                                 "aria-label": wordsOf(run, schedule.timezone)})).reverse()) : undefined;
}

function next({next: at, held_by: reason, schedule}) {
  return h("div", {}, at ? when(at, schedule.timezone) : "",
           reason ? h("div", {class: "warn"}, `${at ? "at the earliest: " : "none while "}${held[reason]}`) : "");
}

/** How the last firing ended; one that failed leads to its deliveries. */
function lastOf({id, last, failures}) {
  if (last !== "failed") return last;
  return h("a", {class: "bad", href: `#/deliveries${query({timer: id, outcome: "failed"})}`}, failures > 1 ? `${last}, ${failures} in a row` : last);
}

const columns = [
  {name: "Key", kind: "key", of: keyOf},
  {name: "When", kind: "text", of: ({schedule}) => scheduleWords(schedule)},
  {name: "Next", kind: "time", of: next, order: ""},
  {name: "Last", kind: "short", of: lastOf, order: "last"},
  {name: "Firings", of: dots},
  {name: "Target", kind: "break", of: targetOf},
];

/** Tells below the page what the mark says that has the focus or is pointed at. */
function tellMarks(place, told) {
  const show = ({target}) => { told.textContent = target.classList.contains("dot") ? target.getAttribute("aria-label") : ""; };
  place.addEventListener("focusin", show);
  place.addEventListener("pointerover", show);
  place.addEventListener("keydown", ({key, target}) => {
    const beside = {ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling"}[key];
    if (beside && target.classList.contains("dot")) target[beside]?.focus();
  });
}

export async function schedules(context) {
  const {content, parameters, signal} = context;
  const value = (name) => parameters.get(name) ?? "";
  const search = form({class: "row", role: "search"}, async (wanted) => { location.hash = `#/schedules${query(wanted)}`; },
    field("Last firing", "last", {options: [["", "any"], ["failed"], ["ok"], ["skipped"], ["never"]]}),
    field("Order", "sort", {options: [["", "next firing"], ["last", "last firing"], ["failures", "failures in a row"]]}),
    field("Key begins with", "key_prefix", {value: value("key_prefix")}),
    field("Label (name:value)", "label", {value: value("label")}),
    h("button", {}, "Search"));
  search.elements.last.value = value("last");
  search.elements.sort.value = value("sort");
  const given = Object.fromEntries([...parameters].filter(([, value]) => value));
  const sorted = columns.map((column) => ({...column, isSorted: column.order === (given.sort ?? "") && (column.order ? "descending" : "ascending"), head: column.order !== undefined && (() => (
    h("a", {href: `#/schedules${query({...given, sort: column.order})}`}, column.name)))}));
  const list = paged("/v1/schedules", given, "Timers that repeat", sorted, signal, "none. A timer with `every` or `cron` is one");
  const told = h("p", {class: "told", role: "status"});
  tellMarks(list.place, told);
  content.append(...folded(search, Object.keys(given).length), list.place, told, curl(curlOf("GET", `/v1/schedules${query(given)}`)));
  await list.load();
  const {label, key_prefix: prefix} = given;
  follow(context, {load: list.load, every: READ_AGAIN_MS, parameters: {label, key_prefix: prefix},
                   touches: ({timer}) => timer && list.shows(timer)});
}
