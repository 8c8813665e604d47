#!/usr/bin/env python3
"""Goal: a daemon whose log is on Apache Kafka keeps what it acknowledged through kill -9, with its disk and without it, and
a second one that follows takes over. Method: rounds of load (tests/crash/load.py) on real daemons and a real broker; the
clients' record is compared with the last of them.

    TEST_SEED=N      repeats the clients' choices
    TEST_ROUNDS=N    rounds of kill -9
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "crash"))
import broker_scenario
import broker_servers
import harness
import load

ROUNDS = load.rounds(6)
READY_S = 60
FLAGS = ("--partitions", "4", "--shards", "2", "--window", "1s", "--watermark-interval", "100ms", "--retain", "1h",
         "--cluster-name", "shop", *load.PAUSES)


class Host:
    """A node: its number, and its data folder, which may be lost."""

    def __init__(self, number, broker):
        self.data = tempfile.mkdtemp(prefix="tickwheel-cluster-")
        self.flags = (*FLAGS, "--cluster-brokers", f"127.0.0.1:{broker.port}", "--cluster-node-id", str(number))

    def start(self):
        return harness.Daemon(self.data, *self.flags)

    def lose_the_disk(self):
        shutil.rmtree(self.data)
        os.mkdir(self.data)


class ClusterTest(unittest.TestCase):
    def kill_once(self, host, receiver, record, chance):
        with host.start() as daemon:
            harness.wait_until(daemon.is_ready, READY_S, "ready")
            crowd = load.Crowd(daemon, receiver, record, chance)
            time.sleep(chance.uniform(0.05, 1.5))  # the random moment: no condition to wait for
            daemon.signal(signal.SIGKILL)
            crowd.end()

    def compare(self, host, receiver, record, chance):
        with host.start() as daemon:
            began = time.monotonic()
            harness.wait_until(daemon.is_ready, READY_S, "ready")
            print(f"ready after {time.monotonic() - began:.1f} s", flush=True)
            worker = load.Crowd(daemon, receiver, record, chance, clients=0)
            verdict = record.compare(daemon, receiver)
            worker.end()
            daemon.signal(signal.SIGTERM)
        verdict.show(record)
        self.assertFalse(verdict.is_broken())

    def test_kill(self):
        print(f"TEST_SEED={load.SEED} TEST_ROUNDS={ROUNDS}", flush=True)
        chance, record = random.Random(load.SEED), load.Record()
        with broker_servers.Kafka() as broker, harness.Receiver() as receiver:
            broker.create_topic("shop.log", "message.timestamp.type=LogAppendTime", "retention.ms=-1")
            host = Host(1, broker)
            self.addCleanup(shutil.rmtree, host.data)
            for i in range(ROUNDS):
                self.kill_once(host, receiver, record, chance)
                if i % 2:
                    host.lose_the_disk()
            self.compare(host, receiver, record, chance)

    def test_the_next_owner(self):
        """Its folder is warm: it has followed the log while the first had the partitions."""
        chance, record = random.Random(load.SEED + 1), load.Record()
        with broker_servers.Kafka() as broker, harness.Receiver() as receiver:
            broker.create_topic("shop.log", "message.timestamp.type=LogAppendTime", "retention.ms=-1")
            first, second = Host(1, broker), Host(2, broker)
            for host in (first, second):
                self.addCleanup(shutil.rmtree, host.data)
            with first.start() as owner:
                harness.wait_until(owner.is_ready, READY_S, "ready")
                with second.start() as standby:
                    crowd = load.Crowd(owner, receiver, record, chance)
                    time.sleep(1)  # of load
                    self.assertFalse(standby.is_ready())
                    owner.signal(signal.SIGKILL)
                    began = time.monotonic()
                    crowd.end()
                    harness.wait_until(standby.is_ready, READY_S, "ready")
                    print(f"the second owns all after {time.monotonic() - began:.1f} s", flush=True)
                    worker = load.Crowd(standby, receiver, record, chance, clients=0)
                    verdict = record.compare(standby, receiver)
                    worker.end()
                    standby.signal(signal.SIGTERM)
            verdict.show(record)
            self.assertFalse(verdict.is_broken())


if __name__ == "__main__":
    broker_scenario.main(ClusterTest, broker_servers.Kafka)
