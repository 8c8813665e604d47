#!/usr/bin/env python3
"""The OpenAPI document fits the daemon: schemathesis, a tool of others, reads /openapi.strict.json and
sends what the document allows, and what it does not, to the real daemon; every answer must be one
that the document names, in its shape; nothing wrong may be accepted, nothing right refused, and nothing
answered without a token that needs one.

The seed is random and printed; TEST_SEED=... repeats a run, TEST_EXAMPLES=... makes it longer. The
tool is installed from the package index into the build folder; without the index the test is
skipped and says so.
"""

import base64
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness
import python_tools

VERSION = "4.32.5"
EXAMPLES = os.environ.get("TEST_EXAMPLES", "8")


class OpenapiTest(unittest.TestCase):
    # proves: openapi
    def test_document_fits_the_daemon(self):
        tool = python_tools.program("schemathesis", VERSION, "schemathesis")
        if not tool:
            self.skipTest("schemathesis cannot be installed: the package index is out of reach")
        # The same calls for everyone: one that one seed in a hundred finds must not fail the change of somebody else.
        # `make nightly` looks for new ones.
        seed = os.environ.get("TEST_SEED", "1")
        seed = str(random.randrange(2**32)) if seed == "new" else seed
        data = tempfile.mkdtemp(prefix="tickwheel-openapi-")
        self.addCleanup(shutil.rmtree, data)
        token, line = subprocess.run(
            [harness.find("tickwheeld"), "--make-token", "test", "schedule,read,admin,payload"],
            capture_output=True, text=True, check=True).stdout.splitlines()
        with open(os.path.join(data, "tokens"), "w", encoding="utf-8") as file:
            file.write(line + "\n")
        with open(os.path.join(data, "secrets"), "w", encoding="utf-8") as file:
            file.write("k1=" + base64.b64encode(bytes(range(32))).decode() + "\n")
        with harness.Daemon(os.path.join(data, "timers"), "--tokens-file", os.path.join(data, "tokens"), "--secrets-keys-file", file.name,
                            "--webhook-token-issuer", "https://timers.example") as daemon, \
                tempfile.TemporaryDirectory() as folder:
            harness.wait_until(daemon.is_ready, 20, "ready")
            print(f"TEST_SEED={seed}", flush=True)
            result = subprocess.run(
                [tool, "--config-file", os.path.join(HERE, "openapi.toml"), "run",
                 f"http://127.0.0.1:{daemon.port}/openapi.strict.json", "--seed", seed,
                 "--header", f"Authorization: Bearer {token}", "--max-examples", EXAMPLES, "--warnings", "off"],
                cwd=folder, env={**os.environ, "PYTHONPATH": HERE,
                                 "SCHEMATHESIS_HOOKS": "openapi_hooks"})
            self.assertEqual(result.returncode, 0, f"TEST_SEED={seed} finds a difference")
            self.assertTrue(daemon.is_ready())


if __name__ == "__main__":
    unittest.main()
