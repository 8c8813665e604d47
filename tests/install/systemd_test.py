#!/usr/bin/env python3
"""Goal: who follows docs/operations.md word by word on a machine with systemd makes a backup, restores it there and on a
new machine, and upgrades, and loses no timer; and that who follows docs/cluster.md has a node of a cluster.

Method: a container of this machine's Debian release boots systemd; `make install` puts the service into it, and the
commands of the page run inside as they stand there. Compared are the timers, the owners and modes of the files, the
state of the unit and its log. The brokers of the cluster run beside the container, whose node shares this machine's network.
The release and the older version are kept for the next run: TEST_SYSTEMD, or
build/systemd. The container's changes are in memory and end with it. Ends with 77 where it cannot run: without root,
debootstrap, systemd-nspawn, a mirror, or where no container boots.
"""

import json
import os
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import broker_servers
import debootstrap
import harness
import kafka_cluster
from container import Container

ROOT = debootstrap.ROOT
FOLDER = os.path.abspath(os.environ.get("TEST_SYSTEMD", os.path.join(ROOT, "build/systemd")))
RELEASE = os.path.join(FOLDER, "release")
PACKAGES = ["ca-certificates", "curl", "dbus", "systemd", "systemd-sysv"]
STATE = "/var/lib/tickwheel"
UNIT = "tickwheeld"


def output_of(*command, **settings):
    return subprocess.run(command, check=True, capture_output=True, text=True, **settings).stdout


def codename():
    """This machine's release, for which it builds."""
    with open("/etc/os-release", encoding="utf-8") as file:
        return re.search(r"^VERSION_CODENAME=(\w+)$", file.read(), re.M)[1]


def libraries(*programs):
    """The packages of the shared libraries that programs load: the older version may load others."""
    found = set()
    for path in map(os.path.realpath, re.findall(r"=> (/\S+)", output_of("ldd", *programs))):
        # dpkg may know a file of /usr/lib as one of /lib.
        listed = subprocess.run(["dpkg-query", "-S", path, path.removeprefix("/usr")], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, check=False).stdout
        found.add(listed.split(":")[0])
    return sorted(found)


def older_version():
    """The sources of an older version: the last release, or the first revision with the page that is followed here.
    None where the history is not there."""
    git = ["git", "-C", ROOT]
    tags = output_of(*git, "tag", "--merged", "HEAD", "--sort=-creatordate").split()
    revisions = tags or output_of(*git, "log", "--format=%H", "--diff-filter=A", "--", "docs/operations.md").split()
    if not revisions or revisions[-1] == output_of(*git, "rev-parse", "HEAD").strip():
        return None
    revision = tags[0] if tags else revisions[-1]
    folder = os.path.join(FOLDER, revision[:12])
    if not os.path.exists(os.path.join(folder, "build/release/bin/tickwheeld")):
        os.makedirs(folder, exist_ok=True)
        with subprocess.Popen([*git, "archive", revision], stdout=subprocess.PIPE) as archive:
            debootstrap.run("tar", "-x", "-C", folder, stdin=archive.stdout)
        debootstrap.run("make", "-C", folder, "build")
    return folder


