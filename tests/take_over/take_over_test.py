#!/usr/bin/env python3
"""A data folder of format 9 gets the store of this version, and everything in it answers as before: timers of every kind and
state, of several tenants, in the tables and in the log. Killed at any step, or without power, the command loses nothing, and
the same command again ends the job. Damage is refused, with nothing changed, or does no harm.

make.py made format-9.tar.xz with the last version that wrote such folders.

    TEST_SEED=N      repeats the choices
    TEST_ROUNDS=N    kills, and as many damages
    TEST_OLD=FILE    tickwheeld of the version that made the folder: is started between a kill and the next command
"""

import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "crash")]
import faults as layer
import harness
import make
import old_tables

SEED = int(os.environ.get("TEST_SEED") or random.randrange(1 << 32))
ROUNDS = int(os.environ.get("TEST_ROUNDS", "40"))
OLD = os.environ.get("TEST_OLD")
GOLDEN = os.path.join(HERE, "..", "golden")
COUNTS = re.compile(r"total: .* set aside|partition \d+: .* damaged|^format \d+|valid")


def take_over(folder, *flags, env=None):
    """(code, all that it printed)"""
    done = subprocess.run([harness.find("tickwheel-take-over"), *flags, folder], env=env, check=False,
                          capture_output=True, text=True, timeout=harness.PATIENCE_S)
    return done.returncode, done.stdout + done.stderr


def check(folder):
    """What a check counts; without the sizes, which may differ."""
    done = subprocess.run([harness.find("tickwheeld"), "--check", folder], env={}, check=False, capture_output=True, text=True)
    return done.returncode, COUNTS.findall(done.stdout) or done.stderr


def contents(folder):
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                found[os.path.relpath(os.path.join(root, name), folder)] = file.read()
    return found


class Case(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="tickwheel-take-over-")
        self.addCleanup(shutil.rmtree, self.room)
        self.tokens = os.path.join(self.room, "tokens")
        make.write_tokens(self.tokens)
        self.data = os.path.join(self.room, "data")
        self.told = self.unpack(make.PATH, self.data)
        name = next(name for name in os.listdir(self.data) if name.startswith("mended-"))
        self.mended = shutil.move(os.path.join(self.data, name), os.path.join(self.room, name))

    @staticmethod
    def unpack(archive, folder):
        with tarfile.open(archive) as files:
            files.extractall(folder)
        told = os.path.join(folder, "told.json")
        with open(told, encoding="utf-8") as file:
            answers = json.load(file)
        os.remove(told)
        return answers

    def taken(self, folder):
        code, text = take_over(folder)
        self.assertEqual(code, 0, text)
        return text

    def refused(self, folder, words, *flags):
        """It says why, and changes nothing."""
        before = contents(folder)
        code, text = take_over(folder, *flags)
        self.assertEqual(code, 1, text)
        self.assertRegex(text, words)
        self.assertEqual(contents(folder), before)

    def not_started(self, folder, program=None):
        """What the daemon says that does not start."""
        done = subprocess.run([program or harness.find("tickwheeld"), "--data-folder", folder, *make.FLAGS], env={}, check=False,
                              capture_output=True, text=True, timeout=harness.PATIENCE_S)
        self.assertNotEqual(done.returncode, 0)
        return done.stdout + done.stderr

    def compare(self, folder, after=None):
        """All answers are those of the old version. `after` is called with the clients of the tenants."""
        with make.start(folder, self.tokens) as daemon:
            clients = {tenant: make.Client(daemon, tenant) for tenant in self.told}
            for tenant, told in self.told.items():
                clients[tenant].ids = told["ids"]
                for path, status, answer in told["answers"]:
                    self.assertEqual([*clients[tenant].ask("GET", path)[::2]], [status, answer], (tenant, path))
            if after:
                after(clients)
            self.assertEqual(daemon.metric("tickwheel_records_corrupt_total", {
                "Authorization": f"Bearer {make.token_of('-')}"}), 0)
            daemon.signal(15)


