"""The rule on what docs/contract.md covers: each part of the service's contract belongs to a promise.

The parts are read from src/api/openapi.json and from the list of errors. tests/tidy/contract.txt names them under the id
of the promise, or of the limit, that covers them:

    METHOD /path                      a call
    METHOD /path ?name, ... Header    a parameter of its query, a header of its request or of an answer
    METHOD /path STATUS               an answer; "any call STATUS" does for every call
    METHOD /path .name                a field where its body is described at the call itself
    Schema.name, Schema.name.part     a field; with =word one of the words that it may be
    Schema=word                       a word of a schema that has no fields
    {name}                            a part of paths
    /problems/slug                    a kind of problem
"""

import json
import os
import re

from promises import limits, promises
from rules import read
from tables import COVERED, DOCUMENT, calls, covered, parameters, resolved, schemas

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
    """(name, other names that do as well) of all that must be covered."""
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


def contract_covered(root):
    """Each part of the contract belongs to a promise, and what belongs to a promise is part of the contract."""
    if not os.path.exists(os.path.join(root, DOCUMENT)):
        return []
    written, wrong = covered(root, "contract")
    ids = {*promises(root), *limits(root)}
    wrong += [f"{COVERED}:{number}: docs/contract.md has no {name}" for name, number in written["ids"].items()
              if name not in ids]
    known = set()
    for name, others in wanted(root):
        known |= {name, *others}
        if not {name, *others} & set(written["names"]):
            wrong.append(f"{COVERED}: no promise covers {name}")
    return list(dict.fromkeys(wrong)) + [f"{COVERED}:{number}: there is no {name} any more"
                                         for name, (_, number) in written["names"].items() if name not in known]
