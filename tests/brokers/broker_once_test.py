#!/usr/bin/env python3
"""Goal: what a cluster delivers exactly once is in its topic once for a reader of committed messages, whatever is killed or
stopped, and a message that the topic refuses holds up no other. Method: three real daemons and a real broker; clients write
down each acknowledged timer, nodes are killed, stopped and started at random moments, and at the end the topic has one
message for each firing.

    TEST_SEED=N      repeats the choices
    TEST_ROUNDS=N    rounds of kill -9
"""

import collections
import http.client
import json
import os
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "crash"))
import broker_scenario
import broker_servers
import cluster_nodes
import harness
import load

READY_S, PARTITIONS, TOPIC = 120, 4, "timers"
FLAGS = ("--partitions", str(PARTITIONS), "--window", "1s", "--watermark-interval", "100ms", "--retain", "1h",
         "--cluster-name", "shop", "--cluster-lease", "1s", "--disk-reserve-bytes", "0")
TARGET = f"kafka://bus/{TOPIC}"
RECURRING = 10  # timers that recur, each second


class Client(threading.Thread):
    """Makes timers at nodes that run, until it is told to stop."""

    def __init__(self, case, seed):
        super().__init__(daemon=True)
        self.case, self.chance = case, random.Random(seed)
        self.acknowledged, self.stop = [], threading.Event()

    def run(self):
        while not self.stop.is_set():
            running = [node.daemon for node in self.case.nodes if node.daemon]
            try:
                self.create(self.chance.choice(running))
            except (OSError, http.client.HTTPException, IndexError, AttributeError):
                self.stop.wait(0.05)

    def create(self, daemon):
        lines = [json.dumps({"after": f"{self.chance.randrange(3000)}ms", "target": self.chance.choice(self.case.targets),
                             "payload": "x" * 100})
                 for _ in range(self.chance.choice((1, 5, 200)))]
        status, _, answer = daemon.call("POST", "/v1/timers/batch", "\n".join(lines),
                                        {"Content-Type": "application/x-ndjson"})
        for line in answer.splitlines() if isinstance(answer, str) else answer:
            row = json.loads(line) if isinstance(line, str) else line
            if status == 200 and "id" in row:
                self.acknowledged.append(row["id"])
        self.stop.wait(0.02 * max(1, self.case.rounds / 10))  # many rounds are not to fill the disk


class OnceCase(unittest.TestCase):
    """`rounds`: of a fault. `broker`: whose topic is read."""

    rounds = load.rounds(4)
    targets = (TARGET,)

    def setUp(self):
        print(f"TEST_SEED={load.SEED} TEST_ROUNDS={self.rounds}", flush=True)
        self.chance, self.nodes = random.Random(load.SEED), []
        self.start_brokers()

    def start_brokers(self):
        self.broker = broker_servers.Kafka()
        self.addCleanup(self.broker.__exit__)
        self.broker.start()

    def addresses(self):
        return f"127.0.0.1:{self.broker.port}"

    def connection(self):
        return f"kafka://{self.addresses()}?exactly_once=true"

    def make_nodes(self, count):
        for number in range(1, count + 1):
            node = cluster_nodes.Node(number, self.addresses(), *FLAGS, "--broker-connections", f"bus={self.connection()}")
            self.addCleanup(node.close)
            self.nodes.append(node)
        done = self.nodes[0].run("--cluster-create")
        self.assertEqual(done.returncode, 0, done.stderr)
        for node in self.nodes:
            node.start()
        self.await_shares("start")
        return self.nodes

    def await_shares(self, what):
        return cluster_nodes.await_shares(self.nodes, PARTITIONS, READY_S, what)

    def firings(self):
        """How often each webhook-id is in the topic."""
        return collections.Counter(fields["webhook-id"] for fields, _, _ in self.broker.received())

    def compare(self, acknowledged):
        """Waits until each acknowledged timer is in the topic, and counts."""
        wanted = set(acknowledged)
        found = collections.Counter()

        def look():
            found.clear()
            found.update(self.firings())
            return wanted <= {harness.timer_id_of(name) for name in found}
        began = time.monotonic()
        harness.wait_until(look, READY_S, "each timer is in the topic")
        twice = [name for name, count in found.items() if count > 1]
        print(f"{len(wanted)} acknowledged timers are in the topic after {time.monotonic() - began:.1f} s; {len(found)} firings "
              f"in it, {len(twice)} of them twice", flush=True)
        self.assertEqual(twice, [])

    def under_load(self, faults):
        clients = [Client(self, self.chance.random()) for _ in range(3)]
        for client in clients:
            client.start()
        try:
            faults()
        finally:
            for client in clients:
                client.stop.set()
            for client in clients:
                client.join()
        return [timer for client in clients for timer in client.acknowledged]

    def kill(self):
        """A node, at a random moment; how long the others take to own all."""
        time.sleep(self.chance.uniform(0.5, 3))
        node = self.chance.choice(self.nodes)
        node.end(signal.SIGKILL)
        took_s = self.await_shares("kill -9")
        node.start()
        self.await_shares("a node is back")
        return took_s

    def create(self, target=None, **fields):
        """A timer by one of the nodes that own partitions."""
        status, _, answer = self.nodes[0].daemon.call("POST", "/v1/timers", {"target": target or self.targets[0],
                                                                            **(fields or {"after": 0})})
        self.assertEqual(status, 201, answer)
        return answer["id"]

    def await_state(self, timer, state):
        def look():
            answer = self.nodes[0].daemon.call("GET", f"/v1/timers/{timer}")[2].get("timer", {})
            return answer.get("state") == state and answer
        return harness.wait_until(look, READY_S, f"{timer} is {state}")


