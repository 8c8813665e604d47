// How full the queues are, what a queue has next, what goes to each target, and what each tenant uses.

import {curlOf, get, mayChange, query} from "./api.js";
import {pausedOf, queueButtons, targetButtons} from "./hold.js";
import {follow} from "./live.js";
import {patch} from "./morph.js";
import {bytes, curl, h, keyOf, nowMs, number, sorter, table, tell, when, words} from "./parts.js";
import {paged} from "./timers.js";

// Leases, workers and breakers change without an event, and pauses end without one.
const READ_AGAIN_MS = 2000;

/** Shows what `make` returns, and keeps it as it is now. `make` gets what to call after a button has changed something, and the order that the reader chose. */
export async function followed(context, make, following) {
  const place = h("div", {});
  let readings = 0;
  const load = async () => {
    const reading = ++readings;
    const made = await make(done, sort);
    if (reading === readings) patch(place, made); // else a later one is on its way
  };
  const done = async (told) => {
    await load();
    tell(context.content, told);
  };
  const sort = sorter(load);
  context.content.append(place);
  await load();
  follow(context, {load, every: READ_AGAIN_MS, ...following});
}

const cut = (complete) => (complete ? "" : h("p", {class: "hint"}, "There are more than are shown."));
const more = (count, isMore) => (isMore ? `${number(count)} and more on disk` : number(count));

export async function queues(context) {
  const {signal} = context;
  const may = await mayChange();
  await followed(context, async (done, sort) => {
    const {queues: rows, complete} = await get("/v1/queues", {signal});
    return [table("Queues with items or workers", [
      {name: "Queue", kind: "key", of: ({name}) => h("a", {href: `#/queues/${name}`}, name), by: ({name}) => name},
      {name: "Ready", kind: "number", of: (queue) => more(queue.ready, queue.more_on_disk), by: ({ready}) => ready},
      {name: "Leased", kind: "number", of: ({leased}) => number(leased), by: ({leased}) => leased},
      {name: "Workers waiting", kind: "number", of: ({workers}) => number(workers), by: ({workers}) => workers},
      {name: "Oldest", of: ({oldest}) => oldest && when(oldest), by: ({oldest}) => oldest},
      {name: "Paused", kind: "state", of: pausedOf},
      may && {name: "Do", of: (queue) => queueButtons(queue, done)},
    ], rows, {sort, empty: "none. A timer with the target queue:NAME makes one when it is due"}), cut(complete), curl(curlOf("GET", "/v1/queues"))];
  }, {touches: ({timer}) => !timer || timer.target?.startsWith("queue:")});
}

export async function queue(context) {
  const {rest: [name], setTitle, signal} = context;
  const path = `/v1/queues/${encodeURIComponent(name)}`;
  const may = await mayChange();
  setTitle(`Queue ${name}`);
  await followed(context, async (done) => {
    const [full, peek] = await Promise.all([get(path, {signal}), get(`${path}/peek?limit=50`, {signal})]);
    return [
      h("p", {}, `${more(full.ready, full.more_on_disk)} ready, ${number(full.leased)} leased, ` +
                 `${number(full.workers)} workers waiting.`),
      pausedOf(full) ?? "", may ? queueButtons(full, done) : "",
      table("The items that workers get next", [
        {name: "Key", kind: "key", of: keyOf},
        {name: "Target", kind: "break", of: ({target}) => target},
        {name: "Due", of: ({due}) => when(due)},
        {name: "Attempts", kind: "number", of: ({attempts}) => number(attempts)},
        {name: "Last error", kind: "break", of: (timer) => timer.last_error},
      ], peek.timers, {empty: "none is ready"}),
      cut(!peek.more), curl(curlOf("GET", `${path}/peek`))];
  }, {parameters: {origin: `queue:${name}`}});
}

/** A text that leads to the deliveries which failed: of a host, or of one of its paths. */
function toFailures({target: origin, path: target}, ...text) {
  return h("a", {class: "bad", href: `#/deliveries${query({origin: target ? undefined : origin, target, outcome: "failed"})}`}, ...text);
}

/** In words, for a host or a path: whether it is called, and if not, when again. */
function breakerOf(row) {
  const {breaker, failures, tried_at: triedAt} = row;
  if (breaker === undefined) return undefined;
  const flows = h("span", {title: "Its breaker is closed"}, failures ? "still tried" : "deliveries flow");
  if (breaker === "closed") return failures ? h("span", {}, flows, ", ", toFailures(row, `${number(failures)} failed in a row`)) : flows;
  return h("span", {}, h("span", {title: `Its breaker is ${breaker}`}, toFailures(row, `left alone, ${number(failures)} failed in a row`)),
           ...(Date.parse(triedAt) > nowMs() + 1000 ? ["; tried again at ", when(triedAt)] : ["; tried again now"]));
}

