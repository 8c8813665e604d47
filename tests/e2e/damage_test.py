#!/usr/bin/env python3
"""Damaged files: nothing that was acknowledged goes without a word, and nothing crashes.

A small data folder is made, with timers of several kinds, in two ways: after a clean stop and after a
kill -9. Then, a copy at a time, one bit of one file is flipped or one file is cut short, over all files
and all parts of them, and the real daemon is started on it. Each run ends as one of

  whole     it starts, and every timer is there
  told      it starts, some timers are not there, and it says so: in the metrics and in the log
  unready   it starts, says in the log which file cannot be read, and does not say that it is ready
  refused   it does not start, and says which file, and what to do
  skipped   the same, and with storage_damage = skip it starts, says so, and lost no more than it says

and never as

  silent    it is ready, timers are missing, and nothing was said
  crashed   it ended by a signal, or in any other way

    TEST_SEED=N    repeats a run's choices
    TEST_FLIPS=N, TEST_CUTS=N    how many of each (200 and 60)
"""

import collections
import concurrent.futures
import os
import random
import re
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
FLIPS = int(os.environ.get("TEST_FLIPS", "200"))
CUTS = int(os.environ.get("TEST_CUTS", "60"))
FLAGS = ("--partitions", "2", "--window", "1m", "--retain", "1h")
TARGET = "http://127.0.0.1:1/nobody"


def populate(folder, how):
    """Timers in runs and in the log; answers their ids and how each ended."""
    live = set()
    with harness.Daemon(folder, *FLAGS, "--backup-folder", folder + "-backups") as daemon:
        harness.wait_until(daemon.is_ready, 20, "ready")
        for number in range(120):
            timer = {"after": f"{1 + number % 7}h", "target": TARGET, "payload": {"n": number},
                     "labels": {"n": str(number)}, "watch": [f"order:{number}"]}
            if number % 3 == 0:
                timer["key"] = f"key-{number}"
            status, _, made = daemon.call("POST", "/v1/timers", timer)
            assert status == 201, made
            live.add(made["id"])
            if number % 5 == 0:
                assert daemon.call("PATCH", f"/v1/timers/{made['id']}", {"after": "9h"})[0] == 200
            if number % 11 == 0:
                assert daemon.call("DELETE", f"/v1/timers/{made['id']}")[0] == 200
                live.discard(made["id"])
            if number == 60:  # what came before goes from the log into a run
                assert daemon.call("POST", "/v1/admin/backup")[0] == 201
        daemon.signal(how)
    shutil.rmtree(folder + "-backups")
    return live


def listed(daemon):
    found, cursor = set(), ""
    while True:
        status, _, page = daemon.call("GET", f"/v1/timers?limit=100{cursor}")
        if status != 200:
            return None
        found.update(timer["id"] for timer in page["timers"])
        if not page.get("next"):
            return found
        cursor = f"&cursor={page['next']}"


def refusal(output, folder):
    """Whether it names a file of the folder, or what is wrong with it, and what to do."""
    line = re.search(r"event=start_failed cause=(.*)", output)
    return line and folder in line[1] and re.search(r"restore a backup|newer version|older version", line[1])


def try_skipping(folder, live, is_cut):
    """Whether a start around the damage of the log costs no more than it says: how much, unless the end of the log
    is cut off. Of the 120 timers 61 are in runs, and not touched."""
    with harness.Daemon(folder, *FLAGS, "--storage-damage", "skip") as daemon:
        harness.wait_until(daemon.is_ready, 20, "ready")
        found, lost = listed(daemon), daemon.metric("tickwheel_storage_lost_writes")
        daemon.find_in_output("event=storage_damaged")
        daemon.signal(signal.SIGTERM)
    return (is_cut or len(live - found) <= lost) and len(found) >= 50


