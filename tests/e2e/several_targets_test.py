#!/usr/bin/env python3
"""Goal: a timer with several targets delivers to each of them, is over when all are, and shows which one failed.
Method: real receivers of which some fail, a queue and a log beside them, and kill -9 between the parts."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness


class SeveralTargetsTest(daemon_case.DaemonCase):
    def make(self, *targets, expected=201, **fields):
        if not {"after", "at", "every", "cron"} & set(fields):
            fields["after"] = 0
        return self.call(expected, "POST", "/v1/timers", {"targets": list(targets), **fields})[1]

    def states(self, timer):
        status, _, answer = self.get(timer)
        answer = answer["timer"] if status == 410 else answer
        return [target["state"] for target in answer["targets"]]

    def await_states(self, timer, *states):
        harness.wait_until(lambda: self.states(timer) == list(states), 20, f"{timer['id']} has {states}")

    def lease(self, queue):
        return self.call(200, "POST", f"/v1/queues/{queue}/lease", {"max": 10, "wait": 5000, "lease": "1m"})[1]["items"]

    def paths(self):
        return sorted(each.path for each in self.receiver.arrivals())

    def await_paths(self, *paths):
        """The receiver records what it got a little after its answer."""
        harness.wait_until(lambda: self.paths() == sorted(paths), 20, f"webhooks to {paths}")

    # proves: targets, targets-over
    def test_each_target_gets_it_and_the_timer_is_over_when_all_are(self):
        timer = self.make(self.receiver.url("/one"), "queue:two", self.receiver.url("/three"), after="1h", key="k",
                          payload={"n": 1}, on_success={"target": "queue:reports"})
        self.assertEqual([target["state"] for target in timer["targets"]], ["scheduled"] * 3)
        self.assertNotIn("target", timer)
        self.call(200, "POST", "/v1/keys/k/fire")
        self.await_states(timer, "fired", "delivering", "fired")
        shown = self.get(timer)[2]
        self.assertEqual((shown["state"], "next_attempt" in shown), ("delivering", False))
        self.await_paths("/one", "/three")
        self.assertEqual(self.listed("state=delivering"), [timer["id"]])
        self.assertEqual(self.listed("state=retrying"), [])
        counts = self.call(200, "GET", "/v1/timers/count?by=state")[1]["groups"]
        self.assertEqual({one["state"]: one["count"] for one in counts}, {"delivering": 1, "scheduled": 1})
        explained = self.call(200, "GET", f"/v1/timers/{timer['id']}/explain")[1]["explanation"]
        self.assertIn(f"1 of its 3 targets is not over: queue:two, by the timer {shown['targets'][1]['id']}", explained)
        item, = self.lease("two")
        self.assertEqual((item["id"], item["payload"]), (shown["targets"][1]["id"], {"n": 1}))
        part = self.call(200, "GET", f"/v1/timers/{item['id']}")[1]
        self.assertEqual((part["part_of"], part["target"]), (timer["id"], "queue:two"))
        self.call(200, "POST", "/v1/queues/two/ack", {"receipts": [item["receipt"]]})
        over = self.await_state(timer, "fired")
        self.assertEqual([(target["state"], target["attempts"]) for target in over["targets"]], [("fired", 1)] * 3)
        report, = self.lease("reports")
        self.assertEqual((report["payload"]["id"], report["payload"]["outcome"]), (timer["id"], "done"))
        webhooks = {each.webhook_id for each in self.receiver.arrivals()}
        self.assertEqual(len(webhooks), 2)

    # proves: targets-failed, targets-redrive
    def test_one_that_failed_is_seen_and_redriven_by_itself(self):
        timer = self.make(self.receiver.url("/ok"), self.receiver.url("/gone"), on_dead={"target": "queue:dead"})
        over = self.await_state(timer, "dead")
        self.assertEqual([target["state"] for target in over["targets"]], ["fired", "dead"])
        self.assertIn("410", over["targets"][1]["last_error"])
        self.assertIn("1 of 2 targets failed", over["last_error"])
        self.assertEqual(self.lease("dead")[0]["payload"]["id"], timer["id"])
        part = over["targets"][1]["id"]
        letters = [letter["id"] for letter in self.call(200, "GET", "/v1/dead")[1]["timers"]]
        self.assertEqual(sorted(letters), sorted([timer["id"], part]))
        self.call(200, "POST", "/v1/dead/redrive", {"ids": [part], "new_target": self.receiver.url("/ok")})
        again = self.await_state(timer, "fired")
        self.assertEqual([target["state"] for target in again["targets"]], ["fired", "fired"])
        self.await_paths("/gone", "/ok", "/ok")

    # proves: targets-redrive
    def test_a_redrive_of_the_timer_redrives_what_failed(self):
        timer = self.make(self.receiver.url("/ok"), self.receiver.url("/gone"), self.receiver.url("/gone"))
        self.await_state(timer, "dead")
        self.call(200, "POST", "/v1/dead/redrive", {"ids": [timer["id"]]})
        harness.wait_until(lambda: len(self.paths()) == 5, 20, "two more webhooks")
        self.await_state(timer, "dead")
        self.await_paths(*["/gone"] * 4, "/ok")

    # proves: targets-cancel
    def test_a_cancel_ends_those_that_have_not_begun(self):
        timer = self.make("queue:a", "queue:b", self.receiver.url("/ok"))
        self.await_states(timer, "delivering", "delivering", "fired")
        leased, = self.lease("a")
        self.call(409, "DELETE", f"/v1/timers/{timer['id']}")
        self.await_states(timer, "delivering", "cancelled", "fired")
        self.call(409, "PATCH", f"/v1/timers/{timer['id']}", {"payload": 1})
        self.call(200, "POST", "/v1/queues/a/nack", {"receipts": [leased["receipt"]], "delay": "1h"})
        self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        self.assertEqual(self.state(timer), "cancelled")
        self.assertEqual(self.states(timer), ["cancelled", "cancelled", "fired"])
        self.assertEqual(self.call(200, "GET", "/v1/timers")[1]["timers"], [])

    # proves: targets-cancel, targets-redrive
    def test_by_key_event_and_label(self):
        """What names the timer in other ways does the same to its parts."""
        keyed = self.make("queue:a", "queue:b", key="k")
        self.await_states(keyed, "delivering", "delivering")
        self.call(409, "PUT", "/v1/keys/k/timer", {"after": "1h", "target": "queue:c"})
        self.assertEqual(self.call(200, "DELETE", "/v1/keys/k/timer")[1]["state"], "cancelled")
        watching = self.make("queue:a", "queue:b", watch=["paid:1"])
        self.await_states(watching, "delivering", "delivering")
        self.assertEqual(self.call(200, "POST", "/v1/watch/paid:1/complete")[1]["cancelled"], 1)
        self.assertEqual(self.states(watching), ["cancelled", "cancelled"])
        labelled = self.make("queue:a", "queue:b", labels={"of": "me"})
        self.await_states(labelled, "delivering", "delivering")
        self.call(200, "POST", "/v1/timers/cancel", {"labels": {"of": "me"}})
        self.assertEqual(self.states(labelled), ["cancelled", "cancelled"])
        self.assertEqual(self.lease("a"), [])
        dead = self.make(self.receiver.url("/gone"), self.receiver.url("/ok"), key="k")
        self.await_state(dead, "dead")
        taken = self.make("queue:z", key="k", after="1h")  # a dead timer has no key
        part = self.get(dead)[2]["timer"]["targets"][0]["id"]
        self.call(200, "POST", "/v1/dead/redrive", {"ids": [part], "new_target": self.receiver.url("/ok")})
        harness.wait_until(lambda: self.daemon.call("GET", f"/v1/timers/{part}")[0] == 410, 20, "the part is over")
        self.assertEqual((self.state(dead), self.state(taken)), ("dead", "scheduled"))

    # proves: targets-repeat
    def test_a_firing_does_not_wait_for_the_one_before(self):
        timer = self.make(self.receiver.url("/hang"), self.receiver.url("/ok"), every="200ms",
                          retry={"timeout": "1m"})
        harness.wait_until(lambda: self.paths().count("/ok") >= 3, 20, "three firings")
        runs = self.get(timer)[2]["runs"]
        self.assertEqual({run["outcome"] for run in runs}, {"failed"})
        self.assertIn("1 of 2 targets were not over", runs[0]["error"])

    # proves: targets-count
    def test_what_is_refused(self):
        url = self.receiver.url()
        for targets, pointer in (([], "#/targets"), ([url] * 17, "#/targets"), ([url, "no"], "#/targets/1"),
                                 ("x", "#/targets"), ([1], "#/targets/0"), ([url, None], "#/targets/1"),
                                 ([{"target": url}], "#/targets/0"), ([url, "http://10.0.0.1/"], "#/targets/1")):
            problem = self.call(422, "POST", "/v1/timers", {"after": "1h", "targets": targets})[1]
            self.assertEqual(problem["errors"][0]["pointer"], pointer, problem)
        self.refused("#/targets", targets=[url])  # beside a target
        self.call(422, "POST", "/v1/timers", {"after": "1h", "targets": ["queue:a"], "method": "PUT"})
        sixteen = self.make(*[f"queue:q{i}" for i in range(16)], after="1h")
        self.assertEqual(len(sixteen["targets"]), 16)
        self.call(422, "PATCH", f"/v1/timers/{sixteen['id']}", {"targets": None})
        changed = self.call(200, "PATCH", f"/v1/timers/{sixteen['id']}", {"targets": ["queue:a\\\"b", "queue:c"][1:]})[1]
        self.assertEqual([target["target"] for target in changed["targets"]], ["queue:c"])
        single = self.call(200, "PATCH", f"/v1/timers/{sixteen['id']}", {"target": "queue:d"})[1]
        self.assertEqual((single["target"], "targets" in single), ("queue:d", False))
        timer = self.make("queue:x", "queue:y")
        self.await_states(timer, "delivering", "delivering")
        parts = self.get(timer)[2]["targets"]
        for change in {"every": "1h"}, {"cron": "0 9 * * *"}, {"targets": ["queue:a", "queue:b"]}:
            self.call(422, "PATCH", f"/v1/timers/{parts[0]['id']}", change)
        self.call(200, "PATCH", f"/v1/timers/{parts[0]['id']}", {"target": "queue:z"})
        escaped = self.daemon.call("POST", "/v1/timers", '{"after": "1h", "targets": ["queue:\\u0061", "queue\\u003ab"]}')
        self.assertEqual([target["target"] for target in escaped[2]["targets"]], ["queue:a", "queue:b"])

    # proves: targets-moved
    def test_a_restored_timer_delivers_to_those_that_were_not_over(self):
        timer = self.make("queue:a", self.receiver.url("/ok"), self.receiver.url("/gone"))
        self.await_states(timer, "delivering", "fired", "dead")
        lines = self.call(200, "GET", "/v1/timers")[1]["timers"]
        self.assertEqual(sorted("part_of" in line for line in lines), [False, True])
        body = "".join(json.dumps(line) + "\n" for line in lines)
        answers = [json.loads(line) for line in self.call(
            200, "POST", "/v1/timers/batch?restore=true", body, {"Content-Type": "application/x-ndjson"})[1].splitlines()]
        self.assertEqual(sorted(answer.get("status", 0) for answer in answers), [0, 422])
        again = next(answer for answer in answers if "id" in answer)
        self.await_states(again, "delivering", "fired", "dead")
        self.assertEqual(len(self.lease("a")), 2)
        self.assertEqual(self.get(again)[2]["targets"][2]["last_error"], self.get(timer)[2]["targets"][2]["last_error"])
        self.await_paths("/gone", "/ok")

    # proves: targets-crash
    def test_kill_9_loses_no_target(self):
        timers = [self.make(self.receiver.url(f"/slow/{i * 7}"), self.receiver.url("/ok"), "queue:q", after=i * 40)
                  for i in range(30)]
        for _ in range(4):
            time_to_kill = len(self.receiver.arrivals()) + 8
            harness.wait_until(lambda: len(self.receiver.arrivals()) >= min(time_to_kill, 55), 20, "some webhooks")
            self.restart()
        taken = set()
        def take_all():
            for item in self.call(200, "POST", "/v1/queues/q/lease", {"max": 100, "wait": 0, "lease": "1m"})[1]["items"]:
                taken.add(item["id"])
                self.call(200, "POST", "/v1/queues/q/ack", {"receipts": [item["receipt"]]})
            return all(self.state(timer) == "fired" for timer in timers)
        harness.wait_until(take_all, 60, "all timers are over")
        self.assertEqual(len(taken), 30)
        ids = {each.webhook_id for each in self.receiver.arrivals()}
        self.assertEqual(len(ids), 60)  # repeats have the webhook-id of the first attempt
        self.assertEqual(self.call(200, "GET", "/v1/timers")[1]["timers"], [])


if __name__ == "__main__":
    unittest.main()
