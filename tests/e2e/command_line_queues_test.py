#!/usr/bin/env python3
"""Goal: the verbs of `tickwheel` for queues and dead letters lose no item and double none: single calls, the worker that
runs commands, and the one that forwards items as webhooks. Method: the program with pipes and in a terminal, against a
real daemon, with commands and a receiver that fail, are slow, or are interrupted."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import re
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from command_line_case import DONE, FAILED, NOT_FOUND, USAGE, CommandLine
from daemon_case import ms_of


class Extension(CommandLine):
    def await_extension(self, timer):
        """Until its lease ends later than it would have. A lease that is over is no part of the answer."""
        def ends_ms():
            return ms_of(self.call(200, "GET", f"/v1/timers/{timer['id']}/explain")[1]["delivery"]["lease"]["until"])
        first_ms = ends_ms()
        harness.wait_until(lambda: ends_ms() > first_ms, 20, "the lease is extended")


class Queues(Extension):
    def add(self, count, **fields):
        return [self.create(target="queue:jobs", after=0, payload={"n": n}, **fields) for n in range(count)]

    def work(self, *arguments, code=DONE):
        return self.run_cli("work", "jobs", *arguments, code=code)

    def test_lease_ack_nack_extend(self):
        one, two = self.add(2)
        items = self.ask("lease", "jobs", "--count", "1", "--wait", "20s") + self.ask("lease", "jobs", "--wait", "20s")
        self.assertEqual({item["id"] for item in items}, {one["id"], two["id"]})
        receipts = [item["receipt"] for item in items]
        self.run_cli("extend", "jobs", *receipts, "--lease", "1m")
        self.assertEqual(self.ask("ack", "jobs", receipts[0])[0]["ok"], 1)
        self.assertEqual(self.ask("ack", "jobs", receipts[0], code=FAILED)[0]["stale"], 1)
        self.run_cli("nack", "jobs", receipts[1], "--delay", "0s", "--error", "no such user")
        item, = self.ask("lease", "jobs", "--wait", "20s")
        self.assertEqual((item["attempt"], item["last_error"]), (2, "no such user"))
        self.run_cli("nack", "jobs", item["receipt"], "--dead")
        self.await_state({"id": item["id"]}, "dead")

    def test_a_command_gets_the_payload_and_its_exit_code_decides(self):
        timers = self.add(6)
        folder = os.path.join(self.data, "out")
        os.mkdir(folder)
        self.work("--jobs", "3", "--count", "6", "--", "sh", "-c", f'cat > {folder}/$TICKWHEEL_ID.$TICKWHEEL_ATTEMPT')
        for timer in timers:
            self.assertEqual(self.state(timer), "fired")
            with open(f"{folder}/{timer['id']}.1", encoding="utf-8") as file:
                self.assertEqual(json.load(file), timer["payload"])
        timer, = self.add(1, retry={"base": "1ms", "cap": "1ms"})
        self.assertIn("exit code 3", self.work("--count", "1", "--", "sh", "-c", "exit 3").err)
        self.assertEqual(self.state(timer), "retrying")
        self.work("--count", "1", "--", "sh", "-c", "exit 65")
        self.assertEqual(self.state(timer), "dead")

    def test_each_item_is_a_line_of_json(self):
        """What the commands print is not theirs alone: they print nothing here."""
        timer, = self.add(1, retry={"base": "1ms", "cap": "1ms"})
        for command, line in (("exit 3", {"outcome": "failed", "error": "exit code 3"}),
                              ("exit 65", {"outcome": "ended", "error": "exit code 65"})):
            done = self.work("--output", "json", "--count", "1", "--", "sh", "-c", command)
            self.assertEqual(json.loads(done.out), {"id": timer["id"], **line})
        timer, = self.add(1)
        done = self.work("--output", "json", "--count", "1", "--", "true")
        self.assertEqual(json.loads(done.out), {"id": timer["id"], "outcome": "done"})

    def test_bytes_and_large_payloads_arrive_whole(self):
        text = "\u00e9\u0000" * 60000
        self.create(target="queue:jobs", after=0, body_base64="AP8KCg==", content_type="a/b")
        path = os.path.join(self.data, "out")
        self.work("--count", "1", "--", "sh", "-c", f"cat > {path}")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"\x00\xff\n\n")
        self.create(target="queue:jobs", after=0, payload=text)
        self.work("--count", "1", "--", "sh", "-c", f"cat > {path}")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file), text)
        self.create(target="queue:jobs", after=0, payload=text)
        self.work("--count", "1", "--", "true")  # it does not read its input

    def test_a_lease_is_extended_while_the_command_runs(self):
        timer, = self.add(1)
        release = os.path.join(self.data, "release")
        terminal = self.terminal("work", "jobs", "--lease", "10s", "--count", "1", "--", "sh", "-c",
                                 f"until [ -e {release} ]; do sleep 0.1; done")
        harness.wait_until(lambda: self.state(timer) == "delivering", 20, "the command runs")
        self.await_extension(timer)
        with open(release, "w", encoding="utf-8"):
            pass
        self.assertEqual(terminal.end(), DONE)
        self.assertEqual(self.state(timer), "fired")

    def test_the_first_signal_lets_commands_end_the_second_ends_them(self):
        for signals, state in ((1, "fired"), (2, "retrying")):
            timer, = self.add(1, retry={"base": "1h", "cap": "1h"})
            release = os.path.join(self.data, f"release{signals}")
            terminal = self.terminal("work", "jobs", "--", "sh", "-c",
                                     f"echo it runs; until [ -e {release} ]; do sleep 0.1; done")
            terminal.expect("it runs")
            terminal.type("\x03")
            terminal.expect("waits for 1 commands")
            if signals == 1:
                with open(release, "w", encoding="utf-8"):
                    pass
            else:
                terminal.type("\x03")
            self.assertEqual(terminal.end(), DONE)
            self.assertEqual(self.state(timer), state)

    # proves: cli-jobs
    def test_what_cannot_work_says_so(self):
        self.run_cli("work", "jobs", "x", code=USAGE)
        self.run_cli("work", "no/queue", "--", "true", code=NOT_FOUND)
        self.work("--lease", "1ms", "--", "true", code=USAGE)
        self.work("--jobs", "257", "--", "true", code=USAGE)
        self.add(1)
        self.work("--jobs", "256", "--count", "1", "--", "true")
        timer, = self.add(1)
        done = self.work("--", "/nonexistent/program", code=USAGE)
        self.assertIn("/nonexistent/program", done.err)
        self.assertEqual(self.state(timer), "retrying")


class Dead(CommandLine):
    def kill(self, count, path="/gone"):
        timers = [self.create(target=f"http://127.0.0.1:1{path}", after=0, retry={"max_attempts": 1}, labels={"n": str(n)})
                  for n in range(count)]
        for timer in timers:
            self.await_state(timer, "dead")
        return timers

    def test_they_are_listed_grouped_redriven_and_deleted(self):
        one, two, three = self.kill(3)
        self.assertEqual(len(self.ask("dead", "list", "--label", "n:1")), 1)
        group, = self.ask("dead", "groups")[0]["groups"]
        head, *rows = self.run_cli("dead", "list").out.splitlines()
        self.assertEqual(head.split(), ["ID", "DUE", "KEY", "TARGET", "ERROR"])
        self.assertEqual({row.split("/gone")[1].strip() for row in rows}, {group["error"]})
        self.assertIn(f"3      {group['origin']}", self.run_cli("dead", "groups").out)
        self.run_cli("dead", "redrive", code=USAGE)
        self.run_cli("dead", "redrive", "--origin", group["origin"], code=USAGE)  # asks
        self.assertEqual(self.ask("dead", "redrive", one["id"])[0], {"redriven": 1, "failed": 0})
        self.await_state(one, "dead")
        redriven = self.ask("dead", "redrive", "--origin", group["origin"], "--error", group["error"], "--yes")
        self.assertEqual(redriven[0]["redriven"], 3)
        self.await_state(three, "dead")
        self.ask("dead", "redrive", three["id"], "--new-target", self.receiver.url("/status/410/moved"))
        harness.wait_until(lambda: any(each.path.endswith("/moved") for each in self.receiver.arrivals()), 20, "the new target")
        for timer in (one, two, three):
            self.await_state(timer, "dead")
        self.assertEqual(self.ask("dead", "delete", one["id"])[0]["id"], one["id"])
        self.assertEqual(self.ask("dead", "delete", "--label", "n:1")[0]["deleted"], 1)
        self.assertEqual(self.ask("dead", "delete", "--all")[0]["deleted"], 1)
        self.assertEqual(self.ask("dead", "list"), [])
        self.run_cli("dead", "frobnicate", code=USAGE)

    def test_what_dead_would_not_heed_is_refused(self):
        """A flag that were ignored would have it touch more dead letters than was meant."""
        for arguments, words in ((("redrive", "--target", "queue:a", "--due-before", "2026-01-01T00:00:00Z"), "--due-before is a"),
                                 (("redrive", "--all", "--limit", "1"), "--limit is a flag of dead list and groups only"),
                                 (("delete", "--all", "--rate", "1"), "--rate is a flag of dead redrive only"),
                                 (("delete", "--all", "--new-target", "queue:a"), "--new-target is a flag of dead redrive only"),
                                 (("delete", "id", "--target", "queue:a"), "by ids, or by filters"),
                                 (("redrive", "id", "--all"), "by ids, or by filters"),
                                 (("list", "id"), "takes no ids"), (("groups", "--all"), "redrive and delete only")):
            self.assertIn(words, self.run_cli("dead", *arguments, "--yes", code=USAGE).err)

    def test_many_follow_the_cursor(self):
        lines = "".join(json.dumps({"after": 0, "target": "queue:a?priority=1", "payload": n}) + "\n" for n in range(1500))
        self.call(200, "POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})
        left = 1500
        while left:
            items = self.call(200, "POST", "/v1/queues/a/lease", {"max": 1000, "wait": "20s"})[1]["items"]
            self.call(200, "POST", "/v1/queues/a/nack", {"receipts": [item["receipt"] for item in items], "dead": True})
            left -= len(items)
        self.assertEqual(self.ask("dead", "redrive", "--all", "--yes")[0]["redriven"], 1500)


class Overview(CommandLine):
    def test_queues_show_what_is_ready_and_leased(self):
        self.assertEqual(self.ask("queues"), [{"queues": [], "complete": True}])
        for _ in range(3):
            self.create(target="queue:jobs", after=0)
        self.ask("lease", "jobs", "--wait", "20s")
        harness.wait_until(lambda: self.ask("queues", "jobs")[0]["ready"] == 2, 20, "two ready items")
        head, row = self.run_cli("queues").out.splitlines()
        self.assertEqual(head.split()[:4], ["QUEUE", "READY", "LEASED", "WORKERS"])
        self.assertEqual(row.split()[:4], ["jobs", "2", "1", "0"])
        self.assertRegex(self.run_cli("queues", "jobs").out, r"(?m)^leased +1$")
        self.run_cli("queues", "no/queue", code=NOT_FOUND)

    def test_flows_are_shown_paused_and_resumed(self):
        for _ in range(3):
            self.create(target="queue:jobs", after=0, flow={"key": "customer 42", "concurrency": 1})
        self.ask("lease", "jobs", "--wait", "20s")
        harness.wait_until(lambda: not self.ask("lease", "jobs") and self.ask("flows")[0]["flows"][0]["waiting"] == 2,
                           20, "two that wait")
        head, row = self.run_cli("flows").out.splitlines()
        self.assertEqual(head.split()[:3], ["FLOW", "RUNNING", "OF"])
        self.assertEqual(row.split()[:4], ["customer", "42", "1", "1"])
        self.assertIn("why", self.run_cli("flows", "pause", "customer 42", "--note", "why").out)
        self.assertIn("why", self.run_cli("flows").out)
        self.run_cli("flows", "resume", "customer 42")
        self.assertNotIn("why", self.run_cli("flows").out)
        self.run_cli("flows", "customer 42", code=2)

    def test_targets_show_the_failing_one(self):
        self.create(target="http://127.0.0.1:1/", after=0)
        harness.wait_until(lambda: self.ask("targets")[0]["targets"], 20, "a target that fails")
        head, row = self.run_cli("targets").out.splitlines()
        self.assertEqual(head.split()[:2], ["TARGET", "WAITING"])
        self.assertTrue(row.startswith("http://127.0.0.1:1 "), row)
        self.assertIn("connection refused", row)


class Listen(Extension):
    """`tickwheel listen` before a receiver that notes what it gets and answers as the path asks."""

    SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()

    def setUp(self):
        super().setUp()
        self.webhooks, self.release = [], threading.Event()
        case = self

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                case.webhooks.append((self.headers, body))
                if "slow" in self.path:
                    case.release.wait(60)
                self.send_response(int(re.search(r"\d+", self.path)[0]))
                if "later" in self.path:
                    self.send_header("Retry-After", "3600")
                self.send_header("Location", "/200")
                self.send_header("Content-Length", "2")
                try:
                    self.end_headers()
                    self.wfile.write(b"ok")
                except OSError:  # broken off
                    pass

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.addCleanup(self.release.set)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.place = f"127.0.0.1:{server.server_port}"

    def add(self, **fields):
        return self.create(target="queue:jobs", after=0, **fields)

    def listen(self, path, *arguments, code=DONE):
        return self.run_cli("listen", "jobs", "--forward", self.place + path, "--count", "1", *arguments, code=code)

    def test_an_item_arrives_as_a_signed_webhook_and_is_acknowledged(self):
        self.env["TICKWHEEL_TOKEN"] = "tw_secret"
        name = "X-" + "long" * 30
        timer = self.add(payload={"n": 1}, headers={name: "a b"})
        shown = self.listen("/200", "--secret", self.SECRET).out
        self.assertRegex(shown, rf"^[0-9:.]+Z  200  [0-9.]+ ms  attempt 1  {timer['id']}\n$")
        self.assertEqual(self.state(timer), "fired")
        (headers, body), = self.webhooks
        self.assertEqual((json.loads(body), headers["Content-Type"], headers[name]), ({"n": 1}, "application/json", "a b"))
        self.assertEqual(headers.get_all("Content-Type"), ["application/json"])
        self.assertNotIn("Authorization", headers)
        self.assertEqual(headers["webhook-id"], f"{timer['id']}-{ms_of(timer['due'])}")
        self.assertEqual((headers["tickwheel-due"], headers["tickwheel-attempt"]), (timer["due"], "1"))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        mac = base64.b64encode(hmac.new(b"k" * 32, signed, hashlib.sha256).digest()).decode()
        self.assertEqual(headers["webhook-signature"], "v1," + mac)
        self.assertLess(abs(int(headers["webhook-timestamp"]) - time.time()), 300)
        self.add(body_base64="AP8K", content_type="a/b")
        document, = map(json.loads, self.listen("/204", "-o", "json").out.splitlines())
        self.assertEqual((document["status"], document["attempt"]), (204, 1))
        headers, body = self.webhooks[1]
        self.assertEqual((body, headers["Content-Type"], headers["webhook-signature"]), (b"\0\xff\n", "a/b", None))

    def test_the_answer_decides(self):
        retry = {"base": "1h", "cap": "1h"}
        for path, state, error in (("/500", "retrying", "HTTP 500"), ("/404", "retrying", "HTTP 404"),
                                   ("/307", "retrying", "HTTP 307: redirects are not followed"), ("/410", "dead", "HTTP 410")):
            timer = self.add(retry=retry)
            self.assertIn(error, self.listen(path).err)
            self.assertEqual(self.state(timer), state)
            self.assertEqual(self.get(timer)[2].get("last_error", error), error)
        self.assertEqual(len(self.webhooks), 4)
        hour = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3590))
        for path, is_later in (("/503/later", True), ("/429/later", True), ("/500/later", False)):
            timer = self.add(retry={"base": "1ms", "cap": "1ms"})
            self.listen(path)
            later = self.run_cli("list", "--due-after", hour, "-o", "ids").out.split()
            self.assertEqual(timer["id"] in later, is_later, path)
        self.listen("/200")  # the item that was tried again at once
        timer = self.add(retry=retry)
        self.place = "127.0.0.1:1"
        self.assertIn("connect", self.listen("/200").err)
        self.assertEqual(self.state(timer), "retrying")

    def test_the_lease_is_extended_while_the_receiver_is_slow(self):
        timer = self.add()
        terminal = self.terminal("listen", "jobs", "--forward", self.place + "/slow/200", "--lease", "10s", "--count", "1")
        harness.wait_until(lambda: self.webhooks, 20, "a webhook")
        self.await_extension(timer)
        self.release.set()
        self.assertEqual(terminal.end(), DONE)
        self.assertEqual(self.state(timer), "fired")

    def test_several_at_a_time_and_signals(self):
        for signals, state in ((1, "fired"), (2, "retrying")):
            self.webhooks.clear()
            self.release.clear()
            timers = [self.add(retry={"base": "1h", "cap": "1h"}) for _ in range(3)]
            terminal = self.terminal("listen", "jobs", "--forward", self.place + "/slow/200", "--jobs", "3")
            harness.wait_until(lambda: len(self.webhooks) == 3, 20, "three webhooks at once")
            terminal.type("\x03")
            terminal.expect("waits for 3 webhooks")
            if signals == 1:
                self.release.set()
            else:
                terminal.type("\x03")
            self.assertEqual(terminal.end(), DONE)
            self.assertEqual([self.state(timer) for timer in timers], [state] * 3)

    def test_mistakes(self):
        for arguments in ((), ("--forward", ""), ("--forward", "ftp://a"), ("--forward", "a b"),
                          ("--forward", "a", "--secret", "abc"), ("--forward", "a", "--jobs", "257")):
            self.assertNotIn("abc", self.run_cli("listen", "jobs", *arguments, code=USAGE).err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
