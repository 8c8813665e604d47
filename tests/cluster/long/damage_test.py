#!/usr/bin/env python3
"""Goal: a log that has lost or damaged records is told, and nothing is served from it. Method: records are deleted that no disk
has any more, the topic is made anew under running nodes, or a byte is flipped on all brokers; then each node is asked for timers
that were acknowledged: an answer may be a refusal, or, in partitions that are whole, the timer."""

import os
import signal
import struct
import time

import fault_case
import harness

DAMAGED = 5  # the partition
TOLD_S = 60  # nodes start, read, and claim before
SETTINGS = ("replicas=3", "cleanup.policy=delete", "retention.ms=-1", "retention.bytes=-1", "min.insync.replicas=2",
            "unclean.leader.election.enable=false", "message.timestamp.type=LogAppendTime", "flush.messages=1",
            "max.message.bytes=1000012")


def flip(path):
    """A byte of the record in the middle of a segment: 61 bytes of head, then the record."""
    with open(path, "r+b") as file:
        data, at = file.read(), 0
        while at < len(data) // 2:
            at += 12 + struct.unpack_from(">i", data, at + 8)[0]
        file.seek(at + 61 + 30)
        file.write(bytes([data[at + 61 + 30] ^ 1]))


class DamageTest(fault_case.FaultCase):
    logs = ("kafka",)

    node_flags = ("--cluster-wait", "500ms")

    def setUp(self):
        super().setUp()
        self.marks = {}
        while len(self.marks) < fault_case.PARTITIONS:
            for node in self.nodes:
                status, _, body = node.daemon.call("POST", "/v1/timers", {"after": "30h", "target": "log:mark"})
                self.assertEqual(status, 201)
                self.marks.setdefault(fault_case.partition_of(body["id"]), body["id"])

    def states(self, partition):
        return [self.view(node)["partitions"][partition]["state"] for node in self.nodes]

    def await_told(self, partitions, began):
        """Until a node that should serve them calls them broken, and none serves them."""
        def look():
            found = [self.states(partition) for partition in partitions]
            return all("broken" in states and "active" not in states for states in found)
        with self.told():
            harness.wait_until(look, TOLD_S, "the damage is told")
        answers = {node.number: node.daemon.call("GET", "/readyz")[2] for node in self.nodes}
        print(f"told after {time.monotonic() - began:.1f} s; /readyz {answers}", flush=True)
        for node in self.nodes:
            if any(self.view(node)["partitions"][partition]["state"] == "broken" for partition in partitions):
                self.assertIn("broken", answers[node.number]["detail"])

    def check(self, damaged):
        whole = set(self.marks) - damaged
        with self.told():
            harness.wait_until(lambda: sum(node.owned() for node in self.nodes) == len(whole), fault_case.READY_S,
                               "the others have owners")
        for node in self.nodes:
            harness.wait_until(lambda node=node: all(self.ask(node, partition) == 200 for partition in whole),
                               fault_case.READY_S, "the others answer")  # one may be on its way to another node
            self.assertEqual({partition: 503 for partition in damaged}, {p: self.ask(node, p) for p in damaged})
        print(f"{len(whole)} partitions answer, {len(damaged)} refuse", flush=True)

    def ask(self, node, partition):
        return node.daemon.call("GET", f"/v1/timers/{self.marks[partition]}")[0]

    def stop_all(self):
        for node in self.nodes:
            node.end(signal.SIGTERM)
            node.lose_the_disk()

    def start_all(self):
        for node in self.nodes:
            node.start()

    def test_records_are_deleted(self):
        self.stop_all()
        print("deleted up to", self.brokers.tool("trim", "shop.log", str(DAMAGED)).strip(), flush=True)
        began = time.monotonic()
        self.start_all()
        self.await_told({DAMAGED}, began)
        self.check({DAMAGED})

    def test_the_topic_is_made_anew(self):
        self.brokers.tool("remove", "shop.log")

        def make():
            try:
                self.brokers.tool("create", "shop.log", str(fault_case.PARTITIONS), *SETTINGS)
            except RuntimeError as error:
                self.assertIn("exist", str(error))  # the old one still goes
                return False
            return True
        harness.wait_until(make, 60, "the topic is there again")
        self.await_told(set(self.marks), time.monotonic())
        self.check(set(self.marks))

    def test_a_byte_is_flipped(self):
        self.stop_all()
        for member in self.brokers.members:
            member.process.send_signal(signal.SIGTERM)
        for member in self.brokers.members:
            member.process.wait(60)
            flip(os.path.join(member.folder, "data", f"shop.log-{DAMAGED}", "00000000000000000000.log"))
        for member in self.brokers.members:
            member.launch()
        for member in self.brokers.members:
            member.await_ready(120)
        began = time.monotonic()
        self.start_all()
        self.await_told({DAMAGED}, began)
        self.check({DAMAGED})


if __name__ == "__main__":
    fault_case.main()
