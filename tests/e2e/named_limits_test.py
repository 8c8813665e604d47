#!/usr/bin/env python3
"""How the real daemon keeps the limits of a named target: a slow receiver never has more at a time than it allows, a change
holds while timers wait, starts keep the rate, and explain names both. The receiver is a thread of this test that holds each
request until the test lets it go."""

import os
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import TokensCase, bearer
from flow_limits_test import Slow

PATH = "/v1/named-targets/billing"
ABSENT = object()


class NamedLimitsTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.slow = Slow()
        self.addCleanup(self.slow.close)
        self.start()

    def start(self, *flags):
        self.daemon = harness.Daemon(self.data, "--partitions", "4", "--shards", "2", *flags)
        self.addCleanup(self.daemon.close)
        harness.wait_until(self.daemon.is_ready, 20, "ready")

    def define(self, limits=ABSENT, expected=200):
        body = {"url": self.slow.url("")} | ({} if limits is ABSENT else {"limits": limits})
        status, _, answer = self.daemon.call("PUT", PATH, body)
        self.assertEqual(status, expected, answer)
        return answer

    def create(self, count, path="/a"):
        lines = [{"after": "0s", "target": "billing:" + path} for _ in range(count)]
        return [self.daemon.call("POST", "/v1/timers", line)[2] for line in lines]

    def explain(self, timers):
        return [self.daemon.call("GET", f"/v1/timers/{timer['id']}/explain")[2] for timer in timers]

    def wait_for_reason(self, timers, reason, count):
        def find():
            found = [text for text in self.explain(timers) if text.get("waiting", {}).get("for") == reason]
            return found if len(found) >= count else None

        return harness.wait_until(find, 20, f"{count} wait for {reason}")

    def wait_for_open(self, count, path="/a"):
        harness.wait_until(lambda: self.slow.open.get(path, 0) == count, 20, f"{count} are open")

    # proves: named-target-limits, named-target-change
    def test_a_slow_receiver_has_no_more_than_the_limit(self):
        """Two of twelve at a time; four from the change on, that is made while they wait; again two after a restart."""
        self.assertEqual(self.define({"concurrency": 2}, 201)["limits"], {"concurrency": 2})
        timers = self.create(12)
        self.wait_for_open(2)
        self.wait_for_reason(timers, "target-limit", 10)
        waiting = next(text for text in self.explain(timers) if text["where"] == "waiting")
        self.assertEqual((waiting["target"]["origin"], waiting["target"]["deliveries"], waiting["target"]["deliveries_max"]),
                         ("billing:", 2, 2))
        self.assertIn("2 deliveries to billing: are in flight, as many as its limit allows.", waiting["explanation"])
        self.slow.gate.release(2)
        harness.wait_until(lambda: self.slow.count == 2, 20, "two ended")
        self.wait_for_open(2)
        self.assertEqual(self.slow.most, {"/a": 2})
        self.define({"concurrency": 4})
        self.wait_for_open(4)
        self.slow.gate.release(4)
        harness.wait_until(lambda: self.slow.count == 6, 20, "six ended")
        self.wait_for_open(4)
        self.define({"concurrency": 1})
        self.slow.gate.release(4)
        harness.wait_until(lambda: self.slow.count == 10, 20, "ten ended")
        self.wait_for_open(1)
        self.slow.gate.release(2)
        harness.wait_until(lambda: self.slow.count == 12, 20, "all of them")
        self.assertEqual(self.slow.most, {"/a": 4})
        self.daemon.signal(signal.SIGKILL)
        self.start()
        self.assertEqual(self.daemon.call("GET", PATH)[2]["limits"], {"concurrency": 1})
        self.create(3, "/b")
        self.wait_for_open(1, "/b")
        self.define()
        self.wait_for_open(3, "/b")
        self.assertNotIn("limits", self.daemon.call("GET", PATH)[2])

    # proves: named-target-limits
    def test_the_settings_are_the_most(self):
        """A limit beyond that of the setting has no effect."""
        self.daemon.close()
        self.start("--target-deliveries-max", "2")
        self.define({"concurrency": 3}, 201)
        timers = self.create(6)
        self.wait_for_open(2)
        self.assertEqual({text["target"]["deliveries_max"] for text in self.explain(timers) if "deliveries_max" in text["target"]}, {2})
        self.slow.gate.release(100)
        harness.wait_until(lambda: self.slow.count == 6, 20, "all of them")
        self.assertEqual(self.slow.most, {"/a": 2})

    # proves: named-target-limits
    def test_starts_keep_the_rate(self):
        """Five a second, of all partitions together. One an hour holds all but the first, until the limit is taken away."""
        self.slow.gate.release(100)
        self.define({"rate": "5/s"}, 201)
        self.create(6)
        harness.wait_until(lambda: self.slow.count == 6, 20, "all of them")
        starts = sorted(at for at, _ in self.slow.starts)
        self.assertGreater(starts[-1] - starts[0], 5 * 0.2 - 0.1)
        self.define({"rate": "1/h", "concurrency": 3})
        timers = self.create(4)
        texts = self.wait_for_reason(timers, "rate", 3)
        self.assertIn("billing: gets at most 1/h by its `limits`", texts[0]["explanation"])
        self.define()
        harness.wait_until(lambda: self.slow.count == 10, 20, "the others")

    # proves: named-target-limits, named-target-concurrency
    def test_refused(self):
        def refuse(limits, pointer):
            answer = self.define(limits, 422)
            self.assertEqual([each["pointer"] for each in answer["errors"]], [pointer], answer)

        for wrong in 0, 100001, -1, 1.5, "2", None, [], 10**30:
            refuse({"concurrency": wrong}, "#/limits/concurrency")
        for wrong in "0/s", "10", "10/w", "/s", "01/s", "10/s ", "1000000/s", "9" * 200 + "/s", 10, None, {}, "1\u0000/s":
            refuse({"rate": wrong}, "#/limits/rate")
        refuse({"more": 1}, "#/limits/more")
        for wrong in [], 5, None, "10/s":
            refuse(wrong, "#/limits")
        self.assertEqual(self.define({"concurrency": 100000, "rate": "999999/d"}, 201)["limits"],
                         {"concurrency": 100000, "rate": "999999/d"})
        self.assertNotIn("limits", self.define({}))


class TenantsTest(TokensCase):
    # proves: named-target-limits
    def test_each_tenant_has_its_own(self):
        """The limits of a tenant's target are not those of another tenant's target of the same name."""
        for name, tenant in ("a", "shop"), ("b", "bank"):
            self.token(name, tenant, "schedule,read,admin")
        self.write_tokens()
        daemon, slow = self.start(), Slow()
        self.addCleanup(slow.close)
        for name, count in ("a", 1), ("b", 3):
            body = {"url": slow.url("/" + name), "limits": {"concurrency": count}}
            self.assertEqual(daemon.call("PUT", PATH, body, bearer(self.tokens[name]))[0], 201)
        for name in ("a", "b") * 5:
            daemon.call("POST", "/v1/timers", {"after": "0s", "target": "billing:/x"}, bearer(self.tokens[name]))
        for path, count in ("/a/x", 1), ("/b/x", 3):
            harness.wait_until(lambda path=path, count=count: slow.open.get(path, 0) == count, 20, path)
        slow.gate.release(100)
        harness.wait_until(lambda: slow.count == 10, 20, "all of them")
        self.assertEqual(slow.most, {"/a/x": 1, "/b/x": 3})


if __name__ == "__main__":
    unittest.main(verbosity=2)
