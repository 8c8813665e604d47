"""Loaded by schemathesis: what a request of its must be like beside fitting the document.

JSON Schema cannot say that one field limits another, or how long a duration is. Requests that break
only such a rule are left out: the unit tests have them. And no webhook leaves the machine: a target
that the document allows is sent to a port of the loopback interface where nobody listens.
"""

import re

import schemathesis

UNITS_MS = {"w": 604800000, "d": 86400000, "h": 3600000, "m": 60000, "s": 1000, "ms": 1}
AFTER_MS_MAX = 250_000_000_000_000  # about the year 9900
CAP_MS_MAX = 30 * 86400000
TIMEOUT_MS_MAX = 600000

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


def holds_together(body):
    retry = body.get("retry")
    headers = body.get("headers")
    if milliseconds(body.get("after"), 0) > AFTER_MS_MAX:
        return False
    if isinstance(body.get("at"), str) and body["at"][:5] in ("9999-", "10000"):
        return False  # with its offset it may be a later year
    if isinstance(headers, dict) and len({name.lower() for name in headers}) != len(headers):
        return False
    if isinstance(retry, dict):
        base, cap = milliseconds(retry.get("base"), 1000), milliseconds(retry.get("cap"), 3600000)
        timeout = milliseconds(retry.get("timeout"), 15000)
        return 1 <= base <= cap <= CAP_MS_MAX and 1 <= timeout <= TIMEOUT_MS_MAX
    return True


@schemathesis.hook
def filter_case(context, case):
    if case.query and "cursor" in case.query:
        return False  # only the server can make one
    if case.media_type in LINES and not isinstance(case.body, str):
        return False  # as text, anything is lines
    return not isinstance(case.body, dict) or holds_together(case.body)


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.body, dict) and isinstance(case.body.get("target"), str):
        case.body = {**case.body, "target": re.sub(
            r"^(https?://)(\[[0-9a-f:]+\]|[a-z0-9_.-]+)(:[0-9]+)?(?=[/?]|$)", r"\g<1>127.0.0.1:9",
            case.body["target"], count=1, flags=re.IGNORECASE)}
