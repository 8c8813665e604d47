#!/usr/bin/env python3
"""Goal: a node of a cluster answers for timers that another node owns as that one does. When the owner is killed
nothing is lost or doubled, and each answer meanwhile says what is known. Strangers at the port for nodes get nothing.

Method: two real daemons that share the partitions, on a real broker; clients ask the second one.

    TEST_SEED=N      repeats the choices
"""

import base64
import contextlib
import http.client
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_scenario
import broker_servers
import harness

SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
SECRET = "between-all-nodes-of-the-shop"
PARTITIONS = 4
READY_S = 120
FAR = {"after": "1h", "target": "log:far", "payload": 1}
KEYS = [f"order-{i}" for i in range(8 * PARTITIONS)]  # in all partitions, but for one of 10,000 runs of another hash


def stay_connected(port, count, head, crowd, stop):
    """Keeps so many connections open until `stop`: one that is closed is made again."""
    while not stop.is_set():
        while len(crowd) < count and not stop.is_set():
            try:
                connection = socket.create_connection(("127.0.0.1", port), 5)
                connection.sendall(head)
            except OSError:
                break
            connection.setblocking(False)
            crowd.append(connection)
        for connection in list(crowd):
            try:
                is_open = connection.recv(1) != b""
            except BlockingIOError:
                is_open = True
            except OSError:
                is_open = False
            if not is_open:
                connection.close()
                crowd.remove(connection)
        stop.wait(0.05)
    for connection in crowd:
        connection.close()


class Node(harness.Daemon):
    """A daemon that passes requests; where it listens for other nodes is `peers`."""

    def __init__(self, test, number, *flags, secret=SECRET):
        super().__init__(test.folder(number), *test.cluster, "--cluster-node-id", str(number), "--cluster-lease", "1s",
                         "--cluster-listen", "127.0.0.1:0", "--disk-reserve-bytes", "0", *flags,
                         env={**os.environ, "TICKWHEEL_CLUSTER_SECRET": secret})
        test.addCleanup(self.close)
        self.peers = int(self.find_in_output(r"event=cluster_listens address=\S+:(\d+)")[1])

    def owned(self):
        return self.metric("tickwheel_cluster_partitions_owned")


