"""What the rules on tables of documents share: their rows, the tests that a row names, and names for the parts of
src/api/operations/openapi.json."""

import os
import re

from rules import read

DOCUMENT = "src/api/operations/openapi.json"
METHODS = ("get", "put", "post", "patch", "delete")


def in_code(cell):
    return re.findall(r"`([^`]+)`", cell)


def rows(text, head):
    """(line number, cells) of each row of the tables whose first row has these cells."""
    is_ours = False
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            is_ours = False
        elif cells == head:
            is_ours = True
        elif is_ours and set(cells[0]) != {"-"}:
            yield number, cells


def tests_of(cell):
    """(path, test) of all that stand there as `path:test`."""
    return [tuple(each.split(":", 1)) if ":" in each else (each, "") for each in in_code(cell)]


def has_test(root, path, name):
    """Whether the file has this test, and runs it."""
    if not os.path.isfile(os.path.join(root, path)):
        return False
    text = read(root, path)
    if path.endswith(".py"):
        return re.search(rf"^ *def {re.escape(name)}\(", text, flags=re.M) is not None
    return re.search(rf"^static void {re.escape(name)}\(void \*\*state\)", text, flags=re.M) is not None and \
        re.search(rf'(\b(cmocka_unit_test\w*|TEST)\(|\{{"\w+",)\s*{re.escape(name)}\b', text) is not None


def tests_missing(root, table, number, cell):
    """What is wrong with the tests that a cell names."""
    tests = tests_of(cell)
    if not tests:
        return [f"{table}:{number}: names no test"]
    return [f"{table}:{number}: there is no test {test} in {path}" for path, test in tests
            if not has_test(root, path, test)]


def resolved(document, item):
    while "$ref" in item:
        path, item = item["$ref"], document
        for part in path.removeprefix("#/").split("/"):
            item = item[part]
    return item


def calls(document):
    """("METHOD /path", operation) of each."""
    for path, item in document["paths"].items():
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


def schemas(document):
    """(name, schema, separator of its fields) of all that stand at a call, and of all that have a name."""
    for call, operation in calls(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            yield call, content["schema"], " ."
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                yield call, content.get("schema", {}), " ."
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        yield name, schema, "."
