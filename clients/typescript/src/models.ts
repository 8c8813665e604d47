/** What is sent and answered, in the names of the API. Answers may have further fields. */

/** "90s", "1h30m". A bare number is refused: it has no unit. */
export type Duration = string;
/** RFC 3339, milliseconds since 1970, or a Date. */
export type Instant = string | number | Date;
/** An integer beyond Number.MAX_SAFE_INTEGER (2^53 - 1) is a bigint, so that it keeps its digits. */
export type Json = null | boolean | number | bigint | string | Json[] | {[name: string]: Json};
export type State = "scheduled" | "delivering" | "retrying" | "paused" | "fired" | "cancelled" | "dead" | (string & {});

export interface Retry {
  max_attempts?: number;
  base?: Duration;
  cap?: Duration;
  timeout?: Duration;
  give_up_after?: Duration;
  until?: "next";
}

export interface Schedule {
  every?: Duration;
  count?: number;
  cron?: string;
  timezone?: string;
  dst?: "shift" | "skip" | "first" | "both";
  until?: Instant;
  late?: {drop_after?: Duration; missed?: "last" | "each"};
  spread?: {window: Duration};
  /** A firing that is due while the one before is retried or leased; it waits without this. */
  overlap?: "wait" | "skip" | "allow";
  /** Dates on which it does not fire: dates, ranges of dates, weekdays, `calendar:NAME`. */
  except?: string[];
  /** The dates on which it may fire. */
  only?: string[];
  /** What becomes of a firing on an excluded date. */
  on_holiday?: "skip" | "next_workday" | "previous_workday";
}

/** A schedule as the service shows it: `spread` is how far each firing is moved. */
export type Shown = Omit<Schedule, "spread"> & {spread?: Duration};

/** In place of a time: so long after the last create or put with the key, no later than so long after the first. */
export interface Debounce {
  for: Duration;
  at_most: Duration;
}

/** A part of the past: from `from` on and before `to`; firings at a rate such as "10/s". */
export interface Span {
  from: Instant;
  to: Instant;
  rate?: string;
}

export interface SpanCount {
  count: number;
  first?: string;
  last?: string;
}

/** How far a backfill has come. */
export interface Backfill {
  of: string;
  from?: string;
  to?: string;
  rate?: string;
  count?: number;
  done?: number;
}

export type Method = "POST" | "PUT" | "PATCH" | "GET" | "DELETE";

/** One target, or several, each of which gets its own delivery. */
export type To = {target: string; targets?: never} | {targets: string[]; target?: never};

/** The fields of a new timer: a target or several, and one of after, at, every, cron and debounce. */
export type Create = To & CreateFields;

export interface CreateFields extends Schedule {
  after?: Duration;
  at?: Instant;
  /** Of a webhook; POST without it. GET and DELETE have no payload. */
  method?: Method;
  /** How long a receiver may take that answers later. */
  ack_timeout?: Duration;
  payload?: unknown;
  /** Bytes instead of a payload. */
  body?: Uint8Array;
  content_type?: string;
  headers?: Record<string, string>;
  labels?: Record<string, string>;
  retry?: Retry;
  key?: string;
  debounce?: Debounce;
  watch?: string[];
  /** Limits the timers that share its key. `rate` is "10/s", or a number in `period`. */
  flow?: {key: string; concurrency?: number; rate?: number | string; period?: string | number};
  /** Items of a queue with equal due times come in the order of creation. */
  order?: "strict";
  on_dead?: {target: string};
  on_success?: {target: string};
}

/** A merge patch (RFC 7396): null removes. */
export type Patch = {[Name in keyof Omit<CreateFields, "key" | "debounce">]?: CreateFields[Name] | null} & {
  target?: string;
  targets?: string[];
};

/** One of several targets of a timer, and how it stands in the last firing. */
export interface TargetOutcome {
  target: string;
  state: "scheduled" | "delivering" | "fired" | "dead" | "cancelled";
  /** Of the firing. */
  due?: string;
  /** Of the timer that delivers to it, its part. */
  id?: string;
  attempts?: number;
  last_error?: string;
}

export interface Timer {
  id: string;
  due: string;
  state: State;
  version: number;
  key?: string;
  /** Absent if it has several. */
  target?: string;
  targets?: TargetOutcome[];
  /** Of a part: the timer that it belongs to. */
  part_of?: string;
  order?: "strict";
  method?: Method;
  ack_timeout?: string;
  payload?: Json;
  body_base64?: string;
  content_type?: string;
  headers?: Record<string, string>;
  labels?: Record<string, string>;
  watch?: string[];
  schedule?: Shown & {backfill?: Backfill};
  debounce?: Debounce & {first: string};
  firing_of?: string;
  retry: Retry;
  flow?: CreateFields["flow"];
  on_dead?: {target: string};
  on_success?: {target: string};
  attempts: number;
  last_error?: string;
  next_attempt?: string;
  created: string;
  /** In a final state. */
  ended?: string;
  /** Of a report: the timer that it is about. */
  report_of?: string;
  /** The last firings, the newest first. */
  runs?: Run[];
  paused?: Paused;
}

/** Which timer: by its id, or by its key. */
export type Ref = {id: string; key?: never} | {key: string; id?: never};
export type Time = {after: Duration; at?: never} | {at: Instant; after?: never};

