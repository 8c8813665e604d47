#!/usr/bin/env python3
"""Goal: `tickwheel` finds its daemon and its token where docs/cli.md says, keeps the token to itself, and installs
completion and manual that work. Method: the program with config files and environments of a test, and the shells."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
from command_line_case import DENIED, DONE, USAGE
from daemon_case import TokensCase


class Token(TokensCase):
    def setUp(self):
        super().setUp()
        token = self.token("a", "shop", "schedule,read")
        self.reader = self.token("b", "shop", "read")
        self.write_tokens()
        self.daemon = self.start()
        self.secret = token
        self.url = f"http://127.0.0.1:{self.daemon.port}"

    def run_cli(self, *arguments, code=DONE, **env):
        done = command_line.run(*arguments, env=command_line.environment(self.url, **env))
        self.assertEqual(done.code, code, done)
        self.assertNotIn(self.secret, done.out + done.err)
        return done

    def config(self, text, mode=0o600):
        folder = self.path("home/.config/tickwheel")
        os.makedirs(folder, exist_ok=True)
        with open(folder + "/config", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(folder + "/config", mode)
        return self.path("home")

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


class Pages(unittest.TestCase):
    """Completion and manual, as `make install` installs them."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tickwheel-pages-")
        self.addCleanup(shutil.rmtree, self.folder)

    def shell(self, *command, text):
        """What a shell prints with the completion in place."""
        if not shutil.which(command[0]):
            self.skipTest(f"{command[0]} is not installed")
        path = os.path.join(self.folder, "_tickwheel")
        with open(path, "w", encoding="utf-8") as file:
            file.write(command_line.run("completion", command[0], env=command_line.environment()).out)
        done = subprocess.run([*command, text], capture_output=True, text=True, check=False, cwd=self.folder,
                              env={"PATH": os.environ["PATH"], "HOME": self.folder})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split("\n")

    def test_bash(self):
        ask = "COMP_WORDS=({}); COMP_CWORD={}; COMPREPLY=(); _tickwheel; echo ${{COMPREPLY[@]}}\n"
        verbs, flags, choices, letters, words = self.shell("bash", "-c", text="source ./_tickwheel\n" + "".join(
            ask.format(words, count) for words, count in (
                ("tickwheel ca", 1), ("tickwheel add --pa", 2), ("tickwheel list --output t", 3),
                ("tickwheel list -s de", 3), ("tickwheel dead re", 2))))[:5]
        self.assertEqual([verbs, flags, choices, letters, words],
                         ["cancel", "--payload", "table", "delivering dead", "redrive"])

    def test_zsh(self):
        shown = self.shell("zsh", "-f", "-c", text="fpath=($PWD $fpath); autoload -U compinit; compinit -D -u; "
                                                   "autoload -U +X _tickwheel; whence -w _tickwheel; print $_comps[tickwheel]")
        self.assertEqual(shown[:2], ["_tickwheel: function", "_tickwheel"])

    def test_fish(self):
        shown = self.shell("fish", "--no-config", "-c", text='source ./_tickwheel; complete -C"tickwheel ca"; '
                                                             'complete -C"tickwheel dead re"; complete -C"tickwheel list --sta"')
        self.assertEqual([line.split("\t")[0] for line in shown], ["cancel", "redrive", "--state", ""])

    def test_the_manual_is_clean_and_has_each_verb(self):
        self.assertEqual(command_line.run("manual", self.folder, env=command_line.environment()).code, DONE)
        pages = sorted(os.listdir(self.folder))
        overview = command_line.run("help", env=command_line.environment()).out
        verbs = re.findall(r"^  ([a-z]+)  ", overview.split("\nVerbs\n")[1].split("\n\n")[0], flags=re.M)
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
