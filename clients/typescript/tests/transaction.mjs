// The calls that clients/contract/outbox.py expects, in transactions of node-postgres, Drizzle and postgres.js; Prisma is a
// stand-in with its one method that is used.
import {deepEqual, equal, rejects, throws} from "node:assert/strict";
import {sql} from "drizzle-orm";
import {drizzle} from "drizzle-orm/node-postgres";
import pg from "pg";
import postgres from "postgres";
import {Client} from "tickwheel";

const timers = new Client("http://127.0.0.1:1"); // nothing is asked of it
const url = process.env.DATABASE_URL;
const pool = new pg.Pool({connectionString: url});
const rolledBack = new Error("rolled back");

async function all(outbox, name) {
  const rows = [
    await outbox.create({
      target: "queue:a", after: "1h30m", key: name, payload: {text: process.env.OUTBOX_TEXT, n: 1.5}, labels: {team: "it's"},
      retry: {base: "2s"}, watch: [`${name}-paid`],
    }),
    await outbox.put(name, {target: "queue:b", at: new Date(Date.UTC(2099, 0, 31, 7, 0, 0, 1))}),
    await outbox.touch(name, {after: "30d"}),
    await outbox.create({
      targets: ["queue:c", "queue:d"], every: "1d", body: new Uint8Array([0, 255]), content_type: "application/x-two",
    }),
    await outbox.complete(`${name}-paid`),
    await outbox.cancel(name),
  ];
  equal(typeof rows[0], "bigint");
  deepEqual(rows, rows.slice().sort((a, b) => (a < b ? -1 : 1)));
}

/** `begin` runs a function with an outbox and a query in a transaction, and commits unless it fails. */
async function both(name, begin) {
  await begin(async (outbox, query) => {
    await query("INSERT INTO orders VALUES (1, 'reserved')");
    await all(outbox, name);
  });
  await rejects(begin(async (outbox) => {
    await outbox.create({target: "queue:a", after: "1h", key: `${name}-not`});
    throw rolledBack;
  }), rolledBack);
}

async function begun(client, run) {
  await client.query("BEGIN");
  try {
    await run();
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}

const client = new pg.Client(url);
await client.connect();
await both("pg", (run) => begun(client, () => run(timers.inTransaction(client), (text) => client.query(text))));
const pooled = await pool.connect();
await both("pool", (run) => begun(pooled, () => run(timers.inTransaction(pooled), (text) => pooled.query(text))));

const db = drizzle(pool);
await both("drizzle", (run) => db.transaction((tx) => run(timers.inTransaction(tx, sql), (text) => tx.execute(text))));

const prisma = {
  async $queryRawUnsafe(text, ...values) {
    return (await client.query(text, values)).rows.map((row) => ({...row, id: row.id && BigInt(row.id)}));
  },
};
await both("prisma", (run) => begun(client, () => run(timers.inTransaction(prisma), prisma.$queryRawUnsafe)));

const other = postgres(url);
await both("postgres", (run) => other.begin((tx) => run(
  timers.inTransaction((text, values) => tx.unsafe(text, values)), (text) => tx.unsafe(text))));

// What is wrong fails before a statement is sent, so that the transaction is still good.
await rejects(begun(client, async () => {
  const outbox = timers.inTransaction(client);
  for (const given of [{after: 30}, {after: "soon"}, {after: "1m1h"}, {after: ""}, {after: "30"}, {after: "-1h"}, {at: "infinity"},
    {at: "2099-01-31T09:00:00"}, {at: NaN}, {after: "1h", retry: {base: 1}}])
    await rejects(outbox.create({target: "queue:a", ...given}), /duration|instant|time/i);
  await outbox.cancel("still-a-transaction");
  throw rolledBack;
}), rolledBack);
await rejects(timers.inTransaction(async () => undefined).cancel("k"), TypeError);
for (const wrong of [pool, {}, db])
  throws(() => timers.inTransaction(wrong), TypeError);

pooled.release();
await Promise.all([client.end(), pool.end(), other.end()]);
