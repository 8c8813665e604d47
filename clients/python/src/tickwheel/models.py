"""What the service answers, as values. `json` has the whole of an answer, also what a newer server adds."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Mapping, Optional, Union

Json = Mapping[str, Any]
#: "90s", "1h30m", milliseconds, or a timedelta.
Duration = Union[str, int, timedelta]
#: An RFC 3339 text, milliseconds since 1970, or a datetime with a time zone.
Instant = Union[str, int, datetime]

_FRACTION = re.compile(r"\.(\d+)")


def parse_instant(text: str) -> datetime:
    """An instant of the service, in UTC."""
    text = _FRACTION.sub(lambda digits: "." + digits[1].ljust(6, "0")[:6], text)
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def instant(value: Instant) -> Union[str, int]:
    """A datetime with its microseconds: the service rounds up, so the timer is never early."""
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError("a datetime without a time zone is ambiguous: give it one")
    return value.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def duration(value: Duration) -> Union[str, int]:
    """A timedelta is rounded up to the millisecond, as the service rounds."""
    return f"{-(-value // timedelta(milliseconds=1))}ms" if isinstance(value, timedelta) else value


def _data(json: Json) -> Optional[bytes]:
    return base64.b64decode(json["body_base64"]) if "body_base64" in json else None


@dataclass(frozen=True)
class Timer:
    """A timer as the service shows it."""

    id: str
    state: str  #: scheduled, delivering, retrying, fired, cancelled or dead
    version: int
    due: datetime
    target: str
    method: Optional[str]  #: of a webhook; None: POST
    attempts: int
    key: Optional[str]
    payload: Any
    body: Optional[bytes]  #: instead of the payload, when the timer was created with a body
    labels: Mapping[str, str]
    last_error: Optional[str]
    json: Json

    @classmethod
    def from_json(cls, json: Json) -> Timer:
        return cls(id=json["id"], state=json["state"], version=json["version"], due=parse_instant(json["due"]),
                   target=json["target"], method=json.get("method"), attempts=json["attempts"], key=json.get("key"),
                   payload=json.get("payload"), body=_data(json), labels=json.get("labels", {}),
                   last_error=json.get("last_error"), json=json)


@dataclass(frozen=True)
class Item:
    """An item of a queue, leased to this worker until `leased_until`."""

    receipt: str
    id: str
    due: datetime
    attempt: int
    payload: Any
    body: Optional[bytes]
    headers: Mapping[str, str]
    labels: Mapping[str, str]
    last_error: Optional[str]
    leased_until: datetime
    json: Json

    @classmethod
    def from_json(cls, json: Json, leased_until: datetime) -> Item:
        return cls(receipt=json["receipt"], id=json["id"], due=parse_instant(json["due"]), attempt=json["attempt"],
                   payload=json.get("payload"), body=_data(json), headers=json.get("headers", {}),
                   labels=json.get("labels", {}), last_error=json.get("last_error"), leased_until=leased_until,
                   json=json)


@dataclass(frozen=True)
class BatchResult:
    """One timer of a batch: it was created (or existed), or it failed alone."""

    id: Optional[str]
    existed: bool
    error: Optional[Exception]  #: a Problem


@dataclass(frozen=True)
class Run:
    """A past firing of a timer that repeats."""

    planned: datetime
    outcome: str
    attempts: int
    json: Json

    @classmethod
    def from_json(cls, json: Json) -> Run:
        return cls(parse_instant(json["planned"]), json["outcome"], json["attempts"], json)


@dataclass(frozen=True)
class Forecast:
    """Timers due in each unit from `start` on."""

    start: datetime
    end: datetime
    unit: str
    due: list[int]
    overdue: int
    complete: bool
    json: Json

    @classmethod
    def from_json(cls, json: Json) -> Forecast:
        return cls(parse_instant(json["from"]), parse_instant(json["until"]), json["unit"], list(json["due"]),
                   json["overdue"], json["complete"], json)


@dataclass(frozen=True)
class DeadGroup:
    """Dead letters with one origin and one error."""

    origin: str
    error: str
    count: int
    example: str
    json: Json

    @classmethod
    def from_json(cls, json: Json) -> DeadGroup:
        return cls(json["origin"], json["error"], json["count"], json["example"], json)
