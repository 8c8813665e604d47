#!/usr/bin/env python3
"""Runs every wheel of ours and every peer that is here, and compares.

Each subject is a program that runs the workloads (see workloads.h) once and prints JSON. They are run one at
a time, in turn, for several rounds; a figure is the median of its rounds. A slow subject gets fewer rounds.
Ours run once more at ten times the size, and with --huge at that size, expire alone: 100,000,000 timers take
6 GiB. Where valgrind is, callgrind counts the instructions of fill.

    run.py [--timers N] [--large N] [--huge N] [--rounds N] [--only opened,libuv,netty] [--save]
    run.py --save-last      saves the last run, without another

Built beforehand: the programs in C and C++ (scripts/bench does). Built here, where the toolchain is found:
those in Java, Go and Rust. The data go to build/bench/wheel.json; with --save also to
bench/results/wheel.json, and the table and the plot of docs/benchmarks.md are made again.
"""

import argparse
import datetime
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys

import plot
import table

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = os.path.join(ROOT, "build", "release", "bench")
BUILD = os.path.join(ROOT, "build", "bench")
RESULTS = os.path.join(ROOT, "bench", "results")
DOCS = os.path.join(ROOT, "docs")
LAST = os.path.join(BUILD, "wheel.json")

OURS = ["opened", "scheduled", "hierarchy", "hashed", "ring"]
# Of these, the chunk wheel: it also runs prefetched, by the verbs for many, and at ten times the size.
CHUNK_WHEEL = ["opened", "scheduled"]
HOW = {"ahead": "prefetched", "many": "many"}
COUNTED_TIMERS = 1000000
OTHERS = ["heap", "lists", "lazy_queue", "queue", "rbtree", "seastar", "ratas", "wahern", "vpp", "linux", "libuv",
          "libev", "libevent", "dpdk"]
JAVA = ["netty", "kafka", "agrona", "delayqueue"]

# Of the rest. The chunk wheel, whose figures are held against targets, gets all rounds.
ROUNDS_OTHERS = 3
PATIENCE_S = 12  # a subject other than ours that took longer gets no further round
RUN_S_MAX = 300
JAVA_HEAP = "4g"


def log(text):
    print(text, file=sys.stderr, flush=True)


def children_s():
    """Processor time of the programs run so far: what other programs do meanwhile is not in it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class LeftOut(Exception):
    """Why a peer cannot be measured here."""


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            raise LeftOut(f"no {tool} on the PATH")


def build(command, folder, environment=None):
    try:
        done = subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})},
                              capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        raise LeftOut(f"{command[0]} did not end") from None
    if done.returncode:
        with open(os.path.join(BUILD, f"{command[0]}.log"), "w", encoding="utf-8") as file:
            file.write(done.stdout + done.stderr)
        raise LeftOut(f"{command[0]} failed, see build/bench/{command[0]}.log")


def copied(name):
    """A source folder's copy under build/, so that no tool writes into the tree."""
    folder = os.path.join(BUILD, name)
    shutil.copytree(os.path.join(HERE, name), folder, dirs_exist_ok=True)
    return folder


def build_java():
    need("java", "mvn")
    folder = copied("java")
    build(["mvn", "-q", "-B", f"-Dbench.build={folder}/target", "compile",
           "dependency:copy-dependencies"], folder)
    path = f"{folder}/target/classes:{folder}/target/lib/*"
    return ["java", f"-Xms{JAVA_HEAP}", f"-Xmx{JAVA_HEAP}", "-XX:+AlwaysPreTouch", "-cp", path,
            "tickwheel.bench.Bench"]


def build_go():
    need("go")
    folder = copied("go")
    build(["go", "build", "-o", "wheel_go", "."], folder, {"GOFLAGS": "-mod=readonly"})
    return [os.path.join(folder, "wheel_go")]


def build_rust():
    need("cargo")
    folder = copied("rust")
    build(["cargo", "build", "-q", "--release"], folder)
    return [os.path.join(folder, "target", "release", "wheel_rust")]


class Entrant:
    def __init__(self, key, command, how=None):
        self.key, self.command, self.how = key, command, how
        self.runs, self.took_s = [], 0.0

    def run(self, timers):
        command = self.command + [str(timers)] + ([self.how] if self.how else [])
        began = children_s()
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
        self.took_s += children_s() - began
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise LeftOut(f"failed: {last}")
        self.runs.append(json.loads(done.stdout.strip().splitlines()[-1]))

    def summary(self):
        first = self.runs[0]
        figures = {}
        for figure in first["figures"]:
            values = [run["figures"][figure] for run in self.runs]
            figures[figure] = {"median": round(statistics.median(values), 3), "least": min(values), "most": max(values)}
        name = first["name"] + (f", {HOW[self.how]}" if self.how in HOW else "")
        return {"key": self.key, "name": name, "kind": first["kind"], "version": first["version"],
                "note": first["note"], "rounds": len(self.runs),
                "late_ticks": max((run["late_ticks"] for run in self.runs if "late_ticks" in run),
                                  default=None),
                "cut": sorted({figure for run in self.runs for figure in run["cut"]}),
                "figures": figures}


