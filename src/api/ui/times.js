// Points in time: in the browser's zone, in UTC or in the zone of their timer, as the reader chooses; and durations.

import {choose, chosen, h} from "./element.js";

/** The time zone of the browser, in which forms read times. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The zones to choose from, as options of a select. */
export const ZONES = [["browser", `Browser: ${zone}`], ["utc", "UTC"], ["timer", "Zone of each timer"]];
let choice = ZONES.some(([name]) => name === chosen("zone")) ? chosen("zone") : "browser";
const formats = new Map();

function formatOf(timeZone, options) {
  const key = `${timeZone} ${Object.keys(options)}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", {timeZone, ...options}));
  return formats.get(key);
}

/** Whether this browser knows a zone: that of a timer may be newer. */
function isKnown(timeZone) {
  try {
    return Boolean(formatOf(timeZone, {year: "numeric"}));
  } catch {
    return false;
  }
}

/** The zone in which to show a time; `own` is that of its timer, if it has one. */
function zoneFor(own) {
  if (choice === "utc") return "UTC";
  return choice === "timer" && own && isKnown(own) ? own : zone;
}

let virtual = null; // the time of a virtual clock, in milliseconds

/** Takes the time of a virtual clock, which stands; undefined if the clock is real. */
export function setClock(text) {
  virtual = text ? Date.parse(text) : null;
}

/** The time of timers, in milliseconds. */
export const nowMs = () => virtual ?? Date.now();

const DAY_MS = 86400000;
const FAR_MS = 10 * DAY_MS;
const DAY = {weekday: "short", day: "numeric", month: "short"};
const YEAR = {year: "numeric"};
const CLOCK = {hour: "2-digit", minute: "2-digit", second: "2-digit"};
const yearOf = (at, timeZone) => formatOf(timeZone, YEAR).format(at);
const dayOf = (at, timeZone) => formatOf(timeZone, DAY).format(at).replace(",", "");

/** A time in words: its clock alone today, with its day and weekday otherwise, and with its year in another one. */
export function dateOf(text, own) {
  const at = new Date(text), now = new Date(nowMs()), timeZone = zoneFor(own);
  const shown = formatOf(timeZone, timeZone === zone ? CLOCK : {...CLOCK, timeZoneName: "short"}).format(at);
  const isThisYear = yearOf(at, timeZone) === yearOf(now, timeZone);
  if (isThisYear && dayOf(at, timeZone) === dayOf(now, timeZone)) return shown;
  return `${dayOf(at, timeZone)}${isThisYear ? "" : ` ${yearOf(at, timeZone)}`}, ${shown}`;
}

/** The same time in each zone that matters, a line each: what the pointer shows. */
function zonesOf(text, own) {
  const at = new Date(text);
  const lines = [...new Set([zoneFor(own), zone, ...(own && isKnown(own) ? [own] : [])])].filter((one) => one !== "UTC")
    .map((timeZone) => `${dayOf(at, timeZone)} ${yearOf(at, timeZone)}, ${formatOf(timeZone, {...CLOCK, timeZoneName: "short"}).format(at)}, ${timeZone}`);
  return [...lines, `${dayOf(at, "UTC")}, ${text}, UTC`].join("\n");
}

/** A time in the chosen zone, with the parts that `options` of Intl.DateTimeFormat name. */
export const inZone = (at, options) => formatOf(zoneFor(), options).format(at);

/** What the chosen zone is behind UTC, in milliseconds, as far as axes need it. */
export const zoneOffsetMs = (at) => (choice === "utc" ? 0 : new Date(at).getTimezoneOffset() * 60000);

/** The clock of a time in the chosen zone, for the axis of a chart. */
export function clockOf(text, unit) {
  return formatOf(zoneFor(), unit === "second" ? CLOCK : {hour: "2-digit", minute: "2-digit"}).format(new Date(text));
}

/** The name of the chosen zone; times of timers that have none are the browser's. */
export const zoneName = () => zoneFor();

/** A duration as the API writes it, its two largest units. */
export function duration(ms) {
  if (ms === undefined || ms === null) return "–";
  const sign = ms < 0 ? "-" : "";
  ms = Math.abs(ms);
  if (ms < 1000) return `${sign}${Math.round(ms)}ms`;
  const parts = [["d", 86400000], ["h", 3600000], ["m", 60000], ["s", 1000]];
  const first = parts.findIndex(([, size]) => ms >= size);
  const [unit, size] = parts[first];
  const [next, nextSize] = parts[first + 1] ?? [];
  const whole = Math.floor(ms / size);
  const rest = nextSize ? Math.floor((ms % size) / nextSize) : 0;
  return `${sign}${whole}${unit}${rest ? `${rest}${next}` : ""}`;
}

const UNIT_MS = {w: 7 * DAY_MS, d: DAY_MS, h: 3600000, m: 60000, s: 1000};

/** The time that one typed, as the API reads it: a date with or without a time, in the browser's zone, or 2h and -2h from now. */
export function timeIn(text) {
  const given = text.trim();
  if (!given) return "";
  const distance = /^(-?)((?:\d+[wdhms])+)$/.exec(given);
  if (distance) {
    const ms = [...distance[2].matchAll(/(\d+)([wdhms])/g)].reduce((sum, [, count, unit]) => sum + count * UNIT_MS[unit], 0);
    return new Date(nowMs() + (distance[1] ? -ms : ms)).toISOString();
  }
  const at = /^\d{4}-\d\d-\d\d$/.test(given) ? new Date(`${given}T00:00`) : new Date(given);
  if (!/^\d{4}-/.test(given) || Number.isNaN(at.getTime())) throw new Error(`${given} is no time: 2026-11-20 23:59 or 2h is one.`);
  return at.toISOString();
}

function far(at) {
  let ms = at - nowMs();
  if (Math.abs(ms) < 1000) return "now";
  if (Math.abs(ms) > FAR_MS) ms -= ms % DAY_MS; // hours do not matter
  return ms >= 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`;
}

/** A point in time, and how far it is from now. `own` is the zone of its timer. */
export function when(text, own) {
  if (!text) return "–";
  return h("time", {datetime: text, title: zonesOf(text, own), "data-zone": own}, h("span", {class: "date"}, dateOf(text, own)), " ",
           h("span", {class: "dim"}, far(new Date(text))));
}

/** A point in time in a zone of its own, whatever the reader chose, and how far it is from now. */
export function whenIn(text, timeZone) {
  const own = isKnown(timeZone) ? timeZone : "UTC", at = new Date(text);
  return h("time", {datetime: text, title: zonesOf(text, own), "data-fixed": true},
    h("span", {class: "date"}, `${dayOf(at, own)} ${yearOf(at, own)}, ${formatOf(own, {...CLOCK, timeZoneName: "short"}).format(at)}`), " ",
    h("span", {class: "dim"}, far(at)));
}

function setText(element, text) {
  if (element.firstChild.nodeValue !== text) element.firstChild.nodeValue = text;
}

/** How far all shown points in time are from now. */
export function age() {
  for (const shown of document.querySelectorAll("time > .dim")) setText(shown, far(new Date(shown.parentElement.dateTime)));
}

export const zoneChoice = () => choice;

/** Shows all times in another of ZONES. */
export function setZone(name) {
  choice = name;
  choose("zone", name);
  for (const time of document.querySelectorAll("time:not([data-fixed])")) {
    setText(time.querySelector(".date"), dateOf(time.dateTime, time.dataset.zone));
    time.title = zonesOf(time.dateTime, time.dataset.zone);
  }
}
