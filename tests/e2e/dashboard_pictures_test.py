#!/usr/bin/env python3
"""Each page of the dashboard as it looks: 1920, 1280 and 390 pixels wide, light and dark, with ten thousand timers, targets that fail,
dead letters and firings. No page is wider than the screen, no table than its card, and none has an error. TEST_SCREENSHOTS=FOLDER keeps the pictures;
scripts/pictures makes those of docs/ of them."""

import datetime
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from dashboard_case import NDJSON, DashboardCase

# The page, and what it shows once its data is there.
PAGES = (("upcoming", "svg.bars rect"), ("timers", "tbody tr:nth-child(50)"),
         ("timers/LATE", "ol.life"), ("schedules", ".dot"), ("calendars", "tbody tr"), ("calendars/company", "tbody tr"),
         ("queues", "tbody tr"), ("flows", "tbody tr"), ("named", "tbody tr"), ("queues/mail", "tbody tr"), ("targets", "tbody a.bad"),
         ("deliveries", "tbody tr:nth-child(20)"), ("dead", "tbody a.bad"), ("tenants", "tbody tr"), ("cluster", "main details"),
         ("new", "main form"), ("overview", "main svg"))  # the last: its charts have something to show
# Errors of the page, such as those of scripts and of the policy for its content.
ERRORS = """window.errors = [];
for (const type of ["error", "unhandledrejection", "securitypolicyviolation"])
  addEventListener(type, (event) => errors.push(`${type}: ${event.message ?? event.reason ?? event.violatedDirective}`));"""


class PicturesTest(DashboardCase):
    keeps_secrets = True
    flags = ("--webhook-token-issuer", "https://timers.example")

    def fill(self):
        """The timers of a shop: most of them in the coming day, some that fail, some that repeat."""
        shop = self.receiver.url("/ok").rsplit("/", 1)[0]
        lines = "".join(json.dumps({"after": f"{600 + n * 7 % 86400}s", "target": f"{shop}/{('recheck', 'remind', 'invoice')[n % 3]}",
                                    "key": f"order-{n + 4711}", "labels": {"team": ("checkout", "billing")[n % 2]},
                                    "payload": {"order": n + 4711}}) + "\n" for n in range(10000))
        self.assertEqual(self.daemon.call("POST", "/v1/timers/batch", lines, {**NDJSON, "Prefer": "return=minimal"})[0], 200)
        for key, path, firings in (("nightly-report", "/ok", 20), ("price-import", "/status/502", 3)):
            timer = self.create(path, cron="30 2 * * MON-FRI", timezone="Europe/Berlin", key=key, retry={"max_attempts": 1})["id"]
            for count in range(1, firings + 1):
                self.call(200, "POST", f"/v1/timers/{timer}/fire")
                harness.wait_until(lambda: len(self.call(200, "GET", f"/v1/timers/{timer}/runs")[1]["runs"]) == count, 20, key)
        self.create("/ok", every="15m", key="stock-sync")
        for n in range(3):
            self.create(target=f"queue:mail?priority={n}", after=0, key=f"mail-{n}", labels={"team": "billing"})
        for n in range(4):
            self.create("/status/404", after=0, key=f"refund-{n}", retry={"max_attempts": 1})
        self.late = self.create("/status/503", after=0, key="order-4242", labels={"team": "checkout"}, payload={"order": 4242},
                                retry={"max_attempts": 20, "base": "100ms", "cap": "10m"})["id"]
        self.create(target="http://127.0.0.1:1/closed", after=0, key="old-partner", retry={"base": "1h", "cap": "1h"})
        self.define()
        harness.wait_until(lambda: len(self.call(200, "GET", "/v1/dead")[1]["timers"]) == 4, 20, "dead letters")
        harness.wait_until(lambda: self.call(200, "GET", f"/v1/timers/{self.late}")[1]["attempts"] >= 3, 20, "attempts that failed")
        harness.wait_until(lambda: len(self.call(200, "GET", "/v1/targets")[1]["targets"]) > 1, 20, "targets")

    def define(self):
        """Flows that run, wait and are paused; a calendar; named targets with each kind of authentication, and one with long names."""
        for flow, count in (("customer-42", 6), ("warehouse/north", 2)):
            for _ in range(count):
                self.create(target="queue:sync", after=0, flow={"key": flow, "concurrency": 2, "rate": "10/s"})
        self.call(200, "PUT", "/v1/flows/imports", {"concurrency": 4, "rate": 100, "period": "15m"})
        self.call(200, "POST", "/v1/flows/imports/pause", {"note": "until the deploy of the importer is over"})
        harness.wait_until(lambda: self.call(200, "GET", "/v1/queues/sync")[1]["ready"] == 8, 20, "items")
        self.call(200, "POST", "/v1/queues/sync/lease", {"max": 8, "lease": "1h"})
        year = datetime.date.today().year
        self.call(200, "PUT", "/v1/calendars/company", [{"date": f"{year}-12-24/{year + 1}-01-01", "name": "Between the years"},
                                                        {"date": f"{year + 1}-05-01", "name": "Labour Day"}])
        self.call(200, "PUT", "/v1/calendars/plants", [f"{year}-12-31"])
        auths = {"billing": {"kind": "bearer", "token": "secret"}, "crm": {"kind": "header", "name": "x-api-key", "value": "secret"},
                 "legacy": {"kind": "basic", "username": "tickwheel", "password": "secret"},
                 "partner": {"kind": "oauth2", "token_url": "https://login.example/oauth2/token", "client_id": "tickwheel", "client_secret": "secret"},
                 "n" * 64: {"kind": "oidc", "audience": f"https://{'long.' * 20}example"}}
        for name, auth in auths.items():
            self.call(201, "PUT", f"/v1/named-targets/{name}", {"url": f"https://api.{name[:60]}.example/v1", "auth": auth})
        self.call(200, "POST", "/v1/named-targets/billing/rotate", {"signing": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})

    # proves: dashboard
    def test_pages(self):
        """Goal: each page fits its screen and has no error, at each width and in each scheme."""
        self.fill()
        self.browser.ask("Page.addScriptToEvaluateOnNewDocument", source=ERRORS)
        for scheme in ("light", "dark"):
            self.browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            for width, height in ((1920, 1080), (1280, 800), (390, 780)):
                self.browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
                for place, shown in PAGES:
                    self.browser.open("about:blank")
                    self.browser.open(f"{self.url}#/{place.replace('LATE', self.late)}")
                    self.see(f"document.querySelector('{shown}')", f"{place}, {scheme}, {width}")
                    self.see("document.querySelector('.live.on') || !document.querySelector('.live')", f"that {place} is live")
                    wide, errors = self.browser.run("[document.documentElement.scrollWidth, errors]")
                    self.assertLessEqual(wide, width, place)
                    cut = self.browser.run("[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)"
                                           ".map((e) => [e.ariaLabel, e.scrollWidth, e.clientWidth])")
                    self.assertEqual(cut, [], f"columns of {place} at {width}")
                    self.assertEqual(errors, [], place)
                    self.keep_picture(f"{place.replace(self.late, 'one').replace('/', '-').replace('LATE', 'one')}-{scheme}-{width}")


if __name__ == "__main__":
    unittest.main()
