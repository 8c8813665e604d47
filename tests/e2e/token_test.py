#!/usr/bin/env python3
"""Tokens (JWT) that webhooks carry. Method: the daemon with keys that `openssl` makes, a receiver that keeps the headers, and
a receiver's library of each of three languages, which gets its keys by HTTP from /.well-known/jwks.json. A library that
cannot be installed is skipped, and named."""

import base64
import http.server
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness
from daemon_case import TokensCase, bearer

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


class TokenTest(TokensCase):
    def setUp(self):
        super().setUp()
        for name in ("shop", "rival", "-"):
            self.token(name, name)
        self.write_tokens()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None
        self.server.arrivals = queue.Queue()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def key(self, kind):
        options = {"EC": ("EC", "-pkeyopt", "ec_paramgen_curve:P-256"), "RSA": ("RSA", "-pkeyopt", "rsa_keygen_bits:2048")}
        return subprocess.run(["openssl", "genpkey", "-algorithm", *options[kind]], capture_output=True, text=True,
                              check=True).stdout

    def write_keys(self, *keys):
        with open(self.path("keys"), "w", encoding="utf-8") as file:
            file.write("".join(keys))

    def begin(self, *flags):
        return self.start("--webhook-token-issuer", ISSUER, "--webhook-token-keys-file", self.path("keys"), *flags)

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
        for flags, hint in ((["--webhook-token-issuer", ISSUER], "webhook_token_issuer: set webhook_token_keys_file too"),
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
        programs = self.programs()
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

    def programs(self):
        """The programs of the languages whose library is there, or can be installed: once for each build folder."""
        folder = os.path.abspath(os.path.join(harness.BUILD, "token_libraries"))
        os.makedirs(folder, exist_ok=True)
        for name, text in (("verify.py", PYTHON), ("verify.mjs", NODE), ("main.go", GO)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        found = {}
        python = os.path.join(folder, "python", "bin", "python")
        if os.path.exists(os.path.join(folder, "python.done")) or self.installs(
                folder, "python", [sys.executable, "-m", "venv", os.path.join(folder, "python")],
                [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "PyJWT[crypto]==2.10.1"]):
            found["PyJWT"] = [python, os.path.join(folder, "verify.py")]
        if shutil.which("npm") and (os.path.exists(os.path.join(folder, "node.done")) or self.installs(
                folder, "node", ["npm", "install", "--no-audit", "--no-fund", "--silent", "jose@6.0.11"])):
            found["jose"] = ["node", os.path.join(folder, "verify.mjs")]
        if shutil.which("go") and (os.path.exists(os.path.join(folder, "go.done")) or self.installs(
                folder, "go", ["rm", "-f", "go.mod", "go.sum"], ["go", "mod", "init", "verify"],
                ["go", "get", "github.com/golang-jwt/jwt/v5@v5.2.2", "github.com/MicahParks/keyfunc/v3@v3.3.10"],
                ["go", "mod", "tidy"], ["go", "build", "-o", "verify", "main.go"])):
            found["golang-jwt"] = [os.path.join(folder, "verify")]
        return found

    @staticmethod
    def installs(folder, name, *commands):
        for command in commands:
            if subprocess.run(command, cwd=folder, check=False, timeout=200, capture_output=True).returncode != 0:
                return False
        with open(os.path.join(folder, name + ".done"), "w", encoding="utf-8"):
            pass
        return True


if __name__ == "__main__":
    unittest.main()
