#!/usr/bin/env python3
"""Redis Streams, against a real redis-server that is killed in the middle. See broker_scenario.py."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers


class RedisTest(broker_scenario.Scenario):
    server_class = broker_servers.Redis

    def stop_broker(self):
        self.broker.stop(signal.SIGKILL)

    def refused_targets(self):
        return [("redis://main/", "names no stream"), ("redis://main/s?key=1", "no key")]

    def test_a_name_that_is_no_stream(self):
        """Goal: what will never work is a dead letter at once, and says why; others go on."""
        self.broker.start()
        self.broker.ask("SET", "taken", "1")
        daemon = self.start()
        wrong = self.create(daemon, after=0, target=self.broker.target("taken"))
        right = self.create(daemon, after=0)
        self.assertIn("WRONGTYPE", self.wait_until_over(daemon, wrong, "dead")["last_error"])
        self.wait_until_over(daemon, right, "fired")

    def test_login_database_and_trimming(self):
        """Goal: user, password, database and maxlen of the connection's URL are used; names are decoded."""
        self.broker.start()
        self.broker.ask("ACL", "SETUSER", "al@ice", "on", ">p:w/1", "~*", "+@all")
        daemon = self.enterContext(broker_scenario.harness.Daemon(
            self.data, "--broker-connections",
            f"main=redis://al%40ice:p%3Aw%2F1@127.0.0.1:{self.broker.port}/3?maxlen=1"))
        timers = [self.create(daemon, after=0, target=self.broker.target("a%20b/c")) for _ in range(500)]
        for timer in timers:
            self.wait_until_over(daemon, timer, "fired")
        count = self.broker.ask_all([("SELECT", 3), ("XLEN", "a b/c")])[1]
        self.assertTrue(1 <= count < 500, count)

    def test_wrong_password(self):
        """Goal: a login that is refused shows in the log and in the timer, without the password."""
        self.broker.start()
        self.broker.ask("CONFIG", "SET", "requirepass", "right")
        daemon = self.enterContext(broker_scenario.harness.Daemon(
            self.data, "--broker-connections", f"main=redis://:hush@127.0.0.1:{self.broker.port}"))
        daemon.find_in_output("event=broker_unreachable broker=main kind=redis cause=.*WRONGPASS")
        self.assertNotIn("hush", daemon.output())

    # proves: broker-reload
    def test_other_connections_after_sighup(self):
        """Goal: SIGHUP reads broker_connections_file again: new timers go to the broker that it names, under its password, and
        a connection that it has no more is refused. A file that is wrong changes nothing."""
        self.broker.start()
        path = os.path.join(self.broker.folder, "connections")

        def write(*lines):
            with open(path, "w") as file:
                file.write("".join(f"{line}\n" for line in lines))

        def reload(event):
            count = daemon.output().count(f"event={event} what=broker_connections")
            daemon.process.send_signal(signal.SIGHUP)
            broker_scenario.harness.wait_until(
                lambda: daemon.output().count(f"event={event} what=broker_connections") == count + 1, 60, event)
        with broker_servers.Redis() as other:
            other.ask("CONFIG", "SET", "requirepass", "fresh")
            write("# both", f"main=redis://127.0.0.1:{self.broker.port}", f"kept=redis://127.0.0.1:{self.broker.port}/1")
            daemon = self.enterContext(broker_scenario.harness.Daemon(self.data, "--broker-connections-file", path))
            self.wait_until_over(daemon, self.create(daemon, after=0, target=self.broker.target("before")), "fired")
            write("main=fax://127.0.0.1/hush")
            reload("reload_failed")
            self.wait_until_over(daemon, self.create(daemon, after=0, target=self.broker.target("before")), "fired")
            write(f"main=redis://:fresh@127.0.0.1:{other.port}", f"kept=redis://127.0.0.1:{self.broker.port}/1")
            reload("reloaded")
            self.wait_until_over(daemon, self.create(daemon, after=0, target=self.broker.target("after")), "fired")
            self.assertEqual([self.broker.ask("XLEN", name) for name in ("before", "after")], [2, 0])
            self.assertEqual(other.ask_all([("AUTH", "fresh"), ("XLEN", "after")])[1], 1)
            write(f"kept=redis://127.0.0.1:{self.broker.port}/1")
            reload("reloaded")
            status, _, body = daemon.call("POST", "/v1/timers", {"after": 0, "target": self.broker.target("gone")})
            self.assertEqual(status, 422, body)
            for secret in ("fresh", "hush"):
                self.assertNotIn(secret, daemon.output())


if __name__ == "__main__":
    broker_scenario.main(RedisTest, broker_servers.Redis)
