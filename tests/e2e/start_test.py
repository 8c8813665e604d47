#!/usr/bin/env python3
"""What a start notices of a data folder, refuses, and leaves as it was: six scenes, each with its goal and method."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase

FINE, TORN = 0, 3


class MissingLogTest(DaemonCase):
    """Goal: a killed daemon's folder without its log, as a backup's filter may leave it, does not start without a
    word. Method: timers, kill -9, files of the log removed, emptied or cut; then --check and a start must refuse
    and name them. With storage_damage = skip the daemon starts, and says what it did. So that two files of the log
    are needed, nothing is written as a run: the memory holds more than they do."""

    flags = ("--storage-memory-bytes", "512M")
    writes_runs = True

    def segments(self):
        return sorted(glob.glob(os.path.join(self.data, "log", "*.segment")))

    def kill(self):
        for _ in range(20):
            self.create()
        self.daemon.signal(signal.SIGKILL)
        return self.segments()[-1]

    def batch(self, count):
        line = json.dumps({"after": "10h", "target": self.receiver.url(), "payload": "x" * 1000}) + "\n"
        self.call(200, "POST", "/v1/timers/batch", line * count, {"Content-Type": "application/x-ndjson"})
        return count

    def kill_with_two_segments(self):
        """Both are needed; answers how many timers there are."""
        count = self.batch(1)
        while len(self.segments()) < 2:
            count += self.batch(1000)
        self.daemon.signal(signal.SIGKILL)
        self.assertEqual(glob.glob(os.path.join(self.data, "run-*")), [])
        return count

    def assert_refused(self, part):
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(part, done.stdout + done.stderr)
        with self.assertRaisesRegex(RuntimeError, part + ".*storage_damage = skip"):
            harness.Daemon(self.data, *self.flags)

    def assert_skipped(self, part):
        self.daemon = self.start("--storage-damage", "skip")
        self.daemon.find_in_output("event=storage_damaged found=.*" + part)
        self.restart()  # once is enough

    # proves: missing-log
    def test_log_missing(self):
        self.kill()
        shutil.rmtree(os.path.join(self.data, "log"))
        self.assert_refused("/log is missing")
        self.assert_skipped("/log is missing")

    # proves: missing-log
    def test_all_segments_missing(self):
        self.kill()
        for path in self.segments():
            os.unlink(path)
        self.assert_refused(".segment")
        self.assert_skipped(".segment")

    # proves: missing-log
    def test_last_segment_empty(self):
        last = self.kill()
        os.truncate(last, 0)
        self.assert_refused(os.path.basename(last))

    # proves: missing-log
    def test_first_segment_missing(self):
        self.kill_with_two_segments()
        first = self.segments()[0]
        os.unlink(first)
        self.assert_refused(os.path.basename(first))
        self.assert_skipped(os.path.basename(first))

    # proves: missing-log
    def test_last_segment_missing(self):
        self.kill_with_two_segments()
        last = self.segments()[-1]
        os.unlink(last)
        self.assert_refused(os.path.basename(last))

    # proves: missing-log
    def test_first_segment_cut(self):
        self.kill_with_two_segments()
        first = self.segments()[0]
        os.truncate(first, 4096)
        self.assert_refused(os.path.basename(first))

    def test_state_of_an_older_copy(self):
        """It does not know the runs that were made since, which a start removes: the log has what they had."""
        state = os.path.join(self.data, "STATE")
        shutil.copy(state, state + ".older")
        for _ in range(20):
            self.create()
        self.write_run()
        self.daemon.signal(signal.SIGKILL)
        self.assertNotEqual(glob.glob(os.path.join(self.data, "run-*")), [])
        os.rename(state + ".older", state)
        self.daemon = self.start()
        self.assertEqual(len(self.listed("limit=1000")), 20)

    def test_two_segments(self):
        """Nothing is missing: it starts, with every timer."""
        count = self.kill_with_two_segments()
        self.daemon = self.start()
        self.assertEqual(self.daemon.metric("tickwheel_timers_pending"), count)

    def test_killed_again_and_again(self):
        """A kill alone never leaves a folder that is refused."""
        for _ in range(8):
            self.kill()
            self.daemon = self.start()
        self.assertEqual(len(self.listed("limit=1000")), 160)


class OtherLogTest(DaemonCase):
    """Goal: a folder whose tables have nothing yet knows its own log, and how far it had come. Method: hundreds of
    timers, kill -9, and `log` exchanged for that of another folder, for an older copy, and for one from before the
    first timer; --check and a start must refuse, and with the right log no timer is missing."""

    def batch(self, daemon, count):
        line = json.dumps({"after": "10h", "target": self.receiver.url()}) + "\n"
        self.assertEqual(daemon.call("POST", "/v1/timers/batch", line * count,
                                     {"Content-Type": "application/x-ndjson"})[0], 200)

    def copy_log(self, name):
        # Of a daemon that runs: a spare segment that is being written has another name a moment later.
        shutil.copytree(os.path.join(self.data, "log"), os.path.join(self.room, name),
                        ignore=shutil.ignore_patterns("spare.new"))

    def put_log(self, name):
        shutil.rmtree(os.path.join(self.data, "log"))
        shutil.copytree(os.path.join(self.room, name), os.path.join(self.data, "log"))

    def assert_refused(self, part):
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, part)
        with self.assertRaisesRegex(RuntimeError, part + ".*restore a backup.*storage_damage = skip"):
            harness.Daemon(self.data)

    # proves: missing-log
    def test_exchanged(self):
        self.room = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.room)
        self.copy_log("first")
        self.batch(self.daemon, 200)
        self.copy_log("older")
        self.batch(self.daemon, 200)
        with harness.Daemon(os.path.join(self.room, "other")) as other:
            harness.wait_until(other.is_ready, 20, "ready")
            self.batch(other, 900)
            other.signal(signal.SIGKILL)
        self.daemon.signal(signal.SIGKILL)
        self.copy_log("right")
        for name, part in (("other/log", "log is the log of another data folder"),
                           ("older", "the log in .* ends before record"), ("first", "the log in .* ends before record")):
            self.put_log(name)
            self.assert_refused(part)
        self.put_log("right")
        self.daemon = self.start()
        self.assertEqual(len(self.listed("limit=1000")), 400)
        self.daemon.signal(signal.SIGKILL)
        self.put_log("older")
        self.assert_refused("the log in .* ends before record")
        self.daemon = self.start("--storage-damage", "skip")
        self.daemon.find_in_output("event=storage_damaged found=.*changes are lost")
        self.restart()  # once is enough


class OthersFolderTest(unittest.TestCase):
    """Goal: a folder that holds the files of others, or that a newer version made, is refused and stays as it is.
    Method: such folders, before and after a start and --check."""

    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)

    def look(self):
        return sorted((path, os.stat(path).st_mode, os.path.getsize(path)) for path in glob.glob(self.data + "/**", recursive=True))

    def assert_refused(self, cause):
        before = self.look()
        with self.assertRaisesRegex(RuntimeError, r"ended with 1:(.|\n)*" + cause):
            harness.Daemon(self.data)
        self.assertEqual(self.look(), before)

    def put(self, name, text):
        with open(os.path.join(self.data, name), "w", encoding="utf-8") as file:
            file.write(text)

    # proves: folder-of-others
    def test_a_home(self):
        os.chmod(self.data, 0o2775)
        self.put("letter.txt", "dear all")
        self.assert_refused("holds other files, such as letter.txt")
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True)
        self.assertEqual((done.returncode, "no data folder" in done.stderr), (2, True), done.stderr)

    # proves: newer-folder
    def test_made_by_a_newer_version(self):
        with harness.Daemon(self.data) as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            daemon.signal(signal.SIGTERM)
        self.put("FOLDER", "tickwheel folder\nformat 12\nsomething that is not known yet\n")
        self.put("CLOSED", "tickwheel closed 12\nnew/kind of/line\n")
        self.assert_refused(r"was made by a newer version: its format is 12, ours \d+")
        done = subprocess.run([harness.find("tickwheeld"), "--check", self.data], capture_output=True, text=True)
        self.assertEqual((done.returncode, "newer version" in done.stderr), (2, True), done.stderr)


class TornLogTest(DaemonCase):
    """Goal: --check tells a log that ends within a write from a whole one by its exit code, before a start and
    never after a clean stop. Method: a killed daemon's folder, as it is and with bytes behind the last frame of
    its log."""

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


class RefusedStartTest(DaemonCase):
    """Goal: a start that is refused takes nothing from the folder: above all not the mark of the clean stop, with
    which the next start notices what is missing. Method: a start with another number of partitions; after it each
    file that is missing is still noticed, and with all in place no timer is missing."""

    writes_runs = True

    def setUp(self):
        super().setUp()
        self.ids = {self.create()["id"] for _ in range(20)}
        self.write_run()
        self.daemon.signal(signal.SIGTERM)

    def refused(self, cause, *flags):
        done = subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", self.data, *flags],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(cause, done.stderr)

    def check_protected(self):
        """Each file that is missing is named, and with everything in place the timers are there."""
        for path in [os.path.join(self.data, "STATE")] + glob.glob(os.path.join(self.data, "run-*")):
            os.rename(path, path + ".away")
            self.refused(f"{os.path.basename(path)} is missing")
            os.rename(path + ".away", path)
        self.daemon = self.start()
        found = self.call(200, "GET", "/v1/timers?limit=1000")[1]["timers"]
        self.assertEqual({timer["id"] for timer in found}, self.ids)

    def test_another_number_of_partitions(self):
        self.refused("cannot be opened with 7", "--partitions", "7")
        self.check_protected()


class CutStateTest(DaemonCase):
    """Goal: a killed daemon's folder never starts empty because its list of runs was cut short: its log would be taken
    for one that no runs need. Method: the list is cut at each eighth byte of its first kilobyte."""

    def test_never_empty(self):
        timer = self.create()
        self.daemon.signal(signal.SIGKILL)
        kept = self.data + ".kept"
        shutil.copytree(self.data, kept)
        self.addCleanup(shutil.rmtree, kept)
        size, refused = os.path.getsize(os.path.join(kept, "STATE")), 0
        for cut in range(8, min(size, 1024), 8):
            shutil.rmtree(self.data)
            shutil.copytree(kept, self.data)
            os.truncate(os.path.join(self.data, "STATE"), cut)
            try:
                self.daemon = self.start()
            except RuntimeError:  # refused
                refused += 1
                continue
            self.assertEqual(self.state(timer), "scheduled", f"cut at {cut}")
            self.daemon.signal(signal.SIGKILL)
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    unittest.main()
