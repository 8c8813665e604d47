#!/usr/bin/env python3
"""What a real daemon exports is read by parsers of others: OpenMetrics by that of prometheus_client, the text by
promtool; and both formats say the same of the same timers.

prometheus_client is installed from the package index into the build folder; without the index those tests are skipped.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness
import python_tools

VERSION = "0.21.1"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
UNSAMPLED = "5bf92f3577b34da6a3ce929d0e0e4736"

# Reads the page from standard input, prints a line for each exemplar: its series and its trace.
READER = """
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        if sample.exemplar:
            kind = sample.labels.get("stage") or sample.labels.get("kind") or ""
            print(family.name, kind, sample.exemplar.labels["trace_id"])
            assert sample.exemplar.value <= float(sample.labels["le"]) and sample.exemplar.timestamp
"""


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = tempfile.mkdtemp(prefix="tickwheel-metrics-")
        cls.addClassCleanup(shutil.rmtree, cls.data)
        cls.daemon = harness.Daemon(cls.data)
        cls.addClassCleanup(cls.daemon.close)
        harness.wait_until(cls.daemon.is_ready, 20, "ready")
        cls.receiver = harness.Receiver()
        cls.addClassCleanup(cls.receiver.close)

    def page(self, accept=None):
        status, headers, text = self.daemon.call("GET", "/metrics", None, {"Accept": accept} if accept else None)
        self.assertEqual(status, 200)
        return headers["Content-Type"], text

    def deliver(self, path, trace=None, sampled="01"):
        """Creates a timer for now, and waits until its first attempt is counted."""
        before = self.daemon.metric("tickwheel_attempts_total")
        headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-{sampled}"} if trace else None
        self.assertEqual(self.daemon.call("POST", "/v1/timers", {
            "after": "0s", "target": self.receiver.url(path), "retry": {"max_attempts": 1}}, headers)[0], 201)
        harness.wait_until(lambda: self.daemon.metric("tickwheel_attempts_total") > before, 20, "an attempt")

    # proves: metrics
    def test_the_client_chooses_the_format(self):
        for accept, wanted in ((None, TEXT), ("*/*", TEXT), ("text/plain", TEXT), ("application/json", TEXT),
                               ("application/openmetrics-text", OPENMETRICS),
                               ("application/openmetrics-text; version=1.0.0", OPENMETRICS),
                               ("application/openmetrics-text; version=0.0.1", TEXT),
                               ("application/openmetrics-text; version=1.0.0; q=0", TEXT),
                               ("text/plain, application/openmetrics-text;version=1.0.0;q=0.5", TEXT),
                               ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
                                "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPENMETRICS)):
            with self.subTest(accept=accept):
                kind, text = self.page(accept)
                self.assertEqual(kind, wanted)
                self.assertEqual(text.endswith("\n# EOF\n"), wanted == OPENMETRICS)

    # proves: metrics
    def test_a_parser_of_others_reads_openmetrics_and_its_traces(self):
        python = python_tools.program("prometheus_client", VERSION, "python")
        if not python:
            self.skipTest("prometheus_client cannot be installed: the package index is out of reach")
        self.deliver("/ok")
        self.deliver("/ok", UNSAMPLED, "00")
        read = subprocess.run([python, "-c", READER], input=self.page(OPENMETRICS)[1], text=True, capture_output=True)
        self.assertEqual((read.returncode, read.stdout), (0, ""), read.stderr)
        self.deliver("/ok", TRACE)
        wanted = {"tickwheel_lateness_seconds schedule", "tickwheel_lateness_seconds queue",
                  "tickwheel_lateness_seconds transfer", "tickwheel_delivery_lateness_seconds ",
                  "tickwheel_answer_seconds webhook", "tickwheel_acknowledge_seconds ",
                  "tickwheel_http_request_seconds "}

        def has_all():
            read = subprocess.run([python, "-c", READER], input=self.page(OPENMETRICS)[1], text=True, capture_output=True)
            self.assertEqual(read.returncode, 0, read.stderr)
            self.assertNotIn(UNSAMPLED, read.stdout)
            return wanted <= {line.rsplit(" ", 1)[0] for line in read.stdout.splitlines() if line.endswith(TRACE)}
        harness.wait_until(has_all, 20, "the trace in each histogram")
        self.assertNotIn(TRACE, self.page()[1])

    def test_promtool_finds_nothing_to_blame(self):
        promtool = shutil.which("promtool")
        if not promtool:
            self.skipTest("promtool is not installed: scripts/install-deps test")
        self.deliver("/ok")
        result = subprocess.run([promtool, "check", "metrics"], input=self.page()[1], text=True, capture_output=True)
        self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))

    def test_attempts_count_by_class_and_answers_take_time(self):
        def webhooks(kind):
            return self.daemon.metric('tickwheel_webhook_attempts_total{class="%s"}' % kind)
        for path, kind in (("/ok", "2xx"), ("/status/404", "4xx"), ("/status/503", "5xx")):
            before, answers = webhooks(kind), self.daemon.metric('tickwheel_answer_seconds_count{kind="webhook"}')
            self.deliver(path)
            harness.wait_until(lambda: (webhooks(kind), self.daemon.metric('tickwheel_answer_seconds_count{kind="webhook"}')) ==
                               (before + 1, answers + 1), 20, f"{path} is counted once")

    def test_what_waits_is_told_by_kind_queue_and_tenant(self):
        for _ in range(3):
            self.assertEqual(self.daemon.call("POST", "/v1/timers", {"after": "0s", "target": "queue:mail"})[0], 201)
        ready = 'tickwheel_queue_ready{tenant="",queue="mail"}'
        harness.wait_until(lambda: ready in self.page()[1] and self.daemon.metric(ready) == 3, 20, "three items")
        harness.wait_until(lambda: self.daemon.metric(ready.replace("ready", "oldest_seconds")) > 0, 20, "age")
        self.assertEqual(self.daemon.metric('tickwheel_timers_ready{kind="queue"}'), 3)
        self.assertEqual(self.daemon.metric('tickwheel_tenant_ready{tenant=""}'), 3)
        leased = self.daemon.call("POST", "/v1/queues/mail/lease", {"max": 3})
        self.assertEqual(leased[0], 200)
        harness.wait_until(lambda: self.daemon.metric(ready) == 0, 20, "no item")

    # proves: metric-queue-rows
    def test_many_queues_make_the_page_no_longer(self):
        """100,000 queues of one client: the page stays short, and what has no row is counted in one."""
        count = int(os.environ.get("TEST_QUEUES", "100000"))
        data = tempfile.mkdtemp(prefix="tickwheel-metrics-")
        self.addCleanup(shutil.rmtree, data)
        daemon = harness.Daemon(data)
        self.addCleanup(daemon.close)
        harness.wait_until(daemon.is_ready, 20, "ready")
        for start in range(0, count, 10000):
            body = "".join('{"after":"0s","target":"queue:q%d"}\n' % i for i in range(start, min(start + 10000, count)))
            status, _, answer = daemon.call("POST", "/v1/timers/batch", body.encode(),
                                            {"Content-Type": "application/x-ndjson"})
            self.assertEqual(status, 200, answer[:200])
        others = 'tickwheel_queue_ready{tenant="(others)",queue="(others)"}'
        harness.wait_until(lambda: daemon.metric(others) > 100, 60, "queues without a row")
        page = daemon.call("GET", "/metrics")[2]
        self.assertEqual(page.count("\ntickwheel_queue_ready{"), 65)
        self.assertLess(len(page), 100000)

    def test_the_process_and_the_tz_database_are_told(self):
        self.assertGreater(self.daemon.metric("process_cpu_seconds_total"), 0)
        self.assertGreater(self.daemon.metric("process_open_fds"), 3)
        self.assertGreater(self.daemon.metric("process_max_fds"), self.daemon.metric("process_open_fds"))
        self.assertRegex(self.page()[1], r'\ntickwheel_tzdata_info\{version="(\d{4}[a-z]+|unknown)"\} 1\n')


if __name__ == "__main__":
    unittest.main()
