// A virtual clock: a month of reminders, retries of days, and what is refused.
import assert from "node:assert/strict";
import {test} from "node:test";
import {VirtualTickwheel} from "tickwheel/testing";

async function start(t, ...flags) {
  const tickwheel = await VirtualTickwheel.start(...flags);
  t.after(() => tickwheel.close());
  return tickwheel;
}

test("a month of daily reminders over a DST change", async (t) => {
  const began = performance.now();
  const tickwheel = await start(t, "2027-03-01T00:00Z");
  await tickwheel.client.create({target: tickwheel.url("/remind"), cron: "0 9 * * *", timezone: "Europe/Berlin", payload: {a: 1}});
  const advanced = await tickwheel.advance("31d");
  t.diagnostic(`a month and the start of the daemon took ${Math.round(performance.now() - began)} ms`);
  assert.deepEqual(advanced, {now: new Date("2027-04-01T00:00:00Z"), fired: 31, delivered: 31, failed: 0});
  assert.deepEqual(await tickwheel.now(), advanced.now);
  // 9:00 in Berlin is 8:00 UTC before 28 March, and 7:00 from then on
  assert.deepEqual(tickwheel.delivered("/remind").map(({due}) => due),
    Array.from({length: 31}, (_, i) => new Date(Date.UTC(2027, 2, i + 1, i + 1 < 28 ? 8 : 7))));
  assert.equal(tickwheel.delivered()[0].body, '{"a":1}');
  assert.deepEqual(tickwheel.delivered("/other"), []);
});

test("retries of days", async (t) => {
  const tickwheel = await start(t, "2027-03-01T00:00Z");
  tickwheel.answer = () => (tickwheel.received.length < 2 ? 503 : 200);
  await tickwheel.client.create({target: tickwheel.url("/a"), after: "1h", retry: {base: "1d", cap: "1d"}});
  assert.equal((await tickwheel.advanceTo("next")).failed, 1);
  assert.deepEqual(await tickwheel.now(), new Date("2027-03-01T01:00:00Z"));
  const {delivered, failed} = await tickwheel.advanceTo(new Date("2027-03-09T00:00:00Z"));
  assert.deepEqual([delivered, failed], [1, 1]);
  assert.deepEqual(tickwheel.received.map(({attempt}) => attempt), [1, 2, 3]);
  assert.deepEqual(tickwheel.delivered().map(({attempt}) => attempt), [3]);
});

test("what is refused", async (t) => {
  const tickwheel = await start(t);
  await assert.rejects(tickwheel.advanceTo("2020-01-01T00:00:00Z"), /does not go back/);
  await assert.rejects(VirtualTickwheel.start("2027-13-01T00:00Z"), /no month 13/);
});
