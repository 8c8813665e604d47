#!/usr/bin/env python3
"""How late webhooks are: many timers with due times spread over some seconds, to a local receiver.

Lateness is the receiver's clock when the request had arrived, less the due time; both ends share one
machine and one clock.

    lateness.py [--timers N] [--seconds S] [--ahead S]
    lateness.py --singly N      one at a time on an idle machine, as the quick start does
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "support"))
os.environ.setdefault("TEST_BUILD", "build/release")
import harness


def spread(daemon, receiver, count, seconds, ahead):
    """Creates `count` timers in batches; none is due before all are created, or `ahead` says so."""
    begin_ms = int((time.time() + ahead) * 1000)
    chance = random.Random(1)
    lines = [json.dumps({"at": begin_ms + chance.randrange(int(seconds * 1000)),
                         "target": receiver.url(), "payload": "x" * 98}) + "\n"
             for _ in range(count)]
    for first in range(0, count, 10000):
        status, _, answer = daemon.call(
            "POST", "/v1/timers/batch", "".join(lines[first:first + 10000]),
            {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"})
        assert status == 200 and json.loads(answer.splitlines()[0])["failed"] == 0, answer[:300]
    if time.time() * 1000 > begin_ms:
        print("warning: creating took longer than --ahead; the first timers were overdue")


def singly(daemon, receiver, count):
    for n in range(count):
        status, _, _ = daemon.call("POST", "/v1/timers", {
            "after": "200ms", "target": receiver.url(), "payload": {"n": n}})
        assert status == 201
        harness.wait_until(lambda: len(receiver.arrivals()) > n, 10, "the webhook")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timers", type=int, default=100000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--ahead", type=float, default=15)
    parser.add_argument("--singly", type=int)
    options = parser.parse_args()
    data = tempfile.mkdtemp(prefix="tickwheel-bench-")
    with harness.Receiver() as receiver, harness.Daemon(data) as daemon:
        harness.wait_until(daemon.is_ready, 20, "ready")
        if options.singly:
            count = options.singly
            singly(daemon, receiver, count)
        else:
            count = options.timers
            spread(daemon, receiver, count, options.seconds, options.ahead)
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") >= count,
                           options.ahead + options.seconds + 120, "all fired")
        daemon.signal(signal.SIGTERM)
        receiver.signal(signal.SIGTERM)
        arrivals = receiver.arrivals()
    shutil.rmtree(data)
    late_ms = [arrival.at_us / 1000 - arrival.due_ms for arrival in arrivals]
    print(f"{len(arrivals):,} arrived of {count:,}; early {sum(ms < 0 for ms in late_ms)}, repeated "
          f"{len(arrivals) - len({arrival.webhook_id for arrival in arrivals})}")
    print("lateness ms: " + ", ".join(
        f"{name} {harness.percentile(late_ms, share):.2f}" for name, share in
        (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1))))


if __name__ == "__main__":
    main()
