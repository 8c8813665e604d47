#!/usr/bin/env python3
"""Goal: calls on timers by key through any node are linearizable, while nodes are killed. Method: clients put, delete and get
the timers of a few keys through three nodes, one of which is killed in each round; the history goes to Porcupine
(tests/cluster/long/linear), which needs Go. Calls that were refused were not made; those without an answer may have been."""

import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import fault_case
import load

ROUNDS = 50
KEYS, CLIENTS = 6, 4
REFUSED, IN_DOUBT = object(), object()


class Caller(threading.Thread):
    """Makes one call after the other on the keys of a round, and writes them down."""

    def __init__(self, case, number, keys, seed):
        super().__init__(daemon=True)
        self.case, self.number, self.keys, self.chance = case, number, keys, random.Random(seed)
        self.calls, self.value, self.failure, self.stop = [], number, None, threading.Event()

    def answer(self, kind, status, body):
        if status == 503:
            return IN_DOUBT if body["type"] == "/problems/in-doubt" else REFUSED
        if kind == "put" and status in (200, 201):
            return 0
        if status in (404, 410):
            return 0
        if status == 200:
            return body["payload"] if kind == "get" else 1
        raise AssertionError(f"{kind}: {status} {body}")

    def ask(self, connection, daemon, kind, key):
        method, body = {"put": ("PUT", {"after": "24h", "target": "log:register", "payload": self.value}),
                        "delete": ("DELETE", None), "get": ("GET", None)}[kind]
        status, _, answer = daemon.call(method, f"/v1/keys/{key}/timer", body, connection=connection)
        return self.answer(kind, status, answer)

    def step(self, connection, daemon):
        kind, key = self.chance.choice(("put", "put", "get", "get", "delete")), self.chance.choice(self.keys)
        self.value += CLIENTS  # no two calls put the same
        call = {"client": self.number, "key": key, "kind": kind, "value": self.value, "call": time.monotonic_ns(),
                "return": 0, "found": 0}
        try:
            found = self.ask(connection, daemon, kind, key)
        except (OSError, http.client.HTTPException):
            self.calls.append(call)
            raise
        if found is not REFUSED:
            self.calls.append(call)
        if found not in (REFUSED, IN_DOUBT):
            call.update(found=found, **{"return": time.monotonic_ns()})

    def visit(self):
        daemon = self.chance.choice([node.daemon for node in self.case.nodes if node.daemon])
        connection = daemon.connect(fault_case.ANSWER_S)
        try:
            for _ in range(fault_case.VISIT):
                self.step(connection, daemon)
                if self.stop.wait(0.01):
                    return
        finally:
            connection.close()

    def run(self):
        while not self.stop.is_set():
            try:
                self.visit()
            except (OSError, http.client.HTTPException):
                self.stop.wait(fault_case.PACE_S)
            except Exception as failure:  # shown by the main thread
                self.failure = failure
                return


class LinearTest(fault_case.FaultCase):
    def round(self, number):
        """The calls of one round, around a kill."""
        keys = [f"register-{number}-{key}" for key in range(KEYS)]
        callers = [Caller(self, caller, keys, self.chance.random()) for caller in range(1, CLIENTS + 1)]
        for caller in callers:
            caller.start()
        self.be_busy()
        node = self.chance.choice(self.nodes)
        node.end(signal.SIGKILL)
        self.await_owners(self.others(node), "the others own all")
        self.be_busy()
        for caller in callers:
            caller.stop.set()
        for caller in callers:
            caller.join(60)
            if caller.failure:
                raise caller.failure
        node.start()
        self.await_shares("a node is back")
        return [call for caller in callers for call in caller.calls]

    def test_registers(self):
        with tempfile.TemporaryDirectory(prefix="tickwheel-linear-") as folder:
            program, history = os.path.join(folder, "linear"), os.path.join(folder, "history")
            subprocess.run(["go", "build", "-o", program, "."], cwd=os.path.join(fault_case.HERE, "linear"), check=True,
                           timeout=600)
            made = unanswered = 0
            for number in range(load.rounds(ROUNDS)):
                calls = self.round(number)
                made, unanswered = made + len(calls), unanswered + sum(call["return"] == 0 for call in calls)
                with open(history, "w", encoding="utf-8") as file:
                    file.writelines(json.dumps(call) + "\n" for call in calls)
                done = subprocess.run([program, history], capture_output=True, text=True, timeout=600, check=False)
                if done.returncode:
                    kept = os.path.join(tempfile.gettempdir(), f"history-{load.SEED}-{number}")
                    shutil.copy(history, kept)
                    self.fail(f"round {number}: {done.stdout} {done.stderr}; {kept} has the calls")
                print(f"{number + 1} rounds, {made} calls, {unanswered} of them without an answer: linearizable", flush=True)


if __name__ == "__main__":
    if not shutil.which("go"):
        print("Skipped: no Go")
        sys.exit(fault_case.SKIPPED)
    fault_case.main()
