#!/usr/bin/env python3
"""Kafka, against a real Apache Kafka in KRaft mode that is killed in the middle. See broker_scenario.py."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers


class KafkaTest(broker_scenario.Scenario):
    server_class = broker_servers.Kafka
    patience = "5s"

    def stop_broker(self):
        self.broker.stop(signal.SIGKILL)

    def refused_targets(self):
        return [("kafka://main/", "no topic"), ("kafka://main/a%20b", "letters"),
                ("kafka://main/..", "letters")]

    def test_keys(self):
        """Goal: messages of one key are in one partition, others are spread; the key is decoded."""
        self.broker.start()
        daemon = self.start()
        timers = [self.create(daemon, after=0, target=self.broker.target() + f"?key=order%2F{i % 3}")
                  for i in range(60)]
        for timer in timers:
            self.wait_until_over(daemon, timer, "fired")
        found = self.broker.messages()
        self.assertEqual(len(found), 60)
        self.assertEqual({key for _, _, key, _, _ in found}, {b"order/0", b"order/1", b"order/2"})
        for wanted in {key for _, _, key, _, _ in found}:
            self.assertEqual(len({part for _, part, key, _, _ in found if key == wanted}), 1)

    def test_a_topic_that_does_not_exist(self):
        """Goal: a topic that is missing counts as not delivered, at once, and delays no other."""
        self.broker.start()
        daemon = self.start()
        wrong = [self.create(daemon, after=0, target=self.broker.target("missing"),
                             retry={"max_attempts": 2, "base": "10ms", "cap": "20ms"}) for _ in range(200)]
        right = self.create(daemon, after=0)
        self.wait_until_over(daemon, right, "fired")
        for timer in wrong:
            self.assertIn("Unknown topic", self.wait_until_over(daemon, timer, "dead")["last_error"])

    def test_too_large(self):
        """Goal: a message that the topic does not take is tried again and then dead; others go on."""
        self.broker.start()
        self.broker.create_topic("small", "max.message.bytes=2000")
        daemon = self.start()
        wrong = self.create(daemon, after=0, target=self.broker.target("small"), payload="x" * 5000,
                            retry={"max_attempts": 2, "base": "10ms", "cap": "20ms"})
        right = self.create(daemon, after=0, target=self.broker.target("small"), payload="x")
        self.assertIn("too large", self.wait_until_over(daemon, wrong, "dead")["last_error"])
        self.wait_until_over(daemon, right, "fired")

    def test_tls(self):
        """Goal: see check_tls. Not trusted: an authority that is not known, and a name that is not in the
        certificate."""
        server = broker_servers.KafkaTls()
        self.check_tls(server, server.target(),
                       f"kafka://127.0.0.1:{server.tls_port}?security.protocol=ssl",
                       server.url().replace("127.0.0.1", "localhost"))


if __name__ == "__main__":
    broker_scenario.main(KafkaTest, broker_servers.Kafka)
