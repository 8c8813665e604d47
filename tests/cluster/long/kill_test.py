#!/usr/bin/env python3
"""Goal: after kill -9 of a node nothing is lost, early, or delivered after an acknowledged end, and its timers come from the
others within five seconds. Method: rounds of kill -9 of any of three nodes under load; each fourth one loses its disk."""

import signal

import fault_case
import harness
import load

ROUNDS = 200


class KillTest(fault_case.FaultCase):
    def kill(self, index):
        node = self.chance.choice(self.nodes)
        partitions, was_planner = self.owned_by(node), self.is_planner(node)
        began_us = load.now_us()
        node.end(signal.SIGKILL)
        self.await_owners(self.others(node), "the others own all")
        until_us = load.now_us()
        self.met(began_us, until_us, partitions)
        self.took[was_planner].append((until_us - began_us) / 1e6)
        if index % 4 == 3:
            node.lose_the_disk()
        node.start()
        self.await_shares("a node is back")

    def test_kill(self):
        self.took = {True: [], False: []}  # by whether the planner died
        for rounds in self.groups(ROUNDS):
            with self.load():
                for index in rounds:
                    self.be_busy()
                    self.kill(index)
            for was_planner, took in self.took.items():
                print(f"others own all after {'the planner' if was_planner else 'another node'} died: "
                      f"{fault_case.seconds(took)} s", flush=True)
        self.figures.show("kill -9 of a node")
        self.assertLessEqual(harness.percentile(self.figures.late_s, 0.5), 3)
        self.assertLessEqual(harness.percentile(self.figures.late_s, 0.99), 4 if fault_case.LOG == "postgres" else 5)


if __name__ == "__main__":
    fault_case.main()
