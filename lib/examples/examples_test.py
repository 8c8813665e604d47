#!/usr/bin/env python3
"""Goal: each example does what it says, as its reader would run it.

Method: the programs are started with pipes and sockets of their own. What is asserted about time is only what
must hold on a machine of any speed: nothing comes before its time, everything comes, and what sleeps stays
asleep.
"""

import collections
import os
import re
import resource
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest

FOLDER = os.environ["TW_EXAMPLES"]


class Example(unittest.TestCase):
    def setUp(self):
        def give_up(*_):
            raise TimeoutError("it hangs")
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(120)
        self.addCleanup(signal.alarm, 0)

    def start(self, name, *arguments, **settings):
        path = os.path.join(FOLDER, name)
        if name.startswith("uv_") and not os.path.exists(path):
            self.skipTest("there was no libuv when this was built")
        process = subprocess.Popen([path, *map(str, arguments)], stdout=subprocess.PIPE, bufsize=0,
                                   **settings)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def line(self, process):
        text = process.stdout.readline().decode()
        self.assertTrue(text.endswith("\n"), "it ended")
        return text


class EpollServer(Example):
    IDLE_S = 1.0

    def serve(self, pretended, **settings):
        process = self.start("epoll_server", 0, int(self.IDLE_S * 1000), pretended, **settings)
        head = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+), (\d+) time-outs held in (\d+) MiB\n",
                            self.line(process))
        self.assertEqual(int(head[2]), pretended)
        return process, int(head[1]), int(head[3])

    def connect(self, port):
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.addCleanup(connection.close)
        return connection

    def report(self, process):
        """(time-outs held, hung up, wake-ups)"""
        process.send_signal(signal.SIGUSR1)
        return tuple(int(each) for each in re.findall(r"\d+", self.line(process)))

    def test_a_million_time_outs_of_which_a_few_fire(self):
        process, port, mib = self.serve(1000000)
        self.assertLess(mib, 100)
        silent = {each.fileno(): each for each in (self.connect(port) for _ in range(200))}
        began = {}
        talker = self.connect(port)
        events = select.poll()
        for number, each in silent.items():
            began[number] = time.monotonic()
            each.send(b"x")
            self.assertEqual(each.recv(1), b"x")
            events.register(number, select.POLLIN)
        heard = time.monotonic()
        while silent:
            for number, _ in events.poll(50):
                self.assertEqual(silent[number].recv(1), b"", "the server said something by itself")
                events.unregister(number)
                silent.pop(number)
                self.assertGreaterEqual(time.monotonic() - began[number], self.IDLE_S)
            if talker:
                try:
                    talker.send(b"still here")
                    self.assertEqual(talker.recv(100), b"still here")
                    heard = time.monotonic()
                except OSError:
                    # Only a machine that stood still for so long may have made it silent.
                    self.assertGreaterEqual(time.monotonic() - heard, self.IDLE_S)
                    talker = None
        if talker:
            talker.close()
        held, hung_up, _ = self.report(process)
        while held > 1000000:
            held, hung_up, _ = self.report(process)
        self.assertEqual(held, 1000000)
        self.assertIn(hung_up, (200, 201))

    def test_it_sleeps_while_nothing_is_due(self):
        servers = {held: self.serve(held)[0] for held in (0, 1000000)}
        before = {held: self.report(process)[2] for held, process in servers.items()}
        ready, _, _ = select.select([process.stdout for process in servers.values()], [], [], 2)
        self.assertEqual(ready, [])
        for held, process in servers.items():
            # The one wake-up is the signal that asks.
            self.assertEqual(self.report(process), (held, 0, before[held] + 1))

    def test_without_descriptors_it_says_no_and_goes_on(self):
        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        process, port, _ = self.serve(0, preexec_fn=few_files)
        served = refused = 0
        for each in [self.connect(port) for _ in range(60)]:
            try:
                each.send(b"x")
                served += each.recv(1) == b"x"
            except OSError:
                pass
        refused = 60 - served
        self.assertGreater(served, 20)
        self.assertGreater(refused, 10)
        # A listener that is always ready would have woken it thousands of times.
        self.assertLess(self.report(process)[2], 1000)

    def test_it_ends_when_told_to(self):
        process, _, _ = self.serve(1000)
        process.terminate()
        self.assertTrue(self.line(process).startswith("1000 time-outs held, 0 hung up"))
        self.assertEqual(process.wait(), 0)


