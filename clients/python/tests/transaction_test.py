"""Client.in_transaction with the real drivers, a real PostgreSQL and a daemon that reads its outbox: a transaction that commits has its
timers, one that rolls back has none. Method: each driver runs the same calls, and the API says what came of them."""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import unittest
from datetime import datetime, timedelta, timezone

import asyncpg
import django.conf
import psycopg
import psycopg2
import psycopg.rows
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm
from tickwheel import AsyncClient, Client

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.environ["TICKWHEEL_ROOT"], "clients", "contract"))
import outbox as outboxes
import harness

NASTY = outboxes.TEXT + "%(a)s"
DUE = datetime(2099, 1, 31, 9, 0, 0, 1, timezone(timedelta(hours=2)))


class RolledBack(Exception):
    pass


def first(outbox, name):
    return outbox.create("queue:a", after="1h", key=name, payload={"text": NASTY, "n": 1.5}, labels={"team": NASTY[:9]},
                         retry={"base": timedelta(seconds=2)}, watch=[f"{name}-paid"])


def second(outbox, name):
    """What is awaited of an asynchronous outbox, one by one."""
    yield outbox.create(["queue:b", "queue:c"], at=1893456000000, key=f"{name}-two", body=b"\x00\xff",
                        content_type="application/x-two")
    yield outbox.create("queue:b", after="90s", key=f"{name}-three")
    yield outbox.put(name, "queue:d", after=timedelta(days=30))
    yield outbox.touch(name, at=DUE)
    yield outbox.cancel(f"{name}-three")
    yield outbox.cancel(f"{name}-never")
    yield outbox.create("queue:e", every="1d", watch=[f"{name}-sent"])
    yield outbox.complete(f"{name}-sent")


