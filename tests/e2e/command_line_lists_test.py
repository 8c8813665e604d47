#!/usr/bin/env python3
"""Goal: lists of `tickwheel` select what their flags say, page by page, and show how far a search got. Method: the program
with pipes and in a terminal, against a real daemon and against a server with pages of its own."""

import http.server
import json
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
from command_line_case import DONE, FAILED, NOT_FOUND, USAGE, CommandLine


class Lists(CommandLine):
    def test_list_follows_pages_and_filters(self):
        for n in range(1203):
            self.create(labels={"n": str(n % 2)}, after=3600000 + n)
        self.assertEqual(len(self.ask("list")), 1203)
        ids = self.run_cli("list", "--label", "n:1", "--output", "ids").out.splitlines()
        self.assertEqual(len(set(ids)), 601)
        self.assertEqual(len(self.ask("list", "--limit", "1001")), 1001)
        self.assertEqual(self.ask("list", "--state", "dead"), [])
        table = self.run_cli("list", "--limit", "2").out.splitlines()
        self.assertEqual(table[0].split(), ["ID", "STATE", "DUE", "KEY", "TARGET"])
        self.assertEqual(len(table), 3)
        self.assertRegex(table[1], r"Z  in \d")

    def test_list_has_a_flag_for_each_filter(self):
        shop = self.create(target="http://shop.example/a", after="2h", key="order-42", labels={"team": "a"})
        mail = self.create(target="queue:mail", key="mail-42", every="1d", at="2190-01-01T00:00:00Z")
        for flags, found in ((("--key-prefix", "order-"), [shop]), (("--key-contains", "l-4"), [mail]),
                             (("--key-contains", "42"), [shop, mail]), (("--origin", "queue:mail"), [mail]),
                             (("--key-contains", "42", "--origin", "http://shop.example"), [shop]),
                             (("--target", "queue:mail", "--state", "scheduled", "--due-after", "3h"), [mail]),
                             (("--key-contains", "42", "--label", "team:a", "--due-before", "3h"), [shop])):
            ids = [timer["id"] for timer in found]
            self.assertEqual([timer["id"] for timer in self.ask("list", *flags)], ids, flags)
            if "--state" not in flags:
                self.assertEqual(len(self.run_cli("export", *flags).out.splitlines()), len(ids), flags)
        for flags in (("--key-contains", "ail"), ("--origin", "queue:mail"), ("--due-after", "3h")):
            self.assertEqual(self.run_cli("schedules", *flags, "-o", "keys").out.split(), ["mail-42"])
        self.assertEqual(self.run_cli("schedules", "--key-contains", "order", "-o", "keys").out, "")

    def test_a_search_says_how_far_it_got(self):
        """Goal: on a terminal a search whose pages are empty shows what it has looked at, and leaves no trace at its end.
        Method: a server in place of the daemon, which needs three pages."""
        pages = [{"timers": [], "next": "a", "searched": 70000}, {"timers": [], "next": "b", "searched": 50000},
                 {"timers": [], "next": None, "searched": 3}]

        class Pages(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = json.dumps(pages.pop(0)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Pages) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            env = command_line.environment(f"http://127.0.0.1:{server.server_port}")
            terminal = command_line.Terminal("list", "--key-contains", "x", env=env)
            code = terminal.end()
            server.shutdown()
            thread.join()
        self.assertEqual(code, DONE)
        self.assertIn("searched 70000 timers", terminal.shown)
        self.assertIn("searched 120000 timers\r\033[K", terminal.shown)


class Calendars(CommandLine):
    DAYS = '["2098-12-24/2099-01-01", {"date": "2099-05-01", "name": "Labour Day"}]'
    ICS = ("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:test\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTAMP:20260101T000000Z\r\n"
           "DTSTART;VALUE=DATE:20990501\r\nSUMMARY:May Day\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n")

    # proves: calendar-put
    def test_calendars_are_set_shown_and_removed(self):
        path = os.path.join(self.data, "days")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.DAYS)
        shown = self.run_cli("calendar", "set", "de", path).out
        self.assertRegex(shown, r"(?m)^2098-12-24/2099-01-01\s*$")
        self.assertRegex(shown, r"(?m)^2099-05-01 +Labour Day$")
        self.assertEqual(self.run_cli("calendar", "show", "de").out, shown)
        self.assertIn("May Day", self.run_cli("calendar", "set", "uk", "-", stdin=self.ICS).out)
        self.assertRegex(self.run_cli("calendar").out, r"NAME +SCOPE +SINCE *\nde +tenant +.*\nuk +tenant ")
        self.assertEqual(self.run_cli("calendar", "list", "--output", "ids").out, "de\nuk\n")
        self.assertEqual(self.ask("calendar", "show", "uk")[0]["days"], [{"date": "2099-05-01", "name": "May Day"}])
        self.assertIn('"name":"uk"', self.run_cli("calendar", "rm", "uk").out.replace('": "', '":"'))
        self.run_cli("calendar", "show", "uk", code=NOT_FOUND)
        self.run_cli("calendar", "rm", "uk", code=NOT_FOUND)
        self.run_cli("calendar", "set", "de", "-", stdin="[1]", code=FAILED)
        self.run_cli("calendar", "set", "de", "-", stdin="no calendar", code=FAILED)
        self.run_cli("calendar", "set", "../x", path, code=FAILED)
        for words in (("set", "de"), ("show",), ("rm",), ("move", "de"), ("set", "de", "/nonexistent")):
            self.run_cli("calendar", *words, code=USAGE)

    # proves: except-only
    def test_timers_name_dates(self):
        self.run_cli("calendar", "set", "de", "-", stdin=self.DAYS)
        dates = ("--except", "SAT-SUN, calendar:de", "--except", "2099-01-05", "--on-holiday", "next_workday")
        timer = self.ask("add", "--cron", "0 9 * * *", *dates, "queue:a")[0]
        self.assertEqual(timer["schedule"]["except"], ["SAT-SUN", "calendar:de", "2099-01-05"])
        self.assertEqual(timer["schedule"]["on_holiday"], "next_workday")
        changed = self.ask("change", timer["id"], "--only", "MON-FRI")[0]
        self.assertEqual(changed["schedule"]["only"], ["MON-FRI"])
        shown = self.run_cli("preview", "0 9 * * *", "--except", "SAT-SUN", "--except", "calendar:de", "--count", "2",
                             "--after", "2099-04-30T00:00:00Z").out
        self.assertRegex(shown, r"(?m)^not on 2099-05-01: .*Labour Day")
        self.assertIn("2099-04-30T09:00:00.000Z", shown)
        self.assertIn("2099-05-04T09:00:00.000Z", shown)  # 1 May is a Friday
        self.run_cli("add", "--every", "1h", "--except", "NOSUCH", "queue:a", code=FAILED)
        self.run_cli("add", "1h", "--except", "SAT", "queue:a", code=FAILED)
        self.run_cli("add", "--every", "1h", "--on-holiday", "later", "queue:a", code=USAGE)


if __name__ == "__main__":
    unittest.main()
