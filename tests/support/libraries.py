"""Libraries of receivers for tests: programs that use them, installed once for each build folder by the clients of the
registries. One that cannot be installed is left out, so a test says which ones it ran with."""

import os
import shutil
import subprocess
import sys

import harness


def installs(folder, name, *commands):
    """Whether they succeed, or did so before."""
    done = os.path.join(folder, name + ".done")
    if os.path.exists(done):
        return True
    for command in commands:
        if subprocess.run(command, cwd=folder, check=False, timeout=200, capture_output=True).returncode != 0:
            return False
    with open(done, "w", encoding="utf-8"):
        pass
    return True


def programs(folder, sources, python=None, node=None, go=()):
    """The commands by language. `sources`: the text of verify.py, verify.mjs and main.go; then what each language installs."""
    folder = os.path.abspath(os.path.join(harness.BUILD, folder))
    os.makedirs(folder, exist_ok=True)
    for name, text in sources.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    found = {}
    interpreter = os.path.join(folder, "python", "bin", "python")
    if installs(folder, "python", [sys.executable, "-m", "venv", os.path.join(folder, "python")],
                [interpreter, "-m", "pip", "--disable-pip-version-check", "install", "-q", python]):
        found["python"] = [interpreter, os.path.join(folder, "verify.py")]
    if shutil.which("npm") and installs(folder, "node", ["npm", "install", "--no-audit", "--no-fund", "--silent", node]):
        found["node"] = ["node", os.path.join(folder, "verify.mjs")]
    if shutil.which("go") and installs(
            folder, "go", ["rm", "-f", "go.mod", "go.sum"], ["go", "mod", "init", "verify"], ["go", "get", *go],
            ["go", "mod", "tidy"], ["go", "build", "-o", "verify", "main.go"]):
        found["go"] = [os.path.join(folder, "verify")]
    return found
