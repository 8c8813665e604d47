#!/usr/bin/env python3
"""A million timers, due in 30 to 90 minutes, into Tickwheel, beanstalkd and PostgreSQL, in one run.

For each: the rate of acknowledged creates, what a timer takes of memory and disk, and how long it takes
from the start after a kill -9 until it serves again. Everybody gets the same 100-byte payloads in the form
that suits it best: NDJSON batches of 10,000 lines; pipelined `put`s; COPY into a table with an index on the
due time, 10,000 rows a transaction and all in one.

    compare.py [--timers N] [--connections N] [--only tickwheel,beanstalkd,postgresql]
               [--flags "--storage-memtable-bytes 16M"]
"""

import argparse
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "support"))
os.environ.setdefault("TEST_BUILD", "build/release")
import harness
import peers

BATCH = 10000
PAYLOAD = '"' + "x" * 98 + '"'
POSTGRES = "/usr/lib/postgresql/15/bin"


def disk_bytes(folder):
    return sum(os.lstat(os.path.join(root, name)).st_blocks * 512
               for root, _, names in os.walk(folder) for name in names)


def resident_bytes(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def delays_s(count):
    chance = random.Random(1)
    return [chance.randrange(30 * 60, 90 * 60) for _ in range(count)]


class Row:
    def __init__(self, name):
        self.name, self.cells = name, {}

    def set(self, **cells):
        self.cells.update(cells)


def parallel(work, shares):
    """Runs work(share) for each share on a thread of its own; the time they take together."""
    failures = []

    def run(share):
        try:
            work(share)
        except Exception as failure:
            failures.append(failure)
    threads = [threading.Thread(target=run, args=(share,)) for share in shares]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.monotonic() - began


# ---- Tickwheel ----

def read_response(file):
    status = int(file.readline().split()[1])
    size = 0
    while (line := file.readline().strip()):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
    return status, file.read(size)


def tickwheel(count, connections, flags):
    row = Row("tickwheel, NDJSON batches, synced")
    folder = tempfile.mkdtemp(prefix="tickwheel-bench-")
    now_ms = int(time.time() * 1000)
    delays = delays_s(count)
    requests = []
    for first in range(0, count, BATCH):
        body = "".join(
            f'{{"at":{now_ms + delay * 1000},"target":"http://127.0.0.1:9/recheck",'
            f'"payload":{PAYLOAD}}}\n' for delay in delays[first:first + BATCH]).encode()
        requests.append(b"POST /v1/timers/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                        b"application/x-ndjson\r\nPrefer: return=minimal\r\nContent-Length: "
                        + str(len(body)).encode() + b"\r\n\r\n" + body)
    times = []

    def send(share):
        with socket.create_connection(("127.0.0.1", daemon.port)) as connection:
            file = connection.makefile("rb")
            for request in share:
                began = time.monotonic()
                connection.sendall(request)
                status, answer = read_response(file)
                times.append(time.monotonic() - began)
                if status != 200 or b'"failed":0' not in answer.replace(b" ", b""):
                    raise RuntimeError(f"{status} {answer[:300]}")

    with harness.Daemon(folder, *flags) as daemon:
        harness.wait_until(daemon.is_ready, 20, "ready")
        idle = resident_bytes(daemon.process.pid)
        seconds = parallel(send, [requests[i::connections] for i in range(connections)])
        pending = harness.wait_until(
            lambda: daemon.metric("tickwheel_timers_pending") == count, 10, "all counted")
        assert pending
        row.set(rate=count / seconds, p99=harness.percentile(times, 0.99),
                memory=(resident_bytes(daemon.process.pid) - idle) / count,
                resident=resident_bytes(daemon.process.pid), disk=disk_bytes(folder) / count)
        daemon.signal(signal.SIGKILL)
    began = time.monotonic()
    with harness.Daemon(folder, *flags) as daemon:
        harness.wait_until(daemon.is_ready, 60, "ready")
        row.set(restart=time.monotonic() - began)
        assert daemon.metric("tickwheel_timers_pending") == count
        daemon.signal(signal.SIGTERM)
        row.set(disk=disk_bytes(folder) / count)
    shutil.rmtree(folder)
    return row


# ---- beanstalkd ----

def beanstalkd(name, count, connections, flags):
    row = Row(name)
    folder = tempfile.mkdtemp(prefix="beanstalkd-bench-")
    puts = [b"put 0 %d 60 100\r\n%s\r\n" % (delay, PAYLOAD.encode()) for delay in delays_s(count)]

    def send(share):
        with server.connect() as connection:
            file = connection.makefile("rb")
            for first in range(0, len(share), 1000):
                group = share[first:first + 1000]
                connection.sendall(b"".join(group))
                for _ in group:
                    if not file.readline().startswith(b"INSERTED"):
                        raise RuntimeError("beanstalkd refused a job")

    with peers.Beanstalkd(folder, flags) as server:
        server.connect().close()
        idle = resident_bytes(server.process.pid)
        seconds = parallel(send, [puts[i::connections] for i in range(connections)])
        row.set(rate=count / seconds, memory=(resident_bytes(server.process.pid) - idle) / count,
                resident=resident_bytes(server.process.pid), disk=disk_bytes(folder) / count)
        server.signal(signal.SIGKILL)
    began = time.monotonic()
    with peers.Beanstalkd(folder, flags) as server:
        with server.connect() as connection:
            connection.sendall(b"stats\r\n")
            connection.makefile("rb").readline()
            row.set(restart=time.monotonic() - began)
    shutil.rmtree(folder)
    return row


# ---- PostgreSQL ----

class Postgres:
    """A cluster of its own in a folder of its own, reached by its socket there; it refuses to run as root."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.user:
            os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
        self.run(f"{POSTGRES}/initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "postgres")

    def run(self, *command, **options):
        return subprocess.run([*self.user, *command], check=True, cwd="/", capture_output=True,
                              text=True, **options).stdout

    def start(self):
        self.process = subprocess.Popen(
            [*self.user, f"{POSTGRES}/postgres", "-D", f"{self.folder}/data", "-k", self.folder,
             "-c", "listen_addresses=", "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB"],
            cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def answers():
            return subprocess.run(
                [*self.user, f"{POSTGRES}/psql", "-h", self.folder, "-U", "postgres", "-Atc",
                 "SELECT 1"], cwd="/", capture_output=True, check=False).returncode == 0
        harness.wait_until(answers, 60, "PostgreSQL")

    def sql(self, text, stdin=None):
        return self.run(f"{POSTGRES}/psql", "-h", self.folder, "-U", "postgres", "-qAtv",
                        "ON_ERROR_STOP=1", "-c", text, stdin=stdin)

    def file(self, path):
        return self.run(f"{POSTGRES}/psql", "-h", self.folder, "-U", "postgres", "-qAtv",
                        "ON_ERROR_STOP=1", "-f", path)

    def stop(self, number):
        with open(f"{self.folder}/data/postmaster.pid") as file:
            os.kill(int(file.readline()), number)
        self.process.wait(60)


TABLE = ("CREATE TABLE timers (id bigint PRIMARY KEY, due timestamptz NOT NULL, target text NOT NULL, "
         "payload text NOT NULL); CREATE INDEX ON timers (due);")


def postgresql(count, rows_per_copy, name):
    row = Row(name)
    folder = tempfile.mkdtemp(prefix="postgresql-bench-")
    os.chmod(folder, 0o755)
    server = Postgres(folder)
    script = f"{folder}/copy.sql"
    delays = delays_s(count)
    now = int(time.time())
    with open(script, "w") as file:
        for first in range(0, count, rows_per_copy):
            file.write("COPY timers FROM STDIN;\n")
            for i, delay in enumerate(delays[first:first + rows_per_copy], first):
                due = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now + delay))
                file.write(f"{i}\t{due}\thttp://127.0.0.1:9/recheck\t{PAYLOAD}\n")
            file.write("\\.\n")
    os.chmod(script, 0o644)
    server.start()
    server.sql(TABLE)
    began = time.monotonic()
    server.file(script)
    seconds = time.monotonic() - began
    row.set(rate=count / seconds,
            disk=int(server.sql("SELECT pg_total_relation_size('timers')")) / count)
    server.stop(signal.SIGKILL)
    began = time.monotonic()
    server.start()
    row.set(restart=time.monotonic() - began)
    assert int(server.sql("SELECT count(*) FROM timers")) == count
    server.stop(signal.SIGINT)
    shutil.rmtree(folder)
    return row


# ---- the floor ----

def floor(count):
    """Append 232 bytes a timer to a file and sync it, in groups of 10,000."""
    row = Row("floor: append and fdatasync, groups of 10,000")
    block = b"\0" * (232 * BATCH)
    with tempfile.TemporaryFile() as file:
        began = time.monotonic()
        for _ in range(count // BATCH):
            file.write(block)
            file.flush()
            os.fdatasync(file.fileno())
        row.set(rate=count / (time.monotonic() - began), disk=232)
    return row


def show(rows):
    columns = [("creates/s", "rate", "{:,.0f}"), ("p99 of a batch, s", "p99", "{:.3f}"),
               ("memory B/timer", "memory", "{:.0f}"), ("resident MiB", "resident", None),
               ("disk B/timer", "disk", "{:.0f}"), ("restart s", "restart", "{:.2f}")]
    print("| | " + " | ".join(title for title, _, _ in columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for row in rows:
        cells = []
        for _, key, form in columns:
            value = row.cells.get(key)
            if value is None:
                cells.append("")
            elif key == "resident":
                cells.append(f"{value / 2 ** 20:.0f}")
            else:
                cells.append(form.format(value))
        print(f"| {row.name} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timers", type=int, default=1000000)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--only", default="tickwheel,beanstalkd,postgresql")
    parser.add_argument("--flags", default="", help="settings for tickwheeld, in one argument")
    options = parser.parse_args()
    only, count = options.only.split(","), options.timers
    rows = [floor(count)]
    if "tickwheel" in only:
        runs = sorted((tickwheel(count, options.connections, options.flags.split()) for _ in range(3)),
                      key=lambda row: row.cells["rate"])
        rows.append(runs[1])
        print("tickwheel, three runs:", ", ".join(
            f"{run.cells['rate']:,.0f}/s and {run.cells['restart']:.2f} s" for run in runs))
    if "beanstalkd" in only:
        rows.append(beanstalkd("beanstalkd, default (sync each 50 ms)", count,
                               options.connections, []))
        rows.append(beanstalkd(f"beanstalkd -f0, {count // 10:,} timers", count // 10,
                               options.connections, ["-f0"]))
    if "postgresql" in only:
        rows.append(postgresql(count, BATCH, "PostgreSQL, COPY of 10,000 a transaction"))
        rows.append(postgresql(count, count, "PostgreSQL, one COPY"))
    show(rows)


if __name__ == "__main__":
    main()
