"""A test case whose daemons know tenants by their tokens."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import harness


def make_token(tenant, scopes=None):
    """A new token and its line for the file, as an operator gets them."""
    done = subprocess.run([harness.find("tickwheeld"), "--make-token", tenant] + ([scopes] if scopes else []),
                          capture_output=True, text=True, check=True)
    token, line = done.stdout.splitlines()
    return token, line


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


class TokensCase(unittest.TestCase):
    """A folder for tokens, certificates and data; daemons that end with the test."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.lines, self.tokens = [], {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def token(self, name, tenant, scopes=None):
        self.tokens[name], line = make_token(tenant, scopes)
        self.lines.append(line)
        return self.tokens[name]

    def write_tokens(self, *limits):
        with open(self.path("tokens"), "w", encoding="utf-8") as file:
            file.write("\n".join(["# tenants of a test", *self.lines, *limits]) + "\n")

    def start(self, *flags, tokens=True):
        flags = [*flags, *(["--tokens-file", self.path("tokens")] if tokens else [])]
        daemon = harness.Daemon(self.path("data"), *flags)
        self.addCleanup(daemon.close)
        if "--tls-key" not in flags:
            harness.wait_until(daemon.is_ready, 30, "ready")
        return daemon

    def reload(self, daemon, event="reloaded", what="tokens_file"):
        pattern = f"event={event} what={what}"
        before = daemon.output().count(pattern)
        daemon.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: daemon.output().count(pattern) > before, 20, pattern)
