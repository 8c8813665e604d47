#!/usr/bin/env python3
"""Goal: a daemon whose data folder is removed, emptied or replaced acknowledges nothing more, and says so. Method: each
of these is done under a running daemon; what it answers, logs and measures is compared with what it must. A folder that
was only moved is moved back, and everything goes on."""

import glob
import os
import re
import shutil
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase


class LostFolderTest(DaemonCase):
    def assert_lost(self):
        create = {"after": "1h", "target": self.receiver.url()}
        refused = lambda: self.daemon.call("POST", "/v1/timers", create)[0] == 503
        harness.wait_until(refused, 3, "refused")
        # The probe of the disk may fail after a create, and its cause is told then: so each look follows a create.
        harness.wait_until(lambda: refused() and "removed or replaced" in str(self.daemon.call("GET", "/readyz")), 3, "said")
        harness.wait_until(lambda: self.daemon.metric("tickwheel_storage_lost") == 1, 3, "counted")
        harness.wait_until(lambda: refused() and re.search(r"event=storage_failed cause=.*was removed or replaced",
                                                           self.daemon.output()), 3, "logged")

    def take_away(self):
        self.away = self.data + "-away"
        self.addCleanup(shutil.rmtree, self.away, ignore_errors=True)
        os.rename(self.data, self.away)

    # proves: lost-folder
    def test_removed(self):
        self.create()
        self.take_away()
        shutil.rmtree(self.away)
        self.assert_lost()
        os.mkdir(self.data)  # for the clean-up; another folder of that name is no data folder
        self.assertFalse(self.daemon.is_ready())

    # proves: lost-folder
    def test_emptied(self):
        for path in glob.glob(os.path.join(self.data, "*")):
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        self.assert_lost()

    # proves: lost-folder
    def test_idle(self):
        """Without a request, too: a balancer asks only /readyz."""
        self.take_away()
        harness.wait_until(lambda: not self.daemon.is_ready(), 3, "not ready")
        os.rename(self.away, self.data)
        harness.wait_until(self.daemon.is_ready, 20, "ready")

    # proves: lost-folder
    def test_replaced_and_back(self):
        timer = self.create()
        self.take_away()
        shutil.copytree(self.away, self.data)
        self.assert_lost()
        while os.path.exists(self.data):  # the daemon probes it meanwhile
            shutil.rmtree(self.data, ignore_errors=True)
        os.rename(self.away, self.data)
        harness.wait_until(self.daemon.is_ready, 20, "ready")
        later = self.create()
        self.restart()
        self.assertEqual([self.state(timer), self.state(later)], ["scheduled", "scheduled"])

    # proves: lost-folder
    def test_its_stop_leaves_a_new_folder_alone(self):
        """Another daemon's folder lies where its own was: what that one acknowledged is there after the first one has ended."""
        for _ in range(3):  # its chain is newer than that of the other
            self.restart()
        elsewhere = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, elsewhere)
        os.rename(self.data, os.path.join(elsewhere, "data"))
        with harness.Daemon(self.data) as other:
            harness.wait_until(other.is_ready, 20, "the other is ready")
            made = [other.call("POST", "/v1/timers", {"after": "1h", "target": "queue:a"})[2]["id"] for _ in range(20)]
            self.assert_lost()
            self.daemon.signal(signal.SIGTERM)
            other.signal(signal.SIGKILL)
        with harness.Daemon(self.data) as other:
            harness.wait_until(other.is_ready, 20, "the other is ready again")
            self.assertEqual([other.call("GET", f"/v1/timers/{timer}")[0] for timer in made], [200] * 20)


if __name__ == "__main__":
    unittest.main()
