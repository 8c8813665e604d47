// The contract of all client libraries (clients/contract), on a real daemon.
import assert from "node:assert/strict";
import {randomBytes} from "node:crypto";
import {readdirSync, readFileSync} from "node:fs";
import {join} from "node:path";
import {test} from "node:test";
import {Client, Problem, TickwheelError, Verifier} from "tickwheel";

const url = process.env.TICKWHEEL_URL;
const folder = process.env.TICKWHEEL_CONTRACT;
const client = new Client(url, {pause: 1});

function fillIn(value, names) {
  if (typeof value === "string")
    return Object.entries(names).reduce((text, [name, saved]) => text.replaceAll("${" + name + "}", saved), value);
  if (Array.isArray(value)) return value.map((one) => fillIn(one, names));
  if (value !== null && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, fillIn(one, names)]));
  return value;
}

/** Everything that is expected is there; there may be more. */
function check(expected, seen, where) {
  if (Array.isArray(expected)) {
    assert.equal(seen?.length, expected.length, `${where}: ${JSON.stringify(seen)}`);
    expected.forEach((one, i) => check(one, seen[i], `${where}[${i}]`));
  } else if (expected !== null && typeof expected === "object") {
    assert.equal(typeof seen, "object", where);
    for (const [name, one] of Object.entries(expected)) check(one, seen[name], `${where}.${name}`);
  } else assert.equal(seen, expected, where);
}

async function all(iterator, take = Infinity) {
  const found = [];
  for await (const one of iterator) if (found.push(one) >= take) break;
  return found;
}

const defined = (given) => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));

function fields({body_base64, ...given}) {
  return body_base64 === undefined ? given : {...given, body: Buffer.from(body_base64, "base64")};
}

