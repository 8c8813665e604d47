"""The rule on the limits of docs/contract.md: every limit of the code and of the API stands there with its value.

A limit has an id, and its value as a setting would be written. A setting is its own id, and stands in
docs/configuration.md instead. Under the id tests/tidy/contract.txt names what has this value, in [limits]:

    tenant name                       what may be limited for a tenant
    NAME_MAX                          a constant of the sources
    Schema.field, METHOD /path ?n     a field or parameter of a request in the OpenAPI document with a maximum, maxLength,
                                      maxItems or maxProperties; its elements are name[], the names and values of an
                                      object name{name} and name{value}
    * ?n                              this parameter of each call that is not named itself

A constant that refuses nothing, because it only bounds one step of something, is in [steps] with what it bounds.
"""

import os
import re

from promises import DOCUMENT as TABLE, limits, settings
from rules import blank, files, is_test, read, test_headers
from tables import COVERED, calls, covered, in_code, openapi, parameters, schemas

TOKENS = "src/ops/tokens.h"

WORDS = ("maximum", "maxLength", "maxItems", "maxProperties")
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
         "ms": 1, "s": 1000, "m": 60000, "h": 3600000, "d": 86400000, "w": 604800000}


def number_of(text):
    """"4096", "64K", "1h30m": the number, in milliseconds if it is a duration; None if it is none."""
    if not re.fullmatch(r"(\d+(ms|[KMGTsmhdw]|))+", text):
        return None
    return sum(int(count) * UNITS[unit] for count, unit in re.findall(r"(\d+)(ms|[KMGTsmhdw]|)", text))


def constants(root):
    """(path, name, text of the value) of each constant NAME_MAX of the sources."""
    helpers = test_headers(root)
    for path in files(root, ".c", ".h"):
        if not path.startswith(("src/", "bin/")) or is_test(path) or path in helpers:
            continue
        text = re.sub(r"/\*.*?\*/", blank, read(root, path), flags=re.S).replace("\\\n", "  ")
        for name, value in re.findall(r"^ *# *define +([A-Z]\w*_MAX) +(.+?) *$", text, flags=re.M) + \
                re.findall(r"^ +(?:enum \{ *)?([A-Z][A-Z0-9_]*_MAX) *= *([^,\n}]+)", text, flags=re.M) + \
                re.findall(r"^enum \{ *([A-Z][A-Z0-9_]*_MAX) *= *([^,\n}]+)", text, flags=re.M):
            yield path, name, value


def values(root):
    """NAME_MAX -> value, None where it is not a number alone; NAME_MAX -> path; and what is wrong with the names."""
    texts, paths, wrong = {}, {}, []
    for path, name, value in constants(root):
        if paths.setdefault(name, path) != path:
            wrong.append(f"{path}: {paths[name]} has a {name} too")
        texts[name] = value
    return {name: value_of(text, texts) for name, text in texts.items()}, paths, wrong


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


def documented(document):
    found = {}
    for call, operation in calls(document):
        for name, parameter in parameters(document, call, operation):
            found.update(bounds(parameter.get("schema", {}), name))
    for name, schema, separator in schemas(document):
        found.update(bounds(schema, name, separator))
    return found


def tenants(root):
    if not os.path.exists(os.path.join(root, TOKENS)):
        return {}
    return dict.fromkeys(f"tenant {name}" for name in re.findall(r"X\((\w+), \d+, ", read(root, TOKENS)))


def limits_known(root):
    """Each limit of the code and of the API stands in the document with its value, and only these do."""
    document = openapi(root)
    if not document:
        return []
    own, setting = limits(root), settings(root)
    table = {**setting, **own}
    constant, paths, wrong = values(root)
    known = {**constant, **documented(document), **tenants(root)}
    bounded, bad = covered(root, "limits")
    steps, worse = covered(root, "steps")
    wrong += bad + worse
    wrong += [f"{own[name][0]}: {name} is a setting" for name in setting if name in own]
    wrong += [f"{COVERED}:{number}: {TABLE} has no limit {name}" for name, number in bounded["ids"].items()
              if name not in table]
    at = bounded["names"]
    for name in known:
        every = "* " + name.rpartition(" ")[2]
        if name not in at and every in at:
            at[name] = at[every]
    at = {name: limit for name, limit in at.items() if not name.startswith("* ")}
    for name, (limit, number) in at.items():
        if name not in known:
            wrong.append(f"{COVERED}:{number}: there is no {name} any more")
            continue
        place, cell = table.get(limit, (TABLE, ""))
        shown, value = (in_code(cell) or [""])[0], known[name]
        if isinstance(value, str) and shown != value or isinstance(value, int) and number_of(shown) != value:
            wrong.append(f"{place}: {name} is {value}")
    wrong += [f"{COVERED}:{number}: there is no {name} any more" for name, (_, number) in steps["names"].items()
              if name not in constant]
    wrong += [f"{place}: nothing has the value of {name}" for name, (place, cell) in own.items()
              if cell and name not in {limit for limit, _ in at.values()}]
    return wrong + [f"{paths.get(name) or COVERED}: no limit is {name}"
                    for name in known if name not in at and name not in steps["names"]]
