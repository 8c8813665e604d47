"""The Python of docs/coming-from.md runs, section by section, against a real daemon; Celery and the database are stand-ins
with the calls that the page makes."""

import os
import sqlite3
import sys
import types
import unittest
from datetime import datetime, timedelta, timezone

from tickwheel import Client, Gone, Worker

ROOT = os.environ["TICKWHEEL_ROOT"]
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import pages

NOW = datetime.now(timezone.utc).replace(microsecond=123_456)


class Celery:
    """An app whose worker holds these tasks: {id: (name, arguments, eta)}."""

    def __init__(self, held):
        self.held = held
        self.control = self

    def inspect(self):
        return self

    def scheduled(self):
        return {"worker@here": [{"eta": eta.isoformat(), "request": {"id": task, "name": name, "args": list(arguments)}}
                                for task, (name, arguments, eta) in self.held.items()]}

    def revoke(self, task):
        del self.held[task]


class Task:
    def __init__(self):
        self.calls = []

    def apply_async(self, arguments, task_id):
        self.calls.append((arguments, task_id))


class Database:
    """SQLite with the jobs of the page, which takes its statements for PostgreSQL."""

    def __init__(self, jobs):
        self.base = sqlite3.connect(":memory:")
        self.base.execute("CREATE TABLE jobs (id integer PRIMARY KEY, kind text, run_at text, payload text)")
        self.base.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?)", jobs)

    def execute(self, statement, arguments=()):
        if "ANY(%s)" in statement:
            statement = statement.replace("= ANY(%s)", f"IN ({', '.join(map(str, arguments[0]))})")
            arguments = ()
        later = (NOW + timedelta(hours=1)).isoformat()
        statement = statement.replace("FOR UPDATE SKIP LOCKED", "").replace("now() + interval '1 hour'", f"'{later}'")
        return self.base.execute(statement, arguments)

    def commit(self):
        self.base.commit()

    def count(self):
        return self.execute("SELECT count(*) FROM jobs").fetchone()[0]


class ComingFromTest(unittest.TestCase):
    def setUp(self):
        self.timers = Client(os.environ["TICKWHEEL_URL"])

    def run_section(self, section, names):
        for number, block in enumerate(pages.blocks("coming-from.md", "python", section), 1):
            source = block.replace("http://127.0.0.1:8463", os.environ["TICKWHEEL_URL"])
            exec(compile(source, f"{section}, block {number}", "exec"), names)  # pylint: disable=exec-used

    def test_celery(self):
        app = Celery({"near": ("shop.recheck", (1,), NOW + timedelta(minutes=30)),
                      "far": ("shop.recheck", (2,), NOW + timedelta(hours=3)),
                      "other": ("shop.report", (), NOW + timedelta(hours=3))})
        checked, task = [], Task()
        names = {"app": app, "check_order": checked.append, "BankClosed": OSError, "recheck_task": task}
        self.run_section("Celery", names)
        self.assertEqual(sorted(app.held), ["near", "other"])
        moved = self.timers.get(key="far")
        self.assertEqual((moved.payload, moved.target), ({"order": 2}, "queue:recheck"))
        late = moved.due - NOW - timedelta(hours=3)
        self.assertTrue(timedelta(0) <= late < timedelta(milliseconds=1), late)  # rounded up: never early
        with self.assertRaises(Gone):
            self.timers.get(key="order-42")
        # The functions of the page as workers use them.
        item = types.SimpleNamespace(id="06gvnv4rh00000000400000000", payload={"order": 7})
        names["recheck"](item)
        names["hand_over"](item)
        self.assertEqual((checked, task.calls), ([7], [((7,), item.id)]))
        self.assertIsInstance(names["worker"], Worker)

    def test_jobs_table(self):
        at = (NOW + timedelta(hours=2)).isoformat()
        jobs = [(n, "outbox", at, '{"order": %d}' % n) for n in range(1, 4)]
        names = {}
        self.run_section("A jobs table", names)
        database = Database(jobs)
        names["hand_over"](database, self.timers)
        self.assertEqual(database.count(), 0)
        first = {one.key: one.id for one in self.timers.list(target="queue:outbox")}
        self.assertEqual(sorted(first), ["job-1", "job-2", "job-3"])
        # A crash before the commit: the rows are there again, and one timer was changed since.
        self.timers.change(key="job-2", after="5h")
        database = Database(jobs)
        names["hand_over"](database, self.timers)
        self.assertEqual(database.count(), 0)
        self.assertEqual({one.key: one.id for one in self.timers.list(target="queue:outbox")}, first)


if __name__ == "__main__":
    unittest.main()
