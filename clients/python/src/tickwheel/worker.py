"""Workers: lease the items of a queue, run a function for each, acknowledge.

    def recheck(item):
        release_stock(item.payload["order"])

    Worker(Client(), "recheck", recheck, concurrency=8).run()

A function that returns acknowledges its item; one that raises gives it back: it comes again as the timer's `retry`
says. `raise Retry(delay)` sets the pause, `raise Dead(reason)` makes a dead letter. Leases are extended while the
function runs. An item comes at least once: drop known ids in the transaction of the work.

`run` ends after `stop`, or with SIGTERM or SIGINT when it is called in the main thread: items under way are finished,
no new ones are leased. After `drain` seconds it returns all the same, and the log names the items that are left. Their
leases are not extended any more, so they come again. What still runs then does not keep the process from ending: threads
are daemon threads, and coroutines are cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import signal
import threading
import time
from datetime import timedelta
from typing import Any, Awaitable, Callable, Iterable, Optional

from .async_client import AsyncClient
from .client import Client
from .errors import TickwheelError
from .models import Duration, Item

log = logging.getLogger("tickwheel")

#: How long a lease waits for its first item; a stop is noticed at its end.
WAIT = timedelta(seconds=5)
#: The pause after the service was not reachable, beyond the retries of the client.
PAUSE_S = 1.0
#: Bytes of the reason of a failure that the service stores.
ERROR_BYTES_MAX = 159


class Retry(Exception):
    """Raised by a worker's function: the item comes again after `delay`."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        self.delay = delay
        super().__init__(reason)


class Dead(Exception):
    """Raised by a worker's function: the item becomes a dead letter at once."""


