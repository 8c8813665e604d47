#!/usr/bin/env python3
"""Goal: in the database that has the cluster's log, the row of a firing and the call of a function commit with the record that it
has fired: each is there once, although a worker deletes rows as soon as it has them and so nothing knows them afterwards, and
whatever is killed or stopped. What one table or function does holds up no other, and takes no partition from its node. Method:
real nodes and a real server; the worker writes down each row that it deletes.

    TEST_SEED=N      repeats the choices
    TEST_ROUNDS=N    rounds of kill -9
"""

import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

for folder in ("support", "crash", "brokers"):
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", folder))
import broker_once_test
import harness
import load
import postgres_servers

READY_S = broker_once_test.READY_S
QUICK = {"max_attempts": 2, "base": "10ms", "cap": "20ms"}
COLUMNS = """(webhook_id text PRIMARY KEY, due timestamptz NOT NULL, attempt integer NOT NULL, key text,
    headers jsonb NOT NULL, payload jsonb, body bytea)"""
# `taken` has a row for each webhook_id as often as it came
TABLES = f"""CREATE TABLE timers {COLUMNS}; CREATE TABLE taken (webhook_id text, due timestamptz, at timestamptz);
CREATE SCHEMA tickwheel; CREATE TABLE tickwheel.called (webhook_id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
CREATE FUNCTION count_it(event jsonb) RETURNS void LANGUAGE sql AS
    $$INSERT INTO public.taken VALUES (event->>'webhook_id', (event->>'due')::timestamptz, clock_timestamp())$$"""
TAKE = """WITH gone AS (DELETE FROM timers RETURNING webhook_id, due)
    INSERT INTO taken SELECT webhook_id, due, clock_timestamp() FROM gone"""
# nothing is known of calls either
FORGET = "DELETE FROM tickwheel.called"
CALL = "postgres://bus/call/count_it"
LOCKED_S, WAIT_S = 15, 6

# what a function does, and why it is refused: what it sets must not reach the records of the log
FUNCTIONS = {
    "raises": ("RAISE EXCEPTION 'not today';", "not today"),
    "warns": ("RAISE WARNING 'careful';", ""),
    "sleeps": ("PERFORM pg_sleep(60);", "statement timeout"),
    "sets_path": ("SET search_path = nowhere;", ""),
    "sets_commit": ("PERFORM set_config('synchronous_commit', 'off', false);", ""),
    "sets_time": ("SET LOCAL statement_timeout = 1;", ""),
    "sets_read_only": ("SET TRANSACTION READ ONLY;", "read only"),
    "defers": ("SET CONSTRAINTS ALL DEFERRED;", ""),
}


class Worker(threading.Thread):
    """Takes rows, until it is told to stop."""

    def __init__(self, case):
        super().__init__(daemon=True)
        self.case, self.stop = case, threading.Event()

    def run(self):
        while not self.stop.wait(0.02):
            self.case.take()


