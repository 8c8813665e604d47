#!/usr/bin/env python3
"""Goal: a timer that is fired by hand comes at once, and otherwise lives on as it was. Method: timers in every state,
and a kill -9 behind each answer."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness
from daemon_case import ms_of

NEVER = "06h03ahh340000000400000000"


class FireTest(daemon_case.DaemonCase):
    def lease(self, queue, count=10):
        return self.call(200, "POST", f"/v1/queues/{queue}/lease", {"max": count, "wait": 0, "lease": "1m"})[1]["items"]

    # proves: fire, bulk-fire
    def test_it_is_due_now_also_after_kill_9(self):
        """Nobody leases the items before the daemon was killed."""
        one, *_ = made = [self.create(target="queue:a", after="30d", **more) for more in (
            {}, {"key": "k"}, {"key": "l", "labels": {"x": "y"}}, {"key": "m"})]
        fields, fired = self.call(200, "POST", f"/v1/timers/{one['id']}/fire", None, {"If-Match": '"1"'})
        self.assertEqual((fields["ETag"], fired["version"], fired["state"]), ('"2"', 2, "scheduled"))
        self.assertLess(abs(ms_of(fired["due"]) - time.time() * 1000), 60000)
        self.assertEqual(self.call(200, "POST", "/v1/keys/k/fire", None, {"If-Match": '"1"'})[0]["ETag"], '"2"')
        answer = self.call(200, "POST", "/v1/timers/fire", {"labels": {"x": "y"}, "keys": ["m", "nobody"]})[1]
        self.assertEqual((answer["fired"], [each["status"] for each in answer["failures"]]), (2, [404]))
        self.restart()
        self.assertEqual(sorted(item["id"] for item in self.lease("a")), sorted(timer["id"] for timer in made))

    # proves: fire
    def test_a_timer_that_repeats_keeps_its_schedule(self):
        """The firing by hand comes beside those that are planned, and is not counted among them."""
        timer = self.create(every="1h", at="2031-01-01T00:00:00Z", count=2)
        for times in (1, 2):
            self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")
            self.wait_for_arrivals(timer, times)
            harness.wait_until(lambda: self.get(timer)[2]["due"] == timer["due"], 20, "the next planned firing")
        shown = self.get(timer)[2]
        self.assertEqual((shown["state"], len(shown["runs"])), ("scheduled", 2))
        self.assertEqual(len({each.webhook_id for each in self.arrivals_of(timer)}), 2)

    # proves: fire
    def test_a_retry_comes_at_once(self):
        """Its due time and its attempts stay."""
        timer = self.create("/status/500", after=0, retry={"base": "1d", "cap": "1d", "max_attempts": 2})
        waiting = self.await_state(timer, "retrying")
        fired = self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")[1]
        self.assertEqual((fired["due"], fired["attempts"]), (waiting["due"], 1))
        self.assertEqual([each.attempt for each in self.wait_for_arrivals(timer, 2)], [1, 2])
        self.await_state(timer, "dead")

    # proves: fire-refused, fire
    def test_what_cannot_fire(self):
        """A delivery that has begun, what is over, another version, and what is not there: nothing changes."""
        hanging, fired = self.create("/hang", after=0), self.create(after=0, key="f")
        dead = self.create("/gone", after=0)
        for timer, state, status in ((hanging, "delivering", 409), (fired, "fired", 410), (dead, "dead", 410)):
            before = self.await_state(timer, state)
            self.call(status, "POST", f"/v1/timers/{timer['id']}/fire")
            self.assertEqual(self.await_state(timer, state), before)
        self.call(410, "POST", "/v1/keys/f/fire")
        waiting = self.create(key="w")
        for path in (f"/v1/timers/{waiting['id']}/fire", "/v1/keys/w/fire"):
            self.call(412, "POST", path, None, {"If-Match": '"2"'})
            self.call(400, "POST", path, None, {"If-Match": "2"})
        self.assertEqual(self.get(waiting)[2], waiting)
        self.create("/hang", after=0, key="h")
        harness.wait_until(lambda: self.daemon.call("POST", "/v1/keys/h/fire")[0] == 409, 20, "it is being delivered")
        for path in (f"/v1/timers/{NEVER}/fire", "/v1/timers/x/fire", "/v1/keys/nobody/fire"):
            self.call(404, "POST", path)


if __name__ == "__main__":
    unittest.main()
