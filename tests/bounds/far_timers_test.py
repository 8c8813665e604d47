#!/usr/bin/env python3
"""Many timers that are due far ahead, with little memory: created in batches, some under a key, found again after
kill -9, and checked by `tickwheeld --check`, all of it under a bound that the system holds the daemon to. Somebody
else's timers are due meanwhile.

    TEST_SIZE=full   10,000,000 timers, and the default settings beside, without a bound
"""

import os
import random
import signal
import subprocess
import sys
import time

import bounds
import harness

COUNT = bounds.size(20_000, 10_000_000)
BOUND = 256 * bounds.MIB
KEYS_EACH = 100  # one timer in this many has a key, which is looked up among all others
SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
DAY_MS = 24 * 3600 * 1000
LITTLE = ("--near-bytes-max", "32M", "--storage-memory-bytes", "8M")


def far_timers():
    """Due within the next month but for its first hour, in no order."""
    begin, chance = int(time.time() * 1000) + 3600 * 1000, random.Random(SEED)
    for number in range(COUNT):
        at, order = begin + chance.randrange(30 * DAY_MS), chance.getrandbits(128)
        key = b'"key":"order-%d",' % number if number % KEYS_EACH == 0 else b""
        yield b'{%s"at":%d,"target":"http://127.0.0.1:9/far","payload":{"order":"%032x"}}\n' % (key, at, order)


def check(data, bound):
    """--check under that bound. Returns its peak memory."""
    began = time.monotonic()
    process = subprocess.Popen([harness.find("tickwheeld"), "--check", data], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, preexec_fn=bound and bound.enter)
    memory = bounds.Memory(process.pid)
    report = process.communicate()[0]
    memory.end()
    if process.returncode != 0:
        raise AssertionError(f"--check ended with {process.returncode}:\n{report[-2000:]}")
    return memory, time.monotonic() - began


def ready(data, flags, bound):
    began = time.monotonic()
    daemon = harness.Daemon(data, *flags, enter=bound and bound.enter)
    memory = bounds.Memory(daemon.process.pid)
    harness.wait_until(daemon.is_ready, 300, "ready")
    return daemon, memory, time.monotonic() - began


def await_pending(daemon):
    """Only timers far ahead are left."""
    harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") == COUNT, 60, f"{COUNT} timers pending")


def facts(memory, bound):
    memory.end()
    if bound and memory.own > BOUND:
        raise AssertionError(f"{bounds.mib(memory.own)} of its own memory under a bound of {bounds.mib(BOUND)}")
    return bounds.mib(memory.resident), bounds.mib(memory.own)


def run(name, flags, bound):
    with bounds.Folder() as data:
        daemon, memory, _ = ready(data, flags, bound)
        with daemon:
            bystander = bounds.Bystander(daemon)
            took_s = bounds.make_many(daemon, far_timers())
            late, calls = bystander.end()
            bounds.show(f"{name}: create", *facts(memory, bound), f"{took_s:.1f} s, {COUNT / took_s:,.0f}/s",
                        bounds.milliseconds(late), bounds.milliseconds(calls))
            await_pending(daemon)
            daemon.signal(signal.SIGKILL)
        daemon, memory, took_s = ready(data, flags, bound)
        with daemon:
            bystander = bounds.Bystander(daemon)
            late, calls = bystander.end()
            await_pending(daemon)
            bounds.show(f"{name}: restart after kill -9", *facts(memory, bound), f"{took_s:.1f} s",
                        bounds.milliseconds(late), bounds.milliseconds(calls))
            daemon.signal(signal.SIGTERM)
        memory, took_s = check(data, bound)
        bounds.show(f"{name}: --check", *facts(memory, bound), f"{took_s:.1f} s", "", "")
        disk = sum(os.path.getsize(os.path.join(data, file)) for file in os.listdir(data))
        print(f"{disk / COUNT:.0f} bytes on disk for each timer", flush=True)


def main():
    print(f"TEST_SEED={SEED}\n{COUNT:,} timers due within a month; bound {bounds.mib(BOUND)}: {' '.join(LITTLE)}\n\n"
          "| | resident | own | took | others late p50 / p99 / max | their calls p50 / p99 / max |\n"
          "| --- | ---: | ---: | --- | --- | --- |", flush=True)
    bound = bounds.limit(BOUND)
    try:
        run(f"bound by {bound.kind()}", LITTLE, bound)
    finally:
        bound.close()
    if bounds.IS_FULL:
        run("default settings, no bound", (), None)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    sys.exit(main())
