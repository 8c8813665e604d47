#!/usr/bin/env python3
"""Goal: each verb of `tickwheel` does what its help says, tells a mistake by its exit code and in words, and trusts no
server with the terminal. Method: the program with pipes and in a terminal, against a real daemon and against servers
that answer nonsense."""

import base64
import datetime
import hashlib
import hmac
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import harness
from daemon_case import ms_of
from command_line_case import CONFLICT, DONE, FAILED, NOT_FOUND, STOPPED, UNAVAILABLE, USAGE, CommandLine


class Timers(CommandLine):
    def test_add_takes_each_kind_of_time_and_the_fields(self):
        payload = '{"order": 42, "n": 123456789012345678901234567890}'
        timer, = self.ask("add", "30m", self.receiver.url(), "--payload", payload, "--key", "order/42", "--label", "a:b",
                          "--label", "c: d:e", "--header", "X-A: b", "--attempts", "3", "--watch-event", "paid:42",
                          "--attempt-timeout", "5s", "--drop-after", "1h", "--on-dead", "queue:failed",
                          "--set", 'spread={"window":"1s"}')
        shown = self.run_cli("get", "--key", "order/42", "--output", "json").out
        self.assertIn(payload, shown)  # byte for byte
        timer = json.loads(shown)
        self.assertEqual(timer["labels"], {"a": "b", "c": "d:e"})
        self.assertEqual(timer["headers"], {"x-a": "b"} if "x-a" in timer["headers"] else {"X-A": "b"})
        self.assertEqual((timer["retry"]["max_attempts"], timer["retry"]["timeout"]), (3, "5s"))
        self.assertEqual((timer["watch"], timer["schedule"]["late"]["drop_after"]), (["paid:42"], "1h"))
        self.assertEqual(timer["on_dead"]["target"], "queue:failed")
        self.assertEqual(self.ask("add", "2099-12-24T18:00:00+01:00", "queue:a")[0]["due"], "2099-12-24T17:00:00.000Z")
        cron, = self.ask("add", "--cron", "30 9 * * MON-FRI", "--zone", "Europe/Berlin", "queue:a")
        self.assertEqual(cron["schedule"]["timezone"], "Europe/Berlin")
        every, = self.ask("add", "--every", "1h", "queue:a", "--count", "3")
        self.assertEqual(every["schedule"]["count"], 3)
        text, = self.ask("add", "1h", "queue:a", "--body", "a text", "--content-type", "text/plain")
        self.assertEqual(text["content_type"], "text/plain")
        piped, = self.ask("add", "1h", "queue:a", "--payload", "-", stdin='["from", "a pipe"]\n')
        self.assertEqual(piped["payload"], ["from", "a pipe"])
        fired, = self.ask("add", "now", self.receiver.url())
        self.await_state(fired, "fired")

    # proves: targets
    def test_several_targets(self):
        timer, = self.ask("add", "1h", "queue:a", "--target", "queue:b", "--target", "log:c", "--key", "several")
        self.assertEqual([target["target"] for target in timer["targets"]], ["queue:a", "queue:b", "log:c"])
        self.assertIn("queue:a and 2 more", self.run_cli("list").out)
        one, = self.ask("change", "--key", "several", "--target", "queue:d")
        self.assertEqual(one["target"], "queue:d")
        two, = self.ask("change", "--key", "several", "--target", "queue:d", "--target", "queue:e")
        self.assertEqual([target["target"] for target in two["targets"]], ["queue:d", "queue:e"])
        fired, = self.ask("add", "now", "queue:x", "--target", "queue:y")
        lines = [json.loads(line) for line in self.run_cli("export").out.splitlines()]
        self.assertFalse([line for line in lines if "part_of" in line])
        self.assertIn(fired["id"], [line["id"] for line in lines])

    def test_repeating_an_add_doubles_nothing(self):
        first = self.run_cli("add", "1h", "queue:a", "--idempotency-key", "x1", "-o", "ids").out
        self.assertEqual(self.run_cli("add", "1h", "queue:a", "--idempotency-key", "x1", "-o", "ids").out, first)
        first = self.run_cli("add", "1h", "queue:a", "--key", "k", "-o", "ids").out
        self.run_cli("add", "2h", "queue:a", "--key", "k", code=CONFLICT)
        self.assertEqual(self.run_cli("add", "2h", "queue:a", "--key", "k", "--replace", "-o", "ids").out, first)

    def test_change_and_touch(self):
        timer = self.create(key="k", labels={"a": "b", "c": "d"})
        changed, = self.ask("change", timer["id"], "--when", "3h", "--set", 'labels={"a": null}', "--payload", "1")
        self.assertEqual((changed["labels"], changed["payload"], changed["version"]), ({"c": "d"}, 1, 2))
        self.run_cli("change", "--key", "k", "--when", "4h", "--if-version", "1", code=CONFLICT)
        self.assertEqual(self.ask("change", "--key", "k", "--when", "4h", "--if-version", "2")[0]["version"], 3)
        self.assertEqual(self.ask("touch", "--key", "k", "5h")[0]["version"], 4)
        self.assertEqual(self.ask("touch", timer["id"], "6h")[0]["version"], 5)
        self.run_cli("change", timer["id"], code=USAGE)
        self.run_cli("touch", "6h", code=USAGE)

    def test_get_shows_a_timer_that_is_over(self):
        timer = self.create()
        self.assertEqual(self.ask("cancel", timer["id"])[0]["state"], "cancelled")
        self.assertEqual(self.ask("get", timer["id"])[0]["state"], "cancelled")
        self.run_cli("cancel", timer["id"], code=NOT_FOUND)
        fired = self.create(key="fired", after=0)
        self.await_state(fired, "fired")
        self.assertEqual(self.ask("get", "--key", "fired")[0]["state"], "fired")  # exits with 0, as docs/cli.md says
        for verb in (("change", "--when", "1h"), ("touch", "1h"), ("fire",), ("pause",), ("resume",), ("cancel",)):
            self.run_cli(*verb, "--key", "fired", code=NOT_FOUND)
        self.assertIn("write --key nosuch", self.run_cli("get", "nosuch", code=NOT_FOUND).err)

    def test_get_reads_as_a_description(self):
        self.create(key="2026-11-20T23:59:59.000Z", labels={"a": "b", "c": "d"}, watch=["paid:1", "paid:2"],
                    payload={"at": "2026-11-20T23:59:59.000Z"}, cron="0 9 * * *", until="2190-01-01T00:00:00Z")
        shown = self.run_cli("get", "--key", "2026-11-20T23:59:59.000Z").out
        for line in (r"key +2026-11-20T23:59:59\.000Z", r'payload +\{"at": "2026-11-20T23:59:59\.000Z"\}', r"labels +a:b, c:d",
                     r"watch +paid:1, paid:2", r"retry +max_attempts 10, base 1s, .*", r"due +[-0-9T:.]+Z \(in .*\)",
                     r"schedule +cron 0 9 \* \* \*, timezone UTC, dst shift, until 2190-01-01T00:00:00.000Z \(in \d+d\)"):
            self.assertRegex(shown, f"(?m)^{line}$")

    def test_times_may_be_durations(self):
        soon, late = self.create(after="1h"), self.create(after="3h")
        for flags, found in ((("--due-before", "2h"), soon), (("--due-after=2h",), late), (("--due-before", "-1h"), None),
                             (("--due-after", "-1h", "--limit", "1"), soon)):
            self.assertEqual([timer["id"] for timer in self.ask("list", *flags)], [found["id"]] if found else [])
        paused, = self.ask("pause", soon["id"], "--until", "2h")
        self.assertAlmostEqual(ms_of(paused["paused"]["until"]) / 1000, time.time() + 7200, delta=60)

    def test_cancel_by_id_key_and_label(self):
        ids = [self.create(labels={"a": "b"})["id"] for _ in range(3)]
        self.create(key="k1")
        self.create(key="k2")
        self.assertEqual(self.ask("cancel", "--key", "k1")[0]["state"], "cancelled")
        done = self.run_cli("cancel", "--label", "a:b", code=USAGE)
        self.assertIn("Cancel 3 timers", done.err)
        self.assertEqual(self.ask("cancel", ids[0], "--key", "k2", "--yes")[0]["cancelled"], 2)
        self.assertEqual(self.ask("cancel", "--label", "a:b", "--yes")[0]["cancelled"], 2)
        self.assertIn("no live timers", self.run_cli("cancel", "--label", "a:b").err)
        self.run_cli("cancel", code=USAGE)
        missing = self.run_cli("cancel", ids[0], "nosuch", "--yes", code=FAILED)
        self.assertIn("not-found", missing.out)

    def test_complete(self):
        self.create(watch=["paid:1"])
        fired = self.create(watch=["paid:2"])
        self.assertEqual(self.ask("complete", "paid:1")[0]["cancelled"], 1)
        self.run_cli("complete", "paid:2", "paid:3", "--fire")
        self.await_state(fired, "fired")


    def test_fire(self):
        one, two, three = (self.create(key=f"k{n}", labels={"a": "b"}) for n in range(3))
        self.assertEqual(self.ask("fire", one["id"])[0]["id"], one["id"])
        self.await_state(one, "fired")
        self.assertEqual(self.ask("fire", "--key", "k1")[0]["id"], two["id"])
        self.await_state(two, "fired")
        self.assertEqual(self.ask("fire", "--label", "a:b", "--yes")[0]["fired"], 1)
        self.await_state(three, "fired")


    def test_pause_and_resume(self):
        one, two = (self.create(key=f"k{n}", labels={"a": "b"}) for n in range(2))
        paused, = self.ask("pause", "--key", "k0", "--note", "a deploy", "--until", "2099-01-01T00:00:00Z")
        self.assertEqual((paused["id"], paused["state"], paused["paused"]["note"]), (one["id"], "paused", "a deploy"))
        self.assertEqual(self.ask("pause", two["id"])[0]["state"], "paused")
        self.assertEqual(len(self.ask("list", "--state", "paused")), 2)
        self.run_cli("resume", "--label", "a:b", code=USAGE)  # asks
        self.assertEqual(self.ask("resume", "--label", "a:b", "--yes")[0]["resumed"], 2)
        self.assertEqual(self.ask("pause", one["id"], "--key", "k1", "--note", "both", "--yes")[0]["paused"], 2)
        self.assertEqual(self.ask("get", "--key", "k1")[0]["paused"]["note"], "both")
        self.assertEqual(self.ask("resume", one["id"])[0]["state"], "scheduled")
        self.run_cli("fire", "--key", "k1", code=CONFLICT)
        self.run_cli("pause", code=USAGE)


