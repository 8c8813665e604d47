#!/usr/bin/env python3
"""Runs the contract tests of a client library: run.py COMMAND [ARGUMENT ...]

Starts a tickwheeld of the build and, before it, a proxy that loses requests and answers when a test asks it to. The
command finds in its environment

    TICKWHEEL_URL        the proxy
    TICKWHEELD           the program of the daemon, for tests that start one with a virtual clock
    TICKWHEEL_SECRET     what the daemon signs webhooks with
    TICKWHEEL_CONTRACT   a folder with the files of this one, in which the signatures of webhooks and the address of a
                         receiver are filled in

The steps of the files are described in clients/README.md. The exit status is the command's.
"""

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "support"))
import harness
import pages

#: How the DER of a private key of Ed25519 begins (RFC 8410).
PRIVATE_KEY_START = bytes.fromhex("302e020100300506032b657004220420")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#: Operations that no client has: pages and documents, other paths of calls by key, what `tickwheel apply` notes, and the virtual
#: clock of tests.
OTHERS = re.compile(r"/(v1/key/.*|v1/owners.*|v1/clock.*|ui.*|openapi.*|problems/.*|\.well-known/.*)?")
PROBLEMS = {"busy": (503, "overloaded"), "rate": (429, "rate-exceeded"), "not-found": (404, "not-found"),
            "not-ready": (503, "about:blank")}


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes a request on to the daemon, unless the next fault says otherwise."""

    protocol_version = "HTTP/1.1"
    port = None
    faults = []
    seen = set()  # method and path of each request
    waits = {}  # of webhooks that are answered later: the last part of Tickwheel-Ack-Url, by name
    lock = threading.Lock()

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def next_fault(self):
        with self.lock:
            return self.faults.pop(0) if self.faults else None

    def set_faults(self, body):
        with self.lock:
            left = len(self.faults)
            self.faults[:] = [name for word in json.loads(body) for name, _, count in [word.partition("*")]
                              for _ in range(int(count or 1))]
        self.answer(200, {"Content-Type": "application/json"}, json.dumps({"left": left}).encode())

    def answer(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def pass_on(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {name: value for name, value in self.headers.items()
                   if name.lower() not in ("host", "content-length", "transfer-encoding", "connection")}
        connection.request(self.command, self.path, body or None, headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        kept = {name: value for name, value in response.getheaders()
                if name.lower() not in ("content-length", "transfer-encoding", "connection")}
        return response.status, kept, data

    def make_timer(self, path):
        """One with the label that the stream of this path is for."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)
        name, _, value = query["label"][0].partition(":")
        timer = {"after": "1h", "target": "queue:events", "labels": {name: value}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/v1/timers", json.dumps(timer), {"Content-Type": "application/json"})
        connection.getresponse().read()
        connection.close()

    def pass_stream_on(self, is_cut):
        """Passes a stream of events on as it comes. A cut one ends behind the first of two events."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        kept = {name: self.headers[name] for name in ("Last-Event-ID",) if name in self.headers}
        connection.request("GET", self.path, headers=kept)
        response = connection.getresponse()
        self.close_connection = True
        self.send_response_only(response.status)
        self.send_header("Content-Type", response.getheader("Content-Type"))
        self.send_header("Connection", "close")
        self.end_headers()
        if is_cut:
            self.make_timer(self.path)
        try:
            while line := response.readline():
                self.wfile.write(line)
                if is_cut and line.startswith(b"data:"):
                    self.wfile.write(b"\n")
                    break
        except OSError:
            pass  # the client has seen enough
        connection.close()
        if is_cut:
            self.make_timer(self.path)

    def answer_later(self):
        """A receiver of webhooks: POST /_later/NAME."""
        self.waits[self.path.rpartition("/")[2]] = self.headers["Tickwheel-Ack-Url"].rpartition("/")[2]
        self.answer(202, {"Tickwheel-Ack": "later"}, b"")

    def handle_request(self):
        body = self.read_body()
        if self.path.startswith("/_later/"):
            self.answer_later()
            return
        self.seen.add((self.command, self.path.partition("?")[0]))
        if self.path == "/_faults":
            self.set_faults(body)
            return
        if self.path.startswith("/answers/_"):  # of the webhook with this name
            name = self.path.split("/")[2][1:]
            harness.wait_until(lambda: name in self.waits, 30, f"the webhook {name}")
            self.path = self.path.replace("_" + name, self.waits[name])
        fault = self.next_fault()
        if self.path.startswith("/v1/events?") and fault in (None, "cut-stream"):
            self.pass_stream_on(fault == "cut-stream")
        elif fault in PROBLEMS:
            status, name = PROBLEMS[fault]
            problem = {"type": name if ":" in name else f"/problems/{name}", "title": "Made by the proxy", "status": status}
            self.answer(status, {"Content-Type": "application/problem+json", "Retry-After": "0"},
                        json.dumps(problem).encode())
        elif fault == "garbage":
            self.answer(200, {"Content-Type": "application/json"}, b"<html>no JSON")
        elif fault == "lose-request":
            self.close_connection = True
        else:
            answer = self.pass_on(body)
            if fault == "lose-answer":
                self.close_connection = True
            else:
                self.answer(*answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_request

    def log_message(self, *_):
        pass


def sign_by_key(seed, text):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in ("key", PRIVATE_KEY_START + seed), ("text", text):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        return subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", "key", "-in", "text"],
                              cwd=folder, check=True, capture_output=True).stdout


def sign(secret, sent_id, timestamp, body):
    """The signature of Standard Webhooks, by a secret or a private key."""
    text = f"{sent_id}.{timestamp}.".encode() + body
    if secret.startswith("whsk_"):
        return "v1a," + base64.b64encode(sign_by_key(base64.b64decode(secret[5:])[:32], text)).decode()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


def fill_in(step, now):
    """Makes a step of `verify` what a receiver sees: secret, headers and body."""
    given = step["with"]
    signed = base64.b64decode(given.get("signed_base64", given["body_base64"]))
    secret = given["secret"]
    sent_id, timestamp = "06gvnv4rh00000000400000000-1795219199250", str(now - given.get("age_s", -60))
    signature = sign(given.get("signer", secret), sent_id, timestamp, signed)
    headers = {"webhook-id": sent_id, "webhook-timestamp": timestamp, "webhook-signature": signature}
    for name, value in given.get("headers", {}).items():
        if value is None:
            del headers[name]
        elif "${signature}" in value:
            with_version = value.startswith(("v1,$", "v2,"))
            headers[name] = value.replace("${signature}", signature.partition(",")[2] if with_version else signature)
        else:
            headers[name] = value
    step["with"] = {"secret": secret, "headers": headers, "body_base64": given["body_base64"]}


def copy_contract(folder, url):
    now = int(time.time())
    for name in sorted(os.listdir(HERE)):
        if not name.endswith(".json"):
            continue
        with open(os.path.join(HERE, name), encoding="utf-8") as file:
            cases = json.loads(file.read().replace("${receiver}", url))
        for case in cases:
            for step in case["steps"]:
                if step["do"] == "verify":
                    fill_in(step, now)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(cases, file)


def missing_calls(document, seen):
    """The operations of the document that no request was for."""
    patterns = sorted((path.count("{"), path) for path in document["paths"])

    def pattern_of(path):
        return next((pattern for _, pattern in patterns
                     if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(pattern)), path)), None)
    called = {(method, pattern_of(path)) for method, path in seen}
    return sorted(f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods
                  if method != "parameters" and not OTHERS.fullmatch(path) and (method.upper(), path) not in called)


def run(command, calls_all=False, **options):
    """Runs the command and returns its exit status; options are those of subprocess.run. `calls_all`: it is 1 if the command
    has not made each call of the API."""
    data = tempfile.mkdtemp(prefix="tickwheel-contract-")
    environment = options.pop("env", os.environ)
    try:
        folder = os.path.join(data, "contract")
        os.mkdir(folder)
        with open(os.path.join(data, "secrets"), "w", encoding="utf-8") as file:
            file.write("k1=" + base64.b64encode(bytes(range(32))).decode() + "\n")
        with harness.Daemon(os.path.join(data, "timers"), "--webhook-secret", SECRET, "--public-url", "http://tickwheel.example",
                            "--secrets-keys-file", file.name, "--webhook-token-issuer", "http://tickwheel.example") as daemon:
            harness.wait_until(daemon.is_ready, 30, "ready")
            Proxy.port = daemon.port
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_address[1]}"
            copy_contract(folder, url)
            environment = {**environment, "TICKWHEEL_CONTRACT": folder, "TICKWHEEL_SECRET": SECRET,
                           "TICKWHEELD": os.path.abspath(harness.find("tickwheeld")),
                           "TICKWHEEL_URL": url}
            Proxy.seen.clear()
            result = subprocess.run(command, env=environment, **options).returncode
            missing = missing_calls(daemon.call("GET", "/openapi.json")[2], Proxy.seen) if calls_all else []
            if missing:
                print("The contract does not call " + ", ".join(missing), file=sys.stderr)
                result = result or 1
            server.shutdown()
            server.server_close()
            return result
    finally:
        shutil.rmtree(data)


def prints(section, typed, command, **options):
    """Whether the command prints what the page on the first ten minutes says of what is `typed` there."""
    with tempfile.TemporaryFile("w+") as output:
        result = run(command, stdout=output, **options)
        output.seek(0)
        text = output.read()
    if result == 0 and text == pages.printed("first-ten-minutes.md", section, typed):
        return True
    print(f"{section}: {result}\n{text}")
    return False


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.strip())
    sys.exit(run(sys.argv[1:]))
