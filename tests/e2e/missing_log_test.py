#!/usr/bin/env python3
"""Goal: a killed daemon's folder without its logs, as a backup's filter may leave it, does not start without a word.
Method: timers, kill -9, logs removed, emptied or cut; then --check and a start must refuse and name the log.
With storage_damage = skip the daemon starts, and says what it did. For two logs the flush between them is held up:
the names of the tables to come are pipes, at which it waits."""

import glob
import json
import os
import signal
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase


class MissingLogTest(DaemonCase):
    flags = ("--storage-memtable-bytes", "1M")

    def logs(self):
        return sorted(path for path in glob.glob(os.path.join(self.data, "*.log")) if os.path.getsize(path))

    def kill(self):
        for _ in range(20):
            self.create()
        self.daemon.signal(signal.SIGKILL)
        return self.logs()[-1]

    def batch(self, count):
        line = json.dumps({"after": "10h", "target": self.receiver.url(), "payload": "x" * 1000}) + "\n"
        self.call(200, "POST", "/v1/timers/batch", line * count, {"Content-Type": "application/x-ndjson"})
        return count

    def kill_with_two_logs(self):
        """Both are needed; answers how many timers there are."""
        count = self.batch(1)
        number = int(os.path.basename(self.logs()[-1])[:6])
        pipes = [os.path.join(self.data, f"{number + n:06}.sst") for n in range(1, 40)]
        for path in pipes:
            os.mkfifo(path)
        while len(self.logs()) < 2:
            count += self.batch(100)
        self.daemon.signal(signal.SIGKILL)
        for path in pipes:
            self.assertTrue(stat.S_ISFIFO(os.stat(path).st_mode))
            os.unlink(path)
        self.assertEqual(len(self.logs()), 2)
        return count

    def assert_refused(self, part):
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(part, done.stdout + done.stderr)
        with self.assertRaisesRegex(RuntimeError, part + ".*storage_damage = skip"):
            harness.Daemon(self.data, *self.flags)

    # proves: missing-log
    def test_all_logs_missing(self):
        self.kill()
        for path in glob.glob(os.path.join(self.data, "*.log")):
            os.unlink(path)
        self.assert_refused(".log is missing")
        self.daemon = self.start("--storage-damage", "skip")
        self.daemon.find_in_output("event=storage_damaged found=.*[.]log is missing")
        self.restart()  # once is enough

    # proves: missing-log
    def test_last_log_empty(self):
        os.truncate(self.kill(), 0)
        self.assert_refused(".log was cut short")

    # proves: missing-log
    def test_first_log_missing(self):
        self.kill_with_two_logs()
        first = self.logs()[0]
        os.unlink(first)
        self.assert_refused(os.path.basename(first) + " is missing")
        self.daemon = self.start("--storage-damage", "skip")
        self.daemon.find_in_output("event=storage_damaged found=.*[.]log is missing")

    # proves: missing-log
    def test_last_log_missing(self):
        self.kill_with_two_logs()
        last = self.logs()[1]
        os.unlink(last)
        self.assert_refused(os.path.basename(last) + " is missing")

    # proves: missing-log
    def test_first_log_cut(self):
        """Between two writes: the file looks as if it had never been longer."""
        self.kill_with_two_logs()
        first = self.logs()[0]
        with open(first, "rb") as file:
            data = file.read(7)
        os.truncate(first, 7 + int.from_bytes(data[4:6], "little"))
        self.assert_refused(os.path.basename(first) + " was cut short")

    # proves: missing-log
    def test_manifest_of_an_older_copy(self):
        """It does not know the tables that were made since: RocksDB would remove them."""
        old = os.path.join(self.data, "CURRENT")
        with open(old, encoding="utf-8") as file:
            manifest = file.read()
        with open(os.path.join(self.data, manifest.strip()), "rb") as file:
            contents = file.read()
        self.restart()
        self.kill()
        with open(old, "w", encoding="utf-8") as file:
            file.write(manifest)
        with open(os.path.join(self.data, manifest.strip()), "wb") as file:
            file.write(contents)
        self.assert_refused("CURRENT names " + manifest.strip())

    def test_two_logs(self):
        """Nothing is missing: it starts, with every timer."""
        count = self.kill_with_two_logs()
        self.daemon = self.start()
        self.assertEqual(len(self.listed("limit=1000")), count)

    def test_killed_again_and_again(self):
        """A kill alone never leaves a folder that is refused."""
        for _ in range(8):
            self.kill()
            self.daemon = self.start()
        self.assertEqual(len(self.listed("limit=1000")), 160)


if __name__ == "__main__":
    unittest.main()
