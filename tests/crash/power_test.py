#!/usr/bin/env python3
"""Power cuts under load: the daemon is killed at a random moment, or at a random call that changes the
disk, also while it starts; then its folder is set to a state that a disk may have kept (faults.py), or, after some of
the kills, left alone: a process that is gone does not take the page cache with it. At the end all is compared
with what the clients wrote down (load.py). Now and then a sync fails before.

To show that the test detects losses: without syncs (storage_sync=never) timers must get lost.

    TEST_SEED=N      repeats the choices
    TEST_ROUNDS=N    power cuts
"""

import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import faults as layer
import harness
import load

ROUNDS = load.rounds(8)
ROUNDS_OF_ONE_FOLDER = 8
BLIND_ROUNDS_MAX = 20
FLAGS = ("--window", "1s", "--watermark-interval", "100ms", "--retain", "1h",
         "--storage-memory-bytes", "1M", *load.PAUSES)


class Scene:
    """One data folder and its rounds."""

    def __init__(self, chance, flags=()):
        self.chance, self.flags = chance, FLAGS + tuple(flags)
        self.faults, self.record, self.receiver = layer.Faults(), load.Record(), harness.Receiver()
        self.cuts = self.kills = self.starts_cut = self.unsynced = self.syncs_failed = 0
        self.ended = ""

    def start(self):
        return harness.Daemon(self.faults.data, *self.flags, env=self.faults.env())

    def round(self):
        faults, chance = self.faults, self.chance
        faults.set("cut_at", chance.randrange(1, 120) if chance.random() < 0.25 else 0)
        try:
            with self.start() as daemon:
                harness.wait_until(daemon.is_ready, 60, "ready")
                crowd = load.Crowd(daemon, self.receiver, self.record, chance,
                                   patience={503} if self.fail_syncs() else ())
                self.kill(daemon)
                crowd.end()
        except (RuntimeError, OSError, harness.http.client.HTTPException) as error:
            if faults.get("cut_at") == 0 or faults.get("steps") < faults.get("cut_at"):
                raise AssertionError(f"it did not start: {error}") from error
            self.starts_cut += 1
        self.after_kill()

    def fail_syncs(self):
        if self.chance.random() < 0.8:
            return False
        self.faults.set("syncs_to_fail", self.chance.randrange(1, 4))
        return True

    def kill(self, daemon):
        """At a step of the disk, or at any moment."""
        if self.chance.random() < 0.7:
            self.faults.set("cut_at", self.faults.get("steps") + self.chance.randrange(1, 400))
            if harness.happens(lambda: daemon.process.poll() is not None, 1.5):
                return
        else:
            time.sleep(self.chance.uniform(0.05, 1))  # the random moment
        daemon.signal(signal.SIGKILL)

    def after_kill(self):
        self.syncs_failed += self.faults.get("syncs_failed")
        for name in ("syncs_failed", "syncs_to_fail", "cut_at"):
            self.faults.set(name, 0)
        if self.chance.random() < 0.25:
            self.kills += 1
            self.ended += "k"
            return
        keep, unsynced = self.faults.cut(self.chance)
        self.cuts += 1
        self.ended += keep[0]
        self.unsynced += unsynced

    def finish(self):
        with self.start() as daemon:
            harness.wait_until(daemon.is_ready, 60, "ready")
            workers = load.Crowd(daemon, self.receiver, self.record, self.chance, clients=0)
            verdict = self.record.compare(daemon, self.receiver)
            workers.end()
            verdict.corrupt = daemon.metric("tickwheel_records_corrupt_total")
        return verdict

    def count_lost(self):
        """Only timers far ahead, which the test does not wait for."""
        with self.start() as daemon:
            harness.wait_until(daemon.is_ready, 60, "ready")
            return len(self.record.missing(daemon, set(load.arrived(self.receiver)) | set(self.record.leases)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.receiver.close()
        self.faults.close()


def run(chance):
    """The rounds with syncs, which lose nothing."""
    total, left = load.Verdict(), ROUNDS
    sums = dict.fromkeys(("cuts", "kills", "starts_cut", "unsynced", "syncs_failed"), 0)
    corrupt = 0
    while sums["cuts"] < left:
        with Scene(chance) as scene:
            while scene.cuts < min(ROUNDS_OF_ONE_FOLDER, left - sums["cuts"]):
                scene.round()
            verdict = scene.finish()
            if verdict.is_broken() or verdict.corrupt:
                print(f"rounds ended by {scene.ended} (k: killed only; else what was kept)")
                verdict.show(scene.record)
            corrupt += verdict.corrupt
            del verdict.corrupt
            total.add(verdict)
            for name in sums:
                sums[name] += getattr(scene, name)
    print(f"{sums['cuts']} power cuts and {sums['kills']} kills between, {sums['starts_cut']} of them while "
          f"it started; changes not synced at a cut {sums['unsynced']}, syncs failed "
          f"{sums['syncs_failed']}, damaged records {corrupt:.0f}")
    total.show()
    return not (total.is_broken() or corrupt) and bool(
        total.arrived and total.cancelled and total.patched and total.touched and total.leased and sums["unsynced"])


def run_blind(chance):
    """Acknowledged before the sync: the test must see it."""
    for number in range(1, BLIND_ROUNDS_MAX + 1):
        with Scene(chance, ("--storage-sync", "never", "--storage-damage", "skip")) as scene:
            with scene.start() as daemon:
                harness.wait_until(daemon.is_ready, 60, "ready")
                crowd = load.Crowd(daemon, scene.receiver, scene.record, chance)
                harness.wait_until(lambda: len(scene.record.timers) > 100, 60, "timers")
                daemon.signal(signal.SIGKILL)
                crowd.end()
            scene.faults.cut(chance)
            lost = scene.count_lost()
        if lost:
            print(f"without syncs: lost {lost} of {len(scene.record.timers)} after {number} power cuts, "
                  "as it must be")
            return True
    print(f"without syncs nothing was lost in {BLIND_ROUNDS_MAX} power cuts: the test is blind")
    return False


# proves: create-durable
def main():
    print(f"TEST_SEED={load.SEED} TEST_ROUNDS={ROUNDS}", flush=True)
    reason = layer.can_preload()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    chance = random.Random(load.SEED)
    results = [run(chance), run_blind(chance)]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
