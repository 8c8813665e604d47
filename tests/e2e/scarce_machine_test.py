#!/usr/bin/env python3
"""Goal: a daemon that is allowed few threads, little memory or small files ends with a sentence or goes on, and never by a
signal. Method: limits of the process, as a service manager or a shell sets them, from next to nothing upwards."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness

NOBODY = 65534
MIB = 1 << 20


class ScarceMachineTest(unittest.TestCase):
    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)

    def end(self, limit, value, user=None):
        """The daemon with a limit: its exit code and what it said; None if it runs."""
        if user:
            os.chown(self.data, user, user)

        def enter():
            resource.setrlimit(limit, (value, value))
            if user:
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
        with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
            process = subprocess.Popen([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder",
                                        os.path.join(self.data, "data")], stdout=out, stderr=out, preexec_fn=enter)

            def look():
                out.seek(0)
                said = out.read()
                return (process.poll(), said) if process.poll() is not None or "event=ready" in said else None
            try:
                code, said = harness.wait_until(look, 60, "an end, or ready")
            finally:
                process.kill()
                process.wait()
        return code, said

    def assert_said(self, code, said, words):
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"event=start_failed cause=.*(" + words + ")")
        self.assertNotIn("terminate called", said)

    # proves: scarce-start
    def test_few_threads(self):
        if os.getuid():
            self.skipTest("the limit counts all threads of this user")
        self.assert_said(*self.end(resource.RLIMIT_NPROC, 8, NOBODY), "of the [0-9]+ threads that are needed.*RLIMIT_NPROC is 8")

    # proves: scarce-start
    def test_little_memory(self):
        """From nothing to enough: a refusal that names the limit, or a start."""
        for name, limit in (("RLIMIT_AS", resource.RLIMIT_AS), ("RLIMIT_DATA", resource.RLIMIT_DATA)):
            ends = []
            for value in (96 * MIB, 128 * MIB, 192 * MIB, 256 * MIB, 1024 * MIB):
                with self.subTest(name, value=value):
                    code, said = self.end(limit, value)
                    ends.append(code)
                    if code is not None:
                        self.assert_said(code, said, f"needed.*{name} is {value}|aborted before it listened; lines above may say why")
            self.assertEqual((ends[0], ends[-1]), (1, None))

    # proves: scarce-start
    def test_small_files(self):
        self.assert_said(*self.end(resource.RLIMIT_FSIZE, MIB), "File too large")


if __name__ == "__main__":
    unittest.main()
