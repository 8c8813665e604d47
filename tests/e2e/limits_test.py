#!/usr/bin/env python3
"""Goal: at each of its limits the real daemon takes what it is asked, and one beyond it refuses with the problem that
the contract names, and nothing has changed. Method: for each field, and each call that has it, the largest and the
smallest value that the daemon's own document allows, and one more or less; for each setting a daemon that was started
with a small one. docs/contract.md has the limits."""

import base64
import http.client
import http.server
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import daemon_case
import harness

NDJSON = {"Content-Type": "application/x-ndjson"}
FAR_MS = 4102444800000  # so that nothing fires while it is looked at: the year 2100
SEED = int(os.environ.get("TEST_SEED", random.randrange(2**32)))


def text(size, first="x"):
    return first + "y" * (size - len(first))


class Case(daemon_case.DaemonCase):
    def setUp(self):
        super().setUp()
        self.document = self.daemon.call("GET", "/openapi.strict.json")[2]

    def schema(self, path):
        """What the document says under a name such as "TimerCreate.retry.cap"."""
        name, *fields = path.split(".")
        schema = self.document["components"]["schemas"][name]
        for field in fields:
            while "$ref" in schema:
                schema = self.document["components"]["schemas"][schema["$ref"].split("/")[-1]]
            schema = schema["properties"][field]
        while "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].split("/")[-1]]
        return schema

    def limit(self, path, word):
        """The number that the document gives, wherever it stands in the field's description."""
        schema = self.schema(path)
        found = [part[word] for part in [schema, *schema.get("anyOf", [])] if word in part]
        self.assertEqual(len(found), 1, (path, word))
        return found[0]

    def problem(self, status, slug, method, path, body=None, headers=None):
        fields, problem = self.call(status, method, path, body, headers)
        self.assertEqual(fields["Content-Type"], "application/problem+json")
        self.assertEqual(problem["type"], "/problems/" + slug)
        return fields, problem

    def metric(self, name):
        return self.daemon.metric(name)

    def timers(self):
        """All live timers, by id, as they are shown."""
        found, where = {}, "/v1/timers?limit=1000"
        while where:
            page = self.call(200, "GET", where)[1]
            found.update((timer["id"], timer) for timer in page["timers"])
            where = page["next"] and f"/v1/timers?limit=1000&cursor={page['next']}"
        return found


