#!/usr/bin/env python3
"""Goal: no body, whatever became of it on its way, stops the daemon, is answered by 500, touches a timer that it does
not name, or is taken although it is no JSON. Method: for each call that has a body a good one, spoiled at random in
bytes and in words; Python's reader of JSON says what is none. The seed is random and printed; TEST_SEED=... repeats a
run, TEST_ROUNDS=... makes it longer."""

import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case

SEED = int(os.environ.get("TEST_SEED", random.randrange(2**32)))
ROUNDS = int(os.environ.get("TEST_ROUNDS", "6000"))
NDJSON = {"Content-Type": "application/x-ndjson"}
KEPT = {"after": "1h", "target": "queue:kept", "labels": {"of": "others"}, "watch": ["nobody"]}

TIMERS = [
    {"after": "1h", "target": "queue:a", "key": "k", "watch": ["a", "b"], "labels": {"x": "y"}, "payload": {"n": [1]},
     "retry": {"max_attempts": 3, "base": "1s", "cap": "1m", "timeout": "5s"}},
    {"after": 0, "target": "queue:a", "watch": ["a"], "late": {"drop_after": "1h"}},
    {"every": "1h", "count": 3, "target": "queue:a", "key": "s", "spread": {"window": "1m"}},
    {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "dst": "skip", "until": "2099-01-01T00:00:00Z",
     "late": {"missed": "each"}, "target": "http://127.0.0.1:9/", "headers": {"X-A": "b"}},
    {"at": "2099-01-01T00:00:00Z", "target": "queue:a", "body_base64": "AAEC", "content_type": "image/png"},
]
SELECTIONS = [{"labels": {"x": "y"}}, {"keys": ["k", "s"]}, {"watch": "a"}]
RECEIPTS = {"receipts": ["0" * 32]}
CALLS = (
    [("POST", "/v1/timers", timer) for timer in TIMERS] + [("PUT", "/v1/keys/k/timer", timer) for timer in TIMERS] +
    [("POST", f"/v1/timers/{verb}", each) for each in SELECTIONS for verb in ("cancel", "fire", "resume")] +
    [("POST", "/v1/timers/pause", {**each, "note": "n", "until": "2099-01-01T00:00:00Z"}) for each in SELECTIONS] +
    [("POST", f"/v1/timers/{verb}", {**each, "after": "2h"}) for each in SELECTIONS for verb in ("reschedule", "touch")] +
    [("POST", "/v1/keys/k/pause", {"note": "ü", "until": 4102444800000}), ("POST", "/v1/watch/a/complete", {"fire": True}), ("POST", "/v1/watch/complete", {"watch": ["a", "b"]}),
     ("PATCH", "/v1/keys/k/timer", {"after": "3h", "labels": {"x": "z"}}), ("POST", "/v1/keys/k/touch", {"after": "1h"}),
     ("POST", "/v1/queues/a/lease", {"max": 3, "wait": 0, "lease": "1s"}), ("POST", "/v1/queues/a/ack", RECEIPTS),
     ("POST", "/v1/queues/a/nack", {**RECEIPTS, "delay": "1s", "error": "no", "dead": False}),
     ("POST", "/v1/queues/a/extend", {**RECEIPTS, "lease": "1s"}),
     ("POST", "/v1/dead/redrive", {"labels": {"x": "y"}, "limit": 5})])


def words_of(value):
    """The parts of a good body, as they stand in it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield json.dumps(name) + ":"
            yield from words_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from words_of(inner)
    yield json.dumps(value)


WORDS = [word.encode() for word in sorted({word for _, _, body in CALLS for word in words_of(body)})]


def spoiled(chance, body):
    body = bytearray(json.dumps(body).encode())
    for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
        at = chance.randrange(len(body) + 1)
        size = chance.randrange(1, 13)
        piece = chance.choice((bytes([chance.randrange(256)]), bytes([chance.choice(b'{}[]",:0-x\\ \n')]),
                               chance.choice(WORDS), bytes(body[at:at + size]), b""))
        body[at:at + chance.choice((0, 1, size))] = piece
    return bytes(body)


def is_json(body):
    try:
        json.loads(body.decode("utf-8"))
        return True
    except ValueError:
        return False


class SpoiledTest(daemon_case.DaemonCase):
    flags = ("--queue-wait-max", "100ms")  # so that no answer waits for what may never come

    def setUp(self):
        super().setUp()
        print(f"TEST_SEED={SEED}", flush=True)
        self.chance = random.Random(SEED)
        self.connection = self.daemon.connect()
        self.addCleanup(self.connection.close)
        self.kept = [self.create(**KEPT) for _ in range(10)]

    def send(self, method, path, body, headers):
        """One request; its status."""
        status, fields, answer = self.daemon.call(method, path, body, headers, self.connection)
        self.assertNotEqual(status, 500, (method, path, body, answer))
        if status >= 400:
            self.assertEqual(fields["Content-Type"], "application/problem+json", (method, path, body, answer))
        return status

    def check_others(self):
        self.assertTrue(self.daemon.is_ready())
        for timer in self.kept:
            self.assertEqual(self.get(timer)[2], timer)

    # proves: not-json
    def test_bodies(self):
        taken = 0
        for _ in range(ROUNDS):
            method, path, good = self.chance.choice(CALLS)
            body = spoiled(self.chance, good)
            status = self.send(method, path, body, None)
            if not is_json(body) and (body or "/complete" not in path):
                self.assertIn(status, (400, 422), (method, path, body))
            taken += status < 300
        self.check_others()
        self.assertGreater(taken, ROUNDS // 50)

    def test_batches(self):
        for _ in range(ROUNDS // 20):
            lines = [spoiled(self.chance, self.chance.choice(TIMERS)) for _ in range(self.chance.randrange(1, 40))]
            self.assertEqual(self.send("POST", "/v1/timers/batch", b"\n".join(lines), NDJSON), 200)
        self.check_others()


if __name__ == "__main__":
    unittest.main()
