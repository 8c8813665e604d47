"""The load of the crash tests, and what its clients wrote down: every promise that the daemon made them.

Clients create, batch-create, patch, touch and cancel timers, some due soon and some far, some webhooks and some
items of a queue, which workers lease and acknowledge. `Record.compare` lists the broken promises:

  lost     acknowledged, not cancelled, due: never arrived; or not due yet, and the daemon does not know it
  early    arrived before its due time
  after    arrived after its cancel, or its ack, was acknowledged
  renamed  arrived under a webhook-id that is not of its timer and due time, or one timer under several

A timer may arrive more than once: that is counted, and no fault.
"""

import datetime
import http.client
import json
import os
import random
import threading
import time

import harness

SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
FAR_MS = 3600 * 1000
FOREVER = 1 << 63
READ_S = 120  # until all timers are read, and none is refused
NDJSON = {"Content-Type": "application/x-ndjson"}

# The path whose first answer is always 500 opens its breaker now and then: its timers wait for a moment, not minutes.
PAUSES = ("--target-breaker-pause", "100ms", "--target-breaker-pause-max", "200ms")


def rounds(default):
    return int(os.environ.get("TEST_ROUNDS") or os.environ.get("ROUNDS") or default)


def now_us():
    return int(time.time() * 1e6)


def milliseconds(text):
    """RFC 3339 in milliseconds since 1970."""
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


class Timer:
    """The promises about one timer. Its due times: [due ms, first possible at us, surely over at us]."""

    def __init__(self, due, is_queued, is_flaky):
        self.made_us = now_us()
        self.dues = [[due, 0, None]]
        self.is_queued, self.is_flaky = is_queued, is_flaky
        self.cancel_sent = self.is_touched = False
        self.cancelled_us = None

    def last_due(self):
        return max(due for due, _, over in self.dues if over is None)

    def is_early(self, at_us):
        return at_us < 1000 * min(due for due, since, over in self.dues
                                  if since <= at_us and (over is None or at_us <= over))


class Record:
    def __init__(self):
        self.lock = threading.Lock()
        self.timers = {}
        self.recent = []
        # Of an item, also of one whose create is not answered yet: [(asked at us, got at us)], acked at us.
        self.leases, self.acked_us = {}, {}
        self.gone = []

    def created(self, timer_id, request):
        timer = Timer(request["at"], request["target"].startswith("queue:"),
                      "/flaky" in request["target"])
        with self.lock:
            self.timers[timer_id] = timer
            self.recent = self.recent[-200:] + [timer_id]

    def some_timer(self, chance):
        with self.lock:
            return chance.choice(self.recent) if self.recent else None

    def compare(self, daemon, receiver, seconds=30):
        """The verdict, once everything that is due has had its time."""
        def due_now():
            limit = time.time() * 1000 + FAR_MS / 2
            with self.lock:
                return {timer_id for timer_id, timer in self.timers.items()
                        if not timer.cancel_sent and timer.last_due() < limit}

        def seen():
            by_timer = arrived(receiver)
            ids = {timer_id for timer_id, arrivals in by_timer.items()
                   if timer_id in self.timers and (
                       not self.timers[timer_id].is_flaky or any(a.attempt > 1 for a in arrivals))}
            with self.lock:
                return ids | set(self.leases)
        wanted = due_now()
        try:
            harness.wait_until(lambda: wanted <= seen(), seconds, "all that is due")
        except TimeoutError:
            pass
        verdict = Verdict()
        verdict.timers = len(self.timers)
        verdict.lost = sorted(wanted - seen()) + self.missing(daemon, wanted | seen()) + self.gone
        self.judge(verdict, arrived(receiver))
        return verdict

    def missing(self, daemon, others):
        """Timers that are far yet, and that the daemon does not know. In a cluster it may have to ask again."""
        lost, until = [], time.monotonic() + READ_S
        connection = daemon.connect()
        for timer_id, timer in self.timers.items():
            if timer_id in others:
                continue
            status = 503
            while status == 503 and time.monotonic() < until:
                status = daemon.call("GET", f"/v1/timers/{timer_id}", connection=connection)[0]
            if status not in (200, 410) or (status == 410 and not timer.cancel_sent):
                print(f"{timer_id}: status {status}", flush=True)
                lost.append(timer_id)
        connection.close()
        return lost

    def judge(self, verdict, by_timer):
        for timer_id, arrivals in by_timer.items():
            timer = self.timers.get(timer_id)
            if len({(a.webhook_id, a.attempt) for a in arrivals}) < len(arrivals):
                verdict.repeated += 1
            if not timer:
                continue  # its create was not answered
            ids = {a.webhook_id for a in arrivals}
            if ids - {f"{timer_id}-{due}" for due, _, _ in timer.dues} or \
                    (len(ids) > 1 and len(timer.dues) == 1):
                verdict.renamed.append(timer_id)
            for a in arrivals:
                if timer.is_early(a.at_us):
                    verdict.early.append(timer_id)
                if timer.cancelled_us and a.at_us > timer.cancelled_us:
                    verdict.after.append(timer_id)
        for timer_id, timer in self.timers.items():
            leases = self.leases.get(timer_id, ())
            over_us = min(timer.cancelled_us or FOREVER, self.acked_us.get(timer_id, FOREVER))
            for asked_us, got_us in leases:
                if timer.is_early(got_us):
                    verdict.early.append(timer_id)
                if asked_us > over_us:
                    verdict.after.append(timer_id)
            verdict.repeated += len(leases) > 1
            verdict.leased += bool(leases)
            verdict.cancelled += timer.cancelled_us is not None
            verdict.patched += len(timer.dues) > 1 and not timer.is_touched
            verdict.touched += timer.is_touched
        verdict.arrived = sum(map(len, by_timer.values()))


