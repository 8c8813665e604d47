"""The servers that the service is measured beside, each on a free port with a folder of its own."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

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


class Postgres(Own):
    """A cluster of its own with a table of timers, which has an index on the due time. It refuses to run as root."""

    TABLE = ("CREATE TABLE timers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, due bigint NOT NULL, "
             "target text NOT NULL, payload text NOT NULL); CREATE INDEX ON timers (due);")

    @staticmethod
    def programs():
        """The folder of the newest version that is installed; None: there is none."""
        versions = "/usr/lib/postgresql"
        found = sorted(os.listdir(versions), key=int) if os.path.isdir(versions) else []
        return os.path.join(versions, found[-1], "bin") if found else None

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-postgresql-")
        self.port = broker_servers.free_port()
        os.chmod(self.folder, 0o755)
        if os.geteuid() == 0:
            os.chown(self.folder, pwd.getpwnam("postgres").pw_uid, -1)
        self.run("initdb", "-D", f"{self.folder}/data", "-A", "trust", "-U", "postgres")
        super().__init__("PostgreSQL", [
            f"{self.programs()}/postgres", "-D", f"{self.folder}/data", "-k", self.folder, "-p", str(self.port),
            "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB"], self.enter)
        self.until_open()

        def answers():
            try:
                self.run("psql", "-c", "SELECT 1", *self.address())
                return True
            except subprocess.CalledProcessError:
                return False
        harness.wait_until(answers, 60, "PostgreSQL")
        self.run("psql", "-c", self.TABLE, *self.address())

    def address(self):
        return "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-q"

    @staticmethod
    def enter():
        os.chdir("/")
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)

    def run(self, program, *arguments):
        subprocess.run([f"{self.programs()}/{program}", *arguments], check=True, capture_output=True,
                       preexec_fn=self.enter, timeout=120)

    def signal(self, number, seconds=60):
        # SIGTERM waits for the clients to leave.
        return super().signal(signal.SIGINT if number == signal.SIGTERM else number, seconds)
