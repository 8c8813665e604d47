#!/usr/bin/env python3
"""Goal: a cluster whose brokers are away says so within two seconds everywhere, its topics are made whole while brokers are
starting, and settings of topics that endanger timers are found while nodes run. Method: Apache Kafka as three brokers, which
are stopped with SIGSTOP, killed, or started one after the other; a real node beside them."""

import os
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import cluster_nodes
import command_line
import harness
import kafka_cluster

NAME, PARTITIONS = "shop", 4
FLAGS = ("--partitions", str(PARTITIONS), "--shards", "2")
READY_S = 120
NAMED_S_MAX = 2.0
REFUSED_S_MAX = 4.0  # on a busy machine; the run prints what it was
TOPICS_S_MAX = 75  # a node looks each minute
SKIPPED = 77
TIMER = {"after": "1h", "target": "log:far"}


class Watch:
    """Waits in the background until a look finds something; `took` is the time since `began`."""

    def __init__(self, began, look):
        self.took, self.found = None, None
        self.thread = threading.Thread(target=self.run, args=(began, look), daemon=True)
        self.thread.start()

    def run(self, began, look):
        self.found = harness.wait_until(look, 30, "a watch")
        self.took = time.monotonic() - began

    def end(self):
        self.thread.join()
        return self.took


