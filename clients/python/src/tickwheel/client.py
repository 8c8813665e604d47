"""Client: every call of the service, with time-outs and retries. async_client.py is made from this file.

Retries    A request that was not answered, or that a busy server refused, is sent again: up to `retries` times, after
           a random pause that doubles, or as long as Retry-After says. Every create has an Idempotency-Key, so that a
           repetition makes no second timer. A batch is read from an iterable and is not sent again: give its timers a
           `key`, then repeating it is harmless.
Errors     errors.TickwheelError and its subclasses.
Threads    A Client may be shared by threads.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Mapping, Optional, Sequence, TypeVar, Union

import httpx

from . import _calls
from ._calls import Answer, Call, Fields
from ._sending import Attempts, Settings
from .errors import BadAnswer, Gone
from .models import (BatchResult, CreateFields, DeadGroup, Duration, Event, Forecast, Instant, Item, Json, PatchFields, PutFields,
                     Run, Timer, duration, instant)
from .transaction import Transaction

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Client:
    """A client whose calls wait for their answers.

        timers = Client("http://localhost:8463", token="tw_...")

    Without arguments the URL and the token come from TICKWHEEL_URL and TICKWHEEL_TOKEN. `timeout` is that of each try,
    `pause` the longest first pause between tries, both in seconds. `transport` replaces the network in tests.
    """

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 30.0,
                 retries: int = 5, pause: float = 0.2, transport: Optional[httpx.BaseTransport] = None) -> None:
        self._settings = Settings(url, token, timeout, retries, pause)
        self._http = httpx.Client(transport=transport, limits=httpx.Limits(max_connections=256))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, call: Call[T]) -> T:
        attempts = Attempts(self._settings, call)
        while True:
            try:
                request = self._settings.arguments(call)
                answer = attempts.answered(self._http.request(**request))
                if isinstance(answer, Answer):
                    return call.result(answer, attempts.was_lost)
                pause = answer
            except httpx.TransportError as error:
                pause = attempts.failed(error)
            time.sleep(pause)

    # ---- one timer ----

    def create(self, target: Union[str, Sequence[str]], *, idempotency_key: Optional[str] = None,
               **fields: Unpack[CreateFields]) -> Timer:
        """Creates a timer. The fields are those of docs/api.md#create; `body` is bytes. With a `key` that a live, equal
        timer has, the answer is that timer; KeyInUse if it differs. Several targets are a list: the timer is over when
        all are."""
        return self._send(_calls.create(_calls.settled({**_calls.to(target), **fields}), idempotency_key))

    def put(self, key: str, target: Union[str, Sequence[str]], *, if_version: Optional[int] = None,
            **fields: Unpack[PutFields]) -> Timer:
        """Creates the timer with this key, or replaces it whole."""
        return self._send(_calls.put(key, _calls.settled({**_calls.to(target), **fields}), if_version))

    def get(self, id: Optional[str] = None, *, key: Optional[str] = None) -> Timer:
        """Raises Gone, with the timer, when it is final."""
        return self._send(_calls.get(id, key))

    def change(self, id: Optional[str] = None, *, key: Optional[str] = None, if_version: Optional[int] = None,
               **patch: Unpack[PatchFields]) -> Timer:
        """Changes the fields that are given, as a merge patch: what is None is removed."""
        return self._send(_calls.change(id, key, _calls.fields(patch), if_version))

    def touch(self, id: Optional[str] = None, *, key: Optional[str] = None, after: Optional[Duration] = None,
              at: Optional[Instant] = None, if_version: Optional[int] = None) -> Timer:
        """Puts the timer off; never makes it earlier."""
        return self._send(_calls.touch(id, key, _calls.settled({"after": after, "at": at}), if_version))

    def cancel(self, id: Optional[str] = None, *, key: Optional[str] = None,
               if_version: Optional[int] = None) -> Timer:
        """After it returns no delivery begins. Raises AlreadyFiring or Gone."""
        return self._send(_calls.cancel(id, key, if_version))

    def fire(self, id: Optional[str] = None, *, key: Optional[str] = None, if_version: Optional[int] = None) -> Timer:
        """Fires the timer now; one that repeats fires beside its planned times. Without `if_version` the call is not
        repeated, since it might fire twice."""
        return self._send(_calls.act(id, key, "fire", None, if_version))

    def backfill(self, id: Optional[str] = None, *, key: Optional[str] = None, start: Instant, end: Instant,
                 rate: Optional[str] = None, idempotency_key: Optional[str] = None) -> Timer:
        """Fires the instants of a timer that repeats from `start` on and before `end`, at a rate such as "10/s". Returns
        the timer that does so."""
        return self._send(_calls.backfill(id, key, start, end, rate, idempotency_key))

    def backfill_count(self, id: Optional[str] = None, *, key: Optional[str] = None, start: Instant, end: Instant) -> Json:
        """How many instants a backfill of that span would fire, with the `first` and the `last`."""
        return self._send(_calls.backfill_count(id, key, start, end))

    def pause(self, id: Optional[str] = None, *, key: Optional[str] = None, note: Optional[str] = None,
              until: Optional[Instant] = None, if_version: Optional[int] = None) -> Timer:
        """The timer is not delivered before it is resumed, by a call or at `until`."""
        return self._send(_calls.act(id, key, "pause", _calls.pause(note, until), if_version))

    def resume(self, id: Optional[str] = None, *, key: Optional[str] = None, if_version: Optional[int] = None) -> Timer:
        return self._send(_calls.act(id, key, "resume", None, if_version))

    def release(self, id: Optional[str] = None, *, key: Optional[str] = None, if_version: Optional[int] = None) -> Timer:
        """Ends the lease of a queue's item, whose attempt has failed. Without `if_version` the call is not repeated,
        since it might end the next lease too."""
        return self._send(_calls.act(id, key, "release", None, if_version))

    def explain(self, id: Optional[str] = None, *, key: Optional[str] = None) -> Json:
        """Where the timer is, what it waits for, and why it was late."""
        return self._send(_calls.explain(self._id_of(id, key)))

    def runs(self, id: Optional[str] = None, *, key: Optional[str] = None) -> List[Run]:
        """The last firings of a timer that repeats, the newest first."""
        return self._send(_calls.runs(self._id_of(id, key)))

    def _id_of(self, id: Optional[str], key: Optional[str]) -> str:
        """The id of the timer that has the key, live or over."""
        if id is not None and key is None:
            return id
        try:
            return self.get(id, key=key).id
        except Gone as error:
            if error.timer is None:
                raise
            return error.timer.id

    # ---- answers that come later ----

    def answer_ack(self, url: str) -> None:
        """Ends an attempt that the receiver answered with `Tickwheel-Ack: later`: the timer has fired. `url` is the
        webhook's Tickwheel-Ack-Url; its last part is used, with this client's service."""
        self._send(_calls.answer(url, "ack"))

    def answer_nack(self, url: str, *, reason: Optional[str] = None) -> None:
        """Ends it without success; the reason is the timer's `last_error`."""
        self._send(_calls.answer(url, "nack", {"reason": reason} if reason else None))

    def answer_extend(self, url: str, by: Duration) -> None:
        """The time for the answer ends so long from now."""
        self._send(_calls.answer(url, "extend", {"by": duration(by)}))

    # ---- in a transaction of the caller's database ----

    def in_transaction(self, connection: Any) -> Transaction:
        """Calls that take effect if the transaction of this connection commits. It is of psycopg, Django, SQLAlchemy or
        asyncpg; the service reads the outbox of its database (docs/postgres.md)."""
        return Transaction(connection)

    # ---- many timers ----

    def batch(self, timers: Iterable[Fields]) -> List[BatchResult]:
        """Creates many timers from a stream of fields, those of `create`; each has a result, in order."""
        return self._send(_calls.batch(timers))

    def list(self, *, states: Iterable[str] = (), labels: Mapping[str, str] = {}, target: Optional[str] = None,
             origin: Optional[str] = None, key_prefix: Optional[str] = None, key_contains: Optional[str] = None,
             flow: Optional[str] = None, due_after: Optional[Instant] = None, due_before: Optional[Instant] = None,
             page_size: Optional[int] = None) -> Iterator[Timer]:
        """All timers that match, in due order; pages are read as they are needed. `flow` is the key of a flow."""
        return self._pages("/v1/timers", "timers", Timer.from_json, _calls.filters(
            states=states, labels=labels, target=target, origin=origin, key_prefix=key_prefix, key_contains=key_contains,
            flow=flow, due_after=due_after, due_before=due_before, page_size=page_size))

    def _pages(self, path: str, name: str, parse: Callable[[Any], T], query: List[tuple[str, str]]) -> Iterator[T]:
        cursor: Optional[str] = None
        while True:
            found, cursor = self._send(_calls.page(path, name, parse, query, cursor))
            yield from found
            if cursor is None:
                return

    def cancel_many(self, *, ids: Optional[List[str]] = None, keys: Optional[List[str]] = None,
                    labels: Optional[Mapping[str, str]] = None, watch: Optional[str] = None) -> Json:
        """Counts, and `failures` for ids and keys that could not be cancelled."""
        return self._send(_calls.many("cancel", {"ids": ids, "keys": keys, "labels": labels, "watch": watch}))

    def reschedule_many(self, *, after: Optional[Duration] = None, at: Optional[Instant] = None,
                        ids: Optional[List[str]] = None, keys: Optional[List[str]] = None,
                        labels: Optional[Mapping[str, str]] = None, watch: Optional[str] = None) -> Json:
        return self._send(_calls.many("reschedule", {"ids": ids, "keys": keys, "labels": labels, "watch": watch,
                                                     **_calls.settled({"after": after, "at": at})}))

    def touch_many(self, *, after: Optional[Duration] = None, at: Optional[Instant] = None,
                   ids: Optional[List[str]] = None, keys: Optional[List[str]] = None) -> Json:
        return self._send(_calls.many("touch", {"ids": ids, "keys": keys, **_calls.settled({"after": after, "at": at})}))

    def fire_many(self, *, ids: Optional[List[str]] = None, keys: Optional[List[str]] = None,
                  labels: Optional[Mapping[str, str]] = None, watch: Optional[str] = None) -> Json:
        return self._send(_calls.many("fire", {"ids": ids, "keys": keys, "labels": labels, "watch": watch}))

    def pause_many(self, *, ids: Optional[List[str]] = None, keys: Optional[List[str]] = None,
                   labels: Optional[Mapping[str, str]] = None, watch: Optional[str] = None,
                   note: Optional[str] = None, until: Optional[Instant] = None) -> Json:
        return self._send(_calls.many("pause", {"ids": ids, "keys": keys, "labels": labels, "watch": watch,
                                                **_calls.pause(note, until)}))

    def resume_many(self, *, ids: Optional[List[str]] = None, keys: Optional[List[str]] = None,
                    labels: Optional[Mapping[str, str]] = None, watch: Optional[str] = None) -> Json:
        return self._send(_calls.many("resume", {"ids": ids, "keys": keys, "labels": labels, "watch": watch}))

    def count(self, *, by: Iterable[str] = ()) -> Json:
        """How many timers live, apart by `state`, `origin` of the target, and the value of a label: `label:team`."""
        by = ",".join(by)
        return self._send(_calls.ask("GET", "/v1/timers/count", query=[("by", by)] if by else []))

    # ---- events ----

    def complete(self, event: str, *, fire: bool = False) -> Json:
        """Ends the timers that watch the event; with `fire` they become due now."""
        return self._send(_calls.complete(event, fire))

    def complete_many(self, events: Iterable[str], *, fire: bool = False) -> Json:
        return self._send(_calls.complete_many(events, fire))

    def events(self, *, types: Iterable[str] = (), labels: Mapping[str, str] = {}, target: Optional[str] = None,
               origin: Optional[str] = None, key_prefix: Optional[str] = None,
               last_event_id: Optional[str] = None) -> Iterator[Event]:
        """What happens to timers, as it happens, without an end. It goes on behind a connection that is lost, and
        raises Unreachable after `retries` in vain."""
        query = _calls.filters(labels=labels, target=target, origin=origin)
        query += [("type", each) for each in types] + ([("key_prefix", key_prefix)] if key_prefix is not None else [])
        attempts: Optional[Attempts] = None
        while True:
            call = _calls.events(query, last_event_id)
            attempts = attempts or Attempts(self._settings, call)
            try:
                with self._http.stream(**self._settings.arguments(call)) as response:
                    if response.status_code != 200:
                        response.read()
                        answer = attempts.answered(response)
                        if isinstance(answer, Answer):
                            raise BadAnswer(f"no stream, but {call.result(answer, False)}")
                        pause = answer
                    else:
                        reader = _calls.EventReader()
                        for line in response.iter_lines():
                            event = reader.line(line)
                            if event:
                                attempts, last_event_id = Attempts(self._settings, call), event.id or last_event_id
                                yield event
                        raise httpx.ReadError("the stream has ended")
            except httpx.TransportError as error:
                pause = attempts.failed(error)
            time.sleep(pause)

    def deliveries(self, *, timer: Optional[str] = None, key: Optional[str] = None, target: Optional[str] = None,
                   origin: Optional[str] = None, outcomes: Iterable[str] = (), status: Optional[str] = None,
                   since: Optional[Instant] = None, page_size: Optional[int] = None) -> Iterator[Json]:
        """What became of each attempt, the newest first. `outcomes` are done, failed and ended; `status` is that of the
        answer, such as `503` or `5xx`."""
        query = _calls.filters(timer=timer, key=key, target=target, origin=origin, status=status, since=since,
                               page_size=page_size)
        return self._pages("/v1/deliveries", "deliveries", dict, query + [("outcome", each) for each in outcomes])

    # ---- schedules ----

    def schedules(self, *, labels: Mapping[str, str] = {}, target: Optional[str] = None, origin: Optional[str] = None,
                  key_prefix: Optional[str] = None, last: Iterable[str] = (), sort: Optional[str] = None,
                  due_after: Optional[Instant] = None, due_before: Optional[Instant] = None,
                  page_size: Optional[int] = None) -> Iterator[Json]:
        """The timers that repeat, with their last firings. `last`: those whose last firing was ok, failed or skipped, or
        that have never fired; `sort` is next, last or failures."""
        query = _calls.filters(labels=labels, target=target, origin=origin, key_prefix=key_prefix, sort=sort,
                               due_after=due_after, due_before=due_before, page_size=page_size)
        return self._pages("/v1/schedules", "schedules", dict, query + [("last", each) for each in last])

    def preview(self, *, cron: Optional[str] = None, every: Optional[Duration] = None,
                timezone: Optional[str] = None, after: Optional[Instant] = None, n: Optional[int] = None,
                except_: Iterable[str] = (), only: Iterable[str] = (), on_holiday: Optional[str] = None,
                **more: str) -> List[str]:
        """The next instants of a schedule; `except_`, `only` and `on_holiday` as of `create`."""
        given = {"cron": cron, "every": every and duration(every), "timezone": timezone,
                 "after": after and instant(after), "n": n, "except": ",".join(except_) or None, "only": ",".join(only) or None,
                 "on_holiday": on_holiday, **more}
        return self._send(_calls.preview({name: str(value) for name, value in given.items() if value is not None}))

    def forecast(self, *, unit: str = "minute", count: int = 60) -> Forecast:
        """How many timers are due in each coming minute or second."""
        return self._send(_calls.forecast(unit, count))

    # ---- queues ----

    def lease(self, queue: str, *, max: int = 1, wait: Duration = "0s", lease: Duration = "30s") -> List[Item]:
        """Due items for this worker alone until the lease ends. `wait`: how long to wait for the first one."""
        return self._send(_calls.lease(queue, max, wait, lease))

    def ack(self, queue: str, items: Iterable[Union[Item, str]]) -> List[str]:
        """`ok` for each item that is done for good, otherwise `stale` or `unknown`."""
        return self._send(_calls.receipts(queue, "ack", items, {}))

    def nack(self, queue: str, items: Iterable[Union[Item, str]], *, delay: Optional[Duration] = None,
             error: Optional[str] = None, dead: bool = False) -> List[str]:
        return self._send(_calls.receipts(queue, "nack", items, {
            "delay": None if delay is None else duration(delay), "error": error, "dead": dead or None}))

    def extend(self, queue: str, items: Iterable[Union[Item, str]], *, lease: Duration = "30s") -> List[str]:
        return self._send(_calls.receipts(queue, "extend", items, {"lease": duration(lease)}))

    def queues(self) -> Json:
        """How full the queues are."""
        return self._send(_calls.ask("GET", "/v1/queues"))

    def queue(self, queue: str) -> Json:
        return self._send(_calls.queue(queue))

    def peek(self, queue: str, *, max: int = 10) -> List[Timer]:
        """The next items of the queue, without a lease."""
        return self._send(_calls.peek(queue, max))

    def pause_queue(self, queue: str, *, note: Optional[str] = None, until: Optional[Instant] = None) -> Json:
        """No worker gets an item of the queue before it is resumed, by a call or at `until`."""
        return self._send(_calls.hold("queues", queue, "pause", _calls.pause(note, until)))

    def resume_queue(self, queue: str) -> Json:
        return self._send(_calls.hold("queues", queue, "resume"))

    # ---- flows ----

    def flows(self) -> Json:
        """The flows with timers that run or wait, and those that are paused."""
        return self._send(_calls.ask("GET", "/v1/flows"))

    def set_flow(self, key: str, limits: Mapping[str, Any]) -> Json:
        """Sets `concurrency`, `rate` and `period` for all timers of the flow, instead of their own."""
        return self._send(_calls.flow("PUT", key, dict(limits)))

    def remove_flow(self, key: str) -> Json:
        """Lets the timers of the flow keep their own limits again."""
        return self._send(_calls.flow("DELETE", key))

    def pause_flow(self, key: str, *, note: Optional[str] = None, until: Optional[Instant] = None) -> Json:
        """No timer of the flow starts before it is resumed, by a call or at `until`."""
        return self._send(_calls.hold("flows", key, "pause", _calls.pause(note, until)))

    def resume_flow(self, key: str) -> Json:
        return self._send(_calls.hold("flows", key, "resume"))

    # ---- targets ----

    def targets(self) -> Json:
        """What goes to each target, and which fail."""
        return self._send(_calls.ask("GET", "/v1/targets"))

    def pause_target(self, target: str, *, note: Optional[str] = None, until: Optional[Instant] = None) -> Json:
        """Nothing is sent to the target, such as `https://shop.example`, before it is resumed."""
        return self._send(_calls.hold("targets", target, "pause", _calls.pause(note, until)))

    def resume_target(self, target: str) -> Json:
        return self._send(_calls.hold("targets", target, "resume"))

    def reset_target(self, target: str) -> Json:
        """Closes the breakers of the target."""
        return self._send(_calls.hold("targets", target, "reset"))

    def named_targets(self) -> Json:
        """All named targets, without their secrets."""
        return self._send(_calls.ask("GET", "/v1/named-targets"))

    def named_target(self, name: str) -> Json:
        return self._send(_calls.named_target("GET", name))

    def set_named_target(self, name: str, definition: Mapping[str, Any], *, if_version: Optional[int] = None) -> Json:
        """Defines it, or replaces its definition: `url`, `headers`, `auth`, `limits` and so on. Secrets left out stay."""
        return self._send(_calls.named_target("PUT", name, dict(definition), if_version))

    def rotate_named_target(self, name: str, rotation: Mapping[str, Any]) -> Json:
        """Replaces the secrets that sign its webhooks: `signing`. Those of before sign too for the time of `overlap`."""
        return self._send(_calls.rotate_named_target(name, dict(rotation)))

    def remove_named_target(self, name: str, *, if_version: Optional[int] = None) -> Json:
        """From now on attempts of its timers fail, until it is defined again."""
        return self._send(_calls.named_target("DELETE", name, None, if_version))

    def reseal_named_targets(self) -> Json:
        """Seals all secrets with the first key of the daemon."""
        return self._send(_calls.ask("POST", "/v1/named-targets/reseal"))

    def token_keys(self) -> Json:
        """The keys of the tokens (JWT) of webhooks that the daemon makes itself, and where each stands."""
        return self._send(_calls.ask("GET", "/v1/token-keys"))

    def rotate_token_keys(self, *, overlap: Optional[Duration] = None, alg: Optional[str] = None) -> Json:
        """Makes a new key, ES256 or RS256, which signs when `overlap` is over: a day by default."""
        return self._send(_calls.rotate_token_keys({"overlap": overlap and duration(overlap), "alg": alg}))

    # ---- calendars of holidays ----

    def calendars(self) -> Json:
        """The calendars that schedules can name: those of the tenant, and those of all tenants."""
        return self._send(_calls.ask("GET", "/v1/calendars"))

    def calendar(self, name: str) -> Json:
        """The coming days of a calendar."""
        return self._send(_calls.calendar("GET", name))

    def put_calendar(self, name: str, days: Iterable[Union[str, Json]]) -> Json:
        """Sets a calendar of the tenant, such as `["2026-12-24/2027-01-01", {"date": "2027-05-01", "name": "Labour Day"}]`."""
        return self._send(_calls.put_calendar(name, days))

    def delete_calendar(self, name: str) -> Json:
        return self._send(_calls.calendar("DELETE", name))

    # ---- the service ----

    def health(self) -> Json:
        """Whether the process runs."""
        return self._send(_calls.ask("GET", "/healthz"))

    def ready(self) -> Json:
        """Returns when requests are served. Otherwise raises Problem, whose detail says why; the call is not repeated."""
        return self._send(Call("GET", "/readyz", dict, is_repeatable=False))

    def metrics(self) -> str:
        """The metrics, in the text format of Prometheus."""
        return self._send(Call("GET", "/metrics", str))

    def stats(self) -> Json:
        """The main figures of the daemon."""
        return self._send(_calls.ask("GET", "/v1/stats"))

    def history(self, window: str = "1h") -> Json:
        """The past of the main figures: "1h", "24h" or "7d"."""
        return self._send(_calls.ask("GET", "/v1/history", query=[("window", window)]))

    def verdict(self) -> Json:
        """Whether timers are on time, and who waits for what."""
        return self._send(_calls.ask("GET", "/v1/verdict"))

    def tenants(self) -> List[Json]:
        """What each tenant uses, and its limits."""
        found: List[Json] = []
        cursor: Optional[str] = None
        while True:
            page = self._send(_calls.ask("GET", "/v1/tenants", query=[("cursor", cursor)] if cursor else []))
            found, cursor = found + page["tenants"], page["next"]
            if cursor is None:
                return found

    def cluster(self) -> Json:
        """The nodes of the cluster and its partitions."""
        return self._send(_calls.ask("GET", "/v1/cluster"))

    def drain_node(self, node: int) -> Json:
        """Has a node of the cluster give its partitions to the others, and take none back; `owns` counts those left."""
        return self._send(_calls.ask("PUT", f"/v1/cluster/nodes/{node}/drain"))

    def undrain_node(self, node: int) -> Json:
        return self._send(_calls.ask("DELETE", f"/v1/cluster/nodes/{node}/drain"))

    def maintenance(self) -> Json:
        return self._send(_calls.ask("GET", "/v1/admin/maintenance"))

    def begin_maintenance(self, *, note: Optional[str] = None) -> Json:
        """Holds all deliveries back."""
        return self._send(_calls.ask("PUT", "/v1/admin/maintenance", {"note": note}))

    def end_maintenance(self) -> Json:
        return self._send(_calls.ask("DELETE", "/v1/admin/maintenance"))

    def backup(self) -> Json:
        """Copies the data folder while the daemon runs."""
        return self._send(_calls.ask("POST", "/v1/admin/backup"))

    # ---- dead letters ----

    def dead(self, *, target: Optional[str] = None, origin: Optional[str] = None, error: Optional[str] = None,
             labels: Mapping[str, str] = {}, key_prefix: Optional[str] = None, key_contains: Optional[str] = None,
             page_size: Optional[int] = None) -> Iterator[Timer]:
        """Dead letters, oldest first."""
        return self._pages("/v1/dead", "timers", Timer.from_json, _calls.filters(
            target=target, origin=origin, error=error, labels=labels, key_prefix=key_prefix, key_contains=key_contains,
            page_size=page_size))

    def dead_groups(self, *, target: Optional[str] = None, labels: Mapping[str, str] = {}) -> List[DeadGroup]:
        """Dead letters counted by origin and error."""
        return self._send(_calls.dead_groups(_calls.filters(target=target, labels=labels)))

    def redrive(self, *, ids: Optional[List[str]] = None, target: Optional[str] = None,
                origin: Optional[str] = None, error: Optional[str] = None,
                labels: Optional[Mapping[str, str]] = None, all: Optional[bool] = None,
                rate: Optional[int] = None, new_target: Optional[str] = None) -> Json:
        """Makes dead letters due again, all that match. `rate`: so many a second; `new_target`: they go there."""
        selection = {"ids": ids, "target": target, "origin": origin, "error": error, "labels": labels, "all": all,
                     "rate": rate, "new_target": new_target}
        cursor, redriven, failed = None, 0, 0
        while True:
            body = self._send(_calls.dead_redrive(selection, cursor))
            redriven, failed, cursor = redriven + body["redriven"], failed + body["failed"], body.get("next")
            if cursor is None:
                return {**body, "redriven": redriven, "failed": failed}

    def delete_dead(self, *, target: Optional[str] = None, origin: Optional[str] = None, error: Optional[str] = None,
                    labels: Mapping[str, str] = {}, all: bool = False) -> Json:
        """Deletes dead letters, all that match. This cannot be undone."""
        query = _calls.filters(target=target, origin=origin, error=error, labels=labels)
        query += [("all", "true")] if all else []
        cursor, deleted, failed = None, 0, 0
        while True:
            body = self._send(_calls.dead_delete(query, cursor))
            deleted, failed, cursor = deleted + body["deleted"], failed + body["failed"], body["next"]
            if cursor is None:
                return {"deleted": deleted, "failed": failed}

    def delete_dead_letter(self, id: str) -> Timer:
        return self._send(_calls.delete_dead(id))
