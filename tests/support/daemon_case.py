"""A test case with a daemon of its own and a receiver beside it, and words for what most tests of the API say."""

import datetime
import os
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import harness


def ms_of(text):
    """Milliseconds since 1970 of a time as the server writes it."""
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000 + 0.5)


class DaemonCase(unittest.TestCase):
    flags = ()  # of the daemon, for all tests of the class

    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.receiver = harness.Receiver()
        self.addCleanup(self.receiver.close)
        self.daemon = self.start()

    def start(self, *flags):
        daemon = harness.Daemon(self.data, *self.flags, *flags)
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    def restart(self, *flags):
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start(*flags)

    def call(self, expected, method, path, body=None, headers=None):
        status, fields, answer = self.daemon.call(method, path, body, headers)
        self.assertEqual(status, expected, f"{method} {path}: {answer}")
        return fields, answer

    def refused(self, pointer, **fields):
        problem = self.call(422, "POST", "/v1/timers", {"after": "1h", "target": self.receiver.url(), **fields})[1]
        self.assertEqual(problem["errors"][0]["pointer"], pointer, problem)

    def create(self, path="/ok", expected=201, **fields):
        fields.setdefault("target", self.receiver.url(path))
        if not {"after", "at", "every", "cron"} & set(fields):
            fields["after"] = "1h"
        return self.call(expected, "POST", "/v1/timers", fields)[1]

    def get(self, timer):
        return self.daemon.call("GET", f"/v1/timers/{timer['id']}")

    def state(self, timer):
        status, _, answer = self.get(timer)
        return answer["timer"]["state"] if status == 410 else answer.get("state", status)

    def await_state(self, timer, state):
        harness.wait_until(lambda: self.state(timer) == state, 20, f"{timer['id']} is {state}")
        status, _, answer = self.get(timer)
        return answer["timer"] if status == 410 else answer

    def wait_for_arrivals(self, timer, count=1):
        """At least `count` webhooks of it, once the receiver has recorded them."""
        harness.wait_until(lambda: len(self.arrivals_of(timer)) >= count, 20, f"{count} webhooks of {timer['id']}")
        return self.arrivals_of(timer)

    def arrivals_of(self, timer):
        return [each for each in self.receiver.arrivals() if harness.timer_id_of(each.webhook_id) == timer["id"]]

    def listed(self, query, path="/v1/timers"):
        """The ids of all pages."""
        found, where = [], f"{path}?{query}"
        while where:
            page = self.call(200, "GET", where)[1]
            found += [timer["id"] for timer in page["timers"]]
            where = page["next"] and f"{path}?{query}&cursor={page['next']}"
        return found
