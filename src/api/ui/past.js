// The past of the daemon's figures, on the page Now: three charts over an hour, a day or a week.

import {get} from "./api.js";
import {chart} from "./chart.js";
import {duration, h, number} from "./parts.js";

const HOUR_MS = 3600000;
// Of the API: how far back, and how often a point is new.
const windows = [{name: "1h", text: "1 hour", ms: HOUR_MS, againMs: 10000},
                 {name: "24h", text: "24 hours", ms: 24 * HOUR_MS, againMs: 60000},
                 {name: "7d", text: "7 days", ms: 168 * HOUR_MS, againMs: 60000}];
let chosen = windows[0]; // as long as the page is open

const rate = (name) => (point) => (point.span_ms ? (1000 * point[name]) / point.span_ms : 0);
const outcomes = [{name: "delivered", look: "c1", of: rate("fired")}, {name: "failed attempts", look: "c2", of: rate("failed")},
                  {name: "dead", look: "c3", of: rate("dead")}, {name: "cancelled", look: "c4", of: rate("cancelled")},
                  {name: "created", look: "c5", isLine: true, of: rate("created")}];
const lateness = [{name: "p50", look: "c1", isLine: true, of: ({late_p50: s}) => s},
                  {name: "p99", look: "c3", isLine: true, of: ({late_p99: s}) => s}];
const waiting = (...reasons) => (point) => reasons.reduce((sum, reason) => sum + (point.waiting[reason] ?? 0), 0);
const causes = [{name: "a limit or a rate", look: "c5",
                 of: waiting("room", "target-limit", "rate", "catch-up", "leases", "lease-memory")},
                {name: "a receiver that fails", look: "c3", of: waiting("breaker")},
                {name: "a worker", look: "c2", of: waiting("worker")},
                {name: "the end of a pause", look: "c4", of: waiting("paused")},
                {name: "the end of maintenance", look: "c1", of: waiting("maintenance", "stopping")}];

const few = (value) => (value < 10 && value % 1 ? value.toFixed(value < 1 ? 2 : 1) : number(value));
const seconds = (value) => (value < 0.001 ? `${few(1000 * value)}ms` : duration(1000 * value));

/** A place that shows the charts while the page is shown; it stays empty if the token may not see them. */
export function past({signal}) {
  const charts = [chart("Timers a second", outcomes, {text: few}),
                  chart("Lateness", lateness, {text: seconds, least: 0.0001}),
                  chart("Waiting for", causes, {most: 4})];
  const place = h("div", {hidden: true}), choice = h("div", {class: "buttons", role: "group", "aria-label": "How far back"});
  let timer = 0, turn = 0;

  async function look() {
    const own = ++turn, {name, ms, againMs} = chosen;
    clearTimeout(timer);
    try {
      const {now, points, step_seconds: step} = document.hidden ? {} : await get(`/v1/history?window=${name}`, {signal});
      if (own !== turn || signal.aborted) return; // another was chosen meanwhile
      if (now) {
        const to = Date.parse(now), shown = points.map((point) => ({...point, from: Date.parse(point.at)}));
        for (const one of charts) one.show({points: shown, from: to - ms, to, stepMs: 1000 * step});
        place.hidden = false;
      }
    } catch {
      if (signal.aborted) return; // the verdict says what is wrong
    }
    if (own === turn) timer = setTimeout(look, againMs);
  }

  function choose(next) {
    chosen = next;
    choice.replaceChildren(...windows.map((one) => h("button", {type: "button", class: one === chosen ? "" : "plain",
      "aria-pressed": String(one === chosen), onclick: () => {
        choose(one);
        choice.querySelector("[aria-pressed=true]").focus();
      }}, one.text)));
    look();
  }

  place.append(choice, h("div", {class: "charts"}, charts.map(({element}) => element)));
  signal.addEventListener("abort", () => clearTimeout(timer));
  choose(chosen);
  return place;
}
