"""The rules on words: plain terms in comments and documents, and a comment at the top of each file that says its purpose.

The list below holds turns of phrase that make a reader work out which thing is meant. Each row gives the pattern and
the reason, which is also the advice. In every folder at most MARKERS_MAX of them may stand in 1,000 words of comments,
and in 1,000 words of the documents; a few are right, where no noun would do. `python3 tests/tidy/words.py` shows the rates.
"""

import os
import re
import sys

from rules import files, read

MARKERS_MAX = 1.5
MARKERS = [
    (r"\b[Ww]ho(?:ever|m|mever)?\b", "name the person or the part: the caller, the client, the owning thread"),
    (r"\b[NnSsAa](?:o|ny)body\b|\b[Ee]verybody\b", "name the part that does it, or say that it is not done"),
    (r"\b[Tt]he same\b(?! (?:time|thread|as))", "name the thing again"),
    (r"\b[Ss]o (?:many|much|long|few)\b", "give the number or the name of the limit"),
    (r"\b[Aa]ll that\b", "name the things: all rows, every request"),
    (r"\b[Ww]hat (?:is|was|has|had|waits|comes|came|lies|it)\b", "name the thing: the requests that wait"),
    (r"\b[Oo]ne that\b", "name the thing: a timer that"),
    (r"(?:: |; |\. |, )else\b|\bElse\b(?! if)", "write otherwise, and say what would happen"),
]

# Tests, benchmarks and their helpers may say it as they like.
TESTS = re.compile(r"_test|_fuzz|_bench|/testing/|/fake/|_oracle|_rig|_fixture|_model|/tests?/")
CODE = ("src/", "lib/src/", "lib/include/", "bin/")
PURPOSE_WORDS_MIN = 4


def folder_of(path):
    """src/api/core/x.c belongs to src/api; a program to bin, a document to docs."""
    return "/".join(path.split("/")[:2]) if path.startswith(("src/", "lib/")) else path.split("/")[0]


def comments(text):
    """(offset, text) of each comment; a line's star is a part of it, not a word."""
    for found in re.finditer(r"/\*.*?\*/", text, flags=re.S):
        yield found.start(), re.sub(r"(\n\s*)\*", r"\1 ", found[0])
    for found in re.finditer(r"//.*", text):
        yield found.start(), found[0]


def prose(root):
    """(path, first line, text) of all that the rule reads."""
    for path in files(root, ".c", ".h"):
        if path.startswith(CODE) and not TESTS.search("/" + path):
            text = read(root, path)
            for offset, comment in comments(text):
                yield path, text.count("\n", 0, offset) + 1, comment
    for path in files(root, ".md"):
        if path.startswith("docs/"):
            yield path, 1, read(root, path)


def marked(text):
    """(offset, the words, the advice) of each marker in a text, whose lines are joined."""
    joined = text.replace("\n", " ")
    squeezed, offsets = [], []
    for offset, letter in enumerate(joined):
        if letter != " " or not squeezed or squeezed[-1] != " ":
            squeezed.append(letter)
            offsets.append(offset)
    line = "".join(squeezed)
    for pattern, advice in MARKERS:
        for found in re.finditer(pattern, line):
            yield offsets[found.start()], found[0].strip(" :;.,"), advice


def counted(root):
    """folder -> (words, ["path:line: marker"])."""
    found = {}
    for path, first, text in prose(root):
        words, hits = found.setdefault(folder_of(path), [0, []])
        found[folder_of(path)][0] = words + len(text.split())
        hits += [f"{path}:{first + text.count(chr(10), 0, offset)}: \"{marker}\": {advice}"
                 for offset, marker, advice in sorted(marked(text))]
    return found


def plain_words(root):
    """Comments and documents name things: few of the turns of phrase in words.MARKERS."""
    wrong = []
    for folder, (words, hits) in counted(root).items():
        rate = 1000 * len(hits) / max(words, 1)
        if rate > MARKERS_MAX:
            wrong += [f"{hit} ({folder}: {rate:.1f} in 1,000 words, at most {MARKERS_MAX})" for hit in hits]
    return wrong


def purposes(root):
    """Each .c and .h opens with a comment that says what it is for."""
    wrong = []
    for path in files(root, ".c", ".h"):
        opening = re.match(r"/\*(.*?)\*/", read(root, path), flags=re.S)
        words = re.findall(r"[A-Za-z]{2,}", opening[1]) if opening else []
        if len(words) < PURPOSE_WORDS_MIN:
            wrong.append(f"{path}: does not open with its purpose")
    return wrong


def main():
    """python3 tests/tidy/words.py [FOLDER]: the rate of each folder; or each marker of one folder."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for folder, (words, hits) in sorted(counted(root).items()):
        if len(sys.argv) > 1 and folder == sys.argv[1]:
            print("\n".join(hits))
        elif len(sys.argv) == 1:
            print(f"{folder:12} {1000 * len(hits) / max(words, 1):5.1f} in 1,000 words ({len(hits)} of {words})")


if __name__ == "__main__":
    main()
