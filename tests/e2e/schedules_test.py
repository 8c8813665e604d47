#!/usr/bin/env python3
"""Goal: whoever has many schedules sees which of them failed, which come next and what holds them back. Method: a daemon,
schedules that succeed, fail and have never fired, each fired by a call; the answers and the command line beside it."""

import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import daemon_case
import harness

ONCE = {"max_attempts": 1}
NDJSON = {"Content-Type": "application/x-ndjson"}


class SchedulesCase(daemon_case.DaemonCase):
    def schedule(self, key, path="/ok", firings=0, **fields):
        """A schedule that has fired so often."""
        timer = self.create(path, every="1d", key=key, retry=ONCE, **fields)
        for count in range(1, firings + 1):
            self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")
            harness.wait_until(lambda: self.runs(timer) >= count, 20, f"{count} runs of {key}")
        return timer

    def runs(self, timer):
        return len(self.call(200, "GET", f"/v1/timers/{timer['id']}/runs")[1]["runs"])

    def page(self, query=""):
        return self.call(200, "GET", f"/v1/schedules?{query}")[1]

    def listed_keys(self, query=""):
        """The keys of all pages."""
        keys, cursor = [], ""
        while True:
            page = self.page(query + cursor)
            keys += [schedule["key"] for schedule in page["schedules"]]
            if not page["next"]:
                return keys
            cursor = f"&cursor={page['next']}"