const calls = {
  create: (given) => client.create(fields(given)),
  put: ({key, if_version, ...given}) => client.put(key, given, {ifVersion: if_version}),
  get: (given) => client.get(given),
  change: ({if_version, patch, ...ref}) => client.change(ref, patch, {ifVersion: if_version}),
  touch: ({id, key, ...time}) => client.touch(id ? {id} : {key}, time),
  cancel: ({if_version, ...ref}) => client.cancel(ref, {ifVersion: if_version}),
  list: ({flow_key, ...filter}) => all(client.list(defined({flow: flow_key, ...filter}))),
  batch: async ({timers}) => (await client.batch(timers)).map(
    ({error, ...line}) => (error ? {error: {...error.body, type: error.type}} : line)),
  cancel_many: (given) => client.cancelMany(given),
  touch_many: ({after, ...given}) => client.touchMany(given, {after}),
  reschedule_many: ({after, ...given}) => client.rescheduleMany(given, {after}),
  complete: ({event}) => client.complete(event),
  complete_many: ({events}) => client.completeMany(events),
  preview: ({after, n, ...schedule}) => client.preview(schedule, defined({after, n})),
  runs: (ref) => client.runs(ref),
  explain: (ref) => client.explain(ref),
  forecast: ({unit, count}) => client.forecast(unit, count),
  lease: ({queue, ...given}) => client.lease(queue, given),
  ack: ({queue, receipts}) => client.ack(queue, receipts),
  nack: ({queue, receipts, ...given}) => client.nack(queue, receipts, given),
  extend: ({queue, receipts, lease}) => client.extend(queue, receipts, lease),
  events: ({take, ...filter}) => all(client.events(filter), take),
  fire: ({if_version, ...ref}) => client.fire(ref, {ifVersion: if_version}),
  pause: ({id, key, if_version, ...pause}) => client.pause(id ? {id} : {key}, pause, {ifVersion: if_version}),
  resume: ({if_version, ...ref}) => client.resume(ref, {ifVersion: if_version}),
  release: ({if_version, ...ref}) => client.release(ref, {ifVersion: if_version}),
  backfill: ({id, key, ...span}) => client.backfill(id ? {id} : {key}, span),
  backfill_count: ({id, key, ...span}) => client.backfillCount(id ? {id} : {key}, span),
  fire_many: (given) => client.fireMany(given),
  pause_many: ({note, until, ...given}) => client.pauseMany(given, defined({note, until})),
  resume_many: (given) => client.resumeMany(given),
  schedules: (filter) => all(client.schedules(filter)),
  deliveries: (filter) => all(client.deliveries(filter)),
  health: () => client.health(),
  ready: () => client.ready(),
  metrics: async ({has}) => (await client.metrics()).includes(has),
  count: ({by}) => client.count(by),
  queues: () => client.queues(),
  queue: ({queue}) => client.queue(queue),
  peek: ({queue, max}) => client.peek(queue, max),
  queue_pause: ({queue, ...pause}) => client.pauseQueue(queue, pause),
  queue_resume: ({queue}) => client.resumeQueue(queue),
  flows: () => client.flows(),
  flow_set: ({key, limits}) => client.setFlow(key, limits),
  flow_remove: ({key}) => client.removeFlow(key),
  flow_pause: ({key, ...pause}) => client.pauseFlow(key, pause),
  flow_resume: ({key}) => client.resumeFlow(key),
  targets: () => client.targets(),
  target_pause: ({target, ...pause}) => client.pauseTarget(target, pause),
  target_resume: ({target}) => client.resumeTarget(target),
  target_reset: ({target}) => client.resetTarget(target),
  named_targets: () => client.namedTargets(),
  named_target_get: ({name}) => client.namedTarget(name),
  named_target_set: ({name, definition, if_version}) => client.setNamedTarget(name, definition, {ifVersion: if_version}),
  named_target_rotate: ({name, rotation}) => client.rotateNamedTarget(name, rotation),
  named_target_remove: ({name}) => client.removeNamedTarget(name),
  named_targets_reseal: () => client.resealNamedTargets(),
  token_keys: () => client.tokenKeys(),
  token_keys_rotate: (rotation) => client.rotateTokenKeys(rotation),
  answer_ack: ({url}) => client.answerAck(url),
  answer_nack: ({url, reason}) => client.answerNack(url, {reason}),
  answer_extend: ({url, by}) => client.answerExtend(url, by),
  calendars: () => client.calendars(),
  calendar: ({calendar}) => client.calendar(calendar),
  calendar_put: ({calendar, days}) => client.putCalendar(calendar, days),
  calendar_delete: ({calendar}) => client.deleteCalendar(calendar),
  stats: () => client.stats(),
  history: ({window}) => client.history(window),
  verdict: () => client.verdict(),
  tenants: () => client.tenants(),
  cluster: () => client.cluster(),
  cluster_drain: ({node}) => client.drainNode(node),
  cluster_undrain: ({node}) => client.undrainNode(node),
  maintenance: () => client.maintenance(),
  maintenance_begin: ({note}) => client.beginMaintenance(note),
  maintenance_end: () => client.endMaintenance(),
  backup: () => client.backup(),
  dead_delete_one: ({id}) => client.deleteDeadLetter(id),
  dead_list: (filter) => all(client.dead(filter)),
  dead_groups: (filter) => client.deadGroups(filter),
  dead_redrive: (selection) => client.redrive(selection),
  dead_delete: (filter) => client.deleteDead(filter),
  verify: ({secret, headers, body_base64}) =>
    new Verifier(secret).isValid(headers, Buffer.from(body_base64, "base64")),
  faults: async (list) => (await fetch(`${url}/_faults`, {method: "POST", body: JSON.stringify(list)})).json(),
};

async function runStep(step, names, where) {
  let seen;
  try {
    seen = await calls[step.do](fillIn(step.with, names));
  } catch (error) {
    if (!(error instanceof TickwheelError) || !step.error) throw error;
    check(fillIn(step.error, names), error instanceof Problem ? {...error.body, type: error.type} : error, where);
    return;
  }
  assert.ok(!step.error, `${where}: ${JSON.stringify(seen)}`);
  if (step.expect !== undefined) check(fillIn(step.expect, names), seen, where);
  for (const [name, path] of Object.entries(step.save ?? {}))
    names[name] = String(path.split(".").reduce((value, part) => value[part], seen));
}

for (const file of readdirSync(folder).sort())
  for (const one of JSON.parse(readFileSync(join(folder, file), "utf8")))
    test(one.name, async () => {
      const names = {run: randomBytes(6).toString("hex")};
      for (const [i, step] of one.steps.entries()) await runStep(step, names, `step ${i + 1}, ${step.do}`);
    });

test("a bare number is no duration", async () => {
  for (const call of [
    () => client.create({target: "queue:a", after: 30}), () => client.create({target: "queue:a", every: 30}),
    () => client.create({target: "queue:a", after: "1h", retry: {base: 5}}), () => client.lease("a", {wait: 5}),
    () => client.create({target: "queue:a", after: "1h", late: {drop_after: 5}}), () => client.lease("a", {lease: 5}),
    () => client.touch({id: "a"}, {after: 1}), () => client.nack("a", [], {delay: 1}), () => client.extend("a", [], 30)])
    await assert.rejects(async () => call(), /is no duration/);
});
