#!/usr/bin/env python3
"""Three nodes with their log on PostgreSQL and a synchronous standby: creates in batches to all of them, and single ones at a
steady rate.

    cluster.py [--seconds N] [--rate N]

CPU is that of the nodes and of the primary's sessions, for each create: it depends less on other work of the machine than
rates and times do. TMPDIR=/dev/shm leaves the disk out.
"""

import argparse
import http.client
import json
import os
import subprocess
import time

os.environ.setdefault("TEST_BUILD", "build/release")
from peers import harness
import cluster_nodes
import postgres_servers
from outbox import cpu_seconds

PARTITIONS = 24
BODY = json.dumps({"after": "1d", "target": "https://shop.example/recheck", "payload": "x" * 200})


class Cost:
    """CPU of nodes and sessions, and the primary's transactions and log, since it was made."""

    def __init__(self, primary, nodes):
        self.primary, self.nodes = primary, [node.daemon.process.pid for node in nodes]
        self.sessions = list(map(int, primary.ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'tickwheel'").split()))
        self.before, self.began = self.look(), time.monotonic()

    def look(self):
        return (sum(map(cpu_seconds, self.nodes)) * 1e6, sum(map(cpu_seconds, self.sessions)) * 1e6,
                int(self.primary.ask("SELECT (pg_current_wal_lsn() - '0/0')::int8")),
                int(self.primary.ask(f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{self.primary.database}'")))

    def of(self, creates):
        nodes, sessions, written, transactions = (now - then for now, then in zip(self.look(), self.before))
        return (f"for each create {nodes / creates:.1f} µs of CPU of the nodes, {sessions / creates:.1f} of the server, "
                f"{written / creates:.0f} bytes of its log; {transactions / (time.monotonic() - self.began):.0f} transactions a second; "
                f"load {os.getloadavg()[0]:.0f}")


def batches(primary, nodes, seconds):
    cost = Cost(primary, nodes)
    clients = [subprocess.Popen([harness.find("load_client"), "--port", str(node.daemon.port), "--run", "batch:2:1000", "--seconds",
                                 str(seconds), "--warm", "1", "--due-from", "86400", "--due-to", "90000", "--number", f"{node.number}000000000"],
                                stdout=subprocess.PIPE, text=True) for node in nodes]
    results = [json.loads(client.communicate(timeout=600)[0]) for client in clients]
    rate = sum(run["units"] / result["seconds"] for result in results for run in result["runs"])
    made = sum(node.daemon.metric("tickwheel_timers_pending") for node in nodes)
    print(f"batches of 1,000 over 2 connections to each node: {rate:.0f} creates a second; {cost.of(made)}", flush=True)


def single(primary, nodes, rate, seconds):
    cost, times, count = Cost(primary, nodes), [], rate * seconds
    connections = [http.client.HTTPConnection("127.0.0.1", node.daemon.port, timeout=60) for node in nodes]
    began = time.monotonic()
    for i in range(count):
        time.sleep(max(0, began + i / rate - time.monotonic()))
        sent, connection = time.monotonic(), connections[i % len(connections)]
        connection.request("POST", "/v1/timers", BODY, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 201, answer.status
        times.append((time.monotonic() - sent) * 1000)
    times.sort()
    print(f"single creates, {count / (time.monotonic() - began):.0f} a second: p50 {times[count // 2]:.2f} ms, "
          f"p99 {times[count * 99 // 100]:.2f} ms; {cost.of(count)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=200)
    options = parser.parse_args()
    with postgres_servers.Pair() as pair:
        nodes = [cluster_nodes.Node(number, pair.brokers(), "--partitions", str(PARTITIONS), "--cluster-listen", "127.0.0.1:0")
                 for number in (1, 2, 3)]
        try:
            created = nodes[0].run("--cluster-create")
            assert created.returncode == 0, created.stderr
            for node in nodes:
                node.start()
            cluster_nodes.await_shares(nodes, PARTITIONS, 120, "the start")
            single(pair.primary, nodes, options.rate, options.seconds)
            batches(pair.primary, nodes, options.seconds)
        finally:
            for node in nodes:
                node.close()


if __name__ == "__main__":
    main()
