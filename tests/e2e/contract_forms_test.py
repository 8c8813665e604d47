#!/usr/bin/env python3
"""Goal: what the contract says of every call holds for every call. Method: the calls are read from the daemon's own
/openapi.strict.json, and each is sent what none may accept: another method, another type, no JSON, a field that there is
not or that stands twice, a body and a head that are too large. A call that is added is tested as soon as it is in
the document."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from daemon_case import DaemonCase

# Paths of calls whose last part is also a name of others.
ALSO_NAMES = {"/v1/named-targets/reseal": "/v1/named-targets/{name}"}

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BODY_BYTES_MAX, BATCH_BYTES_MAX = 8192, 16384
ANSWER_BYTES_MAX = 4096  # of a later answer, whatever the settings are
QUERIES = {"/v1/schedule/preview": "every=1h&at=2030-01-01T00:00:00Z&n=2"}  # where a call needs one
VALUES = {"after": 60000, "at": 4102444800000, "target": "http://127.0.0.1:9/", "payload": 1, "body_base64": "AAE=",
          "content_type": "a/b", "key": "k", "labels": {"a": "b"}, "every": 1000, "cron": "30 9 * * *",
          "timezone": "UTC", "until": 4102444800000, "late": {"drop_after": 1000}, "spread": {"window": 1000},
          "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "url": "http://127.0.0.1:9/x",
          "period": 1000, "auth": {"kind": "bearer", "token": "x"}, "ca": None,
          "signing": "whsec_" + "A" * 43 + "=",
          "cursor": None}  # of the fields that their schema alone does not tell; None: left out


class Document(unittest.TestCase):
    """One daemon for all tests of a class, and its document."""

    @classmethod
    def start(cls, *flags):
        cls.data = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.data)
        cls.daemon = harness.Daemon(cls.data, *flags)
        cls.addClassCleanup(cls.daemon.close)
        harness.wait_until(cls.daemon.is_ready, 20, "ready")
        cls.document = cls.daemon.call("GET", "/openapi.strict.json")[2]
        cls.timer = {"id": "0" * 26}

    def path_of(self, path):
        """One that leads somewhere."""
        for name, value in (("id", self.timer["id"]), ("key", "k"), ("name", "jobs"), ("type", "gone"),
                            ("file", "app.js"), ("target", "log%3A"), ("node", "1"), ("calendar", "holidays"),
                            ("thing", "flow:q"),
                            ("answer", "0" * 26 + "-" + "0" * 32)):
            path = path.replace("{" + name + "}", value)
        self.assertNotIn("{", path, "what stands for this parameter?")
        return path + ("?key=k" if path.startswith("/v1/key/") else "")

    def operations(self):
        """(METHOD, path, operation) of all there are."""
        return [(method.upper(), path, operation) for path, methods in self.document["paths"].items()
                for method, operation in methods.items() if method.upper() in METHODS]

    def resolve(self, schema):
        while "$ref" in schema:
            path, schema = schema["$ref"], self.document
            for part in path.removeprefix("#/").split("/"):
                schema = schema[part]
        return schema


class FormsTest(Document):
    @classmethod
    def setUpClass(cls):
        cls.start("--body-bytes-max", str(BODY_BYTES_MAX), "--payload-bytes-max", "1K", "--batch-bytes-max",
                  str(BATCH_BYTES_MAX), "--header-bytes-max", "8K")
        cls.timer = cls.daemon.call("POST", "/v1/timers", {"after": "1h", "target": VALUES["target"], "key": "k"})[2]
        cls.daemon.call("PUT", "/v1/named-targets/jobs", {"url": VALUES["url"]})
        cls.daemon.call("PUT", "/v1/calendars/holidays", ["2030-12-25"])

    def bodies(self):
        """(METHOD, path, content type, schema) of the calls that take a body."""
        for method, path, operation in self.operations():
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                yield method, self.path_of(path), kind, self.resolve(content["schema"])

    def refused(self, status, slug, method, path, body=None, headers=None):
        answer, fields, problem = self.daemon.call(method, path, body, headers)
        where = f"{method} {path} {str(body)[:100]}: {answer} {problem}"
        self.assertEqual(answer, status, where)
        self.assertEqual(fields["Content-Type"], "application/problem+json", where)
        self.assertEqual((problem["status"], problem["type"]), (status, "/problems/" + slug), where)
        self.assertTrue(problem["title"], where)
        return fields, problem

    # proves: openapi
    def test_the_document_is_the_one_that_the_build_made(self):
        with open(os.path.join(harness.BUILD, "openapi.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), self.document)

    # proves: methods, method-not-allowed
    def test_each_path_takes_its_methods_and_no_other(self):
        for path in self.document["paths"]:
            own = {method for method, where, _ in self.operations() if where in (path, ALSO_NAMES.get(path))}
            own |= {"HEAD"} if "GET" in own else set()
            for method in METHODS:
                if method in own:
                    continue
                if method == "HEAD":  # as the others, without the body
                    status, fields, _ = self.daemon.call(method, self.path_of(path))
                    self.assertEqual(status, 405, path)
                else:
                    fields, _ = self.refused(405, "method-not-allowed", method, self.path_of(path))
                self.assertEqual(set(fields["Allow"].split(", ")), own, path)
            for elsewhere in (self.path_of(path).split("?")[0].rstrip("/") + "/x/y/z", "/v2" + self.path_of(path)):
                self.refused(404, "not-found", "GET", elsewhere)

    # proves: methods
    def test_head_answers_like_get(self):
        for method, path, _ in self.operations():
            if method != "GET" or path == "/v1/events":  # which answers as long as the client listens
                continue
            where = self.path_of(path) + ("?" + QUERIES[path] if path in QUERIES else "")
            status, fields, body = self.daemon.call("GET", where)
            again, head, nothing = self.daemon.call("HEAD", where)
            expected = 404 if path == "/v1/clock" else 200  # the clock is real
            self.assertEqual((status, again, nothing), (expected, expected, ""), where)
            for name in ("Content-Type", "ETag"):
                self.assertEqual(head[name], fields[name], where)
            if self.daemon.call("GET", where)[2] == body:  # unlike /metrics, which counts these very requests
                self.assertEqual(head["Content-Length"], fields["Content-Length"], where)

    # proves: media-type
    def test_a_body_has_its_type(self):
        for method, path, kind, _ in self.bodies():
            for other in ("text/plain", "application/x-www-form-urlencoded", kind + "; charset=latin1", "", kind + "x"):
                self.refused(415, "media-type", method, path, "{}", {"Content-Type": other})
            self.assertNotEqual(
                self.daemon.call(method, path, "{}", {"Content-Type": kind.upper() + ' ; charset="UTF-8"'})[0], 415)

    # proves: not-json
    def test_a_body_is_json(self):
        for method, path, kind, _ in self.bodies():
            for body in (b"{", b"[1", b'{"a":1,}', b"nothing", b'{"a":"\xff"}', b"{'a':1}", b'{"a":01}', b"{}{}"):
                if kind == "text/calendar":  # dates in JSON, too, if it begins so
                    self.refused(422, "invalid", method, path, body, {"Content-Type": kind})
                elif "json" in kind and not kind.endswith(("ndjson", "jsonl")):
                    self.refused(400, "not-json", method, path, body, {"Content-Type": kind})
                else:
                    answer = self.daemon.call(method, path, body, {"Content-Type": kind})
                    line = json.loads(answer[2].splitlines()[0])
                    self.assertEqual((answer[0], line["status"], line["type"]), (200, 400, "/problems/not-json"))

    # proves: problem, invalid
    def test_there_is_no_other_field(self):
        for method, path, kind, schema in self.bodies():
            if schema.get("type") != "object":
                continue  # lines: see batch_test
            for name, pointer in (("nonsense", "nonsense"), ("a/b", "a~1b"), ("ID", "ID")):
                problem = self.refused(422, "invalid", method, path, {name: 1}, {"Content-Type": kind})[1]
                self.assertEqual(problem["errors"][0]["pointer"], "#/" + pointer, (method, path))
                self.assertEqual(problem["errors"][0]["detail"], problem["detail"])

    def sample(self, name, schema):
        """A value that this field may have."""
        schema = self.resolve(schema)
        if name in VALUES:
            return VALUES[name]
        for word in ("const", "default"):
            if word in schema:
                return schema[word]
        for word in ("enum", "examples"):
            if word in schema:
                return schema[word][0]
        for part, value in (("[0-9]+ms", "1h"), ("/[smhd]$", "10/s")):
            if part in schema.get("pattern", ""):
                return value
        if "type" not in schema:
            return self.sample(None, schema["anyOf"][0])
        return {"string": "x", "integer": schema.get("minimum", 1), "boolean": True, "object": {},
                "array": [self.sample(None, schema["items"])] if "items" in schema else []}[self.types(schema)[0]]

    # proves: invalid
    def test_a_field_stands_once(self):
        tried = 0
        for method, path, kind, schema in self.bodies():
            for name, described in schema.get("properties", {}).items():
                value = json.dumps(self.sample(name, described))
                if value == "null":
                    continue
                for spelled in (name, f"\\u{ord(name[0]):04x}{name[1:]}"):
                    body = f'{{"{name}":{value},"{spelled}":{value}}}'
                    problem = self.refused(422, "invalid", method, path, body, {"Content-Type": kind})[1]
                    self.assertEqual(problem["errors"][0]["pointer"], f"#/{name}", (method, path, body))
                    self.assertIn("twice", problem["detail"], (method, path, body))
                    tried += 1
        self.assertGreater(tried, 100)

    def types(self, schema):
        """The types that a value may have; none: any value."""
        schema = self.resolve(schema)
        kinds = schema.get("type", [])
        return [kinds] if isinstance(kinds, str) else kinds + sum(map(self.types, schema.get("anyOf", [])), [])

    def leaves(self, schema, path=()):
        """(path, types that it may have) of every field and its parts; no types: any value."""
        for name, described in schema.get("properties", {}).items():
            described = self.resolve(described)
            parts = [described, *(self.resolve(part) for part in described.get("anyOf", []))]
            yield (*path, name), set(self.types(described))
            for part in parts:
                yield from self.leaves(part, (*path, name))

    def refused_at(self, method, path, kind, where, value):
        """A body whose one field has this value, as JSON, is refused at that field."""
        body = "".join(f'{{"{name}":' for name in where) + value + "}" * len(where)
        if path.endswith(("/reschedule", "/touch")) and where[0] not in ("after", "at"):
            body = '{"after":1000,' + body[1:]  # without it, that would be said
        problem = self.refused(422, "invalid", method, path, body, {"Content-Type": kind})[1]
        pointer = problem["errors"][0]["pointer"]
        self.assertTrue(pointer.startswith("#/" + where[0]), (method, path, body, pointer))

    # proves: invalid
    def test_a_value_has_its_type(self):
        values = {"string": '"x"', "integer": "7", "boolean": "true", "object": "{}", "array": "[]"}
        # Null is as if the field were left out.
        tried = 0
        for method, path, kind, schema in self.bodies():
            for where, types in self.leaves(schema):
                for other in set(values) - types if types else ():
                    self.refused_at(method, path, kind, where, values[other])
                    tried += 1
        self.assertGreater(tried, 300)

    # proves: after-wrong, invalid
    def test_a_number_that_does_not_fit(self):
        """Never a guess and never a wrap: beyond 2^64, and what a cut to 64, 53 or 32 bits would make a right one."""
        tried = 0
        for method, path, kind, schema in self.bodies():
            for where, types in self.leaves(schema):
                if "integer" not in types:
                    continue
                for value in (str(2**64), str(2**64 + 1000), str(2**128 + 1000), "1e400", "-1", "-1000", "1.5", "1e-1",
                              "1000.0000001"):
                    self.refused_at(method, path, kind, where, value)
                for value in ("18446744073709551616ms", "18446744073709552s", "30500568905w", "-1s", "1.5s", "1 s", "1",
                              "\u0661s") if "string" in types else ():
                    self.refused_at(method, path, kind, where, json.dumps(value))
                tried += 1
        self.assertGreater(tried, 20)

    # proves: query-wrong
    def test_a_query_parameter_is_known_and_stands_once(self):
        tried = 0
        for method, path, operation in self.operations():
            names = [self.resolve(parameter) for parameter in operation.get("parameters", [])]
            names = [each for each in names if each["in"] == "query" and not each.get("explode")]
            if not path.startswith("/v1/"):
                continue
            where = self.path_of(path)
            where += "&" if "?" in where else "?"
            self.refused(422, "invalid", method, where + "nonsense=1")
            for each in names:
                value = self.sample(each["name"], each["schema"]) if each["name"] in VALUES or \
                    "type" in each["schema"] else "2030-01-01T00:00:00Z"
                one = urllib.parse.urlencode({each["name"]: str(value)})
                query = "&".join(part for part in QUERIES.get(path, "").split("&")
                                 if part and not part.startswith(each["name"] + "="))
                self.refused(422, "invalid", method, f"{where}{query}&{one}&{one}")
                tried += 1
        self.assertGreater(tried, 10)

    # proves: too-large, body_bytes_max
    def test_a_body_has_its_limit(self):
        for method, path, kind, _ in self.bodies():
            is_batch = kind.endswith(("ndjson", "jsonl"))
            size = BATCH_BYTES_MAX if is_batch else ANSWER_BYTES_MAX if path.startswith("/answers/") else BODY_BYTES_MAX
            self.refused(413, "too-large", method, path, b" " * (size + 1), {"Content-Type": kind})
            self.assertNotEqual(self.daemon.call(method, path, b" " * size, {"Content-Type": kind})[0], 413)
            if is_batch:
                continue  # what is not announced is told of in the answer: see batch_life_test
            connection = self.daemon.connect()  # not announced: in chunks
            connection.request(method, path, iter([b" " * size, b" "]), {"Content-Type": kind})
            response = connection.getresponse()
            self.assertEqual(response.status, 413, path)
            self.assertEqual(json.loads(response.read())["type"], "/problems/too-large")
            connection.close()

    # proves: headers-too-large, header_bytes_max (beyond)
    def test_a_head_has_its_limit(self):
        for method, path, _ in self.operations():
            self.refused(431, "headers-too-large", method, self.path_of(path), None, {"X-Long": "x" * 9000})

    def test_every_status_that_comes_is_in_the_document(self):
        """Nothing above may have been answered with a status that its call does not name."""
        for method, path, operation in self.operations():
            named = set(operation["responses"])
            self.assertIn("503", named, path)
            self.assertIn("431", named, path)
            if "requestBody" in operation:
                self.assertLessEqual({"413", "415"}, named, path)


class ChangesTest(DaemonCase):
    """What a change leaves behind must be what a create allows."""

    # proves: key
    def test_keys_are_text(self):
        for key in ("%ff", "%fe", "a%c3"):
            problem = self.call(422, "PUT", f"/v1/keys/{key}/timer", {"after": "1h", "target": "queue:a"})[1]
            self.assertIn("UTF-8", str(problem))

    # proves: strict-order
    def test_several_targets_have_no_order(self):
        """An item of the strict order that gets several targets leaves it, and blocks nothing behind it."""
        timer = self.create(target="queue:q", order="strict")
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}", {"targets": ["queue:q", "http://127.0.0.1:9/never"]})
        self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")
        self.create(target="queue:q", order="strict", after="0s")
        found = []
        harness.wait_until(lambda: found.extend(self.call(200, "POST", "/v1/queues/q/lease", {"max": 10})[1]["items"]) or
                           len(found) == 2, 20, "both are leased")


class RateTest(Document):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="tickwheel-e2e-")
        cls.addClassCleanup(shutil.rmtree, folder)
        made = subprocess.run([harness.find("tickwheeld"), "--make-token", "shop", "schedule,read,admin"],
                              capture_output=True, text=True, check=True)
        cls.token, line = made.stdout.splitlines()
        with open(os.path.join(folder, "tokens"), "w", encoding="utf-8") as file:
            file.write(line + "\nlimit shop rate=1 burst=1\n")
        cls.start("--tokens-file", os.path.join(folder, "tokens"))

    # proves: tenant-rate, rate-exceeded
    def test_a_rate_bounds_every_call(self):
        """One drop a second: of three requests in a row at least one is over it, whatever it asks for."""
        limited = 0
        for method, path, operation in self.operations():
            if path == "/v1/events":  # which answers as long as the client listens
                continue
            if "429" not in operation["responses"]:
                self.assertFalse(path.startswith("/v1/"), path)
                continue
            where = self.path_of(path) + ("?" + QUERIES[path] if path in QUERIES else "")
            for _ in range(5):  # a machine may be so slow that drops come in between
                answers = [self.daemon.call(method, where, None, {"Authorization": f"Bearer {self.token}"})
                           for _ in range(3)]
                refused = [answer for answer in answers if answer[0] == 429]
                if refused:
                    break
            self.assertTrue(refused, (method, path))
            for _, fields, problem in refused:
                self.assertEqual((fields["Retry-After"], problem["type"]), ("1", "/problems/rate-exceeded"), path)
                self.assertEqual((fields["RateLimit-Policy"], fields["RateLimit"]), ('"rate";q=1;w=1', '"rate";r=0;t=1'))
                self.assertEqual(problem["detail"], "The limit is 1 requests per second; try again in 1 s")
            limited += 1
        self.assertGreater(limited, 15)


if __name__ == "__main__":
    unittest.main()