class Plans(CommandLine):
    def test_preview_draws_a_calendar_in_the_zone(self):
        shown = self.run_cli("preview", "30 2 * * *", "--zone", "Europe/Berlin", "--after", "2026-03-27T12:00:00Z",
                             "--count", "3").out
        self.assertIn("Sat 2026-03-28 02:30:00 +01:00  2026-03-28T01:30:00.000Z", shown)
        self.assertIn("Sun 2026-03-29 03:00:00 +02:00  2026-03-29T01:00:00.000Z", shown)  # 02:30 does not exist
        self.assertIn("March 2026\n Mo  Tu  We  Th  Fr  Sa  Su\n                          1 \n  2 ", shown)
        self.assertIn("23  24  25  26  27 [28][29]\n[30] 31 \n", shown)
        shown = self.run_cli("preview", "0 0 29 2 *", "--count", "2", "--after", "2026-01-01T00:00:00Z").out
        self.assertIn("February 2028\n", shown)
        self.assertIn("[29]\n", shown)
        self.assertIn("February 2032\n", shown)
        self.assertIn('There is no time zone "Berlin": did you mean Europe/Berlin?',
                      self.run_cli("preview", "0 22 1 * *", "--zone", "Berlin", code=FAILED).err)
        west = self.run_cli("preview", "0 22 1 * *", "--zone", "America/St_Johns", "--count", "1",
                            "--after", "2026-12-15T00:00:00Z").out
        self.assertIn("Fri 2027-01-01 22:00:00 -03:30  2027-01-02T01:30:00.000Z", west)
        self.assertIn("[ 1]", west)
        self.assertEqual(len(self.ask("preview", "--every", "36h", "--count", "1000")[0]["instants"]), 1000)
        self.run_cli("preview", code=USAGE)
        self.assertIn("cron: ", self.run_cli("preview", "* *", code=FAILED).err)

    # proves: count
    def test_count_is_a_table(self):
        for n in range(3):
            self.create(target=f"queue:q{n % 2}", after="1d")
        harness.wait_until(lambda: self.ask("count")[0]["complete"], 120, "all rows are read")
        shown = self.run_cli("count", "--by", "state,origin").out
        self.assertRegex(shown, r"(?m)^scheduled +queue:q0 +2$")
        self.assertTrue(shown.endswith("\n3 live timers\n"), shown)
        self.assertEqual(self.ask("count", "--by", "state")[0]["groups"], [{"state": "scheduled", "count": 3}])
        self.assertIn("label:NAME", self.run_cli("count", "--by", "target", code=FAILED).err)
        for team in ("a", "a", "b"):
            self.create(target="queue:q0", after="1d", labels={"team": team})
        self.assertEqual(self.run_cli("count", "--by", "label:team").out.splitlines(),
                         ["LABEL  COUNT", "-      3", "a      2", "b      1", "6 live timers"])

    def test_forecast_draws_bars(self):
        minute = int(time.time()) // 60 + 30
        for _ in range(4):
            self.create(at=minute * 60000)
        self.create(at=(minute + 300) * 60000)
        shown = self.run_cli("forecast").out
        self.assertIn("4 due from ", shown)
        self.assertEqual(len(re.findall(r"^\d\d:\d\d  4  \u2588{50}$", shown, flags=re.M)), 1)
        self.assertEqual(len(shown.splitlines()), 61)
        shown = self.run_cli("forecast", "--count", "1440").out  # groups of 24 minutes
        self.assertIn("5 due from ", shown)
        self.assertEqual(len(re.findall(r"  4  \u2588{50}$", shown, flags=re.M)), 1)
        self.assertEqual(len(shown.splitlines()), 61)
        for name, value, mark in (("LC_ALL", "C", "#"), ("LANG", "en_US.ISO-8859-1", "#"), ("LC_CTYPE", "C.UTF-8", "\u2588")):
            shown = command_line.run("forecast", env={**self.env, name: value}).out
            self.assertEqual(len(re.findall(rf"  4  {mark}{{50}}$", shown, flags=re.M)), 1, name)
        self.assertEqual(self.ask("forecast", "--unit", "second", "--count", "30")[0]["count"], 30)
        self.run_cli("forecast", "--count", "1441", code=FAILED)

    def test_explain_is_a_sentence_with_stages(self):
        timer = self.create(target="queue:a", after=0)
        harness.wait_until(lambda: self.ask("explain", timer["id"])[0]["lateness"]["late_ms"] > 100, 20, "it waits")
        shown = self.run_cli("explain", timer["id"]).out
        self.assertIn("No worker asks for items of queue:", shown)
        self.assertRegex(shown, r"(?m)^worker +\d+ ms +\u2588")
        self.run_cli("explain", "nosuch", code=NOT_FOUND)
        self.run_cli("explain", code=USAGE)
        over = self.create(key="over")
        self.assertEqual(self.ask("explain", "--key", "over")[0]["id"], over["id"])
        self.run_cli("cancel", "--key", "over")
        self.assertEqual(self.ask("explain", "--key", "over")[0]["where"], "over")
        self.run_cli("explain", "--key", "nosuch", code=NOT_FOUND)


