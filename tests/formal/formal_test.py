#!/usr/bin/env python3
"""Goal: the protocols of docs/reliability-lab.md keep every property in every order of events, and each bug
planted in them breaks one.

Method: spin turns each model into a program that visits all its states, with weak fairness; it runs once
for each property as it is, and for each PLANT until one property finds the bug.
"""

import os
import re
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Model:
    def __init__(self, name, folder):
        self.path = os.path.join(HERE, name)
        self.folder = folder
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        self.properties = re.findall(r"^ltl (\w+)", text, re.M)
        self.plants = range(1, max(map(int, re.findall(r"PLANT (?:==|!=|>=) (\d+)", text))) + 1)

    def build(self, plant):
        """A program that visits all states of the model with that bug planted; 0: with none."""
        folder = os.path.join(self.folder, f"{os.path.basename(self.path)}-{plant}")
        os.mkdir(folder)
        subprocess.run(["spin", "-a", f"-DPLANT={plant}", self.path], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["cc", "-O1", "-w", "-DNFAIR=3", "-o", "pan", "pan.c"], cwd=folder, check=True)
        return os.path.join(folder, "pan")


def holds(program, claim):
    """Whether it does, and in how many states that was seen."""
    out = subprocess.run([program, "-a", "-f", "-m1000000", "-N", claim], check=True, text=True,
                         cwd=os.path.dirname(program), capture_output=True).stdout
    errors = re.search(r"errors: (\d+)", out)
    states = re.search(r"(\d+) states, stored", out)
    if not errors or not states or "too small" in out or "out of memory" in out:
        raise AssertionError(f"the search was not complete:\n{out}")
    return errors[1] == "0", int(states[1])


class FormalTest(unittest.TestCase):
    def check(self, name):
        with tempfile.TemporaryDirectory() as folder:
            model = Model(name, folder)
            program = model.build(0)
            self.assertGreater(len(model.properties), 3)
            for claim in model.properties:
                is_kept, states = holds(program, claim)
                print(f"{name}: {claim} holds in {states} states")
                self.assertTrue(is_kept, claim)
            for plant in model.plants:
                program = model.build(plant)
                found = next((claim for claim in model.properties if not holds(program, claim)[0]), None)
                print(f"{name}: PLANT={plant} is found by the search for {found}")
                self.assertIsNotNone(found, f"PLANT={plant} is not found")

    def test_timer(self):
        self.check("timer.pml")

    def test_partition(self):
        self.check("partition.pml")


if __name__ == "__main__":
    unittest.main()
