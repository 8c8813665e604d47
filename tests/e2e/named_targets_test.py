#!/usr/bin/env python3
"""Named targets of the real daemon: a definition says where timers go and with which credentials, a change holds from the
next attempt on, tenants have their own, and no secret is found again in a file, an answer or a log. The receivers
are threads of this test, so that every header is seen."""

import base64
import http.server
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import TokensCase, bearer

KEY_1 = "k1=" + base64.b64encode(bytes(range(32))).decode()
KEY_2 = "k2=" + base64.b64encode(bytes(range(1, 33))).decode()
PATH = "/v1/named-targets/billing"


class Receiver:
    """Answers with `status`, or that of `decide`, and the headers if it echoes, in pieces of `chunk` bytes unless that is 0; keeps
    method, path, headers and body of what came."""

    def __init__(self, context=None):
        self.status, self.seen, self.echoes, self.chunk = 200, [], False, 0
        self.decide = lambda path: self.status
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                receiver.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(receiver.decide(self.path))
                answer = json.dumps(dict(reversed(self.headers.items()))).encode() if receiver.echoes else b""
                size = receiver.chunk
                self.send_header("Transfer-Encoding" if size else "Content-Length", "chunked" if size else str(len(answer)))
                self.end_headers()
                if size:
                    pieces = [answer[at:at + size] for at in range(0, len(answer), size)] + [b""]
                    answer = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
                self.wfile.write(answer)

            do_GET = do_PUT = do_DELETE = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def wait(self, count=1):
        harness.wait_until(lambda: len(self.seen) >= count, 20, f"{count} requests")
        return self.seen[count - 1]


class NamedCase(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.secrets = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.secrets)
        self.keys = [KEY_1]
        self.receiver = self.receive()
        self.daemon = self.start()

    def receive(self, context=None):
        receiver = Receiver(context)
        self.addCleanup(receiver.close)
        return receiver

    def keys_file(self):
        path = os.path.join(self.secrets, "keys")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(self.keys) + "\n")
        return ["--secrets-keys-file", path] if self.keys else []

    def start(self, *flags, env=None):
        daemon = harness.Daemon(self.data, *self.keys_file(), "--secrets-folder", self.secrets, *flags,
                                env={**os.environ, "TICKWHEEL_SECRET_A": "of-the-environment", **(env or {})})
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    def call(self, expected, method, path, body=None, headers=None):
        status, fields, answer = self.daemon.call(method, path, body, headers)
        self.assertEqual(status, expected, f"{method} {path}: {answer}")
        return fields, answer

    def define(self, expected=201, name="billing", match=None, **fields):
        body = {"url": self.receiver.url + "/v1", **fields}
        return self.call(expected, "PUT", f"/v1/named-targets/{name}", body, match and {"If-Match": match})

    def refuse(self, pointer, **fields):
        problem = self.define(422, **fields)[1]
        self.assertEqual([each["pointer"] for each in problem["errors"]], [pointer], problem)

    def answers(self, count):
        found = self.daemon.call("GET", "/v1/deliveries?limit=200")[2]["deliveries"][:count]
        return len(self.receiver.seen) % count == 0 and len(found) == count and [each["answer"] for each in found]

    def wait_for_words(self, timer, words):
        harness.wait_until(lambda: words in str(self.daemon.call("GET", f"/v1/timers/{timer['id']}")[2]), 20, words)

    def create(self, target="billing:/recheck", expected=201, **fields):
        return self.call(expected, "POST", "/v1/timers", {"after": "0s", "target": target, **fields})[1]