class FieldTest(Case):
    """Each field of a timer, on each call that sets it."""

    def setUp(self):
        super().setUp()
        self.timer = self.call(201, "PUT", "/v1/keys/patched/timer",
                               {"after": "1h", "target": self.receiver.url(), "payload": "as it was"})[1]

    def sets(self, fields):
        """(method, path, body) of each call that sets these fields."""
        whole = {"target": self.receiver.url(), **fields}
        if not {"after", "at", "every", "cron"} & set(fields):
            whole["after"] = "1h"
        yield "POST", "/v1/timers", whole
        if "key" not in fields:
            yield "PUT", "/v1/keys/put/timer", whole
            if "spread" not in fields:
                yield "PATCH", "/v1/keys/patched/timer", fields
                yield "PATCH", f"/v1/timers/{self.timer['id']}", fields

    def taken(self, **fields):
        for method, path, body in self.sets(fields):
            if method == "PATCH":  # its objects would merge with those of the patch before
                self.call(200, method, path, {"labels": None, "headers": None, "after": "1h"})
            status, _, timer = self.daemon.call(method, path, body)
            self.assertIn(status, (200, 201), (method, path, timer))
            shown = self.call(200, "GET", f"/v1/timers/{timer['id']}")[1]
            for name in set(fields) & {"key", "watch", "labels", "headers", "content_type", "target", "payload"}:
                self.assertEqual(shown[name], fields[name], (method, path))
            if method == "POST":
                self.call(200, "DELETE", f"/v1/timers/{timer['id']}")
        answer = self.call(200, "POST", "/v1/timers/batch", json.dumps(body_of_line(fields, self.receiver)), NDJSON)[1]
        timer = json.loads(answer)
        self.assertIn("id", timer)
        self.call(200, "DELETE", f"/v1/timers/{timer['id']}")

    def refused_at(self, pointer, status=422, **fields):
        before = self.timers()
        slug = {413: "too-large", 422: "invalid"}[status]
        for method, path, body in self.sets(fields):
            problem = self.problem(status, slug, method, path, body)[1]
            self.assertTrue(problem["errors"][0]["pointer"].startswith(pointer), (method, path, problem))
        answer = self.call(200, "POST", "/v1/timers/batch", json.dumps(body_of_line(fields, self.receiver)), NDJSON)[1]
        line = json.loads(answer)
        self.assertEqual((line["status"], line["type"]), (status, "/problems/" + slug))
        self.assertTrue(line["errors"][0]["pointer"].startswith(pointer), line)
        self.assertEqual(self.timers(), before)

    # proves: key-bytes, watch-count
    def test_names(self):
        size = self.limit("TimerCreate.key", "maxLength")
        self.taken(key=text(size))
        self.refused_at("#/key", key=text(size + 1))
        self.taken(key=text(1))
        self.refused_at("#/key", key="")
        count = self.limit("TimerCreate.watch", "maxItems")
        self.taken(watch=[text(size, str(n)) for n in range(count)])
        self.refused_at("#/watch", watch=[str(n) for n in range(count + 1)])
        self.refused_at("#/watch/1", watch=["a", text(size + 1)])

    # proves: key-bytes
    def test_names_in_a_path(self):
        """However they are encoded: a name of the largest size is found, a larger one is nobody's."""
        size = self.limit("TimerCreate.key", "maxLength")
        for key in ("k" * size, "ü" * (size // 2)):
            path = "/v1/keys/" + "".join(f"%{byte:02X}" for byte in key.encode()) + "/timer"
            timer = self.call(201, "PUT", path, {"after": "1h", "target": self.receiver.url(), "watch": [key]})[1]
            self.assertEqual(timer["key"], key)
            self.assertEqual(self.call(200, "GET", path)[1], timer)
            self.call(200, "PATCH", path, {"after": "2h"})
            self.call(200, "POST", path.replace("/timer", "/touch"), {"after": "3h"})
            event = path.replace("/keys/", "/watch/").replace("/timer", "/complete")
            self.assertEqual(self.call(200, "POST", event)[1]["cancelled"], 1)
        longer = "/v1/keys/" + "k" * (size + 1)
        for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"after": 1}),
                             ("PUT", {"after": 1, "target": self.receiver.url()})):
            self.problem(404, "not-found", method, longer + "/timer", body)
        self.problem(404, "not-found", "POST", longer + "/touch", {"after": 1})
        self.problem(404, "not-found", "POST", "/v1/watch/" + "k" * (size + 1) + "/complete")

    # proves: idempotency-bytes
    def test_an_idempotency_key(self):
        body = {"after": "1h", "target": self.receiver.url()}
        for name, method, path in (("j" * 256, "POST", "/v1/timers"), ("k" * 256, "PUT", "/v1/keys/idem/timer")):
            one = self.call(201, method, path, body, {"Idempotency-Key": name})[1]
            self.assertEqual(self.call(201, method, path, body, {"Idempotency-Key": name})[1], one)
            self.problem(400, "bad-request", method, path, body, {"Idempotency-Key": "k" * 257})

    # proves: labels_max, label-bytes
    def test_labels(self):
        count = self.limit("TimerCreate.labels", "maxProperties")
        size = self.schema("TimerCreate.labels")["propertyNames"]["maxLength"]
        self.assertEqual(self.schema("TimerCreate.labels")["additionalProperties"]["maxLength"], size)
        self.taken(labels={str(n): "" for n in range(count)})
        self.refused_at("#/labels", labels={str(n): "" for n in range(count + 1)})
        self.taken(labels={text(size): text(size)})
        self.refused_at("#/labels", labels={text(size + 1): ""})
        self.refused_at("#/labels/a", labels={"a": text(size + 1)})

    # proves: header-count, headers_bytes_max
    def test_headers(self):
        count = self.limit("TimerCreate.headers", "maxProperties")
        self.taken(headers={f"x-{n}": "v" for n in range(count)})
        self.refused_at("#/headers", headers={f"x-{n}": "v" for n in range(count + 1)})
        room = 16384 - len("x: \n")  # headers_bytes_max, as they are stored
        self.taken(headers={"x": text(room)})
        self.refused_at("#/headers", headers={"x": text(room + 1)})

    # proves: content-type-bytes
    def test_content_type(self):
        size = self.limit("TimerCreate.content_type", "maxLength")
        self.taken(body_base64="", content_type=text(size, "a/b"))
        self.refused_at("#/content_type", body_base64="", content_type=text(size + 1, "a/b"))

    # proves: target_bytes_max, host-label-bytes, queue-name-length
    def test_target(self):
        size = self.limit("TimerCreate.target", "maxLength")
        self.taken(target=text(size, self.receiver.url("/")))
        self.refused_at("#/target", target=text(size + 1, self.receiver.url("/")))
        for label, name in ((63, "a" * 63), (64, "a" * 64)):
            host = ".".join([name] * 3)
            (self.taken if label == 63 else lambda **fields: self.refused_at("#/target", **fields))(
                target=f"http://{host}.example/")
        self.taken(target="queue:" + text(64) + "?priority=9")
        self.refused_at("#/target", target="queue:" + text(65))
        self.refused_at("#/target", target="queue:a?priority=10")

    # proves: payload_bytes_max, payload-base64
    def test_payload(self):
        size = 1 << 20  # payload_bytes_max
        self.taken(payload=text(size - 2))
        self.refused_at("#/payload", 413, payload=text(size - 1))
        raw = base64.b64encode(bytes(size)).decode()
        self.assertEqual(len(raw), self.limit("TimerCreate.body_base64", "maxLength"))
        self.taken(body_base64=raw, content_type="a/b")
        more = base64.b64encode(bytes(size + 1)).decode()
        self.refused_at("#/body_base64", 413, body_base64=more, content_type="a/b")

    # proves: json-depth
    def test_depth(self):
        for depth in (64, 65):
            payload = "[" * (depth - 1) + "]" * (depth - 1)  # in the object that is the timer
            body = f'{{"after":"1h","target":"{self.receiver.url()}","payload":{payload}}}'
            if depth == 64:
                self.call(201, "POST", "/v1/timers", body)
            else:
                self.problem(400, "not-json", "POST", "/v1/timers", body)

    # proves: every-ms, drop-after-ms, spread-ms, count-max, attempts, backoff-ms, timeout-ms, give-up-ms
    def test_durations_and_numbers(self):
        """As numbers, and as texts of milliseconds."""
        for where, others in (("retry.max_attempts", {}), ("retry.base", {"cap": "30d"}), ("retry.cap", {"base": 1}),
                              ("retry.timeout", {}), ("retry.give_up_after", {}), ("every", {"at": FAR_MS}), ("late.drop_after", {}),
                              ("spread.window", {}), ("count", {"every": "1s", "at": FAR_MS})):
            least, most = (self.limit("TimerCreate." + where, word) for word in ("minimum", "maximum"))
            spellings = (str,) if where in ("retry.max_attempts", "count") else (str, lambda ms: f'"{ms}ms"')
            for spell in spellings:
                for value in (least, most, least - 1, most + 1):
                    field, *inner = where.split(".")
                    value = json.loads(spell(value)) if value >= 0 else value
                    fields = {field: {inner[0]: value, **others}} if inner else {field: value, **others}
                    if field == "spread":
                        fields["key"] = "spread"
                    number = int(str(value).replace("ms", ""))
                    if least <= number <= most:
                        self.taken(**fields)
                    else:
                        self.refused_at("#/" + where.replace(".", "/"), **fields)

    # proves: instant
    def test_instants(self):
        most = self.limit("TimerCreate.at", "maximum")
        for field, others in (("at", {}), ("until", {"every": "1s", "at": FAR_MS})):
            self.assertEqual(self.limit("TimerCreate." + field, "maximum"), most)
            for value in (most, "9999-12-31T23:59:59.999Z"):
                self.taken(**{field: value, **others})
            for value in (most + 1, "9999-12-31T23:59:59.9999Z"):
                self.refused_at("#/" + field, **{field: value, **others})

    # proves: cron-bytes, timezone-bytes (beyond)
    def test_cron(self):
        size = self.limit("TimerCreate.cron", "maxLength")
        for longest in (size, size + 1):
            cron = "0 0 1 1 " + ",".join(["0"] * longest)
            cron = cron[:longest] if cron[longest - 1] != "," else cron[:longest - 1] + "0"
            if longest == size:
                self.taken(cron=cron)
            else:
                self.refused_at("#/cron", cron=cron)
        self.assertIn("63", self.daemon.call("POST", "/v1/timers", {
            "cron": "* * * * *", "timezone": "A" * (self.limit("TimerCreate.timezone", "maxLength") + 1),
            "target": self.receiver.url()})[2]["detail"])


