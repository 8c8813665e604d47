"""What the tests of bounded memory share: how large they are, a bound that the system holds the daemon to, what its
memory came to, and bystanders, whose timers must not be late while something else goes on.

    TEST_SIZE=full   the sizes of docs/reliability.md; otherwise so small that each is over in seconds

Memory is asserted, and that nothing is lost. Lateness is printed: how large it is depends on the machine.
"""

import json
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

IS_FULL = os.environ.get("TEST_SIZE") == "full"
NDJSON = {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}
MIB = 1 << 20
STACK_BYTES = MIB  # of each thread, under RLIMIT_DATA, which counts them as if they were full


def size(small, full):
    return full if IS_FULL else small


def mib(count):
    return f"{count / MIB:.0f} MiB"


def milliseconds(values):
    """p50, p99 and the largest, as a cell of a table."""
    if not values:
        return "none"
    return f"{harness.percentile(values, 0.5):.1f} / {harness.percentile(values, 0.99):.1f} / {max(values):.1f} ms"


def show(name, *facts):
    print(f"| {name} | " + " | ".join(str(fact) for fact in facts) + " |", flush=True)


def lateness_ms(arrivals):
    return [max(0.0, arrival.at_us / 1000 - arrival.due_ms) for arrival in arrivals]


# ---- the bound ----

class MemoryGroup:
    """A memory cgroup (v1 or v2) below the current one, so that its limits still hold.
    It counts the memory of the daemon, of its sockets and of its cached files."""

    def __init__(self, parent, limit_file, peak_file, limit_bytes):
        self.folder = os.path.join(parent, f"tickwheel-{uuid.uuid4().hex[:12]}")
        self.peak_file = peak_file
        os.mkdir(self.folder)
        try:
            with open(os.path.join(self.folder, limit_file), "w") as file:
                file.write(str(limit_bytes))
            self.peak_bytes()
        except OSError:
            self.close()
            raise

    def enter(self):
        with open(os.path.join(self.folder, "cgroup.procs"), "w") as file:
            file.write("0")

    def peak_bytes(self):
        with open(os.path.join(self.folder, self.peak_file)) as file:
            return int(file.read())

    def kind(self):
        return "cgroup"

    def close(self):
        # A process that has just ended may be counted for a moment longer.
        def remove():
            try:
                os.rmdir(self.folder)
            except OSError:
                return False
            return True
        harness.wait_until(remove, 20, f"{self.folder} is removed")


class DataLimit:
    """Where no cgroup can be made: the kernel refuses the process memory of its own beyond the limit, malloc fails."""

    def __init__(self, limit_bytes):
        self.limit_bytes = limit_bytes

    def enter(self):
        resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES))
        resource.setrlimit(resource.RLIMIT_DATA, (self.limit_bytes, self.limit_bytes))

    def kind(self):
        return "RLIMIT_DATA"

    def close(self):
        pass


def limit(limit_bytes):
    """The strongest bound that this machine lets us set."""
    with open("/proc/self/cgroup") as file:
        own = {line.split(":")[1]: line.rstrip("\n").split(":", 2)[2] for line in file}
    for controller, root, limit_file, peak_file in (
            ("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            ("", "/sys/fs/cgroup", "memory.max", "memory.peak")):
        try:
            return MemoryGroup(root + own[controller], limit_file, peak_file, limit_bytes)
        except (KeyError, OSError) as refusal:
            reason = refusal
    print(f"no cgroup ({reason}): RLIMIT_DATA instead", flush=True)
    return DataLimit(limit_bytes)


# ---- cost of a run ----

class Memory(threading.Thread):
    """The largest memory of a process: resident, and its anonymous part."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid = pid
        self.resident = self.own = 0
        self.stopped = threading.Event()
        self.start()

    def look(self):
        try:
            with open(f"/proc/{self.pid}/status") as file:
                kilobytes = {line.split(":")[0]: line.split()[1] for line in file
                             if line.startswith(("VmHWM", "RssAnon"))}
        except OSError:
            return
        if kilobytes:
            self.resident = max(self.resident, int(kilobytes["VmHWM"]) << 10)
            self.own = max(self.own, int(kilobytes["RssAnon"]) << 10)

    def run(self):
        while not self.stopped.wait(0.05):
            self.look()

    def end(self):
        self.look()
        self.stopped.set()
        self.join()
        return self


# ---- others ----

class Bystander(threading.Thread):
    """Another client with its own target, which creates timers now and then and measures their lateness."""

    def __init__(self, daemon, every_s=0.05, ahead_ms=300):
        super().__init__(daemon=True)
        self.server, self.every_s, self.ahead_ms = daemon, every_s, ahead_ms
        self.receiver = harness.Receiver()
        self.made, self.calls_ms, self.refusals = set(), [], []
        self.failure = None
        self.stopped = threading.Event()
        self.start()

    def make(self, connection):
        timer = {"at": int(time.time() * 1000) + self.ahead_ms, "target": self.receiver.url("/other")}
        began = time.monotonic()
        status, _, answer = self.server.call("POST", "/v1/timers", timer, connection=connection)
        self.calls_ms.append((time.monotonic() - began) * 1000)
        if status == 201:
            self.made.add(answer["id"])
        else:
            self.refusals.append(answer)

    def run(self):
        connection = self.server.connect(60)
        try:
            while not self.stopped.wait(self.every_s):
                self.make(connection)
        except Exception as failure:  # shown by the main thread
            self.failure = failure
        finally:
            connection.close()

    def end(self):
        """After a second's worth at least: (lateness of each in ms, how long each call took in ms); all have come."""
        harness.wait_until(lambda: len(self.made) >= 20 or not self.is_alive(), 60, "timers of a bystander")
        self.stopped.set()
        self.join()
        if self.failure:
            raise self.failure
        if self.refusals:
            raise AssertionError(f"a bystander was refused {len(self.refusals)} times: {self.refusals[0]}")

        def have_come():
            return self.made <= {harness.timer_id_of(arrival.webhook_id) for arrival in self.receiver.arrivals()}
        harness.wait_until(have_come, 60, "the bystander's timers")
        # With its receiver an answer that the daemon has not read yet would be lost, and its timer tried again.
        for timer in self.made:
            harness.wait_until(lambda path=f"/v1/timers/{timer}": self.server.call("GET", path)[0] == 410, 60, "fired")
        arrivals = self.receiver.arrivals()
        self.receiver.close()
        if len(arrivals) != len(self.made):
            raise AssertionError(f"{len(self.made)} timers arrived {len(arrivals)} times")
        return lateness_ms(arrivals), self.calls_ms


# ---- many timers ----

def make_many(daemon, lines, count_each=20000, connection=None, may_refuse=False):
    """Creates a timer of each line, in batches; answers how many seconds it took. `may_refuse`: more than there is
    room for, some may be refused as overloaded."""
    began, part = time.monotonic(), []
    connection = connection or daemon.connect(600)

    def send():
        body = b"".join(part)
        status, _, answer = daemon.call("POST", "/v1/timers/batch", body, NDJSON, connection)
        totals = json.loads(answer.splitlines()[0])
        is_made = status == 200 and totals["created"] == len(part)
        is_full = may_refuse and status == 200 and '"status":503' in answer
        if not is_made and not is_full:
            raise AssertionError(f"batch of {len(part)}: {status} {answer[:500]}")
        part.clear()
    for line in lines:
        part.append(line)
        if len(part) == count_each:
            send()
    if part:
        send()
    return time.monotonic() - began


class Folder:
    """A data folder for as long as a test takes."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="tickwheel-bounds-")
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)
