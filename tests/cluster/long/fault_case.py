"""A cluster under load and under faults: three brokers, or a PostgreSQL server with a synchronous standby (TEST_LOG=postgres),
three nodes, 24 partitions; clients that write down what they were
told (tests/crash/load.py), a receiver that writes down what came, and the comparison of both.

A test makes rounds of a fault, and says which partitions it met and for how long:

    for rounds in self.groups(200):
        with self.load():
            for _ in rounds:
                began_us = load.now_us()
                ...                                            the fault, until all partitions have owners again
                self.met(began_us, load.now_us(), partitions)
    self.figures.show("kill -9 of a node")

    TEST_SEED=N      repeats the choices
    TEST_ROUNDS=N    rounds of the fault
    TEST_TIMERS=N    timers of a row that counts them in place of rounds
"""

import contextlib
import http.client
import os
import random
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ.setdefault("TEST_BUILD", os.path.join(HERE, "..", "..", "..", "build", "release"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "crash"))
import cluster_nodes
import harness
import kafka_cluster
import load
import postgres_servers

PARTITIONS, NODES = 24, 3
ROUNDS_COMPARED = 5  # rounds after which all is compared, and a new record begun
READY_S = 120
PACE_S = 0.05  # between two requests of a client
VISIT = 10  # requests until it goes on to another node
ANSWER_S = 15  # then a client gives up: longer than cluster_wait
FLAGS = ("--partitions", str(PARTITIONS), "--shards", "2", "--window", "1s", "--watermark-interval", "100ms",
         "--retain", "24h", "--cluster-name", "shop", "--disk-reserve-bytes", "0", *load.PAUSES)
SKIPPED = 77
LOG = os.environ.get("TEST_LOG", "kafka")


def partition_of(timer_id):
    """The 16 bits of the id behind its 48 bits of time: timer_id_format of src/timer/timer.c."""
    return int(timer_id, 32) >> 2 >> 64 & 0xffff


def timers(default):
    return int(os.environ.get("TEST_TIMERS") or default)


def seconds(values):
    return " ".join(f"{value:.2f}" for value in values)


class Roaming:
    """A client that asks one node after the other, and goes on when its connection breaks."""

    def begin(self, case):
        self.case, self.gap_s = case, 0.0  # the longest time between two successes
        return self

    def run(self):
        self.succeeded = time.monotonic()
        while not self.stop.is_set():
            try:
                self.visit(self.chance.choice([node.daemon for node in self.case.nodes
                                               if node.daemon and node not in self.case.away]))
            except (OSError, http.client.HTTPException, IndexError):
                self.stop.wait(PACE_S)  # whatever was not answered is not known
            except Exception as failure:  # shown by the main thread
                self.failure = failure
                return

    def visit(self, daemon):
        self.server = daemon
        connection = daemon.connect(ANSWER_S)
        try:
            for _ in range(VISIT):
                refused = self.refused
                self.turn(connection)
                self.requests += 1
                if self.refused == refused:
                    self.gap_s = max(self.gap_s, time.monotonic() - self.succeeded)
                    self.succeeded = time.monotonic()
                if self.stop.wait(PACE_S):
                    return
        finally:
            connection.close()


class Guest(Roaming, load.Client):
    pass


class Hand(Roaming, load.Worker):
    pass


class Crowd(load.Crowd):
    """Clients, or workers, that roam the nodes of a case."""

    def __init__(self, case, kind, count):
        self.members = [kind(None, case.receiver, case.record, case.chance.random(), {503}).begin(case)
                        for _ in range(count)]
        for member in self.members:
            member.start()


class Figures:
    """Of all rounds. Lateness is that of timers that were acknowledged before they were due, on partitions that a fault
    met, in the time that it met them; a pause is the largest of a round."""

    def __init__(self):
        self.verdict, self.rounds = load.Verdict(), 0
        self.late_s, self.pauses_s = [], []
        self.repeats = 0     # webhooks that came more than once
        self.superseded = 0  # webhooks behind one of a later owner of the partition
        self.gap_s = 0.0     # the longest that a client went without a success

    def show(self, what):
        verdict = self.verdict
        print(f"{what}: {self.rounds} rounds, {verdict.timers} acknowledged timers compared: lost {len(verdict.lost)}, "
              f"early {len(verdict.early)}, after an acknowledged end {len(verdict.after)}, under another webhook-id "
              f"{len(verdict.renamed)}, repeated {verdict.repeated} (webhooks {self.repeats}), of a former owner "
              f"{self.superseded}; lateness of {len(self.late_s)} timers p50 {harness.percentile(self.late_s, 0.5):.2f} s, "
              f"p99 {harness.percentile(self.late_s, 0.99):.2f} s; pause p50 "
              f"{harness.percentile(self.pauses_s, 0.5):.2f} s, p99 {harness.percentile(self.pauses_s, 0.99):.2f} s, longest "
              f"{max(self.pauses_s, default=0):.2f} s; a client went without a success for at most {self.gap_s:.1f} s",
              flush=True)

    def take(self, verdict, arrivals):
        self.verdict.add(verdict)
        seen, latest = set(), {}
        for arrival in sorted(arrivals):
            what = arrival.webhook_id, arrival.attempt
            self.repeats += what in seen
            seen.add(what)
            partition = partition_of(harness.timer_id_of(arrival.webhook_id))
            self.superseded += arrival.epoch < latest.get(partition, 0)
            latest[partition] = max(arrival.epoch, latest.get(partition, 0))

    def take_late(self, record, by_timer, began_us, until_us, partitions):
        late = []
        for timer_id, timer in record.timers.items():
            due_us = timer.dues[0][0] * 1000
            if began_us <= due_us <= until_us and timer.made_us < due_us and timer_id in by_timer and \
                    len(timer.dues) == 1 and not timer.is_flaky and partition_of(timer_id) in partitions:
                late.append((min(arrival.at_us for arrival in by_timer[timer_id]) - due_us) / 1e6)
        self.rounds += 1
        self.late_s += late
        if late:
            self.pauses_s.append(max(late))