class ListTest(SchedulesCase):
    # proves: schedules-list
    def test_each_shows_its_last_firings(self):
        """A timer that fires once is not among them."""
        self.create(after="1h", key="once")
        good = self.schedule("good", firings=2)
        bad = self.schedule("bad", "/status/500", firings=3, labels={"team": "shop"})
        new = self.schedule("new", payload={"a": 1})
        by_key = {schedule["key"]: schedule for schedule in self.page()["schedules"]}
        self.assertEqual(set(by_key), {"good", "bad", "new"})
        for timer, last, failures, count in ((good, "ok", 0, 2), (bad, "failed", 3, 3), (new, "never", 0, 0)):
            shown = by_key[timer["key"]]
            self.assertEqual((shown["id"], shown["last"], shown["failures"], shown["skipped"], len(shown["runs"])),
                             (timer["id"], last, failures, 0, count))
            self.assertEqual(shown["runs"], self.call(200, "GET", f"/v1/timers/{timer['id']}/runs")[1]["runs"])
            self.assertNotIn("payload", shown)
            self.assertNotIn("held_by", shown)
            self.assertEqual(shown["schedule"]["every"], "1d")
        self.assertEqual(by_key["new"]["next"], new["due"])
        self.restart()
        self.assertEqual({schedule["key"]: schedule["runs"] for schedule in self.page()["schedules"]},
                         {key: shown["runs"] for key, shown in by_key.items()})

    # proves: schedules-list
    def test_a_firing_that_was_dropped_hides_no_failure(self):
        timer = self.schedule("bad", "/status/500", firings=1)
        run, = self.call(200, "GET", f"/v1/timers/{timer['id']}/runs")[1]["runs"]
        dropped = {"planned": "2026-01-01T00:00:00Z", "attempts": 0, "outcome": "dropped", "error": "late"}
        line = {**self.call(200, "GET", f"/v1/timers/{timer['id']}")[1], "runs": [dropped, run]}
        self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        self.call(200, "POST", "/v1/timers/batch?restore=true", json.dumps(line), NDJSON)
        shown, = self.page("last=failed")["schedules"]
        self.assertEqual((shown["last"], shown["failures"], shown["skipped"]), ("failed", 1, 1))

    # proves: schedules-list
    def test_a_firing_that_was_dropped_after_an_attempt_has_failed(self):
        """A firing that the target accepted is older, and one without an attempt is newer."""
        timer = self.schedule("good", firings=1)
        done, = self.call(200, "GET", f"/v1/timers/{timer['id']}/runs")[1]["runs"]
        dropped = {"planned": "2026-01-01T00:00:00Z", "outcome": "dropped", "error": "late"}
        runs = [{**dropped, "attempts": 0}, {**dropped, "attempts": 2}, done]
        line = {**self.call(200, "GET", f"/v1/timers/{timer['id']}")[1], "runs": runs}
        self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        self.call(200, "POST", "/v1/timers/batch?restore=true", json.dumps(line), NDJSON)
        self.assertEqual(self.page("last=ok")["schedules"], [])
        shown, = self.page("last=failed")["schedules"]
        self.assertEqual((shown["last"], shown["failures"], shown["skipped"]), ("failed", 1, 1))

    # proves: schedules-list
    def test_filters_orders_and_pages(self):
        """Each order is the same over pages of any size."""
        for n in range(4):
            self.schedule(f"a{n}", "/status/500" if n % 2 else "/ok", firings=n, labels={"team": f"t{n % 2}"})
        self.schedule("b", at="2000-01-01T00:00:00Z")
        self.assertEqual(sorted(self.listed_keys("last=failed")), ["a1", "a3"])
        self.assertEqual(sorted(self.listed_keys("last=ok&last=never")), ["a0", "a2", "b"])
        self.assertEqual(self.listed_keys("last=skipped"), [])
        self.assertEqual(sorted(self.listed_keys("label=team:t1")), ["a1", "a3"])
        self.assertEqual(self.listed_keys("key_prefix=b"), ["b"])
        self.assertEqual(sorted(self.listed_keys(f"target={self.receiver.url('/status/500')}")), ["a1", "a3"])
        orders = {"next": None, "last": ["a3", "a2", "a1"], "failures": ["a3", "a1"]}
        for sort, first in orders.items():
            keys = self.listed_keys(f"sort={sort}")
            self.assertEqual(sorted(keys), ["a0", "a1", "a2", "a3", "b"])
            self.assertEqual(keys[:len(first or [])], first or [])
            for limit in (1, 2, 4, 5):
                self.assertEqual(self.listed_keys(f"sort={sort}&limit={limit}"), keys)
        due = [schedule["next"] for schedule in self.page("sort=next")["schedules"]]
        self.assertEqual(due, sorted(due))
        self.assertTrue(self.page("sort=last")["complete"])

    # proves: schedules-list, query-wrong
    def test_only_known_parameters(self):
        for query in ("last=dead", "last=", "sort=key", "sort=last&sort=next", "state=paused", "limit=1001", "cursor=0"):
            self.call(422, "GET", f"/v1/schedules?{query}")

    # proves: query-wrong
    def test_a_cursor_goes_with_its_order(self):
        for key in ("a", "b"):
            self.schedule(key, "/status/500", firings=1)
        for given in ("next", "last", "failures"):
            cursor = self.page(f"sort={given}&limit=1")["next"]
            for sort in ("next", "last", "failures"):
                self.call(200 if sort == given else 422, "GET", f"/v1/schedules?cursor={cursor}&sort={sort}")

    # proves: schedules-held
    def test_next_says_what_holds_a_schedule_back(self):
        timer = self.schedule("held", flow={"key": "f", "concurrency": 9})
        origin = self.receiver.url("").rstrip("/").replace("/", "%2F")

        def held():
            shown, = self.page()["schedules"]
            return shown.get("next"), shown.get("held_by")
        self.assertEqual(held(), (timer["due"], None))
        self.call(200, "POST", f"/v1/targets/{origin}/pause", {})
        self.assertEqual(held(), (None, "target_pause"))
        self.call(200, "POST", f"/v1/targets/{origin}/pause", {"until": "2100-01-01T00:00:00Z"})
        self.assertEqual(held(), ("2100-01-01T00:00:00.000Z", "target_pause"))
        self.call(200, "POST", "/v1/flows/f/pause", {})
        self.assertEqual(held(), (None, "target_pause"))
        self.call(200, "POST", f"/v1/targets/{origin}/resume")
        self.assertEqual(held(), (None, "target_pause"))
        self.call(200, "POST", "/v1/flows/f/resume")
        self.call(200, "POST", f"/v1/timers/{timer['id']}/pause", {})
        self.assertEqual(held(), (None, "pause"))
        self.call(200, "POST", f"/v1/timers/{timer['id']}/pause", {"until": "2100-01-01T00:00:00Z"})
        self.assertEqual(held(), ("2100-01-01T00:00:00.000Z", "pause"))
        self.call(200, "PUT", "/v1/admin/maintenance", {})
        self.assertEqual(held(), (None, "maintenance"))
        self.call(200, "DELETE", "/v1/admin/maintenance")
        self.assertEqual(held(), ("2100-01-01T00:00:00.000Z", "pause"))