class Verdict:
    def __init__(self):
        self.timers = self.arrived = self.leased = self.cancelled = self.patched = 0
        self.touched = self.repeated = 0
        self.lost, self.early, self.after, self.renamed = [], [], [], []

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def is_broken(self):
        return bool(self.lost or self.early or self.after or self.renamed)

    def show(self, record=None):
        print(f"acknowledged timers compared {self.timers}, of them cancelled {self.cancelled}, "
              f"changed {self.patched}, touched {self.touched}, leased {self.leased}; webhooks arrived {self.arrived}\n"
              f"lost {len(self.lost)}, early {len(self.early)}, after cancel or ack {len(self.after)}, "
              f"under another webhook-id {len(self.renamed)}, repeated {self.repeated}", flush=True)
        for name in ("lost", "early", "after", "renamed"):
            for timer_id in getattr(self, name)[:5]:
                known = record and record.timers.get(timer_id)
                print(f"{name}: {timer_id} {vars(known) if known else ''}", flush=True)


def arrived(receiver):
    by_timer = {}
    for arrival in receiver.arrivals():
        by_timer.setdefault(harness.timer_id_of(arrival.webhook_id), []).append(arrival)
    return by_timer


class Client(threading.Thread):
    """Asks for one thing after the other until the daemon is gone. `patience` is what else than success it
    takes, as a set of statuses."""

    def __init__(self, daemon, receiver, record, seed, patience=()):
        super().__init__(daemon=True)
        self.server, self.receiver, self.record = daemon, receiver, record
        self.chance = random.Random(seed)
        self.patience = set(patience)
        self.failure = None
        self.requests = self.refused = 0
        self.stop = threading.Event()

    def due(self):
        now_ms, kind = int(time.time() * 1000), self.chance.random()
        if kind < 0.1:
            return now_ms - self.chance.randrange(1000)
        if kind < 0.7:
            return now_ms + self.chance.randrange(3000)
        return now_ms + FAR_MS + self.chance.randrange(FAR_MS)

    def timer(self):
        kind = self.chance.random()
        if kind < 0.2:
            target = "queue:jobs"
        else:
            target = self.receiver.url("/flaky/1" if kind < 0.3 else "/ok")
        return {"at": self.due(), "target": target, "payload": {"n": self.requests},
                "retry": {"base": "50ms", "cap": "200ms", "max_attempts": 100}}

    def call(self, connection, method, path, body=None, headers=None, expect=()):
        status, _, answer = self.server.call(method, path, body, headers, connection)
        if status in self.patience:
            self.refused += 1
        elif status == 404 and "/timers/" in path:
            print(f"{method} {path}: 404", flush=True)
            self.record.gone.append(path.rsplit("/", 1)[1])  # acknowledged, and not known any more
        elif status not in expect:
            raise AssertionError(f"{method} {path}: {status} {answer}")
        return status, answer

    def create(self, connection):
        timer = self.timer()
        status, body = self.call(connection, "POST", "/v1/timers", timer, expect={201})
        if status == 201:
            self.record.created(body["id"], timer)

    def create_many(self, connection):
        timers = [self.timer() for _ in range(self.chance.randrange(1, 100))]
        status, body = self.call(
            connection, "POST", "/v1/timers/batch",
            "".join(json.dumps(timer) + "\n" for timer in timers), NDJSON, expect={200})
        if status != 200:
            return
        results = [json.loads(line) for line in body.splitlines()]
        if len(results) != len(timers):
            raise AssertionError(f"batch: {len(results)} results for {len(timers)} lines")
        for timer, result in zip(timers, results):
            if "id" in result:
                self.record.created(result["id"], timer)
            elif result["status"] not in self.patience:
                raise AssertionError(f"batch: {result}")

    def cancel(self, connection):
        timer_id = self.record.some_timer(self.chance)
        if not timer_id:
            return
        timer = self.record.timers[timer_id]
        timer.cancel_sent = True
        status, _ = self.call(connection, "DELETE", f"/v1/timers/{timer_id}",
                              expect={200, 409, 410})
        if status == 200:
            timer.cancelled_us = now_us()

    def patch(self, connection):
        timer_id = self.record.some_timer(self.chance)
        if not timer_id or self.record.timers[timer_id].is_flaky:
            return
        timer, due = self.record.timers[timer_id], self.due()
        with self.record.lock:  # one change of a timer at a time, otherwise the last one is not known
            if len(timer.dues) > 1:
                return
            timer.dues.append([due, now_us(), None])
        status, _ = self.call(connection, "PATCH", f"/v1/timers/{timer_id}", {"at": due},
                              expect={200, 409, 410})
        with self.record.lock:
            if status == 200:
                timer.dues[0][2] = now_us()
            elif status in (409, 410):
                timer.dues.pop()

    def touch(self, connection):
        """Puts it off: never to an earlier time than it has."""
        timer_id = self.record.some_timer(self.chance)
        if not timer_id or self.record.timers[timer_id].is_flaky:
            return  # a touch between two attempts makes a new appointment
        timer, due = self.record.timers[timer_id], self.due()
        with self.record.lock:
            if len(timer.dues) > 1:
                return
            timer.dues.append([max(due, timer.dues[0][0]), now_us(), None])
        status, body = self.call(connection, "POST", f"/v1/timers/{timer_id}/touch", {"at": due},
                                 expect={200, 409, 410})
        with self.record.lock:
            if status == 200:
                timer.is_touched = True
                if milliseconds(body["due"]) < timer.dues[1][0]:
                    raise AssertionError(f"touched until {timer.dues[1][0]}: {body}")
                timer.dues[1][0] = milliseconds(body["due"])
                timer.dues[0][2] = now_us()
            elif status in (409, 410):
                timer.dues.pop()

    def turn(self, connection):
        self.chance.choice([self.create] * 6 + [self.create_many] + [self.cancel] * 2 +
                           [self.patch] * 2 + [self.touch] * 2)(connection)

    def run(self):
        connection = None
        try:
            connection = self.server.connect()
            while not self.stop.is_set():
                self.turn(connection)
                self.requests += 1
        except (OSError, http.client.HTTPException):
            pass  # the daemon was killed: whatever was not answered is not known
        except Exception as failure:  # shown by the main thread
            self.failure = failure
        finally:
            if connection:
                connection.close()


