#!/usr/bin/env python3
"""Goal: the tree builds on the Debian release after the one it is developed on, and its unit tests pass there.

Method: a debootstrap of that release, from the mirror that this machine's apt uses, with the packages that
scripts/install-deps names; in it the dev preset, whose warnings are errors, and the tests of lib and src. The folder is
kept for the next run: TEST_DEBIAN, or build/debian. Ends with 77 where it cannot run: without root, debootstrap, or a
mirror with that release.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import debootstrap

ROOT = debootstrap.ROOT
RELEASE = "trixie"
FOLDER = os.path.abspath(os.environ.get("TEST_DEBIAN", os.path.join(ROOT, "build/debian")))
JOBS = os.environ.get("JOBS", str(os.cpu_count()))


def inside(command):
    debootstrap.inside(FOLDER, command)


def finish():
    """What the build and the tests need."""
    shutil.copy("/etc/resolv.conf", os.path.join(FOLDER, "etc/resolv.conf"))
    with open(os.path.join(FOLDER, "usr/sbin/policy-rc.d"), "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexit 101\n")  # no package starts a server
    os.chmod(os.path.join(FOLDER, "usr/sbin/policy-rc.d"), 0o755)
    copy_tree()
    inside("/tickwheel/scripts/install-deps test")


def copy_tree():
    """The tree as it is now; what the last run built stays."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                            capture_output=True).stdout
    tree = os.path.join(FOLDER, "tickwheel")
    for name in os.listdir(tree) if os.path.isdir(tree) else ():
        path = os.path.join(tree, name)
        if name != "build":
            (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.remove)(path)
    for path in map(os.fsdecode, filter(None, listed.split(b"\0"))):
        if os.path.lexists(os.path.join(ROOT, path)):
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, path), os.path.join(tree, path), follow_symlinks=False)


def main():
    debootstrap.need("unshare")
    debootstrap.make(FOLDER, RELEASE, ["ca-certificates"], finish)
    copy_tree()
    inside(f"cd /tickwheel && cmake --preset dev --log-level=WARNING >/dev/null && cmake --build build/dev -j {JOBS}")
    for part in ("lib", "src"):
        inside(f"cd /tickwheel && ctest --test-dir build/dev/{part} -j {JOBS} --output-on-failure --no-tests=error")


if __name__ == "__main__":
    main()
