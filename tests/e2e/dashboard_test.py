#!/usr/bin/env python3
"""The dashboard in a headless Chromium, on a real daemon with data: a journey through its pages, as a person would take
it, and every page in both colour schemes checked by axe-core, which is skipped where the package registry is out of
reach. TEST_SCREENSHOTS=FOLDER keeps a picture of each page."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from browser import Browser
from daemon_case import DaemonCase

AXE = "4.10.2"
SHOTS = os.environ.get("TEST_SCREENSHOTS")
NDJSON = {"Content-Type": "application/x-ndjson"}
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
PAGES = ("now", "coming", "timers", "new", "queues", "targets", "dead", "tenants")


def axe_source():
    """The text of axe-core, installed once for each build folder; None without the registry."""
    folder = os.path.abspath(os.path.join(harness.BUILD, f"axe-core-{AXE}"))
    path = os.path.join(folder, "node_modules", "axe-core", "axe.min.js")
    if not os.path.exists(path):
        if not shutil.which("npm"):
            return None
        os.makedirs(folder, exist_ok=True)
        if subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder,
                           f"axe-core@{AXE}"], stdout=subprocess.DEVNULL).returncode != 0:
            return None
    with open(path, encoding="utf-8") as file:
        return file.read()


class DashboardTest(DaemonCase):
    def setUp(self):
        super().setUp()
        self.browser = Browser()
        self.addCleanup(self.browser.close)
        self.url = f"http://127.0.0.1:{self.daemon.port}/ui"

    def fill(self):
        """Timers of each kind, some of them hostile to a page that would read text as HTML."""
        lines = "".join(json.dumps({"after": f"{n % 3600 + 60}s", "target": f"https://shop{n % 3}.example/recheck",
                                    "key": f"order-{n}", "labels": {"team": ("checkout", "billing")[n % 2]},
                                    "payload": {"order": n}}) + "\n" for n in range(1000))
        status, _, _ = self.daemon.call("POST", "/v1/timers/batch", lines, NDJSON)
        self.assertEqual(status, 200)
        self.hostile = self.create(target="queue:x", after="2h", key=HOSTILE, labels={HOSTILE: HOSTILE},
                                   payload={HOSTILE: HOSTILE})["id"]
        self.cron = self.create(target="queue:x", cron="30 9 * * MON-FRI", timezone="Europe/Berlin", key="report")["id"]
        dead = self.create(target="queue:broken", after=0, payload={"order": 1})["id"]
        items = self.lease("broken")
        self.daemon.call("POST", "/v1/queues/broken/nack",
                         {"receipts": [items[0]["receipt"]], "dead": True, "error": HOSTILE})
        self.dead = dead
        for n in range(3):
            self.create(target=f"queue:mail?priority={n}", at=f"2026-01-01T00:00:0{n}Z", key=f"mail-{n}")
        failing = self.create(target="http://127.0.0.1:1/x", after=0, retry={"base": "1d", "cap": "1d"})
        self.await_state(failing, "retrying")
        self.create("/status/500", after=0, retry={"max_attempts": 100, "base": "1ms", "cap": "1ms"})
        harness.wait_until(lambda: self.call(200, "GET", "/v1/queues/mail")[1]["ready"] == 3, 20, "items")
        harness.wait_until(lambda: any(path["breaker"] == "open" for target in self.call(200, "GET", "/v1/targets")[1]["targets"]
                                       for path in target["paths"]), 20, "a path that is left alone")

    def lease(self, queue):
        items = self.daemon.call("POST", f"/v1/queues/{queue}/lease", {"wait": "20s"})[2]["items"]
        self.assertEqual(len(items), 1)
        return items

    def see(self, script, what, seconds=60):
        """Waits until a JavaScript expression is true."""
        try:
            harness.wait_until(lambda: self.browser.run(f"!!({script})"), seconds, what)
        except TimeoutError:
            print(f"The page shows:\n{self.text()}", flush=True)
            raise

    def text(self):
        return self.browser.run("document.body.innerText")

    def go(self, place):
        self.browser.run(f"location.hash = '#/{place}'")

    def press(self, label):
        """Presses a button once it is there and not off, as it is while its last action runs."""
        button = f"[...document.querySelectorAll('button')].find((b) => b.textContent === {json.dumps(label)} && !b.disabled)"
        self.see(button, f"the button {label}")
        self.browser.run(f"{button}.click()")

    def type(self, name, value):
        self.browser.run(f"(() => {{ const i = document.querySelector('[name={name}]'); i.value = {json.dumps(value)};"
                         "i.dispatchEvent(new Event('input', {bubbles: true})); })()")

    def shoot(self, name):
        if not SHOTS:
            return
        self.browser.ask("Emulation.setDeviceMetricsOverride", width=1200, height=760, deviceScaleFactor=1, mobile=False)
        data = self.browser.ask("Page.captureScreenshot", format="png")["data"]
        os.makedirs(SHOTS, exist_ok=True)
        with open(os.path.join(SHOTS, f"{name}.png"), "wb") as file:
            file.write(base64.b64decode(data))

    # proves: dashboard
    def test_a_journey(self):
        """Goal: what a person does with the pages changes the timers, and what timers contain stays text."""
        self.fill()
        for n in range(20):
            self.create(every="500ms", at=f"2026-01-01T00:00:00.{n * 25:03}Z", labels={"for": "now"})
        self.browser.open(self.url)
        self.see("document.body.innerText.includes('On time')", "the verdict")
        self.see("/Pending\\s+1,0[0-9]{2}/.test(document.body.innerText)", "the pending timers")
        self.see("/Fired\\s+[1-9]/.test(document.body.innerText)", "a rate")
        self.see("document.querySelector('svg polyline').getAttribute('points').split(' ').length > 5", "a line")
        self.shoot("now")
        self.call(200, "POST", "/v1/timers/cancel", {"labels": {"for": "now"}})

        self.go("coming?range=day")
        self.see("document.querySelectorAll('svg.bars rect').length === 144", "the bars")
        self.see("document.body.innerText.includes('team:checkout')", "whose peak it is")
        self.shoot("coming")

        self.go("timers")
        self.see("document.querySelectorAll('tbody tr').length === 50", "a page of timers")
        self.press("Next page")
        self.see("document.body.innerText.includes('page 2')", "the second page")
        self.go("timers?label=team:checkout&key_prefix=order-4")
        self.see("document.querySelectorAll('tbody tr').length === 50 && "
                 "[...document.querySelectorAll('tbody tr')].every((r) => r.innerText.includes('team:checkout'))",
                 "the search")
        self.shoot("timers")

        self.go(f"timers/{self.hostile}")
        self.see("document.querySelector('pre[tabindex]') && document.body.innerText.includes('<img')", "the payload")
        self.assertEqual(self.browser.run("document.querySelectorAll('main img').length"), 0)
        self.assertEqual(self.browser.run("document.title"), "Timers · Tickwheel")
        self.press("Pause")
        self.see("document.body.innerText.includes('It is paused.')", "the message")
        self.assertEqual(self.daemon.call("GET", f"/v1/timers/{self.hostile}")[2]["state"], "paused")
        self.press("Resume")
        self.see("document.body.innerText.includes('It is resumed.')", "the message")
        self.press("Cancel")
        self.press("Cancel the timer")
        self.see("document.body.innerText.includes('It is cancelled.')", "the message")
        self.assertEqual(self.daemon.call("GET", f"/v1/timers/{self.hostile}")[2]["timer"]["state"], "cancelled")

        self.go(f"timers/{self.cron}")
        self.see("document.querySelectorAll('ol li').length === 5", "the next firings")
        self.shoot("timer")

        self.go("new")
        self.see("document.querySelector('[name=kind]')", "the form")
        self.browser.run("document.querySelector('[name=kind]').value = 'cron'")
        self.type("time", "0 12 * * *")
        self.type("timezone", "Europe/Paris")
        self.type("target", "queue:made")
        self.type("payload", '{"by": "hand"}')
        self.see("document.querySelectorAll('ol li').length === 5", "the preview")
        self.see("document.body.textContent.includes('curl -X POST')", "the command")
        self.shoot("new")
        self.press("Make the timer")
        self.see("document.body.innerText.includes('It is made')", "the new timer")
        made = self.daemon.call("GET", "/v1/timers?target=queue:made")[2]["timers"]
        self.assertEqual([timer["payload"] for timer in made], [{"by": "hand"}])
        self.type("time", "61 * * * *")
        self.see("document.body.innerText.includes('cron')", "why it is wrong")

        self.go("queues")
        self.see("/mail\\s+3\\s+0\\s+0/.test(document.body.innerText)", "how full the queue is")
        self.shoot("queues")
        leased = self.lease("mail")
        self.press("Refresh")
        self.see("/mail\\s+2\\s+1\\s+0/.test(document.body.innerText)", "how full the queue is now")
        self.go("queues/mail")
        self.see("document.querySelectorAll('tbody tr').length === 2 && "
                 "document.querySelector('tbody tr').innerText.includes('mail-1')", "the next items")
        self.assertEqual(leased[0]["id"], self.daemon.call("GET", "/v1/keys/mail-2/timer")[2]["id"])

        self.go("targets")
        self.see("document.body.innerText.includes('is left alone')", "the verdict")
        self.see("document.body.innerText.includes('http://127.0.0.1:1') && document.body.innerText.includes('/status/500')",
                 "the targets that fail")
        self.shoot("targets")

        self.go("dead")
        self.see("document.body.innerText.includes('queue:broken')", "the group")
        self.shoot("dead")
        self.press("Redrive all")
        self.see("document.body.innerText.includes('1 redriven')", "the message")
        self.assertEqual(self.lease("broken")[0]["id"], self.dead)
        self.assertEqual(self.browser.run("document.title"), "Dead letters · Tickwheel")

    # proves: dashboard
    def test_a_token_is_asked_for(self):
        """Goal: without a token nothing is shown; one with little scope sees what it may, and why not the rest."""
        tokens = os.path.join(self.data, "tokens")
        reader, line = subprocess.run([harness.find("tickwheeld"), "--make-token", "-", "read"], capture_output=True,
                                      text=True, check=True).stdout.splitlines()
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(line + "\n")
        self.fill()
        self.restart("--tokens-file", tokens)
        self.url = f"http://127.0.0.1:{self.daemon.port}/ui"
        self.browser.open(self.url + "#/timers")
        self.see("document.body.innerText.includes('asks for a token')", "the question")
        self.assertNotIn("order-", self.text())
        self.go("coming")  # the question stays while nobody answers it
        self.see("document.title.startsWith('Coming') && document.querySelector('[name=token]')", "the question again")
        self.go("timers")
        self.see("document.title.startsWith('Timers') && document.querySelector('[name=token]')", "the question again")
        for token, sees in (("tw_wrong", "does not know this token"), (reader, "order-")):
            self.type("token", token)
            self.press("Show the timers")
            self.see(f"document.body.innerText.includes({json.dumps(sees)})", sees)
        self.go("now")
        self.see("document.querySelector('.message')", "why it may not see this")
        self.go(f"timers/{self.cron}")
        self.press("Fire now")
        self.see("document.querySelector('.message') && /scope/.test(document.querySelector('.message').innerText)",
                 "why it may not fire")
        # A token is gone with its page.
        self.browser.open("about:blank")
        self.browser.open(self.url + "#/timers")
        self.see("document.body.innerText.includes('asks for a token')", "the question")

    # proves: dashboard
    def test_tenants(self):
        """Goal: an operator sees what each tenant uses of its limits; a tenant sees itself."""
        tokens = os.path.join(self.data, "tokens")
        made = {}
        with open(tokens, "w", encoding="utf-8") as file:
            for tenant, scopes in (("ops", "read,admin"), ("shop", "read,schedule"), ("rival", "read,schedule")):
                made[tenant], line = subprocess.run([harness.find("tickwheeld"), "--make-token", tenant, scopes],
                                                    capture_output=True, text=True, check=True).stdout.splitlines()
                file.write(line + "\n")
            file.write("limit shop pending_max=10 rate=100 burst=200 body_bytes_max=64K\n")
        self.restart("--tokens-file", tokens)
        for n in range(4):
            self.assertEqual(self.daemon.call("POST", "/v1/timers", {"after": "1h" if n else 0, "target": "queue:x"},
                                              {"Authorization": f"Bearer {made['shop']}"})[0], 201)
        operator = {"Authorization": f"Bearer {made['ops']}"}
        harness.wait_until(lambda: self.daemon.call("GET", "/v1/tenants", None, operator)[2]["tenants"][-1]["ready"] == 1,
                           60, "the due timer")
        self.url = f"http://127.0.0.1:{self.daemon.port}/ui"
        for tenant, rows in (("ops", 4), ("shop", 1)):
            self.browser.open("about:blank")
            self.browser.open(self.url + "#/tenants")
            self.see("document.querySelector('[name=token]')", "the question")
            self.type("token", f"  {made[tenant]}\t")  # as it comes from a terminal
            self.press("Show the timers")
            self.see(f"document.querySelectorAll('tbody tr').length === {rows}", f"the tenants that {tenant} sees")
            self.see("document.body.innerText.includes('4 of 10') && document.body.innerText.includes('64 KiB')",
                     "what shop uses")
            self.see("/shop\\s+4 of 10\\s+1/.test(document.body.innerText)", "the due timer")
            if tenant == "ops":
                self.shoot("tenants")

    # proves: dashboard
    def test_accessible(self):
        """Goal: axe-core finds nothing, on any page, in light and dark, on a wide and on a narrow screen."""
        axe = axe_source()
        if not axe:
            self.skipTest("the package registry is out of reach")
        self.fill()
        for scheme, width in (("light", 1200), ("dark", 400)):
            self.browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1,
                             mobile=width < 600)
            self.browser.open("about:blank")
            self.browser.open(self.url)
            self.browser.run(axe)
            for place in (*PAGES, f"timers/{self.cron}", f"timers/{self.dead}"):
                self.go(place)
                self.see("document.querySelector('main table, main form, main dl')", place)
                self.see("document.querySelector('main h1') && !document.querySelector('main .value')?.textContent"
                         ".includes('…')", place)
                found = json.loads(self.browser.run(
                    "axe.run().then(({violations}) => JSON.stringify(violations.map((one) => "
                    "[one.id, one.nodes.map((node) => node.html).slice(0, 3)])))"))
                self.assertEqual(found, [], f"{place}, {scheme}")
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width, place)
            if SHOTS and width < 600:
                self.go("now")
                self.see("document.querySelector('main table')", "now")
                data = self.browser.ask("Page.captureScreenshot", format="png")["data"]
                with open(os.path.join(SHOTS, "phone.png"), "wb") as file:
                    file.write(base64.b64decode(data))

    # proves: dashboard
    def test_headers(self):
        """Goal: no other site may frame the page, and no file of the page comes from elsewhere."""
        for path in ("/ui", "/ui/app.js", "/ui/style.css", "/ui/icon.svg"):
            status, headers, body = self.daemon.call("GET", path)
            self.assertEqual(status, 200, path)
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertNotRegex(body.replace("http://www.w3.org/2000/svg", ""), r"https?://(?!shop\.example)", path)
        for path in ("/ui/", "/ui/nothing.js", "/ui/..%2fapi.c", "/ui/index.html/x"):
            self.assertEqual(self.daemon.call("GET", path)[0], 404, path)


if __name__ == "__main__":
    unittest.main()
