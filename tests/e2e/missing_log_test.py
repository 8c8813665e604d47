#!/usr/bin/env python3
"""Goal: a killed daemon's folder without its logs, as a backup's filter may leave it, does not start without a word.
Method: timers, kill -9, the log removed or emptied; then --check and a start must refuse and name the log. With
storage_damage = skip the daemon starts, and says what it did."""

import glob
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase


class MissingLogTest(DaemonCase):
    def kill(self):
        for _ in range(20):
            self.create()
        self.daemon.signal(signal.SIGKILL)
        return max(glob.glob(os.path.join(self.data, "*.log")))

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

    # proves: missing-log
    def test_last_log_empty(self):
        os.truncate(self.kill(), 0)
        self.assert_refused(".log was cut short")

    def test_killed_again_and_again(self):
        """A kill alone never leaves a folder that is refused."""
        for _ in range(8):
            self.kill()
            self.daemon = self.start()
        self.assertEqual(len(self.listed("limit=1000")), 160)


if __name__ == "__main__":
    unittest.main()
