#!/usr/bin/env python3
"""Timers that recur, on the real daemon: webhooks come as planned, through kill -9, and the preview says when.
Each test starts its own daemon on a free port and a data folder of its own."""

import datetime
import os
import shutil
import signal
import sys
import tempfile
import unittest
import zoneinfo

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness


class RecurrenceTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.receiver = harness.Receiver().__enter__()
        self.addCleanup(self.receiver.__exit__, None, None, None)
        self.daemon = self.start()

    def start(self):
        context = harness.Daemon(self.data)
        daemon = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    def create(self, expected=201, **fields):
        status, _, answer = self.daemon.call(
            "POST", "/v1/timers", {"target": self.receiver.url("/ok"), **fields})
        self.assertEqual(status, expected, answer)
        return answer

    # proves: every, timer-schedule, webhook-id
    def test_every_fires_as_planned_through_kill_9(self):
        timer = self.create(every="200ms", count=12, late={"missed": "each"})
        self.assertEqual(timer["schedule"], {"every": "200ms", "count": 12, "late": {"missed": "each"}})
        harness.wait_until(lambda: len(self.receiver.arrivals()) >= 3, 20, "3 webhooks")
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        gone = harness.wait_until(
            lambda: (answer := self.daemon.call("GET", f"/v1/timers/{timer['id']}"))[0] == 410 and answer,
            20, "410")
        self.assertEqual(gone[2]["timer"]["state"], "fired")
        arrivals = harness.wait_until(
            lambda: len({arrival.webhook_id for arrival in self.receiver.arrivals()}) >= 12
            and self.receiver.arrivals(), 20, "12 webhooks")
        planned = sorted({arrival.due_ms for arrival in arrivals})
        self.assertEqual([due - planned[0] for due in planned], [200 * i for i in range(12)])
        self.assertEqual(len({arrival.webhook_id for arrival in arrivals}), 12)
        for arrival in arrivals:
            self.assertGreaterEqual(arrival.at_us, arrival.due_ms * 1000)

    # proves: cron, timezone
    def test_cron_knows_zones(self):
        timer = self.create(cron="30 9 * * MON-FRI", timezone="America/New_York", dst="skip")
        due = datetime.datetime.fromisoformat(timer["due"].replace("Z", "+00:00"))
        local = due.astimezone(zoneinfo.ZoneInfo("America/New_York"))
        self.assertEqual((local.hour, local.minute, local.weekday() < 5), (9, 30, True))
        problem = self.create(422, cron="30 9 * * *", timezone="Mars/Olympus")
        self.assertEqual(problem["errors"][0]["pointer"], "#/timezone")
        self.create(422, cron="61 * * * *")
        self.create(422, after="1s", every="1s")

    def preview(self, query):
        return self.daemon.call("GET", f"/v1/schedule/preview?{query}")

    # proves: preview, preview-schedule
    def test_preview_says_when(self):
        status, _, answer = self.preview("cron=30+2+*+*+*&timezone=Europe/Berlin&after=2026-03-27T12:00:00Z&n=3")
        self.assertEqual((status, answer["instants"]), (200, [
            "2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]))
        status, _, answer = self.preview("every=1h&at=2030-01-01T00:00:00Z&count=2")
        self.assertEqual(answer["instants"], ["2030-01-01T00:00:00.000Z", "2030-01-01T01:00:00.000Z"])
        for query in ("", "n=1", "every=1h&n=0", "every=1h&n=1001", "every=x", "cron=*", "what=1",
                      "every=1h&after=x", "at=2030-01-01T00:00:00Z", "cron=*+*+*+*+*&timezone=Mars"):
            self.assertEqual(self.preview(query)[0], 422, query)


if __name__ == "__main__":
    unittest.main()
