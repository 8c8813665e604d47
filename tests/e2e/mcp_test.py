#!/usr/bin/env python3
"""Goal: a program with a language model uses timers by `tickwheel mcp`, the verbs of the command line as tools of the
Model Context Protocol; nothing that a model writes does more than its tool says, and no call holds another up. Method:
messages of the protocol as they are on the wire, to a real daemon, right and wrong ones; and the official client of
Python, which is installed from the package index: without the index this test is skipped and says so."""

import base64
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import daemon_case
import harness
import python_tools

CLIENT = "1.30.0"
LINE_BYTES_MAX = 1 << 20
READING = {"get", "list", "count", "schedules", "preview", "explain", "deliveries", "queues", "targets", "dead_letters",
           "dead_groups"}


class Server:
    """A run of the verb; its answers by their ids."""

    def __init__(self, env, *flags):
        self.process = subprocess.Popen([harness.find("tickwheel"), "mcp", *flags], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.answers = queue.Queue()
        self.early = {}
        self.last = 0
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.answers.put(json.loads(line))
        self.answers.put(None)

    def write(self, line):
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def send(self, method, params=None, **more):
        message = {"jsonrpc": "2.0", "method": method, **more}
        if params is not None:
            message["params"] = params
        self.write(json.dumps(message).encode() + b"\n")

    def ask(self, method, params=None):
        self.last += 1
        self.send(method, params, id=self.last)
        return self.last

    def answer(self, of=None):
        """The next answer, or that to a request."""
        if of in self.early:
            return self.early.pop(of)
        while True:
            answer = self.answers.get(timeout=harness.PATIENCE_S)
            if answer is None:
                raise EOFError("the server has ended")
            if of is None or answer["id"] == of:
                return answer
            self.early[answer["id"]] = answer

    def call(self, tool, **arguments):
        return self.answer(self.ask("tools/call", {"name": tool, "arguments": arguments}))["result"]

    def end(self):
        """Closes the input. Returns the exit code and what was printed to standard error."""
        self.process.stdin.close()
        code = self.process.wait(harness.PATIENCE_S)
        self.reader.join()
        errors = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return code, errors


class McpCase(daemon_case.DaemonCase):
    def serve(self, *flags, **more):
        env = command_line.environment(more.pop("url", f"http://127.0.0.1:{self.daemon.port}"), **more)
        server = Server(env, *flags)
        self.addCleanup(self.stop, server)
        return server

    def stop(self, server):
        if server.process.returncode is None:
            self.assertEqual(server.end(), (0, ""))

    def done(self, server, tool, **arguments):
        result = server.call(tool, **arguments)
        self.assertFalse(result["isError"], result)
        self.assertEqual(json.loads(result["content"][-1]["text"]), result["structuredContent"])
        return result["structuredContent"]

    def fails(self, server, words, tool, **arguments):
        result = server.call(tool, **arguments)
        self.assertTrue(result["isError"], result)
        self.assertIn(words, result["content"][0]["text"])


class ProtocolTest(McpCase):
    # proves: mcp
    def test_the_revision_is_agreed(self):
        """The client's, or else the newest one that is known; results have structure from 2025-06-18 on."""
        for asked, agreed in (("2025-06-18", "2025-06-18"), ("2025-03-26", "2025-03-26"), ("2024-11-05", "2024-11-05"),
                              ("2099-01-01", "2025-06-18"), (None, "2025-06-18")):
            server = self.serve()
            result = server.answer(server.ask("initialize", {"protocolVersion": asked} if asked else {}))["result"]
            self.assertEqual((result["protocolVersion"], result["serverInfo"]["name"]), (agreed, "tickwheel"))
            self.assertEqual(result["capabilities"], {"tools": {}})
            server.send("notifications/initialized")
            self.assertEqual("structuredContent" in server.call("count"), agreed == "2025-06-18")

    # proves: mcp
    def test_what_is_no_request(self):
        """Each fault has its code, and the next message is read."""
        server = self.serve()
        for line, code, of in (
                (b"{", -32700, None), (b"\xff", -32700, None), (b"[" * 100, -32700, None), (b'{"a":1}x', -32700, None),
                (b"[]", -32600, None), (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None), (b"3", -32600, None),
                (b"{}", -32600, None), (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7),
                (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
                (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
                (b'{"jsonrpc":"2.0","id":"a","method":5}', -32600, "a"),
                (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}', -32602, "a"),
                (b'{"jsonrpc":"2.0","id":"a","method":"resources/list"}', -32601, "a"),
                (b'{"jsonrpc":"2.0","id":"a","method":"notifications/cancelled"}', -32601, "a"),
                (b'{"jsonrpc":"2.0","id":"a","method":"tools/call"}', -32602, "a"),
                (b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"rm"}}', -32602, "a"),
                (b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":["list"]}}', -32602, "a")):
            server.write(line + b"\n")
            answer = server.answer()
            self.assertEqual((answer["error"]["code"], answer["id"]), (code, of), (line, answer))
        for line in (b"", b"  ", b'{"jsonrpc":"2.0","method":"notifications/unknown"}', b'{"jsonrpc":"2.0","id":1,"result":{}}',
                     b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}',
                     b'{"jsonrpc":"2.0","method":"notifications/cancelled"}'):
            server.write(line + b"\n")
        server.write(b' {"jsonrpc":"2.0","id":-1.50,"method":"ping"}\r\n')
        self.assertEqual(server.answer(), {"jsonrpc": "2.0", "id": -1.5, "result": {}})

    # proves: mcp, mcp-line
    def test_a_line_is_bounded(self):
        """One at the limit is read; a longer one is refused and dropped, whatever it has, and memory stays small."""
        server = self.serve()
        head = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"'
        for size, code in ((LINE_BYTES_MAX, None), (LINE_BYTES_MAX + 1, -32600), (64 << 20, -32600)):
            server.write(head + b"x" * (size - len(head) - 3) + b'"}}\n')
            self.assertEqual(server.answer().get("error", {}).get("code"), code)
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            peak = int(next(line.split()[1] for line in file if line.startswith("VmHWM")))
        if not os.environ.get("ASAN_OPTIONS"):
            self.assertLess(peak, 64 << 10, "KiB")
        self.assertEqual(server.answer(server.ask("ping"))["result"], {})

    # proves: mcp
    def test_it_ends(self):
        """With its input, after the answers to what was asked before; with a signal, even while a call waits."""
        server = self.serve()
        asked = server.ask("tools/call", {"name": "count"})
        self.assertEqual(server.end(), (0, ""))
        self.assertEqual(server.answer(asked)["result"]["structuredContent"]["count"], 0)
        server = self.serve()
        server.ask("tools/call", {"name": "lease", "arguments": {"queue": "empty", "wait": "20s"}})
        self.await_workers(1)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.end(), (130, ""))
        self.await_workers(0)
        reads, writes = os.pipe()  # a client that does not read
        self.addCleanup(os.close, reads)
        env = command_line.environment(f"http://127.0.0.1:{self.daemon.port}")
        with subprocess.Popen([harness.find("tickwheel"), "mcp"], env=env, stdin=subprocess.PIPE, stdout=writes) as process:
            os.close(writes)
            process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n' * 10)
            process.stdin.flush()
            harness.wait_until(lambda: select.select([reads], [], [], 0)[0], 20, "a part of an answer")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(harness.PATIENCE_S), 130)
        server = self.serve()
        server.ask("tools/call", {"name": "lease", "arguments": {"queue": "empty", "wait": "20s"}})
        self.await_workers(1)
        server.process.kill()
        self.assertEqual(server.end(), (-signal.SIGKILL, ""))
        self.await_workers(0)

    def await_workers(self, count):
        def workers():
            return {each["name"]: each["workers"] for each in self.call(200, "GET", "/v1/queues")[1]["queues"]}
        harness.wait_until(lambda: workers().get("empty", 0) == count, 20, f"{count} workers")


class ToolsTest(McpCase):
    # proves: mcp
    def test_tools_say_what_they_do(self):
        """All of them, and of --read-only those that change nothing, whose calls are the only ones."""
        server, reader = self.serve(), self.serve("--read-only")
        tools = {tool["name"]: tool for tool in server.answer(server.ask("tools/list"))["result"]["tools"]}
        hints = {name: tool["annotations"] for name, tool in tools.items()}
        self.assertEqual({name for name, hint in hints.items() if hint["readOnlyHint"]}, READING)
        self.assertTrue(hints["cancel"]["destructiveHint"] and hints["cancel"]["idempotentHint"])
        self.assertFalse(hints["schedule"]["destructiveHint"] or hints["schedule"]["idempotentHint"])
        for name, tool in tools.items():
            schema = tool["inputSchema"]
            self.assertFalse({"token", "token_file", "url", "context", "output", "watch", "follow"} & set(schema["properties"]), name)
            self.assertFalse(schema["additionalProperties"])
            self.assertNotIn("--", json.dumps(tool), name)
        self.assertEqual(tools["schedule"]["inputSchema"]["required"], ["target"])
        self.assertEqual(tools["touch"]["inputSchema"]["required"], ["when"])
        self.assertEqual(tools["ack"]["inputSchema"]["required"], ["queue", "receipts"])
        self.assertEqual(tools["list"]["inputSchema"]["properties"]["limit"]["default"], 100)
        shown = reader.answer(reader.ask("tools/list"))["result"]["tools"]
        self.assertEqual({tool["name"] for tool in shown}, READING)
        self.assertEqual(reader.answer(reader.ask("tools/call", {"name": "schedule", "arguments": {
            "when": "1h", "target": "queue:a"}}))["error"]["code"], -32602)
        self.assertEqual(self.done(reader, "list"), {"items": []})
        self.create(target="queue:pause", after=0)
        harness.wait_until(lambda: self.call(200, "GET", "/v1/queues/pause")[1]["ready"] == 1, 20, "an item")
        self.assertEqual([each["ready"] for each in self.done(reader, "queues")["queues"]], [1])
        self.assertEqual(json.loads(reader.call("queues", queue="pause")["content"][-1]["text"])["ready"], 1)
        self.fails(reader, "no argument \"until\"", "queues", queue="pause", until="1h")
        self.fails(reader, "queue: a string", "queues", queue=["pause", "pause"])
        self.assertEqual(self.done(reader, "targets")["targets"], [])

    # proves: mcp
    def test_a_life(self):
        """Of a timer, by every kind of field."""
        server = self.serve()
        made = self.done(server, "schedule", when="1h", target="queue:mail", key="k 1", payload={"to": "ä", "n": [1.50, None]},
                         label={"team": "a", 'with "quotes": b': "x:y"}, set={"flow": {"key": "f", "concurrency": 2}}, attempts=3)
        self.assertEqual((made["payload"], made["labels"], made["retry"]["max_attempts"]),
                         ({"to": "ä", "n": [1.5, None]}, {"team": "a", 'with "quotes": b': "x:y"}, 3))
        self.assertEqual(made["flow"]["key"], "f")
        self.assertEqual(self.done(server, "get", key="k 1")["id"], made["id"])
        self.assertEqual(self.done(server, "list", label={"team": "a"})["items"], [self.done(server, "get", id=made["id"])])
        self.assertEqual(self.done(server, "count", by="label:team")["groups"], [{"label": "a", "count": 1}])
        self.assertEqual(self.done(server, "change", key="k 1", payload="-5", if_version=1)["payload"], "-5")
        self.fails(server, "version", "change", key="k 1", payload=None, if_version=1)
        self.done(server, "touch", key="k 1", when="2h")
        self.done(server, "pause", key="k 1", note="until the deploy is over")
        self.assertEqual(self.done(server, "get", key="k 1")["state"], "paused")
        self.done(server, "resume", key=["k 1"])
        self.assertIn("where", self.done(server, "explain", key="k 1"))
        self.done(server, "fire", ids=[made["id"]])
        item = self.done(server, "lease", queue="mail", wait="10s")["items"][0]
        self.done(server, "extend", queue="mail", receipts=item["receipt"], lease="1m")
        self.done(server, "nack", queue="mail", receipts=[item["receipt"]], dead=True, error="no such user")
        self.assertEqual([each["id"] for each in self.done(server, "dead_letters", target="queue:mail")["items"]], [made["id"]])
        self.assertEqual(self.done(server, "dead_groups")["groups"][0]["error"], "no such user")
        self.done(server, "redrive", ids=[made["id"]])
        item = self.done(server, "lease", queue="mail", wait="10s")["items"][0]
        self.assertEqual(self.done(server, "ack", queue="mail", receipts=[item["receipt"]])["ok"], 1)
        self.assertEqual(self.done(server, "deliveries", limit=1)["items"][0]["timer"], made["id"])
        self.assertEqual(len(self.done(server, "preview", expression="0 9 * * *", count=3)["instants"]), 3)
        both = self.done(server, "schedule", when="1h", target=["queue:a", "queue:b"])
        self.assertEqual([target["target"] for target in both["targets"]], ["queue:a", "queue:b"])
        self.done(server, "schedule", every="1h", target="queue:a", watch_event=["paid"])
        self.assertEqual(self.done(server, "schedules")["items"][0]["schedule"]["every"], "1h")
        self.done(server, "complete", events=["paid"])

    # proves: mcp
    def test_texts_stay_texts(self):
        """None is a flag, a file, or another verb; and wrong ones are refused with a sentence."""
        server = self.serve()
        file = self.enterContext(tempfile.NamedTemporaryFile("w"))
        file.write("what the file has")
        file.flush()
        for text in (f"@{file.name}", "-", "--help", "a\nb"):
            made = self.done(server, "schedule", when="1h", target="queue:a", body=text, content_type="text/plain")
            shown = self.done(server, "get", id=made["id"])
            self.assertEqual(base64.b64decode(shown["body_base64"]).decode(), text)
            self.assertEqual(self.done(server, "schedule", when="1h", target="queue:a", payload=text)["payload"], text)
            self.assertEqual(self.done(server, "schedule", when="1h", target="queue:a", label={"l": text})["labels"], {"l": text})
            if "\n" in text:
                self.fails(server, "#/key", "schedule", when="1h", target="queue:a", key=text)
                continue
            self.done(server, "schedule", when="1h", target="queue:a", key=text)
            self.assertEqual(self.done(server, "list", key_prefix=text)["items"][0]["key"], text)
        count = self.done(server, "count")["count"]
        for words, tool, arguments in (
                ("is required", "schedule", {"when": "1h"}), ("is no time", "schedule", {"when": "--help", "target": "queue:a"}),
                ("no argument \"url\"", "list", {"url": "http://evil.example"}), ("no argument \"token\"", "list", {"token": "x"}),
                ("label: an object", "list", {"label": "team:a"}), ("limit: a number", "list", {"limit": "3"}),
                ("key: a string", "get", {"key": 3}), ("key: a string", "get", {"key": ["a"]}), ("a string", "cancel", {"key": [["a"]]}),
                ("without NUL", "get", {"key": "a\0b"}), ("true or false", "fire", {"yes": "yes"}), ("takes one of", "list", {"state": "x"}),
                ("an object of names", "schedule", {"target": "queue:a", "when": "1h", "set": {"key=\"x\",b": 1}}),
                ("--limit", "list", {"limit": -1}), ("--help", "get", {"id": "--help"}), ("", "schedule", {"when": "1h", "target": "--token=x"}),
                ("", "cancel", {"ids": ["nothing"]}), ("too few", "ack", {"queue": "a", "receipts": []})):
            self.fails(server, words if words != "--help" else "", tool, **arguments)
        self.assertEqual(self.done(server, "count")["count"], count)
        answer = server.answer(server.ask("tools/call", {"name": "list", "arguments": [1]}))
        self.assertTrue(answer["result"]["isError"])

    # proves: mcp, mcp-result
    def test_many_need_a_word(self):
        """More than one timer is cancelled only with `yes`, and a list is short unless more is asked for."""
        server = self.serve()
        line = json.dumps({"after": "1d", "target": "queue:q", "labels": {"team": "a"}, "payload": "x" * 4000}) + "\n"
        self.call(200, "POST", "/v1/timers/batch", line * 600, {"Content-Type": "application/x-ndjson"})
        self.assertEqual(len(self.done(server, "list")["items"]), 100)
        self.assertEqual(len(self.done(server, "list", limit=150)["items"]), 150)
        self.fails(server, "larger than 1 MiB", "list", limit=600)
        self.fails(server, "--yes", "cancel", label={"team": "a"})
        self.assertEqual(self.done(server, "cancel", label={"team": "a"}, yes=True)["cancelled"], 600)

    # proves: mcp, mcp-calls
    def test_calls_beside_each_other(self):
        """A call that waits holds no other up; one that is cancelled ends, has no answer, and takes no item."""
        server = self.serve()
        waits = {"name": "lease", "arguments": {"queue": "later", "wait": "20s"}}
        asked = [server.ask("tools/call", waits) for _ in range(16)]
        self.assertEqual(server.answer(server.ask("ping"))["result"], {})
        self.fails(server, "16 calls", "count")
        for each in asked[1:]:
            server.send("notifications/cancelled", {"requestId": each, "reason": "enough"})
        workers = lambda: [each["workers"] for each in self.call(200, "GET", "/v1/queues")[1]["queues"]]
        harness.wait_until(lambda: workers() == [1], 20, "one worker that waits")
        harness.wait_until(lambda: not server.call("count")["isError"], 20, "room for a call")
        self.create(target="queue:later", after=0, payload=1)
        item = server.answer(asked[0])["result"]["structuredContent"]["items"][0]
        self.assertEqual((item["payload"], item["attempt"]), (1, 1))
        self.assertFalse(set(server.early) & set(asked))

    # proves: mcp
    def test_no_daemon(self):
        """A sentence says so; nothing goes to standard error."""
        server = self.serve(url="http://127.0.0.1:1")
        self.fails(server, "no daemon answers", "list")


class TokenTest(McpCase):
    def setUp(self):
        self.secret, line = daemon_case.make_token("agent", "schedule,read")
        with tempfile.NamedTemporaryFile("w", suffix=".tokens", delete=False) as file:
            file.write(line + "\n")
        self.addCleanup(os.unlink, file.name)
        self.flags = (*self.flags, "--tokens-file", file.name)
        super().setUp()

    # proves: mcp
    def test_the_token_is_the_context_s(self):
        """It is in no answer, and without it a call is refused."""
        server = self.serve(token=self.secret)
        made = self.done(server, "schedule", when="1h", target="https://shop.example/x", header={"Authorization": "Bearer s3cret"})
        shown = json.dumps([made, self.done(server, "get", id=made["id"]), self.done(server, "list"), self.done(server, "explain", id=made["id"])])
        self.assertNotIn("s3cret", shown)
        self.assertNotIn(self.secret, shown)
        self.fails(self.serve(), "token", "list")


class ClientTest(McpCase):
    # proves: mcp
    def test_the_official_client(self):
        """Lists the tools, makes a timer, waits for its item while it pings, and reads a problem."""
        python = python_tools.program("mcp", CLIENT, "python")
        if not python:
            self.skipTest("the package mcp cannot be installed: the package index is out of reach")
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "mcp_client.py")
        done = subprocess.run([python, script, harness.find("tickwheel"), f"http://127.0.0.1:{self.daemon.port}"],
                              capture_output=True, text=True, timeout=harness.PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.strip().splitlines()[-1], "all is right", done.stderr)


if __name__ == "__main__":
    unittest.main()
