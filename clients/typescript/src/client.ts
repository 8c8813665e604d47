import {randomUUID} from "node:crypto";
import {setTimeout as sleep} from "node:timers/promises";
import {BadAnswer, Gone, Problem, type ProblemBody, problemOf, TickwheelError, Unreachable, UnknownOutcome, VersionMismatch}
  from "./errors.js";
import {checked, milliseconds} from "./duration.js";
import {at, fields} from "./fields.js";
import {formatJson, parseJson} from "./json.js";
import type {
  AckResult, Calendar, Completion, Completions, Count, Create, Day, DeadFilter, DeadGroup, Delivery, DeliveryFilter, Duration, Event, EventFilter,
  Figures, Filter, Forecast, Hold, Instant, Item, ManyResult, Patch, Pause, Queue, Redrive, Ref, Run, ScheduleFilter, ScheduleState,
  Selection, Span, SpanCount, Target, Time, Timer,
} from "./models.js";
import {type DrizzleTransaction, type PgConnection, type PrismaTransaction, type Query, queryOf, type SqlTag, Transaction}
  from "./transaction.js";

export interface ClientOptions {
  /** Default: TICKWHEEL_TOKEN. */
  token?: string;
  /** Of each try, milliseconds; 30,000. */
  timeout?: number;
  /** How often a request is sent again; 5. */
  retries?: number;
  /** The longest first pause between tries, milliseconds; 200. */
  pause?: number;
}

interface Call {
  method: string;
  path: string;
  query?: [string, string][];
  headers?: Record<string, string>;
  body?: string | AsyncIterable<Uint8Array>;
  /** How long the server may take by intention, milliseconds. */
  wait?: number;
  isCancel?: boolean;
  /** It is not repeated: a repetition may have a second effect, or its answer is wanted at once. */
  isOnce?: boolean;
  /** It may come before the service has recorded what it is about. */
  mayBeEarly?: boolean;
  /** The answer is a text, not JSON. */
  isText?: boolean;
}

interface Answer {
  status: number;
  text: string;
  retryAfter: number;
}

const version = "0.2.0";
const pauseMax = 5_000;
const retryAfterMax = 60_000;
const triedAgain = new Set([429, 500, 502, 503, 504]);
/** Problems with such a status that do not pass by waiting. */
const lasting = new Set(["too-many", "unreadable", "corrupt"]);

function pathOf(ref: Ref, verb = ""): string {
  if (ref.id !== undefined) return `/v1/timers/${encodeURIComponent(ref.id)}${verb}`;
  const key = encodeURIComponent(ref.key);
  if (/[/\\%;]|^\.\.?$/.test(ref.key)) return `/v1/key${verb || "/timer"}?key=${key}`; // a proxy may decode it
  return `/v1/keys/${key}${verb || "/timer"}`;
}

/** A name that has a colon is written in quotes. */
function labelFilter(name: string, value: string): string {
  return (name.includes(":") || name.startsWith('"') ? `"${name.replaceAll('"', '""')}"` : name) + ":" + value;
}

function filters(filter: Filter & DeadFilter): [string, string][] {
  const query: [string, string][] = (filter.states ?? []).map((state) => ["state", state]);
  for (const [name, value] of Object.entries(filter.labels ?? {})) query.push(["label", labelFilter(name, value)]);
  for (const name of ["target", "origin", "error", "key_prefix", "key_contains", "flow"] as const)
    if (filter[name] !== undefined) query.push([name, filter[name]]);
  for (const name of ["due_after", "due_before"] as const)
    if (filter[name] !== undefined) query.push([name, String(at(filter[name]))]);
  if (filter.page_size !== undefined) query.push(["limit", String(filter.page_size)]);
  return query;
}

function parse(text: string, status: number): unknown {
  try {
    return parseJson(text);
  } catch {
    throw new BadAnswer(`status ${status} with a body that is no JSON`);
  }
}

/** The body of an answer with success; throws its problem. */
function decode(answer: Answer): unknown {
  if (answer.status === 204) return undefined;
  if (answer.status < 400) return parse(answer.text, answer.status);
  const body = parse(answer.text, answer.status) as Partial<ProblemBody> | null;
  if (typeof body?.type !== "string" || typeof body.status !== "number")
    throw new BadAnswer(`status ${answer.status} without a problem`);
  throw problemOf(body as ProblemBody);
}

