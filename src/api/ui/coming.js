// What is due when: the forecast as bars, and the busiest times.

import {get, query} from "./api.js";
import {bars, field, form, h, number, table, when} from "./parts.js";
import {clockOf, zoneName} from "./times.js";

const ranges = {
  "minute": {unit: "second", count: 60, name: "the next minute"},
  "hour": {unit: "minute", count: 60, name: "the next hour"},
  "day": {unit: "minute", count: 1440, name: "the next day"},
};

/** A day has 1,440 minutes: more bars than a screen has room for, so ten minutes make a bar. */
function grouped(due, size) {
  const sums = [];
  due.forEach((count, i) => { sums[Math.floor(i / size)] = (sums[Math.floor(i / size)] ?? 0) + count; });
  return sums;
}

export async function coming({content, parameters, signal}) {
  const name = ranges[parameters.get("range")] ? parameters.get("range") : "hour";
  const range = ranges[name];
  const choose = field("Show", "range", {options: Object.keys(ranges).map((one) => [one, ranges[one].name])});
  choose.querySelector("select").value = name;
  choose.addEventListener("change", (event) => { location.hash = `#/upcoming?range=${event.target.value}`; });
  content.append(form({class: "row"}, () => undefined, choose));

  const forecast = await get(`/v1/forecast${query({unit: range.unit, count: range.count})}`, {signal});
  const size = forecast.due.length > 200 ? 10 : 1;
  const sums = grouped(forecast.due, size);
  const unitMs = (range.unit === "second" ? 1000 : 60000) * size;
  const startOf = (i) => new Date(Date.parse(forecast.from) + i * unitMs).toISOString();
  const total = forecast.due.reduce((sum, count) => sum + count, 0);
  content.append(
    h("p", {}, `${number(total)} timers are due in ${range.name}; ${number(forecast.overdue)} are overdue now.`,
      forecast.complete ? "" : ` More than ${number(forecast.rows_max)} rows lie ahead, so the forecast ends early.`,
      ` Times are those of ${zoneName()}.`),
    bars(`Timers due in ${range.name}: ${number(total)}`, sums, (i) => clockOf(startOf(i), range.unit)));
  const peaks = sums.map((count, i) => ({count, at: startOf(i)})).filter(({count}) => count)
    .sort((a, b) => b.count - a.count).slice(0, 5);
  const bar = size > 1 ? `${size} minutes` : range.unit;
  content.append(h("h2", {}, "Peaks"),
    h("p", {class: "hint"}, `Each bar counts the timers that are due within ${size > 1 ? bar : `one ${bar}`}; these are the highest. `,
      "Targets get them as they are due, unless a rate or a limit spreads them."),
    table("The busiest times", [
    {name: "Time", of: ({at}) => when(at)},
    {name: "Timers", kind: "number", of: ({count}) => number(count)},
    {name: "Whose", of: ({at}) => h("a", {href: `#/timers${query({
      due_after: at, due_before: new Date(Date.parse(at) + unitMs).toISOString()})}`}, "list them")},
  ], peaks, {empty: "nothing is due"}));
  if (peaks.length) await owners(content, peaks[0].at, unitMs, signal);
}

/** Who makes the highest peak, from a sample of it: the labels and the targets that come most often. */
async function owners(content, at, unitMs, signal) {
  const end = new Date(Date.parse(at) + unitMs).toISOString();
  const page = await get(`/v1/timers${query({due_after: at, due_before: end, limit: 1000})}`, {signal});
  const counts = new Map();
  for (const timer of page.timers)
    for (const name of [...(timer.targets ?? [timer]).map(({target}) => target), ...Object.entries(timer.labels ?? {}).map(([key, value]) => `${key}:${value}`)])
      counts.set(name, (counts.get(name) ?? 0) + 1);
  const rows = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 10);
  content.append(h("h2", {}, "Who makes the highest peak"),
    table(`Targets and labels among ${number(page.timers.length)} of its timers`, [
      {name: "Target or label", kind: "break", of: ([name]) => name},
      {name: "Timers", kind: "number", of: ([, count]) => number(count)},
    ], rows));
}
