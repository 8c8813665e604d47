#!/usr/bin/env python3
"""Goal: the timers of a single node, or of the nodes of a cluster whose log is broken, move into a new cluster with ids, keys,
states and counts; an import that is killed and repeated doubles and loses nothing; what cannot be imported is refused.
Method: a daemon with timers of every kind, which is killed; or three nodes, one of which stays behind, and a log that loses
the records of a partition. `tickwheeld --cluster-import` on Apache Kafka, which is killed too; then two nodes, which are asked
for all, and whose webhooks are compared.

    TEST_SEED=N      repeats the moments of the kills
    TEST_TIMERS=N    timers to create
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import cluster_nodes
import harness

SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
TIMERS = int(os.environ.get("TEST_TIMERS", "20000"))
PARTITIONS, KILLS, WAIT_S = 4, 6, 120
BROKEN, OTHERS = 2, {0, 1, 3}  # partitions
EACH = 200  # timers of a kind of the cluster
NDJSON = {"Content-Type": "application/x-ndjson"}


def partition_of(timer_id):
    """The 16 bits of the id behind its 48 bits of time: timer_id_format of src/timer/timer.c."""
    return int(timer_id, 32) >> 2 >> 64 & 0xffff


def run_import(broker, name, *folders):
    return subprocess.run(import_command(broker, name, PARTITIONS, *folders), capture_output=True, text=True, timeout=300,
                          check=False)


def import_command(broker, name, partitions, *folders):
    return [harness.find("tickwheeld"), "--cluster-brokers", f"127.0.0.1:{broker.port}", "--cluster-name", name,
            "--partitions", str(partitions), *(flag for folder in folders for flag in ("--cluster-import", folder))]


def kill_imports(chance, *arguments):
    for _ in range(KILLS):
        process = subprocess.Popen(import_command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.1, 2.5))  # the random moment
        process.kill()
        process.wait()


def make_topics(broker, name):
    return subprocess.run([*import_command(broker, name, PARTITIONS), "--cluster-create"], capture_output=True, text=True,
                          timeout=300, check=False)


class ImportTest(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory(prefix="tickwheel-import-")
        self.addCleanup(self.room.cleanup)
        self.folder = os.path.join(self.room.name, "single")
        os.mkdir(self.folder)

    def fill(self):
        """A single node, which ends by kill -9. Answers what it says of some timers, and of how many live."""
        with harness.Daemon(self.folder, "--partitions", str(PARTITIONS), "--retain", "1d") as daemon:
            harness.wait_until(daemon.is_ready, WAIT_S, "ready")
            for at in range(0, TIMERS, 2000):
                lines = "".join(json.dumps({"key": f"order-{i}", "after": "1d", "target": "log:far", "payload": i,
                                            **({"watch": ["all"]} if i % 5 == 0 else {})}) + "\n"
                                for i in range(at, min(at + 2000, TIMERS)))
                self.assertEqual(daemon.call("POST", "/v1/timers/batch", lines, NDJSON)[0], 200)
            for i in range(0, 50):
                self.assertEqual(daemon.call("DELETE", f"/v1/keys/order-{10 * i + 1}/timer")[0], 200)
                self.assertEqual(daemon.call("PATCH", f"/v1/keys/order-{10 * i + 2}/timer", {"after": "2d"})[0], 200)
                timer = daemon.call("GET", f"/v1/keys/order-{10 * i + 3}/timer")[2]
                self.assertEqual(daemon.call("POST", f"/v1/timers/{timer['id']}/pause")[0], 200)
            told = {i: daemon.call("GET", f"/v1/keys/order-{i}/timer")[::2] for i in range(0, 500)}
            live = daemon.metric("tickwheel_timers_pending")
            daemon.signal(signal.SIGKILL)
        self.assertEqual(live, TIMERS - 50)
        return told, int(live)

    def run_import(self, folder=None, partitions=PARTITIONS):
        return subprocess.run(import_command(self.broker, "shop", partitions, folder or self.folder), capture_output=True,
                              text=True, timeout=300, check=False)

    def check(self, host, told, live):
        for i, was in told.items():
            self.assertEqual(host.daemon.call("GET", f"/v1/keys/order-{i}/timer")[::2], was, i)
        found, cursor = set(), ""
        while cursor is not None:
            status, _, page = host.daemon.call("GET", f"/v1/timers?state=scheduled&limit=1000{cursor and '&cursor=' + cursor}")
            self.assertEqual(status, 200, page)
            keys = [row["key"] for row in page["timers"]]
            self.assertFalse(found.intersection(keys))
            found.update(keys)
            cursor = page.get("next")
        self.assertEqual(len(found), live - 50)  # those are paused

    def test_import(self):
        print(f"TEST_SEED={SEED}", flush=True)
        chance = random.Random(SEED)
        told, live = self.fill()
        with broker_servers.Kafka() as self.broker:
            self.assertIn("tickwheeld --cluster-create makes them", self.run_import().stderr)
            self.assertEqual(make_topics(self.broker, "shop").returncode, 0)
            other = self.run_import(partitions=5)
            self.assertEqual(other.returncode, 1)
            self.assertIn("the folder has 4 partitions, and the cluster 5", other.stderr)
            self.assertEqual(self.run_import(folder=self.room.name).returncode, 2)
            kill_imports(chance, self.broker, "shop", PARTITIONS, self.folder)
            began = time.monotonic()
            done = self.run_import()
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"all {live} live timers are in the log of the cluster shop", done.stdout)
            print(f"{live} live timers: the last import took {time.monotonic() - began:.1f} s", flush=True)
            self.assertEqual(self.run_import().stdout, done.stdout)

            hosts = [cluster_nodes.Node(number, f"127.0.0.1:{self.broker.port}", "--partitions", str(PARTITIONS),
                                        "--cluster-name", "shop", "--cluster-listen", "127.0.0.1:0", "--retain", "1d")
                     for number in (1, 2)]
            for host in hosts:
                self.addCleanup(host.close)
                host.start()
            cluster_nodes.await_shares(hosts, PARTITIONS, WAIT_S, "two nodes")
            harness.wait_until(lambda: sum(host.daemon.metric("tickwheel_timers_pending") for host in hosts) == live, WAIT_S,
                               "they count all")
            for host in hosts:
                self.check(host, told, live)
            status, _, timer = hosts[0].daemon.call("POST", "/v1/timers", {"after": "1s", "target": "log:x"})
            self.assertEqual(status, 201, timer)
            self.assertEqual(self.run_import().stdout, done.stdout)  # it is there
            for host in hosts:
                host.end(signal.SIGTERM)
            mixed = run_import(self.broker, "shop", hosts[0].data, self.folder, hosts[1].data)
            self.assertEqual(mixed.returncode, 2)
            self.assertIn("are not copies of one log", mixed.stderr)

    def test_a_cluster_that_has_begun(self):
        with harness.Daemon(self.folder, "--partitions", str(PARTITIONS)) as daemon:
            harness.wait_until(daemon.is_ready, WAIT_S, "ready")
        with broker_servers.Kafka() as self.broker:
            host = cluster_nodes.Node(1, f"127.0.0.1:{self.broker.port}", "--partitions", str(PARTITIONS), "--cluster-name",
                                      "shop")
            self.addCleanup(host.close)
            self.assertEqual(host.run("--cluster-create").returncode, 0)
            harness.wait_until(host.start().is_ready, WAIT_S, "ready")
            host.end(signal.SIGTERM)
            done = self.run_import()
            self.assertEqual(done.returncode, 1)
            self.assertIn("is not empty, and has something else than the import of these folders", done.stderr)
            harness.wait_until(host.start().is_ready, WAIT_S, "ready")  # it is as it was


class CopiesTest(unittest.TestCase):
    """Three nodes, of which the third one stops early, so that its copies stay behind."""

    def nodes(self, name, numbers):
        hosts = [cluster_nodes.Node(number, f"127.0.0.1:{self.broker.port}", "--partitions", str(PARTITIONS), "--cluster-name",
                                    name, "--cluster-listen", "127.0.0.1:0", "--cluster-wait", "10s", "--retain", "1d") for number in numbers]
        for host in hosts:
            self.addCleanup(host.close)
            host.start()
        cluster_nodes.await_shares(hosts, PARTITIONS, WAIT_S, f"the nodes of {name}")
        return hosts

    def create(self, host, count, **fields):
        """Answers the ids, which lie in all partitions."""
        lines = "".join(json.dumps({"key": f"{self.chance.getrandbits(64):x}", **fields}) + "\n" for _ in range(count))
        status, _, body = host.daemon.call("POST", "/v1/timers/batch", lines, NDJSON)
        self.assertEqual(status, 200, body)
        ids = [json.loads(line)["id"] for line in body.splitlines()]
        self.assertEqual((len(ids), {partition_of(timer) for timer in ids}), (count, OTHERS | {BROKEN}))
        return ids

    def call(self, host, method, path, body=None):
        status, _, answer = host.daemon.call(method, path, body)
        self.assertEqual(status, 200, answer)
        return answer

    def look(self, host, ids):
        return {timer: host.daemon.call("GET", f"/v1/timers/{timer}")[::2] for timer in ids}

    def states(self, host):
        return [partition["state"] for partition in host.daemon.call("GET", "/v1/cluster")[2]["partitions"]]

    def fill(self, host):
        """Timers of every kind; answers those that stay as they are."""
        far = {"after": "1d", "target": "log:far", "payload": "x" * 200}
        self.due = self.create(host, EACH, after="3s", target=self.receiver.url())
        self.due += self.create(host, EACH, after="60s", target=self.receiver.url())
        self.items = self.create(host, EACH, after="0s", target="queue:jobs")
        self.far = self.create(host, 3 * EACH, **far)
        dead = self.create(host, EACH // 4, after="0s", target=self.receiver.url("/status/500"), retry={"max_attempts": 1})
        every = self.create(host, EACH // 4, every="6h", target="log:often")
        watched = self.create(host, EACH // 4, watch=["all"], **far)
        for timer in self.far[::10]:
            self.call(host, "POST", f"/v1/timers/{timer}/pause")
        harness.wait_until(lambda: len(self.call(host, "GET", "/v1/dead?limit=1000")["timers"]) == len(dead), WAIT_S,
                           "dead letters")
        return self.far + dead + every + watched

    def go_on(self, host):
        """What the third node does not hear of."""
        for timer in self.far[1::10]:
            self.call(host, "DELETE", f"/v1/timers/{timer}")
        for timer in self.far[2::10]:
            self.call(host, "PATCH", f"/v1/timers/{timer}", {"after": "2d", "payload": "later"})
        return self.create(host, EACH, after="1d", target="log:new")

    def count_live(self, told):
        """As the nodes that have stopped leave them."""
        states = [answer.get("state") for _, answer in told.values()]
        fired = {harness.timer_id_of(arrival.webhook_id) for arrival in self.receiver.arrivals()} & set(self.due)
        return states.count("scheduled") + states.count("paused") + len(self.items) + len(self.due) - len(fired)

    def stop(self, hosts):
        for host in hosts:
            host.end(signal.SIGTERM)

    def break_log(self, hosts):
        self.stop(hosts)
        self.broker.tool("trim", "shop.log", str(BROKEN))
        for host in hosts:
            host.start()

        def is_broken():
            states = [self.states(host) for host in hosts]
            return "broken" in [state[BROKEN] for state in states] and \
                all("active" in [state[partition] for state in states] for partition in OTHERS)
        harness.wait_until(is_broken, WAIT_S, "one partition is broken, the others are active")

    def refusals(self, hosts, behind):
        """Nothing is written by any of them: the import afterwards finds empty logs."""
        done = run_import(self.broker, "shop-2", behind.data)
        self.assertEqual(done.returncode, 2)
        for partition in self.absent:
            self.assertIn(f"partition {partition}: no folder has a whole copy\n  {behind.data} has none", done.stderr)
        self.assertIn(f"{len(self.absent)} of {PARTITIONS} partitions have no whole copy", done.stderr)
        hosts[0].start()
        done = run_import(self.broker, "shop-2", *(host.data for host in (behind, *hosts)))
        self.assertEqual(done.returncode, 2)
        self.assertIn("is in use by another process", done.stderr)
        hosts[0].end(signal.SIGTERM)

    def compare(self, hosts, told):
        for host in hosts:
            for timer, answer in self.look(host, told).items():
                self.assertEqual(answer, told[timer], timer)
        leased = []
        while len(leased) < len(self.items):
            answer = self.call(hosts[0], "POST", "/v1/queues/jobs/lease", {"max": 100, "wait": "20s", "lease": "1h"})
            leased += [item["id"] for item in answer["items"]]
        self.assertEqual(sorted(leased), sorted(self.items))
        harness.wait_until(lambda: self.receiver.count() >= len(self.due) + EACH // 4, WAIT_S, "all webhooks")
        made = self.create(hosts[1], EACH, after="0s", target=self.receiver.url("/made"))
        self.assertFalse(set(made) & set(told))
        harness.wait_until(lambda: self.receiver.count() >= len(self.due) + EACH // 4 + EACH, WAIT_S, "new webhooks")
        arrivals = self.receiver.arrivals()
        arrived = [harness.timer_id_of(arrival.webhook_id) for arrival in arrivals]
        self.assertEqual(sorted(timer for timer in arrived if timer in set(self.due)), sorted(self.due))
        for partition in range(PARTITIONS):
            epochs = [(arrival.path == "/made", arrival.epoch) for arrival in arrivals
                      if partition_of(harness.timer_id_of(arrival.webhook_id)) == partition]
            self.assertLess(max(epoch for is_made, epoch in epochs if not is_made and epoch < 1000),
                            min(epoch for is_made, epoch in epochs if is_made))

    def test_copies_of_a_broken_log(self):
        print(f"TEST_SEED={SEED}", flush=True)
        self.chance = random.Random(SEED)
        with broker_servers.Kafka() as self.broker, harness.Receiver() as self.receiver:
            self.assertEqual(make_topics(self.broker, "shop").returncode, 0)
            hosts = self.nodes("shop", (1, 2, 3))
            told = self.fill(hosts[0])
            behind = hosts.pop()
            self.absent = harness.wait_until(
                lambda: {i for i, state in enumerate(self.states(behind)) if state == "absent"}, WAIT_S, "its part alone")
            self.stop([behind])
            cluster_nodes.await_shares(hosts, PARTITIONS, WAIT_S, "two nodes")
            told += self.go_on(hosts[0])
            told = self.look(hosts[0], told)
            self.break_log(hosts)
            marks = {partition_of(timer): timer for timer in told}
            self.assertEqual({timer: answer[0] == 503 for timer, answer in self.look(hosts[0], marks.values()).items()},
                             {timer: partition == BROKEN for partition, timer in marks.items()})
            self.stop(hosts)

            self.assertEqual(make_topics(self.broker, "shop-2").returncode, 0)
            self.refusals(hosts, behind)
            live = self.count_live(told)  # no node starts from here on, so nothing becomes due any more
            folders = [host.data for host in (behind, *hosts)]
            kill_imports(self.chance, self.broker, "shop-2", PARTITIONS, *folders)
            done = run_import(self.broker, "shop-2", *folders)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout.count(" live timers from "), PARTITIONS)
            self.assertNotIn(behind.data, done.stdout)
            self.assertEqual(run_import(self.broker, "shop-2", *folders).stdout, done.stdout)
            print(done.stdout, flush=True)
            self.assertIn(f"all {live} live timers", done.stdout)
            self.compare(self.nodes("shop-2", (1, 2)), told)


if __name__ == "__main__":
    broker_scenario.main(ImportTest, broker_servers.Kafka)
