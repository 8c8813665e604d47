#!/usr/bin/env python3
"""Goal: daemons whose log is on Apache Kafka keep what they acknowledged through kill -9, with their disks and without them,
share the partitions, and take over those of a node that dies or stops. Method: rounds of load (tests/crash/load.py) on real
daemons and a real broker; the clients' record is compared with the last of them.

    TEST_SEED=N      repeats the clients' choices
    TEST_ROUNDS=N    rounds of kill -9
"""

import os
import random
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "crash"))
import broker_scenario
import broker_servers
import cluster_nodes
import harness
import load

ROUNDS = load.rounds(6)
READY_S = 60
PARTITIONS = 4
FLAGS = ("--partitions", str(PARTITIONS), "--shards", "2", "--window", "1s", "--watermark-interval", "100ms",
         "--retain", "1h", "--cluster-name", "shop", *load.PAUSES)
TAKE_OVER_S_MAX = 30  # on a busy machine; the run prints what it was


class ClusterTest(unittest.TestCase):
    def host(self, number, broker):
        host = cluster_nodes.Node(number, f"127.0.0.1:{broker.port}", *FLAGS)
        self.addCleanup(host.close)
        return host

    def make_cluster(self, broker, count):
        hosts = [self.host(number, broker) for number in range(1, count + 1)]
        done = hosts[0].run("--cluster-create")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("The cluster shop is made", done.stdout)
        return hosts

    def compare(self, host, receiver, record, chance):
        began = time.monotonic()
        harness.wait_until(host.daemon.is_ready, READY_S, "ready")
        print(f"ready after {time.monotonic() - began:.1f} s", flush=True)
        worker = load.Crowd(host.daemon, receiver, record, chance, clients=0)
        verdict = record.compare(host.daemon, receiver)
        worker.end()
        host.end(signal.SIGTERM)
        verdict.show(record)
        self.assertFalse(verdict.is_broken())

    def test_a_cluster_is_made_first(self):
        with broker_servers.Kafka() as broker:
            host = self.host(1, broker)
            done = host.run("--data-folder", host.data)
            self.assertEqual(done.returncode, 1)
            self.assertIn("tickwheeld --cluster-create makes them", done.stderr)
            made = host.run("--cluster-create")
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertIn("topics shop.log with 4 partitions and shop.control", made.stdout)
            self.assertIn("each record lies on one broker", made.stderr)
            again = host.run("--cluster-create")
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(again.stdout, made.stdout.replace("is made", "was there, and is right"))
            host.flags = tuple("5" if flag == str(PARTITIONS) else flag for flag in host.flags)
            for flags in (("--cluster-create",), ("--data-folder", host.data)):
                done = host.run(*flags)
                self.assertEqual(done.returncode, 1)
                self.assertIn("shop.log has 4 partitions, and the cluster 5", done.stderr)

    def test_kill(self):
        print(f"TEST_SEED={load.SEED} TEST_ROUNDS={ROUNDS}", flush=True)
        chance, record = random.Random(load.SEED), load.Record()
        with broker_servers.Kafka() as broker, harness.Receiver() as receiver:
            host, = self.make_cluster(broker, 1)
            for i in range(ROUNDS):
                daemon = host.start()
                harness.wait_until(daemon.is_ready, READY_S, "ready")
                crowd = load.Crowd(daemon, receiver, record, chance)
                time.sleep(chance.uniform(0.05, 1.5))  # the random moment: no condition to wait for
                host.end(signal.SIGKILL)
                crowd.end()
                if i % 2:
                    host.lose_the_disk()
            host.start()
            self.compare(host, receiver, record, chance)

    def await_shares(self, hosts, what):
        return cluster_nodes.await_shares(hosts, PARTITIONS, READY_S, what)

    def check_views(self, hosts):
        """Each node tells the same of all, once it has a note of each, which come every half second."""
        def ask():
            views = [host.daemon.call("GET", "/v1/cluster")[2] for host in hosts]
            owners = [[row.get("owner") for row in view["partitions"]] for view in views]
            return None not in owners[0] and owners[0] == owners[1] == owners[2] and (views, owners)

        views, owners = harness.wait_until(ask, READY_S, "each node knows the owners")
        for view in views:
            self.assertEqual([node["node"] for node in view["nodes"] if node["alive"]], [1, 2, 3])
            self.assertEqual(sum(node["planner"] for node in view["nodes"]), 1)
            self.assertEqual(len(view["partitions"]), PARTITIONS)
            self.assertEqual(view["name"], "shop")
        for host, view in zip(hosts, views):
            active = sum(row["state"] == "active" for row in view["partitions"])
            self.assertEqual(active, owners[0].count(host.number))

    def test_three_nodes(self):
        """Clients ask each node, and are refused by those that do not own a partition."""
        print(f"TEST_SEED={load.SEED} TEST_ROUNDS={ROUNDS}", flush=True)
        chance, record = random.Random(load.SEED + 1), load.Record()
        took = {"SIGKILL": [], "SIGTERM": []}
        with broker_servers.Kafka() as broker, harness.Receiver() as receiver:
            hosts = self.make_cluster(broker, 3)
            for host in hosts:
                host.start()
            print(f"three nodes share after {self.await_shares(hosts, 'start'):.1f} s", flush=True)
            self.check_views(hosts)
            for i in range(ROUNDS):
                crowds = [load.Crowd(host.daemon, receiver, record, chance, clients=1, patience={503}) for host in hosts]
                time.sleep(chance.uniform(0.05, 1.5))  # the random moment
                host, how = chance.choice(hosts), ("SIGKILL", "SIGTERM")[i % 2]
                host.end(getattr(signal, how))
                took[how].append(self.await_shares(hosts, how))
                for crowd in crowds:
                    crowd.end()
                if i % 4 == 2:
                    host.lose_the_disk()
                host.start()
                self.await_shares(hosts, "a node is back")
            for host in hosts[1:]:
                host.end(signal.SIGTERM)
            self.await_shares(hosts, "one is left")
            for how, seconds in took.items():
                print(f"{how}: the others own all after " + ", ".join(f"{s:.1f}" for s in seconds) + " s", flush=True)
                self.assertLess(max(seconds), TAKE_OVER_S_MAX)
            self.compare(hosts[0], receiver, record, chance)

    def test_a_number_is_taken_once(self):
        with broker_servers.Kafka() as broker:
            host, _ = self.make_cluster(broker, 2)
            other = self.host(1, broker)
            harness.wait_until(host.start().is_ready, READY_S, "ready")
            done = other.run("--data-folder", other.data, "--listen-port", "0")
            self.assertEqual(done.returncode, 1)
            self.assertIn("another process of the cluster has the number 1", done.stderr)
            self.assertTrue(host.daemon.is_ready())


if __name__ == "__main__":
    broker_scenario.main(ClusterTest, broker_servers.Kafka)
