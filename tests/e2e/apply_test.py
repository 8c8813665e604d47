#!/usr/bin/env python3
"""Goal: `tickwheel apply` makes the daemon have what files say, changes nothing that is equal or another's, and loses no
firing; also when it or the daemon is killed half-way. Method: the real programs with folders of a test, and what the API
shows before and after."""

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import command_line
import harness
from command_line_case import CONFLICT, DENIED, DONE, FAILED, STOPPED, UNAVAILABLE, USAGE, CommandLine
from daemon_case import TokensCase

CHANGES = 2  # exit code of --dry-run
KEY = "k1=" + base64.b64encode(bytes(range(32))).decode()
ALL = """kind: owner
name: shop
---
kind: calendar
name: de
dates: [2026-12-24/2027-01-01, {date: 2027-05-01, name: Labour Day}]
---
kind: named_target
name: billing
url: http://127.0.0.1:9/v1
headers: {x-team: checkout}
auth: {kind: bearer, token: s3cret-of-billing}
---
kind: flow
name: customer-42
concurrency: 4
---
kind: queue
name: mail
paused: true
note: the mail server moves
---
kind: schedule
name: report
cron: 0 9 * * *
timezone: Europe/Berlin
except: [SAT-SUN, calendar:de]
target: billing:/report
payload: {order: 41, norway: no}
---
kind: schedule
name: tick
every: 60m
target: queue:mail
labels: {team: checkout}
headers: {}
retry: {base: 60s}
""".replace("headers: {}\n", "")


class ApplyCase(CommandLine):
    flags = ("--secrets-keys", KEY)

    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="tickwheel-apply-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, text, name="all.yaml"):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text if isinstance(text, str) else json.dumps(text))

    def apply(self, *flags, code=DONE, where=None, stdin=""):
        return self.run_cli("apply", "--file", where or self.folder, *flags, code=code, stdin=stdin)

    def key(self, name):
        return self.call(200, "GET", f"/v1/keys/{name}/timer")[1]

    def owners(self):
        return {(one["kind"], one["name"]): one["owner"] for one in self.call(200, "GET", "/v1/owners")[1]["owners"]}

    def paused(self, queue="mail"):
        return self.call(200, "GET", f"/v1/queues/{queue}")[1].get("paused", {}).get("note")

    def state(self):
        """All that apply can make, as the API shows it."""
        return [self.key("report"), self.key("tick"), self.call(200, "GET", "/v1/calendars/de")[1],
                self.call(200, "GET", "/v1/named-targets/billing")[1], self.call(200, "GET", "/v1/flows")[1],
                self.call(200, "GET", "/v1/queues")[1], self.call(200, "GET", "/v1/owners")[1]]


