// Deliveries: what became of each attempt.

import {curlOf, query} from "./api.js";
import {outcomeOf, tookOf} from "./life.js";
import {follow} from "./live.js";
import {curl, field, folded, form, h, keyOf, number, when} from "./parts.js";
import {paged} from "./timers.js";
import {timeIn} from "./times.js";

const columns = [
  {name: "Key", kind: "key", of: ({timer: id, key}) => keyOf({id, key})},
  {name: "Target", kind: "break", of: ({target}) => target},
  {name: "Ended", of: ({at}) => when(at)},
  {name: "Outcome", kind: "short", of: outcomeOf},
  {name: "Attempt", kind: "number", of: ({attempt}) => number(attempt)},
  {name: "Took", kind: "number", of: tookOf},
  {name: "Error", kind: "break", of: ({error}) => error},
];

export async function deliveries(context) {
  const {content, parameters, signal} = context;
  const value = (name) => parameters.get(name) ?? "";
  const search = form({class: "row", role: "search"}, async (wanted) => { location.hash = `#/deliveries${query({...wanted, since: timeIn(wanted.since)})}`; },
    field("Id", "timer", {size: 12, value: value("timer")}),
    field("Key", "key", {size: 12, value: value("key")}),
    field("Target", "target", {size: 12, value: value("target")}),
    field("Origin", "origin", {size: 12, value: value("origin")}),
    field("Outcome", "outcome", {options: [["", "any"], ["done"], ["failed"], ["ended"]]}),
    field("Status", "status", {value: value("status"), placeholder: "503, 5xx", size: 7}),
    field("Since", "since", {value: value("since"), placeholder: "-2h, 2026-11-20", size: 14}),
    h("button", {}, "Search"));
  search.elements.outcome.value = value("outcome");
  const given = Object.fromEntries(parameters);
  const list = paged("/v1/deliveries", given, "Deliveries, the newest first", columns, signal);
  content.append(...folded(search, Object.keys(given).length), list.place, curl(curlOf("GET", `/v1/deliveries${query(given)}`)));
  await list.load();
  const {target, origin} = given; // those that events have as well
  follow(context, {load: list.load, parameters: {type: ["fired", "failed", "retried", "dead"], target, origin}});
}
