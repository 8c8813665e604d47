"""The rule on docs/contract.md: all that the service's contract has stands in the table, with tests that there are.

What must stand there is read from src/api/operations/openapi.json and from the list of errors; a row names it in its first
column, in `code`, and the tests in its last, as `path:test`:

    `METHOD /path`                      a call
    `METHOD /path ?name`, `... Header`  a parameter of its query, a header of its request or of an answer
    `METHOD /path STATUS`               an answer; `any call STATUS` does for every call
    `METHOD /path .name`                a field where its body is described at the call itself
    `Schema.name`, `Schema.name.part`   a field; with `=word` one of the words that it may be
    `Schema=word`                       a word of a schema that is nothing else
    `{name}`                            a part of paths
    `/problems/slug`                    a kind of problem
"""

import json
import os
import re

from rules import read
from tables import DOCUMENT, calls, in_code, parameters, resolved, rows, schemas, tests_missing

TABLE = "docs/contract.md"
HEAD = ["of the contract", "what is promised", "proved by"]
ERRORS = "src/base/error.h"
NOT_AN_ANSWER = {"none"}  # of the list of errors


def fields_of(schema, name, separator="."):
    """The names of a schema's fields and of the words they may be; what is only referred to has a name of its own."""
    for part in (schema.get("oneOf", []) + schema.get("anyOf", []) + schema.get("allOf", [])):
        yield from fields_of(part, name, separator)
    for word in schema.get("enum", []):
        yield f"{name}={word}"
    if "items" in schema:
        yield from fields_of(schema["items"], name, separator)
    for field, described in schema.get("properties", {}).items():
        yield f"{name}{separator}{field}"
        yield from fields_of(described, f"{name}{separator}{field}")


def wanted(root):
    """(name, other names that do as well) of all that must stand in the table."""
    document = json.loads(read(root, DOCUMENT))
    for path in document["paths"]:
        for name in re.findall(r"\{\w+\}", path):
            yield name, ()
    for call, operation in calls(document):
        yield call, ()
        for name, _ in parameters(document, call, operation):
            yield name, ()
        for status, response in operation["responses"].items():
            yield f"{call} {status}", (f"any call {status}",)
            for header in resolved(document, response).get("headers", {}):
                yield f"{call} {status} {header}", (f"any call {status} {header}",)
    for name, schema, separator in schemas(document):
        for field in fields_of(schema, name, separator):
            yield field, ()
    if os.path.exists(os.path.join(root, ERRORS)):
        for slug in re.findall(r'X\([A-Z_]+,\s*"([a-z-]+)"', read(root, ERRORS)):
            if slug not in NOT_AN_ANSWER:
                yield f"/problems/{slug}", ()


def is_of_the_document(name):
    """Whether a name of the first column says that it is the document's; others are statements of their own."""
    return re.match(r"(GET|PUT|POST|PATCH|DELETE) /|any call \d|[A-Z]\w*[.=]|\{\w+\}$|/problems/", name)


def contract_table(root):
    """docs/contract.md has a row for all of the contract, none for what is gone, and every test that it names is there."""
    if not os.path.exists(os.path.join(root, DOCUMENT)):
        return []
    if not os.path.exists(os.path.join(root, TABLE)):
        return [f"{TABLE}: it is missing"]
    wrong, written = [], {}
    for number, (names, _, tests) in rows(read(root, TABLE), HEAD):
        for name in in_code(names):
            written.setdefault(name, number)
        wrong += tests_missing(root, TABLE, number, tests)
    known = set()
    for name, others in wanted(root):
        known |= {name, *others}
        if not {name, *others} & set(written):
            wrong.append(f"{TABLE}: no row for {name}")
    return list(dict.fromkeys(wrong)) + [f"{TABLE}:{number}: there is no {name} any more"
                                         for name, number in written.items()
                                         if is_of_the_document(name) and name not in known]
