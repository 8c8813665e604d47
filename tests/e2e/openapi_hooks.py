"""Loaded by schemathesis: what a request of its must be like beside fitting the document.

JSON Schema cannot say that one field limits another, or how long a duration is. Requests that break
only such a rule are left out: the unit tests have them. And no webhook leaves the machine: a target
that the document allows is sent to a port of the loopback interface where nobody listens.
"""

import datetime
import itertools
import re
import urllib.parse

import schemathesis

UNITS_MS = {"w": 604800000, "d": 86400000, "h": 3600000, "m": 60000, "s": 1000, "ms": 1}
AFTER_MS_MAX = 250_000_000_000_000  # about the year 9900
CAP_MS_MAX = 30 * 86400000
TIMEOUT_MS_MAX = 600000
WAIT_MS_MAX = 50  # 20 s are allowed; here nobody waits so long
LEASE_MS_MIN, LEASE_MS_MAX = 100, 12 * 3600000

DAY_MS = 86400000
CRON, ZONE = "30 9 * * MON-FRI", "Europe/Berlin"
REQUESTS = itertools.count()
LINES = ["application/x-ndjson", "application/jsonl"]

schemathesis.serializer.alias(LINES, "text/plain")


def milliseconds(value, preset):
    """The length of a duration that is well formed, else `preset`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return preset
    if not isinstance(value, str):
        return value
    if not re.fullmatch(r"([0-9]+(w|d|h|ms|m|s))+", value, re.ASCII):
        return preset
    return sum(int(count) * UNITS_MS[unit]
               for count, unit in re.findall(r"([0-9]+)(w|d|h|ms|m|s)", value))


def recurrence_holds(body):
    """Expressions, zones and dates are texts with languages of their own: those of the examples are right."""
    late, spread = body.get("late"), body.get("spread")
    limits = [(milliseconds(body.get("every"), 1000), 10, DAY_MS * 366)]
    if isinstance(late, dict):
        limits.append((milliseconds(late.get("drop_after"), 1), 1, DAY_MS * 366))
    if isinstance(spread, dict):
        limits.append((milliseconds(spread.get("window"), 1), 1, DAY_MS))
    return body.get("cron", CRON) in (CRON, None) and body.get("timezone", ZONE) in (ZONE, None) \
        and not {"until", "count", "except", "only", "on_holiday"} & set(body) \
        and all(least <= value <= most for value, least, most in limits)


def dates_hold(days):
    """The document has the form of a date, not the length of months; a range ends after its begin."""
    dates = [day.get("date") if isinstance(day, dict) else day for day in days]
    try:
        spans = [[datetime.date.fromisoformat(part) for part in date.split("/")] for date in dates if isinstance(date, str)]
    except ValueError:
        return False
    return all(span == sorted(span) and span[0].year > 1 for span in spans)


def overlap_holds(overlap):
    return not isinstance(overlap, str) or (milliseconds(overlap, 0) <= 30 * DAY_MS and len(overlap) < 32)


def debounce_holds(debounce):
    if not isinstance(debounce, dict):
        return True
    wait, most = milliseconds(debounce.get("for"), 1), milliseconds(debounce.get("at_most"), DAY_MS * 366)
    return 1 <= wait <= most <= DAY_MS * 366


def flow_holds(flow):
    return not isinstance(flow, dict) or 1000 <= milliseconds(flow.get("period"), 1000) <= DAY_MS * 366


def holds_together(body):
    if not flow_holds(body.get("flow")) or not flow_holds(body):
        return False
    if not recurrence_holds(body) or not debounce_holds(body.get("debounce")):
        return False
    retry = body.get("retry")
    headers = body.get("headers")
    if milliseconds(body.get("after"), 0) > AFTER_MS_MAX:
        return False
    if isinstance(body.get("at"), str) and body["at"][:5] in ("9999-", "10000"):
        return False  # with its offset it may be a later year
    if isinstance(headers, dict) and len({name.lower() for name in headers}) != len(headers):
        return False
    if milliseconds(body.get("wait"), 0) > WAIT_MS_MAX or \
            not LEASE_MS_MIN <= milliseconds(body.get("lease"), 30000) <= LEASE_MS_MAX or \
            milliseconds(body.get("delay"), 0) > CAP_MS_MAX or \
            body.get("dead") and "delay" in body or \
            any(isinstance(body.get(name), str) and len(body[name].encode("utf-8", "replace")) > 159
                for name in ("error", "reason")):
        return False
    if any(not 1000 <= milliseconds(body.get(name), 1000) <= LEASE_MS_MAX for name in ("ack_timeout", "by")):
        return False
    if "cursor" in body:
        return False  # only the server can make one
    if isinstance(retry, dict):
        base, cap = milliseconds(retry.get("base"), 1000), milliseconds(retry.get("cap"), 3600000)
        timeout = milliseconds(retry.get("timeout"), 15000)
        give_up_after = milliseconds(retry.get("give_up_after"), 3 * DAY_MS)
        return 1 <= base <= cap <= CAP_MS_MAX and 1 <= timeout <= TIMEOUT_MS_MAX and 1 <= give_up_after <= DAY_MS * 366
    return True


def names_are_short(case):
    """A name may have 256 bytes, whatever the characters."""
    body = case.body if isinstance(case.body, dict) else {}
    watch = body.get("watch")
    watch = watch if isinstance(watch, list) else [watch]
    labels = body.get("labels")
    labels = [*labels, *labels.values()] if isinstance(labels, dict) else []
    names = [*(case.path_parameters or {}).values(), (case.query or {}).get("key"), body.get("key"), *watch, *labels]
    return all(len(name.encode("utf-8", "replace")) <= 256 for name in names if isinstance(name, str))


def names_what_to_delete(query):
    """Either a filter, or `all`."""
    filters = {"target", "origin", "error", "label", "key_prefix", "key_contains", "due_before"} & set(query)
    return bool(filters) != ("all" in query) and (filters or "due_after" not in query)


def has_null(body):
    """A field that is null, or one of retry, late, spread and the like; a payload may have any."""
    if not isinstance(body, dict):
        return False
    return any(value is None or isinstance(value, dict) and has_null(value)
               for name, value in body.items() if name != "payload")


@schemathesis.hook
def filter_case(context, case):
    if case.operation.label == "DELETE /v1/dead" and not names_what_to_delete(case.query or {}):
        return False
    if case.method == "PUT" and isinstance(case.body, dict) and "signing" in case.body:
        return False  # secrets in base64: tests/e2e/signing_test.py has them
    if case.media_type == "text/calendar" and case.meta and case.meta.generation.mode.is_positive:
        return False  # iCalendar is a language of its own: calendars_test.py has it
    if case.path.startswith("/v1/calendars/") and isinstance(case.body, list) and case.meta and \
            case.meta.generation.mode.is_positive and not dates_hold(case.body):
        return False
    if case.path == "/v1/token-keys/rotate" and case.meta and case.meta.generation.mode.is_positive and \
            isinstance(case.body, dict) and not overlap_holds(case.body.get("overlap")):
        return False
    if case.path == "/v1/clock/advance" and case.meta and case.meta.generation.mode.is_positive:
        return False  # a duration, a time, or `next`: virtual_clock_test.py has them
    if case.query and "cursor" in case.query:
        return False  # only the server can make one
    if case.media_type in LINES and not isinstance(case.body, str):
        return False  # as text, anything is lines
    if not names_are_short(case):
        return False
    if case.method == "PUT" and isinstance(case.body, dict) and {"spread", "debounce", "order"} & set(case.body):
        return False  # whether they go with the key in the path, which the document does not say
    if case.path.endswith("/backfill") and case.meta and case.meta.generation.mode.is_positive:
        return False  # whether the span has instants is up to the clock and the timer; repeats_test.py has it
    if has_null(case.body):
        return False  # as if the field were left out, which the document does not say
    return not isinstance(case.body, dict) or holds_together(case.body)


def reachable(target):
    """No connection is configured, a tenant has no log:, and only one address may be called."""
    if re.match(r"(kafka|redis|nats|amqp|postgres)://|log:|[A-Za-z][A-Za-z0-9._-]*:(/(?!/)|$)", str(target)):
        return "http://127.0.0.1:9/"
    if not isinstance(target, str):
        return target
    return re.sub(r"^(https?://)(\[[0-9a-f:]+\]|[a-z0-9_.-]+)(:[0-9]+)?(?=[/?]|$)",
                  r"\g<1>127.0.0.1:9", target, count=1, flags=re.IGNORECASE)


def with_reachable_targets(fields):
    fields = dict(fields)
    for name in ("target", "new_target", "url"):
        if name in fields:
            fields[name] = reachable(fields[name])
    if isinstance(fields.get("targets"), list):
        fields["targets"] = [reachable(target) for target in fields["targets"]]
    for name in ("on_dead", "on_success"):
        if isinstance(fields.get(name), dict):
            fields[name] = with_reachable_targets(fields[name])
    return fields


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.method == "PUT" and isinstance(case.body, dict):
        case.body.pop("key", None)  # it is in the path
    if case.headers and re.fullmatch("[!-~]{1,256}", str(case.headers.get("Idempotency-Key", ""))):
        key, own = str(case.headers["Idempotency-Key"]), f".{next(REQUESTS)}"  # else it is another request's
        end = len(key) - key.startswith('"')
        begin = key[:end] if end + len(own) <= 256 else key[:256 - len(own)].rstrip("\\")
        case.headers["Idempotency-Key"] = f"{begin}{own}{key[end:]}"
    if isinstance(case.body, dict):
        case.body = with_reachable_targets(case.body)
    is_positive = case.meta and case.meta.generation.mode.is_positive
    target = urllib.parse.unquote(str((case.path_parameters or {}).get("target", "")))
    if is_positive and re.match("https?://[^/]+/", target):  # taken from a timer, whose target has a path too
        case.path_parameters["target"] = urllib.parse.quote("/".join(target.split("/")[:3]), safe="")
    if case.operation.label == "PUT /v1/owners/{thing}" and is_positive and isinstance(case.body, dict):
        case.body["take_over"] = True  # another example gave it another owner
    if case.operation.label == "POST /v1/timers/batch" and is_positive and "restore" in (case.query or {}):
        case.query.pop("dry_run", None)  # one or the other
    if case.operation.label == "PUT /v1/named-targets/{name}" and case.meta and case.meta.generation.mode.is_positive:
        for name in ("auth", "ca", "headers"):  # their texts have languages of their own
            case.body.pop(name, None)


# What only the timer decides: which fields go together, and what its own are when they are merged.
OF_THE_TIMER = re.compile(r"goes with|does not go with|goes by the `key`|^Give either|needs a `content_type`|never fire|"
                          r"longer than `cap`|^This header is named twice|^The key stays|^A put by key changes it|^A `target` is needed|may have at most .* members")


@schemathesis.check
def right_patches_are_refused_for_the_timer(context, response, case):
    """openapi.toml lets a right patch be refused with 422. Each fault must then be one that depends on the timer."""
    if case.method != "PATCH" or response.status_code != 422 or not case.meta or not case.meta.generation.mode.is_positive:
        return
    faults = [fault["detail"] for fault in response.json()["errors"]]
    wrong = [detail for detail in faults if not OF_THE_TIMER.search(detail)]
    assert faults and not wrong, f"{case.body} is refused: {wrong}"