class NamedTargetsTest(NamedCase):
    # proves: named-target, named-target-change
    def test_what_is_sent(self):
        """The path is appended, and the rest is the definition's; a change holds from the next attempt on."""
        fields, shown = self.define(method="PUT", headers={"X-Team": "a"}, auth={"kind": "bearer", "token": "t0ken"})
        self.assertEqual(fields["ETag"], '"1"')
        self.assertEqual(shown["auth"], {"kind": "bearer", "token": {"set": True, "since": shown["changed"]}})
        timer = self.create("billing:/recheck?x=1", payload={"n": 1})
        method, path, headers, body = self.receiver.wait()
        self.assertEqual((method, path, body), ("PUT", "/v1/recheck?x=1", b'{"n": 1}'))
        self.assertEqual((headers["x-team"], headers["authorization"]), ("a", "Bearer t0ken"))
        self.assertTrue(headers["webhook-id"].startswith(timer["id"]))
        self.assertEqual(timer["target"], "billing:/recheck?x=1")
        self.receiver.status = 500
        timer = self.create(retry={"base": "1ms", "max_attempts": 100, "cap": "10ms"})
        self.receiver.wait(2)
        other = self.receive()
        self.call(422, "PUT", PATH, {"url": other.url, "auth": {"kind": "bearer"}})  # the token would go elsewhere
        self.call(200, "PUT", PATH, {"url": other.url, "auth": {"kind": "basic", "username": "u", "password": "p"}})
        method, path, headers, _ = other.wait()
        self.assertEqual((method, path), ("POST", "/recheck"))
        self.assertEqual(headers["authorization"], "Basic " + base64.b64encode(b"u:p").decode())
        self.assertNotIn("x-team", headers)
        self.assertTrue(headers["webhook-id"].startswith(timer["id"]))

    # proves: named-target-secret-kept
    def test_a_secret_stays(self):
        """A PUT without the secret keeps it, also over kill -9; each kind of authentication sends its own."""
        self.define(auth={"kind": "header", "name": "x-api-key", "value": "first"})
        self.define(200, auth={"kind": "header", "name": "x-api-key"})
        self.define(200, method="GET", auth={"kind": "header", "name": "x-api-key", "value": {"set": True}})
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        self.create(payload=1)
        method, _, headers, body = self.receiver.wait()
        self.assertEqual((method, headers["x-api-key"], body), ("GET", "first", b""))
        self.define(422, auth={"kind": "bearer"})
        self.assertEqual(self.call(200, "GET", PATH)[1]["version"], 3)

    # proves: named-target-unknown
    def test_removed(self):
        """An unknown name is refused; attempts to a removed one fail and are repeated, and go on when it is back."""
        problem = self.create(expected=422)
        self.assertIn("no named target billing", str(problem))
        self.define()
        self.receiver.status = 500
        timer = self.create(retry={"base": "1ms", "max_attempts": 100, "cap": "50ms"})
        self.receiver.wait()
        self.assertEqual(self.call(200, "DELETE", PATH)[1], {"name": "billing"})
        self.call(404, "DELETE", PATH)
        self.call(404, "GET", PATH)
        self.wait_for_words(timer, "named target billing: it is not defined")
        self.receiver.status = 200
        self.define()
        self.wait_for_words(timer, "'state': 'fired'")

    # proves: named-target-if-match
    def test_versions(self):
        self.define(412, match='"7"')
        fields, _ = self.define()
        self.define(412, match='"7"')
        tag = self.define(200, match=fields["ETag"])[0]["ETag"]
        self.call(412, "DELETE", PATH, headers={"If-Match": fields["ETag"]})
        self.assertEqual(self.call(200, "GET", PATH)[0]["ETag"], tag)
        self.call(200, "DELETE", PATH, headers={"If-Match": tag})
        self.assertEqual(self.call(200, "GET", "/v1/named-targets")[1], {"targets": []})

    # proves: named-target-url-bytes, named-target-headers-bytes, named-target-ca-bytes
    def test_limits(self):
        """Each is set at its limit, and refused one byte beyond it."""
        base = self.receiver.url + "/"
        self.define(url=base + "a" * (2048 - len(base)))
        self.refuse("#/url", url=base + "a" * (2049 - len(base)))
        self.define(200, headers={"a": "b" * (4096 - 4)})
        self.refuse("#/headers", headers={"a": "b" * (4097 - 4)})
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=a", "-keyout", os.devnull, "-out", "ca.pem"], check=True, capture_output=True, cwd=self.secrets)
        with open(os.path.join(self.secrets, "ca.pem"), encoding="utf-8") as file:
            authority = file.read()
        self.define(200, ca=authority + "\n" * (32768 - len(authority)))
        self.refuse("#/ca", ca=authority + "\n" * (32769 - len(authority)))

    # proves: named-target-name, named-target-path, named-target-fields
    def test_refused(self):
        for name in ("http", "Queue", "log", "1a", "a%2Fb", "x" * 65):
            self.define(422, name=name)
        self.define(name="x" * 64)
        self.refuse("#/url", url="ftp://a.example")
        self.refuse("#/url", url=self.receiver.url + "/")
        self.refuse("#/url", url=self.receiver.url + "/a?b=1")
        self.refuse("#/url", url="http://169.254.169.254")
        self.refuse("#/method", method="HEAD")
        self.refuse("#/headers", headers={"Authorization": "x"})
        self.refuse("#/headers", headers={"a": "1", "A": "2"})
        self.refuse("#/headers", headers={"webhook-id": "x"})
        self.refuse("#/headers", headers={"a": "1\r\nb: 2"})
        self.refuse("#/auth/kind", auth={"kind": "magic"})
        self.refuse("#/auth/more", auth={"kind": "bearer", "token": "x", "more": 1})
        self.refuse("#/auth/token", auth={"kind": "bearer", "token": "a\nb"})
        self.refuse("#/auth/token", auth={"kind": "bearer", "token": {"sealed": "k1:AAAA"}})
        self.refuse("#/auth/token", auth={"kind": "bearer", "token": {"secret_ref": "http://x"}})
        self.refuse("#/auth/username", auth={"kind": "basic", "password": "p"})
        self.refuse("#/auth/certificate", auth={"kind": "certificate", "certificate": "x", "key": "y"}, url="https://a.example")
        self.refuse("#/ca", ca="x")
        self.define()
        for target in ("billing:recheck", "billing:/../x", "billing:/a/%2E%2e/x", "billing:/./x", "billing://host/x", "billing",
                       "billing:/a b", "billing:/x#y", "Billing:/x", "billing:?x", "billing:/..;/x", "billing:/a%2f..%5cx"):
            self.create(target, 422)
        self.create(headers={"a": "b"}, expected=422)
        self.create(method="GET", expected=422)
        self.create("billing:")
        self.assertEqual(self.receiver.wait()[1], "/v1")

    # proves: secret-ref
    def test_references(self):
        """References are read before each attempt, below the folder alone."""
        with open(os.path.join(self.secrets, "token"), "w", encoding="utf-8") as file:
            file.write("of-a-file\n")
        for number, (ref, value) in enumerate((("file:token", "Bearer of-a-file"),
                                               ("env:TICKWHEEL_SECRET_A", "Bearer of-the-environment"))):
            shown = self.define(200 if number else 201, auth={"kind": "bearer", "token": {"secret_ref": ref}})[1]
            self.assertEqual(shown["auth"]["token"], {"secret_ref": ref})
            self.create()
            self.assertEqual(self.receiver.wait(number + 1)[2]["authorization"], value)
        for ref in ("file:../x", "file:/etc/passwd", "file:a/../../x", "file:none", "env:HOME", "env:TICKWHEEL_SECRET_B"):
            self.define(200, auth={"kind": "bearer", "token": {"secret_ref": ref}})
            timer = self.create(retry={"max_attempts": 1})
            self.wait_for_words(timer, "secret_ref")
        self.assertEqual(len(self.receiver.seen), 2)

    # proves: secrets-keys, secrets-reseal
    def test_keys(self):
        """Without a key an inline secret is refused; a second key takes over, and the first can go."""
        self.define(auth={"kind": "bearer", "token": "t0ken"})
        self.keys = [KEY_2, KEY_1]
        self.keys_file()
        self.daemon.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.call(200, "POST", "/v1/named-targets/reseal")[1]["sealed"] == 1, 20, "reload")
        self.assertEqual(self.call(200, "POST", "/v1/named-targets/reseal")[1], {"sealed": 0})
        self.assertNotIn("secrets_closed", self.daemon.output())
        self.keys = [KEY_1]  # by mistake
        self.keys_file()
        self.daemon.process.send_signal(signal.SIGHUP)
        self.daemon.find_in_output("event=secrets_closed named_targets=1 cause=.billing: .*the key k2")
        self.daemon.close()
        self.keys = [KEY_2]
        self.daemon = self.start()
        self.create()
        self.assertEqual(self.receiver.wait()[2]["authorization"], "Bearer t0ken")
        self.daemon.close()
        self.keys = []
        self.daemon = self.start()
        problem = self.define(422, name="other", auth={"kind": "bearer", "token": "x"})[1]
        self.assertIn("secrets_keys", str(problem))
        self.daemon.find_in_output("event=secrets_closed named_targets=1 cause=.billing: .*the key k2")
        timer = self.create()
        self.wait_for_words(timer, "the key k2")
        self.assertEqual(len(self.receiver.seen), 1)

    # proves: named-target-origin
    def test_pause_and_breaker(self):
        """Pauses, breakers and the lists know the named target by its name."""
        self.define()
        self.call(200, "POST", "/v1/targets/billing%3A/pause")
        timer = self.create()
        explained = self.call(200, "GET", f"/v1/timers/{timer['id']}/explain")[1]
        self.assertIn("billing:", json.dumps(explained))
        names = [each["target"] for each in self.call(200, "GET", "/v1/targets")[1]["targets"]]
        self.assertEqual(names, ["billing:"])
        self.assertEqual(self.receiver.seen, [])
        self.call(200, "POST", "/v1/targets/billing%3A/resume")
        self.receiver.wait()

    def test_named_like_a_call(self):
        """A target may be called `reseal`, which is also a call: only its POST is."""
        path = "/v1/named-targets/reseal"
        self.call(404, "GET", path)
        self.call(201, "PUT", path, {"url": self.receiver.url})
        self.assertEqual(self.call(200, "GET", path)[1]["name"], "reseal")
        self.assertEqual(self.call(200, "POST", path)[1], {"sealed": 0})
        status, headers, _ = self.daemon.call("PATCH", path, {})
        self.assertEqual((status, set(re.split(", *", headers["Allow"]))), (405, {"GET", "HEAD", "PUT", "DELETE", "POST"}))
        self.create("reseal:/x")
        self.receiver.wait()
        self.call(200, "DELETE", path)
        self.call(404, "GET", path)

    def test_command_line(self):
        """The command line defines a target from standard input or a file, and never prints its secret."""
        url = f"http://127.0.0.1:{self.daemon.port}"

        def run(code, *arguments, stdin=""):
            done = subprocess.run([harness.find("tickwheel"), "--url", url, "target", *arguments], input=stdin, text=True,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertNotIn("t0ken", done.stdout + done.stderr)
            return done.stdout

        definition = json.dumps({"url": self.receiver.url, "auth": {"kind": "bearer", "token": "t0ken"}})
        self.assertIn('"set":true', run(0, "set", "billing", "-", stdin=definition).replace(" ", ""))
        self.assertRegex(run(0), "billing +http.* +POST +bearer +1 ")
        self.assertIn("bearer", run(0, "show", "billing"))
        path = os.path.join(self.secrets, "definition")
        with open(path, "w", encoding="utf-8") as file:
            file.write(definition)
        run(4, "set", "billing", path, "--if-version", "7")
        run(0, "set", "billing", path, "--if-version", "1")
        run(0, "reseal")
        run(2, "set", "billing")
        run(2, "set", "billing", path + "x")
        run(0, "rm", "billing")
        run(3, "show", "billing")

    # proves: delivery-log-answer-hidden
    def test_a_receiver_sends_them_back(self):
        """What the log of deliveries keeps of its answer has no credentials: of named targets and of timers, over plain
        connections and by libcurl, in one piece and in chunks, whole and cut."""
        self.daemon.close()
        self.receiver.echoes = True
        for size, chunk in ((4096, 0), (4096, 7), (256, 0), (64, 0)):
            self.receiver.chunk = chunk
            self.daemon = self.start("--delivery-log-answer-bytes", str(size), "--sensitive-headers", "x-more")
            for url in (self.receiver.url, self.receiver.url.replace("127.0.0.1", "localhost")):
                for name, auth in (("a", {"kind": "bearer", "token": "s3cret/bearer" * 9}),
                                   ("b", {"kind": "basic", "username": "u", "password": "s3cret/password"}),
                                   ("c", {"kind": "header", "name": "x-own", "value": 's3cret"header' * 8})):
                    self.assertIn(self.daemon.call("PUT", f"/v1/named-targets/{name}", {"url": url, "auth": auth})[0], (200, 201))
                    self.create(f"{name}:/x")
                self.create(url, headers={"Cookie": "s3cret cookie", "x-more": "s3cret-more"})
            answers = harness.wait_until(lambda: self.answers(8), 20, "all attempts")
            basic = base64.b64encode(b"u:s3cret/password").decode()
            for answer in answers:
                self.assertNotIn("s3cret", answer)
                self.assertNotIn(basic[:8], answer)
            self.assertGreaterEqual("".join(answers).count("***"), 8)
            self.daemon.signal(signal.SIGTERM)  # killed, the next one would repeat attempts whose end is not durable yet
            shutil.rmtree(os.path.join(self.data, "deliveries"), ignore_errors=True)

    # proves: named-target-certificate
    def test_client_certificate(self):
        """The receiver demands a certificate, and is itself signed by an authority that the definition names."""
        def make(*command):
            subprocess.run(["openssl", *command], check=True, capture_output=True, cwd=self.secrets)

        for name in ("server", "client"):
            make("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{name}.key",
                 "-out", f"{name}.pem")
        files = {}
        for name in ("server.pem", "client.pem", "client.key"):
            with open(os.path.join(self.secrets, name), encoding="utf-8") as file:
                files[name] = file.read()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(self.secrets, "server.pem"), os.path.join(self.secrets, "server.key"))
        context.load_verify_locations(os.path.join(self.secrets, "client.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
        receiver = self.receive(context)
        auth = {"kind": "certificate", "certificate": files["client.pem"], "key": files["client.key"]}
        self.refuse("#/auth/key", url=receiver.url, auth={**auth, "certificate": files["server.pem"]})
        self.define(url=receiver.url, auth=auth, ca=files["server.pem"])
        self.call(201, "PUT", "/v1/named-targets/bare", {"url": receiver.url, "ca": files["server.pem"]})
        self.create()
        self.assertEqual(receiver.wait()[1], "/recheck")
        timer = self.create("bare:/recheck", retry={"max_attempts": 1})
        self.wait_for_words(timer, "'state': 'dead'")
        self.create()
        receiver.wait(2)
        self.assertEqual(len(receiver.seen), 2)


class LeakTest(NamedCase):
    """Fourteen kinds of secrets are planted and used; then nothing that the daemon wrote or answered has one of them."""

    def plant(self):
        secrets = {kind: f"pl4nted-{kind}-{os.urandom(12).hex()}" for kind in
                   ("bearer", "password", "header", "file", "env", "replaced", "removed", "refused", "failing", "resealed",
                    "configured")}
        key = subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
                             check=True, capture_output=True, text=True).stdout
        with open(os.path.join(self.secrets, "client.key"), "w", encoding="utf-8") as file:
            file.write(key)
        certificate = subprocess.run(["openssl", "req", "-x509", "-key", "client.key", "-subj", "/CN=a"], check=True,
                                     capture_output=True, text=True, cwd=self.secrets).stdout
        with open(os.path.join(self.secrets, "token"), "w", encoding="utf-8") as file:
            file.write(secrets["file"])
        signing = "whsec_" + base64.b64encode(os.urandom(32)).decode()
        with open(os.path.join(self.secrets, "named.json"), "w", encoding="utf-8") as file:
            json.dump({"-": {"l": {"url": self.receiver.url, "auth": {"kind": "bearer", "token": secrets["configured"]},
                                   "signing": signing}}}, file)
        secrets["signing"] = signing.removeprefix("whsec_")
        return secrets, key, certificate

    def forms(self, secrets, key):
        """Each secret as it is, and as it is sent."""
        forms = {kind: [text.encode()] for kind, text in secrets.items()}
        forms["signing"].append(base64.b64decode(secrets["signing"]))
        forms["password"].append(base64.b64encode(f"u:{secrets['password']}".encode()))
        forms["certificate"] = [line.encode() for line in key.splitlines()[1:3]]
        forms["key"] = [KEY_1[3:].encode(), base64.b64decode(KEY_1[3:])]
        return forms

    def use(self, secrets, key, certificate):
        def bearer_of(kind):
            return {"kind": "bearer", "token": secrets[kind]}

        self.define(name="a", auth=bearer_of("bearer"))
        self.define(name="b", auth={"kind": "basic", "username": "u", "password": secrets["password"]})
        self.define(name="c", auth={"kind": "header", "name": "x-api-key", "value": secrets["header"]})
        self.define(name="d", auth={"kind": "certificate", "certificate": certificate, "key": key}, url="https://127.0.0.1:1")
        self.define(name="e", auth={"kind": "bearer", "token": {"secret_ref": "file:token"}})
        self.define(name="f", auth={"kind": "bearer", "token": {"secret_ref": "env:TICKWHEEL_SECRET_A"}})
        self.define(name="g", auth=bearer_of("replaced"))
        self.define(200, name="g", auth={"kind": "bearer", "token": "other"})
        self.define(name="h", auth=bearer_of("removed"))
        self.call(200, "DELETE", "/v1/named-targets/h")
        self.define(422, name="i", auth={**bearer_of("refused"), "more": 1})
        self.define(422, name="i", auth={"kind": "bearer", "token": secrets["refused"] + "\n"})
        self.define(name="j", auth=bearer_of("failing"), url="http://127.0.0.1:1")
        self.define(name="k", auth=bearer_of("resealed"))
        return [self.create(f"{name}:/x", retry={"max_attempts": 3, "base": "1ms"}) for name in "abcdefgjkl"]

    def ask(self, timers):
        """What the daemon answers, as it is sent."""
        paths = ["/v1/named-targets", "/v1/timers", "/v1/dead", "/v1/targets", "/v1/deliveries", "/v1/stats", "/v1/verdict",
                 "/metrics", "/readyz", "/openapi.json", *[f"/v1/named-targets/{name}" for name in "abcdefgjkl"]]
        for timer in timers:
            paths += [f"/v1/timers/{timer['id']}", f"/v1/timers/{timer['id']}/explain"]
        answers = {}
        for path in paths:
            connection = self.daemon.connect()
            connection.request("GET", path)
            answers[path] = connection.getresponse().read()
            connection.close()
        return answers

    def files(self, folder):
        found = {}
        for where, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(where, name)
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        found[path] = file.read()
        return found

    # proves: no-credentials, secrets-sealed, named-target-file-memory
    def test_no_secret_is_found_again(self):
        secrets, key, certificate = self.plant()
        backups = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, backups)
        self.daemon.close()
        self.daemon = self.start("--backup-folder", backups, "--log-level", "debug", "--named-targets-file",
                                 os.path.join(self.secrets, "named.json"), env={"TICKWHEEL_SECRET_A": secrets["env"]})
        events = self.daemon.connect()
        events.request("GET", "/v1/events")
        stream = events.getresponse()
        timers = self.use(secrets, key, certificate)
        self.receiver.wait(8)
        self.define(409, name="l")
        for timer in timers:
            self.wait_for_words(timer, "'timer'")
        sent = b"".join(str(each).encode() for each in self.receiver.seen)
        forms = self.forms(secrets, key)
        for kind in ("bearer", "header", "file", "env", "resealed", "configured"):
            self.assertIn(forms[kind][0], sent)  # so that what is looked for is what was used
        self.assertIn(forms["password"][1], sent)
        self.keys = [KEY_2, KEY_1]
        self.keys_file()
        self.daemon.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: self.call(200, "POST", "/v1/named-targets/reseal")[1]["sealed"] > 0, 20, "reload")
        self.call(201, "POST", "/v1/admin/backup")
        places = self.ask(timers)
        places["events"] = stream.read1(1 << 20)
        self.assertIn(b"k2:", b"".join(self.files(self.data).values()))
        self.daemon.signal(signal.SIGABRT)  # its last words
        places["output"] = self.daemon.output().encode()
        places.update(self.files(self.data))
        places.update(self.files(backups))
        self.assertGreater(len(self.files(backups)), 3)
        for place, content in places.items():
            for kind, texts in forms.items():
                for text in texts:
                    self.assertNotIn(text, content, f"{kind} in {place}")


