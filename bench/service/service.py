#!/usr/bin/env python3
"""Everything that the service is measured by, in one run: beside its peers, and beside the floors of the machine.

    BENCH_ROWS=create,idle BENCH_SCALE=0.2 service.py [--into FOLDER] [--save]

Each row of ROWS is measured for BENCH_ROUNDS rounds (5); in a round each system is run once, with a new server,
by one client (load/load_client.c). Figures are medians. BENCH_SCALE (1) multiplies seconds and counts; BENCH_FAR is
the count of far timers (20 million times the scale). The floors are nginx that answers 201, for HTTP alone, and
log_floor, one thread that syncs what is ready before it answers. A peer that is not installed is left out.

Writes service.json and service.svg into FOLDER (build/bench); --save: into bench/results and docs.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TEST_BUILD", "build/release")
import peers
import show
from peers import broker_servers, harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
FAR = int(os.environ.get("BENCH_FAR", str(int(20_000_000 * SCALE))))
DAY_S = 86400


def scaled(count, least):
    return max(int(count * SCALE), least)


# ---- servers ----

@contextlib.contextmanager
def tickwheeld(*flags):
    folder = tempfile.mkdtemp(prefix="tickwheel-bench-")
    try:
        with harness.Daemon(folder, *flags) as daemon:
            harness.wait_until(daemon.is_ready, 60, "ready")
            daemon.folder = folder
            yield daemon
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def beanstalkd(*flags):
    with tempfile.TemporaryDirectory(prefix="tickwheel-bench-") as folder:
        with peers.Beanstalkd(folder, flags) as server:
            server.connect().close()
            yield server


class System:
    """A server, the operation of the client that creates one timer with it, and the connections that it is tried with."""

    def __init__(self, name, start, operation, needs=None, connections=(1, 8, 64)):
        self.name, self.start, self.operation = name, start, operation
        self.needs, self.connections = needs, connections

    def is_here(self):
        if self.needs == "postgres":
            return peers.Postgres.programs() is not None
        if self.needs == "nats-server":
            return broker_servers.Nats.missing() is None
        return self.needs is None or shutil.which(self.needs) is not None


ALL = (1, 8, 64, 512)
SYSTEMS = [
    System("tickwheeld", tickwheeld, "create", None, ALL),
    System("log_floor", peers.Floor, "create", None, ALL),
    System("nginx", peers.Nginx, "create", "nginx", ALL),
    System("redis_always", lambda: peers.Redis("always"), "redis", "redis-server", ALL),
    System("redis_everysec", lambda: peers.Redis("everysec"), "redis", "redis-server"),
    System("beanstalkd", beanstalkd, "beanstalkd", "beanstalkd"),
    System("beanstalkd_f0", lambda: beanstalkd("-f0"), "beanstalkd", "beanstalkd"),
    System("nats", broker_servers.Nats, "nats", "nats-server"),
    System("postgresql", peers.Postgres, "insert", "postgres"),
]


# ---- the client ----

class Result:
    """What one run of the client printed."""

    def __init__(self, found):
        self.found = found
        self.run = found["runs"][0]
        self.rate = self.run["units"] / found["seconds"]
        self.cpu_us = found["cpu_s"] / max(self.run["units"], 1) * 1e6

    def at(self, share, run=0, what="latency_us"):
        return dict(self.found["runs"][run][what])[share]

    def figures(self, name):
        return {f"{name}.rate": self.rate, f"{name}.cpu_us": self.cpu_us,
                f"{name}.p50_us": self.at(0.5), f"{name}.p99_us": self.at(0.99)}


def client(server, *arguments, **options):
    """client(daemon, "create:64", seconds=2): runs load_client with --run create:64 --seconds 2."""
    runs = [text for run in arguments for text in ("--run", run)]
    flags = [text for name, value in options.items()
             for text in ("--" + name.replace("_", "-"), str(value))]
    done = subprocess.run([harness.find("load_client"), "--port", str(server.port), "--pid",
                           str(server.process.pid), *runs, *flags],
                          capture_output=True, text=True, timeout=7200, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments} {options}: {done.stderr}")
    return Result(json.loads(done.stdout))


def timed(server, run, seconds=1.5, **options):
    """The rate that a server keeps up for some seconds, after some that do not count."""
    return client(server, run, seconds=seconds * SCALE, warm=seconds * SCALE * 0.2, **options)


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def create_with_ids(daemon, count, due_from_s, due_to_s):
    """Creates timers and returns their ids, in random order."""
    chance, now_ms, ids = random.Random(1), int(time.time() * 1000), []
    for first in range(0, count, 10000):
        lines = "".join('{"at":%d,"target":"http://127.0.0.1:9/recheck","payload":"%s"}\n' % (
            now_ms + chance.randrange(due_from_s * 1000, due_to_s * 1000), "x" * 230)
            for _ in range(min(10000, count - first)))
        status, _, answer = daemon.call("POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})
        assert status == 200, answer[:300]
        ids += [line[7:33] for line in answer.splitlines()]
    chance.shuffle(ids)
    return ids


@contextlib.contextmanager
def id_file(ids):
    with tempfile.NamedTemporaryFile("w", suffix=".ids") as file:
        file.write("\n".join(ids) + "\n")
        file.flush()
        yield file.name


def until_quiet(pid):
    """Until what the daemon does in the background is over: two seconds with almost no CPU."""
    last = cpu_s(pid)
    for _ in range(60):
        time.sleep(2)
        now = cpu_s(pid)
        if now - last <= 0.03:
            return
        last = now


# ---- the rows: each returns the figures of one round, name -> number ----

def row_create():
    figures = {}
    for system in SYSTEMS:
        if system.is_here():
            with system.start() as server:
                for connections in system.connections:
                    result = timed(server, f"{system.operation}:{connections}")
                    figures |= result.figures(f"{system.name}.{connections}")
    return figures


def row_batch():
    """By 10,000, two connections."""
    figures, units = {}, scaled(600_000, 20_000)
    for name, start, operation, needs in (("tickwheeld", tickwheeld, "batch", "tickwheeld"),
                                          ("log_floor", peers.Floor, "batch", "log_floor"),
                                          ("redis_always", lambda: peers.Redis("always"), "redis", "redis_always"),
                                          ("postgresql_copy", peers.Postgres, "copy", "postgresql")):
        if any(system.name == needs and system.is_here() for system in SYSTEMS):
            with start() as server:
                figures |= client(server, f"{operation}:2:10000", units=units).figures(name)
    return figures


def row_far():
    """Creates in a row, all far away; a kill -9; then get and cancel, one at a time on 8 connections."""
    far = {"due_from": 10 * DAY_S, "due_to": 40 * DAY_S}
    probes = scaled(20_000, 200)
    with tempfile.TemporaryDirectory(prefix="tickwheel-bench-") as folder:
        with harness.Daemon(folder) as daemon:
            harness.wait_until(daemon.is_ready, 60, "ready")
            ids = create_with_ids(daemon, probes, 10 * DAY_S, 40 * DAY_S)
            fill = client(daemon, "batch:2:10000", units=FAR, mark=max(FAR // 20, 10_000), **far)
            ids += create_with_ids(daemon, probes, 10 * DAY_S, 40 * DAY_S)
            resident = daemon.memory_bytes()
            daemon.signal(signal.SIGKILL)
        began = time.monotonic()
        with harness.Daemon(folder) as daemon:
            harness.wait_until(daemon.is_ready, 600, "ready")
            ready_s = time.monotonic() - began
            with id_file(ids) as path:
                get = client(daemon, "get:8", units=probes, ids=path)
                cancel = client(daemon, "cancel:8", units=probes, ids=path)
            figures = {"ready_s": ready_s, "resident_bytes": max(resident, daemon.memory_bytes()),
                       "count": FAR + len(ids)}
    marks = fill.found["marks"]
    return figures | fill.figures("fill") | {
        "fill.evenness": min(marks) / max(marks), "fill.longest_ms": fill.at(1) / 1000,
        "get.p99_ms": get.at(0.99) / 1000, "cancel.p99_ms": cancel.at(0.99) / 1000}


def row_beside():
    """One connection that creates singly, beside two that send batches."""
    figures = {}
    for name, start in (("tickwheeld", tickwheeld), ("log_floor", peers.Floor)):
        with start() as server:
            figures |= client(server, "create:1", "batch:2:10000", seconds=4 * SCALE + 0.2).figures(name)
    return figures


def row_read():
    """GET and touch by id, 64 connections."""
    with tickwheeld() as daemon, id_file(create_with_ids(daemon, scaled(50_000, 1000), 1800, 5400)) as path:
        figures = timed(daemon, "get:64", ids=path).figures("get") | \
            timed(daemon, "touch:64", ids=path).figures("touch")
        with peers.Floor() as floor:
            return figures | timed(floor, "get:64", ids=path).figures("floor.get") | \
                timed(floor, "touch:64", ids=path).figures("floor.touch")


def row_many():
    """Touch and reschedule, 1,000 keys a call, 4 connections."""
    count = scaled(100_000, 10_000)
    keys = [f"k{number:012}" for number in range(count)]
    with tickwheeld() as daemon, id_file(keys) as path:
        client(daemon, "batch_keys:1:10000", units=count, number=0)
        figures = timed(daemon, "touch_many:4:1000", 2, ids=path).figures("touch") | \
            timed(daemon, "reschedule_many:4:1000", 2, ids=path).figures("reschedule")
    with id_file(keys) as path, peers.Floor() as floor:
        return figures | timed(floor, "touch_many:4:1000", ids=path).figures("floor")


def row_lease():
    """Items that are due, leased and acknowledged: one at a time by 8 connections, by the thousand by 2."""
    figures = {}
    for name, run, count in (("one", "lease:8:1", scaled(20_000, 1000)),
                             ("thousand", "lease:2:1000", scaled(300_000, 10_000))):
        with tickwheeld() as daemon:
            count -= count % 1000
            client(daemon, "batch:1:1000", units=count, target="queue:bench", due_from=0, due_to=0)
            figures |= client(daemon, run, units=count, target="queue:bench").figures(name)
    return figures


class Arrivals:
    """Reads the record of a receiver as it grows."""

    def __init__(self, receiver, count):
        self.lines = []
        with open(receiver.record, encoding="ascii") as file:
            rest = ""

            def look():
                nonlocal rest
                parts = (rest + file.read()).split("\n")
                rest = parts.pop()
                self.lines += parts
                return len(self.lines) >= count
            harness.wait_until(look, 600, f"{count} webhooks")

    def late_us(self):
        return [int(line.split(" ", 3)[0]) - int(line.split(" ", 3)[2]) * 1000 for line in self.lines]

    def seconds(self):
        at = [int(line.split(" ", 1)[0]) for line in self.lines]
        return (max(at) - min(at)) / 1e6


def row_webhook():
    """All due at one instant, to one receiver; the floor is the client that sends requests like them."""
    count = scaled(60_000, 2000)
    count -= count % 1000
    with harness.Receiver() as receiver, tickwheeld() as daemon:
        client(daemon, "batch:1:1000", units=count, target=receiver.url(), due_from=3, due_to=3)
        before = cpu_s(daemon.process.pid)
        arrivals = Arrivals(receiver, count)
        figures = {"rate": count / arrivals.seconds(),
                   "cpu_us": (cpu_s(daemon.process.pid) - before) / count * 1e6}
        floor = timed(receiver, "post:64")
    return figures | {"floor.rate": floor.rate,
                      "floor.cpu_us": floor.found["client_cpu_s"] / floor.run["units"] * 1e6}


def distribution(values_us):
    """As the client prints one."""
    return [[share, harness.percentile(values_us, share)] for share in show.SHARES]


def row_late():
    """5,000 timers a second on a daemon that does nothing else, to webhooks and to 8 workers of a queue."""
    seconds = max(10 * SCALE, 0.4)
    count = int(5000 * seconds / 1000 + 1) * 1000
    due = {"due_from": 3, "due_to": 3 + seconds}
    figures = {}
    with harness.Receiver() as receiver, tickwheeld() as daemon:
        client(daemon, "batch:1:1000", units=count, target=receiver.url(), **due)
        found = {"webhook": distribution(Arrivals(receiver, count).late_us())}
    with tickwheeld() as daemon:
        client(daemon, "batch:1:1000", units=count, target="queue:late", **due)
        worker = client(daemon, "lease:8:100", units=count, target="queue:late")
        found["queue"] = worker.run["lateness_us"]
    for kind, shares in found.items():
        figures |= {f"{kind}.{share}": us / 1000 for share, us in shares}
    return figures


def switches(pid):
    """How often a thread of the process gave up its processor, or lost it: a wake-up each."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status", encoding="utf-8") as file:
            total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
    return total


