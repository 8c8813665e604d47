#!/usr/bin/env python3
"""Goal: the Debian packages install, run, upgrade, and go again, on Debian 12 and 13, without losing a timer.

Method: for each release a debootstrap builds the packages of this tree and of the commit before (of the last commit, if
this tree differs from it), and lintian reads them. A fresh debootstrap boots systemd in a container, and apt installs them
there. Both folders are kept for the next run: TEST_PACKAGES, or build/test-packages. Ends with 77 where it cannot run:
without root, debootstrap, systemd-nspawn, a mirror, or where no container boots. TEST_RELEASES="bookworm" is one release.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import debootstrap
import harness
import pages
from container import Container

ROOT = debootstrap.ROOT
FOLDER = os.path.abspath(os.environ.get("TEST_PACKAGES", os.path.join(ROOT, "build/test-packages")))
RELEASES = os.environ.get("TEST_RELEASES", "bookworm trixie").split()
BASE = ["ca-certificates", "curl", "dbus", "systemd", "systemd-sysv"]
APT = "DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends -o Dpkg::Options::=--force-confold"
STATE = "/var/lib/tickwheel"
UNIT = "tickwheeld"
DISTRIBUTOR = ("Timers Team", "timers@shop.example")


def older_revision():
    """The commit whose packages are upgraded; None where it made none."""
    git = ["git", "-C", ROOT]
    is_changed = subprocess.run([*git, "diff", "--quiet", "HEAD"], check=False).returncode
    revision = "HEAD" if is_changed else "HEAD^"
    made = subprocess.run([*git, "rev-parse", "-q", "--verify", f"{revision}:scripts/packages"], check=False,
                          stdout=subprocess.DEVNULL).returncode == 0
    return revision if made else None


def build(release, revision):
    """Builds the packages of the tree and of the older revision, and puts them into the fresh release, with what they
    depend on in apt's cache."""
    builder, fresh = (os.path.join(FOLDER, f"{release}-{kind}") for kind in ("build", "fresh"))
    debootstrap.make_builder(builder, release, "packages")
    debootstrap.make(fresh, release, BASE)
    shutil.rmtree(os.path.join(fresh, "packages"), ignore_errors=True)
    trees = {"newer": "tickwheel"}
    if revision:
        trees["older"] = "older"
        shutil.rmtree(os.path.join(builder, "older"), ignore_errors=True)
        os.mkdir(os.path.join(builder, "older"))
        with subprocess.Popen(["git", "-C", ROOT, "archive", revision], stdout=subprocess.PIPE) as archive:
            debootstrap.run("tar", "-x", "-C", os.path.join(builder, "older"), stdin=archive.stdout)
    for name, tree in trees.items():
        jobs = os.environ.get("JOBS", str(os.cpu_count()))
        debootstrap.inside(builder, f"cd /{tree} && export DEBFULLNAME='{DISTRIBUTOR[0]}' DEBEMAIL={DISTRIBUTOR[1]} && "
                                    f"JOBS={jobs} scripts/packages '~{'2' if name == 'newer' else '1'}'")
        shutil.copytree(os.path.join(builder, tree, "build/packages"), os.path.join(fresh, "packages", name))
    shutil.copy("/etc/resolv.conf", os.path.join(fresh, "etc/resolv.conf"))
    debootstrap.inside(fresh, "apt-get -q update && for each in /packages/*; do "
                              f"{APT} --download-only install $each/*.deb; done")


