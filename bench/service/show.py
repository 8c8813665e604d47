"""The tables and the plot of what service.py measured."""

import json
import math
import os
import sys
from xml.sax.saxutils import escape

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "bench", "wheel"))
from plot import STYLE, Drawing

BEGIN = "<!-- made by bench/service/show.py: begin -->"
END = "<!-- made by bench/service/show.py: end -->"
SHARES = (0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 1)

NAMES = {"tickwheeld": "**tickwheeld**", "log_floor": "floor: epoll, parser, log with fdatasync",
         "nginx": "floor: nginx `return 201`", "redis_always": "Redis, appendfsync always",
         "redis_everysec": "Redis, appendfsync everysec", "beanstalkd": "beanstalkd -b",
         "beanstalkd_f0": "beanstalkd -b -f0", "nats": "NATS JetStream, file", "postgresql": "PostgreSQL, INSERT",
         "postgresql_copy": "PostgreSQL, COPY"}
DURABLE = {"tickwheeld": "yes", "log_floor": "yes", "nginx": "stores nothing", "redis_always": "yes",
           "redis_everysec": "synced each second", "beanstalkd": "synced each 50 ms", "beanstalkd_f0": "yes",
           "nats": "synced each 2 min", "postgresql": "yes", "postgresql_copy": "yes"}


class Figures:
    """Medians by row and name; None for what was not measured."""

    def __init__(self, data):
        self.rows = data["rows"]

    def __call__(self, row, name):
        found = self.rows.get(row, {}).get(name)
        return found["median"] if found else None


class Check:
    """A figure beside what is asked of it and what the machine allows. `most`: less is better."""

    def __init__(self, row, text, unit, measured, asked, floor=None, most=True):
        self.row, self.text, self.unit, self.most = row, text, unit, most
        self.measured, self.asked, self.floor = measured, asked, floor

    def is_met(self):
        if self.measured is None or self.asked is None:
            return None
        return self.measured <= self.asked if self.most else self.measured >= self.asked


def times(value, factor):
    return None if value is None else value * factor


def share(value, whole):
    return value / whole if value is not None and whole else None


def create_checks(figure):
    for connections, asked in ((8, 45), (64, 30), (512, 28)):
        yield Check("create", f"single durable create, {connections} connections: CPU", "µs",
                    figure("create", f"tickwheeld.{connections}.cpu_us"), asked,
                    figure("create", f"log_floor.{connections}.cpu_us"))
    for connections in (8, 64, 512):
        yield Check("create", f"its rate with {connections}, asked: Redis `always`", "/s",
                    figure("create", f"tickwheeld.{connections}.rate"),
                    figure("create", f"redis_always.{connections}.rate"),
                    figure("create", f"log_floor.{connections}.rate"), most=False)
    nginx = figure("create", "nginx.512.rate")
    yield Check("create", "its share of the rate of nginx `return 201`, 512", "",
                share(figure("create", "tickwheeld.512.rate"), nginx), 0.5,
                share(figure("create", "log_floor.512.rate"), nginx), most=False)
    floor = figure("create", "log_floor.1.p50_us")
    yield Check("create", "its latency with one connection, p50", "µs", figure("create", "tickwheeld.1.p50_us"),
                times(floor, 1.3), floor)


def many_checks(figure):
    yield Check("batch", "batches of 10,000, 2 connections: CPU", "µs a timer",
                figure("batch", "tickwheeld.cpu_us"), 6.5, figure("batch", "log_floor.cpu_us"))
    yield Check("batch", "their rate, asked: PostgreSQL COPY", "/s", figure("batch", "tickwheeld.rate"),
                figure("batch", "postgresql_copy.rate"), figure("batch", "log_floor.rate"), most=False)
    yield Check("far", "creates in a row by batches: slowest twentieth ÷ fastest", "",
                figure("far", "fill.evenness"), 0.6, most=False)
    yield Check("far", "their longest call", "ms", figure("far", "fill.longest_ms"), 500)
    yield Check("beside", "single create beside two batch clients, p99", "ms",
                times(figure("beside", "tickwheeld.p99_us"), 1e-3), 20,
                times(figure("beside", "log_floor.p99_us"), 1e-3))


def change_checks(figure):
    for name, asked in (("get", 25), ("touch", 35)):
        yield Check("read", f"{name.upper() if name == 'get' else name}, 64 connections: CPU", "µs",
                    figure("read", f"{name}.cpu_us"), asked, figure("read", f"floor.{name}.cpu_us"))
    yield Check("many", "touch, 1,000 keys a call, 4 connections", "/s", figure("many", "touch.rate"), 150_000,
                figure("many", "floor.rate"), most=False)
    yield Check("many", "reschedule, the same", "/s", figure("many", "reschedule.rate"), None)
    yield Check("lease", "lease and ack one at a time, 8 connections: CPU", "µs", figure("lease", "one.cpu_us"), 80)
    yield Check("lease", "lease and ack by 1,000: CPU", "µs an item", figure("lease", "thousand.cpu_us"), 8)


