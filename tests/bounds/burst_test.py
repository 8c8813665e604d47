#!/usr/bin/env python3
"""A burst: many timers due within one second, to one webhook target and to one queue with workers, in little memory.
None is lost, none comes twice, memory stays within its bound, and somebody else's timers go on.

    TEST_SIZE=full   1,000,000 timers, with little memory and with the default settings
"""

import signal
import threading
import time

import bounds
import harness

COUNT = bounds.size(5_000, 1_000_000)
AHEAD_MS = bounds.size(2_000, 45_000)  # in which they are created
WORKERS = 4
BOUND = 256 * bounds.MIB
DEFAULT_BOUND = 640 * bounds.MIB  # defaults of near_bytes_max and storage_memory_bytes, and other memory
LITTLE = ("--near-bytes-max", "48M", "--storage-memory-bytes", "8M")


def timers(begin_ms, target):
    for number in range(COUNT):
        yield b'{"at":%d,"target":"%s","payload":{"order":%d}}\n' % (begin_ms + number % 1000, target.encode(), number)


class Webhooks:
    name = "webhooks"

    def __enter__(self):
        self.receiver = harness.Receiver()
        self.target = self.receiver.url()
        return self

    def begin(self, daemon, begin_ms):
        pass

    def end(self):
        """(webhook-id, lateness in ms, when it came) of each that came."""
        self.receiver.signal(signal.SIGTERM)  # it writes down the rest
        return [(arrival.webhook_id, late, arrival.at_us / 1e6)
                for arrival, late in ((each, each.at_us / 1000 - each.due_ms) for each in self.receiver.arrivals())]

    def __exit__(self, *_):
        self.receiver.close()


class Worker(threading.Thread):
    """Leases as many as it can get, and acknowledges them all."""

    def __init__(self, daemon, begin_ms):
        super().__init__(daemon=True)
        self.server, self.begin_ms = daemon, begin_ms
        self.got, self.failure, self.stopped = [], None, threading.Event()
        self.start()

    def work(self, connection):
        status, _, answer = self.server.call(
            "POST", "/v1/queues/burst/lease", {"max": 1000, "wait": "1s", "lease": "5m"}, connection=connection)
        now = time.time()
        if status != 200:
            raise AssertionError(f"lease: {status} {answer}")
        if not answer["items"]:
            return
        self.got += [(item["id"], now * 1000 - self.begin_ms - item["payload"]["order"] % 1000, now)
                     for item in answer["items"]]
        verdict = self.server.call("POST", "/v1/queues/burst/ack",
                                   {"receipts": [item["receipt"] for item in answer["items"]]},
                                   connection=connection)[2]
        if verdict["ok"] != len(answer["items"]):
            raise AssertionError(f"ack: {verdict}")

    def run(self):
        connection = self.server.connect(60)
        try:
            while not self.stopped.is_set():
                self.work(connection)
        except Exception as failure:  # shown by the main thread
            self.failure = failure
        finally:
            connection.close()


class Queue:
    name, target = f"a queue with {WORKERS} workers", "queue:burst"

    def __enter__(self):
        return self

    def begin(self, daemon, begin_ms):
        self.workers = [Worker(daemon, begin_ms) for _ in range(WORKERS)]

    def end(self):
        for worker in self.workers:
            worker.stopped.set()
        for worker in self.workers:
            worker.join(60)
            if worker.failure:
                raise worker.failure
        return [each for worker in self.workers for each in worker.got]

    def __exit__(self, *_):
        pass


def burst(daemon, kind, memory):
    """Creates them, waits until they are over. Answers how many seconds from the due time to the last one, and how
    late each was."""
    begin_ms = int(time.time() * 1000) + AHEAD_MS
    bounds.make_many(daemon, timers(begin_ms, kind.target))
    if time.time() * 1000 > begin_ms:
        print("(creating them took longer than they had)", flush=True)
    kind.begin(daemon, begin_ms)
    bystander = bounds.Bystander(daemon)
    harness.wait_until(lambda: time.time() * 1000 > begin_ms, 120, "the due time")

    def is_over():
        if time.time() * 1000 - begin_ms > 1000 and daemon.metric("tickwheel_timers_pending") < 50:
            return True  # of the bystander some are always pending
        time.sleep(0.1)  # /metrics is not for free
        return False
    harness.wait_until(is_over, 900, "all have fired")
    late, calls = bystander.end()
    harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") == 0, 60, "all are over")
    memory.end()
    came = kind.end()
    return came, max(at for _, _, at in came) - begin_ms / 1000, late, calls


def run(settings, flags, bound, bound_bytes):
    for kind in (Webhooks(), Queue()):
        with bounds.Folder() as data, kind, harness.Daemon(data, *flags, enter=bound and bound.enter) as daemon:
            harness.wait_until(daemon.is_ready, 30, "ready")
            memory = bounds.Memory(daemon.process.pid)
            came, drained_s, late, calls = burst(daemon, kind, memory)
            doubles = len(came) - len({each for each, _, _ in came})
            lost = COUNT - len(came) + doubles
            early = sum(late < 0 for _, late, _ in came)
            bounds.show(f"{kind.name}, {settings}", bounds.mib(memory.resident), bounds.mib(memory.own),
                        f"{drained_s:.1f} s, {COUNT / drained_s:,.0f}/s",
                        bounds.milliseconds([max(0, each) for _, each, _ in came]), f"{lost} / {doubles} / {early}",
                        bounds.milliseconds(late), bounds.milliseconds(calls))
            repeats = daemon.metric("tickwheel_attempts_failed_total")  # on a machine that is slow, some time out
            if lost or doubles > repeats or early:
                raise AssertionError(f"lost {lost}, twice {doubles}, early {early}")
            if memory.own > bound_bytes:
                raise AssertionError(f"{bounds.mib(memory.own)}, more than {bounds.mib(bound_bytes)}")
            daemon.signal(signal.SIGTERM)


def main():
    print(f"{COUNT:,} timers due within one second; little memory: {' '.join(LITTLE)}\n\n"
          "| | resident | own | drained in | late p50 / p99 / max | lost / twice / early | "
          "others late p50 / p99 / max | their calls p50 / p99 / max |\n"
          "| --- | ---: | ---: | --- | --- | --- | --- | --- |", flush=True)
    bound = bounds.limit(BOUND)
    try:
        run(f"{bound.kind()} of {bounds.mib(BOUND)}", LITTLE, bound, BOUND)
    finally:
        bound.close()
    if bounds.IS_FULL:
        run("default settings", (), None, DEFAULT_BOUND)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
