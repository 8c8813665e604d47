"""A Debian release in a folder, from the mirror that this machine's apt uses; for tests that need another machine."""

import glob
import os
import re
import shutil
import subprocess
import sys
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# /proc is mounted in a namespace of its own, which ends with the command.
ENTER = 'mount -t proc proc "$0/proc" && exec chroot "$0" sh -ec "$1"'


def name():
    return os.path.splitext(os.path.basename(sys.argv[0]))[0]


def skip(reason):
    print(f"{name()}: skipped, {reason}")
    sys.exit(SKIPPED)


def need(*programs):
    """Skips the test without root or one of the programs."""
    missing = [program for program in ("debootstrap", *programs) if not shutil.which(program)]
    if os.geteuid() != 0 or missing:
        skip(f"it takes root, and these programs: {' '.join(('debootstrap', *programs))}")


def run(*command, **settings):
    print("+", " ".join(command[:6]), flush=True)
    if subprocess.run(command, check=False, **settings).returncode:
        sys.exit(f"{name()}: failed: {' '.join(command)}")


def environment():
    """Nothing of this machine's but its proxies."""
    settings = {key: value for key, value in os.environ.items() if key.lower().endswith("_proxy")}
    return {**settings, "PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8"}


def inside(folder, command):
    """Runs a shell command in the release."""
    run("unshare", "--mount", "--pid", "--fork", "sh", "-ec", ENTER, folder, command, env=environment())


def mirror(release):
    """A mirror of this machine's apt that has the release; None without."""
    sources = "".join(open(path, encoding="utf-8").read() for path in
                      ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*")] if os.path.isfile(path))
    for address in dict.fromkeys(re.findall(r"https?://[^\s\]]*/debian/?(?=\s)", sources)):
        try:
            with urllib.request.urlopen(f"{address.rstrip('/')}/dists/{release}/Release", timeout=20):
                return address
        except OSError:
            continue
    return None


def make(folder, release, packages, finish=lambda: None):
    """The release with the packages; kept for the next run that wants the same. `finish` completes it."""
    made, wanted = os.path.join(folder, "made"), " ".join([release, *packages])
    if os.path.exists(made):
        with open(made, encoding="ascii") as file:
            if file.read() == wanted:
                return
    address = mirror(release)
    if not address:
        skip(f"no mirror of this machine's apt has {release}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    run("debootstrap", "--variant=minbase", f"--include={','.join(packages)}", release, folder, address)
    finish()
    with open(made, "w", encoding="ascii") as file:
        file.write(wanted)


def copy_tree(folder):
    """The tree as it is now, in /tickwheel of the release; what the last run built there stays."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                            capture_output=True).stdout
    tree = os.path.join(folder, "tickwheel")
    for kept in os.listdir(tree) if os.path.isdir(tree) else ():
        path = os.path.join(tree, kept)
        if kept != "build":
            (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.remove)(path)
    for path in map(os.fsdecode, filter(None, listed.split(b"\0"))):
        if os.path.lexists(os.path.join(ROOT, path)):
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, path), os.path.join(tree, path), follow_symlinks=False)


def make_builder(folder, release, purpose):
    """The release with the tree in /tickwheel, and the packages that scripts/install-deps names for a purpose."""
    def finish():
        shutil.copy("/etc/resolv.conf", os.path.join(folder, "etc/resolv.conf"))
        with open(os.path.join(folder, "usr/sbin/policy-rc.d"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 101\n")  # no package starts a server
        os.chmod(os.path.join(folder, "usr/sbin/policy-rc.d"), 0o755)
    make(folder, release, ["ca-certificates"], finish)
    copy_tree(folder)
    inside(folder, f"/tickwheel/scripts/install-deps {purpose}")
