// The outcome of a delivery, and the life line of a timer: created, changed, each attempt, over.

import {get, query} from "./api.js";
import {duration, h, table, when} from "./parts.js";

export const outcomeOf = ({outcome, status}) => h("span", {class: outcome === "done" ? "good" : "bad"}, status ? `${outcome}, ${status}` : outcome);

/** How long the request took; a hint says what the time before went to. */
export function tookOf({ms: {delivery, ...before}}) {
  const parts = Object.entries(before).map(([name, value]) => `${name.replaceAll("_", " ")} ${duration(value)}`);
  return h("span", {title: parts.join(", ") || undefined}, duration(delivery));
}

const ROWS = 50;
const isOver = ({state}) => ["fired", "cancelled", "dead"].includes(state);

/** What is known of a timer's life, also of one that is not kept any more: of(timer) shows it. */
export async function lifeLine(timer, signal) {
  const {deliveries, next} = await get(`/v1/deliveries${query({timer, limit: ROWS})}`, {signal}).catch(() => ({deliveries: []}));
  const attempts = deliveries.map((row) => ({
    id: row.id, at: row.at, what: [`attempt ${row.attempt}: `, outcomeOf(row)], took: tookOf(row), error: row.error}));
  const of = (shown) => h("div", {}, h("h2", {}, "Life"), table("What happened to it, the newest first", [
    {name: "Time", of: ({at}) => when(at)},
    {name: "What", of: ({what}) => h("span", {}, what)},
    {name: "Took", kind: "number", of: ({took}) => took},
    {name: "Error", kind: "break", of: ({error}) => error},
  ], [
    shown && isOver(shown) && shown.ended && {id: "end", at: shown.ended, what: shown.state},
    ...attempts,
    shown && {id: "created", at: shown.created, what: "created"}].filter(Boolean)),
  next ? h("p", {}, h("a", {href: `#/deliveries${query({timer})}`}, "All its deliveries")) : "");
  return {isKnown: deliveries.length > 0, of};
}
