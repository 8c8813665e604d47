#!/usr/bin/env python3
"""Goal: --check tells a log that ends within a write from a whole one by its exit code, before a start and never after
a clean stop. Method: a killed daemon's folder, as it is and with bytes behind the last frame of its log."""

import glob
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase

FINE, TORN = 0, 3


class TornLogTest(DaemonCase):
    def check(self):
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True)
        return done.returncode, done.stdout

    def test_exit_code(self):
        timer = self.create()
        self.daemon.signal(signal.SIGKILL)
        self.assertEqual(self.check()[0], FINE)
        with open(max(glob.glob(os.path.join(self.data, "log", "*.segment"))), "r+b") as log:
            end = len(log.read().rstrip(b"\0"))
            log.seek((end + 7) // 8 * 8)
            log.write(b"\x12\x34\x56\x78\x40\x00\x01half a write")
        code, said = self.check()
        self.assertEqual(code, TORN, said)
        self.assertIn("valid, up to the torn end of a log", said)
        self.daemon = self.start()
        self.assertEqual(self.state(timer), "scheduled")
        self.daemon.signal(signal.SIGTERM)
        self.assertEqual(self.check()[0], FINE)


if __name__ == "__main__":
    unittest.main()
