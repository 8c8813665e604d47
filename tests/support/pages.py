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
