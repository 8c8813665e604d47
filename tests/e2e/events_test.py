#!/usr/bin/env python3
"""GET /v1/events beside the real daemon: what happens is seen once, in order and durable; filters, going on behind an event,
a client that is slow, tenants that see nothing of each other, and a stop."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness
from daemon_case import DaemonCase, TokensCase, bearer


class Stream:
    """A client of server-sent events."""

    def __init__(self, daemon, query="", headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=harness.PATIENCE_S)
        self.connection.request("GET", "/v1/events" + query, headers=headers or {})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.getheader("Content-Type") == "text/event-stream"
        assert self.response.readline() == b"retry: 1000\n" and self.response.readline() == b"\n"

    def next(self):
        """(type, name, data) of the next event; None at the end."""
        fields = {}
        for line in iter(self.response.readline, b""):
            if line == b"\n":
                if fields:
                    return fields["event"], fields.get("id"), json.loads(fields["data"])
            elif not line.startswith(b":"):
                name, _, value = line.decode().rstrip("\n").partition(": ")
                fields[name] = value
        return None

    def until(self, kind, timer):
        """The types of a timer's events up to one of this type."""
        seen = []
        while not seen or seen[-1] != kind:
            event, _, data = self.next()
            if data.get("timer", {}).get("id") == timer["id"]:
                seen.append(event)
        return seen

    def close(self):
        self.response.close()
        self.connection.close()


NGINX = """
daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off; gzip on;
    client_body_temp_path {folder}/1; proxy_temp_path {folder}/2; fastcgi_temp_path {folder}/3;
    uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
    server {{ listen unix:{folder}/socket; location / {{ proxy_pass http://127.0.0.1:{port}; }} }}
}}
"""


class BehindNginx(DaemonCase):
    # proves: events-proxy
    def test_each_event_is_passed_on_at_once(self):
        """nginx with its defaults, as Debian sets them."""
        if not shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin"):
            self.skipTest("nginx is not installed")
        folder = tempfile.mkdtemp(prefix="tickwheel-nginx-")
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "nginx.conf"), "w", encoding="utf-8") as file:
            file.write(NGINX.format(folder=folder, port=self.daemon.port))
        proxy = subprocess.Popen(["nginx", "-p", folder, "-c", "nginx.conf", "-e", os.path.join(folder, "error.log")],
                                 env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"})
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.terminate)
        path = os.path.join(folder, "socket")
        harness.wait_until(lambda: os.path.exists(path), 20, "nginx")
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.settimeout(harness.PATIENCE_S)
        client.connect(path)
        client.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n\r\n")
        head = client.recv(65536)
        while b"retry: 1000" not in head:
            head += client.recv(65536)
        self.assertIn(b"no-transform", head)
        for _ in range(3):
            timer = self.create(target="queue:q", after="1h")
            text = b""
            while timer["id"].encode() not in text:
                text += client.recv(65536)


