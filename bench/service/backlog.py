#!/usr/bin/env python3
"""A backlog of items that are all due, in one queue: created, then drained, with the memory of the server.

    backlog.py [--items N] [--connections N] [--priorities N] [--near-mib N]

Meanwhile timers of another queue come due at a steady pace: how late they are shows what the backlog costs
its neighbours. The client (bench/service/pull/pull_client.c) ends with an error if an item is lost, comes
twice or comes early; so does this script if the server's memory grows by more than its limits allow.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

os.environ.setdefault("TEST_BUILD", "build/release")
from peers import harness

MIB = 2**20
NEIGHBOUR_RATE = 500


class Memory(threading.Thread):
    """The most that a process had resident while this runs."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_process, self.most, self.over = daemon, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.05):
            self.most = max(self.most, self.daemon_process.memory_bytes())


def client(daemon, *arguments):
    return subprocess.Popen(
        [harness.find("pull_client"), "--system", "tickwheel", "--port", str(daemon.port),
         "--pid", str(daemon.process.pid), *map(str, arguments)],
        stdout=subprocess.PIPE, text=True)


def neighbour(daemon, seconds):
    return client(daemon, "--queue", "neighbour", "--phases", "steady", "--connections", 4, "--batch", 100,
                  "--rate", NEIGHBOUR_RATE, "--seconds", seconds, "--delay", 1)


def finish(process):
    lines = process.communicate(timeout=600)[0]
    if process.returncode:
        sys.exit(f"the client ended with {process.returncode}")
    return {line["phase"]: line for line in map(json.loads, lines.splitlines())}


def say_late(when, line):
    print(f"neighbour, {when}: " + ", ".join(
        f"{share} {line[f'late_{share}_us'] / 1000:.2f} ms" for share in ("p50", "p99", "p99.9", "max")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=1000000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--priorities", type=int, default=1)
    parser.add_argument("--neighbour-seconds", type=int, default=10)
    parser.add_argument("--besides-mib", type=int, default=320,
                        help="what the server may take besides: changes in memory, the allocator's slack")
    parser.add_argument("--near-mib", type=int, default=256, help="the setting near_bytes_max")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="tickwheel-bench-")
    with harness.Daemon(folder, "--near-bytes-max", f"{options.near_mib}M") as daemon:
        harness.wait_until(daemon.is_ready, 20, "ready")
        memory, idle = Memory(daemon), daemon.memory_bytes()
        memory.start()
        alone = finish(neighbour(daemon, min(5, options.neighbour_seconds)))["steady"]
        work = client(daemon, "--phases", "create,drain", "--batch", 1000, "--jobs", options.items, "--delay", 0,
                      "--connections", options.connections, "--priorities", options.priorities)
        beside = finish(neighbour(daemon, options.neighbour_seconds))["steady"]
        found = finish(work)
        memory.over.set()
        spilled, reloaded = (daemon.metric(f"tickwheel_timers_{what}_total") for what in ("spilled", "reloaded"))
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") == 0, 20, "nothing left")
        daemon.signal(signal.SIGTERM)
    shutil.rmtree(folder)
    create, drain = found["create"], found["drain"]
    print(f"{options.items:,} items: created {options.items / create['seconds']:,.0f}/s ({create['refused']:,} "
          f"had to be sent again), drained {options.items / drain['seconds']:,.0f}/s; server's CPU "
          f"{(create['cpu_s'] + drain['cpu_s']) / options.items * 1e6:.1f} us an item")
    print(f"resident: idle {idle / MIB:.0f} MiB, with the backlog {create['resident'] / MIB:.0f}, at most "
          f"{memory.most / MIB:.0f}; spilled {spilled:,.0f}, reloaded {reloaded:,.0f}")
    print(f"order: {drain['astray']:,} of them elsewhere than a strict order would have them")
    say_late("alone", alone)
    say_late("beside the backlog", beside)
    if memory.most > (options.near_mib + options.besides_mib) * MIB:
        sys.exit(f"{memory.most / MIB:.0f} MiB is more than {options.near_mib} and {options.besides_mib} MiB")


if __name__ == "__main__":
    main()