/** A past firing of a timer that repeats. */
export interface Run {
  planned: string;
  until?: string;
  count?: number;
  started?: string;
  duration_ms?: number;
  attempts: number;
  outcome: "done" | "failed" | "ended" | "dropped" | "skipped" | "begun";
  status?: number;
  error?: string;
  /** Of a run that has begun as a timer of its own. */
  timer?: string;
}

/** Why something is paused, and until when; without `until` a call resumes it. */
export interface Pause {
  note?: string;
  until?: Instant;
}

export interface Paused {
  since: string;
  note?: string;
  until?: string;
}

/** What a pause, resume or reset of a queue or a target answers. */
export interface Hold {
  name: string;
  paused?: Paused;
  /** Breakers that were closed. */
  reset?: number;
}

/** A date of a calendar, or a range: 2026-12-24/2027-01-01. */
export interface Day {
  date: string;
  name?: string;
}

/** A calendar of holidays; of the tenant, or of all tenants by the daemon's settings. */
export interface Calendar {
  name: string;
  scope: "tenant" | "all";
  since?: string;
  days?: Day[];
}

export interface Queue {
  name: string;
  ready: number;
  leased: number;
  workers: number;
  more_on_disk: boolean;
  oldest?: string;
  paused?: Paused;
}

export interface Target {
  target: string;
  waiting: number;
  in_flight: number;
  breaker: string;
  failures: number;
  last_error?: string;
  paused?: Paused;
}

/** Live timers; `complete`: all of them have been read. */
export interface Count {
  count: number;
  groups: {state?: State; origin?: string; label?: string | null; count: number}[];
  complete: boolean;
}

/** What an answer has, by name. */
export type Figures = {[name: string]: Json};

export interface Item {
  receipt: string;
  id: string;
  due: string;
  attempt: number;
  payload?: Json;
  body_base64?: string;
  content_type?: string;
  headers?: Record<string, string>;
  labels?: Record<string, string>;
  last_error?: string;
  /** No other worker gets the item before. */
  leased_until: string;
}

export type AckResult = "ok" | "stale" | "unknown";

export interface Failure {
  id?: string;
  key?: string;
  type: string;
  status: number;
}

/** Timers of a call for many; several of these select the union. */
export interface Selection {
  ids?: string[];
  keys?: string[];
  labels?: Record<string, string>;
  watch?: string;
}

export interface ManyResult {
  cancelled?: number;
  rescheduled?: number;
  touched?: number;
  fired?: number;
  paused?: number;
  resumed?: number;
  already_firing: number;
  failures: Failure[];
}

export interface Completion {
  cancelled?: number;
  fired?: number;
  already_firing: number;
}

export interface Completions extends Completion {
  failed: number;
  results: (Completion | Failure)[];
}

export interface Filter {
  states?: State[];
  labels?: Record<string, string>;
  target?: string;
  origin?: string;
  /** How the key begins. */
  key_prefix?: string;
  /** A part of the key. */
  key_contains?: string;
  /** The key of a flow; of lists of live timers alone. */
  flow?: string;
  due_after?: Instant;
  due_before?: Instant;
  page_size?: number;
}

export interface DeadFilter extends Omit<Filter, "states"> {
  error?: string;
}

export interface ScheduleFilter extends Omit<Filter, "states"> {
  /** How the last firing ended. */
  last?: ("never" | "ok" | "failed" | "skipped")[];
  sort?: "next" | "last" | "failures";
}

/** A timer that repeats, with its last firings. */
export interface ScheduleState {
  id: string;
  due: string;
  state: State;
  key?: string;
  target: string;
  labels?: Record<string, string>;
  schedule: Shown;
  attempts: number;
  paused?: Paused;
  next?: string;
  /** What holds it back. */
  held_by?: string;
  last: "never" | "ok" | "failed" | "skipped";
  /** Since the last success. */
  failures: number;
  /** Since the last attempt. */
  skipped: number;
  runs: Run[];
}

export interface DeliveryFilter {
  /** The id of the timer. */
  timer?: string;
  key?: string;
  target?: string;
  origin?: string;
  outcomes?: ("done" | "failed" | "ended")[];
  /** Of the answer, such as 503 or 5xx. */
  status?: string;
  since?: Instant;
  page_size?: number;
}

/** What became of an attempt. */
export interface Delivery {
  id: string;
  at: string;
  timer: string;
  key?: string;
  target: string;
  attempt: number;
  outcome: "done" | "failed" | "ended";
  status?: number;
  /** What the time went to. */
  ms: Record<string, number>;
  error?: string;
  /** Its beginning. */
  answer?: string;
}

export interface EventFilter {
  types?: string[];
  labels?: Record<string, string>;
  target?: string;
  origin?: string;
  key_prefix?: string;
  /** The id of the event after which the stream goes on. */
  last_event_id?: string;
}

/** What happened, see docs/api.md#watching. `lost`: events are missing here. */
export interface Event {
  id: string;
  type: string;
  at?: string;
  /** As it was then, without payload and headers. */
  timer?: Timer;
  /** Of a queue or a target. */
  name?: string;
}

export interface Forecast {
  unit: "second" | "minute";
  count: number;
  from: string;
  until: string;
  due: number[];
  overdue: number;
  complete: boolean;
}

export interface DeadGroup {
  origin: string;
  error: string;
  count: number;
  first: string;
  last: string;
  example: string;
}

export interface Redrive {
  ids?: string[];
  target?: string;
  origin?: string;
  error?: string;
  labels?: Record<string, string>;
  all?: boolean;
  /** How many a second; without it all at once. */
  rate?: number;
  /** Where they go, in place of their own target. */
  new_target?: string;
}