class EventsTest(DaemonCase):
    def watch(self, query="", headers=None):
        stream = Stream(self.daemon, query, headers)
        self.addCleanup(stream.close)
        return stream

    # proves: events
    def test_what_happens_is_seen(self):
        stream = self.watch()
        timer = self.create(key="order-1", labels={"team": "a"}, payload={"n": 1})
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}", {"after": "2h"})
        self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        event, name, data = stream.next()
        self.assertEqual((event, data["type"]), ("created", "created"))
        self.assertRegex(name, r"\A[0-9a-f]{16}-[0-9a-f]{16}\Z")
        shown = {key: value for key, value in timer.items() if key != "payload"}
        self.assertEqual(data["timer"], shown)
        self.assertEqual(stream.until("cancelled", timer), ["changed", "cancelled"])
        paused = self.create()
        self.call(200, "POST", f"/v1/timers/{paused['id']}/pause", {})
        self.call(200, "POST", f"/v1/timers/{paused['id']}/resume", {})
        self.assertEqual(stream.until("resumed", paused), ["created", "paused", "resumed"])
        fired = self.create(after=0)
        self.assertEqual(stream.until("fired", fired), ["created", "fired"])
        dead = self.create("/gone", after=0)
        self.assertEqual(stream.until("dead", dead), ["created", "dead"])
        self.call(200, "POST", "/v1/dead/redrive", {"ids": [dead["id"]]})
        self.assertEqual(stream.until("dead", dead), ["redriven", "dead"])
        self.call(200, "DELETE", f"/v1/dead/{dead['id']}")
        self.assertEqual(stream.until("deleted", dead), ["deleted"])
        retried = self.create("/status/500", after=0, retry={"max_attempts": 2, "base": "1ms"})
        self.assertEqual(stream.until("dead", retried), ["created", "retried", "dead"])
        repeats = self.create("/status/500", every="50ms", retry={"max_attempts": 1})
        self.assertEqual(stream.until("failed", repeats), ["created", "failed"])

    # proves: events-filters
    def test_filters(self):
        origin = self.receiver.url("").rstrip("/")
        streams = {query: self.watch("?" + query) for query in (
            "label=team:a&label=all:x", f"target={self.receiver.url('/b')}", "key_prefix=order-", "origin=queue:mail",
            f"origin={origin}&type=cancelled&type=fired")}
        a = self.create(labels={"team": "a", "all": "x"})
        self.create(labels={"team": "a"})
        b = self.create("/b")
        order = self.create(key="order-1")
        mail = self.create(target="queue:mail?priority=3")
        self.call(200, "DELETE", f"/v1/timers/{mail['id']}")
        self.call(200, "DELETE", f"/v1/timers/{b['id']}")
        for stream, timer in zip(streams.values(), (a, b, order, mail, b)):
            event, _, data = stream.next()
            self.assertEqual(data["timer"]["id"], timer["id"])
            self.assertEqual(event, "cancelled" if stream is list(streams.values())[-1] else "created")
        for wrong in ("type=gone", "label=x", "target=", "state=dead", "key_prefix=a&key_prefix=b"):
            self.call(422, "GET", f"/v1/events?{wrong}")

    def of_none(self, stream):
        """The type and the other members of the next event, which is of no timer."""
        event, name, data = stream.next()
        self.assertRegex(name, r"\A[0-9a-f]{16}-[0-9a-f]{16}\Z")
        self.assertEqual(data.pop("type"), event)
        self.assertRegex(data.pop("at"), r"\A\d{4}-.*Z\Z")
        return event, data

    # proves: events-holds
    def test_what_holds_deliveries_back_is_seen(self):
        stream, labelled = self.watch(), self.watch("?label=team:a")
        resets = self.watch("?type=target-reset&type=maintenance-ended")
        until = {"until": "2099-01-01T00:00:00.000Z", "note": "a deploy"}
        target = "https://shop.example"
        for place, name, kind in (("queues/mail", "mail", "queue"), ("targets/https%3A%2F%2Fshop.example", target, "target")):
            for body in (until, {}):  # a second pause keeps its beginning
                paused = self.call(200, "POST", f"/v1/{place}/pause", body)[1]
                self.assertEqual(self.of_none(stream), (f"{kind}-paused", paused))
                self.assertEqual(paused["paused"].get("until"), body.get("until"))
            for _ in range(2):  # the second resumes nothing, and is not told
                self.call(200, "POST", f"/v1/{place}/resume")
            self.assertEqual(self.of_none(stream), (f"{kind}-resumed", {"name": name}))
            self.call(422 if kind == "target" else 404, "POST", f"/v1/{place}%2Fx/pause", {})
        self.call(200, "POST", "/v1/targets/https%3A%2F%2Fshop.example/reset")
        for stream_ in (stream, resets):
            self.assertEqual(self.of_none(stream_), ("target-reset", {"name": target, "reset": 0}))
        for note in ("one", "another"):
            self.call(200, "PUT", "/v1/admin/maintenance", {"note": note})
        for _ in range(2):
            self.call(200, "DELETE", "/v1/admin/maintenance")
        self.assertEqual(self.of_none(stream), ("maintenance-begun", {}))
        for stream_ in (stream, resets):
            self.assertEqual(self.of_none(stream_), ("maintenance-ended", {}))
        timer = self.create(labels={"team": "a"})
        for stream_ in (stream, labelled):
            self.assertEqual(stream_.next()[2]["timer"]["id"], timer["id"])

    # proves: events-resume, events-lost
    def test_one_goes_on_behind_an_event(self):
        stream = self.watch()
        made = [self.create() for _ in range(5)]
        names = [stream.next()[1] for _ in made]
        stream.close()
        for headers, query in (({"Last-Event-ID": names[1]}, ""), ({}, f"?last_event_id={names[1]}")):
            again = self.watch(query, headers)
            self.assertEqual([again.next()[2]["timer"]["id"] for _ in range(3)], [timer["id"] for timer in made[2:]])
        # A daemon that was started anew knows none of them, and says so.
        self.restart()
        self.watch()
        after = self.watch(headers={"Last-Event-ID": names[4]})
        timer = self.create()
        self.assertEqual(after.next()[0], "lost")
        self.assertEqual(after.next()[2]["timer"]["id"], timer["id"])

    # proves: events-slow, events-lost
    def test_a_slow_client_is_told_and_left(self):
        slow, quick = self.watch(), self.watch("?type=cancelled")
        last = self.create(key="last")
        lines = "".join(json.dumps({"after": "1h", "target": self.receiver.url(), "key": f"{i:0200}", "labels": {"a": "x" * 200}})
                        + "\n" for i in range(12000))
        for round_ in range(3):
            self.call(200, "POST", "/v1/timers/batch", lines.replace('"key": "0', f'"key": "{round_}'),
                      {"Content-Type": "application/x-ndjson"})
        self.call(200, "DELETE", f"/v1/timers/{last['id']}")
        self.assertEqual(quick.next()[2]["timer"]["id"], last["id"])
        seen = []
        while event := slow.next():
            seen.append(event[0])
        self.assertEqual(seen[-1], "lost")
        self.assertEqual(set(seen[:-1]), {"created"})
        self.assertLess(len(seen), 36000)

    # proves: events-stop
    def test_a_stop_ends_streams(self):
        stream = self.watch()
        self.daemon.process.send_signal(signal.SIGTERM)
        self.assertIsNone(stream.next())
        self.assertEqual(self.daemon.process.wait(harness.PATIENCE_S), 0)


