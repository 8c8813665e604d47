"""The planted bugs as text: reads GROUP.bugs, finds the code that a bug changes, and changes it.

    == accept-without-pause
    While no connection can be accepted, the server tries again at once.
    Found by tests/crash/nth_test.py.
    in loop.c
      while (!atomic_load(&loop->wants_stop_))
    -     is_stuck = turn(loop, is_stuck);
    +     is_stuck = turn(loop, false) && is_stuck;

A bug has a name, a sentence, perhaps the test that must find it, and one or more changes. A change names a file by its
base name, in whatever folder it is; two files with equal names are both searched. Its lines are those of a diff without
positions: "-" is removed, "+" is added, a blank stays and only tells the place. The old lines must occur exactly once.
They are compared token by token, so that neither formatting nor a comment in between makes a bug unfit.
"""

import os
import re

TOKEN = re.compile(r'(?P<gap>\s+|/\*.*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+|.', re.S)
FOLDERS = ("bin", "lib", "src")


class Unfit(Exception):
    """Why a bug cannot be planted."""


def tokens(text):
    """(text, start, end) of each token of C; comments and blanks are none."""
    return [(found[0], *found.span()) for found in TOKEN.finditer(text) if not found["gap"]]


def names_of(text):
    return [token[0] for token in tokens(text)]


class Change:
    """One place of one file: the lines before and after."""

    def __init__(self, file):
        self.file = file
        self.old, self.new = [], []

    def add(self, line):
        if line[0] in " -":
            self.old.append(line[1:])
        if line[0] in " +":
            self.new.append(line[1:])

    def places(self, there):
        """(start, end) of each place where the old lines stand, in a file of these tokens."""
        wanted = names_of("\n".join(self.old))
        names = [token[0] for token in there]
        return [(there[at][1], there[at + len(wanted) - 1][2])
                for at in range(len(names) - len(wanted) + 1)
                if names[at] == wanted[0] and names[at:at + len(wanted)] == wanted]


class Bug:
    """A bug of a group: `group`/`name`, what is wrong, the test that must find it ("" where the group says it)."""

    def __init__(self, group, name):
        self.group, self.name = group, name
        self.sentence, self.found_by = "", ""
        self.changes = []

    def __str__(self):
        return f"{self.group}/{self.name}"


def read(path):
    """The bugs of a file, in its order."""
    group = os.path.basename(path)[:-len(".bugs")]
    found, names = [], set()
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n"), 1):
            where = f"{path}:{number}"
            if line.startswith("== "):
                if line[3:] in names:
                    raise Unfit(f"{where}: a second {line[3:]}")
                names.add(line[3:])
                found.append(Bug(group, line[3:]))
            elif not line or line.startswith("#"):
                continue
            elif not found:
                raise Unfit(f"{where}: no bug has a name yet")
            elif line.startswith("in "):
                found[-1].changes.append(Change(line[3:]))
            elif line[0] in " -+":
                if not found[-1].changes:
                    raise Unfit(f"{where}: a change of no file")
                found[-1].changes[-1].add(line)
            elif line.startswith("Found by "):
                found[-1].found_by = line[len("Found by "):].rstrip(".")
            else:
                found[-1].sentence = f"{found[-1].sentence} {line}".strip()
    return found


class Tree:
    """The C sources of a tree, without its tests, by base name."""

    def __init__(self, root):
        self.root = root
        self.paths = {}
        self.texts, self.tokens = {}, {}
        for top in FOLDERS:
            for folder, _, names in os.walk(os.path.join(root, top)):
                for name in names:
                    if name.endswith((".c", ".h")) and not name.endswith(("_test.c", "_fuzz.c", "_bench.c")):
                        path = os.path.relpath(os.path.join(folder, name), root)
                        self.paths.setdefault(name, []).append(path)

    def text(self, path):
        if path not in self.texts:
            with open(os.path.join(self.root, path), encoding="utf-8", newline="") as file:
                self.texts[path] = file.read()
        return self.texts[path]

    def places(self, change, name):
        """(path, start, end) of each place in the files of a name where a change fits."""
        found = []
        for path in self.paths.get(name, []):
            if path not in self.tokens:
                self.tokens[path] = tokens(self.text(path))
            found += [(path, *place) for place in change.places(self.tokens[path])]
        return found

    def place(self, change):
        """(path, start, end) of the one place where a change fits."""
        places = self.places(change, change.file)
        if len(places) == 1:
            return places[0]
        if places:
            raise Unfit(f"its lines occur {len(places)} times in {change.file}: add a line that tells the place")
        why = "does not have its lines" if change.file in self.paths else "is not in the tree"
        elsewhere = sorted({path for name in self.paths for path, *_ in self.places(change, name)})
        raise Unfit(f"{change.file} {why}" + (f", {' and '.join(elsewhere)} does" if elsewhere else ""))

    def planted(self, bug):
        """path -> text, of the files that a bug changes."""
        edits = {}
        for change in bug.changes:
            path, start, end = self.place(change)
            edits.setdefault(path, []).append((start, end, "\n".join(change.new).strip()))
        texts = {}
        for path, places in edits.items():
            text = self.text(path)
            for start, end, new in sorted(places, reverse=True):
                text = text[:start] + new + text[end:]
            texts[path] = text
        if not bug.changes or all(names_of(texts[path]) == names_of(self.text(path)) for path in texts):
            raise Unfit("changes nothing")
        return texts
