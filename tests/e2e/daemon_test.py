#!/usr/bin/env python3
"""The real daemon from outside: what a client, an operator and a receiver see. Each test starts its own
daemon on a free port and a data folder of its own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

NDJSON = {"Content-Type": "application/x-ndjson"}


class DaemonTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.receiver = self.enterContext(harness.Receiver())

    def enterContext(self, context):
        """What unittest has by itself from Python 3.11 on."""
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def start(self, *flags, **options):
        daemon = self.enterContext(harness.Daemon(self.data, *flags, **options))
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    def create(self, daemon, path="/ok", **fields):
        fields.setdefault("target", self.receiver.url(path))
        status, headers, timer = daemon.call("POST", "/v1/timers", fields)
        self.assertEqual(status, 201, timer)
        self.assertEqual(headers["Location"], f"/v1/timers/{timer['id']}")
        return timer

    def arrivals_of(self, timer):
        return [arrival for arrival in self.receiver.arrivals()
                if harness.timer_id_of(arrival.webhook_id) == timer["id"]]

    def wait_for_arrivals(self, timer, count=1):
        return harness.wait_until(
            lambda: len(self.arrivals_of(timer)) >= count and self.arrivals_of(timer), 20,
            f"{count} webhooks of {timer['id']}")

    def test_sleeps_with_far_timers(self):
        """With nothing to do the daemon sleeps: its threads together give up the processor a few times in five
        seconds, once the background work of the creates is over. Polling each 100 ms would be fifty times."""
        lines = "".join(json.dumps({"after": "10d", "target": "http://127.0.0.1:9/"}) + "\n" for _ in range(5000))
        daemon = self.start()
        self.assertEqual(daemon.call("POST", "/v1/timers/batch", lines, NDJSON)[0], 200)

        def wake_ups():
            total = 0
            for task in os.scandir(f"/proc/{daemon.process.pid}/task"):
                with open(os.path.join(task.path, "comm")) as comm:
                    if comm.read() == "tickwheeld\n" and task.name != str(daemon.process.pid):
                        continue  # every thread of ours has a name; this one is a sanitizer's
                with open(os.path.join(task.path, "status")) as status:
                    total += sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt"))
            return total

        def sleeps():
            before = wake_ups()
            time.sleep(5)
            return wake_ups() - before <= 15
        harness.wait_until(sleeps, 60, "five seconds with at most 15 wake-ups")

    def test_threads_have_names(self):
        """The names that `top -H` and `ps -L` show."""
        daemon = self.start("--shards", "2")
        self.wait_for_arrivals(self.create(daemon, after="1ms"))  # the first webhook starts a thread
        names = set()
        for task in os.scandir(f"/proc/{daemon.process.pid}/task"):
            with open(os.path.join(task.path, "comm")) as comm:
                names.add(comm.read().strip())
        self.assertLessEqual({"tw-shard-0", "tw-shard-1", "commit", "read", "webhook"}, names)

    # proves: create, outcome-success
    def test_a_timer_rings(self):
        daemon = self.start()
        timer = self.create(daemon, after="300ms", payload={"order": 42})
        arrival = self.wait_for_arrivals(timer)[0]
        self.assertGreaterEqual(arrival.at_us, arrival.due_ms * 1000)
        self.assertEqual(arrival.attempt, 1)
        status, _, problem = harness.wait_until(
            lambda: (answer := daemon.call("GET", f"/v1/timers/{timer['id']}"))[0] == 410 and answer,
            10, "410")
        self.assertEqual(problem["timer"]["state"], "fired")

    # proves: stored-unchanged
    def test_survives_kill_9(self):
        daemon = self.start()
        far = self.create(daemon, after="1h", payload=[1, 2, 3], labels={"team": "checkout"})
        soon = self.create(daemon, after="500ms")
        due_ms = int(time.time() * 1000) + 500
        daemon.signal(signal.SIGKILL)
        harness.wait_until(lambda: time.time() * 1000 > due_ms, 5, "it to be overdue")
        daemon = self.start()
        self.wait_for_arrivals(soon)
        status, headers, timer = daemon.call("GET", f"/v1/timers/{far['id']}")
        self.assertEqual((status, headers["ETag"], timer), (200, '"1"', far))
        status, _, patched = daemon.call("PATCH", f"/v1/timers/{far['id']}", {"after": 0},
                                         {"If-Match": '"1"'})
        self.assertEqual((status, patched["version"]), (200, 2))
        self.wait_for_arrivals(far)

    # proves: cancel
    def test_cancel_holds_over_a_restart(self):
        daemon = self.start()
        def make(due_ms):
            timer = self.create(daemon, at=due_ms)
            status, _, cancelled = daemon.call("DELETE", f"/v1/timers/{timer['id']}")
            self.assertEqual((status, cancelled["state"]), (200, "cancelled"))
            return timer, due_ms
        timer, due_ms = harness.in_time(make)
        daemon.signal(signal.SIGKILL)
        daemon = self.start()
        later = self.create(daemon, at=due_ms + 500)
        self.wait_for_arrivals(later)
        self.assertEqual(self.arrivals_of(timer), [])
        self.assertEqual(daemon.call("DELETE", f"/v1/timers/{timer['id']}")[0], 410)

    # proves: webhook-id
    def test_retries_keep_the_webhook_id(self):
        daemon = self.start()
        timer = self.create(daemon, "/flaky/2", after=0, retry={"base": "20ms", "cap": "50ms"})
        arrivals = self.wait_for_arrivals(timer, 3)
        self.assertEqual([arrival.attempt for arrival in arrivals], [1, 2, 3])
        self.assertEqual(len({arrival.webhook_id for arrival in arrivals}), 1)

    # proves: retry-attempts, timer-attempts, outcome-retry
    def test_dead_after_max_attempts(self):
        daemon = self.start()
        timer = self.create(daemon, "/status/500", after=0,
                            retry={"max_attempts": 2, "base": "20ms", "cap": "50ms"})
        answer = harness.wait_until(
            lambda: (a := daemon.call("GET", f"/v1/timers/{timer['id']}"))[0] == 410 and a, 20, "410")
        self.assertEqual(answer[2]["timer"]["state"], "dead")
        self.assertIn("500", answer[2]["timer"]["last_error"])
        self.assertEqual(len(self.wait_for_arrivals(timer, 2)), 2)

    # proves: target-isolation
    def test_a_hanging_target_delays_no_other(self):
        daemon = self.start()
        for _ in range(300):
            self.create(daemon, "/hang", after=0)
        other = self.enterContext(harness.Receiver())
        self.create(daemon, after=0, target=other.url())
        harness.wait_until(other.arrivals, 10, "the other target's webhook")
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") == 1, 10, "the count")

    # proves: stop
    def test_sigterm_drains(self):
        daemon = self.start()
        timer = self.create(daemon, "/slow/1500", after=0)
        self.wait_for_arrivals(timer)
        self.assertEqual(daemon.signal(signal.SIGTERM), 0)
        daemon = self.start()
        self.assertEqual(daemon.call("GET", f"/v1/timers/{timer['id']}")[2]["timer"]["state"], "fired")
        self.assertEqual(len(self.wait_for_arrivals(timer)), 1)

    # proves: batch, list
    def test_batch_of_ten_thousand_and_list(self):
        daemon = self.start()
        due_ms = int(time.time() * 1000) + 3600 * 1000
        lines = [json.dumps({"at": due_ms + i % 100, "target": self.receiver.url(),
                             "labels": {"n": str(i % 2)}}) for i in range(10000)]
        lines[5000] = "{]"
        lines[6000] = '{"after": "-1s", "target": "http://example.com/"}'
        status, _, body = daemon.call("POST", "/v1/timers/batch", "\n".join(lines) + "\n", NDJSON)
        results = [json.loads(line) for line in body.splitlines()]
        self.assertEqual((status, len(results)), (200, 10000))
        self.assertEqual(results[5000]["status"], 400)
        self.assertEqual(results[6000]["errors"][0]["pointer"], "#/after")
        created = {result["id"] for result in results if "id" in result}
        self.assertEqual(len(created), 9998)
        found, path = [], "/v1/timers?limit=1000"
        while path:
            status, _, page = daemon.call("GET", path)
            self.assertEqual(status, 200, page)
            found += page["timers"]
            path = page["next"] and f"/v1/timers?limit=1000&cursor={page['next']}"
        self.assertEqual([timer["due"] for timer in found], sorted(timer["due"] for timer in found))
        self.assertEqual({timer["id"] for timer in found}, created)
        self.assertEqual(len(found), len(created))
        status, _, page = daemon.call("GET", "/v1/timers?label=n:1&limit=1000")
        self.assertTrue(page["timers"])
        self.assertEqual({timer["labels"]["n"] for timer in page["timers"]}, {"1"})
        self.assertEqual(harness.wait_until(
            lambda: daemon.metric("tickwheel_timers_pending") == 9998, 10, "the gauge"), True)

    # proves: target-private
    def test_private_targets_are_refused_by_default(self):
        daemon = self.start(allow="")
        for host in ("127.0.0.1", "localhost", "0x7f.1", "[::ffff:10.0.0.1]", "169.254.169.254"):
            status, _, problem = daemon.call("POST", "/v1/timers",
                                             {"after": 0, "target": f"http://{host}/x"})
            self.assertEqual((status, problem["errors"][0]["pointer"]), (422, "#/target"), host)
            self.assertIn("webhook_allow", problem["detail"], host)

    # proves: too-many, pending_max (beyond)
    def test_limits(self):
        daemon = self.start("--pending-max", "2", "--partitions", "1", "--body-bytes-max", "4096")
        for _ in range(2):
            self.create(daemon, after="1h")
        status, headers, _ = daemon.call("POST", "/v1/timers",
                                         {"after": "1h", "target": self.receiver.url()})
        self.assertEqual(status, 429)
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        status, _, _ = daemon.call("POST", "/v1/timers",
                                   {"after": "1h", "target": self.receiver.url(), "payload": "x" * 5000})
        self.assertEqual(status, 413)

    def test_one_daemon_for_one_folder(self):
        self.start()
        second = subprocess.run(
            [harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", self.data],
            capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertIn("in use by another process", second.stderr)

    def test_unknown_settings_are_refused_with_the_nearest_name(self):
        wrong = subprocess.run([harness.find("tickwheeld"), "--lisen-port", "0"],
                               capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("listen-port", wrong.stderr)

    def test_the_log_tells_events_and_no_secrets(self):
        daemon = self.start("--webhook-secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        self.wait_for_arrivals(self.create(daemon, after=0, payload="pass-me-not"))
        self.assertEqual(daemon.signal(signal.SIGTERM), 0)
        log = daemon.output()
        self.assertRegex(log, r"event=started .*listen=127\.0\.0\.1:\d+")
        self.assertRegex(log, r"event=stopped")
        self.assertNotIn("pass-me-not", log)
        self.assertNotIn("MfKQ9r8", log)

    def test_systemd_is_told(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        path = os.path.join(folder, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(harness.PATIENCE_S)
            os.environ["NOTIFY_SOCKET"] = path
            self.addCleanup(os.environ.pop, "NOTIFY_SOCKET", None)
            daemon = self.start()
            self.assertIn(b"READY=1", notify.recv(4096))
            daemon.signal(signal.SIGTERM)
            self.assertIn(b"STOPPING=1", notify.recv(4096))


if __name__ == "__main__":
    unittest.main(verbosity=2)
