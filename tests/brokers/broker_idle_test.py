#!/usr/bin/env python3
"""Goal: a node of a cluster that has nothing to do is small, and the threads that it does without start when they are needed.
Method: a real node with 24 partitions on a real broker; its threads are those that the kernel lists."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import cluster_nodes
import harness

PARTITIONS = 24
THREADS_MAX = 15
READY_S = 120


def threads(daemon):
    """The names of the daemon's threads."""
    names = []
    for task in os.scandir(f"/proc/{daemon.process.pid}/task"):
        try:
            with open(os.path.join(task.path, "comm"), encoding="ascii") as comm:
                names.append(comm.read().strip())
        except FileNotFoundError:
            pass  # it has just ended
    return sorted(names)


class IdleTest(unittest.TestCase):
    def start(self, broker):
        node = cluster_nodes.Node(1, f"127.0.0.1:{broker.port}", "--partitions", str(PARTITIONS), "--shards", "1",
                                  "--cluster-name", "idle", "--cluster-listen", "127.0.0.1:0")
        self.addCleanup(node.close)
        made = node.run("--cluster-create")
        self.assertEqual(made.returncode, 0, made.stderr)
        daemon = node.start()
        cluster_nodes.await_shares([node], PARTITIONS, READY_S, "start")
        return daemon

    def test_an_idle_node_has_few_threads(self):
        broker = broker_servers.Kafka()
        self.addCleanup(broker.__exit__)
        broker.start()
        daemon = self.start(broker)
        found = []

        def is_small():
            found[:] = threads(daemon)
            return len(found) <= THREADS_MAX
        if not harness.happens(is_small, harness.PATIENCE_S):  # a busy start opens producers, which close later
            self.fail(f"{len(found)} threads: {', '.join(found)}")
        print(f"{len(found)} threads: {', '.join(found)}", file=sys.stderr)
        with harness.Receiver() as receiver:
            status, _, timer = daemon.call("POST", "/v1/timers", {"after": "1ms", "target": receiver.url()})
            self.assertEqual(status, 201, timer)
            harness.wait_until(lambda: any(harness.timer_id_of(arrival.webhook_id) == timer["id"]
                                           for arrival in receiver.arrivals()), 20, "the webhook")
            harness.wait_until(lambda: {"webhook", "tw-deliveries"} <= set(threads(daemon)), 20, "the threads of a delivery")


if __name__ == "__main__":
    broker_scenario.main(IdleTest, broker_servers.Kafka)
