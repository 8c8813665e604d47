"""The rule on the ids of docs/contract.md: each promise and each limit has tests that name it.

A setting that is a limit stands in docs/configuration.md alone; its name is its id.

A test names what it proves in comments directly above its function:

    C         /* proves: never-early, at-past */
    Python    # proves: labels_max, key-bytes (beyond)

A limit needs a test at it and a test beyond it; "(at)" or "(beyond)" says that a test does only one of them.
"""

import re
from collections import Counter

from rules import files, read

DOCUMENT = "docs/contract.md"
SETTINGS = "docs/configuration.md"
SETTING = re.compile(r"- `(\w+)` \((`[^`]*`); ([^)]*)\): ")
PROMISE = re.compile(r"- `([a-z0-9_-]+)`: \S")
LIMIT = re.compile(r"- `([a-z0-9_-]+)` \(([^)]*)\): \S")

# Numbers of the settings that say how the daemon is made, and not how much anybody may take. What each may be is
# tested with all others: src/ops/config_test.c.
NOT_LIMITS = {"listen_port", "shards", "window", "commit_linger", "watermark_interval",
              "storage_memory_bytes", "target_breaker_pause", "cluster_node_id", "cluster_lease",
              "cluster_wait", "cluster_standbys", "cluster_replicas", "cluster_weight", "cluster_sweep_bytes_min",
              "cluster_sweep_factor", "cluster_copy_records_min"}
TAG = re.compile(r" *(?:/\*|#) proves: (.+?)(?: \*/)?$")
ENTRY = re.compile(r"([a-z0-9_-]+)(?: \((at|beyond)\))?")


def promises(root):
    """id -> line, of the promises."""
    return {found[1]: number for number, line in enumerate(read(root, DOCUMENT).split("\n"), 1)
            for found in [PROMISE.match(line)] if found}


def limits(root):
    """id -> (document:line, value in code, or "" where words say it), of the limits that are no settings."""
    return {found[1]: (f"{DOCUMENT}:{number}", found[2] if found[2].startswith("`") else "")
            for number, line in enumerate(read(root, DOCUMENT).split("\n"), 1)
            for found in [LIMIT.match(line)] if found}


def settings(root):
    """id -> (document:line, default in code), of the settings that are limits."""
    if SETTINGS not in files(root, ".md"):
        return {}
    return {found[1]: (f"{SETTINGS}:{number}", found[2])
            for number, line in enumerate(read(root, SETTINGS).split("\n"), 1)
            for found in [SETTING.match(line)] if found
            if re.search(r"\d\w* to \d|from \d", found[3]) and found[1] not in NOT_LIMITS}


def test_below(path, lines, at):
    """The name of the test whose function begins below the tags at `at`, None if no test that runs does."""
    while at < len(lines) and (TAG.match(lines[at]) or lines[at].lstrip().startswith("@")):
        at += 1
    head = lines[at] if at < len(lines) else ""
    if path.endswith(".py"):
        found = re.match(r" *def (test_\w+|main)\(", head)
        return found and found[1]
    found = re.match(r"static void (\w+)\(void \*\*state\)", head)
    runs = found and re.search(rf'(\b(cmocka_unit_test\w*|TEST)\(|\{{"\w+",)\s*{found[1]}\b', "\n".join(lines))
    return runs and found[1]


def tags(root):
    """(path, line, id, side, test) of each tag; the side is "at" or "beyond" or "" for both."""
    for path in files(root, ".c", ".py"):
        if "proves: " not in read(root, path):
            continue
        lines = read(root, path).split("\n")
        for at, line in enumerate(lines):
            tag = TAG.match(line)
            for part in tag[1].split(", ") if tag else ():
                entry = ENTRY.fullmatch(part)
                name, side = entry.groups() if entry else (part, None)
                yield path, at + 1, name, side or "", test_below(path, lines, at)


def proved(root):
    """Each id stands once; each promise has a test that proves it, each limit one at it and one beyond it; no tag names
    anything else."""
    if "docs/contract.md" not in files(root, ".md"):
        return []
    known, bounded = promises(root), {**settings(root), **limits(root)}
    wrong, seen = [], set()
    for path, number, name, side, test in tags(root):
        if name not in known and name not in bounded:
            wrong.append(f"{path}:{number}: {DOCUMENT} has no {name}")
        elif side and name not in bounded:
            wrong.append(f"{path}:{number}: {name} is a promise, only a limit has two sides")
        elif not test:
            wrong.append(f"{path}:{number}: {name} stands above no test that runs")
        seen |= {(name, each) for each in ([side] if side else ["", "at", "beyond"])}
    forms = Counter(re.findall(r"(?m)^- `([a-z0-9_-]+)`(:| \()", read(root, DOCUMENT)))
    wrong += [f"{DOCUMENT}: {name} stands there {count} times" for (name, _), count in forms.items() if count > 1]
    wrong += [f"{DOCUMENT}:{number}: no test proves {name}" for name, number in known.items() if (name, "") not in seen]
    for name, (place, _) in bounded.items():
        sides = [side for side in ("at", "beyond") if (name, side) not in seen]
        if sides:
            wrong.append(f"{place}: no test goes {' and '.join(sides)} {name}")
    return wrong + [f"{DOCUMENT}:{number}: {name} is a limit too" for name, number in known.items() if name in bounded]