/** Whether the same request may succeed after a pause. */
function passes(answer: Answer): boolean {
  if (!triedAgain.has(answer.status)) return false;
  try {
    decode(answer);
  } catch (error) {
    return !(error instanceof Problem && lasting.has(error.type)); // a proxy's page passes, too
  }
  return false;
}

async function* ndjson(timers: Iterable<Create> | AsyncIterable<Create>): AsyncIterable<Uint8Array> {
  const encoder = new TextEncoder();
  for await (const one of timers) yield encoder.encode(formatJson(fields(one)) + "\n");
}

/**
 * Every call of the service, with time-outs and retries: a request that was not answered, or that a
 * busy server refused, is sent again after a random pause that doubles, or as long as Retry-After
 * says. Every create has an Idempotency-Key, so that a repetition makes no second timer. A batch is a
 * stream and is not sent again: give its timers a key, then repeating it is harmless.
 */
export class Client {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #timeout: number;
  readonly #retries: number;
  readonly #pause: number;

  /** Without a URL it is TICKWHEEL_URL, or http://localhost:8463. */
  constructor(url?: string, options: ClientOptions = {}) {
    const base = new URL(url ?? process.env.TICKWHEEL_URL ?? "http://localhost:8463");
    if (base.protocol !== "http:" && base.protocol !== "https:") throw new TypeError(`${base} is no http or https URL`);
    this.#url = base.href.replace(/\/+$/, "");
    this.#token = options.token ?? process.env.TICKWHEEL_TOKEN;
    this.#timeout = options.timeout ?? 30_000;
    this.#retries = options.retries ?? 5;
    this.#pause = options.pause ?? 200;
  }

