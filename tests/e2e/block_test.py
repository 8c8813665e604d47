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
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "crash"))
import harness
from daemon_case import DaemonCase
from faults import UNLIMITED, Faults, can_preload

TIMERS = 4000
NEAR = 200
SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))


class BlockTest(DaemonCase):
    flags = ("--partitions", "2")

    def start(self, *flags):
        return super().start("--backup-folder", self.data + "-backups", *flags)

    def populate(self):
        lines = "".join(json.dumps({"after": "10h", "target": self.receiver.url(), "payload": n}) + "\n"
                        for n in range(TIMERS))
        body = self.call(200, "POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})[1]
        return {json.loads(line)["id"] for line in body.splitlines() if '"id"' in line}

    def write_table(self):
        """A backup writes what is only in the log into a run. Then the daemon stops."""
        self.call(201, "POST", "/v1/admin/backup")
        shutil.rmtree(self.data + "-backups")
        self.daemon.signal(signal.SIGTERM)

    def largest_table(self):
        return max(glob.glob(os.path.join(self.data, "run-*")), key=os.path.getsize)

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
            file.write(bytes(64))

    def check(self):
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True)
        affected = re.search(r"affected: at most (\d+) live timers", done.stdout)
        total = re.search(r"total: (\d+) live", done.stdout)
        return done.returncode, int(affected[1]) if affected else 0, int(total[1])

    # proves: damaged-block
    def test_goes_on(self):
        live = self.populate()
        self.assertEqual(len(live), TIMERS)
        self.write_table()
        self.assertEqual(self.check(), (0, 0, TIMERS))
        self.zero()
        code, missing, total = self.check()
        self.assertEqual((code, missing + total), (1, TIMERS))
        self.assertTrue(0 < missing < TIMERS / 10, missing)
        self.daemon = self.start()
        found = set(self.listed("limit=1000"))
        self.assertEqual(len(found), total)
        self.assertTrue(found < live)
        blocks = harness.wait_until(lambda: self.daemon.metric("tickwheel_storage_damaged_blocks"), 20, "counted")
        self.assertLessEqual(blocks, 2)  # the zeros may lie across an end
        self.assertGreaterEqual(self.daemon.metric("tickwheel_records_corrupt_total"), missing / 2)
        self.daemon.find_in_output(r"event=storage_damaged found=.*records of the table .*timers.* were set aside")
        for timer in [self.create(after="1ms") for _ in range(20)]:  # in both partitions
            self.wait_for_arrivals(timer)
        self.restart()
        self.assertEqual(self.daemon.metric("tickwheel_storage_damaged_blocks"), blocks)
        self.assertEqual(set(self.listed("limit=1000")), found)

    # proves: damaged-block
    def test_flipped_bit(self):
        """In the blocks, the index with its filters, and the foot."""
        live = self.populate()
        self.write_table()
        with open(self.largest_table(), "rb") as file:
            table = file.read()
        size, index = len(table), len(table) - int.from_bytes(table[-16:-8], "little")  # from the end
        sound = self.data + "-sound"
        shutil.copytree(self.data, sound)
        self.addCleanup(shutil.rmtree, sound)
        chance = random.Random(SEED)
        for low, high in ((1, 48), (49, index), (49, index), (index + 1, size), (index + 1, size), (size - 16, size)):
            shutil.rmtree(self.data)
            shutil.copytree(sound, self.data)
            at = chance.randint(low, high)
            self.flip(at)
            code, missing, total = self.check()
            self.assertEqual((code, missing, total), (1, 0, TIMERS), at)
            self.daemon = self.start()
            self.assertEqual(set(self.listed("limit=1000")), live, at)
            self.daemon.find_in_output("event=storage_damaged found=.*nothing is lost")
            if at > index:
                self.assertEqual(self.daemon.metric("tickwheel_storage_damaged_blocks"), 1)
            for timer in [self.create(after="1ms") for _ in range(6)]:
                self.wait_for_arrivals(timer)
            self.daemon.signal(signal.SIGTERM)
            harness.wait_until(lambda: self.daemon.process.poll() is not None, 20, "ended")

    # proves: unreadable
    @unittest.skipIf(can_preload(), can_preload())
    def test_refuses_creates(self):
        """While the disk cannot read a run, the partitions that have rows in it create nothing; then all goes on."""
        live = self.populate()
        near = sorted(live)[:NEAR]
        for number, timer in enumerate(near):  # one due each second, for a while: they are read before
            self.call(200, "PATCH", f"/v1/timers/{timer}", {"after": f"{5 + number}s"})
        self.write_table()
        faults = Faults()
        self.addCleanup(faults.close)
        shutil.copytree(self.data, faults.data, dirs_exist_ok=True)
        self.daemon = harness.Daemon(faults.data, *self.flags, "--window", "1s", env=faults.env())
        self.addCleanup(self.daemon.close)
        harness.wait_until(self.daemon.is_ready, 20, "ready")
        faults.set("reads_to_fail", UNLIMITED)
        harness.wait_until(lambda: self.daemon.metric("tickwheel_partitions_unreadable") == 2, 20, "counted")
        self.assertIn("damaged: a partition", str(self.daemon.call("GET", "/readyz")))
        for _ in range(20):
            status, _, answer = self.daemon.call("POST", "/v1/timers", {"after": "1h", "target": self.receiver.url()})
            self.assertEqual((status, answer["type"]), (503, "/problems/unreadable"))
        self.daemon.find_in_output("event=storage_failed cause=.*run-")
        faults.set("reads_to_fail", 0)
        harness.wait_until(self.daemon.is_ready, 20, "ready")
        self.assertLessEqual(live - set(near), set(self.listed("limit=1000")))
        for timer in near[:3]:
            self.wait_for_arrivals({"id": timer})


if __name__ == "__main__":
    print(f"TEST_SEED={SEED}", flush=True)
    unittest.main()