def body_of_line(fields, receiver):
    line = {"target": receiver.url(), **fields}
    if not {"after", "at", "every", "cron"} & set(fields):
        line["after"] = "1h"
    return line



class CallTest(Case):
    """What one call may name, select or ask for."""

    def make(self, count, **fields):
        """So many timers with keys, by one batch; their ids."""
        lines = [json.dumps({"after": "1h", "target": self.receiver.url(), "key": f"k{n}", **fields})
                 for n in range(count)]
        answer = self.call(200, "POST", "/v1/timers/batch", "\n".join(lines), NDJSON)[1]
        return [json.loads(line)["id"] for line in answer.splitlines()]

    # proves: bulk-count
    def test_names_of_a_bulk_call(self):
        for schema, path, more, done in (("Reschedule", "reschedule", {"after": "2h"}, "rescheduled"),
                                         ("TouchMany", "touch", {"after": "3h"}, "touched"),
                                         ("Selection", "cancel", {}, "cancelled")):
            count = self.limit(f"{schema}.ids", "maxItems")
            self.assertEqual(self.limit(f"{schema}.keys", "maxItems"), count)
            for field in ("ids", "keys"):
                made = self.make(count) if path == "cancel" or field == "ids" else made
                names = made if field == "ids" else [f"k{n}" for n in range(count)]
                before = self.call(200, "GET", f"/v1/timers/{made[0]}")[1]
                problem = self.problem(422, "invalid", "POST", f"/v1/timers/{path}", {field: names + ["x"], **more})[1]
                self.assertEqual((problem["errors"][0]["pointer"], problem["detail"]),
                                 (f"#/{field}", f"It may have at most {count} elements"))
                self.assertEqual(self.call(200, "GET", f"/v1/timers/{made[0]}")[1], before)
                answer = self.call(200, "POST", f"/v1/timers/{path}", {field: names, **more})[1]
                self.assertEqual((answer[done], answer["failures"]), (count, []))
            if path != "cancel":
                self.call(200, "POST", "/v1/timers/cancel", {"ids": made})

    # proves: key-bytes, labels_max, label-bytes
    def test_a_bulk_call_by_labels_and_event(self):
        """Its labels and its event have the limits that a timer's have."""
        size = self.limit("Selection.watch", "maxLength")
        count = self.limit("Selection.labels", "maxProperties")
        labels = {f"{n:02d}" + text(size - 2): text(size) for n in range(2)} | {str(n): "" for n in range(count - 2)}
        for path, more, done in (("reschedule", {"after": "2h"}, "rescheduled"), ("cancel", {}, "cancelled")):
            for selection, pointer in (({"labels": {**labels, "more": ""}}, "#/labels"),
                                       ({"labels": {text(size + 1): ""}}, "#/labels"),
                                       ({"labels": {"a": text(size + 1)}}, "#/labels"),
                                       ({"watch": text(size + 1)}, "#/watch")):
                problem = self.problem(422, "invalid", "POST", f"/v1/timers/{path}", {**selection, **more})[1]
                self.assertTrue(problem["errors"][0]["pointer"].startswith(pointer), problem)
            for selection in ({"labels": labels}, {"watch": text(size)}):
                timer = self.create(labels=labels, watch=[text(size)])
                answer = self.call(200, "POST", f"/v1/timers/{path}", {**selection, **more})[1]
                self.assertEqual(answer[done], 1, answer)
                self.daemon.call("DELETE", f"/v1/timers/{timer['id']}")

    # proves: key-bytes, event-count
    def test_events_of_a_call(self):
        schema = self.document["paths"]["/v1/watch/complete"]["post"]["requestBody"]["content"]["application/json"]
        watch = schema["schema"]["properties"]["watch"]
        count, size = watch["maxItems"], watch["items"]["maxLength"]
        first, last = self.create(watch=["0"]), self.create(watch=[str(count - 1), text(size)])
        names = [str(n) for n in range(count)]
        problem = self.problem(422, "invalid", "POST", "/v1/watch/complete", {"watch": names + ["x"]})[1]
        self.assertEqual(problem["detail"], f"It must have 1 to {count} elements")
        self.problem(422, "invalid", "POST", "/v1/watch/complete", {"watch": []})
        self.problem(422, "invalid", "POST", "/v1/watch/complete", {"watch": ["0", text(size + 1)]})
        self.assertEqual((self.state(first), self.state(last)), ("scheduled", "scheduled"))
        answer = self.call(200, "POST", "/v1/watch/complete", {"watch": names})[1]
        self.assertEqual((answer["cancelled"], len(answer["results"])), (2, count))
        last = self.create(watch=[text(size)])
        self.assertEqual(self.call(200, "POST", "/v1/watch/complete", {"watch": [text(size)]})[1]["cancelled"], 1)

    def parameter(self, path, name, method="get"):
        return next(each["schema"] for each in self.document["paths"][path][method]["parameters"]
                    if each.get("name") == name)

    # proves: page-limit, list-labels, list-states, list-lasts, list-parameters
    def test_pages(self):
        """As many as a page may have, of a few more than that."""
        made = self.make(self.parameter("/v1/timers", "limit")["maximum"] + 1, labels={"a": "b"})
        most = len(made) - 1
        page = self.call(200, "GET", f"/v1/timers?limit={most}")[1]
        self.assertEqual(len(page["timers"]), most)
        self.assertEqual(len(self.call(200, "GET", f"/v1/timers?limit=2&cursor={page['next']}")[1]["timers"]), 1)
        for path in ("/v1/timers", "/v1/dead"):
            self.assertEqual(self.parameter(path, "limit")["maximum"], most)
            self.call(200, "GET", f"{path}?limit={most}")
            for wrong in (0, most + 1):
                problem = self.problem(422, "invalid", "GET", f"{path}?limit={wrong}")[1]
                self.assertEqual(problem["errors"], [{"parameter": "limit", "detail": f"It must be 1 to {most}"}])
            count = self.parameter(path, "label")["maxItems"]
            self.assertEqual(len(self.call(200, "GET", f"{path}?limit=2&" + "&".join(["label=a:b"] * count))[1]["timers"]),
                             2 if path == "/v1/timers" else 0)
            self.problem(422, "invalid", "GET", f"{path}?" + "&".join(["label=a:b"] * (count + 1)))
        count = self.parameter("/v1/timers", "state")["maxItems"]
        states = [f"state={state}" for state in self.schema("TimerState")["enum"]]
        self.assertEqual(len(states), count)
        self.call(200, "GET", "/v1/timers?" + "&".join(states))
        self.problem(422, "invalid", "GET", "/v1/timers?" + "&".join(states + states[:1]))
        lasts = ["last=ok"] * self.parameter("/v1/schedules", "last")["maxItems"]
        self.call(200, "GET", "/v1/schedules?" + "&".join(lasts))
        self.problem(422, "invalid", "GET", "/v1/schedules?" + "&".join(lasts + lasts[:1]))
        self.problem(422, "invalid", "GET", "/v1/timers?" + "&".join(["label=a:b"] * 32))
        self.problem(400, "bad-request", "GET", "/v1/timers?" + "&".join(["label=a:b"] * 33))

    # proves: preview-parameters, preview-count
    def test_instants_of_a_preview(self):
        most = self.parameter("/v1/schedule/preview", "n")["maximum"]
        where = "/v1/schedule/preview?every=1s&n="
        self.assertEqual(len(self.call(200, "GET", where + str(most))[1]["instants"]), most)
        for wrong in (0, most + 1):
            problem = self.problem(422, "invalid", "GET", where + str(wrong))[1]
            self.assertEqual(problem["errors"], [{"parameter": "n", "detail": f"It must be 1 to {most}"}])
        empty = "".join(f"&a{n}" for n in range(15))
        self.problem(422, "invalid", "GET", "/v1/schedule/preview?every=1s" + empty)
        self.problem(400, "bad-request", "GET", "/v1/schedule/preview?every=1s&b" + empty)

    # proves: forecast-parameters, forecast-count
    def test_units_of_a_forecast(self):
        most = self.parameter("/v1/forecast", "count")["maximum"]
        self.assertEqual(len(self.call(200, "GET", f"/v1/forecast?count={most}")[1]["due"]), most)
        for wrong in (0, most + 1):
            problem = self.problem(422, "invalid", "GET", f"/v1/forecast?count={wrong}")[1]
            self.assertEqual(problem["errors"], [{"parameter": "count", "detail": f"It must be 1 to {most}"}])
        empty = "".join(f"&a{n}" for n in range(7))
        self.problem(422, "invalid", "GET", "/v1/forecast?count=1" + empty)
        self.problem(400, "bad-request", "GET", "/v1/forecast?count=1&b" + empty)

    # proves: page-limit, list-labels, list-parameters
    def test_a_delete_of_dead_letters(self):
        limit = self.parameter("/v1/dead", "limit", "delete")
        for right in (limit["minimum"], limit["maximum"]):
            self.call(200, "DELETE", f"/v1/dead?all=true&limit={right}")
        for wrong in (limit["minimum"] - 1, limit["maximum"] + 1):
            self.problem(422, "invalid", "DELETE", f"/v1/dead?all=true&limit={wrong}")
        most = self.parameter("/v1/dead", "label", "delete")["maxItems"]
        labels = ["label=n:v"] * most
        self.call(200, "DELETE", "/v1/dead?" + "&".join(labels))
        self.problem(422, "invalid", "DELETE", "/v1/dead?" + "&".join([*labels, "label=n:v"]))

    # proves: page-limit, list-labels, dead-groups-rows
    def test_groups_of_dead_letters(self):
        limit = self.parameter("/v1/dead/groups", "limit")
        for right in (limit["minimum"], limit["maximum"]):
            self.call(200, "GET", f"/v1/dead/groups?limit={right}")
        for wrong in (limit["minimum"] - 1, limit["maximum"] + 1):
            self.problem(422, "invalid", "GET", f"/v1/dead/groups?limit={wrong}")
        labels = ["label=n:v"] * self.parameter("/v1/dead/groups", "label")["maxItems"]
        self.call(200, "GET", "/v1/dead/groups?" + "&".join(labels))
        self.problem(422, "invalid", "GET", "/v1/dead/groups?" + "&".join([*labels, "label=n:v"]))
        line = json.dumps({"at": 10**11, "target": "http://127.0.0.1:1/", "late": {"drop_after": "1s"}}) + "\n"
        for all_of_them, is_complete in ((99000, True), (102000, False)):
            made = all_of_them if is_complete else 3000
            status, _, _ = self.daemon.call("POST", "/v1/timers/batch", line * made, {"Content-Type": "application/x-ndjson"})
            self.assertEqual(status, 200)
            harness.wait_until(lambda: self.daemon.metric("tickwheel_dead_letters") == all_of_them, 120, "all are dead")
            groups = self.call(200, "GET", "/v1/dead/groups")[1]
            counted = sum(group["count"] for group in groups["groups"]) + groups["others"]
            self.assertEqual(groups["complete"], is_complete)
            self.assertEqual(counted == all_of_them, is_complete)
            self.assertGreaterEqual(counted, 99000)

    # proves: redrive-rate-max
    def test_the_rate_of_a_redrive(self):
        rate = self.schema("Redrive.rate")
        for right in (rate["minimum"], rate["maximum"]):
            self.call(200, "POST", "/v1/dead/redrive", {"all": True, "rate": right})
        for wrong in (rate["minimum"] - 1, rate["maximum"] + 1):
            self.problem(422, "invalid", "POST", "/v1/dead/redrive", {"all": True, "rate": wrong})

    # proves: page-limit, list-labels, redrive-count
    def test_a_redrive(self):
        for count in (self.schema("Redrive.ids")["maxItems"],):
            answer = self.call(200, "POST", "/v1/dead/redrive", {"ids": ["x"] * count})[1]
            self.assertEqual((answer["failed"], len(answer["results"])), (count, count))
            self.problem(422, "invalid", "POST", "/v1/dead/redrive", {"ids": ["x"] * (count + 1)})
            self.problem(422, "invalid", "POST", "/v1/dead/redrive", {"ids": []})
        fields = self.schema("Redrive")["properties"]
        count, most = fields["labels"]["maxProperties"], fields["limit"]["maximum"]
        labels = {str(n): "v" for n in range(count)}
        dead = self.await_state(self.create("/gone", after=0, labels=labels), "dead")
        self.problem(422, "invalid", "POST", "/v1/dead/redrive", {"labels": {**labels, "more": "v"}})
        for wrong in (0, most + 1):
            self.problem(422, "invalid", "POST", "/v1/dead/redrive", {"labels": labels, "limit": wrong})
            self.problem(422, "invalid", "POST", "/v1/dead/redrive", {"all": True, "limit": wrong})
        self.assertEqual(self.call(200, "GET", f"/v1/dead?limit={most}")[1]["timers"][0]["version"], dead["version"])
        self.assertEqual(self.call(200, "POST", "/v1/dead/redrive", {"labels": labels, "limit": most})[1]["redriven"], 1)


