#!/usr/bin/env python3
"""How the real daemon treats targets: a dead one is left alone and no other waits for it, rates hold, a
delivery carries its trace and is a CloudEvent when that is asked for; and explain and forecast say what is
going on. The receivers are threads of this test, so that every header is seen."""

import datetime
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import ms_of

LINK = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01")


class Target:
    """A receiver on a free port, or on the socket of a port that was closed; answers with `status` and keeps what came."""

    def __init__(self, status=200, port=None):
        self.status, self.seen = status, []
        target = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                target.seen.append((time.monotonic(), dict(self.headers.items()), body))
                self.send_response(target.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=not port)
        if port:
            self.server.socket.close()
            self.server.socket, self.server.server_address = port, port.getsockname()
            self.server.server_activate()
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class TargetsTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)

    def start(self, *flags):
        daemon = harness.Daemon(self.data, "--partitions", "1", *flags)
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        self.daemon = daemon
        return daemon

    def target(self, *arguments):
        target = Target(*arguments)
        self.addCleanup(target.close)
        return target

    def closed(self):
        """A port that refuses connections: the socket, which nobody else can have, and its URL."""
        port = socket.socket()
        self.addCleanup(port.close)
        port.bind(("127.0.0.1", 0))
        return port, f"http://127.0.0.1:{port.getsockname()[1]}/"

    def create(self, headers=None, **fields):
        status, _, timer = self.daemon.call("POST", "/v1/timers", fields, headers)
        self.assertEqual(status, 201, timer)
        return timer["id"]

    def explain(self, timer):
        status, _, answer = self.daemon.call("GET", f"/v1/timers/{timer}/explain")
        self.assertEqual(status, 200, answer)
        return answer

    def wait_for(self, target, count):
        return harness.wait_until(lambda: len(target.seen) >= count and target.seen, 20,
                                  f"{count} webhooks")

    # proves: explain-waiting, breaker
    def test_a_dead_target_is_left_alone_and_no_other_waits(self):
        daemon = self.start("--target-breaker-failures", "5", "--target-breaker-pause", "2s")
        alive, (port, url) = self.target(), self.closed()
        dead = [self.create(after=0, target=url, retry={"max_attempts": 3, "base": "1ms", "cap": "2ms"}) for _ in range(40)]
        harness.wait_until(lambda: daemon.metric("tickwheel_breakers_open") == 1, 20, "an open breaker")
        self.create(after=0, target=alive.url())
        self.wait_for(alive, 1)
        found = [timer for timer in map(self.explain, dead)
                 if timer["where"] == "waiting" and timer["waiting"]["for"] == "breaker"
                 or timer.get("last_error", "").startswith("not tried")]
        self.assertTrue(found)
        self.assertIn(found[0]["target"]["breaker"], ("open", "half-open"))
        self.assertGreaterEqual(found[0]["target"]["failures"], 5)
        harness.wait_until(lambda: "event=target_failing" in daemon.output(), 5, "the log")
        # It comes back: nothing is lost, and what was postponed has spent no attempt.
        back = self.target(200, port)
        self.wait_for(back, 30)
        harness.wait_until(lambda: daemon.metric("tickwheel_breakers_open") == 0, 30, "it to close")
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") == 0, 30, "the end")
        self.assertIn("event=target_back", daemon.output())
        self.assertGreater(daemon.metric("tickwheel_attempts_postponed_total"), 0)
        attempts = daemon.metric("tickwheel_attempts_total")
        self.assertLessEqual(attempts, 41 + 128)

    # proves: breaker, explain-lateness, targets-list
    def test_a_failing_path_is_told_from_a_busy_engine(self):
        """One path answers 500 beside a healthy one: whatever shows lateness names the breaker of that path."""
        daemon = self.start("--target-breaker-failures", "3", "--target-breaker-pause", "1500ms")
        alive, bad = self.target(), self.target(500)
        first = self.create(after=0, target=bad.url("/bad?order=1"), retry={"max_attempts": 50, "base": "1ms", "cap": "2ms"})
        harness.wait_until(lambda: daemon.metric("tickwheel_breakers_open") == 1, 20, "an open breaker")
        late = self.create(after=0, target=bad.url("/bad?order=2"))
        self.create(after=0, target=alive.url())
        self.wait_for(alive, 1)
        harness.wait_until(lambda: re.search(rf'{re.escape(bad.url("/bad"))} failed \d+ times in a row, the last time with "HTTP 500"; it is left alone for ',
                                             self.explain(late)["explanation"]), 10, "it to be put off")
        harness.wait_until(lambda: "event=target_failing" in daemon.output(), 5, "the log")
        line = next(line for line in daemon.output().splitlines() if "event=target_failing" in line)
        self.assertIn("scope=path path=/bad", line)
        self.assertNotIn("order", line)
        command = [harness.find("tickwheel"), "targets", "--url", f"http://127.0.0.1:{daemon.port}"]
        harness.wait_until(lambda: re.search(rf"(?m)^{re.escape(bad.url('/bad'))} .*open +\d+ ", subprocess.run(
            command, check=True, capture_output=True, text=True).stdout), 10, "the path in the table")
        bad.status = 200
        for timer in (first, late):
            harness.wait_until(lambda: self.explain(timer)["state"] == "fired", 30, "the end")
            stages = self.explain(timer)["lateness"]["stages_ms"]
            self.assertGreater(stages["breaker"], 1400)
            self.assertLess(stages.get("wheel", 0) + stages.get("disk", 0), stages["breaker"])
        sums = {stage: daemon.metric(f'tickwheel_lateness_seconds_sum{{stage="{stage}"}}') for stage in ("schedule", "queue", "breaker")}
        self.assertGreater(sums["breaker"], 1.4)
        self.assertLess(sums["schedule"] + sums["queue"], sums["breaker"])

    # proves: retry-give-up
    def test_timers_for_a_target_that_fails_do_not_gather(self):
        """Breakers that stay open, of a path and of an origin: timers end by time. Without the field they would all live."""
        daemon = self.start("--target-breaker-failures", "3", "--target-breaker-pause", "500ms", "--target-breaker-pause-max", "1s")
        bad, (_, url) = self.target(500), self.closed()
        until, most, made = time.monotonic() + 12, 0, []
        while time.monotonic() < until:
            for target in (bad.url(f"/bad?{len(made)}"), f"{url}{len(made)}"):
                made.append(self.create(after=0, target=target, retry={"base": "100ms", "give_up_after": "1s"}))
            most = max(most, daemon.metric("tickwheel_timers_pending"))
        self.assertLess(most, len(made) / 2, f"of {len(made)}")
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") == 0, 20, "their end")
        self.assertLess(daemon.metric("tickwheel_attempts_total"), len(made))
        errors = [self.explain(timer)["last_error"] for timer in made]
        held = [error for error in errors if error.startswith("given up after 1s (retry.give_up_after): not tried: its ")]
        self.assertGreater(len(held), len(made) / 2, errors[-9:])

    # proves: explain-next, pause-state
    def test_next_is_when_it_can_be_tried(self):
        """A timer that is due soon, while the breaker of its target waits for an hour, or its target is paused."""
        daemon = self.start("--target-breaker-failures", "3", "--target-breaker-pause", "1h", "--target-breaker-pause-max", "1h")
        alive, (_, url) = self.target(), self.closed()
        for _ in range(3):
            self.create(after=0, target=url, retry={"max_attempts": 1})
        harness.wait_until(lambda: daemon.metric("tickwheel_breakers_open") == 1, 20, "an open breaker")
        next_of = lambda answer: seconds_of(answer["next"]) - seconds_of(answer["now"])
        soon, due = self.explain(self.create(after="20s", target=url)), self.create(after=0, target=url)
        self.assertGreater(next_of(soon), 3000)
        self.assertRegex(soon["explanation"], r"^It is due in \d+m?s, and can be tried in (1h|\d+m) at the earliest\. "
                         rf"{re.escape(url.rstrip(chr(47)))} failed 3 times in a row, the last time with \"connection refused\"; it is left alone for ")
        harness.wait_until(lambda: next_of(self.explain(due)) > 3000, 10, "it to be put off")
        name = "http%3A%2F%2F127.0.0.1%3A" + str(alive.port)
        self.assertEqual(daemon.call("POST", f"/v1/targets/{name}/pause", {"until": "2030-01-01T00:00:00Z"})[0], 200)
        held = self.explain(self.create(after="20s", target=alive.url()))
        self.assertEqual(held["next"], "2030-01-01T00:00:00.000Z")
        self.assertRegex(held["explanation"], f"{re.escape(alive.url().rstrip(chr(47)))} was paused (now|.*ago), and resumes by itself in ")
        self.assertEqual(daemon.call("POST", f"/v1/targets/{name}/pause", {})[0], 200)
        held = self.explain(self.create(after="20s", target=alive.url()))
        self.assertNotIn("next", held)
        self.assertRegex(held["explanation"], r" was paused .*ago, until it is resumed\.")
        daemon.call("POST", f"/v1/targets/{name}/resume", {})
        self.assertLess(next_of(self.explain(self.create(after="20s", target=alive.url()))), 21)

    # proves: target-reset
    def test_a_target_that_was_reset_is_tried_at_once(self):
        """Although its breaker would wait for an hour."""
        daemon = self.start("--target-breaker-failures", "3", "--target-breaker-pause", "1h", "--target-breaker-pause-max", "1h")
        port, url = self.closed()
        for _ in range(3):
            self.create(after=0, target=url, retry={"max_attempts": 1})
        harness.wait_until(lambda: daemon.metric("tickwheel_breakers_open") == 1, 20, "an open breaker")
        path = f"/v1/targets/http%3A%2F%2F127.0.0.1%3A{port.getsockname()[1]}/reset"
        back = self.target(200, port)
        self.assertEqual(daemon.call("POST", path)[2], {"name": url.rstrip("/"), "reset": 1})
        self.create(after=0, target=url)
        self.wait_for(back, 1)
        self.assertEqual(daemon.metric("tickwheel_breakers_open"), 0)
        self.assertEqual(daemon.call("POST", path)[2]["reset"], 0)
        self.assertEqual(daemon.call("POST", "/v1/targets/https%3A%2F%2Fa.example%2Fx/reset")[0], 422)

    # proves: breaker
    def test_answers_below_500_are_life(self):
        daemon = self.start("--target-breaker-failures", "3")
        target = self.target(404)
        for _ in range(10):
            self.create(after=0, target=target.url(), retry={"max_attempts": 1})
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_dead_total") == 10, 20, "the end")
        self.assertEqual(daemon.metric("tickwheel_breakers_opened_total"), 0)
        self.assertEqual(len(target.seen), 10)

    # proves: delivery-rate, target_rate_max (beyond)
    def test_a_target_gets_so_many_a_second(self):
        self.start("--target-rate-max", "20")
        target = self.target()
        begun = time.monotonic()
        timers = harness.in_time(lambda at: [self.create(at=at, target=target.url()) for _ in range(40)], 1000)
        answer = harness.wait_until(lambda: (a := self.explain(timers[-1]))["where"] in ("waiting", "over") and a, 5, "it to wait")
        if answer["where"] == "waiting":
            self.assertEqual(answer["waiting"]["for"], "rate")
            self.assertIn("only so many a second", answer["explanation"])
        times = [at for at, _, _ in self.wait_for(target, 40)]
        for i, at in enumerate(times[:40]):
            self.assertGreaterEqual(at - begun, (i + 1 - 3) / 20, f"delivery {i}")
        late = harness.wait_until(lambda: (a := self.explain(timers[-1]))["where"] == "over" and a, 5, "it")
        self.assertGreater(max(self.explain(timer).get("lateness", {"stages_ms": {}})["stages_ms"]
                               .get("rate", 0) for timer in timers), 1000, late)

    # proves: delivery-rate, catch_up_rate_max (beyond)
    def test_catching_up_after_an_outage(self):
        daemon = self.start()
        target = self.target()

        def make(at):
            if self.daemon.process.poll() is not None:
                self.start()
            for _ in range(60):
                self.create(at=at, target=target.url("/late"))
            self.daemon.signal(signal.SIGKILL)
            return at
        due_ms = harness.in_time(make)
        harness.wait_until(lambda: time.time() * 1000 > due_ms + 2000, 10, "all to be overdue")
        begun = time.monotonic()
        daemon = self.start("--catch-up-rate-max", "5")
        self.assertGreater(daemon.metric("tickwheel_timers_catching_up"), 0)
        now = self.target()
        self.create(after=0, target=now.url())
        self.wait_for(now, 1)
        self.assertLess(len(target.seen), 60)  # it did not wait for them
        self.assertGreater(self.wait_for(target, 15)[14][0] - begun, 1.5)  # three seconds at the rate, a tenth of one without
        daemon.signal(signal.SIGKILL)
        self.start()
        self.wait_for(target, 60)

    # proves: traceparent
    def test_a_delivery_has_a_trace_of_its_own_and_a_link(self):
        self.start()
        target = self.target()
        self.create({"traceparent": LINK}, after=0, target=target.url())
        batch = json.dumps({"after": 0, "target": target.url()}) + "\n"
        self.daemon.call("POST", "/v1/timers/batch", batch,
                         {"Content-Type": "application/x-ndjson", "traceparent": LINK})
        self.daemon.call("PUT", "/v1/keys/k/timer", {"after": 0, "target": target.url()},
                         {"traceparent": LINK})
        traces = set()
        for _, headers, _ in self.wait_for(target, 3):
            self.assertEqual(headers["tickwheel-linked-traceparent"], LINK)
            traces.add(TRACE.fullmatch(headers["traceparent"])[1])
        self.assertEqual(len(traces), 3)
        self.assertNotIn(LINK.split("-")[1], traces)
        for bad in ("", "nonsense", LINK.upper(), LINK + "-more", "ff" + LINK[2:]):
            target.seen.clear()
            self.create({"traceparent": bad}, after=0, target=target.url())
            headers = self.wait_for(target, 1)[0][1]
            self.assertTrue(TRACE.fullmatch(headers["traceparent"]), bad)
            self.assertNotIn("tickwheel-linked-traceparent", headers, bad)

    # proves: traceparent
    def test_a_retry_is_a_new_trace_with_the_same_link(self):
        self.start()
        target = self.target(500)
        timer = self.create({"traceparent": LINK}, after=0, target=target.url(),
                            retry={"max_attempts": 2, "base": "1ms", "cap": "1ms"})
        first, second = (headers for _, headers, _ in self.wait_for(target, 2))
        self.assertNotEqual(first["traceparent"], second["traceparent"])
        self.assertEqual(second["tickwheel-linked-traceparent"], LINK)
        answer = harness.wait_until(lambda: (a := self.explain(timer))["where"] == "over" and a, 10, "over")
        self.assertEqual((answer["state"], answer["last_error"]), ("dead", "HTTP 500"))
        self.assertEqual(answer["traceparent"], LINK)
        self.assertEqual(answer["lateness"]["attempt"], 2)

    # proves: cloudevents
    def test_cloudevents(self):
        self.start("--webhook-cloudevents", "binary", "--webhook-cloudevents-source", "/shop")
        target = self.target()
        timer = self.create(after=0, target=target.url(), key="order 42", payload={"n": 1})
        _, headers, body = self.wait_for(target, 1)[0]
        self.assertEqual(headers["ce-specversion"], "1.0")
        self.assertEqual(headers["ce-id"], headers["webhook-id"])
        self.assertTrue(headers["ce-id"].startswith(timer))
        self.assertEqual(headers["ce-source"], "/shop")
        self.assertEqual(headers["ce-type"], "tickwheel.timer.due")
        self.assertEqual(headers["ce-time"], headers["tickwheel-due"])
        self.assertEqual(headers["ce-subject"], "order%2042")
        self.assertEqual(headers["content-type"], "application/json")
        self.assertEqual(json.loads(body), {"n": 1})

    # proves: explain-cause
    def test_the_cause_is_the_receiver_in_its_own_words(self):
        """The same sentence in the log."""
        daemon = self.start("--target-breaker-failures", "3", "--target-breaker-pause", "1h", "--target-breaker-pause-max", "1h")
        url = self.target(500).url()
        for _ in range(3):
            self.create(after=0, target=url, retry={"max_attempts": 1})
        harness.wait_until(lambda: "event=target_failing" in daemon.output(), 20, "the log")
        told = self.explain(self.create(after="20s", target=url))
        said = re.search(r' (\S+ failed 3 times in a row, the last time with "HTTP 500"); it is left alone for ', told["explanation"])
        self.assertTrue(said, told)
        self.assertEqual(told["target"]["last_error"], "HTTP 500")
        line = next(line for line in daemon.output().splitlines() if "event=target_failing" in line)
        self.assertIn(said[1], line.replace('\\"', '"'))

    # proves: explain, explain-lateness, explain-waiting, explain-place
    def test_explain_at_every_station(self):
        self.start("--window", "1m")
        target = self.target()
        far = self.create(after="1h", target=target.url())
        near = self.create(after="50s", target=target.url())
        answer = self.explain(far)
        self.assertEqual((answer["where"], answer["state"]), ("disk", "scheduled"))
        self.assertEqual(answer["explanation"], "It fires in 1h.")
        self.assertIn("On disk", answer["detail"])
        answer = self.explain(near)
        self.assertEqual(answer["where"], "wheel")
        self.assertIn(answer["wheel"]["level"], range(8))
        self.assertIn(answer["wheel"]["bucket"], range(256))
        queued = self.create(after=0, target="queue:jobs")
        answer = harness.wait_until(
            lambda: (a := self.explain(queued))["where"] == "waiting" and a, 5, "it to wait")
        self.assertEqual(answer["waiting"]["for"], "worker")
        self.assertNotIn("breaker", answer["target"])
        lease = self.daemon.call("POST", "/v1/queues/jobs/lease", {"lease": "12h"}, {"User-Agent": "worker-7/1.0"})[2]
        answer = self.explain(queued)
        self.assertEqual(answer["where"], "delivering")
        self.assertEqual(answer["delivery"]["lease"]["worker"], "127.0.0.1 worker-7/1.0")
        self.assertLess(abs(ms_of(answer["delivery"]["lease"]["until"]) - ms_of(lease["leased_until"])), 100)
        self.assertEqual(round((ms_of(answer["delivery"]["lease"]["until"]) - ms_of(answer["delivery"]["lease"]["since"])) / 3600e3), 12)
        self.assertIn("A worker has leased it (127.0.0.1 worker-7/1.0), as attempt 1: the lease began ", answer["explanation"])
        self.daemon.call("DELETE", f"/v1/timers/{far}")
        answer = self.explain(far)
        self.assertEqual((answer["where"], answer["state"]), ("over", "cancelled"))
        for missing in ("/v1/timers/nonsense/explain", f"/v1/timers/0{far[1:-3]}g00/explain"):
            self.assertEqual(self.daemon.call("GET", missing)[0], 404, missing)
        self.assertEqual(self.daemon.call("POST", f"/v1/timers/{far}/explain")[0], 405)

    # proves: forecast
    def test_forecast(self):
        self.start()
        for i in range(7):
            self.create(after=f"{70 + i}s", target="http://127.0.0.1:1/")
        self.create(after="2h", target="http://127.0.0.1:1/")
        self.create(every="10s", target="http://127.0.0.1:1/", at=int(time.time() * 1000) + 3600_000)
        self.create(after=0, target="queue:jobs")
        status, _, answer = self.daemon.call("GET", "/v1/forecast")
        self.assertEqual((status, answer["unit"], answer["count"]), (200, "minute", 60))
        self.assertTrue(answer["complete"])
        self.assertEqual(len(answer["due"]), 60)
        self.assertEqual(sum(answer["due"][1:4]), 7)
        self.assertEqual(sum(answer["due"]) + answer["overdue"], 8, answer)
        _, _, answer = self.daemon.call("GET", "/v1/forecast?unit=minute&count=240")
        self.assertEqual(answer["due"][100], 6)
        _, _, answer = self.daemon.call("GET", "/v1/forecast?unit=second&count=100")
        self.assertEqual(sum(answer["due"][60:90]), 7)
        for wrong in ("unit=hour", "count=0", "count=1441", "count=", "count=-1", "count=99999999999999999999",
                      "from=1", "unit=", "count=1e2"):
            self.assertEqual(self.daemon.call("GET", "/v1/forecast?" + wrong)[0], 422, wrong)
        self.assertEqual(self.daemon.call("GET", "/v1/forecast?unit=%zz")[0], 400)

    # proves: forecast, forecast-rows (beyond)
    def test_a_forecast_says_where_it_stops(self):
        self.start()
        lines = "".join(json.dumps({"after": 3600_000 + i, "target": "http://127.0.0.1:1/"}) + "\n"
                        for i in range(210_000))
        connection = self.daemon.connect(timeout=120)
        self.addCleanup(connection.close)
        status, _, answer = self.daemon.call(
            "POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson",
                                                "Prefer": "return=minimal"}, connection)
        self.assertEqual(status, 200, answer)
        status, _, answer = self.daemon.call("GET", "/v1/forecast?count=120")
        self.assertEqual(status, 200, answer)
        self.assertFalse(answer["complete"])
        self.assertEqual((answer["rows_read"], answer["rows_max"]), (200_000, 200_000))
        self.assertLess(len(answer["due"]), 120)
        self.assertEqual(sum(answer["due"][:59]), 0)
        self.assertLess(answer["until"], "9")


if __name__ == "__main__":
    unittest.main()
