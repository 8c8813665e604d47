#!/usr/bin/env python3
"""Goal: one flipped bit in a table costs the timers of its block, and nothing else stops. Method: thousands of timers
in a table, of which a bit is flipped at rest; --check, the daemon and --check again are compared with the ids that were
created, and timers that are created afterwards must fire."""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase

TIMERS = 4000


class BlockTest(DaemonCase):
    flags = ("--partitions", "2")

    def populate(self):
        lines = "".join(json.dumps({"after": "10h", "target": self.receiver.url(), "payload": n}) + "\n"
                        for n in range(TIMERS))
        body = self.call(200, "POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})[1]
        return {json.loads(line)["id"] for line in body.splitlines() if '"id"' in line}

    def flip_in_largest_table(self):
        path = max(glob.glob(os.path.join(self.data, "*.sst")), key=os.path.getsize)
        with open(path, "r+b") as file:
            at = os.path.getsize(path) // 2
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 4]))

    def check(self):
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True)
        affected = re.search(r"affected: at most (\d+) live timers", done.stdout)
        total = re.search(r"total: (\d+) live", done.stdout)
        return done.returncode, int(affected[1]) if affected else 0, int(total[1])

    # proves: damaged-block
    def test_goes_on(self):
        live = self.populate()
        self.assertEqual(len(live), TIMERS)
        self.restart()  # the log goes into a table
        self.daemon.signal(signal.SIGTERM)
        self.assertEqual(self.check(), (0, 0, TIMERS))
        self.flip_in_largest_table()
        code, missing, total = self.check()
        self.assertEqual((code, missing + total), (1, TIMERS))
        self.assertTrue(0 < missing < TIMERS / 10, missing)
        self.daemon = self.start()
        found = set(self.listed("limit=1000"))
        self.assertEqual(len(found), total)
        self.assertTrue(found < live)
        harness.wait_until(lambda: self.daemon.metric("tickwheel_storage_damaged_blocks") == 1, 20, "counted")
        self.assertGreaterEqual(self.daemon.metric("tickwheel_records_corrupt_total"), missing / 2)
        self.daemon.find_in_output(r"event=storage_damaged found=.*records of the table .*timers.* were set aside")
        for timer in [self.create(after="1ms") for _ in range(20)]:  # in both partitions
            self.wait_for_arrivals(timer)
        self.restart()
        self.assertEqual(self.daemon.metric("tickwheel_storage_damaged_blocks"), 1)
        self.assertEqual(set(self.listed("limit=1000")), found)


    # proves: unreadable
    def test_refuses_creates(self):
        """While the block cannot be set aside either, its partition creates nothing, and the other goes on."""
        live = self.populate()
        self.restart()
        self.daemon.signal(signal.SIGTERM)
        self.flip_in_largest_table()
        obstacle = os.path.join(self.data, "damaged")
        os.symlink("/none/at/all", obstacle)
        self.daemon = harness.Daemon(self.data, *self.flags, "--window", "24h")
        self.addCleanup(self.daemon.close)
        harness.wait_until(lambda: "damaged: a partition" in str(self.daemon.call("GET", "/readyz")), 20, "said")
        self.assertEqual(self.daemon.metric("tickwheel_partitions_unreadable"), 1)
        answers = [self.daemon.call("POST", "/v1/timers", {"after": "1h", "target": self.receiver.url()})
                   for _ in range(20)]
        self.assertEqual({status for status, _, _ in answers}, {201, 503})
        self.assertEqual({answer["type"] for status, _, answer in answers if status == 503},
                         {"/problems/unreadable"})
        live |= {answer["id"] for status, _, answer in answers if status == 201}
        self.daemon.find_in_output("event=storage_failed cause=.*[.]sst")
        os.unlink(obstacle)
        harness.wait_until(self.daemon.is_ready, 20, "ready")
        found = set(self.listed("limit=1000"))
        self.assertTrue(found < live)
        self.assertGreater(len(found), 0.9 * len(live))


if __name__ == "__main__":
    unittest.main()
