#!/usr/bin/env python3
"""Goal: the shell commands of docs/coming-from.md do what the page says. Method: they run as they stand there, in bash and
in an empty folder, against a real daemon and a real Redis; only addresses and /srv are others. The Python and TypeScript
of the page are run by the tests of these client libraries."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_servers
import command_line
import harness
import pages
from daemon_case import DaemonCase

PAGE = "coming-from.md"
HOUR_MS = 3_600_000


class ComingFrom(DaemonCase):
    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.data, "shell")
        self.programs = os.path.join(self.folder, "bin")
        os.makedirs(self.programs)
        self.write(".curlrc", "silent\nshow-error\nfail\n")  # an error of the server ends the commands
        self.url = f"http://127.0.0.1:{self.daemon.port}"

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_blocks(self, section, first=0):
        blocks = pages.blocks(PAGE, "sh", section)
        self.assertGreater(len(blocks), first)
        script = "set -euo pipefail\n" + "".join(blocks[first:])
        for name, here in (("http://127.0.0.1:8463", self.url), ("https://shop.example", self.receiver.url("")),
                           ("/srv/shop", self.folder)):
            script = script.replace(name, here)
        path = os.pathsep.join([self.programs, os.path.dirname(os.path.abspath(harness.find("tickwheel"))),
                                os.environ["PATH"]])
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              env={**command_line.environment(self.url, home=self.folder), "PATH": path}, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def timer(self, key):
        status, _, answer = self.daemon.call("GET", f"/v1/keys/{key}/timer")
        return answer if status == 200 else answer["timer"]

    def test_cron(self):
        self.write("report", "#!/bin/sh\necho the report was made\n")
        output = self.run_blocks("cron")
        self.assertIn("09:30:00 +0", output)  # the preview, in the time of the zone
        self.assertIn("the report was made", output)
        timer = self.timer("report")
        self.assertEqual((timer["state"], timer["schedule"]["timezone"]), ("scheduled", "Europe/Berlin"))
        self.assertEqual([run["outcome"] for run in timer["runs"]], ["done"])

    def test_qstash(self):
        self.run_blocks("QStash")
        self.assertEqual(self.timer("order-42")["state"], "cancelled")
        first = {key: self.timer(key) for key in ("order-43", "order-44")}
        self.assertEqual([timer["payload"] for timer in first.values()], [{"order": 43}, {"order": 44}])
        self.run_blocks("QStash", 1)
        self.assertEqual({key: self.timer(key) for key in first}, first)

    def test_a_jobs_table(self):
        self.run_blocks("A jobs table")
        self.assertEqual(self.timer("order-42")["state"], "cancelled")

    def test_a_sorted_set(self):
        missing = broker_servers.Redis.missing()
        if missing:
            self.skipTest(missing)
        redis = self.enterContext(broker_servers.Redis())
        self.write("bin/redis-cli", f'#!/bin/sh\nPATH=/usr/bin:/usr/local/bin exec redis-cli -p {redis.port} "$@"\n')
        now_ms = int(time.time() * 1000)
        due = {"order-1": now_ms + HOUR_MS // 2, "order-2": now_ms + 2 * HOUR_MS, "order-3": now_ms + 3 * HOUR_MS}
        for name, at_ms in due.items():
            redis.ask("ZADD", "due", str(at_ms), name)
        for _ in range(2):  # repeated, the move doubles nothing
            self.run_blocks("A Redis sorted set")
            self.assertEqual(redis.ask("ZRANGE", "due", "0", "-1"), [b"order-1"])
            timers = self.call(200, "GET", "/v1/timers")[1]["timers"]
            self.assertEqual([timer["key"] for timer in timers], ["order-2", "order-3"])
            self.assertEqual([timer["payload"] for timer in timers], ["order-2", "order-3"])


if __name__ == "__main__":
    unittest.main()
