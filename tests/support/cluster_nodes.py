"""Nodes of a cluster of tickwheeld for tests: each with a number and a data folder, which may be lost."""

import json
import os
import shutil
import subprocess
import tempfile
import time

import harness

SECRET = "between-all-nodes-of-the-shop"
BATCH, KEPT_EACH = 2000, 10  # of fill_and_cancel


def log_flags(log, flags=()):
    """The flags for a log: Kafka's brokers, or a URI of PostgreSQL, of which one with a single host has no standby. `flags`:
    those that are there already."""
    if not log.startswith("postgres"):
        return ("--cluster-brokers", log)
    durability = ("--cluster-durability", "replicated" if "," in log else "server")
    return ("--cluster-log", log, *(durability if durability[0] not in flags else ()))


class Node:
    """A node that runs, or not. `log`: of log_flags. `how`: of harness.Daemon."""

    def __init__(self, number, log, *flags, env=None, **how):
        self.data = tempfile.mkdtemp(prefix="tickwheel-cluster-")
        self.number, self.daemon = number, None
        self.flags = (*log_flags(log, flags), "--cluster-node-id", str(number), *flags)
        self.how = how
        self.env = {**os.environ, "TICKWHEEL_CLUSTER_SECRET": SECRET, **(env or {})}

    def start(self):
        self.daemon = harness.Daemon(self.data, *self.flags, env=self.env, **self.how)
        return self.daemon

    def end(self, number):
        self.daemon.signal(number)
        self.daemon.close()
        self.daemon = None

    def owned(self):
        try:
            return self.daemon.metric("tickwheel_cluster_partitions_owned")
        except OSError as error:
            raise RuntimeError(f"node {self.number} does not answer:\n{self.daemon.output()[-12000:]}") from error

    def lose_the_disk(self):
        shutil.rmtree(self.data)
        os.mkdir(self.data)

    def run(self, *flags):
        return subprocess.run([*self.how.get("under", ()), harness.find("tickwheeld"), *self.flags, *flags], capture_output=True,
                              text=True, timeout=300, check=False, env=self.env)

    def close(self):
        if self.daemon:
            self.daemon.close()
        shutil.rmtree(self.data, ignore_errors=True)


def await_shares(nodes, partitions, seconds, what):
    """Until those that run own all partitions, each its part; answers how long it took, in seconds."""
    running = [node for node in nodes if node.daemon]
    least, most = partitions // len(running), -(-partitions // len(running))
    began = time.monotonic()

    def look():
        owned = [node.owned() for node in running]
        return sum(owned) == partitions and least <= min(owned) and max(owned) <= most
    harness.wait_until(look, seconds, f"{what}: {len(running)} nodes share the partitions")
    return time.monotonic() - began


def fill_and_cancel(case, daemon, count, payload_bytes):
    """Creates timers with the keys order-0 to order-COUNT, and cancels all but each KEPT_EACH. Answers the ids of the others."""
    kept = set()
    for at in range(0, count, BATCH):
        lines = "".join(json.dumps({"key": f"order-{i}", "after": "1d", "target": "log:far", "payload": "x" * payload_bytes,
                                    **({"watch": [f"wave-{at}"]} if i % KEPT_EACH else {})}) + "\n"
                        for i in range(at, at + BATCH))
        status, _, body = daemon.call("POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})
        case.assertEqual(status, 200, body)
        kept.update(json.loads(line)["id"] for i, line in enumerate(body.splitlines()) if (at + i) % KEPT_EACH == 0)
        status, _, body = daemon.call("POST", f"/v1/watch/wave-{at}/complete")
        case.assertEqual((status, body["cancelled"]), (200, BATCH - BATCH // KEPT_EACH), body)
    return kept
