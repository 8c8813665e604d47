// Dead letters: why, and what can be done with one or with many.

import {call, curlOf, get, mayChange, post, query} from "./api.js";
import {targetOf} from "./change.js";
import {follow} from "./live.js";
import {patch} from "./morph.js";
import {action, ask, field, h, keyOf, number, table, tell, when, words} from "./parts.js";
import {selection} from "./pick.js";
import {paged} from "./timers.js";

async function allPages(step) {
  let count = 0, failed = 0;
  for (let cursor; cursor !== null; ) {
    const body = await step(cursor);
    count += (body.redriven ?? 0) + (body.deleted ?? 0);
    failed += body.failed;
    cursor = body.next ?? null;
  }
  return {count, failed};
}

/** The buttons for all letters of a group: each asks first, with their number. */
function groupActions({origin, error, count}, done) {
  const what = `${number(count)} dead ${count === 1 ? "letter" : "letters"}`, whose = `Those of ${origin} with the error “${error}”.`;
  const bodyOf = ({rate, new_target: target}) => ({origin, error, ...(rate && {rate: Number(rate)}), ...(target && {new_target: target})});
  const filter = query({origin, error});
  const told = (verb, result) => done(`${number(result.count)} ${verb}${result.failed ? `, ${number(result.failed)} not` : ""}.`);
  return h("div", {class: "buttons"},
    action("Redrive all", () => ask({
      title: `Redrive ${what}?`, text: `${whose} They are due at once, or one after the other at a rate. This cannot be undone.`, label: `Redrive ${what}`,
      fields: [field("So many a second (left empty: all at once)", "rate", {type: "number", min: 1, step: 1, placeholder: "50"}),
               field("Target, if not theirs", "new_target")],
      command: (given) => curlOf("POST", "/v1/dead/redrive", bodyOf(given)),
      run: (given) => allPages((cursor) => post("/v1/dead/redrive", {...bodyOf(given), cursor})).then((result) => told("redriven", result)),
    }), "plain"),
    action("Delete all", () => ask({
      title: `Delete ${what}?`, text: `${whose} This cannot be undone.`, label: `Delete ${what}`, kind: "danger",
      command: () => curlOf("DELETE", `/v1/dead${filter}`),
      run: () => allPages((cursor) => call("DELETE", `/v1/dead${query({origin, error, cursor})}`)).then((result) => told("deleted", result)),
    }), "danger"));
}

/** The groups; a group leads to the list of its letters. */
async function readGroups(place, may, done, signal) {
  const {groups, others} = await get("/v1/dead/groups?limit=20", {signal});
  patch(place, [table("What failed, and why", [
    {name: "Origin", kind: "key", of: ({origin, error}) => h("a", {href: `#/dead${query({origin, error})}`}, words(origin))},
    {name: "Error", kind: "break", of: ({error}) => error},
    {name: "Letters", kind: "number", of: ({origin, error, count}) => h("a", {class: "bad", href: `#/dead${query({origin, error})}`}, number(count))},
    {name: "Last", of: ({last}) => when(last)},
    may && {name: "Do", of: (group) => groupActions(group, done)},
  ], groups, {empty: "nothing", keyOf: ({origin, error}) => `${origin} ${error}`}),
  others ? h("p", {class: "hint"}, `${number(others)} more in other groups.`) : ""]);
}

/** Asks for another target of one letter. */
function redriveElsewhere({id, target}, done) {
  const bodyOf = (given) => ({ids: [id], new_target: given.target});
  ask({
    title: "Redrive to another target", text: "It is due at once, and keeps all but its target.", label: "Redrive it",
    fields: [field("Target", "target", {value: target, required: true})],
    command: (given) => curlOf("POST", "/v1/dead/redrive", bodyOf(given)),
    run: async (given) => {
      const {results: [result]} = await post("/v1/dead/redrive", bodyOf(given));
      await done(result === "ok" ? "1 redriven." : `It is not redriven: ${result}.`);
    },
  });
}

export async function dead(context) {
  const {content, parameters, signal} = context;
  const filter = Object.fromEntries(parameters);
  const may = await mayChange();
  const groups = h("div", {});
  const picking = may && selection({path: "/v1/dead", parameters: filter, rows: () => list.rows(), done, signal});
  const list = paged("/v1/dead", filter, "Dead letters, oldest first", [
    picking && picking.column,
    {name: "Key", kind: "key", of: keyOf},
    {name: "Target", kind: "break", of: targetOf},
    {name: "Died", kind: "time", of: ({ended}) => when(ended), by: ({ended}) => ended, isSorted: "ascending"},
    {name: "Attempts", kind: "number", of: (timer) => number(timer.attempts)},
    {name: "Error", kind: "break", of: (timer) => timer.last_error},
    may && {name: "Do", of: (timer) => h("div", {class: "buttons"},
      action("Redrive", () => post("/v1/dead/redrive", {ids: [timer.id]}).then(() => done("1 redriven.")), "plain"),
      action("Elsewhere", () => redriveElsewhere(timer, done), "plain"),
      h("a", {class: "button", href: `#/new?from=${timer.id}`}, "Edit as new"))},
  ], signal);
  async function load() {
    await Promise.all([readGroups(groups, may, done, signal), list.load()]);
    if (picking) picking.shown();
  }
  async function done(told) {
    await load();
    tell(content, told);
  }
  content.append(groups, h("h2", {}, words(filter.origin ? `Letters of ${filter.origin}` : "All letters")), list.place, picking ? picking.bar : "");
  await load();
  follow(context, {load, parameters: {type: ["dead", "redriven", "deleted"]}});
}