class Worker(Client):
    """Leases from the queue and acknowledges, mostly."""

    def turn(self, connection):
        asked_us = now_us()
        status, body = self.call(connection, "POST", "/v1/queues/jobs/lease",
                                 {"max": 50, "wait": "200ms", "lease": "1s"}, expect={200})
        if status != 200 or not body["items"]:
            return
        with self.record.lock:
            for item in body["items"]:
                self.record.leases.setdefault(item["id"], []).append((asked_us, now_us()))
        if self.chance.random() < 0.1:
            return  # it dies; the leases end by themselves
        status, answer = self.call(connection, "POST", "/v1/queues/jobs/ack",
                                   {"receipts": [item["receipt"] for item in body["items"]]},
                                   expect={200})
        if status != 200:
            return
        with self.record.lock:
            for item, result in zip(body["items"], answer["results"]):
                if result == "ok":
                    self.record.acked_us[item["id"]] = now_us()


class Crowd:
    """Clients and workers at work on one daemon."""

    def __init__(self, daemon, receiver, record, chance, clients=3, workers=1, patience=()):
        self.members = [Client(daemon, receiver, record, chance.random(), patience)
                        for _ in range(clients)]
        self.members += [Worker(daemon, receiver, record, chance.random(), patience)
                         for _ in range(workers)]
        for member in self.members:
            member.start()

    def end(self):
        for member in self.members:
            member.stop.set()
        for member in self.members:
            member.join(60)
            if member.is_alive():
                raise AssertionError("a client was not answered within a minute")
            if member.failure:
                raise member.failure

    def requests(self):
        return sum(member.requests for member in self.members)
