"""The outbox of a PostgreSQL database with a real daemon: what each row does, what is refused, and databases of every kind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
import postgres_servers


class OutboxCase(unittest.TestCase):

    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-outbox-")
        self.addCleanup(shutil.rmtree, self.data)
        self.server = self.enter_server()
        self.make_outbox(self.server)

    def enter_server(self):
        return self.enterContext(postgres_servers.Postgres())

    def make_again(self):
        subprocess.run([harness.find("tickwheel"), "postgres", "init", self.server.url(), "--apply"], check=True,
                       capture_output=True, timeout=60)

    def make_outbox(self, server):
        self.make_again()
        server.look("CREATE TABLE truth (number bigint PRIMARY KEY, key text, op text, value text)")

    def start(self, url, data=None, flags=()):
        daemon = harness.Daemon(data or self.data, "--broker-connections", f"shop={url}", *flags, env={**os.environ, "TICKWHEEL_SOURCES": f"shop={url}"})
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 30, "ready")
        return daemon

    def await_empty(self, server, seconds=60):
        harness.wait_until(lambda: server.look("SELECT count(*) FROM tickwheel.outbox") == "0", seconds, "the outbox is empty")

    def timers(self, daemon):
        found, where = [], "/v1/timers?limit=1000"
        while where:
            status, _, page = daemon.call("GET", where)
            self.assertEqual(status, 200, page)
            found += page["timers"]
            where = page["next"] and f"/v1/timers?limit=1000&cursor={page['next']}"
        return found


@unittest.skipIf(postgres_servers.missing(), postgres_servers.missing())
class Outbox(OutboxCase):

    def test_each_row_does_what_the_call_of_the_api_does(self):
        daemon = self.start(self.server.url())
        look = self.server.look
        look("SELECT tickwheel.schedule('queue:a', '1 h', payload => '{\"n\": 1.50}', key => 'k', "
             "fields => '{\"labels\": {\"team\": \"shop\"}, \"watch\": [\"paid\"]}')")
        look("SELECT tickwheel.schedule('queue:b', '1 h', fields => '{\"watch\": [\"sent\"]}')")
        self.await_empty(self.server)
        first, second = self.timers(daemon)
        self.assertEqual((first["key"], first["payload"], first["labels"]), ("k", {"n": 1.5}, {"team": "shop"}))
        self.assertEqual(second["target"], "queue:b")
        look("SELECT tickwheel.put('k', 'queue:c', '2 h'); SELECT tickwheel.touch('k', at => '2099-01-01T00:00Z')")
        look("SELECT tickwheel.complete('sent')")
        self.await_empty(self.server)
        only, = self.timers(daemon)
        self.assertEqual((only["due"], only["target"], only["version"]), ("2099-01-01T00:00:00.000Z", "queue:c", 3))
        look("SELECT tickwheel.cancel('k'); SELECT tickwheel.cancel('k'); SELECT tickwheel.cancel('never')")
        self.await_empty(self.server)
        self.assertEqual(self.timers(daemon), [])
        self.assertEqual(look("SELECT count(*) FROM tickwheel.rejected"), "0")

    def test_items_in_strict_order(self):
        daemon = self.start(self.server.url(), flags=("--shards", "3"))
        fields = '{"order": "strict"}'
        self.server.look(f"SELECT tickwheel.schedule('queue:a', at => '2026-01-01T00:00Z'::timestamptz - n * interval '1 s', "
                         f"payload => to_json(n), fields => '{fields}') FROM generate_series(1, 40) n")
        self.await_empty(self.server)
        def lease(count):
            status, _, answer = daemon.call("POST", "/v1/queues/a/lease", {"max": count, "wait": "20s", "lease": "60s"})
            self.assertEqual(status, 200, answer)
            return answer["items"]

        first, = lease(1)
        status, _, answer = daemon.call("POST", "/v1/queues/a/nack", {"receipts": [first["receipt"]], "delay": "1s"})
        self.assertEqual(status, 200, answer)
        came = []
        while len(came) < 40:
            came += [item["payload"] for item in lease(10)]
        self.assertEqual(came, list(range(40, 0, -1)))  # no item passed the one that failed

    # proves: outbox-rejected
    def test_what_is_refused_is_kept_with_its_problem(self):
        daemon = self.start(self.server.url())
        look = self.server.look
        look("SELECT tickwheel.schedule('nonsense', '1 h', key => 'k')")
        look("SELECT tickwheel.touch('absent', '1 h')")
        look("SELECT tickwheel.schedule('queue:a', '1 h', fields => '{\"color\": 1}')")
        look("SELECT tickwheel.schedule('queue:a', '1 h', fields => '{\"key\": \"elsewhere\"}')")
        look(f"SELECT tickwheel.schedule('queue:a', '1 h', payload => to_json(repeat('x', {3 << 20})))")
        look("SELECT tickwheel.cancel(E'\\t')")
        look("SELECT tickwheel.schedule('queue:a', '1 h', key => 'k')")
        look("SELECT tickwheel.schedule('queue:other', '1 h', key => 'k')")
        self.await_empty(self.server)
        rows = json.loads(look("SELECT json_agg(t) FROM (SELECT id, problem FROM tickwheel.rejected ORDER BY id) t"))
        told = [(row["id"], row["problem"]["type"], [fault["pointer"] for fault in row["problem"].get("errors", [])])
                for row in rows]
        self.assertEqual(told, [
            (1, "/problems/invalid", ["#/target"]), (2, "/problems/not-found", []), (3, "/problems/invalid", ["#/color"]),
            (4, "/problems/invalid", ["#/key"]), (5, "/problems/too-large", []), (6, "/problems/invalid", ["#/key"]),
            (8, "/problems/key-in-use", [])])
        self.assertEqual([timer["key"] for timer in self.timers(daemon)], ["k"])
        self.assertEqual(daemon.metric('tickwheel_source_rows_total{result="refused"}'), 7)

    # proves: outbox-order
    def test_a_transaction_that_commits_late_is_not_overlooked(self):
        daemon = self.start(self.server.url())
        late = subprocess.Popen(["psql", "-XAtq", self.server.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        harness.started.append(late)
        late.stdin.write("BEGIN; SELECT tickwheel.put('late', 'queue:a', '1 h');\n")
        late.stdin.flush()
        self.assertEqual(late.stdout.readline().strip(), "1")
        for n in range(20):
            self.server.look(f"SELECT tickwheel.put('k{n}', 'queue:a', '1 h')")
        harness.wait_until(lambda: len(self.timers(daemon)) == 20, 20, "the others are taken")
        late.stdin.write("COMMIT;\n")
        late.stdin.close()
        late.wait(20)
        late.stdout.close()
        harness.wait_until(lambda: len(self.timers(daemon)) == 21, 20, "the late one is taken")

    def test_one_daemon_reads_at_a_time(self):
        self.start(self.server.url())
        harness.wait_until(lambda: self.server.look("SELECT holder FROM tickwheel.reader"), 20, "the first reads")
        other = tempfile.mkdtemp(prefix="tickwheel-outbox-")
        self.addCleanup(shutil.rmtree, other)
        second = self.start(self.server.url(), other)
        harness.wait_until(lambda: "another daemon reads it" in second.output(), 20, "the second says so")
        self.server.look("SELECT tickwheel.schedule('queue:a', '1 h')")
        self.await_empty(self.server)
        self.assertEqual(self.timers(second), [])
        self.assertEqual(second.metric("tickwheel_sources_still"), 1)
        harness.wait_until(lambda: "source shop is not read" in str(second.call("GET", "/readyz")[2]), 20, "it is shown")
        doctor = subprocess.run([harness.find("tickwheel"), "doctor", "--url", f"http://127.0.0.1:{second.port}"],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("source shop is not read", doctor.stdout + doctor.stderr)

    def test_no_room_makes_rows_wait(self):
        daemon = harness.Daemon(self.data, "--pending-max", "5",
                                env={**os.environ, "TICKWHEEL_SOURCES": f"shop={self.server.url()}"})
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 30, "ready")
        self.server.look("SELECT tickwheel.put('k' || n, 'queue:a', '1 h') FROM generate_series(1, 8) n")
        harness.wait_until(lambda: self.server.look("SELECT count(*) FROM tickwheel.outbox") == "3", 20, "five are taken")
        for timer in self.timers(daemon)[:3]:
            daemon.call("DELETE", f"/v1/timers/{timer['id']}")
        self.await_empty(self.server)
        self.assertEqual(len(self.timers(daemon)), 5)

    def test_ids_may_be_given_out_once_more(self):
        """As after a fail-over to a standby whose sequence is behind: a row is not taken for the former one of its id."""
        daemon = self.start(self.server.url())
        self.server.look("SELECT tickwheel.schedule('queue:a', '1 h', payload => to_json(n)) FROM generate_series(1, 3) n")
        self.await_empty(self.server)
        daemon.process.kill()
        daemon.process.wait(20)
        self.server.look("SELECT setval('tickwheel.outbox_id', 1)")
        self.server.look("SELECT tickwheel.schedule('queue:a', '1 h', payload => to_json(n)) FROM generate_series(4, 5) n")
        daemon = self.start(self.server.url())
        self.await_empty(self.server)
        self.assertEqual(sorted(timer["payload"] for timer in self.timers(daemon)), [1, 2, 3, 4, 5])

    def test_functions_of_others(self):
        """A role that may make functions where the daemon's role looks has none of them called."""
        self.server.ask("CREATE ROLE mallory LOGIN")
        self.server.ask("GRANT CREATE ON SCHEMA public TO mallory", database=self.server.database)
        for name, result, arguments in (
                ("pg_column_size", "int", "json"), ("convert_from", "text", "bytea, text"), ("nextval", "bigint", "text"),
                ("currval", "bigint", "text"), ("to_json", "json", "text"), ("hashtextextended", "bigint", "text, int"),
                ("times", "float8", "float8, int"), ("times", "numeric", "numeric, int"), ("joined", "text", "text, json")):
            self.server.ask(f"CREATE FUNCTION public.{name}({arguments}) RETURNS {result} LANGUAGE plpgsql AS "
                            "$$ BEGIN RAISE EXCEPTION 'called'; END $$", user="mallory", database=self.server.database)
        for sign, function, left, right in (("*", "times", "float8", "int"), ("*", "times", "numeric", "int"),
                                            ("||", "joined", "text", "json")):
            self.server.ask(f"CREATE OPERATOR public.{sign} (FUNCTION = public.{function}, LEFTARG = {left}, RIGHTARG = {right})",
                            user="mallory", database=self.server.database)
        self.make_again()
        daemon = self.start(self.server.url())
        self.server.look("SELECT tickwheel.schedule('queue:a', '1 h', payload => '1', fields => '{\"labels\": {\"a\": \"b\"}}')")
        self.server.look("SELECT tickwheel.schedule('nonsense', at => '2099-01-01T00:00Z')")
        self.await_empty(self.server)
        self.assertEqual(len(self.timers(daemon)), 1)
        self.assertEqual(self.server.look("SELECT count(*) FROM tickwheel.rejected"), "1")

    def test_a_database_of_another_encoding(self):
        """Texts are what they are there; a problem that quotes what its encoding lacks is kept in ASCII."""
        self.server.ask("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0 OWNER tickwheel")
        self.server.database = "latin"
        self.make_outbox(self.server)
        self.server.look("CREATE TABLE public.inbox (webhook_id text PRIMARY KEY, due timestamptz NOT NULL, attempt integer NOT NULL,"
                         " key text, headers json NOT NULL, payload json, body bytea)")
        daemon = self.start(self.server.url())
        key, payload = "'caf' || chr(233)", "to_json(chr(233))"
        self.server.look(f"SELECT tickwheel.schedule('postgres://shop/public.inbox', '0 s', key => {key}, payload => {payload})")
        self.server.look(f"SELECT tickwheel.schedule('queue:a', '1 h', key => {key}, fields => '{{\"\\u20ac\": 1}}')")
        self.await_empty(self.server)
        harness.wait_until(lambda: self.server.look("SELECT count(*) FROM public.inbox") == "1", 20, "the row")
        self.assertEqual(self.server.look(f"SELECT key = {key} AND payload::text = {payload}::text FROM public.inbox"), "t")
        self.assertIn("\\u20ac", self.server.look("SELECT problem::text FROM tickwheel.rejected"))
        self.assertEqual(self.timers(daemon), [])

    def test_a_database_that_does_not_wait_for_its_disk(self):
        """With synchronous_commit off a crash takes commits back, but not that a row was taken."""
        self.server.ask(f"ALTER DATABASE {self.server.database} SET synchronous_commit = off")
        daemon = self.start(self.server.url())
        for n in range(3):
            self.server.look(f"SET synchronous_commit = on; SELECT tickwheel.schedule('queue:a', '1 h', payload => '{n}')")
            self.await_empty(self.server)
        self.server.stop(signal.SIGKILL)
        self.server.start()
        self.assertEqual(self.server.look("SELECT count(*) FROM tickwheel.outbox"), "0")
        self.assertEqual(len(self.timers(daemon)), 3)

    def test_the_table_is_made_shorter_while_nobody_writes(self):
        """Goal: VACUUM, which waits up to 5 s for a moment without writers if it is to make the table shorter, does so only while
        the reader sleeps. Method: the lock that a writer has keeps the reader awake."""
        self.server.look("ALTER TABLE tickwheel.outbox SET (autovacuum_enabled = false)")
        writer = subprocess.Popen(["psql", "-XAtq", self.server.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        harness.started.append(writer)
        writer.stdin.write("SELECT pg_advisory_lock_shared(1953065836, 0) IS NOT NULL;\n")
        writer.stdin.flush()
        self.assertEqual(writer.stdout.readline().strip(), "t")
        self.start(self.server.url())
        self.server.look("INSERT INTO tickwheel.outbox (op, body) SELECT 'schedule', '{\"after\": \"1h\", \"target\": \"queue:a\"}' "
                         "FROM generate_series(1, 20000)")  # OUTBOX_VACUUM_ROWS
        size = lambda: int(self.server.look("SELECT pg_relation_size('tickwheel.outbox')"))
        harness.wait_until(lambda: int(self.server.look("SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'outbox'")) > 0,
                           60, "VACUUM has run")
        self.await_empty(self.server)
        self.assertGreater(size(), 1 << 20)
        writer.stdin.close()
        writer.wait(20)
        writer.stdout.close()
        harness.wait_until(lambda: size() < 1 << 16, 60, "the table is short")

    @unittest.skipIf(postgres_servers.PgBouncer.missing(), postgres_servers.PgBouncer.missing())
    def test_a_pooler_may_be_between(self):
        with postgres_servers.PgBouncer(self.server) as pooler:
            daemon = self.start(pooler.url())
            for n in range(5):
                self.server.look(f"SELECT tickwheel.schedule('queue:a', '1 h', key => 'k{n}')")
                self.await_empty(self.server)
            self.assertEqual(len(self.timers(daemon)), 5)
            self.assertEqual(self.server.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0")


if __name__ == "__main__":
    unittest.main()
