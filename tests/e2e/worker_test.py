#!/usr/bin/env python3
"""The built-in queue on the real daemon, as workers see it: 100,000 timers to one queue and four workers that
now and then die, give back or let leases end, with a kill -9 in the middle. Nothing is lost, nothing comes after
its ack was answered; the figures are printed. TEST_TIMERS makes it shorter or longer."""

import collections
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import harness
from daemon_case import ms_of

NDJSON = {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}
TIMERS = int(os.environ.get("TEST_TIMERS", "100000"))
SEED = int(os.environ.get("TEST_SEED") or random.randrange(2**32))
WORKERS, LEASE_WAIT_S = 4, 1


def create(daemon, count, due_ms, spread_ms=1, target="queue:jobs", first=0):
    """Creates timers by the batch; each carries its number."""
    connection = daemon.connect(60)
    for begin in range(first, first + count, 20000):
        lines = "".join(
            json.dumps({"at": due_ms + n % spread_ms, "target": target, "payload": n,
                        "retry": {"max_attempts": 50, "base": "1ms", "cap": "20ms"}}) + "\n"
            for n in range(begin, min(begin + 20000, first + count)))
        status, _, body = daemon.call("POST", "/v1/timers/batch", lines, NDJSON, connection)
        assert status == 200 and json.loads(body.splitlines()[0])["failed"] == 0, body[:500]
    connection.close()


class Worker(threading.Thread):
    """Leases and answers until told to stop; where the daemon is gone, it tries again with the next one."""

    def __init__(self, test, number, faults):
        super().__init__(daemon=True)
        self.test, self.random, self.faults = test, random.Random(SEED + number), faults
        self.counts = collections.Counter()
        self.error = None

    def run(self):
        try:
            while not self.test.is_over:
                try:
                    self.work(self.test.daemon)
                except (OSError, harness.http.client.HTTPException):
                    self.counts["broken connections"] += 1
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def post(self, connection, daemon, call, body):
        status, _, answer = daemon.call("POST", f"/v1/queues/jobs/{call}", body, None, connection)
        if status == 503:  # it is stopping, or has just started
            raise OSError("503")
        assert status == 200, answer
        return answer

    def work(self, daemon):
        connection = daemon.connect(30)
        try:
            while not self.test.is_over and daemon is self.test.daemon:
                answer = self.post(connection, daemon, "lease", {"max": 200, "wait": f"{LEASE_WAIT_S}s", "lease": "2s"})
                if not answer["items"]:
                    self.counts["idle" if len(self.test.arrivals) < TIMERS else "found none left"] += 1
                if answer["items"]:
                    self.treat(connection, daemon, answer["items"], ms_of(answer["leased_until"]))
        finally:
            connection.close()

    def treat(self, connection, daemon, items, leased_until_ms):
        for item in items:
            self.test.seen(item["payload"], leased_until_ms)
        self.counts["leased"] += len(items)
        chance = self.random.random() if self.faults else 1
        if chance < 0.03:  # it dies; the leases end by themselves
            self.counts["died"] += 1
            raise OSError("dead")
        if chance < 0.06:
            back, items = items[::2], items[1::2]
            self.post(connection, daemon, "nack", {"receipts": [i["receipt"] for i in back],
                                                   "delay": self.random.choice([0, 100])})
            self.counts["given back"] += len(back)
        if chance < 0.08 and items:  # too slow: the ack comes when the lease is over
            self.post(connection, daemon, "extend", {"receipts": [i["receipt"] for i in items],
                                                     "lease": 100})
            self.test.pause.wait(0.3)
            self.counts["slow"] += 1
        if not items:
            return
        try:
            results = self.post(connection, daemon, "ack",
                                {"receipts": [i["receipt"] for i in items]})["results"]
        except (OSError, harness.http.client.HTTPException):
            self.test.unsure(item["payload"] for item in items)  # the answer is lost, perhaps not the ack
            raise
        for item, result in zip(items, results):
            if result == "ok":
                self.test.done(item["payload"])
            self.counts[result] += 1


class QueueTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.lock = threading.Lock()
        self.pause = threading.Event()  # never set: a wait that a stop could cut short
        self.acked, self.maybe_acked, self.arrivals = set(), set(), collections.Counter()
        self.late, self.after_ack = [], []
        self.due_ms, self.is_over = None, False
        print(f"TEST_SEED={SEED}", flush=True)

    def start(self, *flags):
        daemon = harness.Daemon(self.data, *flags)
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 30, "ready")
        return daemon

    def seen(self, number, leased_until_ms):
        """When the answer of a lease was under way for longer than the lease, another worker may have had the item since."""
        with self.lock:
            now_ms = time.time() * 1000
            self.arrivals[number] += 1
            if number in self.acked and now_ms < leased_until_ms:
                self.after_ack.append(number)
            if self.arrivals[number] == 1 and self.due_ms:
                self.late.append(now_ms - self.due_ms(number))

    def done(self, number):
        with self.lock:
            self.acked.add(number)

    def unsure(self, numbers):
        with self.lock:
            self.maybe_acked.update(numbers)

    def is_finished(self, count):
        """All are acknowledged; of those whose answer was lost, the daemon says that none is left."""
        with self.lock:
            if len(self.acked | self.maybe_acked) < count:
                return False
        return len(self.acked) == count or self.daemon.metric("tickwheel_timers_pending") == 0

    def run_workers(self, faults):
        workers = [Worker(self, n, faults) for n in range(WORKERS)]
        for worker in workers:
            worker.start()
        return workers

    def finish(self, workers, count, seconds):
        try:
            harness.wait_until(lambda: self.is_finished(count) or
                               next((w for w in workers if w.error), None), seconds,
                               f"all of {count} acknowledged")
        finally:
            self.is_over = True
            for worker in workers:
                worker.join(30)
            counts = sum((worker.counts for worker in workers), collections.Counter())
            print(f"acknowledged {len(self.acked)} of {count}, of {len(self.maybe_acked - self.acked)} the "
                  f"answer was lost; {dict(counts)}", flush=True)
        for worker in workers:
            if worker.error:
                raise worker.error
        return counts

    # proves: ack
    def test_none_lost_none_after_its_ack(self):
        self.daemon = self.start()
        due_ms = int(time.time() * 1000) + 3000
        self.due_ms = lambda number: due_ms + number % 2000
        create(self.daemon, TIMERS, due_ms, 2000)
        begun = time.monotonic()
        workers = self.run_workers(faults=True)
        harness.wait_until(lambda: len(self.acked) > TIMERS // 3, 120, "a third")
        killed = self.daemon
        killed.signal(signal.SIGKILL)
        before = len(self.acked)
        restarted = self.start()
        self.daemon = restarted
        self.finish(workers, TIMERS, 600)
        seconds = time.monotonic() - begun
        print(f"{TIMERS / seconds:.0f} a second with faults; kill -9 at {before}; "
              f"repeats {sum(self.arrivals.values()) - TIMERS}", flush=True)
        self.assertEqual(set(self.arrivals), set(range(TIMERS)))
        self.assertEqual(self.after_ack, [])
        self.assertGreaterEqual(min(self.late), 0)  # never early
        harness.wait_until(lambda: restarted.metric("tickwheel_timers_pending") == 0, 10, "0 pending")
        self.assertEqual(restarted.signal(signal.SIGTERM), 0)

    # proves: overload
    def test_a_backlog_larger_than_memory_drains_at_full_speed(self):
        """All is due at once and only a fraction of it fits into memory: no worker idles before all are leased."""
        megabytes = max(1, TIMERS * 80 >> 20)  # a timer takes some 350 bytes
        self.daemon = None

        def make(window_ms):
            """All are made while their due time is beyond the window; in it there is no room for so many."""
            if self.daemon:
                self.daemon.signal(signal.SIGKILL)
                shutil.rmtree(self.data)
            self.daemon = self.start("--near-bytes-max", f"{megabytes}M", "--window", "5s")
            create(self.daemon, TIMERS, window_ms + 5000)
            return window_ms + 5000
        due_ms = harness.in_time(make, TIMERS // 10)
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_spilled_total") > TIMERS // 2 and
                           time.time() * 1000 > due_ms, 60, "spilled")
        begun = time.monotonic()
        workers = self.run_workers(faults=False)
        counts = self.finish(workers, TIMERS, 600)
        seconds = time.monotonic() - begun
        print(f"a backlog of {TIMERS} in {megabytes} MB: {TIMERS / seconds:.0f} a second; spilled "
              f"{self.daemon.metric('tickwheel_timers_spilled_total'):.0f}, reloaded "
              f"{self.daemon.metric('tickwheel_timers_reloaded_total'):.0f}", flush=True)
        self.assertEqual(self.after_ack, [])
        self.assertLess(counts["idle"] * LEASE_WAIT_S, WORKERS * seconds / 2)

    # proves: lease-wait
    def test_long_poll_wakes_at_once(self):
        self.daemon = self.start()
        late = []
        for number in range(50):
            due_ms = int(time.time() * 1000) + 100
            create(self.daemon, 1, due_ms, first=number)
            items = self.daemon.call("POST", "/v1/queues/jobs/lease", {"wait": "20s"})[2]["items"]
            late.append(time.time() * 1000 - due_ms)
            self.assertEqual(len(items), 1)
            self.daemon.call("POST", "/v1/queues/jobs/ack", {"receipts": [items[0]["receipt"]]})
        self.assertGreaterEqual(min(late), 0)
        print(f"from due to the worker: p50 {harness.percentile(late, 0.5):.1f} ms, "
              f"p99 {harness.percentile(late, 0.99):.1f} ms", flush=True)

    def await_waiting(self, count):
        """Well before the 20 s of a wait are over."""
        harness.wait_until(lambda: self.daemon.metric("tickwheel_queue_waiting") == count, 10, f"{count} workers wait")

    def open_lease(self):
        """A connection whose request waits for an item."""
        body = b'{"wait": "20s"}'
        connection = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=harness.PATIENCE_S)
        connection.sendall(b"POST /v1/queues/jobs/lease HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        return connection

    # proves: lease-left
    def test_a_worker_that_is_gone_gets_no_item(self):
        self.daemon = self.start()
        for number in range(8):
            if number % 2:
                connection = self.open_lease()
                self.await_waiting(1)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()  # by a reset
            else:
                with subprocess.Popen([harness.find("tickwheel"), "work", "jobs", "--", "true"],
                                      env=command_line.environment(f"http://127.0.0.1:{self.daemon.port}")) as worker:
                    self.await_waiting(1)
                    worker.kill()
            self.await_waiting(0)
            create(self.daemon, 1, int(time.time() * 1000), first=number)
            # A lease to the one that is gone would last longer than this wait.
            items = self.daemon.call("POST", "/v1/queues/jobs/lease", {"wait": "20s"})[2]["items"]
            self.assertEqual([(item["payload"], item["attempt"]) for item in items], [(number, 1)])
            self.daemon.call("POST", "/v1/queues/jobs/ack", {"receipts": [items[0]["receipt"]]})
        harness.wait_until(lambda: self.daemon.metric("tickwheel_queue_leases_total") == 8, 10, "a lease for each")

    # proves: lease-left
    def test_a_client_that_sends_no_more_is_answered(self):
        self.daemon = self.start()
        for ready in (False, True):
            if ready:
                create(self.daemon, 1, int(time.time() * 1000))
                harness.wait_until(lambda: self.daemon.metric("tickwheel_deliveries_waiting") == 1, 10, "ready")
            with self.open_lease() as connection:
                if not ready:
                    self.await_waiting(1)
                connection.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 "), answer)
            self.assertEqual(b'"items":[]' in answer, not ready)
        self.await_waiting(0)

    # proves: target-queue, lease
    def test_priorities_and_order(self):
        self.daemon = self.start()
        due_ms = int(time.time() * 1000)
        for number, priority in enumerate([5, 0, 9, 3, 9, 5]):
            target = "queue:jobs" if priority == 5 else f"queue:jobs?priority={priority}"
            create(self.daemon, 1, due_ms - 10000 + number, target=target, first=number)
        harness.wait_until(lambda: self.daemon.metric("tickwheel_deliveries_waiting") == 6, 10, "ready")
        items = self.daemon.call("POST", "/v1/queues/jobs/lease", {"max": 10})[2]["items"]
        self.assertEqual([item["payload"] for item in items], [2, 4, 0, 5, 3, 1])

    # proves: already-firing, lease-ends, lease-cancel
    def test_what_is_ready_can_be_cancelled_and_what_is_leased_cannot(self):
        self.daemon = self.start()
        ids = [self.daemon.call("POST", "/v1/timers", {"after": 0, "target": "queue:jobs"})[2]["id"]
               for _ in range(2)]
        harness.wait_until(lambda: self.daemon.metric("tickwheel_deliveries_waiting") == 2, 10, "ready")
        self.assertEqual(self.daemon.call("DELETE", f"/v1/timers/{ids[0]}")[0], 200)
        items = self.daemon.call("POST", "/v1/queues/jobs/lease", {"max": 10})[2]["items"]
        self.assertEqual([item["id"] for item in items], [ids[1]])
        self.assertEqual(self.daemon.call("DELETE", f"/v1/timers/{ids[1]}")[0], 409)
        # A clean stop gives back what is leased, without counting an attempt, and keeps nobody waiting.
        self.assertEqual(self.daemon.signal(signal.SIGTERM), 0)
        self.daemon = self.start()
        items = self.daemon.call("POST", "/v1/queues/jobs/lease", {"max": 10, "wait": "20s"})[2]["items"]
        self.assertEqual([(item["id"], item["attempt"]) for item in items], [(ids[1], 1)])

    # proves: nack, dead-list, dead-filters, redrive
    def test_dead_letters(self):
        self.daemon = self.start()
        for number in range(30):
            target = "queue:jobs" if number % 3 else "queue:other"
            status, _, _ = self.daemon.call("POST", "/v1/timers", {
                "after": 0, "target": target, "payload": number, "labels": {"odd": str(number % 2)},
                "retry": {"max_attempts": 2, "base": "1ms", "cap": "1ms"}})
            self.assertEqual(status, 201)
        for queue in ("jobs", "other"):
            tries = 2 * (20 if queue == "jobs" else 10)
            while tries:
                items = self.daemon.call("POST", f"/v1/queues/{queue}/lease",
                                         {"max": 100, "wait": "20s"})[2]["items"]
                tries -= len(items)
                self.daemon.call("POST", f"/v1/queues/{queue}/nack", {
                    "receipts": [item["receipt"] for item in items], "error": "no such order"})
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        timers, path = [], "/v1/dead?limit=7"
        while path:
            page = self.daemon.call("GET", path)[2]
            timers += page["timers"]
            path = page["next"] and f"/v1/dead?limit=7&cursor={page['next']}"
        self.assertEqual({timer["payload"] for timer in timers}, set(range(30)))
        self.assertEqual({(t["state"], t["attempts"], t["last_error"]) for t in timers},
                         {("dead", 2, "no such order")})
        answer = self.daemon.call("POST", "/v1/dead/redrive", {"ids": [timers[0]["id"], "x"]})[2]
        self.assertEqual((answer["redriven"], answer["results"]), (1, ["ok", "not-found"]))
        answer = self.daemon.call("POST", "/v1/dead/redrive", {"target": "queue:jobs",
                                                               "labels": {"odd": "1"}})[2]
        answer = self.daemon.call("POST", "/v1/dead/redrive", {"all": True})[2]
        self.assertEqual(self.daemon.call("GET", "/v1/dead")[2]["timers"], [])
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        back = []
        while len(back) < 30:
            queue = "jobs" if len(back) < 20 else "other"
            items = self.daemon.call("POST", f"/v1/queues/{queue}/lease",
                                     {"max": 100, "wait": "20s"})[2]["items"]
            back += [(item["payload"], item["attempt"]) for item in items]
            self.daemon.call("POST", f"/v1/queues/{queue}/ack",
                             {"receipts": [item["receipt"] for item in items]})
        self.assertEqual(sorted(back), [(number, 1) for number in range(30)])
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_pending") == 0, 10, "0 pending")

    # proves: lease-ends
    def test_a_stop_answers_who_waits(self):
        self.daemon = self.start()
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(
            self.daemon.call("POST", "/v1/queues/jobs/lease", {"wait": "20s"})))
        waiting.start()
        harness.wait_until(lambda: self.daemon.metric("tickwheel_queue_waiting") == 1, 10, "a worker waits")
        self.assertEqual(self.daemon.signal(signal.SIGTERM), 0)
        waiting.join(19)
        self.assertFalse(waiting.is_alive())  # not until its 20 s are over
        self.assertEqual((answers[0][0], answers[0][2]["items"]), (200, []))


if __name__ == "__main__":
    unittest.main()