class TakeOverTest(Case):
    def test_every_answer_is_the_same(self):
        text = self.taken(self.data)
        self.assertRegex(text, r"116 timers taken over in .* 100 live ones, 16 ended ones")
        self.assertIn(f"{self.data}/take-over/format-9", text)
        before = contents(self.data)
        self.assertIn("has the format of this version", self.taken(self.data))
        self.assertEqual(contents(self.data), before)
        self.compare(self.data, self.live_on)
        self.assertEqual(check(self.data)[0], 0)
        shutil.rmtree(os.path.join(self.data, "take-over"))
        self.assertNotIn("RocksDB", self.taken(self.data))
        self.assertNotIn("take-over", os.listdir(self.data))

    def live_on(self, clients):
        """What was planned happens: nothing is forgotten, and nothing happens twice."""
        clients["shop"].do("DELETE", "/v1/admin/maintenance")
        for client in clients.values():
            again = client.ask("POST", "/v1/timers", {"target": "queue:later", "after": "90d"}, **{"Idempotency-Key": "once"})
            self.assertEqual((again[0], again[2].get("id", again)), (201, client.ids["request"]))
            taken = client.ask("POST", "/v1/timers", {"after": "90d", "target": "queue:later", "key": "order-42", "payload": 1})
            self.assertEqual((taken[0], taken[2]["type"]), (409, "/problems/key-in-use"))
            self.assertEqual(sorted(item["payload"]["due"] for item in client.lease("due", 4)), [0, 1, 2, 3])
            self.assertEqual([item["payload"] for item in client.lease("leased")], ["leased"])
            client.do("POST", "/v1/queues/mail/resume")
            self.assertEqual([item["payload"] for item in client.lease("mail")], ["held"])
            client.do("POST", "/v1/watch/order:42/complete", {})
            self.assertEqual(client.ask("GET", "/v1/keys/order-42/timer")[0], 410)
            self.assertEqual(client.do("POST", "/v1/dead/redrive", {"ids": [client.ids["dead"]]})["redriven"], 1)
            self.assertEqual([item["payload"] for item in client.lease("dead")], ["dead"])
        clients["shop"].advance(by="1m")
        for client in clients.values():
            self.assertEqual([item["id"] for item in client.lease("runs")], [client.ids["runs"]])

    def test_a_backup(self):
        """It is sealed as before, so it can be restored."""
        backup, restored = os.path.join(self.room, "backup"), os.path.join(self.room, "restored")
        golden = self.unpack(os.path.join(GOLDEN, "format-9.tar.gz"), backup)
        self.assertRegex(self.taken(backup), f" {golden['live']} live ones")
        done = subprocess.run([harness.find("tickwheeld"), "--restore", backup, "--data-folder", restored], env={}, check=False,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"total: {golden['live']} live", done.stdout)
        with harness.Daemon(restored, "--partitions", str(golden["partitions"]), "--retain", "3650d") as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            for kind, was in golden["timers"].items():
                timer = was["timer"].get("timer", was["timer"])
                if not kind.startswith("due-"):
                    self.assertEqual([*daemon.call("GET", f"/v1/timers/{timer['id']}")[::2]], [was["status"], was["timer"]], kind)

    def write_folder(self, line):
        text = b"tickwheel folder\nformat 9\n" + line + b"\n"
        with open(os.path.join(self.data, "FOLDER"), "wb") as file:
            file.write(text + b"sum %08x\n" % crc32c(text))

    def test_the_folder_of_a_cluster(self):
        """It stays one of that cluster."""
        self.write_folder(b"cluster 0123456789abcdef")
        self.taken(self.data)
        with open(os.path.join(self.data, "FOLDER"), "rb") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[1:3], [b"format 10", b"cluster 0123456789abcdef"])
        self.assertIn("follows the log of a cluster, 0123456789abcdef", self.not_started(self.data))

    def test_what_is_no_such_folder(self):
        self.refused(self.room, "has no file FOLDER")
        self.assertEqual(take_over(os.path.join(self.room, "nothing"))[0], 1)
        older = os.path.join(self.room, "older")
        with tarfile.open(os.path.join(GOLDEN, "format-8.tar.gz")) as files:
            files.extractall(older)
        self.refused(older, "has format 8, and this command takes over format 9")
        with open(os.path.join(self.data, "RESTORING"), "w", encoding="utf-8"):
            pass
        self.refused(self.data, "a restore into it did not end")
        os.remove(os.path.join(self.data, "RESTORING"))
        self.write_folder(b"log 0123456789abcdef0123456789abcdef")
        self.refused(self.data, "/log is the log of another data folder")
        shutil.rmtree(os.path.join(self.data, "log"))
        self.refused(self.data, "/log is missing")

    def test_the_daemon_names_the_command(self):
        before = contents(self.data)
        self.assertIn(f"make take-over FOLDER={self.data}", self.not_started(self.data))
        self.assertEqual(contents(self.data), before)

    @unittest.skipUnless(os.geteuid() == 0, "only root may be another")
    def test_root_makes_files_of_the_owner(self):
        owner = 65534
        os.chmod(self.room, 0o755)
        for path in [self.data, *(os.path.join(self.data, name) for name in contents(self.data)), os.path.join(self.data, "log")]:
            os.chown(path, owner, owner)
        code, text = take_over(self.data, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})  # it cannot as another user
        self.assertEqual(code, 0, text)
        for root, folders, names in os.walk(self.data):
            for name in folders + names:
                self.assertEqual(os.stat(os.path.join(root, name)).st_uid, owner, name)

    def test_a_folder_in_use(self):
        self.taken(self.data)
        with make.start(self.data, self.tokens):
            code, text = take_over(self.data)
            self.assertEqual(code, 1)
            self.assertIn("in use by another process", text)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def number_record(name, number):
    value = b"\x01" + struct.pack("<Q", number)
    place = struct.pack("<QQ", (1 << 64) - 2, crc32c(name))
    return value + struct.pack("<I", crc32c(place + value))


