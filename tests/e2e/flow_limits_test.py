#!/usr/bin/env python3
"""How the real daemon keeps the limits of flows: a slow receiver never has more of a flow at a time than it allows, workers
likewise, starts keep the rate, a pause outlives a kill, and explain and the list of flows say what is the matter. The
receiver is a thread of this test that holds each request until the test lets it go."""

import http.server
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import ms_of


class Slow:
    """Answers a request when the test says so, and knows how many are open of each path."""

    def __init__(self):
        self.open, self.most, self.count, self.starts = {}, {}, 0, []
        self.lock, self.gate = threading.Lock(), threading.Semaphore(0)
        slow = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                with slow.lock:
                    slow.open[self.path] = slow.open.get(self.path, 0) + 1
                    slow.most[self.path] = max(slow.most.get(self.path, 0), slow.open[self.path])
                    slow.starts.append((time.monotonic(), ms_of(self.headers["tickwheel-due"])))
                slow.gate.acquire()
                with slow.lock:
                    slow.open[self.path] -= 1
                    slow.count += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.server.server_address[1]}{path}"

    def close(self):
        self.gate.release(10000)
        self.server.shutdown()
        self.server.server_close()


class FlowsTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.slow = Slow()
        self.addCleanup(self.slow.close)
        self.start()

    def start(self):
        self.daemon = harness.Daemon(self.data, "--partitions", "4", "--shards", "2")
        self.addCleanup(self.daemon.close)
        harness.wait_until(self.daemon.is_ready, 20, "ready")

    def create(self, target, flow, **fields):
        fields = {"after": "0s", "target": target, "flow": flow} | fields
        status, _, timer = self.daemon.call("POST", "/v1/timers", fields)
        self.assertEqual(status, 201, timer)
        return timer

    def flows(self):
        status, _, answer = self.daemon.call("GET", "/v1/flows")
        self.assertEqual(status, 200, answer)
        self.assertTrue(answer["complete"])
        return {flow["key"]: flow for flow in answer["flows"]}

    def wait_for_open(self, path, count):
        harness.wait_until(lambda: self.slow.open.get(path, 0) == count, 20, f"{count} of {path}")

    # proves: flow-concurrency, flow-explain, flow-list
    def test_a_slow_receiver_has_no_more_than_the_flow_allows(self):
        limits = {"key": "customer-42", "concurrency": 2}
        timers = [self.create(self.slow.url("/a"), limits, **({"key": f"k-{i}"} if i % 2 else {})) for i in range(8)]
        self.assertEqual(timers[0]["flow"], limits)
        self.create(self.slow.url("/b"), {"key": "customer-43", "concurrency": 1})
        self.create(self.slow.url("/c"), None)
        for path, count in ("/a", 2), ("/b", 1), ("/c", 1):
            self.wait_for_open(path, count)
        shown = harness.wait_until(lambda: (flow := self.flows()).get("customer-42", {}).get("waiting") == 6 and flow, 20,
                                   "6 that wait")
        self.assertEqual((shown["customer-42"]["running"], shown["customer-42"]["concurrency"]), (2, 2))
        self.assertEqual((shown["customer-43"]["running"], shown["customer-43"]["waiting"]), (1, 0))
        texts = [self.daemon.call("GET", f"/v1/timers/{timer['id']}/explain")[2] for timer in timers]
        waiting = [text for text in texts if text["where"] == "waiting"]
        self.assertEqual(len(waiting), 6)
        for text in waiting:
            self.assertEqual(text["waiting"]["for"], "flow")
            self.assertIn("It waits for flow customer-42: 2 of 2 running.", text["explanation"])
        (line,) = harness.wait_until(lambda: self.daemon.call("GET", "/v1/verdict")[2]["waiting"], 20, "a line of the verdict")
        self.assertEqual((line["for"], line["count"]), ("flow", 6))
        self.assertIn("Their flows start no more for now: `tickwheel flows` names each", line["text"])
        self.slow.gate.release(100)
        harness.wait_until(lambda: self.slow.count == 10, 20, "all of them")
        self.assertEqual(self.slow.most, {"/a": 2, "/b": 1, "/c": 1})
        harness.wait_until(lambda: self.flows() == {}, 20, "no flow is left")

    # proves: flow-concurrency
    def test_workers_get_no_more_than_the_flow_allows(self):
        for i in range(5):
            self.create("queue:sync", {"key": "c", "concurrency": 2})
        lease = lambda: self.daemon.call("POST", "/v1/queues/sync/lease", {"max": 10, "wait": "1s", "lease": "1m"})[2]["items"]
        held = harness.wait_until(lambda: (items := lease()) and items, 20, "items")
        held += lease() if len(held) < 2 else []
        self.assertEqual(len(held), 2)
        self.assertEqual(lease(), [])
        done = 0
        while held:
            status, _, answer = self.daemon.call("POST", "/v1/queues/sync/ack", {"receipts": [held.pop()["receipt"]]})
            self.assertEqual((status, answer["ok"]), (200, 1))
            done += 1
            held += lease() if done + len(held) < 5 else []
            self.assertLessEqual(len(held), 2)
        self.assertEqual(done, 5)

    # proves: flow-set
    def test_limits_for_all(self):
        for i in range(4):
            self.create(self.slow.url("/a"), {"key": "d", "concurrency": 1}, key=f"d-{i}")
        self.wait_for_open("/a", 1)
        harness.wait_until(lambda: self.flows()["d"]["waiting"] == 3, 20, "three wait")
        status, _, answer = self.daemon.call("PUT", "/v1/flows/d", {"concurrency": 3, "rate": "1000/s"})
        self.assertEqual((status, answer.pop("version", 0) > 0, answer), (200, True, {"key": "d", "concurrency": 3, "rate": "1000/s"}))
        self.wait_for_open("/a", 3)
        self.assertEqual((self.flows()["d"]["concurrency"], self.flows()["d"]["defined"]), (3, True))
        self.daemon.signal(signal.SIGKILL)
        self.start()
        self.assertEqual(self.flows()["d"]["concurrency"], 3)
        status, _, answer = self.daemon.call("DELETE", "/v1/flows/d")
        self.assertEqual((status, answer), (200, {"key": "d"}))
        self.assertEqual(self.daemon.call("DELETE", "/v1/flows/d")[0], 404)
        self.slow.gate.release(100)
        for body in {}, {"key": "d", "rate": 1}, {"rate": 0}, {"rate": 1, "rate ": 1}, []:
            self.assertEqual(self.daemon.call("PUT", "/v1/flows/d", body)[0], 422, body)
        for key in "a%20b", "k" * 65:
            self.assertEqual(self.daemon.call("PUT", "/v1/flows/" + key, {"rate": 1})[0], 422, key)

    # proves: flow-rate
    def test_starts_keep_the_rate(self):
        self.slow.gate.release(100)
        for i in range(6):
            self.create(self.slow.url("/r"), {"key": "r", "rate": "5/s"}, key=f"r-{i}")
        harness.wait_until(lambda: self.slow.count == 6, 20, "all of them")
        starts = sorted(at for at, _ in self.slow.starts)
        self.assertGreater(starts[-1] - starts[0], 5 * 0.2 - 0.1)

    # proves: flow-pause
    def test_a_pause_outlives_a_kill(self):
        status, _, answer = self.daemon.call("POST", "/v1/flows/a%20b/pause", {"note": "why"})
        self.assertEqual((status, answer["name"], answer["paused"]["note"]), (200, "a b", "why"))
        timer = self.create(self.slow.url("/p"), {"key": "a b", "concurrency": 1})
        self.create(self.slow.url("/q"), {"key": "other", "concurrency": 1})
        self.wait_for_open("/q", 1)
        self.daemon.signal(signal.SIGKILL)
        self.start()
        text = harness.wait_until(
            lambda: (found := self.daemon.call("GET", f"/v1/timers/{timer['id']}/explain")[2])["where"] == "waiting" and found,
            20, "it waits")
        self.assertEqual(text["waiting"]["for"], "paused")
        self.assertIn("flow:a b was paused", text["explanation"])
        self.assertEqual(self.flows()["a b"]["paused"]["note"], "why")
        self.assertNotIn("/p", self.slow.open)
        status, _, answer = self.daemon.call("POST", "/v1/flows/a%20b/resume")
        self.assertEqual((status, answer), (200, {"name": "a b"}))
        self.slow.gate.release(100)
        harness.wait_until(lambda: self.slow.most.get("/p") == 1, 20, "it goes on")

    def test_a_change_moves_a_timer_to_another_flow(self):
        self.create(self.slow.url("/a"), {"key": "x", "concurrency": 1})
        self.wait_for_open("/a", 1)
        second = self.create(self.slow.url("/b"), {"key": "x", "concurrency": 1})
        harness.wait_until(lambda: self.flows()["x"]["waiting"] == 1, 20, "it waits")
        status, _, timer = self.daemon.call("PATCH", f"/v1/timers/{second['id']}", {"flow": {"key": "y", "rate": 100}})
        self.assertEqual((status, timer["flow"]), (200, {"key": "y", "rate": "100/s"}))
        self.wait_for_open("/b", 1)
        status, _, answer = self.daemon.call("PATCH", f"/v1/timers/{second['id']}", {"flow": {"key": "y"}})
        self.assertEqual(status, 422, answer)

    def test_bad_requests(self):
        for flow in {}, {"key": "k"}, {"concurrency": 1}, {"key": "k" * 129, "rate": 1}, {"key": "k", "rate": "1/w"}, [], "k":
            status, _, answer = self.daemon.call("POST", "/v1/timers", {"after": 0, "target": "queue:q", "flow": flow})
            self.assertEqual(status, 422, (flow, answer))
        for path in "/v1/flows/" + "k" * 129 + "/pause", "/v1/flows/%01/resume":
            self.assertEqual(self.daemon.call("POST", path, {})[0], 404, path)


if __name__ == "__main__":
    unittest.main()
