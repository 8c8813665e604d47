#!/usr/bin/env python3
"""Goal: the compose file of a cluster says what brokers and nodes need, and no more than they take.

Method: no container engine is needed. The file's brokers and nodes run as processes of this machine, with the settings that it
gives them, whose names of hosts are replaced by ports of loopback; the nodes share the partitions, and each answers for a timer
that was created through another. Its brokers have the settings of packaging/cluster/broker.properties.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import broker_servers
import cluster_nodes
import harness
import kafka_cluster

PACKAGING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "packaging")
SKIPPED = 77


def read():
    with open(os.path.join(PACKAGING, "cluster", "compose.yml"), encoding="utf-8") as file:
        return yaml.safe_load(file)["services"]


class Broker(kafka_cluster.Member):
    """One of the file's."""

    def __init__(self, number, environment, case):
        super().__init__(number, 3000)
        self.environment_of_file, self.case = environment, case

    def settings(self):
        found = {name.removeprefix("KAFKA_").lower().replace("_", "."): self.case.placed(value, self)
                 for name, value in self.environment_of_file.items() if name.startswith("KAFKA_")}
        return {**found, "log.dirs": os.path.join(self.folder, "data")}


class Node:
    """One of the file's nodes, as cluster_nodes.await_shares wants it."""

    def __init__(self, environment, data):
        self.daemon = harness.Daemon(data, "--cluster-wait", "5s", env={**os.environ, **environment})

    def owned(self):
        return self.daemon.metric("tickwheel_cluster_partitions_owned")


class ComposeTest(unittest.TestCase):
    def setUp(self):
        self.services = read()
        self.brokers = [Broker(number, self.services[f"kafka-{number}"]["environment"], self) for number in (1, 2, 3)]
        self.peer_ports = {f"node-{number}": broker_servers.free_port() for number in (1, 2, 3)}

    def placed(self, text, own=None):
        """A setting with ports of loopback in place of hosts."""
        for broker in self.brokers:
            text = text.replace(f"kafka-{broker.number}:9092", f"127.0.0.1:{broker.port}")
            text = text.replace(f"kafka-{broker.number}:9093", f"127.0.0.1:{broker.controller_port}")
        if own:
            text = text.replace("://:9092", f"://127.0.0.1:{own.port}").replace("://:9093", f"://127.0.0.1:{own.controller_port}")
        return text

    def environment(self, name):
        found = {key: self.placed(value) for key, value in self.services[name]["environment"].items()}
        found["TICKWHEEL_CLUSTER_SECRET"] = cluster_nodes.SECRET
        if port := self.peer_ports.get(name):
            found["TICKWHEEL_CLUSTER_LISTEN"] = f"0.0.0.0:{port}"
            self.assertEqual(found["TICKWHEEL_CLUSTER_ADDRESS"], f"{name}:8464")
            found["TICKWHEEL_CLUSTER_ADDRESS"] = f"127.0.0.1:{port}"
        return found

    def test_brokers_have_the_settings_of_the_book(self):
        wanted = kafka_cluster.broker_properties()
        self.assertGreater(len(wanted), 8)
        for broker in self.brokers:
            self.assertEqual(wanted, {name: value for name, value in broker.settings().items() if name in wanted})

    def test_files_exist(self):
        for service in self.services.values():
            if build := service.get("build"):
                context = os.path.join(PACKAGING, "cluster", build["context"])
                self.assertTrue(os.path.isfile(os.path.join(context, build["dockerfile"])))

    def test_nodes_share_and_answer(self):
        with kafka_cluster.KafkaCluster(members=self.brokers):
            create = self.services["create"]
            done = subprocess.run([harness.find("tickwheeld"), *create["command"]], env={**os.environ, **self.environment("create")},
                                  capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            nodes = []
            for name in self.peer_ports:
                data = tempfile.TemporaryDirectory()
                self.addCleanup(data.cleanup)
                nodes.append(Node(self.environment(name), os.path.join(data.name, "data")))
                self.addCleanup(nodes[-1].daemon.close)
            partitions = int(self.services["node-1"]["environment"]["TICKWHEEL_PARTITIONS"])
            print(f"shares after {cluster_nodes.await_shares(nodes, partitions, 120, 'start'):.1f} s", flush=True)
            status, _, timer = nodes[0].daemon.call("POST", "/v1/timers", {"after": "1h", "target": "log:hello"})
            self.assertEqual(status, 201)
            for node in nodes:
                self.assertEqual(node.daemon.call("GET", f"/v1/timers/{timer['id']}")[0], 200)
            for node in nodes:
                node.daemon.close()


if __name__ == "__main__":
    why = kafka_cluster.KafkaCluster.missing()
    try:
        import yaml
    except ImportError:
        why = "Python has no yaml"
    if why:
        print(f"Skipped: {why}")
        sys.exit(SKIPPED)
    unittest.main()
