#!/usr/bin/env python3
"""The real daemon under a wall clock that steps, forward and back, by seconds, hours and a year, also while it
is down: nothing early by the clock shown to it, nothing lost, nothing twice; a step forward fires at once what
it made due, and drops what `late` says is too late by then. What it wrote while the clock was far ahead (retries,
and spilled items) comes when the clock is right. The layer below plays the clock.

    TEST_SEED=N      repeats the steps
    TEST_ROUNDS=N    steps of the walk
"""

import json
import os
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import faults as layer
import harness
import load

ROUNDS = load.rounds(12)
SECOND_MS, HOUR_MS, YEAR_MS = 1000, 3600 * 1000, 365 * 24 * 3600 * 1000
STEPS = (5 * SECOND_MS, 3 * HOUR_MS, YEAR_MS)
FLAGS = ("--window", "10s", "--watermark-interval", "100ms", "--retain", "1h",
         "--storage-memory-bytes", "1M", *load.PAUSES)
ON_ITS_WAY_US = 3 * 1000 * 1000  # how long before it arrived a webhook may have been sent


class Clock:
    """What the daemon is told, and was told."""

    def __init__(self, faults):
        self.faults = faults
        self.offset_ms = 0
        self.history = [(0, 0)]  # from when on, us of the true time; offset, ms

    def now_ms(self):
        return int(time.time() * 1000) + self.offset_ms

    def step(self, ms):
        self.offset_ms += ms
        self.history.append((load.now_us(), self.offset_ms))
        self.faults.set("clock_offset_ns", self.offset_ms * 1000000)
        self.history.append((load.now_us(), self.offset_ms))

    def seen_ms(self, since_us, until_us):
        """The range of times that it may have shown in between."""
        spans = zip(self.history, [at for at, _ in self.history[1:]] + [load.FOREVER])
        offsets = [(max(since_us, at), min(until_us, end), offset) for (at, offset), end in spans
                   if at <= until_us and end >= since_us]
        return (min(begin // 1000 + offset for begin, _, offset in offsets),
                max(-(-end // 1000) + offset for _, end, offset in offsets))


class ClockTest(unittest.TestCase):
    def setUp(self):
        reason = layer.can_preload()
        if reason:
            self.skipTest(reason)
        self.chance = random.Random(f"{load.SEED}{self.id()}")
        self.faults, self.receiver = layer.Faults(), harness.Receiver()
        self.addCleanup(self.faults.close)
        self.addCleanup(self.receiver.close)
        self.clock = Clock(self.faults)
        self.daemon = None
        self.start()

    def start(self, *flags):
        self.daemon = harness.Daemon(self.faults.data, *FLAGS, *flags, env=self.faults.env(has_disk=False))
        self.addCleanup(self.daemon.close)
        harness.wait_until(self.daemon.is_ready, 60, "ready")

    def create(self, dues, **more):
        """One batch; ids in the order of the due times."""
        lines = "".join(json.dumps({"at": due, "target": self.receiver.url(), **more}) + "\n"
                        for due in dues)
        status, _, body = self.daemon.call("POST", "/v1/timers/batch", lines, load.NDJSON)
        self.assertEqual(status, 200)
        return [json.loads(line)["id"] for line in body.splitlines()]

    def arrived(self):
        return load.arrived(self.receiver)

    def wait_for(self, ids, what):
        harness.wait_until(lambda: set(ids) <= set(self.arrived()), 30, what)

    def assert_each_once(self, ids):
        by_timer = self.arrived()
        self.assertEqual([timer for timer in ids if len(by_timer.get(timer, ())) != 1], [])

    def test_forward(self):
        for step in STEPS:
            now = self.clock.now_ms()
            soon = self.create([now + step - offset for offset in range(1000, 3000, 100)])
            late = {"late": {"drop_after": "1s"}}
            kept = self.create([now + step + HOUR_MS] * 20)
            dropped = self.create([now + step - 2000] * 20, **late) if step > HOUR_MS else []
            before = self.daemon.metric("tickwheel_timers_dropped_total")
            if step > HOUR_MS:
                self.assertFalse(set(soon) & set(self.arrived()))
            began = time.monotonic()
            self.clock.step(step)
            self.wait_for(soon, "what the step made due")
            took = time.monotonic() - began
            if dropped:
                harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_dropped_total") ==
                                   before + len(dropped), 30, "what the step made too late")
            self.assert_each_once(soon)
            self.assertFalse(set(self.arrived()) & set(kept + dropped))
            self.clock.step(HOUR_MS)
            self.wait_for(kept, "what another hour made due")
            self.assert_each_once(soon + kept)
            print(f"forward {step // 1000} s: {len(soon)} fired within {took:.2f} s, {len(dropped)} dropped, "
                  f"{len(kept)} not before their hour")

    def test_back(self):
        for step in STEPS:
            def put_back():
                """In time, or once more."""
                now = self.clock.now_ms()
                ids = self.create([now + 1000 + 10 * offset for offset in range(20)])
                self.clock.step(-step)
                return ids if self.clock.now_ms() + step < now + 1000 else self.clock.step(step)
            waiting = harness.wait_until(put_back, 60, "a step before they are due")
            new = self.create([self.clock.now_ms() + 1500] * 20)
            self.wait_for(new, "what is due by the new time")
            self.assertFalse(set(waiting) & set(self.arrived()))
            self.clock.step(step)
            self.wait_for(waiting, "what is due by the old time")
            self.assert_each_once(waiting + new)
            print(f"back {step // 1000} s: {len(waiting)} waited for their time to come again, {len(new)} new "
                  "ones fired meanwhile, each once")

    # ---- a clock that was wrong ----

    def lease_all(self, ids):
        """Takes all items of the queue, and says that they are done."""
        found = set()
        def lease():
            status, _, body = self.daemon.call("POST", "/v1/queues/jobs/lease", {"max": 1000, "wait": "1s"})
            self.assertEqual(status, 200, body)
            found.update(item["id"] for item in body["items"])
            receipts = [item["receipt"] for item in body["items"]]
            if receipts:
                self.daemon.call("POST", "/v1/queues/jobs/ack", {"receipts": receipts})
            return len(found) >= len(ids)
        harness.wait_until(lease, 60, "all items")
        self.assertEqual(found, set(ids))

    def write_ahead(self, ahead):
        """Retries, each somewhere within two hours, and more items than there is memory for: due by the right
        clock in a minute, and tried before by a clock that steps ahead."""
        soon = self.clock.now_ms() + 60 * SECOND_MS  # not within the window, so there is room to create them
        retried = self.create([soon] * 40, target=self.receiver.url("/flaky/1"),
                              retry={"base": "2h", "cap": "2h", "max_attempts": 5})
        queued = self.create([soon] * self.chance.randrange(2500, 3500), target="queue:jobs",
                             payload="x" * self.chance.randrange(900, 1100))
        self.clock.step(ahead)
        def are_written():
            bodies = [self.daemon.call("GET", f"/v1/timers/{timer}")[2] for timer in retried]
            states = {body.get("timer", body)["state"] for body in bodies}
            return states <= {"retrying", "fired"}  # by chance one was tried again at once
        harness.wait_until(are_written, 30, "all first attempts have failed")
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_spilled_total") > 100, 30,
                           "items are put back for want of room")
        return retried, queued

    def test_written_ahead(self):
        little = ("--near-bytes-max", "1M", "--target-breaker-failures", "0")
        self.daemon.signal(signal.SIGKILL)
        self.start(*little)
        for is_down in (True, False):
            ahead = int(YEAR_MS * self.chance.uniform(0.2, 2))
            retried, queued = self.write_ahead(ahead)
            if is_down:
                self.daemon.signal(signal.SIGKILL)
            self.clock.step(-ahead)
            if is_down:
                self.start(*little)
            self.clock.step(61 * SECOND_MS)
            began = time.monotonic()
            self.lease_all(queued)
            took = time.monotonic() - began
            self.clock.step(2 * HOUR_MS)
            def attempts():
                by_timer = self.arrived()
                return [[a.attempt for a in by_timer.get(timer, ())] for timer in retried]
            harness.wait_until(lambda: all(2 in each for each in attempts()), 30, "all second attempts")
            if not is_down:
                self.assertEqual([each for each in attempts() if each != [1, 2]], [])
            print(f"written {ahead // HOUR_MS} h ahead, then right {'while down' if is_down else 'while up'}: "
                  f"{len(queued)} items leased within {took:.2f} s, {len(retried)} retries came")

    # ---- a walk ----

    def walk(self, timers, cancelled):
        now = self.clock.now_ms()
        dues = [now + self.chance.choice((0, 300, 1000, 3 * SECOND_MS, HOUR_MS, YEAR_MS)) +
                self.chance.randrange(1000) for _ in range(20)]
        created_us = load.now_us()
        for timer, due in zip(self.create(dues), dues):
            timers[timer] = (due, created_us)
        victim = self.chance.choice(list(timers))
        status = self.daemon.call("DELETE", f"/v1/timers/{victim}")[0]
        self.assertIn(status, (200, 409, 410, 404))  # 404: over, and forgotten in a year's step
        if status == 200:
            cancelled[victim] = load.now_us()
        step = self.chance.choice(STEPS) + self.chance.randrange(1000)
        kills = self.chance.random() < 0.2
        if kills:
            self.daemon.signal(signal.SIGKILL)
        self.clock.step(step if self.chance.random() < 0.6 else -step)
        if kills:
            self.start()
        time.sleep(self.chance.uniform(0, 0.5))  # how long the clock keeps this time
        return kills

    def test_walk(self):
        timers, cancelled, kills = {}, {}, 0
        for _ in range(ROUNDS):
            kills += self.walk(timers, cancelled)
        self.clock.step(max(due for due, _ in timers.values()) + HOUR_MS - self.clock.now_ms())
        wanted = set(timers) - set(cancelled)
        try:
            self.wait_for(wanted, "all that was created")
        except TimeoutError:
            pass
        by_timer = self.arrived()
        lost = wanted - set(by_timer)
        early, after = [], []
        for timer, arrivals in by_timer.items():
            due, created_us = timers[timer]
            for a in arrivals:
                since_us = max(created_us, a.at_us - ON_ITS_WAY_US)
                if self.clock.seen_ms(since_us, a.at_us)[1] < due:
                    early.append((timer, due))
                if a.at_us > cancelled.get(timer, load.FOREVER):
                    after.append(timer)
        twice = [timer for timer, arrivals in by_timer.items() if len(arrivals) > 1]
        print(f"{ROUNDS} steps of the clock, {kills} of them while it was down: timers compared {len(timers)}, "
              f"cancelled {len(cancelled)}\nlost {len(lost)}, early {len(early)}, after cancel {len(after)}, "
              f"twice {len(twice)} (only a kill may repeat one)", flush=True)
        self.assertFalse(lost or early or after, (lost, early, after))
        if not kills:
            self.assertFalse(twice)
        for timer in twice:
            self.assertEqual(len({a.webhook_id for a in by_timer[timer]}), 1)


if __name__ == "__main__":
    print(f"TEST_SEED={load.SEED} TEST_ROUNDS={ROUNDS}", flush=True)
    if layer.can_preload():
        print(f"skipped: {layer.can_preload()}")
        sys.exit(77)
    unittest.main(verbosity=2)
