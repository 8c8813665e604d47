#!/usr/bin/env python3
"""The pages of the dashboard on what a tenant defines, flows, calendars and named targets, in a headless Chromium on a real
daemon: a journey through each, with data that is hostile to a page, and what the form of a new timer knows of them."""

import datetime
import json
import os
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import bearer, make_token
from dashboard_case import HOSTILE, DashboardCase

SECRETS = ("s3cret-of-billing", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
ICAL = "\r\n".join(("BEGIN:VCALENDAR", "BEGIN:VEVENT", "SUMMARY:Christmas Day", "DTSTART;VALUE=DATE:20001225", "RRULE:FREQ=YEARLY",
                    "END:VEVENT", "END:VCALENDAR", ""))


class DefinedTest(DashboardCase):
    keeps_secrets = True

    def answer(self, path):
        return self.call(200, "GET", path)[1]

    def set(self, name, value):
        """Types into a field of the dialog, or chooses in it."""
        self.browser.run(f"""(() => {{
          const i = document.querySelector('dialog [name={name}]');
          i.value = {json.dumps(value)};
          i.dispatchEvent(new Event('change', {{bubbles: true}}));
          i.dispatchEvent(new Event('input', {{bubbles: true}}));
        }})()""")

    def fill_dialog(self, title, label, **fields):
        self.see(f"document.querySelector('dialog h2')?.textContent === {json.dumps(title)}", title)
        for name, value in fields.items():
            self.set(name, value)
        self.press(label)

    def row(self, name):
        """The text of the row that begins with a name; empty without one."""
        return self.browser.run(f"[...document.querySelectorAll('tbody tr')].find((row) => row.cells[0].innerText === {json.dumps(name)})"
                                "?.innerText ?? ''")

    # proves: dashboard, list-search
    def test_flows(self):
        """Goal: a reader sees what runs and waits of each flow, pauses and resumes it, sets and removes limits, and comes to its timers."""
        key = f"{HOSTILE}/{'x' * 70}"
        for flow, count in (("customer-42", 3), (key, 1)):
            for _ in range(count):
                self.create(target="queue:sync", after=0, flow={"key": flow, "concurrency": 1})
        self.create(target="queue:other", key="without-flow")
        harness.wait_until(lambda: self.answer("/v1/queues/sync")["ready"] == 4, 20, "items")
        leased = self.daemon.call("POST", "/v1/queues/sync/lease", {"max": 4, "lease": "10m"})[2]["items"]
        self.assertEqual(len(leased), 2)
        self.browser.open(f"{self.url}#/flows")
        self.sees("customer-42")
        self.see("[...document.querySelectorAll('tbody tr')].some((row) => row.cells[0].innerText === 'customer-42' && "
                 "row.cells[2].innerText === '1' && row.cells[3].innerText === '2')", "what runs and waits")
        self.assertIn("1 at a time", self.row("customer-42"))
        self.sees(HOSTILE)
        self.assertNotEqual(self.browser.run("document.title"), "hacked")
        buttons = lambda name: self.browser.run(
            f"[...[...document.querySelectorAll('tbody tr')].find((row) => row.cells[0].innerText.startsWith({json.dumps(name)}))"
            ".querySelectorAll('button')].map((b) => b.textContent).join()")
        self.assertEqual((buttons("customer-42"), buttons(HOSTILE)), ("Pause,Limits", "Pause"))

        self.press("Set limits")
        self.fill_dialog("Limits of a flow", "Set them", key="imports")
        self.see("document.querySelector('dialog .message')?.textContent.startsWith('Give how many')", "that limits are missing")
        self.fill_dialog("Limits of a flow", "Set them", flow_concurrency="4", flow_rate="100/15m")
        self.sees("The limits of imports are set.")
        self.assertEqual(self.answer("/v1/flows")["flows"][-1],
                         {"key": "imports", "concurrency": 4, "rate": 100, "period": "15m", "defined": True, "running": 0, "waiting": 0,
                          "more_on_disk": False})
        self.see("[...document.querySelectorAll('tbody tr')].some((row) => /imports\\s+4 at a time\\s+100 in 15m/.test(row.innerText))", "the limits")
        self.press("Remove")
        self.fill_dialog("Remove the limits of imports?", "Remove them")
        self.sees("The limits of imports are removed.")
        self.assertNotIn("imports", [flow["key"] for flow in self.answer("/v1/flows")["flows"]])

        self.browser.run("[...document.querySelectorAll('tbody tr')].find((row) => row.cells[0].innerText === 'customer-42')"
                         ".querySelector('button').click()")
        self.fill_dialog("Pause the flow customer-42", "Pause it", note="until the deploy is over")
        self.sees("Paused the flow customer-42.")
        paused = [flow["key"] for flow in self.answer("/v1/flows")["flows"] if "paused" in flow]
        self.assertEqual(paused, ["customer-42"])
        self.sees("“until the deploy is over”")
        self.press("Resume")
        self.fill_dialog("Resume the flow customer-42", "Resume it")
        self.sees("Resumed the flow customer-42.")
        self.assertFalse([flow for flow in self.answer("/v1/flows")["flows"] if "paused" in flow])

        self.browser.run("[...document.querySelectorAll('tbody a')].find((a) => a.textContent === 'customer-42').click()")
        self.see("document.title.startsWith('Timers') && document.querySelectorAll('tbody tr').length === 3", "the timers of the flow")
        found = lambda flow: len(self.answer(f"/v1/timers?flow={urllib.parse.quote(flow)}")["timers"])
        self.assertEqual((found("customer-42"), found("customer-4"), found(key)), (3, 0, 1))

    # proves: dashboard
    def test_calendars(self):
        """Goal: a calendar is set by dates that are typed and by a file, its days and their reasons are shown, and a delete asks first."""
        self.browser.open(f"{self.url}#/calendars")
        self.sees("Calendars of holidays: none")
        self.press("New calendar")
        self.fill_dialog("New calendar", "Set it", name="company", dates="Christmas")
        self.see("document.querySelector('dialog .message')?.textContent.startsWith('Christmas begins with no date')", "what is wrong")
        self.set("dates", f"2098-12-24/2099-01-01\n2020-05-01 over\n 2026-01-01/2099-01-02 {HOSTILE} \n")
        self.see("document.querySelector('dialog pre').textContent.includes('/v1/calendars/company')", "the command")
        command = self.browser.run("document.querySelector('dialog pre').textContent")
        self.press("Set it")
        self.sees("The calendar company is set.")
        shown = self.answer("/v1/calendars/company")["days"]
        self.assertIn({"date": "2026-01-01/2099-01-02", "name": HOSTILE}, shown)
        self.run_command(command)
        self.assertEqual(self.answer("/v1/calendars/company")["days"], shown)
        self.browser.run("document.querySelector('tbody a').click()")
        self.see("document.title.startsWith('Calendar company') && document.querySelectorAll('tbody tr').length === 1", "its days")
        self.assertIn("Thu 1 Jan 2026 to Fri 2 Jan 2099", self.text())
        self.assertIn(HOSTILE, self.text())

        with tempfile.NamedTemporaryFile("w", suffix=".ics", delete=False, newline="") as file:
            file.write(ICAL)
        self.addCleanup(os.unlink, file.name)
        self.press("Replace")
        self.see("document.querySelector('dialog [type=file]')", "the field of a file")
        node = self.browser.ask("DOM.querySelector", nodeId=self.browser.ask("DOM.getDocument")["root"]["nodeId"],
                                selector="dialog [type=file]")["nodeId"]
        self.browser.ask("DOM.setFileInputFiles", nodeId=node, files=[file.name])
        self.see("document.querySelector('dialog pre').textContent.includes(\"--data-binary '@\")", "the command for a file")
        self.press("Replace it")
        self.sees("Christmas Day")
        self.assertEqual({day["name"] for day in self.answer("/v1/calendars/company")["days"]}, {"Christmas Day"})

        self.press("Delete")
        self.see("document.querySelector('dialog h2').textContent === 'Delete the calendar company?' && "
                 "document.activeElement.textContent === 'Leave it'", "the question")
        self.press("Leave it")
        self.assertEqual(len(self.answer("/v1/calendars")["calendars"]), 1)
        self.press("Delete")
        self.press("Delete it")
        self.see("location.hash === '#/calendars'", "the list")
        self.sees("Calendars of holidays: none")
        self.assertEqual(self.answer("/v1/calendars")["calendars"], [])

    def shows_no_secret(self):
        page = self.browser.run("document.documentElement.outerHTML")
        for secret in SECRETS:
            self.assertNotIn(secret, page)

    # proves: dashboard, named-target
    def test_named_targets(self):
        """Goal: a named target is defined, changed, rotated and deleted. Secrets are typed, and are in no page and no command. One
        of the configuration has no buttons."""
        self.browser.open(f"{self.url}#/named")
        self.sees("Named targets: none")
        self.press("New named target")
        url = self.receiver.url("/ok").rsplit("/", 1)[0]
        self.see("document.querySelector('dialog [name=bearer_token]').disabled", "that no token is asked for yet")
        self.set("kind", "bearer")
        self.see("document.querySelector('dialog [name=bearer_token]').checkVisibility()", "the field of the token")
        self.assertEqual(self.browser.run("['bearer_token', 'basic_password', 'header_value', 'oauth2_client_secret', 'signing']"
                                          ".map((name) => document.querySelector(`dialog [name=${name}]`).type)"), ["password"] * 5)
        for name, value in (("name", "billing"), ("url", url), ("method", "PUT"), ("headers", "no header")):
            self.set(name, value)
        self.set("bearer_token", SECRETS[0])
        self.press("Define it")
        self.see("document.querySelector('dialog .message')?.textContent.startsWith('no header is no header')", "what is wrong")
        self.set("headers", "x-team: checkout\n")
        self.set("signing", SECRETS[1])
        self.see("document.querySelector('dialog pre').textContent.includes('\"token\":\"SECRET\"')", "the command without the secret")
        self.shows_no_secret()
        self.press("Define it")
        self.sees("billing is defined.")
        made = self.answer("/v1/named-targets/billing")
        self.assertEqual((made["url"], made["method"], made["headers"], made["auth"]["kind"], made["signing"]["set"]),
                         (url, "PUT", {"x-team": "checkout"}, "bearer", True))
        self.shows_no_secret()
        self.assertRegex(self.row("billing"), rf"billing\s+PUT {url}\s+bearer\s+token set")
        timer = self.create(target="billing:/ok", after=0)
        self.await_state(timer, "fired")

        self.press("Change")
        self.fill_dialog("Change the named target billing", "Change it", method="POST")
        self.sees("billing is changed.")
        changed = self.answer("/v1/named-targets/billing")
        self.assertEqual((changed["method"], changed["auth"], changed["signing"]), ("POST", made["auth"], made["signing"]))
        self.press("Change")
        self.see("document.querySelector('dialog')", "the dialog")
        self.call(200, "PUT", "/v1/named-targets/billing", {"url": url, "method": "PATCH", "auth": {"kind": "bearer"}})
        self.press("Change it")
        self.see("document.querySelector('dialog .message')", "that it changed meanwhile")
        self.press("Leave it")
        self.assertEqual(self.answer("/v1/named-targets/billing")["method"], "PATCH")

        self.press("Rotate")
        self.fill_dialog("Rotate the signing secret of billing", "Replace it", signing=SECRETS[2])
        self.sees("that of before until")
        self.assertTrue(self.answer("/v1/named-targets/billing")["signing_before"]["set"])
        self.shows_no_secret()
        self.press("Delete")
        self.fill_dialog("Delete the named target billing?", "Delete it")
        self.sees("billing is deleted.")
        self.assertEqual(self.answer("/v1/named-targets")["targets"], [])
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump({"-": {"billing": {"url": url, "auth": {"kind": "bearer", "token": SECRETS[0]}}}}, file)
        self.addCleanup(os.unlink, file.name)
        self.restart("--named-targets-file", file.name)
        self.browser.open("about:blank")
        self.browser.open(f"http://127.0.0.1:{self.daemon.port}/ui#/named")
        self.sees("by the configuration")
        self.assertRegex(self.row("billing"), rf"billing\s+POST {url}\s+bearer\s+token set")
        self.assertFalse(self.browser.run("[...document.querySelectorAll('tbody button')].length"))
        self.shows_no_secret()

    # proves: dashboard
    def test_scopes(self):
        """Goal: a token sees what it may read, and no button for what it may not do."""
        lines, tokens = [], {}
        for name, scopes in (("all", "read,schedule,admin"), ("scheduler", "read,schedule"), ("reader", "read")):
            tokens[name], line = make_token("acme", scopes)
            lines.append(line)
        with tempfile.NamedTemporaryFile("w", suffix=".tokens", delete=False) as file:
            file.write("\n".join(lines) + "\n")
        self.addCleanup(os.unlink, file.name)
        self.restart("--tokens-file", file.name)
        own = bearer(tokens["all"])
        self.call(201, "PUT", "/v1/named-targets/billing", {"url": "https://api.example"}, own)
        self.call(200, "PUT", "/v1/calendars/de", ["2026-12-25"], own)
        self.call(200, "PUT", "/v1/flows/imports", {"concurrency": 4}, own)
        for name, expected in (("reader", [[], [], []]), ("scheduler", [["Set limits", "Pause", "Limits", "Remove"], ["New calendar", "Replace", "Delete"], []]),
                               ("all", [["Set limits", "Pause", "Limits", "Remove"], ["New calendar", "Replace", "Delete"],
                                        ["New named target", "Change", "Delete"]])):
            found = []
            for place in ("flows", "calendars", "named"):
                self.browser.open("about:blank")
                self.browser.open(f"http://127.0.0.1:{self.daemon.port}/ui#/{place}")
                self.see("document.querySelector('[name=token]')", "the question for the token")
                self.type("token", tokens[name])
                self.press("Show the timers")
                self.see("document.querySelector('tbody tr')", place)
                found.append(self.browser.run("[...document.querySelectorAll('main button:not(.sort)')].map((b) => b.textContent)"
                                              ".filter((text) => !['Refresh', 'Copy'].includes(text))"))
            self.assertEqual(found, expected, name)

    # proves: dashboard
    def test_new_timer(self):
        """Goal: the form of a new timer knows dates that are left out, overlap, flows and several targets, and the preview says what it skips."""
        today = datetime.date.today()
        self.call(200, "PUT", "/v1/calendars/de", [{"date": f"{today}/{today + datetime.timedelta(days=9)}", "name": "Long holiday"}])
        self.browser.open(f"{self.url}#/new")
        self.see("document.querySelector('[name=except]')", "the form")
        visible = lambda: self.browser.run("['timezone', 'except', 'only', 'on_holiday', 'overlap', 'flow_rate'].filter((name) => "
                                           "document.querySelector(`[name=${name}]`).checkVisibility()).join()")
        self.assertEqual(visible(), "")
        self.type("kind", "cron")
        self.assertEqual(visible(), "timezone,except,only,overlap")
        self.type("kind", "every")
        self.assertEqual(visible(), "except,only,overlap")
        for name, value in (("time", "1d"), ("except", "SAT-SUN, calendar:de"), ("timezone", "Europe/Berlin"), ("overlap", "skip"),
                            ("target", "queue:a log:b"), ("flow_key", "customer-42"), ("flow_concurrency", "2"), ("flow_rate", "100/15m")):
            self.type(name, value)
        self.assertEqual(visible(), "timezone,except,only,on_holiday,overlap,flow_rate")
        self.sees("every day, Europe/Berlin, except Saturdays, Sundays and calendar de, skipped while the one before is not over")
        self.sees(": Long holiday, calendar de")
        self.press("Make the timer")
        self.sees("It is made")
        made = self.answer("/v1/timers?flow=customer-42")["timers"][0]
        self.assertEqual((made["schedule"]["except"], made["schedule"]["timezone"], made["schedule"]["overlap"]),
                         (["SAT-SUN", "calendar:de"], "Europe/Berlin", "skip"))
        self.assertEqual([target["target"] for target in made["targets"]], ["queue:a", "log:b"])
        self.assertEqual(made["flow"], {"key": "customer-42", "concurrency": 2, "rate": 100, "period": "15m"})
        self.go(f"timers/{made['id']}")
        self.sees("customer-42, 2 at a time, 100 in 15m")


if __name__ == "__main__":
    unittest.main()
