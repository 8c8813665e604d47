#!/usr/bin/env python3
"""What an operator sees of firings, above all of those that failed for good. Method: a daemon, a receiver that answers as its path says, and
the log of events, the metrics and the calls beside each other."""

import json
import os
import re
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness

GIVEN_UP = re.compile(r"event=(timer_dead|firing_given_up) (.*)")
PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^ "]*)(?: |$)')
ONCE = {"max_attempts": 1}


class FiringCase(daemon_case.DaemonCase):
    def change(self, method, timer, body=None):
        """Changes a timer that repeats, between two of its deliveries."""
        def is_done():
            status, _, answer = self.daemon.call(method, f"/v1/timers/{timer['id']}", body)
            self.assertIn(status, (200, 409), answer)
            return status == 200
        harness.wait_until(is_done, 20, f"{method} between two deliveries")


class GivenUpLogTest(FiringCase):
    def lines(self):
        """The lines of the log on firings that were given up: their event and pairs."""
        return [{"event": found[1], **{key: value[1:-1] if value[0] == '"' else value for key, value in PAIR.findall(found[2])}}
                for found in map(GIVEN_UP.search, self.daemon.output().splitlines()) if found]

    def lines_of(self, timer, count):
        harness.wait_until(lambda: len([line for line in self.lines() if line["id"] == timer["id"]]) >= count,
                           20, f"{count} lines of {timer['id']}")
        return [line for line in self.lines() if line["id"] == timer["id"]]

    # proves: given-up-log
    def test_one_line_for_each_firing_given_up(self):
        """A timer that dies has one line; one that repeats has a line for each firing, with the time of the next."""
        origin = self.receiver.url("")
        dead = self.create("/status/500", after=0, retry=ONCE, key='a "key"')
        refused = self.create("/gone", after=0)
        fired = self.create(after=0)
        repeated = self.create("/status/500", every="100ms", retry=ONCE, key="report")
        line, = self.lines_of(dead, 1)
        self.assertEqual((line["event"], line["key"], line["origin"], line["attempts"]),
                         ("timer_dead", 'a \\"key\\"', origin, "1"))
        self.assertIn("500", line["error"])
        self.assertEqual(self.lines_of(refused, 1)[0]["event"], "timer_dead")
        failed = self.lines_of(repeated, 3)
        for line, following in zip(failed, failed[1:]):
            self.assertEqual((line["event"], line["key"], line["next"]), ("firing_given_up", "report", following["due"]))
        self.assertEqual(self.get(repeated)[0], 200)
        self.change("DELETE", repeated)
        self.await_state(fired, "fired")
        harness.wait_until(lambda: self.daemon.metric("tickwheel_firings_given_up_total") == len(self.lines()), 20,
                           "a line for each")
        self.assertEqual(len(self.lines_of(dead, 1)), 1)
        self.assertFalse([line for line in self.lines() if line["id"] == fired["id"]])

    # proves: given-up-log, given-up-lines
    def test_many_deaths_cost_few_lines(self):
        """Thousands die at once: 100 lines a second, and with `more` they count all of them."""
        count, begun = 5000, time.monotonic()
        lines = json.dumps({"after": 0, "target": self.receiver.url("/gone")}) + "\n"
        self.call(200, "POST", "/v1/timers/batch", lines * count, {"Content-Type": "application/x-ndjson"})

        def told():
            return sum(1 + int(line.get("more", 0)) for line in self.lines())
        harness.wait_until(lambda: told() >= count, 60, "all deaths in the log")
        self.assertEqual(told(), count)
        self.assertLessEqual(len(self.lines()), 100 * (time.monotonic() - begun + 2))
        self.assertLess(len(self.lines()), count)


class RunsTest(FiringCase):
    def runs(self, timer):
        answer = self.call(200, "GET", f"/v1/timers/{timer['id']}/runs")[1]
        self.assertEqual(answer["id"], timer["id"])
        return answer["runs"]

    def runs_of(self, timer, count):
        harness.wait_until(lambda: len(self.runs(timer)) >= count, 20, f"{count} runs of {timer['id']}")
        return self.runs(timer)

    # proves: runs, run-planned, run-started, run-outcome
    def test_runs_are_what_the_receiver_saw(self):
        """Each firing is one run, the newest first; the times are those of the last attempt."""
        timer = self.create("/status/500", every="300ms", retry={"max_attempts": 2, "base": "1ms", "cap": "1ms"})
        self.runs_of(timer, 3)
        self.change("PATCH", timer, {"target": self.receiver.url("/slow/50")})
        harness.wait_until(lambda: self.runs(timer)[0]["outcome"] == "done", 20, "a firing with success")
        self.change("DELETE", timer)
        runs = self.runs(timer)
        self.assertEqual(self.get(timer)[2]["timer"]["runs"], runs)
        planned = [daemon_case.ms_of(run["planned"]) for run in runs]
        self.assertEqual(planned, sorted(set(planned), reverse=True))
        self.wait_for_arrivals(timer, sum(run["attempts"] for run in runs))
        arrivals = self.arrivals_of(timer)
        for run, planned_ms in zip(runs, planned):
            seen = [each for each in arrivals if each.due_ms == planned_ms]
            self.assertEqual(len(seen), run["attempts"], run)
            self.assertLessEqual(daemon_case.ms_of(run["started"]) * 1000, seen[-1].at_us)
            if run["outcome"] == "done":
                self.assertEqual((run["status"], "error" in run), (200, False))
                self.assertGreaterEqual(run["duration_ms"], 50)
            else:
                self.assertEqual((run["outcome"], run["status"], run["attempts"], run["error"]), ("failed", 500, 2, "HTTP 500"))

    # proves: runs, runs-count
    def test_the_last_twenty_outlive_a_kill(self):
        timer = self.create(every="20ms", count=30, late={"missed": "each"})
        self.runs_of(timer, 10)
        before = self.runs(timer)
        self.restart()
        after = {run["planned"]: run for run in self.runs(timer)}
        for run in before[-5:]:
            self.assertEqual(after.get(run["planned"], run), run)
        self.assertEqual(self.await_state(timer, "fired")["runs"], self.runs(timer))
        planned = [daemon_case.ms_of(run["planned"]) for run in self.runs(timer)]
        self.assertEqual([planned[0] - each for each in planned], [20 * i for i in range(20)])

    # proves: runs
    def test_a_worker_and_a_timer_that_fires_once(self):
        """The run of an item of a queue ends with its ack. A timer that fires once has none, an unknown one is 404."""
        timer = self.create(target="queue:jobs", every="2s", key="report")
        item = self.call(200, "POST", "/v1/queues/jobs/lease", {"wait": "10s"})[1]["items"][0]
        self.assertEqual(self.runs(timer), [])
        self.assertNotIn("runs", self.get(timer)[2])
        self.call(200, "POST", "/v1/queues/jobs/ack", {"receipts": [item["receipt"]]})
        run, = self.runs(timer)
        self.assertEqual((run["outcome"], run["attempts"], run["planned"]), ("done", 1, item["due"]))
        self.assertNotIn("status", run)
        again = self.call(200, "PUT", "/v1/keys/report/timer", {"target": "queue:jobs", "every": "2h"})[1]
        self.assertEqual(again["runs"], [run])
        once = self.create(after=0)
        self.await_state(once, "fired")
        self.assertEqual(self.runs(once), [])
        self.call(404, "GET", "/v1/timers/00000000000000000000000000/runs")


if __name__ == "__main__":
    unittest.main()
