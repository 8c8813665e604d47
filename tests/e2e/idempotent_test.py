#!/usr/bin/env python3
"""Goal: a call that asks for what is there changes no phase, and no firing that waits or is tried again is lost by it; and
one Idempotency-Key makes one timer, whatever `key` the requests have. Method: each such call on the real daemon, on a timer
in each of these states, and what is shown afterwards; requests that share an Idempotency-Key, with kill -9 in between."""

import json
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness
from daemon_case import ms_of

NDJSON = {"Content-Type": "application/x-ndjson"}
RETRY = {"max_attempts": 5, "base": "1h", "cap": "1h"}
SCHEDULES = ({"every": "2s"}, {"every": "1d", "at": "2026-01-01T03:00:00Z", "count": 5000}, {"cron": "* * * * * *"},
             {"cron": "0 3 * * *", "timezone": "Europe/Berlin", "until": "2031-01-01T00:00:00Z"},
             {"at": "2026-01-01T03:00:00Z"}, {"every": "5s", "late": {"missed": "each"}, "spread": {"window": "1s"}})


class IdempotentTest(daemon_case.DaemonCase):
    def put(self, key, fields, expected=200):
        return self.call(expected, "PUT", f"/v1/keys/{key}/timer", fields)[1]

    def shown(self, key):
        timer = self.call(200, "GET", f"/v1/keys/{key}/timer")[1]
        return {name: timer.get(name) for name in ("id", "due", "state", "attempts", "last_error", "schedule")}

    def equal_calls(self, key, fields):
        """The calls that ask for the timer with this key as it is, each with another payload where that is not told apart."""
        path = f"/v1/keys/{key}"
        yield "PUT", f"{path}/timer", fields
        yield "PUT", f"{path}/timer", {**fields, "payload": 2}
        yield "PATCH", f"{path}/timer", {name: value for name, value in fields.items() if name not in ("key", "spread")}
        yield "PATCH", f"{path}/timer", {"payload": 3}
        for name in ("every", "cron", "timezone", "until", "count", "late"):
            if name in fields:
                yield "PATCH", f"{path}/timer", {name: fields[name]}
        due = self.shown(key)["due"]
        yield "PATCH", f"{path}/timer", {"at": due}
        yield "POST", "/v1/timers/reschedule", {"keys": [key], "at": due}
        yield "POST", f"{path}/touch", {"at": due}
        yield "POST", "/v1/timers/touch", {"keys": [key], "at": due}
        yield "POST", f"{path}/resume", None
        yield "POST", "/v1/timers/resume", {"keys": [key]}

    # proves: put-equal, patch-equal
    def test_what_is_due_stays_due(self):
        """It failed once and waits for an hour; or it waits for a worker, which gets it at last."""
        for place, (target, state) in enumerate(((self.receiver.url("/status/500"), "retrying"), ("queue:jobs", "scheduled"))):
            for number, schedule in enumerate(SCHEDULES):
                key = f"{place}-{number}"
                fields = {**schedule, "key": key, "target": target, "retry": RETRY, "payload": 1}
                first = self.put(key, fields, 201)
                if ms_of(first["due"]) > time.time() * 1000:
                    self.call(200, "POST", f"/v1/keys/{key}/fire")
                harness.wait_until(lambda: self.is_waiting(key, state), 20, f"{key} waits")
                before = self.shown(key)
                for call in self.equal_calls(key, fields):
                    self.call(200, *call)
                    self.assertEqual(self.shown(key), before, call)
                again = self.call(200, "POST", "/v1/timers", {**fields, "payload": 3})[1]
                self.assertEqual(again["id"], before["id"])
            if state == "scheduled":
                items = self.call(200, "POST", "/v1/queues/jobs/lease", {"max": 100})[1]["items"]
                self.assertEqual(len(items), len(SCHEDULES))

    def is_waiting(self, key, state):
        shown = self.shown(key)
        return shown["state"] == state and ms_of(shown["due"]) <= time.time() * 1000

    # proves: put-new-schedule
    def test_a_new_schedule_begins_after_a_firing_that_waits(self):
        fields = {"target": "queue:jobs", "every": "1s"}
        self.put("k", fields, 201)
        harness.wait_until(lambda: self.is_waiting("k", "scheduled"), 10, "it waits")
        due = self.shown("k")["due"]
        self.put("k", {**fields, "every": "1h"})
        self.call(200, "PATCH", "/v1/keys/k/timer", {"every": None, "cron": "0 3 * * *"})
        self.assertEqual(self.shown("k")["due"], due)
        items = self.call(200, "POST", "/v1/queues/jobs/lease", {})[1]["items"]
        self.assertEqual([item["due"] for item in items], [due])
        self.call(200, "POST", "/v1/queues/jobs/ack", {"receipts": [items[0]["receipt"]]})
        self.assertTrue(self.shown("k")["due"].endswith("T03:00:00.000Z"))

    # proves: create-firing
    def test_an_equal_create_during_its_delivery(self):
        """Alone and in a batch it is answered as a put is: whoever asks to be woken must ask again."""
        fields = {"target": "queue:jobs", "after": 0, "key": "k"}
        timer = self.call(201, "POST", "/v1/timers", fields)[1]
        self.assertEqual(self.call(200, "POST", "/v1/timers", fields)[1]["id"], timer["id"])
        receipt = self.call(200, "POST", "/v1/queues/jobs/lease", {"wait": "20s"})[1]["items"][0]["receipt"]
        for method, path in (("POST", "/v1/timers"), ("PUT", "/v1/keys/k/timer")):
            self.assertEqual(self.call(409, method, path, fields)[1]["type"], "/problems/already-firing")
        lines = [json.dumps({**fields, "key": key}) for key in ("k", "other", "k")]
        answer = self.call(200, "POST", "/v1/timers/batch", "\n".join(lines), NDJSON)[1]
        self.assertEqual([(each.get("type"), each.get("status")) for each in map(json.loads, answer.splitlines())],
                         [("/problems/already-firing", 409), (None, None), ("/problems/already-firing", 409)])
        self.call(200, "POST", "/v1/queues/jobs/ack", {"receipts": [receipt]})
        self.assertNotEqual(self.call(201, "POST", "/v1/timers", fields)[1]["id"], timer["id"])

    # proves: put-spread
    def test_a_put_with_a_spread(self):
        """The key of the path decides on it, as that of the body does."""
        fields = {"target": "queue:jobs", "cron": "0 3 * * *", "spread": {"window": "1h"}}
        dues = []
        for key, method, path in (("a/b", "PUT", "/v1/keys/a%2Fb/timer"), ("a/b", "POST", "/v1/timers")):
            timer = self.call(201, method, path, {**fields, **({} if method == "PUT" else {"key": key})})[1]
            dues.append(timer["due"])
            self.assertIn("spread", timer["schedule"])
            self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        self.assertEqual(*dues)
        self.call(422, "PUT", "/v1/keys/k/timer", {**fields, "key": "other"})
        self.call(201, "PUT", "/v1/keys/k/timer", {**fields, "key": "k"})
        self.call(422, "POST", "/v1/timers", fields)

    # proves: idempotency-differs, request-differs
    def test_one_idempotency_key_with_several_keys(self):
        """Each pair of key a, key b and no key, by POST and PUT, before and after kill -9: the second makes no timer."""
        body = {"after": "1h", "target": "queue:jobs"}
        requests = [("POST", "/v1/timers", body)]
        for key in ("a", "b"):
            requests.append(("POST", "/v1/timers", {**body, "key": key}))
            requests.append(("PUT", f"/v1/keys/{key}/timer", body))
        pairs = [(first, second) for first in requests for second in requests if first != second]
        made = []
        for i, (first, second) in enumerate(pairs):
            made.append(self.call(201, *first, headers := {"Idempotency-Key": f"pair-{i}"})[1])
            self.assertEqual(self.call(422, *second, headers)[1]["type"], "/problems/request-differs", (first, second))
            if "key" in made[-1]:
                self.call(200, "DELETE", f"/v1/timers/{made[-1]['id']}")
        self.restart()
        for i, (first, second) in enumerate(pairs):
            headers = {"Idempotency-Key": f"pair-{i}"}
            self.call(422, *second, headers)
            fields, again = self.call(201, *first, headers)
            self.assertEqual((again["id"], fields["Idempotent-Replayed"]), (made[i]["id"], "true"))
        self.assertEqual(sorted(self.listed("state=scheduled&state=cancelled")), sorted(timer["id"] for timer in made))

    # proves: idempotency-differs
    def test_many_keys_at_once_with_one_idempotency_key(self):
        for name in ("once", "twice", "thrice"):
            answers = []

            def post(key):
                answers.append(self.daemon.call("POST", "/v1/timers", {"after": "1h", "target": "queue:jobs", **key},
                                                {"Idempotency-Key": name}))
            keys = [{}] + [{"key": f"{name}-{i}"} for i in range(15)]
            threads = [threading.Thread(target=post, args=(key,)) for key in keys]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sorted(status for status, _, _ in answers), [201] + 15 * [422])

    # proves: idempotency
    def test_a_key_in_use_can_be_asked_for_again(self):
        """A request that was refused belongs to its Idempotency-Key all the same."""
        fields, headers = {"after": "1h", "target": "queue:jobs", "key": "k"}, {"Idempotency-Key": "again"}
        other = self.call(201, "POST", "/v1/timers", {**fields, "payload": 1})[1]
        for _ in range(2):
            self.call(409, "POST", "/v1/timers", fields, headers)
            self.call(422, "POST", "/v1/timers", {**fields, "key": "j"}, headers)
        self.call(200, "DELETE", f"/v1/timers/{other['id']}")
        timer = self.call(201, "POST", "/v1/timers", fields, headers)[1]
        self.assertEqual(self.call(201, "POST", "/v1/timers", fields, headers)[1], timer)


class ForgottenTest(daemon_case.DaemonCase):
    flags = ("--retain", "1s", "--watermark-interval", "50ms")

    # proves: idempotency-differs
    def test_an_idempotency_key_is_forgotten(self):
        """It is kept until `retain` after the timer is due, however long that takes, and then free."""
        headers = {"Idempotency-Key": "once"}
        fields = {"target": "queue:jobs", "key": "a", "after": "3s"}
        timer = self.call(201, "POST", "/v1/timers", fields, headers)[1]
        while time.time() * 1000 < ms_of(timer["due"]) + 500:
            self.call(422, "POST", "/v1/timers", {**fields, "key": "b"}, headers)
        harness.wait_until(lambda: self.daemon.call("POST", "/v1/timers", {**fields, "key": "b"}, headers)[0] == 201, 20,
                           "the Idempotency-Key is free")


if __name__ == "__main__":
    unittest.main()
