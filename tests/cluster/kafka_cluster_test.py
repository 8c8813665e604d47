#!/usr/bin/env python3
"""Goal: on three real brokers the topics of a cluster are made once and checked, settings that endanger timers are refused,
and nothing acknowledged is lost when a broker is killed or stands still. Method: Apache Kafka 3.9.1 as three brokers;
log_tool appends one record after the other meanwhile, and all it was told is compared with what the log has afterwards."""

import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
import kafka_cluster

SESSION_MS = int(os.environ.get("TEST_SESSION_MS", "9000"))  # a broker that is dead is given up after it; the default
PAUSE_SECONDS_MAX = 60  # of appends, on a busy machine; the run prints what it was
NAME, PARTITIONS = "test", 4
SKIPPED = 77


class Appender:
    """Appends in the background, and knows the answers."""

    def __init__(self, brokers, topic, partition):
        self.process = subprocess.Popen([harness.find("log_tool"), "append", brokers, topic, str(partition)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.landed, self.doubted, self.pause_ms, self.waited_ms = {}, set(), 0, 0

    def await_landed(self, count, seconds=120):
        """Reads answers until so many more records have landed."""
        until, goal = time.monotonic() + seconds, len(self.landed) + count
        while len(self.landed) < goal:
            if time.monotonic() > until:
                raise TimeoutError(f"{len(self.landed)} of {goal} records landed")
            self.take(self.process.stdout.readline())

    def take(self, line):
        words = line.split()
        if not words:
            raise RuntimeError("log_tool has ended")
        if words[0] == "landed":
            self.landed[words[1]] = int(words[2])
        elif words[0] == "doubt":
            self.doubted.add(words[1])
        if words[0] != "begun":  # the pause is the time from one record that landed to the next one that does
            self.waited_ms += int(words[-1])
            self.pause_ms = max(self.pause_ms, self.waited_ms)
        if words[0] == "landed":
            self.waited_ms = 0

    def end(self):
        self.process.stdin.close()
        for line in self.process.stdout:
            self.take(line)
        if self.process.wait(60):
            raise RuntimeError(f"log_tool: {self.process.returncode}")


class ThreeBrokersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = kafka_cluster.KafkaCluster(SESSION_MS)
        begun = time.monotonic()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__)
        print(f"three brokers are ready after {time.monotonic() - begun:.1f} s", file=sys.stderr)
        cls.founded = cls.create_founded()

    @classmethod
    def create_founded(cls):
        """The brokers may know too few of each other yet to hold three replicas."""
        done = []

        def look():
            done[:] = [cls.create(NAME)]
            return done[0].returncode == 0
        try:
            harness.wait_until(look, 180, "the topics are made")
        except TimeoutError as error:
            raise RuntimeError(done[0].stderr) from error
        return done[0]

    @classmethod
    def create(cls, name, partitions=PARTITIONS):
        return subprocess.run([harness.find("log_tool"), "create", cls.cluster.brokers(), name, str(partitions)],
                              capture_output=True, text=True, timeout=300, check=False)

    def test_a_second_call_changes_nothing(self):
        first, second = self.create(NAME), self.create(NAME)
        self.assertEqual((first.returncode, second.returncode), (0, 0), first.stderr + second.stderr)
        self.assertEqual(first.stdout, second.stdout)
        self.assertEqual(second.stdout.split()[1:], ["3", "3", "checked"])
        other = self.create("other")
        self.assertEqual(other.stdout.split()[1:], ["3", "3", "founded"], other.stderr)
        self.assertNotEqual(other.stdout.split()[0], first.stdout.split()[0])

    def test_other_partitions_are_refused(self):
        done = self.create(NAME, PARTITIONS + 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"test.log has {PARTITIONS} partitions, and the cluster {PARTITIONS + 1}", done.stderr)

    def test_dangerous_topics_are_refused(self):
        safe = ["replicas=3", "cleanup.policy=delete", "retention.ms=-1", "min.insync.replicas=2",
                "unclean.leader.election.enable=false", "message.timestamp.type=LogAppendTime", "flush.messages=1"]
        for i, (setting, words) in enumerate((
                ("retention.ms=604800000", "retention.ms is 604800000 and must be -1: timers are lost"),
                ("cleanup.policy=compact", "compaction deletes records of live timers"),
                ("min.insync.replicas=1", "min.insync.replicas is 1 and must be at least 2"),
                ("unclean.leader.election.enable=true", "lacks acknowledged records"),
                ("flush.messages=1000", "lose their power"),
                ("replicas=1", "1 replicas on 3 brokers"))):
            name = setting.split("=")[0]
            settings = [setting if one.startswith(name + "=") else one for one in safe]
            self.cluster.tool("create", f"bad{i}.log", str(PARTITIONS), *settings)
            done = self.create(f"bad{i}")
            self.assertEqual(done.returncode, 1, setting)
            self.assertIn(words, done.stderr)

    def judge(self, what, partition, fault, mend):
        """Appends before, during and after the fault."""
        topic = f"{NAME}.log"
        appender = Appender(self.cluster.brokers(), topic, partition)
        try:
            appender.await_landed(50)
            usual_ms, appender.pause_ms = appender.pause_ms, 0
            fault()
            appender.await_landed(200)
            mend()
            appender.await_landed(50)
            appender.end()
        finally:
            appender.process.kill()
            appender.process.wait()
            appender.process.stdout.close()
        done = subprocess.run([harness.find("log_tool"), "read", self.cluster.brokers(), topic, str(partition)],
                              capture_output=True, text=True, timeout=120, check=True)
        found = dict(line.split() for line in done.stdout.splitlines())
        lost = [number for number, offset in appender.landed.items() if found.get(str(offset)) != number]
        print(f"{what}: {len(appender.landed)} records landed, {len(lost)} of them are lost, {len(appender.doubted)} "
              f"in doubt; the longest pause was {appender.pause_ms} ms, {usual_ms} ms before", file=sys.stderr)
        self.assertEqual(lost, [])
        self.assertEqual(set(found.values()) - set(appender.landed) - appender.doubted, set())
        self.assertLess(appender.pause_ms, PAUSE_SECONDS_MAX * 1000)

    def leader(self, partition):
        def look():
            index = self.cluster.leader(f"{NAME}.log", partition)
            return None if index is None else [index]
        return harness.wait_until(look, 60, "a leader")[0]

    def test_the_leader_is_killed(self):
        index = self.leader(0)
        self.judge("leader killed", 0, lambda: self.cluster.kill(index), lambda: self.cluster.start(index))

    def test_the_leader_stands_still(self):
        index = self.leader(1)
        self.judge("leader stopped", 1, lambda: self.cluster.freeze(index), lambda: self.cluster.thaw(index))

    def test_a_follower_is_killed(self):
        index = (self.leader(2) + 1) % 3
        self.judge("follower killed", 2, lambda: self.cluster.kill(index), lambda: self.cluster.start(index))


if __name__ == "__main__":
    why = kafka_cluster.KafkaCluster.missing()
    if why:
        print(f"Skipped: {why}")
        sys.exit(SKIPPED)
    unittest.main()
