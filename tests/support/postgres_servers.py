"""Real PostgreSQL servers for tests and benchmarks: each on a free port of loopback, with a folder of its own, ended by its
process id.

    with Postgres() as primary, primary.standby() as standby:
        primary.ask("SELECT 1")
        primary.stop(signal.SIGKILL)
        standby.promote()

As a program it runs a command with a server beside it, whose URI is in the variable POSTGRES_URI; without PostgreSQL the
command runs without that variable:

    postgres_servers.py COMMAND...

POSTGRES_BIN names the folder of the programs of another version than Debian's.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import broker_servers
import harness

USER = "tickwheel"  # owns the database and is no superuser


def programs():
    """The folder of the newest version that is installed, or that POSTGRES_BIN names; None if there is none."""
    return os.environ.get("POSTGRES_BIN") or installed()


def installed():
    versions = "/usr/lib/postgresql"
    found = sorted(os.listdir(versions), key=int) if os.path.isdir(versions) else []
    return os.path.join(versions, found[-1], "bin") if found else None


def missing():
    if not programs():
        return "PostgreSQL is not installed"
    if os.geteuid() == 0 and not any(user.pw_name == "postgres" for user in pwd.getpwall()):
        return "PostgreSQL refuses root, and there is no user postgres"
    return None


def leave_root():
    """The servers refuse to run as root."""
    os.chdir("/")
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)


def give(path):
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(path, user.pw_uid, user.pw_gid)


def run(program, *arguments, seconds=120, **more):
    path = os.path.join(programs(), program)
    if not os.path.exists(path):  # a version without clients
        path = os.path.join(installed(), program)
    done = subprocess.run([path, *arguments], capture_output=True, text=True,
                          preexec_fn=leave_root, timeout=seconds, stdin=subprocess.DEVNULL, **more)
    if done.returncode:
        raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


class Postgres(broker_servers.Server):
    """A server with a database of an ordinary user. The superuser is `postgres`."""

    kind = "postgres"
    missing = staticmethod(missing)

    def __init__(self, settings=(), certificates=None, user=USER, password=None, address="127.0.0.1", under=()):
        super().__init__()
        self.address, self.under = address, tuple(under)  # where it listens, and the program that runs it, as of a namespace
        self.settings = list(settings)
        self.user, self.password, self.certificates = user, password, certificates
        self.database = user
        self.data = os.path.join(self.folder, "data")
        give(self.folder)
        try:
            self.make_data()
        except BaseException:
            self.__exit__()
            raise

    def make_data(self):
        run("initdb", "-D", self.data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync")
        method = "scram-sha-256" if self.password else "trust"
        kind = "hostssl" if self.certificates else "host"
        with open(f"{self.data}/pg_hba.conf", "w") as file:
            file.write("local all all trust\nlocal replication all trust\n"
                       "host all postgres 127.0.0.1/32 trust\n"
                       "host replication postgres 0.0.0.0/0 trust\n"
                       f"{kind} all all 0.0.0.0/0 {method}\n")
        if self.certificates:
            for source, name in ((self.certificates.certificate, "server.crt"), (self.certificates.key, "server.key")):
                shutil.copy(source, f"{self.data}/{name}")
                os.chmod(f"{self.data}/{name}", 0o600)
                give(f"{self.data}/{name}")

    def command(self):
        tls = ["ssl=on"] if self.certificates else []
        settings = [f"listen_addresses={self.address}", "max_wal_size=2GB", "wal_level=replica", "max_wal_senders=8",
                    "hot_standby=on", *tls, *self.settings]
        become = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups") if self.under else ()
        return [*self.under, *become, f"{programs()}/postgres", "-D", self.data, "-k", self.folder, "-p", str(self.port),
                *(word for setting in settings for word in ("-c", setting))]

    def launch(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            preexec_fn=None if self.under else leave_root, cwd="/", start_new_session=True)
        harness.started.append(self.process)

    def has_started(self, seconds):
        """False if a session that began while the server was killed has not noticed yet."""
        try:
            super().start(seconds)
            return True
        except RuntimeError as error:
            if "pre-existing shared memory" not in str(error):
                raise
            return False

    def start(self, seconds=60):
        harness.wait_until(lambda: self.has_started(seconds), seconds, "the server starts")
        if not self.is_standby() and not self.ask(f"SELECT 1 FROM pg_roles WHERE rolname = '{self.user}'"):
            secret = f" PASSWORD '{self.password}'" if self.password else ""
            self.ask(f'CREATE ROLE "{self.user}" LOGIN{secret}')
            self.ask(f'CREATE DATABASE "{self.database}" OWNER "{self.user}"')

    def __enter__(self):
        try:
            return super().__enter__()
        except BaseException:
            self.__exit__()
            raise

    def stop(self, number=signal.SIGINT, seconds=60):
        """SIGINT ends the connections; SIGTERM would wait for the clients to leave."""
        number = signal.SIGINT if number == signal.SIGTERM else number
        if self.process and self.process.poll() is None:
            if number == signal.SIGKILL:
                return self.kill()  # kill -9 of the first process alone would leave the others for a moment
            self.process.send_signal(number)
            self.process.wait(seconds)
        return None

    def backends(self):
        """The processes of the server besides its first; none once that has ended."""
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
                return [int(word) for word in file.read().split()]
        except (FileNotFoundError, ProcessLookupError):
            return []

    def signal_all(self, number):
        for process in (self.process.pid, *self.backends()):
            with contextlib.suppress(ProcessLookupError):  # a backend whose client has left ends by itself
                os.kill(process, number)

    def freeze(self):
        """Stops all its processes; thaw lets them go on, kill ends them."""
        self.signal_all(signal.SIGSTOP)

    def thaw(self):
        self.signal_all(signal.SIGCONT)

    def kill(self):
        self.signal_all(signal.SIGKILL)
        self.process.wait(60)

    def is_ready(self):
        try:
            return self.ask("SELECT 1") == "1"
        except RuntimeError:
            return False

    def ask(self, sql, user="postgres", database="postgres"):
        """The rows of a statement as text: a line each, fields separated by |."""
        return run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-p", str(self.port), "-U", user,
                   "-d", database, "-c", sql).strip()

    def look(self, sql):
        """The rows of a statement in the database of the user."""
        return self.ask(sql, user=self.user, database=self.database)

    def url(self, parameters="", password=True):
        secret = f":{self.password}" if self.password and password else ""
        return f"postgres://{self.user}{secret}@{self.address}:{self.port}/{self.database}{parameters}"

    # ---- standbys ----

    def is_standby(self):
        return self.ask("SELECT pg_is_in_recovery()") == "t"

    def standby(self, is_synchronous=True):
        """A standby of this running server; started, it is one that commits wait for."""
        return Standby(self, is_synchronous)

    def promote(self):
        self.ask("SELECT pg_promote()")
        harness.wait_until(lambda: not self.is_standby(), 60, "the standby is promoted")

    def set(self, setting):
        """Changes a setting of the running server, as `name = value`."""
        self.ask(f"ALTER SYSTEM SET {setting}")
        self.ask("SELECT pg_reload_conf()")


class Standby(Postgres):

    def __init__(self, primary, is_synchronous):
        self.primary, self.is_synchronous = primary, is_synchronous
        super().__init__(primary.settings, primary.certificates, primary.user, primary.password, primary.address,
                         primary.under)

    def make_data(self):
        run("pg_basebackup", "-D", self.data, "-h", self.primary.folder, "-p", str(self.primary.port), "-U", "postgres",
            "-R", "-X", "stream", "-c", "fast", "--no-sync")
        with open(f"{self.data}/postgresql.auto.conf", "a") as file:
            file.write("primary_conninfo = 'host=%s port=%d user=postgres application_name=standby'\n"
                       "synchronous_standby_names = ''\n" % (self.primary.address, self.primary.port))

    def start(self, seconds=60):
        super().start(seconds)
        if not self.is_synchronous or not self.is_standby():
            return
        self.primary.set("synchronous_standby_names = 'standby'")
        harness.wait_until(lambda: self.primary.ask("SELECT sync_state FROM pg_stat_replication") == "sync", 60,
                           "the standby is synchronous")


class Pair:
    """A primary and a synchronous standby, as a cluster wants them, used with `with`."""

    missing = staticmethod(missing)

    def __init__(self, settings=(), address="127.0.0.1", under=()):
        self.primary, self.standby = Postgres(settings, address=address, under=under), None

    def __enter__(self):
        try:
            self.primary.start()
            self.standby = self.primary.standby()
            self.standby.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in (self.standby, self.primary):
            if server:
                server.__exit__()

    def members(self):
        return [self.primary, self.standby]

    def brokers(self):
        """The log, as the nodes' flags name it (cluster_nodes.log_flags)."""
        hosts = ",".join(f"{server.address}:{server.port}" for server in self.members())
        return f"postgres://{self.primary.user}@{hosts}/{self.primary.database}"

    def switch(self):
        """The standby becomes the primary of the dead one's clients, and has a standby itself: the one whose data is made
        anew on the port of the dead one."""
        self.standby.promote()
        old, self.primary = self.primary, self.standby
        self.standby = self.primary.standby()
        self.standby.port = old.port
        old.__exit__()
        self.standby.start()


