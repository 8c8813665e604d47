#!/usr/bin/env python3
"""Goal: who runs `make cluster` has three nodes, and loses nothing when he kills one as the text says.

Method: scripts/cluster on free ports; what it prints is run, and its folder is gone at the end.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
import kafka_cluster

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def shell(command):
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


class ClusterScriptTest(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile(prefix="tickwheel-cluster-script-", delete=False) as output:
            self.output = output.name
            self.addCleanup(os.unlink, self.output)
            self.script = subprocess.Popen(
                [os.path.join(ROOT, "scripts", "cluster"), "--port", "0"], cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        self.addCleanup(self.stop)

    def stop(self):
        if self.script.poll() is None:
            self.script.send_signal(signal.SIGINT)
            self.script.wait(120)

    def printed(self):
        with open(self.output, encoding="utf-8") as file:
            return file.read()

    def commands(self):
        """What the text says to type."""
        harness.wait_until(lambda: "Ctrl-C" in self.printed() or self.script.poll() is not None, 400, "three nodes")
        text = self.printed()
        self.assertIn("Ctrl-C", text)
        lines = re.sub(r"\\\n *", "", text).splitlines()
        return [line.strip() for line in lines if line.startswith("    ")], text

    def test_what_it_prints(self):
        (create, show, kill, show_second), text = self.commands()
        ports = re.search(r"on the ports (\d+) (\d+) (\d+)", text).groups()
        self.assertIn("201 Created", shell(create))

        def shown():
            """Rows of partitions with an owner, of which a node without a copy learns by the next note of that owner."""
            return re.findall(r"^\d+ +[123] +[123] +(?:[123] +)?\[[123]?\] +\d+ +(?:active|standby|absent) ", shell(show), re.M)
        harness.wait_until(lambda: len(shown()) == 6, 60, "six partitions")
        far = create.replace("curl -i", "curl -s").replace('"3s"', '"1h"')
        ids = [json.loads(shell(far))["id"] for _ in range(12)]
        self.assertEqual(shell(kill + " && echo killed"), "killed\n")

        def survivors_own_all():
            owners = re.findall(r"^\d+ +(\d+) +\d+ +(?:\d+ +)?\[", shell(show_second), re.M)
            return len(owners) == 6 and set(owners) == {"2", "3"}
        harness.wait_until(survivors_own_all, 120, "owners of all partitions")
        for timer in ids:
            for port in ports[1:]:
                harness.wait_until(lambda port=port, timer=timer: '"state":"scheduled"' in shell(
                    f"curl -s http://127.0.0.1:{port}/v1/timers/{timer}"), 60, f"{timer} at {port}")
        folder = re.search(r"their logs are in (\S+)\.", text)[1]
        self.assertTrue(os.path.isdir(folder))
        self.stop()
        self.assertEqual(self.script.returncode, 0, self.printed())
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    if why := kafka_cluster.KafkaCluster.missing():
        print(f"cluster_script_test: skipped, {why}")
        sys.exit(77)
    unittest.main()
