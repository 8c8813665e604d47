#!/usr/bin/env python3
"""Goal: the log of a cluster behaves with a real Apache Kafka as with librdkafka's own broker. Method:
log_kafka_test and log_kafka_once_test, run against one, without the tests in which the broker fails."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import harness


class KafkaLogTest(unittest.TestCase):
    def check(self, name, tests, skipped):
        """Each test has a topic; those in which the broker fails are skipped."""
        program = os.path.join(harness.BUILD, "src", "log", name)
        with broker_servers.Kafka() as broker:
            for i in range(tests):
                broker.create_topic(f"log-{i}", "message.timestamp.type=LogAppendTime")
            done = subprocess.run([program], env=dict(os.environ, LOG_KAFKA_BROKERS=f"127.0.0.1:{broker.port}"),
                                  capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("[       OK ]"), tests - skipped, done.stdout)

    def test_a_real_broker(self):
        self.check("log_kafka_test", 13, 7)

    def test_transactions(self):
        self.check("log_kafka_once_test", 7, 3)


if __name__ == "__main__":
    broker_scenario.main(KafkaLogTest, broker_servers.Kafka)
