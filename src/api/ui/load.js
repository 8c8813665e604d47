// How full the queues are, what a queue has next, what goes to each target, and what each tenant uses.

import {curlOf, get} from "./api.js";
import {action, bytes, curl, h, message, number, table, when} from "./parts.js";
import {paged} from "./timers.js";

/** Shows what `load` returns, and again when the reader asks: a table that changed by itself would lose the focus. */
async function refreshable(content, load) {
  const place = h("div", {});
  const look = async () => place.replaceChildren(...await load());
  content.append(h("div", {class: "buttons"}, action("Refresh", look, "plain")), place);
  await look();
}

const cut = (complete) => (complete ? [] : [h("p", {class: "hint"}, "There are more than are shown.")]);
const more = (count, isMore) => (isMore ? `${number(count)} and more on disk` : number(count));

export async function queues({content, signal}) {
  await refreshable(content, async () => {
    const {queues: rows, complete} = await get("/v1/queues", {signal});
    return [table("Queues with items or workers", [
      {name: "Queue", kind: "break", of: ({name}) => h("a", {href: `#/queues/${name}`}, name)},
      {name: "Ready", kind: "number", of: (queue) => more(queue.ready, queue.more_on_disk)},
      {name: "Leased", kind: "number", of: ({leased}) => number(leased)},
      {name: "Workers waiting", kind: "number", of: ({workers}) => number(workers)},
      {name: "Oldest", of: ({oldest}) => oldest && when(oldest)},
    ], rows, "none"), ...cut(complete), curl(curlOf("GET", "/v1/queues"))];
  });
}

export async function queue({content, rest: [name], signal}) {
  const path = `/v1/queues/${encodeURIComponent(name)}`;
  content.append(h("h2", {}, name));
  await refreshable(content, async () => {
    const [full, peek] = await Promise.all([get(path, {signal}), get(`${path}/peek?limit=50`, {signal})]);
    return [
      h("p", {}, `${more(full.ready, full.more_on_disk)} ready, ${number(full.leased)} leased, ` +
                 `${number(full.workers)} workers waiting.`),
      table("The items that workers get next", [
        {name: "Timer", of: ({id}) => h("a", {href: `#/timers/${id}`, class: "mono"}, id)},
        {name: "Due", of: ({due}) => when(due)},
        {name: "Attempts", kind: "number", of: ({attempts}) => number(attempts)},
        {name: "Key", kind: "break", of: ({key}) => key},
        {name: "Target", kind: "break", of: ({target}) => target},
        {name: "Last error", kind: "break", of: (timer) => timer.last_error},
      ], peek.timers, "none is ready"),
      ...cut(!peek.more), curl(curlOf("GET", `${path}/peek`))];
  });
}

/** In words, for a host or a path: whether it is called, and if not, when again. */
function breakerOf({breaker, failures, tried_at}) {
  if (breaker === undefined) return undefined;
  if (breaker === "closed") return failures ? `closed, ${number(failures)} failed in a row` : "closed";
  return h("span", {class: "bad"}, `${breaker}, ${number(failures)} failed in a row; tried again `, when(tried_at));
}

const connection = ({connected}) => (connected === undefined ? undefined : connected ? "connected" : "not connected");

export async function targets({content, signal}) {
  await refreshable(content, async () => {
    const {targets: rows, complete, rate_max: rate, in_flight_max: most} = await get("/v1/targets", {signal});
    const paths = rows.flatMap(({paths: failing = []}) => failing);
    const open = rows.concat(paths).filter(({breaker}) => breaker && breaker !== "closed").length;
    return [
      open ? message(`${number(open)} of them ${open === 1 ? "is" : "are"} left alone, because deliveries failed.`) : "",
      h("p", {class: "hint"}, `At most ${number(most)} webhooks are in flight to a host` +
                              (rate ? `, and ${number(rate)} a second begin.` : ".")),
      table("Hosts and connections with deliveries or failures", [
        {name: "Target", kind: "break", of: ({target}) => target},
        {name: "Breaker", of: (row) => breakerOf(row) ?? connection(row)},
        {name: "Waiting", kind: "number", of: (row) => more(row.waiting, row.more_on_disk)},
        {name: "In flight", kind: "number", of: (row) => number(row.in_flight)},
        {name: "Oldest", of: ({oldest}) => oldest && when(oldest)},
        {name: "Last error", kind: "break", of: (row) => row.last_error},
      ], rows, "none"),
      paths.length ? table("Paths that fail while others of their host work", [
        {name: "Path", kind: "break", of: ({path}) => path},
        {name: "Breaker", of: breakerOf},
        {name: "Last error", kind: "break", of: (row) => row.last_error},
      ], paths) : "", ...cut(complete), curl(curlOf("GET", "/v1/targets"))];
  });
}

/** A figure and its limit, and how much of it is used. */
function usedOf(value, most) {
  if (!most) return number(value);
  return h("span", {}, `${number(value)} of ${number(most)}`,
    h("meter", {min: 0, max: most, high: 0.9 * most, value, "aria-label": `${number(value)} of ${number(most)}`}));
}

function rateOf({rate, burst}) {
  if (!rate) return undefined;
  return `${number(rate)} a second${burst ? `, ${number(burst)} at once` : ""}`;
}

export async function tenants({content, signal}) {
  content.append(h("p", {class: "hint"}, "Operators, whose token has the scopes read and admin, see all tenants; others their own. " +
                                         "The tenant - is that of timers made without a token."));
  const list = paged("/v1/tenants", {}, "Tenants, by name", [
    {name: "Tenant", kind: "break", of: ({name}) => name},
    {name: "Live timers", of: ({pending, limits}) => usedOf(pending, limits.pending_max)},
    {name: "Due and waiting", kind: "number", of: ({ready}) => number(ready)},
    {name: "Oldest", of: ({oldest}) => oldest && when(oldest)},
    {name: "Rate", of: ({limits}) => rateOf(limits)},
    {name: "Refused for the rate", kind: "number", of: ({rate_refused: refused}) => number(refused)},
    {name: "Body", kind: "number", of: ({limits}) => limits.body_bytes_max && bytes(limits.body_bytes_max)},
    {name: "Batch", kind: "number", of: ({limits}) => limits.batch_bytes_max && bytes(limits.batch_bytes_max)},
  ], signal);
  content.append(h("div", {class: "buttons"}, action("Refresh", list.load, "plain")), list.place,
                 curl(curlOf("GET", "/v1/tenants")));
  await list.load();
}
