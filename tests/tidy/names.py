"""The rules on names: a stack trace and a symbol search lead to one place.

C lets each file have its own `find`, and its own `struct entry`. A profile, a core file and a search then show a name
that stands for several things. So tags are unique in the tree, and static functions unique in src/.
"""

import re

from rules import code_of, files, read

TAG = re.compile(r"\b(?:struct|enum|union)\s+(\w+)\s*\{")
STATIC = re.compile(r"^static\b[^;={}()]*?\b([A-Za-z]\w*)\(", flags=re.M)


def repeated(root, paths, pattern, kind):
    """"path:line: KIND NAME, also at PATH:LINE" for each place but the first; a file counts once."""
    first, wrong = {}, []
    for path in paths:
        text = code_of(read(root, path))
        here = {}
        for found in pattern.finditer(text):
            here.setdefault(found[1], text.count("\n", 0, found.start(1)) + 1)
        for name, line in here.items():
            if name in first:
                wrong.append(f"{path}:{line}: {kind} {name}, also at {first[name]}")
            first.setdefault(name, f"{path}:{line}")
    return wrong


def unique_tags(root):
    """No two structs, enums or unions of the tree have one name."""
    return repeated(root, files(root, ".c", ".h"), TAG, "tag")


def unique_statics(root):
    """No two static functions of src/ have one name, those of tests included."""
    return repeated(root, [path for path in files(root, ".c", ".h") if path.startswith("src/")],
                    STATIC, "static function")
