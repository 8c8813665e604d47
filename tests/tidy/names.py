"""The rules on names: a stack trace and a symbol search lead to one place.

C lets each file have its own `find`, and its own `struct entry`. A profile, a core file and a search then show a name
that stands for several things. So tags are unique in the tree, and static functions unique in src/. A test may define a
tag that a header only declares: it takes the place of the module.
"""

import re

from rules import code_of, files, is_test, read

TAG = re.compile(r"\b(?:struct|enum|union)\s+(\w+)\s*\{")
DECLARED = re.compile(r"^(?:struct|union)\s+(\w+);", flags=re.M)
STATIC = re.compile(r"^static\b[^;={}()]*?\b([A-Za-z]\w*)\(", flags=re.M)


def repeated(root, paths, pattern, kind, allowed=None):
    """"path:line: KIND NAME, also at PATH:LINE" for each place but the first; a file counts once. `allowed` are the
    names that a file may have nevertheless."""
    first, wrong = {}, []
    for path in paths:
        text = code_of(read(root, path))
        here = {}
        for found in pattern.finditer(text):
            here.setdefault(found[1], text.count("\n", 0, found.start(1)) + 1)
        for name in (allowed or {}).get(path, ()):
            del here[name]
        for name, line in here.items():
            if name in first:
                wrong.append(f"{path}:{line}: {kind} {name}, also at {first[name]}")
            first.setdefault(name, f"{path}:{line}")
    return wrong


def unique_tags(root):
    """No two structs, enums or unions of the tree have one name."""
    opaque = {name for path in files(root, ".h") if not is_test(path)
              for name in DECLARED.findall(code_of(read(root, path)))}
    tags = {path: {found[1] for found in TAG.finditer(code_of(read(root, path)))} & opaque
            for path in files(root, ".c") if is_test(path)}
    return repeated(root, files(root, ".c", ".h"), TAG, "tag", tags)


def unique_statics(root):
    """No two static functions of src/ have one name, those of tests included."""
    return repeated(root, [path for path in files(root, ".c", ".h") if path.startswith("src/")],
                    STATIC, "static function")


def prefixed_statics(root):
    """A static function of src/ begins with a word of its file's name, or with the tag of a struct or an enum that the
    file defines; tests are free."""
    wrong = []
    for path in files(root, ".c"):
        if not path.startswith("src/") or is_test(path):
            continue
        text = code_of(read(root, path))
        words = path.rsplit("/", 1)[-1].removesuffix(".c").split("_")
        heads = {*words, *(word[:-1] for word in words if word.endswith("s")), *TAG.findall(text)}
        for found in STATIC.finditer(text):
            name = found[1]
            if name not in heads and not any(name.startswith(f"{head}_") for head in heads):
                line = text.count("\n", 0, found.start(1)) + 1
                wrong.append(f"{path}:{line}: static function {name} without the module's prefix")
    return wrong
