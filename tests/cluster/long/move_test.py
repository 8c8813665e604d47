#!/usr/bin/env python3
"""Goal: of a million timers that are created while partitions move, each acknowledged one is there, once. Method: batches
through three nodes, which stop and start meanwhile until 20 partitions have moved; then the lists of all nodes are compared with
the ids that clients were told."""

import http.client
import json
import signal
import threading
import time

import fault_case
import load

TIMERS = fault_case.timers(1000000)
MOVES = 20
BATCH = 1000


class Creator(threading.Thread):
    """Creates batches at any node until it is told to end."""

    def __init__(self, case, seed):
        super().__init__(daemon=True)
        self.case, self.node, self.failure = case, seed, None
        self.ids, self.stop, self.refused = [], threading.Event(), 0
        self.body = (json.dumps({"after": "24h", "target": "log:moved"}) + "\n") * BATCH

    def create(self):
        self.node = (self.node + 1) % len(self.case.nodes)
        daemon = self.case.nodes[self.node].daemon
        if not daemon:
            return
        try:
            connection = daemon.connect(fault_case.ANSWER_S)
        except OSError:
            return
        try:
            for _ in range(10):
                status, _, text = daemon.call("POST", "/v1/timers/batch", self.body, load.NDJSON, connection)
                if status != 200:
                    self.refused += 1
                    time.sleep(fault_case.PACE_S)
                    continue
                for line in text.splitlines():
                    result = json.loads(line)
                    if "id" in result:
                        self.ids.append(result["id"])
                    else:
                        self.refused += 1
        except (OSError, http.client.HTTPException):
            pass  # what was not answered is not known
        finally:
            connection.close()

    def run(self):
        while not self.stop.is_set():
            self.create()


class MoveTest(fault_case.FaultCase):
    def owners(self):
        return {row["partition"]: row.get("owner") for row in self.view(self.nodes[0])["partitions"]}

    def move(self):
        """One of the two last nodes stops and starts: its partitions go, and others come."""
        node = self.chance.choice(self.nodes[1:])
        before = self.owners()
        node.end(signal.SIGTERM)
        self.await_owners(self.others(node), "two own all")
        between = self.owners()
        node.start()
        self.await_shares("three share")
        after = self.owners()
        return sum(before[p] != between[p] for p in before) + sum(between[p] != after[p] for p in between)

    def listed(self, node):
        found, path = [], "/v1/timers?limit=1000"
        connection, until = node.daemon.connect(60), time.monotonic() + fault_case.READY_S
        while path:
            status, _, page = node.daemon.call("GET", path, connection=connection)
            if status == 503 and time.monotonic() < until:
                continue  # another node is busy
            self.assertEqual(status, 200, page)
            found += [timer["id"] for timer in page["timers"]]
            path = page["next"] and f"/v1/timers?limit=1000&cursor={page['next']}"
        connection.close()
        return found

    def test_moves(self):
        creators = [Creator(self, number) for number in range(3)]
        began, moved = time.monotonic(), 0
        for creator in creators:
            creator.start()
        while moved < MOVES or sum(len(creator.ids) for creator in creators) < TIMERS:
            if moved < MOVES:
                moved += self.move()
            else:
                time.sleep(0.1)  # the rest of the creates
            self.assertTrue(all(creator.is_alive() for creator in creators), "a creator failed")
        for creator in creators:
            creator.stop.set()
        for creator in creators:
            creator.join(60)
        made = [timer for creator in creators for timer in creator.ids]
        refused = sum(creator.refused for creator in creators)
        print(f"{len(made)} creates acknowledged in {time.monotonic() - began:.0f} s, {refused} refused, while {moved} "
              "partitions moved", flush=True)
        self.assertEqual(len(made), len(set(made)), "an id was told twice")
        there = self.listed(self.nodes[0])
        print(f"listed {len(there)}, {len(there) - len(set(there))} of them twice; acknowledged and not there "
              f"{len(set(made) - set(there))}", flush=True)
        self.assertEqual(len(there), len(set(there)))
        self.assertEqual(set(made) - set(there), set())


if __name__ == "__main__":
    fault_case.main()