class UvEcho(Example):
    IDLE_S = 0.7

    def serve(self):
        process = self.start("uv_echo", 0, int(self.IDLE_S * 1000))
        port = int(re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", self.line(process))[1])

        def connect():
            connection = socket.create_connection(("127.0.0.1", port), timeout=60)
            self.addCleanup(connection.close)
            return connection
        return process, connect

    def test_it_hangs_up_on_the_silent_and_not_early(self):
        process, connect = self.serve()
        heard = {}
        for each in (connect() for _ in range(100)):
            heard[each] = time.monotonic()
            each.send(b"x")
            self.assertEqual(each.recv(1), b"x")
        for each in (connect() for _ in range(20)):
            each.close()
        for each, since in heard.items():
            self.assertEqual(each.recv(1), b"", "the server said something by itself")
            self.assertGreaterEqual(time.monotonic() - since, self.IDLE_S)
        process.terminate()
        self.assertEqual(process.wait(), 0)

    def test_it_listens_to_those_who_talk_and_ends_when_told_to(self):
        process, connect = self.serve()
        talker, silent = connect(), connect()
        began = heard = time.monotonic()
        while time.monotonic() < began + 2 * self.IDLE_S:
            select.select([], [], [], self.IDLE_S / 10)
            try:
                talker.send(b"still here")
                self.assertEqual(talker.recv(100), b"still here")
                heard = time.monotonic()
            except OSError:
                # Only a machine that stood still for so long may have made it silent.
                self.assertGreaterEqual(time.monotonic() - heard, self.IDLE_S)
                break
        self.assertEqual(silent.recv(1), b"")
        connect()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 0)


class UvLoop(Example):
    def test_it_says_each_text_when_its_time_has_come(self):
        process = self.start("uv_loop", stdin=subprocess.PIPE)
        began = time.monotonic()
        process.stdin.write(b"1200 three\n0 one\n600 two\n")
        for text, delay_s in (("one\n", 0), ("two\n", 0.6), ("three\n", 1.2)):
            self.assertEqual(self.line(process), text)
            self.assertGreaterEqual(time.monotonic() - began, delay_s)
        process.stdin.close()
        self.assertEqual(process.wait(), 0)

    def test_many_all_come_and_then_it_ends(self):
        process = self.start("uv_loop", stdin=subprocess.PIPE)
        with tempfile.TemporaryFile() as lines:
            lines.writelines(b"%d %d\n" % (each * 7919 % 500, each) for each in range(50000))
            lines.seek(0)
            feeder = subprocess.Popen(["cat"], stdin=lines, stdout=process.stdin)
            process.stdin.close()
            said = sorted(int(line) for line in process.stdout)
            feeder.wait()
        self.assertEqual(said, list(range(50000)))
        self.assertEqual(process.wait(), 0)


