import {exactly} from "./duration.js";
import {at, fields} from "./fields.js";
import {formatJson} from "./json.js";
import type {Create, Instant, Time} from "./models.js";

/** Runs a statement with places `$1`, `$2` in the caller's transaction, and resolves to its rows. */
export type Query = (statement: string, values: (string | null)[]) => PromiseLike<unknown>;
/** A Client or PoolClient of node-postgres. A Pool is none: it has no transaction. */
export interface PgConnection { query(statement: string, values: unknown[]): PromiseLike<unknown> }
/** What `$transaction` of Prisma gives to its function. */
export interface PrismaTransaction { $queryRawUnsafe(statement: string, ...values: unknown[]): PromiseLike<unknown> }
/** What `transaction` of Drizzle gives to its function. Its tag `sql` is the second argument of inTransaction. */
export interface DrizzleTransaction<Sql> { execute(statement: Sql): PromiseLike<unknown> }
export type SqlTag<Sql> = (parts: TemplateStringsArray, ...values: string[]) => Sql;

/* All parameters are texts, which every driver sends alike; the server converts them. A delay is milliseconds, because a `day` of
   PostgreSQL has 23 hours when clocks go forward. */
const casts = {
  text: (place: string) => `CAST(${place} AS text)`,
  json: (place: string) => `CAST(CAST(${place} AS text) AS json)`,
  after: (place: string) => `CAST(CAST(${place} AS text) AS bigint) * interval '1 millisecond'`,
  at: (place: string) => `CAST(CAST(${place} AS text) AS timestamptz)`,
};
const parameters = {target: casts.text, after: casts.after, at: casts.at, key: casts.text, event: casts.text, fields: casts.json};
const withZone = /^\d{4}-\d{2}-\d{2}[Tt ][\d:.]+([Zz]|[+-]\d{2}:\d{2})$/;

type Values = {[Name in keyof typeof parameters]?: string | null | undefined};

function instantText(value: Instant): string {
  const text = typeof value === "number" ? new Date(value).toISOString() : String(at(value));
  if (!withZone.test(text)) throw new RangeError(`${text} is no instant: write RFC 3339 with a zone, as in "2027-01-31T09:00:00Z"`);
  return text;
}

function when(given: {after?: unknown; at?: unknown}): Values {
  return {after: given.after == null ? null : exactly(given.after), at: given.at == null ? null : instantText(given.at as Instant)};
}

function withTag<Sql>(connection: DrizzleTransaction<Sql>, tag: SqlTag<Sql>): Query {
  return (statement, values) => {
    const parts = statement.split(/\$\d+/);
    return connection.execute(tag(Object.assign(parts, {raw: parts}), ...(values as string[])));
  };
}

/** The function that runs statements on the connection of a library. */
export function queryOf<Sql>(connection: Query | PgConnection | PrismaTransaction | DrizzleTransaction<Sql>, tag?: SqlTag<Sql>): Query {
  if (tag && "execute" in connection) return withTag(connection, tag);
  if (typeof connection === "function") return connection;
  if ("$queryRawUnsafe" in connection) return (statement, values) => connection.$queryRawUnsafe(statement, ...values);
  const isPool = "totalCount" in connection;
  if ("query" in connection && typeof connection.query === "function" && !isPool)
    return (statement, values) => connection.query(statement, values);
  throw new TypeError("this is no connection that has a transaction: give a client of a pool, or a function");
}

/**
 * Calls that are rows of an outbox: they take effect if the caller's transaction commits. Each resolves to the number of its
 * row, which is `id` in `tickwheel.rejected` if the service refuses it later. Errors of the database are those of its driver.
 */
export class Transaction {
  readonly #query: Query;

  constructor(query: Query) {
    this.#query = query;
  }

  /** As Client.create. If a live timer that differs has the key, the row is rejected. */
  create(timer: Create): Promise<bigint> {
    return this.#schedule("schedule", timer);
  }

  /** Makes the timer with this key, or replaces it whole. */
  put(key: string, timer: Create): Promise<bigint> {
    return this.#schedule("put", {...timer, key});
  }

  /** Puts the timer with this key off; never makes it earlier. */
  async touch(key: string, time: Time): Promise<bigint> {
    return this.#run("touch", {key, ...when(time)});
  }

  /** Without effect if the timer is over; rejected if its delivery has begun by the time the row is read. */
  cancel(key: string): Promise<bigint> {
    return this.#run("cancel", {key});
  }

  /** Cancels the timers that watch the event. */
  complete(event: string): Promise<bigint> {
    return this.#run("complete", {event});
  }

  /** The time, the key and a single target are parameters; all other fields are one JSON. */
  async #schedule(call: string, timer: Create): Promise<bigint> {
    const {target, after, at: instant, key, ...rest} = fields(timer) as Record<string, string>;
    return this.#run(call, {target: target ?? null, key: key ?? null, ...when({after, at: instant}), fields: formatJson(rest)});
  }

  async #run(call: string, values: Values): Promise<bigint> {
    const names = Object.keys(values) as (keyof Values)[];
    const given = names.map((name, index) => `${name} => ${parameters[name](`$${index + 1}`)}`);
    const result = await this.#query(`SELECT tickwheel.${call}(${given.join(", ")}) AS id`, names.map((name) => values[name] ?? null));
    const rows = (Array.isArray(result) ? result : (result as {rows?: unknown} | null)?.rows) as {id?: string}[] | undefined;
    if (rows?.[0]?.id === undefined) throw new TypeError("the function did not resolve to the rows of the statement");
    return BigInt(rows[0].id);
  }
}
