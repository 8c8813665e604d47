#!/usr/bin/env python3
"""Three nodes with their log on PostgreSQL and a synchronous standby: creates in batches to all of them, and single ones at a
steady rate; or the size of the log's table, while timers that soon end are made at a steady rate.

    cluster.py [--seconds N] [--rate N]
    cluster.py --table SECONDS [--table-rate N] [--sweep-bytes-min SIZE] [--sweep-factor N] [--retain TIME]
               [--cancelled PERCENT]

CPU is that of the nodes and of the primary's sessions, for each create: it depends less on other work of the machine than
rates and times do. TMPDIR=/dev/shm leaves the disk out.
"""

import argparse
import collections
import http.client
import json
import os
import subprocess
import threading
import time

os.environ.setdefault("TEST_BUILD", "build/release")
from peers import harness
import cluster_nodes
import postgres_servers
from outbox import cpu_seconds

PARTITIONS, COPIES = 24, 2  # a partition has an owner and a standby
CREATORS = 4  # connections to each node
BATCH, EVENTS = 1000, 4  # timers of a batch, and batches whose timers one call cancels
CANCEL_S, DUE_S, SAMPLE_S = 20, 60, 30  # seconds
PAYLOADS = [os.urandom(50).hex() for _ in range(BATCH)]  # the server compresses equal ones
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


class Churn:
    """Makes batches at a steady rate, whichever the answers. CANCEL_S later a part of each batch is cancelled by an event; the
    others fire after DUE_S."""

    def __init__(self, nodes, rate, percent):
        self.gap_s, self.cancels = BATCH / rate, BATCH * percent // 100
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.began, self.begun = time.monotonic(), 0
        self.made = self.cancelled = self.refused = self.doubtful = 0
        self.late_s = 0.0  # the longest that a batch began after its time, since the last sample
        self.waves = collections.deque()  # when to cancel, and the event
        self.threads = [threading.Thread(target=self.work, args=(node, what), daemon=True) for node in nodes
                        for what in [self.create] * CREATORS + [self.cancel] * (CREATORS if percent else 0)]
        for thread in self.threads:
            thread.start()

    def work(self, node, what):
        connection = node.daemon.connect()
        while not self.stop.is_set():
            what(node.daemon, connection)

    def create(self, daemon, connection):
        with self.lock:
            number, self.begun = self.begun, self.begun + 1
        at = self.began + number * self.gap_s
        if self.stop.wait(max(0.0, at - time.monotonic())):
            return
        self.late_s = max(self.late_s, time.monotonic() - at)
        watch = f', "watch": ["wave-{number}"]'
        body = "".join(f'{{"after": "{DUE_S}s", "target": "log:churn", "payload": "{payload}"'
                       f'{watch if i < self.cancels else ""}}}\n' for i, payload in enumerate(PAYLOADS))
        status, _, answer = daemon.call("POST", "/v1/timers/batch", body,
                                        {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}, connection)
        # An answer that was begun ends with a problem if the node cannot go on.
        created = json.loads(answer.splitlines()[-1]).get("created", 0) if status == 200 else 0
        with self.lock:
            self.made += created
            self.refused += BATCH - created
            self.waves.append((time.monotonic() + CANCEL_S, f"wave-{number}"))

    def cancel(self, daemon, connection):
        if self.stop.wait(0.3):
            return
        with self.lock:
            events = []
            while self.waves and self.waves[0][0] < time.monotonic() and len(events) < EVENTS:
                events.append(self.waves.popleft()[1])
        if not events:
            return
        status, _, answer = daemon.call("POST", "/v1/watch/complete", {"watch": events}, connection=connection)
        with self.lock:
            if status == 200:
                self.cancelled += answer["cancelled"]
            else:  # a part may be done
                self.doubtful += len(events)
                self.waves.extend((time.monotonic() + 1, event) for event in events)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def table(primary, nodes, options):
    """The size of the log's table, and what it is made of, each SAMPLE_S."""
    stats = """SELECT pg_total_relation_size(c.oid) >> 20, sum(s.n_live_tup), sum(s.n_dead_tup), sum(s.autovacuum_count)
               FROM pg_class c JOIN pg_stat_all_tables s ON s.relid IN (c.oid, c.reltoastrelid)
               WHERE c.oid = 'tickwheel_log'::regclass GROUP BY c.oid"""
    seconds, most, cost = options.table, 0, Cost(primary, nodes)
    churn = Churn(nodes, options.table_rate, options.cancelled)

    def metric(name):
        return sum(node.daemon.metric(f"tickwheel_{name}") for node in nodes)
    while time.monotonic() - churn.began < seconds:
        time.sleep(min(SAMPLE_S, max(0.0, churn.began + seconds - time.monotonic())))
        megabytes, live, dead, vacuums = map(int, primary.look(stats).split("|"))
        most = max(most, megabytes)
        print(f"  {time.monotonic() - churn.began:.0f} s: {churn.made} made, {churn.refused} refused, {churn.cancelled} cancelled "
              f"({churn.doubtful} events again), {metric('timers_fired_total'):.0f} fired, "
              f"{metric('timers_pending'):.0f} pending, batches at most {churn.late_s:.1f} s late; table {megabytes} MB, "
              f"records since the last sweeps {metric('cluster_log_bytes') / COPIES / 1e6:.0f} MB; "
              f"tuples {live} live, {dead} dead; {vacuums} autovacuums, "
              f"{metric('cluster_sweeps_total'):.0f} sweeps of {metric('cluster_sweep_rows_total'):.0f} rows, "
              f"{metric('cluster_trims_total'):.0f} trims; load {os.getloadavg()[0]:.0f}", flush=True)
        churn.late_s = 0.0
    churn.end()
    print(f"{churn.made / seconds:.0f} timers a second for {seconds} s, {churn.cancelled} of {churn.made} cancelled: "
          f"the table had {most} MB at most; {cost.of(churn.made)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--table", type=int, default=0)
    parser.add_argument("--table-rate", type=int, default=50000)
    parser.add_argument("--sweep-bytes-min", default="256M")
    parser.add_argument("--sweep-factor", default="2")
    parser.add_argument("--retain", default="1h")
    parser.add_argument("--cancelled", type=int, default=0)
    options = parser.parse_args()
    with postgres_servers.Pair() as pair:
        nodes = [cluster_nodes.Node(number, pair.brokers(), "--partitions", str(PARTITIONS), "--cluster-listen", "127.0.0.1:0",
                                    "--cluster-sweep-bytes-min", options.sweep_bytes_min,
                                    "--cluster-sweep-factor", options.sweep_factor, "--retain", options.retain,
                                    under=("sh", "-c", 'exec "$@" >/dev/null', "sh"))  # without the lines of log: targets
                 for number in (1, 2, 3)]
        try:
            created = nodes[0].run("--cluster-create")
            assert created.returncode == 0, created.stderr
            for node in nodes:
                node.start()
            cluster_nodes.await_shares(nodes, PARTITIONS, 120, "the start")
            if options.table:
                table(pair.primary, nodes, options)
                return
            single(pair.primary, nodes, options.rate, options.seconds)
            batches(pair.primary, nodes, options.seconds)
        finally:
            for node in nodes:
                node.close()


if __name__ == "__main__":
    main()
