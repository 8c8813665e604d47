"""Real message brokers for tests: each on a free port of loopback, with a folder of its own, ended by its process id.

A broker can be stopped and started again on the same port and folder. `received()` returns the messages in
it: (fields, payload, at_ms), at_ms being when the broker took the message, by its own clock.
"""

import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile

import harness


def free_port():
    """A random port that is free, below those that the system gives to connections meanwhile."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        end = int(file.read().split()[0])
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randrange(end // 2, end)))
            except OSError:
                continue
            return probe.getsockname()[1]


class Certificates:
    """An authority and a server's certificate, for this name only, signed by it."""

    def __init__(self, folder, name="IP:127.0.0.1"):
        self.authority, self.certificate, self.key = (
            os.path.join(folder, name) for name in ("ca.pem", "server.pem", "server.key"))
        authority_key, request, extension = (
            os.path.join(folder, name) for name in ("ca.key", "server.csr", "server.ext"))
        with open(extension, "w") as file:
            file.write(f"subjectAltName={name}\n")
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        for command in (
                ["req", "-x509", *new, "-keyout", authority_key, "-out", self.authority, "-days", "2",
                 "-subj", "/CN=tickwheel test authority"],
                ["req", *new, "-keyout", self.key, "-out", request, "-subj", "/CN=broker"],
                ["x509", "-req", "-in", request, "-CA", self.authority, "-CAkey", authority_key,
                 "-CAcreateserial", "-out", self.certificate, "-days", "2", "-extfile", extension]):
            subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=60)


class Server:
    """What all of them share; a kind of broker says how it is started and asked."""

    kind = None  # as --version of the daemon names it

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-broker-")
        self.port = free_port()
        self.process = None

    def command(self):
        raise NotImplementedError

    def environment(self):
        return dict(os.environ)

    def is_ready(self):
        raise NotImplementedError

    def start(self, seconds=60):
        self.launch()
        self.await_ready(seconds)

    def launch(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                cwd=self.folder, env=self.environment(), start_new_session=True)
        harness.started.append(self.process)

    def await_ready(self, seconds):
        def look():
            if self.process.poll() is not None:
                raise RuntimeError(f"{type(self).__name__} ended with {self.process.returncode}:\n{self.log()}")
            return self.is_ready()
        harness.wait_until(look, seconds, f"{type(self).__name__} is ready")

    def stop(self, number=signal.SIGTERM, seconds=60):
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(seconds)

    def log(self):
        with open(os.path.join(self.folder, "log"), errors="replace") as file:
            return file.read()[-4000:]

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- Redis ----

class Redis(Server):
    """redis-server, with every write synced: an acknowledged message survives kill -9."""

    kind = "redis"
    stream = "timers"

    @staticmethod
    def missing():
        return None if shutil.which("redis-server") else "redis-server is not installed"

    def command(self):
        return ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.folder,
                "--save", "", "--appendonly", "yes", "--appendfsync", "always"]

    def is_ready(self):
        try:
            return self.ask("PING") == "PONG"
        except (OSError, RuntimeError):
            return False

    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def target(self, name=None):
        return f"redis://main/{name or self.stream}"

    def ask(self, *arguments):
        return self.ask_all([arguments])[0]

    def ask_all(self, commands):
        """Replies to commands, by the protocol itself."""
        with socket.create_connection(("127.0.0.1", self.port), 30) as connection:
            for command in commands:
                parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
                connection.sendall(b"*%d\r\n" % len(parts) +
                                   b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            with connection.makefile("rb") as replies:
                return [self.read(replies) for _ in commands]

    def read(self, replies):
        line = replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if int(rest) < 0 else replies.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read(replies) for _ in range(int(rest))]
        raise RuntimeError(line.decode(errors="replace") or "closed")

    def count(self):
        return self.ask("XLEN", self.stream)

    def received(self, name=None):
        found, start = [], "-"
        while True:
            page = self.ask("XRANGE", name or self.stream, start, "+", "COUNT", 5000)
            for entry, pairs in page:
                fields = {pairs[i].decode(): pairs[i + 1].decode(errors="replace")
                          for i in range(0, len(pairs), 2)}
                found.append((fields, fields.pop("payload"), int(entry.split(b"-")[0])))
            if len(page) < 5000:
                return found
            start = b"(" + page[-1][0]