class InboxOnceTest(broker_once_test.NodesUnderFaults, broker_once_test.OnceCase):
    rounds = load.rounds(2)
    targets = ("postgres://bus/timers",) * 9 + (CALL,)

    def start_brokers(self):
        self.broker = self.server = postgres_servers.Postgres()
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)
        self.server.look(TABLES)
        worker = Worker(self)
        worker.start()
        self.addCleanup(worker.join)
        self.addCleanup(worker.stop.set)

    def addresses(self):
        return self.server.url()

    def connection(self):
        return f"{self.server.url()}?exactly_once=true"

    def take(self):
        try:
            self.server.look(f"{TAKE}; {FORGET}")
        except RuntimeError:  # it is away
            time.sleep(0.1)

    def firings(self):
        try:
            return collections.Counter(self.server.look("SELECT webhook_id FROM taken").split())
        except RuntimeError:
            return collections.Counter()

    def compare(self, acknowledged):
        super().compare(acknowledged)
        self.assertEqual(self.server.look("SELECT count(*) FROM taken WHERE at < due").strip(), "0")

    def test_the_server_away(self):
        self.make_nodes(2)

        def faults():
            for _ in range(self.rounds):
                time.sleep(self.chance.uniform(0.5, 2))
                self.server.stop(signal.SIGKILL)
                time.sleep(self.chance.uniform(0, 3))
                self.server.start()
                self.await_shares("the server is back")
        self.compare(self.under_load(faults))

    def test_the_standby_away(self):
        """A commit that waits for the standby is not there before that has it, however long the node has given it up."""
        self.make_nodes(1)
        standby = self.server.standby()
        standby.__enter__()
        self.addCleanup(standby.__exit__)
        self.addCleanup(self.server.set, "synchronous_standby_names = ''")  # or the worker waits for one that is gone
        count = self.fill("postgres://bus/timers", WAIT_S)
        standby.freeze()
        harness.wait_until(lambda: self.server.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' "
                                                   "AND query = 'COMMIT'") != "0", READY_S, "a commit waits")
        there, until = self.came(), time.monotonic() + WAIT_S
        while time.monotonic() < until:
            self.assertEqual(self.came(), there)
        standby.thaw()
        harness.wait_until(lambda: self.came() == count, READY_S, "all of it came")

    def came(self):
        return int(self.server.look("SELECT (SELECT count(*) FROM timers) + (SELECT count(*) FROM taken)"))

    def test_what_tables_and_functions_do(self):
        """What is refused fails by itself, with the cause; others of the same moment fire; the node keeps its partitions."""
        self.make_nodes(1)
        claims = self.claims()
        self.server.look(f"""CREATE TABLE strict_one {COLUMNS.replace("attempt integer", "attempt integer CHECK (attempt < 0)")};
            CREATE TABLE deferred_one {COLUMNS};
            ALTER TABLE deferred_one ADD FOREIGN KEY (key) REFERENCES timers DEFERRABLE INITIALLY DEFERRED""" + "".join(f""";
            CREATE FUNCTION {name}(event jsonb) RETURNS void LANGUAGE plpgsql AS $$BEGIN {body} END$$"""
                                                           for name, (body, _) in FUNCTIONS.items()))
        refused = {self.create(f"postgres://bus/{name}", after=0, retry=QUICK, **more): words for name, more, words in (
            ("missing_one", {}, "does not exist"), ("strict_one", {}, "violates check constraint"),
            ("deferred_one", {"key": "nobody"}, "violates foreign key constraint"), ("shop_log", {}, "does not exist"))}
        calls = {name: self.create(f"postgres://bus/call/{name}", after=0, retry=QUICK) for name in FUNCTIONS}
        right = [self.create(after=0) for _ in range(100)]
        for timer in right:
            self.await_state(timer, "fired")
        for timer, words in refused.items():
            self.assertIn(words, self.await_state(timer, "dead")["last_error"])
        for name, (_, words) in FUNCTIONS.items():
            found = self.await_state(calls[name], "dead" if words else "fired")
            self.assertIn(words, found.get("last_error", ""), name)
        self.assertEqual(self.claims(), claims)

    def test_a_locked_table(self):
        """Others fire while a table is locked, and its timers when it is free."""
        self.make_nodes(1)
        claims = self.claims()
        self.server.look(f"CREATE TABLE locked_one {COLUMNS}")
        locker = subprocess.Popen(["psql", "-XAtq", self.server.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        harness.started.append(locker)
        locker.stdin.write("BEGIN; LOCK TABLE locked_one; SELECT 'locked';\n")
        locker.stdin.flush()
        self.assertEqual(locker.stdout.readline(), "locked\n")
        waiting = self.fill("postgres://bus/locked_one", LOCKED_S)
        began = time.monotonic()
        for timer in [self.create(after=0) for _ in range(20)]:
            self.await_state(timer, "fired")
        took_s = time.monotonic() - began
        locker.communicate("COMMIT;\n", timeout=20)
        harness.wait_until(lambda: self.server.look("SELECT count(*) FROM locked_one") == str(waiting), READY_S, "all of it came")
        print(f"others took {took_s:.1f} s", flush=True)
        self.assertLess(took_s, LOCKED_S / 3)
        self.assertEqual(self.claims(), claims)

    def fill(self, target, seconds):
        """Timers of which one is due each 10 ms from now on, for so long; how many."""
        count = seconds * 100
        lines = [json.dumps({"after": f"{10 * i}ms", "target": target, "retry": {"base": "200ms", "cap": "1s"}}) for i in range(count)]
        status, _, answer = self.nodes[0].daemon.call("POST", "/v1/timers/batch", "\n".join(lines),
                                                      {"Content-Type": "application/x-ndjson"})
        self.assertEqual((status, answer.count('"id"')), (200, count))
        return count

    def claims(self):
        return self.nodes[0].daemon.metric("tickwheel_cluster_claims_total")


if __name__ == "__main__":
    reason = postgres_servers.missing()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(verbosity=2)
