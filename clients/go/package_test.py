#!/usr/bin/env python3
"""The Go module as its users get it: its tests, which run the contract of all client libraries against the daemon of the
build under the race detector, and the program of its README, built in a module of its own. Without Go the test is
skipped and says so.
"""

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
import outbox
import pages
import run

DRIVERS = ["github.com/jackc/pgx/v5@v5.7.1", "github.com/lib/pq@v1.10.9"]


def go(*arguments, cwd):
    subprocess.run(["go", *arguments], cwd=cwd, check=True, env={**os.environ, "GOFLAGS": "-mod=mod"})


@unittest.skipUnless(shutil.which("go"), "Go is not installed")
class PackageTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-go-")
        self.addCleanup(shutil.rmtree, self.folder)

    def test_module(self):
        go("vet", "./...", cwd=HERE)
        program = os.path.join(self.folder, "client.test")
        # Built before the daemon starts; without cgo there is no race detector.
        is_racy = ["-race"] if shutil.which("cc") else []
        go("test", *is_racy, "-c", "-o", program, ".", cwd=HERE)
        self.assertEqual(run.run([program], calls_all=True, cwd=HERE), 0)

    def test_virtual_clock(self):
        """The tests of tickwheeltest, which start daemons of their own."""
        program = os.path.join(self.folder, "tickwheeltest.test")
        go("test", *(["-race"] if shutil.which("cc") else []), "-c", "-o", program, "./tickwheeltest", cwd=HERE)
        self.assertEqual(run.run([program, "-test.v"], cwd=HERE), 0)

    def test_readme(self):
        """The program and the fragments of the README, in a module that requires this one."""
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            text = file.read()
        programs = re.findall(r"```go\n(package main\n.*?)```", text, re.DOTALL)
        self.assertEqual(len(programs), 1)
        fragments = [one for one in re.findall(r"```go\n(.*?)```", text, re.DOTALL)
                     if not one.startswith("package") and "InTransaction" not in one]
        self.assertGreater(len(fragments), 1)
        source = programs[0].replace("http://localhost:8463", "")
        body = "".join(f"func example{i}(ctx context.Context, timers *tickwheel.Client) error {{\n{one}\nreturn nil\n}}\n"
                       for i, one in enumerate(fragments))
        imports = ('package main\nimport (\n"context"\n"errors"\n"fmt"\n"net/http"\n"time"\n'
                   '"tickwheel.example/client"\n)\nvar _ = errors.Is\nvar _ = fmt.Println\nvar _ = time.Second\n'
                   'var _ http.Handler\n')
        self.build({"main.go": source, "fragments.go": imports + body})
        self.assertEqual(run.run([os.path.join(self.folder, "main")]), 0)

    @unittest.skipIf(outbox.missing(), outbox.missing())
    def test_transaction(self):
        """The calls in transactions of drivers that the client does not require, and the example of the README."""
        with open(os.path.join(HERE, "testdata", "transaction", "main.go"), encoding="utf-8") as file:
            self.build({"main.go": file.read()}, DRIVERS)
        outbox.run(self, [os.path.join(self.folder, "main")], ["pgx", "pgx-stdlib", "pq"])
        with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
            [example] = [one for one in re.findall(r"```go\n(.*?)```", file.read(), re.DOTALL) if "InTransaction" in one]
        source = ('package main\nimport (\n"context"\n"os"\n"github.com/jackc/pgx/v5"\n"tickwheel.example/client"\n)\n'
                  "func example(ctx context.Context, timers *tickwheel.Client, conn *pgx.Conn) error {\n" + example + "}\n"
                  "func main() {\nctx := context.Background()\ntimers, err := tickwheel.New(\"\")\nif err != nil { panic(err) }\n"
                  'conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))\nif err != nil { panic(err) }\n'
                  "if err := example(ctx, timers, conn); err != nil { panic(err) }\n}\n")
        self.build({"main.go": source})
        outbox.run_readme(self, [os.path.join(self.folder, "main")])

    def test_first_ten_minutes(self):
        """The program of docs/first-ten-minutes.md, and what it prints."""
        [source] = pages.blocks("first-ten-minutes.md", "go")
        self.build({"main.go": source.replace("http://127.0.0.1:8463", "")})
        self.assertTrue(run.prints("Go", "go run .", [os.path.join(self.folder, "main")]))

    def build(self, files, required=()):
        """A program in a module of its own that requires this one, and others."""
        for name, content in files.items():
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(content)
        if not os.path.exists(os.path.join(self.folder, "go.mod")):
            go("mod", "init", "shop.example/main", cwd=self.folder)
            go("mod", "edit", "-require", "tickwheel.example/client@v0.2.0", "-replace",
               f"tickwheel.example/client={HERE}", *[f"-require={one}" for one in required], cwd=self.folder)
        go("build", "-o", "main", ".", cwd=self.folder)


if __name__ == "__main__":
    unittest.main()
