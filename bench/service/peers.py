"""The servers that the service is measured beside, each on a free port with a folder of its own."""

import os
import shutil
import signal
import socket
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "support"))
import broker_servers
import harness
import postgres_servers


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


class Own(harness.Program):
    """A server with a folder of its own, which goes with it."""

    def __init__(self, name, command, enter=None):
        super().__init__(command, enter=enter)
        self.name = name

    def until_open(self):
        def attempt():
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.output()}")
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return True
            except ConnectionRefusedError:
                return False
        harness.wait_until(attempt, 60, self.name)

    def close(self):
        self.signal(signal.SIGTERM)
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Floor(Own):
    """log_floor: one thread, epoll, a log with fdatasync."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-floor-")
        super().__init__("log_floor", [harness.find("log_floor"), os.path.join(self.folder, "log")])
        self.port = self.find_port(r"port (\d+)")


class Nginx(Own):
    """HTTP alone: one worker that answers 201 to everything."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-nginx-")
        self.port = broker_servers.free_port()
        with open(f"{self.folder}/conf", "w", encoding="ascii") as file:
            file.write(f"""daemon off; worker_processes 1; pid {self.folder}/pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; server {{ listen 127.0.0.1:{self.port} backlog=1024;
location / {{ default_type application/json; return 201 '{{"id":"06gvnv4rh00000000400000000"}}'; }} }} }}
""")
        super().__init__("nginx", ["nginx", "-p", self.folder, "-c", f"{self.folder}/conf"])
        self.until_open()


class Postgres(postgres_servers.Postgres):
    """A server with a table of timers, which has an index on the due time."""

    TABLE = ("CREATE TABLE timers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, due bigint NOT NULL, "
             "target text NOT NULL, payload text NOT NULL); CREATE INDEX ON timers (due);")

    programs = staticmethod(postgres_servers.programs)

    def __init__(self):
        super().__init__(["shared_buffers=256MB", "max_wal_size=4GB"])

    def start(self, seconds=60):
        super().start(seconds)
        self.ask(self.TABLE)
