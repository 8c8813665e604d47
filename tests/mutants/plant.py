#!/usr/bin/env python3
"""Plants each bug of tests/mutants into a copy of the tree and demands that the tests find it.

    tests/mutants/plant.py [GROUP | GROUP/NAME]...       all of them without names
    tests/mutants/plant.py --check                       only whether each bug still fits the tree
    tests/mutants/plant.py --fix                         names the new file of each change whose lines moved to another one

A bug is a few lines of a file GROUP.bugs (bugs.py describes the form). Its group says which tests must find it:

lib       the tests of the module that its name begins with: wheel-... is for lib/src/wheel*_test.c.
          SEEDS (40) is the number of seeds of a model test that it may survive, LIMIT (60) the seconds a test may take
          until it has failed.
sim       the simulation of one node. RUNS (20000) is the number of seeds that it may survive, STEPS (200 800) their lengths: bugs
          of memory limits and of steps of the clock take longer runs.
cluster   the simulation of several nodes. RUNS (20000) is the number of seeds that it may survive. A bug that it cannot meet names
          the test that must find it, as those of daemon do.
wheel     the store on a wheel: the test of src/store/wheel that the bug names.
daemon    the real daemon under the test that the bug names: "Found by tests/...", or a test of modules: "Found by
          src/....c".
take_over the command that takes over old folders, under tests/take_over. Only if it is named: it needs RocksDB.

SEED is the first seed. The copy is in a temporary folder (TMPDIR), built once and then again for each bug.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import bugs

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GROUPS = ("lib", "sim", "cluster", "wheel", "daemon", "take_over")
SEED = os.environ.get("SEED", "1")
LIMIT = int(os.environ.get("LIMIT", "60"))
JOBS = os.environ.get("JOBS", str(os.cpu_count()))


def path_of(group):
    return os.path.join(HERE, group + ".bugs")


def wanted(names):
    """The bugs that are asked for."""
    known = {group: bugs.read(path_of(group)) for group in GROUPS}
    found = []
    for name in names:
        group, _, one = name.partition("/")
        chosen = [bug for bug in known.get(group, []) if not one or bug.name == one]
        if not chosen:
            raise bugs.Unfit(f"{name}: no such bug")
        found += chosen
    return found


def check(names):
    """Prints a line for each bug that cannot be planted."""
    tree, stale = bugs.Tree(ROOT), 0
    for bug in wanted(names or GROUPS):
        try:
            tree.planted(bug)
            if bug.found_by and not os.path.exists(os.path.join(ROOT, bug.found_by.split()[0])):
                raise bugs.Unfit(f"{bug.found_by} is not in the tree")
        except bugs.Unfit as problem:
            print(f"STALE     {bug}: {problem}")
            stale += 1
    return 1 if stale else 0


def fix(names):
    """Writes the files of changes anew whose lines occur once in another file, and in no file of the name given."""
    tree = bugs.Tree(ROOT)
    for group in GROUPS:
        moved = iter([[bug, change] for bug in wanted([group]) for change in bug.changes])
        with open(path_of(group), encoding="utf-8") as file:
            lines = file.read().split("\n")
        for at, line in enumerate(lines):
            if not line.startswith("in "):
                continue
            bug, change = next(moved)
            if tree.places(change, change.file):
                continue
            elsewhere = [place[0] for name in tree.paths for place in tree.places(change, name)]
            if len(elsewhere) == 1:
                lines[at] = "in " + os.path.basename(elsewhere[0])
                print(f"{bug}: {change.file} -> {lines[at][3:]}")
        with open(path_of(group), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    return check(names)


class Copy:
    """A copy of the tree in a folder, its build folder, and what the last command in it printed."""

    def __init__(self, folder, options):
        self.tree = os.path.join(folder, "tree")
        self.build = os.path.join(self.tree, "build", "planted")
        self.output = ""
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
        os.mkdir(self.tree)
        subprocess.run(["xargs", "-0", "cp", "--parents", "-t", self.tree], input=listed, cwd=ROOT, check=True)
        subprocess.run(["cmake", "--preset", "dev", "-B", self.build, "-DCMAKE_C_FLAGS=", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g",
                        "--log-level=WARNING", *options], cwd=self.tree, check=True, stdout=subprocess.DEVNULL)
        self.sources = bugs.Tree(self.tree)
        listed = subprocess.run(["ctest", "--show-only=json-v1"], cwd=self.build, check=True, capture_output=True).stdout
        self.tests = {test["name"] for test in json.loads(listed)["tests"]}

    def write(self, texts):
        for path, text in texts.items():
            with open(os.path.join(self.tree, path), "w", encoding="utf-8", newline="") as file:
                file.write(text)

    def run(self, command, timeout=None, **environment):
        """Whether a command succeeds in time."""
        try:
            done = subprocess.run(command, cwd=self.tree, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as late:
            self.output = (late.stdout or b"").decode(errors="replace")
            return False
        self.output = done.stdout.decode(errors="replace")
        return done.returncode == 0

    def make(self, targets):
        return self.run(["cmake", "--build", self.build, "-j", JOBS, "--target", *targets])

    def passes(self, test, **environment):
        """Whether a test of modules passes, as ctest runs it: perhaps with a server beside it."""
        return self.run(["ctest", "--test-dir", self.build, "--output-on-failure", "--no-tests=error", "-R", f"^{test}$"], 600,
                        **environment)

    def program_of(self, source):
        """The name of a test of modules, which begins with its folder's where another folder was first (cmake/module.cmake)."""
        name, folder = os.path.basename(source)[:-2], os.path.basename(os.path.dirname(source))
        return f"{folder}_{name}" if f"{folder}_{name}" in self.tests else name


