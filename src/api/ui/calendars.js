// Calendars of holidays: their coming days, and those that the tenant sets, from a file or a list of dates.

import {call, curlOf, curlOfFile, get, mayChange} from "./api.js";
import {patch} from "./morph.js";
import {action, ask, curl, field, h, number, table, tell, when, words} from "./parts.js";
import {nowMs} from "./times.js";

const pathOf = (name) => `/v1/calendars/${encodeURIComponent(name)}`;
const DAY_MS = 86400000;
const YEAR_MS = 366 * DAY_MS;
const TEXT_MAX = 65536; // bytes, as the daemon takes of a tenant

/** The dates that one typed, a line each with their name behind them, as the API takes them. */
export function datesIn(text) {
  if (!text.trim()) throw new Error("Choose a file, or type dates.");
  return text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const found = /^(\d{4}-\d\d-\d\d(?:\/\d{4}-\d\d-\d\d)?)(?:\s+(.*))?$/.exec(line);
    if (!found) throw new Error(`${line} begins with no date: 2026-12-25 Christmas Day, or 2026-12-24/2027-01-01 is one.`);
    return found[2] ? {date: found[1], name: found[2]} : found[1];
  });
}

/** What a form has of a calendar: the text of a file, which is iCalendar or JSON, or the list that one typed. */
async function contentOf({file, dates}) {
  if (!file?.name) return {body: datesIn(dates)};
  if (file.size > TEXT_MAX) throw new Error(`${file.name} has ${number(file.size)} bytes; the calendars of a tenant have at most ${number(TEXT_MAX)}.`);
  const plain = await file.text();
  return {plain, headers: {"Content-Type": typeOf(file)}};
}

const typeOf = ({name}) => (/\.json$/i.test(name) ? "application/json" : "text/calendar");

/** Asks for the days of a calendar; of a new one, or of one that they replace. */
function set(known, done) {
  const nameOf = (given) => known?.name ?? given.name;
  const isShared = known?.scope === "all";
  ask({
    title: known ? `Replace the calendar ${known.name}` : "New calendar", label: known ? "Replace it" : "Set it",
    text: isShared ? "Your schedules use the new days in place of those of the settings." : "Schedules that name it, as calendar:NAME in except or only, use it within two minutes.",
    fields: [!known && field("Name", "name", {required: true, maxlength: 63, pattern: "[A-Za-z0-9_\\-][A-Za-z0-9._\\-]*", placeholder: "de"}),
             field("File, iCalendar (.ics) or JSON", "file", {type: "file", accept: ".ics,.json,text/calendar,application/json"}),
             field("Or dates, a line each", "dates", {rows: 5, spellcheck: "false", placeholder: "2026-12-25 Christmas Day\n2026-12-24/2027-01-01"})],
    command: (given) => given.file?.name ? curlOfFile("PUT", pathOf(nameOf(given)), typeOf(given.file), given.file.name)
                                         : curlOf("PUT", pathOf(nameOf(given)), datesIn(given.dates)),
    run: async (given) => {
      await call("PUT", pathOf(nameOf(given)), await contentOf(given));
      await done(`The calendar ${nameOf(given)} is set.`);
    },
  });
}

function remove({name}, done) {
  ask({title: `Delete the calendar ${name}?`, text: "The next firing of a schedule that names it waits until it is set again.", label: "Delete it",
       kind: "danger", command: () => curlOf("DELETE", pathOf(name)),
       run: () => call("DELETE", pathOf(name)).then(() => done(`The calendar ${name} is deleted.`))});
}

function buttonsOf(calendar, done) {
  return h("div", {class: "buttons"}, action("Replace", () => set(calendar, done), "plain"),
           calendar.scope === "tenant" ? action("Delete", () => remove(calendar, done), "danger") : "");
}

const scopes = {tenant: "your tenant", all: "all tenants, by the settings"};

export async function calendars({content, signal}) {
  const may = await mayChange();
  const place = h("div", {});
  async function load() {
    const {calendars: rows} = await get("/v1/calendars", {signal});
    patch(place, [
      may ? h("div", {class: "buttons"}, action("New calendar", () => set(undefined, done), "plain")) : "",
      table("Calendars of holidays", [
        {name: "Calendar", kind: "key", of: ({name}) => h("a", {href: `#/calendars/${encodeURIComponent(name)}`}, words(name))},
        {name: "For", of: ({scope}) => scopes[scope] ?? scope},
        {name: "Set", of: ({since}) => since && when(since)},
        may && {name: "Do", of: (calendar) => buttonsOf(calendar, done)},
      ], rows, {empty: "none. A schedule names one as calendar:NAME, in except or only"}), curl(curlOf("GET", "/v1/calendars"))]);
  }
  async function done(told) {
    await load();
    tell(content, told);
  }
  content.append(place);
  await load();
}

const DATE = {timeZone: "UTC", weekday: "short", day: "numeric", month: "short", year: "numeric"};
const dateOf = (text) => new Intl.DateTimeFormat("en-GB", DATE).format(Date.parse(text)).replace(",", "");

/** A span of days as the API names it: its first and its last one, and their number. */
function spanOf({date, name}) {
  const [first, last = first] = date.split("/");
  return {first, last, name, days: Math.round((Date.parse(last) - Date.parse(first)) / DAY_MS) + 1};
}

export async function calendar({content, rest: [name], setTitle, signal}) {
  const may = await mayChange();
  const place = h("div", {});
  setTitle(`Calendar ${name}`);
  async function load() {
    const found = await get(pathOf(name), {signal});
    const spans = found.days.map(spanOf), end = nowMs() + YEAR_MS;
    const near = spans.filter(({first}) => Date.parse(first) <= end);
    patch(place, [
      h("p", {}, `For ${scopes[found.scope] ?? found.scope}`, found.since ? [", set ", when(found.since)] : "", "."),
      may ? buttonsOf(found, done) : "",
      table("Its days in the coming year", [
        {name: "Date", kind: "key", of: ({first, last}) => (first === last ? dateOf(first) : `${dateOf(first)} to ${dateOf(last)}`)},
        {name: "Days", kind: "number", of: ({days}) => number(days)},
        {name: "Why", kind: "break", of: (span) => span.name},
      ], near, {empty: "none", keyOf: ({first}) => first}),
      near.length < spans.length ? h("p", {class: "hint"}, "It has more, which are later.") : "",
      curl(curlOf("GET", pathOf(name)))]);
  }
  async function done(told) {
    const isLeft = await load().then(() => true, (error) => {
      if (error.status === 404) location.hash = "#/calendars";
      else throw error;
    });
    if (isLeft) tell(content, told);
  }
  content.append(place);
  await load();
}