class BrokersAwayTest(unittest.TestCase):
    def node(self, brokers, name=NAME):
        node = cluster_nodes.Node(1, brokers, *FLAGS, "--cluster-name", name)
        self.addCleanup(node.close)
        return node

    def start(self, cluster):
        node = self.node(cluster.brokers())
        made = node.run("--cluster-create")
        self.assertEqual(made.returncode, 0, made.stderr)
        daemon = node.start()
        harness.wait_until(daemon.is_ready, READY_S, "ready")
        harness.wait_until(lambda: daemon.call("POST", "/v1/timers", TIMER)[0] == 201, READY_S, "all partitions are owned")
        return daemon

    def set_topic(self, cluster, topic, *settings):
        """Changes settings of a topic, as an operator does by Kafka's own command."""
        broker = cluster.members[0]
        subprocess.run(broker.java("kafka.admin.ConfigCommand", "--bootstrap-server", cluster.brokers(), "--alter",
                                   "--entity-type", "topics", "--entity-name", topic, "--add-config", ",".join(settings)),
                       check=True, capture_output=True, timeout=120)

    def doctor(self, daemon):
        env = command_line.environment(f"http://127.0.0.1:{daemon.port}")
        return command_line.run("doctor", "--data", "/nonexistent", env=env)

    def judge(self, what, daemon, away):
        """`away` takes the brokers away."""
        marker = len(daemon.output())
        began = time.monotonic()
        away()

        def ready():
            status, _, body = daemon.call("GET", "/readyz")
            return status == 503 and "broker" in body["detail"] and body["detail"]

        def create():
            status, _, body = daemon.call("POST", "/v1/timers", TIMER)
            return status == 503 and body
        watches = {
            "readyz": Watch(began, ready),
            "log": Watch(began, lambda: "broker" in daemon.output()[marker:]),
            "create": Watch(began, create),
        }
        took = {name: watch.end() for name, watch in watches.items()}
        again = time.monotonic()
        status, _, body = daemon.call("POST", "/v1/timers", TIMER)
        took["next create"] = time.monotonic() - again
        doctor = self.doctor(daemon)
        print(f"{what}: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in took.items()), file=sys.stderr)
        self.assertEqual(status, 503)
        self.assertIn("broker", body["detail"])
        self.assertIn("broker", watches["create"].found["detail"])
        self.assertRegex(watches["readyz"].found, "no (broker answers|append is acknowledged by the brokers) at 127")
        self.assertRegex(doctor.out, "not ready: .*broker")
        self.assertLess(max(took["readyz"], took["log"]), NAMED_S_MAX)
        self.assertLess(max(took["create"], took["next create"]), REFUSED_S_MAX)

    def test_brokers_that_are_away_are_named(self):
        with kafka_cluster.KafkaCluster() as cluster:
            daemon = self.start(cluster)
            self.judge("silent", daemon, lambda: [cluster.freeze(i) for i in range(3)])
            for i in range(3):
                cluster.thaw(i)
            harness.wait_until(daemon.is_ready, READY_S, "ready again")
            harness.wait_until(lambda: daemon.call("POST", "/v1/timers", TIMER)[0] == 201, READY_S, "creates again")
            self.judge("absent", daemon, lambda: [cluster.kill(i) for i in range(3)])

    def create_until_made(self, cluster, node):
        """Repeats the creation until it succeeds, as a unit or a container does. The third broker starts when it is missed."""
        while True:
            made = subprocess.Popen([harness.find("tickwheeld"), *node.flags, "--cluster-create"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env=node.env)
            harness.started.append(made)
            for line in made.stderr:
                print("creation:", line.rstrip(), file=sys.stderr)
                if "2 of the 3 brokers that cluster_replicas needs are there" in line and not cluster.members[2].process:
                    cluster.members[2].launch()
            made.stdout.close()
            made.stderr.close()
            if made.wait(READY_S) == 0:
                return

    def test_topics_are_whole_although_brokers_were_starting(self):
        cluster = kafka_cluster.KafkaCluster()
        self.addCleanup(cluster.__exit__)
        for member in cluster.members[:2]:
            member.launch()
        node = self.node(cluster.brokers())
        self.create_until_made(cluster, node)
        self.assertTrue(cluster.members[2].process, "the creation did not wait for the third broker")
        for topic, count in ((f"{NAME}.log", PARTITIONS), (f"{NAME}.control", 1)):
            harness.wait_until(lambda topic=topic, count=count: cluster.in_sync(topic) == [3] * count, READY_S, "three replicas")
        harness.wait_until(node.start().is_ready, READY_S, "ready")

    def test_short_topics_are_made_anew_while_nobody_uses_them(self):
        with kafka_cluster.KafkaCluster() as cluster:
            settings = ["replicas=1", "cleanup.policy=delete", "retention.ms=-1", "retention.bytes=-1",
                        "min.insync.replicas=1", "message.timestamp.type=LogAppendTime"]
            for name in ("shop", "used"):
                cluster.tool("create", f"{name}.log", str(PARTITIONS), *settings)
                cluster.tool("create", f"{name}.control", "1", *settings)
            with subprocess.Popen([harness.find("log_tool"), "append", cluster.brokers(), "used.log", "0"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tool:
                self.assertTrue(any(line.startswith("landed") for line in tool.stdout))
                tool.stdin.close()
                tool.stdout.read()
            node = self.node(cluster.brokers())
            made = node.run("--cluster-create")
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual(cluster.in_sync(f"{NAME}.log"), [3] * PARTITIONS)
            used = self.node(cluster.brokers(), "used").run("--cluster-create")
            self.assertEqual(used.returncode, 1, used.stdout)
            self.assertIn("1 replicas on 3 brokers", used.stderr)

    def test_settings_that_endanger_timers_are_found_while_nodes_run(self):
        with kafka_cluster.KafkaCluster() as cluster:
            daemon = self.start(cluster)
            began = time.monotonic()
            self.set_topic(cluster, f"{NAME}.log", "retention.ms=604800000")

            def told():
                status, _, body = daemon.call("GET", "/readyz")
                return status == 503 and body["detail"]
            detail = harness.wait_until(told, TOPICS_S_MAX, "the setting is found")
            print(f"a setting was found after {time.monotonic() - began:.0f} s: {detail}", file=sys.stderr)
            self.assertIn("retention.ms is 604800000 and must be -1", detail)
            self.assertEqual(daemon.metric("tickwheel_cluster_topics_wrong"), 1)
            harness.wait_until(lambda: "retention.ms is 604800000" in daemon.output(), 5, "a line of the log")
            self.assertIn("retention.ms is 604800000", self.doctor(daemon).out)
            self.set_topic(cluster, f"{NAME}.log", "retention.ms=-1")
            harness.wait_until(daemon.is_ready, TOPICS_S_MAX, "ready again")
            self.assertEqual(daemon.metric("tickwheel_cluster_topics_wrong"), 0)


if __name__ == "__main__":
    why = kafka_cluster.KafkaCluster.missing()
    if why:
        print(f"Skipped: {why}")
        sys.exit(SKIPPED)
    unittest.main()