def judge(folder, live, is_cut):
    """(verdict, what it said)"""
    try:
        daemon = harness.Daemon(folder, *FLAGS)
    except RuntimeError as ended:
        code = int(re.search(r"ended with (-?\d+)", str(ended))[1])
        if code == 1 and re.search(r"/log[/ ].* storage_damage = skip", str(ended)):
            return "skipped" if try_skipping(folder, live, is_cut) else "silent", str(ended)
        if code == 1 and refusal(str(ended), folder):
            return "refused", str(ended)
        return "crashed", str(ended)
    with daemon:
        def settled():
            if daemon.process.poll() is not None:
                return "ended"
            if daemon.is_ready():
                return "ready"
            return "unready" if "event=storage_failed" in daemon.output() else None
        try:
            state = harness.wait_until(settled, 20, "ready, or a reason")
        except TimeoutError:
            return "silent", "never ready, and no reason: " + daemon.output()
        if state == "ended":
            return "crashed", daemon.output()
        found = listed(daemon) if state == "ready" else None
        # What is read only when it is asked for is asked for once.
        answers = collections.Counter(
            daemon.call("GET", f"/v1/timers/{timer}")[0] for timer in live)
        if state == "ready" and (found != live or set(answers) != {200}):  # damage that was met just now is told within a second
            harness.happens(lambda: "event=storage_damaged" in daemon.output(), 10)
        said = sum(daemon.metric(name) for name in (
            "tickwheel_records_corrupt_total", "tickwheel_storage_torn_logs",
            "tickwheel_storage_lost_writes", "tickwheel_storage_failures_total"))
        output = daemon.output()
        code = daemon.signal(signal.SIGTERM)
        if code < 0 or code > 1:
            return "crashed", f"at the stop, with {code}: {daemon.output()}"
    if state == "unready":
        named = re.search(r"event=storage_failed cause=.*(run-|log)", output)
        return ("unready" if named else "silent"), output
    if found == live and set(answers) == {200}:
        return "whole", output
    missing = f"{len(live - (found or set()))} of {len(live)} not listed, answers {dict(answers)}"
    if found is None or answers.keys() - {200, 404}:
        return "told", missing  # a call that fails says so itself
    if said and "event=storage_damaged" in output:
        return "told", missing
    return "silent", missing + "\n" + output


def files_of(folder):
    """Names below the folder and their sizes, without the zeros at the end of the log's files."""
    for above, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(above, name)
            size = os.path.getsize(path)
            if os.path.basename(above) == "log":
                with open(path, "rb") as file:
                    size = len(file.read().rstrip(b"\0"))
            if size:
                yield os.path.relpath(path, folder), size


def parts_of(folder, chance, count):
    """Every file by turns, and of each every part by turns."""
    files = sorted(files_of(folder))
    for number in range(count):
        name, size = files[number % len(files)]
        rounds = -(-count // len(files))
        part = number // len(files)
        yield name, min(size - 1, int(size * (part + chance.random()) / rounds))


def damage(original, folder, name, at, bit):
    shutil.copytree(original, folder)
    path = os.path.join(folder, name)
    with open(path, "r+b") as file:
        if bit is None:
            file.truncate(at)
            return
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def run_one(original, live, name, at, bit):
    with tempfile.TemporaryDirectory(prefix="tickwheel-damage-") as room:
        folder = os.path.join(room, "data")
        damage(original, folder, name, at, bit)
        verdict, said = judge(folder, live, bit is None)
    return name, at, bit, verdict, said


def kind(name):
    return re.sub(r"\d+", "N", name)


def run_all(title, original, live, chance):
    tally = collections.Counter()
    bad = []
    cases = [(name, at, chance.randrange(8)) for name, at in parts_of(original, chance, FLIPS // 2)]
    cases += [(name, at, None) for name, at in parts_of(original, chance, CUTS // 2)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, at, bit, verdict, said in pool.map(
                lambda case: run_one(original, live, *case), cases):
            tally[kind(name), "cut" if bit is None else "flip", verdict] += 1
            if verdict in ("silent", "crashed"):
                bad.append(f"{title}: {name} at {at}, bit {bit}: {verdict}\n{said[-1500:]}")
    for (name, what, verdict), count in sorted(tally.items()):
        print(f"{title}: {name:10} {what:4} {verdict:8} {count:3}")
    return bad


def main():
    print(f"TEST_SEED={SEED} TEST_FLIPS={FLIPS} TEST_CUTS={CUTS}", flush=True)
    chance = random.Random(SEED)
    bad = []
    for title, how in (("stopped", signal.SIGTERM), ("killed", signal.SIGKILL)):
        with tempfile.TemporaryDirectory(prefix="tickwheel-damage-") as room:
            original = os.path.join(room, "data")
            live = populate(original, how)
            bad += run_all(title, original, live, chance)
    for text in bad[:20]:
        print(text)
    print(f"{len(bad)} of {FLIPS + CUTS} runs silent or crashed")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
