"""Tests of the dashboard: a daemon with data of each kind, a browser on its pages, and words for what a reader does.
TEST_SCREENSHOTS=FOLDER keeps a picture of each page."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
import harness
from browser import Browser
from daemon_case import DaemonCase

SHOTS = os.environ.get("TEST_SCREENSHOTS")
NDJSON = {"Content-Type": "application/x-ndjson"}
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
AXE = "4.10.2"
# Counts what the page asks for; window.streams has the streams of events, and cut() breaks those that are open.
WATCHED = """(() => {
  const ask = window.fetch;
  window.asked = [];
  window.readAt = [];
  window.streams = [];
  window.cut = () => streams.forEach(({broken}) => broken.abort());
  window.fetch = async (path, options = {}) => {
    if (!path.startsWith("/v1/events")) {
      asked.push(`${options.method ?? "GET"} ${path}`);
      if (path.startsWith("/v1/timers?") && !path.includes("cursor=")) readAt.push(performance.now());
      return ask(path, options);
    }
    const stream = {path, last: options.headers["Last-Event-ID"], isOpen: true, broken: new AbortController()};
    const end = () => { stream.isOpen = false; };
    options.signal.addEventListener("abort", () => stream.broken.abort());
    stream.broken.signal.addEventListener("abort", end);
    streams.push(stream);
    return ask(path, {...options, signal: stream.broken.signal}).catch((error) => { end(); throw error; });
  };
  let before = performance.now();
  window.stall = 0;
  setInterval(() => { stall = Math.max(stall, performance.now() - before); before = performance.now(); }, 10);
  window.hide = (is) => {
    Object.defineProperty(document, "hidden", {value: is, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
  };
})()"""


def axe_source():
    """The text of axe-core, installed once for each build folder; None without the registry."""
    folder = os.path.abspath(os.path.join(harness.BUILD, f"axe-core-{AXE}"))
    path = os.path.join(folder, "node_modules", "axe-core", "axe.min.js")
    if not os.path.exists(path):
        if not shutil.which("npm"):
            return None
        os.makedirs(folder, exist_ok=True)
        if subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder,
                           f"axe-core@{AXE}"], stdout=subprocess.DEVNULL).returncode != 0:
            return None
    with open(path, encoding="utf-8") as file:
        return file.read()


class DashboardCase(DaemonCase):
    keeps_secrets = False  # the daemon has a key that seals the secrets of named targets

    def setUp(self):
        if self.keeps_secrets:
            with tempfile.NamedTemporaryFile("w", suffix=".keys", delete=False) as keys:
                keys.write(f"k1={base64.b64encode(bytes(range(32))).decode()}\n")
            self.addCleanup(os.unlink, keys.name)
            self.flags = (*self.flags, "--secrets-keys-file", keys.name)
        super().setUp()
        self.browser = Browser()
        self.addCleanup(self.browser.close)
        self.url = f"http://127.0.0.1:{self.daemon.port}/ui"

    def fill(self):
        """Timers of each kind, some of them hostile to a page that would read text as HTML."""
        lines = "".join(json.dumps({"after": f"{n % 3600 + 60}s", "target": f"https://shop{n % 3}.example/recheck",
                                    "key": f"order-{n}", "labels": {"team": ("checkout", "billing")[n % 2]},
                                    "payload": {"order": n}}) + "\n" for n in range(1000))
        status, _, _ = self.daemon.call("POST", "/v1/timers/batch", lines, NDJSON)
        self.assertEqual(status, 200)
        self.hostile = self.create(target="queue:x", after="2h", key=HOSTILE, labels={HOSTILE: HOSTILE},
                                   payload={HOSTILE: HOSTILE})["id"]
        self.cron = self.create(target="queue:x", cron="30 9 * * MON-FRI", timezone="Europe/Berlin", key="report")["id"]
        dead = self.create(target="queue:broken", after=0, payload={"order": 1})["id"]
        items = self.lease("broken")
        self.daemon.call("POST", "/v1/queues/broken/nack",
                         {"receipts": [items[0]["receipt"]], "dead": True, "error": HOSTILE})
        self.dead = dead
        for n in range(3):
            self.create(target=f"queue:mail?priority={n}", at=f"2026-01-01T00:00:0{n}Z", key=f"mail-{n}")
        failing = self.create(target="http://127.0.0.1:1/x", after=0, retry={"base": "1d", "cap": "1d"})
        self.await_state(failing, "retrying")
        self.create("/status/500", after=0, retry={"max_attempts": 100, "base": "1ms", "cap": "1ms"})
        harness.wait_until(lambda: self.call(200, "GET", "/v1/queues/mail")[1]["ready"] == 3, 20, "items")
        harness.wait_until(lambda: any(path["breaker"] == "open" for target in self.call(200, "GET", "/v1/targets")[1]["targets"]
                                       for path in target["paths"]), 20, "a path that is left alone")

    def lease(self, queue):
        items = self.daemon.call("POST", f"/v1/queues/{queue}/lease", {"wait": "20s"})[2]["items"]
        self.assertEqual(len(items), 1)
        return items

    def watch(self, place):
        """Opens a page that follows events, and counts what it asks for."""
        self.browser.ask("Page.addScriptToEvaluateOnNewDocument", source=WATCHED)
        self.browser.open(f"{self.url}#/{place}")
        self.see("document.querySelector('.live.on')", "that the page is live")

    def sees(self, text):
        self.see(f"document.querySelector('main').innerText.includes({json.dumps(text)})", text)

    def see(self, script, what, seconds=60):
        """Waits until a JavaScript expression is true."""
        try:
            harness.wait_until(lambda: self.browser.run(f"!!({script})"), seconds, what)
        except TimeoutError:
            print(f"The page shows:\n{self.text()}", flush=True)
            raise

    def text(self):
        return self.browser.run("document.body.innerText")

    def go(self, place):
        self.browser.run(f"location.hash = '#/{place}'")

    def press(self, label):
        """Presses a button once it is there and its last action is over."""
        button = f"[...document.querySelectorAll('button')].find((b) => b.textContent === {json.dumps(label)} && !b.ariaBusy)"
        self.see(button, f"the button {label}")
        self.browser.run(f"(() => {{ const b = {button}; b.focus(); b.click(); }})()")

    def type(self, name, value):
        self.browser.run(f"(() => {{ const i = document.querySelector('[name={name}]'); i.value = {json.dumps(value)};"
                         "i.dispatchEvent(new Event('input', {bubbles: true})); })()")

    def shoot(self, name):
        if not SHOTS:
            return
        self.browser.ask("Emulation.setDeviceMetricsOverride", width=1200, height=760, deviceScaleFactor=1, mobile=False)
        self.keep_picture(name)

    def keep_picture(self, name, **how):
        if not SHOTS:
            return
        data = self.browser.ask("Page.captureScreenshot", format="png", **how)["data"]
        os.makedirs(SHOTS, exist_ok=True)
        with open(os.path.join(SHOTS, f"{name}.png"), "wb") as file:
            file.write(base64.b64decode(data))

    def run_command(self, command):
        """Runs a command that the page shows, as one who copied it does."""
        subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def hit(self, key, count=1, **more):
        for _ in range(count):
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            for kind in ("keyDown", "keyUp"):
                self.browser.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                                 windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37}.get(key, 0),
                                 **({"text": text} if text and kind == "keyDown" else {}), **more)

    def tab_to(self, label):
        """Goes on by Tab until what has the focus, which must be visible, has this text."""
        for _ in range(40):
            self.hit("Tab")
            text, outline = self.browser.run("[document.activeElement.textContent, getComputedStyle(document.activeElement)"
                                             ".outlineStyle]")
            self.assertNotEqual(outline, "none", text)
            if text == label:
                return
        self.fail(f"Tab does not come to {label}")
