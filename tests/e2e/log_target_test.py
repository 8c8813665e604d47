#!/usr/bin/env python3
"""The target log: on the real daemon: a due timer is one line of JSON on its standard output, whatever the timer
holds; an output that is closed or whose reader is gone is a failed attempt, and everything else goes on."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness

FORGED = '{"id":"forged"}'


class LogTarget(daemon_case.DaemonCase):
    def lines(self):
        return [line for line in self.daemon.output().split("\n") if line.startswith('{"id"')]

    def line_of(self, timer):
        """The line of a timer, as soon as it is there."""
        found = lambda: next((line for line in self.lines() if timer["id"] in line), None)
        return json.loads(harness.wait_until(found, 20, f"a line of {timer['id']}"))

    def test_one_line_for_each_timer(self):
        timer = self.create(target="log:orders", after=0, key="order 42", labels={"team": "checkout"},
                            payload={"order": 42})
        line = self.line_of(timer)
        self.assertEqual(line["payload"], {"order": 42})
        self.assertEqual((line["name"], line["key"], line["labels"], line["attempt"]),
                         ("orders", "order 42", {"team": "checkout"}, 1))
        self.assertEqual(line["due"], timer["due"])
        self.assertLessEqual(daemon_case.ms_of(line["due"]), daemon_case.ms_of(line["fired"]))
        self.assertEqual(line["late_ms"], daemon_case.ms_of(line["fired"]) - daemon_case.ms_of(line["due"]))
        harness.wait_until(lambda: self.state(timer) == "fired", 20, "fired")

    # proves: target-log
    def test_no_content_makes_another_line(self):
        """Line breaks and terminal commands in every place that a client can write to."""
        evil = "\n" + FORGED + "\n\u001b[31m\u009b2J\u007f\u2028"
        body = json.dumps({"after": 0, "target": "log:", "key": evil.replace("\u009b", "x")[:250],
                           "labels": {evil: evil}, "payload": {evil: [evil]}}, ensure_ascii=False)
        body = body.replace('"payload":', '"payload":\r\n\n\t')
        status, _, timer = self.daemon.call("POST", "/v1/timers", body.encode())
        if status == 422:  # a key is printable
            fields = json.loads(body)
            del fields["key"]
            timer = self.create(**fields)
        line = self.line_of(timer)
        self.assertEqual((line["labels"], line["payload"]), ({evil: evil}, {evil: [evil]}))
        raw = next(text for text in self.lines() if timer["id"] in text)
        self.assertFalse(re.search("[\x00-\x1f\x7f-\x9f]", raw), raw)
        self.assertFalse([text for text in self.lines() if text.startswith(FORGED)])

    def test_bytes_are_base64(self):
        timer = self.create(target="log:", after=0, body_base64="AAEK/w==", content_type="application/octet-stream")
        line = self.line_of(timer)
        self.assertEqual((line["body_base64"], line["content_type"]), ("AAEK/w==", "application/octet-stream"))
        self.assertNotIn("payload", line)

    def test_a_large_payload_is_left_out(self):
        payload = "x" * 100000
        line = self.line_of(self.create(target="log:", after=0, payload=payload))
        self.assertNotIn("payload", line)
        self.assertEqual(line["payload_bytes"], len(payload) + 2)
        self.assertTrue(all(len(text) < 4096 for text in self.lines()))

    def test_ten_thousand_lines_are_whole(self):
        lines = "".join(json.dumps({"after": 0, "target": f"log:{n % 7}", "payload": n}) + "\n" for n in range(10000))
        status, _, _ = self.daemon.call("POST", "/v1/timers/batch", lines,
                                        {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"})
        self.assertEqual(status, 200)
        harness.wait_until(lambda: len(self.lines()) >= 10000, 60, "10,000 lines")
        self.assertEqual(sorted(json.loads(line)["payload"] for line in self.lines()), list(range(10000)))

    def test_names(self):
        for target in ("log:a b", "log:a/b", "log://a", "LOG:", "log:" + "a" * 65, "log:a\n"):
            self.refused("#/target", target=target)

    # proves: log-output
    def test_output_that_is_gone(self):
        """Closed before the start; a pipe without a reader; a full device. The timer is tried again, a webhook
        goes out meanwhile."""
        reader, writer = os.pipe()
        os.close(reader)
        cases = (("Bad file descriptor", lambda: os.close(1)), ("Broken pipe", lambda: os.dup2(writer, 1)),
                 ("No space left on device", lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1)))
        for reason, enter in cases:
            with self.subTest(reason):
                self.daemon.signal(15)
                self.daemon = harness.Daemon(self.data, enter=enter)
                self.addCleanup(self.daemon.close)
                harness.wait_until(self.daemon.is_ready, 20, "ready")
                timer = self.create(target="log:", after=0, retry={"base": "1h"})
                harness.wait_until(lambda: self.get(timer)[2].get("last_error"), 20, "an error")
                self.assertIn(reason, self.get(timer)[2]["last_error"])
                self.assertEqual(self.state(timer), "retrying")
                webhook = self.create(after=0)
                harness.wait_until(lambda: self.state(webhook) == "fired", 20, "the webhook")
        os.close(writer)

    # proves: log-output
    def test_reader_that_is_behind(self):
        """A pipe that is full holds up no webhook, and the lines come when it is read."""
        reader, writer = os.pipe()
        self.daemon.signal(15)
        self.daemon = harness.Daemon(self.data, enter=lambda: os.dup2(writer, 1))
        os.close(writer)
        self.addCleanup(self.daemon.close)
        harness.wait_until(self.daemon.is_ready, 20, "ready")
        timers = [self.create(target="log:", after=0, payload="x" * 1000) for _ in range(100)]
        webhook = self.create(after=0)
        harness.wait_until(lambda: self.state(webhook) == "fired", 20, "the webhook")
        self.assertIn("delivering", [self.state(timer) for timer in timers])
        received = b""
        while received.count(b"\n") < len(timers):
            received += os.read(reader, 65536)
        ids = {json.loads(line)["id"] for line in received.splitlines() if line.startswith(b"{")}
        self.assertEqual(ids, {timer["id"] for timer in timers})
        os.close(reader)


class LogTargetOfTenants(unittest.TestCase):
    # proves: target-log
    def test_a_tenant_may_not(self):
        (shop, first), (operator, second) = self.make_token("shop"), self.make_token("-")
        case = daemon_case.DaemonCase("run")
        self.addCleanup(case.doCleanups)
        case.flags = ("--tokens-file", self.write(first + "\n" + second))
        case.setUp()
        status, _, answer = case.daemon.call("POST", "/v1/timers", {"after": "1h", "target": "log:"},
                                             {"Authorization": f"Bearer {operator}"})
        self.assertEqual(status, 201, answer)
        headers = {"Authorization": f"Bearer {shop}"}
        for target, expected in (("log:", 422), ("queue:mail", 201)):
            status, _, answer = case.daemon.call("POST", "/v1/timers", {"after": "1h", "target": target}, headers)
            self.assertEqual(status, expected, answer)
            if expected == 422:
                self.assertIn("without a tenant", answer["errors"][0]["detail"])
                continue
            status, _, answer = case.daemon.call("PATCH", f"/v1/timers/{answer['id']}", {"target": "log:"}, headers)
            self.assertEqual(status, 422, answer)

    def make_token(self, tenant):
        made = subprocess.run([harness.find("tickwheeld"), "--make-token", tenant], capture_output=True, text=True,
                              check=True)
        return made.stdout.splitlines()

    def write(self, line):
        with tempfile.NamedTemporaryFile("w", prefix="tickwheel-tokens-", delete=False) as file:
            file.write(line + "\n")
        self.addCleanup(os.unlink, file.name)
        return file.name


if __name__ == "__main__":
    unittest.main(verbosity=2)
