// Timers: search, one timer with its history, and what can be done with it.

import {call, curlOf, get, post, query} from "./api.js";
import {action, confirmed, curl, definitions, duration, field, form, h, message, number, table, when} from "./parts.js";

const states = ["scheduled", "delivering", "retrying", "paused", "fired", "cancelled", "dead"];

const columns = [
  {name: "Timer", of: (timer) => h("a", {href: `#/timers/${timer.id}`, class: "mono"}, timer.id)},
  {name: "State", of: (timer) => timer.state},
  {name: "Due", of: (timer) => when(timer.due)},
  {name: "Key", kind: "break", of: (timer) => timer.key},
  {name: "Target", kind: "break", of: (timer) => timer.target},
  {name: "Labels", kind: "break", of: (timer) => labelsOf(timer)},
];

function labelsOf(timer) {
  return Object.entries(timer.labels ?? {}).map(([name, value]) => `${name}:${value}`).join(", ");
}

/** The rows of a list, a page at a time: a hundred thousand timers are never in the page at once. */
export function paged(path, parameters, caption, shown, signal) {
  const place = h("div", {});
  const cursors = [""];
  async function load() {
    const cursor = cursors[cursors.length - 1];
    const page = await get(`${path}${query({...parameters, cursor, limit: 50})}`, {signal});
    const isFirst = cursors.length === 1;
    place.replaceChildren(
      table(`${caption}, page ${cursors.length}`, shown, page.timers ?? page.tenants, page.next ? "none yet, see the next page" : "none"),
      h("div", {class: "buttons"},
        isFirst ? "" : action("Previous page", async () => { cursors.pop(); await load(); }, "plain"),
        page.next ? action("Next page", async () => { cursors.push(page.next); await load(); }, "plain") : ""));
  }
  return {place, load};
}

export async function timers({content, parameters, signal}) {
  const value = (name) => parameters.get(name) ?? "";
  const search = form({class: "row", role: "search"}, async ({id, ...wanted}) => {
    if (id.trim()) location.hash = `#/timers/${encodeURIComponent(id.trim())}`;
    else location.hash = `#/timers${query(wanted)}`;
  },
  field("Id", "id", {size: 28}),
  field("Key begins with", "key_prefix", {value: value("key_prefix")}),
  field("Label (name:value)", "label", {value: value("label")}),
  field("Target", "target", {value: value("target")}),
  field("State", "state", {options: [["", "live"], ...states.map((state) => [state])]}),
  field("Due from", "due_after", {value: value("due_after"), placeholder: "2026-11-20T23:59:59Z"}),
  field("Due before", "due_before", {value: value("due_before"), placeholder: "2026-11-20T23:59:59Z"}),
  h("button", {}, "Search"));
  search.elements.state.value = value("state");
  const list = paged("/v1/timers", Object.fromEntries(parameters), "Timers in due order", columns, signal);
  content.append(search, list.place);
  await list.load();
}

/** The stages of a delivery that was late, as parts of a bar. */
function stages(lateness) {
  const parts = Object.entries(lateness?.stages_ms ?? {});
  if (!parts.length) return "";
  return h("div", {}, h("h2", {}, `Late by ${duration(lateness.late_ms)}`),
    table("Where the time went", [
      {name: "Stage", of: ([name]) => name.replaceAll("_", " ")},
      {name: "Time", kind: "number", of: ([, ms]) => duration(ms)},
      {name: "Share", of: ([name, ms]) => h("meter", {min: 0, max: Math.max(1, lateness.late_ms), value: ms,
                                                       "aria-label": name})},
    ], parts));
}

