// Workers and the check of webhooks, on a real daemon.
import assert from "node:assert/strict";
import {randomBytes} from "node:crypto";
import {createServer} from "node:http";
import {test} from "node:test";
import {setTimeout as sleep} from "node:timers/promises";
import {Client, Dead, Gone, Retry, Verifier, Worker} from "tickwheel";

const client = new Client(undefined, {pause: 10});
const count = 60;

async function makeItems(count) {
  const queue = randomBytes(6).toString("hex");
  const results = await client.batch(
    Array.from({length: count}, (_, n) => ({target: `queue:${queue}`, after: "0s", payload: n})));
  return {queue, ids: results.map((result) => result.id)};
}

async function finalState(id) {
  try {
    return (await client.get({id})).state;
  } catch (error) {
    assert.ok(error instanceof Gone);
    return error.timer.state;
  }
}

test("every item ends as its function says, and no more than `concurrency` run at a time", async () => {
  const {queue, ids} = await makeItems(count);
  const isTwice = (n) => n % 3 === 0 && n % 10 !== 0;
  const wanted = count + ids.filter((_, n) => isTwice(n)).length;
  const seen = Array(count).fill(0);
  let calls = 0, running = 0, most = 0;
  const worker = new Worker(client, queue, async (item) => {
    most = Math.max(most, ++running);
    seen[item.payload]++;
    await sleep(0);
    running--;
    if (++calls === wanted) worker.stop();
    if (item.payload % 10 === 0) throw new Dead("tenth");
    if (isTwice(item.payload) && item.attempt === 1) throw new Retry("0s", "third");
  }, {concurrency: 5});
  await worker.run();
  for (const [n, id] of ids.entries()) {
    assert.equal(await finalState(id), n % 10 === 0 ? "dead" : "fired", `item ${n}`);
    assert.equal(seen[n], isTwice(n) ? 2 : 1, `item ${n}`);
  }
  assert.ok(most > 1 && most <= 5, `${most} at a time`);
});

test("a lease is extended while its function runs", async () => {
  const {queue, ids} = await makeItems(1);
  const attempts = [];
  const worker = new Worker(client, queue, async (item) => {
    attempts.push(item.attempt);
    await sleep(4000); // longer than the lease
    worker.stop();
  }, {concurrency: 2, lease: "3s"});
  await worker.run();
  assert.deepEqual(attempts, [1]);
  assert.equal(await finalState(ids[0]), "fired");
});

test("a function that hangs does not keep a worker, is named and told; its item comes again", async () => {
  const {queue, ids} = await makeItems(1);
  const warnings = [];
  let given;
  const worker = new Worker(client, queue, (_, signal) => {
    given = signal;
    setTimeout(() => worker.stop(), 10); // noticed although no place is free
    return new Promise(() => {});
  }, {lease: "1s", drain: "200ms", warn: (text) => warnings.push(text)});
  await worker.run();
  assert.ok(given.aborted);
  assert.deepEqual(warnings, [`item ${ids[0]} still runs after 200 ms: it comes again when its lease ends`]);
  const [item] = await client.lease(queue, {max: 1, wait: "20s", lease: "30s"});
  assert.deepEqual([item.id, item.attempt], [ids[0], 2]);
});

test("integers of payloads keep their digits, also beside texts that look like them", async () => {
  const {queue} = await makeItems(0);
  const payload = {
    least: 9007199254740993n, most: 18446744073709551615n, negative: -9007199254740993n, exact: 9007199254740991,
    list: [1e300, 0.1, 12345678901234567890123n], "12345678901234567890": "12345678901234567890",
    text: 'a "12345678901234567890" \\',
  };
  const {id} = await client.create({target: `queue:${queue}`, after: "0s", payload});
  assert.deepEqual((await client.get({id})).payload, payload);
  const [item] = await client.lease(queue, {max: 1, wait: "20s", lease: "30s"});
  assert.deepEqual(item.payload, payload);
  await client.ack(queue, [item]);
  const [made] = await client.batch([{target: `queue:${queue}`, after: "1h", payload}]);
  assert.deepEqual((await client.get({id: made.id})).payload, payload);
});

test("what cannot work is refused", () => {
  assert.throws(() => new Worker(client, "q", () => {}, {lease: "10ms"}), RangeError);
  assert.throws(() => new Worker(client, "q", () => {}, {concurrency: 0}), RangeError);
  assert.throws(() => new Client("ftp://shop.example"), TypeError);
  for (const secret of ["", "whsec_", "whsec_%%"]) assert.throws(() => new Verifier(secret), TypeError);
});

test("a webhook of the daemon reaches the handler with its body; others do not", async () => {
  const bodies = [];
  let came;
  const first = new Promise((resolve) => { came = resolve; });
  const verifier = new Verifier(process.env.TICKWHEEL_SECRET);
  const server = createServer(verifier.listener((request, response, body) => {
    bodies.push(body.toString());
    response.writeHead(204).end(came);
  }));
  await new Promise((resolve) => { server.listen(0, "127.0.0.1", resolve); });
  const url = `http://127.0.0.1:${server.address().port}/hook`;
  await client.create({target: url, after: "0s", payload: {order: 42}});
  await first;
  assert.deepEqual(bodies, ['{"order":42}']);
  assert.equal((await fetch(url, {method: "POST", body: "x"})).status, 401);
  // The server closes before it has read all: the client may see that before the status.
  const large = fetch(url, {method: "POST", body: "x".repeat(3 << 20)});
  assert.equal(await large.then((response) => response.status, () => 413), 413);
  assert.equal(bodies.length, 1);
  server.closeAllConnections();
  server.close();
});

test("the middleware for express takes the bytes as received", () => {
  const middleware = new Verifier(process.env.TICKWHEEL_SECRET).express();
  const response = {writeHead(status) { this.status = status; return this; }, end() {}};
  middleware({headers: {}, body: Buffer.from("x")}, response, () => assert.fail("it came through"));
  assert.equal(response.status, 401);
  assert.throws(() => middleware({headers: {}, body: {order: 42}}, response, () => {}), TypeError);
});
