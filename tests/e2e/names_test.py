#!/usr/bin/env python3
"""Timers by name, on the real daemon: keys, repeated requests, and events that end all that watch them. Each
test starts its own daemon on a free port and a data folder of its own."""

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

TARGET = "http://127.0.0.1:9/never"
NDJSON = {"Content-Type": "application/x-ndjson"}


class NamesTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.daemon = self.start()

    def start(self):
        context = harness.Daemon(self.data)
        daemon = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    def call(self, expected, method, path, body=None, headers=None):
        status, fields, answer = self.daemon.call(method, path, body, headers)
        self.assertEqual(status, expected, answer)
        return fields, answer

    def create(self, expected=201, headers=None, **fields):
        when = {} if "at" in fields else {"after": "1h"}
        fields = {**when, "target": TARGET, **fields}
        return self.call(expected, "POST", "/v1/timers", fields, headers)[1]

    # proves: key-dots
    def test_dots_are_no_names(self):
        for name in (".", ".."):
            for fields in ({"key": name}, {"watch": [name]}, {"target": f"queue:{name}"}, {"on_dead": {"target": f"queue:{name}"}}):
                self.create(422, **fields)
            self.call(422, "PUT", f"/v1/key/timer?key={name}", {"after": "1h", "target": TARGET})
            answer = self.call(200, "POST", "/v1/timers/batch", json.dumps({"after": "1h", "target": TARGET, "key": name}), NDJSON)
            self.assertEqual(json.loads(answer[1])["status"], 422)
            self.call(404, "GET", f"/v1/key/timer?key={name}")
        self.create(key="...", watch=["a..b"], target="queue:a.")

    # proves: key-query
    def test_a_key_in_the_query(self):
        """Each call by key, with keys that a proxy would change in a path."""
        for key in ("a/b", "a%2Fb", "a/../b", "a+b c", "\u00fc;x\\", "-", "k" * 256):
            query = urllib.parse.urlencode({"key": key})
            timer = self.call(201, "PUT", f"/v1/key/timer?{query}", {"after": "1h", "target": TARGET})[1]
            self.assertEqual(timer["key"], key)
            self.assertEqual(self.call(200, "GET", f"/v1/keys/{urllib.parse.quote(key, safe='')}/timer")[1], timer)
            for method, call, body in (("GET", "timer", None), ("PATCH", "timer", {"payload": 1}), ("POST", "touch", {"after": "2h"}),
                                       ("POST", "pause", {}), ("POST", "resume", None), ("POST", "fire", None)):
                self.assertEqual(self.call(200, method, f"/v1/key/{call}?{query}", body)[1]["id"], timer["id"], call)
        timer = self.create(key="/", target="queue:a")
        self.call(200, "DELETE", "/v1/key/timer?key=%2F")
        for wrong, status in (("timer", 422), ("timer?key=", 422), ("timer?id=a", 422), ("timer?key=a&key=b", 422),
                              (f"timer?key={'k' * 257}", 422), ("other?key=a", 404), ("timer?key=%zz", 400)):
            self.assertEqual(self.daemon.call("GET", f"/v1/key/{wrong}")[0], status, wrong)

    # proves: list-label
    def test_labels_with_colons(self):
        """The first colon ends the name; a name in quotes may have any."""
        labels = ({"urn:team": "a"}, {"urn": "team:a"}, {"a,b": "c,d"}, {"q\"": "x"}, {"\":": "x"}, {"urn:team": "b:c"})
        ids = [self.create(labels=each)["id"] for each in labels]
        for text, found in (('"urn:team":a', [0]), ("urn:team:a", [1]), ("a,b:c,d", [2]), ('q":x', [3]), ('"q""":x', [3]),
                            ('""":":x', [4]), ('"urn:team":b:c', [5]), ('"urn":team:a', [1])):
            listed = self.call(200, "GET", "/v1/timers?" + urllib.parse.urlencode({"label": text}))[1]["timers"]
            self.assertEqual([each["id"] for each in listed], [ids[i] for i in found], text)
        for wrong in ("urn", '"urn:team"', '"urn:team', '"":a', '"a"b:c'):
            self.call(422, "GET", "/v1/timers?" + urllib.parse.urlencode({"label": wrong}))

    # proves: key, create-repeated, create-conflict, get, if-match, key-path, final-key, key-in-use
    def test_a_key_is_one_live_timer(self):
        timer = self.create(key="order/42 ü", payload=1)
        self.assertEqual(timer["key"], "order/42 ü")
        path = "/v1/keys/order%2F42%20%C3%BC/timer"
        self.assertEqual(self.call(200, "GET", path)[1], timer)
        self.assertEqual(self.create(200, key="order/42 ü", payload=1), timer)
        problem = self.create(409, key="order/42 ü", payload=2)
        self.assertEqual((problem["type"].rsplit("/")[-1], problem["timer"]), ("key-in-use", timer))
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        self.assertEqual(self.create(200, key="order/42 ü", payload=1), timer)
        patched = self.call(200, "PATCH", path, {"payload": 3}, {"If-Match": '"1"'})[1]
        self.assertEqual((patched["id"], patched["version"]), (timer["id"], 2))
        self.call(412, "DELETE", path, None, {"If-Match": '"1"'})
        self.call(200, "DELETE", path)
        self.assertEqual(self.call(410, "GET", path)[1]["timer"]["state"], "cancelled")
        self.assertNotEqual(self.create(key="order/42 ü", payload=1)["id"], timer["id"])
        self.call(404, "GET", "/v1/keys/other/timer")

    # proves: timer-version, put-create, put-replace, put-if-match
    def test_put_creates_and_replaces(self):
        path, body = "/v1/keys/k/timer", {"after": "1h", "target": TARGET, "watch": ["a"]}
        fields, first = self.call(201, "PUT", path, body)
        self.assertEqual(fields["Location"], f"/v1/timers/{first['id']}")
        second = self.call(200, "PUT", path, {**body, "watch": ["b"], "payload": 2},
                           {"If-Match": '"1"'})[1]
        self.assertEqual((second["id"], second["version"], second["watch"]), (first["id"], 2, ["b"]))
        self.call(412, "PUT", path, body, {"If-Match": '"1"'})
        problem = self.call(422, "PUT", path, {**body, "key": "other"})[1]
        self.assertEqual(problem["errors"][0]["pointer"], "#/key")
        self.assertEqual(self.call(200, "POST", "/v1/watch/a/complete")[1]["cancelled"], 0)
        self.assertEqual(self.call(200, "POST", "/v1/watch/b/complete")[1]["cancelled"], 1)

    # proves: idempotency
    def test_a_request_sent_twice_makes_one_timer(self):
        headers = {"Idempotency-Key": "retry-1"}
        timer = self.create(headers=headers, payload=1)
        self.assertEqual(self.create(headers=headers, payload=1), timer)
        problem = self.create(422, headers=headers, payload=2)
        self.assertTrue(problem["type"].endswith("request-differs"), problem)
        self.assertNotEqual(self.create(headers={"Idempotency-Key": "retry-2"}, payload=1)["id"],
                            timer["id"])
        self.create(400, headers={"Idempotency-Key": "x" * 257})

    # proves: create-repeated
    def test_many_at_once_with_one_key(self):
        answers = []

        def post():
            answers.append(self.daemon.call("POST", "/v1/timers",
                                            {"after": "1h", "target": TARGET, "key": "race"}))

        threads = [threading.Thread(target=post) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(status for status, _, _ in answers), [200] * 15 + [201])
        self.assertEqual(len({timer["id"] for _, _, timer in answers}), 1)

    # proves: batch
    def test_a_batch_keeps_its_order_over_partitions(self):
        lines = [{"after": "1h", "target": TARGET, "payload": i,
                  **({"key": f"k{i % 700}", "watch": ["batch"]} if i % 3 else {})}
                 for i in range(3000)]
        body = "".join(json.dumps(line) + "\n" for line in lines).encode()
        _, answer = self.call(200, "POST", "/v1/timers/batch", body, NDJSON)
        answers = [json.loads(line) for line in answer.splitlines()]
        self.assertEqual(len(answers), len(lines))
        keys = {}
        for number, (line, result) in enumerate(zip(lines, answers), 1):
            if line.get("key") in keys:
                self.assertEqual((result["status"], result["line"]), (409, number))
                continue
            keys[line.get("key", number)] = result["id"]
            stored = self.call(200, "GET", f"/v1/timers/{result['id']}")[1] if number % 50 == 0 else line
            self.assertEqual((stored["payload"], stored.get("key")), (line["payload"], line.get("key")))
        watching = len([key for key in keys if isinstance(key, str)])
        self.assertEqual(self.call(200, "POST", "/v1/watch/batch/complete", {})[1],
                         {"cancelled": watching, "already_firing": 0})

    # proves: complete
    def test_an_event_fires_or_cancels_all_that_watch(self):
        with harness.Receiver() as receiver:
            timers = [self.create(target=receiver.url("/ok"), watch=["order:1", f"item:{i}"])
                      for i in range(40)]
            self.assertEqual(self.call(200, "POST", "/v1/watch/item%3A7/complete")[1]["cancelled"], 1)
            answer = self.call(200, "POST", "/v1/watch/order%3A1/complete", {"fire": True})[1]
            self.assertEqual(answer, {"fired": 39, "already_firing": 0})
            harness.wait_until(lambda: len(receiver.arrivals()) == 39, 20, "39 webhooks")
            arrived = {harness.timer_id_of(arrival.webhook_id) for arrival in receiver.arrivals()}
            self.assertEqual(arrived, {timer["id"] for timer in timers} - {timers[7]["id"]})
        self.call(422, "POST", "/v1/watch/x/complete", {"fire": 1})
        self.call(422, "POST", "/v1/watch/x/complete", {"other": 1})
        self.call(400, "POST", "/v1/watch/x/complete", b"{", {"Content-Type": "application/json"})

    # proves: complete-many
    def test_many_events_at_once(self):
        timers = [self.create(watch=[f"order:{i}", "all"]) for i in range(60)]
        self.create(watch=["order:7"])
        events = [f"order:{i}" for i in range(0, 60, 2)] + ["order:7", "nobody ü"]
        answer = self.call(200, "POST", "/v1/watch/complete", {"watch": events})[1]
        self.assertEqual([result["cancelled"] for result in answer["results"]], [1] * 30 + [2, 0])
        self.assertEqual((answer["cancelled"], answer["already_firing"], answer["failed"]), (32, 0, 0))
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        for i, timer in enumerate(timers):
            self.call(410 if i % 2 == 0 or i == 7 else 200, "GET", f"/v1/timers/{timer['id']}")
        answer = self.call(200, "POST", "/v1/watch/complete", {"watch": ["all", *events, "all"]})[1]
        self.assertEqual([result["cancelled"] for result in answer["results"][1:-1]], [0] * 32)
        self.assertEqual(answer["cancelled"], 29)
        for body in ({}, {"watch": []}, {"watch": "all"}, {"watch": [1]}, {"watch": ["x"] * 5001},
                     {"watch": ["x"], "after": "1h"}):
            self.call(422, "POST", "/v1/watch/complete", body)

    # proves: touch, touch-refused
    def test_a_touch_extends(self):
        timer = self.create(key="session", payload=1, watch=["logout"])
        path = "/v1/keys/session"
        for after in ("3h", "2h"):  # the second one is earlier, and changes nothing
            fields, touched = self.call(200, "POST", f"{path}/touch", {"after": after})
            self.assertEqual((touched["version"], fields["ETag"]), (2, '"2"'))
        self.assertGreater(touched["due"], timer["due"])
        self.assertEqual({**touched, "due": timer["due"], "version": 1}, timer)
        self.call(412, "POST", f"{path}/touch", {"after": "4h"}, {"If-Match": '"1"'})
        self.call(422, "POST", f"{path}/touch", {"after": "4h", "payload": 2})
        self.call(404, "POST", "/v1/keys/other/touch", {"after": "4h"})
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        self.assertEqual(self.call(200, "GET", f"{path}/timer")[1], touched)
        self.assertEqual(self.call(200, "GET", "/v1/timers")[1]["timers"], [touched])
        self.assertEqual(self.call(200, "POST", f"/v1/timers/{timer['id']}/touch",
                                   {"at": "2031-01-01T00:00:00Z"}, {"If-Match": '"2"'})[1]["version"], 3)
        patched = self.call(200, "PATCH", f"{path}/timer", {"payload": 2}, {"If-Match": '"3"'})[1]
        self.assertEqual((patched["due"], patched["version"]), ("2031-01-01T00:00:00.000Z", 4))
        self.assertEqual(self.call(200, "POST", "/v1/watch/logout/complete")[1]["cancelled"], 1)
        self.call(410, "POST", f"{path}/touch", {"after": "4h"})

    # proves: touch
    def test_a_touched_timer_fires_once_and_late_enough(self):
        with harness.Receiver() as receiver:
            def make(soon):
                timers = [self.create(key=f"{soon}-{i}", at=soon, target=receiver.url("/ok")) for i in range(200)]
                answer = self.call(200, "POST", "/v1/timers/touch",
                                   {"keys": [f"{soon}-{i}" for i in range(150)] + ["other"], "at": soon + 1500})[1]
                self.assertEqual((answer["touched"], answer["failures"][0]["key"]), (150, "other"))
                return soon + 1500, [timer["id"] for timer in timers]
            at, ids = harness.in_time(make)

            def arrivals(of):
                return [arrival for arrival in receiver.arrivals() if harness.timer_id_of(arrival.webhook_id) in of]
            harness.wait_until(lambda: len(arrivals(ids[150:])) == 50, 20, "those that were not touched")
            self.daemon.signal(signal.SIGKILL)
            self.daemon = self.start()
            harness.wait_until(lambda: len(arrivals(ids)) >= 200, 20, "those that were")
            for arrival in arrivals(ids):
                self.assertEqual(arrival.due_ms == at, harness.timer_id_of(arrival.webhook_id) in ids[:150])
                self.assertGreaterEqual(arrival.at_us, arrival.due_ms * 1000)
            harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_pending") == 0, 20, "none left")

    # proves: bulk-cancel, bulk-reschedule, bulk-selection
    def test_many_are_cancelled_and_rescheduled(self):
        timers = [self.create(key=f"k{i}", labels={"team": f"t{i % 3}", "all": "yes"}, watch=["done"])
                  for i in range(60)]
        ids = [timer["id"] for timer in timers]
        at = "2031-01-01T00:00:00.000Z"
        answer = self.call(200, "POST", "/v1/timers/reschedule",
                           {"labels": {"team": "t1", "all": "yes"}, "at": at})[1]
        self.assertEqual(answer, {"rescheduled": 20, "already_firing": 0, "failures": []})
        self.assertEqual(self.call(200, "GET", "/v1/keys/k1/timer")[1]["due"], at)
        self.assertEqual(self.call(200, "GET", "/v1/keys/k2/timer")[1], timers[2])
        answer = self.call(200, "POST", "/v1/timers/cancel",
                           {"ids": [*ids[:10], "nonsense"], "keys": ["k10", "k11", "k0", "other", ""]})[1]
        self.assertEqual((answer["cancelled"], answer["already_firing"]), (12, 0))
        failures = {(failure.get("id"), failure.get("key")): failure["status"] for failure in answer["failures"]}
        self.assertEqual(failures, {("nonsense", None): 404, (None, "k0"): 410, (None, "other"): 404,
                                    (None, ""): 404})
        answer = self.call(200, "POST", "/v1/timers/reschedule", {"watch": "done", "after": "2h"})[1]
        self.assertEqual(answer["rescheduled"], 48)
        answer = self.call(200, "POST", "/v1/timers/cancel", {"labels": {"all": "yes"}})[1]
        self.assertEqual(answer["cancelled"], 48)
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_pending") == 0, 10, "none pending")
        for body in ({}, {"labels": {}}, {"ids": "x"}, {"ids": [1]}, {"watch": ["x"]}, {"id": ["x"]}, [],
                     {"ids": [], "ids2": []}, {"keys": ["x"], "after": "1h"}):
            self.call(422, "POST", "/v1/timers/cancel", body)
        for body in ({"ids": ["x"]}, {"ids": ["x"], "after": 1, "at": 1}, {"ids": ["x"], "after": "x"}):
            self.call(422, "POST", "/v1/timers/reschedule", body)
        self.call(422, "POST", "/v1/timers/cancel", {"ids": ["x"] * 5001})
        self.call(400, "POST", "/v1/timers/cancel", b"{", {"Content-Type": "application/json"})


if __name__ == "__main__":
    unittest.main()