def delivery_checks(figure):
    yield Check("webhook", "webhooks to one receiver: rate", "/s", figure("webhook", "rate"), 25_000,
                figure("webhook", "floor.rate"), most=False)
    yield Check("webhook", "their CPU", "µs", figure("webhook", "cpu_us"), 35, figure("webhook", "floor.cpu_us"))
    for kind in ("webhook", "queue"):
        yield Check("late", f"lateness at 5,000/s, {kind}, p99", "ms", figure("late", f"{kind}.0.99"), 2)


def standing_checks(figure):
    count = figure("far", "count")
    far = f"{count:,.0f} far timers" if count else "far timers"
    yield Check("far", f"{far}: resident", "MiB", times(figure("far", "resident_bytes"), 2**-20), 512)
    yield Check("far", "ready after kill -9", "s", figure("far", "ready_s"), 2)
    for name in ("get", "cancel"):
        yield Check("far", f"{name} by id, p99", "ms", figure("far", f"{name}.p99_ms"), 5)
    yield Check("idle", "wake-ups with far timers and nothing to do", "/s", figure("idle", "wakeups"), 1)
    for name in ("create", "batch"):
        yield Check("shards", f"two shards ÷ one, rate of {name}", "",
                    share(figure("shards", f"2.{name}.rate"), figure("shards", f"1.{name}.rate")), None, most=False)
        yield Check("shards", f"two shards ÷ one, CPU of {name}", "",
                    share(figure("shards", f"2.{name}.cpu_us"), figure("shards", f"1.{name}.cpu_us")), None)


def checks(data):
    figure = Figures(data)
    for part in (create_checks, many_checks, change_checks, delivery_checks, standing_checks):
        yield from (check for check in part(figure) if check.measured is not None)


# ---- tables ----

def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def check_rows(data):
    yield "|  | asked | measured |  | floor |"
    yield "|---|---:|---:|---|---:|"
    for check in checks(data):
        met = {True: "met", False: "**not met**", None: ""}[check.is_met()]
        asked = number(check.asked) and ("≤ " if check.most else "≥ ") + number(check.asked)
        yield (f"| {check.text} | {asked} | {number(check.measured)} {check.unit} | {met} | "
               f"{number(check.floor)} |")


def missed_rows(data):
    yield "| missed | asked | measured | floor |"
    yield "|---|---:|---:|---:|"
    for check in checks(data):
        if check.is_met() is False:
            yield (f"| {check.text} | {'≤' if check.most else '≥'} {number(check.asked)} | "
                   f"{number(check.measured)} {check.unit}".rstrip() + f" | {number(check.floor)} |")


def peer_rows(data):
    """Rate, CPU and latency of single creates, with each number of connections."""
    figure, yet = Figures(data), set()
    counts = sorted({int(name.split(".")[1]) for name in data["rows"]["create"]})
    yield "|  | durable | " + " | ".join(f"{count}: /s, µs CPU, p99 ms" for count in counts) + " |"
    yield "| --- | --- |" + " --- |" * len(counts)
    for name in data["rows"]["create"]:
        system = name.split(".")[0]
        if system in yet:
            continue
        yet.add(system)
        cells = []
        for count in counts:
            rate = figure("create", f"{system}.{count}.rate")
            cells.append("" if rate is None else
                         f"{number(rate)}, {number(figure('create', f'{system}.{count}.cpu_us'))}, "
                         f"{number(figure('create', f'{system}.{count}.p99_us') / 1000)}")
        yield f"| {NAMES[system]} | {DURABLE[system]} | " + " | ".join(cells) + " |"


def batch_rows(data):
    figure = Figures(data)
    yield "|  | durable | timers/s | µs CPU a timer |"
    yield "| --- | --- | ---: | ---: |"
    for name in data["rows"]["batch"]:
        system, kind = name.split(".")
        if kind == "rate":
            yield (f"| {NAMES[system]} | {DURABLE[system]} | {number(figure('batch', name))} | "
                   f"{number(figure('batch', f'{system}.cpu_us'))} |")


def machine_line(data):
    machine = data["machine"]
    return (f"Measured {data['date']}, {machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}; "
            f"load average {machine['load_before']} before; medians of {data['rounds']} rounds"
            + ("" if data["scale"] == 1 else f"; at {data['scale']:g} of the size") + ".")


def page(data):
    """What docs/benchmarks.md has: the goals that are missed; the plot beside them has the peers."""
    met = [check.is_met() for check in checks(data) if check.is_met() is not None]
    return "\n".join([f"{machine_line(data)} {sum(met)} of {len(met)} goals are met.", "",
                      *missed_rows(data)])


def markdown(data):
    lines = [machine_line(data), "", *check_rows(data)]
    if "create" in data["rows"]:
        lines += ["", "Single creates of 300 bytes, by the number of connections:", "", *peer_rows(data)]
    if "batch" in data["rows"]:
        lines += ["", "Batches of 10,000 from two connections:", "", *batch_rows(data)]
    return "\n".join(lines)


# ---- the plot ----

WIDTH, PANEL, LEFT, BAR_ROW = 1000, 460, 180, 17