class PgBouncer(broker_servers.Server):
    """A pooler in transaction mode in front of a server."""

    kind = "pgbouncer"

    @staticmethod
    def missing():
        found = shutil.which("pgbouncer") or os.access("/usr/sbin/pgbouncer", os.X_OK)
        return missing() or (None if found else "pgbouncer is not installed")

    def __init__(self, server):
        self.server = server
        super().__init__()
        give(self.folder)
        with open(f"{self.folder}/conf", "w") as file:
            file.write(f"[databases]\n* = host=127.0.0.1 port={server.port} user={server.user}\n"
                       f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
                       "auth_type = any\npool_mode = transaction\n")
        os.chmod(f"{self.folder}/conf", 0o644)

    def launch(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", f"{self.folder}/conf"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=leave_root,
                start_new_session=True)
        harness.started.append(self.process)

    def url(self, parameters=""):
        return f"postgres://{self.server.user}@127.0.0.1:{self.port}/{self.server.database}{parameters}"

    def is_ready(self):
        try:
            return run("psql", "-XAtq", self.url(), "-c", "SELECT 1").strip() == "1"
        except RuntimeError:
            return False


def main(command):
    if missing():
        print(missing(), file=sys.stderr)
        return subprocess.run(command, check=False).returncode
    with Postgres() as server:
        environment = {**os.environ, "POSTGRES_URI": server.url()}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