class FaultCase(unittest.TestCase):
    session_timeout_ms = 3000  # after which a dead broker is given up
    controllers = 0  # that are no brokers; 0: each broker is one
    node_flags = ()
    logs = ("kafka", "postgres")  # that the row is for

    def setUp(self):
        if LOG not in self.logs:
            self.skipTest(f"it is for {self.logs[0]} only")
        print(f"TEST_SEED={load.SEED} {self.id()}", flush=True)
        self.chance = random.Random(f"{load.SEED}{self.id()}")
        self.figures, self.faults = Figures(), []
        self.away = set()  # nodes that clients do not go to
        self.brokers = self.make_brokers()
        self.brokers.__enter__()
        self.addCleanup(self.brokers.__exit__)
        self.nodes = [self.make_node(number) for number in range(1, NODES + 1)]
        for node in self.nodes:
            self.addCleanup(node.close)
        done = self.nodes[0].run("--cluster-create")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.start()

    def make_brokers(self, address="127.0.0.1", under=()):
        """What carries the log."""
        if LOG == "postgres":
            return postgres_servers.Pair(address=address, under=under)
        return kafka_cluster.KafkaCluster(self.session_timeout_ms, address=address, under=under,
                                          controllers=self.controllers)

    def make_node(self, number):
        return cluster_nodes.Node(number, self.brokers.brokers(), *FLAGS, "--cluster-listen", "127.0.0.1:0",
                                  *self.node_flags)

    def make_receiver(self):
        return harness.Receiver()

    def start(self):
        for node in self.nodes:
            node.start()
        print(f"three nodes share after {self.await_shares('start'):.1f} s", flush=True)

    # ---- the cluster ----

    def await_shares(self, what):
        with self.told():
            return cluster_nodes.await_shares(self.nodes, PARTITIONS, READY_S, what)

    def await_owners(self, nodes, what):
        """Until these nodes own all partitions, whatever their shares."""
        with self.told():
            harness.wait_until(lambda: sum(node.owned() for node in nodes) == PARTITIONS, READY_S, what)

    @contextlib.contextmanager
    def told(self):
        """Says how the nodes stand when something does not come."""
        try:
            yield
        except TimeoutError:
            for node in self.nodes:
                if node.daemon:
                    print(f"node {node.number} owns {node.owned():.0f}, /readyz {node.daemon.call('GET', '/readyz')[2]}, "
                          f"/v1/cluster {self.view(node)}\n{node.daemon.output()[-3000:]}", flush=True)
            raise

    def others(self, node):
        return [other for other in self.nodes if other is not node and other.daemon]

    def view(self, node):
        return node.daemon.call("GET", "/v1/cluster")[2]

    def owned_by(self, node):
        """The partitions of a node."""
        return {row["partition"] for row in self.view(node)["partitions"] if row.get("owner") == node.number}

    def is_planner(self, node):
        return any(each["planner"] and each["node"] == node.number for each in self.view(node)["nodes"])

    def pending(self):
        return sum(node.daemon.metric("tickwheel_timers_pending") for node in self.nodes)

    def settled(self):
        """The count of timers, once the reports of all nodes say it: they are a second old at most."""
        last = [None]

        def look():
            before, last[0] = last[0], self.pending()
            time.sleep(1.5)
            return before == last[0]
        harness.wait_until(look, 60, "a count that stays")
        return last[0]

    # ---- rounds ----

    def groups(self, default):
        """Ranges of rounds."""
        count = load.rounds(default)
        return [range(at, min(at + ROUNDS_COMPARED, count)) for at in range(0, count, ROUNDS_COMPARED)]

    @contextlib.contextmanager
    def load(self, clients=3):
        """Clients and a worker at work; compares what they were told at the end."""
        self.record, self.faults = load.Record(), []
        with self.make_receiver() as self.receiver:
            guests, hands = Crowd(self, Guest, clients), Crowd(self, Hand, 1)
            try:
                yield
            finally:
                guests.end()
                verdict = self.record.compare(next(node.daemon for node in self.nodes if node.daemon), self.receiver, 60)
                hands.end()
            self.figures.gap_s = max(self.figures.gap_s, max(each.gap_s for each in guests.members))
            self.judge(verdict)

    def judge(self, verdict):
        arrivals, by_timer = self.receiver.arrivals(), load.arrived(self.receiver)
        self.figures.take(verdict, arrivals)
        for fault in self.faults:
            self.figures.take_late(self.record, by_timer, *fault)
        if verdict.is_broken():
            verdict.show(self.record)
        self.figures.show("so far")
        self.assertFalse(verdict.is_broken())

    def met(self, began_us, until_us, partitions):
        self.faults.append((began_us, until_us, partitions))

    def be_busy(self):
        """For a random moment: no condition to wait for."""
        time.sleep(self.chance.uniform(0.5, 2))


def main(logs=("kafka", "postgres")):
    if LOG not in logs:
        print(f"Skipped: it is for {logs[0]} only")
        sys.exit(SKIPPED)
    if why := postgres_servers.missing() if LOG == "postgres" else kafka_cluster.KafkaCluster.missing():
        print(f"Skipped: {why}")
        sys.exit(SKIPPED)
    unittest.main()
