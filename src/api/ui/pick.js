// Columns to choose, and timers to select for an action on all of them, whose number it says first.

import {call, curlOf, get, post, query} from "./api.js";
import {choose, chosen} from "./element.js";
import {patch} from "./morph.js";
import {action, ask, field, h, number} from "./parts.js";

const SELECTED_MAX = 10000;
const CALL_MAX = 1000; // ids in one call, of dead letters too
const PAGE_MAX = 1000; // rows in one answer
const SHOWN_MAX = 20; // ids in a command that is shown

/** The columns of a list of which the reader chooses some, kept under `name`; `changed` shows the list again. */
export function chosenColumns(name, all, changed) {
  const standard = all.filter(({isExtra}) => !isExtra).map((column) => column.name);
  let shown = chosen(name, standard);
  if (!Array.isArray(shown)) shown = standard;
  const toggle = (column) => h("label", {class: "check"}, h("input", {
    type: "checkbox", checked: shown.includes(column), onchange: ({target}) => {
      shown = all.map((one) => one.name).filter((one) => (one === column ? target.checked : shown.includes(one)));
      choose(name, shown);
      changed();
    }}), column);
  const button = h("details", {class: "columns"}, h("summary", {}, "Columns"),
    h("div", {}, all.filter(({isFixed}) => !isFixed).map((column) => toggle(column.name))));
  return {columns: () => all.filter((column) => column.isFixed || shown.includes(column.name)), button};
}

const timersOf = (count) => `${number(count)} ${count === 1 ? "timer" : "timers"}`;
const reasons = {"gone": "is over", "not-found": "is not there", "already-firing": "is being delivered", "paused": "is paused"};

/** What can be done with all that are selected. `bodyOf` has what the call takes besides the ids. */
const bulkActions = [
  {label: "Pause", path: "/v1/timers/pause", done: "paused", text: "They fire no more until they are resumed."},
  {label: "Resume", path: "/v1/timers/resume", done: "resumed", text: "Those that are due meanwhile fire at once."},
  {label: "Fire", path: "/v1/timers/fire", done: "fired", text: "They are due at once."},
  {label: "Move", path: "/v1/timers/reschedule", done: "rescheduled", text: "All of them get the same new time.",
   fields: () => [field("To, from now", "after", {required: true, value: "30m", size: 8})], bodyOf: ({after}) => ({after})},
  {label: "Cancel", path: "/v1/timers/cancel", done: "cancelled", kind: "danger", text: "They are not delivered. This cannot be undone."},
];
const redrive = {label: "Redrive", path: "/v1/dead/redrive", done: "redriven", text: "They are due at once.",
                 fields: () => [field("Target, if not theirs", "new_target")],
                 bodyOf: ({new_target: target}) => (target ? {new_target: target} : {})};
// The API deletes dead letters by filters or by one id: each id is a call.
const remove = {label: "Delete", path: "/v1/dead", done: "deleted", kind: "danger", isEach: true, text: "They are gone. This cannot be undone."};

/** Calls for all ids, as many at a time as one call takes, and says how many it changed, and why it did not change others. */
async function runFor(ids, {path, done, isEach, bodyOf = () => ({})}, given) {
  let changed = 0;
  const failed = new Map();
  const fail = (type) => failed.set(type, (failed.get(type) ?? 0) + 1);
  for (const id of isEach ? ids : []) {
    const gone = await call("DELETE", `${path}/${id}`).catch((error) => error);
    if (gone instanceof Error && gone.status !== 404) throw gone;
    if (gone instanceof Error) fail("not-found");
    else changed++;
  }
  for (let at = 0; at < ids.length && !isEach; at += CALL_MAX) {
    const some = ids.slice(at, at + CALL_MAX);
    const answer = await post(path, {ids: some, ...bodyOf(given)});
    changed += answer[done] ?? 0;
    const types = answer.failures?.map(({type}) => type.split("/").pop()) ?? answer.results?.filter((result) => result !== "ok") ?? [];
    types.forEach(fail);
  }
  const others = [...failed].map(([type, count]) => `${number(count)} not: ${count === 1 ? "it" : "each"} ${reasons[type] ?? `is refused (${type})`}`);
  return `${[`${timersOf(changed)} ${done}`, ...others].join("; ")}.`;
}

/**
 * Selects timers of a list:
 *   path, parameters  of the list, to select all that match
 *   rows()            those that are shown
 *   done(told)        is called when an action has changed them
 * `column` has the boxes, `bar` what can be done with those selected.
 */
export function selection({path, parameters, rows, done, signal}) {
  const picked = new Set();
  const bar = h("div", {class: "bulk", role: "region", "aria-label": "Selection"});
  const actions = path === "/v1/dead" || parameters.state === "dead" ? [redrive, remove] : bulkActions;

  function show(told) {
    for (const box of document.querySelectorAll("input[data-pick]")) box.checked = picked.has(box.dataset.pick);
    const all = document.querySelector("input[data-pick-all]"), shown = rows().filter(({id}) => picked.has(id)).length;
    if (all) {
      all.checked = shown > 0 && shown === rows().length;
      all.indeterminate = shown > 0 && !all.checked;
    }
    bar.hidden = !picked.size;
    if (!picked.size) return patch(bar, []);
    patch(bar, [h("p", {role: "status"}, h("strong", {}, `${number(picked.size)} selected`), told ? ` ${told}` : ""),
      h("div", {class: "buttons"}, actions.map((one) => action(one.label, () => confirm(one), one.kind ?? "plain")),
        action("Select all that match", selectAll, "plain"), action("Clear", clear, "plain"))]);
  }

  function clear() {
    picked.clear();
    show();
  }

  async function selectAll() {
    let next;
    do {
      const page = await get(`${path}${query({...parameters, cursor: next, limit: PAGE_MAX})}`, {signal});
      for (const {id} of page.timers) if (picked.size < SELECTED_MAX) picked.add(id);
      next = page.next;
      show("so far…");
    } while (next && picked.size < SELECTED_MAX);
    show(next ? "are as many as go together; there are more." : "are all that match.");
  }

  function confirm(chosenAction) {
    const {label, path: target, text, kind, isEach, fields = () => [], bodyOf = () => ({})} = chosenAction;
    const ids = [...picked], name = `${label} ${timersOf(ids.length)}`;
    ask({
      title: `${name}?`, text, label: name, kind, fields: fields(),
      command: (given) => {
        if (ids.length > SHOWN_MAX) throw new Error("The command is too long to be shown");
        return isEach ? ids.map((id) => curlOf("DELETE", `${target}/${id}`)).join("\n") : curlOf("POST", target, {ids, ...bodyOf(given)});
      },
      run: async (given) => {
        const told = await runFor(ids, chosenAction, given);
        clear();
        await done(told);
      },
    });
  }

  const set = (ids, isPicked) => {
    for (const id of ids) {
      if (isPicked) picked.add(id);
      else picked.delete(id);
    }
    show();
  };
  const column = {
    name: "Select", kind: "pick",
    head: () => h("input", {type: "checkbox", "data-pick-all": true, "aria-label": "Select all of this page",
                            onchange: ({target}) => set(rows().map(({id}) => id), target.checked)}),
    of: ({id, key}) => h("input", {type: "checkbox", "data-pick": id, "aria-label": `Select ${key ?? id}`, checked: picked.has(id),
                                   onchange: ({target}) => set([id], target.checked)}),
  };
  bar.hidden = true;
  return {bar, column, shown: () => show()};
}