class QueueTest(Case):
    """What a worker may ask for, and how long."""
    flags = ("--queue-wait-max", "100ms", "--queue-bytes-max", "64M", "--partitions", "1")

    def lease(self, **fields):
        return self.call(200, "POST", "/v1/queues/jobs/lease", fields)[1]["items"]

    # proves: lease-count, receipt-count
    def test_items_and_receipts(self):
        most = self.limit("QueueLease.max", "maximum")
        self.assertEqual(self.schema("Receipts")["maxItems"], most)
        line = json.dumps({"after": 0, "target": "queue:jobs"})
        self.call(200, "POST", "/v1/timers/batch", "\n".join([line] * (most + 1)), NDJSON)
        harness.wait_until(lambda: self.metric("tickwheel_deliveries_waiting") == most + 1, 20, "all are ready")
        for wrong in (0, most + 1):
            problem = self.problem(422, "invalid", "POST", "/v1/queues/jobs/lease", {"max": wrong})[1]
            self.assertEqual(problem["detail"], f"It must be 1 to {most}")
        receipts = [item["receipt"] for item in self.lease(max=most, lease="1h")]
        self.assertEqual(len(receipts), most)
        last = self.lease(max=most, lease="1h")
        self.assertEqual(len(last), 1)
        for call in ("nack", "extend", "ack"):
            for wrong in ([], receipts + [last[0]["receipt"]]):
                problem = self.problem(422, "invalid", "POST", f"/v1/queues/jobs/{call}", {"receipts": wrong})[1]
                self.assertEqual(problem["errors"][0]["pointer"], "#/receipts")
            if call == "nack":
                continue  # below
            answer = self.call(200, "POST", f"/v1/queues/jobs/{call}", {"receipts": receipts})[1]
            self.assertEqual((answer["ok"], answer["stale"], answer["unknown"]), (most, 0, 0))
        answer = self.call(200, "POST", "/v1/queues/jobs/nack",
                           {"receipts": [last[0]["receipt"]] + receipts[:most - 1], "delay": 0})[1]
        self.assertEqual((answer["ok"], answer["stale"]), (1, most - 1))

    # proves: lease-ms, delay-ms
    def test_durations(self):
        self.create(target="queue:jobs", after=0)
        item = harness.wait_until(lambda: self.lease(lease="1h"), 20, "it")[0]
        least, most = self.limit("QueueLease.lease", "minimum"), self.limit("QueueLease.lease", "maximum")
        self.assertEqual((least, most), (self.limit("QueueExtend.lease", "minimum"),
                                         self.limit("QueueExtend.lease", "maximum")))
        for spell in (int, "{}ms".format):
            for wrong in (least - 1, most + 1):
                self.problem(422, "invalid", "POST", "/v1/queues/jobs/lease", {"lease": spell(wrong)})
                self.problem(422, "invalid", "POST", "/v1/queues/jobs/extend",
                             {"receipts": [item["receipt"]], "lease": spell(wrong)})
            for right in (least, most):
                self.assertEqual(self.lease(lease=spell(right)), [])
            answer = self.call(200, "POST", "/v1/queues/jobs/extend",
                               {"receipts": [item["receipt"]], "lease": spell(most)})[1]
            self.assertEqual(answer["ok"], 1)
            delay = self.limit("QueueNack.delay", "maximum")
            self.problem(422, "invalid", "POST", "/v1/queues/jobs/nack",
                         {"receipts": [item["receipt"]], "delay": spell(delay + 1)})
        answer = self.call(200, "POST", "/v1/queues/jobs/nack", {"receipts": [item["receipt"]], "delay": delay})[1]
        self.assertEqual(answer["ok"], 1)
        self.assertEqual(self.call(200, "GET", f"/v1/timers/{item['id']}")[1]["state"], "retrying")

    # proves: queue_wait_max
    def test_the_wait(self):
        """It may be `queue_wait_max`, whatever the document's default is."""
        for spell in (int, "{}ms".format):
            self.assertEqual(self.lease(wait=spell(100)), [])
            problem = self.problem(422, "invalid", "POST", "/v1/queues/jobs/lease", {"wait": spell(101)})[1]
            self.assertEqual((problem["errors"][0]["pointer"], problem["detail"]), ("#/wait", "It must be 0s to 100ms"))

    # proves: queue-name-length, error-bytes
    def test_the_reason_and_the_name(self):
        timer = self.create(target="queue:jobs", after=0)
        item = harness.wait_until(lambda: self.lease(lease="1h"), 20, "it")[0]
        size = self.limit("QueueNack.error", "maxLength")
        self.problem(422, "invalid", "POST", "/v1/queues/jobs/nack",
                     {"receipts": [item["receipt"]], "error": text(size + 1)})
        self.call(200, "POST", "/v1/queues/jobs/nack",
                  {"receipts": [item["receipt"]], "error": text(size), "dead": True})
        self.assertEqual(self.await_state(timer, "dead")["last_error"], text(size))
        name = text(64)
        timer = self.create(target="queue:" + name, after=0)
        items = harness.wait_until(lambda: self.call(200, "POST", f"/v1/queues/{name}/lease", {})[1]["items"], 20, "it")
        self.assertEqual(items[0]["id"], timer["id"])
        self.problem(404, "not-found", "POST", f"/v1/queues/{name}x/lease", {})


