#!/usr/bin/env python3
"""Many connections that want nothing, or never finish what they want: idle ones, heads that come a byte at a time,
peers that are gone without a word, and more connections than there may be. All are ended within a bound, each costs
little, and somebody else is served meanwhile.

    TEST_SIZE=full   10,000 connections
"""

import os
import re
import resource
import selectors
import socket
import sys
import time

import bounds
import harness

COUNT = bounds.size(300, 10_000)
SPARE = 16  # for the bystander and for what the test itself asks
IDLE_S = bounds.size(1, 10)
EACH_BYTES = 64 << 10  # that one connection may cost: header_bytes_max and what the daemon keeps beside it
PATIENCE_S = 120  # only against waiting for ever
TCP_REPAIR = 19
FILES = 1024
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Crowd:
    """Connections of one kind, looked after together; `ended` counts those that the daemon has closed."""

    def __init__(self, port, count):
        self.selector = selectors.DefaultSelector()
        self.opened = time.monotonic()
        self.ended, self.ended_s, self.answered = 0, [], 0
        for _ in range(count):
            peer = socket.socket()
            peer.connect(("127.0.0.1", port))
            peer.setblocking(False)
            self.selector.register(peer, selectors.EVENT_READ)

    def peers(self):
        return [key.fileobj for key in list(self.selector.get_map().values())]

    def send(self, data):
        for peer in self.peers():
            try:
                peer.send(data)
            except OSError:
                pass  # closed meanwhile: `look` sees it

    def look(self, wait_s=0.1):
        """Reads the bytes that have arrived."""
        for key, _ in self.selector.select(wait_s):
            try:
                data = key.fileobj.recv(65536)
            except ConnectionResetError:
                data = b""
            if data:
                self.answered += data.count(b"HTTP/1.1 200")
                continue
            self.ended += 1
            self.ended_s.append(time.monotonic() - self.opened)
            self.forget(key.fileobj)

    def forget(self, peer):
        self.selector.unregister(peer)
        peer.close()

    def await_all(self, what, count):
        harness.wait_until(lambda: self.look() or what() == count, PATIENCE_S, f"{count} connections")

    def vanish(self):
        """As if the machines of the peers had lost power: no word is sent."""
        for peer in self.peers():
            peer.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            self.forget(peer)

    def close(self):
        for peer in self.peers():
            self.forget(peer)
        self.selector.close()


def open_sockets(daemon):
    """Sockets that the daemon has open, by what the kernel says."""
    folder, count = f"/proc/{daemon.process.pid}/fd", 0
    for name in os.listdir(folder):
        try:
            count += os.readlink(os.path.join(folder, name)).startswith("socket:")
        except OSError:
            pass  # closed meanwhile
    return count


def judge(name, daemon, crowd, memory, before, bystander):
    """The result of one kind; each connection is closed."""
    memory.end()
    each = max(0, memory.own - before) / COUNT
    late, calls = bystander.end()
    ended = f"{min(crowd.ended_s):.1f} to {max(crowd.ended_s):.1f} s" if crowd.ended_s else "-"
    bounds.show(name, bounds.mib(memory.resident), f"{each / 1024:.1f} KiB", ended, bounds.milliseconds(late),
                bounds.milliseconds(calls))
    if each > EACH_BYTES:
        raise AssertionError(f"{name}: {each:.0f} bytes for each connection")


def idle(daemon, crowd):
    """Each has asked something, and then keeps silent. On a slow machine some are ended before they ask."""
    crowd.send(GET)
    crowd.await_all(lambda: crowd.ended, COUNT)
    if not crowd.answered:
        raise AssertionError("no request is answered")


def silent(daemon, crowd):
    crowd.await_all(lambda: crowd.ended, COUNT)


def slow_heads(daemon, crowd):
    """A byte of the head ten times within what the daemon bears in silence."""
    head, sent, next_at = b"GET /healthz HTTP/1.1\r\nX-Slow: " + b"x" * 1000, 0, time.monotonic()

    def turn():
        nonlocal sent, next_at
        if time.monotonic() >= next_at:
            crowd.send(head[sent:sent + 1])
            sent, next_at = sent + 1, next_at + IDLE_S / 10
        crowd.look(max(0, min(0.1, next_at - time.monotonic())))
        return crowd.ended == COUNT
    harness.wait_until(turn, PATIENCE_S, f"{COUNT} slow heads are given up")


def half_open(daemon, crowd):
    crowd.send(GET)
    crowd.await_all(lambda: min(COUNT, crowd.answered + crowd.ended), COUNT)
    before, count = open_sockets(daemon), len(crowd.peers())
    try:
        crowd.vanish()
    except PermissionError:
        print("half-open connections cannot be made here: not root", flush=True)
        return
    began = time.monotonic()
    harness.wait_until(lambda: open_sockets(daemon) <= before - count + SPARE, PATIENCE_S, "half-open ones are ended")
    crowd.ended_s = [time.monotonic() - began]


