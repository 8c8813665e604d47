#!/usr/bin/env python3
"""Goal: a cluster on PostgreSQL is made once and checked, settings that endanger timers are refused, it works through a pooler and
with TLS, with at most six connections a node and no superuser; a server that is away, or whose standby is, is told within
seconds; a fail-over that lost acknowledged timers is told, and nothing of these partitions is served. Method: real servers,
which are stopped, killed, frozen and promoted; a real node beside them."""

import os
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_servers
import cluster_nodes
import harness
import postgres_servers

PARTITIONS = 4
FLAGS = ("--partitions", str(PARTITIONS), "--shards", "2", "--cluster-name", "shop")
READY_S = 120
CONNECTIONS_MAX = 6
TIMER = {"after": "1h", "target": "log:far"}
SKIPPED = 77


class OnPostgres(unittest.TestCase):
    def server(self, **how):
        server = postgres_servers.Postgres(**how)
        server.__enter__()
        self.addCleanup(server.__exit__)
        return server

    def node(self, log, *flags, number=1, env=None):
        node = cluster_nodes.Node(number, log, *FLAGS, *flags, env=env)
        self.addCleanup(node.close)
        return node

    def make(self, log, *flags, env=None):
        node = self.node(log, *flags, env=env)
        made = node.run("--cluster-create")
        self.assertEqual(made.returncode, 0, made.stderr)
        return node

    def start(self, node):
        daemon = node.start()
        harness.wait_until(daemon.is_ready, READY_S, "ready")
        harness.wait_until(lambda: node.owned() == PARTITIONS, READY_S, "all partitions are owned")
        return daemon

    def create(self, daemon):
        status, _, body = daemon.call("POST", "/v1/timers", TIMER)
        self.assertEqual(status, 201, body)
        return body["id"]

    def await_trouble(self, daemon, words):
        """Until /readyz says so; answers how long it took."""
        began = time.monotonic()

        def look():
            status, _, body = daemon.call("GET", "/readyz")
            return status == 503 and words in body["detail"]
        harness.wait_until(look, 30, f"/readyz says {words}")
        return time.monotonic() - began


