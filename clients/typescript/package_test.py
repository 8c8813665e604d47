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
import pages
import run

# What docs/coming-from.md takes from its reader's program, and a BullMQ with the calls that the page makes.
PRELUDE = """
const connection = {};
const recheck = async (order: number) => { console.log("checked", order); };
"""
BULLMQ_TYPES = """
export interface Job { id?: string; name: string; data: unknown; timestamp: number; delay: number; remove(): Promise<void> }
export declare class Queue { constructor(name: string, options: object); getDelayed(): Promise<Job[]>; close(): Promise<void> }
export declare const left: Job[];
"""
BULLMQ = """
const job = (id, name, hours) => ({id, name, data: {order: 7}, timestamp: Date.now(), delay: hours * 3_600_000,
                                   async remove() { left.splice(left.indexOf(this), 1); }});
export const left = [job("near", "recheck", 0.5), job("far", "recheck", 3), job("other", "report", 3)];
export class Queue { async getDelayed() { return [...left]; } async close() {} }
"""
CHECKS = """
import {left} from "bullmq";
import {deepEqual} from "node:assert/strict";
deepEqual(left.map((job) => job.id), ["near", "other"]);
deepEqual((await timers.get({key: "far"})).payload, {order: 7});
deepEqual(typeof worker.run, "function");
"""


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
        self.compile(tools, project, "readme", self.readme())
        self.compile(tools, project, "coming_from", self.coming_from(project))
        [first] = pages.blocks("first-ten-minutes.md", "ts")
        self.compile(tools, project, "first", first)
        tests = sorted(glob.glob(os.path.join(project, "tests", "*.test.mjs")))
        self.assertEqual(len(tests), 3)
        self.assertEqual(run.run(["node", "--test", *tests], calls_all=True, cwd=project), 0)
        for program in ("readme.js", "coming_from.js"):
            self.assertEqual(run.run(["node", program], cwd=project), 0)
        self.assertTrue(run.prints("TypeScript", "node hello.mjs", ["node", "first.js"], cwd=project))

    def readme(self):
        """All examples of the README as one program."""
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            examples = re.findall(r"```ts\n(.*?)```", file.read(), re.DOTALL)
        self.assertEqual(len(examples), 4)
        return "".join(examples)

    def coming_from(self, project):
        """The examples of docs/coming-from.md as one program, which also checks what they did."""
        examples = pages.blocks("coming-from.md", "ts")
        self.assertEqual(len(examples), 2)
        folder = os.path.join(project, "node_modules", "bullmq")
        os.makedirs(folder)
        for name, text in (("index.js", BULLMQ), ("index.d.ts", BULLMQ_TYPES),
                           ("package.json", '{"type": "module", "main": "index.js"}')):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return PRELUDE + "".join(examples) + CHECKS

    def compile(self, tools, project, name, source):
        with open(os.path.join(project, f"{name}.ts"), "w", encoding="utf-8") as file:
            file.write(re.sub('"http://(localhost|127.0.0.1):8463"', "process.env.TICKWHEEL_URL", source))
        with open(os.path.join(project, "tsconfig.json"), "w", encoding="utf-8") as file:
            json.dump({"compilerOptions": {"target": "ES2022", "module": "NodeNext", "moduleResolution": "NodeNext",
                                           "strict": True, "types": ["node"],
                                           "typeRoots": [os.path.join(tools, "node_modules", "@types")]},
                       "files": [f"{name}.ts"]}, file)
        subprocess.run([os.path.join(tools, "node_modules", ".bin", "tsc")], cwd=project, check=True)


if __name__ == "__main__":
    unittest.main()
