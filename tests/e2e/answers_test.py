#!/usr/bin/env python3
"""Goal: a receiver that answers 202 with "Tickwheel-Ack: later" ends its attempt when its work is done, by the URL that the
webhook carried; and whatever happens meanwhile, the timer is delivered neither twice nor never. Method: a receiver of the
test's own; acks, nacks and extensions; kill -9 while it waits; forged, replayed and expired tokens; a flood of them.
A comment "proves:" names what each test proves."""

import concurrent.futures
import http.server
import os
import re
import signal
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import events_test
import harness
from daemon_case import ms_of

PUBLIC = "http://tickwheel.example/base/"


class LateReceiver:
    """Answers each webhook with the status and headers that `answer` says, and notes what came."""

    def __init__(self):
        self.answer = lambda number: (202, {"Tickwheel-Ack": "later"})
        self.came, self.lock = [], threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                with outer.lock:
                    outer.came.append(self.headers)
                    number = len(outer.came)
                status, fields = outer.answer(number)
                self.send_response(status)
                for name, value in fields.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/work"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class AnswersCase(daemon_case.DaemonCase):
    flags = ("--public-url", PUBLIC)

    def setUp(self):
        super().setUp()
        self.late = LateReceiver()
        self.addCleanup(self.late.close)

    def make(self, **fields):
        """A timer that waits for its later answer, and the path by which that comes."""
        count = len(self.late.came)
        timer = self.create(target=self.late.url(), after=0, **fields)
        return timer, self.await_wait(timer, count + 1)

    def await_wait(self, timer, count=1):
        harness.wait_until(lambda: len(self.late.came) >= count, 20, f"{count} webhooks")
        harness.wait_until(lambda: self.explain(timer).get("delivery", {}).get("answer_until"), 20, "the wait")
        url = self.late.came[count - 1]["tickwheel-ack-url"]
        self.assertTrue(url.startswith(PUBLIC + "answers/" + timer["id"] + "-"), url)
        return url[len(PUBLIC) - 1:]

    def explain(self, timer):
        return self.call(200, "GET", f"/v1/timers/{timer['id']}/explain")[1]

    def say(self, path, verb, expected=204, body=None):
        answer = self.call(expected, "POST", f"{path}/{verb}", body)[1]
        if expected >= 400:
            return answer["type"].rsplit("/")[-1]
        return answer

    def deliveries(self, timer):
        return self.call(200, "GET", f"/v1/deliveries?timer={timer['id']}")[1]["deliveries"]

    def await_deliveries(self, timer, count):
        harness.wait_until(lambda: len(self.deliveries(timer)) == count, 20, f"{count} deliveries")
        return self.deliveries(timer)


