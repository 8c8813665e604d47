#!/usr/bin/env python3
"""Goal: the protocols of docs/reliability.md keep every property in every order of events, and each bug
planted in them breaks one.

Method: spin turns each model into a program that visits all its states. A model with properties in temporal logic
runs once for each of them, with weak fairness, and for each PLANT until one finds the bug; a model with assertions alone
runs once within each of its bounds, and once for each PLANT. TEST_SIZE=full takes larger bounds.
"""

import os
import re
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

# Of partition.pml, and of once.pml: small ones first.
BOUNDS = [("LOG_MAX=3", "FAULTS_MAX=2", "LEASE=2"), ("LOG_MAX=4", "FAULTS_MAX=2", "LEASE=1")]
ONCE_BOUNDS = [("LOG_MAX=5", "FAULTS_MAX=1"), ("LOG_MAX=4", "FAULTS_MAX=2")]
ONCE_BOUNDS_FULL = [("LOG_MAX=6", "FAULTS_MAX=1"), ("LOG_MAX=5", "FAULTS_MAX=2")]
BOUNDS_FULL = [("LOG_MAX=4", "FAULTS_MAX=2", "LEASE=2"), ("LOG_MAX=5", "FAULTS_MAX=1", "LEASE=1"),
               ("NODES=3", "LOG_MAX=3", "FAULTS_MAX=1", "LEASE=1")]


class Model:
    def __init__(self, name, folder, optimise="-O2"):
        self.path = os.path.join(HERE, name)
        self.folder, self.optimise = folder, optimise
        with open(self.path, encoding="utf-8") as file:
            text = file.read()
        self.properties = re.findall(r"^ltl (\w+)", text, re.M)
        self.plants = range(1, max(map(int, re.findall(r"PLANT (?:==|!=|>=) (\d+)", text))) + 1)

    def build(self, plant, *bounds):
        """A program that visits all states of the model with that bug planted; 0: with none."""
        folder = tempfile.mkdtemp(dir=self.folder)
        subprocess.run(["spin", "-a", f"-DPLANT={plant}", *["-D" + bound for bound in bounds], self.path], cwd=folder,
                       check=True, stdout=subprocess.DEVNULL)
        kind = ["-O1", "-DNFAIR=3"] if self.properties else [self.optimise, "-DSAFETY", "-DNOREDUCE"]
        subprocess.run(["cc", *kind, "-w", "-o", "pan", "pan.c"], cwd=folder, check=True)
        return os.path.join(folder, "pan")


def holds(program, claim=None):
    """Whether the claim does, or without one each assertion, and in how many states that was seen."""
    kind = ["-a", "-f", "-N", claim] if claim else []
    out = subprocess.run([program, *kind, "-m1000000"], check=True, text=True, cwd=os.path.dirname(program),
                         capture_output=True).stdout
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

    def check_bounds(self, name, bounds, bounds_full, optimise="-O2"):
        """The assertions of a model without properties in temporal logic."""
        with tempfile.TemporaryDirectory() as folder:
            model = Model(name, folder, optimise)
            for plant in model.plants:
                self.assertFalse(holds(model.build(plant))[0], f"PLANT={plant} is not found")
                print(f"{name}: PLANT={plant} is found")
            for each in bounds + (bounds_full if os.environ.get("TEST_SIZE") == "full" else []):
                is_kept, states = holds(model.build(0, *each))
                print(f"{name}: every assertion holds in {states} states, {' '.join(each)}", flush=True)
                self.assertTrue(is_kept, each)

    def test_partition(self):
        self.check_bounds("partition.pml", BOUNDS, BOUNDS_FULL)

    def test_once(self):
        self.check_bounds("once.pml", ONCE_BOUNDS, ONCE_BOUNDS_FULL, "-O0")  # the compiler would take longer than the search


if __name__ == "__main__":
    unittest.main()
