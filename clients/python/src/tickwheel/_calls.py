"""The calls of the API without I/O: what is sent, how often, and what the answer means. client.py sends them."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Iterable, Mapping, Optional, Sequence, TypeVar, Union
from urllib.parse import quote

from .errors import BadAnswer, Problem, UnknownOutcome, VersionMismatch, Gone, problem
from .models import (BatchResult, DeadGroup, Duration, Event, Forecast, Instant, Item, Json, Run, Timer, duration, instant,
                     parse_instant, seconds)

T = TypeVar("T")
Fields = Mapping[str, Any]

#: Statuses after which the request may be sent again: nothing was done, or a repetition does no harm.
AGAIN = (429, 500, 502, 503, 504)
JSON = "application/json"
NDJSON = "application/x-ndjson"


@dataclass
class Answer:
    status: int
    content_type: str
    body: bytes


@dataclass
class Call(Generic[T]):
    """A request, and what its answer means."""

    method: str
    path: str
    parse: Callable[[Any], T]
    body: Optional[Union[bytes, Iterable[bytes]]] = None
    query: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    #: How long the server may take by intention, seconds.
    wait: float = 0
    #: False: a repetition may have a second effect.
    is_repeatable: bool = True
    is_cancel: bool = False
    #: It may come before the service has recorded what it is about.
    may_be_early: bool = False

    def result(self, answer: Answer, was_lost: bool) -> T:
        """The value of an answer, or its error. `was_lost`: an earlier try may have taken effect."""
        try:
            return self.parse(decode(answer))
        except VersionMismatch as error:
            if was_lost:
                raise UnknownOutcome("the answer to a conditional change was lost; read the timer") from error
            raise
        except Gone as error:
            # The try whose answer was lost has cancelled it.
            if self.is_cancel and was_lost and error.timer and error.timer.state == "cancelled":
                return self.parse(error.body["timer"])
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise BadAnswer(f"{self.method} {self.path}: an answer without what it must have: {error!r}") from error


def decode(answer: Answer) -> Any:
    """The JSON of an answer; raises its problem."""
    if answer.status == 204:
        return None
    try:
        if answer.content_type.startswith(NDJSON) and answer.status == 200:
            return [json.loads(line) for line in answer.body.splitlines()]
        if answer.content_type.startswith("text/plain") and answer.status == 200:
            return answer.body.decode()
        body = json.loads(answer.body)
    except ValueError as error:
        raise BadAnswer(f"status {answer.status} with a body that is no JSON") from error
    if answer.status >= 400:
        if not isinstance(body, dict) or "type" not in body:
            raise BadAnswer(f"status {answer.status} without a problem")
        raise problem(body)
    return body


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


#: Fields with members that are durations.
NESTED = {"retry": ("base", "cap", "timeout", "give_up_after"), "late": ("drop_after",), "spread": ("window",),
          "debounce": ("for", "at_most")}


def with_durations(given: Fields, names: Iterable[str]) -> dict[str, Any]:
    return {**given, **{name: duration(given[name]) for name in names if given.get(name) is not None}}


def fields(given: Fields) -> dict[str, Any]:
    """The fields of a create or a change, as the API has them."""
    made = with_durations(given, ("after", "every", "ack_timeout"))
    for name, members in NESTED.items():
        if isinstance(made.get(name), Mapping):
            made[name] = with_durations(made[name], members)
    for name in ("at", "until"):
        if made.get(name) is not None:
            made[name] = instant(made[name])
    if "except_" in made:  # `except` is a word of the language
        made["except"] = made.pop("except_")
    if "body" in made:
        body = made.pop("body")
        made["body_base64"] = None if body is None else base64.b64encode(body).decode()
    return made


def settled(given: Fields) -> dict[str, Any]:
    """The fields of a new timer, or of a time: what is None is left out."""
    return fields({name: value for name, value in given.items() if value is not None})


def to(target: Union[str, Sequence[str]]) -> Json:
    """The field of a target, or of several."""
    return {"target": target} if isinstance(target, str) else {"targets": list(target)}


def by(id: Optional[str], key: Optional[str], call: str = "") -> str:
    """The path of a timer, by id or by key."""
    if (id is None) == (key is None):
        raise ValueError("give the id or the key of the timer")
    if id is not None:
        return f"/v1/timers/{quote(id, safe='')}{call}"
    assert key is not None
    if key in (".", "..") or any(each in key for each in "/\\%;"):  # a proxy may decode it
        return f"/v1/key{call or '/timer'}?key={quote(key, safe='')}"
    return f"/v1/keys/{quote(key, safe='')}{call or '/timer'}"


def _post(path: str, body: Any, parse: Callable[[Any], T], **rest: Any) -> Call[T]:
    return Call("POST", path, parse, encode(body), headers={"Content-Type": JSON}, **rest)


def _condition(headers: dict[str, str], if_version: Optional[int]) -> dict[str, str]:
    return headers if if_version is None else {**headers, "If-Match": f'"{if_version}"'}


def create(given: Fields, idempotency_key: Optional[str]) -> Call[Timer]:
    call = _post("/v1/timers", given, Timer.from_json)
    call.headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    return call


def put(key: str, given: Fields, if_version: Optional[int]) -> Call[Timer]:
    return Call("PUT", by(None, key), Timer.from_json, encode(given),
                headers=_condition({"Content-Type": JSON}, if_version))


def get(id: Optional[str], key: Optional[str]) -> Call[Timer]:
    return Call("GET", by(id, key), Timer.from_json)


def change(id: Optional[str], key: Optional[str], patch: Fields, if_version: Optional[int]) -> Call[Timer]:
    return Call("PATCH", by(id, key), Timer.from_json, encode(patch),
                headers=_condition({"Content-Type": "application/merge-patch+json"}, if_version))


def touch(id: Optional[str], key: Optional[str], time: Fields, if_version: Optional[int]) -> Call[Timer]:
    call = _post(by(id, key, "/touch"), time, Timer.from_json)
    call.headers = _condition(call.headers, if_version)
    return call


def cancel(id: Optional[str], key: Optional[str], if_version: Optional[int]) -> Call[Timer]:
    return Call("DELETE", by(id, key), Timer.from_json, headers=_condition({}, if_version), is_cancel=True)


def act(id: Optional[str], key: Optional[str], verb: str, given: Optional[Fields],
        if_version: Optional[int]) -> Call[Timer]:
    """`fire`, `pause`, `resume` or `release` of one timer. A second `fire` or `release` may hit the next attempt, unless a
    version guards it."""
    call = ask("POST", by(id, key, f"/{verb}"), given)
    return Call(call.method, call.path, Timer.from_json, call.body, headers=_condition(call.headers, if_version),
                is_repeatable=verb not in ("fire", "release") or if_version is not None)


def backfill(id: Optional[str], key: Optional[str], start: Instant, end: Instant, rate: Optional[str],
             idempotency_key: Optional[str]) -> Call[Timer]:
    call = ask("POST", by(id, key, "/backfill"), {"from": instant(start), "to": instant(end), "rate": rate})
    headers = {**call.headers, "Idempotency-Key": idempotency_key or str(uuid.uuid4())}
    return Call(call.method, call.path, Timer.from_json, call.body, headers=headers)


def backfill_count(id: Optional[str], key: Optional[str], start: Instant, end: Instant) -> Call[Json]:
    return ask("POST", by(id, key, "/backfill"), {"from": instant(start), "to": instant(end), "dry_run": True})


def ask(method: str, path: str, given: Optional[Fields] = None, query: Iterable[tuple[str, str]] = ()) -> Call[Json]:
    """A call whose answer is handed out as it is. What is None in `given` is left out."""
    if given is None:
        return Call(method, path, dict, query=list(query))
    return Call(method, path, dict, encode({name: value for name, value in given.items() if value is not None}),
                query=list(query), headers={"Content-Type": JSON})


def hold(kind: str, name: str, verb: str, given: Optional[Fields] = None) -> Call[Json]:
    """`pause`, `resume` or `reset` of one of the `queues` or `targets`."""
    return ask("POST", f"/v1/{kind}/{quote(name, safe='')}/{verb}", given)


def flow(method: str, key: str, given: Optional[Fields] = None) -> Call[Json]:
    return ask(method, f"/v1/flows/{quote(key, safe='')}", given)


def named_target(method: str, name: str, given: Optional[Fields] = None, if_version: Optional[int] = None) -> Call[Json]:
    call = ask(method, f"/v1/named-targets/{quote(name, safe='')}", given)
    call.headers = _condition(call.headers, if_version)
    return call


def rotate_named_target(name: str, given: Fields) -> Call[Json]:
    call = ask("POST", f"/v1/named-targets/{quote(name, safe='')}/rotate", given)
    call.is_repeatable = False  # a second one would end the secrets of before
    return call


def rotate_token_keys(given: Fields) -> Call[Json]:
    call = ask("POST", "/v1/token-keys/rotate", {name: value for name, value in given.items() if value is not None})
    call.is_repeatable = False  # each makes a key
    return call


def calendar(method: str, name: str) -> Call[Json]:
    return ask(method, f"/v1/calendars/{quote(name, safe='')}")


def put_calendar(name: str, days: Iterable[Union[str, Json]]) -> Call[Json]:
    return Call("PUT", f"/v1/calendars/{quote(name, safe='')}", dict, encode(list(days)), headers={"Content-Type": JSON})


def answer(url: str, verb: str, given: Optional[Fields] = None) -> Call[None]:
    name = url.split("?")[0].rstrip("/").rpartition("/")[2]  # the rest of a webhook's URL is not trusted
    return Call("POST", f"/answers/{quote(name, safe='')}/{verb}", lambda _: None, encode(given or {}),
                headers={"Content-Type": JSON}, may_be_early=True)


def queue(name: str) -> Call[Json]:
    return ask("GET", f"/v1/queues/{quote(name, safe='')}")


def pause(note: Optional[str], until: Optional[Instant]) -> Fields:
    return {"note": note, "until": None if until is None else instant(until)}


def peek(queue: str, max: int) -> Call[list[Timer]]:
    return Call("GET", f"/v1/queues/{quote(queue, safe='')}/peek",
                lambda body: [Timer.from_json(timer) for timer in body["timers"]], query=[("limit", str(max))])


def many(verb: str, selection: Fields) -> Call[Json]:
    call = ask("POST", f"/v1/timers/{verb}", selection)
    call.is_repeatable = verb != "fire"
    return call


def complete(event: str, fire: bool) -> Call[Json]:
    return _post(f"/v1/watch/{quote(event, safe='')}/complete", {"fire": True} if fire else {}, dict)


def complete_many(events: Iterable[str], fire: bool) -> Call[Json]:
    return _post("/v1/watch/complete", {"watch": list(events), **({"fire": True} if fire else {})}, dict)


def page(path: str, name: str, parse: Callable[[Any], T], query: list[tuple[str, str]],
         cursor: Optional[str]) -> Call[tuple[list[T], Optional[str]]]:
    """A page of what `name` lists in the answer."""
    return Call("GET", path, lambda body: ([parse(one) for one in body[name]], body["next"]),
                query=query + ([("cursor", cursor)] if cursor else []))


def label_filter(name: str, value: str) -> str:
    """A name that has a colon is written in quotes."""
    if ":" in name or name.startswith('"'):
        name = '"' + name.replace('"', '""') + '"'
    return f"{name}:{value}"


def filters(*, states: Iterable[str] = (), labels: Mapping[str, str] = {}, target: Optional[str] = None,
            origin: Optional[str] = None, error: Optional[str] = None, due_after: Optional[Instant] = None,
            due_before: Optional[Instant] = None, since: Optional[Instant] = None, page_size: Optional[int] = None,
            **others: Optional[str]) -> list[tuple[str, str]]:
    query = [("state", state) for state in states] + [("label", label_filter(name, value)) for name, value in labels.items()]
    for name, text in {"target": target, "origin": origin, "error": error, **others}.items():
        if text is not None:
            query.append((name, text))
    for name, moment in (("due_after", due_after), ("due_before", due_before), ("since", since)):
        if moment is not None:
            query.append((name, str(instant(moment))))
    if page_size is not None:
        query.append(("limit", str(page_size)))
    return query


def batch(timers: Iterable[Fields]) -> Call[list[BatchResult]]:
    """A stream of lines is not repeatable: what was read from it is gone."""
    lines = (encode(fields(given)) + b"\n" for given in timers)
    return Call("POST", "/v1/timers/batch", lambda body: [batch_result(line) for line in body], lines,
                headers={"Content-Type": NDJSON}, is_repeatable=False)


def batch_result(line: Json) -> BatchResult:
    if "id" in line:
        return BatchResult(line["id"], bool(line.get("existed", False)), None)
    return BatchResult(None, False, problem(line))


def preview(query: Mapping[str, str]) -> Call[list[str]]:
    return Call("GET", "/v1/schedule/preview", lambda body: list(body["instants"]), query=list(query.items()))


def runs(id: str) -> Call[list[Run]]:
    return Call("GET", by(id, None, "/runs"), lambda body: [Run.from_json(run) for run in body["runs"]])


def explain(id: str) -> Call[Json]:
    return Call("GET", by(id, None, "/explain"), dict)


def forecast(unit: str, count: int) -> Call[Forecast]:
    return Call("GET", "/v1/forecast", Forecast.from_json, query=[("unit", unit), ("count", str(count))])


def lease(queue: str, max: int, wait: Duration, lease: Duration) -> Call[list[Item]]:
    def parse(body: Json) -> list[Item]:
        until = parse_instant(body["leased_until"]) if body["items"] else None
        return [Item.from_json(item, until) for item in body["items"] if until]

    given = {"max": max, "wait": duration(wait), "lease": duration(lease)}
    return _post(f"/v1/queues/{quote(queue, safe='')}/lease", given, parse, wait=seconds(wait))


def receipts(queue: str, verb: str, given: Iterable[Union[Item, str]], others: Fields) -> Call[list[str]]:
    body = {"receipts": [item.receipt if isinstance(item, Item) else item for item in given],
            **{name: value for name, value in others.items() if value is not None}}
    return _post(f"/v1/queues/{quote(queue, safe='')}/{verb}", body, lambda answer: list(answer["results"]))


def dead_groups(query: list[tuple[str, str]]) -> Call[list[DeadGroup]]:
    return Call("GET", "/v1/dead/groups", lambda body: [DeadGroup.from_json(group) for group in body["groups"]],
                query=query)


def dead_redrive(selection: Fields, cursor: Optional[str]) -> Call[Json]:
    given = {name: value for name, value in selection.items() if value is not None}
    return _post("/v1/dead/redrive", {**given, **({"cursor": cursor} if cursor else {})}, dict)


def dead_delete(query: list[tuple[str, str]], cursor: Optional[str]) -> Call[Json]:
    return Call("DELETE", "/v1/dead", dict, query=query + ([("cursor", cursor)] if cursor else []))


def delete_dead(id: str) -> Call[Timer]:
    return Call("DELETE", f"/v1/dead/{quote(id, safe='')}", Timer.from_json)


def events(query: list[tuple[str, str]], last_event_id: Optional[str]) -> Call[Json]:
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_event_id} if last_event_id else {})}
    return Call("GET", "/v1/events", dict, query=query, headers=headers)


class EventReader:
    """Makes events of the lines of a stream (server-sent events)."""

    def __init__(self) -> None:
        self._id, self._type, self._data = "", "", ""

    def line(self, line: str) -> Optional[Event]:
        """The event that the line ends."""
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "id":
            self._id = value
        elif name == "event":
            self._type = value
        elif name == "data":
            self._data += value
        elif not line and self._data:
            json_of = json.loads(self._data)
            event = Event(self._id, self._type, Timer.from_json(json_of["timer"]) if "timer" in json_of else None,
                          json_of.get("name"), json_of)
            self._type, self._data = "", ""
            return event
        return None


def is_problem_again(error: Problem) -> bool:
    """Whether a problem passes: a limit of the rate, or a server that is busy or stops. `too-many` does not pass by
    waiting a moment."""
    return error.status in AGAIN and error.type not in ("too-many", "unreadable", "corrupt")
