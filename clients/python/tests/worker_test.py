"""Workers and the middleware for webhooks, on a real daemon."""

import asyncio
import collections
import http.client
import os
import signal
import subprocess
import sys
import threading
import unittest
import uuid
import wsgiref.simple_server
from datetime import timedelta

from tickwheel import AsyncClient, AsyncWorker, Client, Dead, Gone, Retry, Worker
from tickwheel.webhooks import verified, verified_asgi

ITEMS = 60

HANGS = {"": """
import datetime, sys, threading
from tickwheel import Client, Worker
def work(item):
    print("began", flush=True)
    threading.Event().wait()
Worker(Client(), sys.argv[1], work, lease=datetime.timedelta(seconds=1), drain=0.2).run()
print("returned")
""", "Async": """
import asyncio, datetime, sys
from tickwheel import AsyncClient, AsyncWorker
async def work(item):
    print("began", flush=True)
    await asyncio.Event().wait()
async def run():
    async with AsyncClient() as client:
        await AsyncWorker(client, sys.argv[1], work, lease=datetime.timedelta(seconds=1), drain=0.2).run()
asyncio.run(run())
print("returned")
"""}


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


class WorkerTest(unittest.TestCase):
    def setUp(self):
        self.client = Client(pause=0.01)
        self.addCleanup(self.client.close)
        self.queue = uuid.uuid4().hex[:12]

    def create(self, count, **fields):
        results = self.client.batch({"target": f"queue:{self.queue}", "after": "0s", "payload": n, **fields}
                                    for n in range(count))
        self.assertEqual([result.error for result in results], [None] * count)
        return [result.id for result in results]

    def final_state(self, id):
        try:
            return self.client.get(id).state
        except Gone as gone:
            return gone.timer.state

    def check_ends(self, ids, seen):
        """Every third was refused once and came again, every tenth is a dead letter, the others are done."""
        for n, id in enumerate(ids):
            self.assertEqual(self.final_state(id), "dead" if n % 10 == 0 else "fired", n)
            self.assertEqual(seen[n], 2 if n % 3 == 0 and n % 10 else 1, n)
        self.assertEqual({timer.last_error for timer in self.client.dead(target=f"queue:{self.queue}")}, {"tenth"})

    @staticmethod
    def outcome(item):
        if item.payload % 10 == 0:
            raise Dead("tenth")
        if item.payload % 3 == 0 and item.attempt == 1:
            raise Retry("0s", "third")

    def test_worker(self):
        """Goal: every item ends as its function says, no more than `concurrency` run at a time, `stop` ends."""
        ids, seen, lock = self.create(ITEMS), collections.Counter(), threading.Lock()
        wanted = ITEMS + sum(1 for n in range(ITEMS) if n % 3 == 0 and n % 10)
        running, most = 0, 0

        def work(item):
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
                seen[item.payload] += 1
                is_last = seen.total() == wanted
            try:
                self.outcome(item)
            finally:
                with lock:
                    running -= 1
                if is_last:
                    worker.stop()

        worker = Worker(self.client, self.queue, work, concurrency=5)
        thread = threading.Thread(target=worker.run)
        thread.start()
        thread.join(120)
        self.assertFalse(thread.is_alive())
        self.check_ends(ids, seen)
        self.assertLessEqual(most, 5)

    def test_async_worker(self):
        """Goal: the same of the worker for asyncio."""
        ids, seen = self.create(ITEMS), collections.Counter()
        wanted = ITEMS + sum(1 for n in range(ITEMS) if n % 3 == 0 and n % 10)

        async def run():
            async with AsyncClient(pause=0.01) as client:
                async def work(item):
                    seen[item.payload] += 1
                    if seen.total() == wanted:
                        worker.stop()
                    await asyncio.sleep(0)
                    self.outcome(item)

                worker = AsyncWorker(client, self.queue, work, concurrency=5)
                await asyncio.wait_for(worker.run(), 120)

        asyncio.run(run())
        self.check_ends(ids, seen)

    def test_lease_is_extended(self):
        """Goal: an item whose function takes longer than the lease is not given to another worker meanwhile."""
        [id] = self.create(1)
        attempts = []

        def work(item):
            attempts.append(item.attempt)
            threading.Event().wait(4)  # longer than the lease
            worker.stop()

        worker = Worker(self.client, self.queue, work, concurrency=2, lease=timedelta(seconds=3))
        thread = threading.Thread(target=worker.run)
        thread.start()
        thread.join(120)
        self.assertEqual(attempts, [1])
        self.assertEqual(self.final_state(id), "fired")

    def test_a_function_that_hangs_keeps_no_process(self):
        """Goal: after SIGTERM and `drain` a process ends whose function does not; the log names the item, which comes
        again when its lease ends. Method: a process of its own for each of the two workers."""
        for kind in ("", "Async"):
            [id] = self.create(1)
            program = subprocess.Popen([sys.executable, "-c", HANGS[kind], self.queue], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            self.addCleanup(program.kill)
            self.assertEqual(program.stdout.readline(), "began\n")
            program.send_signal(signal.SIGTERM)
            out, errors = program.communicate(timeout=60)
            self.assertEqual((program.returncode, out), (0, "returned\n"), errors)
            self.assertIn(f"item {id} still runs after 0.2 s", errors)
            [item] = self.client.lease(self.queue, wait="20s", lease=timedelta(seconds=30))
            self.assertEqual((item.id, item.attempt), (id, 2))
            self.client.ack(self.queue, [item])

    def test_refuses_a_lease_that_it_cannot_extend(self):
        with self.assertRaises(ValueError):
            Worker(self.client, self.queue, print, lease=timedelta(milliseconds=200))
        with self.assertRaises(ValueError):
            Worker(self.client, self.queue, print, concurrency=0)


class WebhookTest(unittest.TestCase):
    secret = os.environ["TICKWHEEL_SECRET"]

    def test_wsgi(self):
        """Goal: a webhook of the daemon reaches the application with its body; one without a signature does not."""
        came = threading.Event()
        bodies = []

        def app(environ, start_response):
            bodies.append(environ["wsgi.input"].read())
            start_response("204 No Content", [])
            came.set()
            return []

        server = wsgiref.simple_server.make_server("127.0.0.1", 0, verified(app, self.secret), handler_class=Quiet)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        with Client() as client:
            client.create(f"http://127.0.0.1:{server.server_port}/hook", after="0s", payload={"order": 42})
        self.assertTrue(came.wait(60))
        self.assertEqual(bodies, [b'{"order":42}'])
        for headers, status in (({}, 401), ({"Content-Length": str(3 << 20)}, 413), ({"Content-Length": "x"}, 413)):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
            connection.request("POST", "/hook", headers=headers)
            self.assertEqual(connection.getresponse().status, status)
            connection.close()
        self.assertEqual(len(bodies), 1)

    def test_asgi(self):
        """Goal: as above, with the messages of ASGI."""
        sent, bodies = [], []

        async def app(scope, receive, send):
            message = await receive()
            bodies.append(message["body"])
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        async def send(message):
            sent.append(message.get("status"))

        async def call(chunks, headers):
            messages = [{"type": "http.request", "body": chunk, "more_body": i + 1 < len(chunks)}
                        for i, chunk in enumerate(chunks)]

            async def receive():
                return messages.pop(0)

            await verified_asgi(app, self.secret)({"type": "http", "headers": headers}, receive, send)

        import base64
        import hashlib
        import hmac
        import time
        now = str(int(time.time()))
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        digest = hmac.new(key, f"a.{now}.".encode() + b"one two", hashlib.sha256).digest()
        headers = [(b"webhook-id", b"a"), (b"webhook-timestamp", now.encode()),
                   (b"webhook-signature", b"v1," + base64.b64encode(digest))]
        asyncio.run(call([b"one ", b"two"], headers))
        asyncio.run(call([b"one ", b"three"], headers))
        asyncio.run(call([b"x" * (1 << 20)] * 3, headers))
        self.assertEqual([status for status in sent if status], [204, 401, 413])
        self.assertEqual(bodies, [b"one two"])


if __name__ == "__main__":
    unittest.main()
