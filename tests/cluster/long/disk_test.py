#!/usr/bin/env python3
"""Goal: timers outlive the disks of nodes: when one of three is lost, and when all are; a million rows are back from the log
within 15 s. Method: a million timers through all nodes; kill -9 of all, with their folders; the time until the first node that
starts anew serves them all, and their count."""

import json
import signal
import subprocess
import time

import fault_case
import harness

TIMERS = fault_case.timers(1000000)
BATCH = 1000
BACK_S_MAX = 15
SAMPLE = 600


class DiskTest(fault_case.FaultCase):
    def fill(self):
        """Batches of 1,000, as fast as the nodes take them."""
        for node in self.nodes:
            done = subprocess.run([harness.find("load_client"), "--port", str(node.daemon.port), "--run",
                                   f"batch:4:{BATCH}", "--units", str(TIMERS // len(self.nodes)), "--due-from", "86400",
                                   "--due-to", "172800"], capture_output=True, text=True, timeout=600, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            print(f"node {node.number}: {json.loads(done.stdout)['seconds']:.1f} s for its part", flush=True)

    def marks(self):
        """Ids of some more, which are asked for by name."""
        found = []
        for i in range(SAMPLE):
            node = self.nodes[i % len(self.nodes)]
            status, _, body = node.daemon.call("POST", "/v1/timers", {"after": "30h", "target": "log:mark", "payload": i})
            self.assertEqual(status, 201, body)
            found.append(body["id"])
        return found

    def check_marks(self, marks, what):
        for node in self.nodes:
            missing = [mark for mark in marks[::len(self.nodes)] if node.daemon.call("GET", f"/v1/timers/{mark}")[0] != 200]
            self.assertEqual(missing, [], f"{what}: node {node.number}")

    def lose(self, nodes):
        for node in nodes:
            node.end(signal.SIGKILL)
            node.lose_the_disk()

    def test_disks_are_lost(self):
        self.fill()
        marks, count = self.marks(), self.settled()
        print(f"{count:.0f} timers are there", flush=True)
        self.lose(self.nodes[:1])
        self.await_owners(self.nodes[1:], "two own all")
        began = time.monotonic()
        self.nodes[0].start()
        self.await_shares("the node is back")
        print(f"a node's disk lost: it has its share again after {time.monotonic() - began:.1f} s", flush=True)
        self.check_marks(marks, "one disk lost")
        self.assertEqual(self.settled(), count)
        self.lose(self.nodes)
        began = time.monotonic()
        for node in self.nodes:
            node.start()
        self.await_owners(self.nodes, "all have owners")
        took = time.monotonic() - began
        print(f"all nodes' disks lost: all partitions have owners after {took:.1f} s", flush=True)
        self.await_shares("shares")
        self.check_marks(marks, "all disks lost")
        self.assertEqual(self.settled(), count)
        self.assertLessEqual(took, BACK_S_MAX)


if __name__ == "__main__":
    fault_case.main()
