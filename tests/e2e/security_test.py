#!/usr/bin/env python3
"""Who may, on the real daemon: tokens and their scopes on every route, tenants that do not see each other by any
route, limits at and one beyond, TLS, and what is read again at SIGHUP. The routes are those of /openapi.strict.json, so
that a new one is tested without a line here, unless it needs a body."""

import base64
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import unittest
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import TokensCase, bearer, make_token

TARGET = "http://127.0.0.1:9/never"
NDJSON = {"Content-Type": "application/x-ndjson"}
SCOPES = ("schedule", "read", "admin")
NOWHERE = "06h03ahh340000000400000000"

# The values of parameters in paths, and the bodies of the operations that need one, by the name of each in the document.
PARAMETERS = {"id": NOWHERE, "key": "k", "name": "q", "target": "http:%2F%2F127.0.0.1:9", "type": "gone", "file": "app.js",
              "node": "1", "calendar": "holidays", "thing": "flow:q", "answer": f"{NOWHERE}-{'0' * 32}"}
TIMER = {"after": "1h", "target": TARGET}
BODIES = {
    "advanceClock": {"by": "1s"},
    "createTimer": TIMER,
    "createTimers": json.dumps(TIMER) + "\n",
    "putTimer": TIMER,
    "patchTimer": {"after": "2h"},
    "patchTimerByKey": {"after": "2h"},
    "touchTimer": {"after": "2h"},
    "touchTimerByKey": {"after": "2h"},
    "rescheduleTimers": {"ids": [NOWHERE], "after": "1h"},
    "touchTimers": {"ids": [NOWHERE], "after": "2h"},
    **dict.fromkeys(("cancelTimers", "fireTimers", "pauseTimers", "resumeTimers"), {"ids": [NOWHERE]}),
    "completeWatches": {"watch": ["e"]},
    **dict.fromkeys(("backfillTimer", "backfillTimerByKey"), {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}),
    "leaseItems": {"max": 1, "wait": 0},
    "ackItems": {"receipts": ["0" * 32]},
    "nackItems": {"receipts": ["0" * 32]},
    "extendItems": {"receipts": ["0" * 32], "lease": "1s"},
    "redriveDead": {"all": True},
    "extendAnswer": {"by": "1h"},
    "putCalendar": ["2030-12-25"],
    "setFlow": {"concurrency": 1},
    "setNamedTarget": {"url": TARGET},
    "setOwner": {"owner": "shop"},
    "rotateNamedTarget": {"signing": "whsec_" + "A" * 43 + "="},
}


class TokensTest(TokensCase):
    def setUp(self):
        super().setUp()
        for scope in SCOPES:
            self.token(scope, "shop", scope)
        self.write_tokens()
        self.daemon = self.start()
        self.document = self.daemon.call("GET", "/openapi.strict.json")[2]

    def operations(self):
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                if method != "parameters":
                    yield method.upper(), path, operation

    def request(self, method, path, operation, headers):
        name = operation["operationId"].removesuffix("InQuery")
        body = BODIES[name] if operation.get("requestBody", {}).get("required") else None
        path = re.sub(r"\{(\w+)\}", lambda match: PARAMETERS[match[1]], path)
        if isinstance(body, str):
            headers = {**headers, **NDJSON}
        if path == "/v1/events" and self.daemon.call("HEAD", path, None, headers)[0] == 200:
            method = "HEAD"  # whose answer ends
        if path.startswith("/v1/key/"):
            path += "?key=k"
        if path == "/v1/schedule/preview":
            path += "?every=1m"
        return self.daemon.call(method, path, body, headers)

    # proves: unauthenticated, forbidden
    def test_every_route_needs_the_scope_that_the_document_names(self):
        self.assertGreater(len(list(self.operations())), 70)
        for method, path, operation in self.operations():
            wanted = operation["security"][0]["bearer"] if operation["security"] else None
            with self.subTest(method=method, path=path):
                self.assertEqual(wanted is None, not path.startswith("/v1/") and path != "/metrics")
                status, fields, answer = self.request(method, path, operation, {})
                if wanted is None:
                    self.assertEqual(status, 410 if path.startswith("/answers/") else 200)
                    continue
                self.assertEqual(status, 401)
                self.assertEqual(fields["WWW-Authenticate"], 'Bearer realm="tickwheel"')
                self.assertEqual(fields["Content-Type"], "application/problem+json")
                self.assertEqual((answer["type"], answer["status"]), ("/problems/unauthenticated", 401))
                for scope in SCOPES:
                    status, fields, answer = self.request(method, path, operation, bearer(self.tokens[scope]))
                    if scope in wanted:
                        self.assertNotIn(status, (401, 403, 429), answer)
                        continue
                    self.assertEqual((status, answer["type"]), (403, "/problems/forbidden"))
                    self.assertEqual(fields["WWW-Authenticate"],
                                     f'Bearer realm="tickwheel", error="insufficient_scope", scope="{wanted[0]}"')

    # proves: unauthenticated
    def test_what_is_no_token(self):
        good = self.tokens["read"]
        for value in (good, f"Basic {good}", "Bearer", "Bearer ", f"Bearer {good}x", f"Bearer {good[:-1]}",
                      f"Bearer {good[:-1]}{'a' if good[-1] != 'a' else 'b'}", "Bearer " + "x" * 5000,
                      f"Bearer {good} {good}", self.lines[1].split()[-1], f"Bearer {self.lines[1].split(':')[-1]}"):
            status, fields, _ = self.daemon.call("GET", "/v1/timers", None, {"Authorization": value})
            self.assertEqual(status, 401, value)
            self.assertIn('error="invalid_token"', fields["WWW-Authenticate"])
        for value in (f"Bearer {good}", f"bearer {good}", f"BEARER   {good}"):
            self.assertEqual(self.daemon.call("GET", "/v1/timers", None, {"Authorization": value})[0], 200, value)
        connection = self.daemon.connect()
        connection.putrequest("GET", "/v1/timers")
        connection.putheader("Authorization", f"Bearer {good}")
        connection.putheader("Authorization", "Bearer other")
        connection.endheaders()
        self.assertEqual(connection.getresponse().status, 401)  # two of them: whom would a proxy believe?
        connection.close()

    # proves: token-reload
    def test_neither_log_nor_metrics_show_a_token(self):
        self.daemon.call("GET", "/v1/timers", None, bearer(self.tokens["read"]))
        metrics = self.daemon.call("GET", "/metrics", None, bearer(self.tokens["admin"]))[2]
        self.assertIn('tickwheel_refused_total{reason="unauthenticated"} 0', metrics)
        self.daemon.call("GET", "/v1/timers", None, bearer("tw_wrong"))
        self.daemon.signal(signal.SIGTERM)
        for text in (metrics, self.daemon.output()):
            for secret in (*self.tokens.values(), "tw_wrong"):
                self.assertNotIn(secret, text)

    def test_metrics_may_be_open(self):
        self.assertEqual(self.daemon.call("GET", "/metrics")[0], 401)
        self.daemon.signal(signal.SIGTERM)
        daemon = self.start("--metrics-access", "open")
        self.assertEqual(daemon.call("GET", "/metrics")[0], 200)
        for path in ("/v1/timers", "/v1/stats", "/v1/verdict", "/v1/history?window=1h", "/v1/cluster"):
            self.assertEqual(daemon.call("GET", path)[0], 401, path)
        self.assertEqual(daemon.call("POST", "/v1/admin/backup")[0], 401)

    # proves: token-reload
    def test_a_reload_lets_in_and_shuts_out(self):
        connection = self.daemon.connect()
        old = bearer(self.tokens["read"])
        self.assertEqual(self.daemon.call("GET", "/v1/timers", None, old, connection)[0], 200)
        self.lines = []
        new = bearer(self.token("new", "shop", "read"))
        self.assertEqual(self.daemon.call("GET", "/v1/timers", None, new, connection)[0], 401)
        self.write_tokens()
        self.reload(self.daemon)
        self.assertEqual(self.daemon.call("GET", "/v1/timers", None, new, connection)[0], 200)
        self.assertEqual(self.daemon.call("GET", "/v1/timers", None, old, connection)[0], 401)
        for broken in ("", "token shop read\n", "token shop read sha256:00\n", "limit shop rate=1\n"):
            with open(self.path("tokens"), "w", encoding="utf-8") as file:
                file.write(broken)
            self.reload(self.daemon, "reload_failed")
            self.assertEqual(self.daemon.call("GET", "/v1/timers", None, new, connection)[0], 200)
        os.unlink(self.path("tokens"))
        self.reload(self.daemon, "reload_failed")
        self.assertEqual(self.daemon.call("GET", "/v1/timers", None, new, connection)[0], 200)
        self.assertRegex(self.daemon.output(), r'event=reload_failed what=tokens_file cause="tokens_file: .*tokens:1: '
                                               r'[^\n]*hint="the old contents stay in use"')
        connection.close()  # the same one all the time


