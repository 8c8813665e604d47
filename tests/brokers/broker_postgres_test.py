#!/usr/bin/env python3
"""Tables and functions of PostgreSQL, against a real server that is killed in the middle. See broker_scenario.py."""

import json
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import harness
import postgres_servers

QUICK = {"max_attempts": 2, "base": "10ms", "cap": "20ms"}
COLUMNS = """(webhook_id text PRIMARY KEY, due timestamptz NOT NULL, attempt integer NOT NULL, key text,
    headers jsonb NOT NULL, payload jsonb, body bytea, at timestamptz NOT NULL DEFAULT clock_timestamp())"""
CALLED = """CREATE SCHEMA IF NOT EXISTS tickwheel; CREATE TABLE IF NOT EXISTS tickwheel.called (
    webhook_id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"""


class Inbox(postgres_servers.Postgres):
    """With a table that timers go to."""

    def start(self, seconds=60):
        super().start(seconds)
        self.look(f"CREATE TABLE IF NOT EXISTS public.timers {COLUMNS}")

    def target(self, name=None):
        return f"postgres://main/{name or 'timers'}"

    def received(self):
        rows = self.look("SELECT json_build_array(headers, coalesce(payload::text, encode(body, 'escape')),"
                         " (extract(epoch FROM at) * 1000)::bigint) FROM timers")
        return [tuple(json.loads(line)) for line in rows.splitlines()]


