#!/usr/bin/env python3
"""Goal: what a cluster delivers exactly once is in its topic once for a reader of committed messages, whatever is killed.
Method: that of tests/brokers/broker_once_test.py, on three brokers with three replicas of log and topic; after each ninth kill
-9 of a node one of a broker, which comes back when the others have given it up."""

import os
import signal
import sys

import fault_case  # finds the modules below

sys.path.insert(0, os.path.join(fault_case.HERE, "..", "..", "brokers"))
import broker_once_test
import harness
import kafka_cluster
import load

EACH = 10  # rounds to one with a broker


class OnceTest(broker_once_test.OnceCase):
    rounds = load.rounds(100)

    def start_brokers(self):
        self.brokers = kafka_cluster.KafkaCluster()
        self.addCleanup(self.brokers.__exit__)
        self.brokers.__enter__()
        self.broker = self.brokers.members[0]
        self.broker.create_topic(broker_once_test.TOPIC, "replicas=3")

    def addresses(self):
        return self.brokers.brokers()

    def replicas(self):
        return self.brokers.in_sync(broker_once_test.TOPIC) + self.brokers.in_sync("shop.log")

    def kill_broker(self):
        index = self.chance.randrange(3)
        self.brokers.kill(index)
        harness.wait_until(lambda: min(self.replicas()) == 2, fault_case.READY_S, "the broker is given up")
        self.await_shares("a broker was killed")
        self.brokers.start(index)
        harness.wait_until(lambda: min(self.replicas()) == 3, fault_case.READY_S, "all replicas are in sync")

    def test_once(self):
        self.make_nodes(3)

        def faults():
            for number in range(1, self.rounds + 1):
                if number % EACH:
                    self.kill()
                else:
                    self.kill_broker()
        self.compare(self.under_load(faults))


if __name__ == "__main__":
    fault_case.main(("kafka",))
