import {setTimeout as sleep} from "node:timers/promises";
import type {Client} from "./client.js";
import {milliseconds} from "./duration.js";
import type {AckResult, Duration, Item} from "./models.js";

/** Thrown by a worker's function: the item comes again after `delay`. */
export class Retry extends Error {
  constructor(readonly delay: Duration, reason = "") {
    super(reason);
  }
}

/** Thrown by a worker's function: the item becomes a dead letter at once. */
export class Dead extends Error {}

export interface WorkerOptions {
  /** Items at a time; 1. */
  concurrency?: number;
  /** At least "1s"; "30s". It is extended at a third of it. */
  lease?: Duration;
  /** How long a stop waits for what was begun; "30s". */
  drain?: Duration;
  /** Told what went wrong; the default writes to the console. */
  warn?: (text: string) => void;
}

const wait = "5s"; // how long a lease waits for its first item; a stop is noticed at its end
const pauseMs = 1_000; // after the service was not reachable, beyond the client's retries
const errorBytesMax = 159; // of the reason of a failure, which the service stores

/**
 * Leases the items of a queue, runs a function for each, and acknowledges: an item whose function
 * resolves is done; one whose function throws is given back, and comes again as the timer's `retry`
 * says. Leases are extended meanwhile. An item comes at least once: drop known ids in the transaction
 * of the work.
 *
 * `stop` lets what was begun end, for `drain`. Items left then are named by `warn`, and come again when
 * their lease ends; the signal that their functions got is aborted, so that what they wait for does not
 * keep the process from ending.
 */
export class Worker {
  readonly #concurrency: number;
  readonly #lease: number;
  readonly #drain: number;
  readonly #warn: (text: string) => void;
  readonly #underWay = new Map<string, string>(); // receipts, with the ids of their items
  readonly #running = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  readonly #stopped: Promise<void>;
  readonly #over = new AbortController();

  constructor(readonly client: Client, readonly queue: string,
              readonly work: (item: Item, signal: AbortSignal) => unknown, options: WorkerOptions = {}) {
    this.#stopped = new Promise((resolve) => this.#stop.signal.addEventListener("abort", () => resolve()));
    this.#concurrency = options.concurrency ?? 1;
    this.#lease = milliseconds(options.lease ?? "30s");
    this.#drain = milliseconds(options.drain ?? "30s");
    this.#warn = options.warn ?? ((text) => console.warn(`tickwheel: ${text}`));
    if (!(this.#concurrency >= 1)) throw new RangeError("concurrency must be at least 1");
    if (!(this.#lease >= 1000)) throw new RangeError("lease must be at least a second");
  }

  /** Ends `run`, once what was begun is finished. */
  stop(): void {
    this.#stop.abort();
  }

  /** Works until stopped. */
  async run(): Promise<void> {
    const heart = setInterval(() => void this.#extend(), this.#lease / 3);
    try {
      while (!this.#stop.signal.aborted) {
        if (this.#running.size >= this.#concurrency) {
          await Promise.race([...this.#running, this.#stopped]);
          continue;
        }
        for (const item of await this.#leaseItems(this.#concurrency - this.#running.size)) {
          const done: Promise<void> = this.#handle(item).finally(() => this.#running.delete(done));
          this.#running.add(done);
        }
      }
      const given = new AbortController();
      await Promise.race([Promise.all(this.#running), sleep(this.#drain, undefined, given).catch(() => undefined)]);
      given.abort();
      for (const id of this.#underWay.values())
        this.#warn(`item ${id} still runs after ${this.#drain} ms: it comes again when its lease ends`);
    } finally {
      this.#over.abort();
      clearInterval(heart);
    }
  }

  async #leaseItems(max: number): Promise<Item[]> {
    try {
      const items = await this.client.lease(this.queue, {max, wait, lease: `${this.#lease}ms`});
      for (const item of items) this.#underWay.set(item.receipt, item.id);
      return items;
    } catch (error) {
      this.#warn(`lease of ${this.queue}: ${String(error)}`);
      await sleep(pauseMs, undefined, {signal: this.#stop.signal}).catch(() => undefined);
      return [];
    }
  }

  async #settle(item: Item): Promise<AckResult[]> {
    try {
      await this.work(item, this.#over.signal);
    } catch (error) {
      const reason = error instanceof Error ? error.message || error.name : String(error);
      return this.client.nack(this.queue, [item], {
        error: cut(reason), ...(error instanceof Retry ? {delay: error.delay} : {}),
        ...(error instanceof Dead ? {dead: true} : {}),
      });
    }
    return this.client.ack(this.queue, [item]);
  }

  async #handle(item: Item): Promise<void> {
    try {
      const [result] = await this.#settle(item);
      if (result !== "ok") this.#warn(`item ${item.id}: its lease was over (${result}); it may come again`);
    } catch (error) {
      this.#warn(`item ${item.id}: its end could not be told, so it comes again: ${String(error)}`);
    } finally {
      this.#underWay.delete(item.receipt);
    }
  }

  async #extend(): Promise<void> {
    const receipts = [...this.#underWay.keys()];
    for (let i = 0; i < receipts.length; i += 1000)
      await this.client.extend(this.queue, receipts.slice(i, i + 1000), `${this.#lease}ms`).catch(
        (error: unknown) => this.#warn(`leases could not be extended: ${String(error)}`));
  }
}

/** The beginning of a text that fits into the service's record. */
function cut(text: string): string {
  return new TextDecoder().decode(new TextEncoder().encode(text).subarray(0, errorBytesMax), {stream: true});
}