class TenantsTest(TokensCase):
    # proves: named-target-tenant
    def test_tenants(self):
        """Each tenant has its own names; only scope admin changes them."""
        for name, tenant, scopes in (("a", "shop", "schedule,read,admin"), ("b", "bank", "schedule,read,admin"),
                                     ("reader", "shop", "read,schedule")):
            self.token(name, tenant, scopes)
        self.write_tokens()
        daemon = self.start("--secrets-keys", KEY_1)
        receiver = Receiver()
        self.addCleanup(receiver.close)
        body = {"url": receiver.url, "auth": {"kind": "bearer", "token": "of-shop"}}
        headers = {name: bearer(token) for name, token in self.tokens.items()}
        self.assertEqual(daemon.call("PUT", PATH, body, headers["reader"])[0], 403)
        self.assertEqual(daemon.call("PUT", PATH, body, headers["a"])[0], 201)
        self.assertEqual(daemon.call("GET", PATH, None, headers["reader"])[0], 200)
        self.assertEqual(daemon.call("GET", PATH, None, headers["b"])[0], 404)
        self.assertEqual(daemon.call("DELETE", PATH, None, headers["b"])[0], 404)
        timer = {"after": "0s", "target": "billing:/x"}
        self.assertEqual(daemon.call("POST", "/v1/timers", timer, headers["b"])[0], 422)
        body["auth"]["token"] = "of-bank"
        self.assertEqual(daemon.call("PUT", PATH, body, headers["b"])[0], 201)
        self.assertEqual(daemon.call("POST", "/v1/timers", timer, headers["b"])[0], 201)
        self.assertEqual(receiver.wait()[2]["authorization"], "Bearer of-bank")
        self.assertEqual(daemon.call("POST", "/v1/timers", timer, headers["reader"])[0], 201)
        self.assertEqual(receiver.wait(2)[2]["authorization"], "Bearer of-shop")
        body["auth"]["token"] = {"secret_ref": "env:TICKWHEEL_SECRET_A"}
        self.assertEqual(daemon.call("PUT", PATH, body, headers["a"])[0], 200)
        made = daemon.call("POST", "/v1/timers", timer, headers["a"])[2]
        where = f"/v1/timers/{made['id']}"
        harness.wait_until(lambda: "operator alone" in str(daemon.call("GET", where, None, headers["a"])[2]), 20, "refused")

    # proves: secret-ref
    def test_a_tenant_named_by_dots(self):
        """Its folder of secrets would be that of all tenants, or the one above: it has none."""
        for name, tenant in (("up", ".."), ("here", ".")):
            self.token(name, tenant, "schedule,read,admin")
        self.write_tokens()
        folder = self.path("secrets")
        os.makedirs(os.path.join(folder, "shop"))
        for path in ("token", "secrets/token", "secrets/shop/token"):
            with open(self.path(path), "w", encoding="utf-8") as file:
                file.write("of-others")
        daemon = self.start("--secrets-folder", folder)
        receiver = Receiver()
        self.addCleanup(receiver.close)
        for name, token in self.tokens.items():
            for path in ("token", "shop/token", "secrets/token", "secrets/shop/token"):
                auth = {"kind": "bearer", "token": {"secret_ref": f"file:{path}"}}
                self.assertIn(daemon.call("PUT", PATH, {"url": receiver.url, "auth": auth}, bearer(token))[0], (200, 201))
                timer = {"after": "0s", "target": "billing:/x", "retry": {"max_attempts": 1}}
                where = f"/v1/timers/{daemon.call('POST', '/v1/timers', timer, bearer(token))[2]['id']}"
                harness.wait_until(lambda: "below the folder" in str(daemon.call("GET", where, None, bearer(token))), 20, name)
        self.assertEqual(receiver.seen, [])


