#!/usr/bin/env python3
"""Backups of a daemon at work, and --check.

Under load a backup is made, and later the daemon is thrown away; a daemon that is started on the backup
must have every timer that was acknowledged before the backup was asked for, as it was or later.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
TARGET = "http://127.0.0.1:1/nobody"
PROBLEM = "/problems/"


def check(folder):
    done = subprocess.run([harness.find("tickwheeld"), "--check", folder], env={}, check=False,
                          capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def fingerprint(folder):
    """Names, bytes and times of all files."""
    found = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            found[name] = (os.stat(path).st_mtime_ns, file.read())
    return found


class Load(threading.Thread):
    """Creates, moves and cancels, and writes down what was acknowledged."""

    def __init__(self, daemon, seed):
        super().__init__(daemon=True)
        self.server, self.chance = daemon, random.Random(seed)
        self.lock = threading.Lock()
        self.live, self.gone, self.failure = {}, set(), None
        self.ends = False

    def snapshot(self):
        with self.lock:
            return dict(self.live), set(self.gone)

    def one(self, connection, number):
        kind = self.chance.random()
        if kind < 0.7 or not self.live:
            timer = {"after": "2h", "target": TARGET, "key": f"{self.name}-{number}"}
            status, _, made = self.server.call("POST", "/v1/timers", timer, connection=connection)
            assert status == 201, made
            with self.lock:
                self.live[made["id"]] = made["version"]
            return
        timer = self.chance.choice(list(self.live))
        if kind < 0.9:
            status, _, made = self.server.call("PATCH", f"/v1/timers/{timer}", {"after": "3h"},
                                               connection=connection)
            assert status == 200, made
            with self.lock:
                self.live[timer] = made["version"]
            return
        with self.lock:
            del self.live[timer]  # unknown until it is answered
        assert self.server.call("DELETE", f"/v1/timers/{timer}", connection=connection)[0] == 200
        with self.lock:
            self.gone.add(timer)

    def run(self):
        try:
            connection, number = self.server.connect(), 0
            while not self.ends:
                self.one(connection, number)
                number += 1
            connection.close()
        except Exception as failure:  # shown by the test
            self.failure = failure


class BackupTest(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="tickwheel-backup-")
        self.addCleanup(shutil.rmtree, self.room)
        self.data = os.path.join(self.room, "data")
        self.backups = os.path.join(self.room, "deep", "backups")

    def start(self, folder, *flags):
        daemon = harness.Daemon(folder, *flags)
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    def backup(self, daemon):
        """Makes one, in a second of its own."""
        def made():
            status, _, body = daemon.call("POST", "/v1/admin/backup")
            if status == 409 and body["type"] in (PROBLEM + "backup-exists", PROBLEM + "backup-runs"):
                return None
            self.assertEqual(status, 201, body)
            return body
        return harness.wait_until(made, 30, "a backup")

    def assert_holds(self, daemon, live, gone):
        connection = daemon.connect()
        self.addCleanup(connection.close)
        for timer, version in live.items():
            status, _, body = daemon.call("GET", f"/v1/timers/{timer}", connection=connection)
            if status == 410:  # cancelled between the look at the record and the copy
                continue
            self.assertEqual(status, 200, f"{timer}: {body}")
            self.assertGreaterEqual(body["version"], version)
            status, _, by_key = daemon.call("GET", f"/v1/keys/{body['key']}/timer",
                                            connection=connection)
            self.assertEqual((status, by_key["id"]), (200, timer))
        for timer in gone:
            self.assertEqual(
                daemon.call("GET", f"/v1/timers/{timer}", connection=connection)[0], 410)

    # proves: backup
    def test_what_was_acknowledged_before_is_in_it(self):
        daemon = self.start(self.data, "--backup-folder", self.backups)
        loads = [Load(daemon, f"{SEED}-{number}") for number in range(4)]
        for load in loads:
            load.start()
        copies = []
        for number in range(3):
            harness.wait_until(
                lambda: sum(len(load.live) for load in loads) > 200 * (number + 1), 60, "load")
            before = [load.snapshot() for load in loads]
            copies.append((before, self.backup(daemon)))
        for load in loads:
            load.ends = True
            load.join(30)
            self.assertIsNone(load.failure)
        self.assertEqual(daemon.metric("tickwheel_backups_total"), 3)
        self.assertEqual(daemon.metric("tickwheel_backup_last_bytes"), copies[-1][1]["bytes"])
        self.assertLess(abs(daemon.metric("tickwheel_backup_last_timestamp_seconds") - time.time()), 60)
        daemon.signal(signal.SIGKILL)
        for before, copy in copies:
            self.assertEqual(copy["folder"], os.path.join(self.backups, copy["name"]))
            asked = fingerprint(copy["folder"])
            code, text = check(copy["folder"])
            self.assertEqual(code, 0, text)
            self.assertIn(f"total: {copy['timers']} live", text)
            self.assertEqual(fingerprint(copy["folder"]), asked)
            restored = self.start(copy["folder"])
            self.assertEqual(restored.metric("tickwheel_timers_pending"), copy["timers"])
            for live, gone in before:
                self.assert_holds(restored, live, gone)
            restored.signal(signal.SIGTERM)

    # proves: backup-refused
    def test_refusals(self):
        daemon = self.start(self.data)
        status, _, problem = daemon.call("POST", "/v1/admin/backup")
        self.assertEqual((status, problem["type"]), (409, PROBLEM + "backup-off"))
        self.assertIn("backup_folder", problem["detail"])
        self.assertEqual(daemon.call("GET", "/v1/admin/backup")[0], 405)
        daemon.signal(signal.SIGTERM)
        daemon = self.start(self.data, "--backup-folder", self.backups)
        for ahead in range(60):
            name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + ahead - 1))
            os.makedirs(os.path.join(self.backups, name))
        status, _, problem = daemon.call("POST", "/v1/admin/backup")
        self.assertEqual((status, problem["type"]), (409, PROBLEM + "backup-exists"))
        self.assertIn(self.backups, problem["detail"])
        self.assertEqual(daemon.metric("tickwheel_backups_failed_total"), 1)
        self.assertTrue(all(not os.listdir(os.path.join(self.backups, name))
                            for name in os.listdir(self.backups)))
        daemon.signal(signal.SIGTERM)
        daemon = self.start(self.data, "--backup-folder", "/dev/null/backups")
        status, _, problem = daemon.call("POST", "/v1/admin/backup")
        self.assertEqual((status, problem["type"]), (503, PROBLEM + "io"))
        self.assertIn("/dev/null", problem["detail"])

    # proves: backup-one
    def test_one_at_a_time(self):
        daemon = self.start(self.data, "--backup-folder", self.backups)
        body = "".join(json.dumps({"after": "2h", "target": TARGET, "payload": "x" * 400}) + "\n"
                       for _ in range(20000))
        status, _, _ = daemon.call("POST", "/v1/timers/batch", body,
                                   {"Content-Type": "application/x-ndjson"})
        self.assertEqual(status, 200)
        answers = []

        def ask():
            answers.append(daemon.call("POST", "/v1/admin/backup"))
        asking = [threading.Thread(target=ask) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        good = [body for status, _, body in answers if status == 201]
        self.assertGreaterEqual(len(good), 1)
        self.assertEqual({body["type"] for status, _, body in answers if status != 201}
                         - {PROBLEM + "backup-runs", PROBLEM + "backup-exists"}, set())
        self.assertTrue(any(status == 409 and body["type"] == PROBLEM + "backup-runs"
                            for status, _, body in answers), [a[2] for a in answers])
        for copy in good:
            self.assertEqual(copy["timers"], 20000)

    def whole(self):
        return sorted(name for name in os.listdir(self.backups) if not name.endswith(".tmp"))

    # proves: backup-planned, backup_keep
    def test_planned_ones_are_made_and_the_oldest_deleted(self):
        """Each second one, of which two are kept, with all that was acknowledged before."""
        daemon = self.start(self.data, "--backup-folder", self.backups, "--backup-cron", "* * * * * *",
                            "--backup-keep", "2")
        made = [daemon.call("POST", "/v1/timers", {"after": "2h", "target": TARGET, "key": f"k{number}"})[2]
                for number in range(50)]
        asked = self.backup(daemon)
        mine = os.path.join(self.backups, "20200101T000000Z")
        os.makedirs(mine)
        harness.wait_until(lambda: daemon.output().count("event=backup_made") >= 5, 60, "five backups")
        self.assertIn(" deleted=1", daemon.output())
        self.assertEqual(daemon.signal(signal.SIGTERM), 0)
        left = set(self.whole()) - {asked["name"], "20200101T000000Z"}
        self.assertEqual(len(left), 2)
        self.assertTrue(os.path.isdir(asked["folder"]) and os.path.isdir(mine))
        for name in left | {asked["name"]}:
            code, text = check(os.path.join(self.backups, name))
            self.assertEqual(code, 0, text)
            self.assertIn("total: 50 live", text)
        restored = os.path.join(self.room, "restored")
        subprocess.run([harness.find("tickwheeld"), "--restore", os.path.join(self.backups, max(left)), "--data-folder",
                        restored], check=True, capture_output=True)
        daemon = self.start(restored)
        self.assert_holds(daemon, {timer["id"]: timer["version"] for timer in made}, set())

    # proves: backup-planned
    def test_two_daemons_share_a_folder(self):
        """Both are due in the same seconds; each deletes its own only."""
        daemons = [self.start(os.path.join(self.room, name), "--backup-folder", self.backups, "--backup-cron", "* * * * * *",
                              "--backup-keep", "2") for name in ("one", "two")]
        harness.wait_until(lambda: all(daemon.output().count("event=backup_made") >= 5 for daemon in daemons), 60,
                           "five backups each")
        for daemon in daemons:
            self.assertEqual(daemon.signal(signal.SIGTERM), 0)
            self.assertNotIn("event=backup_failed", daemon.output())
        self.assertEqual(len(self.whole()), 4)

    # proves: backup-partial
    def test_a_kill_in_the_middle_leaves_whole_ones_only(self):
        """Killed as soon as a partial one is seen, again and again: each that has a name of a whole one is whole, and what
        is partial is gone at the next start."""
        seen = 0
        for _ in range(12):
            daemon = self.start(self.data, "--backup-folder", self.backups, "--backup-cron", "* * * * * *",
                                "--backup-keep", "3")
            daemon.call("POST", "/v1/timers/batch", "".join(
                json.dumps({"after": "2h", "target": TARGET, "payload": "x" * 400}) + "\n" for _ in range(2000)),
                {"Content-Type": "application/x-ndjson"})
            begun = re.compile(r"\.tmp$|^PARTIAL-")
            harness.happens(lambda: any(begun.search(name) for folder in (self.data, self.backups)
                                        if os.path.isdir(folder) for name in os.listdir(folder)), 5)
            daemon.signal(signal.SIGKILL)
            notes = [name for name in os.listdir(self.data) if begun.search(name)]
            seen += bool(notes)
            for name in self.whole() if os.path.isdir(self.backups) else ():
                code, text = check(os.path.join(self.backups, name))
                self.assertEqual(code, 0, text)
        self.assertGreater(seen, 0)
        self.start(self.data, "--backup-folder", self.backups)
        self.assertEqual([name for name in os.listdir(self.backups) if name.endswith(".tmp")], [])
        self.assertEqual([name for name in os.listdir(self.data) if begun.search(name)], [])

    # proves: backup-failed, backup-settings
    def test_a_planned_one_that_fails_is_reported(self):
        daemon = self.start(self.data, "--backup-folder", "/dev/null/backups", "--backup-cron", "* * * * * *")
        daemon.find_in_output(r'level=error event=backup_failed cause="[^"]*/dev/null')
        harness.wait_until(lambda: daemon.metric("tickwheel_backups_failed_total") >= 2, 20, "two failures")
        status, _, body = daemon.call("GET", "/readyz")
        self.assertEqual((status, body["status"]), (200, "ready"))
        self.assertIn("the last planned backup failed: ", body["detail"])
        done = subprocess.run([harness.find("tickwheel"), "doctor", "--url", f"http://127.0.0.1:{daemon.port}", "--data",
                               self.data], capture_output=True, text=True, check=False)
        self.assertRegex(done.stdout, r"(?m)^warn .*is ready, but .the last planned backup failed: ")
        for flags, why in ((("--backup-cron", "0 3 * * *"), "set backup_folder too"),
                           (("--backup-folder", "/x", "--backup-cron", "each day"), "backup_cron: "),
                           (("--backup-folder", "/x", "--backup-cron", "@daily", "--backup-timezone", "Mars/Sea"),
                            "backup_timezone: "),
                           (("--backup-keep", "0"), "backup_keep"), (("--backup-keep", "1001"), "backup_keep")):
            done = subprocess.run([harness.find("tickwheeld"), "--check-config", *flags], env={}, capture_output=True,
                                  text=True, check=False)
            self.assertEqual((done.returncode, why in done.stderr), (2, True), done.stderr)

    def test_check_of_a_folder_in_use_and_of_none(self):
        daemon = self.start(self.data)
        code, text = check(self.data)
        self.assertEqual(code, 2)
        self.assertIn("in use by another process", text)
        daemon.signal(signal.SIGTERM)
        self.assertEqual(check(self.data)[0], 0)
        empty = os.path.join(self.room, "empty")
        os.mkdir(empty)
        code, text = check(empty)
        self.assertEqual(code, 2)
        self.assertIn("no data folder", text)
        self.assertEqual(os.listdir(empty), [])
        self.assertEqual(check(os.path.join(self.room, "none"))[0], 2)


if __name__ == "__main__":
    print(f"TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
