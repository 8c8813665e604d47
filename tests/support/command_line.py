"""The command line `tickwheel` in tests: run with pipes, or in a terminal of its own (a pseudo-terminal)."""

import collections
import os
import pty
import select
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))
import harness

Done = collections.namedtuple("Done", "code out err")


def environment(url="", token="", home="/nonexistent", **more):
    """An environment without the settings of the machine that runs the test."""
    kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
            if name in os.environ}
    return {**kept, "HOME": home, "TICKWHEEL_URL": url, "TICKWHEEL_TOKEN": token, **more}


def run(*arguments, env, stdin="", timeout=harness.PATIENCE_S):
    done = subprocess.run([harness.find("tickwheel"), *arguments], input=stdin.encode(), capture_output=True, env=env,
                          timeout=timeout, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


class Terminal:
    """A run in a terminal: `expect` waits for a text, `type` answers."""

    def __init__(self, *arguments, env):
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(harness.find("tickwheel"), ["tickwheel", *arguments], env)

    def expect(self, text, seconds=harness.PATIENCE_S):
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} is not in {self.shown!r}")
            if not self.read():
                raise EOFError(f"{text!r} is not in {self.shown!r}")

    def read(self):
        if not select.select([self.fd], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """Reads to the end; the exit code."""
        while self.read():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
