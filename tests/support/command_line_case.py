"""Test cases of the command line: its exit codes, and runs of it beside a daemon."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(__file__))
import command_line
from daemon_case import DaemonCase

DONE, FAILED, USAGE, NOT_FOUND, CONFLICT, DENIED, UNAVAILABLE = range(7)
STOPPED = 130


class CommandLine(DaemonCase):
    def setUp(self):
        super().setUp()
        self.env = command_line.environment(f"http://127.0.0.1:{self.daemon.port}")

    def run_cli(self, *arguments, code=DONE, stdin=""):
        done = command_line.run(*arguments, env=self.env, stdin=stdin)
        self.assertEqual(done.code, code, f"{arguments}: {done}")
        self.assertFalse(re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.out + done.err), done)
        return done

    def ask(self, *arguments, code=DONE, stdin=""):
        """The documents that a run prints."""
        return [json.loads(line) for line in
                self.run_cli(*arguments, "--output", "json", code=code, stdin=stdin).out.splitlines()]

    def terminal(self, *arguments, **more):
        return command_line.Terminal(*arguments, env={**self.env, "TERM": "xterm", **more})
