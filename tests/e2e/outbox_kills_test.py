"""The outbox of a PostgreSQL database with a real daemon: each committed row takes effect once and in the order of its key, and a
row that is rolled back never, while daemon, server and clients are killed. Method: beside each row its transaction writes a row
of the test's own table, so the database itself says what was committed; the version of a timer says how often it changed.

    TEST_OUTBOX_KILLS=N, TEST_INBOX_KILLS=N    kills of daemon, server and clients
    TEST_SEED=N                                repeats the choices
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import cluster_nodes
import harness
import outbox_test
import postgres_servers

KILLS = int(os.environ.get("TEST_OUTBOX_KILLS", "12"))
INBOX_KILLS = int(os.environ.get("TEST_INBOX_KILLS", "12"))
SWITCH_EVERY = 25  # kills of the server for one after which the standby is promoted
WRITERS = 4


class Writer(threading.Thread):
    """Writes transactions until it is told to stop. Each changes one or two of its own keys or schedules without one; half are
    rolled back, and some lose their session on the way."""

    def __init__(self, case, number, seed):
        super().__init__()
        self.case, self.number, self.random, self.is_over = case, number, random.Random(seed), False
        self.session, self.count = None, 0

    def statement(self):
        self.count += 1
        value = f"{self.number}-{self.count}"
        key = f"w{self.number}k{self.random.randrange(3)}"
        op = self.random.choice(["schedule", "put", "put", "touch", "cancel"])
        call = {"schedule": f"schedule('queue:a', '5 h', payload => '\"{value}\"')",
                "put": f"put('{key}', 'queue:a', '1 h', payload => '\"{value}\"')",
                "touch": f"touch('{key}', at => '2099-01-01T00:00Z'::timestamptz + interval '{self.count} s')",
                "cancel": f"cancel('{key}')"}[op]
        key = "NULL" if op == "schedule" else f"'{key}'"
        return f"INSERT INTO truth SELECT tickwheel.{call}, {key}, '{op}', '{value}';"

    def run(self):
        while not self.is_over:
            words = " ".join(self.statement() for _ in range(self.random.randint(1, 3)))
            end = self.random.choice(["COMMIT", "ROLLBACK"])
            if not self.session or self.session.poll() is not None:
                self.session = subprocess.Popen(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", self.case.url()],
                                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                text=True)
                harness.started.append(self.session)
            try:
                self.session.stdin.write(f"BEGIN; {words} {end}; SELECT 'over';\n")
                self.session.stdin.flush()
                while self.session.stdout.readline() not in ("over\n", ""):
                    pass
            except (BrokenPipeError, OSError):
                self.session.wait(20)

    def end(self):
        self.is_over = True
        self.join(60)
        self.kill()
        if self.session:
            self.session.wait(20)
            self.session.stdout.close()
            with contextlib.suppress(OSError):
                self.session.stdin.close()

    def kill(self):
        session = self.session
        if session and session.poll() is None:
            session.kill()


class WriterOfEvents(Writer):
    """Makes also timers that watch its event, and completes it."""

    def statement(self):
        if self.random.randrange(3):
            return super().statement()
        self.count += 1
        value, event = f"{self.number}-{self.count}", f"e{self.number}"
        op = self.random.choice(["watch", "watch", "complete"])
        watch = json.dumps({"watch": [event]})
        call = {"watch": f"schedule('queue:a', '5 h', payload => '\"{value}\"', fields => '{watch}')",
                "complete": f"complete('{event}')"}[op]
        return f"INSERT INTO truth SELECT tickwheel.{call}, '{event}', '{op}', '{value}';"


class WriterToInbox(Writer):
    """Writes timers that come back to a table of the database."""

    def statement(self):
        self.count += 1
        value = f"{self.number}-{self.count}"
        call = f"schedule('postgres://shop/public.inbox', '{self.random.randrange(1500)} ms', payload => '\"{value}\"')"
        return f"INSERT INTO truth SELECT tickwheel.{call}, NULL, 'schedule', '{value}';"


class Crowd(outbox_test.OutboxCase):
    """Writers, and what their committed rows ask."""

    def url(self):
        return self.where

    def expected(self, server):
        """What the committed rows ask: the values of timers without a key, and value and version of each live key."""
        free, live, watching = [], {}, {}
        for line in server.look("SELECT number, coalesce(key, ''), op, value FROM truth ORDER BY number").splitlines():
            _, key, op, value = line.split("|")
            if op == "schedule":
                free.append(value)
            elif op == "watch":
                watching.setdefault(key, []).append(value)
            elif op == "complete":
                watching.pop(key, None)
            elif op == "put":
                live[key] = (value, live[key][1] + 1 if key in live else 1)
            elif op == "cancel":
                live.pop(key, None)
            elif key in live:
                live[key] = (live[key][0], live[key][1] + 1)
        return sorted(sum(watching.values(), free)), live

    def check(self, server, daemon):
        self.await_empty(server, 400)
        timers = self.timers(daemon)
        free, live = self.expected(server)
        self.assertGreater(len(free), 0)
        self.assertEqual(sorted(timer["payload"] for timer in timers if "key" not in timer), free)
        self.assertEqual({timer["key"]: (timer["payload"], timer["version"]) for timer in timers if "key" in timer}, live)
        kinds = server.look("SELECT DISTINCT op || ' ' || (problem->>'type') FROM tickwheel.rejected ORDER BY 1").splitlines()
        self.assertLessEqual(set(kinds), {"touch /problems/not-found", "touch /problems/gone"})

    def begin_writers(self, seed, kind=Writer):
        writers = [kind(self, n, seed + n) for n in range(WRITERS)]
        for writer in writers:
            self.addCleanup(writer.end)
            writer.start()
        return writers

    def end_writers(self, writers):
        for writer in writers:
            writer.is_over = True
        for writer in writers:
            writer.end()

    def committed(self):
        return int(self.server.look("SELECT count(*) FROM truth"))


@unittest.skipIf(postgres_servers.missing(), postgres_servers.missing())
class OutboxUnderKills(Crowd):
    def enter_server(self):
        self.pair = self.enterContext(postgres_servers.Pair())
        self.where = self.pair.brokers() + "?target_session_attrs=read-write"
        return self.pair.primary

    def kill_all_in_turn(self, kind, kills):
        """Kills daemon, server and clients while writers of this kind work. The standby takes the place of some servers that
        are killed. Returns the daemon."""
        seed = int(os.environ.get("TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"TEST_SEED={seed}", file=sys.stderr)
        dice = random.Random(seed)
        daemon = self.start(self.where)
        writers = self.begin_writers(seed, kind)
        for kill in range(kills):
            taken = self.committed()
            harness.wait_until(lambda: self.committed() > taken + dice.randrange(20), 60, "some rows are committed")
            what = kill % 3
            if what == 0:
                daemon.signal(signal.SIGKILL)
                daemon = self.start(self.where)
            elif what == 1:
                self.server.stop(signal.SIGKILL)
                if kill // 3 % SWITCH_EVERY == 2:
                    self.pair.switch()
                    self.server = self.pair.primary
                else:
                    self.server.start()
            else:
                dice.choice(writers).kill()
        self.end_writers(writers)
        print(f"{kills} kills, {self.committed()} rows committed", file=sys.stderr)
        return daemon

    # proves: outbox-once
    def test_kills_of_daemon_server_and_clients(self):
        daemon = self.kill_all_in_turn(Writer, KILLS)
        self.check(self.server, daemon)

    # proves: outbox-once, inbox-once
    def test_from_a_commit_to_a_row(self):
        """Goal: a row of the outbox whose timer goes to a table of the database becomes exactly one row there, not before it is
        due, by the clock of the database alone."""
        self.server.look("""CREATE TABLE public.inbox (webhook_id text PRIMARY KEY, due timestamptz NOT NULL, attempt integer NOT NULL,
            key text, headers jsonb NOT NULL, payload jsonb, body bytea, at timestamptz NOT NULL DEFAULT clock_timestamp());
            CREATE VIEW public.arrived AS SELECT payload #>> '{}' AS value FROM public.inbox""")
        daemon = self.kill_all_in_turn(WriterToInbox, INBOX_KILLS)
        self.await_empty(self.server, 120)
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") == 0, 120, "all timers are over")
        committed = self.committed()
        self.assertGreater(committed, 0)
        self.assertEqual(int(self.server.look("SELECT count(*) FROM inbox")), committed)
        for one, other in (("SELECT value FROM truth", "SELECT value FROM arrived"), ("SELECT value FROM arrived", "SELECT value FROM truth")):
            self.assertEqual(self.server.look(f"{one} EXCEPT ALL {other}"), "")
        self.assertEqual(self.server.look("SELECT count(*) FROM inbox WHERE at < due"), "0")
        self.assertEqual(self.server.look("SELECT count(*) FROM tickwheel.rejected"), "0")

    def test_a_standby_is_promoted(self):
        daemon, standby = self.start(self.where), self.pair.standby
        writers = self.begin_writers(7)
        harness.wait_until(lambda: self.committed() > 100, 60, "some rows are committed")
        self.server.stop(signal.SIGKILL)
        standby.promote()
        before = int(standby.look("SELECT count(*) FROM truth"))
        harness.wait_until(lambda: int(standby.look("SELECT count(*) FROM truth")) > before + 50, 60, "writers go on")
        self.end_writers(writers)
        self.check(standby, daemon)

    def test_a_row_whose_end_the_standby_lacks_is_one_timer(self):
        """Method: the wait of its DELETE for the standby is cancelled, another row is there, and the standby is promoted."""
        daemon, standby = self.start(self.where), self.pair.standby
        harness.wait_until(lambda: self.server.look("SELECT holder FROM tickwheel.reader"), 20, "it reads")
        os.kill(daemon.process.pid, signal.SIGSTOP)
        self.server.look("SELECT tickwheel.schedule('queue:a', '1 h', payload => '\"one\"')")
        standby.stop(signal.SIGKILL)
        os.kill(daemon.process.pid, signal.SIGCONT)
        waits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'tickwheeld'"
        session = harness.wait_until(lambda: self.server.ask(waits), 30, "the DELETE waits for the standby")
        self.server.look("SET synchronous_commit = local; SELECT tickwheel.schedule('queue:a', '1 h', payload => '\"two\"')")
        self.server.ask(f"SELECT pg_cancel_backend({session})")
        harness.wait_until(lambda: "committed without its standby" in daemon.output(), 30, "it is told")
        self.server.stop(signal.SIGKILL)
        postgres_servers.Postgres.start(standby)
        standby.promote()
        standby.look("SELECT tickwheel.schedule('queue:a', '1 h', payload => '\"three\"')")
        self.await_empty(standby)
        harness.wait_until(lambda: [timer["payload"] for timer in self.timers(daemon)].count("three"), 20, "it goes on")
        self.assertEqual([timer["payload"] for timer in self.timers(daemon)].count("one"), 1)


