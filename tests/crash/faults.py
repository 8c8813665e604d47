"""A disk that loses power, fills up and fails, and a clock that steps: the test's side of tests/crash/layer.

    faults = Faults()                   # a folder of its own; daemon data goes into faults.data
    harness.Daemon(faults.data, env=faults.env())
    faults.set("syncs_to_fail", 1)
    faults.cut(chance)                  # after the process was killed: what a disk may have kept

The layer writes a journal of all changes to the disk; `Disk` reads it. Synced bytes are kept. Of the rest
a power cut keeps, by chance: nothing, everything, a prefix, or each 4 KiB block and
each change of a directory by itself, some blocks cut, some of zeros. After a failed sync its bytes
are never safe any more, whatever a later sync returns, unless they are written again, as with the page cache of Linux.
"""

import mmap
import os
import shutil
import struct
import tempfile

import harness

BLOCK = 4096
UNLIMITED = 2**64 - 1
FIELDS = ("clock_offset_ns", "space_bytes", "writes_to_fail", "syncs_to_fail", "short_every", "cut_at",
          "steps", "writes_failed", "syncs_failed", "shorts", "refused_full", "reads_to_fail")
(START, OPEN, CLOSE, WRITE, TRUNCATE, SYNC, SYNC_FAILED, RENAME, UNLINK, MKDIR, RMDIR) = range(1, 12)
HEAD = struct.Struct("<IIQQ")
KEEPS = ("nothing", "all", "first", "some")


class File:
    """Contents that are safe, and the changes since, in order: [offset, bytes or None to cut, is doomed]."""

    def __init__(self, contents=b""):
        self.safe = bytearray(contents)
        self.pending = []

    def sync(self):
        for offset, data, _ in self.pending:
            apply(self.safe, offset, data)
        self.pending = []

    def after(self, keep, chance):
        """What a power cut leaves."""
        contents = bytearray(self.safe)
        if keep == "all":
            keep_count = len(self.pending)
        elif keep == "nothing":
            keep_count = 0
        else:
            keep_count = chance.randrange(len(self.pending) + 1)
        for number, (offset, data, _) in enumerate(self.pending):
            if keep == "some" and data is not None:
                for at, block in blocks(offset, data):
                    apply(contents, at, torn(block, chance))
            elif keep == "some":
                if chance.random() < 0.5:
                    apply(contents, offset, data)
            elif number < keep_count:
                apply(contents, offset, data)
            elif number == keep_count and keep == "first" and data is not None:
                apply(contents, offset, data[:chance.randrange(len(data) + 1)])
        return contents


def apply(contents, offset, data):
    if data is None:
        del contents[offset:]
        contents.extend(bytes(offset - len(contents)))
        return
    if not data:
        return
    contents.extend(bytes(max(0, offset - len(contents))))  # lost bytes in between read as zeros
    contents[offset:offset + len(data)] = data


def uncovered(change, later):
    """The parts of a doomed write that no later write, which is synced now, has replaced in the page cache."""
    if change[1] is None:
        return [change[:2]]
    pieces = [change[:2]]
    for offset, data, is_doomed in later:
        if data and not is_doomed:
            end = offset + len(data)
            pieces = [(at, part) for begin, old in pieces
                      for at, part in ((begin, old[:max(0, offset - begin)]),
                                       (max(begin, end), old[max(0, end - begin):])) if part]
    return pieces


def blocks(offset, data):
    begin = 0
    while begin < len(data):
        end = min(len(data), begin + BLOCK - (offset + begin) % BLOCK)
        yield offset + begin, data[begin:end]
        begin = end


def torn(block, chance):
    """A block on its way to the disk: there, not there, only its length, or cut."""
    fate = chance.random()
    if fate < 0.4:
        return block
    if fate < 0.7:
        return b""
    if fate < 0.8:
        return bytes(len(block))
    return block[:chance.randrange(len(block))]


class Folder:
    def __init__(self):
        self.safe, self.live = {}, {}
        self.pending = []  # changes of entries: (old name or None, new name or None, what)

    def change(self, old, new, what):
        self.pending.append((old, new, what))
        move(self.live, old, new, what)

    def sync(self):
        for change in self.pending:
            move(self.safe, *change)
        self.pending = []

    def after(self, keep, chance):
        entries = dict(self.safe)
        keep_count = {"all": len(self.pending), "nothing": 0}.get(
            keep, chance.randrange(len(self.pending) + 1))
        for number, change in enumerate(self.pending):
            if chance.random() < 0.5 if keep == "some" else number < keep_count:
                move(entries, *change)
        return entries


def move(entries, old, new, what):
    if old and entries.get(old) is what:
        del entries[old]
    if new:
        entries[new] = what


