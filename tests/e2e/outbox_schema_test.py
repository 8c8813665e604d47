"""The outbox of a database, without a daemon: what its functions write, who may write, and in which order rows get their ids.
Method: `tickwheel postgres init` on a real server, and sessions of psql that run at the same time."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
import postgres_servers


class Session:
    """A session of psql that is given statements one by one."""

    def __init__(self, server, user):
        self.process = subprocess.Popen(
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(server.port), "-U", user, "-d",
             server.database], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        harness.started.append(self.process)

    def send(self, sql):
        self.process.stdin.write(sql + "\n")
        self.process.stdin.flush()

    def ask(self, sql):
        self.send(sql)
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@unittest.skipIf(postgres_servers.missing(), postgres_servers.missing())
class OutboxSchema(unittest.TestCase):

    def setUp(self):
        self.server = self.enterContext(postgres_servers.Postgres())
        self.init("--apply")
        self.server.ask("CREATE ROLE shop LOGIN")
        self.server.look("GRANT USAGE ON SCHEMA tickwheel TO shop; GRANT INSERT ON tickwheel.outbox TO shop")

    def init(self, *words, expected=0):
        done = subprocess.run([harness.find("tickwheel"), "postgres", "init", self.server.url(), *words],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, expected, done.stderr)
        return done.stdout + done.stderr

    def shop(self, sql):
        return self.server.ask(sql, user="shop", database=self.server.database)

    def refused(self, sql, words):
        with self.assertRaises(RuntimeError) as raised:
            self.shop(sql)
        self.assertIn(words, str(raised.exception))

    def rows(self):
        text = self.server.look("SELECT coalesce(json_agg(outbox ORDER BY id), '[]') FROM tickwheel.outbox")
        return [(row["op"], row["key"], row["body"]) for row in json.loads(text)]

    def test_the_functions_write_the_requests_of_the_api(self):
        self.assertEqual(self.shop("SELECT tickwheel.schedule('queue:a', at => '2027-01-02T03:04:05.0001Z')"), "1")
        self.shop("""SELECT tickwheel.schedule('https://a/b', payload => '{"n": 1.50}', key => 'k',
                     fields => ' {"every": "1h", "labels": {"team": "shop"}} ')""")
        self.shop("SELECT tickwheel.put('k', 'queue:a', at => '2027-01-02T00:00Z', fields => '{}')")
        self.shop("SELECT tickwheel.touch('k', at => '2027-01-02T00:00Z'), tickwheel.cancel('k')")
        self.shop("SELECT tickwheel.complete('order:42')")
        self.assertEqual(self.rows(), [
            ("schedule", None, {"target": "queue:a", "at": "2027-01-02T03:04:05.001Z"}),
            ("schedule", "k", {"target": "https://a/b", "payload": {"n": 1.5}, "every": "1h", "labels": {"team": "shop"}}),
            ("put", "k", {"target": "queue:a", "at": "2027-01-02T00:00:00.000Z"}),
            ("touch", "k", {"at": "2027-01-02T00:00:00.000Z"}), ("cancel", "k", None), ("complete", "order:42", None)])
        before = self.server.look("SELECT clock_timestamp() + interval '30 min'")
        self.shop("SELECT tickwheel.schedule('queue:a', after => '30 min')")
        self.assertEqual(self.server.look(f"""SELECT (body->>'at')::timestamptz BETWEEN '{before}' AND
                         clock_timestamp() + interval '30 min 1 ms' FROM tickwheel.outbox ORDER BY id DESC LIMIT 1"""), "t")

    def test_what_sql_can_check_is_refused_at_once(self):
        self.refused("SELECT tickwheel.schedule('queue:a', after => '-1 s')", "after must not be negative")
        self.refused("SELECT tickwheel.schedule('queue:a', '1 s', now())", "give after or at, not both")
        self.refused("SELECT tickwheel.schedule('queue:a', fields => '[]')", "fields must be a JSON object")
        self.refused("SELECT tickwheel.schedule('queue:a', at => 'infinity')", "at must be a time")
        self.refused("SELECT tickwheel.touch('k')", "give after or at")
        self.refused("SELECT tickwheel.cancel('')", "outbox_key_check")
        self.refused(f"SELECT tickwheel.cancel('{'k' * 257}')", "outbox_key_check")
        self.refused("SELECT tickwheel.cancel(NULL)", "violates check constraint")
        self.refused("INSERT INTO tickwheel.outbox (op, body) VALUES ('drop', '{}')", "violates check constraint")
        self.refused("INSERT INTO tickwheel.outbox (op, body) VALUES ('schedule', '1')", "violates check constraint")
        self.assertEqual(self.rows(), [])

    # proves: outbox-writer
    def test_a_writer_may_insert_and_nothing_else(self):
        self.shop("INSERT INTO tickwheel.outbox (id, op, body) VALUES (-7, 'schedule', '{}')")
        self.assertEqual(self.server.look("SELECT id FROM tickwheel.outbox"), "1")
        for sql in ("SELECT * FROM tickwheel.outbox", "DELETE FROM tickwheel.outbox", "UPDATE tickwheel.outbox SET key = 'x'",
                    "SELECT * FROM tickwheel.reader", "INSERT INTO tickwheel.rejected SELECT 1"):
            self.refused(sql, "permission denied")

    # proves: outbox-writer
    def test_a_writer_chooses_no_time_of_a_row(self):
        """The reader computes with it, and an infinite one would stop it."""
        self.shop("INSERT INTO tickwheel.outbox (op, body, written) VALUES ('schedule', '{}', '-infinity')")
        self.assertEqual(self.server.look("SELECT clock_timestamp() - written < '1 min' FROM tickwheel.outbox"), "t")

    def test_any_json_may_be_a_payload(self):
        """What a helper of a client passes in `fields` is not decoded: no type text of the server takes \\u0000."""
        body = '{"payload": {"a": "x\\u0000y"}}'
        self.shop(f"SELECT tickwheel.schedule('queue:a', fields => '{body}')")
        self.shop("SELECT tickwheel.schedule('queue:a', payload => '\"\\u0000\"', fields => ' { } ')")
        self.assertEqual(self.server.look("SELECT body FROM tickwheel.outbox ORDER BY id").splitlines(),
                         ['{"target":"queue:a",' + body[1:], '{"target":"queue:a","payload":"\\u0000"}'])

    def test_rows_of_a_key_get_their_ids_in_the_order_of_commit(self):
        first, second = Session(self.server, "shop"), Session(self.server, "shop")
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        self.assertEqual(first.ask("BEGIN; SELECT tickwheel.put('k', 'queue:a', '1 h');"), "1")
        self.assertEqual(second.ask("BEGIN; SELECT tickwheel.put('other', 'queue:a', '1 h');"), "2")
        second.send("SELECT tickwheel.cancel('k'); COMMIT;")
        harness.wait_until(lambda: self.server.ask("SELECT count(*) FROM pg_locks WHERE NOT granted") == "1", 20,
                           "the second waits for the key")
        self.assertEqual(self.shop("SELECT tickwheel.cancel('third')"), "3")
        self.assertEqual(self.rows(), [("cancel", "third", None)])
        first.send("COMMIT;")
        self.assertEqual(second.process.stdout.readline().strip(), "4")
        harness.wait_until(lambda: len(self.rows()) == 4, 20, "both are committed")

    def test_an_inbox(self):
        """Goal: the table has the columns that the sender writes, under the target's name; made again, it keeps its rows."""
        self.server.look('CREATE SCHEMA "a b"')
        for _ in range(2):
            self.assertEqual(self.init("--inbox", 'a b.T"x', "--apply"), "the inbox is ready\n")
            self.server.look("""INSERT INTO "a b"."T""x" (webhook_id, due, attempt, key, headers, payload, body)
                VALUES ('1', now(), 1, NULL, '{}', '{"n": 1}', NULL) ON CONFLICT (webhook_id) DO NOTHING""")
        self.assertEqual(self.server.look("""SELECT webhook_id, payload->>'n' FROM "a b"."T""x" """), "1|1")
        self.assertTrue(self.init("--inbox", "due_orders").startswith('CREATE TABLE IF NOT EXISTS "due_orders" ('))
        self.assertIn("without --check", self.init("--inbox", "due_orders", "--check", expected=2))

    def test_init_again_keeps_rows_and_later_versions(self):
        self.assertIn("version 1", self.init("--check"))
        self.shop("SELECT tickwheel.cancel('k')")
        before = self.server.look("SELECT incarnation FROM tickwheel.reader")
        self.init("--apply")
        self.assertEqual(self.server.look("SELECT incarnation FROM tickwheel.reader"), before)
        self.assertEqual(len(self.rows()), 1)
        self.server.look("UPDATE tickwheel.reader SET version = 2")
        self.assertIn("later version", self.init("--apply", expected=1))
        self.assertIn("version 2", self.init("--check", expected=4))
        self.server.look("DROP SCHEMA tickwheel CASCADE")
        self.assertIn("there is no outbox", self.init("--check", expected=3))
        printed = subprocess.run([harness.find("tickwheel"), "postgres", "init"], capture_output=True, text=True, check=True)
        self.server.look(printed.stdout)
        self.assertNotEqual(self.server.look("SELECT incarnation FROM tickwheel.reader"), before)


if __name__ == "__main__":
    unittest.main()
