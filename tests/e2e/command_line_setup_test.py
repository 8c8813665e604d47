#!/usr/bin/env python3
"""Goal: `tickwheel` finds its daemon and its token where docs/cli.md says, keeps the token to itself, and installs
completion and manual that work. Method: the program with config files and environments of a test, and the shells."""

import http.server
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import harness
from command_line_case import CONFLICT, DENIED, DONE, UNAVAILABLE, USAGE, CommandLine
from daemon_case import TokensCase


class SetUp(TokensCase):
    def setUp(self):
        super().setUp()
        token = self.token("a", "shop", "schedule,read")
        self.reader = self.token("b", "shop", "read")
        self.write_tokens()
        self.daemon = self.start()
        self.secret = token
        self.url = f"http://127.0.0.1:{self.daemon.port}"

    def config(self, text, mode=0o600):
        folder = self.path("home/.config/tickwheel")
        os.makedirs(folder, exist_ok=True)
        with open(folder + "/config", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(folder + "/config", mode)
        return self.path("home")


class Token(SetUp):
    def run_cli(self, *arguments, code=DONE, **env):
        done = command_line.run(*arguments, env=command_line.environment(self.url, **env))
        self.assertEqual(done.code, code, done)
        self.assertNotIn(self.secret, done.out + done.err)
        return done

    def test_it_comes_from_a_flag_the_environment_or_the_file(self):
        self.assertIn("TICKWHEEL_TOKEN", self.run_cli("list", code=DENIED).err)
        self.run_cli("list", code=DENIED, token="tw_wrong")
        self.run_cli("list", token=self.secret)
        self.run_cli("list", "--token", self.secret, token="tw_wrong")
        home = self.config(f"token = {self.secret}\noutput = json\n")
        self.assertEqual(self.run_cli("list", home=home).err, "")
        self.assertTrue(json.loads(self.run_cli("add", "1h", "queue:a", home=home).out))
        self.run_cli("add", "1h", "queue:a", code=DENIED, token=self.reader)

    def test_a_file_that_others_may_read_is_warned_about(self):
        home = self.config(f"token = {self.secret}\n", 0o644)
        self.assertIn("chmod 600", self.run_cli("list", home=home).err)
        home = self.config(f"url = {self.url}\n", 0o644)
        self.assertNotIn("chmod", self.run_cli("list", home=home, token=self.secret).err)

    # proves: cli-config
    def test_a_large_file_is_refused(self):
        text = f"token = {self.secret}\n"
        self.run_cli("list", home=self.config(text + "#" * ((64 << 10) - len(text))))
        self.run_cli("list", home=self.config(text + "#" * ((64 << 10) + 1 - len(text))), code=USAGE)

    def test_a_wrong_file_is_refused_without_its_secret(self):
        home = self.config(f"url = x\ntoken = {self.secret} x\n")
        self.assertIn("line 2", self.run_cli("list", home=home, code=USAGE).err)

    def test_it_is_not_seen_in_the_list_of_processes(self):
        terminal = command_line.Terminal("list", "--watch", "--token", self.secret, env=command_line.environment(self.url))
        terminal.expect("TARGET")
        with open(f"/proc/{terminal.pid}/cmdline", encoding="utf-8") as file:
            self.assertNotIn(self.secret, file.read())
        terminal.type("\x03")
        terminal.end()


class Contexts(SetUp):
    """`tickwheel context`, with a home that has nothing else."""

    def setUp(self):
        super().setUp()
        self.home = self.path("home")
        self.kept = self.path("token")
        with open(self.kept, "w", encoding="utf-8") as file:
            file.write(self.secret + "\n")
        os.chmod(self.kept, 0o600)

    def run_cli(self, *arguments, code=DONE, url="", **env):
        done = command_line.run(*arguments, env=command_line.environment(url, **{"home": self.home, **env}))
        self.assertEqual(done.code, code, done)
        self.assertNotIn(self.secret, done.out + done.err)
        return done

    def add(self, name, *flags, code=DONE):
        return self.run_cli("context", "add", name, "--url", self.url, *flags, code=code)

    def test_one_is_added_used_listed_and_removed(self):
        self.assertEqual(self.run_cli("context", "-o", "ids").out, "")
        self.config("url = http://127.0.0.1:2\n")
        self.add("prod", "--token-file", os.path.relpath(self.kept))
        self.add("old", "--url", "http://127.0.0.1:1", "--token", self.secret)
        self.run_cli("list", "--context", "prod")
        self.run_cli("--context", "old", "list", code=UNAVAILABLE)
        self.run_cli("list", code=UNAVAILABLE, TICKWHEEL_CONTEXT="old")
        self.run_cli("context", "use", "prod")
        self.run_cli("list")
        old, prod = map(json.loads, self.run_cli("context", "list", "-o", "json").out.splitlines())
        self.assertEqual(prod, {"name": "prod", "in_use": True, "url": self.url, "token_file": self.kept})
        self.assertEqual(old, {"name": "old", "in_use": False, "url": "http://127.0.0.1:1"})
        head, *rows = self.run_cli("context").out.splitlines()
        self.assertEqual(head.split(), ["NAME", "URL", "TOKEN"])
        self.assertEqual([row.split() for row in rows], [["old", "http://127.0.0.1:1", "in", "the", "context"],
                                                         ["*", "prod", self.url, self.kept]])
        self.run_cli("context", "remove", "prod")
        self.assertEqual(self.run_cli("context", "-o", "ids").out, "old\n")
        self.assertIn("no daemon answers at http://127.0.0.1:2", self.run_cli("list", code=UNAVAILABLE).err)
        self.run_cli("context", "use", "old")
        self.assertIn("http://127.0.0.1:1:", self.run_cli("list", code=UNAVAILABLE).err)
        self.run_cli("context", "use")
        self.assertIn("http://127.0.0.1:2:", self.run_cli("list", code=UNAVAILABLE).err)

    def test_files_are_their_owners_alone(self):
        self.add("prod", "--token", self.secret)
        self.run_cli("context", "use", "prod")
        folder = os.path.join(self.home, ".config", "tickwheel")
        for path, mode in ((folder, 0o700), (folder + "/contexts", 0o700), (folder + "/contexts/prod", 0o600),
                           (folder + "/context", 0o600)):
            self.assertEqual(os.stat(path).st_mode & 0o777, mode, path)
        moved = self.path("moved")
        os.mkdir(moved)
        os.rename(folder, moved + "/tickwheel")
        self.run_cli("list", XDG_CONFIG_HOME=moved)
        os.chmod(moved + "/tickwheel/contexts/prod", 0o644)
        self.assertIn("chmod 600", self.run_cli("list", XDG_CONFIG_HOME=moved).err)

    def test_a_context_is_a_whole(self):
        """No token goes to a daemon that it was not meant for."""
        self.config(f"token = {self.secret}\noutput = json\n")
        self.add("bare")
        self.run_cli("list", "--context", "bare", code=DENIED)
        self.run_cli("list", "--context", "bare", code=DENIED, token=self.secret)
        self.run_cli("list", "--context", "bare", "--token-file", self.kept)
        self.run_cli("context", "use", "bare")
        self.run_cli("list", code=DENIED)
        added = self.run_cli("add", "1h", "queue:a", token=self.secret)
        self.assertTrue(json.loads(added.out))  # the form is that of the config file
        self.run_cli("list", "--context", "bare", "--token", self.secret, url="http://127.0.0.1:1")
        self.run_cli("list", code=UNAVAILABLE, url="http://127.0.0.1:1", token=self.secret)

    def test_another_url_gets_no_token_of_a_context(self):
        self.add("prod", "--token-file", self.kept)
        other = self.url.replace("127.0.0.1", "localhost")
        self.assertEqual(self.run_cli("list", "--context", "prod", "--url", self.url + "/").err, "")
        self.assertIn(f"are not sent to {other}", self.run_cli("list", "--context", "prod", "--url", other, code=DENIED).err)
        self.run_cli("context", "use", "prod")
        self.run_cli("list", code=DENIED, TICKWHEEL_URL=other)
        self.run_cli("list", "--url", other, "--token-file", self.kept)
        self.run_cli("list", TICKWHEEL_URL=other, TICKWHEEL_TOKEN=self.secret)
        odd = self.path("odd\nurl = http:")
        shutil.copy(self.kept, odd)
        self.assertIn("cannot hold the path", self.run_cli("context", "add", "x", "--url", self.url, "--token-file", odd, code=USAGE).err)

    def test_a_pipe_in_place_of_a_file_is_refused(self):
        """Nobody writes to it, so reading it would wait for ever."""
        folder = os.path.join(self.home, ".config", "tickwheel")
        self.add("prod")
        for name, arguments in (("config", ("list",)), ("context", ("list",)), ("contexts/prod", ("list", "--context", "prod")),
                                ("contexts/prod", ("context",))):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                os.remove(path)
            os.mkfifo(path)
            self.assertIn(f"{name}: it is not a regular file", self.run_cli(*arguments, code=USAGE).err)
            os.remove(path)

    def test_mistakes(self):
        folder = os.path.join(self.home, ".config", "tickwheel")
        self.add("prod", "--token-file", self.kept)
        for arguments, code, words in (
                (("list", "--context", "none"), USAGE, 'there is no context "none"'),
                (("list", "--context", "../config"), USAGE, "there is no context"),
                (("context", "use", "none"), USAGE, 'there is no context "none"'),
                (("context", "remove", "none"), USAGE, 'there is no context "none"'),
                (("context", "add", "x"), USAGE, "--url"), (("context", "frobnicate"), USAGE, "is followed by"),
                (("context", "add", "a/b", "--url", self.url), USAGE, "letters, digits"),
                (("context", "add", "x", "--url", "ftp://a"), USAGE, "begins with http"),
                (("context", "add", "x", "--url", self.url, "--token-file", "/nonexistent/x"), USAGE, "no file /nonexistent/x"),
                (("context", "add", "prod", "--url", self.url), CONFLICT, "--replace")):
            self.assertIn(words, self.run_cli(*arguments, code=code).err)
        self.add("prod", "--replace")
        self.run_cli("list", "--context", "prod", code=DENIED)
        with open(folder + "/contexts/prod", "a", encoding="utf-8") as file:
            file.write(f"tokn = {self.secret}\n")
        for arguments in (("list", "--context", "prod"), ("context",)):
            self.assertIn("contexts/prod, line 2: a line is: url, token,", self.run_cli(*arguments, code=USAGE).err)
        with open(folder + "/context", "w", encoding="utf-8") as file:
            file.write("a b")
        self.assertIn("/context holds no name", self.run_cli("list", code=USAGE).err)
        self.run_cli("context", "remove", "prod")
        self.run_cli("context", "use")
        self.run_cli("health", "--url", self.url)
        with open(self.kept, "w", encoding="utf-8") as file:
            file.write("a b\n")
        self.assertIn(f"{self.kept}: a token has visible", self.run_cli("list", "--token-file", self.kept, code=USAGE).err)


class ClientCertificates(TokensCase):
    def test_one_is_shown_to_a_server_that_asks(self):
        for name in ("server", "client"):
            self.certificate(name)
        shown = []

        class Proxy(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                shown.append(dict(each[0] for each in self.connection.getpeercert()["subject"])["commonName"])
                body = b'{"timers":[],"next":null}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # a handshake that it refuses

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("server.pem"), self.path("server.key"))
        context.load_verify_locations(self.path("client.pem"))
        context.verify_mode = ssl.CERT_REQUIRED
        server = Server(("127.0.0.1", 0), Proxy)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        url, pem, key = (f"https://127.0.0.1:{server.server_port}", self.path("client.pem"), self.path("client.key"))
        env = command_line.environment(url, home=self.path("home"))

        def run(*arguments):
            return command_line.run(*arguments, "--ca-file", self.path("server.pem"), env=env)

        self.assertEqual(run("list", "--client-cert", pem, "--client-key", key).code, DONE)
        self.assertEqual(run("list").code, UNAVAILABLE)
        self.assertEqual(run("context", "add", "proxy", "--url", url, "--client-cert", pem, "--client-key", key).code, DONE)
        env["TICKWHEEL_URL"] = ""
        self.assertEqual(command_line.run("list", "--context", "proxy", env=env).code, DONE)
        self.assertIn("there is no file", run("list", "--client-cert", "/nonexistent/x").err)
        self.assertIn("client certificate", run("list", "--url", url, "--client-cert", key).err)
        self.assertEqual(shown, ["client"] * 2)


def shell(case, folder, *command, text, **env):
    """What a shell prints with the completion in place."""
    if not shutil.which(command[0]):
        case.skipTest(f"{command[0]} is not installed")
    with open(os.path.join(folder, "_tickwheel"), "w", encoding="utf-8") as file:
        file.write(command_line.run("completion", command[0], env=command_line.environment()).out)
    done = subprocess.run([*command, text], capture_output=True, text=True, check=False, cwd=folder,
                          env={"PATH": os.environ["PATH"], "HOME": folder, **env})
    case.assertEqual((done.returncode, done.stderr), (0, ""))
    return done.stdout.split("\n")


class Values(CommandLine):
    """Completion of what the daemon, the contexts and the machine know."""

    LINES = [("get --key ord", "order-42"), ("work ma", "mail"), ("queues pause ma", "mail"),
             ("targets reset http://127.0.0.1", "http://127.0.0.1:1"), ("context use pr", "prod"),
             ("list --context pr", "prod"), ("add --zone Europe/Berl", "Europe/Berlin")]

    def setUp(self):
        super().setUp()
        self.create(key="order-42")
        self.create(target="queue:mail", after=0)
        self.create(target="http://127.0.0.1:1/", after=0)
        self.env["HOME"] = self.data
        self.run_cli("context", "add", "prod", "--url", self.env["TICKWHEEL_URL"])
        harness.wait_until(lambda: "http://127.0.0.1:1\n" in self.run_cli("targets", "-o", "ids").out and
                           "mail\n" in self.run_cli("queues", "-o", "ids").out, 20, "a queue and a target")
        self.env["PATH"] = os.path.dirname(os.path.abspath(harness.find("tickwheel"))) + ":" + os.environ["PATH"]

    def test_keys_and_names_are_lines(self):
        self.assertEqual(self.run_cli("list", "-o", "keys").out, "order-42\n")
        self.assertEqual(self.run_cli("get", "--key", "order-42", "-o", "keys").out, "order-42\n")

    def test_bash(self):
        shown = shell(self, self.data, "bash", "-c", **self.env, text="source ./_tickwheel\n" + "".join(
            f"COMP_WORDS=(tickwheel {line}); COMP_CWORD={len(line.split())}; COMPREPLY=(); _tickwheel; "
            "echo ${COMPREPLY[@]}\n" for line, _ in self.LINES))
        self.assertEqual(shown[:-1], [wanted for _, wanted in self.LINES])

    def test_a_key_is_no_command(self):
        """A key may hold what a shell would run, and blanks."""
        for key in ("x$(touch ran)", "x`touch ran`", "x a;b", "x*"):
            self.create(key=key)
        shown = shell(self, self.data, "bash", "-c", **self.env,
                      text="source ./_tickwheel; COMP_WORDS=(tickwheel get --key x); COMP_CWORD=3; _tickwheel; "
                           'printf "%s\\n" "${COMPREPLY[@]}"; for word in "${COMPREPLY[@]}"; do eval "echo $word"; done\n')
        self.assertEqual(sorted(shown[:4]), sorted([r"x\$\(touch\ ran\)", r"x\`touch\ ran\`", r"x\ a\;b", r"x\*"]))
        self.assertEqual(sorted(shown[4:8]), sorted(["x$(touch ran)", "x`touch ran`", "x a;b", "x*"]))
        self.assertFalse(os.path.exists(os.path.join(self.data, "ran")))

    def test_fish(self):
        shown = shell(self, self.data, "fish", "--no-config", "-c", **self.env, text="source ./_tickwheel\n" + "".join(
            f'complete -C"tickwheel {line}"\n' for line, _ in self.LINES))
        self.assertEqual([line.split("\t")[0] for line in shown[:-1]], [wanted for _, wanted in self.LINES])


class Pages(unittest.TestCase):
    """Completion and manual, as `make install` installs them."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-pages-")
        self.addCleanup(shutil.rmtree, self.folder)

    def shell(self, *command, text):
        return shell(self, self.folder, *command, text=text)

    def test_bash(self):
        ask = "COMP_WORDS=({}); COMP_CWORD={}; COMPREPLY=(); _tickwheel; echo ${{COMPREPLY[@]}}\n"
        verbs, flags, choices, letters, words = self.shell("bash", "-c", text="source ./_tickwheel\n" + "".join(
            ask.format(words, count) for words, count in (
                ("tickwheel can", 1), ("tickwheel add --pa", 2), ("tickwheel list --output t", 3),
                ("tickwheel list -s de", 3), ("tickwheel dead re", 2))))[:5]
        self.assertEqual([verbs, flags, choices, letters, words],
                         ["cancel", "--payload", "table", "delivering dead", "redrive"])

    def test_zsh(self):
        shown = self.shell("zsh", "-f", "-c", text="fpath=($PWD $fpath); autoload -U compinit; compinit -D -u; "
                                                   "autoload -U +X _tickwheel; whence -w _tickwheel; print $_comps[tickwheel]")
        self.assertEqual(shown[:2], ["_tickwheel: function", "_tickwheel"])

    def test_fish(self):
        shown = self.shell("fish", "--no-config", "-c", text='source ./_tickwheel; complete -C"tickwheel can"; '
                                                             'complete -C"tickwheel dead re"; complete -C"tickwheel list --sta"')
        self.assertEqual([line.split("\t")[0] for line in shown], ["cancel", "redrive", "--state", ""])

    def test_the_manual_is_clean_and_has_each_verb(self):
        self.assertEqual(command_line.run("manual", self.folder, env=command_line.environment()).code, DONE)
        pages = sorted(os.listdir(self.folder))
        overview = command_line.run("help", env=command_line.environment()).out
        verbs = re.findall(r"^  ([a-z-]+)  ", overview.split("\nVerbs\n")[1].split("\n\n")[0], flags=re.M)
        self.assertEqual(pages, sorted(["tickwheel.1", *[f"tickwheel-{verb}.1" for verb in verbs]]))
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual([line for line in done.stdout.splitlines() if "missing date" not in line], [])
        shown = subprocess.run(["mandoc", "-T", "ascii", "tickwheel-add.1"], cwd=self.folder, capture_output=True,
                               text=True, check=True).stdout
        self.assertIn("--payload '{\"order\": 42}' --key order-42", re.sub(".\b", "", shown))

    def test_another_shell(self):
        self.assertEqual(command_line.run("completion", "csh", env=command_line.environment()).code, USAGE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
