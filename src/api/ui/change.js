// What a form has of a timer, as the fields of a call: the body of a create, and the merge patch of a change.

import {parse, stringify} from "./exact.js";
import {limitsIn} from "./limits.js";

function jsonOf(text) {
  try {
    return parse(text);
  } catch (error) {
    throw new Error(`The payload is no JSON: ${error.message}`);
  }
}

/** A part of a line of labels or events. It is in quotes, as a string of JSON, where it would be read as another. */
function part(text, separators) {
  const isPlain = text && text === text.trim() && ![...text].some((one) => one < " " || one === '"' || separators.includes(one));
  return isPlain ? text : JSON.stringify(text);
}

/** The parts of a line: of each item a list, which `inner` separates; items are separated by a comma. */
function partsIn(line, inner) {
  const items = [[]];
  let rest = line.trimStart();
  while (rest) {
    const item = items.at(-1), ends = item.length || !inner ? "," : `${inner},`;
    const quoted = /^"[^"\\]*(?:\\.[^"\\]*)*"\s*/.exec(rest);
    let size = 0;
    if (quoted) size = quoted[0].length;
    else while (size < rest.length && !ends.includes(rest[size])) size++;
    if (size < rest.length && !ends.includes(rest[size])) throw new Error(`There is more behind ${quoted[0].trim()}.`);
    try {
      item.push(quoted ? JSON.parse(quoted[0]) : rest.slice(0, size).trim());
    } catch {
      throw new Error(`${quoted[0].trim()} is no string of JSON.`);
    }
    if (rest[size] === ",") items.push([]);
    rest = rest.slice(size + 1).trimStart();
  }
  return items.filter((item) => item.length && item.some((one) => one !== ""));
}

/** Labels in one line, as labelsIn reads them. */
export function labelsOf(timer) {
  return Object.entries(timer.labels ?? {}).map(([name, value]) => `${part(name, ",:")}:${part(value, ",")}`).join(", ");
}

function labelsIn(text) {
  return new Map(partsIn(text, ":").map(([name, value]) => [name, value ?? ""]));
}

/** Events in one line, as bodyOf reads them. */
export function eventsOf(timer) {
  return (timer.watch ?? []).map((event) => part(event, ",")).join(", ");
}

/** The payload as one edits it; that of `timer` is as parse reads it. */
export function payloadText(timer) {
  return timer.payload === undefined ? "" : stringify(timer.payload, "  ");
}

/** The target of a timer as one edits it; several have a blank between them. */
export function targetOf(timer) {
  return timer.target ?? (timer.targets ?? []).map(({target}) => target).join(" ");
}

function targetIn(text) {
  const targets = text.trim().split(/\s+/);
  return targets.length > 1 ? {targets} : {target: targets[0]};
}

const listIn = (text = "") => text.split(/[\s,]+/).filter(Boolean);

/** What a form has of a schedule. Dates have a zone, whatever the rule is. */
export function scheduleIn(given) {
  const body = {[given.kind]: given.time};
  if (!["cron", "every"].includes(given.kind)) return body;
  const [except, only] = [listIn(given.except), listIn(given.only)];
  if (except.length) body.except = except;
  if (only.length) body.only = only;
  if (given.on_holiday && (except.length || only.length)) body.on_holiday = given.on_holiday;
  if (given.timezone && (given.kind === "cron" || except.length || only.length)) body.timezone = given.timezone;
  if (given.overlap) body.overlap = given.overlap;
  return body;
}

/** The body of POST /v1/timers for what the form holds. */
export function bodyOf(given) {
  const body = {...targetIn(given.target), ...scheduleIn(given)};
  if (given.flow_key) body.flow = {key: given.flow_key, ...limitsIn(given)};
  if (given.key) body.key = given.key;
  if (given.payload.trim()) body.payload = jsonOf(given.payload);
  if (given.labels.trim()) body.labels = labelsIn(given.labels);
  if (given.watch.trim()) body.watch = partsIn(given.watch, "").map(([event]) => event);
  return body;
}

/** The merge patch (RFC 7396) that makes `to` of `from`, both as parse reads them; undefined when they are equal. */
export function mergePatch(from, to) {
  if (stringify(from) === stringify(to)) return undefined;
  if (!(to instanceof Map)) return to;
  const before = from instanceof Map ? from : new Map(), patch = new Map();
  for (const name of before.keys()) if (!to.has(name)) patch.set(name, null);
  for (const [name, value] of to) {
    if (value === null && before.get(name) !== null) throw new Error(`A change cannot set ${name} to null: that removes it.`);
    const one = mergePatch(before.get(name), value);
    if (one !== undefined) patch.set(name, one);
  }
  return patch;
}

/** The patch for what a form has of a timer: its fields that differ. */
export function changed(timer, {target, labels, payload}) {
  const patch = target.trim() === targetOf(timer) ? {} : targetIn(target);
  if (labels !== labelsOf(timer)) patch.labels = mergePatch(new Map(Object.entries(timer.labels ?? {})), labelsIn(labels));
  if (payload !== undefined && payload !== payloadText(timer))
    patch.payload = payload.trim() ? mergePatch(timer.payload, jsonOf(payload)) : null;
  const fields = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
  if (!Object.keys(fields).length) throw new Error("Nothing is changed.");
  return fields;
}
