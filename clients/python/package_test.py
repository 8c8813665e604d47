#!/usr/bin/env python3
"""The Python package as its users get it: built as sdist and wheel, the wheel installed into a new environment, and all
its tests run there against the daemon of the build. Types are checked strictly, and async_client.py must be what
client.py makes. Without the package index the test is skipped and says so.
"""

import glob
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

TOOLS = ["build==1.2.2", "mypy==1.13.0", "setuptools==75.6.0", "wheel==0.45.1"]
DEPENDENCIES = ["httpx==0.28.1", "cryptography==44.0.0"]
DATABASES = ["psycopg[binary]==3.2.3", "psycopg2-binary==2.9.10", "asyncpg==0.30.0", "SQLAlchemy[asyncio]==2.0.36", "Django==4.2.17"]
PYTEST = ["pytest==8.3.4"]


def environment_with(name, packages):
    """The Python of an environment with these packages, kept in the build folder; None without the index."""
    folder = os.path.abspath(os.path.join(harness.BUILD, name))
    python = os.path.join(folder, "bin", "python")
    done = os.path.join(folder, "installed")
    if not os.path.exists(done) or open(done).read() != "\n".join(packages):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", *packages]
        if subprocess.run(install).returncode != 0:
            return None
        with open(done, "w", encoding="utf-8") as file:
            file.write("\n".join(packages))
    return python


WRONG = """
from datetime import timedelta
from tickwheel import Client
timers = Client()
timers.create("queue:a", after="30s", key="k", retry={"base": timedelta(seconds=1)}, labels={"a": "b"})
timers.create("queue:a", cron="0 9 * * *", except_=["SAT-SUN"], only=None, on_holiday="skip", flow={"key": "k", "rate": "1/s"})
timers.change(key="k", labels={"a": None}, payload=None, late=None)
timers.create("queue:a", kye="k")  # [call-arg]
timers.create("queue:a", after=30)  # [arg-type]
timers.create("queue:a", retry={"bse": "1s"})  # [arg-type]
timers.put("k", "queue:a", key="k")  # [misc]
timers.in_transaction(None).create("queue:a", kye="k")  # [call-arg]
timers.lease("a", wait=20)  # [arg-type]
"""


class PackageTest(unittest.TestCase):
    def check_types(self, tools, source):
        """mypy refuses the marked lines, and no other."""
        with open(os.path.join(source, "wrong.py"), "w", encoding="utf-8") as file:
            file.write(WRONG)
        done = subprocess.run([tools, "-m", "mypy", "--strict", "wrong.py"], cwd=source, capture_output=True, text=True,
                              env={**os.environ, "MYPYPATH": "src"})
        found = sorted(re.findall(r"(?m)^wrong\.py:(\d+): error: .*?(\[[a-z-]+\])$", done.stdout))
        wanted = sorted((str(number), line.split("# ")[1]) for number, line in enumerate(WRONG.split("\n"), 1) if "# [" in line)
        self.assertEqual(found, wanted, done.stdout + done.stderr)

    def test_package(self):
        tools = environment_with("client-python-tools", TOOLS + DEPENDENCIES)
        users = environment_with("client-python-user", DEPENDENCIES)
        with_databases = environment_with("client-python-databases", DATABASES + DEPENDENCIES)
        if not tools or not users or not with_databases:
            self.skipTest("the package index is out of reach")
        folder = tempfile.mkdtemp(prefix="tickwheel-python-")
        self.addCleanup(shutil.rmtree, folder)
        source = shutil.copytree(HERE, os.path.join(folder, "source"),
                                 ignore=shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__"))
        subprocess.run([tools, "make_async.py", "--check"], cwd=source, check=True)
        subprocess.run([tools, "-m", "mypy", "src"], cwd=source, check=True)
        self.check_types(tools, source)
        subprocess.run([tools, "-m", "build", "--no-isolation", "--outdir", folder], cwd=source, check=True,
                       stdout=subprocess.DEVNULL)
        [wheel] = glob.glob(os.path.join(folder, "*.whl"))
        self.assertEqual(len(glob.glob(os.path.join(folder, "*.tar.gz"))), 1)
        # Into a folder of its own: the environment is kept for the next run.
        installed = os.path.join(folder, "installed")
        subprocess.run([users, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--target",
                        installed, wheel], check=True)
        environment = {**os.environ, "PYTHONPATH": installed, "TICKWHEEL_ROOT": os.path.join(HERE, "..", ".."),
                       "TEST_BUILD": os.path.abspath(harness.BUILD)}
        for test in sorted(glob.glob(os.path.join(HERE, "tests", "*_test.py"))):
            with self.subTest(os.path.basename(test)):
                calls_all = os.path.basename(test) == "contract_test.py"
                python = with_databases if os.path.basename(test) == "transaction_test.py" else users
                self.assertEqual(run.run([python, test], calls_all, cwd=folder, env=environment), 0)
        with_pytest = environment_with("client-python-pytest", PYTEST + DEPENDENCIES)
        self.assertEqual(run.run([with_pytest, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                                  os.path.join(HERE, "tests", "fixture_for_pytest.py")], cwd=folder, env=environment), 0)
        [source] = pages.blocks("first-ten-minutes.md", "python")
        program = source.replace('"http://127.0.0.1:8463"', "")
        self.assertTrue(run.prints("Python", "env/bin/python hello.py", [users, "-c", program], cwd=folder, env=environment))


if __name__ == "__main__":
    unittest.main()
