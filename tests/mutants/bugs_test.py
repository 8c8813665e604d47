#!/usr/bin/env python3
"""Goal: a planted bug changes the one place that its lines describe, and a bug that no longer fits is reported.

Method: small trees and bugs as text, planted or refused.
"""

import os
import tempfile
import unittest

import bugs

CODE = """int a(int x)
{
    /* why */
    if (x > 1 &&
        x < 9)
        return x;
    return 0;
}
"""


class Bugs(unittest.TestCase):
    def plant(self, lines, code=CODE, path="src/room/a.c", more=()):
        """The text of the file after planting a bug of these lines."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in [(path, code), *more]:
                os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            with open(os.path.join(root, "g.bugs"), "w", encoding="utf-8") as file:
                file.write("== b\nIt is wrong.\n" + lines)
            return bugs.Tree(root).planted(bugs.read(os.path.join(root, "g.bugs"))[0])[path]

    def test_replaces_across_formatting_and_comments(self):
        self.assertEqual(self.plant("in a.c\n  {\n- if (x > 1 && x < 9) return x;\n+ x++;\n"),
                         "int a(int x)\n{\n x++;\n    return 0;\n}\n")

    def test_the_folder_does_not_matter(self):
        self.assertIn("return 1;", self.plant("in a.c\n- return 0;\n+ return 1;\n", path="lib/src/a.c"))

    def test_two_files_of_one_name_are_both_searched(self):
        more = [("src/other/a.c", "int b;\n")]
        self.assertIn("return 1;", self.plant("in a.c\n- return 0;\n+ return 1;\n", more=more))

    def test_refused(self):
        for lines, why in (("in a.c\n- return 5;\n+ return 1;\n", "does not have its lines"),
                           ("in b.c\n- return 0;\n+ return 1;\n", "not in the tree, src/room/a.c does"),
                           ("in a.c\n- x\n+ y\n", "4 times"),
                           ("in a.c\n- return 0;\n+ return 0; /* why */\n", "changes nothing"),
                           ("in a.c\n- urn 0;\n+ 1;\n", "does not have its lines"),
                           ("- return 0;\n", "a change of no file"),
                           ("== b\n", "a second b")):
            with self.subTest(lines=lines), self.assertRaisesRegex(bugs.Unfit, why):
                self.plant(lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)
