#!/usr/bin/env python3
"""Goal: `export | import` brings every live timer to another daemon as it is. Method: timers in every state that one can
have, on a real daemon; what a second one shows after the import, also over a kill -9, and which firings are due there."""

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import daemon_case
import harness
from daemon_case import ms_of

HOUR = {"max_attempts": 5, "base": "1h", "cap": "1h"}
DUE = 6  # of `fill`, for workers
NDJSON = {"Content-Type": "application/x-ndjson"}


class TransferTest(daemon_case.DaemonCase):
    def cli(self, daemon, *arguments, stdin=""):
        done = command_line.run(*arguments, env=command_line.environment(f"http://127.0.0.1:{daemon.port}"), stdin=stdin)
        self.assertEqual(done.code, 0, done.err)
        return done.out

    def second(self):
        """Another daemon, with a folder of its own."""
        folder = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, folder)
        return self.other(folder)

    def other(self, folder):
        daemon = harness.Daemon(folder)
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        return folder, daemon

    def made(self, key, path="/ok", **fields):
        """Without a key in the request when the name begins with a dash."""
        if not key.startswith("-"):
            fields["key"] = key
        return self.create(path, **fields)

    def fired(self, key, **fields):
        timer = self.made(key, **fields)
        self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")
        return timer

    # proves: import-restore
    def test_an_import_whose_batch_is_ended(self):
        """A client that does not read holds the memory for answers, so the daemon ends a batch early; what it has not read is
        sent again."""
        self.restart("--answers-bytes-max", "1M")
        for _ in range(20):
            self.create(payload="x" * 200000)
        lines = "".join(json.dumps({"key": f"k{number}", "after": "1h", "target": "queue:a"}) + "\n" for number in range(500))
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", self.daemon.port))
        slow.sendall(b"GET /v1/timers HTTP/1.1\r\nHost: localhost\r\n\r\n")
        harness.wait_until(lambda: slow.recv(1, socket.MSG_PEEK), 20, "an answer has begun")
        leaves = threading.Timer(2, slow.close)
        leaves.start()
        self.addCleanup(leaves.join)
        self.assertIn("created 500, existed 0, failed 0", self.cli(self.daemon, "import", "-", stdin=lines))
        self.assertEqual(len(self.call(200, "GET", "/v1/timers?key_prefix=k&limit=1000")[1]["timers"]), 500)

    def fill(self):
        daily = {"every": "1d", "at": "2026-01-01T03:00:00Z"}
        nightly = {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}
        queue = {"target": "queue:jobs"}

        def make(until):
            self.daemon.call("DELETE", "/v1/keys/last/timer")  # of an attempt that took too long
            return self.made("last", cron="* * * * * *", until=until, **queue)
        last = harness.in_time(make)
        failed = [self.made(key, "/status/500", retry=HOUR, **when)
                  for key, when in (("retried", {"after": 0}), ("-retried", {"at": 10**12}))]
        failed += [self.fired("retried-daily", target=self.receiver.url("/status/500"), retry=HOUR, **daily)]
        for number, when in enumerate((daily, {**nightly, "spread": {"window": "1h"}}, {"every": "3h", "count": 3},
                                       {"after": 0}, {**nightly, "late": {"drop_after": "2h", "missed": "each"}})):
            self.fired(f"due-{number}", payload=number, **queue, **when)
        self.made("-plain", body_base64="AAEC/w==", content_type="a/b", headers={"X-A": "1"}, labels={"urn:team": "a,b"})
        self.made("full", watch=["e", "f"], on_dead={"target": "queue:dead"}, on_success={"target": "queue:done"},
                  every="10m", until="2099-01-01T00:00:00Z", payload={"n": 12345678901234567890})
        done = self.fired("done", **daily)  # fired once by hand: the phase stays
        harness.wait_until(lambda: self.get(done)[2].get("runs"), 20, "a run")
        moved = self.made("moved", **nightly)
        self.call(200, "PATCH", f"/v1/timers/{moved['id']}", {"at": int(time.time() * 1000) + 7200000})
        for key, pause in (("paused", {"note": "n\u00f6"}), ("paused-until", {"until": int(time.time() * 1000) + 10**8})):
            self.call(200, "POST", f"/v1/timers/{self.made(key, **nightly)['id']}/pause", pause)
        held = self.fired("paused-due", target="queue:jobs", **daily)
        self.call(200, "POST", f"/v1/timers/{held['id']}/pause", {})
        touched = self.made("touched", after="1h")
        self.call(200, "POST", f"/v1/timers/{touched['id']}/touch", {"after": "5h"})
        for timer in failed:
            self.await_state(timer, "retrying")
        harness.wait_until(lambda: ms_of(last["due"]) + 2500 < time.time() * 1000, 10, "the last instant is over")

    def shown(self, daemon):
        """All live timers, without their ids; those without a key by their place."""
        timers = daemon.call("GET", "/v1/timers?limit=1000")[2]["timers"]
        return sorted((timer.get("key", timer["target"]), {**timer, "id": None}) for timer in timers)

    def leased(self, daemon, count):
        """So many items, and no more; a start has them ready one partition after the other."""
        items = []
        while len(items) < count:
            items += daemon.call("POST", "/v1/queues/jobs/lease", {"max": 100, "wait": "20s"})[2]["items"]
        self.assertEqual(daemon.call("POST", "/v1/queues/jobs/lease", {"max": 100})[2]["items"], [])
        return sorted((str(item.get("payload")), item["due"], item["attempt"]) for item in items)

    # proves: import-restore
    def test_every_live_timer_comes_back_as_it_is(self):
        self.fill()
        before = self.shown(self.daemon)
        self.assertEqual(len(before), 17)
        lines = self.cli(self.daemon, "export")
        folder, new = self.second()
        self.assertEqual(self.cli(new, "import", "-", stdin=lines), "created 17, existed 0, failed 0\n")
        again = self.cli(new, "import", "-", stdin=lines)
        new.signal(signal.SIGKILL)
        new = self.other(folder)[1]
        after = dict(self.shown(new))
        for key, timer in before:
            self.assertEqual(after[key], timer, key)
        self.assertEqual(again, "created 0, existed 17, failed 0\n")
        self.assertEqual(self.leased(new, DUE), self.leased(self.daemon, DUE))

    def restore(self, line, query="?restore=true"):
        return json.loads(self.call(200, "POST", f"/v1/timers/batch{query}", json.dumps(line), NDJSON)[1])

    # proves: import-restore
    def test_wrong_timers_are_refused(self):
        right = {"id": self.create()["id"], "due": "2031-01-01T00:00:00.000Z", "state": "scheduled", "version": 3,
                 "attempts": 0, "created": "2026-01-01T00:00:00.000Z", "target": "queue:a"}
        for wrong in ({"state": "fired"}, {"state": "dead"}, {"version": 0}, {"attempts": 256}, {"after": "1h"},
                      {"every": "1h"}, {"schedule": {"every": "1ms"}}, {"schedule": {"every": "1h", "x": 1}},
                      {"schedule": {"cron": "* * * *", "timezone": "UTC", "dst": "shift"}}, {"schedule": "x"},
                      {"paused": {"since": "2026-01-01T00:00:00.000Z"}}, {"state": "paused"}, {"id": "x"}, {"due": None},
                      {"runs": [{"outcome": "x"}] * 2}, {"id": None}, {"target": "queue:.."},
                      {"next_attempt": "2031-01-01T00:00:00.000Z"}, {"state": "retrying", "next_attempt": "x"},
                      {"ended": "2026-01-01T00:00:00.000Z"}, {"report_of": "x"}, {"paused": {"note": "n" * 257}}):
            line = {name: value for name, value in {**right, **wrong}.items() if value is not None}
            answer = self.restore(line)
            self.assertEqual((answer["type"], answer["status"]), ("/problems/invalid", 422), line)
        for key in (None, "k"):
            line = {**right, **({"key": key} if key else {})}
            first, second = (self.restore(line) for _ in range(2))
            self.assertEqual(second, {"id": first["id"], "existed": True})
            self.assertEqual(self.get(first)[2]["version"], 3)
        self.assertEqual(self.restore(line, "")["status"], 422)
        at = "2026-01-01T00:00:00.000Z"
        whole = {"planned": at, "until": at, "count": 1, "attempts": 0, "outcome": "skipped"}
        for lacks in (("planned",), ("until",), ("count",), ("until", "count"), tuple(whole), ()):
            run = {name: value for name, value in whole.items() if name not in lacks}
            answer = self.restore({**right, "key": "skipped", "schedule": {"every": "1h"}, "runs": [run]})
            self.assertEqual(answer.get("status"), 422 if lacks else None, answer)
        self.assertEqual(self.get(answer)[2]["runs"], [whole])
        nowhere = {"cron": "0 3 * * *", "timezone": "Europe/Nowhere", "dst": "shift"}  # it waits for its zone
        self.assertEqual(self.get(self.restore({**right, "key": "nowhere", "schedule": nowhere}))[2]["schedule"], nowhere)


if __name__ == "__main__":
    unittest.main()
