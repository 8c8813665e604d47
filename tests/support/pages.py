"""The pages of docs/ in tests: their blocks of code, to be run as they stand there."""

import os
import re

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


def blocks(page, language, section=None):
    """The blocks of a page whose first line is ``` and the language alone; of one section of level 2 if it is named."""
    with open(os.path.join(DOCS, page), encoding="utf-8") as file:
        text = file.read()
    if section:
        text = text.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.S | re.M)


def sessions(page, section):
    """The (command, what it printed) of a section's console blocks, in order."""
    found = []
    for block in blocks(page, "console", section):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


def printed(page, section, command):
    """What the page says that a command prints."""
    return dict(sessions(page, section))[command]


def stable(text):
    """A text without the parts that differ from run to run: ids, receipts, times, and spaces, by which JSON is broken."""
    for pattern, name in ((r"\b[0-9a-v]{26}\b", "ID"), (r"\b[0-9a-f]{32}\b", "RECEIPT"),
                          (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"), (r"(\d+(ms|s|m|h))+ ago|in (\d+(ms|s))+|(?<=\()now(?=\))", "DISTANCE"),
                          (r"\b\d+\.\d+\.\d+\b", "VERSION"), (r"\s", "")):
        text = re.sub(pattern, name, text)
    return text
