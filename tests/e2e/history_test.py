#!/usr/bin/env python3
"""GET /v1/history on a real daemon: what happened is in each window, also after kill -9 and a clean stop; a damaged file is
set aside; a full disk gets no byte; only a token that may see /metrics sees it."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness
from daemon_case import make_token

STEPS = {"1h": 10, "24h": 300, "7d": 1800}
COUNTS = ("created", "fired", "failed", "dead", "cancelled")


class HistoryTest(daemon_case.DaemonCase):
    def points(self, window):
        answer = self.call(200, "GET", f"/v1/history?window={window}")[1]
        self.assertEqual((answer["window"], answer["step_seconds"]), (window, STEPS[window]))
        times = [point["at"] for point in answer["points"]]
        self.assertEqual(times, sorted(set(times)))
        self.assertTrue(all(time <= answer["now"] for time in times))
        return answer["points"]

    def sums(self, window="1h"):
        points = self.points(window)
        return {name: sum(point[name] for point in points) for name in COUNTS}

    def work(self):
        """Three that fire, one that is cancelled, one that becomes dead after two attempts, one that no worker takes."""
        for _ in range(3):
            self.wait_for_arrivals(self.create(after=0))
        self.call(200, "DELETE", f"/v1/timers/{self.create()['id']}")
        self.await_state(self.create("/status/500", after=0,
                                     retry={"max_attempts": 2, "base": "1ms", "cap": "1ms"}), "dead")
        self.create(target="queue:idle", after=0)

    def await_written(self, expected):
        """A sample is shown a moment before it is in the file."""
        path = os.path.join(self.data, "HISTORY")

        def written():
            return os.stat(path).st_mtime_ns if os.path.exists(path) else 0

        before = [written()]

        def is_shown():
            now = written()
            if self.sums() == expected:
                return True
            before[0] = now
            return False

        harness.wait_until(is_shown, 30, "a sample")
        harness.wait_until(lambda: written() != before[0], 30, "it is in the file")

    # proves: history
    def test_a_past_that_survives_the_process(self):
        self.work()
        expected = {"created": 6, "fired": 3, "failed": 2, "dead": 1, "cancelled": 1}
        self.await_written(expected)
        self.restart()
        self.assertEqual(self.sums(), expected)
        self.daemon.signal(signal.SIGTERM)
        self.daemon = self.start()
        for window in STEPS:
            self.assertEqual(self.sums(window), expected)
            points = self.points(window)
            self.assertEqual(max(point["waiting"].get("worker", 0) for point in points), 1)
            late = [point for point in points if "late_p99" in point]
            self.assertTrue(late)
            self.assertTrue(all(0 < point["late_p50"] <= point["late_p99"] < 60 for point in late))
            self.assertTrue(all(point["span_ms"] <= 1000 * STEPS[window] + 1000 for point in points))

    def test_a_clean_stop_loses_nothing(self):
        self.work()
        self.daemon.signal(signal.SIGTERM)
        self.daemon = self.start()
        self.assertEqual(self.sums()["fired"], 3)

    def test_a_damaged_file_is_set_aside(self):
        self.work()
        self.daemon.signal(signal.SIGTERM)
        path = os.path.join(self.data, "HISTORY")
        with open(path, "r+b") as file:
            file.write(b"something else")
        self.daemon = self.start()
        self.assertEqual(sum(point["fired"] for point in self.points("1h")), 0)
        self.assertIn("event=history_failed cause=", self.daemon.output())
        self.assertTrue(os.path.exists(path + ".damaged"))

    # proves: start-regular-files
    def test_a_pipe_in_place_of_the_file(self):
        """The start does not wait for somebody who writes to it."""
        self.daemon.signal(signal.SIGTERM)
        path = os.path.join(self.data, "HISTORY")
        if os.path.exists(path):
            os.unlink(path)
        os.mkfifo(path)
        self.daemon = self.start()
        harness.wait_until(lambda: "HISTORY: it is not a regular file" in self.daemon.output(), 20, "the log says so")
        self.work()

    def test_wrong_queries(self):
        for query in ("window=2h", "window=", "window=1h&window=24h", "span=1h"):
            self.call(422, "GET", f"/v1/history?{query}")
        self.call(400, "GET", "/v1/history?" + "&".join(f"a{n}=1" for n in range(9)))
        self.assertEqual(self.call(200, "GET", "/v1/history")[1]["window"], "1h")


class FullDiskTest(daemon_case.DaemonCase):
    flags = ("--disk-reserve-bytes", "1T")

    def start(self, *flags):
        daemon = harness.Daemon(self.data, *self.flags, *flags)
        self.addCleanup(daemon.close)
        return daemon

    def test_nothing_is_written(self):
        harness.wait_until(lambda: "nearly full" in self.daemon.call("GET", "/readyz")[2].get("detail", ""), 20, "full")
        self.daemon.signal(signal.SIGTERM)
        self.assertFalse(os.path.exists(os.path.join(self.data, "HISTORY")))


if __name__ == "__main__":
    unittest.main()
