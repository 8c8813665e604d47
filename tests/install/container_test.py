#!/usr/bin/env python3
"""Goal: what the image of packaging/container holds is enough for the daemon and its command line, as its user.

Method: no container engine is needed. The image's folder is filled with the programs of this build, and they run in it by
chroot, with the environment and the user that the Containerfile names; so the build and the engine's part stay untested.
Every file that the Containerfile and the compose file name must exist. Skips the runs without root.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness

CONTAINER = os.path.join(ROOT, "packaging/container")
FILE = os.path.join(CONTAINER, "Containerfile")


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Files(unittest.TestCase):
    def test_every_file_that_is_named_exists(self):
        named = [os.path.join(CONTAINER, path) for path in
                 re.findall(r"^ *- (\.[^:]*):", text(os.path.join(CONTAINER, "compose.yml")), re.M)]
        named += [os.path.join(ROOT, path) for path in re.findall(r"\b(?:scripts|packaging)/[\w/.-]+", text(FILE))]
        self.assertGreater(len(named), 6)
        for path in named:
            self.assertTrue(os.path.isfile(path), path)


@unittest.skipIf(os.geteuid() != 0, "chroot takes root")
class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.chmod(cls.folder, 0o755)  # the user inside has to pass
        programs = os.path.dirname(harness.find("tickwheeld"))
        subprocess.run([os.path.join(CONTAINER, "root"), programs, cls.folder], check=True)
        cls.user = re.search(r"^USER (\d+:\d+)$", text(FILE), re.M)[1]
        settings = re.search(r"^ENV ((?:.*\\\n)*.*)$", text(FILE), re.M)[1].replace("\\\n", " ")
        cls.settings = dict(each.split("=", 1) for each in settings.split())
        cls.command = [shutil.which("chroot"), f"--userspec={cls.user}", cls.folder]
        state = os.path.join(cls.folder, "var/lib/tickwheel")
        os.chown(state, *map(int, cls.user.split(":")))  # as COPY --chown does

    def run_inside(self, *command):
        done = subprocess.run([*self.command, *command], env=self.settings, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_without_tokens_it_refuses_to_listen(self):
        done = subprocess.run([*self.command, "tickwheeld"], env=self.settings, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("tokens_file", done.stderr)

    def test_a_timer_and_the_health_check(self):
        settings = {**self.settings, "TICKWHEEL_LISTEN_PORT": "0", "TICKWHEEL_LISTEN_UNPROTECTED": "yes"}
        with harness.Program([*self.command, "tickwheeld"], settings) as daemon:
            port = daemon.find_port(r"listen=0\.0\.0\.0:(\d+)")
            daemon.find_in_output("event=ready")
            url = f"http://localhost:{port}"  # by name: the image resolves it
            check = json.loads(re.search(r"^HEALTHCHECK CMD (.*)$", text(FILE), re.M)[1])
            self.run_inside(*check, "--url", url)
            self.run_inside("tickwheel", "add", "--cron", "30 9 * * *", "--zone", "Europe/Berlin", "log:hello", "--url", url)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/timers", timeout=30) as answer:
                [timer] = json.load(answer)["timers"]
            self.assertEqual(timer["target"], "log:hello")
            with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as status:
                self.assertIn(f"\nUid:\t{self.user.split(':', maxsplit=1)[0]}\t", status.read())
            self.assertEqual(daemon.signal(15), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
