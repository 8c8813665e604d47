#!/usr/bin/env python3
"""Goal: docs/first-ten-minutes.md tells what is typed and what is printed. Method: the commands of its sections on curl and
the command line run in bash, one after the other, against a real daemon, and what they print is compared but for ids
and times. The programs of the page are run by the tests of the client libraries and of the installed library."""

import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import harness
import pages
from daemon_case import DaemonCase

PAGE = "first-ten-minutes.md"
MARK = "---- next ----"


class FirstTenMinutes(DaemonCase):
    flags = ("--banner",)

    def follow(self, section):
        session = pages.sessions(PAGE, section)
        self.assertGreater(len(session), 3)
        url = f"http://127.0.0.1:{self.daemon.port}"
        script = "".join(f"{command}\necho; echo '{MARK}'\n" for command, _ in session)
        path = os.path.dirname(os.path.abspath(harness.find("tickwheel"))) + os.pathsep + os.environ["PATH"]
        done = subprocess.run(["bash", "-c", script.replace("http://127.0.0.1:8463", url)], cwd=self.data, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=True,
                              env={**command_line.environment(url), "PATH": path})
        for (command, printed), was in zip(session, done.stdout.split(MARK)):
            with self.subTest(command):
                self.assertEqual(pages.stable(was), pages.stable(printed), was)

    def test_start(self):
        printed = pages.printed(PAGE, "Start", "make run").replace("127.0.0.1:8463", f"127.0.0.1:{self.daemon.port}")
        self.assertIn(pages.stable(printed.replace("./data", self.data)), pages.stable(self.daemon.output()))

    def test_curl(self):
        self.follow("curl")

    def test_command_line(self):
        self.follow("The command line")


if __name__ == "__main__":
    unittest.main()
