"""The commands of docs/operations.md, for tests that follow it word by word."""

import os
import re

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "operations.md")
BACKUP = "20261120T235959Z"  # the backup of the page's examples


def commands_of(section, backup=BACKUP):
    """The commands that the page has at the beginning of a section, on the backup of that name."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read().split(f"\n## {section}\n")[1].split("\n## ")[0]
    block = re.search(r"(?:^|\n)\n((?:    [^\n]+\n)+)", text)[1]
    return [line[4:].replace(BACKUP, backup) for line in block.splitlines()]
