#!/usr/bin/env python3
"""Goal: each recipe of docs/recipes.md does what it says. Method: the commands run as they stand there, in bash and in an
empty folder, against a real daemon; only addresses and /srv are others. What they leave is compared with what the recipe
says."""

import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_servers
import command_line
import harness
import pages
from daemon_case import DaemonCase

PAGE = "recipes.md"
# A daemon that a recipe starts behind `&` is ready when the next command runs, and its pid is kept.
START = """tickwheeld {arguments} > daemon.log 2>&1 &
echo $! > daemon.pid
until grep -q event=ready daemon.log; do kill -0 $!; sleep 0.05; done
"""


class Recipes(DaemonCase):
    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.data, "shell")
        os.makedirs(self.folder)
        self.write(".curlrc", "silent\nshow-error\nfail\n")
        self.write("report", "#!/bin/sh\necho the report was made\n")
        self.url = f"http://127.0.0.1:{self.daemon.port}"
        self.addCleanup(self.end_daemon)

    def end_daemon(self):
        path = os.path.join(self.folder, "daemon.pid")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                os.kill(int(file.read()), signal.SIGKILL)
            os.unlink(path)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def follow(self, section):
        """What the commands of the section print."""
        blocks = pages.blocks(PAGE, "sh", section)
        self.assertEqual(len(blocks), 1)
        script = re.sub(r"(?m)^tickwheeld (.*) &$", lambda found: START.format(arguments=found[1]), blocks[0])
        for name, here in (("http://127.0.0.1:8463", self.url), ("8464", str(broker_servers.free_port())),
                           ("/srv/shop", self.folder)):
            script = script.replace(name, here)
        programs = {os.path.dirname(os.path.abspath(harness.find(name))) for name in ("tickwheel", "tickwheeld")}
        done = subprocess.run(["bash", "-c", "set -euo pipefail\n" + script], cwd=self.folder, capture_output=True,
                              text=True, timeout=harness.PATIENCE_S, check=False,
                              env={**command_line.environment(self.url, home=self.folder),
                                   "PATH": os.pathsep.join([*programs, os.environ["PATH"]])})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def timer(self, key):
        status, _, answer = self.daemon.call("GET", f"/v1/keys/{key}/timer")
        return answer if status == 200 else answer["timer"]

    def test_each_is_followed_here(self):
        with open(os.path.join(pages.DOCS, PAGE), encoding="utf-8") as file:
            titles = re.findall(r"(?m)^## (.+)$", file.read())
        with open(__file__, encoding="utf-8") as file:
            followed = re.findall(r'self\.follow\("(.+?)"\)', file.read())
        self.assertEqual(sorted(titles), sorted(followed))
        self.assertEqual(len(titles), 20)

    def test_remind(self):
        self.follow("Remind, unless it happens")
        self.assertEqual(self.timer("remind-42")["state"], "cancelled")

    def test_holidays(self):
        self.assertIn("the report was made", self.follow("Skip holidays"))
        timer = self.timer("report")
        self.assertEqual([run["outcome"] for run in timer["runs"]], ["done"])
        self.assertEqual(timer["schedule"]["except"], ["2026-12-25"])

    def test_long_work(self):
        self.assertIn("the report was made", self.follow("Work that takes long"))

    def test_session(self):
        self.follow("Extend a session")
        self.assertEqual(self.timer("session-42")["version"], 2)

    def test_repeated_request(self):
        output = self.follow("Repeat a request safely")
        self.assertEqual(len(set(re.findall(r"\b[0-9a-v]{26}\b", output))), 1, output)
        self.assertEqual(len(self.listed("target=queue:invoice")), 1)

    def test_window(self):
        self.follow("Start in a window, not at once")
        self.assertRegex(self.timer("shop-42")["schedule"]["spread"], r"^(\d+m)?(\d+s)?(\d+ms)?$")

    def test_no_late_run(self):
        self.follow("No late run after an outage")
        self.assertEqual(self.timer("prices")["schedule"]["late"]["drop_after"], "10m")

    def test_told_when_given_up(self):
        self.assertIn("http://127.0.0.1:1/gone", self.follow("Be told when it is given up"))

    def test_redrive(self):
        self.assertIn("queue:mail", self.follow("Redrive after a repair"))
        harness.wait_until(lambda: len(self.listed("target=queue:mail")) == 1, 20, "the letter is live again")

    def test_hold_a_target(self):
        self.follow("Hold a target during a deploy")
        self.assertNotIn("paused", str(self.call(200, "GET", "/v1/targets")[1]["targets"]))

    def test_stop_all(self):
        output = self.follow("Stop all deliveries")
        self.assertEqual(output.splitlines()[-2:], ["maintenance holds all deliveries back: the warehouse moves",
                                                    "no maintenance: deliveries go on"])

    def test_with_time(self):
        self.assertIn('{"user": 42}', self.follow("Test with time"))

    def test_preview(self):
        self.assertIn("2027-03-28", self.follow("See when a schedule fires"))

    def test_late(self):
        self.assertIn("fired", self.follow("Find why it was late"))

    def test_alarm(self):
        self.follow("Alarm when a schedule failed")

    def test_crontab(self):
        self.follow("Move a crontab")
        (timer,) = self.call(200, "GET", "/v1/timers?target=queue:cron")[1]["timers"]
        self.assertEqual((timer["schedule"]["cron"], timer["payload"]["command"]), ("0 2 * * *", "backup --all"))

    def test_migrate(self):
        self.create(after="2h", key="moves", target="queue:x")
        self.follow("Migrate to another daemon")
        log = self.read("daemon.log")
        port = re.search(r"listen=127\.0\.0\.1:(\d+)", log)[1]
        done = command_line.run("get", "--key", "moves", env=command_line.environment(f"http://127.0.0.1:{port}"))
        self.assertEqual(done.code, 0, done.err)

    def test_own_authority(self):
        self.follow("Use your own authority")
        self.assertIn("tls=on", self.read("daemon.log"))

    def test_token(self):
        self.follow("Give a team its token")
        self.assertIn("access=tokens", self.read("daemon.log"))
        self.assertEqual(os.stat(os.path.join(self.folder, "tokens")).st_mode & 0o077, 0)

    def test_backup(self):
        os.makedirs(os.path.join(self.folder, "backups", "20260101T000000Z"))  # an older one is no matter
        output = self.follow("Back up each night, and restore")
        self.assertIn(": restored from backups/2", output)


if __name__ == "__main__":
    unittest.main()
