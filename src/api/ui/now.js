// Whether timers are on time, and what the daemon does: its past as charts, rates and lateness of the last seconds, from
// /metrics, and the latest events.

import {ProblemError, get, text} from "./api.js";
import {cluster} from "./cluster.js";
import {dataOf, follow} from "./live.js";
import {patch} from "./morph.js";
import {bytes, duration, h, line, message, number, table, when, words} from "./parts.js";
import {past} from "./past.js";

const PERIOD_MS = 1000;
const KEPT = 120; // values in a line
const LATELY = 10; // periods that a value of a line of lateness covers
const EVENTS_SHOWN = 8;
const LATE_MS = 1000; // beyond this, timers are not on time

/** The samples of the text format: a map of name and labels to the value. */
export function parse(text) {
  const samples = new Map();
  for (const row of text.split("\n")) {
    const end = row.lastIndexOf(" ");
    if (row && row[0] !== "#" && end > 0) samples.set(row.slice(0, end), Number(row.slice(end + 1)));
  }
  return samples;
}

/** The bound in seconds that the share of what came between two states of a histogram stays below; null: nothing came. */
export function quantile(name, labels, share, before, after) {
  const buckets = [];
  for (const [key, value] of after) {
    if (!key.startsWith(`${name}_bucket{`) || !key.includes(labels)) continue;
    const bound = /le="([^"]+)"/.exec(key)[1];
    buckets.push([bound === "+Inf" ? Infinity : Number(bound), value - (before.get(key) ?? 0)]);
  }
  buckets.sort((a, b) => a[0] - b[0]);
  const total = buckets.at(-1)?.[1] ?? 0;
  if (!total) return null;
  return buckets.find(([, count]) => count >= share * total)[0];
}

// Each with its metric, and the page that has more of it.
const rates = [
  ["Created", "tickwheel_timers_created_total"], ["Fired", "tickwheel_timers_fired_total"],
  ["Cancelled", "tickwheel_timers_cancelled_total"],
  ["Failed, to be retried", "tickwheel_attempts_failed_total", "deliveries?outcome=failed"],
  ["Dead", "tickwheel_timers_dead_total", "dead"],
];
const waitsFor = (samples, ...kinds) => kinds.reduce((sum, kind) => sum + (samples.get(`tickwheel_timers_ready{kind="${kind}"}`) ?? 0), 0);
const levels = [ // a figure that is no metric has what makes it of the samples
  ["Pending", "tickwheel_timers_pending", "timers"], ["In flight", "tickwheel_deliveries_inflight"],
  ["Due, to be sent", "to-send", "targets", (samples) => waitsFor(samples, "webhook", "broker", "catch_up")],
  ["Due, for workers", "to-lease", "queues", (samples) => waitsFor(samples, "queue")], ["Dead letters", "tickwheel_dead_letters", "dead"],
  ["Breakers open", "tickwheel_breakers_open", "targets"], ["Sources not read", "tickwheel_sources_still"],
  ["Memory", "process_resident_memory_bytes"], ["Disk", "tickwheel_disk_bytes"], ["Free disk", "tickwheel_disk_free_bytes"],
];
// The daemon's own, and what holds deliveries back, which is shown while it does.
const stages = [["schedule", "to take it from the wheel"], ["queue", "to hand it to its sender"],
                ["transfer", "to start the request"]];
const held = [["retries", "held back by earlier attempts"], ["set_late", "due in the past when it was set"],
              ["down", "the daemon was not running"], ["put_back", "put back to disk for want of memory"],
              ["catch_up", "held back by the rate for what is overdue"], ["room", "held back by deliveries_max"],
              ["target_limit", "held back by the limit of its target"], ["breaker", "held back by a breaker"],
              ["rate", "held back by the rate of its target"], ["worker", "until a worker asked for it"],
              ["paused", "paused"], ["maintenance", "held back by maintenance"]];
const HELD_S = 0.001; // below this, nothing held it back

