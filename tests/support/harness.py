"""What tests and benchmarks of the real daemon share: start it, talk to it, end it.

Every server listens on a port that the system chooses and is ended by its process id.
"""

import atexit
import collections
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("TEST_BUILD", "build/dev")


def find(name):
    """The path of a program of this build; TEST_BUILD names the build folder."""
    for folder in ("bin", "tests/support", "tests/crash", "bench/service", "."):
        path = os.path.join(BUILD, folder, name)
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"{name} is not built under {BUILD}")


PATIENCE_S = 120  # A test that waits less for what must happen fails by chance on a busy machine.


def happens(condition, seconds):
    """The value of `condition()` once it is true, or its last one after `seconds`: for what need not happen."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return value


def wait_until(condition, seconds, what):
    """Waits for `condition()` to be true, PATIENCE_S at least, and returns its value; a test's only way to wait."""
    seconds = max(seconds, PATIENCE_S)
    value = happens(condition, seconds)
    if not value:
        raise TimeoutError(f"{what}: not within {seconds} s")
    return value


def in_time(make, ahead_ms=2000):
    """The answer of `make(due_ms)`, which ends before that time to come. On a machine that was too slow, `make` is called
    again with four times as long."""
    while True:
        due_ms = int(time.time() * 1000) + ahead_ms
        try:
            made, error = make(due_ms), None
        except AssertionError as failed:
            error = failed
        if time.time() * 1000 < due_ms:
            if error:
                raise error
            return made
        ahead_ms *= 4


# A test that is told to end unwinds, and what it has started ends with it.
signal.signal(signal.SIGTERM, signal.default_int_handler)
started = []
CRASHES = [-number for number in (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)]


@atexit.register
def end_all():
    for process in started:
        if process.poll() is None:
            process.kill()


class Program:
    """A child process whose output goes to a file; it is ended with the test. `enter` is called in it first."""

    def __init__(self, command, env=None, enter=None):
        self.log_path, self.sent = tempfile.mktemp(prefix="tickwheel-log-"), None
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env,
                preexec_fn=enter)
        started.append(self.process)

    def output(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def find_in_output(self, pattern, seconds=PATIENCE_S):
        def look():
            found = re.search(pattern, self.output())
            if not found and self.process.poll() is not None:
                raise RuntimeError(f"ended with {self.process.returncode}:\n{self.output()}")
            return found
        return wait_until(look, seconds, f"/{pattern}/ in the output")

    def find_port(self, pattern):
        """The port that the daemon reports. A daemon that does not start to listen is closed."""
        try:
            return int(self.find_in_output(pattern)[1])
        except Exception:
            self.close()
            raise

    def signal(self, number, seconds=PATIENCE_S):
        if self.process.poll() is None:
            self.sent = number
            self.process.send_signal(number)
        return self.process.wait(seconds)

    def close(self):
        """Shows the output of a program that crashed by itself, or in which a sanitizer found something."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if os.path.exists(self.log_path):
            crashed = self.process.returncode in CRASHES and self.process.returncode != -(self.sent or 0)
            if crashed or re.search("Sanitizer|runtime error: ", self.output()):
                print(f"{self.process.args[0]} ended with {self.process.returncode}:\n{self.output()}", file=sys.stderr)
            os.unlink(self.log_path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Daemon(Program):
    """tickwheeld on a free port, or on that of an earlier one, which the flags name; webhooks to loopback are allowed unless
    the flags say otherwise. `under` is a program that runs it, with that program's arguments."""

    def __init__(self, data_folder, *flags, allow="127.0.0.0/8", env=None, under=(), program="tickwheeld",
                 enter=None, address=None):
        super().__init__([
            *under, find(program), *(() if "--listen-port" in flags else ("--listen-port", "0")),
            "--data-folder", data_folder, "--webhook-allow", allow,
            *(("--listen-address", address) if address else ()), *flags], env, enter)
        self.address = address or "127.0.0.1"
        self.port = self.find_port(rf"listen={re.escape(self.address)}:(\d+)")

    def connect(self, timeout=PATIENCE_S):
        connection = http.client.HTTPConnection(self.address, self.port, timeout=timeout)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def call(self, method, path, body=None, headers=None, connection=None):
        """One request; answers (status, headers, JSON or text)."""
        own = connection is None
        connection = connection or self.connect()
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read()
        if own:
            connection.close()
        if "json" in response.getheader("Content-Type", "") and data and \
                "ndjson" not in response.getheader("Content-Type"):
            data = json.loads(data)
        else:
            data = data.decode()
        return response.status, response.headers, data

    def is_ready(self):
        return self.call("GET", "/readyz")[0] == 200

    def metric(self, name, headers=None):
        """The value of one line of /metrics, labels included in the name."""
        for line in self.call("GET", "/metrics", None, headers)[2].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise KeyError(name)

    def memory_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


Arrival = collections.namedtuple("Arrival", "at_us webhook_id due_ms attempt epoch path")


class Receiver(Program):
    """The target of webhooks (tests/support/receiver.c)."""

    def __init__(self, *flags, address="127.0.0.1"):
        self.record, self.address = tempfile.mktemp(prefix="tickwheel-received-"), address
        self.seen, self.read_bytes = [], 0  # of the record
        self.counted, self.counted_bytes = 0, 0
        super().__init__([find("receiver"), "--address", address, "--log", self.record, *flags])
        self.port = self.find_port(r"port (\d+)")

    def url(self, path="/ok"):
        return f"http://{self.address}:{self.port}{path}"

    def arrivals(self):
        if os.path.exists(self.record):
            with open(self.record, "rb") as file:
                file.seek(self.read_bytes)
                text = file.read()
            whole = text[:text.rfind(b"\n") + 1]
            self.read_bytes += len(whole)
            self.seen += [Arrival(int(a), b, int(c), int(d), int(e), f)
                          for a, b, c, d, e, f in (line.split(" ", 5) for line in whole.decode().splitlines())]
        return list(self.seen)

    def count(self):
        """How many have arrived. Reading them takes a part of a processor: not while one measures."""
        if os.path.exists(self.record):
            with open(self.record, "rb") as file:
                file.seek(self.counted_bytes)
                text = file.read()
            self.counted += text.count(b"\n")
            self.counted_bytes += len(text)
        return self.counted

    def close(self):
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        super().close()
        if os.path.exists(self.record):
            os.unlink(self.record)


def timer_id_of(webhook_id):
    """A webhook-id is the timer's id, a dash and its due time."""
    return webhook_id.rsplit("-", 1)[0]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


# ---- the book, for tests that follow it word by word ----

PAGES = os.path.join(os.path.dirname(__file__), "..", "..", "docs")
BACKUP = "20261120T235959Z"  # the backup of the page's examples


def commands_of(section, backup=BACKUP, page="operations.md"):
    """The commands that a page has at the beginning of a section, on the backup of that name."""
    with open(os.path.join(PAGES, page), encoding="utf-8") as file:
        text = file.read().split(f"\n## {section}\n")[1].split("\n## ")[0]
    block = re.search(r"(?:^|\n)\n((?:    [^\n]+\n)+)", text)[1]
    return [line[4:].replace(BACKUP, backup) for line in block.splitlines()]
