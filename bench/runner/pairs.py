#!/usr/bin/env python3
"""Runs the runner, the same wheel under one mutex, and the timers of tokio, Go and Java under one load.

    pairs.py [--rounds N] [--only runner,mutex,tokio] [--realtime]

The subjects run in turn, round by round, each in a process of its own: schedule and cancel pairs by one and by two
threads (see runner_bench.c). Time is cut into windows of 5 ms. A window counts if no thread waited for a processor in
it for more than a fiftieth, so the figures of two threads are of two threads that ran at one time, also while other
programs run; but those empty the caches. On a busy machine two threads have few such windows: with --realtime (as root)
the subjects take the processors from all other programs, for a second at a time. A figure is the median of the windows of all rounds; a ratio is the median of
the ratios of the rounds. Prints tables in Markdown: million pairs a second, processor time per pair, and what was asked
of the runner beside what was measured.
"""

import argparse
import collections
import os
import re
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "wheel"))

import run  # of bench/wheel: it builds programs in other languages

PROGRAM = os.path.join(run.PROGRAMS, "runner_bench")
PEERS = os.path.join(run.BUILD, "runner")
WINDOWS = 100
WINDOWS_REALTIME = 24
REALTIME = ["chrt", "--fifo", "1"]
WINDOW_NS = 5e6
QUIET_MIN = 10  # windows for a figure
LATE_US_MAX = 200
COLUMNS = [("newest", 1), ("newest", 2), ("random", 1), ("random", 2)]


def build_tokio():
    run.need("cargo")
    run.build(["cargo", "build", "-q", "--release"], PEERS)
    return [os.path.join(PEERS, "target", "release", "runner_tokio")]


def build_go():
    run.need("go")
    run.build(["go", "build", "-o", "pairs_go", "pairs.go"], PEERS)
    return [os.path.join(PEERS, "pairs_go")]


def build_java():
    run.need("java", "javac")
    run.build(["javac", "-d", ".", "Pairs.java"], PEERS)
    return ["java", "-Xms1g", "-Xmx1g", "-cp", PEERS, "Pairs"]


BUILDERS = {"tokio": build_tokio, "Go": build_go, "Java's scheduled pool": build_java}


def subjects(wanted):
    """Commands by name. A peer without its toolchain is left out with a line."""
    found = {name: [PROGRAM, "pairs"] for name in ("runner", "mutex")}
    shutil.copytree(os.path.join(HERE, "peers"), PEERS, dirs_exist_ok=True)
    for name, builder in BUILDERS.items():
        if wanted and name.split("'")[0].lower() not in wanted:
            continue
        try:
            found[name] = builder()
        except run.LeftOut as why:
            print(f"left out: {name}, {why}")
    return {name: command for name, command in found.items() if not wanted or name.split("'")[0].lower() in wanted}


def measure(name, command, kind, threads, is_realtime):
    """The rates of the quiet windows, in million pairs a second, and the processor time per pair in ns."""
    windows_max = WINDOWS_REALTIME if is_realtime else WINDOWS
    arguments = [str(windows_max), kind, str(threads)] + ([name] if command[0] == PROGRAM else [])
    done = subprocess.run(REALTIME * is_realtime + command + arguments, capture_output=True, text=True,
                          timeout=run.RUN_S_MAX, check=True)
    windows = collections.defaultdict(list)
    pairs_all = 0
    *rows, last = done.stdout.splitlines()
    for row in rows:
        _, window, pairs, took, waited = map(int, row.split())
        pairs_all += pairs
        if took < 1.1 * WINDOW_NS and waited < took / 50:
            windows[window].append(1e3 * pairs / took)
    quiet = [sum(rates) for rates in windows.values() if len(rates) == threads]
    return quiet, float(last.split()[1]) / max(pairs_all, 1)


def median(values):
    return statistics.median(values) if values else None


def show(value, form="{:.1f}"):
    return "–" if value is None else form.format(value)


def print_table(title, names, cell):
    print(f"\n| {title} | " + " | ".join(f"{kind}, {threads}" for kind, threads in COLUMNS) + " |")
    print("| --- |" + " ---: |" * len(COLUMNS))
    for name in names:
        print(f"| {name} | " + " | ".join(cell(name, column) for column in COLUMNS) + " |")


def ratio(rates, column):
    """Runner to mutex, from rounds in which both have enough quiet windows."""
    both = zip(rates["runner", column], rates["mutex", column])
    return median([median(ours) / median(theirs) for ours, theirs in both
                   if min(len(ours), len(theirs)) >= QUIET_MIN])


def program(is_realtime, *arguments):
    return subprocess.run(REALTIME * is_realtime + [PROGRAM, *arguments], capture_output=True, text=True, timeout=run.RUN_S_MAX,
                          check=True).stdout


def bytes_per_timer():
    return float(re.search(r"([0-9.]+) bytes each", program(False, "idle", "1")).group(1))


def lateness_added_us(is_realtime):
    """How much later than by timerfd the median timer is handled, with ticks of 1 us; None if both wait for a processor
    most of the time."""
    rows = program(is_realtime, "late", "3").splitlines()[1:]
    medians = {row[:24].strip(): float(row[24:].split()[0]) for row in rows}
    return None if medians["timerfd"] > LATE_US_MAX else medians["runner, ticks of 1 us"] - medians["timerfd"]


def print_row(what, asked, measured, is_met):
    print(f"| {what} | {asked} | {measured} | {'not measured' if is_met is None else 'yes' if is_met else 'no'} |")


def print_asked(rates, is_realtime):
    print("\n| the runner | asked | measured | met |\n| --- | ---: | ---: | --- |")
    for kind, threads in COLUMNS:
        asked = 1.5 if threads == 2 else 1.0
        value = ratio(rates, (kind, threads))
        print_row(f"{kind} pairs, threads: {threads}; ÷ one mutex", f"at least {asked}", show(value, "{:.2f}"),
                  value and value >= asked)
    size = bytes_per_timer()
    print_row("bytes a timer", "at most 64", f"{size:.1f}", size <= 64)
    added = lateness_added_us(is_realtime)
    print_row("median lateness above timerfd's, µs", "below 9", show(added), None if added is None else added < 9)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="runner, mutex, tokio, go, java, with commas between")
    parser.add_argument("--realtime", action="store_true", help="before all other programs; as root")
    options = parser.parse_args()
    found = subjects(set(filter(None, options.only.split(","))))
    rates, costs = collections.defaultdict(list), collections.defaultdict(list)
    for turn in range(options.rounds):
        for column in COLUMNS:
            for name, command in found.items():
                quiet, cost = measure(name, command, *column, options.realtime)
                rates[name, column].append(quiet)
                costs[name, column].append(cost)
        run.log(f"round {turn + 1} of {options.rounds}")

    def rate(name, column):
        quiet = sum(rates[name, column], [])
        return f"{show(median(quiet) if len(quiet) >= QUIET_MIN else None)} ({len(quiet)})"

    print_table("million pairs a second (quiet windows)", found, rate)
    if not options.realtime:  # the thread that reads it comes too late
        print_table("processor ns per pair", found,
                    lambda name, column: show(median(costs[name, column]), "{:.0f}"))
    if {"runner", "mutex"} <= set(found):
        print_asked(rates, options.realtime)
    print(f"\nThe load average was {os.getloadavg()[0]:.1f} at the end, with {os.cpu_count()} processors.")


if __name__ == "__main__":
    main()
