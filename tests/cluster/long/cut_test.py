#!/usr/bin/env python3
"""Goal: a node that the network cuts off, from the brokers or from the other nodes, both ways or one, is silent after its lease;
the others have its timers and answer for them, within 5 s. Method: network namespaces, with a router that drops what one host
sends to another. After a cut from the brokers no webhook of the node's epochs may come later than its lease, and what is
written through the others must not be missing in its answers. After a cut from its peers, which leaves it the owner, each
question of the others about its timers has an answer within 5 s, a refusal or not.

It needs root.
"""

import json
import sys
import time

import fault_case

import cluster_nodes
import harness
import load
import namespaces

ROUNDS = 30
LEASE_US = 2000000   # the default of cluster_lease
SLACK_US = 300000    # of a webhook on its way on a busy machine
ANSWER_S_MAX = 5   # cluster_wait is 4.5 s
SETTLE_S = 12
REGISTERS = [f"register-{i}" for i in range(2 * fault_case.PARTITIONS)]
CUTS = {"from the brokers": ("to brokers", "of brokers"), "to the brokers": ("to brokers",),
        "of the brokers": ("of brokers",), "from the peers": ("to peers", "of peers"), "to the peers": ("to peers",),
        "of the peers": ("of peers",)}


class CutTest(fault_case.FaultCase):
    def make_brokers(self, **_):
        self.network = namespaces.Network()
        self.broker_host = self.network.add("brokers")
        self.hosts = [self.network.add(f"node-{number}") for number in range(1, fault_case.NODES + 1)]
        return super().make_brokers(self.broker_host.address, self.broker_host.under)

    def make_node(self, number):
        host = self.hosts[number - 1]
        return cluster_nodes.Node(number, self.brokers.brokers(), *fault_case.FLAGS, "--cluster-listen", f"{host.address}:0", "--listen-unprotected", "yes",
                                  allow="10.77.0.0/16", address=host.address, under=host.under)

    def make_receiver(self):
        return harness.Receiver(address=self.network.address)

    def cut(self, node, ways):
        host, peers = self.hosts[node.number - 1], [self.hosts[other.number - 1] for other in self.others(node)]
        for way in ways:
            for other in [self.broker_host] if "brokers" in way else peers:
                self.network.cut(*((host, other) if way.startswith("to ") else (other, host)))

    def ask(self, node, method, key, body=None):
        """(status, answer, seconds)"""
        began = time.monotonic()
        status, _, answer = node.daemon.call(method, f"/v1/keys/{key}/timer", body)
        return status, answer, time.monotonic() - began

    def write(self, node, number):
        """All registers through a node; those that were acknowledged, and the longest wait for an answer."""
        written, longest = set(), 0
        for key in REGISTERS:
            status, _, took = self.ask(node, "PUT", key, {"after": "24h", "target": "log:register", "payload": number})
            self.assertIn(status, (200, 201, 503))
            longest = max(longest, took)
            if status != 503:
                written.add(key)
        return written, longest

    def check_reads(self, node, written, number):
        for key in written:
            status, answer, took = self.ask(node, "GET", key)
            self.longest_s = max(self.longest_s, took)
            self.answered[status] = self.answered.get(status, 0) + 1
            self.stale += status != 503 and answer.get("payload") != number

    def fill(self, node):
        """Timers of the node that are due when its lease is over, and before it would give up without one."""
        now_ms = int(time.time() * 1000)
        timers = [{"at": now_ms + after_ms, "target": self.receiver.url()} for after_ms in range(2500, 8000, 50)]
        status, _, text = node.daemon.call("POST", "/v1/timers/batch", "".join(json.dumps(each) + "\n" for each in timers),
                                           load.NDJSON)
        self.assertEqual(status, 200, text)
        for timer, line in zip(timers, text.splitlines()):
            if "id" in (made := json.loads(line)):
                self.record.created(made["id"], timer)

    def cut_off(self, number, what):
        node = self.chance.choice(self.nodes)
        other, owned = self.chance.choice(self.others(node)), self.owned_by(node)
        epochs = {row["partition"]: row["epoch"] for row in self.view(node)["partitions"]}
        self.fill(node)
        began_us, until = load.now_us(), time.monotonic() + SETTLE_S
        self.cut(node, CUTS[what])
        is_lost = "brokers" in what
        if is_lost:
            self.await_owners(self.others(node), "the others own all")
            self.met(began_us, load.now_us(), owned)
            self.silent_from.append((began_us + LEASE_US + SLACK_US, {p: epochs[p] for p in owned}))
        written, longest = self.write(other, number)
        self.longest_s = max(self.longest_s, longest)
        if is_lost:
            self.check_reads(node, written, number)
            self.answered_all &= len(written) == len(REGISTERS)
        time.sleep(max(0, until - time.monotonic()))  # how long the network is cut
        self.network.mend()
        self.await_shares("all is mended")

    def judge(self, verdict):
        for arrival in self.receiver.arrivals():
            partition = fault_case.partition_of(harness.timer_id_of(arrival.webhook_id))
            self.loud += any(arrival.at_us > since and arrival.epoch <= epochs.get(partition, -1)
                             for since, epochs in self.silent_from)
        self.silent_from = []
        super().judge(verdict)

    def test_cut(self):
        self.answered, self.stale, self.loud, self.longest_s = {}, 0, 0, 0.0
        self.silent_from, self.answered_all = [], True
        kinds = list(CUTS)
        for rounds in self.groups(ROUNDS):
            with self.load():
                for number in rounds:
                    self.be_busy()
                    print(f"cut {kinds[number % len(kinds)]}", flush=True)
                    self.cut_off(number + 1, kinds[number % len(kinds)])
        self.figures.show("a node cut off")
        print(f"webhooks of a node behind its lease {self.loud}; its answers by status {self.answered}, of the past "
              f"{self.stale}; the longest wait for an answer {self.longest_s:.2f} s", flush=True)
        self.assertEqual((self.loud, self.stale, self.answered_all), (0, 0, True))
        self.assertLessEqual(self.longest_s, ANSWER_S_MAX)
        self.assertLessEqual(harness.percentile(self.figures.late_s, 0.99), 5)


if __name__ == "__main__":
    if why := namespaces.missing():
        print(f"Skipped: {why}")
        sys.exit(fault_case.SKIPPED)
    namespaces.enter()
    fault_case.main()