class AnswersTest(AnswersCase):
    # proves: answer-later, answer-ack, answer-once
    def test_an_ack_ends_it(self):
        """Until then it is being delivered, shown as such, and no place of its target is taken."""
        timer, path = self.make(ack_timeout="2h", labels={"a": "b"})
        shown = self.get(timer)[2]
        self.assertEqual((shown["state"], shown["attempts"], shown["ack_timeout"], shown["version"]),
                         ("delivering", 0, "2h", 2))
        told = self.explain(timer)
        self.assertEqual((told["where"], told["delivery"]["attempt"]), ("delivering", 1))
        self.assertRegex(told["explanation"], r"^Attempt 1 of 10 waits for the later answer of http://127\S+, which accepted "
                                              r"it .*; the time for it ends in .*\.$")
        left = ms_of(told["delivery"]["answer_until"]) - time.time() * 1000
        self.assertTrue(7_100_000 < left <= 7_200_000, left)
        self.assertEqual(self.listed("state=delivering"), [timer["id"]])
        self.assertEqual(self.listed("state=scheduled&state=retrying"), [])
        self.assertEqual(self.call(200, "GET", "/v1/timers/count?by=state")[1]["groups"][0]["state"], "delivering")
        self.assertEqual(self.daemon.metric("tickwheel_deliveries_inflight"), 0)
        self.assertEqual(self.deliveries(timer), [])
        self.say(path, "ack")
        self.assertEqual(self.state(timer), "fired")
        self.assertEqual([self.say(path, verb, 410, body) for verb, body in
                          (("ack", None), ("nack", {"reason": "x"}), ("extend", {"by": "1h"}))], ["not-awaited"] * 3)
        ends = self.await_deliveries(timer, 1)
        self.assertEqual((ends[0]["outcome"], ends[0]["attempt"], ends[0]["status"]), ("done", 1, 202))
        self.assertEqual(len(self.late.came), 1)

    # proves: answer-nack, answer-later
    def test_a_nack_is_a_failed_attempt(self):
        """With a reason; the next attempt has another URL, and the old one ends nothing."""
        timer, first = self.make(retry={"base": "1ms", "cap": "1ms", "max_attempts": 2})
        self.say(first, "nack", body={"reason": "no such order"})
        second = self.await_wait(timer, 2)
        self.assertEqual((self.get(timer)[2]["attempts"], self.get(timer)[2]["last_error"]), (1, "no such order"))
        self.assertNotEqual(first, second)
        self.assertEqual(self.say(first, "ack", 410), "not-awaited")
        self.say(second, "nack")
        dead = self.await_state(timer, "dead")
        self.assertEqual((dead["attempts"], dead["last_error"]), (2, "the receiver gave up"))
        self.assertEqual([each.get("error") for each in self.await_deliveries(timer, 2)],
                         ["the receiver gave up", "no such order"])
        self.call(200, "POST", "/v1/dead/redrive", {"ids": [timer["id"]]})
        third = self.await_wait(timer, 3)
        self.assertEqual(self.say(second, "ack", 410), "not-awaited")
        self.say(third, "ack")
        self.assertEqual(self.state(timer), "fired")

    # proves: answer-time, answer-extend, answer-wrong
    def test_no_answer_in_time(self):
        """A failed attempt; an extension puts it off, from now on."""
        timer, path = self.make(ack_timeout="1s", retry={"base": "1h", "cap": "1h"})
        failed = self.await_state(timer, "retrying")
        self.assertEqual((failed["attempts"], failed["last_error"]), (1, "no answer within 1s"))
        self.assertEqual(self.say(path, "ack", 410), "not-awaited")
        self.assertEqual([each["error"] for each in self.await_deliveries(timer, 1)], ["no answer within 1s"])
        timer, path = self.make(ack_timeout="1h")
        for by in ("999ms", "12h1ms", "-1s", None, 43200001):
            self.call(422, "POST", f"{path}/extend", {"by": by})
        self.say(path, "extend", body={"by": "12h"})
        left = ms_of(self.explain(timer)["delivery"]["answer_until"]) - time.time() * 1000
        self.assertTrue(43_100_000 < left <= 43_200_000, left)
        self.say(path, "extend", body={"by": 1000})
        self.await_state(timer, "retrying")

    # proves: answer-durable
    def test_kill_while_it_waits(self):
        """It waits on: no second webhook before its time, and the URL works after the restart. A stop does not wait."""
        first, path = self.make()
        second, other = self.make(ack_timeout="5s", retry={"base": "1ms", "cap": "1ms"})
        self.restart()
        self.assertEqual((self.state(first), self.state(second)), ("delivering", "delivering"))
        self.await_wait(second, 3)  # its time came after the restart
        came = [each["webhook-id"].split("-")[0] for each in self.late.came]
        self.assertEqual((came[:2], set(came[2:])), ([first["id"], second["id"]], {second["id"]}))
        self.say(path, "ack")
        self.restart()
        self.assertEqual(self.state(first), "fired")
        begun = time.monotonic()
        self.daemon.signal(signal.SIGTERM)
        self.daemon.process.wait(20)
        self.assertLess(time.monotonic() - begun, 10)
        self.daemon = self.start()
        self.assertEqual(self.state(second), "delivering")
        self.assertEqual(self.say(other, "ack", 410), "not-awaited")

    # proves: answer-changes, cancel
    def test_what_is_asked_of_it_meanwhile(self):
        """It is being delivered, so it cannot be changed; but it can be cancelled, and then its answer comes too late."""
        timer, path = self.make(key="k", labels={"a": "b"})
        place = f"/v1/timers/{timer['id']}"
        for method, end, body in (("PATCH", "", {"payload": 1}), ("PATCH", "", {"after": "1h"}), ("POST", "/fire", None),
                                  ("POST", "/pause", {}), ("POST", "/resume", None), ("POST", "/touch", {"after": "1h"})):
            problem = self.call(409, method, place + end, body)[1]
            self.assertEqual(problem["type"], "/problems/already-firing", (method, end))
        self.call(409, "PUT", "/v1/keys/k/timer", {"after": "1h", "target": self.late.url()})
        self.assertEqual(self.call(409, "POST", f"{place}/release")[1]["type"], "/problems/not-leased")
        answer = self.call(200, "POST", "/v1/timers/fire", {"labels": {"a": "b"}})[1]
        self.assertEqual((answer["fired"], answer["already_firing"]), (0, 1))
        self.call(412, "DELETE", place, None, {"If-Match": '"1"'})
        self.assertEqual(self.call(200, "DELETE", place, None, {"If-Match": '"2"'})[1]["state"], "cancelled")
        self.assertEqual(self.say(path, "ack", 410), "not-awaited")
        self.restart()
        self.assertEqual(self.state(timer), "cancelled")
        self.assertEqual(self.say(path, "ack", 410), "not-awaited")

    # proves: answer-later
    def test_a_timer_that_repeats(self):
        """The next firing waits for the answer; an ack is a run."""
        timer = self.create(target=self.late.url(), every="1s")
        path = self.await_wait(timer)
        harness.wait_until(lambda: ms_of(self.explain(timer)["now"]) > ms_of(timer["due"]) + 2500, 20, "two firings missed")
        self.assertEqual(len(self.late.came), 1)
        self.late.answer = lambda number: (200, {})
        self.say(path, "ack")
        harness.wait_until(lambda: len(self.late.came) > 1, 20, "the next firing")
        runs = self.call(200, "GET", f"/v1/timers/{timer['id']}/runs")[1]["runs"]
        self.assertEqual((runs[-1]["outcome"], runs[-1]["attempts"]), ("done", 1))
        self.assertGreater(runs[-1]["duration_ms"], 2000)

    # proves: answer-later
    def test_what_is_no_later_answer(self):
        """Another status or value counts as without the header; the field belongs to webhooks of this request only."""
        for status, value, state in ((200, "later", "fired"), (202, "now", "fired"), (202, "laterx", "fired"),
                                     (202, " LATER ", "delivering"), (500, "later", "retrying")):
            self.late.answer = lambda number: (status, {"Tickwheel-Ack": value})
            timer = self.create(target=self.late.url(), after=0, retry={"base": "1h", "cap": "1h"})
            self.await_state(timer, state)
            if state == "delivering":
                harness.wait_until(lambda: "answer_until" in self.explain(timer).get("delivery", {}), 20, "the wait")
        for wrong in ("999ms", "13h", 0, "x", [1]):
            self.refused("#/ack_timeout", ack_timeout=wrong)

    # proves: answer-early
    def test_the_answer_comes_before_the_202(self):
        """409: the caller repeats it."""
        said = []

        def answer(number):
            path = self.late.came[-1]["tickwheel-ack-url"][len(PUBLIC) - 1:]
            said.append(self.daemon.call("POST", f"{path}/ack"))
            return 202, {"Tickwheel-Ack": "later"}

        self.late.answer = answer
        timer = self.create(target=self.late.url(), after=0)
        path = self.await_wait(timer)
        self.assertEqual((said[0][0], said[0][2]["type"]), (409, "/problems/already-firing"))
        self.say(path, "ack")
        self.assertEqual(self.state(timer), "fired")

    # proves: answer-forged, answer-wrong
    def test_forged_tokens(self):
        """Of another timer, with one digit changed, of a timer that never was, cut, long, of bytes that are none: nothing
        happens, and nothing is told."""
        (timer, path), (_, other) = self.make(), self.make()
        idle = self.create()
        start, token = path.rsplit("-", 1)
        wrong = [f"{start}-{other.rsplit('-', 1)[1]}", f"{start}-{'0' * 32}", f"/answers/{idle['id']}-{token}",
                 f"/answers/{'0' * 26}-{token}", f"/answers/{'v' * 25}0-{token}", start, f"{start}-", f"{path}0", path[:-1],
                 f"{start}-{token.upper()}", f"/answers/{timer['id']}", "/answers/x", f"{start}-{'z' * 32}",
                 "/answers/" + "a" * 200]
        wrong += [f"{path[:-32]}{token[:n]}{'0' if token[n] != '0' else '1'}{token[n + 1:]}" for n in range(32)]
        for each in wrong:
            status, _, problem = self.daemon.call("POST", f"{each}/ack")
            is_name = re.fullmatch("/answers/[0-9a-v]{26}-[0-9a-f]{32}", each)
            self.assertEqual((status, problem["type"], "timer" in problem),
                             (410, "/problems/not-awaited", False) if is_name else (404, "/problems/not-found", False), each)
        for verb, body, status in (("nack", {"reason": 1}, 422), ("nack", {"reason": "x" * 160}, 422), ("nack", {"x": 1}, 422),
                                   ("nack", {"reason": "a\0b"}, 422), ("extend", None, 422), ("nack", b"{", 400),
                                   ("nack", {"reason": "x" * 5000}, 413), ("extend", {"by": "1h", "x": 1}, 422)):
            self.call(status, "POST", f"{path}/{verb}", body, {"Content-Type": "application/json"})
        self.call(404, "POST", f"{path}/end")
        self.call(405, "GET", f"{path}/ack")
        self.assertEqual((self.state(timer), self.state(idle)), ("delivering", "scheduled"))
        self.say(path, "nack", body={"reason": "ü" * 79})

    # proves: answer-once
    def test_of_many_at_once_one_counts(self):
        timer, path = self.make(retry={"max_attempts": 1})  # during a next attempt some would get 409
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            told = list(pool.map(lambda n: self.daemon.call("POST", f"{path}/{'ack' if n % 2 else 'nack'}")[0], range(64)))
        self.assertEqual((told.count(204), set(told)), (1, {204, 410}))
        harness.wait_until(lambda: len(self.deliveries(timer)) >= 1, 20, "the end")

    # proves: ack-ms, reason-bytes, answer-body
    def test_limits(self):
        for right in (1000, "1s", "12h", 43200000):
            self.create(ack_timeout=right)
        for wrong in (999, "999ms", "12h1ms", 43200001):
            self.refused("#/ack_timeout", ack_timeout=wrong)
        timer, path = self.make()
        for by, status in ((999, 422), (43200001, 422), (1000 * 60, 204), (43200000, 204)):
            self.call(status, "POST", f"{path}/extend", {"by": by})
        head = {"Content-Type": "application/json"}
        self.call(413, "POST", f"{path}/extend", b'{"by": "1h"}'.ljust(4097), head)
        self.call(204, "POST", f"{path}/extend", b'{"by": "1h"}'.ljust(4096), head)
        self.call(422, "POST", f"{path}/nack", {"reason": "x" * 160})
        self.say(path, "nack", body={"reason": "x" * 159})
        self.assertEqual(self.get(timer)[2]["last_error"], "x" * 159)

    # proves: ack_timeout
    def test_the_setting(self):
        """It is the time of timers that do not say."""
        for value, ms in (("1s", 1000), ("12h", 43_200_000)):
            self.restart("--ack-timeout", value)
            timer = self.create(target=self.late.url(), after=0)
            harness.wait_until(lambda: "answer_until" in self.explain(timer).get("delivery", {}) or
                               self.get(timer)[2]["attempts"], 20, "the wait")
            if ms > 1000:
                left = ms_of(self.explain(timer)["delivery"]["answer_until"]) - time.time() * 1000
                self.assertTrue(ms - 60_000 < left <= ms, left)
            else:
                harness.wait_until(lambda: self.get(timer)[2].get("last_error") == "no answer within 1s", 20, "its end")
        self.daemon.signal(signal.SIGTERM)
        for wrong in ("999ms", "12h1ms"):
            with self.assertRaisesRegex(RuntimeError, "ack.timeout"):
                self.start("--ack-timeout", wrong)

    # proves: answer-forged
    def test_a_flood_of_forged_tokens(self):
        """Real answers and requests of tenants are served meanwhile."""
        waits = [self.make() for _ in range(10)]
        stop = threading.Event()

        def flood(seed):
            count = 0
            with socket.create_connection(("127.0.0.1", self.daemon.port)) as connection:
                while not stop.is_set():
                    lines = "".join(f"POST /answers/{waits[0][0]['id'][:-4]}{n:04d}-{seed:032x}/ack HTTP/1.1\r\nHost: x\r\n"
                                    "Content-Length: 0\r\n\r\n" for n in range(64))
                    connection.sendall(lines.encode())
                    seen = b""
                    while seen.count(b"HTTP/1.1 ") < 64:
                        piece = connection.recv(1 << 16)
                        if not piece:
                            return count
                        seen += piece
                    count += 64
            return count

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            floods = [pool.submit(flood, n) for n in range(8)]
            try:
                for timer, path in waits:
                    self.create()
                    self.say(path, "ack")
                    self.assertEqual(self.state(timer), "fired")
            finally:
                stop.set()
            self.assertGreater(sum(each.result() for each in floods), 500)

    # proves: answer-later
    def test_events(self):
        stream = events_test.Stream(self.daemon)
        self.addCleanup(stream.close)
        timer, path = self.make(retry={"base": "1ms", "cap": "1ms"})
        self.say(path, "nack")
        self.say(self.await_wait(timer, 2), "ack")
        self.assertEqual(stream.until("fired", timer), ["created", "accepted", "retried", "accepted", "fired"])


