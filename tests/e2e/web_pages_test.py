#!/usr/bin/env python3
"""Web pages cannot use the API of a daemon that their reader runs. The headers that browsers send, by hand; then a
headless Chromium with a page that rebinds its name to the daemon's address, and one of another origin that posts."""

import http.server
import json
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from browser import Browser
from daemon_case import DaemonCase

TARGET = "http://127.0.0.1:9/never"
REFUSED = 'tickwheel_refused_total{reason="foreign-site"}'
NDJSON = {"Content-Type": "application/x-ndjson"}
LINE = json.dumps({"after": "1h", "target": TARGET}) + "\n"
# What changes something, with and without a body.
CHANGES = [
    ("POST", "/v1/timers", {"after": "1h", "target": TARGET}, {}),
    ("POST", "/v1/timers/batch", LINE * 100, NDJSON),
    ("PUT", "/v1/keys/other/timer", {"after": "1h", "target": TARGET}, {}),
    ("DELETE", "/v1/keys/mine/timer", None, {}),
    ("POST", "/v1/watch/event/complete", None, {}),
    ("POST", "/v1/queues/q/lease", {"max": 1}, {}),
    ("POST", "/v1/admin/backup", None, {}),
]
READS = [("GET", "/v1/timers"), ("GET", "/v1/keys/mine/timer"), ("GET", "/metrics"), ("GET", "/openapi.json"),
         ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/"), ("HEAD", "/v1/timers")]


class WebPagesTest(DaemonCase):
    def setUp(self):
        super().setUp()
        self.create(target=TARGET, key="mine", watch=["event"])

    def assert_nothing_changed(self):
        timers = self.call(200, "GET", "/v1/timers")[1]["timers"]
        self.assertEqual([timer["key"] for timer in timers], ["mine"])
        self.assertEqual(self.daemon.metric("tickwheel_backups_failed_total"), 0)

    def assert_refused(self, method, path, body, headers, setting):
        status, fields, problem = self.daemon.call(method, path, body, headers)
        self.assertEqual(status, 403, f"{method} {path} {headers}: {problem}")
        if method != "HEAD":
            self.assertEqual((fields["Content-Type"], problem["type"]),
                             ("application/problem+json", "/problems/foreign-site"))
            self.assertIn(setting, problem["detail"])

    # proves: foreign-host
    def test_every_call_needs_a_host_of_this_server(self):
        for host in ("evil.example", f"evil.example:{self.daemon.port}", "localhost.evil.example", "10.0.0.5", ""):
            for method, path, body, headers in [*CHANGES, *((*read, None, {}) for read in READS)]:
                self.assert_refused(method, path, body, {**headers, "Host": host}, "allowed_hosts")
        self.assert_nothing_changed()
        self.assertEqual(self.daemon.metric(REFUSED), 5 * (len(CHANGES) + len(READS)))
        for host in ("localhost", f"LOCALHOST:{self.daemon.port}", "127.0.0.1:1", "127.9.9.9", "[::1]"):
            for method, path in READS:
                self.assertEqual(self.daemon.call(method, path, None, {"Host": host})[0], 200, host)
        self.restart("--allowed-hosts", "timers.example,10.0.0.5")
        for host, status in (("timers.example", 200), ("10.0.0.5:80", 200), ("evil.example", 403)):
            self.assertEqual(self.daemon.call("GET", "/v1/timers", None, {"Host": host})[0], status)

    # proves: foreign-host
    def test_the_host_of_a_target_counts_too(self):
        for target, status in (("http://evil.example/v1/timers", 403), ("http://localhost/v1/timers", 200)):
            self.assertEqual(self.daemon.call("GET", target)[0], status)

    # proves: foreign-page
    def test_pages_of_other_origins_change_nothing(self):
        own = f"http://127.0.0.1:{self.daemon.port}"
        foreign = [{"Origin": origin} for origin in ("http://evil.example", "null", "http://127.0.0.1:9",
                                                     f"http://localhost:{self.daemon.port}")]
        foreign += [{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site")]
        foreign += [{"Origin": own, "Sec-Fetch-Site": "cross-site"}]
        for page in foreign:
            for method, path, body, headers in CHANGES:
                self.assert_refused(method, path, body, {**headers, **page}, "allowed_origins")
            for method, path in READS:
                self.assertEqual(self.daemon.call(method, path, None, page)[0], 200)  # the page cannot see it
        self.assert_nothing_changed()

    # proves: foreign-page
    def test_pages_of_this_server_go_on(self):
        self.restart("--allowed-origins", "https://shop.example")
        own = f"http://127.0.0.1:{self.daemon.port}"
        pages = [{}, {"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
                 {"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}]
        for page in pages:
            self.call(201, "POST", "/v1/timers", {"after": "1h", "target": TARGET}, page)
            self.assertEqual(self.call(200, "POST", "/v1/timers/batch", LINE * 3, {**NDJSON, **page})[1].count("id"), 3)

    # proves: foreign-page
    def test_a_batch_is_refused_before_its_lines(self):
        """The answer comes while the body is still to come."""
        connection = self.daemon.connect()
        connection.putrequest("POST", "/v1/timers/batch")
        for name, value in {**NDJSON, "Content-Length": str(1 << 20), "Origin": "http://evil.example"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(LINE.encode())
        self.assertEqual(connection.getresponse().status, 403)
        connection.close()
        self.assert_nothing_changed()


class Pages(http.server.BaseHTTPRequestHandler):
    """Any path is an empty page."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html><title>page</title>")

    def log_message(self, *_):
        pass


class BrowserTest(DaemonCase):
    """A reader of web pages runs a daemon as `make run` does."""

    def setUp(self):
        super().setUp()
        self.create(target=TARGET, key="mine", watch=["event"], payload="secret")
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        self.site_port = site.server_address[1]
        self.browser = Browser({name: "127.0.0.1" for name in ("evil.test", "rebound.test")})
        self.addCleanup(self.browser.close)

    def fetch(self, url, **options):
        """Status and text as the page sees them; None when the browser hides them or does not send."""
        return self.browser.run(f"""fetch({json.dumps(url)}, {json.dumps(options)}).then(
            answer => answer.text().then(text => [answer.status, text])).catch(() => null)""")

    def timers(self):
        return [(timer.get("key"), timer["state"]) for timer in self.call(200, "GET", "/v1/timers")[1]["timers"]]

    # proves: foreign-host
    def test_rebinding(self):
        """The name of the page has become an address of the daemon, so that both are of one origin."""
        self.browser.open(f"http://rebound.test:{self.daemon.port}/healthz")
        self.assertEqual(self.browser.run("location.hostname"), "rebound.test")
        as_json = {"Content-Type": "application/json"}
        for path, options in (("/v1/timers", {}),
                              ("/v1/keys/mine/timer", {}),
                              ("/metrics", {}),
                              ("/v1/timers", {"method": "POST", "headers": as_json,
                                              "body": json.dumps({"after": "1h", "target": TARGET})}),
                              ("/v1/watch/event/complete", {"method": "POST"}),
                              ("/v1/keys/mine/timer", {"method": "DELETE"})):
            status, text = self.fetch(path, **options)
            self.assertEqual((status, json.loads(text)["type"]), (403, "/problems/foreign-site"), (path, text))
            self.assertNotIn("secret", text)
        self.assertEqual(self.timers(), [("mine", "scheduled")])

    # proves: foreign-page
    def test_posts_of_other_pages(self):
        """Pages of another name, and of this machine's names on another port."""
        asked, before = 0, self.timers()
        for page in ("evil.test", "localhost", "127.0.0.1"):
            self.browser.open(f"http://{page}:{self.site_port}/")
            for host in ("127.0.0.1", "localhost"):
                api = f"http://{host}:{self.daemon.port}"
                for path, body in (("/v1/watch/event/complete", None), ("/v1/admin/backup", None),
                                   ("/v1/watch/event/complete", json.dumps({"fire": True})),
                                   ("/v1/timers", json.dumps({"after": "1h", "target": TARGET})),
                                   ("/v1/timers/batch", LINE * 3)):
                    options = {"method": "POST", "mode": "no-cors", **({"body": body} if body else {})}
                    self.assertEqual(self.fetch(api + path, **options), [0, ""], (page, host, path))
                    asked += 1
                self.browser.run(f"""(() => {{
                    const frame = document.createElement("iframe"), form = document.createElement("form");
                    frame.name = "{host}";
                    form.method = "POST";
                    form.target = "{host}";
                    form.action = "{api}/v1/watch/event/complete";
                    document.body.append(frame, form);
                    form.submit();
                }})()""")
                asked += 1
                harness.wait_until(lambda: self.daemon.metric(REFUSED) == asked or self.timers() != before, 30,
                                   f"{asked} refusals")
        self.assertEqual(self.timers(), before)

    def test_a_page_of_the_daemon(self):
        self.browser.open(f"http://localhost:{self.daemon.port}/")
        status, text = self.fetch("/v1/watch/event/complete", method="POST")
        self.assertEqual((status, json.loads(text)["cancelled"]), (200, 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
