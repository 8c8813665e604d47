"""The job queues that the service is measured beside, each on a free port with a folder of its own."""

import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "support"))
import broker_servers
import harness


class Beanstalkd(harness.Program):
    """beanstalkd; without a folder it keeps its jobs in memory only."""

    def __init__(self, folder, flags=()):
        self.port = broker_servers.free_port()
        kept = ["-b", folder] if folder else []
        super().__init__(["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port), *kept, *flags])

    def connect(self):
        def attempt():
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except ConnectionRefusedError:
                return None
        return harness.wait_until(attempt, 60, "beanstalkd")


class Redis(broker_servers.Redis):
    """redis-server with its append-only file, synced each second or always."""

    def __init__(self, fsync):
        super().__init__()
        self.fsync = fsync

    def command(self):
        return [*super().command(), "--appendfsync", self.fsync]
