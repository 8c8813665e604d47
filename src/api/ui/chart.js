// Charts over time: areas that are stacked and lines, with axes, and a legend whose values follow the pointer.

import {h, number} from "./parts.js";
import {inZone, zoneOffsetMs} from "./times.js";

const HEIGHT = 170, TOP = 8, BOTTOM = 20, LEFT_MIN = 52, LETTER = 6.5; // in pixels, as all lengths
const DAY_MS = 86400000;
const TICKS_MS = [60000, 300000, 600000, 900000, 1800000, 3600000, 7200000, 14400000, 28800000, DAY_MS, 2 * DAY_MS];
const TICK_WIDTH_MIN = 70; // between labels of the time

/** The next number from `value` on of 1, 2 or 5 times a power of ten. */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= value * (1 - 1e-9));
}

/** The values at the lines of an axis, from the bottom up. */
function valuesOf(axis, most) {
  if (axis.least === undefined) {
    const step = round(Math.max(most, axis.most ?? 1) / 4);
    return Array.from({length: Math.ceil(Math.max(most, step) / step) + 1}, (_, at) => at * step);
  }
  const values = [axis.least];
  while (values.at(-1) < most || values.length < 3) values.push(values.at(-1) * 10);
  return values;
}

function timesOf(from, to, width) {
  const step = TICKS_MS.find((ms) => ((to - from) / ms) * TICK_WIDTH_MIN <= width) ?? TICKS_MS.at(-1);
  const offset = zoneOffsetMs(to); // labels are round in the time of the reader
  const times = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at <= to; at += step) times.push(at);
  return {times, isDays: step >= DAY_MS};
}

const clock = {hour: "2-digit", minute: "2-digit"};
const day = {weekday: "short", day: "numeric"};
const both = {weekday: "short", ...clock};

/**
 * A chart: {element, show}. `series` are {name, look, isLine, of}: `of` gives the value of a point, or undefined. `axis` has
 * `text`, which makes a value a text, and may have `least`, from which on it is logarithmic.
 */
export function chart(title, series, axis = {}) {
  const text = axis.text ?? number;
  const legend = h("ul", {class: "legend"});
  const at = h("span", {class: "dim"});
  const svg = h("svg", {class: "chart", role: "img", "aria-label": title});
  const element = h("figure", {}, h("figcaption", {}, title, " ", at), svg, legend);
  let history, width = 0, left = LEFT_MIN, pointed = null; // the time that the pointer names

  const runs = (points, of) => points.reduce((found, point, i) => { // without a gap, and with values
    if (of(point) === undefined) return found;
    const isNext = i > 0 && of(points[i - 1]) !== undefined && point.from - points[i - 1].from <= history.stepMs * 1.5;
    if (isNext && found.length) found.at(-1).push(point);
    else found.push([point]);
    return found;
  }, []);

  function tell(shown, points) {
    const point = pointed === null ? points.at(-1) : points.findLast(({from}) => from <= pointed);
    at.textContent = point && pointed !== null ? inZone(point.from, both) : "";
    legend.replaceChildren(...shown.map(({name, look, isLine, of}) => h("li", {class: look},
      h("span", {class: isLine ? "key line" : "key"}), `${name} `,
      h("b", {}, point && of(point) !== undefined ? text(of(point)) : "–"))));
  }

  function draw() {
    if (!history || !width) return;
    const {points, from, to, stepMs} = history;
    const shown = series.filter(({of}, i) => i === 0 || points.some((point) => of(point) > 0));
    const areas = shown.filter(({isLine}) => !isLine), lines = shown.filter(({isLine}) => isLine);
    const most = Math.max(0, ...points.map((point) => Math.max(areas.reduce((sum, {of}) => sum + (of(point) ?? 0), 0),
                                                              ...lines.map(({of}) => of(point) ?? 0))));
    const values = valuesOf(axis, most), [least, top] = [values[0], values.at(-1)];
    left = Math.max(LEFT_MIN, ...values.map((value) => 8 + LETTER * text(value).length)); // a label is never cut
    const share = (value) => (axis.least === undefined ? value / top
      : Math.log(Math.max(value, least) / least) / Math.log(top / least));
    const x = (ms) => (left + ((width - left) * (ms - from)) / (to - from)).toFixed(1);
    const y = (value) => (HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share(value)).toFixed(1);
    const end = (point) => Math.min(point.from + stepMs, to);
    const made = values.flatMap((value) => [
      h("line", {class: "grid", x1: left, x2: width, y1: y(value), y2: y(value)}),
      h("text", {x: left - 6, y: Number(y(value)) + 4, "text-anchor": "end"}, text(value))]);
    const {times, isDays} = timesOf(from, to, width - left);
    for (const time of times)
      made.push(h("text", {x: x(time), y: HEIGHT - 4, "text-anchor": Number(x(time)) > width - 20 ? "end" : "middle"},
                  inZone(time, isDays ? day : clock)));
    areas.forEach(({look}, i) => {
      const sum = (point, count) => areas.slice(0, count).reduce((all, {of}) => all + (of(point) ?? 0), 0);
      for (const run of runs(points, () => 0)) {
        const above = run.map((point) => `V${y(sum(point, i + 1))}H${x(end(point))}`).join("");
        const below = run.toReversed().map((point) => `V${y(sum(point, i))}H${x(point.from)}`).join("");
        made.push(h("path", {class: `area ${look}`, d: `M${x(run[0].from)} ${y(sum(run[0], i))}${above}${below}Z`}));
      }
    });
    for (const {look, of} of lines)
      for (const run of runs(points, of))
        made.push(h("path", {class: `path ${look}`, d: `M${x(run[0].from)} ${y(of(run[0]))}` +
          run.map((point) => `V${y(of(point))}H${x(end(point))}`).join("")}));
    if (pointed !== null) made.push(h("line", {class: "pointed", x1: x(pointed), x2: x(pointed), y1: TOP, y2: HEIGHT - BOTTOM}));
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.replaceChildren(...made);
    tell(shown, points);
    const last = points.at(-1);
    svg.setAttribute("aria-label", `${title}, from ${inZone(from, both)} to ${inZone(to, both)}; now ` +
      shown.map(({name, of}) => `${name} ${last && of(last) !== undefined ? text(of(last)) : "–"}`).join(", "));
  }

  const point = (time) => {
    if (time === pointed || !history) return;
    pointed = time;
    draw();
  };
  svg.onpointermove = ({offsetX}) => history && point(Math.min(history.to, Math.max(history.from,
    history.from + ((history.to - history.from) * (offsetX - left)) / (width - left))));
  svg.onpointerleave = () => point(null);
  new ResizeObserver(([{contentRect}]) => {
    if (contentRect.width === width) return;
    width = contentRect.width;
    draw();
  }).observe(svg);
  return {element, show(next) {
    history = next;
    draw();
  }};
}
