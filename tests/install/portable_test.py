#!/usr/bin/env python3
"""Goal: the library is C11 with gcc and clang, on machines of 32 bits and of 64, with glibc and with musl, and
keeps its promises on each.

Method: for each of these the library, its models and its fuzz targets are compiled without a warning, and the
targets are run on random bytes (feed.c), which compares every wheel with its model. A compiler that is not
here is skipped and named. TEST_SEED repeats a run. The library's benchmarks are configured alone.
"""

import concurrent.futures
import glob
import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LIB = os.path.join(HERE, "..", "..", "lib")
INPUTS = "60"

GCC = shutil.which("gcc") or "gcc"
CLANG = shutil.which("clang") or "clang"
MACHINES = {
    "gcc": [GCC],
    "gcc, 32 bits": [GCC, "-m32"],
    "gcc, without assertions": [GCC, "-DNDEBUG"],
    "clang": [CLANG],
    "clang, 32 bits": [CLANG, "-m32"],
    "musl": ["musl-gcc"],
    "musl, linked statically": ["musl-gcc", "-static"],
}
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread",
         "-I" + os.path.join(LIB, "include"), "-I" + os.path.join(LIB, "src"),
         "-I" + os.path.join(HERE, "..", "support")]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def can_link(compiler):
    with tempfile.TemporaryDirectory() as folder:
        try:
            return subprocess.run([*compiler, "-xc", "-", "-o", folder + "/x"], text=True, check=False,
                                  input="#include <stdlib.h>\nint main(void) { return 0; }\n",
                                  stderr=subprocess.DEVNULL).returncode == 0
        except FileNotFoundError:
            return False


class Portable(unittest.TestCase):
    def build_and_feed(self, name):
        compiler = MACHINES[name]
        if not can_link(compiler):
            self.skipTest(f"{name}: {' '.join(compiler)} does not work here")
        sources = glob.glob(os.path.join(LIB, "src", "*.c")) + [os.path.join(HERE, "feed.c")]
        sources = [path for path in sources if not path.endswith(("_test.c", "_bench.c"))]
        with tempfile.TemporaryDirectory() as folder, \
                concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", 2))) as pool:
            def compile_one(source):
                made = os.path.join(folder, os.path.basename(source)[:-2] + ".o")
                run([*compiler, *FLAGS, "-c", source, "-o", made])
                return made
            made = list(pool.map(compile_one, sources))
            targets = [path for path in made if path.endswith("_fuzz.o")]
            shared = [path for path in made if path not in targets]
            self.assertGreaterEqual(len(targets), 4)
            for target in targets:
                program = target.removesuffix(".o")
                run([*compiler, "-pthread", target, *shared, "-o", program])
                print(name, os.path.basename(program), run([program, INPUTS]).replace("\n", " "))


class Configure(unittest.TestCase):
    def test_the_peers_benchmarks_without_service_and_tests(self):
        if not shutil.which("cmake"):
            self.skipTest("no cmake")
        with tempfile.TemporaryDirectory() as folder:
            run(["cmake", "-S", os.path.join(HERE, "..", ".."), "-B", folder, "-DTICKWHEEL_SERVICE=OFF",
                 "-DTICKWHEEL_TESTS=OFF", "-DTICKWHEEL_BENCH_PEERS=ON"])


def add_machine(name):
    setattr(Portable, "test_" + "_".join(name.replace(",", "").split()),
            lambda self: self.build_and_feed(name))


for each in MACHINES:
    add_machine(each)

if __name__ == "__main__":
    unittest.main(verbosity=2)
