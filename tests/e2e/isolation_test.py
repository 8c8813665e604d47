#!/usr/bin/env python3
"""One tenant or target cannot stop another, on the real daemon: failures that a client brought about itself, failing
paths and silent hosts beside healthy webhooks, whose lateness at the receiver is measured throughout."""

import json
import os
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import TokensCase, bearer

# A timer that is starved waits for time-outs of minutes, or for a pause of a breaker: it does not arrive within this at
# all. How late the others are, in milliseconds, is printed, and told in docs/reliability.md: a busy machine adds to it.
HEALTHY_LATE_MS_MAX = 10000


class Load:
    """Creates a timer each 1/rate s on a thread of its own, until it is stopped. It keeps when each create was answered:
    a timer that is acknowledged after its due time, as writes of others were before it, is late from then on only."""

    def __init__(self, case, token, rate, **fields):
        self.case, self.token, self.rate, self.fields = case, token, rate, fields
        self.made, self.is_stopping = {}, threading.Event()  # id -> when its create was answered
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        connection = self.case.daemon.connect()
        start = time.monotonic()
        while not self.is_stopping.wait(max(0, start + len(self.made) / self.rate - time.monotonic())):
            body = {"at": int(time.time() * 1000) + 500, "payload": {}, **self.fields}
            status, _, timer = self.case.daemon.call("POST", "/v1/timers", body, bearer(self.case.tokens[self.token]), connection)
            assert status == 201, timer
            self.made[timer["id"]] = time.time() * 1000

    def stop(self):
        self.is_stopping.set()
        self.thread.join()
        return self.made


class Silence:
    """Hosts that accept connections and never answer: listening sockets that the kernel accepts for."""

    def __init__(self, case, count):
        self.sockets = [socket.create_server(("127.0.0.1", 0), backlog=512) for _ in range(count)]
        for one in self.sockets:
            case.addCleanup(one.close)

    def urls(self):
        return [f"http://127.0.0.1:{one.getsockname()[1]}/" for one in self.sockets]


class IsolationTest(TokensCase):
    def setUp(self):
        super().setUp()
        self.token("a", "a")
        self.token("b", "b")
        self.token("operator", "-", "admin")
        self.write_tokens()
        self.receiver = harness.Receiver()
        self.addCleanup(self.receiver.close)
        self.daemon = self.start()

    def metric(self, name):
        return self.daemon.metric(name, bearer(self.tokens["operator"]))

    def on_time(self, made):
        """All timers arrive, and with a p99 below the bound."""
        def arrived():
            first = {harness.timer_id_of(one.webhook_id): one for one in reversed(self.receiver.arrivals())}
            return [first[one].at_us / 1000 - max(first[one].due_ms, answered)
                    for one, answered in made.items() if one in first]
        try:
            harness.wait_until(lambda: len(arrived()) == len(made), 20, "arrivals")
        except TimeoutError:
            pass
        late = arrived()
        print(f"{self.id()}: {len(late)} of {len(made)} arrived, p99 {harness.percentile(late, 0.99):.0f} ms late",
              file=sys.stderr)
        self.assertEqual(len(late), len(made))
        self.assertLess(harness.percentile(late, 0.99), HEALTHY_LATE_MS_MAX)

    # proves: target-isolation, breaker
    def test_short_time_outs_of_a_tenant_do_not_close_the_host_to_another(self):
        target = self.receiver.url("/slow/30")
        hostile = Load(self, "a", 40, target=target, retry={"timeout": "1ms", "max_attempts": 100, "cap": "1s"})
        harness.wait_until(lambda: self.metric("tickwheel_attempts_failed_total") >= 20, 20, "time-outs")
        healthy = [Load(self, token, 2, target=target) for token in ("a", "b")]
        harness.wait_until(lambda: len(healthy[1].made) >= 40, 40, "40 timers")
        made = {one: at for load in healthy for one, at in load.stop().items()}
        hostile.stop()
        self.on_time(made)

    # proves: target-isolation, breaker
    def test_a_failing_path_does_not_close_the_host(self):
        failing = Load(self, "a", 40, target=self.receiver.url("/status/500"), retry={"max_attempts": 3, "cap": "1s"})
        harness.wait_until(lambda: self.metric("tickwheel_attempts_failed_total") >= 20, 20, "failures")
        healthy = [Load(self, token, 2, target=self.receiver.url("/ok")) for token in ("a", "b")]
        harness.wait_until(lambda: len(healthy[0].made) >= 20, 40, "20 timers")
        made = {one: at for load in healthy for one, at in load.stop().items()}
        failing.stop()
        self.on_time(made)
        self.assertGreaterEqual(self.metric("tickwheel_breakers_open"), 1)  # of the path

    def flood(self, tokens, hosts, timers):
        """Timers that are due at once, for hosts that never answer, with time-outs of ten minutes."""
        for token in tokens:
            urls = Silence(self, hosts).urls()
            lines = "".join(json.dumps({"after": 0, "target": urls[i % hosts], "retry": {"timeout": "10m"}}) + "\n"
                            for i in range(timers))
            status, _, answer = self.daemon.call("POST", "/v1/timers/batch", lines, {
                **bearer(self.tokens[token]), "Content-Type": "application/x-ndjson"})
            self.assertEqual(status, 200, answer)

    def beside_silence(self, tokens, hosts, timers=5600):
        """Healthy timers of two tenants, to a target known before the flood and to a target that is new after it."""
        other = harness.Receiver()
        self.addCleanup(other.close)
        early = [Load(self, token, 15, target=self.receiver.url()) for token in ("a", "b")]
        # Each partition learns for itself which targets answer; 60 arrivals reach all four for both tenants.
        harness.wait_until(lambda: len(self.receiver.arrivals()) >= 60, 40, "the first arrivals")
        self.flood(tokens, hosts, timers)
        inflight = []

        def is_full():
            inflight.append(self.metric("tickwheel_deliveries_inflight"))
            return len(inflight) > 50 and inflight[-1] >= hosts and inflight[-1] <= inflight[-50] + 8
        harness.wait_until(is_full, 30, "silent deliveries in flight")
        late = [Load(self, token, 15, target=other.url()) for token in ("a", "b")]
        harness.wait_until(lambda: len(late[1].made) >= 50, 40, "50 timers")
        for loads, receiver in ((early, self.receiver), (late, other)):
            self.receiver = receiver
            self.on_time({one: at for load in loads for one, at in load.stop().items()})
        print(f"{self.id()}: {self.metric('tickwheel_deliveries_inflight'):.0f} in flight", file=sys.stderr)

    # proves: target-isolation
    def test_40_silent_hosts_of_one_tenant(self):
        self.beside_silence("a", 40)

    # proves: target-isolation
    def test_40_silent_hosts_of_two_tenants(self):
        self.beside_silence("ab", 40)

    # proves: target-isolation
    def test_400_silent_hosts_of_one_tenant(self):
        self.beside_silence("a", 400)

    # proves: target-isolation
    def test_400_silent_hosts_of_two_tenants(self):
        self.beside_silence("ab", 400)


if __name__ == "__main__":
    unittest.main()
