#!/usr/bin/env python3
"""Goal: firings that overlap, calls that move a time, and the past of a schedule do what docs/recurrence.md and docs/api.md say,
through kill -9. Method: a daemon, receivers that are slow or record headers, workers that keep a lease."""

import collections
import datetime
import http.server
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness

HOUR = datetime.timedelta(hours=1)


def text_of(instant):
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


class Recorder:
    """A receiver that keeps headers."""

    def __init__(self):
        self.headers = headers = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length", 0)))
                headers.append(dict(self.headers.items()))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class BackfillTest(daemon_case.DaemonCase):
    def setUp(self):
        super().setUp()
        self.to = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)

    def span(self, hours, **fields):
        return {"from": text_of(self.to - hours * HOUR), "to": text_of(self.to), **fields}

    def backfill(self, timer, expected=201, **fields):
        return self.call(expected, "POST", f"/v1/timers/{timer['id']}/backfill", fields)[1]

    # proves: backfill, backfill-order, backfill-mark
    def test_each_instant_fires_once_in_order(self):
        recorder = Recorder()
        self.addCleanup(recorder.close)
        timer = self.create(cron="0 * * * *", target=recorder.url, payload={"a": 1}, labels={"team": "x"})
        made = self.backfill(timer, **self.span(20, rate="20/s"))
        self.assertEqual(made["schedule"]["backfill"],
                         {"of": timer["id"], "from": made["schedule"]["backfill"]["from"],
                          "to": made["schedule"]["backfill"]["to"], "rate": "20/s", "count": 20, "done": 0})
        self.assertEqual(made["labels"], {"team": "x"})
        began = time.monotonic()
        harness.wait_until(lambda: len(recorder.headers) >= 10, 20, "half of them")
        progress = self.get(made)[2]["schedule"]["backfill"]["done"]
        self.assertTrue(0 < progress < 20, progress)
        ended = self.await_state(made, "fired")
        self.assertGreater(time.monotonic() - began, 0.4)  # 20 a second, not faster
        self.assertEqual(len(ended["runs"]), 20)
        due = [headers["tickwheel-due"] for headers in recorder.headers]
        self.assertEqual(due, [(self.to - hours * HOUR).strftime("%Y-%m-%dT%H:%M:%S.000Z") for hours in range(20, 0, -1)])
        self.assertEqual({headers["tickwheel-backfill"] for headers in recorder.headers}, {timer["id"]})
        names = [headers["webhook-id"] for headers in recorder.headers]
        self.assertEqual(len(set(names)), 20)
        self.assertEqual({harness.timer_id_of(name) for name in names}, {made["id"]})
        shown = self.get(timer)[2]
        self.assertEqual((shown["state"], shown["version"]), ("scheduled", 1))  # it goes on meanwhile

    # proves: backfill-dry-run, backfill-count
    def test_a_dry_run_counts(self):
        timer = self.create(cron="*/5 * * * *", key="often")
        counted = self.backfill(timer, 200, **self.span(2, dry_run=True))
        self.assertEqual(counted, {"count": 24, "first": (self.to - 2 * HOUR).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                                   "last": (self.to - HOUR / 12).strftime("%Y-%m-%dT%H:%M:%S.000Z")})
        by_key = self.call(200, "POST", "/v1/keys/often/backfill", self.span(2, dry_run=True))[1]
        self.assertEqual(by_key, counted)
        every = self.create(every="1s", at="2026-01-01T00:00:00Z")
        span = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-01T02:46:40Z"}
        self.assertEqual(self.backfill(every, 200, dry_run=True, **span)["count"], 10000)
        problem = self.backfill(every, 422, **{**span, "to": "2026-02-01T02:46:41Z"})
        self.assertEqual(problem["errors"][0]["pointer"], "#/to")
        self.assertEqual(set(self.listed("")), {timer["id"], every["id"]})  # nothing was made

    # proves: backfill, backfill-instants, backfill-rate-max
    def test_bad_requests(self):
        timer = self.create(cron="0 * * * *")
        once = self.create(after="1h")
        good = self.span(3)
        later = text_of(datetime.datetime.now(datetime.timezone.utc) + HOUR)
        for pointer, fields in (("#", {"from": good["from"]}), ("#/to", {**good, "to": later}), ("#/to", {**good, "to": good["from"]}),
                                ("#/rate", {**good, "rate": "0/s"}), ("#/rate", {**good, "rate": "1001/s"}),
                                ("#/rate", {**good, "rate": "10"}), ("#/rate", {**good, "rate": "1/d"}),
                                ("#/dry_run", {**good, "dry_run": 1}), ("#/x", {**good, "x": 1}), ("#/from", {**good, "from": "x"}),
                                ("#/to", {"from": "2026-01-01T00:00:01Z", "to": "2026-01-01T00:00:02Z"})):
            problem = self.backfill(timer, 422, **fields)
            self.assertEqual(problem["errors"][0]["pointer"], pointer, problem)
        self.backfill(timer, 200, **{**good, "rate": "1000/s", "dry_run": True})
        self.call(422, "POST", f"/v1/timers/{once['id']}/backfill", good)
        self.call(404, "POST", "/v1/timers/06h03ahh340000000400000000/backfill", good)
        self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        self.call(410, "POST", f"/v1/timers/{timer['id']}/backfill", good)

    # proves: backfill-survives
    def test_it_goes_on_after_kill(self):
        timer = self.create("/ok", every="1m", at="2026-01-01T00:00:00Z")
        made = self.backfill(timer, **{"from": "2026-02-01T00:00:00Z", "to": "2026-02-01T01:00:00Z", "rate": "30/s"})
        self.wait_for_arrivals(made, 15)
        self.restart()
        ended = self.await_state(made, "fired")
        self.assertEqual(ended["state"], "fired")
        harness.wait_until(lambda: len({arrival.due_ms for arrival in self.arrivals_of(made)}) >= 60, 20, "all are recorded")
        arrivals = self.arrivals_of(made)
        due = sorted({arrival.due_ms for arrival in arrivals})
        self.assertEqual(len(due), 60)
        self.assertEqual({b - a for a, b in zip(due, due[1:])}, {60000})
        names = collections.Counter(arrival.webhook_id for arrival in arrivals)
        self.assertLessEqual(sum(names.values()) - len(names), 1)  # one at most was under way

    # proves: backfill-cancel
    def test_it_is_cancelled(self):
        timer = self.create("/ok", every="1m", at="2026-01-01T00:00:00Z")
        made = self.backfill(timer, **{"from": "2026-02-01T00:00:00Z", "to": "2026-02-01T01:00:00Z", "rate": "1/m"})
        self.wait_for_arrivals(made, 1)
        harness.wait_until(lambda: self.daemon.call("DELETE", f"/v1/timers/{made['id']}")[0] == 200, 20, "cancelled")
        self.assertEqual(self.state(made), "cancelled")
        self.assertEqual(self.state(timer), "scheduled")
        self.assertEqual(len(self.arrivals_of(made)), 1)
        self.call(422, "POST", f"/v1/timers/{self.backfill(timer, **self.span(1, rate='1/h'))['id']}/backfill", self.span(1))

    # proves: backfill-idempotency
    def test_a_repeated_request_makes_one(self):
        timer, other = self.create("/ok", every="1h", at="2026-01-01T00:00:00Z"), self.create("/ok", every="1h", at="2026-01-01T00:00:00Z")
        span = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-01T05:00:00Z", "rate": "1/h"}
        name = {"Idempotency-Key": "once"}
        made = self.call(201, "POST", f"/v1/timers/{timer['id']}/backfill", span, name)[1]
        fields, again = self.call(201, "POST", f"/v1/timers/{timer['id']}/backfill", span, name)
        self.assertEqual((fields["Idempotent-Replayed"], again["id"]), ("true", made["id"]))
        self.call(422, "POST", f"/v1/timers/{other['id']}/backfill", span, name)


