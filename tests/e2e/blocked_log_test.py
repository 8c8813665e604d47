#!/usr/bin/env python3
"""Nobody reads the standard output and the standard error of a daemon, and both are full: webhooks are delivered, a
revoked token is refused, a stop ends."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import TokensCase, bearer

PIPE_BYTES = 4096
TARGETS = 40


class Unread(harness.Daemon):
    """A daemon whose output is read up to its port, and no further."""

    def __init__(self, folder, *flags):
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.process = subprocess.Popen(
            [harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", folder, "--webhook-allow", "127.0.0.0/8",
             *flags], stdout=writer, stderr=writer)
        os.close(writer)
        text = b""
        while not (found := re.search(rb"listen=127.0.0.1:(\d+) ", text)):
            text += os.read(self.reader, PIPE_BYTES)
        self.address, self.port = "127.0.0.1", int(found.group(1))

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.reader)


class BlockedLog(TokensCase):
    # proves: log-never-waits, log-output
    def test_nothing_waits_for_the_log(self):
        self.token("stays", "-", "schedule,read,admin")
        revoked = self.token("goes", "b")
        self.write_tokens()
        receiver = harness.Receiver()
        self.addCleanup(receiver.close)
        daemon = Unread(self.path("data"), "--tokens-file", self.path("tokens"), "--target-breaker-failures", "1",
                        "--drain", "1s")
        self.addCleanup(daemon.close)
        headers = bearer(self.tokens["stays"])
        dead = [{"after": 0, "target": f"http://127.0.0.{n + 2}:9/"} for n in range(TARGETS)]
        lines = "\n".join(json.dumps(one) for one in [*dead, {"after": 0, "target": "log:x", "payload": "x" * 3000}] * 2)
        status, _, text = daemon.call("POST", "/v1/timers/batch", lines,
                                      {**headers, "Content-Type": "application/x-ndjson"})
        self.assertEqual(status, 200, text)
        harness.wait_until(lambda: daemon.metric("tickwheel_breakers_opened_total", headers) >= TARGETS, 20, "failures")
        status, _, text = daemon.call("POST", "/v1/timers", {"after": 0, "target": receiver.url()}, headers)
        self.assertEqual(status, 201, text)
        harness.wait_until(receiver.arrivals, 10, "a webhook")
        self.lines.pop()
        self.write_tokens()
        refused = lambda: daemon.call("GET", "/v1/timers", None, bearer(revoked))[0] == 401
        daemon.process.send_signal(signal.SIGHUP)
        harness.wait_until(refused, 10, "the revocation")
        daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.process.wait(harness.PATIENCE_S), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
