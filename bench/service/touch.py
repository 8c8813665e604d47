#!/usr/bin/env python3
"""A million extensions of live time-outs: by touch, and by PATCH, in one run.

Each time-out has a key and is due in about half an hour; in each round all of them are extended by a second,
1,000 keys to a call, over several connections. Shown are the rate of acknowledged extensions and what the daemon
wrote to disk for each, from /proc/PID/io: with everything that RocksDB writes again, until it is quiet. The floor
appends the same number of records of the size of a touch to a file and syncs it after each 1,000.

    touch.py [--timers N] [--rounds N] [--payload BYTES] [--connections N] [--flags "--partitions 1"]
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "support"))
os.environ.setdefault("TEST_BUILD", "build/release")
import harness

AT_ONCE = 1000
LOGGED = 17 + 16 + 8  # a touch, its key, and what the log adds to each


def written_bytes(pid):
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return dict(line.strip().split(": ") for line in file)["write_bytes"]


def quiet_bytes(pid):
    """What was written, once nothing more is."""
    last, same = int(written_bytes(pid)), 0
    while same < 20:
        time.sleep(0.1)
        now = int(written_bytes(pid))
        same = same + 1 if now == last else 0
        last = now
    return last


def parallel(daemon, connections, calls):
    """Makes all calls (path, body) and returns the seconds that they took together."""
    calls, lock, failures = iter(calls), threading.Lock(), []

    def run():
        try:
            connection = daemon.connect(120)
            while not failures:
                with lock:
                    call = next(calls, None)
                if call is None:
                    return
                path, body, headers, is_right = call
                status, _, answer = daemon.call("POST", path, body, headers, connection)
                if status != 200 or not is_right(answer):
                    raise RuntimeError(f"{path}: {status} {str(answer)[:300]}")
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)
    threads = [threading.Thread(target=run) for _ in range(connections)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.monotonic() - began


def creates(options, due_ms):
    payload = "x" * options.payload
    headers = {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}
    for first in range(0, options.timers, 10000):
        lines = "".join(f'{{"key":"session:{i}","at":{due_ms + i % 60000},"target":"queue:timeouts",'
                        f'"payload":"{payload}"}}\n' for i in range(first, min(first + 10000, options.timers)))
        yield "/v1/timers/batch", lines, headers, lambda answer: '"failed":0' in answer


def extensions(options, path, word, due_ms):
    for n in range(1, options.rounds + 1):
        for first in range(0, options.timers, AT_ONCE):
            keys = [f"session:{i}" for i in range(first, min(first + AT_ONCE, options.timers))]
            body = json.dumps({"keys": keys, "at": due_ms + 60000 + n * 1000})
            yield path, body, None, lambda answer, count=len(keys): answer[word] == count


def measure(name, path, word, options):
    folder = tempfile.mkdtemp(prefix="tickwheel-touch-")
    count = options.timers * options.rounds
    try:
        with harness.Daemon(folder, *options.flags.split()) as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            due_ms = int(time.time() * 1000) + 1800 * 1000
            parallel(daemon, options.connections, creates(options, due_ms))
            before = quiet_bytes(daemon.process.pid)
            seconds = parallel(daemon, options.connections, extensions(options, path, word, due_ms))
            after = quiet_bytes(daemon.process.pid)
            daemon.signal(signal.SIGTERM)
    finally:
        shutil.rmtree(folder)
    return name, count / seconds, (after - before) / count


def floor(options):
    count = options.timers * options.rounds
    with tempfile.TemporaryFile(dir="/tmp") as file:
        before, began = int(written_bytes("self")), time.monotonic()
        for _ in range(count // AT_ONCE):
            file.write(b"\0" * (LOGGED * AT_ONCE))
            file.flush()
            os.fdatasync(file.fileno())
        seconds = time.monotonic() - began
        return "floor: append and fdatasync", count / seconds, (int(written_bytes("self")) - before) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timers", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--payload", type=int, default=200)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--flags", default="", help="settings for tickwheeld, in one argument")
    options = parser.parse_args()
    print(f"{options.timers:,} time-outs with {options.payload} bytes of payload, each extended "
          f"{options.rounds} times\n")
    print("| | extensions/s | bytes written for each |\n| --- | ---: | ---: |")
    for name, rate, size in (floor(options),
                             measure("touch", "/v1/timers/touch", "touched", options),
                             measure("PATCH (reschedule)", "/v1/timers/reschedule", "rescheduled", options)):
        print(f"| {name} | {rate:,.0f} | {size:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
