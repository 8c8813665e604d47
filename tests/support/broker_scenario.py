"""Tests of every kind of broker, against the real server: the messages as documented, targets
refused at creation, an outage at the start, and 100,000 timers with the broker stopped and started in
the middle. The test of one kind is a subclass with its server."""

import collections
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import harness

NDJSON = {"Content-Type": "application/x-ndjson", "Prefer": "return=minimal"}
SKIPPED = 77


def timers_count():
    return int(os.environ.get("TEST_TIMERS", "100000"))


def main(test, server):
    """Runs the tests, or says why it cannot: a skip, or a failure where TEST_BROKERS asks for all of them."""
    version = harness.Program([harness.find("tickwheeld"), "--version"])
    version.process.wait()
    why = server.missing()
    if not why and f"{server.kind} (" not in version.output():
        why = f"tickwheeld was built without {server.kind}"
    version.close()
    if why:
        print(f"Skipped: {why}")
        sys.exit(1 if os.environ.get("TEST_BROKERS") == "all" else SKIPPED)
    unittest.main()


def quantile_ms(metrics, share):
    """Of the deliveries' lateness, from the text of /metrics: the bucket's upper bound."""
    buckets = [(float(le), float(count)) for le, count in re.findall(
        r'tickwheel_delivery_lateness_seconds_bucket\{le="([0-9.e+-]+)"\} (\S+)', metrics)]
    total = float(re.search(r"tickwheel_delivery_lateness_seconds_count (\S+)", metrics)[1])
    return next((le * 1000 for le, count in buckets if count >= total * share), float("inf"))


def busiest(samples):
    """The largest growth within a second."""
    best = 0
    for i, (at, count) in enumerate(samples):
        best = max(best, max(later - count for when, later in samples[i:] if when <= at + 1))
    return int(best)