class Apply(ApplyCase):
    def test_each_kind_is_created_and_equal_state_stays(self):
        self.write(ALL)
        done = self.apply("--dry-run", code=CHANGES)
        self.assertEqual(done.out.splitlines(), ["+ calendar de", "+ named_target billing", "+ flow customer-42",
                                                 "+ queue mail", "+ schedule report", "+ schedule tick",
                                                 "6 to create, 0 to change, 0 to delete, 0 equal"])
        self.call(404, "GET", "/v1/keys/report/timer")
        self.assertEqual(self.owners(), {})
        self.apply("--yes")
        self.assertEqual(self.key("report")["payload"], {"order": 41, "norway": "no"})
        self.assertEqual(self.key("tick")["labels"], {"team": "checkout", "tickwheel.owner": "shop"})
        self.assertEqual(self.paused(), "the mail server moves")
        self.assertEqual(set(self.owners().values()), {"shop"})
        before = self.state()
        done = self.apply("--yes")
        self.assertEqual((done.out, done.err), ("0 to create, 0 to change, 0 to delete, 6 equal\n", ""))
        self.apply("--dry-run")
        # the same in other words: another order, other units, JSON, two files, more folders
        self.write("")
        self.write({"kind": "owner", "name": "shop"}, "owner.json")
        self.write("retry: {base: 1m, cap: 1h}\nlabels: {team: 'checkout'}\ntarget: \"queue:mail\"\nevery: 1h\n"
                   "name: tick\nkind: schedule\n", "a/b/tick.yml")
        self.write([{"kind": "schedule", "name": "report", "payload": {"norway": "no", "order": 41}, "target": "billing:/report",
                     "cron": "0 9 * * *", "timezone": "Europe/Berlin", "dst": "shift", "except": ["SAT-SUN", "calendar:de"]},
                    {"kind": "flow", "name": "customer-42", "concurrency": 4}], "two.json")
        self.write(ALL.split("---\nkind: flow")[0], "first.yaml")
        self.write("paused: true\nkind: queue\nname: mail\nnote: >-\n  the mail server\n  moves\n", "queue.yaml")
        self.write("not YAML: [", "README.md")
        os.mkfifo(os.path.join(self.folder, "pipe.yaml"))  # of which nobody writes the other end
        self.apply("--yes")
        self.assertEqual(self.state(), before)
        # also after a restart
        self.daemon.signal(signal.SIGKILL)
        self.daemon = self.start()
        self.env = command_line.environment(f"http://127.0.0.1:{self.daemon.port}")
        self.apply("--dry-run")
        self.assertEqual([one.get("version") for one in self.state()], [one.get("version") for one in before])

    def test_a_change_changes_only_what_differs(self):
        self.write(ALL)
        self.apply("--yes")
        before = self.state()
        self.write(ALL.replace("order: 41", "order: 42").replace("concurrency: 4", "concurrency: 5\nrate: 10/s")
                   .replace("2027-05-01", "2027-05-02").replace("server moves", "server has moved")
                   .replace("127.0.0.1:9/v1", "127.0.0.1:9/v2").replace("team: checkout}\nretry", "team: billing}\nretry"))
        done = self.apply("--dry-run", code=CHANGES)
        self.assertEqual(done.out.splitlines(), [
            "~ calendar de", "    its dates",
            "~ named_target billing", '    auth.token: *** -> ***',
            '    url: "http://127.0.0.1:9/v1" -> "http://127.0.0.1:9/v2"',
            "~ flow customer-42", "    concurrency: 4 -> 5", '    rate: none -> "10/s"',
            "~ queue mail", '    note: "the mail server moves" -> "the mail server has moved"',
            "~ schedule report", "    payload.order: 41 -> 42",
            "~ schedule tick", '    labels.team: "checkout" -> "billing"',
            "0 to create, 6 to change, 0 to delete, 0 equal"])
        shown = self.ask("apply", "-f", self.folder, "--dry-run", code=CHANGES)[0]
        self.assertEqual((shown["owner"], shown["equal"], len(shown["changes"])), ("shop", 0, 6))
        self.assertEqual(shown["changes"][1], {"act": "change", "kind": "named_target", "name": "billing", "fields": [
            {"field": "auth.token", "old": "***", "new": "***"},
            {"field": "url", "old": "http://127.0.0.1:9/v1", "new": "http://127.0.0.1:9/v2"}]})
        self.assertEqual(shown["changes"][4]["fields"], [{"field": "payload.order", "old": 41, "new": 42}])
        self.assertEqual(self.state(), before)
        self.apply("--yes")
        self.apply("--dry-run")
        for name, was, payload in (("report", before[0], {"order": 42, "norway": "no"}), ("tick", before[1], None)):
            now = self.key(name)
            self.assertEqual((now["id"], now["due"], now["created"], now["version"]),
                             (was["id"], was["due"], was["created"], 2))
            self.assertEqual(now.get("payload"), payload)
        self.assertEqual(self.paused(), "the mail server has moved")
        self.assertEqual(self.call(200, "GET", "/v1/flows")[1]["flows"][0]["rate"], "10/s")

    def test_only_what_is_in_no_file_and_is_owned_is_pruned(self):
        self.write(ALL)
        self.apply("--yes")
        self.create(key="by-hand", every="1h", labels={"team": "checkout"})
        self.call(200, "PUT", "/v1/flows/by-hand", {"concurrency": 1})
        self.run_cli("apply", "-f", "-", "--owner", "web", "--yes", "--prune",
                     stdin='{"kind": "schedule", "name": "of-web", "every": "1h", "target": "queue:x"}')
        self.write("kind: owner\nname: shop\n")
        done = self.apply("--dry-run")
        self.assertEqual(done.out, "0 to create, 0 to change, 0 to delete, 0 equal; 6 in no file, which --prune deletes\n")
        done = self.apply("--prune", "--dry-run", code=CHANGES)
        self.assertEqual(sorted(done.out.splitlines()[:-1]), ["- calendar de", "- flow customer-42", "- named_target billing",
                                                              "- queue mail", "- schedule report", "- schedule tick"])
        self.apply("--prune", "--yes")
        self.assertEqual(self.owners(), {})
        self.call(410, "GET", "/v1/keys/report/timer")
        self.call(404, "GET", "/v1/named-targets/billing")
        self.call(404, "GET", "/v1/calendars/de")
        self.assertIsNone(self.paused())
        self.assertEqual([flow["key"] for flow in self.call(200, "GET", "/v1/flows")[1]["flows"]], ["by-hand"])
        self.key("by-hand")
        self.key("of-web")
        self.apply("--prune", "--dry-run")
        # a folder without documents is a wrong path rather than an order to delete everything
        os.unlink(os.path.join(self.folder, "all.yaml"))
        done = self.apply("--prune", "--yes", "--owner", "web", code=FAILED)
        self.assertIn("there is no document", done.err)
        self.key("of-web")

    def test_owners_do_not_take_from_each_other(self):
        self.write(ALL)
        self.apply("--yes")
        before = self.state()
        self.create(key="by-hand", every="1h")
        self.write(ALL.replace("name: shop", "name: web") + "---\nkind: schedule\nname: by-hand\nevery: 2h\ntarget: queue:x\n")
        done = self.apply("--yes", "--prune", code=CONFLICT)
        for kind in ("calendar de", "named_target billing", "flow customer-42", "queue mail", "schedule report"):
            self.assertIn(f"{kind}: it belongs to shop, not to web; --take-over takes it", done.err)
        self.assertIn("schedule by-hand: it exists, and apply did not make it; --take-over takes it", done.err)
        self.assertEqual(self.state(), before)
        self.apply("--dry-run", code=CONFLICT)
        done = self.apply("--take-over", "--yes")
        self.assertIn('    labels.tickwheel.owner: "shop" -> "web"\n', done.out)
        self.assertEqual(set(self.owners().values()), {"web"})
        self.assertEqual(self.key("by-hand")["schedule"], {"every": "2h"})
        self.assertEqual(self.key("report")["due"], before[0]["due"])
        self.write(ALL)
        self.apply("--yes", code=CONFLICT)
        self.apply("--dry-run", "--owner", "web", code=FAILED)  # the files say shop

    def test_what_another_hand_changed_is_made_again(self):
        self.write(ALL)
        self.apply("--yes")
        self.call(200, "PATCH", "/v1/keys/report/timer", {"payload": {"order": 7}, "retry": {"max_attempts": 3}})
        self.call(200, "PUT", "/v1/flows/customer-42", {"concurrency": 4})
        self.call(200, "PUT", "/v1/named-targets/billing", {"url": "http://127.0.0.1:9/v1", "headers": {"x-team": "checkout"},
                                                            "auth": {"kind": "bearer", "token": "another"}})
        self.call(200, "POST", "/v1/queues/mail/resume")
        done = self.apply("--yes")
        self.assertEqual(done.out.splitlines(), [
            "~ named_target billing", "    auth.token: *** -> ***",
            "~ flow customer-42", "    a secret, or changed by another hand",
            "+ queue mail",
            "~ schedule report", "    payload.order: 7 -> 41", "    retry.max_attempts: 3 -> 10",
            "1 to create, 3 to change, 0 to delete, 2 equal"])
        self.apply("--dry-run")
        self.assertEqual(self.key("report")["payload"], {"order": 41, "norway": "no"})

    def test_a_pause_of_a_person_stays(self):
        self.write("kind: queue\nname: mail\npaused: false\n---\nkind: schedule\nname: a\nevery: 1h\ntarget: queue:x\n")
        self.apply("--owner", "shop", "--yes")
        self.call(200, "POST", "/v1/keys/a/pause", {"note": "by hand"})
        self.apply("--owner", "shop", "--dry-run")
        self.assertEqual(self.key("a")["state"], "paused")
        self.call(200, "POST", "/v1/queues/mail/pause", {"note": "by hand"})
        self.apply("--owner", "shop", "--yes", code=CONFLICT)
        self.assertEqual(self.paused(), "by hand")
        self.apply("--owner", "shop", "--yes", "--take-over")
        self.assertIsNone(self.paused())
        self.assertEqual(self.owners(), {})

    def test_secrets_are_in_no_output(self):
        secrets = ["s3cret-of-billing", "s3cret-of-basic", "s3cret-header", "s3cret-key"]
        self.write(ALL.replace("headers: {x-team: checkout}", "headers: {x-team: s3cret-header}"))
        outputs = [self.apply("--dry-run", code=CHANGES), self.apply("--yes")]
        self.write(ALL.replace("auth: {kind: bearer, token: s3cret-of-billing}",
                               "auth: {kind: basic, username: u, password: s3cret-of-basic}"))
        outputs += [self.apply("--dry-run", code=CHANGES), self.apply("--yes")]
        self.write(ALL.replace("auth: {kind: bearer, token: s3cret-of-billing}",
                               "auth: {kind: header, name: x-key, value: s3cret-key, nonsense: s3cret-key}"))
        outputs += [self.apply("--yes", code=FAILED)]
        self.assertIn("all.yaml:12: named_target billing: #/auth/nonsense: ", outputs[-1].err)
        for secret in secrets:
            for done in outputs:
                self.assertNotIn(secret, done.out + done.err)
            self.assertNotIn(secret, json.dumps(self.call(200, "GET", "/v1/owners")[1]))

    def test_it_asks_on_a_terminal_and_never_guesses(self):
        self.write(ALL)
        done = self.apply(code=USAGE)
        self.assertIn("--yes", done.err)
        self.assertEqual(self.owners(), {})
        for answer, code in (("n", STOPPED), ("y", DONE)):
            terminal = self.terminal("apply", "-f", self.folder)
            terminal.expect("Make 6 changes for shop? [y/N] ")
            terminal.type(answer + "\n")
            self.assertEqual(terminal.end(), code)
        self.assertEqual(len(self.owners()), 4)

    def test_a_broken_document_changes_nothing(self):
        self.create(key="old", every="1h", labels={"tickwheel.owner": "shop"})
        good = "kind: schedule\nname: a\nevery: 1h\ntarget: queue:x\n"
        for text, why in (
                ("kind: schedule\n", "a.yaml:1: #/name: `name` must be a string"),
                ("name: a\n", "a.yaml:1: `kind` is missing"),
                ("kind: timer\nname: a\n", "a.yaml:1: #/kind: it must be owner, schedule"),
                ("kind: schedule\nname: no\nevery: [\n", "a.yaml:"),
                (good + "every: 2h\n", "a.yaml:5: this key is there twice, first in line 3"),
                (good + "---\n" + good, "schedule a: it is there twice"),
                (good + "retry:\n  base: 0644\n", "a.yaml:6: readers of YAML disagree about this number"),
                (good + "payload: &a [*a]\n", "a.yaml:5: anchors"),
                (good + "payload: !!python/object:os.system x\n", "a.yaml:5: tags"),
                (good + "paylaod: 1\n", "a.yaml:5: schedule a: #/paylaod: "),
                (good + "retry:\n  base: 1s\n  attempts: 3\n", "a.yaml:7: schedule a: #/retry/attempts: "),
                (good + "cron: 0 9 * * *\n", "a.yaml:5: schedule a: #/cron: "),
                (good + "count: 3\n", "a.yaml:5: schedule a: #/count: "),
                (good + "key: b\n", "a.yaml:5: schedule a: #/key: "),
                (good + "labels: {tickwheel.owner: web}\n", "a.yaml:5: schedule a: #/labels: "),
                (good + "labels: [a]\n", "a.yaml:5: schedule a: #/labels: "),
                (good + "except: ['calendar:nowhere']\n", "a.yaml:5: schedule a: #/except"),
                ("kind: schedule\nname: a\nafter: 1h\ntarget: queue:x\n", "a.yaml:3: schedule a: #/after: "),
                ("kind: schedule\nname: a\ntarget: queue:x\n", "a.yaml:1: schedule a: a schedule repeats"),
                ("kind: schedule\nname: a\nevery: 1h\ntarget: nowhere:/x\n", "a.yaml:4: schedule a: #/target: "),
                ("kind: queue\nname: a\npaused: 'yes'\n", "a.yaml:3: queue a: #/paused: "),
                ("kind: queue\nname: a\npaused: true\nuntil: 1h\n", "a.yaml:4: queue a: #/until: "),
                ("kind: calendar\nname: a\n", "a.yaml:1: calendar a: give either"),
                ("a: " + "[" * 100 + "]" * 100 + "\n", "nested too deeply"),
                ("\udcff\udcfe\n", "a.yaml:"),
                ("---\n# nothing\n", "there is no document")):
            self.write(text, "a.yaml")
            done = self.apply("--owner", "shop", "--prune", "--yes", code=FAILED)
            self.assertIn(why, done.err, text)
            self.apply("--owner", "shop", "--prune", "--dry-run", code=FAILED)
        self.write(good, "a.yaml")
        self.assertIn("who keeps these files?", self.apply("--yes", code=FAILED).err)
        self.assertIn("an owner has a name", self.apply("--yes", "--owner", "a b", code=FAILED).err)
        self.run_cli("apply", "--yes", code=USAGE)
        self.run_cli("apply", "-f", self.folder + "/nowhere", "--owner", "shop", "--yes", code=FAILED)
        self.assertEqual(self.key("old")["version"], 1)
        self.assertEqual(self.owners(), {})

    def test_a_failure_in_the_middle_says_what_was_done(self):
        self.write(ALL.replace("auth: {kind: bearer", "auth: {kind: unheard-of"))
        done = self.apply("--yes", code=FAILED)
        self.assertIn("named_target billing: #/auth/kind: ", done.err)
        self.assertIn("apply again to go on", done.err)
        self.key("tick")
        self.call(404, "GET", "/v1/keys/report/timer")
        self.write(ALL)
        self.apply("--yes")
        self.apply("--dry-run")

    def test_a_schedule_that_is_over_is_not_begun_again(self):
        text = "kind: schedule\nname: a\nevery: 1h\nuntil: 2020-01-01T00:00:00Z\ntarget: queue:x\n"
        self.write(text)
        done = self.apply("--owner", "shop", "--yes")
        self.assertEqual(done.out, "0 to create, 0 to change, 0 to delete, 0 equal, 1 over\n")
        self.write(text.replace("2020", "2090").replace("every: 1h", "every: 1h\nonly: [2020-01-01]"))
        self.assertIn("never fire", self.apply("--owner", "shop", "--yes", code=FAILED).err)
        self.write(text.replace("2020", "2090"))
        self.apply("--owner", "shop", "--yes")
        self.apply("--owner", "shop", "--dry-run")
        self.write(text)
        self.assertIn("- schedule a", self.apply("--owner", "shop", "--yes").out)
        self.call(410, "GET", "/v1/keys/a/timer")


