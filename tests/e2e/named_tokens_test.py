#!/usr/bin/env python3
"""Named targets whose requests carry a token: of an OAuth 2.0 server, for client credentials, or of the daemon itself. The
server and the receiver are threads of this test, so that each request for a token is seen."""

import base64
import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness
from daemon_case import TokensCase, bearer
from named_targets_test import KEY_1, NamedCase, Receiver

SECRET = "s3cret&of=client+"


class TokenServer:
    """Answers requests for tokens by `answer`, and keeps their headers and forms. `gate` holds them back while it is clear."""

    def __init__(self):
        self.answer = lambda number: (200, {"access_token": f"token-{number}", "token_type": "Bearer", "expires_in": 3600})
        self.seen, self.gate = [], threading.Event()
        self.gate.set()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                owner.seen.append(({name.lower(): value for name, value in self.headers.items()},
                                   dict(urllib.parse.parse_qsl(body))))
                owner.gate.wait(30)
                status, answer = owner.answer(len(owner.seen))
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("location", owner.url)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()


class OauthTest(NamedCase):
    def setUp(self):
        super().setUp()
        self.tokens = self.serve()

    def serve(self):
        server = TokenServer()
        self.addCleanup(server.close)
        return server

    def auth(self, **fields):
        return {"kind": "oauth2", "token_url": self.tokens.url, "client_id": "shop", "client_secret": SECRET, **fields}

    def carried(self, count):
        return self.receiver.wait(count)[2].get("authorization")

    # proves: named-target-oauth
    def test_client_credentials(self):
        """One request serves many webhooks; the secret goes by basic authentication or in the body, as the definition says."""
        shown = self.define(auth=self.auth(scope="read write", audience="https://b.example"))[1]
        self.assertEqual(shown["auth"]["client_secret"]["set"], True)
        self.assertNotIn(SECRET, json.dumps(shown))
        for number in range(1, 4):
            self.create()
            self.assertEqual(self.carried(number), "Bearer token-1")
        (headers, form), = self.tokens.seen
        wanted = base64.b64encode(("shop:" + urllib.parse.quote(SECRET, safe="")).encode()).decode()
        self.assertEqual(headers["authorization"], "Basic " + wanted)
        self.assertEqual(headers["content-type"], "application/x-www-form-urlencoded")
        self.assertEqual(form, {"grant_type": "client_credentials", "scope": "read write", "audience": "https://b.example"})
        self.define(200, auth=self.auth(client_auth="post"))
        self.create()
        self.assertEqual(self.carried(4), "Bearer token-2")
        headers, form = self.tokens.seen[1]
        self.assertNotIn("authorization", headers)
        self.assertEqual(form, {"grant_type": "client_credentials", "client_id": "shop", "client_secret": SECRET})
        self.define(200, auth={"kind": "oauth2", "token_url": self.tokens.url, "client_id": "shop", "client_auth": "post"})
        self.create()
        self.assertEqual(self.carried(5), "Bearer token-2")

    # proves: named-target-oauth
    def test_one_request_in_flight(self):
        self.tokens.gate.clear()
        self.define(auth=self.auth())
        for _ in range(50):
            self.create()
        harness.wait_until(lambda: self.tokens.seen, 20, "a request for a token")
        self.call(200, "GET", "/healthz")
        other = self.receive()
        self.create(other.url + "/other")  # webhooks that need no token go on meanwhile
        other.wait()
        self.assertEqual((len(self.tokens.seen), self.receiver.seen), (1, []))
        self.tokens.gate.set()
        self.receiver.wait(50)
        self.assertEqual({headers["authorization"] for _, _, headers, _ in self.receiver.seen}, {"Bearer token-1"})
        self.assertEqual(len(self.tokens.seen), 1)

    # proves: named-target-oauth-failed, oauth-answer (beyond)
    def test_the_cause_is_told(self):
        """An attempt without a token fails by the cause, is repeated, and does not break the receiver's breaker; no answer of the
        server gets further than that."""
        answers = ((401, {"error": "invalid_client"}, "token endpoint answered HTTP 401: invalid_client"),
                   (503, b"<html>", "token endpoint answered HTTP 503"),
                   (302, b"", "token endpoint answered HTTP 302"),
                   (200, b"[]", "token endpoint answered no JSON object"),
                   (200, {"access_token": "x\r\ny: z", "token_type": "bearer"}, "gave no access_token"),
                   (200, {"access_token": "x", "token_type": "mac"}, "no token of type bearer"),
                   (200, b"{" + b" " * 70000 + b"}", "too long"))
        for number, (status, answer, cause) in enumerate(answers):
            self.tokens.answer = lambda _, status=status, answer=answer: (status, answer)
            self.define(200 if number else 201, auth=self.auth(client_secret=f"{SECRET}-{number}"))
            timer = self.create(retry={"max_attempts": 1})
            self.wait_for_words(timer, f"named target billing: {cause}" if cause.startswith("token") else cause)
        self.assertEqual(len(self.tokens.seen), len(answers))
        self.assertEqual(self.receiver.seen, [])
        self.define(200, auth=self.auth(token_url="http://127.0.0.1:1/token"))
        self.wait_for_words(self.create(retry={"max_attempts": 1}), "token endpoint: ")
        self.daemon.close()
        with harness.Daemon(self.data, *self.keys_file(), allow="127.0.0.0/8,10.0.0.0/8") as self.daemon:
            harness.wait_until(self.daemon.is_ready, 20, "ready")
            self.define(200, auth=self.auth(token_url="http://10.1.2.3/token"))
        self.daemon = self.start()  # which allows that network no longer
        self.wait_for_words(self.create(retry={"max_attempts": 1}), "address of the token endpoint refused: private")
        for row in self.call(200, "GET", "/v1/targets")[1]["targets"]:
            self.assertNotIn("failures", row, row)
        self.tokens.answer = lambda number: (200, {"access_token": f"token-{number}", "token_type": "bearer"})
        self.tokens.seen.clear()
        self.define(200, auth=self.auth())
        timer = self.create(retry={"base": "1ms", "cap": "10ms", "max_attempts": 100})
        self.assertEqual(self.carried(1), "Bearer token-1")
        self.assertNotIn(SECRET, self.daemon.output())
        self.assertNotIn("token-1", self.daemon.output())

    # proves: oauth-answer (at), oauth-timeout (at), oauth-timeout (beyond)
    def test_limits_of_the_answer(self):
        """An answer of 64 KiB is read, and so is one that takes a few seconds; after ten the attempt fails."""
        answer = json.dumps({"access_token": "long", "token_type": "bearer"}).encode()
        self.tokens.answer = lambda _: (200, answer + b" " * (65536 - len(answer)))
        self.define(auth=self.auth())
        self.create()
        self.assertEqual(self.carried(1), "Bearer long")
        self.tokens.gate.clear()
        self.define(200, auth=self.auth(scope="other"))
        timer = self.create(retry={"max_attempts": 1})
        begin = time.monotonic()
        self.wait_for_words(timer, "token endpoint: Timeout was reached")
        self.assertGreater(time.monotonic() - begin, 8)

    # proves: oauth-answer (beyond)
    def test_an_answer_without_end(self):
        """Neither headers nor the trailers after its last chunk, which libcurl keeps, take the memory of the daemon."""
        for begin in (b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"):
            server, sent = socket.create_server(("127.0.0.1", 0)), []

            def serve(server=server, begin=begin, sent=sent):
                with contextlib.suppress(OSError), server, server.accept()[0] as client:
                    client.recv(65536)
                    client.sendall(begin)
                    while True:
                        client.sendall(b"name: " + b"x" * 1000 + b"\r\n")
                        sent.append(1000)

            threading.Thread(target=serve, daemon=True).start()
            name = f"endless{len(begin)}"
            self.define(name=name, auth=self.auth(token_url=f"http://127.0.0.1:{server.getsockname()[1]}/"))
            timer = self.create(target=f"{name}:/x", retry={"max_attempts": 1})
            self.wait_for_words(timer, "token endpoint: ")
            self.assertLess(sum(sent), 16 << 20)  # most of it is in the buffers of the system

    # proves: named-target-oauth
    def test_a_refused_token_is_fetched_anew(self):
        self.define(auth=self.auth())
        self.receiver.status = 401
        self.create(retry={"base": "1ms", "cap": "10ms", "max_attempts": 100})
        self.receiver.wait(3)
        self.receiver.status = 200
        carried = [headers["authorization"] for _, _, headers, _ in self.receiver.seen[:3]]
        self.assertEqual(carried, ["Bearer token-1", "Bearer token-2", "Bearer token-3"])

    # proves: named-target-oauth, delivery-log-answer-hidden
    def test_a_refusal_of_another_delivery(self):
        """While a webhook is in flight the 401 of another one ends the token that both carry. The first one needs it still: to
        take it out of the answer that is kept."""
        self.tokens.answer = lambda number: (200, {"access_token": f"t0ken-{number}" * 50, "token_type": "bearer"})
        self.daemon.close()
        self.daemon = self.start("--delivery-log-answer-bytes", "4096")
        go_on, self.receiver.echoes = threading.Event(), True
        self.addCleanup(go_on.set)
        self.receiver.decide = lambda path: 401 if path.endswith("/refused") else 200 if go_on.wait(30) else 500
        for url in (self.receiver.url, self.receiver.url.replace("127.0.0.1", "localhost")):  # own connections, and libcurl's
            go_on.clear()
            before = len(self.receiver.seen)
            self.daemon.call("PUT", "/v1/named-targets/billing", {"url": url, "auth": self.auth()})
            first = self.create("billing:/first")
            self.receiver.wait(before + 1)
            other = self.create("billing:/refused", retry={"max_attempts": 1})
            self.receiver.wait(before + 2)
            self.wait_for_words(other, "401")
            go_on.set()
            (delivery,) = harness.wait_until(
                lambda: self.call(200, "GET", f"/v1/deliveries?timer={first['id']}")[1]["deliveries"], 20, "the answer")
            self.assertEqual(self.receiver.seen[before][2]["authorization"], self.receiver.seen[before + 1][2]["authorization"])
            self.assertEqual(delivery["status"], 200)
            self.assertIn("***", delivery["answer"])
            self.assertNotIn("t0ken", delivery["answer"])

    # proves: named-target-oauth
    def test_a_short_life(self):
        """A token is used until a tenth of its life is left: here nine seconds."""
        self.tokens.answer = lambda number: (200, {"access_token": f"token-{number}", "token_type": "bearer", "expires_in": 1})
        self.define(auth=self.auth())
        self.create()
        self.carried(1)
        begin = time.monotonic()
        count = 1
        while len(self.tokens.seen) == 1:
            self.assertLess(time.monotonic() - begin, 30)
            count += 1
            self.create(after="200ms")
            self.receiver.wait(count)
        self.assertGreater(time.monotonic() - begin, 7)
        self.assertEqual(self.carried(count), "Bearer token-2")

    # proves: named-target-secret-kept
    def test_the_secret_goes_nowhere_else(self):
        """Without the secret a definition that names another token endpoint is refused."""
        self.define(auth=self.auth())
        elsewhere = self.serve()
        self.refuse("#/auth/client_secret", auth={"kind": "oauth2", "token_url": elsewhere.url, "client_id": "shop"})
        self.refuse("#/auth/token_url", auth=self.auth(token_url="ftp://a.example/"))
        self.refuse("#/auth/token_url", auth=self.auth(token_url="http://169.254.169.254/"))
        self.refuse("#/auth/token_url", auth={"kind": "oauth2", "client_id": "shop", "client_secret": "x"})
        self.refuse("#/auth/client_id", auth={"kind": "oauth2", "token_url": self.tokens.url, "client_secret": "x"})
        self.refuse("#/auth/client_auth", auth=self.auth(client_auth="magic"))
        self.refuse("#/auth/scope", auth=self.auth(scope="a\nb"))
        self.refuse("#/auth/token", auth=self.auth(token="x"))

    # proves: named-target-url-bytes, oauth-client-id, oauth-scope
    def test_texts_have_their_limits(self):
        self.define(auth=self.auth())
        for name, begin, most in (("token_url", self.tokens.url, 2048), ("client_id", "", 256), ("scope", "", 1024),
                                  ("audience", "", 1024)):
            self.define(200, auth=self.auth(**{name: begin.ljust(most, "x")}))
            self.refuse(f"#/auth/{name}", auth=self.auth(**{name: begin.ljust(most + 1, "x")}))

    # proves: named-target-oauth
    def test_a_stop_while_a_token_is_fetched(self):
        self.tokens.gate.clear()
        self.define(auth=self.auth())
        self.create()
        harness.wait_until(lambda: self.tokens.seen, 20, "a request for a token")
        self.daemon.close()
        self.tokens.gate.set()
        self.daemon = self.start()
        self.assertTrue(self.carried(1).startswith("Bearer token-"))


class OauthCrowdTest(TokensCase):
    # proves: oauth-clients
    def test_a_tenant_does_not_take_all_requests(self):
        """A tenant defines clients whose token endpoint never answers, until it is refused further requests; another one gets
        its first tokens meanwhile."""
        for tenant in ("crowd", "shop"):
            self.token(tenant, tenant, "schedule,read,admin")
        self.write_tokens()
        daemon = self.start("--secrets-keys", KEY_1)
        silent = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.addCleanup(silent.close)
        tokens, receiver = TokenServer(), Receiver()
        self.addCleanup(tokens.close)
        self.addCleanup(receiver.close)
        stop, refused = threading.Event(), threading.Event()

        def fire(tenant, name, url, client, connection):
            headers = bearer(self.tokens[tenant])
            auth = {"kind": "oauth2", "token_url": url, "client_id": client, "client_secret": "x"}
            daemon.call("PUT", f"/v1/named-targets/{name}", {"url": receiver.url, "auth": auth}, headers, connection)
            timer = {"after": "0s", "target": f"{name}:/{name}", "retry": {"max_attempts": 1}}
            daemon.call("POST", "/v1/timers", timer, headers, connection)

        def crowd(name):
            connection, count = daemon.connect(), 0
            while not stop.is_set():
                fire("crowd", name, f"http://127.0.0.1:{silent.getsockname()[1]}/", f"{name}-{count}", connection)
                count += 1
                if count % 20 == 0 and "too many tokens" in str(
                        daemon.call("GET", "/v1/deliveries?limit=5&outcome=failed", None, bearer(self.tokens["crowd"]), connection)):
                    refused.set()
            connection.close()

        threads = [threading.Thread(target=crowd, args=(f"c{number}",)) for number in range(16)]
        self.addCleanup(lambda: [thread.join() for thread in threads])
        self.addCleanup(stop.set)
        for thread in threads:
            thread.start()
        self.assertTrue(refused.wait(harness.PATIENCE_S))
        connection = daemon.connect()
        for number in range(8):
            fire("shop", f"s{number}", tokens.url, f"s{number}", connection)
        receiver.wait(8)
        connection.close()


class OidcTest(NamedCase):
    def issue(self, *flags):
        self.daemon.signal(signal.SIGTERM)  # killed, it might repeat an attempt
        self.daemon = self.start("--webhook-token-issuer", "https://a.example", *flags)

    def check_token(self, number, audience):
        token = self.receiver.wait(number)[2]["authorization"].removeprefix("Bearer ")
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in token.split(".")[:2])
        self.assertEqual((claims["aud"], claims["iss"], claims["sub"]), (audience, "https://a.example", "-"))
        self.assertIn(header["kid"], [key["kid"] for key in self.call(200, "GET", "/.well-known/jwks.json")[1]["keys"]])

    # proves: delivery-log-answer-hidden
    def test_a_receiver_sends_it_back(self):
        """The log of deliveries shows neither the token of the daemon nor the URL by which the receiver may answer later."""
        self.issue("--delivery-log-answer-bytes", "4096", "--public-url", "https://timers.example")
        self.receiver.echoes = True
        self.define(auth={"kind": "oidc"})
        for count, url in enumerate((self.receiver.url, self.receiver.url.replace("127.0.0.1", "localhost"), "billing:/x"), 1):
            self.create(url)
            sent = self.receiver.wait(count)[2]
            answer = harness.wait_until(lambda count=count: self.answers(count), 20, "the attempt")[0]
            self.assertIn('"authorization": "bearer ***"', answer.lower())
            for secret in (sent["authorization"].split(".")[-1], sent["tickwheel-ack-url"].rsplit("-", 1)[-1]):
                self.assertGreater(len(secret), 20)
                self.assertNotIn(secret, answer)

    # proves: named-target-oidc
    def test_a_token_of_the_daemon(self):
        """With the audience of the definition, or the origin of its URL; by keys of a file, or those that the daemon makes.
        Without an issuer it cannot be defined, and attempts to one that was say so."""
        self.refuse("#/auth/kind", auth={"kind": "oidc"})
        key = os.path.join(self.secrets, "key.pem")
        subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key],
                       check=True, capture_output=True)
        count = 0
        for flags in ((), ("--webhook-token-keys-file", key)):
            self.issue(*flags)
            for auth, audience in (({"kind": "oidc"}, self.receiver.url), ({"kind": "oidc", "audience": "my-api"}, "my-api")):
                self.assertEqual(self.define(200 if count else 201, auth=auth)[1]["auth"], auth)
                self.create()
                count += 1
                self.check_token(count, audience)
        self.refuse("#/auth/audience", auth={"kind": "oidc", "audience": "a b"})
        self.daemon.close()
        self.daemon = self.start()
        self.wait_for_words(self.create(retry={"max_attempts": 1}), "webhook_token_issuer is not set")
        self.assertEqual(len(self.receiver.seen), count)


if __name__ == "__main__":
    unittest.main(verbosity=2)
