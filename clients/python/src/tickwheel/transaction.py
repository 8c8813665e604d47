"""Calls that are rows in the user's own transaction: the timer exists if it commits. See docs/postgres.md.

Each call is one statement with parameters. The connection is the caller's, of any of these libraries; none is imported
unless the caller has done so:

    psycopg 3, psycopg 2, Django    a connection; its cursor is used
    asyncpg                         a connection
    SQLAlchemy                      a Session, a Connection, or their asynchronous kinds
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple, Union

from . import _calls
from .models import CreateFields, Duration, Instant, PutFields, instant_text, milliseconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: All parameters are texts, which every driver sends alike; the server converts them. A delay is milliseconds, because a
#: `day` of PostgreSQL has 23 hours when clocks go forward.
_SQL = {
    "schedule": "SELECT tickwheel.schedule({target}, {after}, {at}, key => {key}, fields => {fields})",
    "put": "SELECT tickwheel.put({key}, {target}, {after}, {at}, fields => {fields})",
    "cancel": "SELECT tickwheel.cancel({key})",
    "touch": "SELECT tickwheel.touch({key}, {after}, {at})",
    "complete": "SELECT tickwheel.complete({key})",
}
_CASTS = {
    "target": "CAST({} AS text)", "key": "CAST({} AS text)", "fields": "CAST(CAST({} AS text) AS json)",
    "after": "CAST(CAST({} AS text) AS bigint) * interval '1 millisecond'",
    "at": "CAST(CAST({} AS text) AS timestamptz)",
}

Values = Dict[str, Optional[str]]


def _schedule(target: Union[str, Sequence[str]], given: _calls.Fields) -> Values:
    fields = {**_calls.to(target), **given}
    after, at = fields.pop("after", None), fields.pop("at", None)
    one, key = fields.pop("target", None), fields.pop("key", None)
    return {"target": one, "key": key, **_when(after, at), "fields": _calls.encode(_calls.settled(fields)).decode()}


def _when(after: Optional[Duration], at: Optional[Instant]) -> Values:
    return {"after": None if after is None else str(milliseconds(after)), "at": None if at is None else instant_text(at)}


def _filled(op: str, place: str) -> Tuple[str, Sequence[str]]:
    """The statement with the places of a driver, and which value is at each; `{}` in a place is its number or name."""
    names = re.findall(r"{(\w+)}", _SQL[op])
    by_number = {name: _CASTS[name].format(place.format(number)) for number, name in enumerate(names, 1)}
    return _SQL[op].format(**by_number), names


def _is_of(connection: Any, package: str) -> bool:
    return any(each.__module__.split(".")[0] == package for each in type(connection).__mro__)


def _execute(connection: Any, op: str, values: Values) -> Any:
    """Runs the statement on a connection of SQLAlchemy or asyncpg, whose result may be awaitable; a cursor otherwise."""
    if _is_of(connection, "sqlalchemy") and hasattr(connection, "execute"):
        from sqlalchemy import text  # type: ignore[import-not-found,unused-ignore]
        sql, names = _filled(op, ":p{}")
        return connection.execute(text(sql), {f"p{n}": values[name] for n, name in enumerate(names, 1)})
    if hasattr(connection, "fetchval") and not hasattr(connection, "acquire"):  # a pool is no transaction
        sql, names = _filled(op, "${}")
        return connection.fetchval(sql, *(values[name] for name in names))
    if not hasattr(connection, "cursor"):
        raise TypeError(f"{type(connection).__qualname__} is no connection that has a transaction: see tickwheel.transaction")
    # psycopg 3 makes rows as the connection wants them, unless the cursor wants tuples.
    cursor = connection.cursor(row_factory=lambda _: tuple) if hasattr(connection, "row_factory") else connection.cursor()
    sql, names = _filled(op, "%s")
    return _Cursor(cursor, cursor.execute(sql, tuple(values[name] for name in names)))


class _Cursor:
    """A cursor after `execute`, which an asynchronous one still has to be awaited for."""

    def __init__(self, cursor: Any, executed: Any) -> None:
        self.cursor, self.executed = cursor, executed


def _first(row: Any) -> int:
    return int(next(iter(row.values())) if hasattr(row, "values") else row[0])


class Transaction:
    """Client.in_transaction: the calls wait for the database. Each returns the number of its row, which is `id` in
    `tickwheel.rejected` if the service refuses it later. Errors of the database are those of its driver."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def _run(self, op: str, values: Values) -> int:
        done = _execute(self._connection, op, values)
        waits = done.executed if isinstance(done, _Cursor) else done
        if inspect.isawaitable(waits):
            getattr(waits, "close", lambda: None)()
            raise TypeError("the connection is asynchronous: use AsyncClient.in_transaction")
        if not isinstance(done, _Cursor):
            return int(done.scalar_one())
        try:
            return _first(done.cursor.fetchone())
        finally:
            done.cursor.close()

    def create(self, target: Union[str, Sequence[str]], **fields: Unpack[CreateFields]) -> int:
        """As Client.create. If a live timer that differs has the key, the row is rejected."""
        return self._run("schedule", _schedule(target, fields))

    def put(self, key: str, target: Union[str, Sequence[str]], **fields: Unpack[PutFields]) -> int:
        """Creates the timer with this key, or replaces it whole."""
        return self._run("put", _schedule(target, {**fields, "key": key}))

    def touch(self, key: str, *, after: Optional[Duration] = None, at: Optional[Instant] = None) -> int:
        """Puts the timer off; never makes it earlier."""
        return self._run("touch", {"key": key, **_when(after, at)})

    def cancel(self, key: str) -> int:
        """Without effect if the timer is over; rejected if its delivery has begun by the time the row is read."""
        return self._run("cancel", {"key": key})

    def complete(self, event: str) -> int:
        """Cancels the timers that watch the event."""
        return self._run("complete", {"key": event})


class AsyncTransaction:
    """AsyncClient.in_transaction: Transaction with calls that are awaited."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def _run(self, op: str, values: Values) -> int:
        done = _execute(self._connection, op, values)
        if isinstance(done, _Cursor):
            if not inspect.isawaitable(done.executed):
                raise TypeError("the connection is not asynchronous: use Client.in_transaction")
            try:
                await done.executed
                return _first(await done.cursor.fetchone())
            finally:
                await done.cursor.close()
        if not inspect.isawaitable(done):
            raise TypeError("the connection is not asynchronous: use Client.in_transaction")
        found = await done
        return int(found.scalar_one() if hasattr(found, "scalar_one") else found)

    async def create(self, target: Union[str, Sequence[str]], **fields: Unpack[CreateFields]) -> int:
        """As AsyncClient.create. If a live timer that differs has the key, the row is rejected."""
        return await self._run("schedule", _schedule(target, fields))

    async def put(self, key: str, target: Union[str, Sequence[str]], **fields: Unpack[PutFields]) -> int:
        """Creates the timer with this key, or replaces it whole."""
        return await self._run("put", _schedule(target, {**fields, "key": key}))

    async def touch(self, key: str, *, after: Optional[Duration] = None, at: Optional[Instant] = None) -> int:
        """Puts the timer off; never makes it earlier."""
        return await self._run("touch", {"key": key, **_when(after, at)})

    async def cancel(self, key: str) -> int:
        """Without effect if the timer is over; rejected if its delivery has begun by the time the row is read."""
        return await self._run("cancel", {"key": key})

    async def complete(self, event: str) -> int:
        """Cancels the timers that watch the event."""
        return await self._run("complete", {"key": event})
