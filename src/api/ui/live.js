// Follows GET /v1/events for the page that is shown, and reads the page's data again when an event touches it.
//
// Events are not kept: one that touches what is shown sets a mark, and a second after the last reading the page reads again.
// So neither the memory nor the work of the page grows with the number of events.

import {listen, problemOf} from "./api.js";
import {action, h} from "./parts.js";

const READ_AGAIN_MS = 1000; // at least between two readings
const WAIT_MS_MIN = 1000;   // before the stream is opened again; doubled each time, up to WAIT_MS_MAX
const WAIT_MS_MAX = 30000;
const SILENCE_MS_MAX = 40000; // the daemon sends a comment every 15 s
const EVENT_SIZE_MAX = 1 << 20;

/** Hands over each event of a stream as its text, and what came without one as "". */
async function readEvents(body, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const {value, done} = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    if (rest.length > EVENT_SIZE_MAX) throw new Error("An event is too long");
    take(events);
  }
}

const lineOf = (event, name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);

/** The data of an event as its text has it. */
export function dataOf(event) {
  return JSON.parse(lineOf(event, "data"));
}

/** Reads again what a page shows: marked as often as one likes, at most once a second, one at a time. */
function reader(load, signal, failed) {
  let isMarked = false, isReading = false, failures = 0, timer = 0, next = 0;
  async function read() {
    isMarked = false;
    isReading = true;
    try {
      await load();
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      failures++;
      isMarked = true;
      failed(error);
    }
    isReading = false;
    next = performance.now() + Math.min(READ_AGAIN_MS << Math.min(failures, 5), WAIT_MS_MAX);
    plan();
  }
  function plan() {
    clearTimeout(timer);
    if (isMarked && !isReading && !document.hidden && !signal.aborted)
      timer = setTimeout(read, Math.max(0, next - performance.now()));
  }
  document.addEventListener("visibilitychange", plan, {signal});
  addEventListener("daemonback", () => {
    failures = next = 0;
    plan();
  }, {signal});
  return {mark() { isMarked = true; plan(); }, isMarked: () => isMarked};
}

/** Waits for a time, or until the page is shown again when it is hidden; ends early with the page, and when the daemon is back. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const ended = new AbortController();
    const end = () => { clearTimeout(timer); ended.abort(); resolve(); };
    const timer = document.hidden ? 0 : setTimeout(end, ms);
    document.addEventListener("visibilitychange", end, {signal: ended.signal});
    signal.addEventListener("abort", end, {signal: ended.signal});
    addEventListener("daemonback", end, {signal: ended.signal});
  });
}

/**
 * Shows in the head of the page whether it is live, and keeps it so until the page is left:
 *   load()          shows the data as it is now
 *   parameters      of GET /v1/events: which events
 *   touches(data)   whether an event touches what is shown; all do, if it is left out. Events of queues, targets and
 *                   maintenance have no timer
 *   every           milliseconds after which to read again without an event, for what no event tells
 *   take(events)    gets the texts of events as well
 */
export function follow({head, signal}, {load, parameters, touches = () => true, every, take}) {
  const state = h("p", {class: "live", role: "status"});
  const tell = (kind, text) => {
    if (state.textContent !== text) state.textContent = text;
    state.className = `live ${kind}`;
  };
  head.append(state, load ? action("Refresh", load, "plain") : "");
  let last = ""; // the id of the last event
  const data = reader(load ?? (() => undefined), signal, (error) => tell("off", `Not live: ${error.message}`));
  const taken = (events) => {
    for (const event of events) {
      last = lineOf(event, "id") ?? last;
      const type = lineOf(event, "event");
      // While the mark is set no event is worth its parsing.
      if (type === "lost") last = "";
      if (type === "lost" || (type && load && !data.isMarked() && touches(dataOf(event)))) data.mark();
    }
    take?.(events.filter((event) => lineOf(event, "id")));
  };

  /** Until the stream ends, the page is hidden or left: "opened"; "failed" if it did not begin, "refused" if it never will. */
  async function stream() {
    let result = "failed";
    const open = new AbortController();
    const end = () => open.abort();
    const options = {signal: open.signal};
    signal.addEventListener("abort", end, options);
    document.addEventListener("visibilitychange", end, options);
    let silence = setTimeout(end, SILENCE_MS_MAX);
    try {
      const response = await listen(parameters, last, open.signal);
      if (!response.ok) {
        const error = await problemOf(response);
        tell("off", `Not live: ${error.message}`);
        return response.status === 429 || response.status >= 500 ? "failed" : "refused";
      }
      result = "opened";
      tell("on", "Live");
      if (!last) data.mark(); // what happened since the data was read is in no event
      await readEvents(response.body, (events) => {
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE_MS_MAX);
        taken(events);
      });
    } catch {
      // The connection broke, or was ended.
    } finally {
      clearTimeout(silence);
      open.abort();
    }
    return result;
  }

  (async () => {
    for (let wait = WAIT_MS_MIN; !signal.aborted;) {
      if (!document.hidden) {
        const result = await stream();
        if (result === "refused") return;
        wait = result === "opened" ? WAIT_MS_MIN : Math.min(2 * wait, WAIT_MS_MAX);
        if (signal.aborted) return;
        if (!document.hidden && result === "opened") tell("off", "Not live: the stream of events ended");
      }
      await pause(wait * (0.5 + Math.random() / 2), signal);
    }
  })();
  if (every) {
    const timer = setInterval(data.mark, every);
    signal.addEventListener("abort", () => clearInterval(timer));
  }
}
