#!/usr/bin/env python3
"""Goal: a call ends the lease of a worker that died, as the end of its time would. Method: items that are leased for hours,
released by id and by key; with other versions, other tenants and other scopes; what is not leased; the end over a kill -9.
A comment "proves:" names what each test proves."""

import concurrent.futures
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness

RELEASED = "the lease was released by a call"


class ReleaseTest(daemon_case.DaemonCase):
    def lease(self, name="q", lease="12h"):
        items = self.call(200, "POST", f"/v1/queues/{name}/lease", {"wait": "20s", "lease": lease})[1]["items"]
        self.assertEqual(len(items), 1)
        return items[0]

    def release(self, timer, expected=200, version=None):
        headers = {"If-Match": f'"{version}"'} if version else None
        fields, answer = self.call(expected, "POST", f"/v1/timers/{timer['id']}/release", None, headers)
        return answer if expected != 200 else (fields["ETag"], answer)

    def report(self, verb, item, name="q"):
        return self.call(200, "POST", f"/v1/queues/{name}/{verb}", {"receipts": [item["receipt"]]})[1]["results"][0]

    # proves: release, lease
    def test_the_next_worker_gets_it_and_the_old_receipt_is_stale(self):
        """Durable with the answer; counted, shown and logged as the end of a lease is."""
        timer = self.create(target="queue:q", after=0, key="k", retry={"max_attempts": 3})
        first = self.lease()
        tag, told = self.release(timer, version=timer["version"])
        self.assertEqual((tag, told["attempts"], told["last_error"]), ('"2"', 1, RELEASED))
        self.assertIn(told["state"], ("retrying", "delivering"))
        for verb in ("ack", "nack", "extend"):
            self.assertEqual(self.report(verb, first), "stale")
        path = f"/v1/deliveries?timer={timer['id']}"

        def await_ends(count):
            harness.wait_until(lambda: len(self.call(200, "GET", path)[1]["deliveries"]) == count, 20, f"{count} ends")
        await_ends(1)  # what was shown survives the kill
        self.restart()
        second = self.lease()
        self.assertEqual((second["id"], second["attempt"], second["last_error"]), (timer["id"], 2, RELEASED))
        told = self.call(200, "POST", "/v1/keys/k/release")[1]
        self.assertEqual((told["id"], told["attempts"]), (timer["id"], 2))
        self.assertEqual(self.report("ack", self.lease()), "ok")
        self.assertEqual(self.state(timer), "fired")
        await_ends(3)
        ends = self.call(200, "GET", path)[1]["deliveries"]
        self.assertEqual([each.get("error") for each in ends], [None, RELEASED, RELEASED])
        self.assertEqual(self.daemon.metric("tickwheel_queue_leased"), 0)

    # proves: release
    def test_a_worker_that_waits_gets_it_at_once(self):
        timer = self.create(target="queue:q", after=0)
        self.lease()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self.lease)
            harness.wait_until(lambda: self.call(200, "GET", "/v1/queues/q")[1]["workers"] == 1, 20, "a worker")
            told = self.release(timer)[1]
            self.assertEqual((told["id"], told["attempts"]), (timer["id"], 1))
            self.assertEqual(waiting.result(20)["attempt"], 2)

    # proves: release
    def test_the_last_attempt_makes_a_dead_letter(self):
        timer = self.create(target="queue:q", after=0, retry={"max_attempts": 1})
        self.lease()
        self.assertEqual(self.release(timer)[1]["state"], "dead")
        letter = self.call(200, "GET", "/v1/dead?target=queue:q")[1]["timers"][0]
        self.assertEqual((letter["id"], letter["last_error"]), (timer["id"], RELEASED))

    # proves: release-refused
    def test_what_is_not_leased(self):
        """Scheduled, ready, in the air to a webhook, over, unknown; and a version that it has not. Nothing changes."""
        later, ready = self.create(target="queue:q"), self.create(target="queue:ready", after=0)
        hanging = self.create("/hang", after=0)
        self.await_state(hanging, "delivering")
        for timer in (later, ready, hanging):
            self.assertEqual(self.release(timer, 409)["type"], "/problems/not-leased")
        self.call(200, "DELETE", f"/v1/timers/{later['id']}")
        self.assertEqual(self.release(later, 410)["timer"]["state"], "cancelled")
        for place in (f"timers/{'0' * 26}", "timers/x", "keys/none"):
            self.call(404, "POST", f"/v1/{place}/release")
        item = self.lease("ready")
        self.release(ready, 412, version=7)
        self.call(400, "POST", f"/v1/timers/{ready['id']}/release", None, {"If-Match": "7"})
        self.assertEqual(self.report("ack", item, "ready"), "ok")
        self.assertEqual(self.release(ready, 410)["timer"]["state"], "fired")

    # proves: release, release-refused
    def test_of_many_at_once_one_ends_the_lease(self):
        """Each ends one lease of its version, over all shards."""
        timers = [self.create(target="queue:q", after=0, retry={"base": "1d", "cap": "1d"}) for _ in range(20)]
        items = []
        while len(items) < 20:
            items += self.call(200, "POST", "/v1/queues/q/lease", {"max": 20, "wait": "20s", "lease": "1h"})[1]["items"]
        asked = [(timer, number) for timer in timers for number in range(4)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda each: self.daemon.call(
                "POST", f"/v1/timers/{each[0]['id']}/release", None, {"If-Match": '"1"'})[0], asked))
        for number, timer in enumerate(timers):
            told = answers[4 * number:4 * number + 4]
            self.assertEqual((told.count(200), set(told) - {200, 409, 412}), (1, set()), told)
            self.assertEqual(self.get(timer)[2]["attempts"], 1)


class StrangersTest(daemon_case.TokensCase):
    # proves: release-refused, tenant-isolation
    def test_of_another_tenant_or_with_another_scope(self):
        for name, tenant, scope in (("shop", "shop", None), ("rival", "rival", None), ("reader", "shop", "read")):
            self.token(name, tenant, scope)
        self.write_tokens()
        daemon = self.start()

        def call(who, method, path, body=None):
            return daemon.call(method, path, body, daemon_case.bearer(self.tokens[who]))
        timer = call("shop", "POST", "/v1/timers", {"after": 0, "target": "queue:q", "key": "k"})[2]
        item = call("shop", "POST", "/v1/queues/q/lease", {"wait": "20s"})[2]["items"][0]
        for place in (f"timers/{timer['id']}", "keys/k"):
            self.assertEqual(call("rival", "POST", f"/v1/{place}/release")[0], 404)
            self.assertEqual(call("reader", "POST", f"/v1/{place}/release")[0], 403)
        self.assertEqual(call("shop", "POST", "/v1/queues/q/ack", {"receipts": [item["receipt"]]})[2]["results"], ["ok"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