class PassTest(unittest.TestCase):
    def setUp(self):
        print(f"TEST_SEED={SEED}", flush=True)
        self.folders = {}
        self.broker = broker_servers.Kafka()
        self.addCleanup(self.broker.__exit__)
        self.broker.start()
        self.cluster = ("--cluster-brokers", f"127.0.0.1:{self.broker.port}", "--cluster-name", "shop",
                        "--partitions", str(PARTITIONS))
        subprocess.run([harness.find("tickwheeld"), *self.cluster, "--cluster-create"], check=True, timeout=120,
                       capture_output=True)

    def folder(self, number):
        if number not in self.folders:
            self.folders[number] = tempfile.mkdtemp(prefix="tickwheel-cluster-")
            self.addCleanup(shutil.rmtree, self.folders[number], ignore_errors=True)
        return self.folders[number]

    def pair(self, first=(), second=()):
        """Two nodes that own half of the partitions each."""
        nodes = Node(self, 1, *first), Node(self, 2, *second)
        harness.wait_until(lambda: all(node.is_ready() and node.owned() == PARTITIONS / 2 for node in nodes), READY_S,
                           "both have their share")
        return nodes

    def ask(self, node, method, path, body=None, expected=200, headers=None):
        status, answer_headers, answer = node.call(method, path, body, headers)
        self.assertEqual(status, expected, (method, path, answer))
        if status == 503:
            self.assertRegex(answer_headers["Retry-After"], r"\A\d+\Z")
        return answer

    def test_a_life_through_the_other_node(self):
        owner, other = self.pair()
        for key in KEYS:
            path = f"/v1/keys/{key}/timer"
            made = self.ask(other, "PUT", path, FAR, 201)
            self.assertEqual(self.ask(owner, "GET", path), self.ask(other, "GET", path))
            self.ask(other, "PATCH", path, {"payload": 2})
            by_id = f"/v1/timers/{made['id']}"
            later = self.ask(other, "POST", by_id + "/touch", {"after": "2h"})
            self.assertGreater(later["due"], made["due"])
            self.ask(owner, "POST", by_id + "/pause")
            self.assertEqual(self.ask(other, "GET", by_id)["state"], "paused")
            self.ask(other, "POST", by_id + "/resume")
            self.ask(other, "DELETE", path, expected=200)
            self.assertEqual(self.ask(owner, "GET", by_id, expected=410)["type"], "/problems/gone")

    def test_lists_and_counts_are_whole(self):
        owner, other = self.pair()
        ids = {self.ask(other, "POST", "/v1/timers", {**FAR, "labels": {"of": "list"}}, 201)["id"] for _ in range(30)}
        for node in (owner, other):
            listed = self.ask(node, "GET", "/v1/timers?label=of:list&limit=100")["timers"]
            page = self.ask(node, "GET", f"/v1/timers?key_contains=nowhere&target={FAR['target']}")
            self.assertEqual((page["timers"], page["next"]), ([], None))
            self.assertGreaterEqual(page["searched"], 30)  # also those of the other node
            self.assertEqual({timer["id"] for timer in listed}, ids)
            self.assertEqual(self.ask(node, "GET", "/v1/timers/count?by=label:of,state")["groups"],
                             [{"state": "scheduled", "label": "list", "count": 30}])
        self.assertEqual(self.ask(other, "POST", "/v1/timers/cancel", {"labels": {"of": "list"}})["cancelled"], 30)
        for node in (owner, other):
            self.assertEqual(self.ask(node, "GET", "/v1/timers?label=of:list")["timers"], [])

    def test_figures_are_those_of_all_nodes(self):
        """Each counts once, whichever node is asked. While a node is out of reach there is no answer, and no part of one."""
        owner, other = nodes = self.pair(second=("--cluster-wait", "300ms"))
        for key in KEYS:
            self.ask(other, "PUT", f"/v1/keys/{key}/timer", FAR, 201)
            self.ask(other, "PUT", f"/v1/keys/{key}-fails/timer", {"after": 0, "target": "http://127.0.0.1:1"}, 201)

        def work():
            with contextlib.suppress(OSError, http.client.HTTPException):
                while True:
                    other.call("POST", "/v1/queues/jobs/lease", {"wait": "20s"})
        threading.Thread(target=work, daemon=True).start()

        def all_told():
            stats = [self.ask(node, "GET", "/v1/stats") for node in nodes]
            queues = [self.ask(node, "GET", "/v1/queues/jobs") for node in nodes]
            targets = [self.ask(node, "GET", "/v1/targets") for node in nodes]
            self.assertEqual([answer["node"] for answer in stats + targets], [1, 2, 1, 2])
            return ([(answer["created"], answer["pending"], answer["workers"]) for answer in stats] ==
                    2 * [(2 * len(KEYS), 2 * len(KEYS), 1)] and
                    [answer["workers"] for answer in queues] == [1, 1] and
                    [(row["target"], row["failures"] > 0) for answer in targets for row in answer["targets"]] ==
                    2 * [("http://127.0.0.1:1", True)])
        harness.wait_until(all_told, 60, "both nodes tell of both")
        tenants = [self.ask(node, "GET", "/v1/tenants")["tenants"] for node in nodes]
        self.assertEqual([tenant["rate_refused"] for page in tenants for tenant in page], [0, 0])
        owner.signal(signal.SIGKILL)
        for path in ("/v1/stats", "/v1/tenants", "/v1/targets", "/v1/queues"):
            self.assertEqual(self.ask(other, "GET", path, expected=503)["type"], "/problems/overloaded")
        harness.wait_until(lambda: other.owned() == PARTITIONS and
                           other.call("GET", "/v1/stats")[2].get("pending") == 2 * len(KEYS), READY_S, "all that is left")

    # proves: token-keys-own, token-keys-rotate
    def test_all_nodes_have_the_keys_of_tokens(self):
        """They start together, and one makes the key; a rotation at one is known to the other, which can open the new key."""
        with open(os.path.join(self.folder("secrets"), "keys"), "w", encoding="utf-8") as file:
            file.write("k1=" + base64.b64encode(bytes(range(32))).decode())
        flags = ("--webhook-token-issuer", "https://timers.example", "--secrets-keys-file", file.name)
        nodes = self.pair(flags, flags)

        def are_equal(count):
            sets = [self.ask(node, "GET", "/.well-known/jwks.json")["keys"] for node in nodes]
            return sets[0] == sets[1] and len(sets[0]) == count
        harness.wait_until(lambda: are_equal(1), 60, "both show one key")
        self.ask(nodes[1], "POST", "/v1/token-keys/rotate", {"overlap": "0s", "alg": "RS256"})
        harness.wait_until(lambda: are_equal(2), 60, "both show two keys")
        for node in nodes:
            keys = self.ask(node, "GET", "/v1/token-keys")["keys"]
            self.assertEqual([(key["alg"], key["state"]) for key in keys], [("ES256", "ends"), ("RS256", "signs")])
            self.assertNotIn("token_keys_closed", node.output())

    def test_a_worker_at_the_other_node(self):
        owner, other = self.pair()
        made = {self.ask(other, "PUT", f"/v1/keys/{key}/timer", {"after": 0, "target": "queue:jobs", "payload": 1},
                         201)["id"] for key in KEYS}
        items = []
        while len(items) < len(made):
            wanted = {"max": 100, "wait": "20s", "lease": "1h"}
            items += self.ask(other, "POST", "/v1/queues/jobs/lease", wanted)["items"]
        self.assertEqual({item["id"] for item in items}, made)
        for node in (owner, other):
            self.assertEqual(self.ask(node, "GET", "/v1/queues/jobs")["leased"], len(made))
        receipts = {"receipts": [item["receipt"] for item in items]}
        self.assertEqual(self.ask(other, "POST", "/v1/queues/jobs/ack", receipts)["ok"], len(made))
        self.assertEqual(self.ask(owner, "POST", "/v1/queues/jobs/ack", receipts)["stale"], len(made))
        for each in made:
            self.assertEqual(self.ask(other, "GET", f"/v1/timers/{each}", expected=410)["timer"]["state"], "fired")

    def test_the_owner_is_killed(self):
        """Each create through the other node, while the owner dies: 201 is there once, 503 `overloaded` is not there,
        503 `in-doubt` may be there once."""
        owner, other = self.pair(second=("--cluster-wait", "300ms"))
        chance, lock, answers = random.Random(SEED), threading.Lock(), {}
        enough, goes_on = threading.Event(), threading.Event()
        goes_on.set()

        def create(worker):
            for number in range(100000):
                if not goes_on.is_set():
                    return
                name = f"{worker}-{number}"
                status, headers, answer = other.call("PUT", f"/v1/keys/{name}/timer", {**FAR, "labels": {"n": name}})
                if status == 503:
                    assert headers["Retry-After"], answer
                with lock:
                    answers[name] = answer["type"] if status != 201 else "made"
                    if len(answers) > 50 + chance.randrange(100):
                        enough.set()

        workers = [threading.Thread(target=create, args=[i]) for i in range(4)]
        for worker in workers:
            worker.start()
        self.assertTrue(enough.wait(60))
        owner.signal(signal.SIGKILL)
        harness.wait_until(lambda: "/problems/overloaded" in answers.values(), 60, "a refusal without an owner")
        harness.wait_until(lambda: other.owned() == PARTITIONS, READY_S, "the other node owns all")
        goes_on.clear()
        for worker in workers:
            worker.join()
        self.assertLessEqual(set(answers.values()), {"made", "/problems/overloaded", "/problems/in-doubt"})
        self.compare(other, answers)
        back = Node(self, 1)
        harness.wait_until(lambda: back.is_ready() and back.owned() == PARTITIONS / 2, READY_S, "its share is back")
        self.compare(back, answers)

    def compare(self, node, answers):
        there, cursor = [], ""
        while cursor is not None:
            page = self.ask(node, "GET", f"/v1/timers?limit=1000{cursor}")
            there += [timer["labels"]["n"] for timer in page["timers"]]
            cursor = f"&cursor={page['next']}" if page.get("next") else None
        counts = {kind: list(answers.values()).count(kind) for kind in set(answers.values())}
        print(counts, "there:", len(there), flush=True)
        self.assertEqual(len(there), len(set(there)), "doubled")
        made = {name for name, answer in answers.items() if answer == "made"}
        refused = {name for name, answer in answers.items() if answer == "/problems/overloaded"}
        self.assertEqual(made - set(there), set(), "acknowledged and lost")
        self.assertEqual(refused & set(there), set(), "made, although it was refused")

    def test_strangers(self):
        """Whoever is no node gets nothing from the port for nodes: not the API, not an answer without the secret."""
        owner, other = self.pair()
        for method, path, body, expected in (("GET", "/", None, 404), ("GET", "/v1/timers", None, 404),
                                             ("POST", "/v1/timers", b"{}", 404), ("GET", "/v1/peer", None, 404),
                                             ("POST", "/v1/peer", b"x", 413), ("POST", "/v1/peer", b"x" * 100, 401)):
            connection = http.client.HTTPConnection("127.0.0.1", owner.peers, timeout=30)
            connection.request(method, path, body)
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()), (expected, b""))
            connection.close()
        context = ssl.create_default_context()
        with socket.create_connection(("127.0.0.1", owner.peers), 30) as connection, \
                self.assertRaises((ssl.SSLError, OSError)):
            context.wrap_socket(connection, server_hostname="127.0.0.1")
        for key in KEYS:
            self.ask(other, "PUT", f"/v1/keys/{key}/timer", FAR, 201)
        with self.assertRaisesRegex(RuntimeError, "the cluster was founded with another secret"):
            Node(self, 3, secret="another-word-of-this-length")
        self.assertEqual(owner.owned(), PARTITIONS / 2)
        for key in KEYS:
            self.assertEqual(self.ask(owner, "GET", f"/v1/keys/{key}/timer")["state"], "scheduled")

    # proves: cluster-secret
    def test_the_secret_changes_while_nodes_run(self):
        """Each node takes a wrong secret, and the new one twice; the cluster is founded with it, and the former one ends:
        whichever of both nodes has which, each request through the other node is answered, and both keep their partitions."""
        files = [os.path.join(self.folder(f"secret-{number}"), "secret") for number in (1, 2)]
        for file in files:
            self.write_secret(file, SECRET)
        nodes = self.pair(*(("--cluster-secret-file", file) for file in files))
        fresh = SECRET + "-of-next-year"
        for node, file in zip(nodes, files):
            for times, secret in enumerate((SECRET + "-mistyped", fresh, fresh), 1):
                self.write_secret(file, secret)
                self.reload(node, times)
                self.all_pass(nodes)
        subprocess.run([harness.find("tickwheeld"), *self.cluster, "--cluster-change-secret"], check=True, timeout=120,
                       env={**os.environ, "TICKWHEEL_CLUSTER_SECRET": fresh})
        self.all_pass(nodes)
        for node in nodes:
            self.reload(node, 4)
            self.all_pass(nodes)
        self.assertEqual([node.owned() for node in nodes], [PARTITIONS / 2] * 2)
        with self.assertRaises((RuntimeError, TimeoutError)):
            Node(self, 3)  # it has the former secret

    def write_secret(self, file, secret):
        with open(file, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(secret + "\n")

    def reload(self, node, times):
        node.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: node.output().count("event=reloaded what=cluster_secret_file") == times, 30, "the secret is read")

    def all_pass(self, nodes):
        for node in nodes:
            for key in KEYS:
                self.assertIn(node.call("PUT", f"/v1/keys/{key}/timer", FAR)[0], (200, 201))

    # proves: cluster-strangers
    def test_silent_connections_take_nothing_from_nodes(self):
        """A crowd that connects, says nothing and comes again, and heads that announce more than there is memory for: each
        create that goes to the other node is made, and both nodes are ready throughout."""
        owner, other = self.pair()
        for what, count, head in (("nobody", 0, b""), ("silent connections", 1000, b""),
                                  ("heads of 256 MiB", 43, b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 268435456\r\n\r\n")):
            crowd, stop = [], threading.Event()
            threads = [threading.Thread(target=stay_connected, args=(owner.peers, count, head, crowd, stop)) for _ in range(count > 0)]
            for thread in threads:
                thread.start()
            harness.wait_until(lambda count=count, crowd=crowd: len(crowd) >= count // 2, 60, "a crowd")
            took = [self.keyed_create(other, f"{what}-{i}") for i in range(300)]
            ready = [node.is_ready() for node in (owner, other)]
            stop.set()
            for thread in threads:
                thread.join()
            print(f"{what}: 300 creates, p99 {harness.percentile(took, 0.99) * 1000:.1f} ms", flush=True)
            self.assertEqual(ready, [True, True], what)
        self.assertLess(owner.memory_bytes(), 256 << 20)

    def keyed_create(self, node, key):
        began = time.monotonic()
        self.ask(node, "PUT", f"/v1/keys/{urllib.parse.quote(key)}/timer", FAR, 201)
        return time.monotonic() - began

    # proves: redrive-once
    def test_a_redrive_ends(self):
        """The letters of both nodes, for a receiver that wants none of them: they die again while the loop goes on."""
        nodes, receiver = self.pair(), self.enterContext(harness.Receiver())
        for i in range(60):
            self.ask(nodes[i % 2], "PUT", f"/v1/keys/dead-{i}/timer", {"after": 0, "target": receiver.url("/gone")}, 201)

        def dead():
            return len(self.ask(nodes[0], "GET", "/v1/dead?limit=1000")["timers"])
        harness.wait_until(lambda: dead() == 60, READY_S, "all are dead")
        redriven, cursor, calls = 0, None, 0
        while calls == 0 or cursor:
            answer = self.ask(nodes[calls % 2], "POST", "/v1/dead/redrive",
                              {"all": True, "limit": 10, **({"cursor": cursor} if cursor else {})})
            redriven, cursor, calls = redriven + answer["redriven"], answer["next"], calls + 1
            self.assertLess(calls, 60)
        print(f"60 letters on two nodes: {redriven} redriven in {calls} calls", flush=True)
        self.assertGreaterEqual(redriven, 60)
        self.assertLessEqual(redriven, 120)  # what died within a second of the beginning may be taken twice

    def refused_key(self, node):
        """A key that this node must ask another one for, which refuses."""
        return harness.wait_until(
            lambda: next((key for key in KEYS if node.call("GET", f"/v1/keys/{key}/timer")[2].get("type") ==
                          "/problems/overloaded"), None), READY_S, "no answer of another node")

    def test_a_liar_at_the_address_of_the_owner(self):
        """Something that takes requests and proves nothing: no change is sent to it, so what is refused was not made."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            lies = threading.Thread(target=lie, args=[server], daemon=True)
            lies.start()
            owner, other = self.pair(("--cluster-address", f"127.0.0.1:{server.getsockname()[1]}"),
                                     ("--cluster-wait", "500ms"))
            refused = set()
            for key in KEYS:
                status, _, answer = other.call("PUT", f"/v1/keys/{key}/timer", {**FAR, "labels": {"n": key}})
                if status == 503:
                    refused.add(key)
                    self.assertEqual(answer["type"], "/problems/overloaded")
            self.assertTrue(0 < len(refused) < len(KEYS))
            self.assertEqual(self.ask(other, "GET", f"/v1/keys/{min(refused)}/timer", expected=503)["type"],
                             "/problems/overloaded")
            there = {timer["labels"]["n"] for timer in self.ask(owner, "GET", "/v1/timers?limit=1000")["timers"]}
            self.assertEqual(there, set(KEYS) - refused)

    def test_nodes_with_tls(self):
        """Nodes that trust one authority pass by TLS, and refuse plain connections."""
        certificates = broker_servers.Certificates(self.folder("certificates"))
        flags = ("--cluster-tls-certificate", certificates.certificate, "--cluster-tls-key", certificates.key,
                 "--cluster-ca-file", certificates.authority)
        owner, other = self.pair(flags, flags)
        for key in KEYS:
            made = self.ask(other, "PUT", f"/v1/keys/{key}/timer", FAR, 201)
            self.assertEqual(self.ask(owner, "GET", f"/v1/timers/{made['id']}")["id"], made["id"])
        connection = http.client.HTTPConnection("127.0.0.1", owner.peers, timeout=30)
        with self.assertRaises((http.client.HTTPException, OSError)):
            connection.request("GET", "/")
            connection.getresponse()
        connection.close()
        self.change_certificates(certificates, owner, other)
        self.refused_key(Node(self, 3, "--cluster-wait", "300ms"))  # it speaks no TLS

    def change_certificates(self, certificates, owner, other):
        """Those of another authority, which is trusted first."""
        later = broker_servers.Certificates(self.folder("later certificates"))
        with open(certificates.authority, "a") as trusted, open(later.authority) as file:
            trusted.write(file.read())
        shutil.copy(later.certificate, certificates.certificate)
        shutil.copy(later.key, certificates.key)
        context = ssl.create_default_context(cafile=later.authority)
        for node in (owner, other):
            with self.assertRaises(ssl.SSLError), socket.create_connection(("127.0.0.1", node.peers), 30) as plain:
                context.wrap_socket(plain, server_hostname="127.0.0.1")
            node.process.send_signal(signal.SIGHUP)
            node.find_in_output("event=reloaded what=cluster_tls_certificate")
            with socket.create_connection(("127.0.0.1", node.peers), 30) as plain:
                context.wrap_socket(plain, server_hostname="127.0.0.1").close()
        third = Node(self, 4, "--cluster-tls-certificate", certificates.certificate, "--cluster-tls-key", certificates.key,
                     "--cluster-ca-file", certificates.authority)
        self.ask(third, "PUT", f"/v1/keys/{KEYS[0]}/timer", FAR, 200)


def lie(server):
    """Answers whatever comes with 200 and a body that proves nothing, until the server is closed."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as file:
            length = 0
            while (line := file.readline()) not in (b"\r\n", b""):
                if found := re.match(rb"Content-Length: (\d+)", line):
                    length = int(found[1])
            file.read(length)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100)
            except OSError:
                continue


if __name__ == "__main__":
    broker_scenario.main(PassTest, broker_servers.Kafka)
