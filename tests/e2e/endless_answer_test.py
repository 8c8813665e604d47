#!/usr/bin/env python3
"""Goal: an answer without end is read to a limit, whatever part of it does not end. Method: a server on a plain socket
sends such answers to webhooks whose time-out is far away, and counts what it gets off until the daemon hangs up."""

import os
import socketserver
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness


class Endless(socketserver.ThreadingTCPServer):
    """A target that begins an answer and never ends it; each path has its own way. Counts the bytes that it gets off."""
    daemon_threads = True
    ok, chunked = b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    ways = {  # how it begins, how it goes on, what becomes of the timer
        "body": (ok + b"Content-Length: 1000000000000\r\n\r\n", b"x" * 4096, None),
        "extension": (chunked + b"1;", b"x" * 4096, None),
        "extensions": (chunked, b"1;" + b"x" * 100 + b"\r\na\r\n", None),
        "size": (chunked, b"0" * 4096, None),
        "trailers": (chunked + b"0\r\n", b"name: value\r\n" * 100, None),
        "trailer": (chunked + b"0\r\nname: ", b"x" * 4096, None),
        "headers": (ok, b"name: value\r\n" * 100, "answer with too many headers"),
        "header": (ok + b"name: ", b"x" * 4096, "answer with too many headers"),
        "fold": (ok + b"name: value\r\n", b" more\r\n" * 100, "answer with too many headers"),
        "interim": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, "answer with too many headers"),
        "status": (b"HTTP/1.1 200 ", b"x" * 4096, "answer with too many headers"),
        "lines": (b"", b"\r\n" * 2000, "answer is not HTTP"),
        "noise": (b"", b"x" * 4096, "answer is not HTTP"),
    }

    class RequestHandlerClass(socketserver.BaseRequestHandler):
        def handle(self):
            way = self.request.recv(65536).split()[1].decode()[1:]
            data, more, _ = self.server.ways[way]
            try:
                while True:
                    self.request.sendall(data)
                    with self.server.lock:
                        self.server.sent[way] = self.server.sent.get(way, 0) + len(data)
                    data = more
            except OSError:
                self.server.ended.add(way)

    def __init__(self):
        self.lock, self.sent, self.ended = threading.Lock(), {}, set()
        super().__init__(("127.0.0.1", 0), self.RequestHandlerClass)


class EndlessAnswerTest(daemon_case.DaemonCase):
    # proves: webhook_response_bytes_max, webhook-answer-headers
    def test_what_never_ends(self):
        """Head and framing are counted too: the daemon hangs up long before the time-out."""
        server = Endless()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        timers = {way: self.create(target=f"http://127.0.0.1:{server.server_address[1]}/{way}", after=0,
                                   retry={"timeout": "10m", "max_attempts": 1}) for way in server.ways}
        for way, (_, _, error) in server.ways.items():
            with self.subTest(way=way):
                final = self.await_state(timers[way], "dead" if error else "fired")
                self.assertEqual(final.get("last_error"), error)
                harness.wait_until(lambda way=way: way in server.ended, 20, "the daemon hung up")
                self.assertLess(server.sent[way], 16 << 20)  # most of it is in the buffers of the system


if __name__ == "__main__":
    unittest.main()
