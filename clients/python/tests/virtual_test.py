"""A virtual clock: a month of reminders, retries of days, and what is refused."""

import os
import time
import unittest
from datetime import datetime, timedelta, timezone

from tickwheel.testing import VirtualTickwheel

START = datetime(2027, 3, 1, tzinfo=timezone.utc)


class VirtualTest(unittest.TestCase):
    def start(self, *arguments):
        tickwheel = VirtualTickwheel(*arguments)
        self.addCleanup(tickwheel.close)
        return tickwheel

    def test_a_month_of_daily_reminders_over_a_dst_change(self):
        began = time.monotonic()
        tickwheel = self.start("2027-03-01T00:00Z")
        tickwheel.client.create(tickwheel.url("/remind"), cron="0 9 * * *", timezone="Europe/Berlin", payload={"a": 1})
        advanced = tickwheel.advance("31d")
        print(f"a month and the start of the daemon took {time.monotonic() - began:.2f} s")
        self.assertEqual((advanced.fired, advanced.delivered, advanced.failed), (31, 31, 0))
        self.assertEqual(advanced.now, START + timedelta(days=31))
        self.assertEqual(tickwheel.now, advanced.now)
        # 9:00 in Berlin is 8:00 UTC before 28 March, and 7:00 from then on
        self.assertEqual([one.due for one in tickwheel.delivered("/remind")],
                         [datetime(2027, 3, day, 8 if day < 28 else 7, tzinfo=timezone.utc) for day in range(1, 32)])
        self.assertEqual(tickwheel.delivered()[0].json(), {"a": 1})
        self.assertEqual(tickwheel.delivered("/other"), [])

    def test_retries_of_days(self):
        tickwheel = self.start("2027-03-01T00:00Z")
        tickwheel.answer(lambda path: 503 if len(tickwheel.received(path)) < 2 else 200)
        tickwheel.client.create(tickwheel.url("/a"), after="1h", retry={"base": "1d", "cap": "1d"})
        self.assertEqual(tickwheel.advance(to="next").failed, 1)
        self.assertEqual(tickwheel.now, START + timedelta(hours=1))
        advanced = tickwheel.advance(to=START + timedelta(days=9))
        self.assertEqual((advanced.delivered, advanced.failed), (1, 1))
        self.assertEqual([one.attempt for one in tickwheel.received()], [1, 2, 3])
        self.assertEqual([one.attempt for one in tickwheel.delivered()], [3])

    def test_what_is_refused(self):
        tickwheel = self.start()
        self.assertEqual(tickwheel.now.year, 2027)
        with self.assertRaises(ValueError):
            tickwheel.advance(to="2020-01-01T00:00:00Z")
        with self.assertRaises(TypeError):
            tickwheel.advance("1d", to="next")
        with self.assertRaisesRegex(RuntimeError, "no month 13"):
            VirtualTickwheel("2027-13-01T00:00Z")

    def test_nothing_is_left(self):
        with VirtualTickwheel() as tickwheel:
            folder, process = tickwheel._folder, tickwheel._daemon
        self.assertFalse(os.path.exists(folder))
        self.assertIsNotNone(process.returncode)


if __name__ == "__main__":
    unittest.main()
