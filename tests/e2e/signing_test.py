#!/usr/bin/env python3
"""By which secrets webhooks are signed. Method: the daemon with secrets of its own and of tenants, a receiver that keeps
the headers, the check that a receiver makes, and `openssl` for public keys."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import harness
from daemon_case import TokensCase, bearer
from named_targets_test import KEY_1, KEY_2, NamedCase

SHARED, SHOP, SHOP_NEXT, RIVAL = ("whsec_" + base64.b64encode(bytes([letter]) * 32).decode() for letter in b"asnr")
# SubjectPublicKeyInfo of Ed25519 (RFC 8410), which the 32 bytes of the key follow.
ED25519_DER = bytes.fromhex("302a300506032b6570032100")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.arrivals.put((json.loads(body), dict(self.headers), body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def signed_by(secret, headers, body):
    """Whether a receiver with this secret takes the webhook."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return wanted in headers.get("webhook-signature", "").split(" ")


class SigningTest(TokensCase):
    def setUp(self):
        super().setUp()
        for name in ("shop", "rival", "other", "-"):
            self.token(name, name)
        self.write_tokens()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None
        self.server.arrivals = queue.Queue()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def write_secrets(self, *lines):
        with open(self.path("secrets"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def deliver(self, daemon, who, host="127.0.0.1"):
        status, _, answer = daemon.call("POST", "/v1/timers", {
            "after": "0s", "target": f"http://{host}:{self.server.server_address[1]}/x", "payload": {"of": who}},
            bearer(self.tokens[who]))
        self.assertEqual(status, 201, answer)
        payload, headers, body = self.server.arrivals.get(timeout=30)
        self.assertEqual(payload, {"of": who})
        return headers, body

    def signers(self, daemon, who, **how):
        headers, body = self.deliver(daemon, who, **how)
        count = len(headers["webhook-signature"].split(" ")) if "webhook-signature" in headers else 0
        found = [secret for secret in (SHARED, SHOP, SHOP_NEXT, RIVAL) if signed_by(secret, headers, body)]
        self.assertEqual(count, len(found), headers)
        return found

    # proves: tenant-signature
    def test_a_tenant_is_not_signed_by_the_secret_of_another(self):
        """Over own connections and by libcurl, which gets the first webhook to a name."""
        self.write_secrets("# of all", SHARED, f"shop={SHOP}", f"rival={RIVAL}")
        daemon = self.start("--webhook-secret-file", self.path("secrets"))
        for host in ("127.0.0.1", "localhost"):
            self.assertEqual(self.signers(daemon, "shop", host=host), [SHOP])
            self.assertEqual(self.signers(daemon, "rival", host=host), [RIVAL])
            self.assertEqual(self.signers(daemon, "other", host=host), [SHARED])
            self.assertEqual(self.signers(daemon, "-", host=host), [SHARED])

    # proves: tenant-signature, trust-reload
    def test_the_secret_of_a_tenant_is_rotated(self):
        """Two at a time, read at SIGHUP, without a webhook that the old or the new secret does not verify; a wrong file
        changes nothing, and is not shown."""
        self.write_secrets(f"shop={SHOP}")
        daemon = self.start("--webhook-secret-file", self.path("secrets"))
        self.assertEqual(self.signers(daemon, "shop"), [SHOP])
        self.assertEqual(self.signers(daemon, "rival"), [])
        self.write_secrets(f"shop={SHOP_NEXT} shop={SHOP}")
        self.reload(daemon, what="webhooks")
        self.assertEqual(self.signers(daemon, "shop"), [SHOP, SHOP_NEXT])
        self.write_secrets(f"shop={SHOP_NEXT} shop={SHOP} shop={RIVAL}")
        self.reload(daemon, event="reload_failed", what="webhooks")
        self.assertEqual(self.signers(daemon, "shop"), [SHOP, SHOP_NEXT])
        self.write_secrets(f"shop={SHOP_NEXT}")
        self.reload(daemon, what="webhooks")
        self.assertEqual(self.signers(daemon, "shop"), [SHOP_NEXT])
        for secret in (SHOP, SHOP_NEXT, RIVAL):
            self.assertNotIn(secret[6:], daemon.output())

    # proves: webhook-signature
    def test_a_public_key_verifies(self):
        private, public = subprocess.run([harness.find("tickwheeld"), "--make-webhook-key"], capture_output=True,
                                         text=True, check=True).stdout.split()
        self.write_secrets(SHARED, f"shop={private}")
        daemon = self.start("--webhook-secret-file", self.path("secrets"))
        headers, body = self.deliver(daemon, "shop")
        scheme, signature = headers["webhook-signature"].split(",")
        self.assertEqual(scheme, "v1a")
        with open(self.path("key"), "wb") as file:
            file.write(ED25519_DER + base64.b64decode(public.removeprefix("whpk_")))
        with open(self.path("signature"), "wb") as file:
            file.write(base64.b64decode(signature))
        for end, wanted in (b"", 0), (b" ", 1):
            with open(self.path("text"), "wb") as file:
                file.write(f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body + end)
            done = subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-keyform", "DER", "-inkey",
                                   self.path("key"), "-in", self.path("text"), "-sigfile", self.path("signature")],
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, wanted, done)