class Transfer(CommandLine):
    def lines(self, *fields):
        path = os.path.join(self.data, "lines.ndjson")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"after": "1h", "target": "queue:a", **each}) + "\n" for each in fields)
        return path

    def test_an_export_is_imported_as_it_was(self):
        """Payloads keep their bytes; states are those of transfer_test."""
        payload = '{"n": 123456789012345678901234567890, "e": 1e400, "t": "\u00e9"}'
        self.run_cli("add", "30m", "queue:a", "--payload", payload, "--key", "k", "--label", "a:b", "--attempts", "3")
        for window in ("7ms", "1d"):
            self.run_cli("add", "--every=36h", "queue:a", "--key", f"k\u00e9 {window}", "--spread", window)
        before = self.ask("list")
        exported = self.run_cli("export").out
        self.assertIn(payload, exported)
        self.run_cli("cancel", *[timer["id"] for timer in before], "--yes")
        self.assertEqual(self.ask("import", "-", stdin=exported), [{"created": 3, "existed": 0, "failed": 0}])
        self.assertEqual([{**timer, "id": None} for timer in self.ask("list")], [{**timer, "id": None} for timer in before])

    def test_a_repeated_import_doubles_nothing(self):
        path = self.lines(*[{"key": f"k{n}"} for n in range(2500)], *[{"payload": n % 3} for n in range(30)])
        self.assertEqual(self.ask("import", path)[0], {"created": 2530, "existed": 0, "failed": 0})
        self.assertEqual(self.ask("import", path)[0], {"created": 0, "existed": 2530, "failed": 0})
        self.assertEqual(len(self.ask("list")), 2530)
        self.assertEqual(self.ask("import", path, "--from", "2501")[0], {"created": 0, "existed": 30, "failed": 0})
        self.assertEqual(len(self.ask("list")), 2530)

    def test_wrong_lines_are_named_and_the_others_created(self):
        path = self.lines({"key": "a"}, {"key": "b", "traget": 1}, {}, {"after": "x"}, {"key": "c"})
        with open(path, "a", encoding="utf-8") as file:
            file.write('\n{"no": JSON}\r\n\n{"key": "d", "after": "1h", "target": "queue:a"}')
        done = self.run_cli("import", path, code=FAILED)
        self.assertEqual(done.out, "created 4, existed 0, failed 3\n")
        self.assertIn("line 2: A field is wrong: There is no field `traget`", done.err)
        self.assertIn("line 4: A field is wrong", done.err)
        self.assertIn("line 7 is no JSON", done.err)
        self.run_cli("import", "/nonexistent", code=USAGE)

    # proves: cli-line
    def test_a_line_at_its_limit(self):
        fill = (16 << 20) - len(json.dumps({"payload": ""}))
        for extra, code, words in ((0, FAILED, "too large"), (1, USAGE, "line 1 is longer than 16 MiB")):
            line = json.dumps({"payload": "a" * (fill + extra)})
            self.assertIn(words, self.run_cli("import", "-", code=code, stdin=line + "\n").err)

    def test_the_progress_is_drawn_on_a_terminal(self):
        path = self.lines(*[{"key": f"k{n}"} for n in range(3000)])
        terminal = self.terminal("import", path)
        self.assertEqual(terminal.end(), DONE)
        self.assertRegex(terminal.shown, r"\[#* *\] \d+ %, \d+ s left")
        self.assertRegex(terminal.shown, r"3000 timers, \d+/s")
        self.assertIn("created 3000", terminal.shown)


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Crontab(CommandLine):
    TEXT = ("# of a user\nSHELL = '/bin/sh'\n30 9 * * MON-FRI\treport --to a%Hello%you\n\nSHELL=/bin/bash\n"
            "@daily  clean '100\\%'\n@daily  clean '100\\%'\n")

    def crontab(self, text, *arguments, code=DONE):
        return self.run_cli("import", "crontab", "-", "--target", "queue:cron", *arguments, code=code, stdin=text)

    def timers(self):
        return sorted(self.ask("list"), key=lambda timer: timer["key"])

    def test_each_entry_becomes_a_timer_and_a_repetition_doubles_none(self):
        self.assertEqual(self.crontab(self.TEXT, "--zone", "Europe/Berlin", "--label", "from:cron").out,
                         "created 3, existed 0, failed 0\n")
        timers = self.timers()
        report, = (timer for timer in timers if "stdin" in timer["payload"])
        self.assertEqual((report["schedule"]["cron"], report["schedule"]["timezone"], report["target"], report["labels"]),
                         ("30 9 * * MON-FRI", "Europe/Berlin", "queue:cron", {"from": "cron"}))
        self.assertEqual(report["payload"], {"command": "report --to a", "stdin": "Hello\nyou\n", "env": {"SHELL": "/bin/sh"}})
        clean = [timer for timer in timers if timer is not report]
        self.assertEqual([timer["payload"] for timer in clean], [{"command": "clean '100%'", "env": {"SHELL": "/bin/bash"}}] * 2)
        self.assertEqual(self.crontab(self.TEXT, "--zone", "Europe/Berlin", "--label", "from:cron").out,
                         "created 0, existed 3, failed 0\n")
        self.assertEqual(self.timers(), timers)
        # Another zone is another timer of that key: it is refused, with the line.
        self.assertIn("line 3: ", self.crontab(self.TEXT, "--zone", "UTC", "--label", "from:cron", code=FAILED).err)

    def test_a_crontab_of_the_system_and_zones_of_its_own(self):
        path = os.path.join(self.data, "crontab")
        with open(path, "w", encoding="utf-8") as file:
            file.write("0 1 * * * root first\nCRON_TZ=America/New_York\n0 1 * * *  www-data  second it\n")
        self.run_cli("import", "crontab", path, "--system", "--zone", "UTC", "--target", "queue:cron")
        found = {timer["payload"]["user"]: (timer["payload"]["command"], timer["schedule"]["timezone"]) for timer in self.timers()}
        self.assertEqual(found, {"root": ("first", "UTC"), "www-data": ("second it", "America/New_York")})

    def test_what_no_timer_can_be_is_named_and_nothing_is_created(self):
        text = "@daily fine\n@reboot start\n* * * *\n61 * * * * x\n-0 1 * * * quiet\nRANDOM_DELAY=5\n@daily fine too"
        done = self.crontab(text, "--zone", "UTC", code=USAGE)
        self.assertEqual(re.findall(r"line (\d): ", done.err), ["2", "3", "4", "5", "6"])
        self.assertIn("nothing was created", done.err)
        self.assertIn("line 1: name the time zone", self.crontab("@daily x", code=USAGE).err)
        self.assertIn("line 2: ", self.crontab("CRON_TZ=Europe/Nowhere\n@daily x", "--zone", "UTC", code=USAGE).err)
        self.run_cli("import", "crontab", "-", "--zone", "UTC", code=USAGE)  # no target
        self.run_cli("import", "crontab", "/nonexistent", "--target", "queue:a", code=USAGE)
        self.run_cli("import", "a", "b", code=USAGE)
        self.assertIn("--dry-run is a flag of", self.run_cli("import", "-", "--dry-run", code=USAGE).err)
        self.assertEqual(self.ask("list"), [])
        self.assertEqual(self.crontab("").out, "created 0, existed 0, failed 0\n")

    def test_a_dry_run_shows_firings_or_lines_that_import_takes(self):
        url = self.env["TICKWHEEL_URL"]
        self.env["TICKWHEEL_URL"] = "http://127.0.0.1:1"  # it needs no daemon
        shown = self.crontab(self.TEXT, "--zone", "Europe/Berlin", "--dry-run").out
        self.assertRegex(shown, r"^line 3  report --to a%Hello%you\n(    (Mon|Tue|Wed|Thu|Fri) 20\d\d-\d\d-\d\d 09:30:00 \+0[12]:00\n){3}line 6")
        lines = self.crontab(self.TEXT, "--zone", "Europe/Berlin", "--dry-run", "-o", "json").out
        self.env["TICKWHEEL_URL"] = url
        self.assertEqual(self.run_cli("import", "-", stdin=lines).out, "created 3, existed 0, failed 0\n")
        self.assertEqual(self.crontab(self.TEXT, "--zone", "Europe/Berlin").out, "created 0, existed 3, failed 0\n")

    # proves: cli-crontab, cli-crontab-variables
    def test_a_crontab_at_its_limits(self):
        text = "#\n" * (1 << 19)
        self.assertEqual(self.crontab(text).out, "created 0, existed 0, failed 0\n")
        self.assertIn("more than", self.crontab(text + "#", code=USAGE).err)
        text = "".join(f"A{n}={n}\n" for n in range(64)) + "A0=1\n"
        self.crontab(text + "@daily x", "--zone", "UTC")
        self.assertEqual(len(self.timers()[0]["payload"]["env"]), 64)
        self.assertIn("line 66: there are more than 64 variables", self.crontab(text + "B=1", code=USAGE).err)


