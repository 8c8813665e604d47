"""The rule on docs/limits.md: every limit stands there with its value, with a test at it and one beyond it.

A row names in its first column, in `code`, all that are this one limit:

    `setting`                           of the table of settings, if it is a number
    `tenant name`                       what may be limited for a tenant
    `src/path/file.c:NAME_MAX`          a constant of the sources
    `Schema.field`, `METHOD /path ?n`   a field or parameter of src/api/operations/openapi.json that has a `maximum`, `maxLength`,
                                        `maxItems` or `maxProperties`; its elements are `name[]`, the names and values of
                                        an object `name{name}` and `name{value}`

The value is the first `code` of its column, as a setting would be written, and must be that of each of them. What is
not refused, because it only bounds one step of something, stands in a table of its own without tests.
"""

import json
import os
import re

from rules import blank, files, is_test, read, test_headers
from tables import DOCUMENT, calls, in_code, parameters, rows, schemas, tests_missing

TABLE = "docs/limits.md"
HEAD = ["limit", "value", "beyond it", "at it", "one beyond"]
STEPS = ["bound of a step", "value", "what it bounds"]
SETTINGS = "docs/configuration.md"
SETTINGS_HEAD = ["setting", "default", "limits", "meaning"]
TOKENS = "src/ops/tokens.h"

# Numbers of the settings that say how the daemon is made, and not how much anybody may take. What each may be is
# tested with all others: src/ops/config_test.c.
NOT_LIMITS = {"listen_port", "http_threads", "window", "commit_linger", "watermark_interval", "storage_cache_bytes",
              "storage_memtable_bytes", "target_breaker_pause"}
AS_WIDE_AS_IT_IS = {"Problem.status", "Timer.version", "Explanation.wheel.level", "Explanation.wheel.bucket"}  # of answers
WORDS = ("maximum", "maxLength", "maxItems", "maxProperties")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
         "ms": 1, "s": 1000, "m": 60000, "h": 3600000, "d": 86400000, "w": 604800000}


def number_of(text):
    """"4096", "64K", "1h30m": the number, in milliseconds if it is a duration; None if it is none."""
    if not re.fullmatch(r"(\d+(ms|[KMGTsmhdw]|))+", text):
        return None
    return sum(int(count) * UNITS[unit] for count, unit in re.findall(r"(\d+)(ms|[KMGTsmhdw]|)", text))


def constants(root):
    """path:NAME_MAX -> value, None where it is not a number alone."""
    found, everywhere, helpers = {}, {}, test_headers(root)
    for path in files(root, ".c", ".h"):
        if not path.startswith(("src/", "bin/")) or is_test(path) or path in helpers:
            continue
        text = re.sub(r"/\*.*?\*/", blank, read(root, path), flags=re.S).replace("\\\n", "  ")
        for name, value in re.findall(r"^ *# *define +([A-Z]\w*_MAX) +(.+?) *$", text, flags=re.M) + \
                re.findall(r"^ +(?:enum \{ *)?([A-Z][A-Z0-9_]*_MAX) *= *([^,\n}]+)", text, flags=re.M) + \
                re.findall(r"^enum \{ *([A-Z][A-Z0-9_]*_MAX) *= *([^,\n}]+)", text, flags=re.M):
            found[f"{path}:{name}"] = everywhere[name] = value
    return {name: value_of(text, everywhere) for name, text in found.items()}


def value_of(text, others):
    """What a constant expression of C is; other constants in it are looked up."""
    text = re.sub(r"\bUINT64_C\((\w+)\)|\(u?int64_t\)", lambda match: match[1] or "", text)
    text = re.sub(r"\b[A-Z]\w*_MAX\b", lambda match: f"({value_of(others.get(match[0], '?'), others)})", text)
    text = re.sub(r"\b(0x[0-9a-f]+|\d+)[uUlL]+\b", r"\1", text).replace("/", "//")
    return eval(text) if re.fullmatch(r"[0-9a-fx+*/<>() -]+", text) else None  # digits and signs only


def bounds(schema, name, separator="."):
    """(name, value) of each bound in a schema; what is only referred to has a name of its own."""
    for word in WORDS:
        if word in schema:
            yield name, schema[word]
    for part in schema.get("oneOf", []) + schema.get("anyOf", []) + schema.get("allOf", []):
        yield from bounds(part, name, separator)
    for key, end in (("items", "[]"), ("propertyNames", "{name}"), ("additionalProperties", "{value}")):
        if isinstance(schema.get(key), dict):
            yield from bounds(schema[key], name + end, separator)
    for field, described in schema.get("properties", {}).items():
        yield from bounds(described, f"{name}{separator}{field}")


def documented(root):
    document = json.loads(read(root, DOCUMENT))
    found = {}
    for call, operation in calls(document):
        for name, parameter in parameters(document, call, operation):
            found.update(bounds(parameter.get("schema", {}), name))
    for name, schema, separator in schemas(document):
        found.update(bounds(schema, name, separator))
    return {name: value for name, value in found.items() if name not in AS_WIDE_AS_IT_IS}


def settings(root):
    """name -> how the value of its row begins."""
    if not os.path.exists(os.path.join(root, SETTINGS)):
        return {}
    return {in_code(name)[0]: f"{default}, {limits}" for _, (name, default, limits, _) in
            rows(read(root, SETTINGS), SETTINGS_HEAD)
            if re.search(r"\d\w* to \d|from \d", limits) and "bytes" not in limits
            and in_code(name)[0] not in NOT_LIMITS}


def tenants(root):
    if not os.path.exists(os.path.join(root, TOKENS)):
        return {}
    return dict.fromkeys(f"tenant {name}" for name in re.findall(r"X\((\w+), \d+, ", read(root, TOKENS)))


def wrong_values(number, cell, names, known):
    """Of a row: what its value should be and is not."""
    shown = (in_code(cell) or [""])[0]
    for name in names:
        value = known[name]
        if isinstance(value, str) and not cell.startswith(value):
            yield f"{TABLE}:{number}: {name} is {value}"
        elif isinstance(value, int) and number_of(shown) != value:
            yield f"{TABLE}:{number}: {name} is {value}"


def limits_table(root):
    """docs/limits.md has a row for each limit, with its value, and the tests at it and beyond it are there."""
    if not os.path.exists(os.path.join(root, DOCUMENT)):
        return []
    if not os.path.exists(os.path.join(root, TABLE)):
        return [f"{TABLE}: it is missing"]
    text = read(root, TABLE)
    known = {**constants(root), **documented(root), **settings(root), **tenants(root)}
    wrong, written = [], set()
    for number, (names, value, *tests) in [*rows(text, HEAD), *rows(text, STEPS)]:
        names = in_code(names)
        written |= set(names)
        wrong += [f"{TABLE}:{number}: there is no {name} any more" for name in names if name not in known]
        wrong += wrong_values(number, value, [name for name in names if name in known], known)
        if len(tests) == 3:
            wrong += tests_missing(root, TABLE, number, tests[1]) + tests_missing(root, TABLE, number, tests[2])
    return wrong + [f"{TABLE}: no row for {name}" for name in known if name not in written]
