#!/usr/bin/env python3
"""Goal: a start that is refused takes nothing from the folder: above all not the mark of the clean stop, with which the
next start notices what is missing. Method: a start with another number of partitions; after it each file that is missing
is still noticed, and with all in place no timer is missing."""

import glob
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase


class RefusedStartTest(DaemonCase):
    def setUp(self):
        super().setUp()
        self.ids = {self.create()["id"] for _ in range(20)}
        self.restart()  # so that there are tables
        self.daemon.signal(signal.SIGTERM)

    def refused(self, cause, *flags):
        done = subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", self.data, *flags],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(cause, done.stderr)

    def check_protected(self):
        """Each file that is missing is named, and with everything in place the timers are there."""
        for path in glob.glob(os.path.join(self.data, "*.log")) + glob.glob(os.path.join(self.data, "*.sst")):
            os.rename(path, path + ".away")
            self.refused(f"{os.path.basename(path)} is missing")
            os.rename(path + ".away", path)
        self.daemon = self.start()
        found = self.call(200, "GET", "/v1/timers?limit=1000")[1]["timers"]
        self.assertEqual({timer["id"] for timer in found}, self.ids)

    def test_another_number_of_partitions(self):
        self.refused("cannot be opened with 7", "--partitions", "7")
        self.check_protected()


if __name__ == "__main__":
    unittest.main()
