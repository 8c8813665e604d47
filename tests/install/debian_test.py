#!/usr/bin/env python3
"""Goal: the tree builds on the Debian release after the one it is developed on, and its unit tests pass there.

Method: a debootstrap of that release, from the mirror that this machine's apt uses, with the packages that
scripts/install-deps names; in it the dev preset, whose warnings are errors, and the tests of lib and src. The folder is
kept for the next run: TEST_DEBIAN, or build/debian. Ends with 77 where it cannot run: without root, debootstrap, or a
mirror with that release.
"""

import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import debootstrap

RELEASE = "trixie"
FOLDER = os.path.abspath(os.environ.get("TEST_DEBIAN", os.path.join(debootstrap.ROOT, "build/debian")))
JOBS = os.environ.get("JOBS", str(os.cpu_count()))


def main():
    debootstrap.need("unshare")
    debootstrap.make_builder(FOLDER, RELEASE, "test")
    inside = functools.partial(debootstrap.inside, FOLDER)
    inside(f"cd /tickwheel && cmake --preset dev --log-level=WARNING >/dev/null && cmake --build build/dev -j {JOBS}")
    for part in ("lib", "src"):
        inside(f"cd /tickwheel && ctest --test-dir build/dev/{part} -j {JOBS} --output-on-failure --no-tests=error")


if __name__ == "__main__":
    main()
