#!/usr/bin/env python3
"""Goal: the tree builds on the Debian release after the one it is developed on, and its unit tests pass there.

Method: a debootstrap of that release, from the mirror that this machine's apt uses, with the packages that
scripts/install-deps names; in it the dev preset, whose warnings are errors, and the tests of lib and src. The folder is
kept for the next run: TEST_DEBIAN, or build/debian. Ends with 77 where it cannot run: without root, debootstrap, or a
mirror with that release.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RELEASE = "trixie"
FOLDER = os.path.abspath(os.environ.get("TEST_DEBIAN", os.path.join(ROOT, "build/debian")))
JOBS = os.environ.get("JOBS", str(os.cpu_count()))
# /proc is mounted in a namespace of its own, which ends with the command.
ENTER = 'mount -t proc proc "$0/proc" && exec chroot "$0" sh -ec "$1"'


def skip(reason):
    print(f"debian_test: skipped, {reason}")
    sys.exit(77)


def run(*command, **settings):
    print("+", " ".join(command[:6]), flush=True)
    if subprocess.run(command, check=False, **settings).returncode:
        sys.exit(f"debian_test: failed: {' '.join(command)}")


def inside(command):
    """Runs a shell command in the release, without the settings of this machine but for its proxies."""
    settings = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    settings.update(PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", HOME="/root", LC_ALL="C.UTF-8")
    run("unshare", "--mount", "--pid", "--fork", "sh", "-ec", ENTER, FOLDER, command, env=settings)


def mirror():
    """A mirror of this machine's apt that has the release; None without."""
    sources = "".join(open(path, encoding="utf-8").read() for path in
                      ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*")] if os.path.isfile(path))
    for address in dict.fromkeys(re.findall(r"https?://[^\s\]]*/debian/?(?=\s)", sources)):
        try:
            with urllib.request.urlopen(f"{address.rstrip('/')}/dists/{RELEASE}/Release", timeout=20):
                return address
        except OSError:
            continue
    return None


def make_release():
    """The release with all packages, made once."""
    if os.path.exists(os.path.join(FOLDER, "made")):
        return
    address = mirror()
    if not address:
        skip(f"no mirror of this machine's apt has {RELEASE}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(os.path.dirname(FOLDER), exist_ok=True)
    run("debootstrap", "--variant=minbase", "--include=ca-certificates", RELEASE, FOLDER, address)
    shutil.copy("/etc/resolv.conf", os.path.join(FOLDER, "etc/resolv.conf"))
    with open(os.path.join(FOLDER, "usr/sbin/policy-rc.d"), "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexit 101\n")  # no package starts a server
    os.chmod(os.path.join(FOLDER, "usr/sbin/policy-rc.d"), 0o755)
    copy_tree()
    inside("/tickwheel/scripts/install-deps test")
    open(os.path.join(FOLDER, "made"), "w", encoding="ascii").close()


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
    if os.geteuid() != 0 or not shutil.which("debootstrap") or not shutil.which("unshare"):
        skip("it takes root, debootstrap and unshare")
    make_release()
    copy_tree()
    inside(f"cd /tickwheel && cmake --preset dev --log-level=WARNING >/dev/null && cmake --build build/dev -j {JOBS}")
    for part in ("lib", "src"):
        inside(f"cd /tickwheel && ctest --test-dir build/dev/{part} -j {JOBS} --output-on-failure --no-tests=error")


if __name__ == "__main__":
    main()