class Lib:
    """Judges a bug of the library by its module's tests, the long ones last."""

    def __init__(self, bug, _):
        self.module = bug.name.split("-")[0]
        ends = ("test", "lessons_test", "memory_test", "model_test", "*_test")
        paths = [path for end in ends for path in sorted(glob.glob(f"{ROOT}/lib/src/{self.module}_{end}.c"))]
        self.targets = list(dict.fromkeys(os.path.basename(path)[:-2] for path in paths))

    def find(self, copy, _):
        """The test that fails, None if all pass."""
        for test in self.targets:
            if not copy.run([f"{copy.build}/lib/{test}"], LIMIT, TEST_SEED=SEED, TEST_SEEDS=os.environ.get("SEEDS", "40"),
                            TEST_ROUNDS="2"):
                return test
        return None


class World:
    """Judges a bug by the simulation, of one node or of several."""

    targets = ["world"]

    def __init__(self, nodes):
        self.nodes = nodes
        self.module = "world of " + nodes

    def find(self, copy, is_planted):
        runs = os.environ.get("RUNS", "20000") if is_planted else "500"
        if all(copy.run([f"{copy.build}/tests/world/world", "--seed", SEED, "--steps", steps, "--runs", runs, "--nodes", self.nodes])
               for steps in os.environ.get("STEPS", "200 800").split()):
            return None
        broken = re.search(r"^BROKEN: (.*)", copy.output, re.M)
        after = re.search(r"^FAILED (after \d+ runs)", copy.output, re.M)
        return ": ".join([after[1] if after else "it ended", broken[1][:90] if broken else copy.output[-90:].strip()])


class Module:
    """Judges a bug by the test of modules that it names."""

    def __init__(self, bug, copy):
        self.module = copy.program_of(bug.found_by)
        self.targets = [self.module]

    def find(self, copy, _):
        return None if copy.passes(self.module) else f"{self.module}: a test fails"


class Daemon:
    """Judges a bug of the daemon by the test that it names. That test passes without a bug: `make test` runs it."""

    module = ""

    def __init__(self, bug, copy):
        self.test, *self.settings = bug.found_by.split()
        self.targets = ["tickwheeld", "tickwheeld_scarce", "receiver", "faultlayer", "nth"]
        if "rabbitmq" in self.test:
            self.targets.append("rabbitmq_tool")
        if bug.group == "take_over":
            self.targets.append("tickwheel_take_over")
        if self.test.endswith(".c"):
            self.targets.append(copy.program_of(self.test))

    def find(self, copy, _):
        environment = {"TEST_SEED": SEED, "TEST_BUILD": copy.build, **dict(setting.split("=", 1) for setting in self.settings)}
        if (copy.passes(self.targets[-1], **environment) if self.test.endswith(".c") else
                copy.run(["python3", self.test], 600, **environment)):
            return None
        return " ".join([self.test, *self.settings])


JUDGES = {
    "lib": Lib,
    "sim": lambda *_: World("one"),
    "cluster": lambda bug, copy: (Daemon if bug.found_by.endswith(".py") else Module)(bug, copy) if bug.found_by else World("several"),
    "wheel": Module,
    "daemon": Daemon,
    "take_over": Daemon,
}


def plant_one(copy, bug, judge):
    """Plants a bug, judges it, takes it out; returns whether it was found."""
    try:
        texts = copy.sources.planted(bug)
    except bugs.Unfit as problem:
        print(f"STALE     {bug}: {problem}")
        return False
    copy.write(texts)
    found = None
    if not copy.make(judge.targets):
        print(f"STALE     {bug}: it does not build\n" + "\n".join(copy.output.splitlines()[-5:]))
    else:
        found = judge.find(copy, True)
        print(f"killed    {bug} ({found})" if found else f"SURVIVED  {bug}")
    copy.write({path: copy.sources.text(path) for path in texts})
    return found is not None


def plant(names):
    chosen = wanted(names or [group for group in GROUPS if group != "take_over"])
    options = ["-DTICKWHEEL_TAKE_OVER=ON"] * any(bug.group == "take_over" for bug in chosen)
    killed, sound = 0, {""}
    with tempfile.TemporaryDirectory(prefix="tickwheel-mutants.") as folder:
        copy = Copy(folder, options)
        for bug in chosen:
            judge = JUDGES[bug.group](bug, copy)
            # A test that fails without a bug proves nothing.
            if judge.module not in sound:
                found = judge.find(copy, False) if copy.make(judge.targets) else "the build"
                if found:
                    print(f"{copy.output}\nplant: {found} fails without any bug planted")
                    return 1
                sound.add(judge.module)
            killed += plant_one(copy, bug, judge)
            sys.stdout.flush()
    print(f"plant: {killed} of {len(chosen)} bugs killed")
    return 0 if killed == len(chosen) else 1


def main(arguments):
    verb = {"--check": check, "--fix": fix}.get(arguments[0]) if arguments else None
    if not verb and arguments and arguments[0].startswith("-"):
        print(__doc__)
        return 2
    try:
        return verb(arguments[1:]) if verb else plant(arguments)
    except bugs.Unfit as problem:
        print(f"plant: {problem}")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
