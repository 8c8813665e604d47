#!/usr/bin/env python3
"""A slow consumer of each kind: targets that do not answer or do not read, workers that do not acknowledge or do not
read, brokers that stall, clients that read or send very slowly. The daemon's memory stays within a bound that the system
holds it to, and somebody else is served meanwhile.

    TEST_SIZE=full   many of each, for longer
    python3 tests/bounds/slow_consumer_test.py NAME ...   only those whose name contains one of these
"""

import collections
import json
import os
import resource
import signal
import socket
import sys
import time

import bounds
import broker_servers
import harness

BOUND = 256 * bounds.MIB
LITTLE = ("--near-bytes-max", "48M", "--storage-memory-bytes", "8M",
          "--bodies-bytes-max", "24M", "--answers-bytes-max", "24M", "--broker-inflight-bytes-max", "16M",
          "--batches-max", "8")
COUNT = bounds.size(2_000, 200_000)  # timers for the slow one
CONNECTIONS = bounds.size(50, 1_000)
LASTS_S = bounds.size(2, 20)
PAYLOAD = "x" * 1000
LARGE = "x" * 4000


def due_now(target, count=COUNT, payload=PAYLOAD, **more):
    line = json.dumps({"after": 0, "target": target, "payload": payload, **more}).encode() + b"\n"
    return (line for _ in range(count))


def refused(daemon):
    return daemon.metric('tickwheel_refused_total{reason="overloaded"}')


def linger(turn=lambda: None):
    """For as long as a scenario lasts."""
    until = time.monotonic() + LASTS_S
    while time.monotonic() < until:
        turn()
        time.sleep(0.05)


class Peers:
    """Clients that read nothing, from machines with hardly any room."""

    def __init__(self, daemon, count=CONNECTIONS):
        self.sockets = []
        for _ in range(count):
            peer = socket.socket()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            peer.settimeout(60)
            peer.connect(("127.0.0.1", daemon.port))
            self.sockets.append(peer)

    def request(self, method, path, body=b"", headers=""):
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode()
        for peer in self.sockets:
            try:
                peer.sendall(head + body)
            except OSError:
                pass  # refused already

    def sip(self):
        """A byte each."""
        for peer in self.sockets:
            peer.setblocking(False)
            try:
                peer.recv(1)
            except OSError:
                pass

    def statuses(self):
        """What the first bytes of the answers say, where there are any."""
        counts = collections.Counter()
        for peer in self.sockets:
            peer.settimeout(60)
            try:
                counts[peer.recv(12)[9:].decode() or "closed"] += 1
            except OSError:
                counts["none"] += 1
        return dict(sorted(counts.items()))

    def close(self):
        for peer in self.sockets:
            peer.close()


# ---- targets ----

def never_answers(daemon):
    with harness.Receiver() as receiver:
        bounds.make_many(daemon, due_now(receiver.url("/hang"), retry={"timeout": "1s"}))
        linger()
        return f"{len(receiver.arrivals()):,} attempts"


def trickles(daemon):
    """Each byte is a sign of life; the attempt still times out."""
    with harness.Receiver() as receiver:
        bounds.make_many(daemon, due_now(receiver.url("/trickle/20"), retry={"timeout": "1s"}))
        linger()
        return f"{len(receiver.arrivals()):,} attempts"


def reads_nothing(daemon):
    """The kernel accepts its connections; no process reads them."""
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(4096)
        bounds.make_many(daemon, due_now(f"http://127.0.0.1:{deaf.getsockname()[1]}/", COUNT // 50, "x" * 100_000,
                                         retry={"timeout": "1s"}), 100, may_refuse=True)
        linger()
        return f"{daemon.metric('tickwheel_attempts_failed_total'):,.0f} attempts"


# ---- workers ----

def never_acknowledges(daemon):
    """Leases until it gets no more, for an hour."""
    bounds.make_many(daemon, due_now("queue:slow"))
    held = 0
    while True:
        items = daemon.call("POST", "/v1/queues/slow/lease", {"max": 1000, "wait": "500ms", "lease": "1h"})[2]["items"]
        if not items:
            break
        held += len(items)
    linger()
    return f"{held:,} leased"


