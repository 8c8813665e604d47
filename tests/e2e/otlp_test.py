#!/usr/bin/env python3
"""The spans that the real daemon exports: which there are, to which trace they belong, what they say and what they must
not say; and that a collector that fails holds nothing up. The collector and the receivers are threads of this test; one
test reads what was exported with OpenTelemetry's own message types."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
import python_tools
from otlp_collector import Collector
from targets_test import Target

VERSION = "1.45.2"  # of opentelemetry-proto
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01"
EXPORTED = "tickwheel_spans_exported_total"
KEY = 'ключ ☕ "quoted" \\'
OFF = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}


def dropped(daemon, reason):
    return daemon.metric(f'tickwheel_spans_dropped_total{{reason="{reason}"}}')


class Spans(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.collector, self.target, self.daemon = Collector(), Target(), None

    def tearDown(self):
        if self.daemon:
            self.daemon.close()
        self.collector.close()
        self.target.server.shutdown()
        self.target.server.server_close()
        self.folder.cleanup()

    def start(self, *flags, env=None, endpoint=True):
        own = ("--otlp-endpoint", self.collector.url()) if endpoint else ()
        self.daemon = harness.Daemon(self.folder.name, *own, *flags, env={**OFF, **(env or {})})
        return self.daemon

    def create(self, trace=PARENT, **timer):
        timer = {"after": "0s", "target": self.target.url(), **timer}
        timer = {name: value for name, value in timer.items() if value is not None}
        status, _, made = self.daemon.call("POST", "/v1/timers", timer, {"traceparent": trace} if trace else {})
        self.assertEqual(status, 201, made)
        return made

    def exported(self, count):
        """The spans, once there are as many."""
        harness.wait_until(lambda: len(self.collector.spans()) >= count, 10, f"{count} spans")
        spans = self.collector.spans()
        self.assertEqual(len(spans), count, [span["name"] for span in spans])
        return {span["name"].split(" ")[0]: span for span in spans}

    # proves: otlp-spans, otlp-traces
    def test_traces(self):
        """The creation is a child of the caller's span, the wait one of the creation; the delivery is a trace of its own,
        linked to the creation, and its ids are those that the receiver gets."""
        self.start()
        made = self.create(after="200ms", key="order-1", target=self.target.url("/hook?token=secret&b=%20"))
        spans = self.exported(3)
        created, wait, delivery = spans["POST"], spans["wait"], spans["deliver"]
        self.assertEqual((created["traceId"], created["parentSpanId"], created["kind"]), (TRACE, CALLER, 2))
        self.assertEqual((wait["traceId"], wait["parentSpanId"], wait["kind"]), (TRACE, created["spanId"], 1))
        self.assertNotEqual(delivery["traceId"], TRACE)
        self.assertNotIn("parentSpanId", delivery)
        self.assertEqual(delivery["links"], [{"traceId": TRACE, "spanId": created["spanId"]}])
        self.assertEqual(wait["links"], [{"traceId": delivery["traceId"], "spanId": delivery["spanId"]}])
        headers = self.target.seen[0][1]
        self.assertEqual(headers["traceparent"], f"00-{delivery['traceId']}-{delivery['spanId']}-01")
        self.assertEqual(headers["tickwheel-linked-traceparent"], f"00-{TRACE}-{created['spanId']}-01")
        self.assertEqual(int(wait["endTimeUnixNano"]) - int(wait["startTimeUnixNano"]), 200_000_000)
        self.assertLessEqual(int(wait["endTimeUnixNano"]), int(delivery["startTimeUnixNano"]))
        attributes = delivery["attributes"]
        self.assertEqual(delivery["kind"], 3)
        self.assertEqual(delivery["name"], "deliver 127.0.0.1")
        self.assertNotIn("status", delivery)
        self.assertLess(attributes.pop("tickwheel.lateness_ms"), 60_000)
        self.assertEqual(attributes, {
            "http.request.method": "POST", "http.response.status_code": 200,
            "url.full": self.target.url("/hook?token=REDACTED&b=REDACTED"),
            "server.address": "127.0.0.1", "server.port": self.target.port, "messaging.system": "tickwheel",
            "messaging.operation.name": "deliver", "messaging.operation.type": "send",
            "messaging.message.id": headers["webhook-id"], "tickwheel.timer.id": made["id"],
            "tickwheel.timer.key": "order-1", "tickwheel.outcome": "done", "tickwheel.attempt": 1})
        self.assertEqual(created["attributes"], {
            "http.request.method": "POST", "http.route": "/v1/timers", "http.response.status_code": 201,
            "messaging.system": "tickwheel", "messaging.operation.name": "create",
            "messaging.operation.type": "create", "tickwheel.timer.id": made["id"], "tickwheel.timer.key": "order-1"})

    def test_explain(self):
        """Explain shows the creation as the trace of the timer, and nothing for one that is not sampled."""
        self.start("--otlp-sampler", "parentbased_always_off")
        made, other = self.create(after="1h"), self.create(None, after="1h")
        harness.wait_until(lambda: self.collector.spans(), 10, "the creation")
        (created,) = self.collector.spans()
        explained = [self.daemon.call("GET", f"/v1/timers/{timer['id']}/explain")[2] for timer in (made, other)]
        self.assertEqual(explained[0]["traceparent"], f"00-{TRACE}-{created['spanId']}-01")
        self.assertNotIn("traceparent", explained[1])

    # proves: otlp-spans
    def test_attempts(self):
        """Each attempt has its span, which says how it failed; none waits twice."""
        self.start("--target-breaker-failures", "100")
        self.target.status = 500
        self.create(retry={"max_attempts": 2, "base": "1ms", "cap": "1ms"})
        harness.wait_until(lambda: len(self.collector.spans()) >= 4, 10, "4 spans")
        first, second = sorted(self.collector.named("deliver"), key=lambda span: span["attributes"]["tickwheel.attempt"])
        for span in first, second:
            self.assertEqual(span["status"], {"code": 2, "message": "HTTP 500"})
            self.assertEqual(span["attributes"]["error.type"], "500")
            self.assertEqual(span["attributes"]["http.response.status_code"], 500)
        self.assertNotEqual(first["traceId"], second["traceId"])
        self.assertEqual(first["links"], second["links"])
        self.assertNotIn("http.request.resend_count", first["attributes"])
        self.assertEqual(second["attributes"]["http.request.resend_count"], 1)
        self.assertEqual(len(self.collector.named("wait")), 1)
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self.create(retry={"max_attempts": 1}, target="http://127.0.0.1:%d/" % closed.getsockname()[1])
        last = harness.wait_until(lambda: self.collector.named("deliver")[2:], 10, "a span")[0]
        self.assertEqual(last["attributes"]["error.type"], "connection")
        self.assertNotIn("http.response.status_code", last["attributes"])

    # proves: otlp-sampling
    def test_unsampled(self):
        """The flag of the caller is obeyed: nothing of its timer is exported, and receivers see that."""
        self.start()
        self.create(f"00-{TRACE}-{CALLER}-00")
        self.create(f"00-{'1' * 32}-{CALLER}-01")
        self.exported(3)
        self.assertNotIn(TRACE, json.dumps(self.collector.spans()))
        flags = {headers["traceparent"][-2:] for _, headers, _ in self.target.seen}
        self.assertEqual(flags, {"00", "01"})

    # proves: otlp-sampling
    def test_samplers(self):
        """Without a caller's trace the sampler decides, once for a timer: with 0 nothing is exported, with 0.5 about
        half, and what was not sampled stays so at its delivery, after a restart too."""
        self.start("--otlp-sampler", "parentbased_traceidratio", "--otlp-sample-ratio", "0.5")
        lines = b"".join(b'{"after":"1s","target":"%s"}\n' % self.target.url().encode() for _ in range(3))
        for _ in range(200):
            self.create(None)
        harness.wait_until(lambda: len(self.target.seen) == 200, 60, "deliveries")
        count = [headers["traceparent"][-2:] for _, headers, _ in self.target.seen].count("01")
        self.assertTrue(60 <= count <= 140, count)
        harness.wait_until(lambda: len(self.collector.spans()) >= 3 * count, 30, "the creations, waits and deliveries")
        self.assertEqual(len(self.collector.spans()), 3 * count)
        timers = {name: {span["attributes"]["tickwheel.timer.id"] for span in self.collector.named(name)}
                  for name in ("POST", "wait", "deliver")}
        self.assertEqual(timers["POST"], timers["deliver"])
        self.assertEqual(timers["POST"], timers["wait"])
        self.daemon.close()
        before = len(self.collector.spans())
        self.start("--otlp-sampler", "always_off")
        self.create()
        self.daemon.call("POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})
        harness.wait_until(lambda: len(self.target.seen) == 204, 20, "deliveries")
        self.daemon.close()
        self.assertEqual(len(self.collector.spans()), before)
        self.assertTrue(all(headers["traceparent"][-2:] == "00" for _, headers, _ in self.target.seen[200:]))

    # proves: otlp-spans
    def test_batch(self):
        """A batch is one creation, to which the deliveries of its timers are linked."""
        self.start()
        lines = b"".join(b'{"after":"0s","target":"%s"}\n' % self.target.url().encode() for _ in range(3))
        answer = self.daemon.call("POST", "/v1/timers/batch", lines,
                                  {"Content-Type": "application/x-ndjson", "traceparent": PARENT})
        self.assertEqual(answer[0], 200)
        self.assertEqual(len(self.exported(7)), 3)
        (created,) = self.collector.named("POST")
        self.assertEqual(created["attributes"]["messaging.batch.message_count"], 3)
        self.assertEqual(created["name"], "POST /v1/timers/batch")
        for span in self.collector.named("deliver"):
            self.assertEqual(span["links"], [{"traceId": TRACE, "spanId": created["spanId"]}])

    # proves: otlp-spans
    def test_repeating(self):
        """The firings of a timer that repeats have no wait, and each is linked to the creation."""
        self.start()
        self.create(every="1s", after=None)
        harness.wait_until(lambda: len(self.collector.named("deliver")) >= 2, 20, "two firings")
        self.assertEqual(self.collector.named("wait"), [])
        (created,) = self.collector.named("POST")
        self.assertEqual({link["spanId"] for span in self.collector.named("deliver") for link in span["links"]},
                         {created["spanId"]})

    # proves: otlp-traces
    def test_queue(self):
        """A lease of a worker is a delivery, from the lease to the acknowledgement."""
        self.start()
        self.create(target="queue:work")
        leased = self.daemon.call("POST", "/v1/queues/work/lease", {"max": 1, "wait": "5s", "lease": "10s"})
        self.assertEqual(leased[0], 200, leased[2])
        receipt = leased[2]["items"][0]["receipt"]
        self.assertEqual(self.daemon.call("POST", "/v1/queues/work/ack", {"receipts": [receipt]})[0], 200)
        delivery = self.exported(3)["deliver"]
        self.assertEqual(leased[2]["items"][0]["traceparent"], f"00-{delivery['traceId']}-{delivery['spanId']}-01")
        self.assertEqual((delivery["name"], delivery["kind"]), ("deliver work", 4))
        self.assertEqual(delivery["attributes"]["messaging.destination.name"], "work")

    def test_restart(self):
        """A timer keeps its trace over kill -9."""
        self.start()
        self.create(after="3s")
        created = harness.wait_until(lambda: self.collector.named("POST"), 10, "the creation")[0]
        self.daemon.signal(9)
        self.daemon.close()
        self.start()
        delivery = harness.wait_until(lambda: self.collector.named("deliver"), 20, "the delivery")[0]
        self.assertEqual(delivery["links"], [{"traceId": TRACE, "spanId": created["spanId"]}])

    def test_off(self):
        """Without an endpoint there is no thread, the timer keeps the caller's trace, and receivers get traces."""
        self.start(endpoint=False)
        made = self.create(after="1h")
        self.create()
        harness.wait_until(lambda: self.target.seen, 10, "a delivery")
        self.assertEqual(self.daemon.call("GET", f"/v1/timers/{made['id']}/explain")[2]["traceparent"], PARENT)
        self.assertEqual(self.target.seen[0][1]["tickwheel-linked-traceparent"], PARENT)
        tasks = f"/proc/{self.daemon.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm", encoding="utf-8") as file:
                self.assertNotEqual(file.read().strip(), "tw-spans")
        self.assertEqual(self.collector.requests, [])

    # ---- settings ----

    # proves: otlp-spans
    def test_environment(self):
        """The standard variables set the endpoint, headers, the service and its attributes; settings of ours win."""
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url("/base/"),
               "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b,x-other = c", "OTEL_EXPORTER_OTLP_TIMEOUT": "5000",
               "OTEL_RESOURCE_ATTRIBUTES": "service.name=hidden,deployment.environment.name=te%2Cst",
               "OTEL_SERVICE_NAME": "shop", "OTEL_TRACES_SAMPLER": "jaeger_remote",
               "OTEL_TRACES_SAMPLER_ARG": "endpoint=http://127.0.0.1"}
        self.start(env=env, endpoint=False)
        self.create()
        self.exported(3)
        path, headers, _, _ = self.collector.requests[0]
        self.assertEqual(path, "/base/v1/traces")
        self.assertEqual((headers["x-key"], headers["x-other"]), ("a b", "c"))
        self.assertEqual(headers["Content-Type"], "application/json")
        resource = self.collector.resources()[0]
        self.assertRegex(resource.pop("service.instance.id"), r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-")
        version = resource.pop("service.version")
        self.assertEqual(resource, {"service.name": "shop", "deployment.environment.name": "te,st"})
        self.assertIn(version, self.daemon.call("GET", "/v1/version")[1].get("Server", version))
        self.daemon.close()
        for env, flags, path in (
                ({**env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": self.collector.url("/t")}, (), "/t"),
                (env, ("--otlp-endpoint", self.collector.url("/ours")), "/ours")):
            self.collector.requests.clear()
            self.start(*flags, env=env, endpoint=False)
            self.create()
            harness.wait_until(lambda: self.collector.requests, 10, "a request")
            self.assertEqual(self.collector.requests[0][0], path)
            self.daemon.close()
        for name, value in (("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")):
            self.collector.requests.clear()
            self.start(env={**env, name: value}, endpoint=False)
            self.create()
            self.daemon.signal(15)
            self.daemon.close()
            self.assertEqual(self.collector.requests, [], name)

    # proves: otlp-spans
    def test_wrong_settings(self):
        """A setting that is wrong is named at the start."""
        for flags, words in ((("--otlp-endpoint", "collector:4317"), "otlp_endpoint"),
                             (("--otlp-endpoint", "ftp://127.0.0.1/"), "otlp_endpoint"),
                             (("--otlp-headers", "no-value"), "otlp_headers"),
                             (("--otlp-headers", "a=b%0d%0ax:y"), "otlp_headers"),
                             (("--otlp-resource-attributes", "=x"), "otlp_resource_attributes"),
                             (("--otlp-sampler", "parentbased_"), "otlp_sampler"),
                             (("--otlp-sample-ratio", "1.5"), "otlp_sample_ratio"),
                             (("--otlp-sample-ratio", "nan"), "otlp_sample_ratio")):
            own = () if "--otlp-endpoint" in flags else ("--otlp-endpoint", self.collector.url())
            ended = subprocess.run([harness.find("tickwheeld"), "--data-folder", self.folder.name, "--listen-port", "0",
                                    *own, *flags], env=OFF, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(ended.returncode, 0, flags)
            self.assertIn(words, ended.stderr)

    # proves: otlp-no-secrets
    def test_headers_are_secret(self):
        """The headers are read from a file as well, and are not shown."""
        with open(os.path.join(self.folder.name, "headers"), "w", encoding="utf-8") as file:
            file.write("authorization=Bearer%20s3cret\n")
        data = os.path.join(self.folder.name, "data")
        flags = ("--otlp-headers-file", file.name, "--otlp-endpoint", self.collector.url())
        self.daemon = harness.Daemon(data, *flags, env=OFF)
        self.create()
        harness.wait_until(lambda: self.collector.requests, 10, "a request")
        self.assertEqual(self.collector.requests[0][1]["authorization"], "Bearer s3cret")
        printed = subprocess.run([harness.find("tickwheeld"), *flags, "--print-config"], env=OFF, capture_output=True,
                                 text=True, check=True).stdout
        self.assertNotIn("s3cret", printed + self.daemon.output())

    # ---- a collector that fails ----

    # proves: otlp-never-waits
    def test_repeated(self):
        """An answer 503 is repeated after its Retry-After, and nothing is lost."""
        self.collector.answers = [(503, {"Retry-After": "2"}, b""), (429, {}, b"")]
        self.start()
        self.create()
        begun = time.monotonic()
        self.exported(3)
        self.assertGreaterEqual(time.monotonic() - begun, 2.0)
        self.assertEqual([status for _, _, _, status in self.collector.requests[:3]], [503, 429, 200])
        harness.wait_until(lambda: self.daemon.metric(EXPORTED) == 3, 20, "all are exported")
        self.assertEqual(sum(dropped(self.daemon, reason) for reason in ("queue", "refused", "unreachable")), 0)

    # proves: otlp_timeout (at), otlp_timeout (beyond)
    def test_timeout(self):
        """A request without an answer ends after the time limit, and is repeated; one that is answered before is taken."""
        self.collector.open.clear()
        self.start("--otlp-timeout", "300ms")
        self.create()
        harness.wait_until(lambda: len(self.collector.requests) >= 2, 10, "a repetition")
        self.assertEqual(self.daemon.metric(EXPORTED), 0)
        self.collector.open.set()
        harness.wait_until(lambda: self.daemon.metric(EXPORTED) == 3, 10, "taken")

    # proves: otlp-never-waits
    def test_refused(self):
        """Spans that the collector refuses, all or some of a request, are counted and told, not repeated."""
        answers = [(400, {}, b"bad"), (200, {}, b'{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}')]
        self.collector.answers = answers
        self.start()
        self.create()
        harness.wait_until(lambda: dropped(self.daemon, "refused") >= 3, 10, "refused")
        self.daemon.find_in_output("event=spans_dropped count=3 cause=\"the collector answered 400\"")
        self.create()
        harness.wait_until(lambda: dropped(self.daemon, "refused") == 5, 10, "rejected")
        self.assertEqual(self.daemon.metric(EXPORTED), 1)
        for answer in b"", b"[", b'{"partialSuccess":[]}', b'{"partialSuccess":{"rejectedSpans":-1}}', b"{" * 100000:
            self.collector.answers.append((200, {}, answer))
            before = len(self.collector.requests)
            self.create()
            harness.wait_until(lambda: len(self.collector.requests) > before, 10, "a request")
        harness.wait_until(lambda: self.daemon.metric(EXPORTED) == 16, 10, "taken")

    # proves: otlp-never-waits
    def test_silent_collector(self):
        """A collector that takes requests and never answers holds no timer up; what does not fit into the queue is
        dropped and counted; and a stop waits two seconds for it."""
        self.collector.open.clear()
        self.start("--otlp-timeout", "60s")
        line = b'{"after":"0s","target":"queue:q","key":"%s"}\n'
        lines = b"".join(line % (b"k" * 200 + b"%d" % number) for number in range(20000))
        self.daemon.call("POST", "/v1/timers/batch", lines, {"Content-Type": "application/x-ndjson"})
        receipts = True
        while receipts:
            leased = self.daemon.call("POST", "/v1/queues/q/lease", {"max": 1000, "wait": "0s", "lease": "60s"})[2]
            receipts = [item["receipt"] for item in leased["items"]]
            if receipts:
                self.daemon.call("POST", "/v1/queues/q/ack", {"receipts": receipts})
        harness.wait_until(lambda: dropped(self.daemon, "queue") > 0, 10, "drops")
        self.create()
        harness.wait_until(lambda: self.target.seen, 10, "a delivery")
        begun = time.monotonic()
        self.daemon.signal(15)
        self.assertLess(time.monotonic() - begun, 10)

    def test_nobody_listens(self):
        """Without a collector timers fire, and a stop does not wait for it."""
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            self.start("--otlp-endpoint", f"http://127.0.0.1:{closed.getsockname()[1]}/v1/traces", endpoint=False)
        self.create()
        harness.wait_until(lambda: self.target.seen, 10, "a delivery")
        self.daemon.signal(15)
        self.assertIn("event=stopped", self.daemon.output())

    # proves: otlp-never-waits
    def test_stop(self):
        """A stop exports what waits."""
        self.start()
        self.create()
        harness.wait_until(lambda: self.target.seen, 10, "a delivery")
        self.daemon.signal(15)
        self.assertEqual(len(self.collector.spans()), 3)

    def test_own_message_types(self):
        """OpenTelemetry's own message types read every request, and find what was meant."""
        python = python_tools.program("opentelemetry-proto", VERSION, "python")
        if not python:
            self.skipTest("opentelemetry-proto is not to be had")
        self.start()
        self.create(key=KEY, after="10ms")
        self.target.status = 500
        self.create(None, retry={"max_attempts": 1})
        harness.wait_until(lambda: len(self.collector.spans()) >= 6, 10, "6 spans")
        lines = b"".join(body + b"\n" for _, _, body, _ in self.collector.requests)
        helper = os.path.join(os.path.dirname(__file__), "..", "support", "otlp_parse.py")
        read = subprocess.run([python, helper], input=lines, capture_output=True, check=True).stdout
        spans = {(span["name"].split(" ")[0], span["attributes"].get("tickwheel.timer.key")): span
                 for line in read.splitlines() for span in json.loads(line)["spans"]}
        self.assertEqual(len(spans), 6)
        created, wait = spans["POST", KEY], spans["wait", KEY]
        self.assertEqual((created["trace"], created["parent"], created["flags"] & 1), (TRACE, CALLER, 1))
        self.assertEqual(wait["parent"], created["id"])
        self.assertEqual(wait["end"] - wait["start"], 10_000_000)
        failed = spans["deliver", None]
        self.assertEqual((failed["status"], failed["message"]), (2, "HTTP 500"))
        self.assertEqual(failed["links"], [[spans["POST", None]["trace"], spans["POST", None]["id"]]])


if __name__ == "__main__":
    unittest.main()
