#!/usr/bin/env python3
"""The N-th system call of each kind fails, and the N-th allocation, for N = 1, 2, ... until a whole life of the
real daemon passes: start, create, fire, cancel, change, backup, stop. Each time it either works nevertheless or
refuses and ends with a sentence; it never hangs, crashes or spins; and the next start, without faults, has all
acknowledged timers, fires none early and no cancelled one.

    TEST_SEED=N        which faults a short run takes
    TEST_ROUNDS=N      how many faults; "all": every one, which takes long
    TEST_FAULTS=a:B    only these, for example accept4:EMFILE,memory:once; read:EIO:+7 is one of them
"""

import datetime
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

SEED = int(os.environ.get("TEST_SEED") or random.randrange(1 << 32))
ROUNDS = os.environ.get("TEST_ROUNDS", "16")
ONLY = os.environ.get("TEST_FAULTS")
SKIPPED = 77
WAIT_S = harness.PATIENCE_S  # a bound that only a hang passes
NDJSON = {"Content-Type": "application/x-ndjson"}
FLAGS = ("--window", "1s", "--retain", "1h", "--drain", "1s", "--partitions", "2", "--shards", "1",
         "--webhook-allow", "127.0.0.0/8")

# What may go wrong with each call, by its manual page. Calls that cannot fail, or whose failure the C library hides,
# are not here; nor is brk, after which malloc of glibc 2.36 crashes by itself.
FAULTS = {
    "openat": ("EMFILE", "ENOSPC", "EIO"), "read": ("EIO", "EINTR"), "pread64": ("EIO",),
    "write": ("EIO", "ENOSPC", "EINTR"), "fsync": ("EIO",), "fdatasync": ("EIO",),
    "ftruncate": ("EIO",), "fallocate": ("ENOSPC",), "rename": ("EIO", "ENOSPC"), "mkdir": ("ENOSPC",),
    "unlink": ("EIO",), "link": ("EIO",), "getdents64": ("EIO",), "newfstatat": ("ENOMEM",), "statfs": ("EIO",),
    "fstatfs": ("EIO",), "fcntl": ("EMFILE",), "flock": ("EAGAIN",), "socket": ("EMFILE", "ENOBUFS"),
    "bind": ("EADDRINUSE",), "listen": ("EADDRINUSE",), "setsockopt": ("ENOBUFS",), "getsockname": ("ENOBUFS",),
    "accept4": ("EMFILE", "ECONNABORTED", "EINTR", "ENOMEM"), "connect": ("EAGAIN", "EINTR"),
    "sendto": ("EINTR", "ENOBUFS"), "sendmsg": ("ENOBUFS",), "recvfrom": ("EINTR", "ECONNRESET"), "epoll_create1": ("EMFILE",), "epoll_ctl": ("ENOMEM", "ENOSPC"),
    "epoll_wait": ("EINTR",), "poll": ("EINTR", "ENOMEM"), "ppoll": ("EINTR",), "eventfd2": ("EMFILE",),
    "signalfd4": ("EMFILE",), "socketpair": ("EMFILE",), "clone3": ("EAGAIN",),
    "mmap": ("ENOMEM",), "mprotect": ("ENOMEM",), "madvise": ("ENOMEM",),
    "getrandom": ("EINTR",), "prlimit64": ("EPERM",),
}
MEMORY = {"memory": ("once", "from-then-on")}

# A sentence of ours, of the loader's, or of a library's that ends the process.
SENTENCE = re.compile(r"_failed cause=|level=(error|warn)|^tickwheeld: |error while loading|cannot ", re.M)


class Broken(Exception):
    """A promise is."""


class Record:
    """The acknowledged timers of one life, and the path of each."""

    def __init__(self, path):
        self.path = path
        self.timers = {}  # id -> due in ms
        self.cancelled = {}  # id -> when that was acknowledged, in us
        self.maybe_cancelled = set()

    def created(self, answer):
        self.timers[answer["id"]] = ms_of(answer["due"])


def ms_of(text):
    """Milliseconds since 1970 of a time as the server writes it."""
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000 + 0.5)


