"""The rule on circles of calls: in a folder, calls between files go one way.

Who reads a file then reads what it calls, and never comes back to it. What both sides need stands below both, and what
is to happen next is handed up.
"""

import os
import re

from names import STATIC
from rules import code_of, files, is_test, read

DEFINED = re.compile(r"^(?!static\b)\w[\w\s*]*?\b(\w+)\([^;{}]*\)\s*\{", flags=re.M)
NO_CALL = re.compile(r"\b(?:struct|enum|union)\s+\w+|(?:->|\.)\s*\w+")


def calls_of(texts):
    """The files that each file of a folder calls. A function that two files define is of neither: one of them is
    built."""
    owners = {}
    for path, text in texts.items():
        for name in set(DEFINED.findall(text)):
            owners[name] = None if name in owners else path
    return {path: {owners.get(word) for word in set(re.findall(r"\w+", NO_CALL.sub("", text))) -
                   set(STATIC.findall(text))} - {None, path} for path, text in texts.items()}


def reached(calls, path):
    found, left = set(), [path]
    while left:
        new = calls[left.pop()] - found
        found |= new
        left += new
    return found


def circles(root):
    """No circle of calls joins the files of a folder of src/ or lib/; tests are free."""
    folders, wrong = {}, []
    for path in files(root, ".c"):
        if path.startswith(("src/", "lib/src/")) and not is_test(path):
            folders.setdefault(os.path.dirname(path), {})[path] = code_of(read(root, path))
    for texts in folders.values():
        calls = calls_of(texts)
        below = {path: reached(calls, path) for path in texts}
        for path in texts:
            circle = sorted(other for other in below[path] if path in below[other])
            if circle and path == circle[0]:
                wrong.append(f"{path}: in a circle of calls with {', '.join(map(os.path.basename, circle[1:]))}")
    return wrong