class LeasesTest(Case):
    flags = ("--queue-leases-max", "3", "--partitions", "1")

    # proves: queue_leases_max
    def test_leases_at_a_time(self):
        """The fourth waits, is not lost, and comes as soon as one is given back."""
        for _ in range(4):
            self.create(target="queue:jobs", after=0)
        harness.wait_until(lambda: self.metric("tickwheel_deliveries_waiting") == 4, 20, "all are ready")

        def lease():
            return self.call(200, "POST", "/v1/queues/jobs/lease", {"max": 10, "lease": "1h"})[1]["items"]
        items = lease()
        self.assertEqual(len(items), 3)
        self.assertEqual(lease(), [])
        self.call(200, "POST", "/v1/queues/jobs/ack", {"receipts": [items[0]["receipt"]]})
        last = harness.wait_until(lease, 20, "the fourth")
        self.assertNotIn(last[0]["id"], [item["id"] for item in items])
        self.assertEqual(lease(), [])


class SmallTest(Case):
    """What one timer may hold, where the settings say less than the defaults."""
    flags = ("--payload-bytes-max", "10", "--target-bytes-max", "64", "--labels-max", "1", "--headers-bytes-max", "10")

    # proves: labels_max, headers_bytes_max, target_bytes_max, payload_bytes_max
    def test_each_setting(self):
        url = self.receiver.url("/")
        for right, wrong, status in (
                ({"payload": "x" * 8}, {"payload": "x" * 9}, 413),
                ({"body_base64": base64.b64encode(bytes(10)).decode(), "content_type": "a/b"},
                 {"body_base64": base64.b64encode(bytes(11)).decode(), "content_type": "a/b"}, 413),
                ({"target": text(64, url)}, {"target": text(65, url)}, 422),
                ({"target": "queue:" + "q" * 58}, {"target": "queue:" + "q" * 59}, 422),
                ({"labels": {"a": "b"}}, {"labels": {"a": "b", "c": "d"}}, 422),
                ({"headers": {"X": "123456"}}, {"headers": {"X": "1234567"}}, 422)):
            timer = self.create(**right)
            self.call(status, "POST", "/v1/timers", {"after": "1h", "target": url, **wrong})
            self.call(status, "PATCH", f"/v1/timers/{timer['id']}", wrong)
            self.call(status, "PUT", "/v1/keys/k/timer", {"after": "1h", "target": url, **wrong})
            line = json.dumps({"after": "1h", "target": url, **wrong})
            self.assertEqual(json.loads(self.call(200, "POST", "/v1/timers/batch", line, NDJSON)[1])["status"], status)
            self.assertEqual(self.get(timer)[2], timer)
        self.assertEqual(len(self.timers()), 6)
        self.flags = ("--labels-max", "0", "--headers-bytes-max", "0")
        self.restart()
        self.create(labels={}, headers={})
        for field in ("labels", "headers"):
            self.call(422, "POST", "/v1/timers", {"after": "1h", "target": url, field: {"A": "b"}})


