"""The outbox of a real PostgreSQL, for the tests of transactions in the client libraries.

`run` runs a program that finds in its environment

    DATABASE_URL     the database, with the outbox and a table `orders (id, state)`; JDBC_URL for JDBC
    OUTBOX_TEXT      a text with quotes and places of parameters, for payloads

For each driver, named NAME, it makes these calls in a transaction that commits, and a create with the key `NAME-not` in one that
rolls back. At the end the table must have these rows, in this order:

    create    target queue:a, after 1h30m, key NAME, payload {"text": OUTBOX_TEXT, "n": 1.5}, labels {"team": "it's"},
              retry {"base": "2s"}, watch ["NAME-paid"]
    put       key NAME, target queue:b, at 2099-01-31T07:00:00.001Z
    touch     key NAME, after 30 days
    create    targets queue:c and queue:d, every 1d, body 00 ff, content_type application/x-two
    complete  event NAME-paid
    cancel    key NAME
"""

import contextlib
import datetime
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "support"))
import harness
import postgres_servers

TEXT = "'; DROP TABLE orders; -- %s ? :p1 $1 ${a} {} \\ \"\u00fc\u2028"
missing = postgres_servers.missing


@contextlib.contextmanager
def database():
    """A server whose database has an outbox."""
    with postgres_servers.Postgres() as server:
        subprocess.run([harness.find("tickwheel"), "postgres", "init", server.url(), "--apply"], check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        server.look("CREATE TABLE public.orders (id bigint, state text)")
        yield server


def environment_of(server, given):
    return {**given, "LC_ALL": "C.UTF-8", "DATABASE_URL": server.url(), "OUTBOX_TEXT": TEXT,
            "JDBC_URL": f"jdbc:postgresql://127.0.0.1:{server.port}/{server.database}?user={server.user}"}


def expected(name):
    """Of each row: op, key, delay in milliseconds, body without the time of a delay."""
    return [
        ("schedule", name, 5400000, {"target": "queue:a", "payload": {"text": TEXT, "n": 1.5}, "labels": {"team": "it's"},
                                     "retry": {"base": "2s"}, "watch": [f"{name}-paid"]}),
        ("put", name, None, {"target": "queue:b", "at": "2099-01-31T07:00:00.001Z"}),
        ("touch", name, 2592000000, {}),
        ("schedule", None, None, {"targets": ["queue:c", "queue:d"], "every": "1d", "body_base64": "AP8=",
                                  "content_type": "application/x-two"}),
        ("complete", f"{name}-paid", None, None),
        ("cancel", name, None, None),
    ]


def taken(server):
    """The rows, which are deleted; in the form of `expected`."""
    found = []
    for row in json.loads(server.look("WITH taken AS (DELETE FROM tickwheel.outbox RETURNING *) "
                                      "SELECT coalesce(json_agg(taken ORDER BY id), '[]') FROM taken")):
        body, delay = row["body"], None
        if body and "at" in body and not body["at"].startswith("2099"):
            late = datetime.datetime.fromisoformat(body.pop("at")) - datetime.datetime.fromisoformat(row["written"])
            delay = round(late.total_seconds()) * 1000
        found.append((row["op"], row["key"], delay, body))
    return found


def run(test, command, names, **options):
    """Runs the program and checks its rows for each name."""
    with database() as server:
        environment = environment_of(server, options.pop("env", os.environ))
        subprocess.run(command, check=True, env=environment, timeout=300, **options)
        rows = taken(server)
        test.assertEqual(rows, [row for name in names for row in expected(name)])
        test.assertEqual(server.look("SELECT count(*) FROM orders"), str(len(names)))


def run_readme(test, command, has_cancel=True, **options):
    """Runs the example of a README, which changes an order and makes its timer in one transaction, and mostly ends another."""
    with database() as server:
        environment = environment_of(server, options.pop("env", os.environ))
        subprocess.run(command, check=True, env=environment, timeout=300, **options)
        test.assertEqual(server.look("SELECT id, state FROM orders"), "43|reserved")
        created = ("schedule", "order-43", 1800000, {"target": "queue:recheck", "payload": {"order": 43}})
        test.assertEqual(taken(server), [created] + [("cancel", "order-42", None, None)] * has_cancel)
