#!/usr/bin/env python3
"""Goal: what a reader copies from the help or from a document is understood. Method: each `tickwheel` of the examples is
run with --help, which reads its verb and flags and does nothing else."""

import os
import re
import shlex
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line

ROOT = os.path.join(os.path.dirname(__file__), "../..")


def commands(text):
    """The arguments of each `tickwheel` in the indented lines of a text."""
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        if not line.startswith("  ") or "tickwheel " not in line:
            continue
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        try:
            words = list(words)
        except ValueError:
            continue  # a quote that goes on in the next line
        while "tickwheel" in words:
            words = words[words.index("tickwheel") + 1:]
            end = next((at for at, word in enumerate(words) if re.fullmatch(r"[();<>|&]+", word)), len(words))
            yield words[:end]


class Examples(unittest.TestCase):
    def run_cli(self, *arguments):
        done = command_line.run(*arguments, env=command_line.environment("http://127.0.0.1:1"))
        self.assertEqual(done.code, 0, f"{arguments}: {done}")
        return done.out

    def texts(self, verbs):
        """The examples of the help, and the documents."""
        for verb in verbs:
            yield self.run_cli(verb, "--help").split("\nFlags")[0]
        for path in ["README.md", *(os.path.join("docs", name) for name in sorted(os.listdir(os.path.join(ROOT, "docs"))))]:
            if path.endswith(".md"):
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    yield file.read()

    def test_their_verbs_and_flags_exist(self):
        overview = self.run_cli("help")
        verbs = re.findall(r"^  ([a-z-]+)  ", overview.split("\nVerbs\n")[1].split("\n\n")[0], flags=re.M)
        count = 0
        for text in self.texts(verbs):
            for words in commands(text):
                if words and re.fullmatch("[a-z][a-z-]*", words[0]):
                    self.assertIn(words[0], verbs, words)
                    at = words.index("--") if "--" in words else len(words)
                    self.assertIn("Usage\n", self.run_cli(*words[:at], "--help", *words[at:]), words)
                    count += 1
        self.assertGreater(count, 100)


if __name__ == "__main__":
    unittest.main()
