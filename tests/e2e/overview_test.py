#!/usr/bin/env python3
"""Goal: an operator sees at a glance how full queues are, what goes to each target and why one is left alone, and the
main figures. Method: items that wait and are leased, workers that wait, receivers that hang and fail."""

import json
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness


class CountTest(daemon_case.DaemonCase):
    def counts(self, by):
        answer = self.call(200, "GET", f"/v1/timers/count?by={by}")[1]
        if not answer["complete"]:
            return None
        groups = {tuple(group.get(name) for name in by.split(",")): group["count"] for group in answer["groups"]}
        self.assertEqual((sum(groups.values()), answer["others"]), (answer["count"], 0))
        return groups

    def await_counts(self, by, expected):
        harness.wait_until(lambda: self.counts(by) == expected, 120, f"{expected} by {by}, not {self.counts(by)}")

    # proves: count
    def test_live_timers_by_state_and_origin(self):
        """Of all partitions, after each change, and again after kill -9; those that are over do not count."""
        failing = self.create("/status/500", after=0, retry={"base": "1d", "cap": "1d"})
        receiver = failing["target"].removesuffix("/status/500")
        made = [self.create(target=f"queue:q{n % 2}", after="1d") for n in range(20)]
        leased = self.create(target="queue:q0", after=0)
        self.await_state(failing, "retrying")
        self.assertEqual(len(self.call(200, "POST", "/v1/queues/q0/lease", {"max": 1, "wait": "20s"})[1]["items"]), 1)
        self.call(200, "POST", f"/v1/timers/{made[0]['id']}/pause", {})
        self.call(200, "PATCH", f"/v1/timers/{made[2]['id']}", {"target": "queue:q1"})
        self.call(200, "DELETE", f"/v1/timers/{made[1]['id']}")
        expected = {("scheduled", "queue:q0"): 8, ("scheduled", "queue:q1"): 10, ("paused", "queue:q0"): 1,
                    ("delivering", "queue:q0"): 1, ("retrying", receiver): 1}
        self.await_counts("state,origin", expected)
        self.await_counts("origin", {("queue:q0",): 10, ("queue:q1",): 10, (receiver,): 1})
        self.await_counts("state", {("scheduled",): 18, ("paused",): 1, ("delivering",): 1, ("retrying",): 1})
        self.restart()
        self.await_counts("state", {("scheduled",): 19, ("paused",): 1, ("retrying",): 1})
        answer = self.call(200, "GET", "/v1/timers/count")[1]
        self.assertEqual(answer, {"count": 21, "groups": [], "others": 21, "complete": True})
        self.assertEqual(leased["state"], "scheduled")

    # proves: count-label
    def test_live_timers_by_label(self):
        """Of all partitions, with values of any text, none, and of timers without the label; also by state and origin."""
        for n, labels in enumerate([{"team": "a"}] * 3 + [{"team": "b c,\u00e4\n"}] * 2 + [{"team": "", "x": "a"}, {}, {"teams": "a"}]):
            self.create(target=f"queue:q{n % 2}", after="1d", labels=labels)
        over = self.create(target="queue:q0", after="1d", labels={"team": "over"})
        self.call(200, "DELETE", f"/v1/timers/{over['id']}")
        paused = self.create(target="queue:q0", after="1d", labels={"team": "a"})
        self.call(200, "POST", f"/v1/timers/{paused['id']}/pause", {})
        count = lambda by: self.call(200, "GET", f"/v1/timers/count?by={by}")[1]
        by_team = [{"label": "a", "count": 4}, {"label": "b c,\u00e4\n", "count": 2}, {"label": None, "count": 2}, {"label": "", "count": 1}]
        answer = {"count": 9, "groups": by_team, "others": 0, "complete": True}
        self.assertEqual(count("label:team"), answer)
        self.assertIn({"state": "paused", "label": "a", "count": 1}, count("state,label:team")["groups"])
        groups = count("label:team,origin")["groups"]
        self.assertEqual(groups[0], {"origin": "queue:q0", "label": "a", "count": 3})
        self.assertEqual(sum(group["count"] for group in groups), 9)
        self.restart()
        self.assertEqual(count("label:team"), answer)
        self.assertEqual(count("label:nobody")["groups"], [{"label": None, "count": 9}])

    # proves: dead-groups-max, count-label
    def test_at_most_a_thousand_groups(self):
        """The rest are counted together, so that labels with a value for each timer need no more memory."""
        lines = "\n".join(json.dumps({"after": "1d", "target": "queue:q", "labels": {"n": str(n)}}) for n in range(1005))
        self.call(200, "POST", "/v1/timers/batch", lines.encode(), {"Content-Type": "application/x-ndjson"})
        answer = self.call(200, "GET", "/v1/timers/count?by=label:n")[1]
        self.assertEqual((answer["count"], len(answer["groups"]), answer["others"], answer["complete"]), (1005, 1000, 5, True))

    # proves: count-label, count-rows
    def test_at_most_a_million_timers_are_read(self):
        """A count by label says when there are more; one by state counts all."""
        line = json.dumps({"after": "1d", "target": "queue:q"}) + "\n"
        headers = {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}
        for more, is_complete in ((950000, True), (49000, True), (5000, False)):
            for size in [50000] * (more // 50000) + [more % 50000]:
                self.call(200, "POST", "/v1/timers/batch", line * size, headers)
            made = self.call(200, "GET", "/v1/timers/count")[1]["count"]
            answer = self.call(200, "GET", "/v1/timers/count?by=label:team")[1]
            self.assertEqual((answer["complete"], answer["others"]), (is_complete, 0))
            self.assertEqual(answer["groups"], [{"label": None, "count": answer["count"]}])
            if is_complete:
                self.assertEqual(answer["count"], made)
            else:
                self.assertTrue(1000000 <= answer["count"] < made, answer)

    # proves: count, query-wrong
    def test_only_known_fields(self):
        """Each once."""
        for query in ("by=", "by=state,state", "by=target", "by=state,", "of=state", "by=state&by=origin", "by=label", "by=label:",
                      "by=label:a,label:b", "by=label:a,", "by=,state"):
            self.call(422, "GET", f"/v1/timers/count?{query}")


class QueuesTest(daemon_case.DaemonCase):
    def queues(self):
        answer = self.call(200, "GET", "/v1/queues")[1]
        self.assertTrue(answer["complete"])
        return {queue.pop("name"): queue for queue in answer["queues"]}

    def await_ready(self, name, count):
        harness.wait_until(lambda: self.queues().get(name, {}).get("ready") == count, 20, f"{count} in {name}")

    # proves: queues-list
    def test_what_is_ready_and_leased(self):
        """Of all priorities and partitions; a queue without anything is not listed, and empty when it is asked for."""
        self.assertEqual(self.queues(), {})
        made = [self.create(target=f"queue:a?priority={n % 3}", after=0) for n in range(12)]
        self.create(target="queue:b", after=0)
        self.create(target="queue:later", after="1h")
        self.await_ready("a", 12)
        self.await_ready("b", 1)
        leased = self.call(200, "POST", "/v1/queues/a/lease", {"max": 5, "wait": 0, "lease": "1m"})[1]["items"]
        shown = self.queues()
        self.assertEqual(list(shown), ["a", "b"])
        rest = [timer["due"] for timer in made if timer["id"] not in {item["id"] for item in leased}]
        self.assertEqual(shown["a"], {"ready": 12 - len(leased), "leased": len(leased), "workers": 0,
                                      "more_on_disk": False, "oldest": min(rest)})
        self.assertEqual(self.call(200, "GET", "/v1/queues/a")[1], {"name": "a", **shown["a"]})
        empty = {"ready": 0, "leased": 0, "workers": 0, "more_on_disk": False}
        self.assertEqual(self.call(200, "GET", "/v1/queues/later")[1], {"name": "later", **empty})
        self.call(200, "POST", "/v1/queues/a/ack", {"receipts": [item["receipt"] for item in leased]})
        self.assertEqual(self.queues()["a"]["leased"], 0)

    # proves: queues-list, queue-name
    def test_workers_that_wait(self):
        """They are counted until they have an item."""
        workers = [threading.Thread(target=self.call, args=(200, "POST", "/v1/queues/a/lease", {"max": 1, "wait": "20s"}))
                   for _ in range(3)]
        for worker in workers:
            worker.start()
        harness.wait_until(lambda: self.queues().get("a", {}).get("workers") == 3, 20, "three workers")
        self.assertEqual(self.call(200, "GET", "/v1/queues/a")[1]["workers"], 3)
        for _ in workers:
            self.create(target="queue:a", after=0)
        for worker in workers:
            worker.join()
        shown = self.queues()["a"]
        self.assertEqual((shown["workers"], shown["leased"], shown["ready"]), (0, 3, 0))
        for path in ("/v1/queues/a%2Fb", "/v1/queues/a%20b/peek", "/v1/queues/" + 65 * "x"):
            self.call(404, "GET", path)

    # proves: queue-peek
    def test_peek_shows_what_is_leased_next(self):
        """By priority, and by due time within one, as often as one asks."""
        for n in range(30):
            self.create(target=f"queue:a?priority={n % 2}", at=10**12 + n, payload=n)
        self.await_ready("a", 30)
        wanted = sorted(range(30), key=lambda n: (-(n % 2), n))
        for limit in (1, 20, 29, 30, 31, 100):
            answer = self.call(200, "GET", f"/v1/queues/a/peek?limit={limit}")[1]
            self.assertEqual([timer["payload"] for timer in answer["timers"]], wanted[:limit])
            self.assertEqual(answer["more"], limit < 30)
        self.assertEqual(len(self.call(200, "GET", "/v1/queues/a/peek")[1]["timers"]), 20)
        self.assertEqual(self.call(200, "GET", "/v1/queues/b/peek")[1], {"timers": [], "more": False})
        self.assertEqual(self.queues()["a"]["leased"], 0)

    # proves: peek-parameters, peek-limit
    def test_limits_of_a_peek(self):
        for right in (1, 100):
            self.call(200, "GET", f"/v1/queues/a/peek?limit={right}")
        for wrong in (0, 101, "x"):
            self.call(422, "GET", f"/v1/queues/a/peek?limit={wrong}")
        empty = "".join(f"&a{n}" for n in range(7))
        self.call(422, "GET", "/v1/queues/a/peek?limit=1" + empty)
        self.call(400, "GET", "/v1/queues/a/peek?limit=1&b" + empty)

    # proves: survey-rows
    def test_more_queues_than_are_shown(self):
        def batch(first, last):
            lines = "".join(json.dumps({"after": 0, "target": f"queue:q{n:04}"}) + "\n" for n in range(first, last))
            self.call(200, "POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})

        def answer():
            return self.call(200, "GET", "/v1/queues")[1]
        batch(0, 1000)
        harness.wait_until(lambda: len(answer()["queues"]) == 1000, 20, "1000 queues")
        self.assertTrue(answer()["complete"])
        batch(1000, 1001)
        harness.wait_until(lambda: not answer()["complete"], 20, "one more")
        self.assertEqual([queue["name"] for queue in answer()["queues"]], [f"q{n:04}" for n in range(1000)])

    # proves: queue-peek
    def test_a_peek_of_large_items_is_bounded(self):
        """The answer ends early, and says so."""
        for _ in range(40):
            self.create(target="queue:a", after=0, payload="x" * 1000000)
        self.await_ready("a", 40)
        answer = self.call(200, "GET", "/v1/queues/a/peek?limit=100")[1]
        self.assertTrue(answer["more"])
        self.assertIn(len(answer["timers"]), range(1, 10))


class TargetsTest(daemon_case.DaemonCase):
    flags = ("--target-deliveries-max", "16", "--shards", "1", "--partitions", "1", "--target-rate-max", "1000")

    def targets(self):
        answer = self.call(200, "GET", "/v1/targets")[1]
        self.assertEqual((answer["in_flight_max"], answer["rate_max"], answer["complete"]), (16, 1000, True))
        return {target.pop("target"): target for target in answer["targets"]}

    # proves: targets-list
    def test_what_waits_and_is_in_flight(self):
        """Beyond the limit of a target its timers wait."""
        self.assertEqual(self.targets(), {})
        made = [self.create("/hang", after=0) for _ in range(20)]
        origin = self.receiver.url("")
        harness.wait_until(lambda: self.targets().get(origin, {}).get("waiting") == 4, 20, "four wait")
        shown = self.targets()
        self.assertEqual(shown, {origin: {"waiting": 4, "in_flight": 16, "more_on_disk": False, "breaker": "closed",
                                          "failures": 0, "paths": [], "oldest": shown[origin]["oldest"]}})
        self.assertIn(shown[origin]["oldest"], {timer["due"] for timer in made})

    # proves: targets-list, breaker
    def test_what_fails(self):
        """A path with errors, and a host that is not there: the state, the failures and the last one."""
        failing = self.create("/status/500", after=0, retry={"max_attempts": 100, "base": "1ms", "cap": "1ms"})
        origin = self.receiver.url("")
        harness.wait_until(lambda: self.targets().get(origin, {}).get("paths"), 20, "a path that fails")
        harness.wait_until(lambda: self.targets()[origin]["paths"][0]["breaker"] == "open", 20, "its breaker opens")
        shown = self.targets()[origin]
        (path,) = shown["paths"]
        self.assertEqual((shown["breaker"], path["path"]), ("closed", self.receiver.url("/status/500")))
        self.assertGreaterEqual(path["failures"], 1)
        self.assertIn("500", path["last_error"])
        self.assertGreater(daemon_case.ms_of(path["tried_at"]), daemon_case.ms_of(failing["due"]))
        self.create(target="http://127.0.0.1:1/x", after=0, retry={"max_attempts": 2, "base": "1d", "cap": "1d"})
        harness.wait_until(lambda: self.targets().get("http://127.0.0.1:1", {}).get("failures") == 1, 20, "a failure")
        gone = self.targets()["http://127.0.0.1:1"]
        self.assertEqual((gone["breaker"], gone["waiting"], gone["in_flight"], gone["paths"]), ("closed", 0, 0, []))
        self.assertTrue(gone["last_error"])


class ClusterTest(daemon_case.DaemonCase):
    # proves: cluster-get
    def test_a_single_node_tells_of_none(self):
        """tests/brokers/broker_cluster_test.py has three nodes."""
        self.assertEqual(self.call(200, "GET", "/v1/cluster")[1], {"nodes": [], "partitions": []})
        self.assertEqual(self.daemon.metric("tickwheel_cluster_nodes"), 0)


class StatsTest(daemon_case.DaemonCase):
    # proves: stats
    def test_the_figures_are_those_of_the_metrics(self):
        before = self.call(200, "GET", "/v1/stats")[1]
        self.assertEqual((before["created"], before["fired"], before["lateness"]["all"]["count"]), (0, 0, 0))
        for _ in range(5):
            self.wait_for_arrivals(self.create(after=0))
        self.create()

        def counts():
            shown = self.call(200, "GET", "/v1/stats")[1]
            return shown["created"], shown["fired"], shown["lateness"]["all"]["count"]
        harness.wait_until(lambda: counts() == (6, 5, 5), 20, "five fired")
        shown = self.call(200, "GET", "/v1/stats")[1]
        for name, metric in (("created", "timers_created_total"), ("fired", "timers_fired_total"),
                             ("pending", "timers_pending"), ("attempts", "attempts_total"), ("dead", "timers_dead_total")):
            self.assertEqual(shown[name], self.daemon.metric(f"tickwheel_{metric}"), name)
        # Files may be made and removed between the two.
        harness.wait_until(lambda: self.call(200, "GET", "/v1/stats")[1]["disk_bytes"] ==
                           self.daemon.metric("tickwheel_disk_bytes"), 20, "one size of the data folder")
        self.assertEqual((shown["created"], shown["pending"], shown["ready"], shown["maintenance"]), (6, 1, True, False))
        self.assertGreater(shown["memory_bytes"], 1 << 20)
        for stage in ("schedule", "queue", "transfer", "all"):
            self.assertEqual(shown["lateness"][stage]["count"], 5)
            self.assertLessEqual(shown["lateness"][stage]["p50"], shown["lateness"][stage]["p99"])


if __name__ == "__main__":
    unittest.main()
