#!/usr/bin/env python3
"""kill -9 under load, again and again; its state is compared with the clients' record (load.py).

    TEST_SEED=N      repeats the clients' choices
    TEST_ROUNDS=N    rounds of kill -9
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
import load

ROUNDS = load.rounds(6)
ROUNDS_OF_ONE_FOLDER = 6  # then all is compared, and a new one begun
FLAGS = ("--shards", "2", "--window", "1s", "--watermark-interval", "100ms", "--retain", "1h",
         "--storage-memory-bytes", "1M", *load.PAUSES)  # small: files are written and merged all the time


def kill_once(data, receiver, record, chance):
    began = time.monotonic()
    with harness.Daemon(data, *FLAGS) as daemon:
        harness.wait_until(daemon.is_ready, 60, "ready")
        ready_s = time.monotonic() - began
        crowd = load.Crowd(daemon, receiver, record, chance)
        time.sleep(chance.uniform(0.05, 1.5))  # the random moment: no condition to wait for
        daemon.signal(signal.SIGKILL)
        crowd.end()
    return ready_s


def run(rounds, chance, total):
    """One data folder; returns the longest start and the count of damaged records."""
    data = tempfile.mkdtemp(prefix="tickwheel-crash-")
    record = load.Record()
    try:
        with harness.Receiver() as receiver:
            ready_s = max(kill_once(data, receiver, record, chance) for _ in range(rounds))
            with harness.Daemon(data, *FLAGS) as daemon:
                harness.wait_until(daemon.is_ready, 60, "ready")
                worker = load.Crowd(daemon, receiver, record, chance, clients=0)
                verdict = record.compare(daemon, receiver)
                worker.end()
                corrupt = daemon.metric("tickwheel_records_corrupt_total")
                daemon.signal(signal.SIGTERM)
    finally:
        shutil.rmtree(data)
    if verdict.is_broken():
        verdict.show(record)
    total.add(verdict)
    return ready_s, corrupt


# proves: never-early, create-durable, cancel, at-least-once
def main():
    print(f"TEST_SEED={load.SEED} TEST_ROUNDS={ROUNDS}", flush=True)
    chance, total = random.Random(load.SEED), load.Verdict()
    left, ready_s, corrupt = ROUNDS, 0, 0
    while left > 0:
        count = min(left, ROUNDS_OF_ONE_FOLDER)
        took_s, damaged = run(count, chance, total)
        ready_s, corrupt, left = max(ready_s, took_s), corrupt + damaged, left - count
    print(f"{ROUNDS} rounds of kill -9; start to ready at most {ready_s:.2f} s; damaged records {corrupt:.0f}")
    total.show()
    failed = total.is_broken() or corrupt > 0
    if not total.arrived or not total.cancelled or not total.patched or not total.touched or not total.leased:
        print("the load did not reach the daemon")
        failed = True
    print("0 passed, 1 failed" if failed else "1 passed, 0 failed")
    sys.exit(failed)


if __name__ == "__main__":
    main()
