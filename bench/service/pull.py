#!/usr/bin/env python3
"""The service as a job queue, beside beanstalkd and a polled sorted set of Redis, in one run.

    pull.py [--rounds N] [--scale F] [--connections N] [--only tickwheel,beanstalkd,redis] [--save]

Workers and producers are the same program for all, bench/service/pull/pull_client.c: it creates delayed
jobs as fast as it can, drains them when all are due, and then measures how late jobs are while others are
created at a steady pace. One job at a time, and many at a time in the way that suits each system best.
Each figure is the median of the rounds; in a round every system is run once, with a new server. Systems that
are not installed are left out, with a line that says so.

The data go to build/bench/pull.json; --save also puts them into bench/results.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("TEST_BUILD", "build/release")
import peers
from peers import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LAST = os.path.join(ROOT, "build", "bench", "pull.json")
RESULTS = os.path.join(ROOT, "bench", "results", "pull.json")

SINGLE, MANY = "one at a time", "many at a time"
RATES = {SINGLE: 1000, MANY: 10000}


class Subject:
    """A system with its settings. `slow`: each job costs a sync of its own, so there are fewer of them."""

    def __init__(self, key, name, durable, start, slow=False, polls=(None,)):
        self.key, self.name, self.durable = key, name, durable
        self.start, self.slow, self.polls = start, slow, polls


def tickwheel(folder):
    daemon = harness.Daemon(folder)
    harness.wait_until(daemon.is_ready, 20, "ready")
    return daemon


def beanstalkd(folder, *flags):
    server = peers.Beanstalkd(folder, flags)
    server.connect().close()
    return server


def redis(fsync):
    server = peers.Redis(fsync)
    server.start()
    return server


SUBJECTS = [
    Subject("tickwheel", "**tickwheeld**", "synced before each answer", tickwheel),
    Subject("beanstalkd", "beanstalkd", "none: in memory", lambda folder: beanstalkd(None)),
    Subject("beanstalkd", "beanstalkd -b", "synced each 50 ms", beanstalkd),
    Subject("beanstalkd", "beanstalkd -b -f0", "synced before each answer",
            lambda folder: beanstalkd(folder, "-f0"), slow=True),
    Subject("redis", "Redis, appendfsync everysec", "synced each second",
            lambda folder: redis("everysec"), polls=(100, 10)),
    Subject("redis", "Redis, appendfsync always", "synced before each answer",
            lambda folder: redis("always"), polls=(100, 10)),
]
NEEDS = {"beanstalkd": "beanstalkd", "redis": "redis-server"}


def client(subject, server, *arguments):
    """Phase -> its figures, of one run of the client."""
    done = subprocess.run(
        [harness.find("pull_client"), "--system", subject.key, "--port", str(server.port),
         "--pid", str(server.process.pid), *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{subject.name}: {done.stderr}")
    return {line["phase"]: line for line in map(json.loads, done.stdout.splitlines())}


def measure(subject, mode, options):
    """The figures of one run with a new server; name -> number."""
    folder = tempfile.mkdtemp(prefix="tickwheel-bench-")
    batch = 1 if mode == SINGLE else 1000
    jobs = int(options.scale * (5000 if subject.slow else 20000 if mode == SINGLE else 200000))
    server = subject.start(folder)
    try:
        common = ["--connections", options.connections, "--batch", batch]
        found = client(subject, server, *common, "--jobs", jobs, "--delay", 5,
                       "--phases", "create,drain")
        create, drain = found["create"], found["drain"]
        workers = options.connections
        figures = {
            "create": jobs / create["seconds"], "drain": jobs / drain["seconds"],
            "take": workers * jobs / drain["take_s"], "finish": workers * jobs / drain["finish_s"],
            "cpu_us": (create["cpu_s"] + drain["cpu_s"]) / jobs * 1e6,
            "resident_mib": max(create["resident"], drain["resident"]) / 2**20}
        for poll in subject.polls if not (subject.slow and mode == MANY) else ():
            steady = client(subject, server, *common, "--delay", 2, "--phases", "steady", "--seconds", 5,
                            "--rate", RATES[mode], "--poll", poll or 1)["steady"]
            prefix = f"poll_{poll}_" if poll else ""
            for share in ("p50", "p99", "p99.9", "max"):
                figures[f"{prefix}late_{share}_ms"] = steady[f"late_{share}_us"] / 1000
            figures[f"{prefix}steady_cpu"] = steady["cpu_s"] / steady["seconds"]
        return figures
    finally:
        server.signal(signal.SIGTERM) if hasattr(server, "signal") else server.stop()
        server.__exit__(None, None, None)
        shutil.rmtree(folder, ignore_errors=True)


def run(options):
    wanted = options.only.split(",")
    subjects = [subject for subject in SUBJECTS if subject.key in wanted]
    for name in {NEEDS.get(subject.key) for subject in subjects} - {None}:
        if not shutil.which(name):
            print(f"left out: {name} is not installed", flush=True)
            subjects = [subject for subject in subjects if NEEDS.get(subject.key) != name]
    rounds = {}
    for number in range(options.rounds):
        for mode in (SINGLE, MANY):
            for subject in subjects:
                rounds.setdefault((mode, subject), []).append(measure(subject, mode, options))
                print(f"round {number + 1}, {mode}: {subject.name}", file=sys.stderr, flush=True)
    return [{"mode": mode, "name": subject.name, "durable": subject.durable, "polls": subject.polls,
             "figures": {key: {"median": statistics.median(one[key] for one in found),
                               "min": min(one[key] for one in found),
                               "max": max(one[key] for one in found)} for key in found[0]}}
            for (mode, subject), found in rounds.items()]


# ---- the tables ----

def number(value, digits=0):
    return f"{value:,.{digits}f}"


def rate_rows(entries):
    yield "|  | durable | create /s | drain /s | reserve /s | ack /s | server's CPU, µs a job | resident MiB |"
    yield "| --- | --- |" + " ---: |" * 6
    for entry in entries:
        cell = {key: figure["median"] for key, figure in entry["figures"].items()}
        yield "| " + " | ".join([
            entry["name"], entry["durable"], number(cell["create"]), number(cell["drain"]),
            number(cell["take"]), number(cell["finish"]), number(cell["cpu_us"], 1),
            number(cell["resident_mib"])]) + " |"


def lateness_rows(entries):
    yield "|  | p50 ms | p99 ms | p99.9 ms | max ms | server's CPU, share of a core |"
    yield "| --- |" + " ---: |" * 5
    for entry in entries:
        for poll in entry["polls"]:
            prefix = f"poll_{poll}_" if poll else ""
            if f"{prefix}late_p50_ms" not in entry["figures"]:
                continue
            cell = {key: figure["median"] for key, figure in entry["figures"].items()}
            yield "| " + " | ".join([
                entry["name"] + (f", polled each {poll} ms" if poll else ""),
                *(number(cell[f"{prefix}late_{share}_ms"], 2) for share in ("p50", "p99", "p99.9", "max")),
                f"{cell[f'{prefix}steady_cpu']:.0%}"]) + " |"


def as_markdown(data):
    machine = data["machine"]
    lines = [f"Measured {data['date']}, {machine['processor']}, {machine['cores']} cores, Linux "
             f"{machine['kernel']}; load average {machine['load_before']} before; {data['connections']} "
             f"connections; median of {data['rounds']} rounds."]
    for mode in (SINGLE, MANY):
        entries = [entry for entry in data["entries"] if entry["mode"] == mode]
        lines += ["", f"### Rates, {mode}", "", *rate_rows(entries)]
        lines += ["", f"### Lateness, {mode}, {RATES[mode]:,} jobs a second", "", *lateness_rows(entries)]
    return "\n".join(lines)


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "?")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1, help="times as many jobs")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--only", default="tickwheel,beanstalkd,redis")
    parser.add_argument("--save", action="store_true", help="also into bench/results")
    options = parser.parse_args()
    data = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": {"processor": processor(), "cores": os.cpu_count(),
                        "kernel": platform.release(), "load_before": round(os.getloadavg()[0], 1)},
            "connections": options.connections, "rounds": options.rounds, "entries": run(options)}
    os.makedirs(os.path.dirname(LAST), exist_ok=True)
    with open(LAST, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.write("\n")
    print(as_markdown(data))
    if options.save:
        shutil.copy(LAST, RESULTS)


if __name__ == "__main__":
    main()
