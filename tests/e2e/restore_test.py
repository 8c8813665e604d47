#!/usr/bin/env python3
"""A restore brings the timers back, in one step, and a data folder in the wrong place is noticed. The commands of
docs/operations.md are run as they stand there, on paths below a temporary folder and with a systemctl of the test's
own, which starts what packaging/tickwheeld.service says."""

import os
import random
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
TARGET = "queue:jobs"
MARK = "RESTORING"


class Room(unittest.TestCase):
    """A folder for data folders and backups; daemons that end with the test."""

    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="tickwheel-restore-")
        self.addCleanup(shutil.rmtree, self.room)
        self.daemons = []

    def path(self, *names):
        return os.path.join(self.room, *names)

    def start(self, folder, *flags):
        daemon = harness.Daemon(folder, *flags)
        self.daemons.append(daemon)
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 30, "ready")
        return daemon

    def refused(self, folder):
        """What a daemon says that does not start."""
        done = subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", folder],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("event=start_failed", done.stderr)
        return done.stderr

    def restore(self, backup, folder, *under):
        done = subprocess.run([*under, harness.find("tickwheeld"), "--restore", backup, "--data-folder", folder],
                              capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr

    def make_backup(self, count=20):
        """A backup, and the ids of its timers."""
        daemon = self.start(self.path("first"), "--backup-folder", self.path("backups"))
        ids = {self.create(daemon, f"k{n}") for n in range(count)}
        status, _, body = daemon.call("POST", "/v1/admin/backup")
        self.assertEqual(status, 201, body)
        daemon.signal(signal.SIGTERM)
        return body["folder"], ids

    def create(self, daemon, key):
        status, _, timer = daemon.call("POST", "/v1/timers", {"after": "1d", "target": TARGET, "key": key})
        self.assertEqual(status, 201, timer)
        return timer["id"]

    def ids(self, daemon):
        return {timer["id"] for timer in daemon.call("GET", "/v1/timers?limit=1000")[2]["timers"]}


class RestoreTest(Room):
    # proves: restore
    def test_restored(self):
        backup, ids = self.make_backup()
        before = sorted(os.listdir(backup))
        os.chmod(os.path.join(backup, "STATE"), 0o644)
        for data in (self.path("data"), self.path("made"), self.path("deep", "er", "data") + "/"):
            if "made" in data:
                os.mkdir(data, 0o755)
            code, text = self.restore(backup, data)
            self.assertEqual(code, 0, text)
            self.assertIn("20 live", text)
            self.assertEqual(sorted(os.listdir(data)), before)
            self.assertEqual(stat.S_IMODE(os.stat(data).st_mode), 0o700)
            for name in os.listdir(data):
                self.assertEqual(stat.S_IMODE(os.stat(os.path.join(data, name)).st_mode), 0o600)
            daemon = self.start(data)
            self.assertEqual(self.ids(daemon), ids)
            code, text = self.restore(backup, data)
            self.assertEqual(code, 2)
            self.assertIn("is not empty", text)
            self.assertEqual(self.ids(daemon), ids)
            daemon.signal(signal.SIGTERM)
        self.assertEqual(sorted(os.listdir(backup)), before)

    # proves: restore
    def test_the_owner_is_that_of_the_folder_above(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give files away")
        backup, _ = self.make_backup()
        os.mkdir(self.path("state"))
        os.chown(self.path("state"), 61234, 61235)
        code, text = self.restore(backup, self.path("state", "data"))
        self.assertEqual(code, 0, text)
        for path in (self.path("state", "data"), self.path("state", "data", "STATE")):
            self.assertEqual((os.stat(path).st_uid, os.stat(path).st_gid), (61234, 61235))

    # proves: restore
    def test_what_cannot_be_restored(self):
        backup, _ = self.make_backup()
        for wrong in (self.path("nothing"), self.path("backups"), self.room):
            code, text = self.restore(wrong, self.path("data"))
            self.assertEqual(code, 2, text)
            self.assertFalse(os.path.exists(self.path("data", "STATE")))
        table = next(name for name in sorted(os.listdir(backup)) if name.startswith("run-"))
        with open(os.path.join(backup, table), "r+b") as file:
            file.seek(20)
            byte = file.read(1)[0]
            file.seek(20)
            file.write(bytes([byte ^ 0x55]))
        code, text = self.restore(backup, self.path("data"))
        self.assertEqual(code, 1, text)
        self.assertIn("a restore into it did not end", self.refused(self.path("data")))

    # proves: restore
    def test_a_restore_that_fails_or_is_killed_starts_nothing(self):
        """Fails each write and sync of a file in turn; nothing is tidied up then, so that a kill leaves no other."""
        backup, ids = self.make_backup()
        data = self.path("data")
        for call, error in (("write", "ENOSPC"), ("fsync", "EIO")):
            for n in range(1, 100):
                code, text = self.restore(backup, data, harness.find("nth"), call, error, str(n), "--")
                if code == 77:
                    self.skipTest("the kernel has no seccomp notification")
                if n > int(re.search(r"was called (\d+) times", text)[1]):
                    break
                if os.path.exists(os.path.join(data, MARK)):
                    self.assertIn("a restore into it did not end", self.refused(data))
                elif os.path.exists(os.path.join(data, "STATE")):
                    # The sync of the mark's removal failed, or a write that matters to nothing: a sanitizer's own.
                    self.assertEqual(self.ids(self.start(data)), ids)
                    self.daemons[-1].signal(signal.SIGTERM)
                    shutil.rmtree(data)
            self.assertGreater(n, 3, text)
            shutil.rmtree(data)
        chance = random.Random(SEED)
        for _ in range(20):
            with subprocess.Popen([harness.find("tickwheeld"), "--restore", backup, "--data-folder", data],
                                  stdout=subprocess.DEVNULL) as process:
                try:
                    process.wait(chance.random() / 20)
                except subprocess.TimeoutExpired:
                    process.kill()
            if os.path.exists(os.path.join(data, MARK)):
                self.assertIn("a restore into it did not end", self.refused(data))
            elif process.returncode == 0:
                shutil.rmtree(data)
        if not os.path.exists(os.path.join(data, "STATE")) or os.path.exists(os.path.join(data, MARK)):
            self.assertEqual(self.restore(backup, data)[0], 0)
        self.assertEqual(self.ids(self.start(data)), ids)

    # proves: restore-named
    def test_a_folder_that_is_not_named(self):
        backup, _ = self.make_backup(1)
        done = subprocess.run([harness.find("tickwheeld"), "--restore", backup], capture_output=True, text=True,
                              cwd=self.path(), check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--data-folder", done.stderr)
        self.assertFalse(os.path.exists(self.path("data", "STATE")))

    # proves: data-folder-elsewhere
    def test_a_folder_that_cannot_be_read(self):
        """It is not empty, whatever lies beside it."""
        if os.getuid():
            self.skipTest("another user is needed")
        backup, _ = self.make_backup(1)
        shutil.copytree(backup, self.path("state", "data"))
        shutil.copytree(backup, self.path("state", "data.old"))
        for folder in (self.path(), self.path("state")):
            os.chmod(folder, 0o755)
        os.chmod(self.path("state", "data"), 0o700)
        done = subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", self.path("state", "data")],
                              capture_output=True, text=True, timeout=60, check=False, user=65534)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this user may not look into", done.stderr)

    # proves: data-folder-elsewhere
    def test_a_store_in_another_place(self):
        backup, _ = self.make_backup(1)
        for store, data in (("state", "state/data"), ("state/data.old", "state/data"), ("state/data/data", "state/data"),
                               ("state", "state/data/")):
            shutil.copytree(backup, self.path(*store.split("/")))
            self.assertIn("there is a store in " + self.path(store), self.refused(self.path(data)))
            self.assertFalse(os.path.exists(self.path("state", "data", "STATE")))
            shutil.rmtree(self.path("state"))
        shutil.copytree(backup, self.path("state", "other"))
        self.start(self.path("state", "data")).signal(signal.SIGTERM)
        shutil.copytree(backup, self.path("state", "data.old"))
        self.start(self.path("state", "data"))


class BookTest(Room):
    """The unit without systemd."""

    def setUp(self):
        super().setUp()
        self.daemon = None
        self.state = self.path("var", "lib", "tickwheel")
        os.makedirs(self.state, 0o700)
        os.makedirs(self.path("etc", "default"))
        with open(os.path.join(ROOT, "packaging", "tickwheeld.service"), encoding="utf-8") as file:
            self.unit = file.read().replace("%S", self.path("var", "lib"))

    def environment(self):
        found = dict(re.findall(r"^Environment=(\w+)=(.*)$", self.unit, re.M))
        if os.path.exists(self.path("etc", "default", "tickwheeld")):
            with open(self.path("etc", "default", "tickwheeld"), encoding="utf-8") as file:
                found.update(line.strip().split("=", 1) for line in file)
        return {**found, "TICKWHEEL_LISTEN_PORT": "0"}

    def systemctl(self, verb, _unit=None):
        if verb in ("stop", "restart"):
            self.daemon.signal(signal.SIGTERM)
            self.daemon.close()
        if verb in ("start", "restart"):
            folder = re.search(r"^WorkingDirectory=(.*)$", self.unit, re.M)[1]
            daemon = self.daemon = harness.Program(["env", "-C", folder, os.path.abspath(harness.find("tickwheeld"))],
                                                   self.environment())
            self.addCleanup(daemon.close)
            daemon.address, daemon.port = "127.0.0.1", daemon.find_port(r"listen=127\.0\.0\.1:(\d+)")
            daemon.call = lambda *request: harness.Daemon.call(daemon, *request)
            daemon.connect = lambda: harness.Daemon.connect(daemon)
            harness.wait_until(lambda: daemon.call("GET", "/readyz")[0] == 200, 30, "ready")

    def run_book(self, section, *backup):
        """Runs the commands of a section. The output of the last one."""
        output = None
        for command in harness.commands_of(section, *backup):
            command = re.sub(r"/(var/lib|etc)/", lambda found: self.path(found[1]) + "/", command)
            if command.startswith("systemctl "):
                self.systemctl(*command.split()[1:])
                continue
            command = command.replace("localhost:8463", f"localhost:{self.daemon.port}")
            command = re.sub("^tickwheeld ", os.path.abspath(harness.find("tickwheeld")) + " ", command)
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
            output = done.stdout
        return output

    # proves: restore
    def test_the_book(self):
        self.systemctl("start")
        self.assertTrue(os.path.exists(os.path.join(self.state, "data", "STATE")))
        ids = {self.create(self.daemon, f"k{n}") for n in range(20)}
        backup = re.search(r'"name":"(\w+)"', self.run_book("Backup"))[1]
        self.create(self.daemon, "later")
        self.run_book("Restore", backup)
        self.assertEqual(self.ids(self.daemon), ids)
        self.assertEqual(sorted(os.listdir(self.state)), ["backups", "data", "data.old"])


if __name__ == "__main__":
    print(f"TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
