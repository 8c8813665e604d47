#!/usr/bin/env python3
"""What an operator sees of firings that failed for good. Method: a daemon, a receiver that answers as its path says, and
the log of events, the metrics and the calls beside each other."""

import json
import os
import re
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness

GIVEN_UP = re.compile(r"event=(timer_dead|firing_given_up) (.*)")
PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^ "]*)(?: |$)')
ONCE = {"max_attempts": 1}


class GivenUpLogTest(daemon_case.DaemonCase):
    def lines(self):
        """The lines of the log on firings that were given up: their event and pairs."""
        return [{"event": found[1], **{key: value[1:-1] if value[0] == '"' else value for key, value in PAIR.findall(found[2])}}
                for found in map(GIVEN_UP.search, self.daemon.output().splitlines()) if found]

    def lines_of(self, timer, count):
        harness.wait_until(lambda: len([line for line in self.lines() if line["id"] == timer["id"]]) >= count,
                           20, f"{count} lines of {timer['id']}")
        return [line for line in self.lines() if line["id"] == timer["id"]]

    # proves: given-up-log
    def test_one_line_for_each_firing_given_up(self):
        """A timer that dies has one line; one that repeats has a line for each firing, with the time of the next."""
        origin = self.receiver.url("")
        dead = self.create("/status/500", after=0, retry=ONCE, key='a "key"')
        refused = self.create("/gone", after=0)
        fired = self.create(after=0)
        repeated = self.create("/status/500", every="100ms", retry=ONCE, key="report")
        line, = self.lines_of(dead, 1)
        self.assertEqual((line["event"], line["key"], line["origin"], line["attempts"]),
                         ("timer_dead", 'a \\"key\\"', origin, "1"))
        self.assertIn("500", line["error"])
        self.assertEqual(self.lines_of(refused, 1)[0]["event"], "timer_dead")
        failed = self.lines_of(repeated, 3)
        for line, following in zip(failed, failed[1:]):
            self.assertEqual((line["event"], line["key"], line["next"]), ("firing_given_up", "report", following["due"]))
        self.assertEqual(self.get(repeated)[0], 200)
        self.call(200, "DELETE", f"/v1/timers/{repeated['id']}")
        self.await_state(fired, "fired")
        harness.wait_until(lambda: self.daemon.metric("tickwheel_firings_given_up_total") == len(self.lines()), 20,
                           "a line for each")
        self.assertEqual(len(self.lines_of(dead, 1)), 1)
        self.assertFalse([line for line in self.lines() if line["id"] == fired["id"]])

    # proves: given-up-log, given-up-lines
    def test_many_deaths_cost_few_lines(self):
        """Thousands die at once: 100 lines a second, and with `more` they count all of them."""
        count, begun = 5000, time.monotonic()
        lines = json.dumps({"after": 0, "target": self.receiver.url("/gone")}) + "\n"
        self.call(200, "POST", "/v1/timers/batch", lines * count, {"Content-Type": "application/x-ndjson"})

        def told():
            return sum(1 + int(line.get("more", 0)) for line in self.lines())
        harness.wait_until(lambda: told() >= count, 60, "all deaths in the log")
        self.assertEqual(told(), count)
        self.assertLessEqual(len(self.lines()), 100 * (time.monotonic() - begun + 2))
        self.assertLess(len(self.lines()), count)


if __name__ == "__main__":
    unittest.main()