class TenantsTest(TokensCase):
    """Everything that one tenant has, asked for by another in every way there is."""

    def setUp(self):
        super().setUp()
        self.token("shop", "shop")
        self.token("rival", "rival")
        self.write_tokens()
        self.daemon = self.start()

    def call(self, who, expected, method, path, body=None, headers=None):
        status, _, answer = self.daemon.call(method, path, body, {**bearer(self.tokens[who]), **(headers or {})})
        self.assertEqual(status, expected, answer)
        return answer

    def create(self, who, expected=201, headers=None, **fields):
        return self.call(who, expected, "POST", "/v1/timers", {"after": "1h", "target": TARGET, **fields}, headers)

    def ids(self, who, path="/v1/timers?limit=1000"):
        found, cursor = [], None
        while True:
            answer = self.call(who, 200, "GET", path + (f"&cursor={cursor}" if cursor else ""))
            found += [timer["id"] for timer in answer["timers"]]
            cursor = answer["next"]
            if not cursor:
                return found

    # proves: tenant-isolation
    def test_ids_of_others_are_not_there(self):
        timer = self.create("shop", key="k", labels={"a": "b"}, watch=["e"])
        path = f"/v1/timers/{timer['id']}"
        for method, end, body in (("GET", "", None), ("PATCH", "", {"after": "2h"}), ("DELETE", "", None),
                                  ("POST", "/touch", {"after": "2h"}), ("POST", "/fire", None),
                                  ("POST", "/pause", None), ("POST", "/resume", None), ("POST", "/release", None),
                                  ("GET", "/explain", None),
                                  ("GET", "/runs", None)):
            stranger = self.call("rival", 404, method, path + end, body)
            never = self.call("rival", 404, method, f"/v1/timers/{NOWHERE}{end}", body)
            self.assertEqual(stranger, never)  # nothing tells one from the other
        self.assertEqual(self.call("shop", 200, "GET", path), timer)
        answer = self.call("rival", 200, "POST", "/v1/timers/cancel", {"ids": [timer["id"]]})
        self.assertEqual((answer["cancelled"], answer["failures"][0]["status"]), (0, 404))
        answer = self.call("rival", 200, "POST", "/v1/timers/reschedule", {"ids": [timer["id"]], "after": "2h"})
        self.assertEqual((answer["rescheduled"], answer["failures"][0]["status"]), (0, 404))
        self.assertEqual(self.call("shop", 200, "GET", path), timer)
        self.call("shop", 200, "DELETE", path)
        self.call("shop", 410, "GET", path)
        self.call("rival", 404, "GET", path)  # nor is its final state

    # proves: tenant-isolation
    def test_names_are_each_tenants_own(self):
        request = {"Idempotency-Key": "once"}
        timers = {}
        for who in ("shop", "rival"):
            timers[who] = self.create(who, key="k", watch=["e"], labels={"team": "a"}, payload=who)
            self.assertEqual(self.create(who, 200, key="k", watch=["e"], labels={"team": "a"}, payload=who),
                             timers[who])
            timers[who + "'s request"] = self.create(who, headers=request, payload=7)
            self.assertEqual(self.create(who, headers=request, payload=7), timers[who + "'s request"])
        self.assertEqual(len({timer["id"] for timer in timers.values()}), 4)
        for who in ("shop", "rival"):
            self.assertEqual(self.call(who, 200, "GET", "/v1/keys/k/timer")["payload"], who)
        self.call("shop", 200, "DELETE", "/v1/keys/k/timer")
        self.call("shop", 410, "GET", "/v1/keys/k/timer")
        rival = self.call("rival", 200, "GET", "/v1/keys/k/timer")
        for method, body in (("GET", None), ("PATCH", {"after": "2h"}), ("DELETE", None)):
            self.create("rival", 201 if method == "GET" else 200, key="only-mine", payload=1)
            self.call("shop", 404, method, "/v1/keys/only-mine/timer", body)
        self.assertEqual(self.call("rival", 200, "GET", "/v1/keys/k/timer"), rival)
        put = self.call("shop", 201, "PUT", "/v1/keys/only-mine/timer", {"after": "1h", "target": TARGET})
        self.assertNotEqual(put["id"], self.call("rival", 200, "GET", "/v1/keys/only-mine/timer")["id"])

    # proves: tenant-isolation
    def test_events_and_bulk_calls_reach_ones_own_only(self):
        def make(name):
            return {who: [self.create(who, key=f"{name}-{n}", watch=[name], labels={"team": name})
                          for n in range(5)] for who in ("shop", "rival")}

        for number, (path, body, count) in enumerate((
                ("/v1/watch/{0}/complete", None, "cancelled"),
                ("/v1/watch/{0}/complete", {"fire": True}, "fired"),
                ("/v1/watch/complete", {"watch": ["{0}", "nobody's"]}, "cancelled"),
                ("/v1/watch/complete", {"watch": ["nobody's", "{0}"], "fire": True}, "fired"),
                ("/v1/timers/cancel", {"watch": "{0}"}, "cancelled"),
                ("/v1/timers/cancel", {"labels": {"team": "{0}"}}, "cancelled"),
                ("/v1/timers/fire", {"labels": {"team": "{0}"}}, "fired"),
                ("/v1/timers/pause", {"labels": {"team": "{0}"}}, "paused"),
                ("/v1/timers/pause", {"watch": "{0}", "note": "x"}, "paused"),
                ("/v1/timers/reschedule", {"watch": "{0}", "after": "3h"}, "rescheduled"),
                ("/v1/timers/reschedule", {"labels": {"team": "{0}"}, "after": "4h"}, "rescheduled"))):
            with self.subTest(path=path, body=body):
                name = f"e{number}"
                timers = make(name)
                body = json.loads(json.dumps(body).replace("{0}", name))
                self.assertEqual(self.call("shop", 200, "POST", path.format(name), body)[count], 5)
                for timer in timers["rival"]:
                    self.assertEqual(self.call("rival", 200, "GET", f"/v1/timers/{timer['id']}"), timer)
        timers = make("keys")
        answer = self.call("rival", 200, "POST", "/v1/timers/cancel", {"keys": [t["key"] for t in timers["shop"]]})
        self.assertEqual((answer["cancelled"], len(answer["failures"])), (5, 0))  # their own of these names
        for timer in timers["shop"]:
            self.assertEqual(self.call("shop", 200, "GET", f"/v1/timers/{timer['id']}"), timer)

    # proves: tenant-isolation
    def test_lists_and_batches(self):
        made = {}
        for who in ("shop", "rival"):
            body = "".join(json.dumps({"after": f"{n}s", "target": TARGET, "key": f"k{n}", "labels": {"of": who}}) + "\n"
                           for n in range(3600, 3900))
            answer = self.call(who, 200, "POST", "/v1/timers/batch", body, NDJSON)
            made[who] = {json.loads(line)["id"] for line in answer.splitlines()}
            self.assertEqual(len(made[who]), 300)
        self.assertFalse(made["shop"] & made["rival"])
        for who in ("shop", "rival"):
            for limit in (7, 1000):
                listed = self.ids(who, f"/v1/timers?limit={limit}")
                self.assertEqual((len(listed), set(listed)), (300, made[who]))
            self.assertEqual(self.call(who, 200, "GET", "/v1/timers/count")["count"], 300)
            self.assertEqual(self.call(who, 200, "GET", "/v1/timers/count?by=label:of")["groups"], [{"label": who, "count": 300}])
            forecast = self.call(who, 200, "GET", "/v1/forecast?unit=minute&count=120")
            self.assertEqual((sum(forecast["due"]), forecast["rows_read"]), (300, 300))  # nothing of the other tenant

    # proves: tenant-isolation, explain-waiting
    def test_explain_tells_of_own_failures_only(self):
        timers = {}
        for who, after in (("shop", 0), ("rival", "1h")):
            body = {"after": after, "target": TARGET, "retry": {"max_attempts": 1}}
            timers[who] = [self.call(who, 201, "POST", "/v1/timers", body)["id"] for _ in range(3)]

        def failures(who):
            return self.call(who, 200, "GET", f"/v1/timers/{timers[who][0]}/explain")["target"].get("failures", 0)

        harness.wait_until(lambda: failures("shop") == 3, 20, "three failures")
        self.assertEqual(failures("rival"), 0)

    # proves: tenant-isolation
    def test_queues_are_each_tenants_own(self):
        for who in ("shop", "rival"):
            for n in range(3):
                self.create(who, after=0, target="queue:jobs", payload=[who, n])
        leases = {}
        for who in ("shop", "rival"):
            leases[who] = []
            for _ in range(3):  # at least one each time
                if len(leases[who]) < 3:
                    leases[who] += self.call(who, 200, "POST", "/v1/queues/jobs/lease",
                                             {"max": 10, "wait": "10s", "lease": "1m"})["items"]
            self.assertEqual(sorted(item["payload"] for item in leases[who]), [[who, n] for n in range(3)])
        receipts = [item["receipt"] for item in leases["shop"]]
        for call, more in (("ack", {}), ("nack", {}), ("extend", {"lease": "2m"})):
            answer = self.call("rival", 200, "POST", f"/v1/queues/jobs/{call}", {"receipts": receipts, **more})
            self.assertEqual(answer["results"], ["stale"] * 3)
        self.assertEqual(self.call("shop", 200, "POST", "/v1/queues/jobs/ack", {"receipts": receipts})["ok"], 3)
        # A name that looks like another tenant's is none.
        self.call("rival", 404, "POST", "/v1/queues/shop%2Fjobs/lease", {"max": 1})

    # proves: tenant-isolation, queues-list, queue-peek, targets-list
    def test_an_overview_tells_of_ones_own_only(self):
        """Items, leases, waiting workers, and failures of a target that both have."""
        lives = {"max_attempts": 2, "base": "1d", "cap": "1d"}
        for _ in range(3):
            self.create("shop", after=0, target="queue:jobs", payload="shop's")
        self.create("shop", after=0, retry=lives)
        waits = threading.Thread(target=self.call, args=("shop", 200, "POST", "/v1/queues/idle/lease",
                                                         {"max": 1, "wait": "20s"}))
        waits.start()

        def seen(who):
            return (self.call(who, 200, "GET", "/v1/queues")["queues"], self.call(who, 200, "GET", "/v1/targets")["targets"])

        harness.wait_until(lambda: [queue["name"] for queue in seen("shop")[0]] == ["idle", "jobs"], 20, "two queues")
        harness.wait_until(lambda: [target["failures"] for target in seen("shop")[1]] == [1], 20, "a failure")
        harness.wait_until(lambda: self.call("shop", 200, "GET", "/v1/queues/jobs")["ready"] == 3, 20, "three items")
        self.assertEqual(seen("rival"), ([], []))
        for name in ("jobs", "idle"):
            shown = self.call("rival", 200, "GET", f"/v1/queues/{name}")
            self.assertEqual(shown, {"name": name, "ready": 0, "leased": 0, "workers": 0, "more_on_disk": False})
            self.assertEqual(self.call("rival", 200, "GET", f"/v1/queues/{name}/peek"), {"timers": [], "more": False})
        for path in ("/v1/queues/shop%2Fjobs", "/v1/queues/shop%2Fjobs/peek"):
            self.call("rival", 404, "GET", path)
        self.create("rival", after=0, target="queue:jobs", payload="rival's")
        harness.wait_until(lambda: self.call("rival", 200, "GET", "/v1/queues/jobs")["ready"] == 1, 20, "its own item")
        peeked = self.call("rival", 200, "GET", "/v1/queues/jobs/peek")["timers"]
        self.assertEqual([timer["payload"] for timer in peeked], ["rival's"])
        self.create("shop", after=0, target="queue:idle")
        waits.join()

    def test_a_waiting_worker_gets_its_tenants_work(self):
        answers = {}

        def work(who):
            answers[who] = self.call(who, 200, "POST", "/v1/queues/jobs/lease", {"max": 1, "wait": "20s"})["items"]

        threads = [threading.Thread(target=work, args=[who]) for who in ("shop", "rival")]
        for thread in threads:
            thread.start()
        self.create("rival", after=0, target="queue:jobs", payload="rival")
        threads[1].join()
        self.create("shop", after=0, target="queue:jobs", payload="shop")
        threads[0].join()
        self.assertEqual({who: [item["payload"] for item in items] for who, items in answers.items()},
                         {"shop": ["shop"], "rival": ["rival"]})

    # proves: tenant-isolation
    def test_dead_letters_are_each_tenants_own(self):
        once = {"max_attempts": 1, "base": "1ms", "cap": "1ms"}
        dead = {who: self.create(who, after=0, retry=once, labels={"team": "a"})["id"] for who in ("shop", "rival")}
        for who in dead:
            harness.wait_until(lambda who=who: self.ids(who, "/v1/dead?limit=10") == [dead[who]], 20, "a dead letter")
        answer = self.call("rival", 200, "POST", "/v1/dead/redrive", {"ids": [dead["shop"]]})
        self.assertEqual((answer["redriven"], answer["results"]), (0, ["not-found"]))
        for body in ({"all": True}, {"labels": {"team": "a"}}, {"target": TARGET}):
            answer = self.call("rival", 200, "POST", "/v1/dead/redrive", body)
            self.assertEqual(answer["redriven"], 1, answer)
            harness.wait_until(lambda: self.ids("rival", "/v1/dead?limit=10") == [dead["rival"]], 20, "dead again")
        for who in dead:
            groups = self.call(who, 200, "GET", "/v1/dead/groups")["groups"]
            self.assertEqual([(group["count"], group["example"]) for group in groups], [(1, dead[who])])
        self.call("rival", 404, "DELETE", f"/v1/dead/{dead['shop']}")
        for query in ("all=true", "label=team:a", f"target={TARGET}", "due_before=4102444800000"):
            answer = self.call("rival", 200, "DELETE", f"/v1/dead?{query}")
            self.assertIn(answer["deleted"], (0, 1), query)
        self.assertEqual(self.ids("rival", "/v1/dead"), [])
        self.assertEqual(self.call("shop", 410, "GET", f"/v1/timers/{dead['shop']}")["timer"]["attempts"], 1)

    # proves: tenant-isolation
    def test_a_restart_keeps_them_apart(self):
        timers = {who: self.create(who, key="k", payload=who) for who in ("shop", "rival")}
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        for who, other in (("shop", "rival"), ("rival", "shop")):
            self.assertEqual(self.ids(who), [timers[who]["id"]])
            self.assertEqual(self.call(who, 200, "GET", "/v1/keys/k/timer"), timers[who])
            self.call(who, 404, "GET", f"/v1/timers/{timers[other]['id']}")
        # The unnamed tenant is one of its own: it sees nothing of those with names.
        self.daemon.signal(signal.SIGTERM)
        self.daemon = self.start(tokens=False)
        self.assertEqual(self.daemon.call("GET", "/v1/timers")[2]["timers"], [])
        self.assertEqual(self.daemon.call("GET", f"/v1/timers/{timers['shop']['id']}")[0], 404)
        # What it makes is seen by the token of "-", and by no other.
        old = self.daemon.call("POST", "/v1/timers", {"after": "1h", "target": TARGET, "key": "k"})[2]
        self.daemon.signal(signal.SIGTERM)
        self.token("old", "-")
        self.write_tokens()
        self.daemon = self.start()
        self.assertEqual(self.call("old", 200, "GET", "/v1/keys/k/timer"), old)
        self.assertEqual(self.ids("old"), [old["id"]])
        self.call("shop", 404, "GET", f"/v1/timers/{old['id']}")