class BatchTest(Case):
    flags = ("--batch-lines-max", "5", "--batch-bytes-max", "4K", "--body-bytes-max", "1K")

    def batch(self, lines):
        answer = self.call(200, "POST", "/v1/timers/batch", "\n".join(lines), NDJSON)[1]
        return [json.loads(line) for line in answer.splitlines()]

    # proves: batch_lines_max
    def test_lines(self):
        line = json.dumps({"after": "1h", "target": self.receiver.url()})
        self.assertEqual(["id" in each for each in self.batch([line] * 5)], [True] * 5)
        answer = self.batch([line] * 9)
        self.assertEqual(["id" in each for each in answer], [True] * 5 + [False])
        self.assertEqual((answer[5]["line"], answer[5]["status"], answer[5]["type"]), (6, 413, "/problems/too-large"))
        self.assertEqual(len(self.timers()), 10)

    # proves: body_bytes_max
    def test_bytes_of_a_line(self):
        """A line that is too long fails alone."""
        start = json.dumps({"after": "1h", "target": self.receiver.url()})[:-1]
        lines = [start + " " * (size - len(start) - 1) + "}" for size in (1024, 1025, 1024)]
        answer = self.batch(lines)
        self.assertEqual([each.get("status", 200) for each in answer], [200, 413, 200])
        self.assertEqual((answer[1]["line"], len(self.timers())), (2, 2))

    # proves: batch_bytes_max
    def test_bytes(self):
        """Announced, one byte too many makes nothing; on the way, what came before it is done and the answer says so."""
        line = json.dumps({"after": "1h", "target": self.receiver.url()}) + "\n"
        body = line * 4 + "\n" * (4096 - 4 * len(line))
        self.flags = ("--batch-bytes-max", "4K")
        self.restart()
        self.assertEqual(len(self.call(200, "POST", "/v1/timers/batch", body, NDJSON)[1].splitlines()), 4)
        self.problem(413, "too-large", "POST", "/v1/timers/batch", body + "\n", NDJSON)
        self.assertEqual(len(self.timers()), 4)
        for more in ("", "\n"):
            connection = self.daemon.connect()
            connection.request("POST", "/v1/timers/batch", iter([body.encode()] + [more.encode()] * bool(more)), NDJSON)
            answer = connection.getresponse().read().decode().splitlines()
            connection.close()
            self.assertEqual(["id" in each for each in map(json.loads, answer)], [True] * 4 + [False] * len(more))
            if more:
                self.assertEqual(json.loads(answer[-1])["status"], 413)
        self.assertEqual(len(self.timers()), 12)


class InflightTest(Case):
    flags = ("--inflight-max", "3", "--partitions", "1")

    # proves: inflight_max
    def test_timers_in_requests(self):
        """A request for more than that is refused as a whole; a batch waits for its own and is done."""
        for events in (3, 4):
            timers = [self.create(watch=[str(n)]) for n in range(events)]
            names = [str(n) for n in range(events)]
            if events == 3:
                self.assertEqual(self.call(200, "POST", "/v1/watch/complete", {"watch": names})[1]["cancelled"], 3)
            else:
                fields, _ = self.problem(503, "overloaded", "POST", "/v1/watch/complete", {"watch": names})
                self.assertGreaterEqual(int(fields["Retry-After"]), 1)
                self.assertEqual({self.state(timer) for timer in timers}, {"scheduled"})
        self.assertEqual(self.call(200, "POST", "/v1/queues/q/ack", {"receipts": ["x"] * 3})[1]["stale"], 3)
        self.problem(503, "overloaded", "POST", "/v1/queues/q/ack", {"receipts": ["x"] * 4})
        for count in (3, 4, 2000):
            lines = [json.dumps({"after": "1h", "target": self.receiver.url()})] * count
            answer = self.call(200, "POST", "/v1/timers/batch", "\n".join(lines), {**NDJSON, "Prefer": "return=minimal"})
            self.assertEqual(json.loads(answer[1].splitlines()[0]), {"created": count, "existed": 0, "failed": 0})


