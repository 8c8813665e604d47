"""The settings of a client, and the decision whether a call is tried again. Without I/O; client.py sends."""

from __future__ import annotations

import os
import random
from importlib.metadata import version
from typing import Any, AsyncIterator, Iterable, Optional, Union

import httpx

from . import _calls
from ._calls import Answer, Call
from .errors import Problem, TickwheelError, Unreachable

#: The longest pause between two tries, seconds, unless Retry-After asks for more.
PAUSE_MAX = 5.0
#: A longer Retry-After is not waited for: the problem is raised.
RETRY_AFTER_MAX = 60.0


async def in_turn(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    """A body as asynchronous clients want it."""
    for line in lines:
        yield line


class Settings:
    """What both clients have in common: the settings, and the decision about the next try."""

    def __init__(self, url: Optional[str], token: Optional[str], timeout: float, retries: int, pause: float) -> None:
        self.url = (url or os.environ.get("TICKWHEEL_URL") or "http://localhost:8463").rstrip("/")
        self.timeout, self.retries, self.pause = timeout, retries, pause
        token = token or os.environ.get("TICKWHEEL_TOKEN")
        self.headers = {"User-Agent": f"tickwheel-python/{version('tickwheel')}"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def arguments(self, call: Call[Any]) -> dict[str, Any]:
        return {"method": call.method, "url": self.url + call.path, "content": call.body, "params": call.query or None,
                "headers": {**self.headers, **call.headers},
                "timeout": httpx.Timeout(self.timeout, read=self.timeout + call.wait)}

    def pause_after(self, tried: int, retry_after: Optional[str]) -> Optional[float]:
        """How long to wait before the next try; None: there is none."""
        if tried > self.retries:
            return None
        wanted = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
        if wanted > RETRY_AFTER_MAX:
            return None
        return wanted + random.uniform(0, min(PAUSE_MAX, self.pause * 2 ** (tried - 1)))


class Attempts:
    """The tries of one call."""

    def __init__(self, settings: Settings, call: Call[Any]) -> None:
        self.settings, self.call = settings, call
        self.tried, self.was_lost = 0, False

    def failed(self, error: httpx.TransportError) -> float:
        """The pause before the next try after no answer came; raises when there is none."""
        self.tried += 1
        self.was_lost = self.was_lost or not isinstance(error, httpx.ConnectError)
        pause = self.settings.pause_after(self.tried, None) if self.call.is_repeatable else None
        if pause is None:
            raise Unreachable(f"{self.call.method} {self.settings.url}{self.call.path}: {error or repr(error)}") \
                from error
        return pause

    def answered(self, response: httpx.Response) -> Union[float, Answer]:
        """The answer, or the pause before the next try."""
        self.tried += 1
        answer = Answer(response.status_code, response.headers.get("content-type", ""), response.content)
        is_early = answer.status == 409 and self.call.may_be_early
        if is_early or (answer.status in _calls.AGAIN and self.call.is_repeatable):
            pause = self.settings.pause_after(self.tried, response.headers.get("retry-after"))
            if pause is not None and (is_early or self._passes(answer)):
                self.was_lost = self.was_lost or answer.status in (500, 502, 504)
                return pause
        return answer

    @staticmethod
    def _passes(answer: Answer) -> bool:
        try:
            _calls.decode(answer)
        except Problem as error:
            return _calls.is_problem_again(error)
        except TickwheelError:  # a proxy's page
            return True
        return False
