#!/usr/bin/env python3
"""Goal: while the disk is full, and after a start on a full disk, timers are read, cancelled, fired and delivered, and only
creates are refused; the cause is in the log, in /readyz and in the answer. Method: a data folder on a file system of 64 MiB
in memory, which a file of another program fills to the last block."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase

INSIDE = "TEST_IN_MOUNTS"
BLOCK = bytes(1 << 16)


class FullDiskTest(DaemonCase):
    flags = ("--disk-reserve-bytes", "0")

    def setUp(self):
        disk = tempfile.mkdtemp(prefix="tickwheel-disk-")
        self.addCleanup(os.rmdir, disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=True)
        self.receiver = harness.Receiver()
        self.addCleanup(self.receiver.close)
        self.data, self.filler = f"{disk}/data", f"{disk}/filler"
        self.daemon = self.start()
        lines = [f'{{"after":"1h","target":"{self.receiver.url("/ok")}","payload":"{os.urandom(300).hex()}"}}'
                 for _ in range(2000)]
        answer = self.call(200, "POST", "/v1/timers/batch", "\n".join(lines),
                           {"Content-Type": "application/x-ndjson"})[1]
        self.timers = [{"id": line.split('"id":"')[1].split('"')[0]} for line in answer.splitlines()]

    def fill(self):
        with open(self.filler, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(BLOCK)
            except OSError:
                pass

    def assert_existing_timers_go_on(self, timers):
        for timer in timers[:30]:
            self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        self.call(200, "POST", f"/v1/timers/{timers[30]['id']}/fire")
        self.await_state(timers[30], "fired")
        self.assertEqual(len(self.wait_for_arrivals(timers[30])), 1)
        self.call(200, "GET", f"/v1/timers/{timers[31]['id']}")

    def assert_creates_are_refused(self):
        harness.wait_until(lambda: "the disk is nearly full" in str(self.daemon.call("GET", "/readyz")[2]), 10, "said")
        self.daemon.find_in_output(r'event=unready reason="the disk is nearly full: \d+ MiB free, creates need \d+ MiB"')
        problem = self.call(503, "POST", "/v1/timers", {"after": "1h", "target": self.receiver.url("/ok")})[1]
        self.assertEqual(problem["type"], "/problems/disk-full")

    # proves: disk-full
    # proves: disk_reserve_bytes
    def test_filled_while_it_runs(self):
        self.fill()
        self.assert_existing_timers_go_on(self.timers)
        self.assert_creates_are_refused()
        os.unlink(self.filler)
        harness.wait_until(self.daemon.is_ready, 10, "ready")
        self.create()

    # proves: disk-full
    def test_started_when_it_is_full(self):
        for end in (signal.SIGTERM, signal.SIGKILL):
            self.fill()
            self.daemon.signal(end)
            self.fill()
            self.daemon = harness.Daemon(self.data, *self.flags)
            self.addCleanup(self.daemon.close)
            self.assert_creates_are_refused()
            self.assert_existing_timers_go_on(self.timers)
            os.unlink(self.filler)
            harness.wait_until(self.daemon.is_ready, 10, "ready")
            harness.wait_until(lambda: os.path.exists(f"{self.data}/RESERVE"), 10, "ballast")
            self.timers = self.timers[40:]


if __name__ == "__main__":
    if os.getuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        print("skipped: mounts need root")
        sys.exit(77)
    if not os.environ.get(INSIDE):
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, *sys.argv], {**os.environ, INSIDE: "yes"})
    unittest.main()
