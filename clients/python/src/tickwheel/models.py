"""What the service answers, as values. `json` has the whole of an answer, also what a newer server adds."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, List, Mapping, Optional, TypedDict, Union

Json = Mapping[str, Any]
#: "90s", "1h30m", or a timedelta. A bare number is refused: it has no unit.
Duration = Union[str, timedelta]
#: An RFC 3339 text, milliseconds since 1970, or a datetime with a time zone.
Instant = Union[str, int, datetime]

_PART = re.compile(r"(\d+)(ms|[smhdw])")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
#: Each unit once, the larger before the smaller.
_WHOLE = re.compile(r"([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?")
_WITH_ZONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]+([Zz]|[+-][0-9]{2}:[0-9]{2})")
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


def duration(value: Duration) -> str:
    """A timedelta is rounded up to the millisecond, as the service rounds."""
    if isinstance(value, timedelta):
        return f"{-(-value // timedelta(milliseconds=1))}ms"
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no duration: write a text with units, such as '30s', or a timedelta")
    return value


def seconds(value: Duration) -> float:
    """The length of a duration, for time-outs of this side; what the service will refuse counts as none."""
    return sum(int(number) * _SECONDS[unit] for number, unit in _PART.findall(duration(value)))


def milliseconds(value: Duration) -> int:
    """The length of a duration; raises ValueError for what the service would refuse."""
    text = duration(value)
    if not text or not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is no duration: write whole numbers with units, such as '90s' or '1h30m'")
    return sum(int(number) * int(1000 * _SECONDS[unit]) for number, unit in _PART.findall(text))


def instant_text(value: Instant) -> str:
    """RFC 3339, from milliseconds too; raises ValueError for a text without a zone."""
    value = instant(value)
    if isinstance(value, int):
        return instant_text(datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=value))
    if not _WITH_ZONE.fullmatch(value):
        raise ValueError(f"{value!r} is no instant: write RFC 3339 with a zone, such as '2027-01-31T09:00:00Z'")
    return value


class RetryPolicy(TypedDict, total=False):
    """How often and when a delivery that failed is tried again."""

    max_attempts: int
    base: Duration
    cap: Duration
    timeout: Duration
    give_up_after: Duration
    until: str


class Late(TypedDict, total=False):
    """What becomes of a firing that is too late."""

    drop_after: Duration
    missed: str


class Spread(TypedDict):
    """Moves every firing by a fixed part of the window."""

    window: Duration


Debounce = TypedDict("Debounce", {"for": Duration, "at_most": Duration})
"""In place of a time: so long after the last create or put with the key, no later than so long after the first."""


class Report(TypedDict):
    """Where the end of a firing is reported."""

    target: str


class FlowKey(TypedDict):
    """The key that timers of a flow share."""

    key: str


class Flow(FlowKey, total=False):
    """How many timers with this key run at a time, or start in a period."""

    concurrency: int
    rate: Union[int, str]
    period: Duration


class TimerFields(TypedDict, total=False):
    """The fields of a timer, see docs/api.md#create."""

    after: Optional[Duration]
    at: Optional[Instant]
    every: Optional[Duration]
    count: Optional[int]
    cron: Optional[str]
    timezone: Optional[str]
    dst: Optional[str]
    until: Optional[Instant]
    late: Optional[Late]
    spread: Optional[Spread]
    overlap: Optional[str]
    except_: Optional[List[str]]  # `except` in the API
    only: Optional[List[str]]
    on_holiday: Optional[str]
    method: Optional[str]
    ack_timeout: Optional[Duration]
    payload: Any
    body: Optional[bytes]
    content_type: Optional[str]
    headers: Optional[Mapping[str, Optional[str]]]
    labels: Optional[Mapping[str, Optional[str]]]
    retry: Optional[RetryPolicy]
    watch: Optional[List[str]]
    flow: Optional[Flow]
    order: Optional[str]
    on_dead: Optional[Report]
    on_success: Optional[Report]


class PutFields(TimerFields, total=False):
    """Those of a timer that is put by its key."""

    debounce: Optional[Debounce]


class CreateFields(PutFields, total=False):
    """Those of a new timer."""

    key: Optional[str]


class PatchFields(TimerFields, total=False):
    """Those of a change: None removes."""

    target: str
    targets: List[str]


def _data(json: Json) -> Optional[bytes]:
    return base64.b64decode(json["body_base64"]) if "body_base64" in json else None


@dataclass(frozen=True)
class TargetOutcome:
    """One of several targets of a timer, and how it stands in the last firing."""

    target: str
    state: str  #: scheduled, delivering, fired, dead or cancelled
    id: Optional[str]  #: of the timer that delivers to it, its part
    attempts: int
    last_error: Optional[str]
    json: Json

    @classmethod
    def from_json(cls, json: Json) -> TargetOutcome:
        return cls(target=json["target"], state=json["state"], id=json.get("id"), attempts=json.get("attempts", 0),
                   last_error=json.get("last_error"), json=json)


@dataclass(frozen=True)
class Timer:
    """A timer as the service shows it."""

    id: str
    state: str  #: scheduled, delivering, retrying, fired, cancelled or dead
    version: int
    due: datetime
    target: str  #: empty if it has several
    targets: List[TargetOutcome]  #: empty if it has one target
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
                   target=json.get("target", ""),
                   targets=[TargetOutcome.from_json(one) for one in json.get("targets", [])],
                   method=json.get("method"), attempts=json["attempts"], key=json.get("key"),
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
class Event:
    """What happened, see docs/api.md#watching. `lost`: events are missing here."""

    id: str  #: for `last_event_id` of a later stream
    type: str
    timer: Optional[Timer]  #: as it was then, without payload and headers
    name: Optional[str]  #: of a queue or a target
    json: Json


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
