#!/usr/bin/env python3
"""The dashboard in a headless Chromium, on a real daemon with data: a journey through its pages, as a person would take
it, and every page in both colour schemes checked by axe-core, which is skipped where the package registry is out of
reach. TEST_SCREENSHOTS=FOLDER keeps a picture of each page."""

import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import make_token
from dashboard_case import HOSTILE, NDJSON, DashboardCase, axe_source

PAGES = ("overview", "upcoming", "timers", "schedules", "calendars", "queues", "flows", "targets", "named", "deliveries", "dead", "tenants", "cluster", "new")


class DashboardTest(DashboardCase):
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
        harness.wait_until(self.cancels_all, 20, "the cancel also of timers that were firing")

        self.go("coming?range=day")
        self.see("document.querySelectorAll('svg.bars rect').length === 144 && document.querySelectorAll('svg.bars .grid').length > 1", "the bars")
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
        self.assertEqual(self.browser.run("[document.title, document.querySelector('h1').innerText]"), [f"{HOSTILE} · Tickwheel", HOSTILE])
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
        self.see("document.querySelectorAll('ol:not(.life) li').length === 5", "the next firings")
        self.shoot("timer")

        self.go("new")
        self.see("document.querySelector('[name=kind]')", "the form")
        self.assertFalse(self.browser.run("document.querySelector('[name=timezone]').checkVisibility()"))
        self.browser.run("document.querySelector('[name=kind]').value = 'cron'")
        self.type("time", "0 12 * * *")
        self.type("timezone", "Europe/Paris")
        self.type("target", "queue:made")
        self.type("payload", '{"by": "hand"}')
        self.see("document.querySelectorAll('ol:not(.life) li').length === 5 && "
                 "/, 12:00:00 (CES?T|GMT\\+[12])/.test(document.querySelector('ol:not(.life) li').innerText)", "the preview, in its zone")
        self.assertTrue(self.browser.run("document.querySelector('[name=timezone]').checkVisibility()"))
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
        self.press("Delete all")
        self.see("document.querySelector('dialog h2')?.innerText === 'Delete 1 dead letter?'", "the question")
        self.assertEqual(self.browser.run("document.activeElement.textContent"), "Leave it")
        self.press("Leave it")
        self.press("Redrive all")
        self.see("document.querySelector('dialog h2')?.innerText === 'Redrive 1 dead letter?'", "the question")
        self.assertEqual(len(self.call(200, "GET", "/v1/dead")[1]["timers"]), 1)
        self.type("rate", "50")
        self.see("document.querySelector('dialog pre')?.innerText.includes('\"rate\":50')", "the command")
        self.press("Redrive 1 dead letter")
        self.see("document.body.innerText.includes('1 redriven')", "the message")
        [item] = self.lease("broken")
        self.assertEqual(item["id"], self.dead)
        self.assertEqual(self.browser.run("document.title"), "Dead letters · Tickwheel")
        self.redrive_elsewhere(item)

    def redrive_elsewhere(self, item):
        """The letter of an item goes to another queue, by its dialog; and to a third one with its group, by another."""
        for queue, to in (("broken", "mended"), ("mended", "other")):
            self.call(200, "POST", f"/v1/queues/{queue}/nack", {"receipts": [item["receipt"]], "dead": True, "error": "again"})
            self.sees("again")
            if to == "mended":
                self.press("Elsewhere")
                self.see("document.querySelector('dialog [name=target]')", "the dialog")
                self.type("target", f"queue:{to}")
                self.see(f"document.querySelector('dialog pre')?.innerText.includes('queue:{to}')", "the command")
                self.shoot("redrive")
                self.press("Redrive it")
            else:
                self.see(f"document.querySelector('main tbody tr').innerText.includes('queue:{queue}')", "its group")
                self.press("Redrive all")
                self.see("document.querySelector('dialog [name=new_target]')", "the dialog")
                self.type("new_target", f"queue:{to}")
                self.press("Redrive 1 dead letter")
            self.see("/1 redriven/.test(document.body.innerText)", "the message")
            [item] = self.lease(to)
            self.assertEqual(item["id"], self.dead)
        self.call(200, "POST", "/v1/queues/other/nack", {"receipts": [item["receipt"]], "dead": True, "error": "for good"})
        self.see("document.querySelectorAll('input[data-pick]').length === 1 && document.querySelector('td[data-name=Died] time')", "when it died")
        self.browser.run("document.querySelector('input[data-pick]').click()")
        self.press("Delete")
        self.see("document.activeElement.textContent === 'Leave it'", "the question")
        self.press("Delete 1 timer")
        self.sees("1 timer deleted.")
        self.assertEqual(self.call(200, "GET", "/v1/dead")[1]["timers"], [])

    def cancels_all(self):
        self.call(200, "POST", "/v1/timers/cancel", {"labels": {"for": "now"}})
        return not self.listed("label=for:now")

    # proves: dashboard
    def test_a_token_is_asked_for(self):
        """Goal: without a token nothing is shown; one with little scope sees what it may, and why not the rest."""
        tokens = os.path.join(self.data, "tokens")
        (reader, read_line), (admin, admin_line) = make_token("-", "read"), make_token("-", "admin")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(f"{read_line}\n{admin_line}\n")
        self.fill()
        self.restart("--tokens-file", tokens)
        self.url = f"http://127.0.0.1:{self.daemon.port}/ui"
        self.browser.open(self.url + "#/timers")
        self.see("document.body.innerText.includes('asks for a token')", "the question")
        self.assertNotIn("order-", self.text())
        self.go("coming")  # the question stays while nobody answers it
        self.see("document.title.startsWith('Upcoming') && document.querySelector('[name=token]')", "the question again")
        self.go("timers")
        self.see("document.title.startsWith('Timers') && document.querySelector('[name=token]')", "the question again")
        for token, sees in (("tw_wrong", "does not know this token"), (reader, "order-")):
            self.type("token", token)
            self.press("Show the timers")
            self.see(f"document.body.innerText.includes({json.dumps(sees)})", sees)
        self.go("now")
        self.sees("the whole daemon, which are for tokens with the scope admin")
        self.assertEqual(self.browser.run("document.querySelector('main .message a').hash"), "#/timers")
        self.see("document.querySelector('.live.on') && document.body.innerText.includes('Latest events')", "events")
        for place, sees in ((f"timers/{self.cron}", "lacks the scope schedule"), ("queues", "mail"), ("targets", "are in flight"),
                            ("dead", "queue:broken"), ("new", "lacks the scope schedule")):
            self.go(place)
            self.sees(sees)
            self.assertEqual(self.browser.run("[...document.querySelectorAll('main button:not(.sort)')].map((b) => b.textContent)"
                                              ".filter((text) => !['Refresh', 'Search', 'Copy', 'Filters', ''].includes(text))"), [], place)
        # A token that may see figures, but no events.
        self.browser.open("about:blank")
        self.browser.open(self.url + "#/now")
        self.see("document.querySelector('[name=token]')", "the question")
        self.type("token", admin)
        self.press("Show the timers")
        self.see("/On time|Late:/.test(document.querySelector('main').innerText)", "the verdict")
        self.see("/Not live:.*scope/.test(document.querySelector('.live')?.innerText)", "why it is not live")
        self.see("/Pending\\s+1,0[0-9]{2}/.test(document.body.innerText)", "figures all the same")
        # A token is gone with its page.
        self.browser.open("about:blank")
        self.browser.open(self.url + "#/timers")
        self.see("document.body.innerText.includes('asks for a token')", "the question")

    # proves: dashboard
    # proves: dashboard, count-label
    def test_counts(self):
        """Live timers by origin or by the value of a label, whose row leads to the list of these timers."""
        self.fill()
        self.browser.open(f"{self.url}#/timers")
        self.see("document.querySelector('details.counts')", "the counts, folded")
        self.browser.run("document.querySelector('details.counts').open = true")
        self.see("document.querySelector('details.counts').innerText.includes('https://shop1.example')", "origins")
        self.shoot("counts")
        self.type("count_label", "team")
        self.press("Count")
        cells = "[...document.querySelectorAll('details.counts tbody tr')].map((row) => [...row.cells].map((c) => c.innerText))"
        self.see(f"{cells}.length === 3 && {cells}.some((row) => row[0] === 'checkout')", "teams")
        rows = self.browser.run(cells)
        self.assertEqual(sorted(rows[:2]), [["billing", "500", "\u2013", "\u2013", "\u2013", "500"],
                                            ["checkout", "500", "\u2013", "\u2013", "\u2013", "500"]])
        self.assertEqual(rows[2][0], "without team")
        self.shoot("counts-label")
        self.browser.run("[...document.querySelectorAll('details.counts tbody a')].find((a) => a.innerText === 'billing').click()")
        self.see("location.hash === '#/timers?label=team%3Abilling' && document.querySelectorAll('tbody tr').length >= 50", "its timers")
        self.browser.run("document.querySelector('details.counts').open = true")
        self.type("count_label", HOSTILE)
        self.press("Count")
        self.see(f"{cells}.some((row) => row[0] === {json.dumps(HOSTILE)})", "a name that is text")

    def test_several_targets(self):
        """Goal: the page of a timer shows how each of its targets stands, and leads to the one that failed."""
        timer = self.call(201, "POST", "/v1/timers", {"after": 0, "targets": ["queue:later", self.receiver.url("/gone")]})[1]
        self.browser.open(self.url + f"#/timers/{timer['id']}")
        self.see("/queue:later\\s+delivering/.test(document.body.innerText)", "the target that is open")
        self.see("/gone\\s+dead/.test(document.body.innerText)", "the target that failed")
        self.browser.run("[...document.querySelectorAll('tbody a')].find((a) => a.innerText.endsWith('/gone')).click()")
        self.see(f"document.body.innerText.includes('{timer['id']}') && location.hash !== '#/timers/{timer['id']}'", "its part")

    def test_live(self):
        """Goal: what others do by the API appears on the page that is open, and nothing of what its reader does is lost."""
        first = self.create(key="first", after="1h")
        self.watch("timers")
        self.sees("first")
        self.browser.run("window.isOld = true; document.querySelector('[name=key_prefix]').focus()")
        self.type("key_prefix", "half a wo")
        self.call(200, "POST", "/v1/queues/held/pause", {"note": "an event without a timer"})
        self.create(key="second", after="30m")
        self.sees("second")
        self.assertEqual(self.browser.run("streams.length"), 1)
        self.assertEqual(self.browser.run("document.activeElement.name + document.activeElement.value"), "key_prefixhalf a wo")
        row = "[...document.querySelectorAll('tbody tr')].find((r) => r.innerText.includes('first'))"
        self.browser.run(f"document.body.style.minHeight = '4000px'; scrollTo(0, 90);"
                         f"{row}.querySelector('a').focus({{preventScroll: true}})")
        self.call(200, "POST", f"/v1/timers/{first['id']}/pause", {"note": "by hand"})
        self.create(key="third", after="1m")
        self.see(f"{row}.innerText.includes('paused') && document.body.innerText.includes('third')", "the pause, and a row above")
        self.assertEqual(self.browser.run(f"[{row}.querySelector('a') === document.activeElement, scrollY]"), [True, 90])

        # One timer: a form that is typed into, and commands that are unfolded.
        self.go(f"timers/{first['id']}")
        self.sees("by hand")
        self.see("document.querySelector('.live.on')", "that the page is live")
        self.browser.run("document.querySelector('main details').open = true")
        self.press("Extend")
        self.see("document.querySelector('dialog [name=after]')", "the dialog")
        self.type("after", "45 cows")
        self.press("Extend it")
        self.see("document.querySelector('dialog form > .message')", "what is wrong with it")
        self.call(200, "PATCH", f"/v1/timers/{first['id']}", {"payload": {"order": "changed"}})
        self.sees('"order": "changed"')
        self.assertEqual(self.browser.run("[document.querySelector('[name=after]').value, document.activeElement.textContent,"
                                          "document.querySelector('main details').open, !!document.querySelector('dialog form > .message')]"),
                         ["45 cows", "Extend it", True, True])
        self.press("Leave it")
        self.press("Resume")
        self.sees("It is resumed.")
        self.assertEqual(self.browser.run("document.activeElement.textContent"), "Pause")  # the button in its place

        # A change of the timer in a dialog; a later one by the API makes it void.
        self.press("Change")
        self.see("document.querySelector('dialog [name=payload]')", "the dialog")
        self.type("payload", '{"order": "mine"}')
        self.see("document.querySelector('dialog pre')?.innerText.includes('-X PATCH')", "the command")
        self.call(200, "PATCH", f"/v1/timers/{first['id']}", {"labels": {"seen": "twice"}})
        self.sees("seen:twice")
        self.sees("It is resumed.")
        self.assertEqual(self.browser.run("document.querySelector('dialog [name=payload]').value"), '{"order": "mine"}')
        self.press("Change it")
        self.see("document.querySelector('dialog .message')?.innerText.includes('another version')", "the refusal")
        self.press("Leave it")
        self.see("!document.querySelector('dialog')", "that the dialog is gone")
        self.press("Change")
        self.type("payload", '{"order": "mine"}')
        self.press("Change it")
        self.sees("It is changed.")
        self.assertEqual(self.state_of(first)["payload"], {"order": "mine"})

        self.create(target="queue:mail", after=0)
        self.browser.run("asked.length = 0")
        self.go("queues")
        self.see("/mail\\s+1\\s+0\\s+0/.test(document.body.innerText) && asked.join().split('/v1/queues').length > 2",
                 "the item, read twice: when the page opened, and when its stream began")
        self.lease("mail")
        self.see("/mail\\s+0\\s+1\\s+0/.test(document.body.innerText)", "the lease, of which no event tells")
        self.go("queues/news")
        self.see("document.querySelector('.live.on')", "that the page is live")
        self.create(target="queue:news?priority=2", after=0, key="headline")
        self.sees("headline")
        self.go("dead")
        self.see("document.querySelector('.live.on')", "that the page is live")
        item = self.lease("news")[0]
        self.call(200, "POST", "/v1/queues/news/nack", {"receipts": [item["receipt"]], "dead": True, "error": "no such reader"})
        self.sees("no such reader")
        self.go("now")
        self.see("document.querySelector('.live.on')", "that the page is live")
        self.call(200, "POST", "/v1/queues/held/resume")
        self.create(key="latest", after="1h")
        self.see("document.querySelector('main').innerText.includes('queue-resumed') && "
                 "document.querySelectorAll('td.line polyline').length === 4 && "
                 "[...document.querySelectorAll('tr')].some((r) => /created/.test(r.innerText) && /latest/.test(r.innerText))",
                 "the event, and lines of lateness")
        self.assertTrue(self.browser.run("window.isOld"))

    def state_of(self, timer):
        return self.call(200, "GET", f"/v1/timers/{timer['id']}")[1]

    # proves: dashboard
    def test_stream(self):
        """Goal: a page has one stream of events, while it is shown; it goes on where it was broken, and a hundred thousand
        events make the page neither read much nor large."""
        self.watch("timers")
        self.create(key="first", after="1h")
        self.sees("first")
        open_streams = "streams.filter(({isOpen}) => isOpen).length"
        self.assertEqual(self.browser.run(open_streams), 1)

        self.browser.run("cut()")
        self.create(key="while-broken", after="1h")
        self.sees("while-broken")
        self.see(f"streams.at(-1).last && {open_streams} === 1 && document.querySelector('.live.on')", "that it goes on")

        self.browser.run("hide(true)")
        self.see(f"{open_streams} === 0", "the end of the stream of a hidden page")
        before = self.browser.run("[streams.length, readAt.length]")
        self.create(key="while-hidden", after="1h")
        self.assertEqual(self.browser.run("[streams.length, readAt.length]"), before)
        self.browser.run("hide(false)")
        self.sees("while-hidden")
        self.assertTrue(self.browser.run("streams.at(-1).last"))

        heap = self.heap_bytes()
        began = time.monotonic()
        self.browser.run("readAt.length = 0; stall = 0")
        for n in range(20):  # the daemon keeps 16,384 events for a page that is slower
            lines = "".join(f'{{"after":"{60 + n}s","target":"queue:x","key":"{n}-{m}"}}\n' for m in range(5000))
            self.assertEqual(self.daemon.call("POST", "/v1/timers/batch", lines, {**NDJSON, "Prefer": "return=minimal"})[0], 200)
        self.create(key="behind-them", after="1s", target="queue:x")
        self.sees("behind-them")
        seconds = time.monotonic() - began
        reads, rows, stall = self.browser.run("[readAt, document.querySelectorAll('tbody tr').length, stall]")
        grown = self.heap_bytes() - heap
        print(f"100,000 timers in {seconds:.1f} s: {len(reads)} reads, {grown} bytes more, no answer for {stall:.0f} ms at most")
        self.assertGreaterEqual(min(after - before for before, after in zip(reads, reads[1:])), 990, "milliseconds")
        self.assertLessEqual(rows, 50)
        self.assertLess(grown, 4 << 20)
        self.assertLess(stall, 2000)

        self.go("new")
        self.see(f"{open_streams} === 0", "the end of the stream of a page that is left")

    def heap_bytes(self):
        self.browser.ask("HeapProfiler.collectGarbage")
        return self.browser.ask("Runtime.getHeapUsage")["usedSize"]

    # proves: dashboard
    def test_holds(self):
        """Goal: queues and targets are paused with a note and until a time, resumed and reset, each with its command."""
        self.create(target="queue:mail", after=0)
        self.create(target="http://127.0.0.1:1/x", after=0, retry={"max_attempts": 100, "base": "1ms", "cap": "1ms"})
        self.browser.open(f"{self.url}#/queues")
        self.press("Pause")
        self.see("document.querySelector('dialog [name=note]')", "the dialog")
        self.type("note", "it's <b>moving</b>")
        self.type("until", "2099-01-02T03:04")
        self.see("document.querySelector('dialog pre')?.innerText.includes('/v1/queues/mail/pause')", "the command")
        self.run_command(self.browser.run("document.querySelector('dialog pre').innerText"))
        paused = self.call(200, "GET", "/v1/queues/mail")[1]["paused"]
        self.assertEqual(paused["note"], "it's <b>moving</b>")
        self.assertTrue(paused["until"].startswith("2099-01-0"), paused)
        self.shoot("dialog")
        self.press("Pause it")
        self.sees("Paused the queue mail.")
        self.sees("it's <b>moving</b>")
        self.sees("until Fri 2 Jan 2099")
        self.shoot("paused")
        self.assertEqual(self.call(200, "GET", "/v1/queues/mail")[1]["paused"]["until"], paused["until"])
        self.assertEqual(self.browser.run("document.activeElement.textContent"), "Resume")
        self.go("queues/mail")
        self.sees("moving")
        self.press("Resume")
        self.see("document.querySelector('dialog pre')?.innerText.includes('/v1/queues/mail/resume')", "the command")
        self.press("Resume it")
        self.sees("Resumed the queue mail.")
        self.assertNotIn("paused", self.call(200, "GET", "/v1/queues/mail")[1])

        name = "http%3A%2F%2F127.0.0.1%3A1"
        target = lambda: next(row for row in self.call(200, "GET", "/v1/targets")[1]["targets"] if row["target"].endswith(":1"))
        harness.wait_until(lambda: target()["breaker"] == "open", 20, "a breaker that is open")
        self.go("targets")
        self.press("Pause")
        self.press("Pause it")
        self.sees("Paused the target http://127.0.0.1:1.")
        self.assertIn("paused", target())
        self.press("Reset")
        self.see(f"document.querySelector('dialog pre')?.innerText.includes('/v1/targets/{name}/reset')", "the command")
        self.press("Close its breakers")
        self.sees("Reset the target http://127.0.0.1:1:")
        self.assertEqual(target()["failures"], 0)
        self.see("!document.body.innerText.includes('left alone')", "that it is called again")
        self.press("Resume")
        self.press("Resume it")
        self.sees("Resumed the target http://127.0.0.1:1.")
        self.assertFalse([row for row in self.call(200, "GET", "/v1/targets")[1]["targets"] if "paused" in row])

        # A dead letter becomes a new timer with another target, and is deleted.
        dead = self.create(target="queue:broken", after=0, key="order-7", payload={"order": 7}, labels={"team": "checkout"})
        item = self.lease("broken")[0]
        self.call(200, "POST", "/v1/queues/broken/nack", {"receipts": [item["receipt"]], "dead": True, "error": "wrong place"})
        self.go(f"new?from={dead['id']}")
        self.see("document.querySelector('[name=target]')?.value === 'queue:broken'", "the form")
        self.type("target", "queue:right")
        self.press("Make the timer")
        self.press("Delete the dead letter")
        self.sees("The dead letter is deleted.")
        made = self.call(200, "GET", "/v1/keys/order-7/timer")[1]
        self.assertEqual([made["target"], made["payload"], made["labels"]], ["queue:right", {"order": 7}, {"team": "checkout"}])
        self.assertEqual(self.call(200, "GET", "/v1/dead")[1]["timers"], [])

    # proves: dashboard
    def test_deliveries(self):
        """Goal: what became of each attempt is found, also of a timer that is gone. Method: one that dies, and is deleted."""
        self.browser.open(self.url)
        dead = self.create("/status/500", after=0, key="order:7", retry={"max_attempts": 2, "base": "1ms", "cap": "1ms"})
        self.await_state(dead, "dead")
        fired = self.create(after=0, key="order:8")
        self.await_state(fired, "fired")
        self.go("deliveries")
        self.sees("order:8")
        self.type("status", "5xx")
        self.press("Search")
        self.see("!document.querySelector('main').innerText.includes('order:8') && "
                 "document.querySelectorAll('main tbody tr').length === 2", "the two failures only")
        self.go(f"timers/{fired['id']}")
        self.sees("attempt 1: done, 200")
        self.sees("created")
        self.call(200, "DELETE", "/v1/dead?all=true")
        self.assertEqual(self.get(dead)[0], 404)
        self.go(f"timers/{dead['id']}")
        self.sees("no longer kept")
        self.sees("attempt 2: failed, 500")

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
            for place in (*PAGES, f"timers/{self.cron}", f"timers/{self.dead}", "queues/mail", "a dialog"):
                if place == "a dialog":
                    self.press("Pause")
                    self.see("document.querySelector('dialog pre')", place)
                else:
                    self.go(place)
                self.see("document.querySelector('main table, main form, main dl, main details')", place)
                self.see("document.querySelector('main h1') && !document.querySelector('main .value')?.textContent"
                         ".includes('…')", place)
                found = json.loads(self.browser.run(
                    "axe.run().then(({violations}) => JSON.stringify(violations.map((one) => "
                    "[one.id, one.nodes.map((node) => node.html).slice(0, 3)])))"))
                self.assertEqual(found, [], f"{place}, {scheme}")
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width, place)
                self.keep_picture(f"{scheme}-{place.replace('/', '-').replace(' ', '-')}", captureBeyondViewport=True)

    # proves: dashboard
    def test_keyboard(self):
        """Goal: a dead letter is redriven to another target without a mouse, and the focus is seen at each step."""
        dead = self.create(target="queue:broken", after=0)["id"]
        receipt = self.lease("broken")[0]["receipt"]
        self.call(200, "POST", "/v1/queues/broken/nack", {"receipts": [receipt], "dead": True, "error": "lost"})
        self.browser.open(self.url)
        self.see("document.body.innerText.includes('On time')", "the page")
        self.tab_to("Dead letters")
        self.hit("Enter")
        self.sees("lost")
        self.tab_to("Elsewhere")
        self.hit("Enter")
        self.see("document.activeElement.name === 'target'", "the focus in the dialog")
        self.hit("Escape")
        self.see("!document.querySelector('dialog') && document.activeElement.tagName === 'BUTTON'", "the focus back")
        self.browser.run("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Elsewhere').focus()")
        self.hit("Enter")
        self.see("document.activeElement.name === 'target'", "the focus in the dialog again")
        self.browser.run("document.activeElement.select()")
        self.browser.ask("Input.insertText", text="queue:mended")
        self.hit("Enter")
        self.sees("1 redriven.")
        self.assertEqual(self.lease("mended")[0]["id"], dead)

    # proves: dashboard
    def test_schedules(self):
        """Goal: a schedule whose last firing failed is seen, what its marks say is read by pointer and by keyboard, and one
        key more shows its timer."""
        made = {}
        for key, path, firings in (("good", "/ok", 1), ("bad", "/status/500", 3)):
            made[key] = self.create(path, every="1d", key=key, retry={"max_attempts": 1})["id"]
            for count in range(1, firings + 1):
                self.call(200, "POST", f"/v1/timers/{made[key]}/fire")
                harness.wait_until(lambda: len(self.call(200, "GET", f"/v1/timers/{made[key]}/runs")[1]["runs"]) == count, 20, key)
        self.create(target="queue:x", every="1d", key="new")
        self.call(200, "POST", f"/v1/timers/{made['good']}/pause", {})
        self.browser.open(f"{self.url}#/schedules?sort=failures")
        self.see("document.querySelectorAll('tbody tr').length === 3", "three schedules")
        first, marks, bad = self.browser.run(
            "[document.querySelector('tbody tr a').textContent, [...document.querySelectorAll('tbody tr')].map((row) => "
            "[...row.querySelectorAll('.dot')].map((dot) => dot.className.slice(4)).join()),"
            "document.querySelector('td .bad').textContent]")
        self.assertEqual((first, marks[0], bad), ("bad", "failed,failed,failed", "failed, 3 in a row"))
        self.assertEqual(sorted(marks[1:]), ["", "ok"])
        self.assertIn("none while it is paused", self.text())
        self.browser.run("document.querySelector('.dot[tabindex=\"0\"]').focus()")
        self.see("/^failed, .*, status 500, took /.test(document.querySelector('.told').textContent)", "what the mark says")
        self.browser.run("window.mark = document.activeElement")
        self.hit("ArrowLeft")
        self.see("document.activeElement === mark.previousElementSibling && document.activeElement.matches('.dot') &&"
                 "document.activeElement.ariaLabel === document.querySelector('.told').textContent", "the mark before it")
        self.hit("Enter")
        self.see(f"location.hash === '#/timers/{made['bad']}'", "the timer")
        self.go("schedules?last=failed")
        self.see("document.querySelectorAll('tbody tr').length === 1", "those that failed")

    # proves: dashboard
    def test_cluster(self):
        """Goal: the overview shows the nodes of a cluster, and follows them. Method: the answer is that of docs/cluster.md."""
        node = {"node": 1, "alive": True, "stopping": False, "drained": False, "planner": True, "address": "127.0.0.1:8463", "zone": "a",
                "weight": 1, "load": 0.021, "seen": "2026-11-27T02:11:09.412Z"}
        found = {"id": "9f0c5a1be2d34c77", "name": "tickwheel", "node": 1, "nodes": [node, {**node, "node": 2, "planner": False}],
                 "partitions": [{"partition": n, "state": "active", "epoch": 7, "behind": 0, "owner": 1 + n % 2, "planned": 1,
                                 "standbys": [2 - n % 2]} for n in range(3)]}
        self.browser.ask("Page.addScriptToEvaluateOnNewDocument", source="""(() => {
          const ask = window.fetch;
          window.found = %s;
          window.fetch = (path, options) => path === "/v1/cluster" ? Promise.resolve(Response.json(window.found)) : ask(path, options);
        })()""" % json.dumps(found))
        self.browser.open(self.url)
        self.sees("Nodes of tickwheel, seen from node 1")
        self.see("/1\\talive, makes the plan\\t127.0.0.1:8463\\ta\\t2\\t1\\t2 %/.test(document.body.innerText)", "the first node")
        self.sees("another node than the plan says: 1.")
        self.browser.run("found.nodes[1].drained = true")
        self.see("/2\\tdrains\\t/.test(document.body.innerText)", "that a node gives its partitions up")
        self.browser.run("found.partitions[1].owner = 1")
        self.see("/2\\tdrained, takes no partition\\t/.test(document.body.innerText)", "that it owns nothing, and runs")
        self.browser.run("found.nodes[1].drained = false")
        self.browser.run("found.nodes[1].alive = false")
        self.see("/2\\tdead\\t.*\\t0\\t2\\t/.test(document.body.innerText) && "
                 "!document.body.innerText.includes('another node than')", "that a node died")
        self.browser.run("found.nodes[1].stopping = true")
        self.see("/2\\tdrained\\t/.test(document.body.innerText)", "that a node was stopped, and is not dead")
        self.assertEqual(self.browser.run("document.querySelectorAll('td .bad').length"), 0)
        self.keep_picture("cluster", captureBeyondViewport=True)

    # proves: dashboard
    def test_a_search_goes_on_by_itself(self):
        """Goal: a search whose pages are empty says how far it got, and goes on until it finds. Method: the first pages of
        the daemon are replaced in the browser."""
        self.create(key="find-the-needle")
        self.browser.open(f"{self.url}#/timers")
        self.see("document.querySelector('[name=key_contains]')", "the search")
        self.browser.run("""(() => {
            const real = window.fetch, pages = [60000, 60001];
            window.fetch = async (resource, options) => {
              if (!String(resource).includes("/v1/timers?") || !String(resource).includes("needle")) return real(resource, options);
              const searched = pages.shift();
              if (searched === undefined) await new Promise((resolve) => { window.goOn = resolve; });
              else return new Response(JSON.stringify({timers: [], next: "01", searched}), {headers: {"Content-Type": "application/json"}});
              return real(String(resource).replace(/&?cursor=[^&]*/, ""), options);
            }; })()""")
        self.type("key_contains", "needle")
        self.press("Search")
        self.see("document.body.innerText.includes('120,001 timers looked at')", "how far the search got")
        self.browser.run("window.goOn()")
        self.see("document.querySelectorAll('tbody tr').length === 1 && document.body.innerText.includes('find-the-needle') && "
                 "!document.body.innerText.includes('Searching')", "what was found")

    # proves: dashboard
    def test_data_is_shown_and_changed_as_it_is(self):
        """Goal: a search finds what is there, and a timer that is edited keeps what was not edited, byte for byte. What is
        at risk: numbers beyond 2^53 or with a point, the order and names of members, separators within labels and events."""
        lines = "".join(json.dumps({"after": "1h", "target": "queue:many", "key": f"order-{n}"}) + "\n" for n in range(6000))
        self.daemon.call("POST", "/v1/timers/batch", lines, NDJSON)
        exact = '{"big":9007199254740993,"point":1.0,"2":[],"1":{},"__proto__":{"far":1e400},"text":"\\u0041"}'
        labels = {"urn:team": "a,b", "said": 'he: "no"', "plain": "x:y", " led": " "}
        source = self.create(target="queue:exact", after="2h", watch=["a,b", "c:d"], labels=labels)["id"]
        self.daemon.call("PATCH", f"/v1/timers/{source}", '{"payload":%s}' % exact)
        raw = lambda path: self.browser.run(f"fetch({json.dumps(path)}).then((answer) => answer.text())")
        self.browser.open(f"{self.url}#/timers?key_prefix=order-5999")
        self.see("document.querySelectorAll('tbody tr').length === 1", "the timer that is searched")
        self.assertRegex(self.browser.run("document.querySelector('time').title"), r"^\w{3} \d+ \w{3}, \d{4}-.*Z, UTC$")
        kept = re.search(r'"payload":(.*),"labels"', raw(f"/v1/timers/{source}")).group(1)
        self.assertIn("9007199254740993", kept)
        self.go(f"new?from={source}")
        self.see("document.querySelector('[name=labels]')?.value", "the form")
        self.press("Make the timer")
        self.see("document.body.innerText.includes('It is made')", "the new timer")
        made = self.browser.run("document.querySelector('.message a').textContent")
        self.go(f"timers/{source}")
        self.press("Change")
        self.see("document.querySelector('dialog [name=target]')", "the dialog")
        self.type("target", "queue:changed")
        self.press("Change it")
        self.see("document.body.innerText.includes('It is changed.')", "the change")
        for timer in (made, source):
            shown = self.daemon.call("GET", f"/v1/timers/{timer}")[2]
            self.assertEqual((shown["labels"], shown["watch"]), (labels, ["a,b", "c:d"]))
            self.assertEqual(re.search(r'"payload":(.*),"labels"', raw(f"/v1/timers/{timer}")).group(1), kept)
        changed = self.browser.run("""import("./ui/change.js").then(({changed, labelsOf, payloadText}) =>
            import("./ui/exact.js").then(({parse, stringify}) => {
              const timer = {target: "queue:x", labels: {"a:b": "c,d"}, payload: parse('{"n": 9007199254740993, "m": 1.0}')};
              const given = {target: "queue:x", labels: `${labelsOf(timer)}, e:"f,g":h`.replace(":h", ""),
                             payload: payloadText(timer).replace("993", "994")};
              return stringify(changed(timer, given));
            }))""")
        self.assertEqual(changed, '{"labels":{"e":"f,g"},"payload":{"n":9007199254740994}}')

    # proves: dashboard
    def test_below_a_path_and_before_the_daemon(self):
        """Goal: behind a proxy that publishes the daemon below a path every request stays below it; and a page that was
        opened while the daemon did not answer shows its data once it does."""
        daemon, outside = self.daemon, []

        class Proxy(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if not self.path.startswith("/at/timers/"):
                    outside.append(self.path)
                    self.send_error(404)
                    return
                if self.path.startswith("/at/timers/v1/events"):
                    self.send_error(503)
                    return
                status, fields, _ = daemon.call("GET", self.path[len("/at/timers"):])
                text = daemon.call("GET", self.path[len("/at/timers"):])[2]
                data = (text if isinstance(text, str) else json.dumps(text)).encode()
                self.send_response(status)
                self.send_header("Content-Type", fields["content-type"])
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
        self.addCleanup(proxy.server_close)
        self.addCleanup(proxy.shutdown)
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        self.browser.ask("Page.addScriptToEvaluateOnNewDocument", source="""(() => {
          const ask = window.fetch;
          window.isAway = true;
          window.fetch = (...how) => isAway ? Promise.reject(new TypeError("Failed to fetch")) : ask(...how);
        })()""")
        self.browser.open(f"http://127.0.0.1:{proxy.server_address[1]}/at/timers/ui")
        self.sees("The daemon is not reachable. This page tries again.")
        self.browser.run("isAway = false")
        self.see("document.body.innerText.includes('On time')", "the overview")
        self.assertIn("/at/timers/v1/", self.browser.run("import('./ui/api.js').then(({curlOf}) => curlOf('GET', '/v1/timers'))"))
        self.assertEqual([path for path in outside if path != "/favicon.ico"], [])

    # proves: dashboard
    def test_past(self):
        """Goal: the page has a past when it opens, of which a pointer names the values, and a figure that is zero takes no card.
        Method: timers wait before the page is opened; the charts of each window show how many."""
        for _ in range(3):
            self.create(target="queue:idle", after=0)
        harness.wait_until(lambda: any(point["waiting"].get("worker") == 3
                                       for point in self.call(200, "GET", "/v1/history")[1]["points"]), 30, "a sample")
        self.browser.open(self.url)
        legend = "document.querySelector('figure:nth-of-type({}) .legend').innerText"
        self.see("document.querySelector('.charts')?.parentElement.hidden === false", "the charts")
        for window in ("7 days", "24 hours", "1 hour"):
            self.press(window)
            self.see(f"document.activeElement.textContent === '{window}'", "the focus")
            self.see(f"/a worker\\s+3/.test({legend.format(3)})", "what waits")
            self.assertEqual(self.browser.run("document.querySelectorAll('figure svg.chart').length"), 3)
        self.assertNotIn("dead", self.browser.run(legend.format(1)))
        self.see("document.querySelectorAll('figure:nth-of-type(3) text').length > 4", "axes")
        self.browser.run("""(() => {
          const svg = document.querySelector('figure:nth-of-type(3) svg'), {left, top} = svg.getBoundingClientRect();
          svg.dispatchEvent(new PointerEvent('pointermove', {clientX: left + 60, clientY: top + 20}));
        })()""")
        self.see(f"/a worker\\s+–/.test({legend.format(3)})", "no value of the time before")
        self.see("document.querySelector('figure:nth-of-type(3) .pointed')", "where the pointer is")
        self.see("/Pending\\s+3/.test(document.body.innerText)", "a card")
        self.see("/Due, for workers\\s+3/.test(document.body.innerText)", "those due, where their link has them")
        self.assertNotIn("Due, to be sent", self.text())
        self.assertEqual(self.browser.run("[...document.querySelectorAll('svg.chart text')].filter((text) => text.getBBox().x < 0)"
                                          ".map((text) => text.textContent)"), [], "labels that are cut")
        self.assertNotIn("Breakers open", self.text())
        self.see("document.querySelector('.waits')?.innerText.includes('No worker asks for items of queue:idle.')", "who waits")
        self.browser.run("document.querySelector('.waits a').click()")
        self.see("location.hash === '#/queues/idle' && document.querySelector('h1').textContent", "where the link leads")

    # proves: dashboard, alerts
    def test_runbooks(self):
        """Goal: the link of each alert opens its section on the daemon, which loads nothing from elsewhere."""
        rules = os.path.join(os.path.dirname(__file__), "..", "..", "packaging", "prometheus", "tickwheel.rules.yml")
        with open(rules, encoding="utf-8") as file:
            anchors = re.findall(r"/ui/runbooks#(\w+)", file.read())
        status, headers, page = self.daemon.call("GET", "/ui/runbooks")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'self'", headers["Content-Security-Policy"])
        self.assertEqual(set(re.findall(r'<h2 id="([^"]+)"', page)), set(anchors))
        self.assertEqual(set(re.findall(r'(?:src|href)="([^#"]+)"', page)), {"style.css", "icon.svg", "../ui"})
        self.assertLessEqual(set(re.findall(r'href="#([^"]+)"', page)), set(anchors))
        self.assertNotIn("<script", page)
        for tag in ("ul", "ol", "table", "pre", "div", "li", "p", "td", "code"):
            self.assertEqual(len(re.findall(f"<{tag}[ >]", page)), page.count(f"</{tag}>"), tag)
        self.browser.open(f"http://127.0.0.1:{self.daemon.port}/ui/runbooks#{anchors[-1]}")
        self.see("document.querySelector(':target')?.getBoundingClientRect().top < innerHeight", "the section")
        self.see("getComputedStyle(document.body).fontFamily.includes('system-ui')", "the style sheet")

    # proves: dashboard
    def test_headers(self):
        """Goal: no other site may frame the page, and no file of the page comes from elsewhere."""
        sizes = [len(zlib.compress(self.daemon.call("GET", path)[2].encode())) for path in self.files()]
        print(f"{len(sizes)} files of the page, compressed: {sum(sizes)} bytes")
        self.assertGreater(len(sizes), 10)
        self.assertLess(sum(sizes), 300 << 10)
        for path in ("/ui", "/ui/app.js", "/ui/style.css", "/ui/icon.svg"):
            status, headers, body = self.daemon.call("GET", path)
            self.assertEqual(status, 200, path)
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertNotRegex(body.replace("http://www.w3.org/2000/svg", ""), r"https?://(?!shop\.example)", path)
        status, headers, _ = self.daemon.call("GET", "/ui/")  # the path that a proxy put before it stays
        self.assertEqual((status, headers["Location"]), (308, "../ui"))
        for path in ("/ui/nothing.js", "/ui/..%2fapi.c", "/ui/index.html/x"):
            self.assertEqual(self.daemon.call("GET", path)[0], 404, path)


    def files(self):
        """The files of the page: those that it names, and those that they import."""
        found = ["/ui"]
        for path in found:
            text = self.daemon.call("GET", path)[2]
            found += [file for file in dict.fromkeys(
                [f"/{name}" for name in re.findall(r'"(ui/[^"]+)"', text)] + [f"/ui/{name}" for name in re.findall(r'from "\./([^"]+)"', text)])
                if file not in found]
        return found


class SourcesTest(DashboardCase):
    flags = ("--sources", "shop=postgres://nobody@127.0.0.1:1/shop")

    # proves: dashboard
    def test_sources_that_are_not_read(self):
        """Goal: the first page counts the sources that stand still."""
        self.browser.open(self.url)
        self.see("/Sources not read\\s+1/.test(document.body.innerText)", "a card")


if __name__ == "__main__":
    unittest.main()
