#!/usr/bin/env python3
"""Goal: a batch shows what its timers would be without making them, and who keeps something in files is noted, kept and
taken only on purpose. Method: the real daemon, tokens of several scopes, and a kill."""

import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from daemon_case import TokensCase, bearer


class Owners(TokensCase):
    def setUp(self):
        super().setUp()
        for name, tenant, scopes in (("all", "acme", "admin,schedule,read"), ("deploy", "acme", "schedule,read"),
                                     ("reader", "acme", "read"), ("other", "other", None)):
            self.token(name, tenant, scopes)
        self.write_tokens()
        self.daemon = self.start()

    # proves: batch-dry-run
    def test_a_batch_without_effect(self):
        def post(lines, query="?dry_run=true", who="all", expected=200):
            status, _, answer = self.daemon.call("POST", "/v1/timers/batch" + query, "\n".join(lines),
                                                 {**bearer(self.tokens[who]), "Content-Type": "application/x-ndjson"})
            self.assertEqual(status, expected, answer)
            return answer if isinstance(answer, list) else [json.loads(line) for line in answer.splitlines()] \
                if isinstance(answer, str) else [answer]
        found = post(['{"every": "60s", "target": "queue:x", "key": "a", "retry": {"base": "1000ms"}}', '{"every": 1}', ""])
        self.assertEqual((found[0]["schedule"], found[0]["retry"]["base"], found[0]["key"]), ({"every": "1m"}, "1s", "a"))
        self.assertEqual((found[1]["line"], found[1]["status"]), (2, 422))
        post(["{}"], "?dry_run=yes", expected=422)
        post(["{}"], "?dry_run=true&restore=true", expected=422)
        post(["{}"], who="reader", expected=403)
        self.assertEqual(self.daemon.call("GET", "/v1/keys/a/timer", None, bearer(self.tokens["all"]))[0], 404)

    # proves: owner-set, owner-fingerprint (at), owner-fingerprint (beyond)
    def test_owners(self):
        def ask(expected, method, thing="", body=None, who="deploy"):
            status, _, answer = self.daemon.call(method, "/v1/owners" + (thing and "/" + thing), body, bearer(self.tokens[who]))
            self.assertEqual(status, expected, answer)
            return answer
        ask(200, "PUT", "flow:a", {"owner": "shop", "fingerprint": "f", "applied": 1})
        self.assertIn("shop", str(ask(422, "PUT", "flow:a", {"owner": "web"})["errors"]))
        ask(200, "PUT", "flow:a", {"owner": "shop", "fingerprint": "g", "applied": 2, "take_over": False})
        ask(403, "PUT", "flow:a", {"owner": "shop"}, who="reader")
        ask(403, "DELETE", "flow:a", who="reader")
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        row = ask(200, "GET", who="reader")["owners"][0]
        self.assertEqual({name: row[name] for name in row if name != "since"},
                         {"kind": "flow", "name": "a", "owner": "shop", "fingerprint": "g", "applied": 2})
        self.assertEqual(ask(200, "PUT", "flow:a", {"owner": "web", "take_over": True})["owner"], "web")
        for thing in ("flow:", "flow", "timer:a", "flow:a%20b", "flow:" + "a" * 65):
            ask(422, "PUT", thing, {"owner": "shop"})
            ask(422, "DELETE", thing)
        for pointer, body in (("#/owner", {}), ("#/owner", {"owner": ""}), ("#/owner", {"owner": "a b"}),
                              ("#/owner", {"owner": "a" * 65}), ("#/owner", {"owner": 1}), ("#/x", {"owner": "web", "x": 1}),
                              ("#/fingerprint", {"owner": "web", "fingerprint": "a" * 129}),
                              ("#/fingerprint", {"owner": "web", "fingerprint": "a b"}),
                              ("#/applied", {"owner": "web", "applied": -1}), ("#/applied", {"owner": "web", "applied": {}}),
                              ("#/applied", {"owner": "web", "applied": "1"}), ("#/applied", {"owner": "web", "applied": 1.5}),
                              ("#/fingerprint", {"owner": "web", "fingerprint": []}), ("#/owner", {"owner": "web\u0000"}), ("#/take_over", {"owner": "web", "take_over": 1})):
            self.assertEqual(ask(422, "PUT", "flow:a", body)["errors"][0]["pointer"], pointer)
        ask(200, "PUT", "flow:" + "a" * 64, {"owner": "a" * 64, "fingerprint": "a" * 128})
        # The wrong field is named, not the missing one.
        for pointer, body in (("#/fingerprint", {"fingerprint": 7}), ("#/applied", {"applied": "x"}), ("#/take_over", {"take_over": 1})):
            self.assertEqual(ask(422, "PUT", "flow:a", body)["errors"][0]["pointer"], pointer)
        ask(200, "DELETE", "flow:a")
        ask(404, "DELETE", "flow:a")

    # proves: owner-set
    def test_the_owner_of_a_named_target_is_changed_by_who_may_define_it(self):
        """Else a token that may not touch it could have the owner's next `apply --prune` delete it, or refuse it."""
        def ask(expected, method, who, body=None):
            status, _, answer = self.daemon.call(method, "/v1/owners/named_target:billing", body, bearer(self.tokens[who]))
            self.assertEqual(status, expected, answer)
            return answer
        self.assertIn("admin", ask(403, "PUT", "deploy", {"owner": "shop"})["detail"])
        self.assertEqual(self.daemon.call("GET", "/v1/owners", None, bearer(self.tokens["all"]))[2], {"owners": []})
        ask(200, "PUT", "all", {"owner": "shop"})
        ask(403, "PUT", "deploy", {"owner": "web", "take_over": True})
        ask(403, "DELETE", "deploy")
        self.assertEqual(self.daemon.call("GET", "/v1/owners", None, bearer(self.tokens["all"]))[2]["owners"][0]["owner"], "shop")
        ask(200, "DELETE", "all")

    def test_versions_of_what_is_owned(self):
        def ask(method, path, body=None):
            status, _, answer = self.daemon.call(method, path, body, bearer(self.tokens["all"]))
            self.assertEqual(status, 200, answer)
            return answer
        for kind, path, body in (("flow", "/v1/flows/a", {"concurrency": 1}), ("calendar", "/v1/calendars/a", ["2099-01-01"])):
            first = ask("PUT", path, body)["version"]
            ask("PUT", f"/v1/owners/{kind}:a", {"owner": "shop", "applied": first})
            row = lambda: next(one for one in ask("GET", "/v1/owners")["owners"] if one["kind"] == kind)
            self.assertEqual((row()["applied"], row()["version"]), (first, first))
            second = ask("PUT", path, body)["version"]
            self.assertGreater(second, first)
            self.assertEqual((row()["applied"], row()["version"]), (first, second))
            ask("DELETE", path)
            self.assertNotIn("version", row())
        status, _, answer = self.daemon.call("GET", "/v1/owners", None, bearer(self.tokens["other"]))
        self.assertEqual((status, answer), (200, {"owners": []}))


if __name__ == "__main__":
    unittest.main()