class PeriodicJobs(Example):
    def ticks(self, text, what):
        return [int(tick) for tick in re.findall(rf"^tick (\d+): {what}$", text, flags=re.M)]

    def test_each_job_comes_up_at_its_interval(self):
        process = self.start("periodic_jobs", 10, 30, 2, "true", 7, "exit 0", 30, "echo once")
        text = process.stdout.read().decode()
        self.assertEqual(self.ticks(text, "(?:run|still running): true"), list(range(1, 31, 2)))
        self.assertEqual(self.ticks(text, "(?:run|still running): exit 0"), [1, 8, 15, 22, 29])
        self.assertEqual(self.ticks(text, "run: echo once"), [1])
        self.assertIn("\nonce\n", text)
        self.assertEqual(process.wait(), 0)

    def test_what_fails_is_run_again_at_the_next_tick(self):
        process = self.start("periodic_jobs", 20, 0, 3000, "exit 1")
        first, second = (self.ticks(self.line(process), "run: exit 1")[0] for _ in range(2))
        self.assertEqual(first, 1)
        self.assertLess(second, 3000)

    def test_what_still_runs_is_passed_over(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            process = self.start("periodic_jobs", 20, 0, 2, "cat " + fifo)
            self.assertEqual(self.line(process), f"tick 1: run: cat {fifo}\n")
            self.assertEqual(self.line(process), f"tick 3: still running: cat {fifo}\n")
            with open(fifo, "wb") as file:
                file.write(b"done\n")
            lines = [self.line(process)]
            while "still" in lines[-1] or lines[-1] == "done\n":
                lines.append(self.line(process))
            self.assertIn("done\n", lines)
            self.assertRegex(lines[-1], r"tick \d+: run: ")
            process.kill()
            with open(fifo, "wb"):  # lets the last one go
                pass

    def test_ticks_that_were_slept_through_are_not_lost(self):
        process = self.start("periodic_jobs", 10, 0, 1, "true")
        text = self.line(process)
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        while time.monotonic() < began + 0.2:
            select.select([], [], [], 0.2)
        process.send_signal(signal.SIGCONT)
        for _ in range(40):
            text += self.line(process)
        self.assertEqual(self.ticks(text, "(?:run|still running): true"), list(range(1, 42)))

    def test_an_interval_that_does_not_fit_is_refused(self):
        for arguments in ((), (0, 1, 1, "true"), (1, 1, 3601, "true"), (1, 1, 1)):
            process = self.start("periodic_jobs", *arguments, stderr=subprocess.DEVNULL)
            self.assertEqual(process.wait(), 2)


class RequestPurgatory(Example):
    def board(self):
        process = self.start("request_purgatory", stdin=subprocess.PIPE)
        self.addCleanup(process.stdin.close)
        return process

    def test_readers_are_answered_for_each_reason(self):
        process = self.board()
        began = time.monotonic()
        process.stdin.write(b"put 7\nget at-once 1 60000 7\nget waits 3 60000 7 9\nget in-vain 9 300 9\n"
                            b"put 9\nput 9\n")
        self.assertEqual(self.line(process), "at-once: 1 messages, at once\n")
        self.assertEqual(self.line(process), "waits: 3 messages, after a wait\n")
        self.assertEqual(self.line(process), "in-vain: 2 messages, timed out\n")
        self.assertGreaterEqual(time.monotonic() - began, 0.3)
        process.stdin.write(b"get late 1 60000 1\nget no-topic 1 60000 256\n")
        self.assertEqual(self.line(process), "not taken: get no-topic 1 60000 256\n")
        process.stdin.close()
        self.assertEqual(self.line(process), "late: 0 messages, the board is closed\n")
        self.assertEqual(process.wait(), 0)

    def test_however_events_and_time_race_each_is_answered_once(self):
        process = self.board()
        count = 20000
        # Each wants up to 60 more messages than there are, and can wait for up to 4 ms.
        lines = "".join(f"get r{each} {each // 4 + each % 61} {each % 5} {each % 4} 9\nput {each % 4}\n"
                        for each in range(count))
        with tempfile.TemporaryFile() as file:
            file.write(lines.encode())
            file.seek(0)
            feeder = subprocess.Popen(["cat"], stdin=file, stdout=process.stdin)
            process.stdin.close()
            answers = process.stdout.read().decode()
            feeder.wait()
        names = re.findall(r"^r(\d+): ", answers, flags=re.M)
        self.assertTrue(sorted(map(int, names)) == list(range(count)), "not each once")
        reasons = collections.Counter(re.findall(r", (.*)$", answers, flags=re.M))
        print(dict(reasons))
        self.assertEqual(sum(reasons.values()), count)
        self.assertGreater(reasons["at once"], 0)
        self.assertGreater(reasons["after a wait"] + reasons["timed out"], 0)
        self.assertEqual(process.wait(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
