#!/usr/bin/env python3
"""Goal: three nodes on three brokers take 100,000 durable creates a second in batches, answer a single POST within 60 ms at 200 a
second (p99), and drain webhooks and a queue at half of the speed of one embedded node or more. Method: the client of the
benchmarks (bench/service/load), at all nodes at once, and then the same for one embedded node in the same run. Both take half as
many creates first, for a broker compiles its code as it runs; three runs of creates follow, whose median counts. One machine
carries all of it: brokers, nodes, clients and the receiver.

    TEST_TIMERS=N    timers of each run that are created in batches, and a tenth of them drained
"""

import json
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time

import fault_case
import harness
import load

TIMERS = fault_case.timers(600000)
DRAINED = TIMERS // 10
BATCH, CONNECTIONS = 1000, 4
CREATES_MIN, SINGLE_MS_MAX, SHARE_MIN = 100000, 60, 0.5
RATE, SINGLE_CLIENTS, SINGLE_S = 200, 8, 10
RUNS, WORKERS = 3, 3
DELAY_MS = 15000  # until what is to be drained is due: creating it takes less


def load_client(daemon, operation, *flags):
    return subprocess.Popen([harness.find("load_client"), "--port", str(daemon.port), "--run", operation, *map(str, flags)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(clients):
    for client in clients:
        out, error = client.communicate(timeout=600)
        if client.returncode:
            raise RuntimeError(error)
        yield json.loads(out)


def run_all(work, count):
    """Each in a thread, with its number."""
    threads = [threading.Thread(target=work, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)


class SpeedTest(fault_case.FaultCase):
    def create(self, daemons, count, due_s, target="log:far"):
        """Batches at all at once; creates a second."""
        began = time.monotonic()
        clients = [load_client(daemon, f"batch:{CONNECTIONS}:{BATCH}", "--units", count // len(daemons), "--due-from", due_s,
                               "--due-to", due_s, "--target", target) for daemon in daemons]
        list(finish(clients))
        return count / (time.monotonic() - began)

    def single(self, daemons):
        """POST at a steady pace, by clients that go to the nodes in turn; the latencies in ms."""
        took, began = [], time.monotonic()

        def ask(client):
            daemon = daemons[client % len(daemons)]
            connection = daemon.connect()
            for number in range(client, RATE * SINGLE_S, SINGLE_CLIENTS):
                time.sleep(max(0, began + number / RATE - time.monotonic()))  # the pace
                asked = time.monotonic()
                status = daemon.call("POST", "/v1/timers", {"after": "24h", "target": "log:one", "payload": number},
                                     connection=connection)[0]
                if status == 201:
                    took.append((time.monotonic() - asked) * 1000)
            connection.close()
        run_all(ask, SINGLE_CLIENTS)
        self.assertEqual(len(took), RATE * SINGLE_S)
        self.rate = len(took) / (time.monotonic() - began)
        return took

    def await_due(self, due_ms):
        time.sleep(max(0, due_ms / 1000 - time.time()))

    def drain_webhooks(self, daemons):
        """Webhooks a second, of many that are due at one moment."""
        with harness.Receiver() as receiver:
            due_ms = int(time.time() * 1000) + DELAY_MS
            self.fill(daemons, due_ms, receiver.url())
            self.await_due(due_ms)
            harness.wait_until(lambda: receiver.count() >= DRAINED, 300, "all webhooks")
            at_us = sorted(arrival.at_us for arrival in receiver.arrivals())
        return DRAINED / ((at_us[DRAINED - 1] - due_ms * 1000) / 1e6)

    def fill(self, daemons, due_ms, target):
        lines = (json.dumps({"at": due_ms, "target": target}) + "\n") * BATCH
        for number in range(DRAINED // BATCH):
            status, _, text = daemons[number % len(daemons)].call("POST", "/v1/timers/batch", lines,
                                                                  {**load.NDJSON, "Prefer": "return=minimal"})
            self.assertEqual(status, 200, text)

    def drain_queue(self, daemons):
        """Items a second that workers lease and acknowledge, of many that are due at one moment."""
        due_ms, lock, done = int(time.time() * 1000) + DELAY_MS, threading.Lock(), [0]
        self.fill(daemons, due_ms, "queue:speed")
        self.await_due(due_ms)
        began = time.monotonic()

        def work(number):
            daemon = daemons[number % len(daemons)]
            connection = daemon.connect()
            while done[0] < DRAINED:
                items = daemon.call("POST", "/v1/queues/speed/lease", {"max": 500, "wait": "1s", "lease": "60s"},
                                    connection=connection)[2]["items"]
                if not items:
                    continue
                answer = daemon.call("POST", "/v1/queues/speed/ack", {"receipts": [item["receipt"] for item in items]},
                                     connection=connection)[2]
                with lock:
                    done[0] += answer["ok"]
            connection.close()
        run_all(work, WORKERS)
        return DRAINED / (time.monotonic() - began)

    def measure(self, what, daemons):
        self.create(daemons, TIMERS // 2, 86400)
        rates = [self.create(daemons, TIMERS, 86400) for _ in range(RUNS)]
        rate = statistics.median(rates)
        single_ms = self.single(daemons)
        found = {"creates": rate, "p50_ms": harness.percentile(single_ms, 0.5), "p99_ms": harness.percentile(single_ms, 0.99),
                 "webhooks": self.drain_webhooks(daemons), "items": self.drain_queue(daemons)}
        print(f"{what}: creates/s in batches {' '.join(f'{each:,.0f}' for each in sorted(rates))}; single POST at {self.rate:.0f}/s "
              f"p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms; {found['webhooks']:,.0f} webhooks/s, "
              f"{found['items']:,.0f} items/s", flush=True)
        return found

    def test_speed(self):
        cluster = self.measure("three nodes", [node.daemon for node in self.nodes])
        for node in self.nodes:
            node.end(signal.SIGTERM)
        self.brokers.__exit__()
        data = tempfile.mkdtemp(prefix="tickwheel-embedded-")
        self.addCleanup(shutil.rmtree, data)
        with harness.Daemon(data, "--partitions", str(fault_case.PARTITIONS), "--shards", "2") as daemon:
            harness.wait_until(daemon.is_ready, fault_case.READY_S, "ready")
            alone = self.measure("one embedded node", [daemon])
        self.assertGreaterEqual(cluster["creates"], CREATES_MIN)
        self.assertLessEqual(cluster["p99_ms"], SINGLE_MS_MAX)
        for what in ("webhooks", "items"):
            self.assertGreaterEqual(cluster[what], SHARE_MIN * alone[what], what)


if __name__ == "__main__":
    fault_case.main()
