// How many timers live, by origin or by the value of a label, each in its state; asked for when it is unfolded.

import {get, query} from "./api.js";
import {patch} from "./morph.js";
import {field, form, h, number, table} from "./parts.js";

const ROWS = 100;
let label = ""; // the last one that was counted

/** The parameter of the list for the value of a label: a name with a colon stands in quotes. */
const labelled = (name, value) => `${/[:"]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name}:${value}`;

/** The groups of an answer by their name, the largest first, with the numbers of each state. */
function rowsOf(groups, of) {
  const rows = new Map();
  for (const {state, count, ...group} of groups) {
    const row = rows.get(group[of]) ?? {name: group[of], count: 0};
    row[state] = count;
    row.count += count;
    rows.set(group[of], row);
  }
  return [...rows.values()].sort((a, b) => b.count - a.count);
}

/** A table of the counts that is made when it is unfolded. `states` are the columns. */
export function counts(states, signal) {
  const place = h("div", {});
  const linkOf = ({name}) => name === null ? `without ${label}`
    : h("a", {href: `#/timers${query(label ? {label: labelled(label, name)} : {origin: name})}`}, name || "(empty)");
  async function load() {
    const answer = await get(`/v1/timers/count${query({by: `state,${label ? `label:${label}` : "origin"}`})}`, {signal});
    const rows = rowsOf(answer.groups, label ? "label" : "origin");
    const hidden = rows.slice(ROWS).reduce((sum, {count}) => sum + count, answer.others);
    patch(place, [
      table(label ? `Live timers by the label ${label}` : "Live timers by origin", [
        {name: label || "Origin", kind: "break", of: linkOf},
        ...states.map((state) => ({name: state, kind: "number", of: (row) => row[state] && number(row[state])})),
        {name: "All", kind: "number", isSorted: "descending", of: ({count}) => number(count)},
      ], rows.slice(0, ROWS), {keyOf: ({name}) => `${name}`}),
      hidden ? h("p", {class: "hint"}, `${number(hidden)} timers of further ones`) : "",
      answer.complete ? "" : h("p", {class: "hint"}, `Of the first ${number(answer.count)} timers that were read.`)]);
  }
  const search = form({class: "row"}, async (wanted) => {
    label = wanted.count_label.trim();
    await load();
  }, field("Label, or none for origins", "count_label", {value: label, placeholder: "team", size: 14, maxlength: 256}), h("button", {}, "Count"));
  return h("details", {class: "counts", ontoggle: ({currentTarget}) => {
    if (currentTarget.open && !place.childElementCount) search.requestSubmit();
  }}, h("summary", {}, "Counts by origin or label"), search, place);
}
