"""The rule on metrics: documents and programs name only those that exist.

docs/metrics.md is made from src/base/metric_list.h, and metrics_test keeps it current.
"""

import re

from rules import files, read

DOCUMENT = "docs/metrics.md"
ROW = re.compile(r"- `(\w+)`(?: \{[^}]*\})?( \(histogram\))?: ")
NAMED = re.compile(r"`(tickwheel_\w+)`|\bmetric\([^\"')]*[\"'](tickwheel_\w+)")
SERIES = ("_bucket", "_sum", "_count")


def metric_names(root):
    """Each metric that a document or a test names is one of docs/metrics.md; a name that ends in _ stands for several."""
    known = dict(ROW.findall(read(root, DOCUMENT)))
    known.update({name + end: "" for name, kind in list(known.items()) if kind for end in SERIES})
    wrong = []
    for path in files(root, ".md", ".py"):
        if path == "CHANGELOG.md" or path.startswith("tests/tidy/"):  # tells of the past; plants offenders
            continue
        for number, line in enumerate(read(root, path).split("\n"), 1):
            for found in NAMED.finditer(line):
                name = found[1] or found[2]
                if name not in known and not (name.endswith("_") and any(one.startswith(name) for one in known)):
                    wrong.append(f"{path}:{number}: there is no metric {name}")
    return wrong
