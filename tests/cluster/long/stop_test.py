#!/usr/bin/env python3
"""Goal: a clean stop under load is not noticed: no webhook is later than a second, and none comes twice. Method: rounds of
SIGTERM to any of three nodes, which then starts again and gets its share back."""

import signal

import fault_case
import harness
import load

ROUNDS = 100


class StopTest(fault_case.FaultCase):
    def stop(self):
        node = self.chance.choice(self.nodes)
        partitions = self.owned_by(node)
        began_us = load.now_us()
        node.end(signal.SIGTERM)
        self.await_owners(self.others(node), "the others own all")
        self.met(began_us, load.now_us(), partitions)
        began_us = load.now_us()
        node.start()
        self.await_shares("a node is back")
        self.met(began_us, load.now_us(), set(range(fault_case.PARTITIONS)))

    def test_stop(self):
        for rounds in self.groups(ROUNDS):
            with self.load():
                for _ in rounds:
                    self.be_busy()
                    self.stop()
        self.figures.show("clean stop and start of a node")
        self.assertLessEqual(harness.percentile(self.figures.late_s, 0.99), 1)
        self.assertEqual(self.figures.repeats, 0)


if __name__ == "__main__":
    fault_case.main()