def bars(drawing, x, y, title, unit, rows):
    """rows: (name, value, is ours). Returns the height."""
    drawing.text(x, y + 14, title, "ink panel")
    drawing.text(x, y + 30, unit, "dim small")
    most = max(value for _, value, _ in rows) or 1
    for index, (name, value, kind) in enumerate(rows):
        top = y + 42 + BAR_ROW * index
        width = (PANEL - LEFT - 60) * value / most
        drawing.text(x + LEFT - 8, top + 12, name, "small right " + ("ink mine" if kind == "ours" else "dim"))
        drawing.rect(x + LEFT, top + 3, max(width, 1), 11, kind)
        drawing.text(x + LEFT + width + 6, top + 12, number(value), "small dim")
    return 42 + BAR_ROW * len(rows) + 30


def create_panel(drawing, x, y, data, connections, kind, title, unit):
    figure, rows = Figures(data), []
    for system in NAMES:
        value = figure("create", f"{system}.{connections}.{kind}")
        if value is not None:
            name = NAMES[system].strip("*").replace("`", "").replace("epoll, parser, log with fdatasync", "log, fdatasync")
            rows.append((name, value, "ours" if system == "tickwheeld" else
                         "yardstick" if system in ("nginx", "log_floor") else "peer"))
    return bars(drawing, x, y, title, unit, rows) if rows else 0


def lateness_panel(drawing, x, y, data):
    """The share of timers that is later than a time; both scales are logarithmic."""
    height, low, high = 220, -2.0, 3.0
    drawing.text(x, y + 14, "Lateness at 5,000 timers a second", "ink panel")
    drawing.text(x, y + 30, "share of timers that is later than this, ms", "dim small")
    left, top, width = x + 60, y + 46, WIDTH - x - 160

    def place(late_ms, beyond):
        across = (math.log10(min(max(late_ms, 10**low), 10**high)) - low) / (high - low)
        return left + width * across, top + height * min(-math.log10(max(beyond, 1e-4)) / 4, 1)
    for exponent in range(int(low), int(high) + 1):
        at = place(10.0**exponent, 1)[0]
        drawing.line(at, top, at, top + height, "grid")
        drawing.text(at, top + height + 14, f"{10.0**exponent:g}", "dim small middle")
    for exponent in range(5):
        at = place(1, 10.0**-exponent)[1]
        drawing.line(left, at, left + width, at, "grid")
        drawing.text(left - 8, at + 4, f"{10.0**(2 - exponent):g} %", "dim small right")
    goal = place(2, 1)[0]
    drawing.line(goal, top, goal, top + height, "goal")
    drawing.text(goal + 4, top + 12, "asked: p99 below 2 ms", "dim small")
    for place_of_name, (kind, colour) in enumerate((("webhook", "#0969da"), ("queue", "#8250df"))):
        points = [place(Figures(data)("late", f"{kind}.{one}"), 1 - one) for one in SHARES]
        drawing.parts.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}" '
                             f'style="fill: none; stroke-width: 2; stroke: {colour}"/>')
        drawing.parts.append(f'<text x="{left + width - 70}" y="{top + 20 + 18 * place_of_name}" '
                             f'style="fill: {colour}">{escape(kind)}</text>')
    return 46 + height + 40


def draw(data):
    drawing, y = Drawing(), 70
    drawing.text(24, 36, "A durable timer service beside its peers and the floors of the machine", "ink title")
    drawing.text(24, 56, machine_line(data), "dim small")
    if "create" in data["rows"]:
        for connections in (8, 64, 512):
            first = create_panel(drawing, 24, y, data, connections, "rate",
                                 f"Single creates, {connections} connections", "requests a second: longer is better")
            create_panel(drawing, 24 + PANEL + 32, y, data, connections, "cpu_us", "Server's CPU for each",
                         "µs: shorter is better")
            y += first
    if "late" in data["rows"]:
        y += lateness_panel(drawing, 24, y, data)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" role="img">',
        "<title>Rates, CPU and lateness of tickwheeld and its peers</title>", f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{y}" class="ground"/>', *drawing.parts, "</svg>", ""])


def write(data, folder, is_saved):
    """Data and plot into `folder`; or, to be saved, into bench/results and docs, with the tables."""
    docs = os.path.join(ROOT, "docs")
    results, plots = (os.path.join(ROOT, "bench", "results"), docs) if is_saved else (folder, folder)
    os.makedirs(folder, exist_ok=True)
    data = data | {"checks": [{"row": check.row, "text": check.text, "unit": check.unit, "asked": check.asked,
                               "measured": check.measured, "floor": check.floor, "met": check.is_met()}
                              for check in checks(data)]}
    with open(os.path.join(results, "service.json"), "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
        file.write("\n")
    with open(os.path.join(plots, "service.svg"), "w", encoding="utf-8") as file:
        file.write(draw(data))
    if is_saved:
        path = os.path.join(docs, "benchmarks.md")
        with open(path, encoding="utf-8") as file:
            before, rest = file.read().split(BEGIN, 1)
        text = f"{before}{BEGIN}\n\n{page(data)}\n\n{END}{rest.split(END, 1)[1]}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
