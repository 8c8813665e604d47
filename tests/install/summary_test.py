#!/usr/bin/env python3
"""Goal: the last line of scripts/test counts what passed and what was skipped apart, and a program that fails by chance
is named and does not fail the run. Method: the script in a tree of its own, whose tests pass, skip as a whole, skip some of
their cases, fail, and fail once; only cmake, which would build, has a stand-in.
"""

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

TESTS = """cmake_minimum_required(VERSION 3.16)
project(summary NONE)
enable_testing()
add_test(NAME good COMMAND sh -c "echo '[       OK ] a'; echo '[       OK ] b'")
add_test(NAME partly COMMAND sh -c "echo '[  SKIPPED ] c'; echo '[  SKIPPED ] 2 test(s), listed below:'")
add_test(NAME python COMMAND sh -c "echo 'OK (skipped=3)'")
add_test(NAME none_here COMMAND sh -c "exit 77")
add_test(NAME none_either COMMAND sh -c "exit 77")
set_tests_properties(none_here none_either PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME bad COMMAND sh -c "exit 1")
add_test(NAME quick COMMAND sh -c "exit 0")
add_test(NAME late COMMAND sh -c "exit 0")
add_test(NAME late_and_more COMMAND sh -c "exit 0")
foreach(name once_seldom once_leaving once_leaked once_crashed once_aborted seeded)
    add_test(NAME ${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/${name}.sh)
endforeach()
set_tests_properties(quick PROPERTIES LABELS check)
set_tests_properties(late PROPERTIES LABELS nightly)
set_tests_properties(late_and_more PROPERTIES LABELS "more;nightly")
"""

# They fail in the first run only, but for the last, which any run with its seed fails.
ONCE = {
    "once_seldom": "echo TEST_SEED=1; echo '[  FAILED  ] a'; echo TEST_SEED=2; exit 1",
    "once_leaving": "echo '[  FAILED  ] a'; echo 'ERROR: LeakSanitizer: detected memory leaks'; "
                    "echo 'SUMMARY: AddressSanitizer: 9 byte(s) leaked in 1 allocation(s).'; exit 1",
    "once_leaked": "echo 'ERROR: LeakSanitizer: detected memory leaks'; exit 1",
    "once_crashed": "echo 'ERROR: AddressSanitizer: heap-use-after-free'; exit 1",
    "once_aborted": "kill -ABRT $$",
    "seeded": "echo TEST_SEED=5; exit 1",
}
ALWAYS = {"once_seldom": "test $TEST_SEED = 1", "seeded": "test $TEST_SEED != 5"}


class Summary(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(os.path.join(self.folder, "scripts"))
        os.makedirs(os.path.join(self.folder, "bin"))
        shutil.copy(os.path.join(ROOT, "scripts", "test"), os.path.join(self.folder, "scripts"))
        with open(os.path.join(self.folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(TESTS)
        for name, first in ONCE.items():
            with open(os.path.join(self.folder, name + ".sh"), "w", encoding="utf-8") as file:
                file.write(f"test -e {name}.ran || {{ touch {name}.ran; {first}; }}\n{ALWAYS.get(name, 'true')}\n")
        subprocess.run(["cmake", "-S", self.folder, "-B", os.path.join(self.folder, "build/dev")], check=True,
                       capture_output=True)
        cmake = os.path.join(self.folder, "bin/cmake")
        with open(cmake, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n")
        os.chmod(cmake, 0o755)

    def run_script(self, *arguments):
        path = os.path.join(self.folder, "bin") + os.pathsep + os.environ["PATH"]
        return subprocess.run([os.path.join(self.folder, "scripts/test"), "dev", *arguments], capture_output=True,
                              text=True, check=False, env=dict(os.environ, PATH=path))

    def test_what_was_skipped_has_not_passed(self):
        done = self.run_script("-E", "bad|late|quick|once|seeded")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        last = done.stdout.splitlines()[-1]
        self.assertRegex(last, r"^dev: 3 test programs passed, 2 unit tests among them, in \d+ s; "
                               r"2 skipped \(none_here none_either\), and 5 tests of those that passed$")

    def test_a_failure_is_a_failure(self):
        done = self.run_script("-E", "late|once|seeded")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("dev: FAILED, see above (4 test programs passed; 2 skipped (none_here none_either), and 5 tests "
                      "of those that passed)", done.stderr)

    def test_what_passes_alone_is_named(self):
        for name in ("once_seldom", "once_leaving"):
            with self.subTest(name=name):
                done = self.run_script("-R", f"good|{name}")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                before, last = done.stdout.splitlines()[-2:]
                self.assertEqual(before, f"failed among others, passed alone: {name}")
                self.assertTrue(last.startswith("dev: 2 test programs passed"), last)

    def test_a_crash_or_a_seed_that_fails_again_is_a_failure(self):
        for name in ("once_leaked", "once_crashed", "once_aborted", "seeded"):
            with self.subTest(name=name):
                done = self.run_script("-R", f"good|once_seldom|{name}")
                self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("dev: FAILED, see above", done.stderr)
                self.assertNotIn(f"passed alone: {name}", done.stdout)

    def test_words_choose_by_label(self):
        for word, count in (("check", 1), ("nightly", 2)):
            with self.subTest(word=word):
                done = self.run_script(word)
                self.assertIn(f"dev: {count} test programs passed", done.stdout.splitlines()[-1], done.stderr)

    def test_nothing_was_skipped(self):
        done = self.run_script("-R", "good")
        self.assertTrue(done.stdout.splitlines()[-1].endswith("; 0 skipped, and 0 tests of those that passed"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