def ask(daemon, method, path, body=None, headers=None):
    """(status, answer); status 0 when there was none. No answer within the bound is a hang."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=WAIT_S)
        headers = {"Connection": "close", **(headers or {})}
        status, _, answer = daemon.call(method, path, body, headers, connection)
        connection.close()
        return status, answer
    except TimeoutError as error:
        raise Broken(f"{method} {path}: no answer within {WAIT_S} s") from error
    except (OSError, http.client.HTTPException, ValueError):
        return 0, None


def insist(daemon, method, path, body=None, headers=None):
    """Repeats a refused request a few times: the fault is over, so it must succeed eventually."""
    for _ in range(50):
        status, answer = ask(daemon, method, path, body, headers)
        if 200 <= status < 300 or status in (404, 410) or daemon.process.poll() is not None:
            return status, answer
        if status not in (0, 500, 503):
            raise Broken(f"{method} {path}: {status} {answer}")
        time.sleep(0.02)  # as a client does
    raise Broken(f"{method} {path}: still {status} {answer}")


def live_without(daemon, receiver, record):
    """From some moment on there is no memory at all: each request is answered or hung up on, once."""
    ask(daemon, "GET", "/readyz")
    for after in ("0s", "1h", "1h"):
        status, answer = ask(daemon, "POST", "/v1/timers", {"after": after, "target": receiver.url(record.path)})
        if status == 201 and answer:
            record.created(answer)
    for timer in list(record.timers)[1:2]:
        record.maybe_cancelled.add(timer)
        if ask(daemon, "DELETE", f"/v1/timers/{timer}")[0] in (200, 204):
            record.cancelled[timer] = time.time_ns() // 1000
    ask(daemon, "GET", "/v1/timers")
    ask(daemon, "POST", "/v1/admin/backup")


def live(daemon, receiver, record, has_all):
    """One life, as far as the daemon lets us."""
    create = {"after": "1h", "target": receiver.url(record.path)}
    harness.wait_until(lambda: ask(daemon, "GET", "/readyz")[0] == 200 or daemon.process.poll() is not None,
                       WAIT_S, "ready")
    for after in ("0s", "100ms", "1h", "1h", "2s"):
        status, answer = insist(daemon, "POST", "/v1/timers", {**create, "after": after})
        if status == 201:
            record.created(answer)
    for timer in list(record.timers)[2:4]:
        record.maybe_cancelled.add(timer)
        if insist(daemon, "DELETE", f"/v1/timers/{timer}")[0] in (200, 204):
            record.cancelled[timer] = time.time_ns() // 1000
    for timer in list(record.timers)[4:]:
        status, answer = insist(daemon, "PATCH", f"/v1/timers/{timer}", {"after": "200ms"})
        if status == 200:
            record.timers[timer] = ms_of(answer["due"])
    insist(daemon, "GET", "/v1/timers?state=scheduled")
    if has_all and len(record.timers) == 5:
        ask_all(daemon, receiver, record)
    ask(daemon, "POST", "/v1/admin/backup")
    soon = list(record.timers)[:2]
    harness.wait_until(lambda: daemon.process.poll() is not None or set(soon) <= arrived(receiver, record),
                       WAIT_S, f"{len(soon)} firings")


def ask_all(daemon, receiver, record):
    """One request of each kind that allocates in our code; its results are not compared."""
    far = {"after": "1h", "target": receiver.url(record.path)}
    item = {"after": "0s", "target": "queue:jobs"}
    label = {"labels": {"a": "b"}}
    insist(daemon, "POST", "/v1/timers/batch", "".join(json.dumps(far) + "\n" for _ in range(3)), NDJSON)
    insist(daemon, "PUT", "/v1/keys/order/timer", {**far, **label, "watch": ["paid", "lost"]})
    insist(daemon, "PUT", "/v1/keys/cron/timer", {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin",
                                                  "target": far["target"], "headers": {"X-A": "b\u00fc"}})
    insist(daemon, "PATCH", "/v1/keys/order/timer", {"after": "2h", "payload": {"b": [1, "\u00e4"]}})
    insist(daemon, "POST", "/v1/keys/order/touch", {"after": "3h"})
    insist(daemon, "GET", "/v1/keys/order/timer")
    insist(daemon, "GET", "/v1/timers?label=a:b&limit=10")
    insist(daemon, "GET", "/v1/forecast")
    insist(daemon, "GET", "/v1/schedule/preview?cron=0%209%20*%20*%20*&timezone=Europe/Paris")
    insist(daemon, "GET", f"/v1/timers/{list(record.timers)[2]}/explain")
    insist(daemon, "POST", "/v1/watch/paid/complete", {})
    insist(daemon, "POST", "/v1/watch/complete", {"watch": ["lost", "found"]})
    insist(daemon, "POST", "/v1/timers/cancel", {"labels": {"a": "b"}})
    insist(daemon, "POST", "/v1/timers", item)
    leased = insist(daemon, "POST", "/v1/queues/jobs/lease", {"max": 10, "wait": "2s"})[1]
    receipts = [each["receipt"] for each in (leased or {}).get("items", [])]
    if receipts:
        insist(daemon, "POST", "/v1/queues/jobs/extend", {"receipts": receipts, "lease": "30s"})
        insist(daemon, "POST", "/v1/queues/jobs/ack", {"receipts": receipts})
    insist(daemon, "GET", "/v1/dead")
    insist(daemon, "POST", "/v1/dead/redrive", {"labels": {"a": "b"}})
    for path in ("/metrics", "/openapi.json", "/"):
        insist(daemon, "GET", path)


def arrived(receiver, record):
    return {harness.timer_id_of(arrival.webhook_id) for arrival in receiver.arrivals() if arrival.path == record.path}


def judge_end(output, code):
    if "Sanitizer" in output or "runtime error" in output:
        raise Broken("a sanitizer's report")
    if code >= 128 or code < 0:
        raise Broken(f"ended by a signal: {code}")
    if code and not SENTENCE.search(output):
        raise Broken(f"ended with {code} and without a sentence")


def compare(data, receiver, record):
    """The next start, without faults."""
    with harness.Daemon(data, *FLAGS) as daemon:
        harness.wait_until(daemon.is_ready, WAIT_S, "ready after the fault")
        for timer, due_ms in record.timers.items():
            status, answer = ask(daemon, "GET", f"/v1/timers/{timer}")
            if timer in record.cancelled:
                if status != 410 or answer["timer"]["state"] != "cancelled":
                    raise Broken(f"{timer} was cancelled and is {status} {answer}")
            elif status == 404:
                raise Broken(f"{timer} is lost")
            elif due_ms < time.time() * 1000 + 1000 and timer not in record.maybe_cancelled:
                harness.wait_until(lambda t=timer: t in arrived(receiver, record), WAIT_S, f"{timer} fires")
        code = daemon.signal(signal.SIGTERM)
        judge_end(daemon.output(), code)
    for arrival in receiver.arrivals():
        timer = harness.timer_id_of(arrival.webhook_id)
        if arrival.path != record.path or timer not in record.timers:
            continue
        if arrival.at_us < arrival.due_ms * 1000:
            raise Broken(f"{timer} fired early")
        if arrival.at_us > record.cancelled.get(timer, arrival.at_us):
            raise Broken(f"{timer} fired after its cancel")


class Sweep:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-nth-")
        self.receiver = harness.Receiver()
        self.round = self.injected = self.broken = self.refused_start = self.died = 0
        self.loader = {}
        self.output = ""

    def close(self):
        self.receiver.close()
        shutil.rmtree(self.folder)

    def command(self, kind, error, n):
        """(what runs it, program, environment)"""
        if kind == "memory":
            name = "SCARCE_AT" if error == "once" else "SCARCE_FROM"
            return (), "tickwheeld_scarce", {**os.environ, name: str(n)}
        return (harness.find("nth"), kind, error, str(n), "--"), "tickwheeld", None

    def first(self, kind):
        """The first N that is not the dynamic loader's."""
        if kind == "memory":
            return 1
        if kind not in self.loader:
            done = subprocess.run([harness.find("nth"), kind, "EIO", "1000000", "--", harness.find("tickwheeld"),
                                   "--version"], capture_output=True, text=True, check=False)
            if done.returncode == SKIPPED:
                print(f"skipped: {done.stderr}")
                sys.exit(SKIPPED)
            self.loader[kind] = int(re.search(r"was called (\d+) times", done.stderr)[1])
        return self.loader[kind] + 1

    def run(self, kind, error, n):
        """One life and the state it leaves. Returns whether N was reached."""
        self.round += 1
        record = Record(f"/life/{self.round}")
        data = os.path.join(self.folder, "data")
        copies = os.path.join(self.folder, "copies")
        output = ""
        if self.round % 200 == 0:
            self.receiver.close()
            self.receiver = harness.Receiver()
        os.mkdir(copies)
        try:
            self.live(record, data, copies, self.command(kind, error, n))
            output = self.output
            compare(data, self.receiver, record)
        except (Broken, TimeoutError, RuntimeError) as error_:
            self.broken += 1
            print(f"TEST_FAULTS={kind}:{error}:{n} broken: {error_}\n{self.output}", flush=True)
            return True
        finally:
            shutil.rmtree(copies)
            shutil.rmtree(data, ignore_errors=True)
        is_reached = " fails: " in output or "is refused" in output
        self.injected += is_reached
        return is_reached

    def live(self, record, data, copies, command):
        under, program, env = command
        self.output = ""
        try:
            daemon = harness.Daemon(data, *FLAGS, "--backup-folder", copies, env=env, under=under, program=program)
        except RuntimeError as error:  # it ended before it listened
            self.output = str(error)
            self.refused_start += 1
            code = int(re.search(r"ended with (-?\d+)", self.output)[1])
            if code == 0:
                raise Broken("it ended as if all were well") from error
            judge_end(self.output, code)
            return
        with daemon:
            try:
                if env and "SCARCE_FROM" in env:
                    live_without(daemon, self.receiver, record)
                else:
                    live(daemon, self.receiver, record, program != "tickwheeld")
                self.died += daemon.process.poll() is not None
                code = daemon.signal(signal.SIGTERM)
                judge_end(daemon.output(), code)
            except subprocess.TimeoutExpired as error:
                raise Broken("it does not stop") from error
            finally:
                self.output = daemon.output()

    def paces(self):
        """Without descriptors it retries with pauses; and when there are
        some again it accepts the waiting connections."""
        data = os.path.join(self.folder, "data")
        for count in (30, 10**9):
            under = (harness.find("nth"), "accept4", "EMFILE", "1", str(count), "--")
            with harness.Daemon(data, *FLAGS, under=under) as daemon:
                began = time.monotonic()
                if count == 30:
                    harness.wait_until(daemon.is_ready, WAIT_S, "ready")
                else:
                    with socket.create_connection(("127.0.0.1", daemon.port)):
                        time.sleep(1)  # time for its attempts
                daemon.signal(signal.SIGTERM)
                tried, took_s = int(re.search(r"was called (\d+) times", daemon.output())[1]), time.monotonic() - began
            if tried < 2 or (count > 30 and tried > 50 + 200 * took_s):
                print(f"accept4 failed and was tried {tried} times in {took_s:.1f} s")
                self.broken += 1
        shutil.rmtree(data)

    def all(self, kind, error):
        n = self.first(kind)
        began = n
        while self.run(kind, error, n):
            n += 1
        print(f"{kind} {error}: N = {began} to {n - 1}", flush=True)


