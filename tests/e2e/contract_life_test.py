#!/usr/bin/env python3
"""Goal: what the contract says of a timer's life holds on the real daemon, storage and webhooks included: the forms
of its times, what each call answers in each state, what is kept and for how long. Method: each test makes the state
that the statement speaks of, with a receiver that fails, hangs or asks for a pause, and reads it back, mostly over
a kill -9 too. A comment "proves:" names what each test proves."""

import os
import signal
import sys
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness
from daemon_case import ms_of

LAST = "9999-12-31T23:59:59.999Z"


class TimesTest(daemon_case.DaemonCase):
    # proves: at-past, patch-time, webhook-headers
    def test_a_time_in_the_past_fires_at_once(self):
        """Whatever its form, however long ago; and the webhook says when it was due."""
        for at, due in ((10**11, "1973-03-03T09:46:40.000Z"), ("1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.001Z"),
                        ("1969-07-20T20:17:40Z", "1970-01-01T00:00:00.000Z"),
                        ("2020-02-29T12:00:00.5+05:30", "2020-02-29T06:30:00.500Z"),
                        (int(time.time() * 1000) - 1, None)):
            timer = self.create(at=at)
            self.assertEqual(timer["due"], due or timer["due"])
            arrival = self.wait_for_arrivals(timer)[0]
            self.assertEqual(arrival.due_ms, ms_of(timer["due"]))
            self.assertLess(arrival.at_us / 1e6, time.time() + 1)
            self.await_state(timer, "fired")
        timer = self.create(after="1h")
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}", {"at": 10**11})
        self.await_state(timer, "fired")

    # proves: after-wrong, at-range, spread, timer-due, list-due
    def test_any_date_to_the_year_9999(self):
        """Shown, listed and kept as it was asked for, to the millisecond; not a millisecond more."""
        now_ms = int(time.time() * 1000)
        far = [self.create(at=at) for at in ("2500-06-15T12:34:56.789Z", 253402300799998, LAST)]
        far.append(self.create(after=f"{253402300799999 - now_ms - 60000}ms"))
        self.assertEqual([timer["due"] for timer in far[:3]],
                         ["2500-06-15T12:34:56.789Z", "9999-12-31T23:59:59.998Z", LAST])
        self.assertLessEqual(abs(ms_of(far[3]["due"][:19] + "Z") - 253402300799000 + 60000), 10000)
        keyed = self.create(at=LAST, key="k", spread={"window": "1d"})
        self.assertEqual(keyed["due"], LAST)  # a spread does not lead beyond it
        self.restart()
        for timer in (*far, keyed):
            self.assertEqual(self.get(timer)[2], timer)
        self.assertEqual(self.listed("limit=1"), [far[0]["id"], far[3]["id"], far[1]["id"],
                                                  *sorted([far[2]["id"], keyed["id"]])])
        self.assertEqual(self.listed(f"due_after={LAST}"), sorted([far[2]["id"], keyed["id"]]))
        self.assertEqual(self.listed(f"due_before={LAST}"), [far[0]["id"], far[3]["id"], far[1]["id"]])
        for path in (f"/v1/timers/{far[2]['id']}", "/v1/keys/k/timer"):
            self.assertEqual(self.call(200, "DELETE", path)[1]["state"], "cancelled")
        for field, value in (("at", int(time.time())), ("at", 253402300800000), ("at", "9999-12-31T23:59:59.9999Z"), ("at", 2**64),
                             ("at", 1e300), ("after", 253402300799999), ("after", 2**64), ("after", 2**53 * 1024),
                             ("after", "3000000w"), ("after", "99999999999999999999ms")):
            body = {field: value, "target": self.receiver.url()}
            problem = self.call(422, "POST", "/v1/timers", body)[1]
            self.assertEqual(problem["errors"][0]["pointer"], f"#/{field}", value)
            problem = self.call(422, "PATCH", f"/v1/timers/{far[0]['id']}", {field: value})[1]
            self.assertEqual(problem["errors"][0]["pointer"], f"#/{field}", value)
        self.assertEqual(self.get(far[0])[2], far[0])

    # proves: after, timer-created
    def test_after_counts_from_the_request(self):
        for after, ms in (("90s", 90000), (90000, 90000), ("1h30m", 5400000), ("2d", 172800000), ("1w1ms", 604800001)):
            before = int(time.time() * 1000)
            timer = self.create(after=after)
            self.assertTrue(before + ms <= ms_of(timer["due"]) <= int(time.time() * 1000) + 1 + ms, after)
            self.assertTrue(before <= ms_of(timer["created"]) <= time.time() * 1000 + 1)
            self.assertEqual(ms_of(timer["due"]) - ms_of(timer["created"]), ms)

    # proves: never-early
    def test_never_early_by_a_millisecond(self):
        timers = [self.create(after=300 + i % 7) for i in range(200)]
        harness.wait_until(lambda: len(self.receiver.arrivals()) >= len(timers), 20, "all webhooks")
        for arrival in self.receiver.arrivals():
            self.assertGreaterEqual(arrival.at_us, arrival.due_ms * 1000)

    # proves: every-start, count, until
    def test_every_begins_at_its_at(self):
        def create(at, **end):
            return at, self.create(every="100ms", at=at, late={"missed": "each"}, **end)
        at, timer = harness.in_time(lambda at: create(at, count=3))
        self.assertEqual((ms_of(timer["due"]), timer["schedule"]["count"]), (at, 3))
        arrivals = self.wait_for_arrivals(timer, 3)
        self.await_state(timer, "fired")
        self.assertEqual(sorted({each.due_ms for each in arrivals}), [at, at + 100, at + 200])
        self.assertEqual(len({each.webhook_id for each in arrivals}), 3)
        at, timer = harness.in_time(lambda at: create(at, until=at + 250))
        arrivals = self.wait_for_arrivals(timer, 3)
        self.await_state(timer, "fired")
        self.assertEqual(sorted({each.due_ms for each in arrivals}), [at, at + 100, at + 200])

    # proves: drop-after
    def test_what_is_too_late_is_dropped(self):
        """An outage longer than drop_after: no webhook comes, and the timer is dead and says why."""
        def make(at):
            self.restart()
            timers = [self.create(at=at, late={"drop_after": after}) for after in ("1ms", "1h")]
            self.daemon.signal(signal.SIGKILL)
            return timers
        late, kept = harness.in_time(make)
        harness.wait_until(lambda: time.time() * 1000 > ms_of(late["due"]) + 200, 10, "both are overdue")
        self.daemon = self.start()
        self.await_state(kept, "fired")
        dropped = self.await_state(late, "dead")
        self.wait_for_arrivals(kept)
        self.assertEqual((self.arrivals_of(late), dropped["attempts"]), ([], 0))
        self.assertTrue(dropped["last_error"])

    # proves: dst, preview, preview-schedule, problem
    def test_preview(self):
        def preview(query):
            return self.call(200, "GET", f"/v1/schedule/preview?{query}")[1]["instants"]

        self.assertEqual(len(preview("every=1m")), 10)
        self.assertEqual(len(preview("every=1m&n=1000")), 1000)
        self.assertEqual(len(preview("cron=*+*+*+*+*+*&n=1")), 1)
        self.assertEqual(preview("every=1h&at=4102444800000&until=2100-01-01T02:00:00Z&after=4102444800000"),
                         ["2100-01-01T01:00:00.000Z", "2100-01-01T02:00:00.000Z"])
        night = "cron=30+2+*+*+*&timezone=Europe/Berlin&after=2026-03-28T02:00:00Z&n=2&dst="
        self.assertEqual(preview(night + "shift")[0], "2026-03-29T01:00:00.000Z")
        self.assertEqual(preview(night + "skip")[0], "2026-03-30T00:30:00.000Z")
        again = "cron=30+2+*+*+*&timezone=Europe/Berlin&after=2026-10-24T12:00:00Z&n=2&dst="
        self.assertEqual(preview(again + "both"), ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"])
        self.assertEqual(preview(again + "first"), ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"])
        timer = self.create(cron="30 2 * * *", timezone="Europe/Berlin")
        self.assertEqual(timer["due"], preview("cron=30+2+*+*+*&timezone=Europe/Berlin")[0])
        self.assertEqual((timer["schedule"]["timezone"], timer["schedule"]["dst"]), ("Europe/Berlin", "shift"))
        self.call(400, "GET", "/v1/schedule/preview?every=%zz")
        problem = self.call(422, "GET", "/v1/schedule/preview?cron=x&n=0&dst=x&nonsense=1")[1]
        self.assertEqual([fault["parameter"] for fault in problem["errors"]], ["n", "nonsense", "cron", "dst"])


class StatesTest(daemon_case.DaemonCase):
    # proves: timer-state, timer-version, timer-ended, get, unknown-id, final-id, already-firing
    # proves: unknown-key, list-state, state-conflict
    def test_each_call_in_each_state(self):
        """scheduled and retrying can be changed, delivering is 409, over is 410 with the final state."""
        timers = {
            "scheduled": self.create(),
            "delivering": self.create("/hang", after=0),
            "retrying": self.create("/retry-after/3600", after=0),
            "fired": self.create(after=0),
            "dead": self.create("/gone", after=0),
            "cancelled": self.create()}
        self.call(200, "DELETE", f"/v1/timers/{timers['cancelled']['id']}")
        for state, timer in timers.items():
            self.await_state(timer, state)
        for state, timer in timers.items():
            self.assertEqual(self.listed(f"state={state}"), [timer["id"]])
        alive, over = ("scheduled", "delivering", "retrying"), ("fired", "dead", "cancelled")
        self.assertEqual(set(self.listed("limit=1")), {timers[state]["id"] for state in alive})
        self.assertEqual(set(self.listed("limit=2&state=fired&state=dead&state=cancelled")),
                         {timers[state]["id"] for state in over})
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_pending") == 3, 10, "3 are alive")
        for state, timer in timers.items():
            path = f"/v1/timers/{timer['id']}"
            expected = {"delivering": 409}.get(state, 410 if state in ("fired", "dead", "cancelled") else 200)
            fields, answer = self.call(200 if expected == 409 else expected, "GET", path)
            shown = answer["timer"] if expected == 410 else answer
            self.assertEqual(shown["state"], state)
            self.assertEqual("ended" in shown, expected == 410, shown)
            if expected == 200:
                self.assertEqual(fields["ETag"], f'"{shown["version"]}"')
            patched = self.call(expected, "PATCH", path, {"labels": {"a": "b"}})[1]
            gone = self.call(expected, "DELETE", path)[1]
            if expected == 200:
                self.assertEqual((patched["labels"], patched["version"]), ({"a": "b"}, shown["version"] + 1))
                self.assertEqual((gone["state"], gone["version"]), ("cancelled", shown["version"] + 2))
            else:
                slug = "already-firing" if expected == 409 else "gone"
                self.assertEqual({patched["type"], gone["type"]}, {"/problems/" + slug})
            if expected == 410:
                self.assertEqual((patched["timer"], gone["timer"]), (shown, shown))
        for path in ("/v1/timers/00000000000000000000000000", "/v1/timers/nonsense", "/v1/keys/nobody/timer"):
            for method in ("GET", "PATCH", "DELETE"):
                self.call(404, method, path, {"after": 1} if method == "PATCH" else None)

    # proves: get, already-firing, if-match, put-create, put-replace, final-key
    def test_each_call_by_key_in_each_state(self):
        for state, path in (("delivering", "/hang"), ("fired", "/ok"), ("dead", "/gone"), ("retrying", "/retry-after/3600")):
            timer = self.create(path, after=0, key=state)
            self.await_state(timer, state)
            where = f"/v1/keys/{state}/timer"
            body = {"after": "1h", "target": self.receiver.url()}
            if state == "delivering":
                self.assertEqual(self.call(200, "GET", where)[1]["state"], state)
                for method in ("PATCH", "DELETE", "PUT"):
                    problem = self.call(409, method, where, None if method == "DELETE" else body)[1]
                    self.assertEqual(problem["type"], "/problems/already-firing")
            elif state == "retrying":
                fields, answer = self.call(200, "PUT", where, body, {"If-Match": "*"})
                self.assertEqual((answer["id"], answer["state"], answer["attempts"]), (timer["id"], "scheduled", 0))
                self.assertEqual(fields["ETag"], f'"{answer["version"]}"')
                self.assertIsNone(fields["Location"])
                self.assertEqual(self.call(200, "GET", where)[0]["ETag"], fields["ETag"])
                fields, answer = self.call(200, "PATCH", where, {"payload": 2}, {"If-Match": fields["ETag"]})
                self.assertEqual(fields["ETag"], f'"{answer["version"]}"')
                self.call(412, "PATCH", where, {"payload": 2}, {"If-Match": '"1"'})
                self.call(400, "PATCH", where, {"payload": 2}, {"If-Match": "1"})
                self.call(400, "DELETE", where, None, {"If-Match": "1"})
                self.call(400, "PUT", where, body, {"If-Match": "1"})
                self.call(200, "DELETE", where, None, {"If-Match": fields["ETag"]})
            else:
                for method in ("GET", "PATCH", "DELETE"):
                    problem = self.call(410, method, where, {"after": 1} if method == "PATCH" else None)[1]
                    self.assertEqual((problem["timer"]["id"], problem["timer"]["state"]), (timer["id"], state))
                fields, answer = self.call(201, "PUT", where, body)  # the key is free again
                self.assertNotEqual(answer["id"], timer["id"])
                self.assertEqual((fields["Location"], fields["ETag"]), (f"/v1/timers/{answer['id']}", '"1"'))

    # proves: key, key-path, unknown-key
    def test_a_key_that_nobody_can_have(self):
        for key in ("%00", "a%0Ab", "x" * 257):
            for method in ("GET", "PATCH", "DELETE"):
                self.call(404, method, f"/v1/keys/{key}/timer", {"after": 1} if method == "PATCH" else None)
            self.call(422 if key == "a%0Ab" else 404, "PUT", f"/v1/keys/{key}/timer",
                      {"after": 1, "target": self.receiver.url()})
        for key in ("x" * 256, "ü" * 128):
            self.call(201, "PUT", f"/v1/keys/{urllib.parse.quote(key)}/timer",
                      {"after": "1h", "target": self.receiver.url()})
        self.refused("#/key", key="x" * 257)
        self.refused("#/key", key="a\nb")

    # proves: cancel
    def test_after_a_cancel_no_delivery_starts(self):
        """Each is cancelled at the very moment at which it is due; some long before."""
        def make(first_ms):
            timers = [self.create(at=first_ms + 5 * i) for i in range(200)]
            for timer in timers[100:120]:
                self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
            return timers
        timers = harness.in_time(make)
        cancelled = timers[100:120]
        for timer in timers[:100]:
            harness.wait_until(lambda: time.time() * 1000 >= ms_of(timer["due"]) - 2, 10, "its moment")
            if self.daemon.call("DELETE", f"/v1/timers/{timer['id']}")[0] == 200:
                cancelled.append(timer)
        for timer in timers:
            if timer not in cancelled:
                self.await_state(timer, "fired")
        self.wait_for_arrivals(self.create(after="50ms"))  # what came before is written down with it
        for timer in cancelled:
            self.assertEqual(self.arrivals_of(timer), [])

    # proves: timer-payload-final, timer-attempts, outcome-gone
    def test_what_is_over_keeps_its_payload_only_when_dead(self):
        fields = {"after": 0, "payload": {"n": 1}, "labels": {"a": "b"}, "key": "k1", "watch": ["w"]}
        fired = self.await_state(self.create(**fields), "fired")
        fields["key"] = "k2"
        dead = self.await_state(self.create("/gone", **fields), "dead")
        self.assertEqual((fired["labels"], dead["labels"]), ({"a": "b"}, {"a": "b"}))
        self.assertEqual((fired["attempts"], dead["attempts"], dead["last_error"]), (1, 1, "HTTP 410"))
        self.assertEqual(("payload" in fired, dead["payload"]), (False, {"n": 1}))
        self.restart()
        self.assertEqual((self.get(fired)[2]["timer"], self.get(dead)[2]["timer"]), (fired, dead))

    # proves: retry-timeout, timer-attempts
    def test_no_answer_of_the_target_within_the_timeout(self):
        timer = self.create("/hang", after=0, retry={"timeout": "100ms", "max_attempts": 2, "base": "1ms",
                                                     "cap": "1ms"})
        dead = self.await_state(timer, "dead")
        self.assertEqual((dead["attempts"], dead["last_error"]), (2, "timed out after 100 ms"))

    # proves: list, list-state, outcome-retry-after
    def test_retry_after_is_shown_and_listed_by_its_next_attempt(self):
        timer = self.create("/retry-after/3600", after=0)
        other = self.create(after="30m")
        retrying = self.await_state(timer, "retrying")
        self.assertEqual((retrying["attempts"], retrying["due"]), (1, timer["due"]))
        self.assertEqual(self.listed("limit=1"), [other["id"], timer["id"]])
        now_ms = int(time.time() * 1000)
        self.assertEqual(self.listed(f"due_after={now_ms + 3000000}&due_before={now_ms + 3600000}"), [timer["id"]])
        self.assertEqual(self.listed("state=retrying"), [timer["id"]])
        self.assertEqual(self.listed("state=scheduled"), [other["id"]])


if __name__ == "__main__":
    unittest.main()
