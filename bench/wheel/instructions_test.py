#!/usr/bin/env python3
"""Goal: no verb of the wheel executes more instructions than before.

Method: callgrind counts the instructions of each verb in a program with fixed input (instructions.c), and the counts are
compared with the committed table. A count depends on the compiler, so the table has a part for each compiler that was
measured; the test is skipped for others, and without valgrind.

    instructions_test.py PROGRAM            compares
    instructions_test.py PROGRAM --save     writes the table: after a change for the better, or with its reason
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "..", "results", "wheel_instructions.json")
GROWTH_MAX = 1.03
SKIPPED = 77


def read_table():
    if not os.path.exists(TABLE):
        return {}
    with open(TABLE, encoding="utf-8") as file:
        return json.load(file)


def profile_number(path):
    return int(path.rsplit(".", 1)[1])


def total(path):
    with open(path, encoding="utf-8") as file:
        return int(re.search(r"^(?:totals|summary): (\d+)", file.read(), flags=re.M)[1])


def count(program):
    """The compiler, and verb -> instructions per operation."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["valgrind", "-q", "--tool=callgrind", "--toggle-collect=counted", "--dump-after=counted",
                               f"--callgrind-out-file={folder}/profile", program],
                              capture_output=True, text=True, check=True)
        compiler, *lines = done.stdout.splitlines()
        profiles = sorted(glob.glob(f"{folder}/profile.*"), key=profile_number)[:len(lines)]
        counts = {}
        for line, path in zip(lines, profiles, strict=True):
            verb, operations = line.rsplit(" ", 1)
            counts[verb] = round(total(path) / int(operations), 2)
        return compiler, counts


def worse(table, counts):
    """What is wrong with the counts, a line for each verb."""
    found = [f"{verb}: {counts[verb]:.2f} instructions, {counts[verb] / table[verb]:.3f} of the table's {table[verb]:.2f}"
             for verb in counts if verb in table and counts[verb] > table[verb] * GROWTH_MAX]
    return found + [f"{verb}: only in {'the table' if verb in table else 'the program'}"
                    for verb in sorted(set(table) ^ set(counts))]


class Compare(unittest.TestCase):
    def test_growth_beyond_three_percent_is_named(self):
        self.assertEqual(worse({"arm": 100.0}, {"arm": 103.0}), [])
        self.assertEqual(worse({"arm": 100.0, "cancel": 50.0}, {"arm": 103.5, "cancel": 20.0}),
                         ["arm: 103.50 instructions, 1.035 of the table's 100.00"])

    def test_a_verb_without_its_row_is_named(self):
        self.assertEqual(worse({"arm": 1.0}, {"arm": 1.0, "open": 2.0}), ["open: only in the program"])
        self.assertEqual(worse({"arm": 1.0, "open": 2.0}, {"arm": 1.0}), ["open: only in the table"])


class Counted(unittest.TestCase):
    program = ""

    def test_no_verb_takes_more_instructions(self):
        compiler, counts = count(self.program)
        table = read_table()[compiler]
        for verb, instructions in counts.items():
            before = table.get(verb)
            print(f"{verb:<26}{instructions:9.2f}" + (f"{instructions / before:9.3f}" if before else ""))
        self.assertEqual(worse(table, counts), [])


def save(program):
    compiler, counts = count(program)
    table = {**read_table(), compiler: counts}
    with open(TABLE, "w", encoding="utf-8") as file:
        json.dump(table, file, indent=1)
        file.write("\n")


def main(program, *options):
    if not shutil.which("valgrind"):
        print("skipped: there is no valgrind here")
        return SKIPPED
    if "--save" in options:
        save(program)
        return 0
    compiler = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    if compiler not in read_table():
        print(f"skipped: no counts for {compiler}; {sys.argv[0]} {program} --save adds them")
        return SKIPPED
    Counted.program = program
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