class Disk:
    """The synced and the unsynced state of one folder."""

    def __init__(self, root):
        self.root, self.top = root, Folder()
        self.open = {}
        self.syncs = self.writes = 0
        self.read = 0  # of the journal

    def load(self):
        """Takes what is below the root for the safe state."""
        def read(path):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    return File(file.read())
            folder = Folder()
            folder.safe = {name: read(os.path.join(path, name)) for name in os.listdir(path)}
            folder.live = dict(folder.safe)
            return folder
        self.top = read(self.root)

    def parts(self, path):
        assert path.startswith(self.root + "/"), path
        return [part for part in path[len(self.root) + 1:].split("/") if part]

    def find(self, path):
        """The folder that holds the path, and its name there."""
        folder = self.top
        parts = self.parts(path)
        for part in parts[:-1]:
            folder = folder.live[part]
        return folder, parts[-1]

    def follow(self, journal):
        """Takes in what the journal has more by now; the end of it may be torn."""
        with open(journal, "rb") as file:
            file.seek(self.read)
            data = file.read()
        at = 0
        while at + HEAD.size <= len(data):
            kind, fd, offset, size = HEAD.unpack_from(data, at)
            if at + HEAD.size + size > len(data):
                break
            self.take(kind, fd, offset, data[at + HEAD.size:at + HEAD.size + size])
            at += HEAD.size + size
        self.read += at

    def take(self, kind, fd, offset, data):
        if kind == START:
            self.open = {}
        elif kind == OPEN:
            self.take_open(fd, offset, data.decode())
        elif kind == CLOSE:
            del self.open[fd]
        elif kind == WRITE:
            self.writes += 1
            self.open[fd].pending.append([offset, data, False])
        elif kind == TRUNCATE:
            self.open[fd].pending.append([offset, None, False])
        elif kind == SYNC:
            self.syncs += 1
            self.take_sync(self.open[fd])
        elif kind == SYNC_FAILED:
            for change in getattr(self.open[fd], "pending", []):
                if isinstance(change, list):
                    change[2] = True
        elif kind == RENAME:
            old, new = data.decode().split("\0")
            (folder, old_name), (new_folder, new_name) = self.find(old), self.find(new)
            what = folder.live[old_name]
            if folder is new_folder:
                folder.change(old_name, new_name, what)
            else:  # each folder keeps its part of the move by itself: the disk may lose the file until both are synced
                folder.change(old_name, None, what)
                new_folder.change(None, new_name, what)
        elif kind in (UNLINK, RMDIR):
            folder, name = self.find(data.decode())
            folder.change(name, None, folder.live[name])
        elif kind == MKDIR:
            folder, name = self.find(data.decode())
            folder.change(None, name, Folder())
        else:
            raise AssertionError(f"journal: kind {kind}")

    def take_open(self, fd, how, path):
        if path == self.root:
            self.open[fd] = self.top
            return
        folder, name = self.find(path)
        if how & 1:
            folder.change(None, name, File())
        elif how & 2:
            folder.live[name].pending.append([0, None, False])
        self.open[fd] = folder.live[name]

    @staticmethod
    def take_sync(what):
        if isinstance(what, Folder):
            what.sync()
            return
        doomed = [list(piece) + [True] for number, change in enumerate(what.pending) if change[2]
                  for piece in uncovered(change, what.pending[number + 1:])]
        what.pending = [change for change in what.pending if not change[2]]
        what.sync()
        what.pending = doomed

    def cut(self, chance, keep):
        """Takes the remaining state as the disk's contents and writes it below the root."""
        def rebuild(folder, path):
            fresh = Folder()
            entries = folder.after(keep, chance)
            for name, what in entries.items():
                below = os.path.join(path, name)
                if isinstance(what, Folder):
                    os.mkdir(below, 0o700)
                    fresh.safe[name] = rebuild(what, below)
                else:
                    contents = what.after(keep, chance)
                    with open(below, "wb") as file:
                        file.write(contents)
                    fresh.safe[name] = File(contents)
            fresh.live = dict(fresh.safe)
            return fresh

        unsynced = self.unsynced(self.top)
        for name in os.listdir(self.root):
            path = os.path.join(self.root, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        self.top, self.open = rebuild(self.top, self.root), {}
        return unsynced

    def unsynced(self, folder):
        """How many changes no sync has made safe."""
        count = len(folder.pending)
        for what in folder.live.values():
            count += self.unsynced(what) if isinstance(what, Folder) else len(what.pending)
        return count


def can_preload():
    """None, or why the layer cannot be put under this build's daemon."""
    try:
        harness.find("libfaultlayer.so")
        daemon = harness.find("tickwheeld")
    except FileNotFoundError as error:
        return str(error)
    with open(daemon, "rb") as file:
        contents = file.read()
    for word in (b"__asan_init", b"__tsan_init"):
        if word in contents:
            return "LD_PRELOAD does not go with a sanitizer's own"
    return None


class Faults:
    def __init__(self):
        self.home = os.path.realpath(tempfile.mkdtemp(prefix="tickwheel-faults-"))
        self.root = os.path.join(self.home, "disk")
        self.data = os.path.join(self.root, "data")
        self.journal = os.path.join(self.home, "journal")
        os.mkdir(self.root)
        self.control_path = os.path.join(self.home, "control")
        with open(self.control_path, "wb") as file:
            file.write(bytes(BLOCK))
        with open(self.control_path, "r+b") as file:
            self.control = mmap.mmap(file.fileno(), BLOCK)
        self.set("space_bytes", UNLIMITED)
        self.disk = Disk(self.root)

    def env(self, has_disk=True):
        """For the daemon; without the disk it steps the clock only."""
        env = {**os.environ, "LD_PRELOAD": os.path.abspath(harness.find("libfaultlayer.so")),
               "FAULTS_CONTROL": self.control_path}
        if has_disk:
            env.update(FAULTS_JOURNAL=self.journal, FAULTS_FOLDER=self.root)
        return env

    def set(self, name, value):
        struct.pack_into("<q" if name == "clock_offset_ns" else "<Q", self.control,
                         8 * FIELDS.index(name), value)

    def get(self, name):
        return struct.unpack_from("<q" if name == "clock_offset_ns" else "<Q", self.control,
                                  8 * FIELDS.index(name))[0]

    def cut(self, chance, keep=None):
        """Cuts the power; returns a description: the kept changes, and the number of changes in doubt."""
        keep = keep or chance.choice(KEEPS)
        self.disk.follow(self.journal)
        unsynced = self.disk.cut(chance, keep)
        os.truncate(self.journal, 0)
        self.disk.read = 0
        return keep, unsynced

    def close(self):
        self.control.close()
        shutil.rmtree(self.home)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
