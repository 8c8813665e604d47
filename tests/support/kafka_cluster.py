"""A cluster of Apache Kafka for tests: three brokers, each a controller too or beside three controllers, on free ports of
loopback, ended by their process ids. A broker can be killed, stopped with SIGSTOP and started again on its port and folder."""

import os
import signal
import socket
import struct
import subprocess

import broker_servers
import harness


FIRST_CONTROLLER = 101
PROPERTIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "packaging", "cluster", "broker.properties")


def broker_properties():
    """The settings that docs/cluster.md wants of brokers."""
    with open(PROPERTIES, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


class Member(broker_servers.Kafka):
    """One of the brokers."""

    def __init__(self, number, session_timeout_ms):
        super().__init__()
        self.number, self.session_timeout_ms, self.controllers = number, session_timeout_ms, []

    def java(self, *arguments):
        return [word if word != "-Xmx512m" else "-Xmx384m" for word in super().java(*arguments)]

    def settings(self):
        settings = {
            **super().settings(), **broker_properties(), "node.id": self.number,
            "controller.quorum.voters": ",".join(f"{member.number}@{member.address}:{member.controller_port}"
                                                 for member in self.controllers),
            "broker.session.timeout.ms": self.session_timeout_ms}
        if self not in self.controllers:
            settings.update({"process.roles": "broker", "listeners": settings["advertised.listeners"]})
        return settings

    def answers(self, port):
        try:
            with socket.create_connection((self.address, port), 1):
                return True
        except OSError:
            return False

    def is_ready(self):
        return self.answers(self.port)

    def knows(self):
        """How many brokers it tells a client of: the answer to a request for the metadata of no topic (version 1)."""
        request = struct.pack(">hhihi", 3, 1, 1, -1, 0)
        try:
            with socket.create_connection((self.address, self.port), 5) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                head = connection.makefile("rb").read(12)
        except OSError:
            return 0
        return struct.unpack(">iii", head)[2] if len(head) == 12 else 0


class Controller(Member):
    """A controller that is no broker."""

    def settings(self):
        settings = {**super().settings(), "process.roles": "controller",
                    "listeners": f"CONTROLLER://{self.address}:{self.controller_port}"}
        del settings["advertised.listeners"]
        return settings

    def is_ready(self):
        return self.answers(self.controller_port)


class KafkaCluster:
    """Used with `with`. A dead broker is given up by the controllers after `session_timeout_ms`: 9000 is Kafka's default.
    `controllers`: how many are no brokers; 0: each broker is one. `address` and `under`: where all of them listen, and the
    program that runs them, such as one of a namespace. `members`: brokers that the caller has made."""

    missing = staticmethod(broker_servers.Kafka.missing)

    def __init__(self, session_timeout_ms=3000, count=3, address="127.0.0.1", under=(), members=None, controllers=0):
        self.members = members or [Member(number, session_timeout_ms) for number in range(1, count + 1)]
        self.own = [Controller(FIRST_CONTROLLER + number, session_timeout_ms) for number in range(controllers)]
        for each in self.all():
            each.controllers = self.own or self.members
            each.address, each.under = address, under

    def all(self):
        return self.own + self.members

    def brokers(self):
        return ",".join(f"{member.address}:{member.port}" for member in self.members)

    def start(self, index, seconds=120):
        self.members[index].start(seconds)

    def kill(self, index):
        self.members[index].stop(signal.SIGKILL)

    def freeze(self, index):
        self.members[index].process.send_signal(signal.SIGSTOP)

    def thaw(self, index):
        self.members[index].process.send_signal(signal.SIGCONT)

    def states(self, topic):
        """(leader, replicas in sync) of each partition, as the brokers say."""
        rows = sorted(tuple(map(int, line.split())) for line in self.tool("leaders", topic).splitlines())
        return [(leader, count) for _, leader, count in rows]

    def leader(self, topic, partition):
        """The index of the broker that leads the partition; None: none does."""
        states = self.states(topic)
        return states[partition][0] - 1 if partition < len(states) and states[partition][0] > 0 else None

    def in_sync(self, topic):
        """How many replicas of each partition are in sync."""
        return [count for _, count in self.states(topic)]

    def tool(self, verb, *arguments):
        done = subprocess.run([harness.find("kafka_tool"), verb, self.brokers(), *arguments],
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def __enter__(self):
        try:
            for each in self.all():  # each needs another one to be ready: none is awaited before all are there
                each.launch()
            for each in self.all():
                each.await_ready(240)
            for member in self.members:
                harness.wait_until(lambda member=member: member.knows() == len(self.members), 60,
                                   "brokers that know each other")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for each in self.all():
            if each.process:
                each.process.send_signal(signal.SIGCONT)
            each.__exit__()
