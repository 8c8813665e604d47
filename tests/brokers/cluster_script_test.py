#!/usr/bin/env python3
"""Goal: who runs `make cluster` has its nodes, and loses nothing when a node, and of Kafka a broker, is killed and a node is
added as the text says; at the end no process and no folder is left.

Method: scripts/cluster on free ports; what it prints is run.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
import kafka_cluster
import postgres_servers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def shell(command):
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [int(child) for child in file.read().split()]


class ClusterScript:
    """On one kind of log."""

    log, nodes, server, servers, begins, missing = None, 0, None, 0, None, None

    def setUp(self):
        if why := self.missing():
            self.skipTest(why)
        with tempfile.NamedTemporaryFile(prefix="tickwheel-cluster-script-", delete=False) as output:
            self.output = output.name
            self.addCleanup(os.unlink, self.output)
            self.script = subprocess.Popen(
                [os.path.join(ROOT, "scripts", "cluster"), "--log", self.log, "--port", "0"], cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        self.addCleanup(self.stop)

    def stop(self):
        if self.script.poll() is None:
            self.script.send_signal(signal.SIGINT)
            self.script.wait(120)

    def printed(self):
        with open(self.output, encoding="utf-8") as file:
            return file.read()

    def commands(self):
        """What the text says to type."""
        harness.wait_until(lambda: "Ctrl-C" in self.printed() or self.script.poll() is not None, 400, "all nodes")
        text = self.printed()
        self.assertIn("Ctrl-C", text)
        lines = re.sub(r"\\\n *", "", text).splitlines()
        return [line.strip() for line in lines if line.startswith("    ")], text

    def owners(self, show):
        """The owner of each partition that the node knows one of; without a copy it learns of it by the owner's next note."""
        return re.findall(r"^\d+ +(\d+) +\d+ +(?:\d+ +)?\[", shell(show), re.M)

    def is_owned_by(self, show, *nodes):
        owners = self.owners(show)
        return len(owners) == 6 and set(owners) == set(nodes)

    def join(self, command):
        """One more node, by the command that is printed."""
        node = subprocess.Popen(command.split(), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(lambda: node.poll() is None and node.kill())
        return node

    def test_what_it_prints(self):
        (create, show, kill, show_second, of_server, join, drain), text = self.commands()
        nodes = re.findall(r"(?m)^node (\d) +(http://127\.0\.0\.1:\d+) +pid (\d+) +dashboard \2/ui$", text)
        servers = re.findall(rf"(?m)^{self.server} .*127\.0\.0\.1:\d+.* pid (\d+)$", text)
        numbers = [str(number) for number in range(1, self.nodes + 1)]
        self.assertEqual(([number for number, *_ in nodes], len(servers)), (numbers, self.servers))
        pids = [int(node[2]) for node in nodes] + [int(pid) for pid in servers]
        self.assertTrue(all(map(is_running, pids)))
        self.assertRegex(drain, r" cluster drain 2 --url http://127\.0\.0\.1:\d+$")
        self.assertIn("201 Created", shell(create))
        harness.wait_until(lambda: self.is_owned_by(show, *numbers), 60, "all nodes own")
        far = create.replace("curl -i", "curl -s").replace('"3s"', '"1h"')
        ids = [json.loads(shell(far))["id"] for _ in range(12)]
        self.assertEqual(shell(kill + " && echo killed"), "killed\n")
        harness.wait_until(lambda: self.is_owned_by(show_second, *numbers[1:]), 120, "owners of all partitions")
        self.assertTrue(shell(of_server + " && echo done").endswith("done\n"))
        joined, more = self.join(join), str(self.nodes + 1)
        harness.wait_until(lambda: self.is_owned_by(show_second, *numbers[1:], more), 180, "partitions of the new node")
        self.assertEqual(shell(drain + " && echo drained")[-8:], "drained\n")
        harness.wait_until(lambda: self.is_owned_by(show_second, *numbers[2:], more), 180, "the drained node owns nothing")
        for timer in ids:
            for _, url, _ in nodes[1:]:
                harness.wait_until(lambda url=url, timer=timer: '"state":"scheduled"' in shell(
                    f"curl -s {url}/v1/timers/{timer}"), 60, f"{timer} at {url}")
        folder = re.search(r"logs are in (\S+)\. ", text)[1]
        self.assertTrue(os.path.isdir(folder))
        self.stop()
        self.assertEqual(self.script.returncode, 0, self.printed())
        self.assertIn("All have ended.", self.printed())
        self.assertEqual(joined.wait(harness.PATIENCE_S), 0)
        self.assertEqual([pid for pid in pids if is_running(pid)], [])
        self.assertFalse(os.path.exists(folder))

    def test_an_end_while_it_starts(self):
        harness.wait_until(lambda: self.begins in self.printed(), 60, "its first line")
        harness.wait_until(lambda: children(self.script.pid), 60, "a server")
        processes = children(self.script.pid)
        self.stop()
        self.assertEqual(self.script.returncode, 0, self.printed())
        self.assertEqual([pid for pid in processes if is_running(pid)], [])


class OnKafkaTest(ClusterScript, unittest.TestCase):
    log, nodes, server, servers, begins = "kafka", 3, "broker", 3, "Three brokers start."
    missing = staticmethod(kafka_cluster.KafkaCluster.missing)


class OnPostgresTest(ClusterScript, unittest.TestCase):
    log, nodes, server, servers, begins = "postgres", 2, "database", 1, "A PostgreSQL server starts."
    missing = staticmethod(postgres_servers.missing)


if __name__ == "__main__":
    unittest.main()