# ---- NATS ----

class Nats(Server):
    """nats-server with JetStream and one stream; spoken to in its own protocol."""

    kind = "nats"
    subject = "timers.due"

    @staticmethod
    def missing():
        return None if shutil.which("nats-server") or os.access("/usr/sbin/nats-server", os.X_OK) \
            else "nats-server is not installed"

    def command(self):
        return [shutil.which("nats-server") or "/usr/sbin/nats-server", "-a", "127.0.0.1",
                "-p", str(self.port), "-js", "-sd", self.folder, *self.flags]

    flags = ()

    def is_ready(self):
        """It is there, and so is the stream, which is made at the first start."""
        try:
            made = self.ask("$JS.API.STREAM.CREATE.timers", {
                "name": "timers", "subjects": ["timers.>"], "storage": "file", "retention": "limits",
                "discard": "old", "num_replicas": 1, "duplicate_window": 120 * 10**9})
        except (OSError, TimeoutError, ValueError):
            return False
        return "error" not in made

    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def target(self, name=None):
        return f"nats://main/{name or self.subject}"

    def secure(self, connection):
        return connection

    def open(self):
        connection = socket.create_connection(("127.0.0.1", self.port), 30)
        while (byte := connection.recv(1)) != b"\n":  # INFO; what follows it may be encrypted
            if not byte:
                raise OSError("closed")
        connection = self.secure(connection)
        file = connection.makefile("rwb")
        file.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
        return connection, file

    def ask(self, subject, body):
        """The answer to one request to JetStream."""
        connection, file = self.open()
        connection.settimeout(5)
        data = json.dumps(body).encode()
        with connection, file:
            file.write(b"SUB answers 1\r\nPUB %s answers %d\r\n%s\r\n" % (subject.encode(), len(data), data))
            file.flush()
            return json.loads(self.read(file)[2])

    @staticmethod
    def read(file):
        """The next message: (reply subject, header lines, payload)."""
        while True:
            line = file.readline().split()
            if not line:
                raise ValueError("closed")
            if line[0] == b"PING":
                file.write(b"PONG\r\n")
                file.flush()
            if line[0] == b"MSG":
                return line[3] if len(line) > 4 else b"", [], file.read(int(line[-1]) + 2)[:-2]
            if line[0] == b"HMSG":
                head, size = int(line[-2]), int(line[-1])
                data = file.read(size + 2)[:-2]
                return line[3], data[:head].decode().split("\r\n"), data[head:]

    def count(self):
        return self.ask("$JS.API.STREAM.INFO.timers", {})["state"]["messages"]

    def received(self):
        """All of the stream, by a consumer that acknowledges nothing; the time is in the reply subject."""
        left, found = self.count(), []
        connection, file = self.open()
        with connection, file:
            file.write(b"SUB all 2\r\n")
            file.flush()
            made = self.ask("$JS.API.CONSUMER.CREATE.timers", {"stream_name": "timers", "config": {
                "deliver_subject": "all", "ack_policy": "none", "deliver_policy": "all",
                "replay_policy": "instant"}})
            if "error" in made:
                raise RuntimeError(made)
            while len(found) < left:
                reply, lines, payload = self.read(file)
                fields = dict(line.split(": ", 1) if ": " in line else line.split(":", 1)
                              for line in lines[1:] if ":" in line)
                if fields.pop("Nats-Msg-Id", None) != fields["webhook-id"]:
                    raise RuntimeError(f"Nats-Msg-Id of {fields}")
                found.append((fields, payload, int(reply.split(b".")[-2]) // 1000000))
        return found


class NatsTls(Nats):
    """A nats-server that accepts TLS only."""

    def __init__(self):
        super().__init__()
        self.files = Certificates(self.folder)
        self.flags = ("--tls", "--tlscert", self.files.certificate, "--tlskey", self.files.key)

    def secure(self, connection):
        return ssl.create_default_context(cafile=self.files.authority).wrap_socket(
            connection, server_hostname="127.0.0.1")

    def url(self):
        return f"tls://127.0.0.1:{self.port}?cacert={self.files.authority}"


# ---- Kafka ----

class Kafka(Server):
    """Apache Kafka, broker and controller in one process; tests/brokers/kafka/fetch has fetched it."""

    kind = "kafka"
    topic = "timers"
    address, under = "127.0.0.1", ()  # `under`: a program that runs it, with that program's arguments
    libs = os.path.join(os.path.dirname(__file__), "..", "..", "build", "brokers", "kafka")

    def __init__(self):
        super().__init__()
        self.controller_port = free_port()
        self.is_formatted = False
        if type(self) is Kafka:  # one broker keeps each record alone
            os.environ["TICKWHEEL_CLUSTER_REPLICAS"] = "1"

    @staticmethod
    def missing():
        if not shutil.which("java"):
            return "java is not installed"
        if not os.path.exists(os.path.join(Kafka.libs, ".complete")):
            return "Apache Kafka is not there: tests/brokers/kafka/fetch"
        return None

    def java(self, *arguments):
        return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp", os.path.join(os.path.abspath(self.libs), "*"), *arguments]

    def settings(self):
        return {
            "process.roles": "broker,controller", "node.id": 1,
            "controller.quorum.voters": f"1@{self.address}:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address}:{self.port},CONTROLLER://{self.address}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": os.path.join(self.folder, "data"), "num.partitions": 4,
            "auto.create.topics.enable": "false", "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1,
            "log.message.timestamp.type": "LogAppendTime", "controlled.shutdown.enable": "false",
            # The controller takes a broker back once the session of the killed one has expired.
            "broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}

    def command(self):
        path = os.path.join(self.folder, "server.properties")
        if not self.is_formatted:
            with open(path, "w") as file:
                file.writelines(f"{name}={value}\n" for name, value in self.settings().items())
            subprocess.run(self.java("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg",
                                     "-c", path), check=True, capture_output=True, timeout=60)
            self.is_formatted = True
        return [*self.under, *self.java("kafka.Kafka", path)]

    def is_ready(self):
        """It answers, and has the topic, which is made at the first start."""
        try:
            with socket.create_connection((self.address, self.port), 1):
                pass
        except OSError:
            return False
        try:
            self.create_topic(self.topic)
        except RuntimeError as error:
            return "already exists" in str(error)
        return True

    def create_topic(self, name, *settings):
        self.tool("create", name, "4", *settings)

    def tool(self, verb, *arguments):
        done = subprocess.run([harness.find("kafka_tool"), verb, f"{self.address}:{self.port}", *arguments],
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def url(self):
        return f"kafka://{self.address}:{self.port}"

    def target(self, name=None):
        return f"kafka://main/{name or self.topic}"

    def messages(self):
        """(at_ms, partition, key, payload, fields) of each."""
        found = []
        for line in self.tool("read", self.topic).splitlines():
            at, partition, key, payload, *headers = line.split(" ")
            found.append((int(at), int(partition), None if key == "-" else bytes.fromhex(key),
                          b"" if payload == "-" else bytes.fromhex(payload),
                          {name: bytes.fromhex(value).decode()
                           for name, value in (header.split("=", 1) for header in headers)}))
        return found

    def received(self):
        return [(fields, payload, at) for at, _, _, payload, fields in self.messages()]


class KafkaTls(Kafka):
    """A Kafka broker with one more listener, for TLS; the tool uses the plain one."""

    def __init__(self):
        super().__init__()
        self.files, self.tls_port = Certificates(self.folder), free_port()

    def settings(self):
        pair = os.path.join(self.folder, "pair.pem")
        with open(pair, "w") as file:
            for path in (self.files.key, self.files.certificate):
                with open(path) as part:
                    file.write(part.read())
        settings = super().settings()
        for name in ("listeners", "advertised.listeners"):
            settings[name] += f",SSL://127.0.0.1:{self.tls_port}"
        settings["listener.security.protocol.map"] += ",SSL:SSL"
        return {**settings, "ssl.keystore.type": "PEM", "ssl.keystore.location": pair}

    def url(self):
        return f"kafka://127.0.0.1:{self.tls_port}?security.protocol=ssl&ssl.ca.location={self.files.authority}"


class KafkaMock(Kafka):
    """librdkafka's own broker, in memory, which fails when told to. One partition, so that a failure meets whatever
    comes next."""

    @staticmethod
    def missing():
        try:
            return harness.find("kafka_tool") and None
        except FileNotFoundError as error:
            return str(error)

    def start(self, seconds=60):
        self.process = subprocess.Popen([harness.find("kafka_tool"), "mock", self.topic, "1"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def stop(self, number=signal.SIGTERM, seconds=60):
        if self.process:
            self.process.communicate(timeout=seconds)
            self.process = None

    def fail(self, *answers):
        """The answers to the next requests with messages: error codes of Kafka, each with a delay: "45:200"."""
        self.process.stdin.write(f"fail {' '.join(map(str, answers))}\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ok\n":
            raise RuntimeError("kafka_tool does not obey")


# ---- RabbitMQ ----

class Rabbitmq(Server):
    """rabbitmq-server with a port mapper of its own, both on loopback only."""

    kind = "amqp"
    queue = "timers"
    script = "/usr/lib/rabbitmq/bin/rabbitmq-server"

    def __init__(self):
        super().__init__()
        self.distribution_port, self.mapper_port = free_port(), free_port()
        self.mapper = None

    @staticmethod
    def missing():
        return None if os.access(Rabbitmq.script, os.X_OK) else "rabbitmq-server is not installed"

    def command(self):
        if not self.mapper:
            with open(os.path.join(self.folder, "enabled_plugins"), "w") as file:
                file.write("[].\n")
            self.mapper = subprocess.Popen(
                ["epmd", "-port", str(self.mapper_port), "-address", "127.0.0.1"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [self.script]

    def environment(self):
        return {
            **os.environ, "HOME": self.folder, "RUNNING_UNDER_SYSTEMD": "1",  # no shell in between
            "RABBITMQ_NODENAME": f"tickwheel{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.distribution_port), "ERL_EPMD_PORT": str(self.mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": os.path.join(self.folder, "data"),
            "RABBITMQ_LOG_BASE": os.path.join(self.folder, "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": os.path.join(self.folder, "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": os.path.join(self.folder, "rabbitmq")}

    def is_ready(self):
        """It is there, and so is the queue, which is made at the first start."""
        try:
            self.tool("queue", self.queue)
        except (RuntimeError, subprocess.TimeoutExpired):
            return False
        return True

    def __exit__(self, *_):
        super().__exit__()
        if self.mapper:
            self.mapper.kill()
            self.mapper.wait()

    def tool(self, verb, *arguments, lines=None):
        done = subprocess.run([harness.find("rabbitmq_tool"), str(self.port), verb, *arguments], input=lines,
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    def url(self):
        return f"amqp://127.0.0.1:{self.port}"

    def target(self, name=None):
        return f"amqp://main//{name or self.queue}"

    def read(self, queue):
        """Takes all out of a queue: delivery mode, payload and headers."""
        for line in self.tool("read", queue).splitlines():
            mode, _, payload, *headers = line.split(" ")
            fields = {name: "" if value == "-" else bytes.fromhex(value).decode()
                      for name, value in (header.split("=", 1) for header in headers)}
            yield mode, b"" if payload == "-" else bytes.fromhex(payload), fields

    def received(self):
        """Takes all out of the queue. RabbitMQ does not say when a message came."""
        found = []
        for mode, payload, fields in self.read(self.queue):
            if mode != "2" or fields.pop("message-id") != fields["webhook-id"]:
                raise RuntimeError(f"not persistent, or without its id: {fields}")
            found.append((fields, payload, None))
        return found


class RabbitmqTls(Rabbitmq):
    """A RabbitMQ broker with one more listener, for TLS; the tool uses the plain one. librabbitmq wants to find a name in
    the certificate: an address there is none to it."""

    def __init__(self):
        super().__init__()
        self.files, self.tls_port = Certificates(self.folder, "DNS:localhost"), free_port()
        with open(os.path.join(self.folder, "rabbitmq.conf"), "w") as file:
            file.write(f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}\n"
                       f"ssl_options.cacertfile = {self.files.authority}\n"
                       f"ssl_options.certfile = {self.files.certificate}\n"
                       f"ssl_options.keyfile = {self.files.key}\n"
                       "ssl_options.verify = verify_none\n")

    def url(self):
        return f"amqps://localhost:{self.tls_port}?cacert={self.files.authority}"
