#!/usr/bin/env python3
"""Goal: a cluster is upgraded node by node, as docs/operations.md says, without losing a timer: nodes of the old and the new
version own partitions side by side, take over from each other, and an old node can come back. Method: three nodes of an
earlier commit, whose folders have another format; each is stopped and started as this build on an empty folder, one after the
other; then one goes back. The earlier build comes from git, in a worktree of its own, once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "support"))
import command_line
import cluster_nodes
import harness
import kafka_cluster

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
OLD = "2cae2aff7242efeebb9b07ef9240837c6dfe999f"  # of format 8; its log is read by this build
PARTITIONS = 6
SKIPPED = 77


def old_program():
    """The path of tickwheeld of the earlier commit, built once; TEST_OLD_DAEMON names one that is there."""
    if "TEST_OLD_DAEMON" in os.environ:
        return os.environ["TEST_OLD_DAEMON"]
    tree = os.path.join(ROOT, "build", f"old-{OLD[:8]}")
    program = os.path.join(tree, "build", "release", "bin", "tickwheeld")
    if not os.path.exists(program):
        if subprocess.run(["git", "cat-file", "-e", OLD], cwd=ROOT, capture_output=True, check=False).returncode:
            print(f"upgrade_test: skipped, this clone has no commit {OLD}")
            sys.exit(SKIPPED)
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["git", "worktree", "add", "--detach", "--force", tree, OLD], cwd=ROOT, check=True)
        subprocess.run(["cmake", "--preset", "release", "--log-level=WARNING", "-DTICKWHEEL_TESTS=OFF"], cwd=tree, check=True)
        subprocess.run(["cmake", "--build", "build/release", "--target", "tickwheeld"], cwd=tree, check=True)
    return os.path.abspath(program)


class UpgradeTest(unittest.TestCase):
    def setUp(self):
        brokers = kafka_cluster.KafkaCluster()
        brokers.__enter__()
        self.addCleanup(brokers.__exit__)
        self.receiver = harness.Receiver()
        self.addCleanup(self.receiver.close)
        self.flags = ("--partitions", str(PARTITIONS), "--cluster-listen", "127.0.0.1:0")
        self.nodes = [cluster_nodes.Node(number, brokers.brokers(), *self.flags) for number in (1, 2, 3)]
        for node in self.nodes:
            self.addCleanup(node.close)
        made = self.nodes[0].run("--cluster-create")
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        self.old = OldPrograms(old_program())
        self.made = {}

    def start(self, node, is_old):
        with self.old if is_old else Nothing():
            node.start()
        self.await_shares(f"node {node.number} is there")

    def await_shares(self, what):
        cluster_nodes.await_shares(self.nodes, PARTITIONS, 180, what)

    def running(self):
        return [node for node in self.nodes if node.daemon]

    def create(self, count):
        """Timers at each node: due in a second, in a day, and of queues."""
        for node in self.running():
            for number in range(count):
                for fields in ({"after": "1s", "target": self.receiver.url("/ok")}, {"after": "1d", "target": "log:far"}):
                    key = f"{node.number}-{len(self.made)}-{number}"
                    status, _, timer = node.daemon.call("POST", "/v1/timers", {"key": key, **fields})
                    self.assertEqual(status, 201, timer)
                    self.made[timer["id"]] = fields

    def check(self):
        """Each node answers for each timer; what was due has come."""
        due = {timer for timer, fields in self.made.items() if fields["after"] == "1s"}
        harness.wait_until(lambda: due <= {harness.timer_id_of(each.webhook_id) for each in self.receiver.arrivals()}, 60,
                           "what is due")
        for timer, fields in self.made.items():
            for node in self.running():
                status, _, shown = node.daemon.call("GET", f"/v1/timers/{timer}")
                expected = (410, "fired") if fields["after"] == "1s" else (200, "scheduled")
                self.assertEqual((status, shown.get("timer", shown)["state"]), expected)

    def deliveries(self, node):
        """Those that a node of this version shows, and what its command line says."""
        status, _, page = node.daemon.call("GET", "/v1/deliveries?limit=200")
        self.assertEqual(status, 200, page)
        done = command_line.run("log", env=command_line.environment(f"http://127.0.0.1:{node.daemon.port}"))
        self.assertEqual(done.code, 0, done.err)
        return page, done.err

    def test_node_by_node_and_back(self):
        for node in self.nodes:
            with self.old:
                node.start()
        self.await_shares("three old nodes")
        self.create(5)
        self.check()
        for upgraded, node in enumerate(self.nodes):
            node.end(signal.SIGTERM)
            node.lose_the_disk()
            self.start(node, False)
            self.create(3)
            self.check()
            page, said = self.deliveries(node)
            others = [other.number for other in self.nodes[upgraded + 1:]]
            self.assertEqual(sorted(page.get("missing", [])), others)
            self.assertEqual("run an earlier version" in said, bool(others), said)
            status, _, verdict = node.daemon.call("GET", "/v1/verdict")
            self.assertEqual((status, "earlier version" in verdict.get("detail", "")), (503, True) if others else (200, False),
                             verdict)
        self.assertIn("/ok", json.dumps(self.deliveries(self.nodes[0])[0]))
        self.nodes[2].end(signal.SIGKILL)
        self.nodes[2].lose_the_disk()
        self.start(self.nodes[2], True)
        self.create(3)
        self.check()


class Nothing:
    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class OldPrograms:
    """While it is entered, harness starts the old daemon."""

    def __init__(self, program):
        self.program, self.find = program, harness.find

    def __enter__(self):
        harness.find = lambda name: self.program if name == "tickwheeld" else self.find(name)

    def __exit__(self, *_):
        harness.find = self.find


if __name__ == "__main__":
    is_for_it = os.environ.get("TEST_LOG", "kafka") == "kafka"
    if why := kafka_cluster.KafkaCluster.missing() if is_for_it else "it is for Kafka only":
        print(f"upgrade_test: skipped, {why}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