class CommandLineTest(SchedulesCase):
    def run_cli(self, *arguments, code=0):
        done = subprocess.run([harness.find("tickwheel"), *arguments, "--url", f"http://127.0.0.1:{self.daemon.port}"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    # proves: schedules-list
    def test_schedules_and_runs_are_tables(self):
        good = self.schedule("good", firings=2)
        self.assertRegex(self.run_cli("schedules", "--check"), r"(?m)^20\S+Z +in 1d +.* +ok +●● +good$")
        self.schedule("bad", "/status/500", firings=1)
        self.assertRegex(self.run_cli("schedules", "--check", code=1), r"(?m) failed +✗ +bad$")
        self.assertNotIn("bad", self.run_cli("schedules", "--check", "--last", "ok"))
        self.assertEqual(json.loads(self.run_cli("schedules", "--last", "ok", "--output", "json"))["key"], "good")
        shown = self.run_cli("runs", "--key", "bad")
        self.assertRegex(shown, r"(?m)^20\S+Z .* failed +\d+ +1 +500 +")
        self.assertEqual(len(self.run_cli("runs", good["id"]).splitlines()), 3)
        self.run_cli("runs", "--key", "gone", code=3)

    # proves: schedules-list
    def test_a_limit_bounds_what_is_shown_not_what_is_checked(self):
        """A page ends at the limit, and the schedule that failed comes after it."""
        for n in range(3):
            self.schedule(f"a{n}")
        self.schedule("bad", "/status/500", firings=1)
        keys = self.listed_keys()
        self.assertEqual(keys[3:], ["bad"])
        for limit in range(1, 6):
            self.assertEqual(self.run_cli("schedules", "--limit", str(limit), "-o", "keys").split(), keys[:limit])
        self.assertEqual(self.run_cli("schedules", "--limit", "2", "--check", "-o", "keys", code=1).split(), keys[:2])
        self.assertEqual(self.run_cli("schedules", "--check", "-o", "keys", code=1).split(), keys)

    # proves: schedules-list, forecast-rows
    def test_an_order_reads_so_many_timers(self):
        """Each list reads 1,000 timers of each of four partitions, and keeps 1,000 of all. The one that failed is due last."""
        bad = self.schedule("bad", "/status/500", firings=1, at="2100-01-01T00:00:00Z")
        line = json.dumps({"every": "1d", "target": "queue:a"}) + "\n"
        for count in (60000, 139999):
            self.call(200, "POST", "/v1/timers/batch", line * count, {**NDJSON, "Prefer": "return=minimal"})
            for sort in ("failures", "last"):
                page = self.page(f"sort={sort}&limit=1")
                self.assertEqual(([each.get("key") for each in page["schedules"]], page["complete"]), (["bad"], True))
        for _ in range(2):
            self.create(every="1d")
        self.call(200, "DELETE", f"/v1/timers/{bad['id']}")
        self.assertFalse(self.page("sort=failures&limit=1")["complete"])
        env = command_line.environment(f"http://127.0.0.1:{self.daemon.port}")
        for flags, code, words in (((), 0, "not all schedules were sorted"), (("--check",), 1, "not all schedules were checked")):
            done = command_line.run("schedules", "--sort", "failures", "--limit", "1", *flags, env=env)
            self.assertEqual(done.code, code)
            self.assertIn(words, done.err)

    def test_a_terminal_shows_the_first_hundred(self):
        for n in range(101):
            self.create(every="1d", key=f"k{n:03}")
        env = command_line.environment(f"http://127.0.0.1:{self.daemon.port}")
        for flags, count, is_cut in (((), 100, True), (("--check",), 100, True), (("--limit", "1"), 1, False),
                                     (("--limit", "101"), 101, False)):
            terminal = command_line.Terminal("schedules", *flags, env=env)
            self.assertEqual(terminal.end(), 0)
            self.assertEqual(len(re.findall(r"k\d{3}\b", terminal.shown)), count, flags)
            self.assertEqual("there are more" in terminal.shown, is_cut, flags)


if __name__ == "__main__":
    unittest.main()
