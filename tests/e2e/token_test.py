#!/usr/bin/env python3
"""Tokens (JWT) that webhooks carry. Method: the daemon with keys that `openssl` makes or with its own, a receiver that keeps the headers, and
a receiver's library of each of three languages, which gets its keys by HTTP from /.well-known/jwks.json. A library that
cannot be installed is skipped, and named."""

import base64
import http.server
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness
import libraries
from daemon_case import TokensCase, bearer, ms_of
from named_targets_test import KEY_1, KEY_2

ISSUER = "https://timers.example"

# Each prints the claims of the token of its standard input, or fails: NAME KEYS-URL ISSUER AUDIENCE.
PYTHON = """
import json, sys
import jwt
_, url, issuer, audience = sys.argv
token = sys.stdin.read()
key = jwt.PyJWKClient(url).get_signing_key_from_jwt(token)
print(json.dumps(jwt.decode(token, key.key, algorithms=["ES256", "RS256"], issuer=issuer, audience=audience,
                            options={"require": ["exp", "iat", "iss", "aud", "sub", "jti"]})))
"""
NODE = """
import {createRemoteJWKSet, jwtVerify} from "jose";
import {readFileSync} from "node:fs";
const [url, issuer, audience] = process.argv.slice(2);
const {payload} = await jwtVerify(readFileSync(0, "utf8"), createRemoteJWKSet(new URL(url)),
                                  {issuer, audience, algorithms: ["ES256", "RS256"], typ: "JWT"});
console.log(JSON.stringify(payload));
"""
GO = """
package main

import (
    "encoding/json"
    "fmt"
    "io"
    "os"

    "github.com/MicahParks/keyfunc/v3"
    "github.com/golang-jwt/jwt/v5"
)

func main() {
    text, _ := io.ReadAll(os.Stdin)
    keys, err := keyfunc.NewDefault([]string{os.Args[1]})
    if err == nil {
        var token *jwt.Token
        token, err = jwt.Parse(string(text), keys.Keyfunc, jwt.WithIssuer(os.Args[2]), jwt.WithAudience(os.Args[3]),
            jwt.WithExpirationRequired(), jwt.WithValidMethods([]string{"ES256", "RS256"}))
        if err == nil {
            out, _ := json.Marshal(token.Claims)
            fmt.Println(string(out))
            return
        }
    }
    fmt.Fprintln(os.Stderr, err)
    os.Exit(1)
}
"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.arrivals.put(self.headers.get_all("authorization") or [])
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def part(text):
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


class TokenCase(TokensCase):
    tenants = ("shop", "rival", "-")

    def setUp(self):
        super().setUp()
        for name in self.tenants:
            self.token(name, name)
        self.write_tokens()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None
        self.server.arrivals = queue.Queue()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def origin(self, host="127.0.0.1"):
        return f"http://{host}:{self.server.server_address[1]}"

    def carried(self, daemon, who, host="127.0.0.1", **fields):
        """What the receiver got as `authorization`."""
        status, _, answer = daemon.call("POST", "/v1/timers", {"after": "0s", "target": self.origin(host) + "/x?y=z", **fields},
                                        bearer(self.tokens[who]))
        self.assertEqual(status, 201, answer)
        return self.server.arrivals.get(timeout=30)

    def token_of(self, daemon, who, **how):
        (value,) = self.carried(daemon, who, **how)
        self.assertTrue(value.startswith("Bearer "), value)
        return value.removeprefix("Bearer ")

    def key_set(self, daemon):
        status, headers, answer = daemon.call("GET", "/.well-known/jwks.json")
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        return answer["keys"]

    def signer_of(self, daemon, who, **how):
        """The name of the key that signed, by the header of the token."""
        return part(self.token_of(daemon, who, **how).split(".")[0])["kid"]


class TokenTest(TokenCase):
    def key(self, kind):
        options = {"EC": ("EC", "-pkeyopt", "ec_paramgen_curve:P-256"), "RSA": ("RSA", "-pkeyopt", "rsa_keygen_bits:2048")}
        return subprocess.run(["openssl", "genpkey", "-algorithm", *options[kind]], capture_output=True, text=True,
                              check=True).stdout

    def write_keys(self, *keys):
        with open(self.path("keys"), "w", encoding="utf-8") as file:
            file.write("".join(keys))

    def begin(self, *flags):
        return self.start("--webhook-token-issuer", ISSUER, "--webhook-token-keys-file", self.path("keys"), *flags)

    # proves: webhook-token
    def test_claims(self):
        """For one tenant and one audience, over own connections and by libcurl; used again, and short."""
        self.write_keys(self.key("EC"))
        daemon = self.begin("--webhook-token-life", "2m")
        seen = {}
        for host in ("127.0.0.1", "localhost", "127.0.0.1", "localhost"):
            for who in ("shop", "rival", "-"):
                token = self.token_of(daemon, who, host=host)
                header, claims = (part(text) for text in token.split(".")[:2])
                self.assertEqual(header, {"alg": "ES256", "typ": "JWT", "kid": self.key_set(daemon)[0]["kid"]})
                self.assertEqual((claims["iss"], claims["sub"], claims["aud"]), (ISSUER, who, self.origin(host)))
                self.assertEqual(claims["exp"] - claims["iat"], 120)
                self.assertLessEqual(abs(claims["iat"] - time.time()), 30)
                seen.setdefault((host, who), set()).add(claims["jti"])
        self.assertEqual({len(ids) for ids in seen.values()}, {1})
        self.assertEqual(len(set.union(*seen.values())), 6)

    # proves: webhook-token
    def test_headers_of_timers_win(self):
        self.write_keys(self.key("EC"))
        daemon = self.begin()
        self.assertEqual(self.carried(daemon, "shop", headers={"Authorization": "Basic abc"}), ["Basic abc"])

    # proves: key-set
    def test_the_keys_are_rotated(self):
        """Without a token whose key is not shown; a wrong file changes nothing; private parts are not shown."""
        old, new = self.key("EC"), self.key("RSA")
        self.write_keys(old)
        daemon = self.begin()
        first = part(self.token_of(daemon, "shop").split(".")[0])["kid"]
        self.assertEqual([key["kid"] for key in self.key_set(daemon)], [first])
        self.write_keys(old, new)
        self.reload(daemon, what="webhooks")
        both = [key["kid"] for key in self.key_set(daemon)]
        self.assertEqual((both[0], len(both)), (first, 2))
        self.assertEqual(part(self.token_of(daemon, "shop").split(".")[0])["kid"], first)
        self.write_keys(new, old)
        self.reload(daemon, what="webhooks")
        self.assertEqual([key["kid"] for key in self.key_set(daemon)], both[::-1])
        self.assertEqual(part(self.token_of(daemon, "shop").split(".")[0]), {"alg": "RS256", "typ": "JWT", "kid": both[1]})
        self.write_keys(new, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
        self.reload(daemon, event="reload_failed", what="webhooks")
        self.assertEqual([key["kid"] for key in self.key_set(daemon)], both[::-1])
        for key in self.key_set(daemon):
            self.assertFalse(set(key) & {"d", "p", "q", "dp", "dq", "qi", "k"}, key)
        status, _, _ = daemon.call("POST", "/.well-known/jwks.json", {})
        self.assertEqual(status, 405)

    # proves: key-set
    def test_without_keys(self):
        daemon = self.start()
        self.assertEqual(self.key_set(daemon), [])
        self.assertEqual(self.carried(daemon, "shop"), [])

    # proves: webhook-token
    def test_settings_that_do_not_fit(self):
        self.write_keys(self.key("EC"))
        for flags, hint in ((["--webhook-token-issuer", ISSUER], "webhook_token_issuer: set secrets_keys_file too"),
                            (["--webhook-token-keys-file", self.path("keys")], "webhook_token_keys_file: set webhook_"),
                            (["--webhook-token-issuer", "timers", "--webhook-token-keys-file", self.path("keys")], "URL"),
                            (["--webhook-token-issuer", ISSUER, "--webhook-token-keys-file", self.path("none")],
                             "webhook_token_keys_file: "),
                            (["--webhook-token-issuer", ISSUER, "--webhook-token-keys-file", self.path("tokens")],
                             "key 1 is not a private key")):
            done = subprocess.run([harness.find("tickwheeld"), *flags, "--data-folder", self.path("data")],
                                  capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(hint, done.stderr)

    # proves: webhook-token, key-set
    def test_libraries_verify(self):
        """PyJWT, jose of npm and golang-jwt, with both kinds of key; each refuses another audience and a changed token."""
        programs = libraries.programs("token_libraries", {"verify.py": PYTHON, "verify.mjs": NODE, "main.go": GO},
                                      python="PyJWT[crypto]==2.10.1", node="jose@6.0.11",
                                      go=("github.com/golang-jwt/jwt/v5@v5.2.2", "github.com/MicahParks/keyfunc/v3@v3.3.10"))
        for kinds in (("EC", "RSA"), ("RSA", "EC")):
            self.write_keys(*(self.key(kind) for kind in kinds))
            daemon = self.begin()
            token = self.token_of(daemon, "shop")
            url = f"http://127.0.0.1:{daemon.port}/.well-known/jwks.json"
            other = token[:-10] + ("A" if token[-10] != "A" else "B") + token[-9:]
            for name, command in programs.items():
                for text, audience, is_valid in ((token, self.origin(), True), (other, self.origin(), False),
                                                 (token, "http://else.example", False)):
                    done = subprocess.run([*command, url, ISSUER, audience], input=text, capture_output=True, text=True,
                                          check=False, timeout=120)
                    self.assertEqual(done.returncode == 0, is_valid, (name, done.stderr[-500:]))
                    if is_valid:
                        self.assertEqual(json.loads(done.stdout)["sub"], "shop")
            daemon.close()
        if len(programs) < 3:
            self.skipTest(f"verified by {', '.join(programs) or 'none'} alone: the others could not be installed")


class OwnKeysTest(TokenCase):
    """Keys that the daemon makes itself."""

    tenants = ("shop", "rival", "third", "-")

    def setUp(self):
        super().setUp()
        self.token("ops", "ops", "admin")
        self.write_tokens()

    def begin(self, *flags, keys=KEY_1):
        with open(self.path("secrets"), "w", encoding="utf-8") as file:
            file.write(keys + "\n")
        return self.start("--webhook-token-issuer", ISSUER, "--secrets-keys-file", self.path("secrets"), *flags)

    def rotate(self, daemon, body=None, expected=200, who="ops"):
        status, _, answer = daemon.call("POST", "/v1/token-keys/rotate", body, bearer(self.tokens[who]))
        self.assertEqual(status, expected, answer)
        return answer

    def shown(self, daemon):
        status, _, answer = daemon.call("GET", "/v1/token-keys", None, bearer(self.tokens["ops"]))
        self.assertEqual(status, 200, answer)
        return answer["keys"]

    # proves: webhook-token, token-keys-own, token-keys-rotate
    def test_the_daemon_makes_a_key_and_rotates_it(self):
        """Goal: a new key is shown before it signs, and the key before it after it has ended to sign; all by the daemon."""
        daemon = self.begin()
        first = self.signer_of(daemon, "shop")
        self.assertEqual([key["kid"] for key in self.key_set(daemon)], [first])
        (key,) = self.shown(daemon)
        self.assertEqual((key["kid"], key["alg"], key["state"]), (first, "ES256", "signs"))
        self.assertEqual(key["made"], key["signs"])
        answer = self.rotate(daemon)["keys"]
        self.assertEqual([key["state"] for key in answer], ["signs", "next"])
        self.assertEqual(ms_of(answer[1]["signs"]) - ms_of(answer[1]["made"]), 24 * 3600 * 1000)
        self.assertEqual(ms_of(answer[0]["ends"]) - ms_of(answer[1]["signs"]), (300 + 60) * 1000)
        self.assertEqual(self.signer_of(daemon, "rival"), first)
        answer = self.rotate(daemon, {"overlap": "4s", "alg": "RS256"})["keys"]  # takes the place of the one that waits
        self.assertEqual([(key["kid"], key["state"]) for key in answer], [(first, "signs"), (answer[1]["kid"], "next")])
        second = answer[1]["kid"]
        self.assertEqual([(key["kid"], key["alg"]) for key in self.key_set(daemon)], [(first, "ES256"), (second, "RS256")])
        self.assertEqual(self.signer_of(daemon, "third"), first)
        harness.wait_until(lambda: self.shown(daemon)[1]["state"] == "signs", 20, "the new key signs")
        harness.wait_until(lambda: time.time() * 1000 > ms_of(answer[1]["signs"]) + 1000, 20, "the next look for the key that signs")
        self.assertEqual(self.signer_of(daemon, "-"), second)
        self.assertEqual([(key["kid"], key["state"]) for key in self.shown(daemon)], [(first, "ends"), (second, "signs")])
        for key in self.key_set(daemon):
            self.assertFalse(set(key) & {"d", "p", "q", "dp", "dq", "qi", "k"}, key)
        daemon.signal(signal.SIGKILL)
        daemon = self.begin()
        self.assertEqual([key["kid"] for key in self.key_set(daemon)], [first, second])
        self.assertEqual(self.signer_of(daemon, "shop"), second)

    # proves: token-keys-rotate, token-keys (at), token-keys (beyond), token-keys-overlap (at), token-keys-overlap (beyond)
    def test_rotations_that_are_refused(self):
        daemon = self.begin()
        harness.wait_until(lambda: self.key_set(daemon), 20, "the first key")
        for body, pointer in (({"overlap": "31d"}, "#/overlap"), ({"overlap": "-1s"}, "#/overlap"), ({"overlap": 5}, "#/overlap"),
                              ({"overlap": "1" * 40}, "#/overlap"), ({"alg": "none"}, "#/alg"), ({"alg": "HS256"}, "#/alg"),
                              ({"x": 1}, "#/x"), ([1], "")):
            answer = self.rotate(daemon, body, 422)
            self.assertEqual(answer.get("errors", [{"pointer": ""}])[0]["pointer"].rstrip("#"), pointer, answer)
        self.rotate(daemon, "x", 400)
        self.rotate(daemon, who="shop", expected=403)
        self.assertEqual(daemon.call("GET", "/v1/token-keys", None, bearer(self.tokens["shop"]))[0], 403)
        self.assertEqual(daemon.call("POST", "/v1/token-keys/rotate")[0], 401)
        self.assertEqual(len(self.key_set(daemon)), 1)
        self.rotate(daemon, {"overlap": "30d"})
        for count in range(2, 9):  # each key of before is shown until its tokens have expired
            self.assertEqual(len(self.rotate(daemon, {"overlap": "0s"})["keys"]), count)
        self.assertEqual(self.rotate(daemon, {"overlap": "0s"}, 429)["type"].rpartition("/")[2], "too-many")
        self.assertEqual(len(self.key_set(daemon)), 8)
        daemon.close()
        daemon = self.start()
        self.assertIn("webhook_token_issuer", self.rotate(daemon, expected=422)["detail"])
        daemon.close()
        pem = subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
                             capture_output=True, check=True).stdout
        with open(self.path("keys"), "wb") as file:
            file.write(pem)
        daemon = self.begin("--webhook-token-keys-file", self.path("keys"))  # which wins
        self.assertIn("webhook_token_keys_file", self.rotate(daemon, expected=422)["detail"])
        (key,) = self.key_set(daemon)
        self.assertEqual(self.signer_of(daemon, "shop"), key["kid"])

    # proves: token-keys-own, secrets-reseal
    def test_the_private_part_is_sealed(self):
        """It is in no file and no answer; without its key nothing is sent and nothing is lost; it is sealed anew."""
        daemon = self.begin()
        first = self.signer_of(daemon, "shop")
        daemon.close()
        for folder, _, names in os.walk(self.path("data")):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(b"PRIVATE KEY", file.read(), name)
        daemon = self.begin(keys=KEY_2)
        harness.wait_until(lambda: "event=token_keys_closed" in daemon.output(), 20, "the log line")
        status, _, timer = daemon.call("POST", "/v1/timers", {"after": "0s", "target": self.origin() + "/x",
                                                              "retry": {"max_attempts": 1}}, bearer(self.tokens["rival"]))
        self.assertEqual(status, 201)

        def error():
            return daemon.call("GET", f"/v1/timers/{timer['id']}", None, bearer(self.tokens["rival"]))[2].get("last_error", "")
        harness.wait_until(lambda: "sealed with the key k1" in error(), 20, "the cause")
        self.assertTrue(error().startswith("no key for its token: "), error())
        self.assertEqual([key["kid"] for key in self.key_set(daemon)], [first])  # shown all the same
        with open(self.path("secrets"), "w", encoding="utf-8") as file:
            file.write(f"{KEY_2}\n{KEY_1}\n")
        self.reload(daemon, what="tokens_file")
        self.assertTrue(self.server.arrivals.get(timeout=30)[0].startswith("Bearer "))
        for count in (1, 0):
            status, _, answer = daemon.call("POST", "/v1/named-targets/reseal", None, bearer(self.tokens["ops"]))
            self.assertEqual((status, answer), (200, {"sealed": count}))
        daemon.close()
        daemon = self.begin(keys=KEY_2)
        self.assertEqual(self.signer_of(daemon, "third"), first)

    def test_the_command_line(self):
        daemon = self.begin()

        def run(*words):
            return subprocess.run([harness.find("tickwheel"), "token-keys", *words, "--url", f"http://127.0.0.1:{daemon.port}",
                                   "--token", self.tokens["ops"]], capture_output=True, text=True, check=False, timeout=60)
        self.signer_of(daemon, "shop")
        done = run()
        self.assertEqual((done.returncode, done.stdout.split()[:6]), (0, "KID ALG STATE MADE SIGNS ENDS".split()), done)
        done = run("rotate", "2h", "--alg", "RS256", "-o", "json")
        self.assertEqual([(key["alg"], key["state"]) for key in json.loads(done.stdout)["keys"]],
                         [("ES256", "signs"), ("RS256", "next")])
        self.assertEqual(run("rotate", "99d").returncode, 1)
        self.assertEqual(run("remove").returncode, 2)


if __name__ == "__main__":
    unittest.main()
