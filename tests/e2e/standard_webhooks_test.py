#!/usr/bin/env python3
"""Receivers that use the official packages of Standard Webhooks take our webhooks, and refuse changed ones. Method: webhooks of
the daemon, verified by the packages of PyPI, npm and Go. They verify by `v1`, and pass over the `v1a` beside it. A package that
cannot be installed is left out, and named."""

import base64
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import libraries
from daemon_case import DaemonCase
from named_targets_test import Receiver

SECRET, OTHER = ("whsec_" + base64.b64encode(bytes([letter]) * 32).decode() for letter in b"so")

# Each reads {"secret", "headers", "body"} and fails unless it takes the webhook.
PYTHON = """
import json, sys
from standardwebhooks.webhooks import Webhook
given = json.load(sys.stdin)
Webhook(given["secret"]).verify(given["body"], given["headers"])
"""
NODE = """
import {Webhook} from "standardwebhooks";
import {readFileSync} from "node:fs";
const given = JSON.parse(readFileSync(0, "utf8"));
new Webhook(given.secret).verify(given.body, given.headers);
"""
GO = """
package main

import (
    "encoding/json"
    "fmt"
    "net/http"
    "os"

    webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
    var given struct {
        Secret, Body string
        Headers      map[string]string
    }
    err := json.NewDecoder(os.Stdin).Decode(&given)
    headers := http.Header{}
    for name, value := range given.Headers {
        headers.Set(name, value)
    }
    webhook, bad := webhooks.NewWebhook(given.Secret)
    if err == nil && bad == nil {
        err = webhook.Verify([]byte(given.Body), headers)
    }
    if err != nil || bad != nil {
        fmt.Fprintln(os.Stderr, err, bad)
        os.Exit(1)
    }
}
"""


class StandardWebhooksTest(DaemonCase):
    def start(self, *flags):
        with tempfile.NamedTemporaryFile("w", suffix=".secrets", delete=False) as file:
            file.write(f"{SECRET} whsk_{base64.b64encode(bytes(range(32))).decode()}\n")
        self.addCleanup(os.unlink, file.name)
        return super().start("--webhook-secret-file", file.name, *flags)

    def takes(self, command, secret, headers, body):
        done = subprocess.run(command, input=json.dumps({"secret": secret, "headers": headers, "body": body}), capture_output=True,
                              text=True, check=False, timeout=120)
        return done.returncode == 0, done.stderr[-500:]

    # proves: webhook-signature
    def test_the_official_packages_verify(self):
        programs = libraries.programs("standard_webhooks", {"verify.py": PYTHON, "verify.mjs": NODE, "main.go": GO},
                                      python="standardwebhooks==1.1.0", node="standardwebhooks@1.1.1",
                                      go=("github.com/standard-webhooks/standard-webhooks/libraries@v0.0.1",))
        receiver = Receiver()
        self.addCleanup(receiver.close)
        for count, payload in enumerate(({"of": "shop", "\u00fc": "\u20ac \U0001f600"}, "a text"), 1):
            self.create(target=receiver.url + "/x", after=0, payload=payload)
            _, _, headers, raw = receiver.wait(count)
            body = raw.decode()
            versions = [each.split(",")[0] for each in headers["webhook-signature"].split(" ")]
            self.assertEqual(sorted(versions), ["v1", "v1a"])
            another_id = {**headers, "webhook-id": headers["webhook-id"] + "0"}
            later = {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}
            for name, command in programs.items():
                for case, wanted in (((SECRET, headers, body), True), ((OTHER, headers, body), False),
                                     ((SECRET, headers, body + " "), False), ((SECRET, another_id, body), False),
                                     ((SECRET, later, body), False)):
                    is_taken, reason = self.takes(command, *case)
                    self.assertEqual(is_taken, wanted, (name, payload, reason))
        if len(programs) < 3:
            self.skipTest(f"verified by {', '.join(programs) or 'none'} alone: the others could not be installed")


if __name__ == "__main__":
    unittest.main()
