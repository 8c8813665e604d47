#!/usr/bin/env python3
"""kill -9 under load, again and again, and compare with what the clients wrote down.

Clients create, batch-create and cancel while timers fire; the daemon is killed at a random moment and
started again on the same data. At the end, from the clients' own record:

  lost     acknowledged, not cancelled, due: never arrived; or not due yet, and GET does not know it
  early    arrived before its due time
  zombie   arrived after its cancel was acknowledged
  repeated arrived more than once: allowed, counted, and always under the same webhook-id

    TEST_SEED=N      repeats the clients' choices
    TEST_ROUNDS=N    rounds of kill -9 (20)
"""

import http.client
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

ROUNDS = int(os.environ.get("TEST_ROUNDS", "20"))
SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
FLAGS = ("--window", "1s", "--watermark-interval", "100ms", "--retain", "1h")
FAR_MS = 3600 * 1000


class Record:
    """What the clients know: every promise that the daemon made them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.due = {}        # acknowledged timers: id -> due, ms
        self.cancelling = set()  # a cancel was sent; it holds or not
        self.cancelled = {}  # acknowledged cancels: id -> when, us

    def some_timer(self, chance):
        with self.lock:
            if not self.due:
                return None
            return chance.choice(list(self.due)[-200:])


class Client(threading.Thread):
    def __init__(self, daemon, receiver, record, seed):
        super().__init__(daemon=True)
        self.server, self.receiver, self.record = daemon, receiver, record
        self.chance = random.Random(seed)
        self.failure = None
        self.requests = 0

    def timer(self):
        now_ms = int(time.time() * 1000)
        kind = self.chance.random()
        if kind < 0.1:
            due = now_ms - self.chance.randrange(1000)
        elif kind < 0.8:
            due = now_ms + self.chance.randrange(4000)
        else:
            due = now_ms + FAR_MS + self.chance.randrange(FAR_MS)
        path = "/flaky/1" if self.chance.random() < 0.1 else "/ok"
        return {"at": due, "target": self.receiver.url(path), "payload": {"n": self.requests},
                "retry": {"base": "50ms", "cap": "200ms"}}

    def create(self, connection):
        timer = self.timer()
        status, _, body = self.server.call("POST", "/v1/timers", timer, connection=connection)
        if status != 201:
            raise AssertionError(f"create: {status} {body}")
        with self.record.lock:
            self.record.due[body["id"]] = timer["at"]

    def create_many(self, connection):
        timers = [self.timer() for _ in range(self.chance.randrange(1, 200))]
        status, _, body = self.server.call(
            "POST", "/v1/timers/batch", "".join(json.dumps(timer) + "\n" for timer in timers),
            {"Content-Type": "application/x-ndjson"}, connection)
        if status != 200:
            raise AssertionError(f"batch: {status} {body}")
        results = [json.loads(line) for line in body.splitlines()]
        if len(results) != len(timers):
            raise AssertionError(f"batch: {len(results)} results for {len(timers)} lines")
        with self.record.lock:
            for timer, result in zip(timers, results):
                self.record.due[result["id"]] = timer["at"]

    def cancel(self, connection):
        timer = self.record.some_timer(self.chance)
        if timer is None:
            return
        with self.record.lock:
            self.record.cancelling.add(timer)
        status, _, body = self.server.call("DELETE", f"/v1/timers/{timer}", connection=connection)
        if status == 200:
            with self.record.lock:
                self.record.cancelled[timer] = int(time.time() * 1e6)
        elif status == 404 or status not in (409, 410):
            raise AssertionError(f"cancel of an acknowledged timer: {status} {body}")

    def run(self):
        actions = [self.create] * 6 + [self.create_many] + [self.cancel] * 3
        try:
            connection = self.server.connect()
            while True:
                self.chance.choice(actions)(connection)
                self.requests += 1
        except (OSError, http.client.HTTPException):
            pass  # the daemon was killed: whatever was not answered is not known
        except Exception as failure:  # shown by the main thread
            self.failure = failure


def kill_once(data, receiver, record, chance):
    began = time.monotonic()
    with harness.Daemon(data, *FLAGS) as daemon:
        harness.wait_until(daemon.is_ready, 20, "ready")
        ready_s = time.monotonic() - began
        clients = [Client(daemon, receiver, record, chance.random()) for _ in range(4)]
        for client in clients:
            client.start()
        time.sleep(chance.uniform(0.05, 1.5))  # the random moment: no condition to wait for
        daemon.signal(signal.SIGKILL)
        for client in clients:
            client.join(30)
            if client.failure:
                raise client.failure
    return ready_s


def arrived(receiver):
    by_timer = {}
    for arrival in receiver.arrivals():
        by_timer.setdefault(harness.timer_id_of(arrival.webhook_id), []).append(arrival)
    return by_timer


def compare(daemon, receiver, record):
    """The verdict, once everything that is due has had its time."""
    due_now = {timer for timer, due in record.due.items()
               if timer not in record.cancelling and due < time.time() * 1000 + FAR_MS / 2}

    def all_there():
        return due_now <= {timer for timer, arrivals in arrived(receiver).items()
                           if any(a.path == "/ok" or a.attempt > 1 for a in arrivals)}
    try:
        harness.wait_until(all_there, 30, "all that is due")
    except TimeoutError:
        pass
    by_timer = arrived(receiver)
    lost = [timer for timer in due_now if timer not in by_timer]
    connection = daemon.connect()
    for timer, due in record.due.items():
        if timer in due_now or timer in by_timer:
            continue
        status = daemon.call("GET", f"/v1/timers/{timer}", connection=connection)[0]
        if status == 404 or (status == 410 and timer not in record.cancelling):
            lost.append(timer)
    early = [a for timer, arrivals in by_timer.items() for a in arrivals
             if timer in record.due and a.at_us < record.due[timer] * 1000]
    zombies = [a for timer, arrivals in by_timer.items() for a in arrivals
               if timer in record.cancelled and a.at_us > record.cancelled[timer]]
    repeats = [arrivals for arrivals in by_timer.values()
               if len({a.attempt for a in arrivals}) < len(arrivals)]
    renamed = [arrivals for arrivals in by_timer.values()
               if len({a.webhook_id for a in arrivals}) > 1]
    return lost, early, zombies, repeats, renamed


def main():
    print(f"TEST_SEED={SEED} TEST_ROUNDS={ROUNDS}", flush=True)
    chance = random.Random(SEED)
    data = tempfile.mkdtemp(prefix="tickwheel-crash-")
    record = Record()
    try:
        with harness.Receiver() as receiver:
            ready = [kill_once(data, receiver, record, chance) for _ in range(ROUNDS)]
            with harness.Daemon(data, *FLAGS) as daemon:
                harness.wait_until(daemon.is_ready, 20, "ready")
                lost, early, zombies, repeats, renamed = compare(daemon, receiver, record)
                corrupt = daemon.metric("tickwheel_records_corrupt_total")
                daemon.signal(signal.SIGTERM)
            arrivals = len(receiver.arrivals())
    finally:
        shutil.rmtree(data)
    print(f"{ROUNDS} rounds of kill -9: {len(record.due)} creates acknowledged, "
          f"{len(record.cancelled)} cancels acknowledged, {arrivals} webhooks arrived, "
          f"start to ready at most {max(ready):.2f} s")
    print(f"lost {len(lost)}, early {len(early)}, after an acknowledged cancel {len(zombies)}, "
          f"repeated {len(repeats)}, under another webhook-id {len(renamed)}, "
          f"damaged records {corrupt:.0f}")
    for name, found in (("lost", lost), ("early", early), ("zombie", zombies), ("renamed", renamed)):
        for item in found[:5]:
            print(f"{name}: {item} due {record.due.get(item if isinstance(item, str) else None)}")
    failed = bool(lost or early or zombies or renamed or corrupt)
    if arrivals == 0 or not record.cancelled:
        print("the load did not reach the daemon")
        failed = True
    print("0 passed, 1 failed" if failed else "1 passed, 0 failed")
    sys.exit(failed)


if __name__ == "__main__":
    main()
