#!/usr/bin/env python3
"""The ways through the dashboard in a headless Chromium, on a real daemon: by keyboard, on a telephone, in other time zones,
for many timers at once, on a daemon that is new, and while it is down. And schedules in words."""

import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
import harness
from dashboard_case import NDJSON, DashboardCase, axe_source

SECTIONS = ("overview", "upcoming", "timers", "schedules", "calendars", "queues", "flows", "targets", "named", "deliveries", "dead", "tenants", "cluster")
# A cron expression, and what it says; None: it is shown as it is.
SCHEDULES = (
    ("* * * * *", "every minute"),
    ("*/5 * * * *", "every 5 minutes"),
    ("*/7 * * * *", "every 7 minutes, from the start of each hour"),
    ("0 * * * *", "every hour"),
    ("30 * * * *", "every hour at :30"),
    ("5/15 * * * *", "every hour at :05, :20, :35 and :50"),
    ("0 */2 * * *", "every 2 hours"),
    ("15 */6 * * *", "every 6 hours at :15"),
    ("0 9-17 * * MON-FRI", "every hour from 09:00 to 17:00 on weekdays"),
    ("*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:59 on weekdays"),
    ("30 2 * * MON-FRI", "every weekday at 02:30"),
    ("0 9 * * *", "every day at 09:00"),
    ("30 0 9 * * *", "every day at 09:00:30"),
    ("0 9,18 * * *", "every day at 09:00 and 18:00"),
    ("0 0 1 * *", "on the 1st of every month at 00:00"),
    ("0 0 1,15,22,23 * *", "on the 1st, 15th, 22nd and 23rd of every month at 00:00"),
    ("0 0 11 * *", "on the 11th of every month at 00:00"),
    ("0 0 1-7 * *", "from the 1st to the 7th of every month at 00:00"),
    ("0 0 1 1 *", "every year on 1 January at 00:00"),
    ("0 0 1 */3 *", "on the 1st of January, April, July and October at 00:00"),
    ("0 0 L * *", "on the last day of every month at 00:00"),
    ("0 0 L-3 * *", "3 days before the last day of every month at 00:00"),
    ("0 12 LW * ?", "on the last weekday of every month at 12:00"),
    ("0 5 15W * *", "on the weekday nearest to the 15th of every month at 05:00"),
    ("0 8 ? * MON#2", "on the second Monday of every month at 08:00"),
    ("0 8 * * 5L", "on the last Friday of every month at 08:00"),
    ("5 4 * * 7", "every Sunday at 04:05"),
    ("0 0 * * 1,4", "every Monday and Thursday at 00:00"),
    ("0 22 * * SAT-SUN", "on Saturdays and Sundays at 22:00"),
    ("0 9 * * TUE-THU", "every day from Tuesday to Thursday at 09:00"),
    ("0 9 * JUN-AUG MON", "every Monday in June to August at 09:00"),
    ("*/10 * * * * *", "every 10 seconds"),
    ("@weekly", "every Sunday at 00:00"),
    ("@hourly", "every hour"),
    ("@yearly", "every year on 1 January at 00:00"),
    ("0 0 13 * FRI", None),
    ("0 0 */2 * *", None),
    ("1,2,3,5,8 * * * *", None),
)