def run(name, action):
    with bounds.Folder() as data, harness.Daemon(
            data, "--connections-max", str(COUNT + SPARE), "--http-idle", f"{IDLE_S}s") as daemon:
        harness.wait_until(daemon.is_ready, 30, "ready")
        bystander = bounds.Bystander(daemon)
        before = bounds.Memory(daemon.process.pid).end().own
        memory = bounds.Memory(daemon.process.pid)
        crowd = Crowd(daemon.port, COUNT)
        action(daemon, crowd)
        judge(name, daemon, crowd, memory, before, bystander)
        crowd.close()


def refused(daemon):
    """What one more client sees: 503 and when to come again, or, far beyond the limit, a closed connection."""
    try:
        status, headers, _ = daemon.call("GET", "/healthz")
    except OSError:
        return "closed"
    except Exception as cause:  # of http.client: it ended before its answer
        return "closed" if "RemoteDisconnected" in type(cause).__name__ else repr(cause)
    if status == 503 and not headers["Retry-After"]:
        raise AssertionError(f"503 without Retry-After: {dict(headers)}")
    return status


def at_the_limit():
    """At the limit: further connections are refused, open ones are served."""
    with bounds.Folder() as data, harness.Daemon(
            data, "--connections-max", str(COUNT + SPARE), "--http-idle", "60s") as daemon:
        harness.wait_until(daemon.is_ready, 30, "ready")
        bystander = bounds.Bystander(daemon)
        # A connection that has not asked yet makes room for a new one.
        harness.wait_until(lambda: bystander.made or bystander.failure, PATIENCE_S, "a timer of the bystander")
        crowd = Crowd(daemon.port, COUNT + SPARE)  # one of them is beyond
        crowd.send(GET)
        harness.wait_until(lambda: crowd.look() or crowd.answered + crowd.ended >= COUNT, PATIENCE_S, "answers")
        answers = {}
        for _ in range(20):
            answer = refused(daemon)
            answers[answer] = answers.get(answer, 0) + 1
        if set(answers) - {503, "closed"}:
            raise AssertionError(f"beyond the limit: {answers}")
        late, calls = bystander.end()
        print(f"at connections_max: 20 more clients {answers}; one that was there: late {bounds.milliseconds(late)}, "
              f"calls {bounds.milliseconds(calls)}", flush=True)
        crowd.close()
        harness.wait_until(lambda: refused(daemon) == 200, 30, "served again")


def few_files():
    """The machine allows fewer files than the settings: it is said, and the storage keeps its own."""
    def enter():
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    far = (b'{"after":"%dh","target":"http://127.0.0.1:9/far"}\n' % (hour % 1000 + 1) for hour in range(100_000))
    with bounds.Folder() as data, harness.Daemon(data, "--connections-max", "10000", "--storage-memory-bytes", "1M",
                                                 enter=enter) as daemon:
        limit = int(re.search(r"few_files.* connections_max=(\d+)", daemon.output())[1])
        harness.wait_until(daemon.is_ready, 30, "ready")
        bystander = bounds.Bystander(daemon)
        maker = daemon.connect(600)
        harness.wait_until(lambda: bystander.made, 30, "a bystander")
        crowd = Crowd(daemon.port, FILES)
        crowd.send(GET)
        harness.wait_until(lambda: crowd.look() or crowd.answered >= limit - SPARE, PATIENCE_S, "answers")
        bounds.make_many(daemon, far, connection=maker)  # new files are written and merged meanwhile
        late, calls = bystander.end()
        if crowd.answered > limit:
            raise AssertionError(f"{crowd.answered} connections are served, of {limit}")
        print(f"{FILES} files at most: connections_max is {limit}; late {bounds.milliseconds(late)}, "
              f"calls {bounds.milliseconds(calls)}", flush=True)
        maker.close()
        crowd.close()
        harness.wait_until(lambda: refused(daemon) == 200, 30, "served again")


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < COUNT + 500:
        print(f"{COUNT} sockets want more than {hard} files: ulimit -n")
        sys.exit(77)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"{COUNT:,} connections at a time, http_idle {IDLE_S} s\n\n"
          "| | resident | own, for each | ended after | others late p50 / p99 / max | their calls p50 / p99 / max |\n"
          "| --- | ---: | ---: | --- | --- | --- |", flush=True)
    run("idle, nothing asked", silent)
    run("idle, after a request", idle)
    run("a byte of the head now and then", slow_heads)
    run("half-open", half_open)
    at_the_limit()
    few_files()
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
