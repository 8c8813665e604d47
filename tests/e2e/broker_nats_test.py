#!/usr/bin/env python3
"""NATS JetStream, against a real nats-server that is stopped in the middle. See broker_scenario.py."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers


class NatsTest(broker_scenario.Scenario):
    server_class = broker_servers.Nats

    def refused_targets(self):
        return [("nats://main/", "no subject"), ("nats://main/a.*", "wildcards"),
                ("nats://main/a..b", "empty part"), ("nats://main/.a", "empty part"),
                ("nats://main/%24JS.API.STREAM.DELETE.timers", "server's own"),
                ("nats://main/a?key=1", "no key"), ("nats://main/a%20b", "blanks")]

    def test_a_subject_without_a_stream(self):
        """Goal: what no stream keeps counts as not delivered, and delays no other."""
        self.broker.start()
        daemon = self.start()
        retry = {"max_attempts": 2, "base": "10ms", "cap": "20ms"}
        wrong = self.create(daemon, after=0, target=self.broker.target("nobody.listens"), retry=retry)
        right = self.create(daemon, after=0)
        self.assertIn("no stream", self.wait_until_over(daemon, wrong, "dead")["last_error"])
        self.wait_until_over(daemon, right, "fired")

    def test_repeats_are_dropped(self):
        """Goal: attempts whose confirmation is lost are one message, for the stream knows their id. The
        confirmation of the first is lost by a time-out that is shorter than any way there and back."""
        self.broker.start()
        daemon = self.start()
        timers = [self.create(daemon, after=0, retry={"timeout": "1ms", "base": "100ms", "cap": "200ms",
                                                      "max_attempts": 100}) for _ in range(300)]
        for timer in timers:
            self.wait_until_over(daemon, timer, "fired")
        received = self.broker.received()
        self.assertEqual(len(received), len(timers))

    def test_too_large(self):
        """Goal: what the server will never take is a dead letter at once."""
        self.broker.flags = ("-c", os.path.join(self.broker.folder, "conf"))
        with open(os.path.join(self.broker.folder, "conf"), "w") as file:
            file.write("max_payload: 8192\nauthorization { user: al, password: \"p@ss\" }\n")
        self.broker.is_ready = lambda: "Server is ready" in self.broker.log()
        self.broker.start()
        daemon = self.enterContext(broker_scenario.harness.Daemon(
            self.data, "--broker-connections", f"main=nats://al:p%40ss@127.0.0.1:{self.broker.port}"))
        wrong = self.create(daemon, after=0, payload="x" * 10000)
        self.assertIn("Payload", self.wait_until_over(daemon, wrong, "dead")["last_error"])

    def test_wrong_password(self):
        """Goal: a login that is refused shows in the log, without the password."""
        self.broker.flags = ("--user", "al", "--pass", "right")
        self.broker.is_ready = lambda: "Server is ready" in self.broker.log()
        self.broker.start()
        daemon = self.enterContext(broker_scenario.harness.Daemon(
            self.data, "--broker-connections", f"main=nats://al:hush@127.0.0.1:{self.broker.port}"))
        daemon.find_in_output("event=broker_unreachable broker=main kind=nats cause=.*uth")
        self.assertNotIn("hush", daemon.output())

    def test_tls(self):
        """Goal: see check_tls. Not trusted: an authority that is not known, and a name that is not in the
        certificate."""
        server = broker_servers.NatsTls()
        self.check_tls(server, server.target(), f"tls://127.0.0.1:{server.port}",
                       server.url().replace("127.0.0.1", "localhost"))


if __name__ == "__main__":
    broker_scenario.main(NatsTest, broker_servers.Nats)
