#!/usr/bin/env python3
"""Goal: a timer that is fired by hand comes at once, one that is paused does not come, and both live on as they were.
Method: timers in every state, and a kill -9 behind the answers."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import daemon_case
import harness
from daemon_case import ms_of

NEVER = "06h03ahh340000000400000000"


class FireTest(daemon_case.DaemonCase):
    def lease(self, queue, count=10):
        return self.call(200, "POST", f"/v1/queues/{queue}/lease", {"max": count, "wait": 0, "lease": "1m"})[1]["items"]

    # proves: fire, bulk-fire
    def test_it_is_due_now_also_after_kill_9(self):
        """Nobody leases the items before the daemon was killed."""
        one, *_ = made = [self.create(target="queue:a", after="30d", **more) for more in (
            {}, {"key": "k"}, {"key": "l", "labels": {"x": "y"}}, {"key": "m"})]
        fields, fired = self.call(200, "POST", f"/v1/timers/{one['id']}/fire", None, {"If-Match": '"1"'})
        self.assertEqual((fields["ETag"], fired["version"], fired["state"]), ('"2"', 2, "scheduled"))
        self.assertLess(abs(ms_of(fired["due"]) - time.time() * 1000), 60000)
        self.assertEqual(self.call(200, "POST", "/v1/keys/k/fire", None, {"If-Match": '"1"'})[0]["ETag"], '"2"')
        answer = self.call(200, "POST", "/v1/timers/fire", {"labels": {"x": "y"}, "keys": ["m", "nobody"]})[1]
        self.assertEqual((answer["fired"], [each["status"] for each in answer["failures"]]), (2, [404]))
        self.restart()
        self.assertEqual(sorted(item["id"] for item in self.lease("a")), sorted(timer["id"] for timer in made))

    # proves: fire
    def test_a_timer_that_repeats_keeps_its_schedule(self):
        """The firing by hand comes beside those that are planned, and is not counted among them."""
        timer = self.create(every="1h", at="2031-01-01T00:00:00Z", count=2)
        for times in (1, 2):
            self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")
            self.wait_for_arrivals(timer, times)
            harness.wait_until(lambda: self.get(timer)[2]["due"] == timer["due"], 20, "the next planned firing")
        shown = self.get(timer)[2]
        self.assertEqual((shown["state"], len(shown["runs"])), ("scheduled", 2))
        self.assertEqual(len({each.webhook_id for each in self.arrivals_of(timer)}), 2)

    # proves: fire
    def test_a_retry_comes_at_once(self):
        """Its due time and its attempts stay."""
        timer = self.create("/status/500", after=0, retry={"base": "1d", "cap": "1d", "max_attempts": 2})
        waiting = self.await_state(timer, "retrying")
        fired = self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")[1]
        self.assertEqual((fired["due"], fired["attempts"]), (waiting["due"], 1))
        self.assertEqual([each.attempt for each in self.wait_for_arrivals(timer, 2)], [1, 2])
        self.await_state(timer, "dead")

    # proves: fire-refused, fire
    def test_what_cannot_fire(self):
        """A delivery that has begun, what is over, another version, and what is not there: nothing changes."""
        hanging, fired = self.create("/hang", after=0), self.create(after=0, key="f")
        dead = self.create("/gone", after=0)
        for timer, state, status in ((hanging, "delivering", 409), (fired, "fired", 410), (dead, "dead", 410)):
            before = self.await_state(timer, state)
            self.call(status, "POST", f"/v1/timers/{timer['id']}/fire")
            self.assertEqual(self.await_state(timer, state), before)
        self.call(410, "POST", "/v1/keys/f/fire")
        waiting = self.create(key="w")
        for path in (f"/v1/timers/{waiting['id']}/fire", "/v1/keys/w/fire"):
            self.call(412, "POST", path, None, {"If-Match": '"2"'})
            self.call(400, "POST", path, None, {"If-Match": "2"})
        self.assertEqual(self.get(waiting)[2], waiting)
        self.create("/hang", after=0, key="h")
        harness.wait_until(lambda: self.daemon.call("POST", "/v1/keys/h/fire")[0] == 409, 20, "it is being delivered")
        for path in (f"/v1/timers/{NEVER}/fire", "/v1/timers/x/fire", "/v1/keys/nobody/fire"):
            self.call(404, "POST", path)


class PauseTest(daemon_case.DaemonCase):
    def act(self, verb, timer, body=None, expected=200, **headers):
        return self.call(expected, "POST", f"/v1/timers/{timer['id']}/{verb}", body, headers)[1]

    # proves: pause, resume, timer-paused, timer-state, explain-place
    def test_it_waits_also_after_kill_9(self):
        """Due long ago when it is resumed; what it says while it waits."""
        timer = self.create(key="k", labels={"a": "b"})
        fields, paused = self.call(200, "POST", "/v1/keys/k/pause", {"note": "ünter Wartung"}, {"If-Match": '"1"'})
        self.assertEqual((fields["ETag"], paused["state"], paused["due"]), ('"2"', "paused", timer["due"]))
        paused = timer = self.call(200, "PATCH", "/v1/keys/k/timer", {"after": "500ms"})[1]
        other = self.create(after="600ms")
        self.assertEqual((set(paused["paused"]), paused["paused"]["note"]), ({"since", "note"}, "ünter Wartung"))
        self.assertLess(abs(ms_of(paused["paused"]["since"]) - time.time() * 1000), 60000)
        self.restart()
        self.wait_for_arrivals(other)
        self.assertEqual(self.get(timer)[2], paused)
        told = self.call(200, "GET", f"/v1/timers/{timer['id']}/explain")[1]
        self.assertEqual((told["where"], told["paused"]), ("paused", paused["paused"]))
        self.assertIn("until it is resumed", told["explanation"])
        self.restart()
        self.assertEqual(self.arrivals_of(timer), [])
        fields, resumed = self.call(200, "POST", "/v1/keys/k/resume", None, {"If-Match": '"3"'})
        self.assertEqual((fields["ETag"], resumed["due"]), ('"4"', timer["due"]))
        self.assertNotIn("paused", resumed)
        self.assertEqual(self.wait_for_arrivals(timer)[0].due_ms, ms_of(timer["due"]))

    # proves: pause-until, timer-paused
    def test_a_pause_ends_by_itself(self):
        """Over a kill -9; a due time to come stays, one that is over fires then and no earlier."""
        def make(until):
            soon, late = self.create(), self.create()
            for timer in (soon, late):
                self.assertEqual(ms_of(self.act("pause", timer, {"until": until})["paused"]["until"]), until)
            soon = self.call(200, "PATCH", f"/v1/timers/{soon['id']}", {"after": "500ms"})[1]
            self.daemon.signal(signal.SIGKILL)
            return until, soon, late
        until, soon, late = harness.in_time(make)
        self.daemon = self.start()
        arrival = self.wait_for_arrivals(soon)[0]
        self.assertGreaterEqual(arrival.at_us, until * 1000)
        self.assertEqual(arrival.due_ms, ms_of(soon["due"]))
        self.assertEqual((self.await_state(late, "scheduled")["due"], self.arrivals_of(late)), (late["due"], []))
        self.assertEqual(self.daemon.metric("tickwheel_timers_resumed_total"), 2)

    # proves: resume, missed, drop-after
    def test_late_says_what_of_the_missed_comes(self):
        timers = {}
        for missed in ("last", "each"):
            timers[missed] = self.create()
            self.act("pause", timers[missed])
            self.call(200, "PATCH", f"/v1/timers/{timers[missed]['id']}", {"every": "200ms", "count": 6, "late": {"missed": missed}})
        paused = self.create(late={"drop_after": "1ms"}, key="d")
        self.act("pause", paused)
        self.call(200, "PATCH", f"/v1/timers/{paused['id']}", {"after": "200ms"})
        self.await_state(self.create(after="1500ms"), "fired")
        for timer in (*timers.values(), paused):
            self.act("resume", timer)
        self.await_state(paused, "dead")
        self.assertEqual(self.arrivals_of(paused), [])
        for missed, least, most in (("last", 1, 1), ("each", 6, 6)):
            self.await_state(timers[missed], "fired")
            self.wait_for_arrivals(timers[missed], least)
            dues = {each.due_ms for each in self.arrivals_of(timers[missed])}
            self.assertTrue(least <= len(dues) <= most, (missed, dues))

    # proves: pause-changes, pause-refused, fire
    def test_changes_of_a_paused_timer(self):
        timer = self.create(key="k", watch=["e"])
        self.act("pause", timer, {"note": "a"})
        self.assertEqual(self.call(200, "PATCH", "/v1/keys/k/timer", {"after": 0})[1]["state"], "paused")
        self.assertEqual(self.call(200, "POST", "/v1/keys/k/touch", {"after": "1ms"})[1]["state"], "paused")
        put = self.call(200, "PUT", "/v1/keys/k/timer", {"after": 0, "target": self.receiver.url(), "watch": ["e"]})[1]
        self.assertEqual((put["state"], put["paused"]["note"]), ("paused", "a"))
        self.assertEqual(self.act("pause", timer)["paused"], {"since": put["paused"]["since"]})
        self.assertEqual(self.act("fire", timer, None, 409)["type"], "/problems/paused")
        self.assertEqual(self.call(200, "POST", "/v1/watch/e/complete", {"fire": True})[1], {"fired": 1, "already_firing": 0})
        self.restart()
        self.assertEqual(self.state(timer), "paused")
        self.assertEqual(self.arrivals_of(timer), [])
        self.act("resume", timer)
        self.wait_for_arrivals(timer)
        other = self.create(key="l", watch=["f"])
        self.act("pause", other)
        self.assertEqual(self.call(200, "DELETE", "/v1/keys/l/timer")[1]["state"], "cancelled")
        gone = self.get(other)
        self.restart()
        self.assertEqual((self.get(other)[0], self.get(other)[2]), (410, gone[2]))
        self.assertNotIn("paused", gone[2]["timer"])

    # proves: pause-refused, pause-until, note-bytes, invalid
    def test_what_is_refused(self):
        """Nothing changes: neither the timer nor what it says."""
        hanging, fired, waiting = self.create("/hang", after=0), self.create(after=0), self.create(key="w")
        for timer, state, status in ((hanging, "delivering", 409), (fired, "fired", 410)):
            before = self.await_state(timer, state)
            self.act("pause", timer, None, status)
            self.assertEqual(self.await_state(timer, state), before)
        self.act("resume", hanging, None, 409)
        self.act("resume", fired, None, 410)
        for verb in ("pause", "resume"):
            for path in (f"/v1/timers/{waiting['id']}/{verb}", f"/v1/keys/w/{verb}"):
                self.call(412, "POST", path, None, {"If-Match": '"2"'})
                self.call(400, "POST", path, None, {"If-Match": "2"})
            for path in (f"/v1/timers/{NEVER}/{verb}", f"/v1/timers/x/{verb}", f"/v1/keys/nobody/{verb}"):
                self.call(404, "POST", path)
        now = int(time.time() * 1000)
        for body, pointer in (({"until": now - 1}, "#/until"), ({"until": 253402300800000}, "#/until"),
                              ({"until": "x"}, "#/until"), ({"note": 1}, "#/note"), ({"note": "x" * 257}, "#/note"),
                              ({"nte": "x"}, "#/nte")):
            for path, more in ((f"/v1/timers/{waiting['id']}/pause", {}), ("/v1/timers/pause", {"keys": ["w"]})):
                problem = self.call(422, "POST", path, {**more, **body})[1]
                self.assertEqual(problem["errors"][0]["pointer"], pointer, problem)
        self.assertEqual(self.act("resume", waiting), waiting)  # it was not paused
        self.assertEqual(self.get(waiting)[2], waiting)
        last = self.act("pause", waiting, {"note": "x" * 256, "until": 253402300799999})["paused"]
        self.assertEqual((len(last["note"]), last["until"]), (256, "9999-12-31T23:59:59.999Z"))

    # proves: bulk-pause, list-state, forecast, list
    def test_many_at_once(self):
        """By labels in all partitions; lists show them, forecasts do not, and later ones are not paused."""
        made = [self.create(after=f"{3 * n + 60}s", labels={"x": "y"}, key=f"k{n}") for n in range(20)]
        ids = {timer["id"] for timer in made}
        answer = self.call(200, "POST", "/v1/timers/pause", {"labels": {"x": "y"}, "note": "all"})[1]
        self.assertEqual(answer, {"paused": 20, "already_firing": 0, "failures": []})
        later = self.create(after="1h", labels={"x": "y"})
        self.restart()
        self.assertEqual(set(self.listed("state=paused&limit=3")), ids)
        self.assertEqual(self.listed("state=scheduled"), [later["id"]])
        self.assertEqual(set(self.listed("limit=7")), ids | {later["id"]})
        self.assertEqual(sum(self.call(200, "GET", "/v1/forecast?count=120")[1]["due"]), 1)
        answer = self.call(200, "POST", "/v1/timers/resume", {"labels": {"x": "y"}})[1]
        self.assertEqual(answer, {"resumed": 20, "already_firing": 0, "failures": []})
        self.restart()
        self.assertEqual(self.listed("state=paused"), [])
        self.assertEqual([self.state(timer) for timer in made if self.state(timer) == "paused"], [])
        answer = self.call(200, "POST", "/v1/timers/pause", {"keys": ["k19", "nobody"]})[1]
        self.assertEqual((answer["paused"], [each["status"] for each in answer["failures"]]), (1, [404]))
        for verb in ("cancel", "resume", "fire"):
            self.call(422, "POST", f"/v1/timers/{verb}", {"keys": ["k19"], "note": "x"})
        self.assertEqual(self.call(200, "POST", "/v1/timers/resume", {"keys": ["k19"]})[1]["resumed"], 1)


class MaintenanceTest(daemon_case.DaemonCase):
    PATH = "/v1/admin/maintenance"

    def lease(self, wait=0):
        return self.call(200, "POST", "/v1/queues/q/lease", {"max": 9, "wait": wait, "lease": "1m"})[1]["items"]

    def cli(self, *arguments):
        return command_line.run(*arguments, env=command_line.environment(url=f"http://127.0.0.1:{self.daemon.port}"))

    # proves: maintenance, readyz, explain-waiting
    def test_nothing_is_delivered_until_it_ends(self):
        """Webhooks and items of a queue, over kill -9; what was leased before is acknowledged meanwhile."""
        self.create(target="queue:q", after=0)
        item = self.lease("20s")[0]
        self.assertEqual(self.call(200, "GET", self.PATH)[1], {"maintenance": False})
        on = {"maintenance": True, "note": "Ümzug"}
        self.assertEqual(self.call(200, "PUT", self.PATH, {"note": "Ümzug"})[1], on)
        answer = self.call(200, "POST", "/v1/queues/q/ack", {"receipts": [item["receipt"]]})[1]
        self.assertEqual(answer["ok"], 1)
        held, queued = self.create(after=0), self.create(target="queue:q", after=0)
        self.assertEqual(self.lease(), [])
        self.restart()
        self.assertEqual(self.call(200, "GET", self.PATH)[1], on)
        self.assertEqual((self.lease(), self.arrivals_of(held)), ([], []))
        told = harness.wait_until(lambda: (answer := self.call(200, "GET", f"/v1/timers/{held['id']}/explain")[1])
                                  .get("waiting") and answer, 20, "it waits")
        self.assertEqual(told["waiting"]["for"], "maintenance")
        status, _, ready = self.daemon.call("GET", "/readyz")
        self.assertEqual((status, ready["detail"]), (200, "maintenance holds all deliveries back"))
        self.assertEqual(self.daemon.metric("tickwheel_maintenance"), 1)
        self.assertIn("maintenance holds all deliveries back", self.cli("health").out)
        self.assertEqual(json.loads(self.cli("maintenance", "-o", "json").out), on)
        self.assertEqual(self.cli("maintenance", "begin", "--note", "x").out, "maintenance holds all deliveries back: x\n")
        self.assertIn("--note is for", self.cli("maintenance", "end", "--note", "x").err)
        self.assertIn("none of: begin, end", self.cli("maintenance", "ends").err)
        self.assertEqual(self.call(200, "PUT", self.PATH)[1], {"maintenance": True})
        self.assertEqual(self.call(200, "DELETE", self.PATH)[1], {"maintenance": False})
        self.wait_for_arrivals(held)
        self.assertEqual([item["id"] for item in self.lease("20s")], [queued["id"]])
        self.restart()
        self.assertEqual(self.call(200, "GET", self.PATH)[1], {"maintenance": False})
        for body in ({"note": "x" * 257}, {"note": 1}, {"until": 1}):
            self.call(422, "PUT", self.PATH, body)

    # proves: maintenance
    def test_a_worker_that_waits_gets_its_item_when_it_ends(self):
        self.call(200, "PUT", self.PATH)
        self.create(target="queue:q", after=0)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waits = pool.submit(self.lease, "20s")
            harness.wait_until(lambda: self.daemon.metric("tickwheel_queue_waiting") == 1, 20, "a worker waits")
            self.call(200, "DELETE", self.PATH)
            self.assertEqual(len(waits.result()), 1)


class HoldTest(daemon_case.DaemonCase):
    """Queues and targets that are paused."""

    def hold(self, of, verb, name, body=None, expected=200):
        return self.call(expected, "POST", f"/v1/{of}/{urllib.parse.quote(name, safe='')}/{verb}", body)[1]

    def lease(self, wait=0, queue="q"):
        return self.call(200, "POST", f"/v1/queues/{queue}/lease", {"max": 9, "wait": wait, "lease": "1m"})[1]["items"]

    def explained(self, timer, what):
        return harness.wait_until(lambda: (answer := self.call(200, "GET", f"/v1/timers/{timer['id']}/explain")[1])
                                  .get("waiting", {}).get("for") == what and answer, 20, f"it waits for {what}")

    # proves: queue-pause, pause-state, explain-waiting, queues-list, metrics
    def test_no_item_of_a_paused_queue_is_leased(self):
        """Also after kill -9; other queues go on, and what was leased is acknowledged."""
        self.create(target="queue:q", after=0)
        item = self.lease("20s")[0]
        paused = self.hold("queues", "pause", "q", {"note": "Ümzug"})
        self.assertEqual((paused["name"], set(paused["paused"]), paused["paused"]["note"]), ("q", {"since", "note"}, "Ümzug"))
        self.assertLess(abs(ms_of(paused["paused"]["since"]) - time.time() * 1000), 60000)
        held, other = self.create(target="queue:q?priority=9", after=0), self.create(target="queue:r", after=0)
        self.assertEqual(self.call(200, "POST", "/v1/queues/q/ack", {"receipts": [item["receipt"]]})[1]["ok"], 1)
        for again in (False, True):
            self.assertEqual(self.explained(held, "paused")["target"]["paused"], paused["paused"])
            self.assertEqual(self.lease(), [])
            shown = self.call(200, "GET", "/v1/queues/q")[1]
            self.assertEqual((shown["ready"], shown["paused"]), (1, paused["paused"]))
            self.assertEqual(self.daemon.metric("tickwheel_pauses"), 1)
            if not again:
                self.assertEqual([each["id"] for each in self.lease("20s", "r")], [other["id"]])
                self.restart()
        self.assertEqual(self.call(200, "GET", "/v1/queues/q/peek")[1]["timers"][0]["id"], held["id"])
        self.assertEqual(self.hold("queues", "resume", "q"), {"name": "q"})
        self.assertEqual([each["id"] for each in self.lease("20s")], [held["id"]])
        self.assertEqual(self.hold("queues", "resume", "q"), {"name": "q"})
        self.restart()
        self.assertNotIn("paused", self.call(200, "GET", "/v1/queues/q")[1])

    # proves: queue-pause
    def test_a_worker_that_waits_gets_its_item_when_the_queue_goes_on(self):
        self.hold("queues", "pause", "q")
        self.create(target="queue:q", after=0)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waits = pool.submit(self.lease, "20s")
            harness.wait_until(lambda: self.daemon.metric("tickwheel_queue_waiting") == 1, 20, "a worker waits")
            self.hold("queues", "resume", "q")
            self.assertEqual(len(waits.result()), 1)

    # proves: target-pause, pause-state, target-pause-name, targets-list, forecast
    def test_nothing_is_sent_to_a_paused_target(self):
        """However it is written; what is under way ends, other targets go on, forecasts leave it out."""
        other = harness.Receiver()
        self.addCleanup(other.close)
        origin = self.receiver.url("").rstrip("/")
        paused = self.hold("targets", "pause", origin.upper() + "/", {"note": "deploy"})
        self.assertEqual((paused["name"], paused["paused"]["note"]), (origin, "deploy"))
        held, goes = self.create(after=0), self.create(target=other.url(), after=0)
        late = self.create(late={"drop_after": "1ms"})
        self.explained(held, "paused")
        harness.wait_until(other.arrivals, 20, "the other target")
        self.await_state(goes, "fired")
        self.assertEqual(sum(self.call(200, "GET", "/v1/forecast?count=120")[1]["due"]), 0)
        self.restart()
        rows = {row["target"]: row for row in self.call(200, "GET", "/v1/targets")[1]["targets"]}
        self.assertEqual(rows[origin]["paused"], paused["paused"])
        again = self.hold("targets", "pause", origin, {"note": "another"})
        self.assertEqual(again["paused"], {"since": paused["paused"]["since"], "note": "another"})
        self.assertEqual(self.arrivals_of(held), [])
        self.call(200, "POST", f"/v1/timers/{late['id']}/fire")
        fired = time.monotonic()
        self.explained(late, "paused")
        harness.wait_until(lambda: time.monotonic() > fired + 0.01, 20, "it is late by more than a millisecond")
        self.assertEqual(self.hold("targets", "resume", origin), {"name": origin})
        self.wait_for_arrivals(held)
        self.await_state(late, "dead")
        self.assertEqual(self.arrivals_of(late), [])

    # proves: target-pause-until
    def test_a_pause_of_both_ends_by_itself(self):
        until = int(time.time() * 1000) + 6000
        origin = self.receiver.url("").rstrip("/")
        for of, name in (("queues", "q"), ("targets", origin)):
            self.assertEqual(ms_of(self.hold(of, "pause", name, {"until": until})["paused"]["until"]), until)
        hook, _ = self.create(after=0), self.create(target="queue:q", after=0)
        self.restart()
        self.assertEqual(len(self.lease("20s")), 1)
        self.assertGreaterEqual(time.time() * 1000, until)
        self.assertGreaterEqual(self.wait_for_arrivals(hook)[0].at_us, until * 1000)
        self.assertNotIn("paused", self.call(200, "GET", "/v1/queues/q")[1])
        self.assertEqual(self.daemon.metric("tickwheel_pauses"), 0)

    # proves: target-pause-refused, note-bytes
    def test_what_no_pause_is(self):
        for name in ("https://a.example/path", "queue:q", "a.example", "redis://", "ftp://a.example"):
            for verb in ("pause", "resume"):
                self.hold("targets", verb, name, expected=422)
        for body in ({"note": "x" * 257}, {"note": 1}, {"until": 1}, {"nte": ""}, {"until": "2020-01-01T00:00:00Z"}):
            self.hold("queues", "pause", "q", body, 422)
            self.hold("targets", "pause", "https://a.example", body, 422)
        self.hold("queues", "pause", "a/b", expected=404)
        self.hold("queues", "pause", "q" * 65, expected=404)
        longest = "https://" + ".".join(["a" * 62] * 4)[:248]
        self.hold("targets", "pause", longest)
        self.hold("targets", "pause", longest + "a", expected=404)
        self.hold("targets", "resume", longest)
        self.assertEqual(self.call(200, "GET", "/v1/queues")[1]["queues"], [])
        self.assertEqual(self.call(200, "GET", "/v1/targets")[1]["targets"], [])

    # proves: pauses-tenant
    def test_as_many_as_may_be(self):
        for n in range(256):
            self.hold("queues", "pause", f"q{n}")
        problem = self.hold("queues", "pause", "more", expected=429)
        self.assertIn("256", problem["detail"])
        self.hold("targets", "pause", "https://a.example", expected=429)
        self.hold("queues", "pause", "q7", {"note": "one that is paused"})
        self.hold("queues", "resume", "q8")
        self.hold("queues", "pause", "more")


class HoldsOfTenantsTest(daemon_case.TokensCase):
    """Pauses of tenants, and what a backup has of them."""

    def call(self, daemon, who, method, path, body=None):
        status, _, answer = daemon.call(method, path, body, daemon_case.bearer(self.tokens[who]))
        self.assertLess(status, 300, answer)
        return answer

    # proves: tenant-isolation, target-pause, queue-pause, backup, restore
    def test_a_pause_is_its_tenants(self):
        """And a backup has it, as it has maintenance."""
        for name in ("shop", "bank", "root"):
            self.token(name, name if name != "root" else "-", "admin" if name == "root" else None)
        self.write_tokens()
        daemon = self.start("--backup-folder", self.path("backups"))
        self.call(daemon, "shop", "POST", "/v1/queues/q/pause", {"note": "x"})
        self.call(daemon, "shop", "POST", "/v1/targets/https%3A%2F%2Fa.example/pause")
        for who, items in (("bank", 1), ("shop", 0)):
            self.call(daemon, who, "POST", "/v1/timers", {"after": 0, "target": "queue:q"})
            lease = {"wait": "20s" if items else 0}
            self.assertEqual(len(self.call(daemon, who, "POST", "/v1/queues/q/lease", lease)["items"]), items, who)
            self.assertEqual([row["target"] for row in self.call(daemon, who, "GET", "/v1/targets")["targets"]],
                             [] if items else ["https://a.example"])
            self.assertEqual("paused" in self.call(daemon, who, "GET", "/v1/queues/q"), not items)
        self.call(daemon, "bank", "POST", "/v1/queues/q/resume")
        self.assertIn("paused", self.call(daemon, "shop", "GET", "/v1/queues/q"))
        self.call(daemon, "root", "PUT", "/v1/admin/maintenance", {"note": "y"})
        folder = self.call(daemon, "root", "POST", "/v1/admin/backup")["folder"]
        self.call(daemon, "root", "DELETE", "/v1/admin/maintenance")
        self.call(daemon, "shop", "POST", "/v1/queues/q/resume")
        daemon.close()
        restored = subprocess.run([harness.find("tickwheeld"), "--restore", folder, "--data-folder", self.path("again")],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(restored.returncode, 0, restored.stderr)
        os.rename(self.path("data"), self.path("old"))
        os.rename(self.path("again"), self.path("data"))
        daemon = self.start()
        self.assertIn("paused", self.call(daemon, "shop", "GET", "/v1/queues/q"))
        self.assertEqual(self.call(daemon, "root", "GET", "/v1/admin/maintenance"), {"maintenance": True, "note": "y"})
        daemon.find_in_output("level=warn event=maintenance note=y ")

    def test_the_files_of_an_older_build_are_refused(self):
        """Because what they hold back would be delivered."""
        self.start(tokens=False).close()
        for name in ("PAUSES", "MAINTENANCE"):
            with open(self.path(f"data/{name}"), "wb"):
                pass
            refused = subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", self.path("data")],
                                     capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f"data/{name} is of a build before the first release", refused.stderr)
            os.remove(self.path(f"data/{name}"))
        self.start(tokens=False)


if __name__ == "__main__":
    unittest.main()
