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
        repeated = self.create("/status/500", every="100ms", late={"missed": "each"}, retry=ONCE, key="report")
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

    # proves: runs, run-planned, run-outcome
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
        item = self.call(200, "POST", "/v1/queues/jobs/lease", {"wait": "20s"})[1]["items"][0]
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


class ReportsTest(FiringCase):
    def take(self, queue, count=1, way="ack", **more):
        """Leases items of the queue until there are so many, and answers them."""
        items = []

        def leased():
            taken = self.call(200, "POST", f"/v1/queues/{queue}/lease", {"max": 100, "wait": "1s"})[1]["items"]
            if taken:
                receipts = [item["receipt"] for item in taken]
                self.call(200, "POST", f"/v1/queues/{queue}/{way}", {"receipts": receipts, **more})
            items.extend(taken)
            return len(items) >= count
        harness.wait_until(leased, 30, f"{count} items of {queue}")
        return items

    # proves: report, report-body, report-timer
    def test_each_end_goes_to_its_target(self):
        """A webhook that fails for good, a repeating timer with success, a refused item: each has its report, cancels have none."""
        reports = {"on_dead": {"target": "queue:dead"}, "on_success": {"target": self.receiver.url("/done")}}
        dead = self.create("/status/500", after=0, retry=ONCE, key="bill", labels={"team": "a"}, **reports)
        self.assertEqual({name: dead[name] for name in reports}, reports)
        item, = self.take("dead")
        run = dict(item["payload"])
        self.assertEqual((run.pop("id"), run.pop("key"), run.pop("labels")), (dead["id"], "bill", {"team": "a"}))
        self.assertEqual((run["planned"], run["attempts"], run["outcome"], run["status"], run["error"]),
                         (dead["due"], 1, "failed", 500, "HTTP 500"))
        self.assertEqual(self.get(item)[2]["timer"]["report_of"], dead["id"])
        self.assertEqual(self.await_state(dead, "dead")["on_dead"], reports["on_dead"])

        repeated = self.create(every="100ms", count=3, late={"missed": "each"}, on_success={"target": "queue:done"})
        self.await_state(repeated, "fired")
        runs = self.call(200, "GET", f"/v1/timers/{repeated['id']}/runs")[1]["runs"]
        self.assertEqual(sorted((item["payload"] for item in self.take("done", 3)), key=lambda told: told["planned"]),
                         [{"id": repeated["id"], **run} for run in reversed(runs)])

        done = self.create(after=0, **reports)
        self.await_state(done, "fired")
        harness.wait_until(lambda: self.receiver.arrivals()[-1].path == "/done", 20, "a webhook")

        refused = self.create(target="queue:jobs", after=0, **reports)
        self.take("jobs", way="nack", dead=True, error="no such order")
        self.assertEqual([(each["payload"]["id"], each["payload"]["outcome"], each["payload"]["error"])
                          for each in self.take("dead")], [(refused["id"], "ended", "no such order")])
        cancelled = self.create(**reports)
        self.call(200, "DELETE", f"/v1/timers/{cancelled['id']}")
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_pending") == 0, 20, "nothing more")

    # proves: report
    def test_a_redrive_is_reported_again(self):
        timer = self.create("/gone", after=0, on_dead={"target": "queue:dead"})
        first, = self.take("dead")
        self.call(200, "POST", "/v1/dead/redrive", {"ids": [timer["id"]]})
        second, = self.take("dead")
        self.assertEqual(first["payload"]["id"], second["payload"]["id"])
        self.assertNotEqual(first["id"], second["id"])

    # proves: report, target-private, patch-fields
    def test_a_target_that_may_not_be_called_is_refused(self):
        self.refused("#/on_dead/target", on_dead={"target": "http://10.0.0.1/"})
        self.refused("#/on_success", on_success={})
        timer = self.create()
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}", {"on_dead": {"target": "queue:a"}})
        self.assertEqual(self.get(timer)[2]["on_dead"], {"target": "queue:a"})
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}", {"on_dead": None})
        self.assertNotIn("on_dead", self.get(timer)[2])

    # proves: report-once, report-counted
    def test_one_report_for_each_end_through_kills(self):
        """Timers end while the daemon is killed again and again: each of them has one report, and each report its timer."""
        count = 600
        lines = "".join(json.dumps({"after": f"{40 * (i % 50)}ms", "target": self.receiver.url("/gone" if i % 2 else "/ok"),
                                    "on_dead": {"target": "queue:ends"}, "on_success": {"target": "queue:ends"}}) + "\n"
                        for i in range(count))
        _, answer = self.call(200, "POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})
        made = [json.loads(line)["id"] for line in answer.splitlines() if '"id"' in line]
        self.assertEqual(len(made), count)
        for ended in (50, 150, 300):
            harness.wait_until(lambda: len({each.webhook_id for each in self.receiver.arrivals()}) >= ended, 30, f"{ended} deliveries")
            self.restart()
        reports = {}

        def taken():
            for item in self.take("ends", 0):
                reports.setdefault(item["payload"]["id"], set()).add(item["id"])
            return len(reports) >= count and self.daemon.metric("tickwheel_timers_pending") == 0
        harness.wait_until(taken, 60, "a report for each")
        self.assertEqual(set(reports), set(made))
        self.assertEqual({len(ids) for ids in reports.values()}, {1})


if __name__ == "__main__":
    unittest.main()
