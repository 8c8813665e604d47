#!/usr/bin/env python3
"""Rows of an outbox in PostgreSQL become timers: what a backlog costs, how long a row takes at a steady rate, how large the
outbox stays, and what an idle reader asks.

    outbox.py [--rows N] [--batch N] [--rate N] [--clients N] [--seconds N] [--idle N] [--fsync off]

CPU is that of the daemon and of the session that it reads with, for each row: it depends less on other work of the
machine than rates and times do. TMPDIR=/dev/shm leaves the disk out.
"""

import argparse
import os
import subprocess
import tempfile
import threading
import time

os.environ.setdefault("TEST_BUILD", "build/release")
from peers import harness
import postgres_servers

TICKS = os.sysconf("SC_CLK_TCK")
INSERT = """INSERT INTO tickwheel.outbox (op, body) SELECT 'schedule', tickwheel.body('https://shop.example/recheck', '1 day', NULL,
json_build_object('order', n, 'note', repeat('x', 80)), NULL) FROM generate_series(1, {}) n"""
SCHEDULE = "SELECT tickwheel.schedule('https://shop.example/recheck', '1 day', payload => '{\"order\": 1}')"


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Bench:
    """A server with an outbox, and the daemon that reads it."""

    def __init__(self, server):
        self.server, self.daemon = server, None
        subprocess.run([harness.find("tickwheel"), "postgres", "init", server.url(), "--apply"], check=True,
                       capture_output=True, timeout=60)

    def start(self, folder):
        self.daemon = harness.Daemon(folder, env={**os.environ, "TICKWHEEL_SOURCES": f"shop={self.server.url()}"})

    def session(self):
        """The process of the reader's session; None while there is none."""
        found = self.server.ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'tickwheeld'")
        return int(found) if found else None

    def transactions(self):
        """Transactions of the database; the sessions that ask for it are in another one."""
        return int(self.server.ask(f"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '{self.server.database}'"))

    def rows(self):
        return self.daemon.metric('tickwheel_source_rows_total{result="taken"}')

    def write(self, count):
        self.server.look(INSERT.format(count))

    def is_empty(self):
        return self.server.look("SELECT count(*) FROM tickwheel.outbox") == "0"

    def kilobytes(self):
        return int(self.server.look("SELECT pg_total_relation_size('tickwheel.outbox') / 1024"))

    def buckets(self):
        """Bounds and counts of the times from write to timer."""
        lines = [line for line in self.daemon.call("GET", "/metrics")[2].splitlines() if line.startswith("tickwheel_source_seconds_bucket")]
        return [(float(line.split('le="')[1].split('"')[0]), int(line.rsplit(" ", 1)[1])) for line in lines]

    def late_ms(self, before, share):
        """The time that this share of the rows since `before` had at most, interpolated in its bucket."""
        counts = [(bound, now - then) for (bound, now), (_, then) in zip(self.buckets(), before)]
        wanted, lower = share * counts[-1][1], (0, 0)
        for bound, count in counts:
            if count >= wanted:
                return 1000 * (lower[0] + (bound - lower[0]) * (wanted - lower[1]) / max(1, count - lower[1]))
            lower = (bound, count)


class Cost:
    """CPU of the daemon and of its session since it was made."""

    def __init__(self, bench, session=None):
        self.bench, self.pids = bench, (bench.daemon.process.pid, session or bench.session())
        self.before = [cpu_seconds(pid) for pid in self.pids]

    def of(self, rows):
        daemon, session = ((cpu_seconds(pid) - then) / rows * 1e6 for pid, then in zip(self.pids, self.before))
        return f"µs of CPU a row: daemon {daemon:.1f}, its session {session:.1f}; load {os.getloadavg()[0]:.0f}"


def backlog(bench, folder, rows):
    for _ in range(0, rows, 100000):
        bench.write(min(rows, 100000))
    bench.server.ask("CHECKPOINT")
    bench.start(folder)
    session = harness.wait_until(bench.session, 60, "the reader connects")
    began, cost = time.monotonic(), Cost(bench, session)
    harness.wait_until(lambda: bench.rows() >= rows, 600, "all rows are taken")
    print(f"{rows} rows that are there: {rows / (time.monotonic() - began):.0f} a second; {cost.of(rows)}", flush=True)


def pgbench(bench, text, seconds, *options):
    """A thread that runs this statement again and again."""
    def run():
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write(text.replace("\n", " ") + ";\n")
            script.flush()
            os.chmod(script.name, 0o644)
            postgres_servers.run("pgbench", "-n", "-T", str(seconds), "-f", script.name, *options, bench.server.url(), seconds=seconds + 120)
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def live(bench, batch, seconds):
    """Two clients write transactions of many rows as quickly as they can, while they are read."""
    before, cost, began = bench.rows(), Cost(bench), time.monotonic()
    pgbench(bench, INSERT.format(batch), seconds, "-c", "2").join()
    harness.wait_until(bench.is_empty, 600, "all rows are taken")
    rows = bench.rows() - before
    print(f"{rows:.0f} rows in transactions of {batch}, written and taken: {rows / (time.monotonic() - began):.0f} a second; {cost.of(rows)}",
          flush=True)


def steady(bench, rate, clients, seconds):
    """Clients write transactions of one row at this rate. One that is late writes its next at once, so the rate holds while
    the clients together can write it. The sizes are those of this rate: what earlier rows took is given back first."""
    bench.server.look("VACUUM FULL tickwheel.outbox")
    before, cost, buckets, most, began = bench.rows(), Cost(bench), bench.buckets(), 0, time.monotonic()
    writer = pgbench(bench, SCHEDULE, seconds, "-M", "prepared", "-c", str(clients), "-R", str(rate))
    while writer.is_alive():
        writer.join(5)
        most = max(most, bench.kilobytes())
        if int(time.monotonic() - began) % 60 < 5:
            print(f"  {time.monotonic() - began:.0f} s: the outbox has {bench.kilobytes()} kB, at most {most}", flush=True)
    rows = bench.rows() - before
    print(f"{rows / seconds:.0f} rows a second of {clients} clients for {seconds} s: from write to timer p50 {bench.late_ms(buckets, 0.5):.1f} ms, "
          f"p99 {bench.late_ms(buckets, 0.99):.1f} ms; the outbox had {most} kB at most; {cost.of(rows)}", flush=True)


def idle(bench, seconds):
    harness.wait_until(bench.is_empty, 60, "the outbox is empty")
    time.sleep(10)
    before = bench.transactions()
    time.sleep(seconds)
    print(f"idle for {seconds} s: {(bench.transactions() - before) / seconds:.2f} transactions a second", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=400000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--idle", type=int, default=30)
    parser.add_argument("--fsync", default="on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tickwheel-bench-") as folder, \
            postgres_servers.Postgres([f"fsync={options.fsync}"]) as server:
        bench = Bench(server)
        try:
            backlog(bench, folder, options.rows)
            live(bench, options.batch, min(options.seconds, 20))
            steady(bench, options.rate, options.clients, options.seconds)
            idle(bench, options.idle)
        finally:
            if bench.daemon:
                bench.daemon.close()


if __name__ == "__main__":
    main()
