#!/usr/bin/env python3
"""Goal: the archive of `make dist` is the tree, builds by itself without git, and makes the same archive again.

Method: it is made twice and unpacked; from there the library is built and its tests are run, the service is configured,
and the archive is made once more.
"""

import glob
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
JOBS = os.environ.get("JOBS", "2")


def run(*command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def contents(path):
    """The names, kinds, modes and bytes of an archive; its times are those of a commit, or of unpacking."""
    with tarfile.open(path) as archive:
        return {each.name: (each.type, each.mode, each.linkname, each.isfile() and archive.extractfile(each).read())
                for each in archive}


class Dist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.archive = run(os.path.join(ROOT, "scripts/dist"), cls.folder).strip()
        run("tar", "-x", "-C", cls.folder, "-f", cls.archive)
        [cls.tree] = glob.glob(os.path.join(cls.folder, "tickwheel-*/"))

    def test_it_has_every_file_once_and_in_one_folder(self):
        packed = contents(self.archive)
        top = os.path.basename(os.path.dirname(self.tree))
        self.assertEqual(os.path.basename(self.archive), top + ".tar.gz")
        if os.path.exists(os.path.join(ROOT, ".git")):
            listed = run("git", "-C", ROOT, "ls-files", "-z").split("\0")[:-1]
            self.assertEqual(sorted(packed), sorted(os.path.join(top, name) for name in listed))

    def test_the_same_tree_makes_the_same_archive(self):
        again = run(os.path.join(ROOT, "scripts/dist"), tempfile.mkdtemp(dir=self.folder)).strip()
        with open(self.archive, "rb") as first, open(again, "rb") as second:
            self.assertEqual(first.read(), second.read())

    def test_what_was_unpacked_packs_itself_again(self):
        again = run(os.path.join(self.tree, "scripts/dist"), tempfile.mkdtemp(dir=self.folder)).strip()
        self.assertEqual(contents(again), contents(self.archive))

    def test_the_library_builds_and_passes_its_tests(self):
        build = tempfile.mkdtemp(dir=self.folder)
        run("cmake", "-S", self.tree, "-B", build, "-G", "Ninja", "-DTICKWHEEL_SERVICE=OFF", "-DCMAKE_BUILD_TYPE=Debug")
        run("cmake", "--build", build, "-j", JOBS, "--target", "lib/all")
        run("ctest", "--test-dir", os.path.join(build, "lib"), "-j", JOBS, "--output-on-failure", "--no-tests=error")

    def test_the_service_can_be_configured(self):
        run("cmake", "-S", self.tree, "-B", tempfile.mkdtemp(dir=self.folder), "-DTICKWHEEL_TESTS=OFF")


if __name__ == "__main__":
    unittest.main(verbosity=2)
