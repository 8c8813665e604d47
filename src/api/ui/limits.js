// The limits of a flow, or of a named target: as one types them, as the API takes them, and in words.

import {field, number} from "./parts.js";

/** The rate of a flow as one types it. */
const rateText = ({rate, period}) => (rate === undefined ? "" : typeof rate === "number" ? `${rate}/${period ?? "1s"}` : rate);

/** The limits that a form has of a flow, as fields of a call; a rate is 10/s, or 100/15m. */
export function limitsIn({flow_concurrency: concurrency = "", flow_rate: rate = ""}) {
  const found = /^(\d+)\/(.+)$/.exec(rate.trim());
  const isShort = !found || /^[smhd]$/.test(found[2]);
  return {...(concurrency && {concurrency: Number(concurrency)}),
          ...(rate.trim() && (isShort ? {rate: rate.trim()} : {rate: Number(found[1]), period: found[2]}))};
}

/** The fields of the limits of a flow. */
export const limitFields = (flow = {}) => [
  field("Run at a time, at most", "flow_concurrency", {type: "number", min: 1, max: 100000, step: 1, value: flow.concurrency}),
  field("Start, at most", "flow_rate", {placeholder: "10/s, 100/15m", value: rateText(flow)})];

const PERIODS = {s: "a second", m: "a minute", h: "an hour", d: "a day"};

/** The limits of a flow in words. */
export function limitWords({concurrency, rate, period}) {
  const [count, unit] = typeof rate === "number" ? [rate, undefined] : String(rate ?? "").split("/");
  return [concurrency && `${number(concurrency)} at a time`,
          rate && `${number(Number(count))} ${PERIODS[unit] ?? `in ${period ?? "1s"}`}`].filter(Boolean).join(", ");
}
