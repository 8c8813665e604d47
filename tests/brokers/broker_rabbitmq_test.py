#!/usr/bin/env python3
"""RabbitMQ, against a real server that is stopped in the middle. See broker_scenario.py."""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers

QUICK = {"max_attempts": 2, "base": "10ms", "cap": "20ms"}


class RabbitmqTest(broker_scenario.Scenario):
    server_class = broker_servers.Rabbitmq
    patience = "5s"

    def refused_targets(self):
        return [("amqp://main/queue", "/ is missing"), ("amqp://main//", "neither"),
                ("amqp://main/e/k?key=1", "no key")]

    def test_what_no_queue_takes(self):
        """Goal: a message that cannot be routed is refused for good, whether there is no queue behind the
        exchange or no exchange; those beside it arrive."""
        self.broker.start()
        self.broker.tool("exchange", "shop", "timers", "a/b c")
        daemon = self.start()
        wrong = [(self.create(daemon, after=0, target=target, retry=QUICK), reason) for _ in range(20)
                 for target, reason in [("amqp://main//nobody", "no queue takes it: NO_ROUTE"),
                                        ("amqp://main/shop/nobody", "NO_ROUTE"),
                                        ("amqp://main/nowhere/a", "NOT_FOUND - no exchange 'nowhere'")]]
        right = [self.create(daemon, after=0, target="amqp://main/shop/a%2Fb%20c", retry=QUICK)
                 for _ in range(20)]
        for timer, reason in wrong:
            over = self.wait_until_over(daemon, timer, "dead")
            self.assertIn(reason, over["last_error"])
            self.assertEqual(over["attempts"], 1)
        for timer in right:
            self.wait_until_over(daemon, timer, "fired")
        self.assertEqual(len(self.broker.received()), 20)

    def test_an_exchange_that_goes_away(self):
        """Goal: an exchange that was there, and whose loss closes the channel, does not stop the others."""
        self.broker.start()
        self.broker.tool("exchange", "shop", "timers", "a")
        daemon = self.start()
        self.wait_until_over(daemon, self.create(daemon, after=0, target="amqp://main/shop/a"), "fired")
        self.broker.tool("delete", "shop")
        wrong = [self.create(daemon, after=0, target="amqp://main/shop/a", retry=QUICK) for _ in range(50)]
        right = [self.create(daemon, after=0, retry={"base": "10ms", "cap": "1s"}) for _ in range(50)]
        for timer in right:
            self.wait_until_over(daemon, timer, "fired")
        for timer in wrong:
            self.assertIn("NOT_FOUND", self.wait_until_over(daemon, timer, "dead")["last_error"])

    def test_a_queue_that_is_full(self):
        """Goal: what the queue refuses for now is tried again."""
        self.broker.start()
        self.broker.tool("queue", "small", "1")
        daemon = self.start()
        target = "amqp://main//small"
        self.wait_until_over(daemon, self.create(daemon, after=0, target=target), "fired")
        more = [self.create(daemon, after=0, target=target, retry=QUICK) for _ in range(5)]
        for timer in more:
            over = self.wait_until_over(daemon, timer, "dead")
            self.assertEqual((over["attempts"], over["last_error"]), (2, "the broker did not take it (nack)"))

    def test_wrong_password(self):
        """Goal: a login that is refused shows in the log, without the password."""
        self.broker.start()
        daemon = self.enterContext(broker_scenario.harness.Daemon(
            self.data, "--broker-connections", f"main=amqp://guest:hush@127.0.0.1:{self.broker.port}"))
        daemon.find_in_output("event=broker_unreachable broker=main kind=amqp cause=.*ACCESS_REFUSED")
        self.assertNotIn("hush", daemon.output())

    def test_tls(self):
        """Goal: see check_tls. Not trusted: another authority, and a name that is not in the certificate."""
        server = broker_servers.RabbitmqTls()
        other = broker_servers.Certificates(self.enterContext(tempfile.TemporaryDirectory()))
        self.check_tls(server, server.target(), f"amqps://localhost:{server.tls_port}?cacert={other.authority}",
                       server.url().replace("localhost", "127.0.0.1"))


if __name__ == "__main__":
    broker_scenario.main(RabbitmqTest, broker_servers.Rabbitmq)