class Receive(CommandLine):
    flags = ("--webhook-secret", SECRET)

    def receive(self, *arguments, **more):
        """A receiver on a free port, once it says which."""
        program = harness.Program([harness.find("tickwheel"), "receive", "0", *arguments], {**self.env, **more})
        self.addCleanup(program.close)
        return program, f"http://127.0.0.1:{program.find_port(r'waits for webhooks on http://127.0.0.1:([0-9]+)')}"

    def test_it_shows_and_verifies_webhooks(self):
        for arguments, more, expected in ((("--secret", SECRET), {}, "valid"),
                                          (("--secret", "@" + self.secret_file(SECRET)), {}, "valid"),
                                          ((), {"TICKWHEEL_WEBHOOK_SECRET": SECRET}, "valid"),
                                          (("--secret", "whsec_" + 32 * "A"), {}, "WRONG"),
                                          ((), {}, "not verified: no --secret")):
            program, url = self.receive("--count", "1", *arguments, **more)
            timer = self.create(target=url + "/hello", after=0, payload={"order": 42})
            self.assertEqual(program.process.wait(harness.PATIENCE_S), DONE)
            shown = program.output()
            self.assertIn('POST /hello  {"order":42}', shown.replace(": 42", ":42"))
            self.assertRegex(shown, rf"due {timer['due']}, [0-9.]+ ms ago, attempt 1, webhook-id {timer['id']}-\d+")
            self.assertTrue(shown.endswith(f", signature {expected}\n"), shown)
            self.assertNotIn("whsec", shown)

    def test_it_verifies_by_a_public_key(self):
        make = [harness.find("tickwheeld"), "--make-webhook-key"]
        (private, public), (_, other) = (subprocess.run(make, capture_output=True, text=True, check=True).stdout.split()
                                         for _ in range(2))
        data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, data)
        daemon = harness.Daemon(data, "--webhook-secret", f"{SECRET} {private}")
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 30, "ready")
        for secret, expected in (public, "valid"), (other, "WRONG"), (SECRET, "valid"):
            program, url = self.receive("--count", "1", "--secret", secret)
            daemon.call("POST", "/v1/timers", {"target": url, "after": 0, "payload": {"order": 42}})
            self.assertEqual(program.process.wait(harness.PATIENCE_S), DONE)
            self.assertTrue(program.output().endswith(f", signature {expected}\n"), program.output())

    def secret_file(self, secret):
        path = os.path.join(self.data, "secret")
        with open(path, "w", encoding="utf-8") as file:
            file.write(secret + "\n")
        return path

    def post(self, url, body, headers):
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=harness.PATIENCE_S)
        connection.request("POST", "/", body, headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def test_old_missing_and_several_signatures(self):
        program, url = self.receive("--secret", SECRET, "--count", "5")
        key = base64.b64decode(SECRET.removeprefix("whsec_"))

        def signed(stamp, body=b"{}"):
            mac = hmac.new(key, f"id.{stamp}.".encode() + body, hashlib.sha256).digest()
            return {"webhook-id": "id", "webhook-timestamp": str(stamp),
                    "webhook-signature": "v1,xyz v1," + base64.b64encode(mac).decode()}
        now = int(time.time())
        for headers in (signed(now), signed(now - 400), signed(now + 400), {"webhook-id": "id"}, signed(now, b"{ }")):
            self.assertEqual(self.post(url, b"{}", headers), 200)
        self.assertEqual(program.process.wait(harness.PATIENCE_S), DONE)
        self.assertEqual(re.findall(r"signature (.*)", program.output()),
                         ["valid", *2 * ["valid, but older than five minutes"], "missing", "WRONG"])

    # proves: cli-received
    def test_hostile_webhooks_cannot_reach_the_terminal(self):
        program, url = self.receive("--count", "2", "--output", "json")
        self.assertEqual(self.post(url, b"\x1b[31m\xff\x9b", {"webhook-id": "\xe2\x80\xae"}), 200)
        self.assertEqual(self.post(url, b"a" * ((16 << 20) + 1), {}), 413)
        self.assertEqual(self.post(url, b"a" * (16 << 20), {}), 200)
        self.assertEqual(program.process.wait(harness.PATIENCE_S), DONE)
        first, second = (json.loads(line) for line in program.output().splitlines()[1:])
        self.assertEqual(first["body"], "\x1b[31m\ufffd\ufffd")
        self.assertEqual(len(second["body"]), 16 << 20)
        self.assertNotRegex(program.output(), r"[\x1b\x9b\u202e]")

    def test_another_status_has_it_tried_again(self):
        program, url = self.receive("--status", "503", "--count", "2")
        self.create(target=url, after=0, retry={"base": "1ms", "cap": "1ms"})
        self.assertEqual(program.process.wait(harness.PATIENCE_S), DONE)
        self.assertIn("attempt 2", program.output())

    def test_mistakes(self):
        for arguments in (("x",), ("65536",), ("0", "--secret", "abc"), ("0", "--secret", "whsec_!"),
                          ("0", "--secret", "whpk_" + 32 * "A"), ("0", "--secret", "whsk_" + 43 * "A" + "="), ("0", "--status", "99"), ("0", "--secret", "@/nonexistent")):
            done = self.run_cli("receive", *arguments, code=USAGE)
            self.assertNotIn("abc", done.err)


class Operation(CommandLine):
    def setUp(self):
        self.backups = tempfile.mkdtemp(prefix="tickwheel-backups-")
        self.addCleanup(shutil.rmtree, self.backups)
        self.flags = ("--backup-folder", self.backups)
        super().setUp()

    def test_backup(self):
        self.create()
        backup, = self.ask("backup")
        self.assertEqual(backup["timers"], 1)
        self.assertTrue(os.path.isdir(backup["folder"]))
        done = self.run_cli("check", backup["folder"])
        self.assertIn("valid", done.out)
        report, = self.ask("check", backup["folder"])
        self.assertEqual((report["folder"], report["valid"], report["findings"], report["damage"]), (backup["folder"], True, 0, []))
        self.assertEqual(sum(partition["live"] for partition in report["partitions"]), 1)
        for form in ("table", "json"):
            done = self.run_cli("check", self.data, "--output", form, code=USAGE)  # a daemon has it open
            self.assertEqual(done.out, "")
        for name in os.listdir(backup["folder"]):
            if name.startswith("run-"):
                with open(os.path.join(backup["folder"], name), "r+b") as file:
                    file.write(bytes(64))
        damaged = self.run_cli("check", backup["folder"], code=FAILED)
        self.assertIn("damage", damaged.out + damaged.err)

    # proves: cli-connections
    def test_bench_measures_and_cleans_up(self):
        shown = self.run_cli("bench", "--count", "300", "--connections", "3").out
        self.assertRegex(shown, r"^300 created in [0-9.]+ s by 3 connections: \d+ per second\n")
        counts = re.findall(r"(?m)^up to [0-9.]+ [mu]s +(\d+)", shown)
        self.assertEqual(sum(map(int, counts)), 300)
        self.assertRegex(shown, "\u2588{50}")
        self.assertEqual(self.ask("bench", "--count", "256", "--connections", "256")[0]["created"], 256)
        self.run_cli("bench", "--connections", "257", code=USAGE)
        self.assertEqual(self.ask("list"), [])
        self.run_cli("bench", "--url", "http://127.0.0.1:1", code=UNAVAILABLE)

    def test_a_bench_that_is_stopped_cleans_up(self):
        terminal = self.terminal("bench", "--count", "1000000000")
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_created_total") > 10, 20, "timers")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), DONE)
        self.assertEqual(self.ask("list"), [])

    def test_top_shows_rates_times_and_gauges(self):
        terminal = self.terminal("top", "--interval", "100ms")
        terminal.expect("disk free")
        timer = self.create(after=0)
        self.await_state(timer, "fired")
        harness.wait_until(lambda: terminal.read() and re.search(r"fired\S* +[0-9.]+ +1\b", re.sub(
            "\x1b\\[[0-9;]*m", "", terminal.shown)), 20, "a timer that fired")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), DONE)
        shown = self.run_cli("top", "--count", "2", "--interval", "100ms").out
        self.assertEqual(len(re.findall(r"(?m)  pending +0$", shown)), 2)
        self.assertRegex(shown, r"(?m)^request +[0-9.]+ ms +[0-9.]+ ms\b")
        before, after = self.ask("top", "--count", "2", "--interval", "100ms")
        self.assertEqual((before["fired"], after["created"]), (1, 1))

    def test_top_fits_a_small_terminal_and_ends_by_q(self):
        for n in range(7):
            for _ in range(n + 1):
                self.create(target=f"queue:a-name-of-{'many' * 9}-{n}", after=0)
            self.create(target=f"http://127.0.0.{n + 1}:1/", after=0)
        harness.wait_until(lambda: len(self.ask("targets")[0]["targets"]) == 7 and sum(
            queue["ready"] for queue in self.ask("queues")[0]["queues"]) == 28, 20, "all of them")
        terminal = self.terminal("top", "--interval", "1h")
        terminal.expect("TARGET")
        terminal.expect("WAITING")
        terminal.type("xq")
        self.assertEqual(terminal.end(), DONE)
        self.assertNotIn("xq", terminal.shown)
        screen = re.sub("\x1b\\[[0-9;]*[a-zA-Z]", "", terminal.shown).replace("\r", "").removesuffix("\n").split("\n")
        self.assertLessEqual(len(screen), 24)
        self.assertLessEqual(max(map(len, screen)), 80)
        self.assertEqual([line.split()[-2:] for line in screen if "a-name-of" in line],
                         [["7", "0"], ["6", "0"], ["5", "0"], ["4", "0"]])


