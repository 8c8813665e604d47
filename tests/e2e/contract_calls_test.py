#!/usr/bin/env python3
"""Goal: each field of each call does on the real daemon what the contract says, and each number of an answer is what
it counts. Method: requests that use one field each, and what is read back, mostly over a kill -9 too.
A comment "proves:" names what each test proves."""

import base64
import concurrent.futures
import http.server
import json
import os
import signal
import sys
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness
from daemon_case import ms_of

NDJSON = {"Content-Type": "application/x-ndjson"}


class OneTimerTest(daemon_case.DaemonCase):
    # proves: watch, stored-unchanged, timer-id, timer-content, timer-retry, timer-schedule
    def test_every_field_comes_back(self):
        """What a create says is shown, also after a kill -9; what it does not say has its default."""
        sent = {"target": self.receiver.url("/a?b=%20c"), "payload": {"order": [42, None], "ü": 1.50}, "key": "order-42",
                "labels": {"team": "checkout", "empty": ""}, "watch": ["order:42", "ü"],
                "headers": {"X-Team": "a b", "authorization": "Bearer x"}, "every": "10s", "at": "2031-01-01T00:00:00Z",
                "count": 7, "until": "2032-01-01T00:00:00Z", "late": {"drop_after": "5m", "missed": "each"},
                "retry": {"max_attempts": 3, "base": "500ms", "cap": "2m", "timeout": "5s", "give_up_after": "1d"}}
        timer = self.create(**sent)
        for name in ("target", "payload", "key", "labels", "watch", "headers", "retry"):
            self.assertEqual(timer[name], sent[name], name)
        self.assertEqual(timer["schedule"], {
            "every": "10s", "from": "2031-01-01T00:00:00.000Z", "count": 7, "until": "2032-01-01T00:00:00.000Z",
            "late": {"drop_after": "5m", "missed": "each"}})
        self.assertEqual((timer["due"], timer["state"], timer["version"], timer["attempts"]),
                         ("2031-01-01T00:00:00.000Z", "scheduled", 1, 0))
        plain = self.create(body_base64="AAEC/w==", content_type="image/x-test")
        self.assertEqual((plain["body_base64"], plain["content_type"]), ("AAEC/w==", "image/x-test"))
        self.assertEqual(plain["retry"], {"max_attempts": 10, "base": "1s", "cap": "1h", "timeout": "15s",
                                          "give_up_after": "3d"})
        for name in ("payload", "key", "labels", "watch", "headers", "schedule", "last_error", "ended"):
            self.assertNotIn(name, plain)
        self.restart()
        self.assertEqual((self.get(timer)[2], self.get(plain)[2]), (timer, plain))
        earlier = self.create(after="1ms")
        self.assertLess(earlier["id"], timer["id"])  # an id's order is that of the first due times
        self.assertRegex(timer["id"], "^[A-Za-z0-9._~-]+$")

    # proves: retry, timer-version, patch, patch-time, patch-fields, if-match
    def test_a_patch_changes_each_field(self):
        timer = self.create(payload=1, labels={"a": "1", "b": "2"}, headers={"X-A": "1", "X-B": "2"}, key="k",
                            watch=["w"], retry={"max_attempts": 3, "base": "2s", "cap": "3s", "timeout": "4s", "give_up_after": "5s"})
        other = self.receiver.url("/other")
        for number, (sent, shown) in enumerate([
                ({"after": "2h"}, {}), ({"at": "2031-01-01T00:00:00Z"}, {"due": "2031-01-01T00:00:00.000Z"}),
                ({"payload": None}, {}), ({"payload": [2]}, {"payload": [2]}),
                ({"body_base64": "AAE=", "content_type": "a/b"}, {"body_base64": "AAE=", "content_type": "a/b"}),
                ({"target": other}, {"target": other}), ({"labels": {"c": "3", "a": None}}, {"labels": {"b": "2", "c": "3"}}),
                ({"headers": {"X-B": "3", "X-A": None}}, {"headers": {"X-B": "3"}}), ({"watch": ["v"]}, {"watch": ["v"]}),
                ({"retry": {"max_attempts": 9, "base": None}},
                 {"retry": {"max_attempts": 9, "base": "1s", "cap": "3s", "timeout": "4s", "give_up_after": "5s"}})], 1):
            kind = ("application/json", "application/merge-patch+json")[number % 2]
            fields, answer = self.call(200, "PATCH", f"/v1/timers/{timer['id']}", json.dumps(sent),
                                       {"If-Match": f'"{number}"', "Content-Type": kind})
            timer.update(shown, version=number + 1)
            if "after" in sent:
                self.assertLess(abs(ms_of(answer["due"]) - time.time() * 1000 - 7200000), 60000)
                timer["due"] = answer["due"]
            if "body_base64" in sent or "payload" in sent and sent["payload"] is None:
                del timer["payload"]
            self.assertEqual((answer, fields["ETag"]), (timer, f'"{number + 1}"'))
        self.restart()
        self.assertEqual(self.get(timer)[2], timer)
        for field, value in (("key", "x"), ("key", None), ("target", None), ("after", None), ("at", None), ("id", "x"),
                             ("state", "fired"), ("version", None), ("count", 1), ("timezone", "UTC")):
            problem = self.call(422, "PATCH", f"/v1/timers/{timer['id']}", {field: value})[1]
            self.assertEqual(problem["errors"][0]["pointer"], f"#/{field}")
        self.assertEqual(self.get(timer)[2], timer)

    # proves: patch-merge, patch-schedule, timer-schedule
    def test_a_patch_merges(self):
        for kind in ("application/json", "application/merge-patch+json"):
            def patch(timer, fields, status=200):
                return self.call(status, "PATCH", f"/v1/timers/{timer['id']}", json.dumps(fields), {"Content-Type": kind})[1]
            timer = self.create(payload={"a": {"b": 1, "c": [1]}, "d": 1}, labels={"a": "1", "b": "2"})
            timer = patch(timer, {"payload": {"a": {"b": None, "e": [None]}}, "labels": {"b": None}})
            self.assertEqual(timer["payload"], {"a": {"c": [1], "e": [None]}, "d": 1})
            self.assertEqual(timer["labels"], {"a": "1"})
            timer = patch(timer, {"payload": None, "labels": None, "retry": None})
            self.assertEqual([name for name in ("payload", "labels") if name in timer], [])
            timer = patch(timer, {"every": "1h", "count": 3, "at": "2031-01-01T00:00:00Z"})
            self.assertEqual((timer["due"], timer["schedule"]), ("2031-01-01T00:00:00.000Z", {
                "every": "1h", "from": "2031-01-01T00:00:00.000Z", "count": 3}))
            timer = patch(timer, {"count": 5, "late": {"drop_after": "1m", "missed": "each"}})
            self.assertEqual((timer["due"], timer["schedule"]), ("2031-01-01T00:00:00.000Z", {
                "every": "1h", "from": "2031-01-01T00:00:00.000Z", "count": 5,
                "late": {"drop_after": "1m", "missed": "each"}}))
            self.assertEqual(patch(timer, {"until": 1}, 422)["errors"][0]["pointer"], "#/until")
            timer = patch(timer, {"cron": "0 0 1 1 *", "timezone": "Europe/Berlin", "late": {"drop_after": None}})
            self.assertEqual(timer["due"][4:], "-12-31T23:00:00.000Z")
            self.assertEqual(timer["schedule"], {"cron": "0 0 1 1 *", "timezone": "Europe/Berlin", "dst": "shift",
                                                 "late": {"missed": "each"}})
            due = timer["due"]
            timer = patch(timer, {"cron": None})
            self.assertEqual((timer["due"], "schedule" in timer), (due, False))
            self.restart()
            self.assertEqual(self.get(timer)[2], timer)

    # proves: patch-schedule
    def test_a_patched_timer_fires_by_its_new_schedule(self):
        timer = self.create(after="1h")
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}", {"every": "50ms", "count": 3, "late": {"missed": "each"}})
        self.assertEqual(len(self.wait_for_arrivals(timer, 3)), 3)
        self.await_state(timer, "fired")

    # proves: patch-watch, watch
    def test_a_patched_watch(self):
        timer = self.create(watch=["old", "both"], key="watched")
        for path in (f"/v1/timers/{timer['id']}", "/v1/keys/watched/timer"):
            timer = self.call(200, "PATCH", path, {"watch": ["new", "both"]})[1]
            self.assertEqual(timer["watch"], ["new", "both"])
            self.restart()
            self.assertEqual(self.call(200, "POST", "/v1/watch/old/complete")[1]["cancelled"], 0)
        self.call(200, "PATCH", path, {"watch": None, "payload": 1})
        for event in ("old", "new", "both"):
            self.assertEqual(self.call(200, "POST", f"/v1/watch/{event}/complete")[1]["cancelled"], 0)
        self.call(200, "PATCH", path, {"watch": ["new"]})
        self.assertEqual(self.call(200, "POST", "/v1/watch/new/complete")[1]["cancelled"], 1)

    # proves: patch-merge
    def test_patches_at_a_time_lose_nothing(self):
        timer = self.create()
        names = [str(n) for n in range(24)]
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            answers = list(pool.map(lambda name: self.daemon.call("PATCH", f"/v1/timers/{timer['id']}",
                                                                  {"labels": {name: "x"}, "headers": {"X-" + name: "y"}}), names))
        self.assertEqual({status for status, _, _ in answers}, {200})
        self.assertEqual(sorted(answer["version"] for _, _, answer in answers), list(range(2, len(names) + 2)))
        timer = self.get(timer)[2]
        self.assertEqual((set(timer["labels"]), set(timer["headers"])), (set(names), {"X-" + name for name in names}))

    # proves: patch
    def test_what_is_patched_is_what_is_sent(self):
        timer = self.create("/status/500", payload=1)
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}",
                  {"target": self.receiver.url("/elsewhere"), "after": 0, "payload": 2})
        self.assertEqual([each.path for each in self.wait_for_arrivals(timer)], ["/elsewhere"])

    # proves: idempotency, idempotency-differs, bad-request, request-differs
    def test_an_idempotency_key(self):
        body = {"after": "1h", "target": self.receiver.url()}
        for wrong in ("", "a b", "x" * 257, "ü", "a\tb", '"', '""', '"a', '"a"b', '"a\\', '"a\\b"', f'"{"x" * 257}"'):
            self.call(400, "POST", "/v1/timers", body, {"Idempotency-Key": wrong})
            self.call(400, "PUT", "/v1/keys/k/timer", body, {"Idempotency-Key": wrong})
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/timers")
        text = json.dumps(body)
        for name, value in (("Idempotency-Key", "a"), ("Idempotency-Key", "a"), ("Content-Length", str(len(text))),
                            ("Content-Type", "application/json")):
            connection.putheader(name, value)
        connection.endheaders(text.encode())
        self.assertEqual(connection.getresponse().status, 400)
        connection.close()
        fields, first = self.call(201, "POST", "/v1/timers", body, {"Idempotency-Key": "!" * 256})
        self.assertNotIn("Idempotent-Replayed", fields)
        self.restart()
        again, second = self.call(201, "POST", "/v1/timers", body, {"Idempotency-Key": "!" * 256})
        self.assertEqual(again["Idempotent-Replayed"], "true")
        self.assertEqual((second, again["Location"], again["ETag"]), (first, fields["Location"], fields["ETag"]))
        problem = self.call(422, "POST", "/v1/timers", {**body, "payload": 1}, {"Idempotency-Key": "!" * 256})[1]
        self.assertEqual(problem["type"], "/problems/request-differs")
        quoted = {"Idempotency-Key": f'"{"!" * 256}"'}
        self.assertEqual(self.call(201, "POST", "/v1/timers", body, quoted)[1], first)
        self.assertEqual(self.listed(""), [first["id"]])
        second = self.call(201, "POST", "/v1/timers", body, {"Idempotency-Key": r'"a\\\"1"'})[1]
        self.assertEqual(self.call(201, "POST", "/v1/timers", body, {"Idempotency-Key": r'a\"1'})[1], second)

    # proves: idempotency
    def test_many_at_once_with_one_idempotency_key(self):
        answers = []
        body = {"after": "1h", "target": self.receiver.url()}

        def post():
            answers.append(self.daemon.call("POST", "/v1/timers", body, {"Idempotency-Key": "once"}))
        threads = [threading.Thread(target=post) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({status for status, _, _ in answers}, {201})
        self.assertEqual(len({timer["id"] for _, _, timer in answers}), 1)

    # proves: put-idempotency
    def test_an_idempotency_key_of_a_put(self):
        """Sent again, a put with the same name changes nothing: the timer keeps its version."""
        body, headers = {"after": "1h", "target": self.receiver.url()}, {"Idempotency-Key": "put-1"}
        fields, first = self.call(201, "PUT", "/v1/keys/k/timer", body, headers)
        self.assertNotIn("Idempotent-Replayed", fields)
        again, second = self.call(201, "PUT", "/v1/keys/k/timer", body, headers)
        self.assertEqual((again["Idempotent-Replayed"], second), ("true", first))
        self.assertEqual(self.get(first)[2], first)
        replaced = self.call(200, "PUT", "/v1/keys/k/timer", {**body, "payload": 2}, {"Idempotency-Key": "put-2"})[1]
        self.assertEqual(self.call(201, "PUT", "/v1/keys/k/timer", body, headers)[1], replaced)
        self.call(422, "PUT", "/v1/keys/k/timer", {**body, "payload": 3}, headers)
        self.assertEqual(self.call(200, "POST", "/v1/timers", {**body, "key": "k", "payload": 2},
                                   {"Idempotency-Key": "another"})[1], replaced)

    # proves: put-if-match
    def test_a_put_that_is_to_replace_makes_no_timer(self):
        body, path = {"after": "1h", "target": self.receiver.url()}, "/v1/keys/k/timer"
        for match in ('"1"', "*", '"2"'):
            problem = self.call(412, "PUT", path, body, {"If-Match": match})[1]
            self.assertEqual(problem["type"], "/problems/version-mismatch")
        self.call(404, "GET", path)
        self.call(201, "PUT", path, body)
        self.call(412, "PUT", path, body, {"If-Match": '"2"'})
        self.call(200, "PUT", path, body, {"If-Match": "*"})
        self.call(200, "DELETE", path)
        self.call(412, "PUT", path, body, {"If-Match": "*"})


class RetainTest(daemon_case.DaemonCase):
    flags = ("--retain", "1s", "--watermark-interval", "50ms")

    # proves: idempotency, unknown-id, final-id, unknown-key, retain
    def test_what_is_over_is_forgotten(self):
        """410 while it is retained, 404 afterwards; its request's name and its key are free then."""
        headers = {"Idempotency-Key": "once"}
        body = {"after": 0, "target": self.receiver.url(), "key": "k"}
        timer = self.call(201, "POST", "/v1/timers", body, headers)[1]
        self.assertIn(harness.wait_until(lambda: (status := self.get(timer)[0]) != 200 and status, 10, "its end"), (404, 410))
        for path in (f"/v1/timers/{timer['id']}", "/v1/keys/k/timer"):
            harness.wait_until(lambda: self.daemon.call("GET", path)[0] == 404, 20, "404")
            self.call(404, "DELETE", path)
            self.call(404, "PATCH", path, {"after": 1})
        self.assertNotEqual(self.call(201, "POST", "/v1/timers", body, headers)[1]["id"], timer["id"])


class RetainOnDiskTest(RetainTest):
    """The same while the rows are still on disk."""
    flags = ("--retain", "1s", "--watermark-interval", "1h")


class DeadRetainTest(daemon_case.DaemonCase):
    flags = ("--retain", "0s", "--dead-retain", "8s", "--watermark-interval", "50ms")

    # proves: dead-retain, dead_retain
    def test_a_dead_letter_outlives_other_final_timers(self):
        """What fired is trimmed at once; a dead letter is there until its own time is over, also over a kill -9."""
        created_ms = time.time() * 1000
        fired, dead = self.create(after=0), self.create("/gone", after=0, payload=7)
        harness.wait_until(lambda: self.get(fired)[0] == 404, 10, "404")
        self.await_state(dead, "dead")
        self.restart()
        shown, listed = self.get(dead)[2], self.listed("limit=100", "/v1/dead")
        if time.time() * 1000 < created_ms + 8000:
            self.assertEqual((shown["timer"]["payload"], listed), (7, [dead["id"]]))
        harness.wait_until(lambda: self.get(dead)[0] == 404, 40, "404")
        self.assertGreaterEqual(time.time() * 1000, created_ms + 8000)
        self.assertEqual(self.listed("limit=100", "/v1/dead"), [])
        harness.wait_until(lambda: self.daemon.metric("tickwheel_dead_letters") == 0, 20, "it goes from the disk")
        self.assertEqual(self.daemon.metric("tickwheel_dead_dropped_total"), 0)


class DeadBytesTest(daemon_case.DaemonCase):
    flags = ("--dead-bytes-max", "20K", "--partitions", "1")

    # proves: dead-retain, dead_bytes_max
    def test_the_oldest_dead_letters_go(self):
        """Below the bound all stay; beyond it the oldest go, counted and logged; the newest are there after a kill -9."""
        def die(count):
            made = [self.create("/gone", after=0, payload="x" * 1000) for _ in range(count)]
            for timer in made:
                harness.wait_until(lambda timer=timer: self.get(timer)[0] != 200, 20, "its end")
            return made
        few = die(5)
        self.assertEqual({self.get(timer)[0] for timer in few}, {410})
        self.assertEqual(self.daemon.metric("tickwheel_dead_dropped_total"), 0)
        for _ in range(4):
            last = die(10)
        def is_within_the_bound():
            """The metrics are those of a moment ago, so all of them must agree."""
            letters, dropped = (self.daemon.metric(f"tickwheel_dead_{name}") for name in ("letters", "dropped_total"))
            return (dropped > 0 and letters + dropped == 5 + 4 * 10 and
                    self.daemon.metric("tickwheel_dead_bytes") <= 20 << 10 and
                    len(self.listed("limit=100", "/v1/dead")) == letters)
        harness.wait_until(is_within_the_bound, 20, "the oldest are dropped")
        kept = self.listed("limit=100", "/v1/dead")
        self.assertTrue(kept)
        self.assertIn(last[-1]["id"], kept)
        self.assertEqual({self.get(timer)[0] for timer in few}, {404})
        harness.wait_until(lambda: "event=dead_letters_dropped" in self.daemon.output(), 10, "the log")
        self.restart()
        self.assertEqual(self.listed("limit=100", "/v1/dead"), kept)


class ManyTest(daemon_case.DaemonCase):
    def batch(self, lines, **headers):
        body = "".join(json.dumps(line) + "\n" for line in lines)
        fields, answer = self.call(200, "POST", "/v1/timers/batch", body, {**NDJSON, **headers})
        return fields, [json.loads(line) for line in answer.splitlines()]

    # proves: batch, batch-minimal
    def test_a_batch_says_what_existed(self):
        line = {"after": "1h", "target": self.receiver.url(), "key": "k"}
        wrong = {"after": -1, "target": self.receiver.url()}
        first = self.batch([line, {**line, "key": "l"}])[1]
        self.assertEqual([set(each) for each in first], [{"id"}, {"id"}])
        second = self.batch([line, {**line, "payload": 1}, wrong, {**line, "key": "m"}])[1]
        self.assertEqual(second[0], {"id": first[0]["id"], "existed": True})
        self.assertEqual((second[1]["status"], second[1]["type"], second[1]["line"]), (409, "/problems/key-in-use", 2))
        self.assertEqual((second[2]["status"], second[2]["errors"][0]["pointer"], second[2]["line"]), (422, "#/after", 3))
        fields, third = self.batch([line, wrong, {**line, "key": "n"}, {**line, "payload": 2}],
                                   Prefer="return=minimal")
        self.assertEqual(fields["Preference-Applied"], "return=minimal")
        self.assertEqual(third[0], {"created": 1, "existed": 1, "failed": 2})
        self.assertEqual([(each["line"], each["status"]) for each in third[1:]], [(2, 422), (4, 409)])
        self.restart()
        self.assertEqual(self.call(200, "GET", "/v1/keys/n/timer")[1]["key"], "n")

    # proves: complete-firing, bulk-cancel, bulk-reschedule, bulk-time, bulk-selection
    def test_bulk_tells_what_was_not_done_and_why(self):
        """Every way to say which, with timers in every state; what is found twice is done once."""
        labels, watch = {"team": "a"}, ["end"]
        waiting = [self.create(labels=labels, watch=watch, key=f"w{i}") for i in range(5)]
        hanging = self.create("/hang", after=0, labels=labels, watch=watch, key="h")
        fired = self.create(after=0, labels=labels, watch=watch, key="f")
        self.await_state(hanging, "delivering")
        self.await_state(fired, "fired")
        path, until = "/v1/timers/reschedule", "2031-01-01T00:00:00.000Z"
        answer = self.call(200, "POST", path, {
            "ids": [waiting[0]["id"], hanging["id"], fired["id"], "x"], "keys": ["w1", "h", "f", "nobody"], "at": until})[1]
        self.assertEqual((answer["rescheduled"], answer["already_firing"]), (2, 0))
        self.assertEqual([(each.get("id"), each.get("key"), each["status"], each["type"].rsplit("/")[-1])
                          for each in answer["failures"]],
                         [(hanging["id"], None, 409, "already-firing"), (fired["id"], None, 410, "gone"),
                          ("x", None, 404, "not-found"), (None, "h", 409, "already-firing"), (None, "f", 410, "gone"),
                          (None, "nobody", 404, "not-found")])
        for which in ({"labels": labels}, {"watch": "end"}):
            answer = self.call(200, "POST", path, {**which, "after": "3h"})[1]
            self.assertEqual(answer, {"rescheduled": 5, "already_firing": 1, "failures": []})
        dues = [ms_of(self.get(timer)[2]["due"]) for timer in waiting]
        self.assertLess(max(abs(due - time.time() * 1000 - 3 * 3600000) for due in dues), 60000)
        answer = self.call(200, "POST", "/v1/timers/cancel", {"ids": [waiting[0]["id"], waiting[0]["id"]], "keys": ["w0"]})[1]
        self.assertEqual((answer["cancelled"], [each["status"] for each in answer["failures"]]), (1, [410, 410]))
        self.assertEqual(self.call(200, "POST", "/v1/watch/end/complete")[1], {"cancelled": 4, "already_firing": 1})
        self.assertEqual(self.call(200, "POST", "/v1/watch/end/complete", {"fire": True})[1],
                         {"fired": 0, "already_firing": 1})
        for body, pointer in (({"ids": ["x"] * 5001}, "#/ids"), ({"keys": ["x"] * 5001}, "#/keys"), ({"ids": "x"}, "#/ids"),
                              ({"watch": ""}, "#/watch"), ({"labels": {"a": 1}}, "#/labels/a"), ({"labels": {}}, "#/labels"),
                              ({"ids": []}, "#"), ({"keys": ["x"], "at": 1}, "#/at")):
            problem = self.call(422, "POST", "/v1/timers/cancel", body)[1]
            self.assertEqual(problem["errors"][0]["pointer"], pointer)
        for body, pointer in (({"after": "1 h"}, "#/after"), ({"at": 2**64}, "#/at"), ({}, "#"), ({"after": 1, "at": 10**12}, "#")):
            problem = self.call(422, "POST", path, {"ids": ["x"], **body})[1]
            self.assertEqual(problem["errors"][0]["pointer"], pointer)

    # proves: complete
    def test_an_event_ends_only_those_that_watch_by_then(self):
        one = self.create(watch=["a", "b"])
        self.assertEqual(self.call(200, "POST", "/v1/watch/b/complete", {})[1], {"cancelled": 1, "already_firing": 0})
        self.assertEqual(self.state(one), "cancelled")
        later = self.create(watch=["b"])
        self.restart()
        self.assertEqual(self.state(later), "scheduled")
        self.assertEqual(self.call(200, "POST", "/v1/watch/a/complete", {"fire": False})[1]["cancelled"], 0)
        self.assertEqual(self.call(200, "POST", "/v1/watch/b/complete", {"fire": True})[1], {"fired": 1, "already_firing": 0})
        self.wait_for_arrivals(later)
        problem = self.call(422, "POST", "/v1/watch/b/complete", {"fire": "yes"})[1]
        self.assertEqual(problem["errors"][0]["pointer"], "#/fire")

    # proves: list-due, list-label, list-target, list-limit, list-cursor
    def test_every_filter_of_a_list(self):
        at = 4102444800000  # 2100
        shop, mail = self.receiver.url("/shop"), self.receiver.url("/mail")
        made = [self.create(at=at + i, target=mail if i % 2 else shop, labels={"n": str(i % 3), "all": "a:b"})["id"]
                for i in range(12)]
        self.assertEqual(self.listed("limit=5"), made)
        self.assertEqual(self.listed(f"target={mail}&limit=1"), made[1::2])
        self.assertEqual(self.listed("label=n:1"), made[1::3])
        self.assertEqual(self.listed("label=n:1&label=all:a:b"), made[1::3])
        self.assertEqual(self.listed("label=n:1&label=all:a"), [])
        self.assertEqual(self.listed(f"due_after={at + 3}&due_before={at + 7}"), made[3:7])
        self.assertEqual(self.listed("due_after=2100-01-01T01:00:00.003%2B01:00&due_before=2100-01-01T00:00:00.007Z"),
                         made[3:7])
        self.assertEqual(self.listed(f"target={shop}&label=n:0&due_after={at + 1}&limit=1"), [made[6]])
        page = self.call(200, "GET", "/v1/timers?limit=3")[1]
        self.assertEqual([timer["id"] for timer in page["timers"]], made[:3])
        self.assertTrue(page["next"])
        for wrong in (page["next"][:-1], page["next"][:-1] + ("0" if page["next"][-1] != "0" else "1"), ""):
            self.call(422, "GET", f"/v1/timers?cursor={wrong}")

    # proves: list-search
    def test_search_by_key_and_origin(self):
        orders = [self.create("/a?n=1", key=f"order-{i}", labels={"n": str(i % 2)})["id"] for i in range(4)]
        mail = self.create(target="queue:mail?priority=7", key="mail-1")["id"]
        self.create()
        origin = self.receiver.url("").rstrip("/")
        self.assertEqual(sorted(self.listed("key_prefix=order-")), sorted(orders))
        self.assertEqual(self.listed("key_prefix=order-3&limit=1"), orders[3:])
        self.assertEqual(self.listed("key_prefix=rder"), [])
        self.assertEqual(sorted(self.listed("key_contains=rder-")), sorted(orders))
        self.assertEqual(self.listed("key_contains=-1&key_prefix=mail"), [mail])
        self.assertEqual(self.listed("key_contains=ORDER"), [])
        self.assertEqual(self.call(200, "GET", "/v1/timers?key_contains=r-2")[1]["searched"], 6)
        self.assertEqual(sorted(self.listed(f"origin={origin}&key_prefix=order-&label=n:1")), sorted(orders[1::2]))
        self.assertEqual(self.listed("origin=queue:mail"), [mail])
        self.assertEqual(len(self.listed(f"origin={origin}")), 5)
        dead = self.await_state(self.create("/gone", after=0, key="dead-1"), "dead")
        self.assertEqual(self.listed("key_prefix=dead-", "/v1/dead"), [dead["id"]])
        self.assertEqual(self.listed("key_prefix=deaf", "/v1/dead"), [])
        self.assertEqual(self.listed("key_contains=ad-", "/v1/dead"), [dead["id"]])
        self.assertEqual(self.listed("key_contains=af-", "/v1/dead"), [])
        self.assertEqual(self.call(200, "GET", "/v1/dead/groups?key_prefix=x")[1]["groups"], [])
        self.assertEqual(self.call(200, "DELETE", "/v1/dead?key_prefix=dead-")[1]["deleted"], 1)
        for empty in ("key_prefix=", "key_contains=", "origin="):
            self.call(422, "GET", f"/v1/timers?{empty}")

    # proves: list-state, dead-list, dead-filters
    def test_every_filter_of_dead_letters(self):
        made = [self.create("/gone", at=10**11 + i, labels={"n": str(i % 2)}, payload=i) for i in range(6)]
        self.create()
        for timer in made:
            self.await_state(timer, "dead")
        self.assertEqual(sorted(self.listed("limit=2", "/v1/dead")), sorted(timer["id"] for timer in made))
        self.assertEqual(len(self.listed("label=n:1", "/v1/dead")), 3)
        self.assertEqual(len(self.listed(f"target={self.receiver.url('/gone')}", "/v1/dead")), 6)
        self.assertEqual(self.listed(f"target={self.receiver.url()}", "/v1/dead"), [])
        everything = self.listed("due_after=0&due_before=4102444800000", "/v1/dead")
        self.assertEqual(len(everything), 6)
        self.assertEqual(self.listed("due_after=4102444800000", "/v1/dead"), [])
        self.assertEqual(self.listed("due_before=1", "/v1/dead"), [])
        self.assertEqual(sorted(self.listed("state=dead", "/v1/timers")), sorted(everything))
        self.call(422, "GET", "/v1/dead?state=dead")

    # proves: redrive, redrive-ids, redrive-selection, redrive-limit
    def test_redrive(self):
        dead = [self.await_state(self.create("/gone", at=10**11 + i, key=f"k{i}", labels={"n": str(i)}, payload=i), "dead")
                for i in range(4)]
        taken = self.create(key="k0")
        answer = self.call(200, "POST", "/v1/dead/redrive", {"ids": [dead[0]["id"], dead[1]["id"], taken["id"]]})[1]
        self.assertEqual(answer, {"redriven": 1, "failed": 2, "results": ["key-in-use", "ok", "not-found"]})
        harness.wait_until(lambda: len(self.arrivals_of(dead[1])) == 2, 10, "the second attempt")
        again = self.await_state(dead[1], "dead")
        self.assertEqual((again["attempts"], again["due"]), (1, dead[1]["due"]))
        self.assertGreater(again["version"], dead[1]["version"] + 1)
        self.assertEqual({each.attempt for each in self.arrivals_of(dead[1])}, {1})
        answer = self.call(200, "POST", "/v1/dead/redrive", {"target": self.receiver.url("/gone"), "labels": {"n": "2"}})[1]
        self.assertEqual((answer["redriven"], answer["failed"], answer["next"]), (1, 0, None))
        self.await_state(dead[2], "dead")
        first = self.call(200, "POST", "/v1/dead/redrive", {"all": True, "limit": 1})[1]
        self.assertEqual(first["redriven"] + first["failed"], 1)
        self.assertTrue(first["next"])
        rest = self.call(200, "POST", "/v1/dead/redrive", {"all": True, "cursor": first["next"]})[1]
        self.assertEqual((first["failed"] + rest["failed"], rest["next"]), (1, None))  # k0 is another's
        self.call(422, "POST", "/v1/dead/redrive", {"ids": ["x"] * 1001})

    def repeat(self, method, path, body=None, between=lambda: None):
        """The answers of a call that is repeated with the `next` of each answer as cursor, 40 times at most."""
        answers, cursor = [], None
        while len(answers) < 40 and (cursor or not answers):
            where = f"{path}&cursor={cursor}" if cursor and not body else path
            answers.append(self.call(200, method, where, {**body, "cursor": cursor} if cursor and body else body)[1])
            cursor = answers[-1]["next"]
            between()
        return answers

    # proves: redrive-once, dead-delete-once
    def test_a_redrive_and_a_delete_take_what_was_there(self):
        """Letters that die again, or die meanwhile, are not taken: a redrive of a dead port ends, and so does a delete."""
        dead = [self.await_state(self.create("/gone", at=10**11 + i, labels={"n": str(i % 2)}), "dead") for i in range(30)]
        for selection, count in (({"all": True}, 30), ({"target": dead[0]["target"]}, 30), ({"labels": {"n": "1"}}, 15)):
            answers = self.repeat("POST", "/v1/dead/redrive", {**selection, "limit": 4},
                                  lambda: [self.await_state(timer, "dead") for timer in dead])
            self.assertEqual((sum(each["redriven"] for each in answers), answers[-1]["next"]), (count, None), selection)
        ids = [timer["id"] for timer in dead]
        sent = lambda: sum(harness.timer_id_of(each.webhook_id) in ids for each in self.receiver.arrivals())
        harness.wait_until(lambda: sent() >= 105, 20, "all attempts")
        self.assertEqual(sent(), 105)
        late = []
        answers = self.repeat("DELETE", "/v1/dead?all=true&limit=7", None,
                              lambda: late.append(self.await_state(self.create("/gone", at=10**11), "dead")["id"]))
        self.assertEqual((sum(each["deleted"] for each in answers), answers[-1]["next"]), (30, None))
        self.assertEqual(sorted(self.listed("limit=1000", "/v1/dead")), sorted(late))

    # proves: dead-groups, dead-filters, redrive-selection, dead-delete-selection
    def test_groups_of_dead_letters(self):
        once = {"max_attempts": 1}
        dead = [self.await_state(self.create("/gone", at=10**11 + i), "dead") for i in range(3)]
        failed = [self.await_state(self.create("/status/500", at=10**11, retry=once), "dead") for i in range(2)]
        groups = self.call(200, "GET", "/v1/dead/groups")[1]
        self.assertEqual([(each["origin"], each["error"], each["count"]) for each in groups["groups"]],
                         [(self.receiver.url(""), "HTTP 410", 3), (self.receiver.url(""), "HTTP 500", 2)])
        self.assertEqual((groups["others"], groups["complete"]), (0, True))
        for group, timers in zip(groups["groups"], (dead, failed)):
            self.assertIn(group["example"], [timer["id"] for timer in timers])
            self.assertLessEqual(group["first"], group["last"])
        answer = self.call(200, "GET", f"/v1/dead/groups?limit=1&target={self.receiver.url('/status/500')}")[1]
        self.assertEqual([each["count"] for each in answer["groups"]], [2])
        self.assertEqual(self.call(200, "GET", "/v1/dead/groups?limit=1")[1]["others"], 2)
        for group, timers in zip(groups["groups"], (dead, failed)):  # each can be acted on
            query = urllib.parse.urlencode({name: group[name] for name in ("origin", "error")})
            self.assertEqual(sorted(self.listed(query, "/v1/dead")), sorted(timer["id"] for timer in timers))
        self.assertEqual(self.call(200, "DELETE", f"/v1/dead?{query}")[1]["deleted"], 2)
        redriven = self.call(200, "POST", "/v1/dead/redrive", {"origin": self.receiver.url(""), "error": "HTTP 410"})[1]
        self.assertEqual(redriven["redriven"], 3)

    # proves: redrive-rate
    def test_redrive_at_a_rate(self):
        """Over all partitions and calls, and over a kill -9: the n-th is not called before its turn."""
        count, rate = 40, 20
        dead = [self.await_state(self.create("/gone", at=10**11 + i), "dead") for i in range(count)]
        started, body, calls = time.time(), {"all": True, "rate": rate, "limit": 15}, 0
        while body:
            answer = self.call(200, "POST", "/v1/dead/redrive", body)[1]
            calls += answer["redriven"] > 0
            body = answer["next"] and {**body, "cursor": answer["next"]}
        self.restart()
        self.assertGreater(calls, 2)
        again = {timer["id"]: timer for timer in (self.await_state(timer, "dead") for timer in dead)}
        # Some may be repeated after the kill, so their sum says nothing.
        harness.wait_until(lambda: all(len(self.arrivals_of(timer)) >= 2 for timer in dead), 20, "all second attempts")
        second = [[each.at_us for each in self.arrivals_of(timer)][1] for timer in dead]
        for place, at_us in enumerate(sorted(second)):
            self.assertGreaterEqual(at_us / 1e6 - started, place / rate)
        for timer in dead:
            self.assertEqual(len({each.webhook_id for each in self.arrivals_of(timer)}), 1)
            self.assertEqual((again[timer["id"]]["due"], again[timer["id"]]["attempts"]), (timer["due"], 1))
        self.call(422, "POST", "/v1/dead/redrive", {"all": True, "rate": 0})

    # proves: dead-delete, dead-delete-selection, dead-delete-limit
    def test_delete_dead_letters(self):
        dead = [self.await_state(self.create("/gone", at=10**11 + i, key=f"k{i}", labels={"odd": str(i % 2)}, payload={"n": 1}), "dead")
                for i in range(9)]
        alive = self.create()
        gone = self.call(200, "DELETE", f"/v1/dead/{dead[0]['id']}")[1]
        self.assertEqual((gone["state"], gone["key"], gone["payload"]), ("dead", "k0", {"n": 1}))
        self.call(404, "DELETE", f"/v1/dead/{dead[0]['id']}")
        self.call(404, "DELETE", f"/v1/dead/{alive['id']}")
        self.call(412, "DELETE", f"/v1/dead/{dead[1]['id']}", headers={"If-Match": '"1"'})
        self.call(422, "DELETE", "/v1/dead")
        self.call(422, "DELETE", "/v1/dead?limit=1")
        answer = self.call(200, "DELETE", f"/v1/dead?label=odd:1&target={self.receiver.url('/gone')}&due_before={10**11 + 4}")[1]
        self.assertEqual(answer, {"deleted": 2, "failed": 0, "next": None})  # 1 and 3
        first = self.call(200, "DELETE", "/v1/dead?all=true&limit=2")[1]
        self.assertLessEqual(first["deleted"], 2)
        self.assertTrue(first["next"])
        self.restart()  # after a kill -9: what was answered is durable
        self.assertEqual(len(self.listed("limit=100", "/v1/dead")), 6 - first["deleted"])
        rest = self.call(200, "DELETE", f"/v1/dead?all=true&cursor={first['next']}")[1]
        self.assertEqual((first["deleted"] + rest["deleted"], rest["failed"], rest["next"]), (6, 0, None))
        self.assertEqual(self.listed("limit=100", "/v1/dead"), [])
        harness.wait_until(lambda: self.daemon.metric("tickwheel_dead_letters") == 0, 20, "no dead letter is counted")
        self.call(200, "GET", f"/v1/timers/{alive['id']}")
        for letter in dead:
            self.call(404, "GET", f"/v1/timers/{letter['id']}")
            self.call(404, "GET", f"/v1/keys/{letter['key']}/timer")


class QueueTest(daemon_case.DaemonCase):
    flags = ("--queue-bytes-max", "2K")

    def lease(self, **fields):
        return self.call(200, "POST", "/v1/queues/jobs/lease", fields)[1]

    def say(self, call, receipts, **fields):
        return self.call(200, "POST", f"/v1/queues/jobs/{call}", {"receipts": receipts, **fields})[1]

    # proves: lease-max, lease-time, receipt, item-content, item-attempt, ack, nack-delay
    # proves: nack-error, extend, queue-results
    def test_an_item_carries_what_its_timer_carried(self):
        first = self.create(target="queue:jobs", at=10**11, payload={"a": 1}, labels={"l": "m"}, headers={"X-A": "b"})
        second = self.create(target="queue:jobs?priority=0", at=10**11, body_base64="AAE=", content_type="x/y")
        harness.wait_until(lambda: self.daemon.metric("tickwheel_deliveries_waiting") == 2, 10, "both are ready")
        before = time.time() * 1000
        answer = self.lease()  # one without `max`, for 30s without `lease`, at once without `wait`
        self.assertTrue(before + 29990 < ms_of(answer["leased_until"]) < time.time() * 1000 + 30010)
        item = answer["items"][0]
        receipt = item.pop("receipt")
        self.assertEqual(answer["items"], [{"id": first["id"], "due": "1973-03-03T09:46:40.000Z", "attempt": 1,
                                            "payload": {"a": 1}, "labels": {"l": "m"}, "headers": {"X-A": "b"}}])
        self.assertEqual(self.state(first), "delivering")
        other = self.lease(max=1000, lease="1h")["items"]
        self.assertEqual([(each["id"], each["body_base64"], each["content_type"]) for each in other],
                         [(second["id"], "AAE=", "x/y")])
        self.assertEqual(self.say("nack", [receipt], error="x" * 159, delay=0),
                         {"ok": 1, "stale": 0, "unknown": 0, "results": ["ok"]})
        back = self.lease(wait="20s", lease="1m")["items"][0]
        self.assertEqual((back["id"], back["attempt"], back["last_error"]), (first["id"], 2, "x" * 159))
        self.say("extend", [other[0]["receipt"]], lease="100ms")
        again = self.lease(wait="20s")["items"][0]  # its lease has ended
        self.assertEqual((again["id"], again["attempt"]), (second["id"], 2))
        self.assertTrue(again["last_error"])
        words = self.say("ack", [back["receipt"], receipt, "nonsense", again["receipt"], back["receipt"]])
        self.assertEqual(words, {"ok": 2, "stale": 3, "unknown": 0, "results": ["ok", "stale", "stale", "ok", "stale"]})
        self.assertEqual((self.state(first), self.state(second)), ("fired", "fired"))
        self.restart()
        self.assertEqual(self.lease(max=10)["items"], [])
        for fields in ({"error": "x" * 160}, {"delay": "30d1ms"}, {"delay": 2**64}):
            self.call(422, "POST", "/v1/queues/jobs/nack", {"receipts": ["x"], **fields})
        for lease in (99, "12h1ms", 2**64 + 1000):
            self.call(422, "POST", "/v1/queues/jobs/extend", {"receipts": ["x"], "lease": lease})
            self.call(422, "POST", "/v1/queues/jobs/lease", {"lease": lease})

    # proves: item-attempt, nack, nack-delay, nack-dead
    def test_a_delay_a_default_pause_and_dead(self):
        timer = self.create(target="queue:jobs", after=0, retry={"base": "1ms", "cap": "1ms", "max_attempts": 4})
        receipt = self.lease(wait="20s")["items"][0]["receipt"]
        begun = time.monotonic()
        self.say("nack", [receipt], delay="400ms")
        receipt = self.lease(wait="20s")["items"][0]["receipt"]
        self.assertGreaterEqual(time.monotonic() - begun, 0.4)
        self.say("nack", [receipt])  # the retry policy's pause: at most a millisecond
        item = self.lease(wait="20s")["items"][0]
        self.assertEqual((item["attempt"], item["last_error"]), (3, "given back by its worker"))
        self.say("nack", [item["receipt"]], dead=True, error="no such order")
        dead = self.await_state(timer, "dead")
        self.assertEqual((dead["attempts"], dead["last_error"]), (3, "no such order"))

    # proves: queue-name
    def test_a_queue_that_nobody_can_name(self):
        for name in ("a%20b", "x" * 65, "%C3%BC", "a:b", "a%2Fb"):
            self.call(404, "POST", f"/v1/queues/{name}/lease", {})
            for call in ("ack", "nack", "extend"):
                self.call(404, "POST", f"/v1/queues/{name}/{call}", {"receipts": ["x"]})
        self.assertEqual(self.call(200, "POST", f"/v1/queues/{'x' * 64}/lease", {})[1]["items"], [])

    # proves: extend
    def test_extend_counts_from_now(self):
        self.create(target="queue:jobs", after=0)
        receipt = self.lease(wait="20s", lease="1h")["items"][0]["receipt"]
        begun = time.monotonic()
        self.assertEqual(self.say("extend", [receipt], lease="300ms")["results"], ["ok"])  # shorter than it was
        item = self.lease(wait="20s")["items"][0]
        self.assertGreaterEqual(time.monotonic() - begun, 0.3)
        self.assertEqual(item["attempt"], 2)
        self.assertEqual(self.say("extend", [receipt])["results"], ["stale"])

    # proves: lease-max, queue_bytes_max (beyond)
    def test_a_lease_is_cut_at_its_bytes(self):
        for _ in range(6):
            self.create(target="queue:jobs", after=0, payload="x" * 1000)
        self.create(target="queue:jobs", after=0, payload="x" * 5000)
        harness.wait_until(lambda: self.daemon.metric("tickwheel_deliveries_waiting") == 7, 10, "all are ready")
        sizes = []
        while sum(sizes) < 7:
            sizes.append(len(self.lease(max=100)["items"]))
            self.assertTrue(1 <= sizes[-1] <= 3, sizes)
        self.assertEqual(self.lease(max=100)["items"], [])


class LimitsTest(daemon_case.DaemonCase):
    # proves: target-url, payload, headers, labels, watch, retry-backoff, too-large
    def test_limits_are_those_of_the_document(self):
        base = self.receiver.url("/")
        self.create(target=base + "x" * (2048 - len(base)))
        self.refused("#/target", target=base + "x" * (2049 - len(base)))
        self.create(labels={str(n): "v" for n in range(64)})
        self.refused("#/labels", labels={str(n): "v" for n in range(65)})
        self.create(headers={f"x-{n}": "v" for n in range(64)})
        self.refused("#/headers", headers={f"x-{n}": "v" for n in range(65)})
        self.create(headers={"x": "v" * 16000})
        self.refused("#/headers", headers={"x": "v" * 16384})
        self.create(watch=[str(n) for n in range(16)])
        self.refused("#/watch", watch=[str(n) for n in range(17)])
        self.create(retry={"max_attempts": 100, "base": "30d", "cap": "30d", "timeout": "10m"})
        whole = "x" * ((1 << 20) - 2)
        timer = self.create(payload=whole)
        self.assertEqual(self.get(timer)[2]["payload"], whole)
        raw = base64.b64encode(bytes(1 << 20)).decode()
        self.create(body_base64=raw, content_type="a/b")
        more = base64.b64encode(bytes((1 << 20) + 1)).decode()
        for pointer, fields in (("#/payload", {"payload": whole + "x"}),
                                ("#/body_base64", {"body_base64": more, "content_type": "a/b"})):
            problem = self.call(413, "POST", "/v1/timers", {"after": 1, "target": base, **fields})[1]
            self.assertEqual(problem["errors"][0]["pointer"], pointer)


class PendingTest(daemon_case.DaemonCase):
    flags = ("--pending-max", "2", "--partitions", "1")

    # proves: pending_max (beyond)
    def test_a_put_counts_against_the_limit(self):
        """As a create does; what replaces takes no further place, and what ends gives its place back."""
        body = {"after": "1h", "target": self.receiver.url()}
        for key in "ab":
            self.call(201, "PUT", f"/v1/keys/{key}/timer", body)
        self.call(200, "PUT", "/v1/keys/a/timer", body)
        for method, path in (("PUT", "/v1/keys/c/timer"), ("POST", "/v1/timers")):
            fields, problem = self.call(429, method, path, body)
            self.assertEqual(problem["type"], "/problems/too-many")
            self.assertGreaterEqual(int(fields["Retry-After"]), 1)
        line = self.call(200, "POST", "/v1/timers/batch", json.dumps(body), NDJSON)[1]
        self.assertEqual(json.loads(line)["status"], 429)
        self.call(200, "DELETE", "/v1/keys/a/timer")
        self.call(201, "PUT", "/v1/keys/c/timer", body)


class EpochTest(daemon_case.DaemonCase):
    flags = ("--partitions", "1")

    # proves: webhook-epoch
    def test_the_epoch_grows_with_each_start(self):
        epochs = []

        class Target(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                epochs.append(int(self.headers["tickwheel-epoch"]))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        with http.server.HTTPServer(("127.0.0.1", 0), Target) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(server.shutdown)
            for start in range(3):
                timer = self.create(after=0, target=f"http://127.0.0.1:{server.server_port}/")
                self.await_state(timer, "fired")
                self.restart()
            self.assertEqual(epochs, sorted(set(epochs)))
            self.assertEqual(len(epochs), 3)
            server.shutdown()


class DiskTest(daemon_case.DaemonCase):
    # proves: disk-full, disk_reserve_bytes (beyond)
    def test_a_disk_that_is_nearly_full(self):
        """Creates are refused with 503 and Retry-After; what is there is still served, cancelled and delivered."""
        timer, soon = self.create(), self.create(after="300ms")
        self.daemon.signal(signal.SIGKILL)
        self.daemon = harness.Daemon(self.data, "--disk-reserve-bytes", "1T")
        self.addCleanup(self.daemon.close)
        harness.wait_until(lambda: "the disk is nearly full" in str(self.daemon.call("GET", "/readyz")[2]), 20, "said")
        for method, path in (("POST", "/v1/timers"), ("PUT", "/v1/keys/k/timer")):
            fields, problem = harness.wait_until(
                lambda: (answer := self.daemon.call(method, path, {"after": 1, "target": self.receiver.url()}))[0] == 503
                and answer[1:], 10, "503")
            self.assertEqual(problem["type"], "/problems/disk-full")
            self.assertGreaterEqual(int(fields["Retry-After"]), 1)
        body = json.dumps({"after": "1ms", "target": self.receiver.url()}) + "\n"
        answer = self.call(200, "POST", "/v1/timers/batch", body, NDJSON)[1]
        self.assertEqual(json.loads(answer.splitlines()[0])["status"], 503)
        self.wait_for_arrivals(soon)
        self.assertEqual(self.get(timer)[0], 200)
        self.call(200, "DELETE", f"/v1/timers/{timer['id']}")


class GuardTest(daemon_case.DaemonCase):
    def start(self, *flags):
        daemon = harness.Daemon(self.data, *flags, allow="127.0.0.2/32")
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    # proves: target-private, webhook-allow
    def test_every_call_refuses_a_private_target(self):
        good = {"after": "1h", "target": "http://127.0.0.2/x"}
        timer = self.call(201, "PUT", "/v1/keys/k/timer", good)[1]
        for host in ("127.0.0.1", "0x7f.1", "2130706433", "localhost", "10.0.0.1", "169.254.169.254", "[::1]",
                     "[::ffff:10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[fe80::1]", "100.64.0.1"):
            body = {"after": "1h", "target": f"http://{host}/x"}
            for method, path in (("POST", "/v1/timers"), ("PUT", "/v1/keys/k/timer"), ("PATCH", "/v1/keys/k/timer"),
                                 ("PATCH", f"/v1/timers/{timer['id']}")):
                problem = self.call(422, method, path, body)[1]
                self.assertEqual(problem["errors"][0]["pointer"], "#/target", host)
            answer = self.call(200, "POST", "/v1/timers/batch", json.dumps(body), NDJSON)[1]
            self.assertEqual(json.loads(answer)["errors"][0]["pointer"], "#/target", host)
        self.assertEqual(self.get(timer)[2], timer)


if __name__ == "__main__":
    unittest.main()
