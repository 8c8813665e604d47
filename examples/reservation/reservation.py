#!/usr/bin/env python3
"""A shop holds stock for a million orders. A paid order keeps its stock; the stock of the others returns to the shelf.

It shows how a service uses Tickwheel, at full size and with bookkeeping, so that it can report at the end whether
an order was lost or handled twice. It needs three calls:

  hold    POST /v1/timers/batch           a timer per order, due at the end of its time to pay; it watches
                                          the event `order:N`
  pay     POST /v1/watch/complete         completes the event: cancels the timer, and the answer says so
  expire  POST /v1/queues/NAME/lease      a worker takes expired orders and frees their stock,
          POST /v1/queues/NAME/ack        then acknowledges

Only Python's standard library is needed.
"""

import argparse
import array
import datetime
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

QUEUE = "reservations"
LINES = {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}
OPEN, PAID, UNSURE = range(3)
DAEMON = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/release/bin/tickwheeld")
PATIENCE_S = 120  # time limit for a server that does not answer, or does not hand out an order


# ---- the server ----

class Server:
    """A tickwheeld of our own, on a port that the system chooses, with its timers in a temporary folder."""

    def __init__(self, program):
        self.command = [program, "--listen-port", "0"]
        self.folder = tempfile.mkdtemp(prefix="tickwheel-reservation-")
        self.crashes = 0
        self.start()

    def start(self):
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [*self.command, "--data-folder", os.path.join(self.folder, "data")],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        while True:
            with open(self.log.name, encoding="utf-8") as log:
                found = re.search(r"listen=([\d.]+):(\d+)", log.read())
            if found:
                break
            if self.process.poll() is not None:
                sys.exit(f"{self.command[0]} ended; see {self.log.name}")
            time.sleep(0.01)
        self.address = (found[1], int(found[2]))

    def crash(self):
        """kill -9, and a new start on the same data."""
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.start()
        self.crashes += 1

    def pending(self):
        """The number of timers that it still has."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(re.search(r"^tickwheel_timers_pending (\d+)$", text, re.M)[1])

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder)


class Elsewhere:
    """A running tickwheeld, which may hold other timers."""

    crashes = 0

    def __init__(self, url):
        found = re.fullmatch(r"(?:http://)?([^:/]+)(?::(\d+))?/?", url)
        if not found:
            sys.exit(f"{url}: expected http://HOST:PORT")
        self.address = (found[1], int(found[2] or 80))
        try:
            socket.create_connection(self.address, timeout=10).close()
        except OSError as error:
            sys.exit(f"{url}: {error}")

    def pending(self):
        return 0

    def close(self):
        pass


class Client:
    """One kept-alive connection. Every call here is safe to repeat, so a request without an answer, because the
    server is busy or was killed, is sent again."""

    def __init__(self, server):
        self.server, self.connection = server, None

    def connect(self):
        self.connection = http.client.HTTPConnection(*self.server.address, timeout=60)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, method, path, body=None, headers=None, fine=(200,)):
        """The answer, and whether an earlier try may have taken effect."""
        headers = headers or {"Content-Type": "application/json"}
        is_repeated, deadline = False, time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                if not self.connection:
                    self.connect()
                self.connection.request(method, path, body, headers)
                response = self.connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException):
                self.close()
                is_repeated = True
                time.sleep(0.02)
                continue
            if response.status in fine:
                return answer, is_repeated
            if response.status not in (429, 503):
                raise RuntimeError(f"{path}: {response.status} {answer[:300]}")
            is_repeated = True
            time.sleep(float(response.headers.get("Retry-After", "1")))
        raise RuntimeError(f"{path}: no answer in {PATIENCE_S} s")

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None


# ---- the books ----

class Books:
    """The state of each order, as the shop knows it from the answers alone."""

    def __init__(self, count, hold_ms):
        self.count, self.hold_ms = count, hold_ms
        self.lock = threading.Lock()
        self.asked_ms = array.array("d", bytes(8 * count))  # when its hold was requested
        self.state = bytearray(count)
        self.arrivals = bytearray(count)  # at a worker
        self.freed = bytearray(count)     # 1: the worker's ack was answered with `ok`
        self.held = self.paid_late = self.early = self.after_ack = self.after_pay = 0
        self.lateness_ms = []

    def pay(self, order, cancelled, is_repeated):
        """The answer to a payment: 1 timer cancelled; or 0, if it was due already or an earlier try cancelled it."""
        if cancelled == 1:
            self.state[order] = PAID
        elif is_repeated:
            self.state[order] = UNSURE
        else:
            self.paid_late += 1

    def arrive(self, order, due_ms, now_ms):
        """A worker got the order: its time to pay is over."""
        with self.lock:
            self.early += now_ms < due_ms or due_ms < self.asked_ms[order] + self.hold_ms - 1
            self.after_ack += self.freed[order]
            self.after_pay += self.state[order] == PAID
            self.arrivals[order] = min(255, self.arrivals[order] + 1)
            if self.arrivals[order] == 1:
                self.lateness_ms.append(now_ms - due_ms)

    def free(self, order):
        with self.lock:
            self.freed[order] = 1

    def missing(self):
        """The number of orders that are neither paid nor expired, as far as is known."""
        with self.lock:
            return sum(state == OPEN and not arrivals for state, arrivals in zip(self.state, self.arrivals))

    def settle(self, client):
        """Settles orders whose answer was lost, by asking the server: paid, or too late?"""
        for order in range(self.count):
            if self.state[order] != UNSURE:
                continue
            answer, _ = client.call("GET", f"/v1/keys/order:{order}/timer", fine=(200, 410))
            answer = json.loads(answer)
            state = answer.get("timer", answer)["state"]
            self.state[order] = PAID if state == "cancelled" else OPEN


class Progress:
    """Progress: a bar on a terminal, otherwise a line per phase, timed from its first order to its last."""

    def __init__(self, name, total, is_shown=True):
        self.name, self.total, self.done = name, total, 0
        self.is_shown, self.half, self.at_half = is_shown, total / 2, None
        self.began = self.ended = self.drawn = time.monotonic()
        self.lock = threading.Lock()

    def begin(self):
        with self.lock:
            if not self.done:
                self.began = self.ended = time.monotonic()

    def add(self, count):
        event = None
        with self.lock:
            self.done += count
            self.ended = time.monotonic()
            if self.is_shown and sys.stdout.isatty() and self.ended - self.drawn > 0.1:
                self.draw("\r")
            if self.at_half and self.done >= self.half:
                event, self.at_half = self.at_half, None
        if event:
            event()

    def draw(self, end="\n"):
        self.drawn = time.monotonic()
        seconds, share = self.ended - self.began, min(1, self.done / max(1, self.total))
        rate = f"{self.done / seconds:,.0f}/s" if seconds else ""
        bar = f"[{'#' * round(30 * share):.<30}] " if sys.stdout.isatty() else ""
        print(f"{self.name:8}{bar}{self.done:>11,} of {self.total:,} {seconds:7.1f} s {rate:>11}",
              end=end, flush=True)


def on_connections(server, connections, work, jobs):
    """Calls work(client, job) for each job, on a number of connections in parallel."""
    jobs, lock, failures = iter(jobs), threading.Lock(), []

    def run():
        client = Client(server)
        try:
            while not failures:
                with lock:
                    job = next(jobs, None)
                if job is None:
                    break
                work(client, job)
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)
        client.close()

    threads = [threading.Thread(target=run) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


# ---- the shop ----

def hold(client, books, orders, options):
    """Holds the stock of these orders. The key makes it harmless to send them twice."""
    asked_ms = time.time() * 1000
    for order in orders:
        books.asked_ms[order] = asked_ms
    body = "".join(
        f'{{"key":"order:{order}","watch":["order:{order}"],"after":"{options.hold}",'
        f'"target":"queue:{QUEUE}","payload":{{"order":{order}}}}}\n' for order in orders)
    while True:
        answer, _ = client.call("POST", "/v1/timers/batch", body, LINES)
        result = json.loads(answer.split(b"\n", 1)[0])
        if not result["failed"]:
            break
        problem = json.loads(answer.split(b"\n")[1])
        if problem["status"] not in (429, 503):
            raise RuntimeError(problem)
    with books.lock:
        books.held += result["created"] + result["existed"]


def pay(client, books, orders):
    """Pays these orders: they keep their stock, unless their time was over."""
    body = json.dumps({"watch": [f"order:{order}" for order in orders]})
    is_repeated = False
    while True:
        answer, is_again = client.call("POST", "/v1/watch/complete", body)
        answer, is_repeated = json.loads(answer), is_repeated or is_again
        with books.lock:
            for order, result in zip(orders, answer["results"]):
                if "status" not in result and books.state[order] == OPEN:
                    books.pay(order, result["cancelled"], is_repeated)
        if not answer["failed"]:
            return
        is_repeated = True


class Worker(threading.Thread):
    """Leases expired orders and frees their stock."""

    def __init__(self, server, books, progress):
        super().__init__(daemon=True)
        self.client, self.books, self.progress = Client(server), books, progress
        self.is_over, self.failure = False, None
        self.start()

    def run(self):
        try:
            while not self.is_over:
                self.work()
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def work(self):
        ask = json.dumps({"max": 1000, "wait": "500ms", "lease": "30s"})
        items = json.loads(self.client.call("POST", f"/v1/queues/{QUEUE}/lease", ask)[0])["items"]
        now_ms = time.time() * 1000
        if not items:
            return
        self.progress.begin()
        for item in items:
            self.books.arrive(item["payload"]["order"], instant_ms(item["due"]), now_ms)
        # Here a real shop frees the stock, in one transaction with the timer's id.
        receipts = json.dumps({"receipts": [item["receipt"] for item in items]})
        answer = json.loads(self.client.call("POST", f"/v1/queues/{QUEUE}/ack", receipts)[0])
        for item, result in zip(items, answer["results"]):
            if result == "ok":
                self.books.free(item["payload"]["order"])
        self.progress.add(answer["ok"])


def instant_ms(text):
    """2026-11-20T23:59:59.250Z in milliseconds since 1970."""
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


# ---- the run ----

def milliseconds(duration):
    found = re.fullmatch(r"(\d+)(ms|s|m|h)", duration)
    if not found:
        raise argparse.ArgumentTypeError(f"{duration}: expected a number and one of ms, s, m, h")
    return int(found[1]) * {"ms": 1, "s": 1000, "m": 60000, "h": 3600000}[found[2]]


def portions(orders, size):
    return (orders[begin:begin + size] for begin in range(0, len(orders), size))


def work_off(name, orders, act, server, options):
    """One phase: act(client, portion) for all of these orders."""
    progress = Progress(name, len(orders))
    progress.at_half = server.crash if options.crash else None

    def act_and_count(client, portion):
        act(client, portion)
        progress.add(len(portion))
    size = options.hold_at_once if name == "hold" else options.pay_at_once
    on_connections(server, options.connections, act_and_count, portions(orders, size))
    progress.draw()


def await_expiry(server, books, workers):
    """Waits until every unpaid order has come to a worker, and the time of every paid one is over too."""
    last_ms = max(books.asked_ms) + books.hold_ms
    deadline = last_ms / 1000 + PATIENCE_S
    while time.time() < deadline:
        for worker in workers:
            if worker.failure:
                raise worker.failure
        if time.time() * 1000 > last_ms + 500 and books.missing() == 0 and server.pending() == 0:
            return
        time.sleep(0.1)


def run(server, options):
    books = Books(options.count, milliseconds(options.hold))
    orders = list(range(options.count))
    paying = random.Random(options.seed).sample(orders, round(options.count * options.paid / 100))
    expiry = Progress("expire", options.count - len(paying), is_shown=False)
    workers = [Worker(server, books, expiry) for _ in range(2)]
    work_off("hold", orders, lambda client, some: hold(client, books, some, options), server, options)
    work_off("pay", paying, lambda client, some: pay(client, books, some), server, options)
    expiry.total = options.count - books.state.count(PAID)
    expiry.half = (expiry.total - books.state.count(UNSURE)) / 2
    expiry.at_half = server.crash if options.crash else None
    expiry.is_shown = True
    expiry.add(0)
    await_expiry(server, books, workers)
    expiry.draw()
    for worker in workers:
        worker.is_over = True
    for worker in workers:
        worker.join()
    books.settle(Client(server))
    return report(books, server, options)


def report(books, server, options):
    """Prints the books, and returns whether they balance."""
    orders = range(books.count)
    paid = books.state.count(PAID)
    expired = sum(books.arrivals[i] > 0 and books.state[i] != PAID for i in orders)
    lost = sum(books.arrivals[i] == 0 and books.state[i] != PAID for i in orders)
    # kill -9 ends leases: then an order that a worker has but not acknowledged can be paid, as if it had not come.
    double = books.after_ack + books.after_pay + sum(books.freed[i] and books.state[i] == PAID for i in orders)
    taken = sum(books.arrivals[i] > 0 and books.state[i] == PAID for i in orders)
    again = sum(books.arrivals[i] - 1 for i in orders if books.arrivals[i] > 1)
    late = sorted(books.lateness_ms)
    print(f"\nheld {books.held:,}, paid {paid:,}, expired {expired:,}"
          + (f" ({books.paid_late:,} of them paid too late)" if books.paid_late else ""))
    print(f"lost {lost}, double {double}, early {books.early}"
          + (f"; kill -9 {server.crashes} times, after which {again:,} came to a worker again"
             + (f", and {taken:,} were paid after a worker lost its lease" if taken else "")
             if options.crash else f", came again {again}"))
    if late:
        print("late by " + ", ".join(
            f"{name} {late[min(len(late) - 1, int(len(late) * share))]:,.1f} ms"
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1))))
    return books.held == books.count and paid + expired == books.count and \
        not (lost or double or books.early or server.pending() or ((again or taken) and not options.crash))


def number(least, most):
    def parse(text):
        value = float(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text}: expected {least} to {most}")
        return value if most == 100 else int(value)
    return parse


def duration(text):
    milliseconds(text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=number(1, 10**8), default=1000000, help="orders (1000000)")
    parser.add_argument("--hold", type=duration, default="3m", help="time to pay (3m)")
    parser.add_argument("--paid", type=number(0, 100), default=95, help="percentage of orders that are paid (95)")
    parser.add_argument("--connections", type=number(1, 64), default=4, help="connections of the shop (4)")
    parser.add_argument("--hold-at-once", type=number(1, 10**6), default=10000, help="orders in a batch (10000)")
    parser.add_argument("--pay-at-once", type=number(1, 5000), default=1000, help="orders in a call (1000)")
    parser.add_argument("--seed", type=int, default=1, help="selects the orders that are paid (1)")
    parser.add_argument("--crash", action="store_true", help="kill -9 in the middle of each phase")
    parser.add_argument("--url", help="use this server instead of starting one")
    parser.add_argument("--daemon", default=DAEMON, help="the program to start")
    options = parser.parse_args()
    if options.url and options.crash:
        parser.error("--crash kills a server of its own: not with --url")
    server = Elsewhere(options.url) if options.url else Server(options.daemon)
    try:
        is_right = run(server, options)
    finally:
        server.close()
    print("every order has ended once" if is_right else "THE BOOKS ARE NOT IN ORDER")
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