@unittest.skipIf(postgres_servers.missing(), postgres_servers.missing())
class OutboxOfACluster(Crowd):
    """Three nodes whose log is in the database of the outbox."""

    PARTITIONS = 6

    def start_nodes(self, log=None, running=3, without=0):
        """`without`: the number of a node whose settings lack the source."""
        flags = ("--partitions", str(self.PARTITIONS), "--shards", "2", "--cluster-name", "shop", "--cluster-lease", "1s",
                 "--cluster-listen", "127.0.0.1:0", "--cluster-copy-records-min", "1")
        env = {"TICKWHEEL_SOURCES": f"shop={self.server.url()}"}
        self.where = self.server.url()
        self.nodes = [cluster_nodes.Node(number, log or self.where, *flags, env=env) for number in (1, 2, 3)]
        for node in self.nodes:
            self.addCleanup(node.close)
            if node.number == without:
                del node.env["TICKWHEEL_SOURCES"]
        made = self.nodes[0].run("--cluster-create")
        self.assertEqual(made.returncode, 0, made.stderr)
        for node in self.nodes[:running]:
            node.start()
        cluster_nodes.await_shares(self.nodes, self.PARTITIONS, 60, "started")

    def await_reader(self, other_than=None):
        """The node that reads, as the database says, once it is another one."""
        def look():
            holder = self.server.look("SELECT holder FROM tickwheel.reader")
            number = int(holder.rpartition(" ")[2] or 0)
            return number != (other_than and other_than.number) and number
        return self.nodes[harness.wait_until(look, 60, "a node reads") - 1]

    def end_drain(self, node):
        other = self.nodes[node.number % 3].daemon
        harness.wait_until(lambda: other.call("DELETE", f"/v1/cluster/nodes/{node.number}/drain")[0] == 200, 60, "undrained")

    def drain(self, node):
        harness.wait_until(lambda: node.daemon.call("PUT", f"/v1/cluster/nodes/{node.number}/drain")[0] == 200, 60, "drained")

    def test_a_node_that_cannot_pass_rows_on_refuses_to_read(self):
        done = cluster_nodes.Node(1, self.server.url(), env={"TICKWHEEL_SOURCES": f"shop={self.server.url()}"}).run("--check-config")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("needs cluster_listen", done.stderr)

    # proves: outbox-cluster
    def test_one_node_reads_for_all(self):
        self.start_nodes()
        reader = self.await_reader()
        look = self.server.look
        look("SELECT tickwheel.put('k' || n, 'queue:a', '1 h', fields => '{\"watch\": [\"sent\"]}') FROM generate_series(1, 40) n")
        look("SELECT tickwheel.schedule('queue:a', '1 h') FROM generate_series(1, 40) n")
        self.await_empty(self.server)
        for node in self.nodes:
            self.assertEqual(len(self.timers(node.daemon)), 80)
            self.assertEqual(node.daemon.metric("tickwheel_sources_read"), node is reader)
            self.assertEqual(node.daemon.metric("tickwheel_sources_still"), 0)
        self.assertEqual(reader.daemon.metric('tickwheel_source_rows_total{result="taken"}'), 80)
        self.drain(reader)
        after = self.await_reader(other_than=reader)
        look("SELECT tickwheel.touch('k' || n, at => '2099-01-01T00:00Z') FROM generate_series(1, 20) n")
        look("SELECT tickwheel.cancel('k' || n) FROM generate_series(31, 40) n")
        self.await_empty(self.server)
        harness.wait_until(lambda: after.daemon.metric("tickwheel_sources_read") == 1, 20, "it reads")
        harness.wait_until(lambda: reader.daemon.metric("tickwheel_sources_read") == 0, 20, "the former one does not")
        keys = [timer for timer in self.timers(reader.daemon) if "key" in timer]
        self.assertEqual((len(keys), sum(timer["due"].startswith("2099") for timer in keys)), (30, 20))
        look("SELECT tickwheel.complete('sent')")
        self.await_empty(self.server)
        self.assertEqual(len(self.timers(after.daemon)), 40)
        self.assertEqual(look("SELECT count(*) FROM tickwheel.rejected"), "0")

    # proves: outbox-cluster
    def test_the_owner_has_no_such_source(self):
        """Goal: a node that has the source says that its owner does not read it, and no longer once it reads it itself."""
        self.start_nodes(running=2, without=2)
        first, owner = self.nodes[:2]
        self.drain(first)
        harness.wait_until(lambda: first.owned() == 0, 60, "the other owns all")
        self.server.look("SELECT tickwheel.schedule('queue:a', '1 h') FROM generate_series(1, 5) n")
        first.daemon.find_in_output("event=source_still source=shop cause=\"?node 2 owns the partition", 120)
        self.assertEqual(first.daemon.metric("tickwheel_sources_still"), 1)
        self.assertIn("source shop is not read", json.dumps(first.daemon.call("GET", "/readyz")[2]))
        self.end_drain(first)
        self.drain(owner)
        self.await_empty(self.server)
        self.assertEqual([first.daemon.metric(f"tickwheel_sources_{what}") for what in ("read", "still")], [1, 0])

    # proves: outbox-once
    def test_what_was_taken_moves_with_a_partition(self):
        """Goal: a node that copies partitions from others knows which rows they took. Method: the database refuses to delete
        taken rows, until the node that copied is the only one."""
        self.start_nodes(running=2)
        self.server.look("CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';"
                         "CREATE TRIGGER refuse BEFORE DELETE ON tickwheel.outbox FOR EACH ROW EXECUTE FUNCTION public.refuse()")
        self.server.look("SELECT tickwheel.schedule('queue:a', '1 h') FROM generate_series(1, 60) n")
        harness.wait_until(lambda: len(self.timers(self.nodes[0].daemon)) == 60, 60, "the rows take effect")
        last = self.nodes[2]
        last.start()
        cluster_nodes.await_shares(self.nodes, self.PARTITIONS, 60, "the third joins")
        self.assertGreater(last.daemon.metric("tickwheel_cluster_copies_total"), 0)
        for node in self.nodes[:2]:
            node.end(signal.SIGKILL)
        cluster_nodes.await_shares(self.nodes, self.PARTITIONS, 60, "the third is alone")
        self.server.look("DROP TRIGGER refuse ON tickwheel.outbox")
        self.await_empty(self.server)
        self.assertEqual(len(self.timers(last.daemon)), 60)

    # proves: outbox-cluster, outbox-once
    def test_nodes_are_killed_frozen_and_drained(self):
        """Goal: each committed row takes effect once while the node that reads, and those that own the partitions, are killed,
        lose their disk, are frozen until another one reads, and are drained."""
        seed = int(os.environ.get("TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"TEST_SEED={seed}", file=sys.stderr)
        dice = random.Random(seed)
        self.start_nodes()
        writers = self.begin_writers(seed, WriterOfEvents)
        for turn in range(max(5, KILLS // 10)):
            taken = self.committed()
            harness.wait_until(lambda: self.committed() > taken + dice.randrange(60), 60, "some rows are committed")
            victim = self.await_reader() if dice.randrange(3) else dice.choice(self.nodes)
            was_reader = victim is self.await_reader()
            what = ("kill", "freeze", "drain", "lose", "server")[turn % 5]
            print(f"{what} {victim.number}{' that reads' if was_reader else ''}", file=sys.stderr)
            if what in ("kill", "lose"):
                victim.end(signal.SIGKILL)
                if what == "lose":
                    victim.lose_the_disk()
            elif what == "freeze":
                victim.daemon.process.send_signal(signal.SIGSTOP)
            elif what == "drain":
                self.drain(victim)
            if what == "server":
                self.server.stop(signal.SIGKILL)
                self.server.start()
            elif was_reader:
                self.await_reader(other_than=victim)
            if what in ("kill", "lose"):
                victim.start()
            elif what == "freeze":
                victim.daemon.process.send_signal(signal.SIGCONT)
            elif what == "drain":
                self.end_drain(victim)
        self.end_writers(writers)
        cluster_nodes.await_shares(self.nodes, self.PARTITIONS, 120, "the end")
        self.check(self.server, self.nodes[0].daemon)


if __name__ == "__main__":
    unittest.main()
