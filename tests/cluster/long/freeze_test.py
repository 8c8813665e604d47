#!/usr/bin/env python3
"""Goal: a node that was stopped for 0.2 to 60 s does nothing by its old ownership when it wakes: it delivers nothing, answers
no read with what is past, and what it appends is refused. Method: rounds of SIGSTOP and SIGCONT under load. Webhooks of an
epoch below one that was seen are counted. While a node stands still, registers (timers by key) are written through the others,
and then the sleeper is asked for them; its answers must show what was written, or be refusals."""

import json
import os
import signal
import time

import fault_case
import harness
import load

ROUNDS = 200
STOP_S_MAX = float(os.environ.get("TEST_STOP_S_MAX", "60"))
REGISTERS = [f"register-{i}" for i in range(2 * fault_case.PARTITIONS)]


class FreezeTest(fault_case.FaultCase):
    def write(self, number):
        """All registers, through nodes that are awake; answers those that were acknowledged."""
        written = set()
        for key in REGISTERS:
            node = self.chance.choice([node for node in self.nodes if node not in self.away])
            body = {"after": "24h", "target": "log:register", "payload": number}
            if node.daemon.call("PUT", f"/v1/keys/{key}/timer", body)[0] in (200, 201):
                written.add(key)
        return written

    def read_later(self, node, keys):
        """Sends a read of each to the node that sleeps; a function that takes the answers."""
        asked = []
        for key in keys:
            connection = node.daemon.connect(fault_case.ANSWER_S)
            connection.request("GET", f"/v1/keys/{key}/timer")
            asked.append(connection)

        def answers():
            for connection in asked:
                with connection.getresponse() as response:
                    yield response.status, json.loads(response.read())
                connection.close()
        return answers

    def freeze(self, number):
        node = self.chance.choice(self.nodes)
        partitions, others = self.owned_by(node), self.others(node)
        stop_s = 0.2 * (STOP_S_MAX / 0.2) ** self.chance.random()
        began_us, until = load.now_us(), time.monotonic() + stop_s
        self.away.add(node)
        node.daemon.process.send_signal(signal.SIGSTOP)
        try:
            while time.monotonic() < until and sum(each.owned() for each in others) < fault_case.PARTITIONS:
                time.sleep(0.02)
            is_replaced = time.monotonic() < until
            self.met(began_us, load.now_us(), partitions)
            keys = self.write(number) if is_replaced else set()
            answers = self.read_later(node, keys)
            time.sleep(max(0, until - time.monotonic()))  # how long it stands still
        finally:
            node.daemon.process.send_signal(signal.SIGCONT)
        for status, answer in answers():
            self.answered[status] = self.answered.get(status, 0) + 1
            self.stale += status != 503 and answer.get("payload") != number
        self.replaced += is_replaced
        self.away.discard(node)
        self.await_shares("the sleeper has its share")

    def test_freeze(self):
        self.answered, self.stale, self.replaced = {}, 0, 0
        for rounds in self.groups(ROUNDS):
            with self.load():
                for number in rounds:
                    self.be_busy()
                    self.freeze(number + 1)
            print(f"replaced {self.replaced} times; answers of sleepers by status {self.answered}, of the past {self.stale}",
                  flush=True)
        refused = sum(node.daemon.metric("tickwheel_cluster_records_refused_total") for node in self.nodes)
        self.figures.show("SIGSTOP of a node")
        print(f"reads of sleepers: {self.answered}, of the past {self.stale}; records of former owners, as three nodes saw "
              f"them: {refused:.0f}", flush=True)
        self.assertEqual((self.stale, self.figures.superseded), (0, 0))


if __name__ == "__main__":
    fault_case.main()
