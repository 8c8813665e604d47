#!/usr/bin/env python3
"""Goal: on Apache Kafka the log of a cluster is swept and trimmed under load, and nodes that were away meanwhile, with their
disks or without them, have all timers and none that ended. Method: two daemons, one of which is away while timers are
created and mostly cancelled; the size of the topic and the time of a start are measured before and after.

    TEST_TIMERS=N    timers to create, nine of ten of which are cancelled
"""

import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import cluster_nodes
import harness

TIMERS = int(os.environ.get("TEST_TIMERS", "60000"))
PARTITIONS, KEPT_EACH = 4, cluster_nodes.KEPT_EACH
WAIT_S = 600
FLAGS = ("--partitions", str(PARTITIONS), "--cluster-name", "shop", "--cluster-lease", "500ms", "--retain", "1s",
         "--cluster-listen", "127.0.0.1:0")
SWEPT, UNSWEPT = ("--cluster-sweep-bytes-min", "1M"), ("--cluster-sweep-bytes-min", "0")


class SweepTest(unittest.TestCase):
    def host(self, number, *flags):
        host = cluster_nodes.Node(number, f"127.0.0.1:{self.broker.port}", *FLAGS, *flags)
        self.addCleanup(host.close)
        return host

    def start(self, host, *flags):
        """Answers how long it took until the node is ready."""
        base = len(host.flags)
        host.flags += flags
        began = time.monotonic()
        host.start()
        host.flags = host.flags[:base]
        harness.wait_until(host.daemon.is_ready, WAIT_S, "ready")
        return time.monotonic() - began

    def check(self, host, kept):
        found, cursor = set(), ""
        while cursor is not None:
            status, _, page = host.daemon.call("GET", f"/v1/timers?state=scheduled&limit=1000{cursor and '&cursor=' + cursor}")
            self.assertEqual(status, 200, page)
            found.update(row["id"] for row in page["timers"])
            cursor = page.get("next")
        self.assertEqual(found, kept)
        # an owner counts them some milliseconds after it took the partition
        harness.wait_until(lambda: host.daemon.metric("tickwheel_timers_pending") == len(kept), 10, "all are counted")
        for i in (0, TIMERS // KEPT_EACH - 1):
            status, _, timer = host.daemon.call("GET", f"/v1/keys/order-{i * KEPT_EACH}/timer")
            self.assertEqual((status, timer["id"] in kept), (200, True))

    def figure(self, host, name):
        return host.daemon.metric(f"tickwheel_cluster_{name}")

    def test_sweep(self):
        with broker_servers.Kafka() as self.broker:
            first, second = self.host(1), self.host(2)
            self.assertEqual(first.run("--cluster-create").returncode, 0)
            self.start(second)
            self.start(first, *UNSWEPT)
            second.end(signal.SIGTERM)
            cluster_nodes.await_shares([first], PARTITIONS, WAIT_S, "the first alone")
            began = time.monotonic()
            kept = cluster_nodes.fill_and_cancel(self, first.daemon, TIMERS, 100)
            print(f"{TIMERS} timers, {len(kept)} live: filled in {time.monotonic() - began:.0f} s", flush=True)
            before = self.figure(first, "log_bytes")
            first.end(signal.SIGTERM)
            first.lose_the_disk()
            print(f"before the sweep: {before:,.0f} bytes of log; a start with an empty folder takes "
                  f"{self.start(first, *UNSWEPT):.1f} s", flush=True)
            self.check(first, kept)
            first.end(signal.SIGTERM)

            self.start(first, *SWEPT)
            began = time.monotonic()
            harness.wait_until(lambda: self.figure(first, "sweeps_total") >= PARTITIONS, WAIT_S, "sweeps")
            print(f"sweeps: {self.figure(first, 'sweeps_total'):.0f} with {self.figure(first, 'sweep_rows_total'):.0f} records, "
                  f"after {time.monotonic() - began:.1f} s", flush=True)
            harness.wait_until(lambda: self.figure(first, "trims_total") >= PARTITIONS, WAIT_S, "trims")
            after = self.figure(first, "log_bytes")
            self.assertLess(after, before / 2)
            self.assertEqual(self.figure(first, "trims_failed_total"), 0)
            self.check(first, kept)

            self.start(second)  # it has the disk of a time before the begin of the log
            harness.wait_until(lambda: self.figure(second, "partitions_followed") == PARTITIONS and
                               self.figure(second, "partitions_restoring") == 0, WAIT_S, "restored")
            self.assertEqual(self.figure(second, "partitions_restarted_total"), PARTITIONS)
            first.end(signal.SIGTERM)
            cluster_nodes.await_shares([second], PARTITIONS, WAIT_S, "the second alone")
            self.check(second, kept)
            second.end(signal.SIGTERM)
            first.lose_the_disk()
            print(f"after it: {after:,.0f} bytes of log; a start with an empty folder takes {self.start(first):.1f} s", flush=True)
            self.check(first, kept)
            first.end(signal.SIGTERM)
            done = first.run("--check", first.data)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"{len(kept)} live", done.stdout)


if __name__ == "__main__":
    broker_scenario.main(SweepTest, broker_servers.Kafka)