class KillTest(Case):
    def setUp(self):
        super().setUp()
        why = layer.can_preload()
        if why:
            self.skipTest(why)

    def test_killed_at_any_step(self):
        """At a step of the disk; then the power may fail, too, and a disk may keep less than was written."""
        chance = random.Random(SEED)
        steps, ended, cuts = self.count_steps(), "", 0
        for number in range(ROUNDS):
            with layer.Faults() as faults:
                shutil.copytree(self.data, faults.data)
                faults.disk.load()
                faults.set("cut_at", 1 + (number * steps // ROUNDS + chance.randrange(steps // ROUNDS + 1)) % steps)
                code, text = take_over(faults.data, env=faults.env())
                self.assertEqual(code, -9, text)
                if chance.random() < 0.5:
                    faults.cut(chance)
                    cuts += 1
                ended += self.between(faults)
                self.taken(faults.data)
                self.compare(faults.data)
        print(f"seed {SEED}: {ROUNDS} kills in {steps} steps, {cuts} of them without power; "
              f"{ended.count('o')} before the folder had changed, {ended.count('n')} later")
        self.assertTrue("o" in ended and "n" in ended, ended)

    def count_steps(self):
        with layer.Faults() as faults:
            shutil.copytree(self.data, faults.data)
            code, text = take_over(faults.data, env=faults.env())
            self.assertEqual(code, 0, text)
            return faults.get("steps")

    def between(self, faults):
        """A daemon is started before the next command. This version's works if the folder is taken over, or refuses it."""
        with open(os.path.join(faults.data, "FOLDER"), encoding="ascii") as file:
            is_old = "format 9" in file.read()
        copy = os.path.join(self.room, "copy")
        shutil.copytree(faults.data, copy)
        if not is_old:
            self.compare(copy)
        else:
            self.assertIn("make take-over", self.not_started(copy))
        if OLD and is_old:
            self.live_with_old(copy)
        elif OLD:
            self.assertIn("was made by a newer version", self.not_started(faults.data, OLD))
        shutil.rmtree(copy)
        return "o" if is_old else "n"

    def live_with_old(self, copy):
        """The old version goes on with its tables, and what it adds is taken over later."""
        link = os.path.join(self.room, "old", "bin", "tickwheeld")
        os.makedirs(os.path.dirname(link), exist_ok=True)
        if not os.path.exists(link):
            os.symlink(os.path.abspath(OLD), link)
        build, harness.BUILD = harness.BUILD, os.path.join(self.room, "old")
        try:
            with make.start(copy, self.tokens) as daemon:
                made = make.Client(daemon, "bank").make("between", key="between")
                daemon.signal(9)
        finally:
            harness.BUILD = build
        self.taken(copy)
        with make.start(copy, self.tokens) as daemon:
            self.assertEqual(make.Client(daemon, "bank").do("GET", "/v1/keys/between/timer")["id"], made)

    def test_a_disk_without_room(self):
        with layer.Faults() as faults:
            shutil.copytree(self.data, faults.data)
            before = contents(faults.data)
            faults.set("space_bytes", 1 << 20)
            code, text = take_over(faults.data, env=faults.env())
            self.assertEqual(code, 1)
            self.assertRegex(text, r"has 1 MiB free, and this needs 6\d MiB: nothing was changed")
            self.assertEqual(contents(faults.data), before)
            faults.set("space_bytes", layer.UNLIMITED)
            for name in ("writes_to_fail", "syncs_to_fail"):
                faults.set(name, 1)
                code, text = take_over(faults.data, env=faults.env())
                self.assertEqual(code, 1, text)
                self.assertEqual(contents(faults.data), before)
            self.taken(faults.data)
            self.compare(faults.data)


class DamageTest(Case):
    def open_golden(self):
        """A backup, and its tables to be changed, which its list of a clean stop would show."""
        folder = os.path.join(self.room, "golden")
        golden = self.unpack(os.path.join(GOLDEN, "format-9.tar.gz"), folder)
        os.remove(os.path.join(folder, "CLOSED"))
        return golden, folder

    def statuses(self, golden, folder):
        """The status of each timer by its kind, and the number of damaged records that the daemon counts."""
        with harness.Daemon(folder, "--partitions", str(golden["partitions"]), "--retain", "3650d") as daemon:
            harness.wait_until(daemon.is_ready, 20, "ready")
            found = {kind: daemon.call("GET", f"/v1/timers/{was['timer'].get('timer', was['timer'])['id']}")[0]
                     for kind, was in golden["timers"].items()}
            return found, daemon.metric("tickwheel_records_corrupt_total")

    def test_damaged_records_stay_set_aside(self):
        """One that the old version had found, and one that it had not read; all others are taken over."""
        golden, folder = self.open_golden()
        with old_tables.OldTables(folder) as tables:
            rows = list(tables.each("timers"))
            unread = next((key, value) for key, value in rows if b'"n": 3' in value)
            found = next((key, value) for key, value in rows if b'"n": 5' in value)
            tables.put("timers", unread[0], unread[1].replace(b'"n": 3', b'"n": 4'))
            tables.delete("timers", found[0])
            tables.put("quarantine", b"t" + found[0], found[1][:-1])
            tables.put("default", b"corrupt", number_record(b"corrupt", 1))
        text = self.taken(folder)
        self.assertRegex(text, f" {golden['live'] - 2} live ones")
        self.assertIn("2 damaged records stay set aside", text)
        statuses, damaged = self.statuses(golden, folder)
        self.assertEqual(damaged, 2)
        for kind, was in golden["timers"].items():
            if not kind.startswith("due-"):
                self.assertEqual(statuses[kind], 500 if kind in ("payload-3", "payload-5") else was["status"], kind)
        self.assertEqual(len(os.listdir(os.path.join(folder, "damaged"))), 4)  # each with its note

    def test_a_missing_timer_is_found_by_the_counts(self):
        golden, folder = self.open_golden()
        with old_tables.OldTables(folder) as tables:
            tables.delete("timers", next(key for key, value in tables.each("timers") if b'"n": 3' in value))
        self.refused(folder, r"partition \d has \d+ live timers, and should have \d+: nothing was changed.*--accept-loss")
        code, text = take_over(folder, "--accept-loss")
        self.assertEqual(code, 0, text)
        self.assertIn("1 live timers are missing", text)
        self.assertEqual(self.statuses(golden, folder)[0]["payload-3"], 404)

    def test_a_table_that_was_mended(self):
        """The daemon has noted in `damaged` that it made a table anew, which then lacks the id that the manifest has of it."""
        shutil.copy(self.mended, os.path.join(self.data, os.path.basename(self.mended).removeprefix("mended-")))
        self.refused(self.data, "is damaged, and nothing was changed")
        os.mkdir(os.path.join(self.data, "damaged"))
        self.taken(self.data)
        self.compare(self.data)

    def test_a_manifest_that_was_cut(self):
        """RocksDB would take the state before for the present one."""
        path = next(os.path.join(self.data, name) for name in os.listdir(self.data) if name.startswith("MANIFEST-"))
        with open(path, "rb") as file:
            whole = file.read()
        for cut in (whole[:-1], whole[:-3] + bytes(3), whole + bytes(64)):
            with open(path, "wb") as file:
                file.write(cut)
            self.refused(self.data, r"/MANIFEST-\d+ is damaged, and nothing was changed")
        with open(path, "wb") as file:  # the first change alone, which is whole: of a database without our tables
            file.write(whole[:7 + struct.unpack_from("<H", whole, 4)[0]])
        self.refused(self.data, "is damaged, and nothing was changed")

    def test_the_list_of_a_clean_stop(self):
        """A backup has one: a file that differs is named, whatever RocksDB says of it."""
        folder = os.path.join(self.room, "golden")
        for name, change, words in (("MANIFEST-000005", lambda data: data[:-1], "was changed since the last stop"),
                                    ("CURRENT", lambda data: data + b"\n", "was changed since the last stop"),
                                    ("000017.sst", lambda data: None, "is missing since the last stop"),
                                    ("CLOSED", lambda data: data[:-30], "CLOSED is damaged")):
            self.unpack(os.path.join(GOLDEN, "format-9.tar.gz"), folder)
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                data = change(file.read())
            os.remove(path)
            if data:
                with open(path, "wb") as file:
                    file.write(data)
            self.refused(folder, words)
            shutil.rmtree(folder)

    def damage(self, chance, folder):
        """Changes one file of the tables; says how."""
        name = chance.choice(sorted(name for name in os.listdir(folder)
                                    if re.search(r"\.sst$|^MANIFEST|^CURRENT$|^FOLDER$", name)))
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            data = bytearray(file.read())
        how = chance.choice(("flip", "cut", "zero", "gone", "other"))
        at = chance.randrange(len(data))
        if how == "gone":
            os.remove(path)
            return f"{name} is gone"
        if how == "flip":
            data[at] ^= 1 << chance.randrange(8)
        elif how == "cut":
            del data[at:]
        elif how == "zero":
            data[at:at + 64] = bytes(len(data[at:at + 64]))
        else:
            other = chance.choice(sorted(os.listdir(folder)))
            if os.path.isfile(os.path.join(folder, other)) and other != name:
                shutil.copy(os.path.join(folder, other), path)
            return f"{name} is {other}"
        with open(path, "wb") as file:
            file.write(data)
        return f"{name}: {how} at {at}"

    def test_damage_is_refused_or_does_no_harm(self):
        chance = random.Random(SEED)
        whole = os.path.join(self.room, "whole")
        shutil.copytree(self.data, whole)
        self.taken(whole)
        counts, refused = check(whole), 0
        for _ in range(ROUNDS):
            folder = os.path.join(self.room, "damaged")
            shutil.copytree(self.data, folder)
            how = self.damage(chance, folder)
            before = contents(folder)
            code, text = take_over(folder)
            if code:
                refused += 1
                self.assertRegex(text, "tickwheel-take-over: .*(restore a backup|no data folder of format)", how)
                self.assertEqual(contents(folder), before, how)
            else:
                self.assertEqual(check(folder), counts, how)
                self.compare(folder)
            shutil.rmtree(folder)
        print(f"seed {SEED}: {refused} of {ROUNDS} damages were refused, the others did no harm")
        self.assertGreater(refused, ROUNDS // 4)


if __name__ == "__main__":
    if not os.access(os.path.join(harness.BUILD, "bin", "tickwheel-take-over"), os.X_OK):
        print("skipped: tickwheel-take-over is not built; cmake -DTICKWHEEL_TAKE_OVER=ON")
        sys.exit(77)
    unittest.main(verbosity=2)
