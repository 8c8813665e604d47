#!/usr/bin/env python3
"""Goal: only the daemon's user can read what it writes, and its secrets. Method: a daemon with the umask that most
systems have, on a folder that is open to all, makes timers and a backup; then the modes of all files are looked at.
Another has secrets as flags; then its arguments are read, as any user may."""

import os
import shutil
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BROKERS = "orders=redis://:password@127.0.0.1:1/0"


def open_to_others(folder):
    paths = [folder] + [os.path.join(where, name) for where, folders, files in os.walk(folder)
                        for name in folders + files]
    return [path for path in paths if stat.S_IMODE(os.stat(path).st_mode) & 0o077]


class PrivateFilesTest(unittest.TestCase):
    def test_modes(self):
        room = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, room)
        data, backups = os.path.join(room, "data"), os.path.join(room, "backups")
        os.mkdir(data)
        os.chmod(data, 0o755)
        with harness.Daemon(data, "--backup-folder", backups, enter=lambda: os.umask(0o022)) as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            status, _, made = daemon.call("POST", "/v1/timers", {"after": "1h", "target": "http://127.0.0.1:1/x"})
            self.assertEqual(status, 201, made)
            self.assertEqual(daemon.call("POST", "/v1/admin/backup")[0], 201)
            self.assertGreater(len(os.listdir(data)), 3)
            self.assertEqual(open_to_others(data), [])
            self.assertEqual(open_to_others(backups), [])

    # proves: secret-arguments
    def test_arguments_hold_no_secret(self):
        room = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, room)
        for number, flags in enumerate((["--webhook-secret", SECRET], [f"--webhook-secret={SECRET}"],
                                        [f"--webhook_secret={SECRET}", "--broker-connections", BROKERS])):
            with self.subTest(flags=flags), harness.Daemon(os.path.join(room, str(number)), *flags) as daemon:
                harness.wait_until(daemon.is_ready, 20, "ready")
                with open(f"/proc/{daemon.process.pid}/cmdline", encoding="utf-8") as file:
                    shown = file.read()
                self.assertIn("secret", shown)
                self.assertNotIn("whsec", shown)
                self.assertNotIn("password", shown)
                self.assertIn("webhooks=signed", daemon.output())  # it was read before


if __name__ == "__main__":
    unittest.main()