def row_idle():
    """Wake-ups of a daemon that has far timers and nothing to do."""
    seconds = max(20 * SCALE, 1)
    with tickwheeld() as daemon:
        client(daemon, "batch:2:10000", units=scaled(1_000_000, 20_000), due_from=10 * DAY_S, due_to=40 * DAY_S)
        until_quiet(daemon.process.pid)
        time.sleep(12 if SCALE >= 0.05 else 0)  # until it has read a window and found no timer in it
        before, before_cpu = switches(daemon.process.pid), cpu_s(daemon.process.pid)
        time.sleep(seconds)
        return {"wakeups": (switches(daemon.process.pid) - before) / seconds,
                "cpu": (cpu_s(daemon.process.pid) - before_cpu) / seconds}


def row_shards():
    """Two shards against one."""
    figures = {}
    for shards in ("1", "2"):
        with tickwheeld("--shards", shards) as daemon:
            figures |= timed(daemon, "create:64").figures(f"{shards}.create")
            figures |= client(daemon, "batch:2:10000", units=scaled(300_000, 20_000)).figures(f"{shards}.batch")
    return figures


ROWS = {"create": row_create, "batch": row_batch, "far": row_far, "beside": row_beside, "read": row_read,
        "many": row_many, "lease": row_lease, "webhook": row_webhook, "late": row_late, "idle": row_idle,
        "shards": row_shards}
