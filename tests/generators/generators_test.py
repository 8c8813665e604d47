#!/usr/bin/env python3
"""Clients that generators make of /openapi.json work: six generators, as their registries have them, make a client each;
each is compiled, and creates, changes, lists and cancels a timer, is refused with a problem, and leases and acknowledges an
item of a queue, against the real daemon with tokens.

What is fetched lies in the build folder, under `generators`. Where a toolchain is missing, or its registry out of reach,
the generator is skipped with a line that says so: python3, java with javac and mvn, go, node with npm.
"""

import json
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness
from daemon_case import TokensCase

CACHE = os.path.abspath(os.path.join(harness.BUILD, "generators"))
PYTHON = ["openapi-python-client==0.29.1", "urllib3==2.5.0", "python-dateutil==2.9.0.post0", "pydantic==2.12.4"]
NODE = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3", "@types/node@22.19.1"]
OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"
OAPI_RUNTIME = "github.com/oapi-codegen/runtime@v1.8.0"


class GeneratorsTest(TokensCase):
    @classmethod
    def setUpClass(cls):
        os.makedirs(CACHE, exist_ok=True)

    def setUp(self):
        super().setUp()
        token = self.token("all", "shop", "schedule,read")
        self.write_tokens()
        self.daemon = self.start()
        queue = self.id().rsplit("test_", 1)[1]
        self.arguments = [f"http://127.0.0.1:{self.daemon.port}", token, queue]
        self.document = self.path("openapi.json")
        with open(self.document, "w", encoding="utf-8") as file:
            json.dump(self.daemon.call("GET", "/openapi.json")[2], file)

    def needs(self, *programs):
        for program in programs:
            if not shutil.which(program):
                self.skipTest(f"{program} is not installed")

    def run_in(self, folder, *command, env=None):
        done = subprocess.run(command, cwd=folder, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, f"{' '.join(command)}\n{done.stdout[-6000:]}")

    def installed(self, name, wanted, *commands):
        """A folder of the cache in which the commands have run, once for these words; skips the test when one fails."""
        folder, mark = os.path.join(CACHE, name), os.path.join(CACHE, name, "installed")
        if os.path.exists(mark):
            with open(mark, encoding="utf-8") as file:
                if file.read() == str(wanted):
                    return folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for command in commands:
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                self.skipTest(f"{name}: `{command[0]}` cannot fetch it")
        with open(mark, "w", encoding="utf-8") as file:
            file.write(str(wanted))
        return folder

    # ---- Python ----

    def python(self):
        folder = self.installed("python", PYTHON, [sys.executable, "-m", "venv", "."],
                                ["bin/pip", "--disable-pip-version-check", "install", "-q", *PYTHON])
        return os.path.join(folder, "bin")

    # proves: openapi-generators
    def test_openapi_python_client(self):
        programs = self.python()
        # Lines of JSON are no content type that it knows.
        with open(self.path("config.yaml"), "w", encoding="utf-8") as file:
            file.write("content_type_overrides:\n  application/x-ndjson: application/octet-stream\n"
                       "  application/jsonl: application/octet-stream\n  text/calendar: application/octet-stream\npackage_name_override: tickwheel_client\n"
                       "post_hooks: []\n")
        self.run_in(self.folder, os.path.join(programs, "openapi-python-client"), "generate", "--path", self.document,
                    "--config", "config.yaml", "--output-path", "tickwheel_client", "--meta", "none", "--fail-on-warning")
        self.run_in(self.folder, os.path.join(programs, "python"),
                    os.path.join(HERE, "openapi_python_client_steps.py"), *self.arguments, env={"PYTHONPATH": self.folder})

    # ---- openapi-generator ----

    def java_libraries(self):
        self.needs("java", "javac", "mvn")
        with open(os.path.join(HERE, "pom.xml"), encoding="utf-8") as file:
            pom = file.read()
        return self.installed("java", pom, ["mvn", "-B", "-q", "-f", os.path.join(HERE, "pom.xml"),
                                            "dependency:copy-dependencies", "-DoutputDirectory=" + os.path.join(CACHE, "java")])

    def openapi_generator(self, language, *options):
        libraries = self.java_libraries()
        jar = next(name for name in os.listdir(libraries) if name.startswith("openapi-generator-cli"))
        self.run_in(self.folder, "java", "-jar", os.path.join(libraries, jar), "generate", "-i", self.document, "-g", language,
                    "-o", self.path("client"), "--global-property",
                    "models,apis,supportingFiles,apiTests=false,modelTests=false,apiDocs=false,modelDocs=false", *options)
        return libraries

    # proves: openapi-generators
    def test_openapi_generator_python(self):
        self.openapi_generator("python")
        self.run_in(self.folder, os.path.join(self.python(), "python"),
                    os.path.join(HERE, "openapi_generator_python_steps.py"), *self.arguments,
                    env={"PYTHONPATH": self.path("client")})

    # proves: openapi-generators
    def test_openapi_generator_java(self):
        libraries = self.openapi_generator("java", "--library", "native", "--additional-properties=openApiNullable=false,"
                                           "containerDefaultToNull=true")
        sources = [os.path.join(folder, name) for folder, _, names in os.walk(self.path("client/src/main"))
                   for name in names if name.endswith(".java")]
        path = os.path.join(libraries, "*")
        self.run_in(self.folder, "javac", "-nowarn", "-proc:none", "-cp", path, "-d", "classes", *sources,
                    os.path.join(HERE, "Steps.java"))
        self.run_in(self.folder, "java", "-cp", f"classes:{path}", "Steps", *self.arguments)

    # ---- Go ----

    def go(self, steps, *commands):
        """Compiles the client in the folder `client`, and the steps beside it, and takes the steps."""
        os.makedirs(self.path("client/steps"))
        shutil.copy(os.path.join(HERE, steps), self.path("client/steps/main.go"))
        with open(self.path("client/go.mod"), "w", encoding="utf-8") as file:
            file.write("module tickwheel.test/client\n\ngo 1.23\n")
        for command in [*commands, ["go", "mod", "tidy"]]:
            if subprocess.run(command, cwd=self.path("client"), stdin=subprocess.DEVNULL).returncode != 0:
                self.skipTest("go: a module cannot be fetched")
        self.run_in(self.path("client"), "go", "vet", "./...")
        self.run_in(self.path("client"), "go", "run", "./steps", *self.arguments)

    # proves: openapi-generators
    def test_openapi_generator_go(self):
        self.needs("go")
        self.openapi_generator("go")
        shutil.rmtree(self.path("client/test"), ignore_errors=True)
        self.go("openapi_generator_steps.go")

    # proves: openapi-generators
    def test_oapi_codegen(self):
        self.needs("go")
        folder = self.installed("go", OAPI_CODEGEN,
                                ["env", "GOBIN=" + os.path.join(CACHE, "go"), "go", "install", OAPI_CODEGEN])
        os.makedirs(self.path("client"))
        self.run_in(self.folder, os.path.join(folder, "oapi-codegen"), "-generate", "types,client", "-package", "tickwheel",
                    "-o", "client/tickwheel.go", self.document)
        self.go("oapi_codegen_steps.go", ["go", "get", OAPI_RUNTIME])

    # ---- TypeScript ----

    # proves: openapi-generators
    def test_openapi_typescript(self):
        self.needs("node", "npm")
        folder = self.installed("node", NODE, ["npm", "install", "--silent", "--no-audit", "--no-fund", *NODE])
        os.symlink(os.path.join(folder, "node_modules"), self.path("node_modules"))
        shutil.copy(os.path.join(HERE, "openapi_fetch_steps.ts"), self.path("steps.ts"))
        with open(self.path("package.json"), "w", encoding="utf-8") as file:
            file.write('{"type": "module"}\n')
        self.run_in(self.folder, "node_modules/.bin/openapi-typescript", self.document, "-o", "tickwheel.d.ts")
        self.run_in(self.folder, "node_modules/.bin/tsc", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022",
                    "--module", "nodenext", "--skipLibCheck", "--types", "node", "steps.ts")
        self.run_in(self.folder, "node", "steps.js", *self.arguments)


if __name__ == "__main__":
    unittest.main()
