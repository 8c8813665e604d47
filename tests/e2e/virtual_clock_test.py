#!/usr/bin/env python3
"""Goal: on a virtual clock a month passes in a second, in order and completely, and nothing of it reaches a real clock.
Method: the real daemon with a receiver that answers as its path says; due times are compared with those that Python's own
calendar and zones give."""

import concurrent.futures
import datetime
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import zoneinfo

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness
from daemon_case import ms_of

START = "2027-03-01T00:00:00.000Z"
HOUR_MS, DAY_MS = 3600000, 86400000


class Hooks(http.server.BaseHTTPRequestHandler):
    """Answers with what `server.answer(path)` returns."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.path, ms_of(self.headers["tickwheel-due"]), int(self.headers["webhook-timestamp"])))
        self.send_response(self.server.answer(self.path) or 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Case(daemon_case.DaemonCase):
    flags = ("--clock", "virtual=2027-03-01T00:00Z")

    def setUp(self):
        super().setUp()
        self.hooks = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hooks)
        self.hooks.seen, self.hooks.answer = [], lambda path: 200
        thread = threading.Thread(target=self.hooks.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.hooks.server_close)
        self.addCleanup(self.hooks.shutdown)

    def url(self, path):
        return f"http://127.0.0.1:{self.hooks.server_port}{path}"

    def advance(self, expected=200, **body):
        return self.call(expected, "POST", "/v1/clock/advance", body)[1]

    def now(self):
        return self.call(200, "GET", "/v1/clock")[1]["now"]

    def dues(self, path):
        return [due for seen, due, _ in self.hooks.seen if seen == path]


class AdvanceTest(Case):
    # proves: clock-stands, clock-order
    def test_a_month_of_daily_reminders_over_a_dst_change(self):
        """Nine o'clock in Berlin is 8:00 UTC before 28 March, and 7:00 from then on."""
        berlin = zoneinfo.ZoneInfo("Europe/Berlin")
        expected = [int(datetime.datetime(2027, 3, day, 9, tzinfo=berlin).timestamp() * 1000) for day in range(1, 32)]
        self.create(target=self.url("/daily"), cron="0 9 * * *", timezone="Europe/Berlin")
        began = time.monotonic()
        answer = self.advance(to="2027-03-31T22:00:00Z")
        took_s = time.monotonic() - began
        self.assertEqual((answer["done"], answer["fired"], answer["delivered"], answer["failed"]), (True, 31, 31, 0))
        self.assertEqual(answer["now"], "2027-03-31T22:00:00.000Z")
        self.assertEqual(self.dues("/daily"), expected)
        self.assertEqual(len({due % DAY_MS for due in expected}), 2)
        print(f"a month took {took_s:.3f} s")

    # proves: clock-stands
    def test_time_stands_until_it_is_moved(self):
        timer = self.create(target=self.url("/a"), after="1ms")
        self.assertEqual(timer["created"], START)
        self.assertEqual(self.now(), START)
        self.assertEqual(self.daemon.call("GET", "/readyz")[2], {"status": "ready", "clock": "virtual", "now": START})
        self.assertEqual(self.call(200, "GET", "/v1/verdict")[1]["clock"], "virtual")
        self.assertEqual(self.hooks.seen, [])
        answer = self.advance(by="0s")
        self.assertEqual((answer["now"], answer["fired"]), (START, 0))
        answer = self.advance(to="next")
        self.assertEqual((answer["now"], answer["fired"]), (timer["due"], 1))
        self.assertEqual(self.get(timer)[0], 410)

    # proves: clock-stands
    def test_counts_are_complete(self):
        """Counts by origin follow a scan of the rows, which a start makes once."""
        self.create(target="log:a", after="3d")
        self.advance(by="2d")
        counts = self.call(200, "GET", "/v1/timers/count")[1]
        self.assertEqual((counts["count"], counts["complete"]), (1, True))

    # proves: clock-stands
    def test_next_goes_to_each_firing_and_retry_and_stays_when_there_is_none(self):
        self.hooks.answer = lambda path: 500 if path == "/a" else 200
        timer = self.create(target=self.url("/a"), after="1d", on_dead={"target": self.url("/dead")},
                            retry={"max_attempts": 3, "base": "1h", "cap": "2h", "give_up_after": "30d"})
        steps = [self.advance(to="next") for _ in range(3)]
        self.assertEqual([step["failed"] for step in steps], [1, 1, 1])
        self.assertEqual(steps[0]["now"], timer["due"])
        self.assertEqual(len(self.dues("/a")), 3)
        self.assertEqual(len(self.dues("/dead")), 1)
        self.assertLess(ms_of(self.now()), ms_of(timer["due"]) + DAY_MS)
        now = self.now()
        self.assertEqual((self.advance(to="next")["done"], self.now()), (True, now))

    # proves: clock-order
    def test_retries_with_a_back_off_of_days(self):
        self.hooks.answer = lambda path: 503
        timer = self.create(target=self.url("/fails"), after="1m",
                            retry={"max_attempts": 8, "base": "1h", "cap": "1d", "give_up_after": "30d"})
        answer = self.advance(by="10d")
        self.assertEqual((answer["fired"], answer["delivered"], answer["failed"]), (1, 0, 8))
        shown, = self.call(200, "GET", "/v1/dead")[1]["timers"]
        self.assertEqual((shown["id"], shown["state"], shown["attempts"]), (timer["id"], "dead", 8))
        self.assertLess(ms_of(shown["ended"]), ms_of(START) + 10 * DAY_MS)

    # proves: clock-order
    def test_many_timers_at_many_instants_come_in_order(self):
        """Over four partitions and two shards; also those of one instant, whatever their number."""
        self.restart("--shards", "2")
        lines = "\n".join('{"after":"%dm","target":"%s"}' % (i % 50, self.url("/many")) for i in range(1000))
        self.assertEqual(self.daemon.call("POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})[0], 200)
        total = 0
        while total < 1000:
            answer = self.advance(by="10m")
            total += answer["delivered"]
            if answer["done"] and ms_of(answer["now"]) > ms_of(START) + HOUR_MS:
                break
        dues = self.dues("/many")
        self.assertEqual((total, len(dues), dues), (1000, 1000, sorted(dues)))

    # proves: clock-order
    def test_what_a_receiver_creates_fires_in_the_same_call(self):
        def answer(path):
            left = int(path.rsplit("/", 1)[1])
            if left:
                self.create(target=self.url(f"/chain/{left - 1}"), after="1h")
        self.hooks.answer = answer
        self.create(target=self.url("/chain/20"), after="1h")
        fired, delivered, answer = 0, 0, {"done": False}
        while not answer["done"]:  # a call answers after some seconds, wherever it is
            answer = self.advance(to="2027-03-01T21:00:00.000Z")
            fired, delivered = fired + answer["fired"], delivered + answer["delivered"]
        self.assertEqual((fired, delivered), (21, 21))
        self.assertEqual([due - ms_of(START) for _, due, _ in self.hooks.seen], [n * HOUR_MS for n in range(1, 22)])

    # proves: clock-waits
    def test_breakers_close_by_the_virtual_time(self):
        self.restart("--target-breaker-failures", "2", "--target-breaker-pause", "10m")
        self.hooks.answer = lambda path: 500 if len(self.hooks.seen) <= 2 else 200
        for _ in range(4):
            self.create(target=self.url("/a"), after="1m", retry={"base": "1s", "cap": "1s", "give_up_after": "30d"})
        answer = self.advance(by="2h")
        self.assertEqual((answer["fired"], answer["delivered"]), (4, 4))

    # proves: clock-waits
    def test_items_of_queues_wait_and_leases_end_by_the_virtual_time(self):
        timer = self.create(target="queue:a", after="1h")
        answer = self.advance(by="1d")
        self.assertEqual((answer["done"], answer["fired"], answer["delivered"]), (True, 1, 0))
        lease = lambda: self.call(200, "POST", "/v1/queues/a/lease", {"max": 1, "wait": 0, "lease": "10m"})[1]
        first = lease()
        self.assertEqual(first["items"][0]["id"], timer["id"])
        self.assertEqual(ms_of(first["leased_until"]), ms_of(self.now()) + 600000)
        self.assertEqual(self.advance(by="9m59s")["failed"], 0)
        self.assertEqual(lease()["items"], [])
        self.assertEqual(self.advance(by="1s")["failed"], 1)
        receipt = lease()["items"][0]["receipt"]
        self.call(200, "POST", "/v1/queues/a/ack", {"receipts": [receipt]})
        self.assertEqual(self.advance(by="1d")["failed"], 0)

    # proves: clock-waits
    def test_signatures_and_time_outs_have_the_real_time(self):
        """A receiver that checks signatures compares them with its own clock."""
        release = threading.Event()
        self.addCleanup(release.set)
        self.hooks.answer = lambda path: release.wait(60) and 200 if path == "/hangs" else 200
        self.create(target=self.url("/hangs"), after="1h", retry={"timeout": "300ms", "max_attempts": 2, "base": "1h"})
        self.create(target=self.url("/signed"), after="1h")
        answer = self.advance(by="1d")
        self.assertEqual((answer["fired"], answer["delivered"], answer["failed"]), (2, 1, 2))
        stamps = [stamp for _, _, stamp in self.hooks.seen]
        self.assertLess(max(abs(stamp - time.time()) for stamp in stamps), 600)

    # proves: clock-waits
    def test_pauses_end_by_the_virtual_time(self):
        timer = self.create(target=self.url("/a"), after="1h")
        self.call(200, "POST", f"/v1/timers/{timer['id']}/pause", {"until": "2027-03-02T00:00:00Z"})
        self.assertEqual(self.advance(to="2027-03-01T23:59:59Z")["fired"], 0)
        self.assertEqual(self.advance(by="1s")["delivered"], 1)


class CommandLineTest(Case):
    def command(self, *arguments):
        return subprocess.run([harness.find("tickwheel"), "--url", f"http://127.0.0.1:{self.daemon.port}", *arguments],
                              capture_output=True, text=True, timeout=harness.PATIENCE_S, check=False)

    # proves: clock-stands
    def test_the_verb_shows_and_moves_it(self):
        self.create(target=self.url("/a"), after="3d")
        for arguments, printed in (((), "2027-03-01T00:00:00.000Z\n"),
                                   (("advance", "1d"), "2027-03-02T00:00:00.000Z  fired 0, delivered 0, failed 0\n"),
                                   (("advance", "next"), "2027-03-04T00:00:00.000Z  fired 1, delivered 1, failed 0\n"),
                                   (("advance", "2027-03-05T00:00:00Z", "-o", "json"),
                                    '{"now":"2027-03-05T00:00:00.000Z","fired":0,"delivered":0,"failed":0}\n')):
            done = self.command("clock", *arguments)
            self.assertEqual((done.returncode, done.stdout), (0, printed), done.stderr)
        for arguments, code in ((("back",), 2), (("advance",), 2), (("advance", "2027-03-01T00:00:00Z"), 1)):
            self.assertEqual(self.command("clock", *arguments).returncode, code, arguments)


class BoundsTest(Case):
    # proves: clock-bounds, clock-seconds
    def test_a_request_that_takes_long_says_how_far_it_came(self):
        """The receiver keeps one delivery until the first answer; meanwhile another request is refused."""
        release = threading.Event()
        self.addCleanup(release.set)
        self.hooks.answer = lambda path: release.wait(60) and 200
        self.create(target=self.url("/slow"), after="1h")
        self.create(target=self.url("/later"), after="2h")
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            began = time.monotonic()
            running = threads.submit(self.advance, by="1d")
            harness.wait_until(lambda: self.hooks.seen, 20, "the delivery")
            self.assertTrue(self.call(200, "GET", "/v1/clock")[1]["moving"])
            self.assertEqual(self.advance(409, by="1d")["type"], "/problems/clock-runs")
            answer = running.result()
            took_s = time.monotonic() - began
        self.assertEqual((answer["done"], answer["now"], answer["to"], answer["delivered"]),
                         (False, "2027-03-01T01:00:00.000Z", "2027-03-02T00:00:00.000Z", 0))
        self.assertGreater(took_s, 4.9)
        self.assertEqual(self.dues("/later"), [])
        release.set()
        answer = self.advance(to=answer["to"])
        self.assertEqual((answer["done"], answer["now"], answer["delivered"]), (True, "2027-03-02T00:00:00.000Z", 2))

    # proves: clock-bounds, clock-seconds
    def test_a_timer_of_each_second_for_a_month_comes_in_parts(self):
        self.create(target="log:tick", every="1s")
        first = self.advance(by="30d")
        self.assertFalse(first["done"])
        self.assertIn(first["fired"] - first["delivered"], (0, 1))
        second = self.advance(to=first["to"])
        passed_s = (ms_of(second["now"]) - ms_of(START)) // 1000
        # the last firing may be under way when the time is over
        self.assertIn(passed_s - first["fired"] - second["fired"], (0, 1))
        self.assertGreater(second["fired"], 0)

    # proves: clock-refused, clock-years, clock-text
    def test_what_cannot_be_is_refused(self):
        end = "2526-10-31T00:00:00.000Z"  # 500 years of 365 days
        for body in ({}, {"by": "1d", "to": "next"}, {"by": 5}, {"by": ""}, {"by": "-1d"}, {"to": "yesterday"}, {"x": 1}, [],
                     {"by": "9" * 64}, {"by": "1" * 65}, {"to": "2027-02-28T23:59:59Z"}, {"to": "9999-12-31T23:59:59Z"},
                     {"to": "2526-10-31T00:00:00.001Z"}):
            self.assertEqual(self.daemon.call("POST", "/v1/clock/advance", body)[0], 422, body)
        self.assertEqual(self.daemon.call("POST", "/v1/clock/advance", "{")[0], 400)
        self.assertEqual(self.now(), START)
        self.assertEqual(self.advance(by="0" * 62 + "1d")["now"], "2027-03-02T00:00:00.000Z")
        self.assertEqual(self.advance(to=end)["now"], end)
        self.assertEqual(self.daemon.call("POST", "/v1/clock/advance", {"by": "1ms"})[0], 422)


class FolderTest(Case):
    def refuses(self, *flags):
        """The last words of a daemon that does not start on this folder."""
        ended = subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", self.data, *flags],
                               capture_output=True, text=True, timeout=harness.PATIENCE_S, check=False)
        self.assertNotEqual(ended.returncode, 0)
        return ended.stderr

    # proves: clock-safe
    def test_time_goes_on_after_kill_9_and_the_folder_stays_virtual(self):
        timer = self.create(target=self.url("/a"), after="2d")
        self.create(target=self.url("/b"), after="12h")
        self.assertEqual(self.advance(by="1d")["delivered"], 1)
        self.restart()
        self.assertEqual(self.now(), "2027-03-02T00:00:00.000Z")
        self.assertEqual(self.advance(by="1d")["delivered"], 1)
        self.assertEqual((self.dues("/a"), len(self.dues("/b"))), ([ms_of(timer["due"])], 1))
        self.daemon.signal(signal.SIGKILL)
        self.assertIn("data folder of a virtual clock", self.refuses())

    # proves: clock-safe
    def test_a_backup_is_of_a_virtual_clock_too(self):
        backups = self.data + "-backups"
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", backups], check=True))
        self.restart("--backup-folder", backups)
        self.advance(by="1d")
        folder = self.call(201, "POST", "/v1/admin/backup")[1]["folder"]
        with open(os.path.join(folder, "CLOCK"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "virtual 2027-03-02T00:00:00.000Z\n")

    # proves: clock-safe
    def test_a_damaged_time_is_refused(self):
        self.daemon.signal(signal.SIGKILL)
        for text in ("", "virtual \n", "virtual 2027-03-02\n", "real 2027-03-01T00:00:00.000Z\n", "virtual 2027-03-01T00:00:00.000Z"):
            with open(os.path.join(self.data, "CLOCK"), "w", encoding="utf-8") as file:
                file.write(text)
            self.assertIn("is damaged", self.refuses("--clock", "virtual"), text)

    # proves: clock-safe
    def test_settings_that_could_do_harm_are_refused(self):
        for flags, words in ((("--listen-address", "0.0.0.0", "--listen-unprotected", "yes"), "listen_address"),
                             (("--cluster-brokers", "127.0.0.1:1"), "cluster_brokers"),
                             (("--clock", "virtual=2027-13-01T00:00Z"), "clock"), (("--clock", "virtual=1970-01-01T00:00Z"), "clock"),
                             (("--clock", "virtualy"), "clock")):
            self.assertIn(words, self.refuses("--clock", "virtual", *flags), flags)


class RealClockTest(daemon_case.DaemonCase):
    # proves: clock-refused, clock-safe
    def test_a_real_clock_cannot_be_moved_and_its_folder_stays_real(self):
        self.call(404, "GET", "/v1/clock")
        self.call(404, "POST", "/v1/clock/advance", {"by": "1d"})
        self.assertEqual(self.daemon.call("GET", "/readyz")[2], {"status": "ready"})
        self.daemon.signal(signal.SIGTERM)
        ended = subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", self.data, "--clock", "virtual"],
                               capture_output=True, text=True, timeout=harness.PATIENCE_S, check=False)
        self.assertIn("data folder of a real clock", ended.stderr)


if __name__ == "__main__":
    unittest.main()
