#!/usr/bin/env python3
"""Named targets that named_targets_file defines: they are used and shown like those of the API, which cannot change them; a
reload adds, changes and removes them; a wrong file is refused with its place. The receivers are threads of this test."""

import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness
from daemon_case import TokensCase, bearer
from named_targets_test import KEY_1, PATH, NamedCase, Receiver

OLD = "whsec_" + base64.b64encode(bytes(range(24))).decode()
NEW = "whsec_" + base64.b64encode(bytes(range(32))).decode()
FILE_BYTES_MAX = 1 << 20


def signature(secret, headers, body):
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


class NamedFileTest(NamedCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, folder)
        self.file = os.path.join(folder, "named.json")
        self.write({})
        super().setUp()

    def start(self, *flags, env=None):
        self.keys = []  # the file needs none
        return super().start("--named-targets-file", self.file, *flags, env=env)

    def write(self, content):
        text = content if isinstance(content, str) else json.dumps(content)
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(text)

    def configure(self, event="reloaded", **targets):
        """Writes the targets of the unnamed tenant, and reloads them."""
        self.write({"-": targets})
        TokensCase.reload(self, self.daemon, event, "named_targets_file")

    def target(self, **fields):
        return {"url": self.receiver.url + "/v1", **fields}

    def pending(self):
        return self.create(retry={"base": "1ms", "max_attempts": 100, "cap": "200ms"})

    # proves: named-target-file
    def test_what_is_sent(self):
        """Like a definition of the API, with secrets in the file and elsewhere, two that sign, and a note of where it is."""
        with open(os.path.join(self.secrets, "token"), "w", encoding="utf-8") as file:
            file.write("of-a-file\n")
        self.configure(billing=self.target(method="PUT", headers={"x-team": "a"}, auth={"kind": "bearer", "token": "t0ken"},
                                           signing=f"{NEW} {OLD}"),
                       kept=self.target(auth={"kind": "bearer", "token": {"secret_ref": "file:token"}}))
        fields, shown = self.call(200, "GET", PATH)
        self.assertNotIn("ETag", fields)
        self.assertRegex(shown.pop("changed"), "^20")
        self.assertEqual(shown, {"name": "billing", "url": self.receiver.url + "/v1", "method": "PUT", "headers": {"x-team": "a"},
                                 "auth": {"kind": "bearer", "token": {"set": True}}, "signing": {"set": True},
                                 "defined_by": "configuration", "version": 0})
        self.assertNotIn("defined_by", self.define(name="other")[1])
        listed = [(each["name"], each.get("defined_by")) for each in self.call(200, "GET", "/v1/named-targets")[1]["targets"]]
        self.assertEqual(listed, [("billing", "configuration"), ("kept", "configuration"), ("other", None)])
        self.create("billing:/recheck?x=1", payload={"n": 1})
        method, path, headers, body = self.receiver.wait()
        self.assertEqual((method, path, headers["x-team"], headers["authorization"]),
                         ("PUT", "/v1/recheck?x=1", "a", "Bearer t0ken"))
        self.assertEqual(headers["webhook-signature"].split(), [signature(secret, headers, body) for secret in (NEW, OLD)])
        self.create("kept:/x")
        self.assertEqual(self.receiver.wait(2)[2]["authorization"], "Bearer of-a-file")
        done = subprocess.run([harness.find("tickwheel"), "--url", f"http://127.0.0.1:{self.daemon.port}", "target"],
                              text=True, capture_output=True, check=True)
        self.assertRegex(done.stdout, "(?m)^billing .* bearer .* configuration$")
        self.assertNotRegex(done.stdout, "(?m)^other .* configuration$")

    # proves: named-target-file-first
    def test_the_api_changes_none(self):
        """One of the API is hidden while the file has its name, and cannot be changed; then it is back as it was."""
        tag = self.define(headers={"x-of": "api"})[0]["ETag"]
        self.configure(billing=self.target(headers={"x-of": "file"}))
        for method, path, body in (("PUT", PATH, {"url": self.receiver.url}), ("PUT", PATH, {"wrong": 1}), ("DELETE", PATH, None),
                                   ("POST", PATH + "/rotate", {"signing": NEW})):
            for match in (None, {"If-Match": tag}):
                problem = self.call(409, method, path, body, match)[1]
                self.assertEqual(problem["type"], "/problems/configured")
                self.assertIn(self.file, problem["detail"])
        self.assertEqual(self.call(200, "GET", PATH)[1]["headers"], {"x-of": "file"})
        self.assertEqual(self.call(200, "PUT", "/v1/owners/named_target:billing", {"owner": "shop"})[1]["version"], 0)
        self.create()
        self.assertEqual(self.receiver.wait()[2]["x-of"], "file")
        self.configure()
        fields, shown = self.call(200, "GET", PATH)
        self.assertEqual((fields["ETag"], shown["headers"]), (tag, {"x-of": "api"}))
        self.create()
        self.assertEqual(self.receiver.wait(2)[2]["x-of"], "api")

    # proves: named-target-file
    def test_reload(self):
        """A change holds from the next attempt on; one that is removed fails its attempts, which go on when it is back. A
        wrong file changes nothing."""
        self.create(expected=422)
        self.configure(billing=self.target(auth={"kind": "bearer", "token": "first"}))
        self.receiver.status = 500
        timer = self.pending()
        self.assertEqual(self.receiver.wait()[2]["authorization"], "Bearer first")
        self.configure("reload_failed", billing=self.target(auth={"kind": "bearer", "token": "s3cret\n"}))
        self.assertIn(f"{self.file}: #/-/billing/auth/token: ", self.daemon.output())
        count = len(self.receiver.seen)
        self.assertEqual(self.receiver.wait(count + 2)[2]["authorization"], "Bearer first")
        other = self.receive()
        other.status = 500
        self.configure(billing={"url": other.url})
        self.assertEqual(other.wait()[1], "/recheck")
        self.configure()
        self.wait_for_words(timer, "named target billing: it is not defined")
        self.call(404, "GET", PATH)
        self.create(expected=422)
        other.status = 200
        self.configure(billing={"url": other.url})
        self.wait_for_words(timer, "'state': 'fired'")
        self.assertNotIn("s3cret", self.daemon.output())

    def test_limits_follow_the_file(self):
        """Explain shows the limits of the file; a change of them holds for timers that wait."""
        self.configure(billing=self.target(limits={"rate": "1/d"}))
        timers = [self.create() for _ in range(3)]
        self.receiver.wait()
        self.configure(billing=self.target(limits={"concurrency": 2}))
        self.receiver.wait(3)
        for timer in timers:
            self.wait_for_words(timer, "'state': 'fired'")

    def refuse(self, content, words):  # pylint: disable=arguments-differ
        self.write(content)
        for flags in (("--check-config",), ("--data-folder", os.path.join(self.secrets, "data"), "--listen-port", "0")):
            done = subprocess.run([harness.find("tickwheeld"), "--named-targets-file", self.file, *flags], text=True,
                                  capture_output=True, check=False, env={}, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.splitlines()[0][:len(words)], words)
            self.assertNotIn("s3cret", done.stderr)

    # proves: named-target-file
    def test_wrong_files(self):
        """None starts a daemon, and --check-config names the place in it too."""
        self.daemon.close()
        wrong = f"tickwheeld: named_targets_file: {self.file}: "
        url = {"url": "https://a.example"}
        for content, words in (
                ("{", "byte 1: "), ("[]", "#: It must be an object"), ({"-": []}, "#/-: It must be an object"),
                ({"a b": {}}, "#/a b: A tenant"), ({"": {}}, "#/: A tenant"), ({"-": {"http": url}}, "#/-/http: A name"),
                ({"shop": {"x" * 65: url}}, "#/shop/" + "x" * 64 + ": A name"), ({"shop": {"a": []}}, "#/shop/a: It must be"),
                ({"shop": {"a": {}}}, "#/shop/a/url: It is missing"), ({"shop": {"a": {**url, "b": 1}}}, "#/shop/a/b: There is no"),
                ({"-": {"a": {"url": "http://127.0.0.1"}}}, "#/-/a/url: This host"),
                ({"-": {"a": {**url, "auth": {"kind": "oidc"}}}}, "#/-/a/auth/kind: The daemon issues"),
                ({"-": {"a": {**url, "auth": {"kind": "bearer"}}}}, "#/-/a/auth/token: It is missing"),
                ({"-": {"a": {**url, "auth": {"kind": "bearer", "token": {"set": True}}}}}, "#/-/a/auth/token: It must be"),
                ({"-": {"a": {**url, "auth": {"kind": "bearer", "token": "s3cret\n"}}}}, "#/-/a/auth/token: "),
                ({"-": {"a": {**url, "auth": {"kind": "bearer", "token": {"sealed": "k1:AAAA"}}}}}, "#/-/a/auth/token: "),
                ({"-": {"a": {**url, "signing": {"set": True}}}}, "#/-/a/signing: It must be"),
                ({"-": {"a": {**url, "signing": "s3cret"}}}, "#/-/a/signing: "),
                ({"-": {"a": {**url, "signing_before": {"set": True}}}}, "#/-/a/signing_before: "),
                ('{"-":{"a":{"url":"http://a.example"},"a":{"url":"http://a.example"}}}', "#/-/a: It is given twice"),
                ('{"-":{"a":{"url":"http://a.example"}},"-":{}}', "#/-: It is given twice")):
            self.refuse(content, wrong + words)
        self.refuse(" " * (FILE_BYTES_MAX - 1) + "{}", f"tickwheeld: named_targets_file: read {self.file}: more than")
        os.remove(self.file)
        done = subprocess.run([harness.find("tickwheeld"), "--named-targets-file", self.file, "--check-config"], text=True,
                              capture_output=True, check=False, env={})
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"named_targets_file: read {self.file}: ", done.stderr)

    # proves: named-targets-file, definitions-tenant
    def test_large_files(self):
        """The largest file, and as many targets as a tenant may have; one more is refused."""
        self.daemon.close()
        targets = {f"a{number}": {"url": "https://a.example"} for number in range(256)}
        text = json.dumps({"-": targets, "shop": targets})
        self.write(text + " " * (FILE_BYTES_MAX - len(text)))
        self.daemon = self.start()
        self.assertEqual(len(self.call(200, "GET", "/v1/named-targets")[1]["targets"]), 256)
        targets["more"] = targets["a0"]
        self.refuse({"-": targets}, f"tickwheeld: named_targets_file: {self.file}: #/-/more: A tenant has at most 256")

    def test_virtual_clock(self):
        """With it a target may be at loopback, as a timer's may."""
        data = os.path.join(self.secrets, "virtual")
        self.write({"-": {"billing": self.target()}})
        daemon = harness.Daemon(data, "--named-targets-file", self.file, "--clock", "virtual=2027-03-01T00:00Z",
                                allow="10.0.0.0/8")
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        self.assertEqual(daemon.call("POST", "/v1/timers", {"after": "0s", "target": "billing:/x"})[0], 201)
        self.receiver.wait()


