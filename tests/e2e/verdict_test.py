#!/usr/bin/env python3
"""GET /v1/verdict on a real daemon names who waits for what, in the words of an explanation, each cause after its fault and
none before; doctor and top say the same; only a token that may see /metrics sees it."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import daemon_case
import harness


class VerdictTest(daemon_case.DaemonCase):
    def verdict(self):
        return self.call(200, "GET", "/v1/verdict")[1]

    def lines(self):
        return {line["for"]: line for line in self.verdict()["waiting"]}

    def await_line(self, reason, count):
        harness.wait_until(lambda: self.lines().get(reason, {}).get("count") == count, 20, reason)
        return self.lines()[reason]

    # proves: verdict
    def test_each_cause(self):
        first = self.verdict()
        self.assertEqual((first["state"], first["waiting"], first["complete"]), ("on-time", [], True))
        for _ in range(2):
            self.create(target="queue:mail?priority=2", after=0)
        self.call(200, "POST", "/v1/queues/held/pause", {"note": "moving \"house\""})
        held = self.create(target="queue:held", after=0)
        worker = self.await_line("worker", 2)
        self.assertEqual(worker["target"], "queue:mail")
        self.assertRegex(worker["text"], r"^2 timers wait, the first for \d+s\. No worker asks for items of queue:mail\.$")
        paused = self.await_line("paused", 1)
        self.assertRegex(paused["text"], r'^1 timer waits, for \d+s\. queue:held was paused \d+s ago \("moving "house""\), '
                                         r"until it is resumed\.$")
        explained = self.call(200, "GET", f"/v1/timers/{held['id']}/explain")[1]["explanation"]
        self.assertIn("until it is resumed.", explained)
        self.assertEqual(self.verdict()["state"], "on-time")  # nobody is late: workers and a pause decide

        for _ in range(8):
            self.create(target="http://127.0.0.1:1/x?secret=1", after=0, retry={"max_attempts": 99, "base": "1ms", "cap": "1ms"})
        harness.wait_until(lambda: "breaker" in self.lines(), 20, "a breaker")
        answer = self.verdict()
        self.assertEqual((answer["state"], answer["waiting"][0]["for"]), ("late", "breaker"))
        line = answer["waiting"][0]
        self.assertEqual(line["target"], "http://127.0.0.1:1")
        self.assertRegex(line["text"], r'http://127\.0\.0\.1:1 failed \d+ times in a row, the last time with "connection refused"; '
                                       r"(it is left alone for .* more|one delivery tries it again)\.$")
        self.assertNotIn("secret", str(answer))

        env = command_line.environment(f"http://127.0.0.1:{self.daemon.port}")
        done = command_line.run("doctor", "--data", self.data, env=env)
        self.assertIn("No worker asks for items of queue:mail.", done.out)
        self.assertIn("timers wait, the first for", command_line.run("top", "--count", "1", env=env).out.split("\n")[1])

        self.call(200, "PUT", "/v1/admin/maintenance", {"note": "a new disk"})
        harness.wait_until(lambda: "maintenance" in self.lines(), 20, "maintenance")
        maintenance = self.lines()["maintenance"]
        self.assertGreater(maintenance["count"], 2)
        self.assertNotIn("target", maintenance)
        self.assertIn("The operator holds all deliveries back: maintenance.", maintenance["text"])
        self.assertEqual(self.verdict()["state"], "late")
        self.call(200, "DELETE", "/v1/admin/maintenance")

    # proves: verdict
    def test_what_a_breaker_postponed(self):
        self.restart("--target-breaker-failures", "3", "--target-breaker-pause", "300ms", "--target-breaker-pause-max", "1s")
        for _ in range(10):
            self.create(target="http://127.0.0.1:1/x", after=0, retry={"max_attempts": 99, "base": "1ms", "cap": "1ms"})
        self.await_line("breaker", 10)
        for _ in range(4):  # rounds in which each is refused, apart from one that is tried
            postponed = self.daemon.metric("tickwheel_attempts_postponed_total")
            while self.daemon.metric("tickwheel_attempts_postponed_total") < postponed + 9:
                answer = self.verdict()
                self.assertEqual((answer["state"], answer["waiting"][0]["target"]), ("late", "http://127.0.0.1:1"))
                self.assertGreater(self.daemon.metric('tickwheel_oldest_overdue_seconds{kind="webhook"}'), 1)
            self.await_line("breaker", 10)

    # proves: verdict
    def test_many_targets(self):
        for n in range(15):
            self.create(target=f"queue:q{n}", after=0)
        harness.wait_until(lambda: not self.verdict()["complete"], 20, "more than ten targets")
        self.assertEqual(len(self.verdict()["waiting"]), 10)


class UnreadyTest(daemon_case.DaemonCase):
    def start(self, *flags):
        daemon = harness.Daemon(self.data, "--disk-reserve-bytes", "1T")
        self.addCleanup(daemon.close)
        return daemon

    # proves: verdict
    def test_the_reason_is_that_of_readyz(self):
        harness.wait_until(lambda: "nearly full" in self.daemon.call("GET", "/v1/verdict")[2].get("reason", ""), 20, "a full disk")
        answer = self.call(200, "GET", "/v1/verdict")[1]
        self.assertEqual((answer["state"], answer["waiting"]), ("unready", []))
        self.assertIn("the disk is nearly full", answer["reason"])
        self.assertEqual(answer["reason"].split(":")[0], self.call(503, "GET", "/readyz")[1]["detail"].split(":")[0])


if __name__ == "__main__":
    unittest.main()
