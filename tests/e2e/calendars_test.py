#!/usr/bin/env python3
"""Goal: holidays that an operator configures and that tenants put move the firings of the timers that name them, and who
looks sees why. Method: a daemon with a calendar file and two tenants; the API, SIGHUP, kill -9, and an export."""

import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import TokensCase, bearer

ICAL = """BEGIN:VCALENDAR\r
BEGIN:VEVENT\r
SUMMARY:Christmas Day\r
DTSTART;VALUE=DATE:20001225\r
RRULE:FREQ=YEARLY\r
END:VEVENT\r
END:VCALENDAR\r
"""
PREVIEW = "/v1/schedule/preview?cron=0+9+*+*+*&timezone=Europe/Berlin&after=2026-12-22T12:00:00Z&n=4&except=SAT-SUN,calendar:de"
YEARS = {"cron": "0 9 1 6 *", "target": "queue:x"}


class Calendars(TokensCase):
    def setUp(self):
        super().setUp()
        for name, tenant, scopes in (("a", "acme", None), ("reader", "acme", "read"), ("b", "other", None)):
            self.token(name, tenant, scopes)
        self.write_tokens()
        self.write(ICAL)
        self.daemon = self.begin()

    def write(self, text):
        with open(self.path("de.ics"), "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def begin(self):
        return self.start("--calendars", f"de={self.path('de.ics')}")

    def ask(self, expected, method, path, body=None, who="a", kind="application/json"):
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        headers = {**bearer(self.tokens[who]), **({"Content-Type": kind} if body is not None else {})}
        status, _, answer = self.daemon.call(method, path, body, headers)
        self.assertEqual(status, expected, f"{method} {path}: {answer}")
        return answer

    def due(self, timer):
        return self.ask(200, "GET", f"/v1/timers/{timer['id']}")["due"]

    # proves: preview-skipped, preview-schedule, calendars-setting
    def test_a_preview_shows_what_is_skipped(self):
        answer = self.ask(200, "GET", PREVIEW)
        self.assertEqual(answer, {
            "instants": [f"2026-12-{day}T08:00:00.000Z" for day in (23, 24, 28, 29)],
            "skipped": [{"date": "2026-12-25", "reason": "Christmas Day, calendar de"},
                        {"date": "2026-12-26", "reason": "except SAT"}, {"date": "2026-12-27", "reason": "except SUN"}]})
        moved = self.ask(200, "GET", PREVIEW.replace("cron=0+9+*", "cron=0+9+25") + "&on_holiday=previous_workday")
        self.assertEqual(moved["instants"][0], "2026-12-24T08:00:00.000Z")
        self.assertEqual(moved["skipped"][0], {"date": "2026-12-25", "reason": "Christmas Day, calendar de",
                                               "moved_to": "2026-12-24T08:00:00.000Z"})
        self.ask(422, "GET", PREVIEW.replace("calendar:de", "calendar:nowhere"))
        # a changed file counts from SIGHUP on; one that is wrong changes nothing, and no daemon starts with it
        self.write(ICAL.replace("20001225", "20001224"))
        self.reload(self.daemon, what="calendars")
        self.assertEqual(self.ask(200, "GET", PREVIEW)["skipped"][0]["date"], "2026-12-24")
        self.write(ICAL.replace("FREQ=YEARLY", "FREQ=SOMETIMES"))
        self.reload(self.daemon, event="reload_failed", what="calendars")
        self.assertEqual(self.ask(200, "GET", PREVIEW)["skipped"][0]["date"], "2026-12-24")
        self.daemon.close()
        with self.assertRaises(Exception):
            harness.Daemon(self.path("data"), "--calendars", f"de={self.path('de.ics')}")

    # proves: calendar-put, calendar-tenants
    def test_calendars_of_a_tenant(self):
        days = ["2026-12-24/2027-01-01", {"date": "2099-05-01", "name": "Labour Day"}]
        made = self.ask(200, "PUT", "/v1/calendars/de", days)
        self.assertEqual((made["scope"], made["days"][-1]), ("tenant", {"date": "2099-05-01", "name": "Labour Day"}))
        self.ask(200, "PUT", "/v1/calendars/ours", ICAL, kind="text/calendar")
        self.ask(403, "PUT", "/v1/calendars/ours", days, who="reader")
        self.ask(403, "DELETE", "/v1/calendars/ours", who="reader")
        self.ask(422, "PUT", "/v1/calendars/ours", "BEGIN:VEVENT", kind="text/calendar")
        self.ask(422, "PUT", "/v1/calendars/ours", ["2026-02-30"])
        self.ask(422, "PUT", "/v1/calendars/o%20s", days)
        self.ask(415, "PUT", "/v1/calendars/ours", "x", kind="text/plain")
        self.ask(429, "PUT", "/v1/calendars/large", "[" + " " * 65536 + "]")
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.begin()
        names = lambda who: [(one["name"], one["scope"]) for one in self.ask(200, "GET", "/v1/calendars", who=who)["calendars"]]
        self.assertEqual(names("reader"), [("de", "tenant"), ("ours", "tenant")])
        self.assertEqual(names("b"), [("de", "all")])
        self.ask(404, "GET", "/v1/calendars/ours", who="b")
        self.ask(404, "DELETE", "/v1/calendars/ours", who="b")
        self.ask(422, "POST", "/v1/timers", {**YEARS, "except": ["calendar:ours"]}, who="b")
        self.assertEqual(self.ask(200, "GET", PREVIEW)["skipped"][0]["date"], "2026-12-24")
        self.assertEqual(self.ask(200, "GET", PREVIEW, who="b")["skipped"][0]["date"], "2026-12-25")
        self.ask(200, "DELETE", "/v1/calendars/de")
        self.ask(404, "DELETE", "/v1/calendars/de")
        self.assertEqual(self.ask(200, "GET", PREVIEW)["skipped"][0]["date"], "2026-12-25")

    # proves: calendar-change
    def test_a_changed_calendar_moves_firings(self):
        self.ask(200, "PUT", "/v1/calendars/ours", [])
        body = {"cron": "0 9 1 * *", "target": "queue:x", "except": ["calendar:ours"], "on_holiday": "next_workday", "count": 2}
        timer = self.ask(201, "POST", "/v1/timers", body)
        first = self.due(timer)
        self.ask(200, "PUT", "/v1/calendars/ours", [first[:10]])
        harness.wait_until(lambda: self.due(timer) != first, 150, "the firing has moved")
        self.assertEqual(self.due(timer)[8:], "02T09:00:00.000Z")
        # exported and made again it has the same firing, and follows the calendar
        shown = self.ask(200, "GET", f"/v1/timers/{timer['id']}")
        self.ask(200, "DELETE", f"/v1/timers/{timer['id']}")
        self.assertEqual(shown["schedule"]["count"], 2)
        self.ask(200, "DELETE", "/v1/calendars/ours")
        self.ask(422, "POST", "/v1/timers", body)


if __name__ == "__main__":
    unittest.main()
