#!/usr/bin/env python3
"""A token that is taken away ends what began with it: an event stream, a lease that waits, a batch that is being sent, a
body that comes slowly. A token that stays loses none of them."""

import http.client
import json
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import TokensCase, bearer


class Revoked(TokensCase):
    def setUp(self):
        super().setUp()
        self.token("stays", "a")
        self.token("goes", "a")
        self.write_tokens()
        self.daemon = self.start("--queue-wait-max", "1m")

    def revoke(self):
        self.lines.pop()
        self.write_tokens()
        self.reload(self.daemon)

    def stream(self, name):
        connection = self.daemon.connect()
        connection.request("GET", "/v1/events", headers=bearer(self.tokens[name]))
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        self.assertTrue(response.readline().startswith(b"retry:"))
        return response

    def lease(self, name, results):
        body = {"max": 1, "wait": "50s", "lease": "5s"}
        results[name] = self.daemon.call("POST", "/v1/queues/q/lease", body, bearer(self.tokens[name]))

    def chunk(self, connection, text):
        connection.send(f"{len(text):x}\r\n{text}\r\n".encode())

    def begin_batch(self, name):
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/timers/batch")
        for header in {**bearer(self.tokens[name]), "Content-Type": "application/x-ndjson",
                       "Transfer-Encoding": "chunked"}.items():
            connection.putheader(*header)
        connection.endheaders()
        self.chunk(connection, '{"after":"1h","target":"queue:q"}\n')
        return connection

    # proves: token-reload
    def test_what_lasts_ends_with_its_token(self):
        streams = {name: self.stream(name) for name in self.tokens}
        batches = {name: self.begin_batch(name) for name in self.tokens}
        slow = self.daemon.connect()
        slow.putrequest("POST", "/v1/timers")
        for header in {**bearer(self.tokens["goes"]), "Content-Type": "application/json", "Content-Length": "33"}.items():
            slow.putheader(*header)
        slow.endheaders()
        slow.send(b'{"after":"1h",')
        leases = {}
        threads = [threading.Thread(target=self.lease, args=(name, leases)) for name in self.tokens]
        for thread in threads:
            thread.start()
        workers = lambda: self.daemon.call("GET", "/v1/queues/q", None, bearer(self.tokens["stays"]))[2].get("workers")
        harness.wait_until(lambda: workers() == 2, 10, "two workers")
        live = lambda: self.daemon.call("GET", "/v1/timers", None, bearer(self.tokens["stays"]))[2]["timers"]
        self.revoke()
        harness.wait_until(lambda: "goes" in leases, 10, "the end of the lease")
        self.assertEqual(leases["goes"][0], 401)
        rest = streams["goes"].read()  # returns at the end of the stream
        self.assertNotIn(b"lost", rest)
        slow.send(b'"target":"queue:q"}')
        self.assertEqual(slow.getresponse().status, 401)
        for name, connection in batches.items():
            self.chunk(connection, '{"after":"1h","target":"queue:q"}\n' * 2)
            connection.send(b"0\r\n\r\n")
            lines = [json.loads(line) for line in connection.getresponse().read().splitlines()]
            made = [line for line in lines if "id" in line]
            self.assertEqual(len(made), 1 if name == "goes" else 3, lines)
            self.assertEqual("unauthenticated" in json.dumps(lines[-1]), name == "goes")
        self.assertEqual(len(live()), 4)
        status, _, _ = self.daemon.call("POST", "/v1/timers", {"after": 0, "target": "queue:q"}, bearer(self.tokens["stays"]))
        self.assertEqual(status, 201)
        for thread in threads:
            thread.join()
        self.assertEqual((leases["stays"][0], len(leases["stays"][2]["items"])), (200, 1))
        harness.wait_until(lambda: streams["stays"].readline().startswith(b"event: fired") or True, 10, "an event")


if __name__ == "__main__":
    unittest.main(verbosity=2)