class ManyTest(AnswersCase):
    flags = ("--public-url", PUBLIC, "--target-deliveries-max", "2", "--shards", "2")

    # proves: answer-places
    def test_waits_hold_no_place_of_the_target(self):
        """Thirty wait, of a target that takes two at a time, also after kill -9; each has its own answer."""
        timers = [self.create(target=self.late.url(), after=0) for _ in range(30)]
        harness.wait_until(lambda: len(self.late.came) == 30, 20, "thirty webhooks")
        paths = {each["webhook-id"].split("-")[0]: each["tickwheel-ack-url"][len(PUBLIC) - 1:] for each in self.late.came}
        harness.wait_until(lambda: all("answer_until" in self.explain(timer).get("delivery", {}) for timer in timers), 20,
                           "all wait")
        self.restart()
        for timer in timers:
            self.say(paths[timer["id"]], "ack")
            self.assertEqual(self.state(timer), "fired")
        self.assertEqual(len(self.late.came), 30)


class NoUrlTest(AnswersCase):
    flags = ()

    # proves: answer-needs-url
    def test_without_public_url(self):
        """The header is a failed attempt that names the setting, because nobody could end it."""
        timer = self.create(target=self.late.url(), after=0, retry={"base": "1h", "cap": "1h"})
        failed = self.await_state(timer, "retrying")
        self.assertEqual((failed["attempts"], failed["last_error"]), (1, "it answers later, which needs public_url"))
        self.assertIsNone(self.late.came[0]["tickwheel-ack-url"])

    # proves: answer-needs-url
    def test_a_wrong_url_is_refused_at_the_start(self):
        self.daemon.signal(signal.SIGTERM)
        for wrong in ("tickwheel.example", "ftp://x", "http://a b", "/x"):
            with self.assertRaisesRegex(RuntimeError, "public_url"):
                self.start("--public-url", wrong)


