#!/usr/bin/env python3
"""GET /v1/deliveries shows what became of each attempt, to the tenant whose timer it was, also after kill -9. Method: real
daemons, a receiver that answers as its path says, and workers of a queue."""

import json
import os
import shutil
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import daemon_case
import harness
from daemon_case import bearer, ms_of

AGAIN = {"max_attempts": 3, "base": "1ms", "cap": "2ms"}


class DeliveriesTest(daemon_case.DaemonCase):
    def deliveries(self, query="", expected=200):
        """Those of all pages."""
        found, cursor = [], ""
        while cursor is not None:
            page = self.call(expected, "GET", f"/v1/deliveries?limit=2&{query}{cursor}")[1]
            found += page["deliveries"]
            cursor = page["next"] and f"&cursor={page['next']}"
        return found

    def await_deliveries(self, count, query=""):
        harness.wait_until(lambda: len(self.deliveries(query)) >= count, 20, f"{count} deliveries")
        return self.deliveries(query)

    # proves: delivery-log
    def test_each_attempt_is_shown(self):
        """Attempts that fail, that succeed, and one that is refused for good: with their time, status and error."""
        begin = ms_of(self.call(200, "GET", "/v1/stats")[1]["now"])
        failing = self.create("/status/503", after=0, retry=AGAIN, key="order:7")
        found = self.await_deliveries(3, f"timer={failing['id']}")
        self.assertEqual([each["attempt"] for each in found], [3, 2, 1])
        for each in found:
            self.assertEqual((each["outcome"], each["status"], each["error"], each["key"], each["target"]),
                             ("failed", 503, "HTTP 503", "order:7", self.receiver.url("/status/503")))
            self.assertGreaterEqual(ms_of(each["at"]), begin)
            self.assertIn("delivery", each["ms"])
        done = self.create(after=0)
        gone = self.create("/gone", after=0)
        shown, = self.await_deliveries(1, f"timer={done['id']}")
        self.assertEqual((shown["outcome"], shown["status"], shown["attempt"]), ("done", 200, 1))
        self.assertNotIn("error", shown)
        shown, = self.await_deliveries(1, f"timer={gone['id']}")
        self.assertEqual((shown["outcome"], shown["status"]), ("ended", 410))
        ids = [each["id"] for each in self.deliveries()]
        self.assertEqual(len(ids), 5)
        self.assertEqual(ids, sorted(set(ids), reverse=True))

    # proves: delivery-log, deliveries-limit
    def test_filters_choose(self):
        first = self.create("/status/500", after=0, retry=AGAIN, key="a")
        self.await_deliveries(3)
        self.create(after=0, key="b")
        self.await_deliveries(4)
        url, origin = self.receiver.url, self.receiver.url("")
        at = self.deliveries("key=b")[0]["at"]
        for query, count in (("key=a", 3), ("key=b", 1), ("key=c", 0), (f"timer={first['id']}", 3), (f"target={url('/ok')}", 1),
                             (f"origin={origin}", 4), ("origin=http://127.0.0.1:1", 0), ("outcome=failed", 3),
                             ("outcome=done", 1), ("outcome=done&outcome=failed", 4), ("outcome=ended", 0), ("status=500", 3),
                             ("status=5xx", 3), ("status=2xx", 1), ("status=201", 0), ("key=a&status=200", 0),
                             (f"since={at}", 1), ("since=2999-01-01T00:00:00Z", 0), ("", 4)):
            self.assertEqual(len(self.deliveries(query)), count, query)
        for query in ("outcome=good", "status=50", "status=0xx", "status=5x5", "limit=0", "limit=201", "cursor=1", "key=", "x=1",
                      "since=soon"):
            self.call(422, "GET", f"/v1/deliveries?{query}")
        cursor = self.call(200, "GET", "/v1/deliveries?limit=1")[1]["next"]
        self.call(200, "GET", f"/v1/deliveries?cursor={cursor}")
        for at in range(len(cursor)):  # each digit counts, and none may be absent
            for wrong in (cursor[:at], cursor[:at] + ("1" if cursor[at] == "0" else "0") + cursor[at + 1:]):
                self.call(422, "GET", f"/v1/deliveries?cursor={wrong}")

    # proves: delivery-log
    def test_items_of_queues_are_deliveries(self):
        """A worker gives one back and acknowledges another."""
        timer = self.create(after=0, target="queue:mail", retry=AGAIN)
        for path, outcome in (("nack", "failed"), ("ack", "done")):
            item, = self.call(200, "POST", "/v1/queues/mail/lease", {"wait": "10s"})[1]["items"]
            body = {"receipts": [item["receipt"]], **({"error": "no paper"} if path == "nack" else {})}
            self.call(200, "POST", f"/v1/queues/mail/{path}", body)
            self.assertEqual(self.await_deliveries(1, f"outcome={outcome}")[0]["timer"], timer["id"])
        self.assertEqual([each["outcome"] for each in self.deliveries("origin=queue:mail")], ["done", "failed"])
        self.assertEqual(self.deliveries("outcome=failed")[0]["error"], "no paper")

    # proves: delivery-log
    def test_the_command_line_lists_and_follows(self):
        """In each form, with filters; `--follow` prints each delivery once, also those of the same moment."""
        env = command_line.environment(url=f"http://127.0.0.1:{self.daemon.port}")
        failing = self.create("/status/503", after=0, retry=AGAIN, key="order:7")
        self.await_deliveries(3)
        self.create(after=0, key="order:8")
        self.await_deliveries(4)
        for flags, keys in ((("--outcome", "failed"), 3 * ["order:7"]), (("--status", "2xx"), ["order:8"]),
                            (("--timer", failing["id"], "--limit", "2"), 2 * ["order:7"]), (("--key", "order:9"), []),
                            (("--since", "1h", "--target", self.receiver.url()), ["order:8"]),
                            (("--origin", self.receiver.url("")), ["order:8", *3 * ["order:7"]]), (("--since", "2100-01-01T00:00:00Z"), [])):
            done = command_line.run("log", *flags, "-o", "keys", env=env)
            self.assertEqual((done.code, done.out.split()), (0, keys), (flags, done.err))
        head, first, *_ = command_line.run("log", env=env).out.splitlines()
        self.assertEqual(head.split(), ["AT", "OUTCOME", "STATUS", "ATTEMPT", "TOOK", "TIMER", "TARGET", "ERROR"])
        self.assertEqual(first.split()[1:4], ["done", "200", "1"])
        shown = [json.loads(line) for line in command_line.run("log", "-o", "json", env=env).out.splitlines()]
        self.assertEqual(shown, self.deliveries())
        self.assertNotEqual(command_line.run("log", "--status", "9", env=env).code, 0)
        for verb in (("log",), ("list",), ("dead", "list"), ("dead", "groups"), ("dead", "redrive", "--yes")):
            done = command_line.run(*verb, "--target", self.receiver.url(""), env=env)
            self.assertEqual(done.code, 0, done.err)
            self.assertIn(f"--origin {self.receiver.url('').rstrip('/')} selects every path", done.err)
        for verb in ("get", "explain", "runs"):
            self.assertIn("tickwheel log --key order:9", command_line.run(verb, "--key", "order:9", env=env).err)
        follower = command_line.Terminal("log", "--follow", "-o", "keys", env=env)
        follower.expect("order:7\r\norder:7\r\norder:7\r\norder:8\r\n")
        for key in range(20):
            self.create(after=0, key=f"new:{key}")
        for key in range(20):
            follower.expect(f"new:{key}\r\n")
        self.create(after=0, key="last")
        follower.expect("last\r\n")
        follower.type("\x03")
        follower.end()
        self.assertEqual(len(follower.shown.replace("^C", "").split()), 4 + 20 + 1, follower.shown)

    # proves: delivery-log-answer, delivery_log_answer_bytes
    def test_the_begin_of_an_answer_is_kept(self):
        """By both clients of webhooks: the first call of a name goes by libcurl, later ones do not."""
        name = self.receiver.url().replace("127.0.0.1", "localhost").removesuffix("/ok")
        for base in (self.receiver.url(""), name):
            for _ in range(3):
                for path, size in (("/large/255", 255), ("/large/256", 256), ("/large/257", 256), ("/large/100000", 256), ("/large/0", 0)):
                    timer = self.create(after=0, target=base + path)
                    shown, = self.await_deliveries(1, f"timer={timer['id']}")
                    self.assertEqual((shown["outcome"], len(shown.get("answer", ""))), ("done", size), shown)
        for setting, size in (("4096", 4096), ("0", 0)):
            self.restart("--delivery-log-answer-bytes", setting)
            timer = self.create(after=0, target=self.receiver.url("/large/5000"))
            shown, = self.await_deliveries(1, f"timer={timer['id']}")
            self.assertEqual(len(shown.get("answer", "")), size)

    # proves: delivery-log-kill
    def test_deliveries_survive_kill_9(self):
        """What was shown was written. The dead timer is gone after a while, its deliveries are not."""
        timer = self.create("/status/503", after=0, retry=AGAIN)
        before = self.await_deliveries(3)
        self.restart()
        self.assertEqual(self.deliveries(f"timer={timer['id']}"), before)
        self.create(after=0)
        self.assertEqual(self.await_deliveries(4)[1:], before)
        self.assertEqual(self.daemon.metric("tickwheel_delivery_log_damaged_total"), 0)
        self.assertGreater(self.daemon.metric("tickwheel_delivery_log_bytes"), 0)

    # proves: delivery-log-full
    def test_nothing_is_written_on_a_disk_that_is_nearly_full(self):
        """Also from the first moment of a start, with a folder and without. Timers are delivered all the same."""
        self.create(after=0)
        before = self.await_deliveries(1)
        timers, files = [self.create(after="1h") for _ in range(2)], os.path.join(self.data, "deliveries")

        def sizes():
            return os.path.isdir(files) and {name: os.path.getsize(os.path.join(files, name)) for name in os.listdir(files)}
        for timer in timers:
            self.daemon.signal(signal.SIGTERM)
            found = sizes()
            self.daemon = harness.Daemon(self.data, "--disk-reserve-bytes", "1T")
            self.addCleanup(self.daemon.close)
            harness.wait_until(lambda: "the disk is nearly full" in str(self.daemon.call("GET", "/readyz")[2]), 20, "said")
            self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")
            self.await_state(timer, "fired")
            harness.wait_until(lambda: self.daemon.metric("tickwheel_delivery_log_dropped_total") == 1, 20, "counted")
            self.assertEqual(self.deliveries(), before)
            self.assertEqual(sizes(), found)
            shutil.rmtree(files, ignore_errors=True)
            before = []

    def test_a_write_that_fails_is_logged(self):
        """And the log goes on after that, in a folder that it makes."""
        files = os.path.join(self.data, "deliveries")
        self.create(after=0)
        self.await_deliveries(1)
        shutil.rmtree(files)
        self.create(after=0)
        self.daemon.find_in_output(r'event=deliveries_dropped count=1 cause="open .*/deliveries/.*: No such file or directory"')
        harness.wait_until(lambda: self.create(after=0) and self.deliveries(), 20, "a delivery")
        self.assertEqual(self.daemon.output().count("event=deliveries_dropped"), 1)
        self.assertTrue(os.listdir(files))

    # proves: delivery-log-bytes, delivery_log_bytes, deliveries-limit
    def test_it_is_bounded_and_can_be_turned_off(self):
        self.daemon.signal(signal.SIGTERM)
        self.daemon = self.start("--delivery-log-bytes", "1M")
        timers = [{"after": 0, "target": self.receiver.url("/ok?" + 900 * "x")} for _ in range(1500)]
        for _ in range(2):
            self.daemon.call("POST", "/v1/timers/batch", "".join(json.dumps(timer) + "\n" for timer in timers).encode(),
                             {"Content-Type": "application/x-ndjson"})
        harness.wait_until(lambda: self.daemon.metric("tickwheel_timers_fired_total") == 3000, 60, "all fired")
        found = self.call(200, "GET", "/v1/deliveries?limit=200")[1]["deliveries"]
        self.assertEqual(len(found), 200)
        files = os.path.join(self.data, "deliveries")
        self.assertLessEqual(sum(os.path.getsize(os.path.join(files, name)) for name in os.listdir(files)), 1 << 20)
        self.assertLess(len(self.deliveries()), 3000)
        for value in ("0", "1048575"):
            self.restart("--delivery-log-bytes", value)
            self.create(after=0)
            answer = self.call(404, "GET", "/v1/deliveries")[1]
            self.assertIn("delivery_log_bytes is below 1M", answer["detail"])


class TenantsTest(daemon_case.TokensCase):
    # proves: delivery-log-tenants
    def test_a_tenant_sees_its_own(self):
        one, two, writer = self.token("one", "one"), self.token("two", "two"), self.token("writer", "one", "schedule")
        self.write_tokens()
        daemon, receiver = self.start(), harness.Receiver()
        self.addCleanup(receiver.close)
        body = {"after": 0, "target": receiver.url(), "key": "same"}
        for token in (one, two):
            self.assertEqual(daemon.call("POST", "/v1/timers", body, bearer(token))[0], 201)

        def shown(token, query="key=same"):
            return daemon.call("GET", f"/v1/deliveries?{query}", None, bearer(token))[2]["deliveries"]
        for token in (one, two):
            harness.wait_until(lambda: len(shown(token)) == 1, 20, "a delivery")
        self.assertNotEqual(shown(one)[0]["timer"], shown(two)[0]["timer"])
        self.assertEqual(shown(one, f"timer={shown(two)[0]['timer']}"), [])
        self.assertEqual(daemon.call("GET", "/v1/deliveries", None, bearer(writer))[0], 403)
        self.assertEqual(daemon.call("GET", "/v1/deliveries")[0], 401)


if __name__ == "__main__":
    unittest.main()