class Limits(ApplyCase):
    def setUp(self):
        super().setUp()
        self.daemon.close()  # what is within the limits finds no daemon

    def apply(self, beyond, where=None):
        done = super().apply("--owner", "shop", "--yes", where=where, code=FAILED if beyond else UNAVAILABLE)
        self.assertEqual("no daemon answers" in done.err, not beyond, done.err)
        return done.err

    # proves: apply-documents (at), apply-documents (beyond)
    def test_documents(self):
        for beyond in (0, 1):
            self.write([{"kind": "flow", "name": f"f{i}", "rate": "1/s"} for i in range(100000 + beyond)], "a.json")
            error = self.apply(beyond)
        self.assertIn("there are more than 100000 documents", error)

    # proves: apply-files (at), apply-files (beyond)
    def test_files(self):
        for i in range(10000):
            self.write(f"kind: flow\nname: f{i}\n", f"{i}.yaml")
        self.apply(0)
        self.write("kind: flow\nname: a\n", "a.yaml")
        self.assertIn("there are more than 10000 files", self.apply(1))

    # proves: apply-bytes (at), apply-bytes (beyond)
    def test_bytes(self):
        text = '{"kind": "flow", "name": "a"}'
        self.write(text, "a.json")
        for beyond in (0, 1):
            self.write(text.replace('"a"', '"b"') + " " * ((64 << 20) - 2 * len(text) + beyond), "b.json")
            self.apply(beyond)

    # proves: apply-folders (at), apply-folders (beyond)
    def test_folders(self):
        self.write("kind: flow\nname: a\n", "/".join("x" * 15) + "/a.yaml")
        self.apply(0)
        self.write("kind: flow\nname: b\n", "/".join("x" * 16) + "/b.yaml")
        self.assertIn("folders are nested too deeply", self.apply(1))


