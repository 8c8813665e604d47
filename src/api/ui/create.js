// A new timer: the form shows when it would fire, and the call that makes it, while one types.

import {curlOf, get, post, query} from "./api.js";
import {curl, field, form, h, message, when} from "./parts.js";

function jsonOf(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The payload is no JSON: ${error.message}`);
  }
}

/** The body of POST /v1/timers for what the form holds. */
export function bodyOf(given) {
  const body = {target: given.target};
  if (given.kind === "cron") Object.assign(body, {cron: given.time, timezone: given.timezone || undefined});
  else body[given.kind] = given.time;
  if (given.key) body.key = given.key;
  if (given.payload.trim()) body.payload = jsonOf(given.payload);
  if (given.labels.trim())
    body.labels = Object.fromEntries(given.labels.split(",").map((one) => {
      const [name, ...value] = one.trim().split(":");
      return [name, value.join(":")];
    }));
  if (given.watch.trim()) body.watch = given.watch.split(",").map((one) => one.trim());
  return body;
}

async function preview(given, place, signal) {
  if (!given.time || !["cron", "every"].includes(given.kind)) return place.replaceChildren();
  const parameters = given.kind === "cron" ? {cron: given.time, timezone: given.timezone} : {every: given.time};
  try {
    const {instants} = await get(`/v1/schedule/preview${query({...parameters, n: 5})}`, {signal});
    place.replaceChildren(h("h2", {}, "It would fire"), h("ol", {}, instants.map((at) => h("li", {}, when(at)))));
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(message(error.message));
  }
}

export async function create({content, signal}) {
  const firings = h("div", {"aria-live": "polite"});
  const command = h("div", {});
  const made = form({}, async (given, element) => {
    const timer = await post("/v1/timers", bodyOf(given), {headers: {"Idempotency-Key": crypto.randomUUID()}});
    element.append(h("p", {class: "message done", role: "status"}, "It is made: ",
                     h("a", {href: `#/timers/${timer.id}`}, timer.id)));
  },
  h("fieldset", {}, h("legend", {}, "When"),
    field("Kind", "kind", {options: [["after", "after a time"], ["at", "at a time"], ["every", "at an interval"],
                                     ["cron", "by a cron expression"]]}),
    field("Time", "time", {required: true, placeholder: "30m, 2026-11-20T23:59:59Z, 30 9 * * MON-FRI"}),
    field("Time zone, of a cron expression", "timezone", {placeholder: "Europe/Berlin"})),
  h("fieldset", {}, h("legend", {}, "What"),
    field("Target", "target", {required: true, placeholder: "https://shop.example/recheck, queue:recheck", wide: true}),
    field("Key", "key"), field("Labels", "labels", {placeholder: "team:checkout, order:42"}),
    field("Events that end it", "watch", {placeholder: "order:42"}),
    field("Payload, JSON", "payload", {rows: 4, wide: true, spellcheck: "false"})),
  h("button", {}, "Make the timer"));
  let last = 0;
  made.addEventListener("input", () => {
    clearTimeout(last);
    last = setTimeout(() => {
      const given = Object.fromEntries(new FormData(made));
      preview(given, firings, signal);
      try {
        command.replaceChildren(curl(curlOf("POST", "/v1/timers", bodyOf(given))));
      } catch {
        command.replaceChildren(); // the payload is not whole yet
      }
    }, 250);
  });
  content.append(made, firings, command);
}
