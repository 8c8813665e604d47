#!/usr/bin/env python3
"""A disk that fills up and fails, under the real daemon: while it lasts, creates are refused with 503 and
Retry-After and existing timers continue as far as possible; afterwards the service recovers by itself; and
after a further power cut no acknowledged timer is missing. The layer below plays the disk.

    TEST_SEED=N      repeats the clients' choices
    TEST_ROUNDS=N    disks that fail in each of the ways
"""

import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import faults as layer
import harness
import load

ROUNDS = load.rounds(2)
MIB = 1 << 20
REFUSALS = 20
RESERVE = 48 * MIB
BALLAST = (1 + 16) * MIB  # of RESERVE in the data folder, which counts as free
FLAGS = ("--window", "1s", "--watermark-interval", "100ms", "--retain", "1h",
         "--storage-memory-bytes", "1M", *load.PAUSES, "--disk-reserve-bytes", str(RESERVE))


class DiskTest(unittest.TestCase):
    def setUp(self):
        reason = layer.can_preload()
        if reason:
            self.skipTest(reason)
        self.chance = random.Random(f"{load.SEED}{self.id()}")
        self.faults = self.record = self.receiver = self.daemon = None
        self.addCleanup(self.throw_away)
        self.make_disk()

    def make_disk(self):
        self.throw_away()
        self.faults, self.record, self.receiver = layer.Faults(), load.Record(), harness.Receiver()

    def throw_away(self):
        for what in (self.daemon, self.receiver, self.faults):
            if what:
                what.close()
        self.daemon = None

    def start(self, *flags):
        self.daemon = harness.Daemon(self.faults.data, *FLAGS, *flags, env=self.faults.env())
        harness.wait_until(self.daemon.is_ready, 60, "ready")

    def post(self, **timer):
        return self.daemon.call("POST", "/v1/timers", timer)

    def is_created(self):
        return self.post(after="1h", target="queue:other")[0] == 201

    def is_refused(self, crowd):
        """Clients have been told of it."""
        return sum(member.refused for member in crowd.members) >= REFUSALS

    def under_load(self, fault, restore, is_felt):
        """Clients at work, a fault while they are, and again clients at work. How many requests failed."""
        crowd = load.Crowd(self.daemon, self.receiver, self.record, self.chance, patience={503})
        harness.wait_until(lambda: crowd.requests() > 50, 60, "requests")
        fault()
        harness.wait_until(lambda: is_felt(crowd), 60, "the fault")
        restore()
        harness.wait_until(self.is_created, 60, "a create after the fault")
        harness.wait_until(self.daemon.is_ready, 60, "ready after the fault")
        before = crowd.requests()
        harness.wait_until(lambda: crowd.requests() > before + 50, 60, "requests after the fault")
        self.daemon.close()
        crowd.end()
        return sum(member.refused for member in crowd.members)

    def compare(self):
        """After a power cut."""
        keep, _ = self.faults.cut(self.chance, self.chance.choice(("first", "some")))
        self.start()
        workers = load.Crowd(self.daemon, self.receiver, self.record, self.chance, clients=0)
        verdict = self.record.compare(self.daemon, self.receiver)
        workers.end()
        corrupt = self.daemon.metric("tickwheel_records_corrupt_total")
        if verdict.is_broken() or corrupt:
            print(f"after a power cut that kept {keep}:")
            verdict.show(self.record)
            self.fail("a promise is broken")
        return verdict

    def all_rounds(self, counter, fault, restore, is_felt):
        """Each on a disk of its own, with a power cut at the end."""
        total, refused, count = load.Verdict(), 0, 0
        for _ in range(ROUNDS):
            self.make_disk()
            self.start()
            refused += self.under_load(fault, restore, is_felt)
            count += self.faults.get(counter)
            total.add(self.compare())
        print(f"{ROUNDS} disks, then a power cut each: {counter} {count}, requests answered 503: {refused}")
        total.show()
        return refused

    # ---- full ----

    # proves: disk_reserve_bytes
    def test_reserve(self):
        self.start()
        due = int(time.time() * 1000) + 3000
        webhooks = [self.post(at=due, target=self.receiver.url())[2]["id"] for _ in range(50)]
        items = [self.post(at=due, target="queue:jobs")[2]["id"] for _ in range(50)]
        far = self.post(after="1h", target="queue:jobs", key="far")[2]["id"]
        self.faults.set("space_bytes", RESERVE - BALLAST - 1)
        harness.wait_until(lambda: not self.is_created(), 10, "a refusal")
        for method, path, body in (("POST", "/v1/timers", {"after": "1h", "target": "queue:x"}),
                                   ("PUT", "/v1/keys/new/timer", {"after": "1h", "target": "queue:x"})):
            status, headers, problem = self.daemon.call(method, path, body)
            self.assertEqual((status, problem["type"]), (503, "/problems/disk-full"), (method, path))
            self.assertGreater(int(headers["Retry-After"]), 0)
        status, _, body = self.daemon.call("POST", "/v1/timers/batch",
                                           '{"after":"1h","target":"queue:x"}\n', load.NDJSON)
        self.assertIn("disk-full", body if isinstance(body, str) else str(body))
        self.assertIn("the disk is nearly full", str(self.daemon.call("GET", "/readyz")[2]))

        harness.wait_until(lambda: set(webhooks) <= set(load.arrived(self.receiver)), 30, "webhooks")
        leased = []
        def lease():
            leased.extend(self.daemon.call("POST", "/v1/queues/jobs/lease",
                                           {"max": 100, "wait": "1s", "lease": "60s"})[2]["items"])
            return {item["id"] for item in leased} >= set(items)
        harness.wait_until(lease, 30, "items")
        results = self.daemon.call("POST", "/v1/queues/jobs/ack",
                                   {"receipts": [item["receipt"] for item in leased]})[2]["results"]
        self.assertEqual(results, ["ok"] * len(leased))
        self.assertEqual(self.daemon.call("PATCH", f"/v1/timers/{far}", {"after": "2h"})[0], 200)
        self.assertEqual(self.daemon.call("DELETE", f"/v1/timers/{far}")[0], 200)

        self.faults.set("space_bytes", RESERVE + MIB)
        harness.wait_until(self.is_created, 10, "a create when there is room again")
        print(f"below the reserve: creates refused, {len(webhooks)} webhooks fired, {len(leased)} items "
              "acknowledged, one changed, one cancelled; above it again without a restart")

    def test_full(self):
        self.all_rounds("refused_full",
                        lambda: self.faults.set("space_bytes", self.chance.randrange(200000)),
                        lambda: self.faults.set("space_bytes", layer.UNLIMITED), self.is_refused)

    # ---- failing ----

    def fails(self, field, counter):
        self.all_rounds(counter, lambda: self.faults.set(field, self.chance.randrange(1, 30)), lambda: None,
                        lambda _: self.faults.get(counter) > 0 and self.faults.get(field) == 0)

    def test_write_fails(self):
        self.fails("writes_to_fail", "writes_failed")

    def test_sync_fails(self):
        self.fails("syncs_to_fail", "syncs_failed")

    def test_writes_fail_for_long(self):
        """Timers that could not be written stay neither in memory nor in the counts."""
        self.start("--near-bytes-max", "1M")
        self.assertTrue(self.is_created())
        self.faults.set("writes_to_fail", 1 << 30)
        for _ in range(500):  # together more than the memory of timers
            status, headers, _ = self.post(after="1h", target="queue:other", payload="x" * 4000)
            self.assertEqual(status, 503)
            self.assertGreater(int(headers["Retry-After"]), 0)
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_pending") == 1, 120, "the counts")
        self.faults.set("writes_to_fail", 0)
        harness.wait_until(self.is_created, 60, "a create after the fault")

    def test_short_writes(self):
        refused = self.all_rounds("shorts", lambda: self.faults.set("short_every", 3),
                                  lambda: self.faults.set("short_every", 0),
                                  lambda _: self.faults.get("shorts") > 20)
        self.assertEqual(refused, 0)  # the rest is written after it: no request may notice


if __name__ == "__main__":
    print(f"TEST_SEED={load.SEED} TEST_ROUNDS={ROUNDS}", flush=True)
    if layer.can_preload():
        print(f"skipped: {layer.can_preload()}")
        sys.exit(77)
    unittest.main(verbosity=2)