class OverlapTest(daemon_case.DaemonCase):
    # proves: overlap-skip
    def test_firings_during_a_slow_one_are_skipped(self):
        timer = self.create("/slow/900", every="200ms", overlap="skip")
        harness.wait_until(lambda: len(self.get(timer)[2].get("runs", [])) >= 4, 20, "runs")
        runs = self.get(timer)[2]["runs"]
        self.assertEqual({run["outcome"] for run in runs}, {"done", "skipped"})
        skipped = [run for run in runs if run["outcome"] == "skipped"]
        self.assertEqual({run["error"] for run in skipped}, {"skipped because the firing before was not over (overlap)"})
        self.assertTrue(all(run["count"] >= 4 for run in skipped), skipped)

    # proves: overlap-allow, firing-timer
    def test_firings_of_a_slow_target_begin_beside_each_other(self):
        timer = self.create("/slow/1500", every="300ms", count=4, overlap="allow", labels={"team": "y"})
        self.await_state(timer, "fired")
        arrivals = self.wait_for_arrivals(timer, 4)  # by the name of the timer that planned them
        self.assertEqual(len({arrival.webhook_id for arrival in arrivals}), 4)
        self.assertLess(arrivals[3].at_us - arrivals[0].at_us, 1_400_000)
        runs = self.get(timer)[2]["timer"]["runs"]
        self.assertEqual([run["outcome"] for run in runs], ["done", "begun", "begun", "begun"])
        for run in runs[1:]:
            firing = self.await_state({"id": run["timer"]}, "fired")
            self.assertEqual((firing["firing_of"], firing["labels"], firing["due"]), (timer["id"], {"team": "y"}, run["planned"]))

    # proves: overlap-allow
    def test_a_lease_does_not_hold_up_the_next(self):
        timer = self.create(target="queue:jobs", every="300ms", overlap="allow")
        items = []

        def lease():
            items.extend(self.call(200, "POST", "/v1/queues/jobs/lease", {"max": 1, "lease": "1h", "wait": "2s"})[1]["items"])
            return len(items) >= 3

        harness.wait_until(lease, 20, "three leases at a time")
        self.assertEqual(len({item["id"] for item in items}), 3)
        self.assertEqual(len({item["due"] for item in items}), 3)
        self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        self.call(200, "POST", "/v1/queues/jobs/ack", {"receipts": [item["receipt"] for item in items]})

    # proves: retry-until
    def test_retries_end_with_the_next_firing(self):
        timer = self.create("/status/500", every="1s", retry={"until": "next", "base": "1h", "cap": "1h"})
        self.assertEqual(timer["retry"]["until"], "next")
        harness.wait_until(lambda: len(self.get(timer)[2].get("runs", [])) >= 2, 20, "runs")
        run = self.get(timer)[2]["runs"][0]
        self.assertEqual(run["outcome"], "failed")
        self.assertTrue(run["error"].startswith("given up: the next firing is due (retry.until)"), run)
        self.refused("#/retry/until", retry={"until": "next"})
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}", {"retry": {"until": None}, "overlap": "skip"})
        shown = self.get(timer)[2]
        self.assertEqual(("until" in shown["retry"], shown["schedule"]["overlap"]), (False, "skip"))


