// Dead letters: why, and what can be done with one or with many.

import {call, curlOf, get, post, query} from "./api.js";
import {action, confirmed, curl, field, form, h, message, number, table, when} from "./parts.js";
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

function groupActions({origin, error, count}, again) {
  const told = async (verb, result) => {
    await again();
    document.querySelector("h1").after(message(
      `${number(result.count)} ${verb}${result.failed ? `, ${number(result.failed)} not` : ""}.`, "done"));
  };
  return h("div", {class: "buttons"},
    action("Redrive all", () => allPages((cursor) => post("/v1/dead/redrive", {origin, error, cursor}))
      .then((result) => told("redriven", result))),
    action("Delete all", async () => {
      if (!await confirmed(`Delete ${number(count)} dead letters of ${origin}? This cannot be undone.`, "Delete them")) return;
      await allPages((cursor) => call("DELETE", `/v1/dead${query({origin, error, cursor})}`))
        .then((result) => told("deleted", result));
    }, "danger"));
}

export async function dead(context) {
  const {content, parameters, signal} = context;
  const again = async () => {
    content.replaceChildren(h("h1", {tabindex: "-1"}, "Dead letters"));
    await dead(context);
  };
  const {groups, others} = await get("/v1/dead/groups?limit=20", {signal});
  content.append(table("What failed, and why", [
    {name: "Origin", kind: "break", of: ({origin, error}) => h("a", {href: `#/dead${query({origin, error})}`}, origin)},
    {name: "Error", kind: "break", of: ({error}) => error},
    {name: "Letters", kind: "number", of: ({count}) => number(count)},
    {name: "Last", of: ({last}) => when(last)},
    {name: "Do", of: (group) => groupActions(group, again)},
  ], groups));
  if (others) content.append(h("p", {class: "hint"}, `${number(others)} more in other groups.`));

  const filter = Object.fromEntries(parameters);
  content.append(h("h2", {}, filter.origin ? `Letters of ${filter.origin}` : "All letters"));
  const list = paged("/v1/dead", filter, "Dead letters, those that died first at the front", [
    {name: "Timer", of: (timer) => h("a", {href: `#/timers/${timer.id}`, class: "mono"}, timer.id)},
    {name: "Target", kind: "break", of: (timer) => timer.target},
    {name: "Attempts", kind: "number", of: (timer) => number(timer.attempts)},
    {name: "Error", kind: "break", of: (timer) => timer.last_error},
    {name: "Do", of: (timer) => h("div", {class: "buttons"},
      action("Redrive", () => post("/v1/dead/redrive", {ids: [timer.id]}).then(again), "plain"))},
  ], signal);
  content.append(list.place);
  await list.load();
  if (filter.origin)
    content.append(
      form({class: "row"}, async ({rate}) => {
        await post("/v1/dead/redrive", {...filter, rate: Number(rate)});
        await again();
      }, field("Redrive these, so many a second", "rate", {type: "number", min: 1, required: true, value: 50}),
        h("button", {class: "plain"}, "Redrive at this rate")),
      curl(curlOf("POST", "/v1/dead/redrive", {...filter, rate: 50})));
}