@unittest.skipIf(outboxes.missing(), outboxes.missing())
class TransactionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(outboxes.database())
        cls.url = cls.server.url()
        data = tempfile.mkdtemp(prefix="tickwheel-transaction-")
        cls.addClassCleanup(shutil.rmtree, data)
        others = {name: value for name, value in os.environ.items() if not name.startswith("TICKWHEEL")}
        cls.daemon = harness.Daemon(data, env={**others, "TICKWHEEL_SOURCES": f"shop={cls.url}"})
        cls.addClassCleanup(cls.daemon.close)
        harness.wait_until(cls.daemon.is_ready, 30, "ready")
        cls.timers = Client(f"http://127.0.0.1:{cls.daemon.port}")
        django.conf.settings.configure(DATABASES={"default": {
            "ENGINE": "django.db.backends.postgresql", "HOST": "127.0.0.1", "PORT": cls.server.port, "USER": cls.server.user,
            "NAME": cls.server.database}})

    def tearDown(self):
        self.await_empty()
        for one in list(self.timers.list()):
            self.timers.cancel(one.id)

    def await_empty(self):
        harness.wait_until(lambda: self.server.look("SELECT count(*) FROM tickwheel.outbox") == "0", 30, "the outbox is empty")

    def check(self, name, begin):
        """The calls in transactions that `begin` makes, the second of which is rolled back."""
        with begin() as connection:
            row = first(self.timers.in_transaction(connection), name)
            self.assertEqual(self.server.look("SELECT count(*) FROM tickwheel.outbox"), "0")  # not yet
        self.assertGreater(row, 0)
        with self.assertRaises(RolledBack), begin() as connection:
            self.timers.in_transaction(connection).create("queue:a", after="1h", key=f"{name}-not")
            raise RolledBack
        self.check_first(name)
        with begin() as connection:
            rows = list(second(self.timers.in_transaction(connection), name))
        self.assertEqual(rows, sorted(rows))
        self.check_second(name)

    async def check_async(self, name, begin):
        async with AsyncClient(f"http://127.0.0.1:{self.daemon.port}") as timers:
            async with begin() as connection:
                self.assertGreater(await first(timers.in_transaction(connection), name), 0)
            with self.assertRaises(RolledBack):
                async with begin() as connection:
                    await timers.in_transaction(connection).create("queue:a", after="1h", key=f"{name}-not")
                    raise RolledBack
            self.check_first(name)
            async with begin() as connection:
                for call in second(timers.in_transaction(connection), name):
                    await call
                with self.assertRaisesRegex(TypeError, "AsyncClient"):
                    self.timers.in_transaction(connection).cancel("k")
        self.check_second(name)

    def check_first(self, name):
        self.await_empty()
        one, = self.timers.list()
        self.assertEqual((one.key, one.target, one.payload), (name, "queue:a", {"text": NASTY, "n": 1.5}))
        self.assertEqual((one.labels, one.json["retry"]["base"], one.json["watch"]),
                         ({"team": NASTY[:9]}, "2s", [f"{name}-paid"]))
        self.assertLess(abs(one.due - datetime.now(timezone.utc) - timedelta(hours=1)), timedelta(minutes=2))

    def check_second(self, name):
        self.await_empty()
        self.assertEqual(len(list(self.timers.list())), 2)
        one, two = self.timers.get(key=name), self.timers.get(key=f"{name}-two")
        self.assertEqual((two.key, [part["target"] for part in two.json["targets"]], two.body, two.json["due"]),
                         (f"{name}-two", ["queue:b", "queue:c"], b"\x00\xff", "2030-01-01T00:00:00.000Z"))
        self.assertEqual((one.key, one.target, one.version), (name, "queue:d", 3))
        self.assertEqual(one.json["due"], "2099-01-31T07:00:00.001Z")  # rounded up: never early
        self.assertEqual(self.server.look("SELECT op, key, body, problem FROM tickwheel.rejected"), "")
        for each in (one, two):
            self.timers.cancel(each.id)

    def test_psycopg(self):
        self.check("psycopg", lambda: psycopg.connect(self.url))
        with psycopg.connect(self.url, row_factory=psycopg.rows.dict_row) as connection:
            self.check("dict_row", lambda: Begun(connection))

    def test_psycopg2(self):
        connection = psycopg2.connect(self.url)
        self.addCleanup(connection.close)
        self.check("psycopg2", lambda: connection)

    def test_django(self):
        from django.db import connection, transaction
        self.addCleanup(connection.close)
        self.check("django", lambda: Begun(connection, transaction.atomic()))

    def test_sqlalchemy(self):
        engine = sqlalchemy.create_engine(self.url.replace("postgres:", "postgresql+psycopg:"))
        self.addCleanup(engine.dispose)
        self.check("session", sqlalchemy.orm.sessionmaker(engine).begin)
        self.check("connection", engine.begin)
        scoped = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(engine))
        self.check("scoped", lambda: Begun(scoped, scoped.begin()))

    def test_async_drivers(self):
        async def check():
            async with await psycopg.AsyncConnection.connect(self.url) as connection:
                await self.check_async("psycopg", lambda: Begun(connection))
            connection = await asyncpg.connect(self.url)
            await self.check_async("asyncpg", lambda: Begun(connection))
            await connection.close()
            async with asyncpg.create_pool(self.url, min_size=1) as pool:
                with self.assertRaises(TypeError):
                    await AsyncClient().in_transaction(pool).cancel("k")
                async with pool.acquire() as connection:
                    await self.check_async("pooled", lambda: Begun(connection))
            engine = sqlalchemy.ext.asyncio.create_async_engine(self.url.replace("postgres:", "postgresql+asyncpg:"))
            await self.check_async("session", sqlalchemy.ext.asyncio.async_sessionmaker(engine).begin)
            await self.check_async("connection", engine.begin)
            await engine.dispose()
            with psycopg.connect(self.url) as plain, self.assertRaisesRegex(TypeError, "use Client"):
                await AsyncClient().in_transaction(plain).cancel("k")
        asyncio.run(check())

    def test_what_is_wrong_fails_before_the_statement(self):
        with psycopg.connect(self.url) as connection:
            outbox = self.timers.in_transaction(connection)
            for error, given in ((TypeError, {"after": 30}), (ValueError, {"after": "soon"}), (ValueError, {"after": "1m1h"}),
                                 (ValueError, {"after": ""}), (ValueError, {"after": "-1h"}), (ValueError, {"at": "infinity"}),
                                 (ValueError, {"at": "2099-01-31T09:00:00"}), (ValueError, {"at": datetime(2099, 1, 1)}),
                                 (TypeError, {"after": "1h", "retry": {"base": 1}})):
                with self.subTest(given), self.assertRaises(error):
                    outbox.create("queue:a", **given)
            self.assertEqual(connection.info.transaction_status, psycopg.pq.TransactionStatus.IDLE)
        for connection in (None, "postgres://", sqlalchemy.create_engine("postgresql+psycopg://")):
            with self.assertRaises(TypeError):
                self.timers.in_transaction(connection).cancel("k")

    def test_what_the_service_refuses_has_the_number_of_its_row(self):
        with psycopg.connect(self.url) as connection:
            row = self.timers.in_transaction(connection).create("nonsense", after="1h")
        self.await_empty()
        problem = json.loads(self.server.look(f"DELETE FROM tickwheel.rejected WHERE id = {row} RETURNING problem"))
        self.assertEqual(problem["errors"][0]["pointer"], "#/target")

    def test_readme(self):
        with open(os.path.join(HERE, "..", "README.md"), encoding="utf-8") as file:
            main, others = (one for one in re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL) if "in_transaction" in one)
        os.environ["DATABASE_URL"] = self.url
        self.timers.create("queue:recheck", after="1h", key="order-42")
        names = {"timers": self.timers}
        exec(compile(main, "README.md", "exec"), names)  # pylint: disable=exec-used
        self.assertEqual(self.server.look("DELETE FROM orders RETURNING id, state"), "43|reserved")
        self.await_empty()
        self.assertEqual([one.key for one in self.timers.list()], ["order-43"])
        exec(compile(others, "README.md", "exec"), names)  # pylint: disable=exec-used
        names["with_django"](44)
        names["connection"].close()
        engine = sqlalchemy.create_engine(self.url.replace("postgres:", "postgresql+psycopg:"))
        with sqlalchemy.orm.Session(engine) as session:
            names["with_sqlalchemy"](session, 45)
        engine.dispose()

        async def with_asyncpg():
            connection = await asyncpg.connect(self.url)
            await names["with_asyncpg"](AsyncClient(), connection, 46)
            await connection.close()
        asyncio.run(with_asyncpg())
        self.await_empty()
        self.assertEqual([one.key for one in self.timers.list()], [f"order-{n}" for n in range(43, 47)])


class Begun:
    """A transaction on a connection, as `with` of SQLAlchemy begins it."""

    def __init__(self, connection, transaction=None):
        self.connection, self.transaction = connection, transaction or connection.transaction()

    def __enter__(self):
        self.transaction.__enter__()
        return self.connection

    def __exit__(self, *raised):
        return self.transaction.__exit__(*raised)

    async def __aenter__(self):
        await self.transaction.__aenter__()
        return self.connection

    async def __aexit__(self, *raised):
        return await self.transaction.__aexit__(*raised)


if __name__ == "__main__":
    unittest.main()