class Firings(ApplyCase):
    def test_the_phase_and_the_firings_stay(self):
        text = "kind: schedule\nname: a\nevery: 1s\nheaders: {x-a: b}\ntarget: TARGET\npayload: {n: 0}\n"
        text = text.replace("TARGET", self.receiver.url())
        self.write(text)
        self.apply("--owner", "shop", "--yes")
        timer = self.key("a")
        for i in range(1, 6):
            self.wait_for_arrivals(timer, i)
            self.apply("--owner", "shop", "--yes")
            self.write(text.replace("n: 0", f"n: {i}"))
            self.apply("--owner", "shop", "--yes")
        self.wait_for_arrivals(timer, 7)
        dues = sorted({int(each.webhook_id.rsplit("-", 1)[1]) for each in self.arrivals_of(timer)})
        self.assertEqual([due - dues[0] for due in dues], [1000 * i for i in range(len(dues))])
        self.assertEqual(self.key("a")["payload"], {"n": 5})

    def test_attempts_of_a_firing_stay(self):
        text = f"kind: schedule\nname: a\nevery: 1h\ntarget: {self.receiver.url('/status/500')}\nretry: {{base: 1h, cap: 1h}}\n"
        self.write(text)
        self.apply("--owner", "shop", "--yes")
        self.call(200, "POST", "/v1/keys/a/fire")
        harness.wait_until(lambda: self.key("a")["state"] == "retrying", 20, "the first attempt failed")
        before = self.key("a")
        self.apply("--owner", "shop", "--yes")
        self.assertEqual(self.key("a"), before)
        self.write(text + "payload: 1\n")
        self.apply("--owner", "shop", "--yes")
        now = self.key("a")
        self.assertEqual((now["attempts"], now["next_attempt"], now["due"], now["payload"]),
                         (before["attempts"], before["next_attempt"], before["due"], 1))

    def test_kills_on_either_side_are_mended_by_the_next_run(self):
        count = 3000
        self.write([{"kind": "owner", "name": "shop"}]
                   + [{"kind": "flow", "name": f"f{i}", "concurrency": 1} for i in range(100)]
                   + [{"kind": "schedule", "name": f"s{i}", "every": "1h", "target": "queue:x"} for i in range(count)], "a.json")
        os.makedirs(self.folder, exist_ok=True)
        command = [harness.find("tickwheel"), "apply", "-f", self.folder, "--yes"]
        for who in ("client", "daemon", "client"):
            process = subprocess.Popen(command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wanted = {"client": 30, "daemon": 60}[who]
            harness.happens(lambda: process.poll() is not None or len(self.owners()) >= wanted, 30)
            if who == "daemon":
                self.daemon.signal(signal.SIGKILL)
                process.wait(harness.PATIENCE_S)
                self.daemon = self.start()
                self.env = command_line.environment(f"http://127.0.0.1:{self.daemon.port}")
            else:
                process.kill()
                process.wait(harness.PATIENCE_S)
        self.apply("--yes")
        self.apply("--dry-run")
        self.assertEqual(len(self.owners()), 100)
        found = self.call(200, "GET", "/v1/timers/count")[1]
        self.assertEqual(found["count"], count, found)

    def test_two_runs_at_a_time_end_in_the_state_of_one(self):
        folders = []
        for which in range(2):
            folders.append(os.path.join(self.folder, str(which)))
            self.write([{"kind": "owner", "name": "shop"}]
                       + [{"kind": "flow", "name": f"f{i}", "concurrency": 1 + which} for i in range(40)]
                       + [{"kind": "schedule", "name": f"s{i}", "every": "1h", "target": "queue:x", "payload": which}
                          for i in range(200)], f"{which}/a.json")
        for _ in range(3):
            runs = [subprocess.Popen([harness.find("tickwheel"), "apply", "-f", folder, "--yes"], env=self.env,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for folder in folders]
            self.assertLessEqual({run.wait(harness.PATIENCE_S) for run in runs}, {DONE, CONFLICT})
        # whatever the race left, an equal state is truly equal, and the next run ends in its files
        for which in (0, 1):
            self.apply("--yes", where=folders[which])
            self.apply("--dry-run", where=folders[which])
            flows = self.call(200, "GET", "/v1/flows")[1]["flows"]
            self.assertEqual([flow["concurrency"] for flow in flows], [1 + which] * 40)
            self.assertEqual({self.key(f"s{i}")["payload"] for i in range(0, 200, 20)}, {which})

    def test_ten_thousand_schedules(self):
        count = 10000
        self.write("kind: owner\nname: shop\n", "owner.yaml")
        self.write("".join(f"---\nkind: schedule\nname: s/{i}\ncron: {i % 60} {i % 24} * * *\ntarget: queue:x\n"
                           f"payload: {{n: {i}}}\n" for i in range(count)), "many.yaml")
        times = []
        for flags, code, summary in (
                (("--yes",), DONE, "10000 to create, 0 to change, 0 to delete, 0 equal"),
                (("--dry-run",), DONE, "0 to create, 0 to change, 0 to delete, 10000 equal")):
            begin = time.monotonic()
            done = self.apply(*flags, code=code)
            times.append(time.monotonic() - begin)
            self.assertEqual(done.out.splitlines()[-1], summary)
        self.write("".join(f"---\nkind: schedule\nname: s/{i}\ncron: {i % 60} {i % 24} * * *\ntarget: queue:x\n"
                           f"payload: {{n: -{i}}}\n" for i in range(1, count // 2)), "many.yaml")
        begin = time.monotonic()
        done = self.apply("--yes", "--prune")
        times.append(time.monotonic() - begin)
        self.assertEqual(done.out.splitlines()[-1], "0 to create, 4999 to change, 5001 to delete, 0 equal")
        print(f"10,000 schedules: created in {times[0]:.1f} s, equal in {times[1]:.1f} s, "
              f"half changed and half pruned in {times[2]:.1f} s", file=sys.stderr)
        self.assertLess(max(times), harness.PATIENCE_S)


class Scopes(TokensCase):
    def setUp(self):
        super().setUp()
        for name, scopes in (("all", "admin,schedule,read"), ("deploy", "schedule,read"), ("reader", "read"),
                             ("payload", "schedule,read,payload")):
            self.token(name, "acme", scopes)
        self.write_tokens()
        self.daemon = self.start("--secrets-keys", KEY)

    def apply(self, who, text, *flags):
        env = command_line.environment(f"http://127.0.0.1:{self.daemon.port}", self.tokens[who])
        return command_line.run("apply", "-f", "-", *(flags or ("--yes",)), env=env, stdin=text)

    def test_a_token_without_the_scope(self):
        self.assertEqual(self.apply("reader", ALL).code, DENIED)
        done = self.apply("deploy", ALL)
        self.assertEqual(done.code, DENIED, done)
        self.assertIn("admin", done.err)
        self.assertIn("1 done", done.err)  # the calendar, which was first
        self.assertEqual(self.apply("deploy", ALL.split("---\nkind: schedule\nname: tick")[0], "--dry-run").code, CHANGES)
        self.assertEqual(self.apply("all", ALL).code, DONE)
        self.assertEqual(self.apply("deploy", ALL).code, DONE)  # all is equal
        self.assertEqual(self.apply("reader", ALL, "--dry-run").code, DENIED)
        # what the daemon hides from a token cannot be compared
        text = "kind: schedule\nname: a\nevery: 1h\ntarget: https://shop.example/\nheaders: {authorization: s3cret}\n"
        done = self.apply("deploy", text, "--owner", "shop", "--yes")
        self.assertEqual(done.code, FAILED)
        self.assertIn("schedule a: the daemon hides headers or payload from this token", done.err)
        self.assertNotIn("s3cret", done.out + done.err)
        self.assertEqual(self.apply("payload", text, "--owner", "web", "--yes").code, DONE)
        self.assertEqual(self.apply("payload", text, "--owner", "web", "--dry-run").code, DONE)
        done = self.apply("payload", text.replace("s3cret", "an0ther"), "--owner", "web", "--dry-run")
        self.assertEqual(done.out, "~ schedule a\n    headers.authorization: *** -> ***\n"
                                   "0 to create, 1 to change, 0 to delete, 0 equal\n")

    def test_no_daemon(self):
        self.daemon.close()
        self.assertEqual(self.apply("all", ALL).code, UNAVAILABLE)


if __name__ == "__main__":
    unittest.main()
