#!/usr/bin/env python3
"""Goal: each node of a cluster has copies of its part of the partitions and of no other, a standby takes over from a node
that died without reading the log again, and new standbys are named after a while, which restore. No timer is lost. A node
without a disk gets its copies from another one, and has what it has after it read the logs. Method: real daemons in three
zones on a real broker; their disks are looked at by --check.

    TEST_TIMERS=N    timers of the log that is restored, nine of ten of which are cancelled
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import cluster_nodes
import harness

PARTITIONS, TIMERS = 12, 6000
WAIT_S = 180  # names new standbys a minute after a death
RESTORED = int(os.environ.get("TEST_TIMERS", "20000"))
NDJSON = {"Content-Type": "application/x-ndjson"}


class Node:
    def __init__(self, test, number, zone, *flags):
        self.data = tempfile.mkdtemp(prefix="tickwheel-cluster-")
        test.addCleanup(shutil.rmtree, self.data)
        self.number, self.daemon = number, None
        self.flags = (*test.cluster, "--cluster-node-id", str(number), "--cluster-lease", "1s", "--cluster-zone", zone,
                      "--cluster-listen", "127.0.0.1:0", *flags)
        test.addCleanup(lambda: self.daemon and self.daemon.close())

    def start(self):
        self.daemon = harness.Daemon(self.data, *self.flags, env={**os.environ, "TICKWHEEL_CLUSTER_SECRET": cluster_nodes.SECRET})

    def end(self, number):
        self.daemon.signal(number)
        self.daemon.close()
        self.daemon = None

    def figure(self, name):
        return self.daemon.metric(f"tickwheel_cluster_partitions_{name}")

    def live(self):
        """Live timers by partition, of a node that does not run."""
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True,
                              timeout=60, check=False)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return [int(count) for count in re.findall(r"partition \d+: (\d+) live", done.stdout)]


class CopiesTest(unittest.TestCase):
    def setUp(self):
        self.broker = broker_servers.Kafka()
        self.addCleanup(self.broker.__exit__)
        self.broker.start()
        self.cluster = ("--cluster-brokers", f"127.0.0.1:{self.broker.port}", "--cluster-name", "shop",
                        "--partitions", str(PARTITIONS))
        subprocess.run([harness.find("tickwheeld"), *self.cluster, "--cluster-create"], check=True, timeout=120,
                       capture_output=True)

    def await_copies(self, nodes, owned, followed, what):
        """Until each node owns and follows so many partitions, and none restores."""
        began = time.monotonic()
        harness.wait_until(lambda: all(node.daemon.is_ready() and node.figure("owned") == owned and
                                       node.figure("followed") == followed and node.figure("restoring") == 0
                                       for node in nodes), WAIT_S, what)
        print(f"{what}: after {time.monotonic() - began:.1f} s each of {len(nodes)} nodes owns {owned} partitions and has "
              f"copies of {followed}", flush=True)

    def check_plan(self, nodes):
        """All nodes tell one plan, with an owner and a standby of another zone for each partition."""
        plans = []
        for node in nodes:
            view = node.daemon.call("GET", "/v1/cluster")[2]
            zones = {row["node"]: row["zone"] for row in view["nodes"]}
            plans.append([(row["planned"], row["standbys"]) for row in view["partitions"]])
            for row in view["partitions"]:
                self.assertEqual(row["owner"], row["planned"])
                self.assertEqual(len(row["standbys"]), 1)
                self.assertNotEqual(zones[row["owner"]], zones[row["standbys"][0]])
                state = "active" if row["owner"] == node.number else "standby" if node.number in row["standbys"] else "absent"
                self.assertEqual(row["state"], state)
        self.assertTrue(all(plan == plans[0] for plan in plans))

    def check_timers(self, node, ids):
        """The node answers for all timers, wherever they are."""
        found, cursor = set(), ""
        while cursor is not None:
            answer = node.daemon.call("GET", f"/v1/timers?limit=1000{cursor and '&cursor=' + cursor}")
            self.assertEqual(answer[0], 200, answer[2])
            found.update(row["id"] for row in answer[2]["timers"])
            cursor = answer[2].get("next")
        self.assertEqual(found, ids)
        for timer_id in list(ids)[:200]:
            self.assertEqual(node.daemon.call("GET", f"/v1/timers/{timer_id}")[0], 200)

    def test_copies(self):
        nodes = [Node(self, number, zone) for number, zone in ((1, "a"), (2, "b"), (3, "c"), (4, "c"))]
        first, second, third, fourth = nodes
        first.start()
        self.await_copies([first], 12, 12, "one node")
        lines = "".join(json.dumps({"key": f"order-{i}", "after": "1h", "target": "log:far", "payload": "x" * 200}) + "\n"
                        for i in range(TIMERS))
        answer = first.daemon.call("POST", "/v1/timers/batch", lines, NDJSON)
        ids = {json.loads(line)["id"] for line in answer[2].splitlines()}
        self.assertEqual(len(ids), TIMERS)
        second.start()
        self.await_copies(nodes[:2], 6, 12, "a second one")
        third.start()
        self.await_copies(nodes[:3], 4, 8, "a third one")
        self.check_plan(nodes[:3])
        self.check_timers(third, ids)

        began = time.monotonic()
        third.end(signal.SIGKILL)
        restored = []

        def have_taken_over():
            restored.append(first.figure("restoring") + second.figure("restoring"))
            return first.figure("owned") + second.figure("owned") == PARTITIONS
        harness.wait_until(have_taken_over, WAIT_S, "the standbys take over")
        print(f"kill -9: the standbys own all after {time.monotonic() - began:.1f} s", flush=True)
        self.assertEqual(max(restored), 0)
        self.check_timers(second, ids)
        self.await_copies(nodes[:2], 6, 12, "new standbys")
        self.check_timers(first, ids)

        fourth.start()
        others = [first, second, fourth]
        self.await_copies(others, 4, 8, "another node in its place")
        self.check_plan(others)
        self.check_timers(fourth, ids)
        first.end(signal.SIGTERM)
        live = first.live()
        copies = sum(count > 0 for count in live)
        print(f"the disk of a node has {sum(live)} of {TIMERS} timers, in {copies} of {PARTITIONS} partitions", flush=True)
        self.assertEqual(copies, 8)
        self.assertLess(sum(live), TIMERS * 0.8)
        for node in (second, fourth):
            node.end(signal.SIGTERM)
        fourth.start()
        self.await_copies([fourth], 12, 12, "the last node, alone")
        self.check_timers(fourth, ids)

    def restore(self, node, records_min):
        """Starts a node without a disk. Answers how long it took until it had its copies, and how many others gave."""
        shutil.rmtree(node.data)
        os.mkdir(node.data)
        base = node.flags
        node.flags += ("--cluster-copy-records-min", str(records_min))
        began = time.monotonic()
        node.start()
        node.flags = base
        harness.wait_until(lambda: node.figure("followed") == PARTITIONS and node.figure("restoring") == 0, WAIT_S, "restored")
        return time.monotonic() - began, node.daemon.metric("tickwheel_cluster_copies_total")

    def test_restore(self):
        flags = ("--cluster-sweep-bytes-min", "0", "--retain", "1s")
        first, second = (Node(self, number, zone, *flags) for number, zone in ((1, "a"), (2, "b")))
        first.start()
        self.await_copies([first], 12, 12, "one node")
        ids = cluster_nodes.fill_and_cancel(self, first.daemon, RESTORED, 200)
        figures = []
        for records_min in (0, 1):
            took, copies = self.restore(second, records_min)
            self.assertEqual(copies, PARTITIONS if records_min else 0)
            harness.wait_until(lambda: second.figure("owned") == PARTITIONS // 2, WAIT_S, "its share")
            self.assertEqual(second.daemon.metric("tickwheel_cluster_copies_failed_total"), 0)
            self.check_timers(second, ids)
            rows = second.daemon.metric("tickwheel_cluster_copy_rows_total")
            second.end(signal.SIGTERM)
            harness.wait_until(lambda: first.figure("owned") == PARTITIONS, WAIT_S, "all partitions are back")
            figures.append((took, rows))
        self.assertEqual(first.daemon.metric("tickwheel_cluster_copies_given_total"), PARTITIONS)
        print(f"{RESTORED} timers, {len(ids)} of them live: copies from the log after {figures[0][0]:.1f} s, from another node "
              f"after {figures[1][0]:.1f} s, {figures[1][1]:.0f} rows", flush=True)


if __name__ == "__main__":
    broker_scenario.main(CopiesTest, broker_servers.Kafka)