class WaysTest(DashboardCase):
    # proves: dashboard
    def test_schedules_in_words(self):
        """Goal: usual schedules are said in words, others as they are. Method: a table; the daemon takes each of its rules."""
        for cron, _ in SCHEDULES:
            self.call(200, "GET", f"/v1/schedule/preview?cron={cron.replace(' ', '%20').replace('#', '%23')}")
        self.browser.open(self.url)
        say = lambda name, value: self.browser.run(
            f"import('./ui/recurrence.js').then((words) => words.{name}({json.dumps(value)}))")
        self.assertEqual([(cron, say("cronWords", cron)) for cron, _ in SCHEDULES], list(SCHEDULES))
        self.assertEqual(say("everyWords", "1h30m"), "every 1 hour 30 minutes")
        self.assertEqual(say("everyWords", "1d"), "every day")
        self.assertEqual(say("scheduleWords", {"cron": "0 0 13 * FRI"}), "by 0 0 13 * FRI, UTC")
        for schedule, words in (
                ({"cron": "0 9 * * *", "except": ["SAT-SUN", "2026-12-24/2027-01-01", "calendar:de"], "on_holiday": "next_workday"},
                 "every day at 09:00, UTC, except Saturdays, Sundays, 2026-12-24 to 2027-01-01 and calendar de, moved to the next permitted day"),
                ({"every": "1d", "timezone": "Europe/Berlin", "only": ["MON", "2026-12-31"], "on_holiday": "previous_workday"},
                 "every day, Europe/Berlin, only Mondays and 2026-12-31, moved to the permitted day before"),
                ({"every": "1h", "overlap": "allow", "on_holiday": "skip"}, "every hour, also while the one before is not over"),
                ({"every": "1h", "overlap": "wait", "count": 3, "except": ["tomorrow"]}, "every hour, UTC, except tomorrow, 3 times in all")):
            self.assertEqual(say("scheduleWords", schedule), words)
        made = self.create(target="queue:x", cron="30 2 * * MON-FRI", timezone="Europe/Berlin", key="report")["id"]
        for place in ("schedules", f"timers/{made}"):
            self.go(place)
            self.sees("every weekday at 02:30, Europe/Berlin")
        self.assertEqual(self.browser.run("document.title"), "report · Tickwheel")

    # proves: dashboard
    def test_names_and_former_links(self):
        """Goal: sections have the names that one looks for, and links to former ones lead there."""
        self.browser.open(self.url)
        self.see("document.title === 'Overview · Tickwheel'", "the overview")
        self.assertEqual(self.browser.run("[...document.querySelectorAll('#nav a')].map((a) => a.textContent)"),
                         ["New timer", "Overview", "Upcoming", "Timers", "Schedules", "Calendars", "Queues", "Flows", "Targets", "Named targets", "Deliveries", "Dead letters",
                          "Tenants", "Cluster"])
        for place, name in (("now", "Overview"), ("coming?range=day", "Upcoming"), ("cluster", "Cluster")):
            self.go(place)
            self.see(f"document.title.startsWith('{name}') && document.querySelector('#nav [aria-current]').textContent === '{name}'", name)
        self.sees("This daemon runs alone")
        self.browser.run("document.querySelector('.skip').click()")
        self.assertEqual(self.browser.run("[document.activeElement.id, location.hash]"), ["main", "#/cluster"])

    # proves: dashboard
    def test_times(self):
        """Goal: a time is shown in the zone that the reader chose, and has the others on hover. Method: a browser in Tokyo."""
        self.browser.ask("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
        self.create(target="queue:x", at="2099-07-01T00:30:00Z", key="plain")
        self.create(target="queue:x", cron="30 2 1 7 *", timezone="Europe/Berlin", key="zoned")
        self.browser.open(f"{self.url}#/timers")
        self.see("document.querySelectorAll('tbody tr').length === 2", "the timers")
        plain, zoned = (f"[...document.querySelectorAll('tbody tr')].find((row) => row.innerText.includes('{key}')).querySelector('time')"
                        for key in ("plain", "zoned"))
        date = lambda time: self.browser.run(f"{time}.querySelector('.date').textContent")
        choose = lambda name: self.browser.run("(() => { const s = document.querySelector('[name=times_in]'); "
                                               f"s.value = '{name}'; s.dispatchEvent(new Event('change', {{bubbles: true}})); }})()")
        self.assertEqual(date(plain), "Wed 1 Jul 2099, 09:30:00")
        self.assertRegex(date(zoned), r"^[A-Z][a-z]{2} 1 Jul( \d{4})?, 09:30:00$")
        title = self.browser.run(f"{zoned}.title")
        self.assertRegex(title, r"09:30:00 GMT\+9, Asia/Tokyo\n.*02:30:00 (CEST|GMT\+2), Europe/Berlin\n.*T00:30:00.000Z, UTC")
        choose("utc")
        self.assertEqual(date(plain), "Wed 1 Jul 2099, 00:30:00 UTC")
        choose("timer")
        self.assertEqual(date(plain), "Wed 1 Jul 2099, 09:30:00")
        self.assertRegex(date(zoned), r"1 Jul.*, 02:30:00 (CEST|GMT\+2)$")
        self.browser.open("about:blank")
        self.browser.open(f"{self.url}#/timers")
        self.see("document.querySelectorAll('tbody tr').length === 2", "the timers again")
        self.assertEqual(self.browser.run("document.querySelector('[name=times_in]').value"), "timer")
        self.assertRegex(date(zoned), r", 02:30:00 (CEST|GMT\+2)$")

        # The axes of charts follow it too.
        self.go("overview")
        for name, zone in (("browser", "Asia/Tokyo"), ("utc", "UTC")):
            choose(name)
            self.see("document.querySelector('.chart')?.ariaLabel?.includes(` to ${new Intl.DateTimeFormat('en-GB', {timeZone: '%s', "
                     "weekday: 'short', hour: '2-digit', minute: '2-digit'}).format(new Date())};`)" % zone, f"the charts in {zone}")

    # proves: dashboard
    def test_typed_times(self):
        """Goal: a time in a search may be typed as a distance, or as a date in the browser's zone; what is neither is refused."""
        self.browser.ask("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
        for hours in (1, 5, 200):
            self.create(target="queue:x", after=f"{hours}h", key=f"in-{hours}")
        self.create(target="queue:x", at="2099-07-01T00:30:00Z", key="far")
        self.browser.open(f"{self.url}#/timers")
        keys = "[...document.querySelectorAll('tbody tr a')].map((a) => a.textContent).join()"
        for after, before, found in (("2h", "6h", "in-5"), ("-1h", "2h", "in-1"), ("2099-07-01 09:29", "2099-07-01 09:31", "far"),
                                     ("2099-07-01", "2099-07-02", "far")):
            self.type("due_after", after)
            self.type("due_before", before)
            self.press("Search")
            self.see(f"{keys} === '{found}' && document.querySelector('[name=due_after]').value.endsWith('Z')", found)
        for wrong in ("cows", "1", "2026-13-45", "<b>"):
            self.type("due_after", wrong)
            self.press("Search")
            self.see(f"document.querySelector('form > .message')?.innerText.startsWith({json.dumps(wrong)} + ' is no time')", wrong)

    # proves: dashboard
    def test_accessible(self):
        """Goal: axe-core finds nothing in what opens on a page: menu, columns, selection, keys, first steps, and while it is down."""
        axe = axe_source()
        if not axe:
            self.skipTest("the package registry is out of reach")
        for scheme, width in (("light", 1280), ("dark", 390)):
            self.browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            self.browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600)
            self.browser.open("about:blank")
            self.browser.open(self.url)
            self.browser.run(axe)
            self.go("timers")
            if width > 600:
                self.sees("You have no timers yet")
                self.axe_finds_nothing(f"first steps, {scheme}")
                self.create(target="queue:x", every="1d", key="nightly")
            self.see("document.querySelector('input[data-pick]')", "a timer")
            self.browser.run("document.querySelector('.columns summary').click(); document.querySelector('input[data-pick]').click()")
            self.sees("1 selected")
            self.axe_finds_nothing(f"selection and columns, {scheme}")
            self.press("Move")
            self.sees_dialog("Move 1 timer?")
            self.axe_finds_nothing(f"the dialog, {scheme}")
            self.press("Leave it")
            if width < 600:
                self.browser.run("document.querySelector('.columns').open = false")
                self.tap("#thumb button")
                self.axe_finds_nothing(f"the menu, {scheme}")
                self.tap("#thumb button")
            self.browser.run("document.activeElement.blur()")
            self.hit("?")
            self.see("document.querySelector('dialog.keys')", "the keys")
            self.axe_finds_nothing(f"the keys, {scheme}")
            self.press("Close")
            port = self.daemon.port
            self.daemon.signal(signal.SIGKILL)
            self.see("document.querySelector('.away')", "that it is down")
            self.axe_finds_nothing(f"down, {scheme}")
            self.daemon = self.start("--listen-port", str(port))
            self.see("!document.querySelector('.away')", "that it is back")

    def axe_finds_nothing(self, where):
        found = self.browser.run("axe.run().then(({violations}) => violations.map((one) => "
                                 "`${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3)}`))")
        self.assertEqual(found, [], where)

    # proves: dashboard
    def test_many_at_once(self):
        """Goal: what is selected, also beyond the page, is counted, changed and nothing else is; columns are those chosen."""
        lines = "".join(json.dumps({"after": "1h", "target": "queue:x", "key": f"{kind}-{n:04}"}) + "\n"
                        for kind, count in (("a", 1100), ("b", 3)) for n in range(count))
        self.daemon.call("POST", "/v1/timers/batch", lines, NDJSON)
        self.browser.open(f"{self.url}#/timers?key_prefix=b-")
        self.see("document.querySelectorAll('tbody tr').length === 3", "the timers")
        self.see("document.querySelector('.states a').innerText.replace(/\\s+/g, ' ') === 'live 1,103'", "the total")
        boxes = "document.querySelectorAll('input[data-pick]')"
        self.assertFalse(self.browser.run("document.querySelector('.bulk').checkVisibility()"))
        self.browser.run(f"{boxes}[0].click(); {boxes}[2].click()")
        self.sees("2 selected")
        self.press("Pause")
        self.sees_dialog("Pause 2 timers?")
        self.see("document.querySelector('dialog pre').innerText.includes('/v1/timers/pause')", "the command")
        self.press("Pause 2 timers")
        self.sees("2 timers paused.")
        states = [self.call(200, "GET", f"/v1/keys/b-{n:04}/timer")[1]["state"] for n in range(3)]
        self.assertEqual(sorted(states), ["paused", "paused", "scheduled"])
        self.browser.run("document.querySelector('input[data-pick-all]').click()")
        self.sees("3 selected")
        self.call(200, "DELETE", "/v1/keys/b-0001/timer")
        self.see("document.querySelectorAll('tbody tr').length === 2", "that one is over")
        self.press("Cancel")
        self.sees_dialog("Cancel 3 timers?")
        self.press("Cancel 3 timers")
        self.sees("2 timers cancelled; 1 not: it is over.")
        self.go("timers?key_prefix=a-")
        self.see(f"{boxes}.length === 50", "a page")
        self.browser.run("document.querySelector('input[data-pick-all]').click()")
        self.sees("50 selected")
        self.press("Select all that match")
        self.sees("1,100 selected are all that match.")
        self.press("Move")
        self.sees_dialog("Move 1,100 timers?")
        self.browser.run("document.querySelector('dialog [name=after]').value = '2d'")
        self.press("Move 1,100 timers")
        self.sees("1,100 timers rescheduled.")
        self.assertEqual(self.listed("key_prefix=a-&due_before=2026-01-01T00:00:00Z"), [])
        self.assertEqual(len(self.listed("key_prefix=a-")), 1100)

        self.browser.run("document.querySelector('.columns summary').click()")
        self.browser.run("[...document.querySelectorAll('.columns label')].forEach((label) => "
                         "['Labels', 'Attempts'].includes(label.innerText) && label.querySelector('input').click())")
        heads = "[...document.querySelectorAll('th')].map((th) => th.innerText).join()"
        self.see(f"{heads} === ',Key,Target,Due,State,Attempts'", "the columns")
        self.browser.open("about:blank")
        self.browser.open(f"{self.url}#/timers")
        self.see(f"{heads} === ',Key,Target,Due,State,Attempts'", "the columns again")

    def sees_dialog(self, title):
        self.see(f"document.querySelector('dialog h2')?.innerText === {json.dumps(title)}", title)

    # proves: dashboard
    def test_keys(self):
        """Goal: rows, search, sections and selection by keys alone; none of them acts while one types, or when switched off."""
        for n in range(3):
            self.create(target="queue:x", after=f"{n + 1}h", key=f"order-{n}")
        self.browser.open(f"{self.url}#/timers")
        self.see("document.querySelectorAll('tbody tr').length === 3", "the timers")
        for key, focused in (("j", "order-0"), ("j", "order-1"), ("j", "order-2"), ("j", "order-2"), ("k", "order-1")):
            self.hit(key)
            self.assertEqual(self.browser.run("document.activeElement.textContent"), focused)
        self.hit("x")
        self.sees("1 selected")
        self.hit("/")
        self.assertEqual(self.browser.run("document.activeElement.name"), "key_prefix")
        self.hit("j")
        self.assertEqual(self.browser.run("document.activeElement.value"), "j")
        self.browser.run("document.activeElement.value = 'order-2'")
        self.hit("Enter")
        self.see("location.hash.includes('key_prefix=order-2') && document.querySelectorAll('tbody tr').length === 1", "what is searched")
        self.hit("j")
        self.hit("Enter")
        self.see("document.title === 'order-2 · Tickwheel'", "the timer")
        for key, title in (("s", "Schedules"), ("l", "Dead letters"), ("n", "Tenants"), ("c", "Cluster"), ("o", "Overview")):
            # Again if the machine took too long between both.
            harness.wait_until(lambda: self.hit("g") or self.hit(key) or self.browser.run(f"document.title === '{title} · Tickwheel'"), 20, title)
        self.hit("/")
        self.see("document.title === 'Timers · Tickwheel' && document.activeElement.name === 'key_prefix'", "the search from another section")
        self.go("overview")
        self.see("document.title === 'Overview · Tickwheel'", "the overview again")
        self.hit("?")
        self.see("document.querySelector('dialog')?.innerText.includes('to the search')", "the keys")
        self.browser.run("document.querySelector('dialog input[type=checkbox]').click()")
        self.press("Close")
        self.see("!document.querySelector('dialog')", "that it is closed")
        self.hit("n")
        self.hit("?")
        self.assertEqual(self.browser.run("[location.hash, !!document.querySelector('dialog')]"), ["#/overview", False])

    # proves: dashboard
    def test_order(self):
        """Goal: a list that is shown whole is put in order by its heads; one of several pages keeps the order of the daemon."""
        for key, target, hours in (("b-10", "queue:y", 1), ("b-9", "queue:z", 2), ("a", "queue:x", 3)):
            self.create(target=target, after=f"{hours}h", key=key)
        self.browser.open(f"{self.url}#/timers")
        keys = "[...document.querySelectorAll('tbody tr a')].map((a) => a.textContent).join()"
        self.see(f"{keys} === 'b-10,b-9,a'", "the order of the daemon")
        for head, order, expected in (("Key", "ascending", "a,b-9,b-10"), ("Key", "descending", "b-10,b-9,a"), ("Target", "ascending", "a,b-10,b-9")):
            self.press(head)
            self.see(f"{keys} === '{expected}' && document.querySelector('th[aria-sort={order}]').innerText === '{head}'", f"{head} {order}")
        self.create(target="queue:w", after="4h", key="new")
        self.see(f"{keys} === 'new,a,b-10,b-9'", "that a new one has its place in this order")
        self.browser.ask("Emulation.setDeviceMetricsOverride", width=1200, height=800, deviceScaleFactor=1, mobile=False)
        self.daemon.call("POST", "/v1/timers/batch", '{"after":"5h","target":"queue:w"}\n' * 60, NDJSON)
        self.see("document.querySelectorAll('tbody tr').length === 50 && !document.querySelector('button.sort')", "a page of several")

    # proves: dashboard
    def test_telephone(self):
        """Goal: on a screen of 390 pixels no page is wider, rows are cards whose cells have names, and whatever one does is
        within reach: a journey from the menu to a search, a timer, a selection, a dead letter and a new timer."""
        self.browser.ask("Emulation.setDeviceMetricsOverride", width=390, height=780, deviceScaleFactor=1, mobile=True)
        self.browser.ask("Emulation.setTouchEmulationEnabled", enabled=True)
        self.fill()
        self.browser.open(self.url)
        self.see("document.querySelector('#thumb button')?.checkVisibility()", "the sections at the bottom")
        self.assertFalse(self.browser.run("document.querySelector('#nav').checkVisibility()"))
        for place in (*SECTIONS, "new", "queues/mail", f"timers/{self.dead}"):
            self.go(place)
            self.see("document.querySelector('main table, main form, main dl, main details')", place)
            self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390, place)
        self.assertGreaterEqual(self.browser.run("Math.min(...[...document.querySelectorAll('#thumb > *')].map((e) => e.offsetHeight))"), 44)
        self.tap("#thumb button")
        self.see("document.querySelector('#nav').checkVisibility()", "the menu")
        self.tap("#nav a[href='#/timers']")
        self.see("document.title.startsWith('Timers') && document.querySelectorAll('tbody tr').length === 50", "the timers")
        self.assertEqual(self.browser.run("[document.querySelector('#nav').checkVisibility(), document.querySelector('[name=label]').checkVisibility(),"
                                          "getComputedStyle(document.querySelector('td:nth-child(3)'), '::before').content,"
                                          "getComputedStyle(document.querySelector('tbody tr')).display]"),
                         [False, False, '"Target"', "block"])
        self.tap("button.filters")
        self.see("document.querySelector('[name=key_prefix]').checkVisibility()", "the filters")
        self.type("key_prefix", "order-99")
        self.tap("form[role=search] button")
        self.see("document.querySelectorAll('tbody tr').length === 11", "what is searched")
        self.tap("tbody input[type=checkbox]")
        self.sees("1 selected")
        self.within_reach(".bulk button")
        self.tap("tbody tr:nth-child(2) a")
        self.see("document.title.startsWith('order-99') && document.querySelector('.buttons.main button')", "the timer")
        for at in ("0", "document.body.scrollHeight"):
            self.browser.run(f"scrollTo(0, {at})")
            self.within_reach(".buttons.main button")
        self.press("Pause")
        self.sees("It is paused.")
        self.assertEqual(len(self.call(200, "GET", "/v1/timers?state=paused")[1]["timers"]), 1)
        self.tap("#thumb a[href='#/dead']")
        self.see("[...document.querySelectorAll('td button')].some((b) => b.textContent === 'Redrive')", "the dead letter")
        self.press("Redrive")
        self.sees("1 redriven.")
        self.assertEqual(self.lease("broken")[0]["id"], self.dead)
        self.tap("#thumb a.new")
        self.see("document.querySelector('[name=time]')", "the form")
        self.type("time", "30m")
        self.type("target", "queue:by-thumb")
        self.press("Make the timer")
        self.sees("It is made")
        self.assertEqual(len(self.call(200, "GET", "/v1/timers?target=queue:by-thumb")[1]["timers"]), 1)

    def tap(self, selector):
        """Touches the middle of an element, which must be on the screen and on top."""
        x, y, is_top = self.browser.run(f"""(() => {{
          const element = document.querySelector({json.dumps(selector)});
          element.scrollIntoView({{block: "center"}});
          const {{left, top, width, height}} = element.getBoundingClientRect(), x = left + width / 2, y = top + height / 2;
          return [x, y, element.contains(document.elementFromPoint(x, y))];
        }})()""")
        self.assertTrue(is_top, f"{selector} is covered")
        self.browser.ask("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.browser.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def within_reach(self, selector):
        """The element is on the screen as it is scrolled, and as tall as a thumb."""
        top, bottom, height, screen = self.browser.run(f"""(() => {{
          const {{top, bottom, height}} = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
          return [top, bottom, height, innerHeight];
        }})()""")
        self.assertTrue(0 <= top and bottom <= screen and height >= 36, (selector, top, bottom, height))

    # proves: dashboard
    def test_first_steps(self):
        """Goal: a daemon without timers shows how to make one, with its own address. Method: the line is run as it stands."""
        self.browser.open(self.url)
        self.sees("You have no timers yet")
        line = self.browser.run("document.querySelector('.start pre').innerText")
        self.assertIn(f"http://127.0.0.1:{self.daemon.port}/v1/timers", line)
        self.assertEqual(self.browser.run(
            "[...document.querySelectorAll('.start pre')].every((pre) => pre.textContent.includes(location.origin))"), True)
        self.go("timers")
        self.sees("You have no timers yet")
        self.run_command(line)
        self.see("document.querySelectorAll('tbody tr').length === 1 && !document.querySelector('main').innerText.includes('You have no timers yet')",
                 "the timer")

    # proves: dashboard
    def test_down(self):
        """Goal: each page says that the daemon is down, and shows what is new once it is back, without a hand. Method: kill -9."""
        self.create(target="queue:x", every="1d", key="before")
        for place in (*SECTIONS, "new"):
            self.browser.open("about:blank")
            self.browser.open(f"{self.url}#/{place}")
            self.see("document.querySelector('main').innerText.length > 20 && document.querySelector('#health').innerText === 'ready'", place)
            port = self.daemon.port
            self.daemon.signal(signal.SIGKILL)
            self.see("document.querySelector('.away')?.innerText.includes('has not answered since')", f"that it is down: {place}")
            self.daemon = self.start("--listen-port", str(port))
            self.see("!document.querySelector('.away') && document.querySelector('#health').innerText === 'ready' && "
                     "!document.querySelector('main').innerText.includes('not reachable') && "
                     "(document.querySelector('.live')?.classList.contains('on') ?? true)", f"that it is back: {place}")
        self.go("timers")
        self.sees("before")

    # proves: dashboard
    def test_short_ids(self):
        """Goal: the ids of a list differ also as they are shown. Method: timers of calls of their own, and of a batch."""
        made = [self.create(target="queue:x") for _ in range(10)]
        self.daemon.call("POST", "/v1/timers/batch", '{"after":"1h","target":"queue:x"}\n' * 30, NDJSON)
        self.browser.open(f"{self.url}#/timers")
        self.see("document.querySelectorAll('tbody tr').length === 40", "the timers")
        shown = self.browser.run("[...document.querySelectorAll('tbody td.key a')].map((a) => a.textContent)")
        self.assertEqual(len(set(shown)), 40, shown)
        self.assertLess(len(shown[0]), len(made[0]["id"]))

    # proves: dashboard, maintenance
    def test_maintenance(self):
        """Goal: each page says that maintenance holds deliveries back, with its note and since when timers wait, and ends it."""
        self.call(200, "PUT", "/v1/admin/maintenance", {"note": "the <b>warehouse</b> moves"})
        self.browser.open(self.url)
        held = "document.querySelector('#held').innerText"
        for place in (*SECTIONS, "new"):
            self.go(place)
            self.see(f"{held}.includes('holds all deliveries back: “the <b>warehouse</b> moves”')", place)
        self.see(f"{held}.includes('No timer has waited')", "that nothing waits")
        timer = self.create("/ok", after=0, key="held")
        self.see(f"{held}.includes('1 timer waits, the first since')", "since when")
        self.press("End the maintenance")
        self.see("document.querySelector('dialog pre')?.innerText.includes('-X DELETE')", "the question")
        self.assertTrue(self.call(200, "GET", "/v1/admin/maintenance")[1]["maintenance"])
        self.press("End it")
        self.see(f"!{held}", "that it is over")
        self.assertFalse(self.call(200, "GET", "/v1/admin/maintenance")[1]["maintenance"])
        self.await_state(timer, "fired")

    # proves: dashboard
    def test_red_figures(self):
        """Goal: whatever is red and has a figure leads to the list that explains it."""
        failed = self.create("/status/503", every="1d", key="nightly", retry={"max_attempts": 1})["id"]
        for count in (1, 2):
            self.call(200, "POST", f"/v1/timers/{failed}/fire")
            harness.wait_until(lambda: len(self.call(200, "GET", f"/v1/timers/{failed}/runs")[1]["runs"]) == count, 20, "a firing")
        self.fill()
        self.browser.open(self.url)
        seen = 0
        for place in (*SECTIONS, f"timers/{failed}", f"timers/{self.dead}"):
            self.go(place)
            self.see("document.querySelector('main table, main form, main dl, main details')", place)
            red = self.browser.run("[...document.querySelectorAll('main .bad')].filter((e) => /\\d/.test(e.textContent))"
                                   ".map((e) => [e.textContent, !!(e.closest('a') || e.querySelector('a'))])")
            seen += len(red)
            self.assertEqual([text for text, leads in red if not leads], [], place)
        self.assertGreater(seen, 4)
        for place, link, rows in (("schedules", "a.bad", 2), ("targets", "a.bad", 1)):
            self.go(place)
            self.see(f"document.querySelector('main tbody {link}')", link)
            self.browser.run(f"document.querySelector('main tbody {link}').click()")
            self.see(f"location.hash.startsWith('#/deliveries') && document.querySelectorAll('main tbody tr').length >= {rows} && "
                     "[...document.querySelectorAll('main tbody tr')].every((row) => row.innerText.includes('failed'))", "what failed")

    # proves: dashboard
    def test_life_line(self):
        """Goal: the page of a timer shows what happened to it, in order, also when it is over."""
        timer = self.create("/status/500", after="1h", key="order-7", retry={"max_attempts": 2, "base": "1ms", "cap": "1ms"})
        self.call(200, "PATCH", f"/v1/timers/{timer['id']}", {"labels": {"team": "checkout"}})
        self.browser.open(f"{self.url}#/timers/{timer['id']}")
        life = "[...document.querySelectorAll('ol.life .what')].map((what) => what.innerText.replace(/, took.*/, '')).join('; ')"
        self.see(f"{life} === 'created; changed once; due'", "the life so far")
        self.press("Extend")
        self.browser.run("document.querySelector('dialog [name=after]').value = '3h'")
        self.press("Extend it")
        self.sees("Its time is extended.")
        self.see(f"{life} === 'created; changed 2 times; due'", "the life with that")
        self.call(200, "POST", f"/v1/timers/{timer['id']}/fire")
        self.see(f"{life} === 'created; attempt 1: failed, 500; attempt 2: failed, 500; dead'", "the life")
        self.assertEqual(self.browser.run("document.querySelectorAll('ol.life time').length"), 4)
        later = self.create("/status/502", after=0, key="order-8", retry={"base": "1d", "cap": "1d"})
        self.await_state(later, "retrying")
        self.go(f"timers/{later['id']}")
        self.see(f"{life} === 'created; attempt 1: failed, 502; next attempt'", "that it is tried again")
        self.assertTrue(self.browser.run("Date.parse([...document.querySelectorAll('ol.life time')].at(-1).dateTime) > Date.now()"))
        self.go(f"timers/{timer['id']}")
        self.see(f"{life}.endsWith('; dead')", "the life again")
        self.assertEqual(self.browser.run("document.querySelector('.about .chip').innerText"), "dead")


if __name__ == "__main__":
    unittest.main()