def built_entrants(wanted, left_out):
    """The wanted subjects of those that are built, in the order of the table."""
    entrants = []

    def add(key, command, how=None):
        if not wanted or key in wanted:
            entrants.append(Entrant(key, command, how))

    for key in OURS + OTHERS:
        program = os.path.join(PROGRAMS, f"wheel_{key}")
        if not os.path.exists(program):
            continue
        add(key, [program])
        if key in CHUNK_WHEEL:
            for how in HOW:
                add(f"{key}_{how}", [program], how)
    for what, keys, builder in (("Netty, Kafka, Agrona, DelayQueue", JAVA, build_java),
                                ("RussellLuo/timingwheel", ["go"], build_go),
                                ("hierarchical_hash_wheel_timer", ["rust"], build_rust)):
        if wanted and not wanted & set(keys):
            continue
        try:
            log(f"building {what}")
            command = builder()
            for key in keys:
                add(key, command + ([key] if builder is build_java else []))
        except LeftOut as why:
            left_out.append([what, str(why)])
    return entrants


def measure(entrants, timers, rounds, left_out):
    for turn in range(rounds):
        for entrant in list(entrants):
            is_enough = turn >= ROUNDS_OTHERS or entrant.took_s > PATIENCE_S
            if is_enough and entrant.key.split("_")[0] not in CHUNK_WHEEL:
                continue
            log(f"round {turn + 1} of {rounds}, {timers:,} timers: {entrant.key}")
            try:
                entrant.run(timers)
                log(f"    {entrant.took_s:.1f} s so far")
            except (LeftOut, subprocess.TimeoutExpired, ValueError) as why:
                left_out.append([entrant.key, str(why)])
                entrants.remove(entrant)
    return [entrant.summary() for entrant in entrants]


def floor(timers):
    program = os.path.join(PROGRAMS, "wheel_opened")
    runs = [json.loads(subprocess.run([program, str(timers), "floor"], capture_output=True, text=True,
                                      timeout=RUN_S_MAX, check=True).stdout) for _ in range(3)]
    return {key: round(statistics.median(run[key] for run in runs), 1) for key in runs[0]}


def fill_instructions():
    """Instructions of fill for each timer, by key: the calls, the loop around them, and the growth of the buckets."""
    counts = {}
    if not shutil.which("valgrind"):
        return counts
    for key in CHUNK_WHEEL:
        for how in (None, "many"):
            done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=fill",
                                   os.path.join(PROGRAMS, f"wheel_{key}"), str(COUNTED_TIMERS), "fill", *([how] if how else [])],
                                  capture_output=True, text=True, timeout=RUN_S_MAX, check=True)
            counted = int(re.search(r"Collected : (\d+)", done.stderr)[1])
            counts[f"{key}_{how}" if how else key] = round(counted / COUNTED_TIMERS, 2)
    return counts


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20,
                              check=True).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"processor": model, "cores": os.cpu_count(), "memory_gib": round(memory / 2**30),
            "kernel": platform.release(), "compiler": first_line(["cc", "--version"]),
            "flags": "-O3", "load_before": round(os.getloadavg()[0], 2)}


def write_json(data, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.write("\n")


def save(data):
    os.makedirs(RESULTS, exist_ok=True)
    write_json(data, os.path.join(RESULTS, "wheel.json"))
    plot.write(data, os.path.join(DOCS, "benchmarks.svg"))
    table.write(data, os.path.join(DOCS, "benchmarks.md"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--timers", type=int, default=1000000)
    parser.add_argument("--large", type=int, default=10000000, help="0 for none")
    parser.add_argument("--huge", type=int, default=0, help="expire alone, once; 0 for none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="keys, with commas between")
    parser.add_argument("--save", action="store_true", help="also into bench/results and docs")
    parser.add_argument("--save-last", action="store_true", help="the last run, without another")
    options = parser.parse_args()
    if options.save_last:
        with open(LAST, encoding="utf-8") as file:
            save(json.load(file))
        return
    wanted = set(filter(None, options.only.split(",")))
    os.makedirs(BUILD, exist_ok=True)

    left_out = []
    listed = os.path.join(PROGRAMS, "wheel_left_out.txt")
    if os.path.exists(listed):
        with open(listed, encoding="utf-8") as file:
            left_out = [line.rstrip("\n").split("\t") for line in file]
    data = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(), "sizes": [], "left_out": left_out}
    entrants = built_entrants(wanted, left_out)
    data["sizes"].append({"timers": options.timers, "floor": floor(options.timers),
                          "instructions": fill_instructions(),
                          "subjects": measure(entrants, options.timers, options.rounds, left_out)})
    large = [Entrant(key, [os.path.join(PROGRAMS, f"wheel_{key}")]) for key in CHUNK_WHEEL
             if not wanted or key in wanted]
    if options.large and large:
        data["sizes"].append({"timers": options.large, "floor": floor(options.large),
                              "subjects": measure(large, options.large, min(options.rounds, 3),
                                                  left_out)})
    if options.huge:
        data["huge"] = {"timers": options.huge,
                        "subjects": measure([Entrant("opened", [os.path.join(PROGRAMS, "wheel_opened")], "expire")],
                                            options.huge, 1, left_out)}
    data["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    write_json(data, LAST)
    print(table.as_text(data))
    if options.save:
        save(data)
    else:
        plot.write(data, os.path.join(BUILD, "wheel.svg"))


if __name__ == "__main__":
    main()
