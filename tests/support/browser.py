"""A headless Chromium that tests drive through its pipe of the DevTools protocol."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Browser:
    """A browser with a profile of its own. `names` maps names to the numeric address that they resolve to."""

    def __init__(self, names={}):
        program = shutil.which("chromium")
        if not program:
            raise FileNotFoundError("there is no chromium: scripts/install-deps test installs it")
        self.profile = tempfile.mkdtemp(prefix="tickwheel-browser-")
        commands, self.commands = os.pipe()
        self.events, events = os.pipe()

        def enter():  # the browser reads commands from descriptor 3 and writes answers to descriptor 4
            # By way of others: a pipe that has one of these numbers already would be closed by the exec.
            high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (commands, events)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        rules = ", ".join(f"MAP {name} {address}" for name, address in names.items())
        resolver = [f"--host-resolver-rules={rules}"] if rules else []
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--no-proxy-server", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile}", *resolver, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=enter)
        os.close(commands)
        os.close(events)
        self.received, self.number, self.session = b"", 0, None
        page = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.ask("Page.enable")

    def receive(self, deadline):
        """The next message: an answer or an event."""
        while b"\0" not in self.received:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.events], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.events, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self.received += data
        message, self.received = self.received.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, until=None, seconds=60, **parameters):
        """The result of one command; with `until`, once the event of that name has come."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline, result = time.monotonic() + seconds, None
        while result is None or until:
            received = self.receive(deadline)
            if received.get("id") == self.number:
                if "error" in received:
                    raise RuntimeError(f"{method}: {received['error']}")
                result = received["result"]
            elif received.get("method") == until:
                until = None
        return result

    def open(self, url):
        """Loads a page, and answers when it is loaded."""
        answer = self.ask("Page.navigate", until="Page.loadEventFired", url=url)
        if "errorText" in answer:
            raise RuntimeError(f"{url}: {answer['errorText']}")

    def run(self, script):
        """The value of a JavaScript expression in the page; promises are waited for."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.events)
        shutil.rmtree(self.profile, ignore_errors=True)
