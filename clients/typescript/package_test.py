#!/usr/bin/env python3
"""The npm package as its users get it: built and packed, the tarball installed into a new project, and all tests run
there against the daemon of the build; the examples of the README are compiled strictly there and run. Without node, or
without the registry for the compiler, the test is skipped and says so.
"""

import glob
import json
import os
import pathlib
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
import outbox
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


# Libraries of databases, with which the examples are compiled and run.
DATABASES = {"pg": "8.13.1", "@types/pg": "8.11.10", "drizzle-orm": "0.36.4", "postgres": "3.4.5"}
TYPES = """
import {Client} from "tickwheel";
import {sql} from "drizzle-orm";
import {drizzle} from "drizzle-orm/node-postgres";
import pg from "pg";
import postgres from "postgres";
const timers = new Client(), db = drizzle(new pg.Pool()), other = postgres();
declare const prisma: {$transaction<R>(run: (tx: {$queryRawUnsafe<T = unknown>(query: string, ...values: any[]): Promise<T>}) => Promise<R>): Promise<R>};
export async function all(one: pg.PoolClient, client: pg.Client) {
  await db.transaction((tx) => timers.inTransaction(tx, sql).cancel("order-42"));
  await prisma.$transaction((tx) => timers.inTransaction(tx).cancel("order-42"));
  await other.begin((tx) => timers.inTransaction((text, values) => tx.unsafe(text, values)).cancel("order-42"));
  await timers.inTransaction(client).touch("k", {after: "1h"});
  const row: bigint = await timers.inTransaction(one).create({target: "queue:a", after: "1h"});
  // @ts-expect-error
  await timers.inTransaction(one).create({target: "queue:a", aftr: "1h"});
  return row;
}
"""


def installed(name, packages):
    """The folder with node_modules, installed once for each build folder; None without the registry."""
    folder = os.path.abspath(os.path.join(harness.BUILD, name))
    done = os.path.join(folder, "installed")
    wanted = json.dumps({"private": True, "dependencies": packages})
    if not os.path.exists(done) or pathlib.Path(done).read_text(encoding="utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(os.path.join(folder, "package.json"), "w", encoding="utf-8") as file:
            file.write(wanted)
        if subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder).returncode != 0:
            return None
        shutil.copy(os.path.join(folder, "package.json"), done)
    return folder


def compiler():
    with open(os.path.join(HERE, "package.json"), encoding="utf-8") as file:
        return installed("client-typescript-tools", json.load(file)["devDependencies"])


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
        readme, in_transaction = self.readme()
        self.compile(tools, project, "readme", readme)
        self.compile(tools, project, "coming_from", self.coming_from(project))
        [first] = pages.blocks("first-ten-minutes.md", "ts")
        self.compile(tools, project, "first", first)
        tests = sorted(glob.glob(os.path.join(project, "tests", "*.test.mjs")))
        self.assertEqual(len(tests), 3)
        self.assertEqual(run.run(["node", "--test", *tests], calls_all=True, cwd=project), 0)
        for program in ("readme.js", "coming_from.js"):
            self.assertEqual(run.run(["node", program], cwd=project), 0)
        self.assertTrue(run.prints("TypeScript", "node hello.mjs", ["node", "first.js"], cwd=project))
        if not outbox.missing():
            self.check_transactions(tools, project, in_transaction)

    def check_transactions(self, tools, project, readme):
        """The calls in transactions of libraries that the package does not depend on."""
        databases = installed("client-typescript-databases", DATABASES)
        self.assertTrue(databases)
        for name in DATABASES:
            place = os.path.join(project, "node_modules", name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(os.path.join(databases, "node_modules", name), place)
        self.compile(tools, project, "types", TYPES)
        outbox.run(self, ["node", "tests/transaction.mjs"], ["pg", "pool", "drizzle", "prisma", "postgres"], cwd=project)
        self.compile(tools, project, "transaction", 'import {Client} from "tickwheel";\nconst timers = new Client();\n' + readme)
        outbox.run_readme(self, ["node", "transaction.js"], cwd=project)

    def readme(self):
        """The examples of the README: one program without a database, and the one of a transaction."""
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            examples = re.findall(r"```ts\n(.*?)```", file.read(), re.DOTALL)
        self.assertEqual(len(examples), 5)
        return "".join(one for one in examples if "inTransaction" not in one), next(
            one for one in examples if "inTransaction" in one)

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
                                           "strict": True, "types": ["node"], "skipLibCheck": True,
                                           "typeRoots": [os.path.join(tools, "node_modules", "@types")]},
                       "files": [f"{name}.ts"]}, file)
        subprocess.run([os.path.join(tools, "node_modules", ".bin", "tsc")], cwd=project, check=True)


if __name__ == "__main__":
    unittest.main()
