#!/usr/bin/env python3
"""The example of the reservation, small, on the real daemon: with and without kill -9 in the middle. And its books:
whatever is planted in them is found, so that its last line can be trusted."""

import argparse
import contextlib
import io
import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "tests", "support"), os.path.join(ROOT, "examples", "reservation")]
import harness
import reservation

RIGHT = "every order has ended once"


class ExampleTest(unittest.TestCase):
    def run_example(self, *flags):
        result = subprocess.run(
            [sys.executable, reservation.__file__, "--count", "2000", "--daemon", harness.find("tickwheeld"),
             "--hold-at-once", "100", "--pay-at-once", "50", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        print(result.stdout, flush=True)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(result.stdout.splitlines()[-1], RIGHT)
        return result.stdout

    def test_every_order_ends_once(self):
        output = self.run_example("--hold", "2s")
        self.assertIn("held 2,000, paid", output)
        self.assertIn("lost 0, double 0, early 0, came again 0", output)

    def test_every_order_ends_once_whatever_is_killed(self):
        self.assertIn("lost 0, double 0, early 0; kill -9 3 times",
                      self.run_example("--hold", "2s", "--crash", "--paid", "60"))

    def test_a_server_that_runs_already(self):
        with reservation_server() as server:
            self.run_example("--hold", "500ms", "--url", "http://%s:%d" % server.address)

    def test_wrong_options_are_refused(self):
        for flags in (["--hold", "soon"], ["--count", "0"], ["--paid", "101"], ["--pay-at-once", "5001"],
                      ["--url", "http://127.0.0.1:1", "--crash"], ["--url", "ftp://host/"], ["--url", "http://127.0.0.1:1"]):
            result = subprocess.run([sys.executable, reservation.__file__, *flags], capture_output=True,
                                    text=True, timeout=60, check=False)
            self.assertNotEqual(result.returncode, 0, flags)
            self.assertNotIn("Traceback", result.stderr)


@contextlib.contextmanager
def reservation_server():
    server = reservation.Server(harness.find("tickwheeld"))
    try:
        yield server
    finally:
        server.close()


class Nothing:
    crashes = 0

    def pending(self):
        return 0


class BooksTest(unittest.TestCase):
    """Ten orders of which the first five are paid, and one offence."""

    def books(self):
        books = reservation.Books(10, 1000)
        books.held = 10
        for order in range(10):
            books.asked_ms[order] = 5000
            if order < 5:
                books.pay(order, 1, False)
            else:
                books.arrive(order, 6000, 6001)
                books.free(order)
        return books

    def verdict(self, books, crash=False):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            is_right = reservation.report(books, Nothing(), argparse.Namespace(crash=crash))
        return is_right, output.getvalue()

    def test_what_is_right(self):
        is_right, output = self.verdict(self.books())
        self.assertTrue(is_right)
        self.assertIn("held 10, paid 5, expired 5\nlost 0, double 0, early 0", output)
        self.assertIn("p50 1.0 ms", output)

    def test_what_is_wrong(self):
        def lost(books):
            books.arrivals[7] = 0

        def fired_after_it_was_paid(books):
            books.arrive(2, 6000, 6001)

        def after_its_ack(books):
            books.arrive(7, 6000, 6002)

        def before_its_time(books):
            books.arrivals[7] = books.freed[7] = 0
            books.arrive(7, 6000, 5999)

        def before_the_time_that_was_asked_for(books):
            books.arrivals[7] = books.freed[7] = 0
            books.arrive(7, 5900, 5950)

        def never_held(books):
            books.held -= 1

        for plant, word in ((lost, "lost 1"), (fired_after_it_was_paid, "double 1"),
                            (after_its_ack, "double 1"), (before_its_time, "early 1"),
                            (before_the_time_that_was_asked_for, "early 1"), (never_held, "held 9")):
            books = self.books()
            plant(books)
            for crash in (False, True):
                is_right, output = self.verdict(books, crash)
                self.assertFalse(is_right, plant.__name__)
                self.assertIn(word, output)

    def test_paid_behind_a_lost_lease_is_fine_only_after_a_crash(self):
        def books():
            books = self.books()
            books.state[2] = reservation.OPEN
            books.arrive(2, 6000, 6001)
            return books
        lost = books()
        lost.pay(2, 1, False)
        self.assertFalse(self.verdict(lost)[0])
        is_right, output = self.verdict(lost, crash=True)
        self.assertTrue(is_right)
        self.assertIn("double 0", output)
        self.assertIn("1 were paid after a worker lost its lease", output)
        freed = books()
        freed.free(2)
        freed.pay(2, 1, False)
        self.assertFalse(self.verdict(freed, crash=True)[0])

    def test_again_is_fine_only_after_a_crash(self):
        books = self.books()
        books.freed[7] = 0
        books.arrive(7, 6000, 6002)
        self.assertFalse(self.verdict(books)[0])
        self.assertTrue(self.verdict(books, crash=True)[0])


if __name__ == "__main__":
    unittest.main()
