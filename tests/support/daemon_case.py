"""Test cases with daemons: one with a daemon of its own and a receiver beside it, and words for what most tests of the API
say; and one whose daemons know tenants by their tokens."""

import datetime
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import harness


def ms_of(text):
    """Milliseconds since 1970 of a time as the server writes it."""
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000 + 0.5)


class DaemonCase(unittest.TestCase):
    flags = ()  # of the daemon, for all tests of the class
    writes_runs = False  # whether a test calls write_run

    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.receiver = harness.Receiver()
        self.addCleanup(self.receiver.close)
        self.daemon = self.start()

    def start(self, *flags):
        if self.writes_runs:
            flags += ("--backup-folder", self.data + ".backups")
        daemon = harness.Daemon(self.data, *self.flags, *flags)
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    def write_run(self):
        """What is in memory goes into a file: a backup needs that."""
        self.call(201, "POST", "/v1/admin/backup")
        shutil.rmtree(self.data + ".backups")

    def restart(self, *flags):
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start(*flags)

    def call(self, expected, method, path, body=None, headers=None):
        status, fields, answer = self.daemon.call(method, path, body, headers)
        self.assertEqual(status, expected, f"{method} {path}: {answer}")
        return fields, answer

    def refused(self, pointer, **fields):
        problem = self.call(422, "POST", "/v1/timers", {"after": "1h", "target": self.receiver.url(), **fields})[1]
        self.assertEqual(problem["errors"][0]["pointer"], pointer, problem)

    def create(self, path="/ok", expected=201, **fields):
        fields.setdefault("target", self.receiver.url(path))
        if not {"after", "at", "every", "cron"} & set(fields):
            fields["after"] = "1h"
        return self.call(expected, "POST", "/v1/timers", fields)[1]

    def get(self, timer):
        return self.daemon.call("GET", f"/v1/timers/{timer['id']}")

    def state(self, timer):
        status, _, answer = self.get(timer)
        return answer["timer"]["state"] if status == 410 else answer.get("state", status)

    def await_state(self, timer, state):
        harness.wait_until(lambda: self.state(timer) == state, 20, f"{timer['id']} is {state}")
        status, _, answer = self.get(timer)
        return answer["timer"] if status == 410 else answer

    def wait_for_arrivals(self, timer, count=1):
        """At least `count` webhooks of it, once the receiver has recorded them."""
        harness.wait_until(lambda: len(self.arrivals_of(timer)) >= count, 20, f"{count} webhooks of {timer['id']}")
        return self.arrivals_of(timer)

    def arrivals_of(self, timer):
        return [each for each in self.receiver.arrivals() if harness.timer_id_of(each.webhook_id) == timer["id"]]

    def listed(self, query, path="/v1/timers"):
        """The ids of all pages."""
        found, where = [], f"{path}?{query}"
        while where:
            page = self.call(200, "GET", where)[1]
            found += [timer["id"] for timer in page["timers"]]
            where = page["next"] and f"{path}?{query}&cursor={page['next']}"
        return found


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

    def certificate(self, name, *key):
        """Makes NAME.pem and NAME.key of a host on loopback that is an authority of its own."""
        key = key or ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
        subprocess.run(["openssl", "req", "-x509", *key,
                        "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", self.path(name + ".key"), "-out", self.path(name + ".pem")],
                       check=True, capture_output=True)

    def reload(self, daemon, event="reloaded", what="tokens_file"):
        pattern = f"event={event} what={what}"
        before = daemon.output().count(pattern)
        daemon.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: daemon.output().count(pattern) > before, 20, pattern)
