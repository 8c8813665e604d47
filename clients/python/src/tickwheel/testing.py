"""Tests of schedules: a daemon whose clock stands until it is moved, and a receiver that records.

    with VirtualTickwheel("2027-03-01T00:00Z") as tickwheel:
        tickwheel.client.create(tickwheel.url("/remind"), cron="0 9 * * *", timezone="Europe/Berlin")
        tickwheel.advance("31d")
        assert len(tickwheel.delivered("/remind")) == 31

The daemon is the program that TICKWHEELD names, or `tickwheeld` in PATH. It and its folder end with the block.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Callable, Mapping

import httpx

from .client import Client

START_S = 60.0  # how long a start may take


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@dataclass(frozen=True)
class Delivery:
    """A webhook that arrived; `due` is when it was due, `status` what it was answered."""

    path: str
    due: datetime
    attempt: int
    headers: Mapping[str, str]
    body: bytes
    status: int

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Advanced:
    """What happened since the last advance; `failed` counts attempts."""

    now: datetime
    fired: int
    delivered: int
    failed: int


class _Receiver(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Delivery] = []
        self.answer: Callable[[str], int] = lambda path: 200


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Receiver

    def take(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = self.server.answer(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.received.append(Delivery(self.path, _time(headers["tickwheel-due"]),
                                             int(headers["tickwheel-attempt"]), headers, body, status))
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_PUT = do_PATCH = do_GET = do_DELETE = take

    def log_message(self, format: str, *args: Any) -> None:
        pass


class VirtualTickwheel:
    """A daemon with a virtual clock that starts at `start`; `flags` are further flags of tickwheeld."""

    def __init__(self, start: str = "2027-01-01T00:00Z", *flags: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="tickwheel-virtual-")
        program = os.environ.get("TICKWHEELD") or "tickwheeld"
        # TICKWHEEL_... would be settings of the daemon
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TICKWHEEL_")}
        with open(os.path.join(self._folder, "log"), "wb") as log:
            try:
                self._daemon = subprocess.Popen(
                    [program, "--clock", f"virtual={start}", "--listen-port", "0", "--data-folder",
                     os.path.join(self._folder, "data"), *flags],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, env=environment)
            except OSError:
                shutil.rmtree(self._folder)
                raise
        self._receiver = _Receiver()
        self._thread = threading.Thread(target=self._receiver.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        try:
            self.daemon_url = self._await_start()
            self.client = Client(self.daemon_url)
            self._http = httpx.Client(base_url=self.daemon_url, timeout=60)
        except BaseException:
            self._end()
            raise

    def _await_start(self) -> str:
        """The URL of the daemon, once it is ready."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            with open(os.path.join(self._folder, "log"), encoding="utf-8", errors="replace") as file:
                log = file.read()
            if self._daemon.poll() is not None:
                raise RuntimeError(f"tickwheeld ended with {self._daemon.returncode}: {log}")
            if found := re.search(r"event=started listen=(\S+)", log):
                url = f"http://{found[1]}"
                if httpx.get(f"{url}/readyz").status_code == 200:
                    return url
            time.sleep(0.005)
        raise TimeoutError("tickwheeld did not start")

    def url(self, path: str = "/") -> str:
        """The target of webhooks that are recorded."""
        return f"http://127.0.0.1:{self._receiver.server_address[1]}{path}"

    def answer(self, status: int | Callable[[str], int]) -> None:
        """Sets the status that webhooks get, 200 at first, or a function that gets the path and returns it."""
        self._receiver.answer = status if callable(status) else lambda path: status

    @property
    def now(self) -> datetime:
        """The time of timers."""
        return _time(self._http.get("/v1/clock").raise_for_status().json()["now"])

    def advance(self, by: str | None = None, *, to: str | datetime | None = None) -> Advanced:
        """Lets time pass: `by` a duration such as "3d", `to` a time or "next". Returns when everything due is done."""
        if (by is None) == (to is None):
            raise TypeError("give one of by and to")
        body: dict[str, str | None] = {"by": by} if by is not None else {"to": to.isoformat() if isinstance(to, datetime) else to}
        sums = [0, 0, 0]
        while True:
            response = self._http.post("/v1/clock/advance", json=body)
            if response.is_error:
                raise ValueError(response.json()["detail"])
            answer = response.json()
            sums = [sum + answer[name] for sum, name in zip(sums, ("fired", "delivered", "failed"))]
            if answer["done"]:
                return Advanced(_time(answer["now"]), *sums)
            body = {"to": answer["to"]}

    def received(self, path: str | None = None) -> list[Delivery]:
        """Every webhook that came, of this path or of all, in order."""
        return [one for one in list(self._receiver.received) if path in (None, one.path)]

    def delivered(self, path: str | None = None) -> list[Delivery]:
        """Those that were answered with success."""
        return [one for one in self.received(path) if 200 <= one.status < 300]

    def _end(self) -> None:
        self._daemon.kill()
        self._daemon.wait()
        self._receiver.shutdown()
        self._thread.join()
        self._receiver.server_close()
        shutil.rmtree(self._folder)

    def close(self) -> None:
        """Ends the daemon and the receiver, and removes the folder."""
        self.client.close()
        self._http.close()
        self._end()

    def __enter__(self) -> VirtualTickwheel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