class DebounceTest(daemon_case.DaemonCase):
    def put(self, expected, headers=None, **fields):
        body = {"target": self.receiver.url(), "debounce": {"for": "10m", "at_most": "1h"}, **fields}
        return self.call(expected, "PUT", "/v1/keys/cart/timer", body, headers)[1]

    # proves: debounce, debounce-first, debounce-if-match
    def test_calls_move_the_time(self):
        first = self.put(201, payload=1)
        self.assertEqual(first["debounce"], {"for": "10m", "at_most": "1h", "first": first["created"]})
        second = self.put(200, payload=2)
        self.assertEqual((second["id"], second["debounce"]), (first["id"], first["debounce"]))
        self.assertGreaterEqual(second["due"], first["due"])
        self.put(412, {"If-Match": '"1"'}, payload=3)
        self.restart()
        third = self.put(200, debounce={"for": "10m", "at_most": "10m"}, payload=4)
        limit = daemon_case.ms_of(first["debounce"]["first"]) + 600_000
        self.assertEqual(daemon_case.ms_of(third["due"]), limit)
        batch = '{"key": "cart", "target": "%s", "debounce": {"for": "1s", "at_most": "3s"}}\n' % self.receiver.url()
        answer = self.daemon.call("POST", "/v1/timers/batch", batch, {"Content-Type": "application/x-ndjson"})
        self.assertEqual((answer[0], answer[2]), (200, '{"id":"%s","existed":true}\n' % first["id"]))
        self.await_state(first, "fired")
        self.assertEqual(len(self.wait_for_arrivals(first)), 1)
        again = self.put(201, payload=5)
        self.assertNotEqual(again["id"], first["id"])
        self.call(422, "PATCH", f"/v1/timers/{again['id']}", {"debounce": {"for": "1s", "at_most": "1s"}})

    def test_calls_at_once_make_one_timer(self):
        threads = [threading.Thread(target=lambda: self.daemon.call(
            "PUT", "/v1/keys/cart/timer", {"target": self.receiver.url(), "debounce": {"for": "1s", "at_most": "1m"}}))
            for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        timer = self.call(200, "GET", "/v1/keys/cart/timer")[1]
        self.assertEqual(timer["version"], 20)
        self.await_state(timer, "fired")
        self.assertEqual(len(self.wait_for_arrivals(timer)), 1)
        self.assertEqual(len(self.receiver.arrivals()), 1)


if __name__ == "__main__":
    unittest.main()