class Scenario(unittest.TestCase):
    """Subclass it together with `server_class`."""

    server_class = None
    patience = "100ms"  # the time of an attempt, to a broker that has just started

    def setUp(self):
        self.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        self.addCleanup(shutil.rmtree, self.data)
        self.broker = self.server_class()
        self.addCleanup(self.broker.__exit__)

    def enterContext(self, context):
        """What unittest has by itself from Python 3.11 on."""
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def start(self, *flags):
        daemon = self.enterContext(harness.Daemon(
            self.data, "--broker-connections", f"main={self.broker.url()}", *flags))
        harness.wait_until(daemon.is_ready, 20, "ready")
        return daemon

    def create(self, daemon, **fields):
        fields.setdefault("target", self.broker.target())
        status, _, timer = daemon.call("POST", "/v1/timers", fields)
        self.assertEqual(status, 201, timer)
        return timer

    def wait_until_over(self, daemon, timer, state):
        answer = harness.wait_until(
            lambda: (a := daemon.call("GET", f"/v1/timers/{timer['id']}"))[0] == 410 and a, 60,
            f"{timer['id']} is over")
        self.assertEqual(answer[2]["timer"]["state"], state, answer[2])
        return answer[2]["timer"]

    # proves: target-broker, body-base64, broker-fields, broker_connect_timeout (at)
    def test_message(self):
        """Goal: the fields and the payload are those of docs/brokers.md."""
        self.broker.start()
        daemon = self.start()
        own = {"x-Team": "check out"}
        first = self.create(daemon, after="50ms", payload={"order": 42, "ü": "\u20ac"}, headers=own)
        second = self.create(daemon, after="50ms", body_base64="AAEC/w==", content_type="image/x-test")
        for timer in (first, second):
            self.wait_until_over(daemon, timer, "fired")
        received = {fields["webhook-id"]: (fields, payload, at)
                    for fields, payload, at in self.broker.received()}
        self.assertEqual(len(received), 2)
        for timer, kind, headers in ((first, "application/json", own), (second, "image/x-test", {})):
            due_ms = [int(key.rsplit("-", 1)[1]) for key in received
                      if harness.timer_id_of(key) == timer["id"]][0]
            fields, payload, at_ms = received[f"{timer['id']}-{due_ms}"]
            self.assertEqual(fields, {
                "content-type": kind, "webhook-id": f"{timer['id']}-{due_ms}",
                "tickwheel-due": timer["due"], "tickwheel-attempt": "1", "tickwheel-epoch": "1",
                **headers})
            if at_ms is not None:
                self.assertGreaterEqual(at_ms, due_ms)
            if timer is first:
                self.assertEqual(json.loads(payload), {"order": 42, "ü": "\u20ac"})

    def refused_targets(self):
        """Pairs of a target and a part of the reason, of this kind of broker."""
        return []

    # proves: target-broker
    def test_refused_at_creation(self):
        """Goal: a target that no message can go to is refused with 422, and the reason."""
        daemon = self.start()
        scheme = self.broker.target().split(":")[0]
        other = "nats" if scheme == "redis" else "redis"
        for target, reason in [
                (f"{scheme}://elsewhere/x/y", "no broker connection \"elsewhere\""),
                (f"{other}://main/x/y", ""), (f"{scheme}://main", "no place"),
                (f"{scheme}://main/x/a%zz", "hexadecimal"), (f"{scheme}://main/x/a b", "hexadecimal"),
                (f"{scheme}://main/x/y#z", "%23"), (f"{scheme}://main/x/y?q=1", "only parameter"),
                *self.refused_targets()]:
            status, _, problem = daemon.call("POST", "/v1/timers", {"after": 0, "target": target})
            self.assertEqual((status, problem["errors"][0]["pointer"]), (422, "#/target"), target)
            self.assertIn(reason, problem["errors"][0]["detail"], target)

    # proves: no-credentials, broker-down, broker_connect_timeout (beyond)
    def test_down_at_the_start(self):
        """Goal: without its broker a timer waits, says why, spends no attempt and can be cancelled; a stop
        does not wait for the broker; and the timer is delivered when the broker is there."""
        daemon = self.start()
        retry = {"timeout": self.patience, "max_attempts": 1}
        timer = self.create(daemon, after=0, retry=retry)
        unwanted = self.create(daemon, after=0, retry=retry)

        def is_put_off():
            shown = daemon.call("GET", f"/v1/timers/{timer['id']}")[2]
            return shown["state"] == "retrying" and "no connection" in shown.get("last_error", "") and shown
        shown = harness.wait_until(is_put_off, 30, "the timer is put off")
        self.assertEqual(shown["attempts"], 0)
        self.assertNotIn(str(self.broker.port) + "@", shown["last_error"])
        harness.wait_until(lambda: daemon.call("DELETE", f"/v1/timers/{unwanted['id']}")[0] == 200, 30,
                           "the other one can be cancelled")
        daemon.find_in_output("event=broker_unreachable broker=main")
        self.assertEqual(daemon.signal(signal.SIGTERM), 0, daemon.output()[-6000:])
        self.broker.start()
        daemon = self.start()
        self.wait_until_over(daemon, timer, "fired")
        daemon.find_in_output("event=broker_connected broker=main")
        received = self.broker.received()
        self.assertEqual([harness.timer_id_of(fields["webhook-id"]) for fields, _, _ in received],
                         [timer["id"]])

    def schedule(self, daemon, targets, first_ms, span_ms):
        """One timer for each target, due evenly over the span; returns the ids that were acknowledged."""
        acknowledged = []
        headers = dict(NDJSON)
        del headers["Prefer"]
        for start in range(0, len(targets), 20000):
            lines = [json.dumps({"at": first_ms + (start + i) * span_ms // len(targets), "target": target,
                                 "payload": {"n": start + i}, "retry": {"max_attempts": 100}})
                     for i, target in enumerate(targets[start:start + 20000])]
            status, _, body = daemon.call("POST", "/v1/timers/batch", "\n".join(lines) + "\n", headers)
            self.assertEqual(status, 200)
            acknowledged += [json.loads(line)["id"] for line in body.splitlines()]
        return acknowledged

    def check_tls(self, server, fired_target, *bad_urls):
        """Goal: messages go over TLS; a broker that cannot be trusted gets none, and the log says why."""
        server = self.enterContext(server)
        for url in bad_urls:
            with harness.Daemon(self.data, "--broker-connections", f"main={url}") as daemon:
                harness.wait_until(daemon.is_ready, 20, "ready")
                daemon.find_in_output(r"event=broker_unreachable broker=main kind=\w+ cause=.*"
                                      r"(?i:certificate|verif|hostname|ssl|tls)")
        daemon = self.enterContext(harness.Daemon(self.data, "--broker-connections", f"main={server.url()}"))
        harness.wait_until(daemon.is_ready, 20, "ready")
        timers = self.schedule(daemon, [fired_target] * 2000, int(time.time() * 1000), 1)
        harness.wait_until(lambda: daemon.metric("tickwheel_timers_fired_total") == 2000, 60, "all fired")
        self.assertEqual({harness.timer_id_of(fields["webhook-id"]) for fields, _, _ in server.received()},
                         set(timers))

    def stop_broker(self):
        self.broker.stop()

    # proves: at-least-once
    def test_many_with_the_broker_away_in_the_middle(self):
        """Goal: none of the acknowledged timers is lost while the broker stops and starts, and no other
        target is late because of it. Prints rate and lateness."""
        count, span_ms = timers_count(), 10000
        self.broker.start()
        receiver = self.enterContext(harness.Receiver())
        daemon = self.start()
        harness.wait_until(lambda: daemon.metric("tickwheel_ready") == 1, 20, "ready")
        first_ms = int(time.time() * 1000) + 3000 + count // 20
        hooks = self.schedule(daemon, [receiver.url()] * (count // 50), first_ms, span_ms)
        acknowledged = self.schedule(daemon, [self.broker.target()] * count, first_ms, span_ms)
        self.assertEqual(len(set(acknowledged)), count)
        harness.wait_until(lambda: time.time() * 1000 > first_ms + span_ms * 4 // 10, 120, "the middle")
        metrics = daemon.call("GET", "/metrics")[2]
        away_ms = int(time.time() * 1000)
        self.stop_broker()
        harness.wait_until(lambda: time.time() * 1000 > away_ms + 2000, 60, "an outage")
        self.broker.start()
        back_ms = int(time.time() * 1000)
        fired = []

        def have_fired():
            fired.append((time.time(), daemon.metric("tickwheel_timers_fired_total")))
            return fired[-1][1] == count + len(hooks)
        harness.wait_until(have_fired, 240, "every timer has fired")
        done_ms = int(time.time() * 1000)
        self.assertEqual(daemon.metric("tickwheel_timers_dead_total"), 0)
        received = self.broker.received()
        self.report(acknowledged, received, receiver, (away_ms, back_ms, done_ms))
        print(f"  as the daemon counts: started late before the stop p50 <= {quantile_ms(metrics, .5)} ms, "
              f"p99 <= {quantile_ms(metrics, .99)} ms; fired in the busiest second after it {busiest(fired)}")
        sys.stdout.flush()
        ids = [harness.timer_id_of(fields["webhook-id"]) for fields, _, _ in received]
        self.assertEqual(set(acknowledged) - set(ids), set(), "lost")
        self.assertEqual(set(ids) - set(acknowledged), set(), "never asked for")
        early = [fields for fields, _, at_ms in received
                 if at_ms is not None and at_ms < int(fields["webhook-id"].rsplit("-", 1)[1])]
        self.assertEqual(early, [])
        self.assertEqual({harness.timer_id_of(arrival.webhook_id) for arrival in receiver.arrivals()},
                         set(hooks))
        self.assertEqual(daemon.signal(signal.SIGTERM), 0, daemon.output()[-6000:])

    def report(self, acknowledged, received, receiver, times):
        away_ms, back_ms, done_ms = times
        ids = {fields["webhook-id"] for fields, _, _ in received}
        lost = set(acknowledged) - {harness.timer_id_of(i) for i in ids}
        hooks = [(arrival.at_us / 1000 - arrival.due_ms, arrival.due_ms) for arrival in receiver.arrivals()]
        away = [lateness for lateness, due in hooks if away_ms <= due <= back_ms]
        print(f"{type(self).__name__}: {len(acknowledged)} acknowledged, {len(ids)} received, "
              f"{len(received) - len(ids)} repeats, {len(lost)} lost")
        print(f"  away for {back_ms - away_ms} ms; all delivered {done_ms - back_ms} ms after it was back")
        late = [(int(fields["webhook-id"].rsplit("-", 1)[1]), at) for fields, _, at in received if at is not None]
        if late:
            before = [at - due for due, at in late if at < away_ms - 100]
            per_second = collections.Counter(at // 1000 for _, at in late)
            print(f"  by the broker's clock: busiest second {max(per_second.values())}; late before the stop "
                  f"p50 {harness.percentile(before, .5)} ms, p99 {harness.percentile(before, .99)} ms; "
                  f"at worst {max(at - due for due, at in late)} ms")
        print(f"  webhooks due meanwhile: {len(away)}, late p50 {harness.percentile(away, .5):.1f} ms, "
              f"p99 {harness.percentile(away, .99):.1f} ms")