function card(name, page) {
  const value = h("div", {class: "value"}, "–");
  const place = h("div", {});
  const element = h("li", {class: "card", hidden: true}, h("div", {class: "name"}, page ? h("a", {href: `#/${page}`}, name) : name),
                    value, place);
  const values = [];
  return {element, add(at, shown) {
    values.push(at);
    if (values.length > KEPT) values.shift();
    value.textContent = shown;
    element.hidden = values.every((one) => one === 0);
    patch(place, [line(`${name}, the last ${values.length} seconds; now ${shown}`, values)]);
  }};
}

/** Cards below a head, while one of them is not zero. */
function cardsBelow(head, cards) {
  const element = h("section", {hidden: true}, h("h2", {}, head), h("ul", {class: "cards"}, cards.map((one) => one.element)));
  return {element, look() { element.hidden = cards.every((one) => one.element.hidden); }};
}

/** The lateness of what waits, in milliseconds; items that workers leave waiting are theirs. */
function overdueMs(samples) {
  let most = 0;
  for (const [key, value] of samples)
    if (key.startsWith("tickwheel_oldest_overdue_seconds{") && !/kind="(queue|catch_up)"/.test(key))
      most = Math.max(most, 1000 * value);
  return most;
}

/** Where more is to be seen of what a line of the verdict names; by the reason. */
function linkOf({for: reason, target = ""}) {
  if (target.startsWith("queue:")) return [`#/queues/${encodeURIComponent(target.slice(6))}`, target];
  if (target) return ["#/targets", target];
  return reason === "maintenance" ? null : ["#/timers", "timers"];
}

/** Shows whether timers are on time, and below that who waits for what: `told` is the daemon's verdict, if there is one. */
function verdict(place, waits, samples, told) {
  const lateMs = overdueMs(samples), isReady = samples.get("tickwheel_ready") === 1;
  const isGood = isReady && lateMs <= LATE_MS;
  const shown = isGood ? "On time" : isReady ? `Late: a due timer waits for ${duration(lateMs)}`
    : `Not ready${told?.reason ? `: ${told.reason}` : ""}`;
  if (place.textContent !== shown) // a screen reader tells changes only
    place.replaceChildren(isReady && !isGood ? h("a", {class: "bad", href: "#/timers"}, shown) : shown);
  place.className = `value ${isGood ? "good" : "bad"}`;
  patch(waits, (told?.waiting ?? []).map((one) => {
    const link = linkOf(one);
    return h("li", {"data-key": `${one.for} ${one.tenant} ${one.target}`}, words(one.tenant ? `${one.tenant}: ${one.text}` : one.text), " ",
             link && h("a", {href: link[0], "aria-label": `Show ${link[1]}`}, "Show"));
  }));
  waits.hidden = !told?.waiting.length;
}

const bound = (seconds) => (seconds === null ? "–" : seconds === Infinity ? "over the scale" :
                            seconds < 0.001 ? "< 1ms" : `≤ ${duration(1000 * seconds)}`);

/** Shows the lateness of the last minute by stage, and how its p99 moved. */
function lateness(place) {
  const rows = [["in all", "tickwheel_delivery_lateness_seconds", ""],
                ...[...stages, ...held].map(([stage, what]) => [what, "tickwheel_lateness_seconds", `stage="${stage}"`])]
    .map(([what, name, labels], at) => ({what, name, labels, values: [], isHeld: at > stages.length}));
  return (history) => {
    const after = history.at(-1).samples;
    const lately = history.at(-1 - LATELY) ?? history[0];
    for (const {name, labels, values} of rows) {
      values.push(Math.min(quantile(name, labels, 0.99, lately.samples, after) ?? 0, 1000));
      if (values.length > KEPT) values.shift();
    }
    patch(place, [table("Of what was delivered in the last minute", [
      {name: "Time", of: ({what}) => what},
      ...[0.5, 0.99].map((share) => ({name: `p${100 * share}`, kind: "number",
        of: ({name, labels}) => bound(quantile(name, labels, share, history[0].samples, after))})),
      {name: "p99, the last 2 minutes", kind: "line", of: ({what, values}) => line(`p99 ${what}, the last ${values.length} seconds`, values)},
    ], rows.filter(({isHeld, values}) => !isHeld || values.some((value) => value > HELD_S)), {keyOf: ({what}) => what})]);
  };
}