def main():
    print(f"TEST_SEED={SEED} TEST_ROUNDS={ROUNDS}", flush=True)
    chance = random.Random(SEED)
    pairs = [(kind, error) for kind, errors in {**FAULTS, **MEMORY}.items() for error in errors]
    sweep = Sweep()
    try:
        sweep.first("accept4")  # or it is skipped
        if ONLY:
            for kind, error, *ns in (each.split(":") for each in ONLY.split(",")):
                for n in ns:  # +5: the fifth that is not the loader's
                    sweep.run(kind, error, sweep.first(kind) - 1 + int(n) if n[0] == "+" else int(n))
                if not ns:
                    sweep.all(kind, error)
        elif ROUNDS == "all":
            sweep.paces()
            for kind, error in pairs:
                sweep.all(kind, error)
        else:
            sweep.paces()
            for _ in range(int(ROUNDS)):
                kind, error = chance.choice(pairs)
                sweep.run(kind, error, sweep.first(kind) + int(chance.paretovariate(0.5)) - 1)
    finally:
        sweep.close()
    print(f"{sweep.round} lives, {sweep.injected} faults: {sweep.refused_start} starts refused, {sweep.died} ended "
          f"later, {sweep.broken} broken")
    print("0 passed, 1 failed" if sweep.broken else "1 passed, 0 failed")
    sys.exit(sweep.broken > 0)


if __name__ == "__main__":
    main()
