// Timers: search, and what can be done with many at once.

import {curlOf, get, mayChange, query} from "./api.js";
import {labelsOf, targetOf} from "./change.js";
import {counts as countsOf} from "./counts.js";
import {follow} from "./live.js";
import {patch} from "./morph.js";
import {action, chip, curl, field, folded, form, h, idOf, keyOf, number, sorter, table, tell, when} from "./parts.js";
import {chosenColumns, selection} from "./pick.js";
import {scheduleWords} from "./recurrence.js";
import {firstSteps} from "./start.js";
import {timeIn} from "./times.js";

const liveStates = ["scheduled", "delivering", "retrying", "paused"];
const finalStates = ["fired", "cancelled", "dead"];

const columns = [
  {name: "Key", kind: "key", isFixed: true, of: keyOf, by: ({key, id}) => key ?? id},
  {name: "Target", kind: "break", of: targetOf, by: targetOf},
  {name: "Due", isSorted: "ascending", by: ({due}) => due, of: (timer) => when(timer.due, timer.schedule?.timezone)},
  {name: "State", by: ({state}) => state, of: (timer) => chip(timer.state, ["retrying", "dead"].includes(timer.state) && `#/deliveries${query({timer: timer.id})}`)},
  {name: "Labels", kind: "break", of: labelsOf, by: labelsOf},
  {name: "Id", isExtra: true, of: ({id}) => idOf(id)},
  {name: "Schedule", kind: "text", isExtra: true, of: (timer) => timer.schedule && scheduleWords(timer.schedule)},
  {name: "Flow", kind: "break", isExtra: true, of: ({flow}) => flow?.key},
  {name: "Attempts", kind: "number", isExtra: true, of: (timer) => number(timer.attempts), by: ({attempts}) => attempts},
  {name: "Last error", kind: "break", isExtra: true, of: (timer) => timer.last_error, by: (timer) => timer.last_error},
  {name: "Created", isExtra: true, by: ({created}) => created, of: (timer) => when(timer.created, timer.schedule?.timezone)},
  {name: "Version", kind: "number", isExtra: true, of: (timer) => timer.version},
];

const PAGE_ROWS = 50;

/**
 * The rows of a list, a page at a time: a hundred thousand timers are never in the page at once. A page of the API that is
 * short of rows, or has none, says only how far the daemon looked: the next ones are read until the page is full.
 */
export function paged(path, parameters, caption, shown, signal, empty = "none") {
  const place = h("div", {});
  const cursors = [""];
  let searched; // timers that the daemon looked at for this page
  let page, readings = 0;
  const redraw = () => page && show(page.index, page.rows, page.next, false);
  const sort = sorter(redraw); // of a list that is one page: another order of a part would hide the others
  const show = (index, rows, next, isSearching) => patch(place, [
    table(`${caption}, page ${index}`, typeof shown === "function" ? shown() : shown, rows, {sort: index === 1 && !next && sort, empty: isSearching ? "none so far" : empty}),
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
  return {place, load, has, shows, rows: () => page?.rows ?? [], redraw};
}

/** The states as tabs, with the number of timers in those that are live. */
function statesOf(given, counts) {
  const tab = (state, count) => {
    const target = `#/timers${query({...given, state: state || undefined, cursor: undefined})}`;
    return h("a", {href: target, "data-key": state || "live", "aria-current": (given.state ?? "") === state ? "true" : undefined},
             state || "live", count === undefined ? "" : h("span", {class: "count"}, number(count)));
  };
  const count = (state) => counts?.groups.find((group) => group.state === state)?.count ?? (counts ? 0 : undefined);
  return [tab("", counts?.count), ...liveStates.map((state) => tab(state, count(state))), ...finalStates.map((state) => tab(state))];
}

const isId = (text) => /^[0-9a-v]{26}$/.test(text);

function searchOf(parameters, given) {
  const value = (name) => parameters.get(name) ?? "";
  return form({class: "row", role: "search"}, async (wanted) => {
    const key = wanted.key_prefix.trim();
    if (isId(key)) location.hash = `#/timers/${key}`;
    else location.hash = `#/timers${query({...wanted, due_after: timeIn(wanted.due_after), due_before: timeIn(wanted.due_before), state: given.state})}`;
  },
  field("Id, or key prefix", "key_prefix", {value: value("key_prefix"), size: 16}),
  field("Part of the key", "key_contains", {value: value("key_contains"), size: 10}),
  field("Target", "target", {value: value("target"), size: 14}),
  field("Label", "label", {value: value("label"), placeholder: "team:checkout", size: 12}),
  field("Flow", "flow", {value: value("flow"), size: 10}),
  field("Due from", "due_after", {value: value("due_after"), placeholder: "2h, 2026-11-20", size: 14}),
  field("Due before", "due_before", {value: value("due_before"), placeholder: "2h, 2026-11-20", size: 14}),
  h("button", {}, "Search"),
  Object.keys(given).some((name) => name !== "state") ? h("a", {class: "button", href: `#/timers${query({state: given.state})}`}, "Clear") : "");
}

export async function timers(context) {
  const {content, parameters, signal} = context;
  const given = Object.fromEntries([...parameters].filter(([, value]) => value));
  const may = await mayChange();
  const picking = may && !["fired", "cancelled"].includes(given.state) && selection({
    path: "/v1/timers", parameters: given, rows: () => list.rows(), signal, done: async (told) => {
      await load();
      tell(content, told);
    }});
  const chooser = chosenColumns("columns", columns, () => list.redraw());
  const list = paged("/v1/timers", given, "Timers", () => [picking && picking.column, ...chooser.columns()], signal);
  const steps = firstSteps(signal);
  const states = h("nav", {class: "states", "aria-label": "States"});
  const hasFilter = Object.keys(given).length > 0;
  async function load() {
    const [counts] = await Promise.all([get("/v1/timers/count?by=state", {signal}).catch(() => undefined), list.load()]);
    patch(states, statesOf(given, counts));
    if (!hasFilter) await steps.refresh(counts?.count);
    if (picking) picking.shown();
  }
  content.append(...folded(searchOf(parameters, given), Object.keys(given).filter((name) => name !== "state").length),
    h("div", {class: "above"}, states, chooser.button), countsOf(liveStates, signal), steps.place, list.place, picking ? picking.bar : "",
    curl(curlOf("GET", `/v1/timers${query(given)}`)));
  patch(states, statesOf(given));
  if (parameters.has("search")) content.querySelector("form[role=search] input").focus(); // by a key, from another section
  await load();
  const {label, target, key_prefix: prefix} = given; // those that events have as well
  follow(context, {load, parameters: {label, target, key_prefix: prefix}, touches: ({timer}) => timer && list.has(timer)});
}
