#!/usr/bin/env python3
"""Goal: what a cluster delivers exactly once is there once, whatever is killed: in its topic for a reader of committed messages,
or, with the log on PostgreSQL, in its table. Method on Kafka: that of tests/brokers/broker_once_test.py, on three brokers with
three replicas of log and topic; after each ninth kill -9 of a node one of a broker, which comes back when the others have given
it up. Method on PostgreSQL: the load of all faults (tests/crash/load.py), whose targets are a table of the log's database; one of
ten rounds kills a server in place of a node. Either the standby is promoted, or the primary or the standby starts again."""

import os
import signal
import sys
import unittest

import fault_case  # finds the modules below

sys.path.insert(0, os.path.join(fault_case.HERE, "..", "..", "brokers"))
import broker_once_test
import harness
import kafka_cluster
import load

EACH = 10  # rounds to one with a broker, or a server
ROUNDS = 100


@unittest.skipUnless(fault_case.LOG == "kafka", "it is for kafka only")
class OnceTest(broker_once_test.OnceCase):
    rounds = load.rounds(ROUNDS)

    def start_brokers(self):
        self.brokers = kafka_cluster.KafkaCluster()
        self.addCleanup(self.brokers.__exit__)
        self.brokers.__enter__()
        self.broker = self.brokers.members[0]
        self.broker.create_topic(broker_once_test.TOPIC, "replicas=3")

    def addresses(self):
        return self.brokers.brokers()

    def replicas(self):
        return self.brokers.in_sync(broker_once_test.TOPIC) + self.brokers.in_sync("shop.log")

    def kill_broker(self):
        index = self.chance.randrange(3)
        self.brokers.kill(index)
        harness.wait_until(lambda: min(self.replicas()) == 2, fault_case.READY_S, "the broker is given up")
        self.await_shares("a broker was killed")
        self.brokers.start(index)
        harness.wait_until(lambda: min(self.replicas()) == 3, fault_case.READY_S, "all replicas are in sync")

    def test_once(self):
        self.make_nodes(3)

        def faults():
            for number in range(1, self.rounds + 1):
                if number % EACH:
                    self.kill()
                else:
                    self.kill_broker()
        self.compare(self.under_load(faults))


# no row stays in the table, so that it knows no repeat; each that was inserted is in inbox_came
FORGETS = """CREATE TABLE inbox_came (LIKE inbox);
    CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO public.inbox_came SELECT NEW.*; RETURN NULL; END $$;
    CREATE TRIGGER forget BEFORE INSERT ON inbox FOR EACH ROW EXECUTE FUNCTION forget()"""


class Inbox:
    """The table, in the place of a receiver of webhooks: a row has arrived at the time of its INSERT. No row is ever deleted, so
    that a second one of a firing cannot go unseen."""

    def __init__(self, pair, table):
        self.pair, self.table = pair, table
        self.began_us = load.now_us()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @staticmethod
    def create(primary, forgets):
        primary.look("CREATE TABLE public.inbox (webhook_id text PRIMARY KEY, due timestamptz NOT NULL, attempt integer NOT NULL, "
                     "key text, headers jsonb NOT NULL, payload jsonb, body bytea, "
                     "at timestamptz NOT NULL DEFAULT clock_timestamp())")
        if forgets:
            primary.look(FORGETS)

    @staticmethod
    def url(_path="/ok"):
        return "postgres://shop/public.inbox"

    def arrivals(self):
        rows = self.pair.primary.look(
            "SELECT (extract(epoch FROM at) * 1000000)::bigint, webhook_id, (extract(epoch FROM due) * 1000)::bigint, attempt, "
            f"headers->>'tickwheel-epoch' FROM {self.table} WHERE at >= to_timestamp({self.began_us} / 1000000.0)")
        return [harness.Arrival(int(at_us), webhook_id, int(due_ms), int(attempt), int(epoch), self.url())
                for at_us, webhook_id, due_ms, attempt, epoch in (row.split("|") for row in rows.splitlines())]


class InboxTest(fault_case.FaultCase):
    """At least once, and the table drops repeats."""

    logs = ("postgres",)
    parameters, forgets = "", False

    def make_node(self, number):
        self.node_flags = ("--broker-connections", f"shop={self.brokers.brokers()}{self.parameters}")
        return super().make_node(number)

    def start(self):
        self.several = self.of_cancelled = 0
        Inbox.create(self.brokers.primary, self.forgets)
        super().start()

    def make_receiver(self):
        return Inbox(self.brokers, "inbox_came" if self.forgets else "inbox")

    def judge(self, verdict):
        rows = load.arrived(self.receiver)
        known = {timer_id: timer for timer_id, timer in self.record.timers.items() if timer_id in rows}
        several = sorted(timer_id for timer_id in known if len(rows[timer_id]) > 1)
        of_cancelled = sorted(timer_id for timer_id, timer in known.items() if timer.cancelled_us)
        for what, timers in (("several rows", several), ("cancelled, and a row", of_cancelled)):
            for timer_id in timers[:5]:
                print(f"{what}: {timer_id} {vars(known[timer_id])} {rows[timer_id]}", flush=True)
        self.several += len(several)
        self.of_cancelled += len(of_cancelled)
        print(f"timers with several rows {self.several}, with a row although a cancel was acknowledged {self.of_cancelled}", flush=True)
        super().judge(verdict)

    def kill_node(self, number):
        node = self.chance.choice(self.nodes)
        partitions, began_us = self.owned_by(node), load.now_us()
        node.end(signal.SIGKILL)
        self.await_owners(self.others(node), "the others own all")
        self.met(began_us, load.now_us(), partitions)
        if number % 4 == 0:
            node.lose_the_disk()
        node.start()
        self.await_shares("a node is back")

    def kill_server(self, number):
        began_us, pair = load.now_us(), self.brokers
        what = ("promotion", "restart", "standby")[number // EACH % 3]
        print(f"round {number}: {what}", flush=True)
        server = pair.standby if what == "standby" else pair.primary
        server.stop(signal.SIGKILL)
        if what == "promotion":
            pair.switch()
        else:
            server.start()
        self.await_shares(what)
        self.met(began_us, load.now_us(), set(range(fault_case.PARTITIONS)))

    def test_once(self):
        for rounds in self.groups(ROUNDS):
            with self.load():
                for number in rounds:
                    self.be_busy()
                    if number % EACH == 2:
                        self.kill_server(number)
                    else:
                        self.kill_node(number)
        self.figures.show("into a table: kill -9 of a node, or of a server")
        self.assertEqual((self.several, self.of_cancelled), (0, 0))


class InboxOnceTest(InboxTest):
    """In the log's transactions, and the table knows nothing of repeats."""

    parameters, forgets = "?exactly_once=true", True


if __name__ == "__main__":
    fault_case.main()
