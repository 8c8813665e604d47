#!/usr/bin/env python3
"""Goal: when the PostgreSQL server of the log is killed, or stands still, and its synchronous standby is promoted, nothing that
was acknowledged is lost, and all goes on at the new primary. Method: rounds of kill -9, or of SIGSTOP and then kill -9, of the
primary under load; the promotion follows a second later, as an operator's tool would do it, and a new standby after that."""

import signal
import time

import fault_case
import load

ROUNDS = 20
NOTICED_S = 1  # until the standby is promoted
SETTLE_S = 10  # from the fault on, lateness is that of the fault


class PrimaryTest(fault_case.FaultCase):
    logs = ("postgres",)

    def lose_the_primary(self, number):
        began_us, primary = load.now_us(), self.brokers.primary
        if number % 2 == 0:
            primary.stop(signal.SIGKILL)
        else:
            primary.freeze()
        time.sleep(NOTICED_S)
        if number % 2:
            primary.kill()
        self.brokers.switch()
        self.await_owners(self.nodes, "all partitions have owners")
        self.met(began_us, began_us + SETTLE_S * 1000000, set(range(fault_case.PARTITIONS)))
        time.sleep(max(0, SETTLE_S - (load.now_us() - began_us) / 1e6))  # the next fault is another one

    def test_primary(self):
        for rounds in self.groups(ROUNDS):
            with self.load():
                for number in rounds:
                    self.be_busy()
                    self.lose_the_primary(number)
        self.figures.show("the primary killed, its standby promoted")
        print(f"pauses: {fault_case.seconds(self.figures.pauses_s)}", flush=True)
        self.assertLessEqual(max(self.figures.pauses_s, default=0), SETTLE_S)


if __name__ == "__main__":
    fault_case.main()