class NodesUnderFaults:
    """For a case: nodes that are killed, and nodes that stand still."""

    def test_kill(self):
        self.make_nodes(3)
        took = []
        acknowledged = self.under_load(lambda: took.extend(self.kill() for _ in range(self.rounds)))
        print("kill -9: the others own all after " + ", ".join(f"{s:.1f}" for s in took) + " s", flush=True)
        self.compare(acknowledged)

    def test_stop(self):
        """A node that stood still for longer than its lease commits nothing of what it had begun."""
        self.make_nodes(3)

        def faults():
            for _ in range(self.rounds):
                time.sleep(self.chance.uniform(0.5, 2))
                daemon = self.chance.choice(self.nodes).daemon
                daemon.process.send_signal(signal.SIGSTOP)
                time.sleep(self.chance.uniform(2, 8))
                daemon.process.send_signal(signal.SIGCONT)
                self.await_shares("a node goes on")
        self.compare(self.under_load(faults))


class OnceTest(NodesUnderFaults, OnceCase):
    def test_a_broker_away(self):
        self.make_nodes(2)

        def faults():
            for _ in range(max(1, self.rounds // 2)):
                time.sleep(self.chance.uniform(0.5, 2))
                self.broker.stop(signal.SIGKILL)
                time.sleep(self.chance.uniform(0, 3))
                self.broker.start()
                self.await_shares("the broker is back")
        self.compare(self.under_load(faults))

    def test_refused_messages(self):
        """Those that a topic does not take, and those to no topic, fail by themselves."""
        self.make_nodes(1)
        self.broker.create_topic("small", "max.message.bytes=2000")
        quick = {"max_attempts": 2, "base": "10ms", "cap": "20ms"}
        large = [self.create("kafka://bus/small", after=0, payload="x" * 5000, retry=quick) for _ in range(3)]
        missing = [self.create("kafka://bus/missing", after=0, retry=quick) for _ in range(3)]
        right = [self.create("kafka://bus/small", after=0, payload="x") for _ in range(50)]
        for timer in right:
            self.await_state(timer, "fired")
        for timer in large:
            self.assertIn("too large", self.await_state(timer, "dead")["last_error"])
        for timer in missing:
            self.assertIn("Unknown topic", self.await_state(timer, "dead")["last_error"])
        found = self.nodes[0].daemon.call("POST", "/v1/timers", {"after": 0, "target": "kafka://bus/shop.log"})
        self.assertEqual(found[0], 422)
        self.assertIn("a topic of the cluster's own log", json.dumps(found[2]))

    def test_recurring(self):
        """Each firing of a timer that recurs is there once, through a kill."""
        self.make_nodes(2)
        timers = [self.create(every="1s") for _ in range(RECURRING)]
        harness.wait_until(lambda: len(self.firings()) >= 3 * len(timers), READY_S, "three firings each")
        self.nodes[1].end(signal.SIGKILL)
        self.await_shares("kill -9")
        count = len(self.firings())
        harness.wait_until(lambda: len(self.firings()) >= count + 3 * len(timers), READY_S, "three more")
        self.assertEqual(set(self.firings().values()), {1})


if __name__ == "__main__":
    broker_scenario.main(OnceTest, broker_servers.Kafka)
