#!/usr/bin/env python3
"""Goal: a drained node of a cluster gives its partitions to the others, answers for their timers, and takes none back before
it is undrained, also after kill -9 of it and of the others. The last node that takes partitions is not drained. Method: three
real daemons on a real broker, drained by the command line; each node is asked what it owns.
"""

import json
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import cluster_nodes
import command_line
import harness
from command_line_case import DONE, FAILED, NOT_FOUND, USAGE

READY_S = 120
PARTITIONS = 6
FLAGS = ("--partitions", str(PARTITIONS), "--shards", "2", "--cluster-name", "shop", "--cluster-lease", "1s",
         "--cluster-listen", "127.0.0.1:0", "--disk-reserve-bytes", "0")
FAR = {"after": "1d", "target": "log:far"}


class DrainTest(unittest.TestCase):
    def cluster(self, broker, count):
        nodes = [cluster_nodes.Node(number, f"127.0.0.1:{broker.port}", *FLAGS) for number in range(1, count + 1)]
        for node in nodes:
            self.addCleanup(node.close)
        made = nodes[0].run("--cluster-create")
        self.assertEqual(made.returncode, 0, made.stderr)
        for node in nodes:
            node.start()
        self.await_shares(nodes, "start")
        return nodes

    def await_shares(self, nodes, what):
        cluster_nodes.await_shares(nodes, PARTITIONS, READY_S, what)

    def run_cli(self, node, *arguments, code=DONE):
        env = command_line.environment(f"http://127.0.0.1:{node.daemon.port}")
        done = command_line.run("cluster", *arguments, env=env)
        self.assertEqual(done.code, code, done)
        return done

    def states(self, node):
        """The nodes that are drained, as this one sees them."""
        return [row["node"] for row in node.daemon.call("GET", "/v1/cluster")[2]["nodes"] if row["drained"]]

    def await_drained(self, nodes, drained):
        """Until all nodes that run tell the same."""
        harness.wait_until(lambda: all(self.states(node) == drained for node in nodes if node.daemon), READY_S,
                           f"{drained} are drained")

    def await_answers(self, node, timers):
        """Until the node answers for all timers, by whichever node owns them."""
        def look():
            return all(node.daemon.call("GET", f"/v1/timers/{timer}")[0] == 200 for timer in timers)
        harness.wait_until(look, READY_S, "all timers are answered for")

    # proves: cluster-drain
    def test_a_node_is_drained_until_it_is_undrained(self):
        with broker_servers.Kafka() as broker:
            nodes = self.cluster(broker, 3)
            first, second, third = nodes
            timers = []
            for i in range(30):
                status, _, timer = nodes[i % 3].daemon.call("POST", "/v1/timers", FAR)
                self.assertEqual(status, 201, timer)
                timers.append(timer["id"])
            began = time.monotonic()
            done = self.run_cli(first, "drain", "2", "--wait", f"{READY_S}s")
            print(f"drained after {time.monotonic() - began:.1f} s", flush=True)
            self.assertEqual(done.out, "node 2 is drained: it owns no partition\n")
            self.assertEqual(second.owned(), 0)
            self.await_shares([first, third], "the others have all")
            self.await_drained(nodes, [2])
            row, = (row for row in second.daemon.call("GET", "/v1/cluster")[2]["nodes"] if row["node"] == 2)
            self.assertEqual((row["alive"], row["stopping"], row["drained"]), (True, False, True))
            self.assertRegex(self.run_cli(third).out, r"(?m)^2 +drained ")
            # It answers for the others, and makes timers there.
            self.await_answers(second, timers)
            status, _, timer = second.daemon.call("POST", "/v1/timers", FAR)
            self.assertEqual(status, 201, timer)
            self.assertEqual(first.daemon.call("DELETE", f"/v1/timers/{timer['id']}")[0], 200)
            # A second drain changes nothing. This node may know the new owners a moment later.
            self.assertEqual(json.loads(self.run_cli(third, "drain", "2", "--wait", f"{READY_S}s", "--output", "json").out),
                             {"node": 2, "drained": True, "owns": 0})
            # Restarts do not end it: of the node itself, and of one that reads it from the log.
            for node in (second, third):
                node.end(signal.SIGKILL)
                node.start()
                self.await_shares([first, third], "after kill -9")
                self.await_drained(nodes, [2])
            self.assertEqual(second.owned(), 0)
            harness.wait_until(second.daemon.is_ready, READY_S, "a drained node is ready")
            self.run_cli(second, "drain", "3", "--wait", f"{READY_S}s")
            self.await_shares([first], "one has all")
            for asked in (first, second):
                done = self.run_cli(asked, "drain", "1", code=FAILED)
                self.assertIn("Node 1 is the last that takes partitions", done.err)
            self.await_shares([first], "one has all still")
            # Drained nodes serve when there is no other.
            first.end(signal.SIGKILL)
            self.await_shares([second, third], "drained nodes serve")
            self.await_answers(second, timers)
            first.start()
            self.await_shares([first], "one has all again")
            done = self.run_cli(second, "undrain", "2")
            self.assertEqual(done.out, "node 2 takes its share of the partitions again\n")
            self.run_cli(first, "undrain", "3")
            self.await_shares(nodes, "all have their shares again")
            self.await_drained(nodes, [])
            self.await_answers(second, timers)

    # proves: cluster-drain
    def test_mistakes(self):
        with broker_servers.Kafka() as broker:
            node, = self.cluster(broker, 1)
            for arguments, code, words in (
                    (("drain", "7"), NOT_FOUND, "The cluster has no node 7"),
                    (("undrain", "7"), NOT_FOUND, "The cluster has no node 7"),
                    (("drain", "1"), FAILED, "Node 1 is the last that takes partitions"),
                    (("drain", "one"), USAGE, "NODE is the number of a node"), (("drain", "0"), USAGE, "NODE is the number"),
                    (("drain", "4294967296"), USAGE, "NODE is the number"), (("drain",), USAGE, "cluster drain|undrain NODE"),
                    (("drian", "1"), USAGE, "none of: drain, undrain"), (("undrain", "1", "--wait", "1s"), USAGE, "drain --wait"),
                    (("drain", "1", "--wait", "1"), USAGE, "takes a duration")):
                self.assertIn(words, self.run_cli(node, *arguments, code=code).err)
            for path in ("0", "x", "4294967296", "-1", "1e0"):
                status, _, problem = node.daemon.call("PUT", f"/v1/cluster/nodes/{path}/drain")
                self.assertEqual((status, problem["type"]), (404, "/problems/not-found"), path)
            self.assertEqual(self.run_cli(node, "undrain", "1").out, "node 1 takes its share of the partitions again\n")
            self.await_shares([node], "it has all")


if __name__ == "__main__":
    broker_scenario.main(DrainTest, broker_servers.Kafka)