  #fetch(call: Call, signal: AbortSignal): Promise<Response> {
    const query = call.query?.length ? `?${new URLSearchParams(call.query)}` : "";
    return fetch(this.#url + call.path + query, {
      method: call.method,
      headers: {
        "User-Agent": `tickwheel-typescript/${version}`, ...call.headers,
        ...(this.#token ? {Authorization: `Bearer ${this.#token}`} : {}),
      },
      redirect: "error",
      signal,
      ...(call.body === undefined ? {} : {body: call.body, duplex: "half"}),
    } as unknown as RequestInit);
  }

  async #try(call: Call): Promise<Answer> {
    return answerOf(await this.#fetch(call, AbortSignal.timeout(this.#timeout + (call.wait ?? 0))));
  }

  /** The answer after as many tries as it takes, and whether one before it may have taken effect. */
  async #exchange(call: Call): Promise<{answer: Answer; wasLost: boolean}> {
    const isRepeatable = !call.isOnce && (call.body === undefined || typeof call.body === "string");
    let wasLost = false;
    for (let tried = 1; ; tried++) {
      const mayTryAgain = isRepeatable && tried <= this.#retries;
      let wanted = 0;
      try {
        const answer = await this.#try(call);
        const isEarly = call.mayBeEarly && answer.status === 409;
        if (!mayTryAgain || !(isEarly || passes(answer)) || answer.retryAfter > retryAfterMax) return {answer, wasLost};
        wasLost ||= answer.status !== 429 && answer.status !== 503;
        wanted = answer.retryAfter;
      } catch (error) {
        wasLost = true;
        if (!mayTryAgain)
          throw new Unreachable(`${call.method} ${this.#url}${call.path}: ${reasonOf(error)}`, {cause: error});
      }
      await sleep(wanted + Math.random() * Math.min(pauseMax, this.#pause * 2 ** (tried - 1)));
    }
  }

  async #send<T>(call: Call): Promise<T> {
    const {answer, wasLost} = await this.#exchange(call);
    try {
      return (call.isText && answer.status < 400 ? answer.text : decode(answer)) as T;
    } catch (error) {
      if (wasLost && error instanceof VersionMismatch)
        throw new UnknownOutcome("the answer to a conditional change was lost; read the timer", {cause: error});
      // The try whose answer was lost has cancelled it.
      if (wasLost && call.isCancel && error instanceof Gone && error.timer?.state === "cancelled")
        return error.timer as T;
      throw error;
    }
  }

  #json<T>(method: string, path: string, body: unknown, rest: Partial<Call> = {}): Promise<T> {
    const headers = {"Content-Type": "application/json", ...rest.headers};
    return this.#send<T>({...rest, method, path, body: formatJson(body), headers});
  }

  // ---- one timer ----

  /**
   * Makes a timer. With a key that a live, equal timer has, the answer is that timer; KeyInUse if it
   * differs. The idempotency key names the request for repetitions by other clients, after a crash.
   */
  create(given: Create, options: {idempotencyKey?: string} = {}): Promise<Timer> {
    return this.#json("POST", "/v1/timers", fields(given),
                      {headers: {"Idempotency-Key": options.idempotencyKey ?? randomUUID()}});
  }

  /** Makes the timer with this key, or replaces it whole. */
  put(key: string, given: Omit<Create, "key">, options: {ifVersion?: number} = {}): Promise<Timer> {
    return this.#json("PUT", pathOf({key}), fields(given), condition(options.ifVersion));
  }

  /** Throws Gone, with the timer, when it is final. */
  get(ref: Ref): Promise<Timer> {
    return this.#send({method: "GET", path: pathOf(ref)});
  }

  /** Changes the fields that are given. */
  change(ref: Ref, patch: Patch, options: {ifVersion?: number} = {}): Promise<Timer> {
    const headers = {...condition(options.ifVersion).headers, "Content-Type": "application/merge-patch+json"};
    return this.#json("PATCH", pathOf(ref), fields(patch), {headers});
  }

  /** Puts the timer off; never makes it earlier. */
  touch(ref: Ref, time: Time, options: {ifVersion?: number} = {}): Promise<Timer> {
    return this.#json("POST", pathOf(ref, "/touch"), fields(time), condition(options.ifVersion));
  }

  /** After it resolves no delivery begins. Throws AlreadyFiring or Gone. */
  cancel(ref: Ref, options: {ifVersion?: number} = {}): Promise<Timer> {
    return this.#send({...condition(options.ifVersion), method: "DELETE", path: pathOf(ref), isCancel: true});
  }

  /**
   * Fires the timer now; one that repeats fires beside its planned times. Without `ifVersion` the call
   * is not repeated, since it might fire twice.
   */
  fire(ref: Ref, options: {ifVersion?: number} = {}): Promise<Timer> {
    return this.#send({...condition(options.ifVersion), method: "POST", path: pathOf(ref, "/fire"),
                       isOnce: options.ifVersion === undefined});
  }

  /** The timer is not delivered before it is resumed, by a call or at `until`. */
  pause(ref: Ref, pause: Pause = {}, options: {ifVersion?: number} = {}): Promise<Timer> {
    return this.#json("POST", pathOf(ref, "/pause"), held(pause), condition(options.ifVersion));
  }

  resume(ref: Ref, options: {ifVersion?: number} = {}): Promise<Timer> {
    return this.#send({...condition(options.ifVersion), method: "POST", path: pathOf(ref, "/resume")});
  }

  /**
   * Ends the lease of a queue's item, whose attempt has failed. Without `ifVersion` the call is not repeated, since it
   * might end the next lease too.
   */
  release(ref: Ref, options: {ifVersion?: number} = {}): Promise<Timer> {
    return this.#send({...condition(options.ifVersion), method: "POST", path: pathOf(ref, "/release"),
                       isOnce: options.ifVersion === undefined});
  }

  /** Fires the instants of a span of a timer that repeats. Resolves to the timer that does so. */
  backfill(ref: Ref, span: Span, options: {idempotencyKey?: string} = {}): Promise<Timer> {
    return this.#json("POST", pathOf(ref, "/backfill"), {...span, from: at(span.from), to: at(span.to)},
                      {headers: {"Idempotency-Key": options.idempotencyKey ?? randomUUID()}});
  }

  /** How many instants a backfill of the span would fire. */
  backfillCount(ref: Ref, span: Span): Promise<SpanCount> {
    return this.#json("POST", pathOf(ref, "/backfill"), {...span, from: at(span.from), to: at(span.to), dry_run: true});
  }

  /** Where the timer is, what it waits for, and why it was late. */
  async explain(ref: Ref | string): Promise<Figures> {
    return this.#send({method: "GET", path: pathOf({id: await this.#idOf(ref)}, "/explain")});
  }

  /** The last firings of a timer that repeats, the newest first. */
  async runs(ref: Ref | string): Promise<Run[]> {
    const path = pathOf({id: await this.#idOf(ref)}, "/runs");
    return (await this.#send<{runs: Run[]}>({method: "GET", path})).runs;
  }

  /** The id of the timer, live or over; a text is an id. */
  async #idOf(ref: Ref | string): Promise<string> {
    if (typeof ref === "string") return ref;
    if (ref.id !== undefined) return ref.id;
    try {
      return (await this.get(ref)).id;
    } catch (error) {
      if (error instanceof Gone && error.timer) return error.timer.id;
      throw error;
    }
  }

  // ---- in a transaction of the caller's database ----

  /**
   * Calls that take effect if the transaction of this connection commits; the service reads the outbox of its database
   * (docs/postgres.md). For Drizzle the second argument is its tag `sql`.
   */
  inTransaction(connection: PgConnection | PrismaTransaction | Query): Transaction;
  inTransaction<Sql>(connection: DrizzleTransaction<Sql>, sql: SqlTag<Sql>): Transaction;
  inTransaction<Sql>(connection: PgConnection | PrismaTransaction | Query | DrizzleTransaction<Sql>, sql?: SqlTag<Sql>): Transaction {
    return new Transaction(queryOf(connection, sql));
  }

  // ---- many timers ----

  /** Makes many timers from a stream. Each has a result, in order: its id, or its problem. */
  async batch(timers: Iterable<Create> | AsyncIterable<Create>):
      Promise<({id: string; existed: boolean; error?: never} | {id?: never; error: Problem})[]> {
    const headers = {"Content-Type": "application/x-ndjson", Prefer: "after=milliseconds"}; // numbers of Duration
    const {answer} = await this.#exchange({method: "POST", path: "/v1/timers/batch", headers, body: ndjson(timers)});
    if (answer.status !== 200) throw decode(answer);
    return answer.text.split("\n").filter((line) => line).map((text) => {
      const line = parse(text, answer.status) as {id?: string; existed?: boolean} & ProblemBody;
      return line.id === undefined ? {error: problemOf(line)} : {id: line.id, existed: line.existed ?? false};
    });
  }

  /** All timers that match, in due order; pages are read as they are needed. */
  list(filter: Filter = {}): AsyncGenerator<Timer> {
    return this.#pages<Timer>("/v1/timers", "timers", filters(filter));
  }

  /** All that `name` lists in the answers. */
  async *#pages<T>(path: string, name: string, query: [string, string][]): AsyncGenerator<T> {
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: {[list: string]: unknown} = await this.#send(
        {method: "GET", path, query: cursor ? [...query, ["cursor", cursor]] : query});
      yield* page[name] as T[];
      cursor = page.next as string | null;
    }
  }

  cancelMany(selection: Selection): Promise<ManyResult> {
    return this.#json("POST", "/v1/timers/cancel", selection);
  }

  rescheduleMany(selection: Selection, time: Time): Promise<ManyResult> {
    return this.#json("POST", "/v1/timers/reschedule", {...selection, ...fields(time)});
  }

  touchMany(selection: Pick<Selection, "ids" | "keys">, time: Time): Promise<ManyResult> {
    return this.#json("POST", "/v1/timers/touch", {...selection, ...fields(time)});
  }

  /** The call is not repeated, since it might fire twice. */
  fireMany(selection: Selection): Promise<ManyResult> {
    return this.#json("POST", "/v1/timers/fire", selection, {isOnce: true});
  }

  pauseMany(selection: Selection, pause: Pause = {}): Promise<ManyResult> {
    return this.#json("POST", "/v1/timers/pause", {...selection, ...held(pause)});
  }

  resumeMany(selection: Selection): Promise<ManyResult> {
    return this.#json("POST", "/v1/timers/resume", selection);
  }

  /** How many timers live, apart by the state, the origin of the target, and the value of a label: "label:team". */
  count(by: ("state" | "origin" | `label:${string}`)[] = []): Promise<Count> {
    return this.#send({method: "GET", path: "/v1/timers/count", query: by.length ? [["by", by.join(",")]] : []});
  }

  // ---- events ----

  /** Ends the timers that watch the event; with `fire` they become due now. */
  complete(event: string, options: {fire?: boolean} = {}): Promise<Completion> {
    return this.#json("POST", `/v1/watch/${encodeURIComponent(event)}/complete`, options);
  }

  /** Up to 5,000 events. */
  completeMany(events: string[], options: {fire?: boolean} = {}): Promise<Completions> {
    return this.#json("POST", "/v1/watch/complete", {watch: events, ...options});
  }

  /**
   * What happens to timers, as it happens, without an end. It goes on behind a connection that is lost,
   * and throws Unreachable after `retries` in vain.
   */
  async *events(filter: EventFilter = {}): AsyncGenerator<Event> {
    const query = filters(filter);
    for (const type of filter.types ?? []) query.push(["type", type]);
    if (filter.key_prefix !== undefined) query.push(["key_prefix", filter.key_prefix]);
    let last = filter.last_event_id;
    for (let tried = 1; ; tried++) {
      const call: Call = {method: "GET", path: "/v1/events", query,
                          headers: {Accept: "text/event-stream", ...(last ? {"Last-Event-ID": last} : {})}};
      let wanted = 0;
      let reason: unknown = new Error("the stream has ended");
      const abort = new AbortController();
      try {
        const response = await this.#fetch(call, abort.signal);
        if (response.ok && response.body) {
          for await (const event of eventsOf(response.body)) {
            tried = 0;
            last = event.id || last;
            yield event;
          }
        } else {
          const answer = await answerOf(response);
          if (!passes(answer) || tried > this.#retries) decode(answer);
          wanted = answer.retryAfter;
        }
      } catch (error) {
        if (error instanceof TickwheelError) throw error;
        reason = error;
      } finally {
        abort.abort();
      }
      if (tried > this.#retries) throw new Unreachable(`GET ${this.#url}/v1/events: ${reasonOf(reason)}`, {cause: reason});
      await sleep(wanted + Math.random() * Math.min(pauseMax, this.#pause * 2 ** Math.max(0, tried - 1)));
    }
  }

  /** What became of each attempt, the newest first. */
  deliveries(filter: DeliveryFilter = {}): AsyncGenerator<Delivery> {
    const query = filters(filter);
    for (const name of ["timer", "key", "status"] as const)
      if (filter[name] !== undefined) query.push([name, filter[name]]);
    for (const outcome of filter.outcomes ?? []) query.push(["outcome", outcome]);
    if (filter.since !== undefined) query.push(["since", String(at(filter.since))]);
    return this.#pages<Delivery>("/v1/deliveries", "deliveries", query);
  }

  // ---- schedules ----

  /** The timers that repeat, with their last firings. */
  schedules(filter: ScheduleFilter = {}): AsyncGenerator<ScheduleState> {
    const query = filters(filter);
    if (filter.sort !== undefined) query.push(["sort", filter.sort]);
    for (const last of filter.last ?? []) query.push(["last", last]);
    return this.#pages<ScheduleState>("/v1/schedules", "schedules", query);
  }

  /** The next instants of a schedule; `except`, `only` and `on_holiday` as of a timer. */
  async preview(schedule: ({cron: string; timezone?: string; dst?: string} | {every: Duration}) &
                          {except?: string[]; only?: string[]; on_holiday?: "skip" | "next_workday" | "previous_workday"},
                options: {after?: Instant; n?: number} = {}): Promise<string[]> {
    const given = {...schedule, ...(options.after === undefined ? {} : {after: at(options.after)}),
                   ...(options.n === undefined ? {} : {n: options.n})};
    const query = Object.entries(given).map(([name, value]): [string, string] => [name, String(value)]);
    const body = await this.#send<{instants: string[]}>({method: "GET", path: "/v1/schedule/preview", query});
    return body.instants;
  }

  /** How many timers are due in each coming minute or second. */
  forecast(unit: "minute" | "second" = "minute", count = 60): Promise<Forecast> {
    return this.#send({method: "GET", path: "/v1/forecast", query: [["unit", unit], ["count", String(count)]]});
  }

  // ---- queues ----

  /** Due items, for this worker alone until the lease ends. `wait`: how long to wait for the first one. */
  async lease(queue: string, options: {max?: number; wait?: Duration; lease?: Duration} = {}): Promise<Item[]> {
    if (options.lease !== undefined) checked(options.lease);
    const body = await this.#json<{items: Omit<Item, "leased_until">[]; leased_until: string}>(
      "POST", `/v1/queues/${encodeURIComponent(queue)}/lease`, options, {wait: milliseconds(options.wait ?? "0s")});
    return body.items.map((item) => ({...item, leased_until: body.leased_until}));
  }

  async #receipts(queue: string, verb: string, items: (Item | string)[], rest: object): Promise<AckResult[]> {
    const receipts = items.map((item) => (typeof item === "string" ? item : item.receipt));
    const path = `/v1/queues/${encodeURIComponent(queue)}/${verb}`;
    return (await this.#json<{results: AckResult[]}>("POST", path, {receipts, ...rest})).results;
  }

  /** "ok" for each item that is done for good. */
  ack(queue: string, items: (Item | string)[]): Promise<AckResult[]> {
    return this.#receipts(queue, "ack", items, {});
  }

  nack(queue: string, items: (Item | string)[],
       options: {delay?: Duration; error?: string; dead?: boolean} = {}): Promise<AckResult[]> {
    if (options.delay !== undefined) checked(options.delay);
    return this.#receipts(queue, "nack", items, options);
  }

  /** The leases end `lease` from now. */
  extend(queue: string, items: (Item | string)[], lease: Duration = "30s"): Promise<AckResult[]> {
    return this.#receipts(queue, "extend", items, {lease: checked(lease)});
  }

  /** How full the queues are. */
  queues(): Promise<{queues: Queue[]; complete: boolean}> {
    return this.#send({method: "GET", path: "/v1/queues"});
  }

  queue(name: string): Promise<Queue> {
    return this.#send({method: "GET", path: `/v1/queues/${encodeURIComponent(name)}`});
  }

  /** The next items of the queue, without a lease. */
  async peek(queue: string, max = 10): Promise<Timer[]> {
    const path = `/v1/queues/${encodeURIComponent(queue)}/peek`;
    return (await this.#send<{timers: Timer[]}>({method: "GET", path, query: [["limit", String(max)]]})).timers;
  }

  /** No worker gets an item of the queue before it is resumed, by a call or at `until`. */
  pauseQueue(queue: string, pause: Pause = {}): Promise<Hold> {
    return this.#json("POST", `/v1/queues/${encodeURIComponent(queue)}/pause`, held(pause));
  }

  resumeQueue(queue: string): Promise<Hold> {
    return this.#send({method: "POST", path: `/v1/queues/${encodeURIComponent(queue)}/resume`});
  }

  // ---- flows ----

  /** The flows with timers that run or wait, and those that are paused. */
  flows(): Promise<Figures> {
    return this.#send({method: "GET", path: "/v1/flows"});
  }

  /** Sets limits for all timers of the flow, instead of their own. */
  setFlow(key: string, limits: Omit<NonNullable<Create["flow"]>, "key">): Promise<Figures> {
    return this.#json("PUT", `/v1/flows/${encodeURIComponent(key)}`, limits);
  }

  /** Lets the timers of the flow keep their own limits again. */
  removeFlow(key: string): Promise<Figures> {
    return this.#send({method: "DELETE", path: `/v1/flows/${encodeURIComponent(key)}`});
  }

  /** No timer of the flow starts before it is resumed, by a call or at `until`. */
  pauseFlow(key: string, pause: Pause = {}): Promise<Hold> {
    return this.#json("POST", `/v1/flows/${encodeURIComponent(key)}/pause`, held(pause));
  }

  resumeFlow(key: string): Promise<Hold> {
    return this.#send({method: "POST", path: `/v1/flows/${encodeURIComponent(key)}/resume`});
  }

  // ---- targets ----

  /** What goes to each target, and which fail. */
  targets(): Promise<{targets: Target[]; complete: boolean}> {
    return this.#send({method: "GET", path: "/v1/targets"});
  }

  /** Nothing is sent to the target, such as https://shop.example, before it is resumed. */
  pauseTarget(target: string, pause: Pause = {}): Promise<Hold> {
    return this.#json("POST", `/v1/targets/${encodeURIComponent(target)}/pause`, held(pause));
  }

  resumeTarget(target: string): Promise<Hold> {
    return this.#send({method: "POST", path: `/v1/targets/${encodeURIComponent(target)}/resume`});
  }

  /** Closes the breakers of the target. */
  resetTarget(target: string): Promise<Hold> {
    return this.#send({method: "POST", path: `/v1/targets/${encodeURIComponent(target)}/reset`});
  }

  /** All named targets, without their secrets. */
  namedTargets(): Promise<Figures> {
    return this.#send({method: "GET", path: "/v1/named-targets"});
  }

  namedTarget(name: string): Promise<Figures> {
    return this.#send({method: "GET", path: `/v1/named-targets/${encodeURIComponent(name)}`});
  }

  /** Defines it, or replaces its definition: `url`, `headers`, `auth`, `limits` and so on. Secrets left out stay. */
  setNamedTarget(name: string, definition: Figures, options: {ifVersion?: number} = {}): Promise<Figures> {
    return this.#json("PUT", `/v1/named-targets/${encodeURIComponent(name)}`, definition, condition(options.ifVersion));
  }

  /** Replaces the secrets that sign its webhooks: `signing`. Those of before sign too for the time of `overlap`. */
  rotateNamedTarget(name: string, rotation: Figures): Promise<Figures> {
    return this.#json("POST", `/v1/named-targets/${encodeURIComponent(name)}/rotate`, rotation, {isOnce: true});
  }

  /** From now on attempts of its timers fail, until it is defined again. */
  removeNamedTarget(name: string, options: {ifVersion?: number} = {}): Promise<Figures> {
    return this.#send({...condition(options.ifVersion), method: "DELETE",
                       path: `/v1/named-targets/${encodeURIComponent(name)}`});
  }

  /** Seals all secrets with the first key of the daemon. */
  resealNamedTargets(): Promise<Figures> {
    return this.#send({method: "POST", path: "/v1/named-targets/reseal"});
  }

  /** The keys of the tokens (JWT) of webhooks that the daemon makes itself, and where each stands. */
  tokenKeys(): Promise<Figures> {
    return this.#send({method: "GET", path: "/v1/token-keys"});
  }

  /** Makes a new key, ES256 or RS256, which signs when `overlap` is over: a day by default. */
  rotateTokenKeys(rotation: {overlap?: string; alg?: "ES256" | "RS256"} = {}): Promise<Figures> {
    return this.#json("POST", "/v1/token-keys/rotate", rotation, {isOnce: true});
  }

  // ---- answers that come later ----

  /**
   * Ends an attempt that the receiver answered with `Tickwheel-Ack: later`: the timer has fired. `url` is the webhook's
   * Tickwheel-Ack-Url; its last part is used, with this client's service.
   */
  answerAck(url: string): Promise<void> {
    return this.#answer(url, "ack", {});
  }

  /** Ends it without success; the reason is the timer's `last_error`. */
  answerNack(url: string, options: {reason?: string} = {}): Promise<void> {
    return this.#answer(url, "nack", options);
  }

  /** The time for the answer ends so long from now. */
  answerExtend(url: string, by: Duration): Promise<void> {
    return this.#answer(url, "extend", {by: checked(by)});
  }

  #answer(url: string, verb: string, given: unknown): Promise<void> {
    const name = url.replace(/\?.*/, "").replace(/\/+$/, "").replace(/.*\//, ""); // the rest of a webhook's URL is not trusted
    return this.#json("POST", `/answers/${encodeURIComponent(name)}/${verb}`, given, {mayBeEarly: true});
  }

  // ---- calendars of holidays ----

  /** The calendars that schedules can name, of the tenant and of all tenants, without their days. */
  async calendars(): Promise<Calendar[]> {
    return (await this.#send<{calendars: Calendar[]}>({method: "GET", path: "/v1/calendars"})).calendars;
  }

  /** The coming days of a calendar. */
  calendar(name: string): Promise<Calendar> {
    return this.#send({method: "GET", path: `/v1/calendars/${encodeURIComponent(name)}`});
  }

  /** Sets a calendar of the tenant, such as ["2026-12-24/2027-01-01", {date: "2027-05-01", name: "Labour Day"}]. */
  putCalendar(name: string, days: (string | Day)[]): Promise<Calendar> {
    return this.#json("PUT", `/v1/calendars/${encodeURIComponent(name)}`, days);
  }

  deleteCalendar(name: string): Promise<{name: string}> {
    return this.#send({method: "DELETE", path: `/v1/calendars/${encodeURIComponent(name)}`});
  }

  // ---- the service ----

  /** Whether the process runs. */
  health(): Promise<{status: string}> {
    return this.#send({method: "GET", path: "/healthz"});
  }

  /** Resolves when requests are served. Otherwise throws a Problem, whose detail says why; it is not repeated. */
  ready(): Promise<{status: string; detail?: string}> {
    return this.#send({method: "GET", path: "/readyz", isOnce: true});
  }

  /** The metrics, in the text format of Prometheus. */
  metrics(): Promise<string> {
    return this.#send({method: "GET", path: "/metrics", isText: true});
  }

  /** The main figures of the daemon. */
  stats(): Promise<Figures> {
    return this.#send({method: "GET", path: "/v1/stats"});
  }

  /** The past of the main figures. */
  history(window: "1h" | "24h" | "7d" = "1h"): Promise<Figures> {
    return this.#send({method: "GET", path: "/v1/history", query: [["window", window]]});
  }

  /** Whether timers are on time, and who waits for what. */
  verdict(): Promise<Figures> {
    return this.#send({method: "GET", path: "/v1/verdict"});
  }

  /** What each tenant uses, and its limits. */
  async tenants(): Promise<Figures[]> {
    const all: Figures[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: {tenants: Figures[]; next: string | null} = await this.#send(
        {method: "GET", path: "/v1/tenants", query: cursor ? [["cursor", cursor]] : []});
      all.push(...page.tenants);
      cursor = page.next;
    }
    return all;
  }

  /** The nodes of the cluster and its partitions. */
  cluster(): Promise<Figures> {
    return this.#send({method: "GET", path: "/v1/cluster"});
  }

  /** Has a node of the cluster give its partitions to the others, and take none back; `owns` counts those left. */
  drainNode(node: number): Promise<Figures> {
    return this.#send({method: "PUT", path: `/v1/cluster/nodes/${node}/drain`});
  }

  undrainNode(node: number): Promise<Figures> {
    return this.#send({method: "DELETE", path: `/v1/cluster/nodes/${node}/drain`});
  }

  maintenance(): Promise<Figures> {
    return this.#send({method: "GET", path: "/v1/admin/maintenance"});
  }

  /** Holds all deliveries back. */
  beginMaintenance(note?: string): Promise<Figures> {
    return this.#json("PUT", "/v1/admin/maintenance", note === undefined ? {} : {note});
  }

  endMaintenance(): Promise<Figures> {
    return this.#send({method: "DELETE", path: "/v1/admin/maintenance"});
  }

  /** Copies the data folder while the daemon runs. */
  backup(): Promise<Figures> {
    return this.#send({method: "POST", path: "/v1/admin/backup"});
  }

  // ---- dead letters ----

  /** Dead letters, oldest first. */
  dead(filter: DeadFilter = {}): AsyncGenerator<Timer> {
    return this.#pages<Timer>("/v1/dead", "timers", filters(filter));
  }

  /** Dead letters counted by origin and error. */
  async deadGroups(filter: DeadFilter = {}): Promise<DeadGroup[]> {
    const query = filters(filter);
    return (await this.#send<{groups: DeadGroup[]}>({method: "GET", path: "/v1/dead/groups", query})).groups;
  }

  /** Makes all dead letters that match due again. */
  async redrive(selection: Redrive): Promise<{redriven: number; failed: number}> {
    const total = {redriven: 0, failed: 0};
    for (let cursor: string | null | undefined = ""; typeof cursor === "string"; ) {
      const body: {redriven: number; failed: number; next?: string | null} =
        await this.#json("POST", "/v1/dead/redrive", {...selection, ...(cursor ? {cursor} : {})});
      total.redriven += body.redriven;
      total.failed += body.failed;
      cursor = body.next;
    }
    return total;
  }

  deleteDeadLetter(id: string): Promise<Timer> {
    return this.#send({method: "DELETE", path: `/v1/dead/${encodeURIComponent(id)}`});
  }

  /** Deletes all dead letters that match, or with `all` every one. This cannot be undone. */
  async deleteDead(filter: DeadFilter & {all?: boolean}): Promise<{deleted: number; failed: number}> {
    const query = filters(filter);
    if (filter.all) query.push(["all", "true"]);
    const total = {deleted: 0, failed: 0};
    for (let cursor: string | null = ""; cursor !== null; ) {
      const body: {deleted: number; failed: number; next: string | null} = await this.#send(
        {method: "DELETE", path: "/v1/dead", query: cursor ? [...query, ["cursor", cursor]] : query});
      total.deleted += body.deleted;
      total.failed += body.failed;
      cursor = body.next;
    }
    return total;
  }
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  return {status: response.status, text, retryAfter: 1000 * (Number(response.headers.get("retry-after")) || 0)};
}

/** The events of a stream (server-sent events). */
async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<Event> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, {stream: true});
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const fieldsOf: Record<string, string> = {};
      for (const line of text.slice(0, end).split("\n")) {
        const [name, ...rest] = line.split(": ");
        fieldsOf[name ?? ""] = rest.join(": ");
      }
      text = text.slice(end + 2);
      if (fieldsOf.data)
        yield {id: fieldsOf.id ?? "", type: fieldsOf.event ?? "", ...(parse(fieldsOf.data, 200) as object)} as Event;
    }
  }
}

function held(pause: Pause): object {
  return pause.until === undefined ? pause : {...pause, until: at(pause.until)};
}

function condition(ifVersion: number | undefined): {headers: Record<string, string>} {
  return {headers: ifVersion === undefined ? {} : {"If-Match": `"${ifVersion}"`}};
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message || error.message : error.message;
}