class NamedSigningTest(NamedCase):
    """Secrets of a named target, beside a shared one."""

    def start(self, *flags, **how):
        return super().start("--webhook-secret", SHARED, *flags, **how)

    def signers(self, target="billing:/x"):
        before = len(self.receiver.seen)
        self.create(target)
        _, _, headers, body = self.receiver.wait(before + 1)
        found = [secret for secret in (SHARED, SHOP, SHOP_NEXT, RIVAL) if signed_by(secret, headers, body)]
        self.assertEqual(len(headers["webhook-signature"].split(" ")), len(found), headers)
        return found

    # proves: named-target-signing
    def test_a_named_target_has_its_own_secrets(self):
        """Two at a time; a PUT without them keeps them, over kill -9 and another key too; null ends them."""
        self.define(name="plain")
        shown = self.define(signing=SHOP)[1]
        self.assertEqual(shown["signing"], {"set": True, "since": shown["changed"]})
        self.assertEqual(self.signers(), [SHOP])
        self.assertEqual(self.signers("plain:/x"), [SHARED])
        self.assertEqual(self.signers(self.receiver.url), [SHARED])
        self.define(200, signing=f"{SHOP_NEXT} {SHOP}")
        self.assertEqual(self.signers(), [SHOP, SHOP_NEXT])
        self.define(200, signing={"set": True})
        self.define(200, auth={"kind": "bearer", "token": "t0ken"})
        self.daemon.signal(signal.SIGKILL)
        self.keys = [KEY_2, KEY_1]
        self.daemon = self.start()
        self.assertEqual(self.signers(), [SHOP, SHOP_NEXT])
        self.assertEqual(self.call(200, "POST", "/v1/named-targets/reseal")[1], {"sealed": 1})
        self.assertEqual(self.signers(), [SHOP, SHOP_NEXT])
        answer = json.dumps(self.call(200, "GET", "/v1/named-targets")[1])
        for secret in (SHOP, SHOP_NEXT):
            self.assertNotIn(secret[6:], answer)
            self.assertNotIn(secret[6:], self.daemon.output())
        self.define(200, signing=None)
        self.assertEqual(self.signers(), [SHARED])

    def rotate(self, expected=200, headers=None, **body):
        return self.call(expected, "POST", "/v1/named-targets/billing/rotate", body, headers)

    # proves: named-target-rotate
    def test_a_rotation_overlaps(self):
        """The secret of before signs until the overlap is over, over kill -9 and changes of the definition; another rotation ends
        it, and so does one without overlap."""
        self.rotate(404, signing=SHOP)
        fields, _ = self.define(signing=SHOP)
        self.rotate(412, {"If-Match": '"7"'}, signing=SHOP_NEXT)
        fields, shown = self.rotate(200, {"If-Match": fields["ETag"]}, signing=SHOP_NEXT, overlap="1h")
        self.assertEqual(fields["ETag"], f'"{shown["version"]}"')
        self.assertGreater(shown["signing_before"]["until"], shown["changed"])
        self.assertEqual(self.signers(), [SHOP, SHOP_NEXT])
        self.call(200, "PUT", "/v1/named-targets/billing",
                  {name: value for name, value in shown.items() if name not in ("name", "version", "changed")})
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        self.assertEqual(self.signers(), [SHOP, SHOP_NEXT])
        self.rotate(signing=RIVAL, overlap="1h")
        self.assertEqual(self.signers(), [SHOP_NEXT, RIVAL])
        shown = self.rotate(signing=SHOP)[1]
        self.assertNotIn("signing_before", shown)
        self.assertEqual(self.signers(), [SHOP])
        self.rotate(signing=SHOP_NEXT, overlap="2s")
        self.assertEqual(self.signers(), [SHOP, SHOP_NEXT])
        harness.wait_until(lambda: self.signers() == [SHOP_NEXT], 20, "the end of the overlap")
        self.rotate(signing=f"{SHOP} {RIVAL}", overlap="1h")  # two new ones leave no place for the old one
        self.assertEqual(self.signers(), [SHOP, RIVAL])

    # proves: named-target-rotate, named-target-overlap (at), named-target-overlap (beyond)
    def test_rotations_that_are_refused(self):
        self.define(signing=SHOP)
        for pointer, body in (("#/signing", {}), ("#/signing", {"signing": None}), ("#/signing", {"signing": "hush"}),
                              ("#/overlap", {"signing": SHOP_NEXT, "overlap": "x"}),
                              ("#/overlap", {"signing": SHOP_NEXT, "overlap": 5}),
                              ("#/overlap", {"signing": SHOP_NEXT, "overlap": "30d1ms"}),
                              ("#/more", {"signing": SHOP_NEXT, "more": 1})):
            problem = self.rotate(422, **body)[1]
            self.assertEqual([each["pointer"] for each in problem["errors"]], [pointer], problem)
        self.define(422, signing_before=SHOP_NEXT)
        self.assertEqual(self.signers(), [SHOP])
        self.rotate(signing=SHOP_NEXT, overlap="30d")
        self.assertEqual(self.signers(), [SHOP, SHOP_NEXT])

    # proves: named-target-signing, named-target-signing-bytes (at), named-target-signing-bytes (beyond)
    def test_what_is_no_secret(self):
        for secret in ("whsec_short", "hush", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", f"{SHOP} {RIVAL} {SHARED}",
                       RIVAL + " " * (513 - len(RIVAL)), "", 1):
            self.refuse("#/signing", signing=secret)
        self.define(signing=RIVAL + " " * (511 - len(RIVAL)) + " ")
        self.define(200, signing=None)
        with open(os.path.join(self.secrets, "signing"), "w", encoding="utf-8") as file:
            file.write(f"{RIVAL}\n{SHOP}\n")
        self.define(200, signing={"secret_ref": "file:signing"})
        self.assertEqual(self.signers(), [SHOP, RIVAL])
        with open(os.path.join(self.secrets, "signing"), "w", encoding="utf-8") as file:
            file.write("whsec_hush\n")
        timer = self.create(retry={"max_attempts": 1})
        self.wait_for_words(timer, "named target billing: secret 1 is not")


if __name__ == "__main__":
    unittest.main()