class TenantsTest(daemon_case.TokensCase):
    # proves: answer-ack, answer-forged
    def test_the_url_is_all_that_is_needed(self):
        """No token of a tenant, nor that of another one, changes what the URL may do; nothing is told of the timer."""
        for name in ("shop", "rival"):
            self.token(name, name)
        self.write_tokens("limit shop rate=1000")
        daemon = self.start("--public-url", PUBLIC)
        late = LateReceiver()
        self.addCleanup(late.close)
        for headers in ({}, daemon_case.bearer(self.tokens["rival"]), {"Authorization": "Bearer wrong"}):
            timer = daemon.call("POST", "/v1/timers", {"after": 0, "target": late.url()}, daemon_case.bearer(self.tokens["shop"]))[2]
            place = f"/v1/timers/{timer['id']}"

            def shown():
                return daemon.call("GET", place + "/explain", None, daemon_case.bearer(self.tokens["shop"]))[2]
            harness.wait_until(lambda: "answer_until" in shown().get("delivery", {}), 20, "the wait")
            path = late.came[-1]["tickwheel-ack-url"][len(PUBLIC) - 1:]
            self.assertEqual(daemon.call("POST", f"{path[:-32]}{'0' * 32}/ack", None, headers)[0], 410)
            self.assertEqual(daemon.call("POST", f"{path}/ack", None, headers)[::2], (204, ""))
            self.assertEqual(shown()["state"], "fired")


if __name__ == "__main__":
    unittest.main(verbosity=2)
