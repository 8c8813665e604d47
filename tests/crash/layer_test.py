#!/usr/bin/env python3
"""The layer under the daemon and its model of a disk (faults.py), on programs too simple to be wrong: data that was
synced survives every cut, other data is kept, lost or torn; a call that the layer does not follow ends
the program with a sentence; the clock shows the test's time. A fresh child process plays the daemon."""

import os
import random
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import faults as layer

CUTS = 200
PRELUDE = """
import os, sys
root = sys.argv[1]
def path(name): return root + "/" + name
def write(name, data, flags=os.O_WRONLY | os.O_CREAT, sync=False):
    fd = os.open(path(name), flags, 0o600)
    os.write(fd, data)
    if sync: os.fsync(fd)
    os.close(fd)
def sync_folder():
    fd = os.open(root, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
"""


class LayerTest(unittest.TestCase):
    def setUp(self):
        reason = layer.can_preload()
        if reason:
            self.skipTest(reason)
        self.seed = int(os.environ.get("TEST_SEED", random.SystemRandom().randrange(1 << 32)))
        print(f"TEST_SEED={self.seed}", flush=True)
        self.chance = random.Random(self.seed)

    def run_child(self, faults, program):
        return subprocess.run([sys.executable, "-c", PRELUDE + program, faults.root], check=False,
                              env=faults.env(), capture_output=True, text=True)

    def outcomes(self, program, keep=None):
        """What the disk held after each of many power cuts, as a set of {name: contents}."""
        found = set()
        for _ in range(CUTS // 10):
            with layer.Faults() as faults:
                child = self.run_child(faults, program)
                self.assertEqual(child.returncode, 0, child.stderr)
                with open(faults.journal, "rb") as file:
                    journal = file.read()
                for _ in range(10):
                    with open(faults.journal, "wb") as file:
                        file.write(journal)
                    faults.disk = layer.Disk(faults.root)
                    faults.cut(self.chance, keep)
                    found.add(tuple(sorted(contents(faults.root).items())))
        return found

    def test_synced_is_kept(self):
        found = self.outcomes('write("a", b"x" * 10000, sync=True); sync_folder()')
        self.assertEqual(found, {(("a", b"x" * 10000),)})

    def test_not_synced(self):
        found = self.outcomes('write("a", b"x" * 5000)', "some")
        kept = {dict(state).get("a") for state in found}
        self.assertIn(None, kept)  # its name was not synced
        self.assertTrue({b"", b"x" * 5000, b"\0" * 4096 + b"x" * 904, b"x" * 4096} <= kept)
        self.assertEqual(self.outcomes('write("a", b"x")', "nothing"), {()})
        self.assertEqual(self.outcomes('write("a", b"x")', "all"), {(("a", b"x"),)})

    def test_name_not_synced(self):
        found = self.outcomes('write("a", b"x", sync=True)')
        self.assertEqual(found, {(), (("a", b"x"),)})

    def test_rename_is_one_step(self):
        found = self.outcomes('write("a", b"old", sync=True); write("b", b"new", sync=True); sync_folder();'
                              'os.rename(path("b"), path("a"))')
        self.assertEqual(found, {(("a", b"old"), ("b", b"new")), (("a", b"new"),)})

    def test_unlink_and_truncate(self):
        found = self.outcomes('write("a", b"12345678", sync=True); write("b", b"y", sync=True);'
                              'sync_folder(); os.unlink(path("b"));'
                              'fd = os.open(path("a"), os.O_WRONLY); os.ftruncate(fd, 3)')
        self.assertEqual({dict(state)["a"] for state in found}, {b"123", b"12345678"})
        self.assertEqual({"b" in dict(state) for state in found}, {True, False})

    def test_failed_sync_is_never_made_good(self):
        with layer.Faults() as faults:
            faults.set("syncs_to_fail", 1)
            child = self.run_child(faults, 'fd = os.open(path("a"), os.O_WRONLY | os.O_CREAT)\n'
                                           'os.write(fd, b"x")\n'
                                           'try: os.fsync(fd)\n'
                                           'except OSError as error: print(error.errno)\n'
                                           'os.fsync(fd)\nsync_folder()\n')
            self.assertEqual((child.stdout.strip(), child.stderr), ("5", ""))
            faults.cut(self.chance, "nothing")
            self.assertEqual(contents(faults.root), {"a": b""})

    def test_written_again_after_a_failed_sync(self):
        """The second write is in the page cache in place of the first, around which the first stays doomed."""
        for keep in layer.KEEPS:
            with layer.Faults() as faults:
                faults.set("syncs_to_fail", 1)
                self.run_child(faults, 'fd = os.open(path("a"), os.O_WRONLY | os.O_CREAT)\n'
                                       'os.pwrite(fd, b"first", 0)\n'
                                       'try: os.fsync(fd)\n'
                                       'except OSError: pass\n'
                                       'os.pwrite(fd, b"XYZ", 1)\n'
                                       'os.fsync(fd)\nsync_folder()\n')
                faults.cut(self.chance, keep)
                self.assertEqual(contents(faults.root)["a"][1:4], b"XYZ", keep)

    def test_full_failing_and_short(self):
        with layer.Faults() as faults:
            faults.set("space_bytes", 10)
            child = self.run_child(faults, 'fd = os.open(path("a"), os.O_WRONLY | os.O_CREAT)\n'
                                           'print(os.write(fd, b"x" * 50), os.statvfs(root).f_bavail)\n'
                                           'try: os.write(fd, b"x")\n'
                                           'except OSError as error: print(error.errno)\n')
            self.assertEqual(child.stdout.split(), ["10", "0", "28"], child.stderr)
            child = self.run_child(faults, 'fd = os.open(path("a"), os.O_WRONLY)\n'
                                           'print(os.pwrite(fd, b"y" * 10, 0), os.pwrite(fd, b"y" * 9, 5))\n')
            self.assertEqual(child.stdout.split(), ["10", "5"], child.stderr)  # in place, and as far as the file is
            faults.set("space_bytes", layer.UNLIMITED)
            faults.set("writes_to_fail", 1)
            child = self.run_child(faults, 'fd = os.open(path("b"), os.O_WRONLY | os.O_CREAT)\n'
                                           'try: os.write(fd, b"x")\n'
                                           'except OSError as error: print(error.errno)\n'
                                           'print(os.write(fd, b"xx"))')
            self.assertEqual(child.stdout.split(), ["5", "2"], child.stderr)
            faults.set("short_every", 1)
            child = self.run_child(faults, 'fd = os.open(path("c"), os.O_WRONLY | os.O_CREAT)\n'
                                           'print(os.write(fd, b"x" * 50))')
            self.assertEqual(child.stdout.split(), ["25"], child.stderr)

    def test_cut_at_a_step(self):
        with layer.Faults() as faults:
            faults.set("cut_at", 3)
            child = self.run_child(faults, 'fd = os.open(path("a"), os.O_WRONLY | os.O_CREAT)\n'
                                           'while True: os.write(fd, b"x")\n')
            self.assertEqual(child.returncode, -9)
            faults.cut(self.chance, "all")
            self.assertEqual(contents(faults.root), {"a": b"x"})

    def test_what_is_not_covered_is_refused(self):
        ways = {"link": 'os.link(path("a"), path("b"))', "symlink": 'os.symlink("x", path("b"))',
                "truncate": 'os.truncate(path("a"), 0)',
                "writev": 'os.writev(os.open(path("a"), os.O_WRONLY), [b"x"])',
                "pwritev": 'import ctypes; ctypes.CDLL(None).pwritev(os.open(path("a"), os.O_WRONLY), None, 0, 0)',
                "dup": 'os.dup2(os.open(path("a"), os.O_WRONLY), 500, inheritable=True)',
                "mmap": 'import ctypes; ctypes.CDLL(None).mmap(None, 1, 3, 1, os.open(path("a"), os.O_RDWR), 0)',
                "O_DIRECT": 'os.open(path("a"), os.O_WRONLY | os.O_DSYNC)',
                "across": 'os.rename(path("a"), root + ".other")',
                "sendfile": 'fd = os.open(path("a"), os.O_RDWR); os.sendfile(fd, 0, 0, 1)',
                "remove": 'import ctypes; ctypes.CDLL(None).remove(path("a").encode())',
                "fallocate": 'os.posix_fallocate(os.open(path("a"), os.O_RDWR), 0, 10)'}
        for way, program in ways.items():
            with self.subTest(way), layer.Faults() as faults:
                child = self.run_child(faults, 'write("a", b"x")\n' + program)
                self.assertEqual(child.returncode, -6, child.stderr)
                self.assertIn("is not covered", child.stderr)
                self.assertIn(way, child.stderr)

    def test_clock(self):
        with layer.Faults() as faults:
            for offset_s in (-3600, 0, 365 * 86400):
                faults.set("clock_offset_ns", offset_s * 10**9)
                child = self.run_child(faults, 'import time; print(time.time())')
                self.assertLess(abs(float(child.stdout) - time.time() - offset_s), 60)


def contents(folder):
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


if __name__ == "__main__":
    if layer.can_preload():
        print(f"skipped: {layer.can_preload()}")
        sys.exit(77)
    unittest.main(verbosity=2)