class LimitsTest(TokensCase):
    def setUp(self):
        super().setUp()
        self.token("shop", "shop")
        self.token("rival", "rival")

    def call(self, daemon, who, method, path, body=None, headers=None):
        return daemon.call(method, path, body, {**bearer(self.tokens[who]), **(headers or {})})

    def create(self, daemon, who="shop", **fields):
        return self.call(daemon, who, "POST", "/v1/timers", {"after": "1h", "target": TARGET, **fields})

    # proves: tenant-pending, tenant-limits
    def test_live_timers_exactly(self):
        self.write_tokens("limit shop pending_max=10")
        daemon = self.start()
        ids = [self.create(daemon)[2]["id"] for _ in range(9)]
        lines = "".join(json.dumps({"after": "1h", "target": TARGET}) + "\n" for _ in range(5))
        status, _, answer = self.call(daemon, "shop", "POST", "/v1/timers/batch", lines, NDJSON)
        answers = [json.loads(line) for line in answer.splitlines()]
        self.assertEqual(sorted(line.get("status", 0) for line in answers), [0, 429, 429, 429, 429])
        self.assertEqual({line["detail"] for line in answers if "status" in line},
                         {"pending_max is 10 live timers of the tenant; there is room when one of them ends"})
        status, fields, answer = self.create(daemon)
        self.assertEqual((status, answer["type"]), (429, "/problems/too-many"))
        self.assertIn("pending_max is 10 live timers of the tenant", answer["detail"])
        self.assertGreaterEqual(int(fields["Retry-After"]), 1)
        status, _, _ = self.call(daemon, "shop", "PUT", "/v1/keys/k/timer", {"after": "1h", "target": TARGET})
        self.assertEqual(status, 429)
        for _ in range(20):
            self.assertEqual(self.create(daemon, "rival")[0], 201)  # it has no limit
        for kill in (signal.SIGKILL, signal.SIGTERM):
            daemon.signal(kill)
            daemon = self.start()
            self.assertEqual(self.create(daemon)[0], 429)  # right after the start
            self.assertEqual(self.call(daemon, "shop", "DELETE", f"/v1/timers/{ids.pop()}")[0], 200)
            self.assertEqual(self.create(daemon)[0], 201)
            self.assertEqual(self.create(daemon)[0], 429)

    # proves: tenant-pending
    def test_timers_that_end_make_room(self):
        self.write_tokens("limit shop pending_max=2")
        daemon = self.start()
        dead = self.create(daemon, after=0, retry={"max_attempts": 1})[2]["id"]
        with harness.Receiver() as receiver:
            self.assertEqual(self.create(daemon, after=0, target=receiver.url("/ok"))[0], 201)

            def is_over():
                answer = self.call(daemon, "shop", "GET", "/v1/timers?limit=1")[2]
                return not answer["timers"] and not answer["next"]

            harness.wait_until(is_over, 20, "both over")
        self.assertEqual([self.create(daemon)[0] for _ in range(3)], [201, 201, 429])
        status, _, answer = self.call(daemon, "shop", "POST", "/v1/dead/redrive", {"ids": [dead]})
        self.assertEqual((status, answer["results"]), (200, ["too-many"]))

    # proves: tenant-pending
    def test_many_at_once_are_not_more(self):
        self.write_tokens("limit shop pending_max=50")
        daemon = self.start("--shards", "4", "--partitions", "8")
        results = []

        def work():
            connection = daemon.connect()
            for _ in range(20):
                status, _, _ = daemon.call("POST", "/v1/timers", {"after": "1h", "target": TARGET},
                                           bearer(self.tokens["shop"]), connection)
                results.append(status)
            connection.close()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((results.count(201), results.count(429)), (50, 110))

    # proves: tenant-rate, tenant-limits
    def test_the_rate(self):
        self.write_tokens("limit shop rate=1 burst=5", "limit rival rate=1000 burst=6")
        daemon = self.start()
        begun = time.monotonic()
        answers = [self.create(daemon) for _ in range(7)]
        came_in = int(time.monotonic() - begun)  # drops; none on any machine that is not very slow
        statuses = [status for status, _, _ in answers]
        self.assertIn(statuses.count(201), (5, 5 + came_in, 6 + came_in))
        if came_in == 0:
            self.assertEqual(statuses, [201] * 5 + [429] * 2)
            self.assertEqual(answers[-1][1]["Retry-After"], "1")
        # Each line of a batch counts, and what is refused can be told.
        lines = "".join(json.dumps({"after": "1h", "target": TARGET}) + "\n" for _ in range(3000))
        answer = self.call(daemon, "rival", "POST", "/v1/timers/batch", lines, NDJSON)[2]
        made = [json.loads(line).get("status") for line in answer.splitlines()].count(None)
        self.assertGreaterEqual(made, 5)
        self.assertLess(made, 3000)
        # A reload is no new start.
        self.create(daemon)
        self.reload(daemon)
        self.assertEqual(self.create(daemon)[0], 429)
        harness.wait_until(lambda: self.create(daemon)[0] == 201, 10, "a drop came in")

    # proves: tenants-list
    def test_what_tenants_use(self):
        """Goal: an operator is told of all tenants, a tenant of itself, and each figure is right."""
        self.token("ops", "ops", "read,admin")
        self.token("old", "-")
        self.token("quiet", "quiet")
        self.write_tokens("limit shop pending_max=20 rate=1 burst=5", "limit quiet body_bytes_max=1M")
        daemon = self.start()
        for n in range(3):
            self.assertEqual(self.create(daemon, "rival", target=f"queue:q{n}", after="1h" if n else 0)[0], 201)
        self.create(daemon, "old")
        statuses = [self.create(daemon)[0] for _ in range(7)]

        def told(who, query=""):
            status, _, answer = self.call(daemon, who, "GET", f"/v1/tenants{query}")
            self.assertEqual(status, 200, answer)
            return {tenant["name"]: tenant for tenant in answer["tenants"]}, answer["next"]

        harness.wait_until(lambda: told("ops")[0]["rival"]["ready"] == 1, 60, "the due timer")
        tenants, following = told("ops")
        self.assertEqual((list(tenants), following), (["-", "ops", "quiet", "rival", "shop"], None))
        self.assertEqual({name: tenant["pending"] for name, tenant in tenants.items()},
                         {"-": 1, "ops": 0, "quiet": 0, "rival": 3, "shop": statuses.count(201)})
        self.assertEqual({name: tenant["rate_refused"] for name, tenant in tenants.items()},
                         {"-": 0, "ops": 0, "quiet": 0, "rival": 0, "shop": statuses.count(429)})
        self.assertEqual({name: tenant["limits"] for name, tenant in tenants.items() if tenant["limits"]},
                         {"shop": {"pending_max": 20, "rate": 1, "burst": 5}, "quiet": {"body_bytes_max": 1 << 20}})
        self.assertIn("oldest", tenants["rival"])
        self.assertNotIn("oldest", tenants["shop"])
        self.reload(daemon)  # what was refused stays counted
        self.assertEqual(told("ops")[0]["shop"]["rate_refused"], statuses.count(429))
        own, following = told("rival")
        self.assertEqual((list(own), following, own["rival"]["pending"]), (["rival"], None, 3))
        self.assertEqual((list(told("rival", "?cursor=rival")[0]), list(told("rival", "?cursor=shop")[0])), (["rival"], []))
        self.assertEqual(list(told("old")[0]), ["-"])

    # proves: tenants-list, tenants-page, tenants-parameters
    def test_pages_of_tenants(self):
        self.token("ops", "ops", "read,admin")
        self.write_tokens(*(f"token t{n:04} read sha256:{n:064x}" for n in range(1200)))
        daemon = self.start()

        def page(query, expected=200):
            status, _, answer = self.call(daemon, "ops", "GET", f"/v1/tenants{query}")
            self.assertEqual(status, expected, answer)
            return answer

        for query, size in (("", 100), ("?limit=1", 1), ("?limit=1000", 1000), ("?limit=1000&cursor=t0200", 1000)):
            self.assertEqual(len(page(query)["tenants"]), size, query)
        names, cursor = [], ""
        while cursor is not None:
            answer = page(f"?limit=500{cursor and '&cursor=' + cursor}")
            names += [tenant["name"] for tenant in answer["tenants"]]
            cursor = answer["next"]
        self.assertEqual(names, sorted(["-", "ops", "rival", "shop", *(f"t{n:04}" for n in range(1200))]))
        for wrong in ("?limit=0", "?limit=1001", "?limit=x", "?cursor=", "?cursor=a%2Fb", "?cursor=" + "a" * 65):
            page(wrong, 422)
        empty = "".join(f"&a{n}" for n in range(7))
        page("?limit=1" + empty, 422)
        page("?limit=1&b" + empty, 400)

    # proves: tenant-bodies, tenant-limits
    def test_bodies(self):
        self.write_tokens("limit shop body_bytes_max=1000 batch_bytes_max=3000")
        daemon = self.start()
        body = json.dumps({"after": "1h", "target": TARGET, "payload": "x" * 500})
        headers = {"Content-Type": "application/json"}
        for size, expected in ((1000, 201), (1001, 413)):
            self.assertEqual(self.call(daemon, "shop", "POST", "/v1/timers", body.ljust(size), headers)[0], expected)
            chunks = iter([body.ljust(size).encode()])  # without a length in the head
            connection = daemon.connect()
            connection.request("POST", "/v1/timers", chunks, {**headers, **bearer(self.tokens["shop"])},
                               encode_chunked=True)
            self.assertEqual(connection.getresponse().status, expected)
            connection.close()
        line = json.dumps({"after": "1h", "target": TARGET})
        for size, expected in ((1000, None), (1001, 413)):
            answer = self.call(daemon, "shop", "POST", "/v1/timers/batch", line.ljust(size) + "\n", NDJSON)[2]
            self.assertEqual(json.loads(answer).get("status"), expected)
        for size, expected in ((2999, 200), (3000, 413)):
            status = self.call(daemon, "shop", "POST", "/v1/timers/batch", "\n" * (size - len(line)) + line + "\n",
                               NDJSON)[0]
            self.assertEqual(status, expected)
        self.assertEqual(self.call(daemon, "rival", "POST", "/v1/timers", body.ljust(1001), headers)[0], 201)


