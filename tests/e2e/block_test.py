#!/usr/bin/env python3
"""Goal: one flipped bit in a table costs nothing, in whichever block; a block of zeros costs at most its own timers, and
nothing else stops. Method: thousands of timers in a table, which is damaged at rest; --check, the daemon and --check
again are compared with the ids that were created, and timers that are created afterwards must fire."""

import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase

TIMERS = 4000
SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))


class BlockTest(DaemonCase):
    flags = ("--partitions", "2")

    def populate(self):
        lines = "".join(json.dumps({"after": "10h", "target": self.receiver.url(), "payload": n}) + "\n"
                        for n in range(TIMERS))
        body = self.call(200, "POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})[1]
        return {json.loads(line)["id"] for line in body.splitlines() if '"id"' in line}

    def largest_table(self):
        return max(glob.glob(os.path.join(self.data, "*.sst")), key=os.path.getsize)

    def flip(self, at):
        """A bit, of the byte that lies so far from the end of the table."""
        with open(self.largest_table(), "r+b") as file:
            file.seek(-at, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-at, os.SEEK_END)
            file.write(bytes([byte ^ 4]))

    def zero(self):
        path = self.largest_table()
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 2)
            file.write(bytes(512))

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
        self.zero()
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

    # proves: damaged-block
    def test_flipped_bit(self):
        """In the records, the filters, the index, the properties, the list of the blocks and the footer."""
        live = self.populate()
        self.restart()
        self.daemon.signal(signal.SIGTERM)
        size = os.path.getsize(self.largest_table())
        sound = self.data + "-sound"
        shutil.copytree(self.data, sound)
        self.addCleanup(shutil.rmtree, sound)
        chance = random.Random(SEED)
        for low, high in ((1, 53), (54, 142), (143, 1000), (1000, 2000), (1000, 2000), (2000, size), (2000, size)):
            shutil.rmtree(self.data)
            shutil.copytree(sound, self.data)
            at = chance.randint(low, high)
            self.flip(at)
            code, missing, total = self.check()
            self.assertEqual((code, missing, total), (1, 0, TIMERS), at)
            self.daemon = self.start()
            self.assertEqual(set(self.listed("limit=1000")), live, at)
            for timer in [self.create(after="1ms") for _ in range(6)]:
                self.wait_for_arrivals(timer)
            self.daemon.signal(signal.SIGTERM)
            harness.wait_until(lambda: self.daemon.process.poll() is not None, 20, "ended")

    # proves: unreadable
    def test_refuses_creates(self):
        """While the block cannot be set aside either, its partition creates nothing, and the other goes on."""
        live = self.populate()
        self.restart()
        self.daemon.signal(signal.SIGTERM)
        self.zero()
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
    print(f"TEST_SEED={SEED}", flush=True)
    unittest.main()
