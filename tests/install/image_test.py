#!/usr/bin/env python3
"""Goal: the image that scripts/image makes runs as it is: as its user, on a read-only root, with its timers in a volume that
outlives it; and equal programs make an equal image.

Method: umoci unpacks it, and runc runs what the image says, without an engine. `make image` takes the programs of the Debian
packages; here they are those of this build. Skips without umoci, and its runs without root or where runc may not run.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import harness


def run(*command, code=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=harness.PATIENCE_S, check=False)
    if done.returncode != code:
        raise AssertionError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Container:
    """A container of the bundle, started in the background; what it prints goes to a file."""

    def __init__(self, room, name, *settings):
        self.name, self.state, self.bundle = name, os.path.join(room, "runc"), os.path.join(room, "bundle")
        path = os.path.join(self.bundle, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["root"]["readonly"] = True
        config["process"].update(terminal=False, rlimits=[{"type": "RLIMIT_NOFILE", "hard": 20000, "soft": 20000}])
        config["process"]["env"] += settings
        # An engine mounts a volume, which it gives to the owner of the folder in the image.
        config["mounts"] = [each for each in config["mounts"] if each["destination"] != "/var/lib/tickwheel"] + [
            {"destination": "/var/lib/tickwheel", "type": "bind", "source": os.path.join(room, "volume"),
             "options": ["bind", "rw"]}]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.log = os.path.join(room, f"{name}.log")
        with open(self.log, "wb") as log:
            self.code = subprocess.run(["runc", "--root", self.state, "run", "--detach", "--bundle", self.bundle, name],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode

    def output(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def says(self, text):
        harness.wait_until(lambda: text in self.output(), 30, text)

    def inside(self, *command, code=0):
        return run("runc", "--root", self.state, "exec", self.name, *command, code=code)

    def status(self):
        return json.loads(run("runc", "--root", self.state, "state", self.name))

    def kill(self, signal):
        run("runc", "--root", self.state, "kill", self.name, signal)
        harness.wait_until(lambda: self.status()["status"] == "stopped", 30, "an end")

    def close(self):
        subprocess.run(["runc", "--root", self.state, "delete", "--force", self.name], capture_output=True, check=False)


class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.mkdtemp(prefix="tickwheel-image-")
        cls.addClassCleanup(shutil.rmtree, cls.room)
        cls.layout = cls.make("layout")

    @classmethod
    def make(cls, name):
        layout = os.path.join(cls.room, name)
        run(os.path.join(ROOT, "scripts", "image"), "--programs",
            os.path.dirname(os.path.abspath(harness.find("tickwheeld"))), layout)
        return layout

    def blob(self, digest):
        with open(os.path.join(self.layout, "blobs", *digest.split(":")), encoding="utf-8") as file:
            return json.load(file)

    def index(self, layout):
        with open(os.path.join(layout, "index.json"), encoding="utf-8") as file:
            return json.load(file)

    def test_equal_programs_make_an_equal_image(self):
        self.assertEqual(self.index(self.make("again")), self.index(self.layout))

    def test_what_it_says(self):
        [manifest] = self.index(self.layout)["manifests"]
        config = self.blob(self.blob(manifest["digest"])["config"]["digest"])["config"]
        self.assertEqual((config["User"], config["Entrypoint"], list(config["Volumes"]), list(config["ExposedPorts"])),
                         ("8463:8463", ["tickwheeld"], ["/var/lib/tickwheel"], ["8463/tcp"]))
        with open(os.path.join(ROOT, "packaging", "container", "Containerfile"), encoding="utf-8") as file:
            text = file.read()
        for setting in config["Env"]:
            self.assertIn(setting, text)

    @unittest.skipIf(os.geteuid() != 0 or not shutil.which("runc"), "runc, as root")
    def test_it_runs(self):
        run("umoci", "unpack", "--image", f"{self.layout}:tickwheeld", os.path.join(self.room, "bundle"))
        volume = os.path.join(self.room, "volume")
        shutil.copytree(os.path.join(self.room, "bundle/rootfs/var/lib/tickwheel"), volume)
        os.chown(volume, 8463, 8463)
        os.chmod(self.room, 0o755)
        refused = Container(self.room, f"tickwheel-refused-{os.getpid()}")
        self.addCleanup(refused.close)
        if refused.code:
            self.skipTest(f"runc may not run here: {refused.output()}")
        refused.says("tokens_file")  # without tokens it listens to nobody
        first = Container(self.room, f"tickwheel-first-{os.getpid()}", "TICKWHEEL_LISTEN_UNPROTECTED=yes")
        self.addCleanup(first.close)
        first.says("event=ready")
        first.inside("tickwheel", "health")  # the health check
        with open(f"/proc/{first.status()['pid']}/status", encoding="ascii") as status:
            self.assertIn("\nUid:\t8463\t8463\t8463\t8463\n", status.read())
        first.inside("tickwheel", "add", "--cron", "30 9 * * *", "--zone", "Europe/Berlin", "log:hello", "--key", "kept")
        first.inside("tickwheel", "add", "now", "log:hello")
        first.says('"name":"hello"')
        first.kill("KILL")
        second = Container(self.room, f"tickwheel-second-{os.getpid()}", "TICKWHEEL_LISTEN_UNPROTECTED=yes")
        self.addCleanup(second.close)
        second.says("event=ready")
        timer = json.loads(second.inside("tickwheel", "get", "--key", "kept", "--output", "json"))
        self.assertEqual((timer["state"], timer["schedule"]["timezone"]), ("scheduled", "Europe/Berlin"))
        self.assertTrue(os.path.isdir(os.path.join(volume, "data")))
        second.kill("TERM")
        second.says("event=stopped exit=clean")


if __name__ == "__main__":
    if not shutil.which("umoci"):
        print("image_test: skipped, umoci is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
