#!/usr/bin/env python3
"""Goal: each build links the RocksDB that cmake/rocksdb.cmake promises, and where the source of one without assertions
cannot be had, everything goes on with Debian's.

Method: the tree is copied and configured, with and without a library where `make rocksdb` puts it; what tickwheeld
would be linked with stands in build.ninja. scripts/rocksdb is run with an apt-get that fails.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PARTS = ("CMakeLists.txt", "cmake", "lib", "src", "bin", "packaging", "bench", "scripts")


class Linked(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.tree)
        for name in PARTS:
            path = os.path.join(ROOT, name)
            (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, os.path.join(self.tree, name))
        version = subprocess.run(["pkg-config", "--modversion", "rocksdb"], check=True, capture_output=True, text=True)
        self.built = os.path.join(self.tree, "build/rocksdb", version.stdout.strip(), "librocksdb.a")

    def build(self):
        """As if `make rocksdb` had run."""
        os.makedirs(os.path.dirname(self.built))
        open(self.built, "w", encoding="ascii").close()

    def linked(self, *flags):
        """The RocksDB that tickwheeld would be linked with."""
        folder = tempfile.mkdtemp(dir=self.tree)
        done = subprocess.run(["cmake", "-G", "Ninja", "-S", self.tree, "-B", folder, "-DTICKWHEEL_TESTS=OFF", *flags],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(folder, "build.ninja"), encoding="utf-8") as file:
            step = re.search(r"^build bin/tickwheeld: .*?^  LINK_LIBRARIES = (.*?)$", file.read(), re.M | re.S)
        return re.findall(r"\S*librocksdb\S*", step[1])

    def rocksdb(self, *arguments):
        """Runs scripts/rocksdb where apt-get fails."""
        apt = os.path.join(self.tree, "apt-get")
        with open(apt, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 100\n")
        os.chmod(apt, 0o755)
        return subprocess.run([os.path.join(self.tree, "scripts/rocksdb"), *arguments], capture_output=True, text=True,
                              check=False, env=dict(os.environ, PATH=self.tree + ":" + os.environ["PATH"]))

    def test_a_release_links_the_one_that_was_built(self):
        self.build()
        self.assertEqual(self.linked(), [self.built])

    def test_without_it_a_release_links_the_static_one_of_the_system(self):
        folder = subprocess.run(["pkg-config", "--variable=libdir", "rocksdb"], check=True, capture_output=True,
                                text=True).stdout.strip()
        static = os.path.join(folder, "librocksdb.a")
        if not os.path.exists(static):
            self.skipTest("the system has no static one")
        self.assertEqual(self.linked(), [static])

    def test_other_builds_link_the_shared_one(self):
        self.build()
        for flags in (["-DCMAKE_BUILD_TYPE=Debug"], ["-DTICKWHEEL_SANITIZE=thread"], ["-DTICKWHEEL_ROCKSDB=shared"]):
            with self.subTest(flags=flags):
                self.assertRegex(" ".join(self.linked(*flags)), r"^\S*librocksdb\.so\S*$")

    def test_a_path_is_taken_as_it_is(self):
        other = os.path.join(self.tree, "librocksdb-other.a")
        open(other, "w", encoding="ascii").close()
        self.assertEqual(self.linked("-DCMAKE_BUILD_TYPE=Debug", "-DTICKWHEEL_ROCKSDB=" + other), [other])

    def test_without_its_source_it_says_so_and_leaves_nothing_to_link(self):
        done = self.rocksdb()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^rocksdb: .*cannot be (fetched|found).*\n$")
        self.assertFalse(os.path.exists(self.built))

    def test_the_hint_is_given_until_it_is_built(self):
        self.assertRegex(self.rocksdb("--hint").stdout, r"^RocksDB is Debian's.*make rocksdb.*\n$")
        self.build()
        for arguments in (["--hint"], []):
            done = self.rocksdb(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
