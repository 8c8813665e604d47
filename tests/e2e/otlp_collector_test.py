#!/usr/bin/env python3
"""The real collector of OpenTelemetry takes what the real daemon exports, and understands it.

It is built of its own modules (tests/support/collector/main.go), which takes a minute, and prints each span that it gets.
Skipped where there is no recent Go."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from otlp_test import CALLER, OFF, PARENT, TRACE
from targets_test import Target

VERSIONS = [f"go.opentelemetry.io/collector/{name}@{version}" for version, names in (
    ("v1.71.0", "component confmap confmap/provider/fileprovider exporter receiver"),
    ("v0.165.0", "exporter/debugexporter otelcol receiver/otlpreceiver service")) for name in names.split()]
SETTINGS = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:%d"}}}}
exporters: {debug: {verbosity: detailed}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
"""


def build():
    """The path of the collector, built once for each build folder; None if it cannot be."""
    folder = os.path.abspath(os.path.join(harness.BUILD, "otlp-collector"))
    path = os.path.join(folder, "collector")
    if os.path.exists(path):
        return path
    if not shutil.which("go"):
        return None
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(os.path.dirname(__file__), "..", "support", "collector"), folder)
    for command in (["mod", "init", "collector"], ["get", *VERSIONS], ["mod", "tidy"], ["build", "-o", "collector.new", "."]):
        if subprocess.run(["go", *command], cwd=folder).returncode != 0:
            return None
    os.rename(path + ".new", path)
    return path


def blocks(text):
    """Each span as the collector prints it: {"Name": ..., "Trace ID": ..., "-> http.route": "Str(...)", "links": [...]}."""
    spans = []
    for block in re.split(r"\nSpan #\d+\n", text)[1:]:
        head, _, links = block.partition("\nLinks:\n")
        spans.append({name.strip(): value.strip() for name, value in re.findall(r"^ +([^:\n]+?) *: (.*)$", head, re.M)} |
                     {"links": list(zip(re.findall(r"-> Trace ID: (\w+)", links), re.findall(r"-> ID: (\w+)", links)))})
    return spans


class TheCollector(unittest.TestCase):
    def test_it_understands(self):
        program = build()
        if not program:
            self.skipTest("no Go, or one that is too old, or no modules")
        with tempfile.TemporaryDirectory() as folder:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            settings = os.path.join(folder, "collector.yaml")
            with open(settings, "w", encoding="utf-8") as file:
                file.write(SETTINGS % port)
            collector = harness.Program([program, "--config", f"file:{settings}"])
            target = Target(500)
            self.addCleanup(target.server.server_close)
            self.addCleanup(target.server.shutdown)
            with collector:
                collector.find_in_output("Everything is ready")
                with harness.Daemon(os.path.join(folder, "data"), "--otlp-resource-attributes", "cloud.region=north",
                                    env={**OFF, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}) as daemon:
                    status, _, made = daemon.call("POST", "/v1/timers", {
                        "after": "100ms", "target": target.url("/x?token=hidden"), "key": "ключ", "retry": {"max_attempts": 1}},
                        {"traceparent": PARENT})
                    self.assertEqual(status, 201, made)
                    harness.wait_until(lambda: daemon.metric("tickwheel_spans_exported_total") == 3, 20, "exported")
                harness.wait_until(lambda: len(blocks(collector.output())) >= 3, 20, "printed")
                output = collector.output()
        if os.environ.get("TEST_SHOWS"):
            print(output)
        self.assertNotIn("hidden", output)
        self.assertIn("-> cloud.region: Str(north)", output)
        self.assertIn("-> service.name: Str(tickwheeld)", output)
        spans = {span["Name"].split()[0]: span for span in blocks(output)}
        created, wait, delivery = spans["POST"], spans["wait"], spans["deliver"]
        self.assertEqual((created["Trace ID"], created["Parent ID"], created["Kind"]), (TRACE, CALLER, "Server"))
        self.assertEqual((wait["Trace ID"], wait["Parent ID"], wait["Kind"]), (TRACE, created["ID"], "Internal"))
        self.assertEqual(wait["links"], [(delivery["Trace ID"], delivery["ID"])])
        self.assertEqual((delivery["Parent ID"], delivery["Kind"]), ("", "Client"))
        self.assertEqual(delivery["links"], [(TRACE, created["ID"])])
        self.assertEqual((delivery["Status code"], delivery["Status message"]), ("Error", "HTTP 500"))
        self.assertEqual(delivery["-> tickwheel.timer.id"], f"Str({made['id']})")
        self.assertEqual(delivery["-> tickwheel.timer.key"], "Str(ключ)")
        self.assertEqual(delivery["-> http.response.status_code"], "Int(500)")
        self.assertEqual(target.seen[0][1]["traceparent"], f"00-{delivery['Trace ID']}-{delivery['ID']}-01")


if __name__ == "__main__":
    unittest.main()