class Machine(Container):
    """A container with the service installed as the page does it."""

    def __init__(self, is_alone=True):
        super().__init__(RELEASE, is_alone)

    def install(self, source=ROOT):
        """`make install`, from this machine's sources into the container's file system."""
        done = subprocess.run(["make", "-C", source, "install", "PREFIX=/usr/local",
                               f"DESTDIR={self.path('')}"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"make install: {done.stdout}{done.stderr}")

    def follow(self, section, *backup):
        """The commands of a section of the page; what they print."""
        return [self.install() if command == "make install" else self.run(command)
                for command in harness.commands_of(section, *backup)]


class SystemdTest(unittest.TestCase):
    port = 8463

    def boot(self, source=ROOT, is_alone=True):
        """A machine with the service installed."""
        container = Machine(is_alone)
        self.addCleanup(container.close)
        container.install(source)
        container.run("systemctl daemon-reload")
        return container

    def call(self, container, method, path, body=None, status=200):
        """A request to the service in the container; its JSON."""
        data = "" if body is None else f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'"
        text = container.run(f"curl -sS -X {method} -w '\\n%{{http_code}}' {data} 'localhost:{self.port}{path}'")
        body, _, code = text.rpartition("\n")
        self.assertEqual(int(code), status, body)
        return json.loads(body)

    def create(self, container, count):
        """Timers of a few kinds, all due tomorrow."""
        for number in range(count):
            body = {"key": f"k{number}", "after": "1d", "target": "queue:jobs", "payload": {"number": number}}
            if number % 3 == 1:
                body.update(labels={"team": "shop"}, retry={"max_attempts": 3})
            if number % 3 == 2:
                body["every"] = body.pop("after")
            self.call(container, "POST", "/v1/timers", body, 201)

    def timers(self, container):
        return {timer["id"]: timer for timer in self.call(container, "GET", "/v1/timers?limit=1000")["timers"]}

    def take(self, container):
        """The next item of the queue, leased and acknowledged."""
        [item] = self.call(container, "POST", "/v1/queues/jobs/lease", {"wait": "10s"})["items"]
        self.assertEqual(self.call(container, "POST", "/v1/queues/jobs/ack", {"receipts": [item["receipt"]]})["ok"], 1)
        return item["id"], item["due"]

    def check_service(self, container, files):
        """The unit is active and did not restart, it logged no warning, and the files that `find` finds are its own."""
        status = container.run(f"systemctl status {UNIT}")
        self.assertIn("Active: active (running)", status)
        shown = dict(line.split("=", 1) for line in container.run(
            f"systemctl show -p NRestarts,Result,MainPID {UNIT}").splitlines())
        self.assertEqual((shown["NRestarts"], shown["Result"]), ("0", "success"))
        container.run("journalctl --sync")
        self.assertEqual(container.run(f"journalctl -q -u {UNIT} -p warning -o cat"), "")
        lines = container.run(f"journalctl -q -t {UNIT} -o cat").splitlines()
        self.assertIn("event=ready", lines[-1])
        self.assertEqual([line for line in lines if " level=info " not in line], [])
        self.assertEqual(container.run(f"readlink {STATE}"), "private/tickwheel\n")
        user = container.run(f"stat -c %u /proc/{shown['MainPID']}").strip()
        self.assertNotEqual(user, "0")
        for line in container.run(f"find {files} -printf '%y %U:%G %m %p\\n'").splitlines():
            kind, owner, mode, path = line.split(" ", 3)
            self.assertEqual((owner, mode), (f"{user}:{user}", "700" if kind == "d" else "600"), path)

    def back_up(self, container):
        """Follows the section; the backup's name."""
        return json.loads(container.follow("Backup")[-1])["name"]

    # proves: restore
    def test_restore(self):
        container = self.boot()
        container.run(f"systemctl start {UNIT}")
        self.create(container, 30)
        self.call(container, "POST", "/v1/timers", {"key": "now", "after": 0, "target": "queue:jobs"}, 201)
        before = self.timers(container)
        backup = self.back_up(container)
        self.assertIn(": valid", container.follow("Check", backup)[-1])
        taken = self.take(container)
        self.call(container, "POST", "/v1/timers", {"key": "later", "after": "1d", "target": "queue:jobs"}, 201)
        cancelled = next(timer["id"] for timer in before.values() if timer["key"] == "k7")
        self.call(container, "DELETE", f"/v1/timers/{cancelled}")
        container.follow("Restore", backup)
        after = self.timers(container)
        self.assertEqual(set(after), set(before))
        self.assertEqual(container.run(f"ls {STATE}").split(), ["backups", "data", "data.old"])
        self.check_service(container, f"{STATE}/")
        self.assertEqual(self.take(container), taken)

    # proves: restore
    def test_restore_on_a_new_machine(self):
        old = self.boot()
        old.run(f"systemctl start {UNIT}")
        self.create(old, 30)
        before = self.timers(old)
        backup = self.back_up(old)
        for folder in (f"{STATE}/backups", "/srv"):
            with self.subTest(folder=folder):
                new = self.boot()
                new.run(f"mkdir -p {folder}")
                subprocess.run(["cp", "-r", old.path(f"/var/lib/private/tickwheel/backups/{backup}"),
                                new.path(folder)], check=True)
                for command in harness.commands_of("Restore", backup):
                    if not command.startswith("mv "):  # as the page says
                        new.run(command.replace(f"{STATE}/backups", folder))
                self.assertEqual(self.timers(new), before)
                self.check_service(new, f"{STATE}/data")

    # proves: restore
    def test_a_folder_in_the_place_of_the_link(self):
        """As the page says: systemd starts no unit then, and does again when the folder is gone."""
        container = self.boot()
        container.run(f"systemctl start {UNIT}")
        self.create(container, 3)
        before = self.timers(container)
        container.run(f"systemctl stop {UNIT} && mv {STATE} {STATE}.old && mkdir {STATE}")
        container.run(f"systemctl start {UNIT}", 1)
        self.assertEqual(container.run(f"systemctl show -p ExecMainStatus {UNIT}"), "ExecMainStatus=238\n")
        container.run(f"systemctl stop {UNIT} && rmdir {STATE} && systemctl start {UNIT}")
        self.assertEqual(self.timers(container), before)

    def test_upgrade(self):
        if not OLDER:
            self.skipTest("the history has no older version")
        container = self.boot(OLDER)
        container.run(f"systemctl start {UNIT}")
        self.create(container, 30)
        before = self.timers(container)
        backup = self.back_up(container)
        harness.wait_until(lambda: time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) > backup, 10, "the next second")
        program = container.run("sha256sum /usr/local/bin/tickwheeld")
        container.follow("Upgrade")
        self.assertNotEqual(container.run("sha256sum /usr/local/bin/tickwheeld"), program)
        after = self.timers(container)
        self.assertEqual(set(after), set(before))
        for key, timer in before.items():
            self.assertEqual({**after[key], **timer}, after[key])
        # The older version's files keep their modes, in a folder that is closed.
        self.check_service(container, f"{STATE}/data -maxdepth 0")
        self.assertIn(": valid", container.follow("Check", backup)[-1])

    def follow_cluster(self, container, brokers):
        """The commands of docs/cluster.md, with the brokers and the ports of this machine; the files are where packages put them."""
        container.run("mkdir -p /usr/share/tickwheeld")
        subprocess.run(["cp", "-r", os.path.join(ROOT, "packaging/cluster"), container.path("/usr/share/tickwheeld")], check=True)
        for command in harness.commands_of("Brokers and nodes as services", page="cluster.md"):
            if command.startswith("editor "):
                command = (f"sed -i -e 's/^TICKWHEEL_CLUSTER_BROKERS=.*/TICKWHEEL_CLUSTER_BROKERS={brokers}/' "
                           "-e 's/^TICKWHEEL_CLUSTER_LISTEN=.*/TICKWHEEL_CLUSTER_LISTEN=127.0.0.1:0/' "
                           f"-e '$ a TICKWHEEL_LISTEN_PORT={self.port}' {command.removeprefix('editor ')}")
            container.run(command.replace("kafka-1:9092,kafka-2:9092,kafka-3:9092", brokers))

    def test_node_of_a_cluster(self):
        if why := kafka_cluster.KafkaCluster.missing():
            self.skipTest(why)
        self.port = broker_servers.free_port()
        with kafka_cluster.KafkaCluster() as brokers:
            container = self.boot(is_alone=False)
            self.follow_cluster(container, brokers.brokers())
            self.assertEqual(len(self.call(container, "GET", "/v1/cluster")["partitions"]), 24)
            self.create(container, 30)
            before = self.timers(container)
            self.check_service(container, f"{STATE}/")
            container.run(f"systemctl kill -s KILL {UNIT}")
            harness.wait_until(lambda: "NRestarts=1" in container.run(f"systemctl show -p NRestarts {UNIT}"), 60, "its restart")
            container.run(f"systemctl start {UNIT}")  # until it is ready
            self.assertEqual(self.timers(container), before)
            container.run(f"systemctl stop {UNIT} && rm -r {STATE}/data && systemctl start {UNIT}")
            self.assertEqual(self.timers(container), before)


if __name__ == "__main__":
    debootstrap.need("systemd-nspawn", "nsenter", "setpriv")
    debootstrap.run("make", "-C", ROOT, "build")
    OLDER = older_version()
    debootstrap.make(RELEASE, codename(), PACKAGES + libraries(*(
        os.path.join(folder, "build/release/bin/tickwheeld") for folder in filter(None, (ROOT, OLDER)))))
    unittest.main(verbosity=2)
