#!/usr/bin/env python3
"""Goal: the daemon as an operator meets it: its flags, its exit codes, its log, its word to systemd.

Method: the real program, on free ports, in folders of its own; nothing is waited for by time alone.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 and os.path.exists(sys.argv[1]) else "tickwheeld"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WORD = "0123456789abcdef"  # a secret of the cluster, as short as may be
CLUSTER = [  # settings of a node that are refused, and what the error names
    (["--cluster-listen", "127.0.0.1:0"], "cluster_secret: 16 bytes"),
    (["--cluster-listen", "127.0.0.1:0", "--cluster-secret", WORD[1:]], "cluster_secret: 16 bytes"),
    *((["--cluster-secret", WORD, "--cluster-listen", listen], "cluster_listen: ")
      for listen in ("127.0.0.1", ":8464", "127.0.0.1:", "127.0.0.1:65536", "example.com:8464", "::1:8464", "[::1]",
                     "[127.0.0.1]:8464", "[]:8464", "127.0.0.1:8464x")),
    (["--cluster-secret", WORD, "--cluster-listen", "0.0.0.0:8464"], "cluster_address: needed"),
    (["--cluster-secret", WORD, "--cluster-listen", "[::]:8464"], "cluster_address: needed"),
    *((["--cluster-secret", WORD, "--cluster-listen", "127.0.0.1:0", "--cluster-address", address],
       "cluster_address: ") for address in ("node", "node:0", "no de:1", "node:1/x", "http://node:1")),
    *((["--cluster-secret", WORD, "--cluster-listen", "127.0.0.1:0", f"--cluster-{file}", "/nonexistent"],
       "set all of them, or none") for file in ("tls-certificate", "tls-key", "ca-file")),
]
PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^ "]*)(?: |$)')


def run(*flags, **environment):
    """A call that ends by itself."""
    return subprocess.run([PROGRAM, *flags], env={"PATH": "/bin", **environment}, timeout=60,
                          capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


class Running:
    """A daemon until the end of the block; its log by lines."""

    def __init__(self, *flags, **environment):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [PROGRAM, "--listen-port", "0", "--data-folder", self.folder.name + "/data", *flags],
            env={"PATH": "/bin", **environment}, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.events = []

    def read_event(self, name):
        """Reads on until this event; returns its pairs."""
        for line in self.process.stderr:
            pairs = PAIR.findall(line.rstrip("\n"))
            if " ".join(f"{key}={value}" for key, value in pairs) != line.rstrip("\n"):
                raise AssertionError("not key=value: " + line)
            self.events.append(dict(pairs))
            if self.events[-1]["event"] == name:
                return self.events[-1]
        raise AssertionError(f"ended without {name}: {self.events}")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.read_event("stopped")
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.folder.cleanup()


class Answers(unittest.TestCase):
    """What it says and exits with, without running."""

    def test_version_and_help(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"\Atickwheeld \d+\.\d+\.\d+\nbrokers: .+\n\Z")
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("  --listen-port NUMBER\n", done.stdout)

    def test_usage_errors(self):
        for flags, hint in [(["--listen-prt", "1"], "did you mean --listen-port?"),
                            (["--listen-port", "x"], "must be 0 to 65535"),
                            (["--webhook-allow", "10.0.0.0/99"], "webhook_allow: "),
                            (["--webhook-secret", "hush"], "webhook_secret: "),
                            (["--broker-connections", "orders=fax://x"], "broker_connections: orders: fax"),
                            *((["--cluster-brokers", "127.0.0.1:1", *flags], hint) for flags, hint in CLUSTER),
                            (["--cluster-listen", "127.0.0.1:0"], "set cluster_log or cluster_brokers too"),
                            (["--config", "/nonexistent"], "/nonexistent")]:
            done = run(*flags)
            self.assertEqual(done.returncode, 2, flags)
            self.assertTrue(done.stderr.startswith("tickwheeld: "), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
            self.assertIn(hint, done.stderr)
            self.assertNotIn("hush", done.stderr)
            self.assertNotIn(WORD[1:], done.stderr)

    def test_check_and_print(self):
        done = run("--check-config", "--window", "1m")
        self.assertEqual((done.returncode, done.stdout), (0, "The settings are valid.\n"))
        done = run("--print-config", "--webhook-secret", SECRET, TICKWHEEL_LISTEN_PORT="81")
        self.assertEqual(done.returncode, 0)
        self.assertIn("\nlisten_port = 81\n", done.stdout)
        self.assertIn("; webhook_secret = (hidden)\n", done.stdout)
        self.assertNotIn("whsec", done.stdout)

    def test_the_committed_overview_is_the_one_printed(self):
        with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as file:
            self.assertIn("\n\n" + run("--print-routes").stdout + "\n", file.read(),
                          "docs/api.md: its overview is not what tickwheeld --print-routes prints")

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PROGRAM, "--help"], stdout=full, env={}, check=False)
        self.assertEqual(done.returncode, 1)

    def test_an_address_that_is_taken(self):
        with socket.socket() as taken, tempfile.TemporaryDirectory() as folder:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = run("--listen-port", str(taken.getsockname()[1]), "--data-folder", folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("event=listen_failed", done.stderr)

    def test_check_of_no_data_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for flags, hint in [(["--check", folder], "is no data folder"),
                                ([f"--check={folder}/none"], "No such file or directory"),
                                (["--check"], "a value is missing")]:
                done = run(*flags)
                self.assertEqual((done.returncode, done.stdout), (2, ""), flags)
                self.assertIn(hint, done.stderr)
            self.assertEqual(os.listdir(folder), [])

    # proves: start-regular-files
    def test_a_pipe_in_place_of_a_file(self):
        """Nobody writes to it: whatever waits for it, waits for ever."""
        with tempfile.TemporaryDirectory() as folder:
            pipe, file = folder + "/pipe", folder + "/file"
            os.mkfifo(pipe)
            with open(file, "w", encoding="utf-8"):
                pass
            for flags in (["--config", pipe], ["--tokens-file", pipe], ["--tls-certificate", pipe, "--tls-key", file],
                          ["--tls-certificate", file, "--tls-key", pipe], ["--webhook-secret-file", pipe],
                          ["--secrets-keys-file", pipe], ["--broker-connections-file", pipe], ["--cluster-secret-file", pipe],
                          ["--webhook-ca-file", pipe], ["--calendars", f"de={pipe}"],
                          ["--webhook-token-issuer", "https://a.example", "--webhook-token-keys-file", pipe],
                          ["--tokens-file", folder]):
                with self.subTest(flags):
                    done = run("--listen-port", "0", "--data-folder", folder + "/data", *flags)
                    self.assertIn(done.returncode, (1, 2), done)
                    self.assertRegex(done.stderr, "it is not a regular file|no certificates in it")

    def test_a_data_folder_that_cannot_be(self):
        done = run("--listen-port", "0", "--data-folder", "/dev/null/data")
        self.assertEqual(done.returncode, 1)
        self.assertIn("event=start_failed", done.stderr)


class Runs(unittest.TestCase):
    def test_starts_serves_and_stops(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number), Running() as daemon:
                started = daemon.read_event("started")
                self.assertEqual(started["pid"], str(daemon.process.pid))
                daemon.read_event("ready")
                with urllib.request.urlopen(f"http://{started['listen']}/readyz") as answer:
                    self.assertEqual(answer.status, 200)
                self.assertEqual(daemon.stop(number), 0)
                self.assertEqual([event["event"] for event in daemon.events],
                                 ["started", "ready", "stopping", "stopped"])
                self.assertEqual(daemon.events[2]["signal"], number.name)
                self.assertEqual(daemon.process.stdout.read(), "")

    def test_listens_on_ipv6(self):
        with Running("--listen-address", "::1") as daemon:
            started = daemon.read_event("started")
            self.assertTrue(started["listen"].startswith("[::1]:"), started)
            with urllib.request.urlopen(f"http://{started['listen']}/healthz") as answer:
                self.assertEqual(answer.status, 200)

    def test_prints_a_banner_when_asked(self):
        with Running("--banner", "--webhook-allow", "127.0.0.0/8") as daemon:
            started = daemon.read_event("started")
            daemon.read_event("ready")
            self.assertEqual(daemon.stop(), 0)
            banner = daemon.process.stdout.read()
            self.assertIn(f"curl -i http://{started['listen']}/v1/timers", banner)
            self.assertRegex(banner, r"\n +\S*/tickwheel receive\n")
            self.assertIn("may also call these private networks: 127.0.0.0/8", banner)

    def test_keeps_its_secret(self):
        with Running("--webhook-secret", SECRET, "--log-level", "debug") as daemon:
            started = daemon.read_event("started")
            self.assertEqual(started["webhooks"], "signed")
            with urllib.request.urlopen(f"http://{started['listen']}/metrics") as answer:
                self.assertNotIn(SECRET[6:], answer.read().decode())
            self.assertEqual(daemon.stop(), 0)
            self.assertNotIn(SECRET[6:], str(daemon.events))

    def test_tells_the_service_manager(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(f"\0tickwheeld-test-{os.getpid()}")
            manager.settimeout(60)
            with Running(NOTIFY_SOCKET=f"@tickwheeld-test-{os.getpid()}",
                         WATCHDOG_USEC="20000") as daemon:
                heard = b""
                while heard != b"READY=1":
                    heard = manager.recv(100)
                for _ in range(3):
                    self.assertEqual(manager.recv(100), b"WATCHDOG=1")
                daemon.process.send_signal(signal.SIGTERM)
                while heard != b"STOPPING=1":
                    heard = manager.recv(100)
                self.assertEqual(daemon.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
