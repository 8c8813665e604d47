#!/usr/bin/env python3
"""Goal: the manual has the contents of the headers, and the committed list of exports is not stale.

Method: scripts/reference runs over the headers, and its list is compared with the committed one; mandoc
checks the manual; and over small headers, each with one missing comment, where it must fail and name it.
"""

import filecmp
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts/reference")

GOOD = """/*
 * good.h - an example of a header.
 *
 * It turns:
 *
 *     good_turn(good);
 *
 * Time       None.
 * Errors     It cannot fail,
 *            ever.
 */
#ifndef TICKWHEEL_GOOD_H
#define TICKWHEEL_GOOD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most. */
#define TW_GOOD_MAX 3

struct tw_good;

/* What became of it. */
enum tw_good_end {
    TW_GOOD_DONE, /* it was done */
    TW_GOOD_LOST,
};

/* Is called with `context` when `good` has turned. */
typedef void (*tw_good_turned)(struct tw_good *good, void *context);

/* Turns it by `angle`:
 *
 * - to the left, up to TW_GOOD_MAX;
 * - to the right. A second
 *   sentence.
 *
 * Then calls `turned`, or `done` with `context`. */
enum tw_good_end tw_good_turn(struct tw_good *good, int angle, tw_good_turned turned,
                              void (*done)(void *context, int count), void *context);

/* For tw_good_twice. */
static inline int tw_good_double_(int angle);

/* Twice `angle`. */
static inline int tw_good_twice(int angle)
{
    return angle * 2;
}

#ifdef __cplusplus
}
#endif

#endif
"""

# Text replaced -> the complaint expected.
FLAWS = {
    ("/* Twice `angle`. */\n", ""): "tw_good_twice has no comment",
    ("/* The most. */\n", ""): "TW_GOOD_MAX has no comment",
    ("/* What became of it. */\n", ""): "tw_good_end has no comment",
    ("/* Is called with `context` when `good` has turned. */\n", ""): "tw_good_turned has no comment",
    ("by `angle`", "round"): "tw_good_turn does not speak of angle",
    (" or `done` with", " with"): "tw_good_turn does not speak of done",
    ("/* Twice `angle`. */\n", "/* Twice `angle`. */\n\n"): "belongs to nothing",
    ("good.h - an example", "better.h - an example"): "no opening comment",
    ("/* Twice", "} /* Twice"): "what is this?",
}


def make(*arguments, headers=None):
    folder = [] if headers is None else ["--headers", headers]
    return subprocess.run([SCRIPT, *arguments, *folder], capture_output=True, text=True, check=False, cwd=ROOT)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def made(self, *arguments, headers=None):
        done = make(*arguments, headers=headers)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()


class Committed(Folder):
    def test_the_exports_are_those_that_the_headers_make(self):
        path = os.path.join(self.folder, "map")
        self.made("--map", path)
        self.assertTrue(filecmp.cmp(path, os.path.join(ROOT, "lib/libtickwheel.map"), shallow=False),
                        "lib/libtickwheel.map is stale: make docs")

    def test_the_manual_pleases_mandoc(self):
        if not shutil.which("mandoc"):
            self.skipTest("there is no mandoc here")
        self.made("--man", self.folder, "--version", "1.2.3")
        pages = [name for name in os.listdir(self.folder) if name.startswith("tickwheel")]
        self.assertGreaterEqual(len(pages), 5)
        done = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *sorted(pages)], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout + done.stderr, "")

    def test_aliases_lead_to_pages(self):
        self.made("--man", self.folder)
        for name in os.listdir(self.folder):
            target = re.fullmatch(r"\.so man3/(.*)\n", self.read(name))
            if target:
                self.assertIn(f"\n.It Fn {name.removesuffix('.3')}", self.read(target[1]))


class Small(Folder):
    def header(self, text):
        folder = tempfile.mkdtemp(dir=self.folder)
        with open(os.path.join(folder, "good.h"), "w", encoding="utf-8") as file:
            file.write(text)
        return folder

    def test_the_whole_header_is_in_the_manual(self):
        self.made("--man", os.path.join(self.folder, "out"), headers=self.header(GOOD))
        page = self.read("out/tickwheel-good.3")
        for part in (".Nd an example of a header\n", '.Fa "void (*done)(void *context, int count)"\n',
                     ".Bl -bullet", "Twice \\fIangle\\fP.", ".Ft int\n.Fo tw_good_twice\n"):
            self.assertIn(part, page)

    def test_the_list_of_exports_leaves_out_inline_functions(self):
        path = os.path.join(self.folder, "map")
        self.made("--map", path, headers=self.header(GOOD))
        self.assertEqual(re.findall(r"tw_\w+", self.read("map")), ["tw_good_turn"])

    def test_a_missing_comment_is_named(self):
        for (old, new), complaint in FLAWS.items():
            with self.subTest(complaint=complaint):
                self.assertIn(old, GOOD)
                done = make("--map", os.devnull, headers=self.header(GOOD.replace(old, new, 1)))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(complaint, done.stderr)
                self.assertRegex(done.stderr, r"good\.h:\d+: ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
