// A new timer: the form shows when it would fire, and the call that makes it, while one types.

import {call, curlOf, get, getTimer, mayChange, post, query} from "./api.js";
import {bodyOf, eventsOf, labelsOf, payloadText, scheduleIn, targetOf} from "./change.js";
import {limitFields} from "./limits.js";
import {patch} from "./morph.js";
import {action, curl, field, form, h, shortId, tell, whenIn, zone} from "./parts.js";
import {previewOf, scheduleWords, skippedOf} from "./recurrence.js";

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
  const schedule = scheduleIn(given);
  try {
    const {instants, skipped} = await get(`/v1/schedule/preview${query(previewOf({...schedule, n: 5}))}`, {signal});
    const own = given.kind === "cron" || schedule.except || schedule.only ? given.timezone || "UTC" : zone;
    patch(place, [h("h2", {}, "It would fire"), h("p", {class: "lead"}, scheduleWords(schedule)),
      h("ol", {}, instants.map((at) => h("li", {}, whenIn(at, own)))), ...skippedOf(skipped)]);
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
    field("Time zone", "timezone", {placeholder: "Europe/Berlin; UTC if empty"}),
    field("Not on", "except", {placeholder: "SAT-SUN, 2026-12-24, calendar:de"}),
    field("Only on", "only", {placeholder: "MON-FRI, 2026-12-01/2026-12-31"}),
    field("In place of a day left out", "on_holiday", {options: [["", "none"], ["next_workday", "the next permitted day"],
                                                                 ["previous_workday", "the permitted day before"]]}),
    field("While the one before is not over", "overlap", {options: [["", "it waits"], ["skip", "it is left out"], ["allow", "it begins beside it"]]})),
  h("fieldset", {}, h("legend", {}, "What"),
    field("Target, or several with blanks between them", "target", {required: true, placeholder: "https://shop.example/recheck queue:recheck billing:/recheck", wide: true,
                               value: targetOf(source)}),
    field("Key", "key", {value: source.key}),
    field("Labels", "labels", {placeholder: "team:checkout, order:42", value: labelsOf(source)}),
    field("Events that end it", "watch", {placeholder: "order:42", value: eventsOf(source)}),
    field("Flow", "flow_key", {placeholder: "customer-42", maxlength: 128, value: source.flow?.key}), ...limitFields(source.flow),
    field("Payload, JSON", "payload", {rows: 4, wide: true, spellcheck: "false", value: payloadText(source)})),
  may ? h("button", {}, "Make the timer")
      : h("p", {class: "hint"}, "The token may read, not create: it lacks the scope schedule."));
  const fieldOf = (name) => made.elements[name].parentElement;
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
  const fit = () => { // what a kind of schedule does not have is hidden
    const given = Object.fromEntries(new FormData(made)), isRepeated = ["cron", "every"].includes(given.kind), hasDates = given.except.trim() || given.only.trim();
    fieldOf("timezone").hidden = given.kind !== "cron" && !(isRepeated && hasDates);
    for (const name of ["except", "only", "overlap"]) fieldOf(name).hidden = !isRepeated;
    fieldOf("on_holiday").hidden = !isRepeated || !hasDates;
    for (const name of ["flow_concurrency", "flow_rate"]) fieldOf(name).hidden = !given.flow_key;
  };
  fit();
  made.oninput = () => {
    fit();
    clearTimeout(last);
    last = setTimeout(show, 250);
  };
  if (source.id)
    content.append(h("p", {class: "hint"}, "Made from ", h("a", {href: `#/timers/${source.id}`, class: source.key ? undefined : "mono"}, source.key ?? shortId(source.id)),
      Object.keys(carriedOf(source)).length ? `, with its ${Object.keys(carriedOf(source)).join(", ")}.` : "."));
  content.append(made, firings, command);
  if (source.id) show();
}
