#!/usr/bin/env python3
"""Makes src/tickwheel/async_client.py from client.py, so that the two cannot differ; --check only compares."""

import os
import re
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "src", "tickwheel")
PLAIN = [
    ('"""Client: every call of the service, with time-outs and retries. async_client.py is made from this file.\n',
     '"""AsyncClient: the calls of Client for asyncio. Made from client.py by make_async.py: change that one.\n'),
    ("A Client may be shared by threads.", "An AsyncClient may be shared by the tasks of one event loop."),
    ('    """A client whose calls wait for their answers.\n\n        timers = Client("http://localhost:8463", token="tw_...")\n',
     '    """A client whose calls are awaited; `list`, `dead`, `schedules`,\n'
     '    `deliveries` and `events` are asynchronous iterators.\n\n'
     '        timers = AsyncClient("http://localhost:8463", token="tw_...")\n'),
    ("import time\n", "import asyncio\n"), ("time.sleep(", "await asyncio.sleep("),
    ("class Client:", "class AsyncClient:"), ("-> Client:", "-> AsyncClient:"),
    ("httpx.BaseTransport", "httpx.AsyncBaseTransport"), ("httpx.Client(", "httpx.AsyncClient("),
    ("__enter__", "__aenter__"), ("__exit__", "__aexit__"), ("self._http.close()", "await self._http.aclose()"),
    ("self.close()", "await self.close()"), ("self._send(", "await self._send("), ("self._id_of(", "await self._id_of("), ("self.get(", "(await self.get("),
    ("key=key).id", "key=key)).id"),
    ("                request = self._settings.arguments(call)\n",
     "                request = self._settings.arguments(call)\n"
     "                if isinstance(call.body, Iterator):\n"
     "                    request[\"content\"] = in_turn(call.body)\n"),
    ("import Attempts, Settings\n", "import Attempts, Settings, in_turn\n"),
    ("self._http.request(", "await self._http.request("),
    ("Any, Callable, Iterable,", "Any, AsyncIterator, Callable, Iterable,"), ("Iterator[Timer]", "AsyncIterator[Timer]"),
    ("Iterator[Json]", "AsyncIterator[Json]"), ("Iterator[T]", "AsyncIterator[T]"),
    ("Iterator[Event]", "AsyncIterator[Event]"), ("with self._http.stream(", "async with self._http.stream("),
    ("response.read()", "await response.aread()"), ("for line in response.iter_lines()", "async for line in response.aiter_lines()"),
    ("import Transaction\n", "import AsyncTransaction\n"), ("-> Transaction:", "-> AsyncTransaction:"),
    ("return Transaction(", "return AsyncTransaction("),
    ("            yield from found\n", "            for one in found:\n                yield one\n"),
]


def make(text):
    for old, new in PLAIN:
        assert old in text, old
        text = text.replace(old, new)
    # All methods but the constructor and those that only hand out an iterator.
    return re.sub(r"    def (?!__init__|(?:in_transaction|list|dead|schedules|deliveries)\()(\w+)\(", r"    async def \1(", text)


def main():
    with open(os.path.join(FOLDER, "client.py"), encoding="utf-8") as file:
        made = make(file.read())
    path = os.path.join(FOLDER, "async_client.py")
    if "--check" in sys.argv:
        with open(path, encoding="utf-8") as file:
            sys.exit(0 if file.read() == made else "async_client.py is not what client.py makes: run make_async.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(made)


if __name__ == "__main__":
    main()