class MaskTest(TokensCase):
    # proves: sensitive-headers, sensitive-headers-more
    def test_sensitive_headers(self):
        """They are sent, and shown to scope payload alone: by every call that shows timers."""
        self.token("all", "shop", "schedule,read,payload")
        self.token("some", "shop", "schedule,read")
        self.write_tokens()
        daemon = self.start("--sensitive-headers", "x-more")
        receiver = Receiver()
        self.addCleanup(receiver.close)
        secrets = {"Authorization": "s-authorization", "cookie": "s-cookie", "X-Api-Key": "s-key", "x-more": "s-more"}
        wanted = {**secrets, "x-plain": "plain"}
        seen = []

        def call(who, method, path, body=None):
            status, _, answer = daemon.call(method, path, body, bearer(self.tokens[who]))
            text = json.dumps(answer)
            self.assertLess(status, 500, text)
            if who == "some":
                self.assertNotIn("s-", text.replace("tickwheel", ""), f"{method} {path}")
                seen.append("***" in text)
            return answer

        def make(key, **fields):
            return call("some", "POST", "/v1/timers",
                        {"key": key, "after": "1h", "target": receiver.url, "headers": wanted, **fields})

        timer = make("a")
        self.assertEqual(timer["headers"], {**{name: "***" for name in secrets}, "x-plain": "plain"})
        for path in (f"/v1/timers/{timer['id']}", "/v1/keys/a/timer", "/v1/timers", "/v1/timers?key_prefix=a"):
            call("some", "GET", path)
        self.assertEqual(call("all", "GET", f"/v1/timers/{timer['id']}")["headers"], wanted)
        call("some", "PATCH", f"/v1/timers/{timer['id']}", {"labels": {"a": "b"}})
        make("a", after="2h")  # the key is in use
        problem = call("some", "POST", "/v1/timers", {"after": "1h", "target": receiver.url, "headers": {"cookie": "***"}})
        self.assertEqual(problem["errors"][0]["pointer"], "#/headers/cookie")
        make("q", after="0s", target="queue:q")
        harness.wait_until(lambda: call("some", "GET", "/v1/queues/q/peek")["timers"], 20, "an item")
        receiver.status = 410
        dead = make("d", after="0s")
        harness.wait_until(lambda: call("some", "GET", "/v1/dead")["timers"], 20, "a dead letter")
        call("some", "GET", f"/v1/timers/{dead['id']}")
        self.assertEqual(receiver.seen[0][2]["authorization"], "s-authorization")
        self.assertEqual(call("all", "GET", "/v1/dead")["timers"][0]["headers"], wanted)
        self.assertTrue(all(seen[:5]), seen)

    # proves: sensitive-headers-stay
    def test_they_go_nowhere_else(self):
        """A token that sees neither hidden headers nor payload cannot send them to a receiver of its own."""
        self.token("all", "shop", "schedule,read,payload")
        self.token("some", "shop", "schedule,read")
        self.token("bank", "bank", "schedule,read")
        self.write_tokens("hide bank payload")
        daemon = self.start()
        receiver = Receiver()
        self.addCleanup(receiver.close)
        own = receiver.url + "/own"

        def call(expected, who, method, path, body=None):
            status, _, answer = daemon.call(method, path, body, bearer(self.tokens[who]))
            self.assertEqual(status, expected, f"{who} {method} {path} {body}: {answer}")
            return answer

        def make(who="some", **fields):
            fields = {"after": "1h", "target": "http://127.0.0.1:1/x", "headers": {"Cookie": "c", "x-a": "b"}, **fields}
            return f"/v1/timers/{call(201, who, 'POST', '/v1/timers', fields)['id']}"

        first = make(key="first")
        for path in (first, "/v1/keys/first/timer"):
            for change in ({"target": own}, {"targets": [own, "queue:q"]}, {"target": own, "headers": {"x-a": "c"}},
                           {"target": own, "headers": {"authorization": "z"}}, {"target": "queue:q"}):
                call(403, "some", "PATCH", path, change)
        call(200, "some", "PATCH", first, {"target": "http://127.0.0.1:1/x", "labels": {"a": "b"}})
        self.assertEqual(call(200, "all", "GET", first)["headers"], {"Cookie": "c", "x-a": "b"})
        for change in ({"headers": {"Cookie": "d"}}, {"headers": {"Cookie": None}}, {"headers": None}):
            call(200, "some", "PATCH", make(), {"target": own, **change})
        call(200, "all", "PATCH", make(), {"target": own})
        call(200, "some", "PATCH", make(headers={"x-a": "b"}, payload=1), {"target": own})
        call(403, "bank", "PATCH", make("bank", headers={}, payload=1), {"target": own})
        call(200, "bank", "PATCH", make("bank", headers={}), {"target": own})
        dead = make(after="0s", retry={"max_attempts": 1})
        harness.wait_until(lambda: call(200, "some", "GET", "/v1/dead")["timers"], 20, "a dead letter")
        ask = {"ids": [dead.rsplit("/", 1)[1]], "new_target": own}
        call(403, "some", "POST", "/v1/dead/redrive", ask)
        self.assertEqual(receiver.seen, [])
        call(200, "all", "POST", "/v1/dead/redrive", ask)
        self.assertEqual(receiver.wait()[2]["cookie"], "c")

    # proves: sensitive-headers-more
    def test_a_definition_has_none(self):
        """Those of the operator are refused in a definition too, and one of before is masked."""
        self.token("all", "shop", "read,payload,admin")
        self.write_tokens()
        body, headers = {"url": "http://127.0.0.1:1", "headers": {"X-More": "hush", "x-a": "b"}}, bearer(self.tokens["all"])
        with self.start() as daemon:
            self.assertEqual(daemon.call("PUT", PATH, body, headers)[2]["headers"], body["headers"])
        daemon = self.start("--sensitive-headers", "x-more")
        for path in (PATH, "/v1/named-targets"):
            answer = json.dumps(daemon.call("GET", path, None, headers)[2]["targets"][0] if path != PATH else
                                daemon.call("GET", path, None, headers)[2])
            self.assertIn('"X-More": "***"', answer)
            self.assertIn('"x-a": "b"', answer)
        self.assertEqual(daemon.call("PUT", PATH, body, headers)[2]["errors"][0]["pointer"], "#/headers")

    # proves: payload-hidden
    def test_payloads(self):
        """A tenant hides its payloads from tokens without scope payload; a worker gets them."""
        self.token("all", "shop", "schedule,read,payload")
        self.token("some", "shop", "schedule,read")
        self.token("other", "bank", "schedule,read")
        self.write_tokens("hide shop payload")
        daemon = self.start()

        def call(who, method, path, body=None):
            return daemon.call(method, path, body, bearer(self.tokens[who]))[2]

        timer = {"after": "0s", "target": "queue:q", "payload": {"hush": 1}}
        for fields in ({"payload": {"hush": 1}}, {"body_base64": "aHVzaA==", "content_type": "text/plain"}):
            made = call("some", "POST", "/v1/timers", {"after": "1h", "target": "queue:q", **fields})
            self.assertTrue(made.get("payload_hidden"), made)
            for path in (f"/v1/timers/{made['id']}", "/v1/timers"):
                self.assertNotIn("hush", str(call("some", "GET", path)))
                self.assertNotIn("aHVzaA", str(call("some", "GET", path)))
                self.assertIn("hush" if "payload" in fields else "aHVzaA", str(call("all", "GET", path)))
        self.assertEqual(call("other", "POST", "/v1/timers", timer)["payload"], {"hush": 1})
        back = call("some", "POST", "/v1/timers", {"after": "1h", "target": "queue:q", "payload_hidden": True})
        self.assertEqual(back["status"], 422)
        call("some", "POST", "/v1/timers", timer)
        items = call("some", "POST", "/v1/queues/q/lease", {"wait": "10s"})["items"]
        self.assertEqual(items[0]["payload"], {"hush": 1})


if __name__ == "__main__":
    unittest.main(verbosity=2)