function actions(timer, again) {
  const path = `/v1/timers/${timer.id}`;
  const isFinal = ["fired", "cancelled", "dead"].includes(timer.state);
  const done = (text) => async () => { await again(); document.querySelector("h1").after(message(text, "done")); };
  const buttons = h("div", {class: "buttons"});
  const add = (...them) => buttons.append(...them);
  if (timer.state === "dead") {
    add(action("Redrive", () => post("/v1/dead/redrive", {ids: [timer.id]}).then(done("It is due again."))));
  } else if (!isFinal) {
    if (timer.state === "paused")
      add(action("Resume", () => post(`${path}/resume`).then(done("It is resumed."))));
    else
      add(action("Pause", () => post(`${path}/pause`).then(done("It is paused.")), "plain"));
    if (timer.state !== "paused") add(action("Fire now", () => post(`${path}/fire`).then(done("It is due now.")), "plain"));
    add(action("Cancel", async () => {
          if (await confirmed(`Cancel timer ${timer.id}? It will not be delivered.`, "Cancel the timer"))
            await call("DELETE", path).then(done("It is cancelled."));
        }, "danger"));
  }
  if (isFinal) return buttons;
  return h("div", {}, buttons,
    form({class: "row"}, ({after}) => post(`${path}/touch`, {after}).then(done("Its time is extended.")),
      field("Extend to, from now", "after", {required: true, placeholder: "30m", size: 8}),
      h("button", {class: "plain"}, "Extend")),
    form({class: "row"}, ({after}) => call("PATCH", path, {body: {after}}).then(done("Its time is changed.")),
      field("Move to, from now", "after", {required: true, placeholder: "5m", size: 8}),
      h("button", {class: "plain"}, "Move")),
    curl([curlOf("POST", `${path}/fire`), curlOf("POST", `${path}/pause`, {}), curlOf("POST", `${path}/resume`),
          curlOf("DELETE", path), curlOf("POST", `${path}/touch`, {after: "30m"}),
          curlOf("PATCH", path, {after: "5m"})].join("\n")));
}

function payloadOf(timer) {
  if (timer.payload !== undefined) return h("pre", {tabindex: "0"}, JSON.stringify(timer.payload, null, 2));
  if (timer.body_base64 !== undefined) return h("pre", {tabindex: "0"}, timer.body_base64);
  return h("p", {class: "dim"}, "none");
}

async function nextFirings(timer, signal) {
  const schedule = timer.schedule;
  if (!schedule || !(schedule.cron || schedule.every)) return "";
  const given = schedule.cron ? {cron: schedule.cron, timezone: schedule.timezone, dst: schedule.dst}
                              : {every: schedule.every, at: timer.due};
  const {instants} = await get(`/v1/schedule/preview${query({...given, n: 5})}`, {signal}).catch(() => ({instants: []}));
  return h("div", {}, h("h2", {}, "Next firings"), h("ol", {}, instants.map((at) => h("li", {}, when(at)))));
}

export async function timer(context) {
  const {content, rest, signal} = context;
  const id = rest[0];
  const path = `/v1/timers/${encodeURIComponent(id)}`;
  const [found, why] = await Promise.all([
    get(path, {signal}), get(`${path}/explain`, {signal}).catch(() => ({}))]);
  const again = async () => {
    content.replaceChildren(h("h1", {tabindex: "-1"}, "Timers"));
    await timer(context);
  };
  content.append(
    h("p", {}, h("a", {href: "#/timers"}, "All timers")),
    h("h2", {class: "mono"}, found.id),
    why.explanation ? h("p", {}, why.explanation) : "",
    definitions([
      ["State", found.state], ["Due", when(found.due)], ["Key", found.key], ["Target", found.target],
      ["Labels", labelsOf(found)], ["Watches", (found.watch ?? []).join(", ")],
      ["Schedule", found.schedule ? JSON.stringify(found.schedule) : ""],
      ["Attempts", number(found.attempts)], ["Last error", found.last_error], ["Version", found.version],
      ["Created", when(found.created)],
      ["Paused since", found.paused ? when(found.paused.since) : ""],
      ["Paused until", found.paused?.until ? when(found.paused.until) : ""], ["Note", found.paused?.note],
      ["Report of", found.report_of ? h("a", {href: `#/timers/${found.report_of}`}, found.report_of) : ""],
    ]),
    actions(found, again), stages(why.lateness), await nextFirings(found, signal),
    h("h2", {}, "Payload"), payloadOf(found));
  if (found.runs)
    content.append(h("h2", {}, "Past firings"), table("The last firings, the newest first", [
      {name: "Planned", of: (run) => when(run.planned)},
      {name: "Outcome", of: (run) => run.outcome},
      {name: "Attempts", kind: "number", of: (run) => number(run.attempts)},
      {name: "Took", kind: "number", of: (run) => duration(run.duration_ms)},
      {name: "Status", kind: "number", of: (run) => run.status},
      {name: "Error", kind: "break", of: (run) => run.error},
    ], found.runs));
}
