#!/usr/bin/env python3
"""Whether the real daemon hands out the items of a queue in strict order: thousands that are due in one millisecond, made by
several connections and batches on several shards, through failures and kill -9. The order is that of the answers of creates."""

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

DUE = "2026-01-01T00:00:00.005Z"  # past, so that all are due at once and at the same time


class StrictOrderTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.start()

    def start(self, *flags):
        self.daemon = harness.Daemon(self.data, "--shards", "3", *flags)
        self.addCleanup(self.daemon.close)

    def restart(self, *flags):
        self.daemon.signal(signal.SIGKILL)
        self.start(*flags)

    def create(self, expected=201, connection=None, headers=None, **fields):
        body = json.dumps({"at": DUE, "target": "queue:a", "order": "strict", **fields})
        status, _, answer = self.daemon.call("POST", "/v1/timers", body, headers, connection)
        self.assertEqual(status, expected, answer)
        return answer

    def ask(self, path, **fields):
        status, _, answer = self.daemon.call("POST", path, json.dumps(fields))
        self.assertEqual(status, 200, answer)
        return answer

    def lease(self, count=1, wait="0s"):
        return self.ask("/v1/queues/a/lease", max=count, wait=wait, lease="60s")["items"]

    def ack(self, items):
        answer = self.ask("/v1/queues/a/ack", receipts=[item["receipt"] for item in items])
        self.assertEqual(answer["ok"], len(items))

    def drain(self, count):
        """The payloads of the next items, in the order in which they come."""
        came = []
        while len(came) < count:
            items = self.lease(100, "20s")
            self.assertTrue(items, f"{len(came)} of {count} items came")
            self.ack(items)
            came += [item["payload"] for item in items]
        return came

    def batch(self, payloads):
        lines = "\n".join(json.dumps({"at": DUE, "target": "queue:a", "order": "strict", "payload": payload})
                          for payload in payloads)
        status, _, answer = self.daemon.call("POST", "/v1/timers/batch", lines,
                                             {"Content-Type": "application/x-ndjson"})
        self.assertEqual(status, 200, answer)

    # proves: strict-order
    def test_creators_on_all_shards(self):
        """Each creator sends the next create after the answer to the one before, over a connection of its own."""
        def create_many(creator):
            connection = self.daemon.connect()
            for number in range(400):
                self.create(connection=connection, payload=[creator, number])
            connection.close()

        creators = [threading.Thread(target=create_many, args=(i,)) for i in range(6)]
        for thread in creators:
            thread.start()
        for thread in creators:
            thread.join()
        came = self.drain(6 * 400)
        for creator in range(6):
            self.assertEqual([number for by, number in came if by == creator], list(range(400)))

    # proves: strict-order
    def test_batches_and_kills(self):
        """The lines of batches keep their order, also through kill -9 while some are leased."""
        for first in range(0, 6000, 2000):
            self.batch(range(first, first + 2000))
        came = self.drain(1000)
        self.lease(500)
        self.restart()
        self.assertEqual(came + self.drain(5000), list(range(6000)))

    # proves: strict-order
    def test_more_than_memory(self):
        self.restart("--near-bytes-max", "64M")
        for first in range(0, 20000, 10000):
            self.batch(range(first, first + 10000))
        self.assertEqual(self.drain(20000), list(range(20000)))

    # proves: strict-retry
    def test_failed_item_keeps_its_place(self):
        for number in range(3):
            self.create(payload=number)
        first, = self.lease(wait="20s")
        self.ask("/v1/queues/a/nack", receipts=[first["receipt"]], delay="1s")
        again, = self.lease(wait="20s")
        self.assertEqual((again["payload"], again["attempt"]), (0, 2))
        self.ask("/v1/queues/a/nack", receipts=[again["receipt"]], delay="1h")
        self.assertEqual(self.lease(), [])
        status, _, text = self.daemon.call("GET", f"/v1/timers/{first['id']}/explain")
        self.assertEqual(status, 200)
        self.assertIn("strict order", str(text))
        status, _, text = self.daemon.call("DELETE", f"/v1/timers/{first['id']}")
        self.assertEqual(status, 200, text)
        self.assertEqual(self.drain(2), [1, 2])

    # proves: strict-retry
    def test_dead_item_lets_the_next_pass(self):
        for number in range(2):
            self.create(payload=number)
        first, = self.lease(wait="20s")
        self.ask("/v1/queues/a/nack", receipts=[first["receipt"]], dead=True)
        second, = self.lease(wait="20s")
        self.assertEqual(second["payload"], 1)
        self.ask("/v1/dead/redrive", ids=[first["id"]])
        self.create(payload=2)
        self.assertEqual(self.drain(2), [0, 2])
        self.ack([second])

    # proves: strict-idempotent
    def test_repeated_request(self):
        """A create that is repeated, because its answer was lost, makes no second item."""
        made = [self.create(headers={"Idempotency-Key": "one"}, payload=1) for _ in range(2)]
        self.assertEqual(made[0]["id"], made[1]["id"])
        self.create(expected=422, headers={"Idempotency-Key": "one"}, payload=2)
        self.create(payload=3)
        self.assertEqual(self.drain(2), [1, 3])

    # proves: strict-order
    def test_what_is_refused(self):
        def refused(pointer="#/order", **fields):
            problem = self.create(expected=422, **fields)
            self.assertEqual(problem["errors"][0]["pointer"], pointer, problem)

        for target in "https://shop.example/", "log:a", "nats://x/y":
            refused(pointer="#/order" if target != "nats://x/y" else "#/target", target=target)
        refused(key="a")
        refused(flow={"key": "a", "concurrency": 1})
        refused(target=None, targets=["queue:a", "queue:b"])
        for order in "due", "", "STRICT", 1, ["strict"], "strict" * 1000:
            refused(order=order)
        made = self.create(at="2199-01-01T00:00:00Z")
        self.assertEqual(made["order"], "strict")

        def patch(expected, **fields):
            status, _, text = self.daemon.call("PATCH", f"/v1/timers/{made['id']}", json.dumps(fields),
                                               {"Content-Type": "application/merge-patch+json"})
            self.assertEqual(status, expected, text)
            return text

        patch(422, order=None)
        patch(422, order="strict")
        patch(422, flow={"key": "a", "concurrency": 1})
        self.assertEqual(patch(200, labels={"a": "b"})["order"], "strict")
        self.assertNotIn("order", patch(200, target="queue:b"))


if __name__ == "__main__":
    unittest.main()