# Bodies and heads that two programs may read differently, around a valid create.
UNCLEAR = {
    "two Transfer-Encoding": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "both lengths": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "a NUL in a length": b"Content-Length: 0\0\r\n",
    "a NUL in a value": b"Idempotency-Key: a\0b\r\n",
    "two Hosts": b"Host: localhost\r\n",
    "a bare line feed": b"X: a\nContent-Length: 5\r\n",
    "a bare carriage return": b"X: a\rContent-Length: 5\r\n",
    "a folded line": b"X: a\r\n b\r\n",
    "a blank before the colon": b"Content-Length : 5\r\n",
}
UNCLEAR_CHUNKS = {
    "a line feed after a size": b"%x\n%s\r\n0\r\n\r\n",
    "a line feed in an extension": b"%x;a\n\r\n%s\r\n0\r\n\r\n",
    "a line feed after data": b"%x\r\n%s\n0\r\n\r\n",
    "a line feed in a trailer": b"%x\r\n%s\r\n0\r\nA: b\n\r\n",
    "a blank after a size": b"%x \r\n%s\r\n0\r\n\r\n",
}


class FramingTest(TokensCase):
    def refused(self, daemon, what, text):
        """In one piece and byte by byte: 400 as a problem, once, and the connection is closed."""
        for pieces in ((text,), [text[at:at + 1] for at in range(len(text))]):
            with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    for piece in pieces:
                        connection.sendall(piece)
                except OSError:
                    pass  # closed already
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
            self.assertRegex(answer, rb"(?s)^HTTP/1.1 400 .*/problems/bad-request", what)
            self.assertEqual(answer.count(b"HTTP/1.1 "), 1, what)

    # proves: bad-request
    def test_what_programs_may_read_differently(self):
        daemon = self.start(tokens=False)
        timer = json.dumps({"after": "1h", "target": "log:"}).encode()
        head = b"POST /v1/timers HTTP/1.1\r\nContent-Type: application/json\r\n"
        self.refused(daemon, "no Host", head + b"Content-Length: %d\r\n\r\n%s" % (len(timer), timer))
        for what, lines in UNCLEAR.items():
            length = b"" if b"-Encoding" in lines or b"-Length" in lines else b"Content-Length: %d\r\n" % len(timer)
            self.refused(daemon, what, head + b"Host: localhost\r\n" + length + lines + b"\r\n" + timer)
        for what, body in UNCLEAR_CHUNKS.items():
            self.refused(daemon, what, head + b"Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
                         body % (len(timer), timer))
        self.assertEqual(daemon.call("GET", "/v1/timers")[2]["timers"], [])


