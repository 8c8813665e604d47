#!/usr/bin/env python3
"""Goal: one failing system call, or one damaged byte, costs no more than it must: not the folder whose backup failed, nor what
else a damaged log has. Method: nth (tests/support/nth.c) lets each call fail in turn; a byte is changed in a commit of several
records.

    TEST_SEED=N      which calls fail
    TEST_FAULTS=N    how many; "all": each
"""

import glob
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

FLAGS = ("--partitions", "1", "--shards", "1")
FAR = {"after": "50h", "target": "queue:a"}
CALLS = {"fsync": 40, "fdatasync": 12, "rename": 8}  # more of each than a start and a backup need
FAULTS = [(call, number) for call, most in CALLS.items() for number in range(1, most)]
SEED = int(os.environ.get("TEST_SEED") or random.randrange(1 << 32))
COUNT = os.environ.get("TEST_FAULTS", "14")
NDJSON = {"Content-Type": "application/x-ndjson"}


class OneFaultTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-fault-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.data = os.path.join(self.folder, "data")

    def make(self, daemon, payloads):
        lines = "".join(json.dumps({**FAR, "payload": payload}) + "\n" for payload in payloads)
        status, _, answer = daemon.call("POST", "/v1/timers/batch", lines, NDJSON)
        self.assertEqual(status, 200)
        return [json.loads(line)["id"] for line in answer.splitlines() if '"id"' in line]

    def damage(self, mark):
        """Changes a byte behind the only place of the log that has these bytes."""
        found = 0
        for path in glob.glob(os.path.join(self.data, "log", "*.segment")):
            with open(path, "r+b") as file:
                at = file.read().find(mark)
                if at >= 0:
                    file.seek(at + len(mark) + 10)
                    file.write(b"\xff")
                    found += 1
        self.assertEqual(found, 1)

    def each_fault(self, count, *flags):
        """Starts the daemon on copies of the folder, with another system call failing each time, and the `count` - 1 behind it.
        Yields each that started, or None."""
        whole = self.data + "-whole"
        shutil.copytree(self.data, whole)
        print(f"TEST_SEED={SEED}", file=sys.stderr)
        for call, number in FAULTS if COUNT == "all" else random.Random(SEED).sample(FAULTS, int(COUNT)):
            shutil.rmtree(self.data)
            shutil.copytree(whole, self.data)
            with self.subTest(call=call, number=number):
                try:
                    under = (harness.find("nth"), call, "EIO", str(number), str(count), "--")
                    with harness.Daemon(self.data, *FLAGS, *flags, under=under) as daemon:
                        yield daemon
                except RuntimeError:
                    yield None

    # proves: backup-failed
    def test_a_backup_that_fails(self):
        backups = os.path.join(self.folder, "backups")
        with harness.Daemon(self.data, *FLAGS) as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            made = self.make(daemon, range(300))
            daemon.signal(signal.SIGTERM)
        failed = 0
        for daemon in self.each_fault(1, "--backup-folder", backups):
            if daemon:
                failed += daemon.call("POST", "/v1/admin/backup")[0] >= 500
                daemon.signal(signal.SIGTERM)
            with harness.Daemon(self.data, *FLAGS) as after:
                harness.wait_until(after.is_ready, 20, "ready")
                self.assertEqual(after.metric("tickwheel_timers_pending"), len(made))
        if COUNT == "all":
            self.assertGreater(failed, 1)

    def test_a_start_that_skips_damage(self):
        """What is only in the log is in files before the log goes, also if that start fails and another follows."""
        with harness.Daemon(self.data, *FLAGS) as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            made = self.make(daemon, ["MARK" + "x" * 50]) + [self.make(daemon, [number])[0] for number in range(100)]
            daemon.signal(signal.SIGKILL)
        self.damage(b"MARK")
        for daemon in self.each_fault(1000, "--storage-damage", "skip"):
            if daemon:
                daemon.signal(signal.SIGKILL)
            with harness.Daemon(self.data, *FLAGS, "--storage-damage", "skip") as after:
                harness.wait_until(after.is_ready, 20, "ready")
                self.assertEqual([after.call("GET", f"/v1/timers/{timer}")[0] for timer in made], [404] + [200] * 100)

    def test_damage_in_a_commit_of_several_records(self):
        """Its first, a middle or its last record: all that is in no damaged record is there."""
        for place in (5, 30, 59):
            with self.subTest(place=place):
                with harness.Daemon(self.data, *FLAGS) as daemon:
                    harness.wait_until(daemon.is_ready, 20, "ready")
                    before = self.make(daemon, range(50))
                    large = self.make(daemon, [f"MARK{number}-" + os.urandom(20000).hex() for number in range(60)])
                    after = self.make(daemon, range(50))
                    daemon.signal(signal.SIGKILL)
                self.damage(b"MARK%d-" % place)
                with harness.Daemon(self.data, *FLAGS, "--storage-damage", "skip") as daemon:
                    harness.wait_until(daemon.is_ready, 20, "ready")
                    there = [timer for timer in before + large + after if daemon.call("GET", f"/v1/timers/{timer}")[0] == 200]
                    self.assertLessEqual(set(before + after), set(there))
                    self.assertLess(len(there), 160)
                    self.assertEqual(daemon.metric("tickwheel_storage_lost_writes"), 1)
                shutil.rmtree(self.data)


if __name__ == "__main__":
    unittest.main()
