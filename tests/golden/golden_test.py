#!/usr/bin/env python3
"""Upgrades: a data folder that an older version made is opened by the daemon of today. It is fine in the
eyes of --check, every timer is there with the fields it had, and those that are due are handed out. A
folder of an older store is refused, with a way out, and nothing in it changes.

Golden folders are made by make.py, one for each format, and never changed.
"""

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness

# What is said of them. The first has no file FOLDER.
REFUSED = {"format-4": "older version, before format 5.*Run `tickwheel export` with the version that made it",
           "format-8": "its format is 8, ours .*Run `tickwheel export` with the version that made it",
           "format-9": "its format is 9, ours .*run `make take-over FOLDER="}


def goldens():
    """Those that this version reads, the latest last."""
    return sorted((name[:-7] for name in os.listdir(HERE)
                   if name.startswith("format-") and name[:-7] not in REFUSED), key=lambda name: int(name[7:]))


def contents(folder):
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def check(folder):
    done = subprocess.run([harness.find("tickwheeld"), "--check", folder], env={}, check=False,
                          capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class GoldenTest(unittest.TestCase):
    def unpack(self, name):
        room = tempfile.TemporaryDirectory(prefix="tickwheel-golden-")
        self.addCleanup(room.cleanup)
        with tarfile.open(os.path.join(HERE, name + ".tar.gz")) as archive:
            archive.extractall(room.name)
        return room.name

    def open(self, name):
        folder = self.unpack(name)
        told = os.path.join(folder, "told.json")
        with open(told, encoding="utf-8") as file:
            golden = json.load(file)
        os.remove(told)
        return golden, folder

    def assert_timers(self, daemon, timers):
        for kind, was in timers.items():
            timer = was["timer"].get("timer", was["timer"])
            timer["retry"].setdefault("give_up_after", "3d")  # which the field is without one
            status, _, body = daemon.call("GET", f"/v1/timers/{timer['id']}")
            if not kind.startswith("due-"):
                self.assertEqual((status, body), (was["status"], was["timer"]), kind)
            if "key" in timer:
                by_key = daemon.call("GET", f"/v1/keys/{timer['key']}/timer")
                self.assertEqual((by_key[0], by_key[2]), (status, body), kind)

    def assert_due(self, daemon, timers):
        wanted = {was["timer"]["id"]: was["timer"]["payload"] for kind, was in timers.items()
                  if kind.startswith("due-")}
        self.assertEqual(len(wanted), 4)
        found, receipts = {}, []

        def lease():
            status, _, body = daemon.call("POST", "/v1/queues/golden/lease",
                                          {"max": 100, "wait": "1s"})
            self.assertEqual(status, 200, body)
            for item in body["items"]:
                found[item["id"]] = item["payload"]
                receipts.append(item["receipt"])
            return len(found) >= len(wanted)
        harness.wait_until(lease, 20, "what is due")
        self.assertEqual(found, wanted)
        self.assertEqual(daemon.call("POST", "/v1/queues/golden/ack", {"receipts": receipts})[0], 200)

    def test_too_old(self):
        for name, said in REFUSED.items():
            with self.subTest(name):
                folder = self.unpack(name)
                before = contents(folder)
                code, text = check(folder)
                self.assertEqual(code, 2, text)
                self.assertRegex(text, said)
                for _ in range(2):
                    done = subprocess.run([harness.find("tickwheeld"), "--data-folder", folder],
                                          env={}, check=False, capture_output=True, text=True, timeout=60)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertRegex(done.stdout + done.stderr, said)
                self.assertEqual(contents(folder), before)

    def test_all(self):
        self.assertIn("format-10", goldens())
        for name in goldens():
            with self.subTest(name):
                golden, folder = self.open(name)
                code, text = check(folder)
                self.assertEqual(code, 0, text)
                self.assertIn(f"total: {golden['live']} live", text)
                self.assertIn(f"format {golden['format']};", text)
                with harness.Daemon(folder, "--partitions", str(golden["partitions"]),
                                    "--retain", "3650d") as daemon:
                    harness.wait_until(daemon.is_ready, 20, "ready")
                    self.assertEqual(daemon.metric("tickwheel_timers_pending"), golden["live"])
                    self.assert_timers(daemon, golden["timers"])
                    self.assert_due(daemon, golden["timers"])
                    harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") ==
                                       golden["live"] - 4, 20, "four less")
                    self.assertEqual(daemon.metric("tickwheel_records_corrupt_total"), 0)
                    daemon.signal(15)
                code, text = check(folder)
                self.assertEqual(code, 0, text)
                self.assertIn(f"{goldens()[-1].replace('-', ' ')};", text)  # an older version refuses it now


if __name__ == "__main__":
    unittest.main(verbosity=2)