class PendingTest(Case):
    flags = ("--pending-max", "10", "--partitions", "4")

    # proves: pending_max
    def test_live_timers_in_all(self):
        """Exactly so many, whatever partitions their keys lead to; what is refused leaves nothing behind."""
        draw = random.Random(SEED)
        for way in ("keys", "none", "batch"):
            body = {"after": "1h", "target": self.receiver.url()}
            keys = [f"{way}{draw.random()}" for _ in range(13)]
            if way == "batch":
                lines = "\n".join(json.dumps({**body, "key": key}) for key in keys)
                answer = self.call(200, "POST", "/v1/timers/batch", lines, NDJSON)[1]
                statuses = [json.loads(line).get("status", 201) for line in answer.splitlines()]
                self.assertEqual(answer.count("pending_max is 10 live timers; there is room"), 3)
            else:
                statuses = [self.daemon.call("POST", "/v1/timers", {**body, **({"key": key} if way == "keys" else {})})[0]
                            for key in keys]
            self.assertEqual(sorted(statuses), [201] * 10 + [429] * 3, way)
            made = self.timers()
            self.assertEqual(len(made), 10)
            fields, _ = self.problem(429, "too-many", "PUT", "/v1/keys/more/timer", body)
            self.assertGreaterEqual(int(fields["Retry-After"]), 1)
            self.restart()
            self.problem(429, "too-many", "POST", "/v1/timers", body)
            self.assertEqual(self.timers(), made)
            self.call(200, "DELETE", f"/v1/timers/{next(iter(made))}")
            self.call(201, "POST", "/v1/timers", body)
            self.problem(429, "too-many", "POST", "/v1/timers", body)
            self.call(200, "POST", "/v1/timers/cancel", {"ids": list(self.timers())})

    # proves: pending_max (beyond)
    def test_a_redrive_counts(self):
        dead = self.await_state(self.create("/gone", after=0), "dead")
        living = [self.create() for _ in range(10)]
        answer = self.call(200, "POST", "/v1/dead/redrive", {"ids": [dead["id"]]})[1]
        self.assertEqual((answer["redriven"], answer["results"]), (0, ["too-many"]))
        self.call(200, "DELETE", f"/v1/timers/{living[0]['id']}")
        self.assertEqual(self.call(200, "POST", "/v1/dead/redrive", {"ids": [dead["id"]]})[1]["redriven"], 1)


class Gate:
    """A receiver that answers nobody until it is opened."""

    def __init__(self):
        self.opened, gate = threading.Event(), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                gate.opened.wait()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}/"

    def close(self):
        self.opened.set()
        self.server.shutdown()
        self.server.server_close()


class DeliveriesTest(Case):
    def gate(self):
        gate = Gate()
        self.addCleanup(gate.close)
        return gate

    def await_out(self, inflight, waiting):
        harness.wait_until(lambda: (self.metric("tickwheel_deliveries_inflight"),
                                    self.metric("tickwheel_deliveries_waiting")) == (inflight, waiting), 20,
                           f"{inflight} out and {waiting} waiting")

    # proves: deliveries_max, target_deliveries_max
    def test_at_a_time(self):
        """In all, and to one origin: the next waits, says why, and is sent when there is room."""
        for setting, origins, reason in (("--deliveries-max", 4, "room"), ("--target-deliveries-max", 1, "target-limit")):
            self.restart("--partitions", "4", setting, "6")
            gates = [self.gate() for _ in range(origins)]
            ids = [f"{setting}{n}" for n in range(40)]
            for n, key in enumerate(ids):
                self.create(after=0, target=gates[n % origins].url(), key=key, retry={"timeout": "10m"})
            self.await_out(6, 34)
            waiting = [answer["waiting"]["for"] for answer in
                       (self.call(200, "GET", f"/v1/timers/{self.id_of(key)}/explain")[1] for key in ids)
                       if answer["where"] == "waiting"]
            self.assertEqual((len(waiting), set(waiting)), (34, {reason}))
            for gate in gates:
                gate.opened.set()
            self.await_out(0, 0)
            harness.wait_until(lambda: self.metric("tickwheel_timers_fired_total") == 40, 20, "all of them")

    def id_of(self, key):
        return self.call(200, "GET", f"/v1/keys/{key}/timer")[1]["id"]


class ConnectionsTest(Case):
    flags = ("--connections-max", "3")

    # proves: connections_max
    def test_connections_at_a_time(self):
        harness.wait_until(lambda: self.daemon.call("GET", "/healthz")[0] == 200, 20, "room")

        def ask(connection):
            return self.daemon.call("GET", "/v1/timers", connection=connection)[0]
        open_ones = []
        for _ in range(3):
            connection = harness.wait_until(lambda: (one := self.daemon.connect()) and ask(one) == 200 and one, 20, "200")
            open_ones.append(connection)
        status, fields, problem = self.daemon.call("GET", "/v1/timers")
        self.assertEqual((status, problem["type"]), (503, "/problems/overloaded"))
        self.assertGreaterEqual(int(fields["Retry-After"]), 1)
        self.assertEqual([ask(each) for each in open_ones], [200] * 3)
        open_ones.pop().close()
        harness.wait_until(lambda: self.daemon.call("GET", "/v1/timers")[0] == 200, 20, "room for another")
        for connection in open_ones:
            connection.close()


class HeadTest(Case):
    flags = ("--header-bytes-max", "4K")

    # proves: header_bytes_max
    def test_the_head(self):
        """Request line, headers and the empty line together: 4096 bytes, however they are parted."""
        for prefix in (b"GET /v1/timers HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET /v1/timers?due_after=0&cursor=",
                       b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 20 + b"X: "):
            end = b" HTTP/1.1\r\nHost: localhost\r\n\r\n" if b"HTTP" not in prefix else b"\r\n\r\n"
            for size in (4096, 4097):
                head = prefix + b"x" * (size - len(prefix) - len(end)) + end
                with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30) as connection:
                    connection.sendall(head)
                    response = http.client.HTTPResponse(connection)
                    response.begin()
                    body = response.read()
                    if size == 4096:
                        self.assertIn(response.status, (200, 422), head[:40])
                    else:
                        self.assertEqual((response.status, json.loads(body)["type"]), (431, "/problems/headers-too-large"))


    # proves: request-headers
    def test_many_headers(self):
        """128 with Host, in a head of the largest size."""
        for count, status in ((128, 200), (129, 431)):
            head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"%d:b\r\n" % n for n in range(count - 2))
            room = 4096 - len(head) - len(b"X: \r\n\r\n")
            with socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30) as connection:
                connection.sendall(head + b"X: " + b"x" * room + b"\r\n\r\n")
                response = http.client.HTTPResponse(connection)
                response.begin()
                self.assertEqual(response.status, status)


