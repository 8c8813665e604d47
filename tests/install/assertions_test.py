#!/usr/bin/env python3
"""Goal: every build type keeps the assertions of the daemon and of the library, also those that CMake gives -DNDEBUG.

Method: the tree is configured as a packager does it, without a preset, once for each build type; a source of each of
its parts is compiled with the command that this build would use, and its object must call __assert_fail.
"""

import json
import os
import shlex
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCES = ("lib/src/wheel.c", "src/base/bytes.c", "src/engine/entries.c", "bin/tickwheeld.c")
PROBE = "\n#include <assert.h>\nvoid assertions_probe(int a);\nvoid assertions_probe(int a)\n{\n    assert(a);\n}\n"


def run(command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        raise AssertionError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def compiled(entry, folder):
    """The object of a source with a probe at its end, made with the command of compile_commands.json."""
    probe, made = os.path.join(folder, "probe.c"), os.path.join(folder, "probe.o")
    with open(entry["file"], encoding="utf-8") as file, open(probe, "w", encoding="utf-8") as copy:
        copy.write(f"#line 1 \"{entry['file']}\"\n" + file.read() + PROBE)
    command = shlex.split(entry["command"])
    command[command.index("-o") + 1] = made
    command[command.index("-c") + 1] = probe
    run([*command, "-I", os.path.dirname(entry["file"])], cwd=entry["directory"])
    return made


class Assertions(unittest.TestCase):
    def test_every_build_type_keeps_them(self):
        for build_type in ("", "Release", "RelWithDebInfo", "MinSizeRel"):
            with tempfile.TemporaryDirectory() as folder:
                run(["cmake", "-S", ROOT, "-B", folder, "-DTICKWHEEL_TESTS=OFF"]
                    + ["-DCMAKE_BUILD_TYPE=" + build_type] * bool(build_type))
                with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
                    commands = {os.path.relpath(entry["file"], ROOT): entry for entry in json.load(file)}
                for source in SOURCES:
                    with self.subTest(build_type=build_type, source=source):
                        symbols = run(["nm", "-u", compiled(commands[source], folder)])
                        self.assertIn("__assert_fail", symbols)


if __name__ == "__main__":
    unittest.main()
