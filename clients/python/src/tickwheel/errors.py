"""What can go wrong. Every error of the package is a TickwheelError.

An error of the server is a Problem with the `type` of docs/api.md#errors; the types that a program tells apart have a
class of their own. An error without an answer is Unreachable, UnknownOutcome or BadAnswer.
"""

from __future__ import annotations

from typing import Any, Mapping

from .models import Timer


class TickwheelError(Exception):
    """The base of all errors of this package. `type` is the last part of the problem's type."""

    type = "error"


class Unreachable(TickwheelError):
    """No answer came, and the request has no effect that a repetition would double."""

    type = "unreachable"


class UnknownOutcome(TickwheelError):
    """A conditional change was sent, its answer was lost, and the condition no longer holds: either this change took
    effect or another one. Read the timer."""

    type = "unknown-outcome"


class BadAnswer(TickwheelError):
    """The answer is not one of tickwheeld: a proxy, or another server."""

    type = "bad-answer"


class Problem(TickwheelError):
    """An error of the server: `application/problem+json`."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.type = str(body.get("type", "")).rpartition("/")[2]
        self.status = int(body.get("status", 0))
        self.title = str(body.get("title", ""))
        self.detail = str(body.get("detail", ""))
        #: Every wrong field, as `{"pointer" or "parameter": ..., "detail": ...}`.
        self.errors: list[Mapping[str, str]] = list(body.get("errors", []))
        timer = body.get("timer")
        #: The timer that the problem is about, where the server sends it.
        self.timer = Timer.from_json(timer) if isinstance(timer, dict) else None
        super().__init__(f"{self.status} {self.type}: {self.detail or self.title}")


class Refused(Problem):
    """The request can never succeed as it is: 400, 413, 415, 422 and others below 500."""


class Invalid(Refused):
    """422: a field is wrong; `errors` names it."""


class Unauthorized(Refused):
    """401 or 403: no valid token, or one without the scope."""


class NotFound(Refused):
    """404."""


class AlreadyFiring(Refused):
    """409: the timer is being delivered and can be neither changed nor cancelled."""


class KeyInUse(Refused):
    """409: a live timer with other fields has the key; it is `timer`."""


class VersionMismatch(Refused):
    """412: the timer has another version than `if_version`."""


class Gone(Refused):
    """410: the timer is fired, cancelled or dead; `timer` has its last state."""


class TooMany(Problem):
    """429: a limit on the number or the rate of timers, after all retries."""


class Unavailable(Problem):
    """503 or another status from 500 on, after all retries. After `io` or `in-doubt` a change may have been made."""


_BY_TYPE = {
    "invalid": Invalid, "not-found": NotFound, "already-firing": AlreadyFiring, "key-in-use": KeyInUse,
    "version-mismatch": VersionMismatch, "gone": Gone, "unauthenticated": Unauthorized, "forbidden": Unauthorized,
    "too-many": TooMany, "rate-exceeded": TooMany,
}


def problem(body: Mapping[str, Any]) -> Problem:
    """The error for a problem of the server."""
    name = str(body.get("type", "")).rpartition("/")[2]
    if name in _BY_TYPE:
        return _BY_TYPE[name](body)
    return (Unavailable if int(body.get("status", 0)) >= 500 else Refused)(body)
