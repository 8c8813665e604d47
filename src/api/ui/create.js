// A new timer: the form shows when it would fire, and the call that makes it, while one types.

import {call, curlOf, get, getTimer, mayChange, post, query} from "./api.js";
import {bodyOf, eventsOf, labelsOf, payloadText, targetOf} from "./change.js";
import {patch} from "./morph.js";
import {action, curl, field, form, h, shortId, tell, whenIn, zone} from "./parts.js";
import {scheduleWords} from "./recurrence.js";

// What a new timer has of the one that it is made from, and the form does not show.
const CARRIED = ["headers", "retry", "body_base64", "content_type", "on_dead", "on_success", "late", "method"];

/** The timer that a new one is made from, such as a dead letter. */
async function sourceOf(parameters, signal) {
  const id = parameters.get("from");
  return id ? getTimer(`/v1/timers/${encodeURIComponent(id)}`, {signal}) : {};
}

const carriedOf = (timer) => Object.fromEntries(CARRIED.filter((name) => timer[name] !== undefined).map((name) => [name, timer[name]]));

async function preview(given, place, signal) {
  if (!given.time || !["cron", "every"].includes(given.kind)) return place.replaceChildren();
  const parameters = given.kind === "cron" ? {cron: given.time, timezone: given.timezone} : {every: given.time};
  try {
    const {instants} = await get(`/v1/schedule/preview${query({...parameters, n: 5})}`, {signal});
    patch(place, [h("h2", {}, "It would fire"), h("p", {class: "lead"}, scheduleWords({[given.kind]: given.time, ...parameters})),
      h("ol", {}, instants.map((at) => h("li", {}, whenIn(at, given.kind === "cron" ? given.timezone || "UTC" : zone))))]);
  } catch (error) {
    if (!signal.aborted) patch(place, [h("p", {class: "message"}, error.message)]);
  }
}

export async function create({content, parameters, signal}) {
  const [source, may] = [await sourceOf(parameters, signal), await mayChange()];
  const bodyFor = (given) => ({...bodyOf(given), ...carriedOf(source)});
  const firings = h("div", {"aria-live": "polite"});
  const command = h("div", {});
  const made = form({}, async (given) => {
    const timer = await post("/v1/timers", bodyFor(given), {headers: {"Idempotency-Key": crypto.randomUUID()}});
    tell(content, "It is made: ", h("a", {href: `#/timers/${timer.id}`}, timer.id), source.state === "dead"
      ? [" ", action("Delete the dead letter", async () => {
          await call("DELETE", `/v1/dead/${source.id}`);
          tell(content, "The dead letter is deleted.");
        }, "danger")] : "");
  },
  h("fieldset", {}, h("legend", {}, "When"),
    field("Kind", "kind", {options: [["after", "after a time"], ["at", "at a time"], ["every", "at an interval"],
                                     ["cron", "by a cron expression"]]}),
    field("Time", "time", {required: true, placeholder: "30m, 2026-11-20T23:59:59Z, 30 9 * * MON-FRI",
                           value: source.id && "1s"}),
    field("Time zone", "timezone", {placeholder: "Europe/Berlin; UTC if empty"})),
  h("fieldset", {}, h("legend", {}, "What"),
    field("Target", "target", {required: true, placeholder: "https://shop.example/recheck, queue:recheck", wide: true,
                               value: targetOf(source)}),
    field("Key", "key", {value: source.key}),
    field("Labels", "labels", {placeholder: "team:checkout, order:42", value: labelsOf(source)}),
    field("Events that end it", "watch", {placeholder: "order:42", value: eventsOf(source)}),
    field("Payload, JSON", "payload", {rows: 4, wide: true, spellcheck: "false", value: payloadText(source)})),
  may ? h("button", {}, "Make the timer")
      : h("p", {class: "hint"}, "The token may read, not create: it lacks the scope schedule."));
  const zoneField = made.querySelector("[name=timezone]").parentElement;
  const show = () => {
    const given = Object.fromEntries(new FormData(made));
    preview(given, firings, signal);
    try {
      patch(command, [curl(curlOf("POST", "/v1/timers", bodyFor(given)))]);
    } catch {
      patch(command, []); // the payload is typed in part
    }
  };
  let last = 0;
  zoneField.hidden = true;
  made.oninput = () => {
    zoneField.hidden = made.elements.kind.value !== "cron";
    clearTimeout(last);
    last = setTimeout(show, 250);
  };
  if (source.id)
    content.append(h("p", {class: "hint"}, "Made from ", h("a", {href: `#/timers/${source.id}`, class: source.key ? undefined : "mono"}, source.key ?? shortId(source.id)),
      Object.keys(carriedOf(source)).length ? `, with its ${Object.keys(carriedOf(source)).join(", ")}.` : "."));
  content.append(made, firings, command);
  if (source.id) show();
}
