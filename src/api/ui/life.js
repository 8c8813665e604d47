// The outcome of a delivery, and the life line of a timer: created, changed, each attempt, over or due.

import {get, query} from "./api.js";
import {duration, h, number, when, words} from "./parts.js";

/** How a delivery ended; one that failed leads to its timer. */
export function outcomeOf({outcome, status, timer}) {
  const text = status ? `${outcome}, ${status}` : outcome;
  return outcome === "done" ? h("span", {class: "good"}, text) : h("a", {class: "bad", href: `#/timers/${timer}`}, text);
}

/** How long the request took; a hint says what the time before went to. */
export function tookOf({ms: {delivery, ...before}}) {
  const parts = Object.entries(before).map(([name, value]) => `${name.replaceAll("_", " ")} ${duration(value)}`);
  return h("span", {title: parts.join(", ") || undefined}, duration(delivery));
}

const ROWS = 20;
export const isOver = ({state}) => ["fired", "cancelled", "dead"].includes(state);

const attemptOf = (row) => ({
  id: row.id, at: row.at, kind: row.outcome === "done" ? "fired" : "dead",
  what: [`attempt ${row.attempt}: `, h("span", {class: row.outcome === "done" ? "good" : ""}, row.status ? `${row.outcome}, ${row.status}` : row.outcome),
         ", took ", tookOf(row)],
  more: row.error});

/** Each change raises the version, and so does each attempt: before the first one it counts the changes. */
function changesOf({version, attempts, schedule, state}) {
  if (version < 2 || attempts || schedule || !["scheduled", "paused"].includes(state)) return undefined;
  return {id: "changes", what: [version === 2 ? "changed once" : `changed ${number(version - 1)} times`], more: "When is not kept."};
}

/** What comes next, or has come last; `next` is the time of the next attempt, if it is known. */
function endOf(timer, next) {
  if (isOver(timer)) return timer.ended && {id: "end", at: timer.ended, what: [timer.state], kind: timer.state};
  if (timer.state === "paused") return {id: "paused", at: timer.paused?.since, what: ["paused"], more: timer.paused?.note};
  if (timer.state === "retrying") return {id: "due", at: next, kind: "next", what: ["next attempt"]};
  return {id: "due", at: timer.due, kind: "next", what: [timer.state === "delivering" ? "is being delivered" : "due"]};
}

function entry({id, at, what, more, kind = ""}, zone) {
  return h("li", {class: kind, "data-key": id}, h("div", {}, h("span", {class: "what"}, what), at ? [" ", when(at, zone)] : ""),
           more ? h("div", {class: "dim"}, words(more)) : "");
}

/** What is known of a timer's life, also of one that is not kept any more: of(timer, next) shows it. */
export async function lifeLine(timer, signal) {
  const {deliveries, next} = await get(`/v1/deliveries${query({timer, limit: ROWS})}`, {signal}).catch(() => ({deliveries: []}));
  const attempts = deliveries.map(attemptOf).reverse();
  const earlier = next && {id: "earlier", what: [h("a", {href: `#/deliveries${query({timer})}`}, "earlier attempts")]};
  const of = (shown, after) => h("section", {}, h("h2", {}, "Life"), h("ol", {class: "life"}, [
    shown && {id: "created", at: shown.created, what: ["created"]},
    shown && changesOf(shown), earlier, ...attempts, shown && endOf(shown, after),
  ].filter(Boolean).map((one) => entry(one, shown?.schedule?.timezone))));
  return {isKnown: deliveries.length > 0, key: deliveries[0]?.key, of};
}
