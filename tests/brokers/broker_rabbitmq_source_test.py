#!/usr/bin/env python3
"""A queue of RabbitMQ as a source of timers, with a real server and a real daemon: each message becomes one timer, or comes to the
queue of the rejected, while both are killed. Method: messages that the server has confirmed are compared with the timers, by their
message-id and payload."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import broker_servers
import cluster_nodes
import harness
import pages
import postgres_servers
import python_tools

PIKA = "1.3.2"
KILLS = int(os.environ.get("TEST_KILLS", "3"))
BURST = int(os.environ.get("TEST_MESSAGES", "10000"))
HOUR_MS = 3600 * 1000


def line(payload, *headers, name="-", kind="application/json"):
    """A message for rabbitmq_tool."""
    return " ".join([kind, name, payload.encode().hex() or "-", *headers]) + "\n"


@unittest.skipIf(broker_servers.Rabbitmq.missing(), broker_servers.Rabbitmq.missing())
class RabbitmqSource(unittest.TestCase):

    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-source-")
        self.addCleanup(shutil.rmtree, self.data)
        self.broker = self.enterContext(broker_servers.Rabbitmq())
        self.broker.tool("queue", "late")
        self.broker.tool("queue", "late.rejected")
        self.broker.tool("exchange", "delayed", "late", "", "fanout")
        self.broker.tool("exchange", "shop", self.broker.queue, "a/b")

    def start(self, *flags, parameters="", data=None, connection="main"):
        setting = f"late={self.broker.url()}?queue=late&connection={connection}{parameters}"
        daemon = harness.Daemon(data or self.data, *flags, "--broker-connections", f"main={self.broker.url()}",
                                env={**os.environ, "TICKWHEEL_SOURCES": setting})
        self.addCleanup(daemon.close)
        return daemon

    def publish(self, *lines, exchange="delayed", key="a/b"):
        return self.broker.tool("publish", exchange, key, lines="".join(lines))

    def count(self, queue="late"):
        return int(self.broker.tool("count", queue))

    def timers(self, daemon):
        found, where = [], "/v1/timers?limit=1000"
        while where:
            status, _, page = daemon.call("GET", where)
            self.assertEqual(status, 200, page)
            found += page["timers"]
            where = page["next"] and f"/v1/timers?limit=1000&cursor={page['next']}"
        return found

    def await_taken(self, daemon, count):
        harness.wait_until(lambda: daemon.metric('tickwheel_source_rows_total{result="taken"}') >= count, 60, f"{count} are taken")

    # proves: rabbitmq-source
    def test_a_message_comes_back_when_it_is_due(self):
        """Goal: x-delay and x-at in each of their forms; the message keeps body, content type and headers, and goes to the exchange
        and routing key of the setting, its own or its headers'."""
        daemon = self.start(parameters="&exchange=shop")
        now = int(time.time() * 1000)
        self.publish(
            line('{"n":  1}', "x-delay=l:700", "team=S:shop", "n=l:-5", "paid=t:1", "webhook-id=S:old", "x-death=V:"),
            line("two", "x-delay=S:500", kind="text/plain"),
            line("three", f"x-at=l:{now + 300}", kind="-"),
            line("four", f"x-at=T:{now // 1000}", f"x-routing-key=S:{self.broker.queue}", "x-exchange=S:"),
            line("null", "x-at=S:2020-01-01T00:00:00Z", "x-delivery-count=l:7"))
        harness.wait_until(lambda: self.count(self.broker.queue) == 5, 30, "all come back")
        found = {payload: fields for fields, payload, _ in self.broker.received()}
        self.assertEqual(list(found)[2:], [b"three", b"two", b'{"n":  1}'])
        first = found[b'{"n":  1}']
        self.assertEqual({name: first[name] for name in ("content-type", "team", "n", "paid", "tickwheel-attempt")},
                         {"content-type": "application/json", "team": "shop", "n": "-5", "paid": "true", "tickwheel-attempt": "1"})
        self.assertEqual(set(first) - {"content-type", "team", "n", "paid"},
                         {"webhook-id", "tickwheel-due", "tickwheel-attempt", "tickwheel-epoch"})
        self.assertEqual([found[name]["content-type"] for name in (b"two", b"three", b"null")],
                         ["text/plain", "application/octet-stream", "application/json"])
        self.assertEqual(self.count(), 0)
        self.assertEqual(daemon.metric("tickwheel_sources_still"), 0)

    REFUSED = [  # a message, and what is wrong with it
        (["x-at=l:5"], "#/at"), (["x-delay=l:-1"], "#/after"), (["x-delay=S:soon"], "#/after"), (["x-delay=V:"], "#/after"),
        ([f"x-delay=l:{1 << 62}"], "#/after"), (["x-delay=l:1", "x-at=l:99999999999999"], "#/at"), ([], "#"),
        (["x-delay=l:1", "x-routing-key=S:"], "#/target"), (["x-delay=l:1", "x-exchange=l:5"], "#/target"),
        (["x-delay=l:1", "a=S:1", "A=S:2"], "#/headers/A")]

    # proves: rabbitmq-rejected
    def test_what_is_refused_is_kept(self):
        """Goal: what cannot become a timer is in late.rejected, as it was and with its problem; those beside it are taken."""
        daemon = self.start("--payload-bytes-max", "200K")
        lines = [line(f'"{n}"', *headers, name=f"id-{n}") for n, (headers, _) in enumerate(self.REFUSED)]
        lines += [line("x" * 300_000, "x-delay=l:1", name="large", kind="text/plain"), line("y", "x-delay=l:1", name="n" * 252)]
        lines += [line(f'"right-{n}"', f"x-delay=l:{HOUR_MS}") for n in range(20)]
        random.Random(1).shuffle(lines)
        self.publish(*lines, key="key")
        self.await_taken(daemon, 20)
        harness.wait_until(lambda: self.count("late.rejected") == len(self.REFUSED) + 2, 30, "the others are rejected")
        found = {fields["message-id"]: (payload, fields) for _, payload, fields in self.broker.read("late.rejected")}
        for n, (headers, pointer) in enumerate(self.REFUSED):
            payload, fields = found[f"id-{n}"]
            problem = json.loads(fields["tickwheel-problem"])
            self.assertEqual((problem["errors"][0].get("pointer", ""), payload), (pointer, f'"{n}"'.encode()), problem)
            self.assertLessEqual({header.partition("=")[0] for header in headers}, set(fields))
            if "x-routing-key=S:" not in headers:
                self.assertEqual(fields["x-routing-key"], "key")
        self.assertEqual(found["large"][0], b"x" * 300_000)
        self.assertEqual(json.loads(found["large"][1]["tickwheel-problem"])["type"], "/problems/too-large")
        self.assertIn("message-id", found["n" * 252][1]["tickwheel-problem"])
        self.assertEqual(daemon.metric('tickwheel_source_rows_total{result="refused"}'), len(self.REFUSED) + 2)
        daemon.find_in_output("level=warn event=source_refused source=late count=.* last=")
        self.assertEqual(len(self.timers(daemon)), 20)
        for payload in ("1", "2", "1"):  # another message that has the id of one
            self.publish(line(payload, f"x-delay=l:{HOUR_MS}", name="same"))
        self.await_taken(daemon, 22)
        (_, payload, fields), = self.broker.read("late.rejected")
        self.assertEqual((payload, json.loads(fields["tickwheel-problem"])["type"]), (b"2", "/problems/request-differs"))
        self.assertEqual(len(self.timers(daemon)), 21)

    # proves: rabbitmq-rejected
    def test_a_dead_letter_exchange_gets_what_is_refused(self):
        self.broker.tool("queue", "grave")
        self.broker.tool("dead", "mortal", "grave")
        setting = f"late={self.broker.url()}?queue=mortal&connection=main&dead_letter=true"
        daemon = harness.Daemon(self.data, "--broker-connections", f"main={self.broker.url()}", "--payload-bytes-max", "100K",
                                env={**os.environ, "TICKWHEEL_SOURCES": setting})
        self.addCleanup(daemon.close)
        self.publish(line("1"), line("2", f"x-delay=l:{HOUR_MS}"), line("3" * 150_000, "x-delay=l:1"), line("4"), exchange="", key="mortal")
        harness.wait_until(lambda: self.count("grave") == 3, 30, "what is refused is rejected")
        self.assertEqual(sorted(payload[:1] for _, payload, _ in self.broker.read("grave")), [b"1", b"3", b"4"])
        self.await_taken(daemon, 1)

    def publish_until_killed(self, names, until):
        """Publishes, and kills the server after this number of confirms. Returns the names that were confirmed."""
        tool = subprocess.Popen([harness.find("rabbitmq_tool"), str(self.broker.port), "publish", "delayed", "a/b"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        harness.started.append(tool)
        tool.stdin.write("".join(line(f'"{name}"', f"x-delay=l:{HOUR_MS}", name=name) for name in names))
        tool.stdin.close()
        seen = set()
        for answer in tool.stdout:
            tag = int(answer)
            seen |= {tag} if tag > 0 else set(range(1, -tag + 1))
            if len(seen) >= until and self.broker.process.poll() is None:
                self.broker.stop(signal.SIGKILL)
        tool.wait(60)
        tool.stdout.close()
        self.broker.start()
        return {names[tag - 1] for tag in seen}

    def kill_while_it_reads(self, dice):
        """Starts the daemon and kills it when it has taken some messages. Returns once it has taken all."""
        while self.count():
            daemon, until = self.start(), dice.randrange(1, 600)
            harness.wait_until(lambda: self.count() == 0 or daemon.metric('tickwheel_source_rows_total{result="taken"}') >= until,
                               60, "some are taken")
            daemon.signal(signal.SIGKILL)

    # proves: rabbitmq-source
    def test_kills_of_daemon_and_server(self):
        """Goal: each message that the server confirmed is exactly one timer, whatever of both is killed when; one sent twice too."""
        seed = int(os.environ.get("TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"TEST_SEED={seed}", file=sys.stderr)
        dice, sent, confirmed = random.Random(seed), 0, set()
        for _ in range(KILLS):
            some = [f"{sent + n}" for n in range(dice.randrange(1000, 3000))]
            sent += len(some)
            daemon = self.start()
            confirmed |= self.publish_until_killed(some, dice.randrange(1, len(some)))
            daemon.signal(signal.SIGKILL)
            again = dice.sample(sorted(confirmed), min(1000, len(confirmed)))  # a producer that does not know
            self.publish(*(line(f'"{name}"', f"x-delay=l:{HOUR_MS}", name=name) for name in again))
            self.kill_while_it_reads(dice)
        daemon = self.start()
        harness.wait_until(daemon.is_ready, 30, "ready")
        found = [timer["payload"] for timer in self.timers(daemon)]
        self.assertEqual(len(found), len(set(found)), "a message made two timers")
        self.assertEqual(confirmed - set(found), set(), "messages without a timer")
        self.assertEqual(self.count("late.rejected"), 0)

    def test_a_burst_in_order(self):
        """Goal: a burst becomes timers whose due times rise as the messages came, at most `prefetch` at a time; a stop in the middle
        lets go of the rest, and doubles none of those that have no message-id."""
        daemon = self.start(parameters="&prefetch=100")
        harness.wait_until(daemon.is_ready, 30, "ready")
        self.publish(*(line(f"{n}", f"x-delay=l:{HOUR_MS}") for n in range(BURST)))
        self.await_taken(daemon, BURST // 10)
        self.assertEqual(daemon.signal(signal.SIGTERM), 0)
        daemon = self.start()
        harness.wait_until(lambda: self.count() == 0, 60, "the queue is empty")
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_pending") >= BURST, 60, "all are timers")
        found = sorted(self.timers(daemon), key=lambda timer: timer["payload"])
        self.assertEqual([timer["payload"] for timer in found], list(range(BURST)))
        dues = [timer["due"] for timer in found]
        self.assertEqual(dues, sorted(dues))

    def test_tls(self):
        """Goal: a queue behind TLS is read if the certificate is that of the host's name."""
        server = self.enterContext(broker_servers.RabbitmqTls())
        for url, line_of_log in ((server.url().replace("localhost", "127.0.0.1"), "source_still"), (server.url(), "source_read")):
            setting = f"late={url}&queue={server.queue}&connection=main&dead_letter=true"
            daemon = harness.Daemon(self.data, "--broker-connections", f"main={self.broker.url()}",
                                    env={**os.environ, "TICKWHEEL_SOURCES": setting})
            self.addCleanup(daemon.close)
            daemon.find_in_output(f"event={line_of_log} source=late")
            daemon.close()

    def test_the_page_for_users_of_the_plugin(self):
        """Goal: the code of docs/coming-from.md does what the page says, with the library that most producers in Python use."""
        python = python_tools.program("pika", PIKA, "python")
        if not python:
            self.skipTest("pika cannot be had")
        self.broker.tool("queue", "recheck")
        block, = pages.blocks("coming-from.md", "python", "RabbitMQ's delayed-message plugin")
        script = (f"import pika\nbody = b'42'\nconnection = pika.BlockingConnection(pika.ConnectionParameters(port={self.broker.port}))\n"
                  f"channel = connection.channel()\n{block}connection.close()\n")
        daemon = self.start(parameters="&exchange=orders")
        subprocess.run([python, "-c", script], check=True, timeout=60)
        self.await_taken(daemon, 1)
        timer, = self.timers(daemon)
        self.assertEqual(timer["target"], "amqp://main/orders/recheck")
        self.assertEqual(daemon.call("POST", f"/v1/timers/{timer['id']}/fire")[0], 200)
        harness.wait_until(lambda: self.count("recheck") == 1, 30, "it fires")
        (_, payload, _), = self.broker.read("recheck")
        self.assertEqual(payload, b"42")

    def test_no_room_makes_messages_wait(self):
        daemon = self.start("--pending-max", "5")
        harness.wait_until(daemon.is_ready, 30, "ready")
        self.publish(*(line(f"{n}", f"x-delay=l:{HOUR_MS}", name=f"{n}") for n in range(8)))
        self.await_taken(daemon, 5)
        harness.wait_until(lambda: daemon.metric("tickwheel_source_oldest_seconds") > 0, 30, "the others wait")
        for timer in self.timers(daemon)[:3]:
            daemon.call("DELETE", f"/v1/timers/{timer['id']}")
        self.await_taken(daemon, 8)
        self.assertEqual(len(self.timers(daemon)), 5)

    def test_why_it_stands_still(self):
        """Goal: each cause is in the log and the health, and is over when it is mended."""
        self.broker.tool("queue", "other")
        setting = f"late={self.broker.url()}?queue=other&connection=main"
        daemon = harness.Daemon(self.data, "--broker-connections", f"main={self.broker.url()}",
                                env={**os.environ, "TICKWHEEL_SOURCES": setting})
        self.addCleanup(daemon.close)
        daemon.find_in_output("event=source_still source=late cause=.*no queue 'other.rejected'")
        harness.wait_until(lambda: "source late is not read" in str(daemon.call("GET", "/readyz")[2]), 20, "it is shown")
        self.broker.tool("queue", "other.rejected")
        daemon.find_in_output("event=source_read source=late")
        folder = tempfile.mkdtemp(prefix="tickwheel-source-")
        self.addCleanup(shutil.rmtree, folder)
        second = harness.Daemon(folder, "--broker-connections", f"main={self.broker.url()}",
                                env={**os.environ, "TICKWHEEL_SOURCES": setting})
        self.addCleanup(second.close)
        second.find_in_output("event=source_still source=late cause=.*exclusive")
        daemon.signal(signal.SIGKILL)
        second.find_in_output("event=source_read source=late")
        second.close()
        wrong = self.start(connection="absent")
        wrong.find_in_output("event=source_still source=late cause=.*absent")

    @unittest.skipIf(postgres_servers.missing(), postgres_servers.missing())
    def test_the_owner_has_no_such_source(self):
        """Goal: a node of a cluster that has the source says that its owner does not read it, until it reads it itself."""
        log = self.enterContext(postgres_servers.Postgres())
        flags = ("--partitions", "2", "--cluster-listen", "127.0.0.1:0", "--broker-connections", f"main={self.broker.url()}")
        setting = {"TICKWHEEL_SOURCES": f"late={self.broker.url()}?queue=late&connection=main"}
        first, owner = (cluster_nodes.Node(number, log.url(), *flags, env=env) for number, env in ((1, setting), (2, {})))
        self.addCleanup(first.close)
        self.addCleanup(owner.close)
        self.assertEqual(first.run("--cluster-create").returncode, 0)
        for node in (owner, first):
            node.start()
        cluster_nodes.await_shares([first, owner], 2, 60, "started")

        def drain(method, node, by):
            harness.wait_until(lambda: by.daemon.call(method, f"/v1/cluster/nodes/{node.number}/drain")[0] == 200, 60, "drain")
        drain("PUT", first, first)
        harness.wait_until(lambda: first.owned() == 0, 60, "the other owns all")
        first.daemon.find_in_output("event=source_still source=late cause=\"?node 2 owns the partition", 120)
        drain("DELETE", first, owner)
        drain("PUT", owner, owner)
        first.daemon.find_in_output("event=source_read source=late")
        self.assertEqual(first.daemon.metric("tickwheel_sources_still"), 0)

    def test_a_connection_that_goes_away(self):
        """Goal: while the settings lack the connection of its timers a queue is not read, and no message is rejected."""
        settings = os.path.join(self.data, "connections")

        def write(name):
            with open(settings, "w", encoding="utf-8") as file:
                file.write(f"{name}={self.broker.url()}\n")
        write("main")
        data = tempfile.mkdtemp(prefix="tickwheel-source-")
        self.addCleanup(shutil.rmtree, data)
        daemon = harness.Daemon(data, "--broker-connections-file", settings,
                                env={**os.environ, "TICKWHEEL_SOURCES": f"late={self.broker.url()}?queue=late&connection=main"})
        self.addCleanup(daemon.close)
        daemon.find_in_output("event=source_read source=late")
        write("other")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.find_in_output("event=reloaded")
        self.publish(line("1", f"x-delay=l:{HOUR_MS}", name="1"))
        daemon.find_in_output("event=source_still source=late cause=.*main")
        write("main")
        daemon.process.send_signal(signal.SIGHUP)
        self.await_taken(daemon, 1)
        self.assertEqual(self.count("late.rejected"), 0)

    def test_a_queue_that_is_deleted_and_made_again(self):
        daemon = self.start()
        self.publish(line('"first"', f"x-delay=l:{HOUR_MS}", name="1"))
        self.await_taken(daemon, 1)
        self.broker.tool("drop", "late")
        self.broker.tool("queue", "late")
        self.broker.tool("exchange", "delayed", "late", "", "fanout")
        self.publish(line('"second"', f"x-delay=l:{HOUR_MS}", name="2"))
        self.await_taken(daemon, 2)

    def test_a_quorum_queue(self):
        self.broker.tool("quorum", "many")
        self.broker.tool("queue", "many.rejected")
        setting = f"late={self.broker.url()}?queue=many&connection=main"
        daemon = harness.Daemon(self.data, "--broker-connections", f"main={self.broker.url()}",
                                env={**os.environ, "TICKWHEEL_SOURCES": setting})
        self.addCleanup(daemon.close)
        self.publish(*(line(f"{n}", f"x-delay=l:{HOUR_MS}", name=f"{n}") for n in range(50)), line("wrong"), exchange="", key="many")
        self.await_taken(daemon, 50)
        harness.wait_until(lambda: self.count("many.rejected") == 1, 30, "the wrong one is rejected")
        self.assertEqual(sorted(timer["payload"] for timer in self.timers(daemon)), list(range(50)))


if __name__ == "__main__":
    unittest.main()