class TenantsTest(TokensCase):
    # proves: named-target-file, named-target-file-first, secrets-reseal
    def test_tenants(self):
        """Each has its own; the operator's references to the environment are good for all. One of the API that is hidden is
        sealed anew with the others."""
        for name in ("shop", "bank"):
            self.token(name, name, "schedule,read,admin")
        self.write_tokens()
        receiver = Receiver()
        self.addCleanup(receiver.close)
        headers = {name: bearer(token) for name, token in self.tokens.items()}
        file = self.path("named.json")

        def write(content):
            with open(file, "w", encoding="utf-8") as out:
                json.dump(content, out)

        write({"shop": {"billing": {"url": receiver.url, "auth": {"kind": "bearer",
                                                                  "token": {"secret_ref": "env:TICKWHEEL_SECRET_A"}}}}})
        key_2 = "k2=" + base64.b64encode(bytes(range(1, 33))).decode()
        keys = self.path("keys")

        def write_keys(*lines):
            with open(keys, "w", encoding="utf-8") as out:
                out.write("\n".join(lines))

        write_keys(KEY_1)
        with unittest.mock.patch.dict(os.environ, TICKWHEEL_SECRET_A="of-the-environment"):
            daemon = self.start("--named-targets-file", file, "--secrets-keys-file", keys)
        timer = {"after": "0s", "target": "billing:/x"}
        self.assertEqual(daemon.call("POST", "/v1/timers", timer, headers["bank"])[0], 422)
        self.assertEqual(daemon.call("GET", PATH, None, headers["bank"])[0], 404)
        self.assertEqual(daemon.call("POST", "/v1/timers", timer, headers["shop"])[0], 201)
        self.assertEqual(receiver.wait()[2]["authorization"], "Bearer of-the-environment")
        body = {"url": receiver.url, "auth": {"kind": "bearer", "token": "of-bank"}}
        self.assertEqual(daemon.call("PUT", PATH, body, headers["bank"])[0], 201)
        self.assertEqual(daemon.call("PUT", PATH, body, headers["shop"])[0], 409)
        write({"bank": {"billing": {"url": receiver.url}}})
        write_keys(key_2, KEY_1)
        self.reload(daemon, what="named_targets_file")
        harness.wait_until(lambda: daemon.call("POST", "/v1/named-targets/reseal", None, headers["bank"])[2]["sealed"] == 1, 20,
                           "sealed anew")
        write_keys(key_2)
        write({})
        self.reload(daemon, what="named_targets_file")
        self.assertEqual(daemon.call("GET", PATH, None, headers["shop"])[0], 404)
        self.assertEqual(daemon.call("POST", "/v1/timers", timer, headers["bank"])[0], 201)
        self.assertEqual(receiver.wait(2)[2]["authorization"], "Bearer of-bank")
        self.assertNotIn("secrets_closed", daemon.output())


if __name__ == "__main__":
    unittest.main(verbosity=2)