class Doctor(CommandLine):
    def doctor(self, *arguments, code=DONE):
        """The result and the words of each check."""
        lines = self.ask("doctor", *arguments, code=code)
        return {line["check"]: (line["result"], line["detail"]) for line in lines}

    def write(self, name, text):
        path = os.path.join(self.data + ".config", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.addCleanup(shutil.rmtree, os.path.dirname(path), True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_machine_that_is_well(self):
        config = self.write("config", f"[storage]\ndata_folder = {self.data}\nconnections_max = 1\n"
                            "webhook_connections_max = 1\nbroker_connections = "
                            f"a=redis://:secret@127.0.0.1:{self.daemon.port}/0 b=nats://127.0.0.1:{self.daemon.port}\n"
                            f"cluster_brokers = 127.0.0.1:{self.daemon.port}\n"
                            f"cluster_log = postgres://timers:secret@127.0.0.1:{self.daemon.port}/timers\n")
        found = self.doctor("--config", config)
        self.assertEqual({check: result for check, (result, _) in found.items() if check not in ("clock", "disk", "limits")},
                         {"config": "ok", "tzdata": "ok", "files": "ok", "daemon": "ok", "broker": "ok"})
        self.assertRegex(found["clock"][1], "synchronised|no time service")
        self.assertRegex(found["tzdata"][1], r"^version 20\d\d[a-z]")
        self.assertIn("the daemon wants 2050", found["limits"][1])
        self.assertRegex(found["files"][1], rf"^{self.data}: \d+ files, [0-9.]+ MiB, of user id {os.getuid()}$")
        self.assertRegex(found["disk"][1], r"GiB free.*; fdatasync of 4 KiB takes [0-9.]+ ms, the longest of 64 took")
        shown = self.run_cli("doctor", "--config", config).out
        self.assertRegex(shown, r"(?m)^ok    broker +a: accepts connections$")
        self.assertRegex(shown, r"(?m)^ok    broker +b: accepts connections$")
        self.assertRegex(shown, r"(?m)^ok    broker +cluster_brokers: accepts connections$")
        self.assertRegex(shown, r"(?m)^ok    broker +cluster_log: accepts connections$")
        self.assertNotIn("secret", shown)
        self.assertFalse([name for name in os.listdir(self.data) if "probe" in name])

    def test_what_is_wrong_is_said_and_fails(self):
        brokers = self.write("brokers", "# all of them\ngone=kafka://:secret@127.0.0.1:1,127.0.0.1:2\n"
                             f"half=kafka://127.0.0.1:{self.daemon.port},127.0.0.1:1\n")
        env, self.env = self.env, {**self.env, "TICKWHEEL_BROKER_CONNECTIONS_FILE": brokers}
        lines = self.run_cli("doctor", "--data", self.data, code=FAILED).out
        self.assertRegex(lines, r"(?m)^fail  broker +gone: no connection to 127\.0\.0\.1:1 127\.0\.0\.1:2$")
        self.assertRegex(lines, r"(?m)^warn  broker +half: no connection to 127\.0\.0\.1:1$")
        self.assertNotIn("secret", lines)
        self.env = env
        found = self.doctor("--url", "http://127.0.0.1:1", "--data", self.data + ".none", code=FAILED)
        self.assertEqual((found["daemon"][0], found["files"][0]), ("fail", "warn"))
        self.assertNotIn("disk", found)
        found = self.doctor("--config", self.write("bad", "secret\n"), "--data", self.data, code=FAILED)
        self.assertEqual(found["config"][0], "fail")
        self.assertIn(":1:", found["config"][1])
        self.assertNotIn("secret", found["config"][1])
        self.assertEqual(self.doctor("--config", "/nonexistent/file", code=FAILED)["config"][0], "fail")

    def test_a_folder_that_is_not_named(self):
        """Nothing was looked at, so it is no success; ./data of the shell is found."""
        if os.path.exists("data") or os.path.lexists("/var/lib/tickwheel"):
            self.skipTest("this machine has a data folder")
        found = self.doctor(code=FAILED)
        self.assertEqual(found["files"][0], "fail")
        self.assertIn("neither ./data nor /var/lib/tickwheel/data", found["files"][1])

    # proves: cli-daemon-config
    def test_a_config_file_at_its_limit(self):
        text = "#\n" * (1 << 19)
        self.assertEqual(self.doctor("--config", self.write("config", text), "--data", self.data)["config"][0], "ok")
        path = self.write("config", text + "#")
        self.assertIn("more than", self.doctor("--config", path, "--data", self.data, code=FAILED)["config"][1])

    def test_files_of_others_and_a_restore_that_did_not_end(self):
        folder = os.path.dirname(self.write("data/one", ""))
        self.assertEqual(self.doctor("--data", folder)["files"][0], "warn")  # others may read it
        os.chmod(folder, 0o700)
        self.assertEqual(self.doctor("--data", folder)["files"][0], "ok")
        self.write("data/RESTORING", "")
        self.assertIn("did not end", self.doctor("--data", folder, code=FAILED)["files"][1])
        if os.getuid() == 0:
            os.chown(os.path.join(folder, "one"), 12345, 12345)
            self.assertIn("1 of its 2 files", self.doctor("--data", folder, code=FAILED)["files"][1])


class Dev(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-dev-")
        self.addCleanup(shutil.rmtree, self.folder)

    def dev(self, *arguments):
        program = harness.Program([harness.find("tickwheel"), "dev", "0", "--port", "0", *arguments],
                                  command_line.environment())
        self.addCleanup(program.close)
        return program

    def test_a_daemon_and_a_receiver_run_and_end_together(self):
        data = os.path.join(self.folder, "data")
        program = self.dev("--data", data)
        receiver = program.find_port(r"webhooks on http://127\.0\.0\.1:(\d+)")
        url = f"http://127.0.0.1:{program.find_port(r'listen=127.0.0.1:([0-9]+)')}"
        program.find_in_output("event=ready")
        for target in (f"http://127.0.0.1:{receiver}/hello", "log:line"):
            done = command_line.run("add", "now", target, "--payload", "42", env=command_line.environment(url))
            self.assertEqual(done.code, DONE, done)
        program.find_in_output(r"POST /hello  42\n")
        program.find_in_output(r"webhook-id \S+, signature valid\n")
        for line in (rf"runs tickwheeld on a free port, with its timers in {data}", r"signed and verified with whsec_\S{44}",
                     rf"tickwheel add 3s http://127\.0\.0\.1:{receiver}/hello"):
            program.find_in_output(line)
        program.find_in_output(r'"name":"line","payload":42')
        self.assertEqual(program.signal(signal.SIGINT), DONE)
        self.assertIn("exit=clean", program.output())
        self.assertTrue(os.path.isdir(data))

    def test_its_daemon_ends_when_it_is_killed(self):
        data = os.path.join(self.folder, "data")
        program = self.dev("--data", data)
        port = program.find_port(r"listen=127.0.0.1:([0-9]+)")
        program.find_in_output("event=ready")
        program.signal(signal.SIGKILL)
        env = command_line.environment(f"http://127.0.0.1:{port}")
        harness.wait_until(lambda: command_line.run("health", env=env).code == UNAVAILABLE, 20, "the daemon ends")
        again = self.dev("--data", data)  # the folder is free
        again.find_in_output("event=ready")
        self.assertEqual(again.signal(signal.SIGINT), DONE)

    def test_a_daemon_that_ends_ends_it(self):
        path = os.path.join(self.folder, "file")
        with open(path, "w", encoding="utf-8"):
            pass
        program = self.dev("--data", path)
        self.assertEqual(program.process.wait(harness.PATIENCE_S), FAILED)
        self.assertIn("the daemon has ended with exit code 1", program.output())


class Mistakes(CommandLine):
    def test_exit_codes_and_words(self):
        for arguments, code, words in (
                (("frobnicate",), USAGE, '"frobnicate" is no verb; tickwheel help lists them'),
                (("cancle", "x"), USAGE, '"cancle" is no verb: did you mean cancel?'),
                (("delete", "x"), USAGE, '"delete" is no verb: did you mean cancel?'),
                (("ls",), USAGE, '"ls" is no verb: did you mean list?'),
                (("status",), USAGE, '"status" is no verb: did you mean health?'),
                (("help", "lsit"), USAGE, "did you mean list?"),
                (("list", "--lable", "a:b"), USAGE, '--lable is no flag of "list": did you mean --label?'),
                (("add", "30m"), USAGE, "add needs WHEN and TARGET, as: tickwheel add 30m log:hello"),
                (("add", "1h", "queue:a", "--body", "x"), USAGE, "--body needs --content-type"),
                (("add", "30 m", "queue:a"), USAGE, "is no time"),
                (("add", "1h", "queue:a", "--payload", "{"), USAGE, "the payload is no JSON"),
                (("add", "1h", "queue:a", "--payload", '1,"key":"k"'), USAGE, "the payload is no JSON"),
                (("add", "1h", "queue:a", "--payload", "@/nonexistent/x"), USAGE, "No such file"),
                (("add", "1h", "queue:a", "--label", "x"), USAGE, "--label takes NAME:VALUE"),
                (("add", "1h", "queue:a", "--attempts", "101"), USAGE, "from 1 to 100"),
                (("add", "1h", "queue:a", "--set", "x"), USAGE, "--set takes FIELD=JSON"),
                (("add", "1h", "queue:a", "--idempotency-key", "a\r\nX-B: c"), USAGE, "control character"),
                (("add", "1h", "gopher://a"), FAILED, "#/target: "),
                (("list", "--due-after", "x"), FAILED, "due_after: "),
                (("list", "--timeout", "1"), USAGE, "--timeout takes a duration"),
                (("list", "--watch", "--interval", "1ms"), USAGE, "--interval takes a duration"),
                (("get", "a\x1b[31mb", "c"), USAGE, "too many"),
                (("change", "a", "--at", "2099-01-01T00:00:00Z"), USAGE, "the time is --when WHEN"),
                (("--token=tw_secret",), USAGE, "there is no verb"),
                (("cancel", "a", "b", "--if-version", "3", "--yes"), USAGE, "--if-version is for a single timer"),
                (("pause", "--label", "a:b", "--if-version", "3", "--yes"), USAGE, "--if-version is for a single timer"),
                (("a\x1b[31mb",), USAGE, "a\\u001b[31mb")):
            done = self.run_cli(*arguments, code=code)
            self.assertIn(words, done.err)
            self.assertEqual(done.out, "")

    def test_flags_stand_before_the_verb_too(self):
        timer = self.create(key="k")
        for arguments in (("--key", "k", "get", "-o", "ids"), ("-o", "ids", "--timeout=10s", "get", timer["id"])):
            self.assertEqual(self.run_cli(*arguments).out, timer["id"] + "\n")
        self.assertEqual(self.run_cli("--help", "get").out, self.run_cli("help", "get").out)

    def test_a_daemon_that_is_away(self):
        done = self.run_cli("list", "--url", "http://127.0.0.1:1", code=UNAVAILABLE)
        self.assertIn("no daemon answers at http://127.0.0.1:1", done.err)
        version = self.run_cli("version").out.split()[1]
        self.assertEqual(self.run_cli("health").out, f"{self.env['TICKWHEEL_URL']}: ready, tickwheeld {version}\n")
        self.assertEqual(self.ask("health"), [{"ready": True}])

    def test_help_and_version_need_no_daemon(self):
        self.env["TICKWHEEL_URL"] = "http://127.0.0.1:1"
        overview = self.run_cli().out
        verbs = re.findall(r"^  ([a-z-]+)  ", overview.split("\nVerbs\n")[1].split("\n\n")[0], flags=re.M)
        self.assertIn("add", verbs)
        for verb in verbs:
            shown = self.run_cli(verb, "--help").out
            self.assertEqual(self.run_cli("help", verb).out, shown)
            self.assertIn(f"tickwheel {verb}", shown)
            self.assertLessEqual(max(map(len, shown.splitlines())), 120)
        self.assertRegex(self.run_cli("--version").out, r"^tickwheel \d")
        self.assertEqual("tickwheel " + self.ask("version")[0]["version"] + "\n", self.run_cli("version").out)
        with open(os.path.join(os.path.dirname(__file__), "../../docs/cli.md"), encoding="utf-8") as file:
            page = file.read()
        for verb in verbs:
            self.assertTrue(re.search(rf"(`|tickwheel ){verb}\b", page), f"docs/cli.md has no {verb}")
        codes = re.findall(r"(?m)^  (\d+) +(.*)$", overview.split("\nExit codes\n")[1])
        self.assertEqual([f"- {code}: {meaning}" for code, meaning in codes], re.findall(r"(?m)^- \d+: .*$", page))

    def test_output_that_cannot_be_written_is_an_error(self):
        self.create()
        with open("/dev/full", "w", encoding="utf-8") as full:
            for verb in ("list", "log", "schedules", "queues", "export", "health", "version", "help"):
                done = subprocess.run([harness.find("tickwheel"), verb], stdout=full, stderr=subprocess.PIPE, env=self.env,
                                      timeout=harness.PATIENCE_S, check=False)
                self.assertEqual((verb, done.returncode, done.stderr.decode()), (
                    verb, FAILED, "tickwheel: standard output cannot be written: No space left on device\n"))

    # proves: cli-file, cli-timeout
    def test_files_and_times_at_their_limits(self):
        path = os.path.join(self.data, "payload")
        with open(path, "w", encoding="utf-8") as file:
            file.write('"' + "a" * ((16 << 20) - 2) + '"')
        self.assertIn("(413)", self.run_cli("add", "1h", "queue:a", "--payload", "@" + path, code=FAILED).err)
        with open(path, "a", encoding="utf-8") as file:
            file.write("\n")
        self.assertIn(path, self.run_cli("add", "1h", "queue:a", "--payload", "@" + path, code=USAGE).err)
        self.run_cli("list", "--timeout", "24h")
        self.run_cli("list", "--timeout", "24h1ms", code=USAGE)


class InATerminal(CommandLine):
    def test_colours(self):
        self.create()
        terminal = self.terminal("list")
        self.assertEqual(terminal.end(), DONE)
        self.assertIn("\x1b[1mID", terminal.shown)
        for more, flags in (({"NO_COLOR": "1"}, ()), ({}, ("--color", "never"))):
            terminal = self.terminal("list", *flags, **more)
            terminal.end()
            self.assertNotIn("\x1b", terminal.shown)
        self.assertIn("\x1b", command_line.run("list", "--color", "always", env=self.env).out)

    def test_many_are_asked_about(self):
        for _ in range(2):
            self.create(labels={"a": "b"})
        for answer, code, left in (("n\n", STOPPED, 2), ("\n", STOPPED, 2), ("y\n", DONE, 0)):
            terminal = self.terminal("cancel", "--label", "a:b")
            terminal.expect("Cancel 2 timers with these labels? [y/N] ")
            terminal.type(answer)
            self.assertEqual(terminal.end(), code)
            self.assertEqual(len(self.ask("list")), left)

    def test_watch_shows_what_comes_and_ends_by_ctrl_c(self):
        terminal = self.terminal("list", "--watch", "--interval", "100ms")
        terminal.expect("TARGET")
        timer = self.create()
        terminal.expect(timer["id"])
        terminal.type("\x03")
        self.assertEqual(terminal.end(), DONE)

    def test_watch_asks_again_only_when_something_happens(self):
        asked, events, ended = [], threading.Event(), threading.Event()

        class Daemon(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path.split("?")[0])
                self.send_response(200)
                if not self.path.startswith("/v1/events"):
                    page = b'{"timers": [], "next": null}'
                    self.send_header("Content-Length", str(len(page)))
                    self.end_headers()
                    self.wfile.write(page)
                    return
                self.end_headers()
                self.wfile.write(b"retry: 1000\n\n")
                if asked.count("/v1/events") > 1:
                    ended.wait(60)
                elif events.wait(60):
                    self.wfile.write(b"event: fired\n\n")
                    harness.wait_until(lambda: asked.count("/v1/timers") == 2, 20, "a list for the event")

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Daemon)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(ended.set)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        terminal = self.terminal("list", "--watch", "--interval", "100ms", TICKWHEEL_URL=f"http://127.0.0.1:{server.server_port}")
        terminal.expect("TARGET")
        events.wait(1)  # ten intervals, in which it would ask again
        self.assertEqual(asked, ["/v1/events", "/v1/timers"])
        events.set()
        harness.wait_until(lambda: asked.count("/v1/events") == 2, 20, "another stream behind the end of the first")
        harness.wait_until(lambda: asked.count("/v1/timers") >= 3, 20, "a list with it")
        terminal.type("\x03")
        self.assertEqual(terminal.end(), DONE)

    def test_a_long_list_is_cut_and_says_so(self):
        for _ in range(101):
            self.create()
        terminal = self.terminal("list")
        self.assertEqual(terminal.end(), DONE)
        self.assertIn("there are more", terminal.shown)


class Hostile(unittest.TestCase):
    """Servers that are not tickwheeld, or want to harm the terminal."""

    def serve(self, status, body, content_type="application/json"):
        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()
                try:
                    for piece in body() if callable(body) else [body]:
                        self.wfile.write(piece)
                except OSError:
                    pass

            do_POST = do_DELETE = do_PATCH = do_GET

            def log_message(self, *_):
                pass

        return self.listen(Answer)

    def listen(self, handler):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return command_line.environment(f"http://127.0.0.1:{server.server_port}", token="tw_secret")

    def check(self, code, env, *arguments):
        done = command_line.run(*arguments, env=env)
        self.assertEqual(done.code, code, done)
        self.assertFalse(re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.out + done.err), done)
        self.assertNotIn("tw_secret", done.out + done.err)
        return done

    def test_what_a_daemon_that_is_not_ready_says(self):
        env = self.serve(503, '{"type": "about:blank", "status": 503, "detail": "the disk‮\x7f"}'.encode(),
                         "application/problem+json")
        done = self.check(UNAVAILABLE, env, "health", "--output", "json")
        self.assertEqual(json.loads(done.out), {"ready": False, "detail": "the disk\u202e\x7f"})

    def test_control_characters_are_shown_not_sent(self):
        timer = '{"id": "a\\u001b[31m", "due": "\\u001b]0;x\\u0007", "state": "\\u009b31m", "key": "\u202eabc\x7f", ' \
                '"\\u001bname": 1, "payload": {"a": "\u009b1m"}}'
        env = self.serve(200, timer.encode())
        for form in ("table", "json", "ids"):
            self.check(DONE, env, "get", "x", "-o", form)
        env = self.serve(200, ('{"timers": [' + timer + '], "next": null}').encode())
        for form in ("table", "json", "ids"):
            self.check(DONE, env, "list", "-o", form)
        env = self.serve(422, b'{"type": "/problems/invalid", "title": "\\u001b[2J", "detail": "\\u001b[2J", '
                         b'"errors": [{"pointer": "\\u001b"}]}')
        self.check(FAILED, env, "list")

    def test_answers_that_are_no_answers(self):
        for body in (b"<html>\x1b[2J</html>", b"", b"[]", b"null", b"{", b'{"timers": 7}', b'"x"', b"\xff\xfe"):
            env = self.serve(200, body)
            self.assertEqual(self.check(UNAVAILABLE, env, "list").out, "")
        for status in (404, 500, 302, 200):
            self.check(UNAVAILABLE, self.serve(status, b"no JSON", "text/plain"), "get", "x")

    def test_refusals_of_others_are_none_of_the_daemon(self):
        """A proxy, or another server, with a body of its own: a timer may be there although it says 404."""
        for status, word in ((404, "Not Found"), (410, "Gone"), (409, "Conflict"), (401, "Unauthorized"), (422, "Invalid")):
            for body in ({"type": "about:blank", "title": word, "status": status}, {"title": word}, {"message": word}, {}, [], word):
                done = self.check(UNAVAILABLE, self.serve(status, json.dumps(body).encode()), "get", "x")
                self.assertEqual(done.err, f"tickwheel: the answer has status {status} and is not of tickwheeld: is the URL right?\n")
        env = self.serve(404, b'{"type": "/problems/not-found", "title": "There is no such thing", "status": 404}')
        self.assertIn("write --key x", self.check(NOT_FOUND, env, "get", "x").err)

    # proves: cli-answer
    def test_an_answer_without_an_end_is_refused(self):
        most = 64 << 20
        full = json.dumps({"id": "x", "more": ""}).encode()
        full += b" " * (most - len(full))
        self.check(DONE, self.serve(200, full), "get", "x")
        self.check(UNAVAILABLE, self.serve(200, full + b" "), "get", "x")

        def endless():
            while True:
                yield b" " * 1048576
        done = self.check(UNAVAILABLE, self.serve(200, endless), "get", "x")
        self.assertIn("larger than", done.err)

    def test_a_server_that_is_silent(self):
        event = threading.Event()
        self.addCleanup(event.set)

        def silent():
            event.wait()
            yield b""
        done = self.check(UNAVAILABLE, self.serve(200, silent), "get", "x", "--timeout", "200ms")
        self.assertIn("did not answer in time", done.err)

    def test_a_worker_goes_on_when_the_daemon_is_back(self):
        item = b'{"items": [{"receipt": "r", "id": "\\u001b[31m", "attempt": 1, "payload": 1}]}'
        answers = {"lease": [(503, b"{}"), (500, b"no JSON"), (200, item)], "ack": [(503, b"{}"), (200, b'{"ok": 1}')]}
        asked = []

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                call = self.path.rsplit("/", 1)[1]
                asked.append(call)
                status, body = answers[call].pop(0)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        done = self.check(DONE, self.listen(Answer), "work", "jobs", "--count", "1", "--", "true")
        self.assertIn("tries again", done.err)
        self.assertIn("1 done, 0 failed", done.err)
        self.assertEqual(asked, ["lease", "lease", "lease", "ack", "ack"])

    def test_an_import_repeats_only_the_lines_for_which_the_daemon_was_busy(self):
        asked = []

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                lines = self.rfile.read(int(self.headers["Content-Length"])).decode().splitlines()
                asked.append([json.loads(line)["key"] for line in lines])
                answers = [{"created": 1, "existed": 0, "failed": 2}, {"line": 1, "status": 503}, {"line": 3, "status": 429}]
                if len(asked) == 3:
                    answers = [{"created": 2, "existed": 0, "failed": 0}, {"line": 9}, {"line": 0}, 7]
                self.send_response(503 if len(asked) == 2 else 200)
                self.end_headers()
                self.wfile.write("".join(json.dumps(each) + "\n" for each in answers).encode())

            def log_message(self, *_):
                pass

        env = self.listen(Answer)
        done = command_line.run("import", "-", env=env, stdin='{"key": "a"}\n{"key": "b"}\n{"key": "c"}\n')
        self.assertEqual((done.code, done.out), (DONE, "created 3, existed 0, failed 0\n"), done)
        self.assertEqual(asked, [["a", "b", "c"], ["a", "c"], ["a", "c"]])

    def test_metrics_that_are_none(self):
        for body in (b"", b"\x1b[2J", b"tickwheel_timers_pending", b"tickwheel_timers_pending inf\n" * 3,
                     b'tickwheel_commit_seconds_bucket{le="1"} x\n' * 1000):
            self.check(DONE, self.serve(200, body), "top", "--count", "2", "--interval", "100ms")
        self.check(UNAVAILABLE, self.serve(404, b"no"), "top", "--count", "1")

    def test_deep_and_wide_answers(self):
        self.check(UNAVAILABLE, self.serve(200, b"[" * 100000), "get", "x")
        wide = b'{"id": "a", ' + b", ".join(b'"%d": 1' % n for n in range(20000)) + b"}"
        self.check(DONE, self.serve(200, wide), "get", "x")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    unittest.main(verbosity=2)