/** The latest events, shown at most once a period; their texts are parsed then. */
function latest(context) {
  const place = h("div", {});
  let events = [], timer = 0;
  const show = () => {
    timer = 0;
    if (context.signal.aborted) return;
    patch(place, [h("h2", {}, "Latest events"), table("What happened, the newest first", [
      {name: "Time", of: ({at}) => when(at)},
      {name: "Event", of: ({type}) => type},
      {name: "Timer", of: ({timer: about}) => about && h("a", {href: `#/timers/${about.id}`, class: "mono"}, about.id)},
      {name: "Key", kind: "break", of: ({timer: about}) => about?.key},
      {name: "Target or queue", kind: "break", of: ({timer: about, name}) => about?.target ?? name},
    ], events.map(dataOf).reverse(), {
      empty: "nothing yet", keyOf: ({at, type, timer: about, name}) => `${at} ${type} ${about?.id ?? name} ${about?.version}`})]);
  };
  follow(context, {take(more) {
    if (!more.length) return;
    events = [...events, ...more.slice(-EVENTS_SHOWN)].slice(-EVENTS_SHOWN);
    timer ||= setTimeout(show, PERIOD_MS);
  }});
  show();
  return place;
}

/** What a token without the scope admin sees in place of the figures. */
const withoutFigures = () => h("p", {class: "message done"}, "This page shows the figures of the whole daemon, which are for tokens with the scope admin. Yours shows: ",
  [["timers", "Timers"], ["schedules", "Schedules"], ["queues", "Queues"], ["targets", "Targets"], ["deliveries", "Deliveries"], ["dead", "Dead letters"]]
    .flatMap(([path, name], at) => [at ? ", " : "", h("a", {href: `#/${path}`}, name)]), ".");

export async function now(context) {
  const {content, signal} = context;
  const state = h("p", {class: "value", role: "status"}, "…"), waits = h("ul", {class: "waits", hidden: true});
  const cards = new Map([...rates, ...levels].map(([name, key, page]) => [key, card(name, page)]));
  const sections = [["A second", rates], ["Now", levels]].map(([head, rows]) => (
    cardsBelow(head, rows.map(([, key]) => cards.get(key)))));
  const late = h("div", {});
  const events = latest(context);
  const showLateness = lateness(late);
  const history = []; // of the last minute
  const look = async () => {
    const [figures, told] = await Promise.all([text("/metrics", {signal}), get("/v1/verdict", {signal}).catch(() => null)]);
    const samples = parse(figures);
    const last = history.at(-1);
    const at = performance.now();
    for (const [, key] of rates)
      if (last) {
        const rate = Math.max(0, (1000 * ((samples.get(key) ?? 0) - (last.samples.get(key) ?? 0))) / (at - last.at));
        cards.get(key).add(rate, rate < 10 && rate % 1 ? rate.toFixed(1) : number(rate));
      }
    for (const [, key, , of = () => samples.get(key)] of levels)
      cards.get(key).add(of(samples) ?? 0, (key.endsWith("_bytes") ? bytes : number)(of(samples)));
    history.push({at, samples});
    if (history.length > 60) history.shift();
    for (const section of sections) section.look();
    verdict(state, waits, samples, told);
    showLateness(history);
  };
  try {
    await look();
  } catch (error) {
    if (signal.aborted || !(error instanceof ProblemError) || error.status >= 500) throw error; // the frame tries again
    // The token may see no figures, but events perhaps.
    content.append(error.status === 403 ? withoutFigures() : message(error.message), events);
    return;
  }
  content.append(state, waits, past(context), ...sections.map(({element}) => element),
                 h("h2", {}, "Lateness"), late, cluster(context), events);
  while (!signal.aborted) {
    await new Promise((resolve) => { setTimeout(resolve, PERIOD_MS); });
    try {
      if (!document.hidden && !signal.aborted) await look();
    } catch (error) {
      if (signal.aborted) return;
      state.textContent = error instanceof ProblemError ? error.message : "The daemon is not reachable";
      state.className = "value bad";
    }
  }
}
