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
