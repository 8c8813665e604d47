#!/usr/bin/env python3
"""The npm package as its users get it: built and packed, the tarball installed into a new project, and all tests run
there against the daemon of the build; the examples of the README are compiled strictly there and run. Without node, or
without the registry for the compiler, the test is skipped and says so.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "contract"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "support"))
import harness
import run


def compiler():
    """The folder with node_modules/typescript, installed once for each build folder; None without the registry."""
    folder = os.path.abspath(os.path.join(harness.BUILD, "client-typescript-tools"))
    done = os.path.join(folder, "installed")
    if not os.path.exists(done):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(HERE, "package.json"), encoding="utf-8") as file:
            wanted = json.load(file)["devDependencies"]
        with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as file:
            json.dump({"private": True, "dependencies": wanted}, file)
        if subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder).returncode != 0:
            return None
        open(done, "w").close()
    return folder


@unittest.skipUnless(shutil.which("node") and shutil.which("npm"), "node is not installed")
class PackageTest(unittest.TestCase):
    def test_package(self):
        tools = compiler()
        if not tools:
            self.skipTest("the package registry is out of reach")
        folder = tempfile.mkdtemp(prefix="tickwheel-typescript-")
        self.addCleanup(shutil.rmtree, folder)
        source = shutil.copytree(HERE, os.path.join(folder, "source"),
                                 ignore=shutil.ignore_patterns("node_modules", "dist", "package-lock.json"))
        os.symlink(os.path.join(tools, "node_modules"), os.path.join(source, "node_modules"))
        subprocess.run(["npm", "pack", "--silent", "--pack-destination", folder], cwd=source, check=True,
                       stdout=subprocess.DEVNULL)
        [tarball] = glob.glob(os.path.join(folder, "*.tgz"))

        project = os.path.join(folder, "project")
        shutil.copytree(os.path.join(HERE, "tests"), os.path.join(project, "tests"))
        with open(os.path.join(project, "package.json"), "w", encoding="utf-8") as file:
            json.dump({"private": True, "type": "module"}, file)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", tarball], cwd=project,
                       check=True)
        self.compile_readme(tools, project)
        tests = sorted(glob.glob(os.path.join(project, "tests", "*.test.mjs")))
        self.assertEqual(len(tests), 2)
        self.assertEqual(run.run(["node", "--test", *tests], cwd=project), 0)
        self.assertEqual(run.run(["node", "readme.js"], cwd=project), 0)

    def compile_readme(self, tools, project):
        """All examples of the README as one program."""
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            examples = re.findall(r"```ts\n(.*?)```", file.read(), re.DOTALL)
        self.assertEqual(len(examples), 4)
        with open(os.path.join(project, "readme.ts"), "w", encoding="utf-8") as file:
            file.write("".join(examples).replace('"http://localhost:8463"', "process.env.TICKWHEEL_URL"))
        with open(os.path.join(project, "tsconfig.json"), "w", encoding="utf-8") as file:
            json.dump({"compilerOptions": {"target": "ES2022", "module": "NodeNext", "moduleResolution": "NodeNext",
                                           "strict": True, "types": ["node"],
                                           "typeRoots": [os.path.join(tools, "node_modules", "@types")]},
                       "files": ["readme.ts"]}, file)
        subprocess.run([os.path.join(tools, "node_modules", ".bin", "tsc")], cwd=project, check=True)


if __name__ == "__main__":
    unittest.main()