/** The paths of a host that are left alone, while the host itself is called. */
function openPathsOf(row) {
  const count = (row.paths ?? []).filter(({breaker}) => breaker !== "closed").length;
  return count ? h("span", {}, "; ", toFailures(row, `${number(count)} of its paths ${count === 1 ? "is" : "are"} left alone`)) : "";
}

const connection = ({connected}) => (connected === undefined ? undefined : connected ? "connected" : "not connected");

export async function targets(context) {
  const {signal} = context;
  const may = await mayChange();
  await followed(context, async (done, sort) => {
    const {targets: rows, complete, rate_max: rate, in_flight_max: most} = await get("/v1/targets", {signal});
    const paths = rows.flatMap(({paths: failing = []}) => failing);
    const open = rows.concat(paths).filter(({breaker}) => breaker && breaker !== "closed").length;
    return [
      open ? h("p", {class: "message", role: "alert"},
               `${number(open)} of them ${open === 1 ? "is" : "are"} left alone, because deliveries failed.`) : "",
      h("p", {class: "hint"}, `At most ${number(most)} webhooks are in flight to a host` +
                              (rate ? `, and ${number(rate)} a second begin.` : ".")),
      table("Hosts and connections with deliveries or failures", [
        {name: "Target", kind: "key", by: ({target}) => target,
         of: ({target}) => h("a", {href: `#/timers${query({origin: target})}`}, words(target))},
        {name: "State", kind: "state", by: ({breaker, failures}) => `${breaker} ${failures}`, of: (row) => [pausedOf(row) ?? "", breakerOf(row) ?? connection(row) ?? (row.paused ? "" : "–"), openPathsOf(row)]},
        {name: "Waiting", kind: "number", of: (row) => more(row.waiting, row.more_on_disk), by: ({waiting}) => waiting},
        {name: "In flight", kind: "number", of: (row) => number(row.in_flight), by: (row) => row.in_flight},
        {name: "Oldest", of: ({oldest}) => oldest && when(oldest), by: ({oldest}) => oldest},
        {name: "Last error", kind: "break", by: (row) => row.last_error, of: (row) => row.last_error && toFailures(row, words(row.last_error))},
        may && {name: "Do", of: (row) => targetButtons(row, done)},
      ], rows, {sort, empty: "none since the start", keyOf: ({target}) => target}),
      paths.length ? table("Paths that fail while others of their host work", [
        {name: "Path", kind: "key", of: ({path}) => h("a", {href: `#/timers${query({target: path})}`}, words(path))},
        {name: "State", kind: "state", of: breakerOf},
        {name: "Last error", kind: "break", of: (row) => row.last_error && toFailures(row, words(row.last_error))},
      ], paths, {keyOf: ({path}) => path}) : "", cut(complete), curl(curlOf("GET", "/v1/targets"))];
  }, {parameters: {type: ["retried", "failed", "dead", "target-paused", "target-resumed", "target-reset"]}});
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

export async function tenants(context) {
  const {content, signal} = context;
  content.append(h("p", {class: "hint"}, "Operators, whose token has the scopes read and admin, see all tenants; others their own. " +
                                         "The tenant - is that of timers made without a token."));
  const list = paged("/v1/tenants", {}, "Tenants, by name", [
    {name: "Tenant", kind: "key", of: ({name}) => name},
    {name: "Live timers", of: ({pending, limits}) => usedOf(pending, limits.pending_max)},
    {name: "Due and waiting", kind: "number", of: ({ready}) => number(ready)},
    {name: "Oldest", of: ({oldest}) => oldest && when(oldest)},
    {name: "Rate", of: ({limits}) => rateOf(limits)},
    {name: "Refused for the rate", kind: "number", of: ({rate_refused: refused}) => number(refused)},
    {name: "Body", kind: "number", of: ({limits}) => limits.body_bytes_max && bytes(limits.body_bytes_max)},
    {name: "Batch", kind: "number", of: ({limits}) => limits.batch_bytes_max && bytes(limits.batch_bytes_max)},
  ], signal);
  content.append(list.place, curl(curlOf("GET", "/v1/tenants")));
  await list.load();
  follow(context, {load: list.load, every: READ_AGAIN_MS});
}
