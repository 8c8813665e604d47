"""What the rules on the ids of documents share: the names in tests/tidy/contract.txt, and those of the parts of the OpenAPI
document."""

import json
import os
import re

from rules import read

DOCUMENT = "openapi.json"  # of a build folder, or of a tree of tidy_test.py
COVERED = "tests/tidy/contract.txt"
METHODS = ("get", "put", "post", "patch", "delete")


def in_code(cell):
    return re.findall(r"`([^`]+)`", cell)


def openapi(root):
    """The OpenAPI document of a tree of tidy_test.py, or else the one that the build made; None without a build."""
    for folder in (root, os.environ.get("TW_TIDY_BUILD")):
        if folder and (folder != root or os.path.exists(os.path.join(root, DOCUMENT))):
            return json.loads(read(folder, DOCUMENT))
    return None


def words_of(text):
    """What a text with {a,b} stands for."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", text)
    if not found:
        return [text]
    return [each for word in found[1].split(",") for each in words_of(text[:found.start()] + word + text[found.end():])]


def covered(root, section):
    """What a section of tests/tidy/contract.txt has, as {"ids": id -> line, "names": name -> (id, line)}; and what is wrong.

    In [steps] a name stands alone, with what it bounds, and has no id."""
    ids, names, wrong = {}, {}, []
    inside = id_of = None
    for number, line in enumerate(read(root, COVERED).split("\n"), 1):
        if line.startswith("["):
            inside, id_of = line == f"[{section}]", None
        elif not inside or not line or line.startswith("#"):
            continue
        elif section == "steps":
            name, _, meaning = line.partition(": ")
            if not meaning:
                wrong.append(f"{COVERED}:{number}: says not what {name} bounds")
            names[name] = (None, number)
        elif not line.startswith(" "):
            id_of = line
            ids[id_of] = number
        else:
            for name in words_of(line.strip()):
                names[name] = (id_of, number)
    return {"ids": ids, "names": names}, wrong


def resolved(document, item):
    while "$ref" in item:
        path, item = item["$ref"], document
        for part in path.removeprefix("#/").split("/"):
            item = item[part]
    return item


def calls(document):
    """("METHOD /path", operation) of each. A call by key stands there a second time, with the key in the query: document_test.c
    compares the two."""
    for path, item in document["paths"].items():
        if path.startswith("/v1/key/"):
            continue
        for method in METHODS:
            if method in item:
                yield f"{method.upper()} {path}", item[method]


def parameters(document, call, operation):
    """(name, parameter) of those in the query and in headers."""
    for parameter in operation.get("parameters", []):
        parameter = resolved(document, parameter)
        prefix = {"query": "?", "header": "", "path": None}[parameter["in"]]
        if prefix is not None:
            yield f"{call} {prefix}{parameter['name']}", parameter


def named(part):
    """The names of the schemas that a part of the document refers to."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if key == "$ref" and isinstance(value, str):
            yield value.rpartition("/")[2]
        else:
            yield from named(value)


def schemas(document):
    """(name, schema, separator of its fields) of all that a request may hold: those that stand at a call, and those that
    have a name. What only answers hold is bounded by the code that makes them."""
    known, asked = document.get("components", {}).get("schemas", {}), set()
    for call, operation in calls(document):
        asked.update(named([operation.get("requestBody", {}), operation.get("parameters", [])]))
        for content in operation.get("requestBody", {}).get("content", {}).values():
            yield call, content["schema"], " ."
    left = list(asked)
    while left:
        new = set(named(known.get(left.pop(), {}))) - asked
        asked |= new
        left += new
    for name, schema in known.items():
        if name in asked:
            yield name, schema, "."


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
