#!/usr/bin/env python3
"""Goal: the timers of a single node move into a cluster with ids, keys, states and counts; an import that is killed and
repeated doubles and loses nothing; what cannot be imported is refused. Method: a daemon with timers of every kind, which is
killed; `tickwheeld --cluster-import` on Apache Kafka, which is killed too; then two nodes, which are asked for all.

    TEST_SEED=N      repeats the moments of the kills
    TEST_TIMERS=N    timers to create
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import cluster_nodes
import harness

SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
TIMERS = int(os.environ.get("TEST_TIMERS", "20000"))
PARTITIONS, KILLS, WAIT_S = 4, 6, 120
NDJSON = {"Content-Type": "application/x-ndjson"}


class ImportTest(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory(prefix="tickwheel-import-")
        self.addCleanup(self.room.cleanup)
        self.folder = os.path.join(self.room.name, "single")
        os.mkdir(self.folder)

    def fill(self):
        """A single node, which ends by kill -9. Answers what it says of some timers, and of how many live."""
        with harness.Daemon(self.folder, "--partitions", str(PARTITIONS), "--retain", "1d") as daemon:
            harness.wait_until(daemon.is_ready, WAIT_S, "ready")
            for at in range(0, TIMERS, 2000):
                lines = "".join(json.dumps({"key": f"order-{i}", "after": "1d", "target": "log:far", "payload": i,
                                            **({"watch": ["all"]} if i % 5 == 0 else {})}) + "\n"
                                for i in range(at, min(at + 2000, TIMERS)))
                self.assertEqual(daemon.call("POST", "/v1/timers/batch", lines, NDJSON)[0], 200)
            for i in range(0, 50):
                self.assertEqual(daemon.call("DELETE", f"/v1/keys/order-{10 * i + 1}/timer")[0], 200)
                self.assertEqual(daemon.call("PATCH", f"/v1/keys/order-{10 * i + 2}/timer", {"after": "2d"})[0], 200)
                timer = daemon.call("GET", f"/v1/keys/order-{10 * i + 3}/timer")[2]
                self.assertEqual(daemon.call("POST", f"/v1/timers/{timer['id']}/pause")[0], 200)
            told = {i: daemon.call("GET", f"/v1/keys/order-{i}/timer")[::2] for i in range(0, 500)}
            live = daemon.metric("tickwheel_timers_pending")
            daemon.signal(signal.SIGKILL)
        self.assertEqual(live, TIMERS - 50)
        return told, int(live)

    def import_folder(self, *flags, name="shop", partitions=PARTITIONS, folder=None):
        return [harness.find("tickwheeld"), "--cluster-brokers", f"127.0.0.1:{self.broker.port}", "--cluster-name", name,
                "--partitions", str(partitions), *(flags or ("--cluster-import", folder or self.folder))]

    def run_import(self, *flags, **options):
        return subprocess.run(self.import_folder(*flags, **options), capture_output=True, text=True, timeout=300, check=False)

    def check(self, host, told, live):
        for i, was in told.items():
            self.assertEqual(host.daemon.call("GET", f"/v1/keys/order-{i}/timer")[::2], was, i)
        found, cursor = set(), ""
        while cursor is not None:
            status, _, page = host.daemon.call("GET", f"/v1/timers?state=scheduled&limit=1000{cursor and '&cursor=' + cursor}")
            self.assertEqual(status, 200, page)
            keys = [row["key"] for row in page["timers"]]
            self.assertFalse(found.intersection(keys))
            found.update(keys)
            cursor = page.get("next")
        self.assertEqual(len(found), live - 50)  # those are paused

    def test_import(self):
        print(f"TEST_SEED={SEED}", flush=True)
        chance = random.Random(SEED)
        told, live = self.fill()
        with broker_servers.Kafka() as self.broker:
            self.assertIn("tickwheeld --cluster-create makes them", self.run_import().stderr)
            self.assertEqual(self.run_import("--cluster-create").returncode, 0)
            other = self.run_import(partitions=5)
            self.assertEqual(other.returncode, 1)
            self.assertIn("the folder has 4 partitions, and the cluster 5", other.stderr)
            self.assertEqual(self.run_import(folder=self.room.name).returncode, 2)
            for _ in range(KILLS):
                process = subprocess.Popen(self.import_folder(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(chance.uniform(0.1, 2.5))  # the random moment
                process.kill()
                process.wait()
            began = time.monotonic()
            done = self.run_import()
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"all {live} live timers are in the log of the cluster shop", done.stdout)
            print(f"{live} live timers: the last import took {time.monotonic() - began:.1f} s", flush=True)
            self.assertEqual(self.run_import().stdout, done.stdout)

            hosts = [cluster_nodes.Node(number, f"127.0.0.1:{self.broker.port}", "--partitions", str(PARTITIONS),
                                        "--cluster-name", "shop", "--cluster-listen", "127.0.0.1:0", "--retain", "1d")
                     for number in (1, 2)]
            for host in hosts:
                self.addCleanup(host.close)
                host.start()
            cluster_nodes.await_shares(hosts, PARTITIONS, WAIT_S, "two nodes")
            harness.wait_until(lambda: sum(host.daemon.metric("tickwheel_timers_pending") for host in hosts) == live, WAIT_S,
                               "they count all")
            for host in hosts:
                self.check(host, told, live)
            status, _, timer = hosts[0].daemon.call("POST", "/v1/timers", {"after": "1s", "target": "log:x"})
            self.assertEqual(status, 201, timer)
            self.assertEqual(self.run_import().stdout, done.stdout)  # it is there
            for host in hosts:
                host.end(signal.SIGTERM)
            copy = self.run_import(folder=hosts[0].data)
            self.assertEqual(copy.returncode, 2)
            self.assertIn("is a copy of the log of a cluster already", copy.stderr)

    def test_a_cluster_that_has_begun(self):
        with harness.Daemon(self.folder, "--partitions", str(PARTITIONS)) as daemon:
            harness.wait_until(daemon.is_ready, WAIT_S, "ready")
        with broker_servers.Kafka() as self.broker:
            host = cluster_nodes.Node(1, f"127.0.0.1:{self.broker.port}", "--partitions", str(PARTITIONS), "--cluster-name",
                                      "shop")
            self.addCleanup(host.close)
            self.assertEqual(host.run("--cluster-create").returncode, 0)
            harness.wait_until(host.start().is_ready, WAIT_S, "ready")
            host.end(signal.SIGTERM)
            done = self.run_import()
            self.assertEqual(done.returncode, 1)
            self.assertIn("is not empty, and has something else than the import of this folder", done.stderr)
            harness.wait_until(host.start().is_ready, WAIT_S, "ready")  # it is as it was


if __name__ == "__main__":
    broker_scenario.main(ImportTest, broker_servers.Kafka)
