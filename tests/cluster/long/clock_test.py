#!/usr/bin/env python3
"""Goal: a node whose clock is wrong by 0.4 s works, and fires early by no more than the bound of 500 ms; one whose clock is wrong
by an hour owns nothing. Method: a layer below one node plays its clock (tests/crash/layer); the receiver's clock is right."""

import signal
import sys

import fault_case
import faults as layer
import harness
import load

EARLY_MS_MAX = 500
NOTHING_S_MAX = 5
LITTLE_MS, MUCH_MS = 400, 3600 * 1000


class ClockTest(fault_case.FaultCase):
    def make_node(self, number):
        node = super().make_node(number)
        if number == 1:
            self.layer = layer.Faults()
            self.addCleanup(self.layer.close)
            node.env = {**self.layer.env(has_disk=False), "TICKWHEEL_CLUSTER_SECRET":
                        node.env["TICKWHEEL_CLUSTER_SECRET"]}
        return node

    def set_clock(self, ms):
        self.layer.set("clock_offset_ns", ms * 1000000)

    def judge(self, verdict):
        """Early is here what is earlier than the clocks may differ."""
        early_ms = [due - arrival.at_us / 1000 for timer_id, arrivals in load.arrived(self.receiver).items()
                    for arrival in arrivals if (timer := self.record.timers.get(timer_id)) and len(timer.dues) == 1
                    for due, _, _ in timer.dues]
        self.early_ms = max(early_ms)
        print(f"the earliest webhook was {self.early_ms:.0f} ms early; {len(verdict.early)} timers early at all", flush=True)
        verdict.early = [] if self.early_ms <= self.early_ms_max else verdict.early
        super().judge(verdict)

    def test_a_little_wrong(self):
        """Its clock steps under load, and it keeps its share."""
        self.early_ms_max = EARLY_MS_MAX
        for ms in (LITTLE_MS, -LITTLE_MS):
            with self.load():
                self.set_clock(ms)
                for _ in range(6):
                    self.be_busy()
                self.assertEqual(self.nodes[0].owned(), fault_case.PARTITIONS / fault_case.NODES)
            self.assertGreater(self.early_ms, ms / 2, "no timer was on that node")
            self.set_clock(0)
        self.figures.show("a clock wrong by 0.4 s")

    def test_wrong_at_the_start(self):
        """The node follows, and owns nothing, until its clock is right."""
        self.early_ms_max = 0
        for ms in (MUCH_MS, -MUCH_MS):
            self.nodes[0].end(signal.SIGTERM)
            self.set_clock(ms)
            with self.load():
                self.nodes[0].start()
                for _ in range(4):
                    self.be_busy()
                    self.assertEqual(self.nodes[0].owned(), 0)
            self.set_clock(0)
            self.await_shares("its clock is right")
        self.figures.show("a clock wrong by an hour at the start")

    def test_wrong_on_the_way(self):
        """What an hour's step forward made due is fired before the node knows; then it owns nothing. A step back delays."""
        for ms in (-MUCH_MS, MUCH_MS):
            self.early_ms_max = max(ms, 0)
            with self.load():
                self.be_busy()
                began_us = load.now_us()
                self.set_clock(ms)
                harness.wait_until(lambda: self.nodes[0].owned() == 0, fault_case.READY_S, "it owns nothing")
                took_s = (load.now_us() - began_us) / 1e6
                print(f"a step of {ms // 1000} s: the node owned nothing after {took_s:.1f} s", flush=True)
                self.await_owners(self.nodes[1:], "the others own all")
            self.assertLessEqual(took_s, NOTHING_S_MAX)
            self.set_clock(0)
            self.await_shares("its clock is right")
        self.figures.show("a clock that steps by an hour")


if __name__ == "__main__":
    if why := layer.can_preload():
        print(f"Skipped: {why}")
        sys.exit(fault_case.SKIPPED)
    fault_case.main()
