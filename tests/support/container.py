"""A machine of its own: a Debian release in a folder (debootstrap.py), booted with systemd."""

import os
import signal
import subprocess

import debootstrap
import harness


class Container:
    """systemd as process 1, on the release in a folder; what changes is in memory. No network but its own loopback, or that
    of this machine."""

    def __init__(self, folder, is_alone=True):
        # nspawn ends the container when it is told to end, and it is told so when this test dies.
        self.nspawn = harness.Program([
            "setpriv", "--pdeathsig", "TERM", "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit",
            *(["--private-network"] if is_alone else []), "--volatile=overlay", "--console=pipe", f"--machine=tickwheel-{os.getpid()}",
            f"--directory={folder}"])
        try:
            self.process = harness.wait_until(self.first_process, 30, "the first process of the container")
            self.state = harness.wait_until(self.ask_state, 60, "the container has booted")
        except (TimeoutError, ChildProcessError) as error:
            output = self.nspawn.output()
            self.close()
            debootstrap.skip(f"no container boots: {error}\n{output}")

    def first_process(self):
        """The process that is 1 inside, once it is systemd."""
        pid = self.nspawn.process.pid
        if self.nspawn.process.poll() is not None:
            raise ChildProcessError(f"systemd-nspawn ended with {self.nspawn.process.returncode}")
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            for child in file.read().split():
                with open(f"/proc/{child}/comm", encoding="ascii") as name:
                    if name.read() == "systemd\n":
                        return child
        return None

    def ask_state(self):
        state = self.run("systemctl is-system-running --wait", None).strip()
        return state if state in ("running", "degraded") else None

    def run(self, command, code=0):
        """What a command prints; it must end with `code`, if one is given."""
        done = subprocess.run(
            ["nsenter", "--target", self.process, "--all", "--root", "env", "-i", "-C", "/",
             *(f"{name}={value}" for name, value in debootstrap.environment().items()), "sh", "-c", command],
            capture_output=True, text=True, timeout=300, check=False)
        if code is not None and done.returncode != code:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def path(self, path):
        """A path of the container as this machine reaches it."""
        return f"/proc/{self.process}/root{path}"

    def close(self):
        try:
            self.nspawn.signal(signal.SIGTERM)
        finally:
            self.nspawn.close()