class Packages:
    """The tests of one release; `release` is set by the class of it."""

    release = older = None

    def boot(self):
        container = Container(os.path.join(FOLDER, f"{self.release}-fresh"))
        self.addCleanup(container.close)
        return container

    def install(self, container, version):
        container.run(f"{APT} install /packages/{version}/*.deb")
        harness.wait_until(lambda: container.run("tickwheel health", None), 60, "the service answers")

    def timers(self, container):
        listed = json.loads(container.run("curl -sS 'localhost:8463/v1/timers?limit=1000'"))["timers"]
        return {timer["id"]: timer for timer in listed}

    def create(self, container, count):
        for number in range(count):
            container.run(f"tickwheel add 1d queue:jobs --key k{number} --payload '{{\"number\": {number}}}'")
        return self.timers(container)

    def check_service(self, container):
        """The unit runs as the package's user, and what that user writes is closed to others."""
        shown = dict(line.split("=", 1) for line in container.run(
            f"systemctl show -p ActiveState,NRestarts,Result,MainPID,UnitFileState {UNIT}").splitlines())
        pid = shown.pop("MainPID")
        self.assertEqual(shown, {"ActiveState": "active", "NRestarts": "0", "Result": "success",
                                 "UnitFileState": "enabled"})
        self.assertEqual(container.run(f"stat -c %U:%G /proc/{pid}"), "tickwheel:tickwheel\n")
        for path, seen in ((STATE, "tickwheel:tickwheel 700 directory"), (f"{STATE}/data", "tickwheel:tickwheel 700 directory"),
                           ("/etc/tickwheel", "root:tickwheel 750 directory"),
                           ("/etc/tickwheel/tickwheeld.conf", "root:tickwheel 640 regular file")):
            self.assertEqual(container.run(f"stat -c '%U:%G %a %F' {path}").strip(), seen, path)
        return pid

    def test_install_remove_purge(self):
        container = self.boot()
        self.install(container, "newer")
        self.check_service(container)
        self.assertEqual(container.run("dpkg-query -W -f '${Maintainer}' " + UNIT), "{} <{}>".format(*DISTRIBUTOR))
        before = self.create(container, 3)
        container.run("tickwheel add 0s queue:jobs --key due")
        [item] = json.loads(container.run("curl -sS -H 'Content-Type: application/json' -d '{\"wait\": \"10s\"}' "
                                          "localhost:8463/v1/queues/jobs/lease"))["items"]
        container.run(f"tickwheel ack jobs {item['receipt']}")
        self.assertEqual(self.timers(container), before)
        container.run(f"{APT} remove {UNIT}")
        self.assertEqual(container.run(f"systemctl is-active {UNIT}", None), "inactive\n")
        self.install(container, "newer")
        self.assertEqual(self.timers(container), before)
        self.check_service(container)
        container.run(f"echo TICKWHEEL_RETAIN=2h > /etc/default/{UNIT}")
        container.run(f"{APT} purge tickwheel tickwheeld libtickwheel0 libtickwheel-dev")
        left = container.run("find / -xdev -name '*tickwheel*' -not -path '/packages/*' -not -path '/proc/*' "
                             "-not -path '/sys/*' -not -path '/var/cache/*'")
        self.assertEqual(left, "")

    def test_after_make_install(self):
        """As docs/packages.md says: the unit's state folder moves from the dynamic user to the package's."""
        container = self.boot()
        self.install(container, "newer")
        container.run("mkdir -p /usr/local/lib/systemd/system && cp /usr/bin/tickwheeld /usr/local/bin && "
                      f"sed s,/usr/bin,/usr/local/bin, $(systemctl show -P FragmentPath {UNIT}) "
                      f">/usr/local/lib/systemd/system/{UNIT}.service && {APT} purge {UNIT} && userdel tickwheel && "
                      f"systemctl daemon-reload && systemctl start {UNIT}")
        self.assertEqual(container.run(f"readlink {STATE}"), "private/tickwheel\n")
        before = self.create(container, 3)
        container.run(f"systemctl stop {UNIT} && rm /usr/local/lib/systemd/system/{UNIT}.service")
        self.install(container, "newer")
        self.check_service(container)
        self.assertEqual(self.timers(container), before)

    def test_first_ten_minutes(self):
        """The commands of docs/first-ten-minutes.md, with packages that were built already, print what stands there."""
        container = self.boot()
        versions = iter([self.older and "older" or "newer", "newer"])
        for command, printed in pages.sessions("first-ten-minutes.md", "The packages")[1:]:
            typed = command
            if " ./build/packages" in command:
                typed = command.replace("./build/packages", f"/packages/{next(versions)}")
            if command.startswith("sleep "):
                harness.wait_until(lambda: "log:hello" not in container.run("tickwheel list"), 20, "the timer fired")
            done = container.run(f"cd /root; {typed.replace('apt-get', APT)} 2>&1", None)
            if command.startswith(("apt-get install", "systemctl restart")):
                harness.wait_until(lambda: container.run("tickwheel health", None), 60, "the service answers")
            elif not command.startswith("apt-get"):
                was, stands = (re.sub(r'"late_ms":\d+', "LATE", pages.stable(text)) for text in (done, printed))
                self.assertEqual(was, stands, command)

    def test_library(self):
        container = self.boot()
        self.install(container, "newer")
        self.assertRegex(container.run("dpkg-query --control-show libtickwheel0 shlibs"),
                         r"^libtickwheel 0\.(\d+) libtickwheel0 \(>= 0\.\1\), libtickwheel0 \(<< 0\.\d+\)\n$")
        builder = os.path.join(FOLDER, f"{self.release}-build")
        packages = "/tickwheel/build/packages/libtickwheel"
        debootstrap.inside(builder, f"trap 'dpkg -P libtickwheel-dev libtickwheel0' EXIT; dpkg -i {packages}*.deb; "
                           "cc /tickwheel/tests/install/consumer.c $(pkg-config --cflags --libs tickwheel) -o /consumer; "
                           "/consumer")

    def test_upgrade(self):
        if not self.older:
            self.skipTest("the commit before makes no packages")
        container = self.boot()
        self.install(container, "older")
        pid = self.check_service(container)
        before = self.create(container, 30)
        container.run("sed -i 's/^;retain = .*/retain = 2h/' /etc/tickwheel/tickwheeld.conf")
        self.install(container, "newer")
        self.assertEqual(container.run("dpkg-query -W -f '${Version}\\n' tickwheeld tickwheel libtickwheel0 libtickwheel-dev"
                                       " | grep -c '~2+debian'"), "4\n")
        after = self.timers(container)
        self.assertEqual(set(after), set(before))
        for key, timer in before.items():
            self.assertEqual({**after[key], **timer}, after[key])
        self.assertNotEqual(self.check_service(container), pid)
        self.assertEqual(container.run("grep -c '^retain = 2h' /etc/tickwheel/tickwheeld.conf"), "1\n")


def main():
    debootstrap.need("systemd-nspawn", "nsenter", "setpriv", "unshare")
    there = [release for release in RELEASES if debootstrap.mirror(release)]
    if not there:
        debootstrap.skip(f"no mirror of this machine's apt has {' or '.join(RELEASES)}")
    print("releases:", *there, "without a mirror:", *(release for release in RELEASES if release not in there))
    revision = older_revision()
    for release in there:
        build(release, revision)
        name = f"Packages_{release}"
        globals()[name] = type(name, (Packages, unittest.TestCase), {"release": release, "older": revision})
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
