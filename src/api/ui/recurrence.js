// Schedules in words: "every weekday at 02:30, Europe/Berlin". A form that has no short words is shown as it is.

import {h} from "./element.js";
import {dateOf} from "./times.js";

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const NAMED = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * SUN", "@monthly": "0 0 1 * *",
               "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"};
const TIMES_MAX = 4; // of a day that are listed
const UNITS = {w: "week", d: "day", h: "hour", m: "minute", s: "second", ms: "millisecond"};

const listed = (items) => (items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`);
const two = (value) => String(value).padStart(2, "0");
const counted = (count, noun) => (count === 1 ? `every ${noun}` : `every ${count} ${noun}s`);
const nth = (value) => `${value}${value % 100 > 10 && value % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][value % 10] ?? "th"}`;

/** A field of an expression: its values, and the step if it is one over all of them; null if it has another form. */
function fieldOf(text, low, high, names = []) {
  if (text === "*" || text === "?") return {isAll: true};
  const step = /^\*\/(\d+)$/.exec(text);
  if (step) return {step: Number(step[1]), isStarred: true, values: range(low, high, Number(step[1]))};
  const values = new Set();
  for (const part of text.split(",")) {
    const found = /^([^-/]+)(?:-([^-/]+))?(?:\/(\d+))?$/.exec(part);
    if (!found) return null;
    const [from, to] = [found[1], found[2] ?? (found[3] ? String(high) : found[1])].map((one) => valueOf(one, names, low));
    if (from === undefined || to === undefined) return null;
    for (const value of range(from, to < from ? to + names.length : to, Number(found[3] ?? 1))) values.add(names.length === 7 ? value % 7 : value);
  }
  return {values: [...values].sort((a, b) => a - b)};
}

function range(from, to, step) {
  const values = [];
  for (let value = from; value <= to && step > 0; value += step) values.push(value);
  return values;
}

function valueOf(text, names, low) {
  if (/^\d+$/.test(text)) return Number(text);
  const at = names.findIndex((name) => name.slice(0, 3).toUpperCase() === text.toUpperCase());
  return at < 0 ? undefined : at + low;
}

const isRun = (values) => values.length > 2 && values.every((value, i) => i === 0 || value === values[i - 1] + 1);

/** The hours of a field as a part of a day, such as " from 09:00 to 17:59". */
function during(hours, lastMinute) {
  if (hours.isAll) return "";
  const {values} = hours;
  if (values.length === 1 || isRun(values)) return ` from ${two(values[0])}:00 to ${two(values.at(-1))}:${two(lastMinute)}`;
  return null;
}

/** The times of a day: {at} if they are listed, {each} if they follow at an interval; null if neither is short. */
function timesOf(second, minute, hour) {
  const one = (field) => !field.isAll && !field.step && field.values.length === 1;
  if (second.isAll || second.step) {
    if (!minute.isAll) return null;
    const rest = during(hour, 59);
    const step = second.step ?? 1;
    return rest === null || 60 % step ? null : {each: counted(step, "second") + rest};
  }
  if (!one(second)) return null;
  const seconds = second.values[0] ? `:${two(second.values[0])}` : "";
  if (minute.isAll || minute.step) {
    const step = minute.step ?? 1, rest = during(hour, 59);
    if (rest === null || seconds) return null;
    return {each: counted(step, "minute") + (60 % step ? ", from the start of each hour" : "") + rest};
  }
  if (hour.isAll || hour.step || isRun(hour.values)) {
    if (hour.step && 24 % hour.step) return null;
    const minutes = `:${minute.values.map(two).join(", :")}`;
    const each = counted(hour.step ?? 1, "hour");
    if (isRun(hour.values ?? []) && !hour.step)
      return one(minute) ? {each: `${each} from ${two(hour.values[0])}${minutes}${seconds} to ${two(hour.values.at(-1))}${minutes}${seconds}`} : null;
    if (minute.values.length > TIMES_MAX) return null;
    return {each: one(minute) && !minute.values[0] && !seconds ? each : seconds ? null : `${each} at ${listed(minute.values.map((value) => `:${two(value)}`))}`};
  }
  const times = hour.values.flatMap((h) => minute.values.map((m) => `${two(h)}:${two(m)}${seconds}`));
  return times.length > TIMES_MAX ? null : {at: listed(times)};
}

/** Days of the week: {every} begins a sentence, {on} ends one. */
function weekdaysOf(text) {
  const special = /^([A-Za-z]{3}|[0-7])(?:#([1-5])|L)$/.exec(text);
  if (special) {
    const day = DAYS[valueOf(special[1], DAYS, 0) % 7];
    const which = special[2] ? ["first", "second", "third", "fourth", "fifth"][special[2] - 1] : "last";
    return day && {every: `on the ${which} ${day} of`, on: `on the ${which} ${day} of`, isOfMonth: true};
  }
  const field = fieldOf(text, 0, 6, DAYS);
  if (!field || field.step) return null;
  if (field.isAll || field.values.length === 7) return {isAll: true};
  const days = [...field.values.filter((day) => day), ...field.values.filter((day) => !day)]; // Sunday is last
  const key = days.join("");
  if (key === "12345") return {every: "every weekday", on: "on weekdays"};
  if (key === "60") return {every: "on Saturdays and Sundays", on: "on Saturdays and Sundays"};
  if (isRun(days)) return {every: `every day from ${DAYS[days[0]]} to ${DAYS[days.at(-1)]}`, on: `from ${DAYS[days[0]]} to ${DAYS[days.at(-1)]}`};
  return {every: `every ${listed(days.map((day) => DAYS[day]))}`, on: `on ${listed(days.map((day) => `${DAYS[day]}s`))}`};
}

/** Days of the month, as "on the 1st and 15th of". */
function monthdaysOf(text) {
  if (text === "L") return {every: "on the last day of"};
  if (text === "LW") return {every: "on the last weekday of"};
  const before = /^L-(\d+)$/.exec(text), near = /^(\d+)W$/.exec(text);
  if (before) return {every: `${before[1] === "1" ? "a day" : `${before[1]} days`} before the last day of`};
  if (near) return {every: `on the weekday nearest to the ${nth(Number(near[1]))} of`};
  const field = fieldOf(text, 1, 31);
  if (!field || field.step) return null;
  if (field.isAll) return {isAll: true};
  if (isRun(field.values)) return {every: `from the ${nth(field.values[0])} to the ${nth(field.values.at(-1))} of`};
  return field.values.length > TIMES_MAX ? null : {every: `on the ${listed(field.values.map(nth))} of`, values: field.values};
}

function monthsOf(text) {
  const field = fieldOf(text, 1, 12, MONTHS);
  if (!field || field.isAll) return field;
  if (isRun(field.values)) return {...field, name: `${MONTHS[field.values[0] - 1]} to ${MONTHS[field.values.at(-1) - 1]}`};
  return field.values.length > TIMES_MAX ? null : {...field, name: listed(field.values.map((month) => MONTHS[month - 1]))};
}

/** The days on which it fires: what comes before times that are listed, and behind an interval; null if they are not short. */
function daysOf(dayText, monthText, weekText) {
  const day = monthdaysOf(dayText), month = monthsOf(monthText), week = weekdaysOf(weekText);
  if (!day || !month || !week || (!day.isAll && !week.isAll)) return null;
  const inMonths = month.isAll ? "" : ` in ${month.name}`;
  const ofMonths = month.isAll ? " every month" : ` ${month.name}`;
  if (!day.isAll) {
    if (day.values?.length === 1 && month.values?.length === 1) {
      const date = `${day.values[0]} ${MONTHS[month.values[0] - 1]}`;
      return {before: `every year on ${date}`, behind: ` on ${date}`};
    }
    return {before: day.every + ofMonths, behind: ` ${day.every}${ofMonths}`};
  }
  if (week.isOfMonth) return {before: week.every + ofMonths, behind: ` ${week.on}${ofMonths}`};
  if (!week.isAll) return {before: week.every + inMonths, behind: ` ${week.on}${inMonths}`};
  return {before: `every day${inMonths}`, behind: inMonths};
}

/** A cron expression in words; null if it has none that are short. */
export function cronWords(expression) {
  const given = expression.trim();
  const fields = (NAMED[given.toLowerCase()] ?? given).split(/\s+/);
  if (fields.length === 5) fields.unshift("0");
  if (fields.length !== 6) return null;
  const [second, minute, hour] = [fieldOf(fields[0], 0, 59), fieldOf(fields[1], 0, 59), fieldOf(fields[2], 0, 23)];
  const times = second && minute && hour && timesOf(second, minute, hour), days = daysOf(...fields.slice(3));
  if (!times || !days) return null;
  if (times.at) return `${days.before} at ${times.at}`;
  return times.each && times.each + days.behind;
}

/** An interval in words, such as "every 1 hour 30 minutes"; `every` is a duration of the API. */
export function everyWords(every) {
  const parts = [...String(every).matchAll(/(\d+)(ms|[wdhms])/g)].map(([, count, unit]) => [Number(count), UNITS[unit]]);
  if (!parts.length) return null;
  if (parts.length === 1) return counted(...parts[0]);
  return `every ${parts.map(([count, unit]) => `${count} ${unit}${count === 1 ? "" : "s"}`).join(" ")}`;
}

/** An entry of `except` or `only` in words; one of another form as it is. */
function datesWords(entry) {
  const calendar = /^calendar:(.+)$/.exec(entry);
  if (calendar) return `calendar ${calendar[1]}`;
  const days = /^[A-Z]{3}(-[A-Z]{3})?$/i.test(entry) && weekdaysOf(entry);
  return days?.on?.replace(/^on /, "") ?? entry.replace("/", " to ");
}

/** On which dates a schedule does not fire, and what becomes of its firings there. */
function holidayWords({except = [], only = [], on_holiday: move}) {
  const moved = {next_workday: "moved to the next permitted day", previous_workday: "moved to the permitted day before"}[move];
  const said = (entries) => listed(entries.flatMap((entry) => datesWords(entry).split(" and ")));
  return [except.length && `except ${said(except)}`, only.length && `only ${said(only)}`, moved];
}

const OVERLAPS = {skip: "skipped while the one before is not over", allow: "also while the one before is not over"};

/** The schedule of a timer in words, with its zone, the dates that it leaves out, and its end. */
export function scheduleWords(schedule) {
  const {cron, every, timezone, until, count, overlap} = schedule;
  if (!cron && !every) return undefined;
  const rule = cron ? cronWords(cron) ?? `by ${cron}` : everyWords(every) ?? `every ${every}`;
  const dates = holidayWords(schedule);
  return [rule, (cron || dates.some(Boolean)) && (timezone || "UTC"), ...dates, OVERLAPS[overlap], count && `${count.toLocaleString("en")} times in all`, until && `until ${dateOf(until, timezone)}`]
    .filter(Boolean).join(", ");
}

/** The parameters of a preview for fields of a schedule, whose lists have commas there. */
export function previewOf({except, only, ...rest}) {
  const {cron, every, at, timezone, dst, until, on_holiday: move, after, n} = rest;
  return {cron, every, at, timezone, dst, until, on_holiday: move, after, n, except: except?.join(), only: only?.join()};
}

const SKIPPED_SHOWN = 10;

/** The dates that a preview leaves out or moves, and why; nothing if there are none. */
export function skippedOf(skipped = []) {
  if (!skipped.length) return [];
  const more = skipped.length - SKIPPED_SHOWN;
  return [h("p", {}, "Left out or moved:"), h("ul", {}, skipped.slice(0, SKIPPED_SHOWN).map(({date, reason}) => h("li", {}, `${date}: ${reason}`)),
    more > 0 ? h("li", {}, `${more.toLocaleString("en")} more`) : "")];
}