ONCE = ("far", "idle")


# ---- the run ----

def run(keys):
    rows = {}
    for key in keys:
        began, rounds = time.monotonic(), []
        for _ in range(1 if key in ONCE else ROUNDS):
            rounds.append(ROWS[key]())
        rows[key] = {name: {"median": statistics.median(one[name] for one in rounds),
                            "min": min(one[name] for one in rounds),
                            "max": max(one[name] for one in rounds)} for name in rounds[0]}
        print(f"{key}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return rows


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", default=os.path.join(ROOT, "build", "bench"))
    parser.add_argument("--save", action="store_true", help="into bench/results and docs instead")
    options = parser.parse_args()
    keys = os.environ.get("BENCH_ROWS", ",".join(ROWS)).split(",")
    if unknown := set(keys) - set(ROWS):
        sys.exit(f"BENCH_ROWS: no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    for system in SYSTEMS:
        if not system.is_here():
            print(f"left out: {system.name}, {system.needs} is not installed", flush=True)
    data = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": {"processor": processor(), "cores": os.cpu_count(), "kernel": platform.release(),
                        "load_before": round(os.getloadavg()[0], 1)},
            "scale": SCALE, "rounds": ROUNDS, "rows": run(keys)}
    print(show.markdown(data))
    show.write(data, options.into, options.save)


if __name__ == "__main__":
    main()