class SettingsTest(OnPostgres):
    def test_a_second_call_changes_nothing(self):
        server = self.server()
        node = self.node(server.url())
        first, second = node.run("--cluster-create"), node.run("--cluster-create")
        self.assertEqual((first.returncode, second.returncode), (0, 0), first.stderr + second.stderr)
        self.assertIn("table shop_log with 4 partitions on PostgreSQL", first.stdout)
        self.assertIn("is on one server", first.stderr)
        self.assertEqual(second.stdout, first.stdout.replace("is made", "was there, and is right"))
        other = cluster_nodes.Node(1, server.url(), "--partitions", "8", "--cluster-name", "shop")
        self.addCleanup(other.close)
        done = other.run("--cluster-create")
        self.assertEqual(done.returncode, 1)
        self.assertIn("founded with 4 partitions, not 8", done.stderr)

    def test_dangerous_settings_are_refused(self):
        server = self.server()
        node = self.node(server.url(), "--cluster-durability", "replicated")
        done = node.run("--cluster-create")
        self.assertEqual(done.returncode, 1)
        self.assertIn("synchronous_standby_names is empty", done.stderr)
        for setting, words in (("synchronous_commit = off", "synchronous_commit is off"),):
            server.set(setting)
            done = harness.wait_until(lambda: (done := self.node(server.url()).run("--cluster-create")).returncode and done,
                                      30, setting)
            self.assertIn(words, done.stderr)

    def test_a_table_that_is_missing(self):
        server = self.server()
        node = self.node(server.url())
        done = node.run("--data-folder", node.data, "--listen-port", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the database has no table shop_log: tickwheeld --cluster-create makes it", done.stderr)

    def test_both_logs(self):
        done = self.node("postgres://nobody@127.0.0.1:1/x", "--cluster-brokers", "127.0.0.1:1").run("--check-config")
        self.assertIn("the log is in one of them", done.stderr)


class WaysTest(OnPostgres):
    def test_tls_and_a_password(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            certificates = broker_servers.Certificates(folder)
            other = tempfile.mkdtemp(dir=folder)
            stranger = broker_servers.Certificates(other)
            server = self.server(certificates=certificates, password="hush-hush")
            path = os.path.join(folder, "log")
            for authority, is_good in ((stranger.authority, False), (certificates.authority, True)):
                with open(path, "w", encoding="ascii") as file:
                    file.write(server.url(f"?sslmode=verify-full&sslrootcert={authority}") + "\n")
                node = self.node("postgres://x/x", "--cluster-log-file", path)
                node.flags = node.flags[2:]  # the file instead of the flag
                done = node.run("--cluster-create")
                self.assertNotIn("hush-hush", done.stdout + done.stderr)
                self.assertEqual(done.returncode == 0, is_good, done.stderr)
            daemon = self.start(node)
            self.create(daemon)
            self.assertNotIn("hush-hush", daemon.output())
            rows = server.ask("SELECT s.ssl, count(*) FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid)"
                              " WHERE a.application_name = 'tickwheel' GROUP BY 1")
            self.assertRegex(rows, r"^t\|\d+$")
            self.assertLessEqual(int(rows[2:]), CONNECTIONS_MAX)

    def test_a_pooler(self):
        if why := postgres_servers.PgBouncer.missing():
            self.skipTest(why)
        server = self.server()
        with postgres_servers.PgBouncer(server) as pooler:
            daemon = self.start(self.make(pooler.url()))
            self.create(daemon)
            server.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'tickwheel'")
            harness.wait_until(lambda: daemon.call("POST", "/v1/timers", TIMER)[0] == 201, 60, "it goes on")


class FaultsTest(OnPostgres):
    def test_the_server_is_away(self):
        server = self.server()
        daemon = self.start(self.make(server.url()))
        timer = self.create(daemon)
        server.stop(signal.SIGKILL)
        print(f"a dead server is named after {self.await_trouble(daemon, 'no PostgreSQL server answers'):.2f} s", flush=True)
        server.start()
        harness.wait_until(lambda: daemon.call("POST", "/v1/timers", TIMER)[0] == 201, READY_S, "it goes on")
        server.freeze()
        print(f"a frozen server is named after {self.await_trouble(daemon, 'PostgreSQL'):.2f} s", flush=True)
        server.thaw()
        harness.wait_until(lambda: daemon.call("POST", "/v1/timers", TIMER)[0] == 201, READY_S, "it goes on")
        self.assertEqual(daemon.call("GET", f"/v1/timers/{timer}")[0], 200)
        count = int(server.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tickwheel'"))
        self.assertLessEqual(count, CONNECTIONS_MAX)

    def test_the_standby_is_away(self):
        pair = postgres_servers.Pair()
        pair.__enter__()
        self.addCleanup(pair.__exit__)
        daemon = self.start(self.make(pair.brokers()))
        self.create(daemon)
        pair.standby.freeze()
        print(f"a missing standby is named after {self.await_trouble(daemon, 'no append is acknowledged'):.2f} s", flush=True)
        self.assertNotEqual(daemon.call("POST", "/v1/timers", TIMER)[0], 201)
        pair.standby.thaw()
        harness.wait_until(lambda: daemon.call("POST", "/v1/timers", TIMER)[0] == 201, READY_S, "it goes on")
        count = int(pair.primary.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tickwheel'"))
        self.assertLessEqual(count, CONNECTIONS_MAX)
        pair.primary.set("synchronous_standby_names = ''")  # as a promoted standby has it
        self.await_trouble(daemon, "the server would acknowledge alone")
        self.assertNotEqual(daemon.call("POST", "/v1/timers", TIMER)[0], 201)
        pair.primary.set("synchronous_standby_names = 'standby'")
        harness.wait_until(lambda: daemon.call("POST", "/v1/timers", TIMER)[0] == 201, READY_S, "it goes on")

    def test_a_fail_over_that_lost_timers(self):
        primary = self.server()
        standby = primary.standby(is_synchronous=False)
        standby.__enter__()
        self.addCleanup(standby.__exit__)
        both = f"postgres://{primary.user}@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/{primary.database}"
        daemon = self.start(self.make(both, "--cluster-durability", "server"))
        self.create(daemon)
        harness.wait_until(lambda: standby.look("SELECT count(*) FROM shop_log WHERE partition >= 0") ==
                           primary.look("SELECT count(*) FROM shop_log WHERE partition >= 0"), 60, "the standby has it")
        standby.stop()  # one that is frozen has what waits in its socket
        lost = [self.create(daemon) for _ in range(40)]
        primary.stop(signal.SIGKILL)
        standby.start()
        standby.promote()
        took = self.await_trouble(daemon, "")
        print(f"noticed after {took:.2f} s", flush=True)
        harness.wait_until(lambda: {each["state"] for each in daemon.call("GET", "/v1/cluster")[2]["partitions"]} ==
                           {"broken"}, READY_S, "all partitions are broken")
        harness.wait_until(lambda: "level=error" in daemon.output(), READY_S, "it is told")
        self.assertEqual({daemon.call("GET", f"/v1/timers/{timer}")[0] for timer in lost}, {503})
        self.assertEqual(daemon.call("POST", "/v1/timers", TIMER)[0], 503)


if __name__ == "__main__":
    if why := postgres_servers.missing():
        print(f"Skipped: {why}")
        sys.exit(SKIPPED)
    unittest.main()
