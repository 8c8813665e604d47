#!/usr/bin/env python3
"""A fatal error of Kafka's idempotent producer (ERR__FATAL), after which it takes no message any more, loses none.

Method: the real daemon, and librdkafka's own broker in memory, which answers as a broker does that lost a message. That
broker does not look at sequence numbers: it could take a message behind one that it refused, and the producer would count
the refused one as written, which is right beside a real broker. So its connection is closed behind the last refusal. The
error that versions before 2.3 are known for (https://github.com/confluentinc/librdkafka/pull/4438): a message that may
have been written counts as written, so the refusal of the next one seems to be a broken sequence. Every version gives up
when the first message in flight is out of order."""

import os
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import harness

# Error codes of Kafka's protocol.
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
CLOSED = -195  # ERR__TRANSPORT: instead of an answer the connection is closed
INFLIGHT_MAX = 5  # requests of an idempotent producer
ROUNDS = 5


class KafkaFatalTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, folder)
        self.broker = broker_servers.KafkaMock()
        self.addCleanup(self.broker.__exit__)
        self.broker.start()
        # Each message is a request of its own, so that several are in flight.
        self.daemon = harness.Daemon(folder, "--broker-connections",
                                     f"main={self.broker.url()}?batch.num.messages=1&linger.ms=0")
        self.addCleanup(self.daemon.close)
        harness.wait_until(self.daemon.is_ready, 20, "ready")
        self.ids = []
        self.deliver(1)

    def deliver(self, count):
        """Creates timers that are due at once; they and all before arrive."""
        for number in range(count):
            status, _, timer = self.daemon.call("POST", "/v1/timers", {
                "after": 0, "target": self.broker.target(), "payload": number, "retry": {"base": "10ms", "cap": "1s"}})
            self.assertEqual(status, 201, timer)
            self.ids.append(timer["id"])
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_fired_total") == len(self.ids), 120,
                           "every timer has fired")
        self.assertEqual({harness.timer_id_of(fields["webhook-id"]) for fields, _, _ in self.broker.received()},
                         set(self.ids))

    def has_broken(self):
        """Whether the log has told of a fatal error."""
        return "event=broker_connected broker=main kind=kafka lost=\"ProduceRequest " in self.daemon.output()

    def version(self):
        with harness.Program([harness.find("tickwheeld"), "--version"]) as program:
            program.process.wait()
            return tuple(map(int, re.search(r"librdkafka (\d+)\.(\d+)", program.output()).groups()))

    # proves: at-least-once
    def test_the_known_error(self):
        """One message may have been written; those in flight behind it are refused, since it was not. Once more, with a
        longer delay, until they were in flight together."""
        delay_ms = 250
        while True:
            self.broker.fail(f"{NOT_ENOUGH_REPLICAS_AFTER_APPEND}:{delay_ms}",
                             *[OUT_OF_ORDER_SEQUENCE_NUMBER] * (INFLIGHT_MAX - 1), CLOSED)
            self.deliver(20)
            if self.version() >= (2, 3):  # mended
                return
            if harness.happens(self.has_broken, 5):
                return
            delay_ms *= 2
            self.assertLess(delay_ms, 10000)

    # proves: at-least-once
    def test_again_and_again(self):
        for _ in range(ROUNDS):
            self.broker.fail(*[OUT_OF_ORDER_SEQUENCE_NUMBER] * INFLIGHT_MAX, CLOSED)
            self.deliver(50)
        harness.wait_until(self.has_broken, 30, "a fatal error")


if __name__ == "__main__":
    broker_scenario.main(KafkaFatalTest, broker_servers.KafkaMock)