class TlsTest(TokensCase):
    def use(self, certificate, key=None):
        shutil.copy(self.path(certificate + ".pem"), self.path("server.pem"))
        shutil.copy(self.path((key or certificate) + ".key"), self.path("server.key"))

    def flags(self):
        return ["--tls-certificate", self.path("server.pem"), "--tls-key", self.path("server.key")]

    def connect(self, port, trusted, **options):
        context = ssl.create_default_context(cafile=self.path(trusted + ".pem"))
        for name, value in options.items():
            setattr(context, name, value)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
        self.addCleanup(connection.close)
        connection.connect()
        return connection

    def ask(self, connection, expected=200, method="GET", path="/v1/timers", body=None):
        headers = {**bearer(self.tokens["shop"]), "Content-Type": "application/json"}
        connection.request(method, path, body and json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        self.assertEqual(response.status, expected, answer)
        return answer

    # proves: tls
    def test_the_command_line_and_certificates(self):
        """A private authority is trusted by the flag, by the variables of curl and OpenSSL and by the config file; and each
        thing that can be wrong with the connection is told by its name."""
        self.token("shop", "shop")
        self.write_tokens()
        self.certificate("own")
        self.certificate("other")
        self.use("own")
        daemon = self.start(*self.flags())
        quiet = type("Quiet", (http.server.BaseHTTPRequestHandler,), {"log_message": lambda *_: None})
        plain = http.server.ThreadingHTTPServer(("127.0.0.1", 0), quiet)
        threading.Thread(target=plain.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(plain.server_close)
        self.addCleanup(plain.shutdown)
        url, home = f"https://127.0.0.1:{daemon.port}", self.path("home")
        os.makedirs(os.path.join(home, "tickwheel"))

        def run(*arguments, **more):
            env = {name: value for name, value in os.environ.items() if name not in ("CURL_CA_BUNDLE", "SSL_CERT_FILE")}
            env.update(XDG_CONFIG_HOME=home, TICKWHEEL_TOKEN=self.tokens["shop"], **more)
            done = subprocess.run([harness.find("tickwheel"), "list", *arguments], capture_output=True, text=True, env=env)
            return done.returncode, done.stderr.strip()

        own, other = self.path("own.pem"), self.path("other.pem")
        self.assertEqual(run("--url", url, "--ca-file", own), (0, ""))
        self.assertEqual(run("--url", url, SSL_CERT_FILE=own), (0, ""))
        self.assertEqual(run("--url", url, CURL_CA_BUNDLE=own, SSL_CERT_FILE=other), (0, ""))
        self.assertEqual(run("--url", url, "--ca-file", own, CURL_CA_BUNDLE=other), (0, ""))
        for wrong in ((), ("--ca-file", other)):
            code, told = run("--url", url, *wrong)
            self.assertEqual(code, 6)
            self.assertRegex(told, r"its certificate is not trusted: self.signed certificate.*--ca-file or SSL_CERT_FILE")
        with open(os.path.join(home, "tickwheel", "config"), "w") as file:
            file.write(f"url = {url}\nca_file = {own}\n")
        self.assertEqual(run(), (0, ""))
        self.assertIn("its certificate is not trusted", run(SSL_CERT_FILE=other)[1])
        named = f"localhost:{daemon.port}"
        self.assertIn("localhost", run("--url", f"https://{named}")[1].split("not trusted:")[1])
        self.assertEqual(run("--url", f"http://127.0.0.1:{daemon.port}")[1],
                         f"tickwheel: http://127.0.0.1:{daemon.port}: this port speaks TLS, not plain HTTP: "
                         f"write https://127.0.0.1:{daemon.port}")
        self.assertEqual(run("--url", f"https://127.0.0.1:{plain.server_port}")[1],
                         f"tickwheel: https://127.0.0.1:{plain.server_port}: this port speaks plain HTTP, not TLS: "
                         f"write http://127.0.0.1:{plain.server_port}")
        self.assertIn("is the URL right?", run("--url", f"http://127.0.0.1:{plain.server_port}")[1])
        self.assertIn("no daemon answers at https://127.0.0.1:1", run("--url", "https://127.0.0.1:1")[1])
        self.assertIn("there are no certificates in", run("--ca-file", self.path("own.key"))[1])
        self.assertEqual(run("--ca-file", self.path("none"))[0], 2)

    # proves: tls
    def test_suites_of_tls_1_2(self):
        """Each suite that the client knows is offered alone, to a certificate of its kind."""
        self.token("shop", "shop")
        self.write_tokens()
        accepted, refused = set(), set()
        for name, key in (("ec", ()), ("rsa", ("-newkey", "rsa:2048"))):
            self.certificate(name, *key)
            self.use(name)
            daemon = self.start(*self.flags())
            every = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            every.set_ciphers("ALL:@SECLEVEL=0")
            for suite in {each["name"] for each in every.get_ciphers() if each["protocol"] != "TLSv1.3"}:
                client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                client.maximum_version = ssl.TLSVersion.TLSv1_2
                client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
                client.set_ciphers(suite + ":@SECLEVEL=0")
                with socket.create_connection(("127.0.0.1", daemon.port), timeout=30) as plain:
                    try:
                        client.wrap_socket(plain).close()
                        accepted.add(suite)
                    except OSError:
                        refused.add(suite)
            daemon.signal(signal.SIGTERM)
        refused -= accepted
        self.assertLessEqual({"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"}, accepted)
        for suite in accepted:
            self.assertRegex(suite, "^(ECDHE|DHE)-.*(GCM|CHACHA20|CCM)")
        self.assertLessEqual({"AES128-SHA", "AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA"}, refused)

    # proves: tls
    def test_handshake_reload_and_what_is_refused(self):
        self.token("shop", "shop")
        self.write_tokens()
        self.certificate("one")
        self.certificate("two")
        self.use("one")
        daemon = self.start(*self.flags(), "--shards", "2")
        first = self.connect(daemon.port, "one")
        harness.wait_until(lambda: self.status(first, "/readyz") == 200, 30, "ready")
        self.assertIn(first.sock.version(), ("TLSv1.2", "TLSv1.3"))
        timer = self.ask(first, 201, "POST", body={"after": "1h", "target": TARGET, "payload": "x" * 900000})
        self.assertEqual(self.ask(first, path=f"/v1/timers/{timer['id']}"), timer)  # large, both ways
        self.ask(self.connect(daemon.port, "one", maximum_version=ssl.TLSVersion.TLSv1_2))
        with self.assertRaises(ssl.SSLError):
            self.connect(daemon.port, "two")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that is the point
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", daemon.port)) as plain, self.assertRaises((ssl.SSLError, OSError)):
            old.wrap_socket(plain)
        with self.assertRaises((http.client.HTTPException, OSError)):  # plain HTTP gets no answer
            daemon.call("GET", "/healthz")
        self.use("two")
        self.reload(daemon, what="tls_certificate")
        self.ask(first)  # the same connection
        second = self.connect(daemon.port, "two")
        self.ask(second)
        with self.assertRaises(ssl.SSLError):
            self.connect(daemon.port, "one")
        self.use("one", "two")  # a key that does not belong to it
        self.reload(daemon, "reload_failed", "tls_certificate")
        os.unlink(self.path("server.key"))
        self.reload(daemon, "reload_failed", "tls_certificate")
        self.ask(self.connect(daemon.port, "two"))
        self.ask(first)
        self.lines = []  # a broken certificate does not keep tokens from being withdrawn
        self.token("other", "shop")
        self.write_tokens()
        self.reload(daemon, "reload_failed", "tls_certificate")
        self.ask(second, 401)
        self.assertEqual(daemon.signal(signal.SIGTERM), 0)

    def status(self, connection, path):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        return response.status

    # proves: tls
    def test_a_lease_waits_over_tls(self):
        self.token("shop", "shop")
        self.write_tokens()
        self.certificate("one")
        self.use("one")
        daemon = self.start(*self.flags())
        waiting, other = (self.connect(daemon.port, "one") for _ in range(2))
        harness.wait_until(lambda: self.status(other, "/readyz") == 200, 30, "ready")
        items = []
        worker = threading.Thread(target=lambda: items.extend(self.ask(
            waiting, 200, "POST", "/v1/queues/q/lease", {"max": 1, "wait": "20s"})["items"]))
        worker.start()
        self.ask(other, 201, "POST", body={"after": "100ms", "target": "queue:q", "payload": 7})
        worker.join()
        self.assertEqual([item["payload"] for item in items], [7])


class ListeningTest(TokensCase):
    def run_daemon(self, *flags):
        """A start that is expected to be refused."""
        return subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder", self.path("data"),
                               *flags], capture_output=True, text=True, timeout=60, check=False)

    def listens(self, *flags):
        program = harness.Program([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder",
                                   self.path("data"), *flags])
        self.addCleanup(program.close)
        program.find_in_output("event=ready")
        self.assertEqual(program.signal(signal.SIGTERM), 0)
        return program.output()

    # proves: tls
    def test_beyond_loopback_only_with_tokens(self):
        self.token("shop", "shop")
        self.write_tokens()
        for address in ("0.0.0.0", "::", "192.0.2.1"):
            done = self.run_daemon("--listen-address", address)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.count("\n"), 1)
            for hint in (f"listen_address: {address} is not loopback", "set tokens_file", "tls_certificate",
                         "listen_unprotected = yes"):
                self.assertIn(hint, done.stderr)
        self.assertNotIn("event=unencrypted", self.listens("--listen-address", "127.0.0.2"))
        self.assertIn("event=unencrypted", self.listens("--listen-address", "0.0.0.0", "--tokens-file",
                                                        self.path("tokens")))
        self.listens("--listen-address", "0.0.0.0", "--listen-unprotected", "yes")

    def test_what_cannot_be_read_is_said_at_the_start(self):
        with open(self.path("empty"), "w", encoding="utf-8"):
            pass
        with open(self.path("wrong"), "w", encoding="utf-8") as file:
            file.write("# fine\n\ntoken shop schedule,write sha256:00\n")
        for flags, hint in ((["--tokens-file", self.path("missing")], "tokens_file: "),
                            (["--tokens-file", self.path("empty")], "there is no token in it"),
                            (["--tokens-file", self.path("wrong")], "wrong:3: the scopes are"),
                            (["--tls-key", self.path("empty")], "tls_key: set tls_certificate too"),
                            (["--tls-certificate", self.path("empty")], "tls_certificate: set tls_key too"),
                            (["--tls-certificate", self.path("empty"), "--tls-key", self.path("empty")],
                             "tls_certificate and tls_key: ")):
            for check in ([], ["--check-config"]):
                done = self.run_daemon(*flags, *check)
                self.assertEqual(done.returncode, 2, done)
                self.assertIn(hint, done.stderr)

    def test_make_token(self):
        token, line = make_token("shop", "read")
        self.assertRegex(token, r"\Atw_[A-Za-z0-9_-]{43}\Z")
        self.assertRegex(line, r"\Atoken shop read sha256:[0-9a-f]{64}\Z")
        self.assertEqual(make_token("shop")[1].split()[2], "schedule,read")
        self.assertNotEqual(make_token("shop")[0], make_token("shop")[0])
        for arguments in ([], ["a b"], ["shop", "all"], ["shop", ""], ["shop", "read", "x"], ["x" * 65]):
            done = subprocess.run([harness.find("tickwheeld"), "--make-token", *arguments], capture_output=True,
                                  text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertTrue(re.match(r"tickwheeld: .+\n\Z", done.stderr), done.stderr)

    def test_make_webhook_key(self):
        """The key that is printed is good for webhook_secret, and each is another."""
        made = [subprocess.run([harness.find("tickwheeld"), "--make-webhook-key"], capture_output=True, text=True,
                               check=True).stdout for _ in range(2)]
        self.assertNotEqual(*made)
        private, public = made[0].split("\n", 1)
        self.assertRegex(made[0], r"\Awhsk_[A-Za-z0-9+/]{86}==\nwhpk_[A-Za-z0-9+/]{43}=\n\Z")
        self.assertEqual(base64.b64decode(private[5:])[32:], base64.b64decode(public[5:]))
        self.assertEqual(self.run_daemon("--webhook-secret", private, "--check-config").returncode, 0)
        done = self.run_daemon("--webhook-secret", public.strip(), "--check-config")
        self.assertEqual(done.returncode, 2)
        self.assertNotIn(public[5:20], done.stderr)
        done = subprocess.run([harness.find("tickwheeld"), "--make-webhook-key", "x"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