class PipelineTest(DaemonCase):
    # proves: events
    def test_nothing_follows_a_stream(self):
        """A request behind that for a stream on one connection is not answered into the stream."""
        with socket.create_connection(("127.0.0.1", self.daemon.port), 20) as client:
            client.sendall(b"".join(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path
                                    for path in (b"/v1/timers", b"/v1/events?type=created", b"/v1/timers")))
            got = b""
            while b"retry: " not in got:
                got += client.recv(65536)
            self.create()
            while b"event: created" not in got:
                got += client.recv(65536)
        self.assertEqual(got.count(b"HTTP/1.1 200"), 2)


class TenantsTest(TokensCase):
    # proves: events-tenant
    def test_a_tenant_sees_its_own_alone(self):
        for name, tenant in (("a", "one"), ("b", "two")):
            self.token(name, tenant, "schedule,read")
        self.token("c", "two", "schedule")
        self.write_tokens()
        daemon = self.start()
        own, other = bearer(self.tokens["a"]), bearer(self.tokens["b"])
        stream, strange = Stream(daemon, headers=own), Stream(daemon, headers=other)
        self.addCleanup(stream.close)
        self.addCleanup(strange.close)
        made = [daemon.call("POST", "/v1/timers", {"after": "1h", "target": "queue:mail", "key": f"k{i}"}, own)[2]
                for i in range(3)]
        theirs = daemon.call("POST", "/v1/timers", {"after": "1h", "target": "queue:mail", "key": "k0"}, other)[2]
        seen = [stream.next() for _ in made]
        self.assertEqual([data["timer"]["id"] for _, _, data in seen], [timer["id"] for timer in made])
        event, name, data = strange.next()
        self.assertEqual((event, data["timer"]["id"]), ("created", theirs["id"]))
        # Another tenant's event is a place to go on from, and nothing more.
        from_theirs = Stream(daemon, headers={**own, "Last-Event-ID": name})
        self.addCleanup(from_theirs.close)
        mine = daemon.call("POST", "/v1/timers", {"after": "1h", "target": "queue:mail"}, own)[2]
        self.assertEqual(from_theirs.next()[2]["timer"]["id"], mine["id"])
        self.assertEqual(daemon.call("GET", "/v1/events", None, bearer(self.tokens["c"]))[0], 403)
        self.assertEqual(daemon.call("GET", "/v1/events")[0], 401)


if __name__ == "__main__":
    unittest.main()
