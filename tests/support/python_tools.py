"""Tools of Python from the package index, each in a virtual environment of its own."""

import os
import shutil
import subprocess
import sys

import harness


def program(package, version, name):
    """The path of a program in the package's environment, installed once for each build folder; None when it cannot be
    had. "python" is the environment's interpreter."""
    folder = os.path.abspath(os.path.join(harness.BUILD, f"{package.replace('_', '-')}-{version}"))
    done = os.path.join(folder, "installed")
    if not os.path.exists(done):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [os.path.join(folder, "bin", "pip"), "--disable-pip-version-check", "install", "-q"]
        if subprocess.run(pip + [f"{package}=={version}"]).returncode != 0:
            return None
        open(done, "w").close()
    return os.path.join(folder, "bin", name)