def _reason(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return text.encode()[:ERROR_BYTES_MAX].decode(errors="ignore")


def _refusal(error: BaseException) -> dict[str, Any]:
    refusal: dict[str, Any] = {"error": _reason(error)}
    if isinstance(error, Retry):
        refusal["delay"] = error.delay
    if isinstance(error, Dead):
        refusal["dead"] = True
    return refusal


def _name_left(items: Iterable[Item], drain: float) -> None:
    for item in items:
        log.warning("item %s still runs after %g s: it comes again when its lease ends", item.id, drain)


def _check(concurrency: int, lease: timedelta) -> None:
    if concurrency < 1:
        raise ValueError("concurrency must be at least 1")
    if lease < timedelta(seconds=1):
        raise ValueError("lease must be at least a second: it is extended at a third of its length")


class Worker:
    """A worker with threads. `lease` is extended each third of it."""

    def __init__(self, client: Client, queue: str, function: Callable[[Item], object], *, concurrency: int = 1,
                 lease: timedelta = timedelta(seconds=30), drain: float = 30.0) -> None:
        _check(concurrency, lease)
        self._client, self._queue, self._function = client, queue, function
        self._concurrency, self._lease, self._drain = concurrency, lease, drain
        self._stop = threading.Event()
        self._under_way: dict[str, Item] = {}
        self._changed = threading.Condition()

    def stop(self) -> None:
        """Any thread, and signal handlers."""
        self._stop.set()

    def run(self) -> None:
        """Works until stopped."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
        ended = threading.Event()
        heart = threading.Thread(target=self._extend, args=(ended,), name="tickwheel-extend", daemon=True)
        heart.start()
        items: queue.SimpleQueue[Optional[Item]] = queue.SimpleQueue()
        for n in range(self._concurrency):  # not a pool: Python joins the threads of one when it ends
            threading.Thread(target=self._serve, args=(items,), name=f"tickwheel-worker-{n}", daemon=True).start()
        try:
            while not self._stop.is_set():
                with self._changed:
                    places = self._concurrency - len(self._under_way)
                    if places == 0:
                        self._changed.wait(WAIT.total_seconds())
                        continue
                for item in self._lease_items(places):
                    items.put(item)
            with self._changed:
                self._changed.wait_for(lambda: not self._under_way, self._drain)
        finally:
            with self._changed:
                left = list(self._under_way.values())
                self._under_way.clear()
            ended.set()
            for _ in range(self._concurrency):
                items.put(None)
            _name_left(left, self._drain)
            heart.join()

    def _serve(self, items: queue.SimpleQueue[Optional[Item]]) -> None:
        while (item := items.get()) is not None:
            self._handle(item)

    def _lease_items(self, count: int) -> list[Item]:
        try:
            items = self._client.lease(self._queue, max=count, wait=WAIT, lease=self._lease)
        except TickwheelError as error:
            log.warning("lease of %s: %s", self._queue, error)
            self._stop.wait(PAUSE_S)
            return []
        with self._changed:
            self._under_way.update((item.receipt, item) for item in items)
        return items

    def _handle(self, item: Item) -> None:
        try:
            try:
                self._function(item)
            except Exception as error:
                log.info("item %s failed: %s", item.id, _reason(error))
                results = self._client.nack(self._queue, [item], **_refusal(error))
            else:
                results = self._client.ack(self._queue, [item])
            if results != ["ok"]:
                log.warning("item %s: its lease was over (%s); it may come again", item.id, results[0])
        except TickwheelError as error:
            log.warning("item %s: its end could not be told, so it comes again: %s", item.id, error)
        finally:
            with self._changed:
                self._under_way.pop(item.receipt, None)
                self._changed.notify()

    def _extend(self, ended: threading.Event) -> None:
        while not ended.wait(self._lease.total_seconds() / 3):
            with self._changed:
                receipts = list(self._under_way)
            for begin in range(0, len(receipts), 1000):
                try:
                    self._client.extend(self._queue, receipts[begin:begin + 1000], lease=self._lease)
                except TickwheelError as error:
                    log.warning("leases could not be extended: %s", error)


class AsyncWorker:
    """A worker whose function is a coroutine."""

    def __init__(self, client: AsyncClient, queue: str, function: Callable[[Item], Awaitable[object]], *,
                 concurrency: int = 1, lease: timedelta = timedelta(seconds=30), drain: float = 30.0) -> None:
        _check(concurrency, lease)
        self._client, self._queue, self._function = client, queue, function
        self._concurrency, self._lease, self._drain = concurrency, lease, drain
        self._stop = asyncio.Event()
        self._under_way: dict[str, Item] = {}

    def stop(self) -> None:
        """From the thread of the event loop."""
        self._stop.set()

    async def run(self) -> None:
        """Works until stopped."""
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
        heart = asyncio.ensure_future(self._extend())
        stopped = asyncio.ensure_future(self._stop.wait())
        running: set[asyncio.Task[None]] = set()
        try:
            while not self._stop.is_set():
                running = {task for task in running if not task.done()}
                if len(running) == self._concurrency:
                    await asyncio.wait({*running, stopped}, return_when=asyncio.FIRST_COMPLETED)
                    continue
                for item in await self._lease_items(self._concurrency - len(running)):
                    running.add(asyncio.ensure_future(self._handle(item)))
            if running:
                await asyncio.wait(running, timeout=self._drain)
            _name_left(self._under_way.values(), self._drain)
        finally:
            for task in (heart, stopped, *running):
                task.cancel()

    async def _lease_items(self, count: int) -> list[Item]:
        try:
            items = await self._client.lease(self._queue, max=count, wait=WAIT, lease=self._lease)
        except TickwheelError as error:
            log.warning("lease of %s: %s", self._queue, error)
            try:
                await asyncio.wait_for(self._stop.wait(), PAUSE_S)
            except asyncio.TimeoutError:
                pass
            return []
        self._under_way.update((item.receipt, item) for item in items)
        return items

    async def _handle(self, item: Item) -> None:
        try:
            try:
                await self._function(item)
            except Exception as error:
                log.info("item %s failed: %s", item.id, _reason(error))
                results = await self._client.nack(self._queue, [item], **_refusal(error))
            else:
                results = await self._client.ack(self._queue, [item])
            if results != ["ok"]:
                log.warning("item %s: its lease was over (%s); it may come again", item.id, results[0])
        except TickwheelError as error:
            log.warning("item %s: its end could not be told, so it comes again: %s", item.id, error)
        finally:
            self._under_way.pop(item.receipt, None)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            receipts = list(self._under_way)
            for begin in range(0, len(receipts), 1000):
                try:
                    await self._client.extend(self._queue, receipts[begin:begin + 1000], lease=self._lease)
                except TickwheelError as error:
                    log.warning("leases could not be extended: %s", error)
