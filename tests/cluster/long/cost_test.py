#!/usr/bin/env python3
"""Goal: the unit costs by which docs/cluster.md sizes a cluster. Method: three nodes with a standby for each partition on three
brokers take a million timers in batches, fire some of them, and then begin with empty disks; printed are the processor time of
brokers and nodes for each timer, the bytes of the log and of the nodes' disks, and the rows that are restored in a second.
Processor time depends less on other work of the machine than rates do.

    TEST_TIMERS=N    timers; a third of them fire
"""

import glob
import os
import signal
import time

import fault_case
import harness
import speed_test

TIMERS = fault_case.timers(900000) // 3000 * 3000
FIRED = TIMERS // 3
DUE_S = 60  # longer than the creates take
WARM_S, IDLE_S = 30, 20
TICKS = os.sysconf("SC_CLK_TCK")


def processor_s(processes):
    """User and system time of processes since they began."""
    total = 0
    for process in processes:
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def bytes_below(*patterns):
    found = 0
    for pattern in patterns:
        for path in glob.glob(pattern, recursive=True):
            try:
                found += os.path.getsize(path) if os.path.isfile(path) else 0
            except FileNotFoundError:
                pass  # storage files come and go
    return found


class CostTest(fault_case.FaultCase):
    logs = ("kafka",)

    node_flags = ("--cluster-sweep-bytes-min", "0")  # the log keeps all, so that its bytes can be counted

    def sample(self):
        return {"at": time.monotonic(),
                "brokers": processor_s([member.process for member in self.brokers.members]),
                "nodes": processor_s([node.daemon.process for node in self.nodes]),
                "log": bytes_below(os.path.join(self.brokers.members[0].folder, "data", "shop.log-*", "*.log")),
                "disks": bytes_below(*(os.path.join(node.data, "**") for node in self.nodes))}

    def cost(self, what, count, before):
        """Of each of `count` timers, since `before`, beyond the time of processors without load."""
        after = self.sample()
        took = after["at"] - before["at"]
        each = {name: (after[name] - before[name] - self.idle.get(name, 0) * took) / count for name in after}
        print(f"{what}: {count} timers; processor of the three brokers {each['brokers'] * 1e6:.1f} us each, of the three nodes "
              f"{each['nodes'] * 1e6:.1f} us; {each['log']:.0f} bytes of the log on each broker, {each['disks']:.0f} bytes on "
              "the disks of the nodes, two copies", flush=True)
        return after

    def fill(self, count, due_s):
        """How many: the client warms up with some more."""
        before = self.settled()
        clients = [speed_test.load_client(node.daemon, "batch:4:1000", "--units", count // len(self.nodes), "--due-from", due_s,
                                          "--due-to", due_s, "--target", "log:cost") for node in self.nodes]
        list(speed_test.finish(clients))
        return int(self.settled() - before)

    def test_costs(self):
        self.idle = {}
        time.sleep(WARM_S)  # Java compiles
        before = self.sample()
        time.sleep(IDLE_S)  # what goes on without timers
        idle = self.sample()
        self.idle = {name: (idle[name] - before[name]) / IDLE_S for name in ("brokers", "nodes")}
        print(f"idle: brokers {self.idle['brokers']:.3f} processors, nodes {self.idle['nodes']:.3f}", flush=True)
        kept = self.fill(TIMERS - FIRED, 86400)
        after = self.cost("created in batches of 1,000, due in a day", kept, idle)
        fired = self.fill(FIRED, DUE_S)
        after = self.cost(f"created in batches of 1,000, due in {DUE_S} s", fired, after)
        harness.wait_until(lambda: self.pending() == kept, 300, "all have fired")
        self.cost("fired to a log target", fired, after)
        self.restore(kept + 2 * fired)

    def restore(self, rows):
        """Rows of the log: each timer, and the end of each that fired."""
        for node in self.nodes:
            node.end(signal.SIGKILL)
            node.lose_the_disk()
        began, brokers_s = time.monotonic(), processor_s([member.process for member in self.brokers.members])
        for node in self.nodes:
            node.start()
        self.await_owners(self.nodes, "all have owners")
        took = time.monotonic() - began
        nodes_s = processor_s([node.daemon.process for node in self.nodes])
        brokers_s = processor_s([member.process for member in self.brokers.members]) - brokers_s
        print(f"restored from the log: {took:.1f} s, {rows / took:,.0f} rows/s; {nodes_s / rows * 1e6:.1f} us of the nodes for "
              f"each row of the log, {brokers_s / rows * 1e6:.1f} us of the brokers", flush=True)


if __name__ == "__main__":
    fault_case.main()