def reads_its_lease_slowly(daemon):
    """Each asks again when its unread items come back."""
    bounds.make_many(daemon, due_now("queue:slow", COUNT // 4, LARGE, retry={"max_attempts": 100}), 1000)
    peers = Peers(daemon)
    body = json.dumps({"max": 1000, "wait": "1s", "lease": "1s"}).encode()
    peers.request("POST", "/v1/queues/slow/lease", body, "Content-Type: application/json\r\n")
    linger(peers.sip)
    peers.close()
    return f"{CONNECTIONS:,} clients, {daemon.metric('tickwheel_queue_leases_total'):,.0f} leases"


# ---- clients ----

def far(count, payload):
    line = json.dumps({"after": "1h", "target": "http://127.0.0.1:9/far", "payload": payload}).encode() + b"\n"
    return (line for _ in range(count))


def reads_a_listing_slowly(daemon):
    bounds.make_many(daemon, far(2000, LARGE), 1000)
    peers = Peers(daemon)
    peers.request("GET", "/v1/timers?limit=1000")
    linger()
    said = peers.statuses()
    if not said.get("200") or not said.get("503"):
        raise AssertionError(f"some are answered, and when nobody reads the rest is refused: {said}")
    linger(peers.sip)
    peers.close()
    return f"{CONNECTIONS:,} clients: {said}"


def reads_a_batch_answer_slowly(daemon):
    peers = Peers(daemon, CONNECTIONS // 10)
    lines = b"".join(far(5000, 1))
    peers.request("POST", "/v1/timers/batch", lines, "Content-Type: application/x-ndjson\r\n")
    said = peers.statuses()
    linger(peers.sip)
    peers.close()
    return f"{CONNECTIONS // 10:,} clients: {said}"


def sends_a_batch_slowly(daemon):
    """A line now and then, on as many connections as batches may be under way, and more."""
    peers = Peers(daemon, min(CONNECTIONS, 300))
    head = b"POST /v1/timers/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n" \
           b"Content-Length: 1000000000\r\n\r\n"
    line = next(far(1, 1))

    def send(data):
        for peer in peers.sockets:
            try:
                peer.sendall(data)
            except OSError:
                pass  # refused already
    send(head)
    linger(lambda: send(line))
    peers.close()
    return f"{len(peers.sockets)} clients, {refused(daemon):,.0f} refused"


def sends_a_body_slowly(daemon):
    """All but the end of it."""
    peers = Peers(daemon)
    head = b"POST /v1/timers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1100000\r\n\r\n"
    for peer in peers.sockets:
        try:
            peer.sendall(head + b" " * 1_000_000)
        except OSError:
            pass  # refused already
    linger()
    peers.close()
    return f"{len(peers.sockets)} clients, {refused(daemon):,.0f} refused"


# ---- brokers ----

def stalls(broker):
    """Stopped, not ended: its kernel accepts bytes until its buffers are full, and nothing answers. Then it continues."""
    def scenario(daemon):
        os.kill(broker.process.pid, signal.SIGSTOP)
        try:
            bounds.make_many(daemon, due_now(broker.target(), COUNT // 4, retry={"timeout": "2s", "max_attempts": 100}))
            linger()
        finally:
            os.kill(broker.process.pid, signal.SIGCONT)
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") >= COUNT // 4 and
                           broker.count() >= COUNT // 4, 300, "all that waited for the broker")
        return f"{COUNT // 4:,} messages, none lost, {broker.count() - COUNT // 4:,} twice"
    return scenario


# ---- all of them ----

def run(name, scenario, bound, *flags):
    with bounds.Folder() as data, harness.Daemon(
            data, *LITTLE, "--target-breaker-failures", "0", *flags, enter=bound.enter) as daemon:
        harness.wait_until(daemon.is_ready, 30, "ready")
        bystander, memory = bounds.Bystander(daemon), bounds.Memory(daemon.process.pid)
        told = scenario(daemon)
        late, calls = bystander.end()
        memory.end()
        bounds.show(name, bounds.mib(memory.resident), bounds.mib(memory.own), told, bounds.milliseconds(late),
                    bounds.milliseconds(calls))
        if memory.own > BOUND or daemon.process.poll() is not None:
            raise AssertionError(f"{name}: {bounds.mib(memory.own)}, {daemon.output()[-2000:]}")


SCENARIOS = {
    "a webhook target that never answers": never_answers,
    "one that answers a byte at a time": trickles,
    "one that accepts and never reads": reads_nothing,
    "a worker that never acknowledges": never_acknowledges,
    "workers that hardly read their leases": reads_its_lease_slowly,
    "clients that hardly read a listing": reads_a_listing_slowly,
    "clients that hardly read a batch's answer": reads_a_batch_answer_slowly,
    "clients that send a batch line by line": sends_a_batch_slowly,
    "clients that do not end a body": sends_a_body_slowly,
}


def main():
    wanted = [name for name in (*SCENARIOS, "redis", "nats") if not sys.argv[1:] or
              any(part in name for part in sys.argv[1:])]
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    bound = bounds.limit(BOUND)
    print(f"each lasts {LASTS_S} s and longer; {bound.kind()} of {bounds.mib(BOUND)}: {' '.join(LITTLE)}\n\n"
          "| | resident | own | | others late p50 / p99 / max | their calls p50 / p99 / max |\n"
          "| --- | ---: | ---: | --- | --- | --- |", flush=True)
    try:
        for name in wanted:
            if name in SCENARIOS:
                run(name, SCENARIOS[name], bound)
        for kind in (broker_servers.Redis, broker_servers.Nats):
            if kind.kind not in wanted:
                continue
            if kind.missing():
                print(f"Skipped: {kind.missing()}", flush=True)
                continue
            with kind() as broker:
                run(f"a {kind.kind} server that stalls", stalls(broker), bound,
                    "--broker-connections", f"main={broker.url()}")
    finally:
        bound.close()
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