class NearTest(Case):
    flags = ("--near-bytes-max", "1M", "--partitions", "1", "--window", "1h")

    # proves: near_bytes_max
    def test_memory_of_what_is_near(self):
        """A timer for which there is no memory is refused; a later one is taken, and what was taken fires."""
        count = 0
        payload = "x" * 100000
        while count < 100:
            status, fields, answer = self.daemon.call("POST", "/v1/timers", {
                "after": "30m", "target": self.receiver.url(), "payload": payload, "key": f"k{count}"})
            if status != 201:
                break
            count += 1
        self.assertEqual((status, answer["type"], count), (503, "/problems/overloaded", 10))
        self.assertGreaterEqual(int(fields["Retry-After"]), 1)
        self.call(404, "GET", f"/v1/keys/k{count}/timer")
        later = self.create(payload=payload, after="30d")
        self.problem(503, "overloaded", "PATCH", f"/v1/timers/{later['id']}", {"after": "30m"})
        self.assertEqual(self.get(later)[2], later)
        self.call(200, "DELETE", "/v1/keys/k0/timer")
        self.call(200, "PATCH", f"/v1/timers/{later['id']}", {"after": 0})
        self.await_state(later, "fired")


class DrainTest(Case):
    # proves: drain (beyond)
    def test_no_time_to_drain(self):
        """A stop that waits for nothing still loses nothing: what was out is sent again under its id."""
        self.restart("--drain", "0s")
        gate = Gate()
        self.addCleanup(gate.close)
        timer = self.create(after=0, target=gate.url(), retry={"timeout": "10m"})
        harness.wait_until(lambda: self.metric("tickwheel_deliveries_inflight") == 1, 20, "it is out")
        self.assertEqual(self.daemon.signal(15), 0)
        gate.opened.set()
        self.daemon = self.start()
        self.assertEqual(self.await_state(timer, "fired")["id"], timer["id"])

    # proves: drain (at)
    def test_all_the_time(self):
        self.restart("--drain", "1h")
        gate = Gate()
        self.addCleanup(gate.close)
        timer = self.create(after=0, target=gate.url(), retry={"timeout": "10m"})
        harness.wait_until(lambda: self.metric("tickwheel_deliveries_inflight") == 1, 20, "it is out")
        self.daemon.process.send_signal(15)
        self.daemon.find_in_output("event=stopping")
        gate.opened.set()
        self.assertEqual(self.daemon.process.wait(harness.PATIENCE_S), 0)
        self.daemon = self.start()
        self.assertEqual(self.state(timer), "fired")


class PartitionsTest(Case):
    # proves: partitions (at), partitions-max (at)
    def test_one_and_many(self):
        for count in ("1", "256"):
            self.daemon.signal(9)
            self.data += f"-partitions-{count}"
            self.addCleanup(shutil.rmtree, self.data)
            self.daemon = self.start("--partitions", count)
            timers = [self.create(after=0, key=f"k{n}") for n in range(20)]
            for timer in timers:
                self.await_state(timer, "fired")


class AnswerTest(Case):
    flags = ("--webhook-response-bytes-max", "1K")

    # proves: webhook_response_bytes_max
    def test_what_a_target_answers(self):
        """As much as is read, and more: it has answered, and is called once."""
        for size in (1024, 1025, 100000):
            timer = self.create(f"/large/{size}", after=0)
            self.assertEqual(self.await_state(timer, "fired")["attempts"], 1)
            self.assertEqual(len(self.wait_for_arrivals(timer)), 1)


class StartTest(unittest.TestCase):
    """What the settings are made of: with as much as may be the daemon starts, with one more it says why not."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, name, contents):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(contents)
        return path

    def starts(self, *flags):
        with harness.Daemon(os.path.join(self.folder, "data"), *flags) as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            self.assertEqual(daemon.signal(15), 0)

    def says(self, reason, *flags):
        for more in ((), ("--check-config",)):
            done = subprocess.run([harness.find("tickwheeld"), "--listen-port", "0", "--data-folder",
                                   os.path.join(self.folder, "none"), *flags, *more],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
            self.assertIn(reason, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "none")))

    # proves: certificate-file
    def test_certificate(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-subj", "/CN=a", "-keyout", os.path.join(self.folder, "key"), "-out",
                        os.path.join(self.folder, "pem")], check=True, capture_output=True)
        for name in ("key", "pem"):
            with open(os.path.join(self.folder, name), "rb") as file:
                small = file.read()
            for size in ((1 << 20), (1 << 20) + 1):
                files = {"key": os.path.join(self.folder, "key"), "pem": os.path.join(self.folder, "pem"),
                         name: self.path("large", small + b"\n" * (size - len(small)))}
                flags = ("--tls-certificate", files["pem"], "--tls-key", files["key"])
                if size == 1 << 20:
                    done = subprocess.run([harness.find("tickwheeld"), *flags, "--check-config"], capture_output=True,
                                          timeout=60, check=False)
                    self.assertEqual(done.returncode, 0, done)
                else:
                    self.says("more than 1048576 bytes", *flags)

    # proves: nats-hosts
    def test_brokers(self):
        brokers = subprocess.run([harness.find("tickwheeld"), "--version"], capture_output=True, text=True,
                                 check=True).stdout
        for scheme, hosts, reason in (("nats", 16, "1 to 16 hosts"),):
            if scheme not in brokers:
                self.skipTest("built without " + scheme)
            names = ",".join(f"127.0.0.1:{port}" for port in range(1, hosts + 2))
            self.starts("--broker-connections", f"a={scheme}://{names.rsplit(',', 1)[0]}")
            self.says(reason, "--broker-connections", f"a={scheme}://{names}")


if __name__ == "__main__":
    print(f"TEST_SEED={SEED}", flush=True)
    unittest.main()