class PostgresTest(broker_scenario.Scenario):
    server_class = Inbox

    def stop_broker(self):
        self.broker.stop(signal.SIGKILL)

    def count(self, what):
        return int(self.broker.look(f"SELECT count(*) FROM {what}"))

    def refused_targets(self):
        return [("postgres://main/", "names no table"), ("postgres://main/call/", "names no function"),
                ("postgres://main/a/b", "call/FUNCTION"), ("postgres://main/t?key=1", "no key")]

    def test_columns(self):
        """Goal: each column has what docs/brokers.md says; the payload's text is unchanged where the column keeps texts; names
        are schema.table, in the letters that were written."""
        self.broker.start()
        self.broker.look('CREATE SCHEMA "a b"; CREATE TABLE "a b"."T""x" '
                         + COLUMNS.replace("payload jsonb", "payload json"))
        daemon = self.start()
        payload = '{"a": 1.0, "a":2, "z": "\\u0000", "n": 123456789012345678901234567890.5}'
        status, _, timer = daemon.call("PUT", "/v1/keys/order:7%27/timer",
                                       '{"after": 0, "target": "postgres://main/a%20b.T%22x", "payload": ' + payload + "}",
                                       {"Content-Type": "application/json"})
        self.assertEqual(status, 201, timer)
        self.wait_until_over(daemon, timer, "fired")
        row = json.loads(self.broker.look('SELECT row_to_json(t) FROM (SELECT webhook_id, due, attempt, key, payload::text, body, '
                                          'headers->>\'content-type\' AS type, at >= due AS is_late FROM "a b"."T""x") AS t'))
        self.assertEqual(json.loads(row["payload"]), json.loads(payload))
        self.assertIn("123456789012345678901234567890.5", row["payload"])
        self.assertEqual((row["attempt"], row["key"], row["body"], row["type"], row["is_late"]),
                         (1, "order:7'", None, "application/json", True))

    def test_rows_that_are_refused(self):
        """Goal: a row that its table will never take is a dead letter at once and says why; those that went with it are stored,
        each once; what a migration may cure is tried again."""
        self.broker.start()
        self.broker.look("ALTER TABLE timers ADD CHECK (payload->>'n' <> '13')")
        daemon = self.start()
        due = int(time.time() * 1000) + 1500
        wrong = [self.create(daemon, at=due, payload={"n": 13}) for _ in range(20)]
        right = [self.create(daemon, at=due, payload={"n": n}) for n in range(100, 180)]
        absent = self.create(daemon, at=due, target=self.broker.target("later"),
                             retry={"max_attempts": 100, "base": "50ms", "cap": "100ms"})
        zero = self.create(daemon, at=due, payload={"n": "\0"})
        for timer in right:
            self.wait_until_over(daemon, timer, "fired")
        for timer in wrong:
            over = self.wait_until_over(daemon, timer, "dead")
            self.assertIn("violates check constraint", over["last_error"])
            self.assertEqual(over["attempts"], 1)
        self.assertIn("Unicode", self.wait_until_over(daemon, zero, "dead")["last_error"])
        self.assertEqual(self.count("timers"), 80)
        shown = harness.wait_until(
            lambda: (t := daemon.call("GET", f"/v1/timers/{absent['id']}")[2]).get("last_error") and t, 30, "a failed attempt")
        self.assertIn('relation "later" does not exist', shown["last_error"])
        self.broker.look(f"CREATE TABLE later {COLUMNS}")
        self.wait_until_over(daemon, absent, "fired")

    def test_a_table_that_is_locked(self):
        """Goal: the timers of other tables come meanwhile, at their first attempts."""
        self.broker.start()
        self.broker.look(f"CREATE TABLE public.other {COLUMNS}")
        daemon = self.start()
        locker = subprocess.Popen(["psql", "-XAtq", self.broker.url()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        harness.started.append(locker)
        locker.stdin.write("BEGIN; LOCK TABLE public.timers; SELECT 'locked';\n")
        locker.stdin.flush()
        self.assertEqual(locker.stdout.readline(), "locked\n")
        targets = [self.broker.target(), self.broker.target("other")] * 40
        self.schedule(daemon, targets, int(time.time() * 1000), 1)
        harness.wait_until(lambda: self.count("public.other") == 40, 60, "the others came")
        self.assertEqual(self.broker.look("SELECT max(attempt) FROM public.other"), "1")
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") == 40, 20, "they fired")
        locker.communicate("COMMIT;\n", timeout=20)
        harness.wait_until(lambda: self.count("public.timers") == 40, 60, "and then the rest")

    def test_a_function(self):
        """Goal: a function is called once, in one transaction with the record of the call: what it did before it raised is
        undone. One that does not return is ended, and delays no table."""
        self.broker.start()
        self.broker.look(CALLED)
        self.broker.look("""CREATE TABLE public.done (id text, event jsonb);
            CREATE FUNCTION public.work(event jsonb) RETURNS void LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO done VALUES (event->>'webhook_id', event);
                IF (event->>'attempt')::int < 3 THEN RAISE EXCEPTION 'not yet'; END IF; END $$;
            CREATE FUNCTION public.hang(event jsonb) RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(600)'""")
        daemon = self.start()
        timer = self.create(daemon, after=0, target="postgres://main/call/public.work", payload={"n": 1},
                            retry={"max_attempts": 5, "base": "10ms", "cap": "20ms"})
        self.assertEqual(self.wait_until_over(daemon, timer, "fired")["attempts"], 3)
        event = json.loads(self.broker.look("SELECT event FROM done"))
        self.assertEqual((event["attempt"], event["payload"], event["headers"]["tickwheel-attempt"]), (3, {"n": 1}, "3"))
        raw = self.create(daemon, after=0, target="postgres://main/call/work", body_base64="AAEC/w==",
                          content_type="image/x-test", retry={"max_attempts": 5, "base": "10ms", "cap": "20ms"})
        self.wait_until_over(daemon, raw, "fired")
        self.assertEqual(self.broker.look("SELECT event->>'body_base64' FROM done WHERE event ? 'body_base64'"), "AAEC/w==")
        hanging = self.create(daemon, after=0, target="postgres://main/call/hang", retry={**QUICK, "max_attempts": 1})
        harness.wait_until(lambda: self.count("pg_stat_activity WHERE query LIKE '%hang%' AND state = 'active'"
                                              " AND pid <> pg_backend_pid()"), 30, "it hangs")
        for _ in range(20):
            self.wait_until_over(daemon, self.create(daemon, after=0), "fired")
        self.assertEqual(daemon.call("GET", f"/v1/timers/{hanging['id']}")[0], 200, "the tables waited for the function")
        self.assertIn("statement timeout", self.wait_until_over(daemon, hanging, "dead")["last_error"])
        missing = self.create(daemon, after=0, target="postgres://main/call/pg_read_file", retry=QUICK)
        self.assertIn("does not exist", self.wait_until_over(daemon, missing, "dead")["last_error"])

    def test_a_role_that_may_only_insert(self):
        """Goal: the rights that docs/brokers.md names are enough; without them the timer is tried again."""
        self.broker.start()
        self.broker.ask("CREATE ROLE writer LOGIN")
        url = self.broker.url().replace(f"{postgres_servers.USER}@", "writer@")
        daemon = self.enterContext(harness.Daemon(self.data, "--broker-connections", f"main={url}"))
        timer = self.create(daemon, after=0, retry={"max_attempts": 100, "base": "50ms", "cap": "100ms"})
        shown = harness.wait_until(
            lambda: (t := daemon.call("GET", f"/v1/timers/{timer['id']}")[2]).get("last_error") and t, 30, "a failed attempt")
        self.assertIn("permission denied", shown["last_error"])
        self.broker.look("GRANT INSERT, SELECT (webhook_id) ON timers TO writer")
        self.wait_until_over(daemon, timer, "fired")
        self.assertEqual(self.count("timers"), 1)

    def test_wrong_password(self):
        """Goal: a login that is refused shows in the log, without the password."""
        server = Inbox(password="right")
        self.addCleanup(server.__exit__)
        server.start()
        daemon = self.enterContext(harness.Daemon(
            self.data, "--broker-connections", f"main={server.url().replace(':right@', ':hush@')}"))
        daemon.find_in_output("event=broker_unreachable broker=main kind=postgres cause=.*password")
        self.assertNotIn("hush", daemon.output())
        with harness.Daemon(self.data + "2", "--broker-connections", f"main={server.url()}") as other:
            self.addCleanup(broker_scenario.shutil.rmtree, self.data + "2")
            other.find_in_output("event=broker_connected")

    def test_a_pooler(self):
        """Goal: a pooler that gives servers for one transaction may be in between."""
        why = postgres_servers.PgBouncer.missing()
        if why:
            self.skipTest(why)
        self.broker.start()
        pooler = self.enterContext(postgres_servers.PgBouncer(self.broker))
        daemon = self.enterContext(harness.Daemon(self.data, "--broker-connections", f"main={pooler.url()}"))
        timers = self.schedule(daemon, [self.broker.target()] * 2000, int(time.time() * 1000), 1)
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") == 2000, 60, "all fired")
        self.assertEqual(self.count("timers"), len(timers))

    def test_a_promoted_standby(self):
        """Goal: when a standby takes the place of a dead server, the timers go there; none is lost, none comes twice."""
        self.broker.start()
        standby = self.broker.standby()
        self.addCleanup(standby.__exit__)
        postgres_servers.Standby.start(standby)
        url = self.broker.url().replace(f":{self.broker.port}/", f":{self.broker.port},127.0.0.1:{standby.port}/")
        daemon = self.enterContext(harness.Daemon(self.data, "--broker-connections", f"main={url}"))
        timers = self.schedule(daemon, [self.broker.target()] * 5000, int(time.time() * 1000), 2000)
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") > 500, 60, "some have fired")
        self.broker.stop(signal.SIGKILL)
        standby.promote()
        standby.set("synchronous_standby_names = ''")
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") == 5000, 120, "all fired")
        self.assertEqual(int(standby.look("SELECT count(DISTINCT webhook_id) FROM timers")), len(timers))

    # proves: inbox-once
    def test_a_synchronous_standby_is_away(self):
        """Goal: a timer has not fired while a fail-over to the synchronous standby may lose its row. Method: the standby stands
        still, and the wait for it is ended at the server, which thereby commits alone, until the daemon waits again."""
        self.broker.start()
        self.broker.look(CALLED + "; CREATE FUNCTION public.work(event jsonb) RETURNS void LANGUAGE sql AS ''")
        standby = self.broker.standby()
        self.addCleanup(standby.__exit__)
        postgres_servers.Standby.start(standby)
        daemon = self.start()
        standby.freeze()
        self.schedule(daemon, [self.broker.target(), "postgres://main/call/work"], int(time.time() * 1000), 1)

        def rows():
            return self.count("timers") + self.count("tickwheel.called")

        def commit_alone():
            self.broker.ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            return rows() == 2

        def are_repeated():
            return self.broker.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "2"
        harness.wait_until(commit_alone, 60, "both are committed")
        harness.wait_until(are_repeated, 60, "both wait again")
        self.assertEqual(daemon.metric("tickwheel_timers_fired_total"), 0)
        standby.thaw()
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") == 2, 60, "both fired")
        self.assertEqual(rows(), 2)

    # proves: inbox-once
    def test_once_under_kills(self):
        """Goal: whatever is killed, each timer is one row and one call, never before it was due."""
        rounds = int(os.environ.get("TEST_ROUNDS", "6"))
        seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 30)))
        print(f"TEST_SEED={seed} TEST_ROUNDS={rounds}")
        dice = random.Random(seed)
        self.broker.start()
        self.broker.look(CALLED)
        self.broker.look("""CREATE TABLE public.done (id text, due timestamptz, at timestamptz DEFAULT clock_timestamp());
            CREATE FUNCTION public.work(event jsonb) RETURNS void LANGUAGE sql AS
            $$ INSERT INTO done VALUES (event->>'webhook_id', (event->>'due')::timestamptz) $$""")
        daemon, expected = self.start(), [0, 0]
        for _ in range(rounds):
            now = int(time.time() * 1000)
            for kind, target in enumerate((self.broker.target(), "postgres://main/call/work")):
                expected[kind] += len(self.schedule(daemon, [target] * 400, now + 300, 800))
            fired = daemon.metric("tickwheel_timers_fired_total")
            some = dice.randrange(1, 600)
            harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") >= fired + some or
                               time.time() * 1000 > now + 5000, 60, "some have fired")
            if dice.random() < 0.5:
                self.stop_broker()
                self.broker.start()
            else:
                daemon.signal(signal.SIGKILL)
                daemon = self.start()
        def counts():
            return [self.count("timers"), self.count("done")]
        harness.wait_until(lambda: counts() == expected, 120, f"{expected} rows")
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") == 0, 60, "none is left")
        self.assertEqual(counts(), expected)
        self.assertEqual(self.count("(SELECT DISTINCT id FROM done) AS ids"), expected[1])
        self.assertEqual([self.count("timers WHERE at < due"), self.count("done WHERE at < due")], [0, 0])


if __name__ == "__main__":
    broker_scenario.main(PostgresTest, Inbox)
