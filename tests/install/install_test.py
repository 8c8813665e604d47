#!/usr/bin/env python3
"""Goal: who installs the library alone gets all of it, nothing else, and can use it from C and C++ with
pkg-config and with CMake, shared and static.

Method: it is built and installed as `make install-lib` does it, with pkg-config out of reach, into a folder
that is then moved; consumer.c is built from there in every way and run; and what the shared library exports
is compared with the headers and with the committed list, in both directions.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import pages

CONSUMER = os.path.join(HERE, "consumer.c")
WARNINGS = ["-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Wconversion", "-Werror"]

CMAKE_CONSUMER = """
cmake_minimum_required(VERSION 3.16)
project(consumer LANGUAGES {language})
find_package(tickwheel 0.2 REQUIRED)
set_source_files_properties({source} PROPERTIES LANGUAGE {language})
add_executable(consumer {source})
target_link_libraries(consumer PRIVATE {target})
"""


def run(*command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def declared():
    """The functions of the headers that are not inline."""
    found = set()
    for name in os.listdir(os.path.join(ROOT, "lib/include/tickwheel")):
        with open(os.path.join(ROOT, "lib/include/tickwheel", name), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        text = re.sub(r"static inline .*?\n}\n|^#define [^\n]*(?:\\\n[^\n]*)*", "", text, flags=re.S | re.M)
        found |= set(re.findall(r"^(?!typedef)\w[^;{(]*?\b(tw_\w+)\(", text, flags=re.M))
    return found


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        build, first = os.path.join(cls.folder, "build"), os.path.join(cls.folder, "first")
        run("cmake", "-S", ROOT, "-B", build, "-DTICKWHEEL_SERVICE=OFF", "-DTICKWHEEL_TESTS=OFF",
            "-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON", "-DCMAKE_C_FLAGS_RELEASE=-O1",
            "-DCMAKE_INSTALL_PREFIX=" + first)
        run("cmake", "--build", build, "-j", os.environ.get("JOBS", "2"), "--target",
            "tickwheel", "tickwheel_shared", "manual")
        run("cmake", "--install", build)
        cls.prefix = os.path.join(cls.folder, "moved")
        os.rename(first, cls.prefix)
        cls.lib = os.path.dirname(cls.find("libtickwheel.so"))
        cls.settings = dict(os.environ, PKG_CONFIG_PATH=os.path.join(cls.lib, "pkgconfig"))

    @classmethod
    def find(cls, name):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(cls.prefix) if name in names]
        assert len(found) == 1, (name, found)
        return found[0]

    def program(self):
        return os.path.join(tempfile.mkdtemp(dir=self.folder), "consumer")

    def check_program(self, program, is_shared):
        self.assertEqual(run(program, env={"LD_LIBRARY_PATH": self.lib}), "used\n")
        needed = run("readelf", "-d", program)
        self.assertEqual("[libtickwheel.so.0.2]" in needed, is_shared, needed)

    def build_by_pkg_config(self, compiler, is_shared):
        flags = run("pkg-config", "--cflags", "--libs", *([] if is_shared else ["--static"]), "tickwheel",
                    env=self.settings).split()
        program = self.program()
        run(*compiler, *WARNINGS, CONSUMER, "-o", program, *([] if is_shared else ["-static"]), *flags)
        self.check_program(program, is_shared)

    def test_pkg_config_shared_from_c(self):
        self.build_by_pkg_config(["cc", "-std=c11"], True)

    def test_pkg_config_static_from_c(self):
        self.build_by_pkg_config(["cc", "-std=c11"], False)

    def test_pkg_config_shared_from_cplusplus(self):
        self.build_by_pkg_config(["c++", "-std=c++11", "-xc++"], True)

    def test_pkg_config_static_from_cplusplus(self):
        self.build_by_pkg_config(["c++", "-std=c++11", "-xc++"], False)

    def build_by_cmake(self, language, is_shared):
        source = tempfile.mkdtemp(dir=self.folder)
        target = "tickwheel::tickwheel" + ("" if is_shared else "_static")
        with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(CMAKE_CONSUMER.format(language=language, target=target, source=CONSUMER))
        build = os.path.join(source, "build")
        run("cmake", "-S", source, "-B", build, "-DCMAKE_PREFIX_PATH=" + self.prefix,
            "-DCMAKE_BUILD_TYPE=Debug")
        run("cmake", "--build", build)
        self.check_program(os.path.join(build, "consumer"), is_shared)

    def test_cmake_shared_from_c(self):
        self.build_by_cmake("C", True)

    def test_cmake_static_from_c(self):
        self.build_by_cmake("C", False)

    def test_cmake_shared_from_cplusplus(self):
        self.build_by_cmake("CXX", True)

    def test_cmake_static_from_cplusplus(self):
        self.build_by_cmake("CXX", False)

    def test_the_first_program_of_the_documents(self):
        page, section = "first-ten-minutes.md", "The C library"
        folder = tempfile.mkdtemp(dir=self.folder)
        os.symlink(self.prefix, os.path.join(folder, "installed"))
        with open(os.path.join(folder, "hello.c"), "w", encoding="utf-8") as file:
            file.write(pages.blocks(page, "c", section)[0])
        command, printed = pages.sessions(page, section)[1]
        self.assertEqual(run("sh", "-c", command, cwd=folder), printed)

    def test_each_header_compiles_alone_in_every_language(self):
        include = os.path.join(self.prefix, "include")
        names = sorted(os.listdir(os.path.join(include, "tickwheel")))
        self.assertEqual(names, sorted(os.listdir(os.path.join(ROOT, "lib/include/tickwheel"))))
        if subprocess.run(["cc", "-xc", "-fsyntax-only", "-include", "uv.h", "/dev/null"], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            names.remove("uv.h")
            print("left out: uv.h, as libuv is not installed")
        compilers = [["cc", "-std=c99", "-xc"], ["cc", "-std=c11", "-xc"], ["c++", "-std=c++11", "-xc++"],
                     ["c++", "-std=c++20", "-xc++"]]
        for other in (["clang", "-std=c11", "-xc"], ["clang++", "-std=c++17", "-xc++"]):
            if shutil.which(other[0]):
                compilers.append(other)
            else:
                print(f"left out: {other[0]}, which is not installed")
        for name in names:
            for compiler in compilers:
                with self.subTest(name=name, compiler=compiler):
                    libuv = ["-D_GNU_SOURCE"] if name == "uv.h" else []  # its header needs it
                    run(*compiler, *WARNINGS, *libuv, "-fsyntax-only", "-I", include,
                        "-include", "tickwheel/" + name, "/dev/null")

    def test_it_exports_what_the_headers_declare_and_nothing_else(self):
        listed = run("nm", "-D", "--defined-only", self.find("libtickwheel.so"))
        exported = {match[1] for match in re.finditer(r" [A-Z] (\w+)@@TICKWHEEL_0$", listed, flags=re.M)}
        # The only other line is the version's own, which not every linker writes.
        others = [line for line in listed.splitlines() if not line.endswith(" TICKWHEEL_0")]
        self.assertEqual(len(others), len(exported), listed)
        self.assertGreater(len(exported), 50)
        self.assertEqual(exported ^ declared(), set(), "in the one or the other; `make docs` lists them")

    def test_the_committed_list_is_what_is_exported(self):
        with open(os.path.join(ROOT, "lib/libtickwheel.map"), encoding="utf-8") as file:
            names = re.findall(r"^    (tw_\w+);$", file.read(), flags=re.M)
        self.assertEqual(names, sorted(declared()))

    def test_it_stands_on_the_c_library_alone(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", self.find("libtickwheel.so")))
        self.assertEqual(set(needed) - {"libc.so.6", "libpthread.so.0"}, set())
        self.assertIn("[libtickwheel.so.0.2]", run("readelf", "-d", self.find("libtickwheel.so")))

    def test_cmake_accepts_the_versions_of_one_soname(self):
        for version, is_found in (("0.2", True), ("0.2.0", True), ("0.1", False), ("0.3", False), ("1.0", False)):
            source = tempfile.mkdtemp(dir=self.folder)
            with open(os.path.join(source, "CMakeLists.txt"), "w", encoding="utf-8") as file:
                file.write("cmake_minimum_required(VERSION 3.16)\nproject(consumer LANGUAGES C)\n"
                           f"find_package(tickwheel {version} QUIET)\n"
                           "file(WRITE ${CMAKE_BINARY_DIR}/found \"${tickwheel_FOUND}\")\n")
            run("cmake", "-S", source, "-B", source, "-DCMAKE_PREFIX_PATH=" + self.prefix)
            with open(os.path.join(source, "found"), encoding="utf-8") as file:
                self.assertEqual(file.read() == "1", is_found, version)

    def test_nothing_of_the_service_is_installed(self):
        top = {os.path.relpath(os.path.join(folder, name), self.prefix).split(os.sep)[0]
               for folder, _, names in os.walk(self.prefix) for name in names}
        self.assertEqual(top, {"include", os.path.relpath(self.lib, self.prefix).split(os.sep)[0], "share"})

    def test_every_function_has_its_page(self):
        pages = set(os.listdir(os.path.join(self.prefix, "share/man/man3")))
        self.assertEqual({name + ".3" for name in declared()} - pages, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
