"""A collector of OpenTelemetry for tests: it keeps what the daemon exports, and answers as it is told."""

import http.server
import json
import threading


def plain(attributes):
    """{"name": value} of a list of attributes."""
    return {one["key"]: int(one["value"]["intValue"]) if "intValue" in one["value"] else one["value"]["stringValue"]
            for one in attributes}


class Collector:
    """Listens on a free port. `answers` are (status, headers, body) for the next requests; then all are taken. While
    `open` is not set, requests wait for their answer."""

    def __init__(self, answers=()):
        self.answers, self.requests, self.open = list(answers), [], threading.Event()
        self.open.set()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status, headers, answer = collector.answers.pop(0) if collector.answers else (200, {}, b"{}")
                collector.requests.append((self.path, dict(self.headers.items()), body, status))
                collector.open.wait()
                try:
                    self.send_response(status)
                    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(answer)),
                                        **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(answer)
                except OSError:
                    pass  # the daemon does not wait any more

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a connection that a killed daemon has left
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, path="/v1/traces"):
        return f"http://127.0.0.1:{self.port}{path}"

    def resources(self):
        return [plain(resource["resource"]["attributes"]) for _, _, body, _ in list(self.requests)
                for resource in json.loads(body)["resourceSpans"]]

    def spans(self):
        """The spans of the requests that were taken, with "attributes" as a dictionary."""
        return [{**span, "attributes": plain(span["attributes"])}
                for _, _, body, status in list(self.requests) if status == 200
                for resource in json.loads(body)["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]

    def named(self, name):
        return [span for span in self.spans() if span["name"].split(" ")[0] == name]

    def close(self):
        self.open.set()
        self.server.shutdown()
        self.server.server_close()
