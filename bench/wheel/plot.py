#!/usr/bin/env python3
"""Draws what run.py measured: a panel per workload, a bar per subject, the scale logarithmic.

    plot.py [bench/results/wheel.json [docs/benchmarks.svg]]

The SVG is written by hand, needs nothing but itself, and follows the reader's light or dark scheme.
"""

import json
import math
import os
import sys
from xml.sax.saxutils import escape

import table

PANELS = [("fill", "Fill", "ns to schedule, delays up to an hour"),
          ("cancel", "Cancel", "ns to take one out, in random order"),
          ("expire", "Expire", "ns a timer, an hour in steps of 1 ms"),
          ("coarse", "Expire, coarse", "ns a timer, an hour in steps of 16 ms"),
          ("churn", "Churn", "ns to move a random one to now + 30 s"),
          ("periodic", "Periodic", "ns to fire and re-arm, periods up to 10 s"),
          ("burst", "Burst", "ns a timer, all at one tick"),
          ("bytes", "Memory", "bytes a timer")]

# Random reads, as measured beside: what a figure can be held against.
FLOORS = {"independent": "random read, address known", "dependent": "random read, address from the read before"}

COLUMNS = 2
WIDTH = 1000
MARGIN = 24
GAP = 36
LABEL = 196   # of a panel's width, for the names
VALUE = 52    # and for the number after the longest bar
ROW = 17
BAR = 11
HEAD = 54     # a panel's title
TOP = 78      # the figure's title

STYLE = """
    text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
    .ground { fill: #ffffff; } .ink { fill: #1f2328; } .dim { fill: #59636e; }
    .title { font-size: 20px; font-weight: 600; } .panel { font-size: 14px; font-weight: 600; }
    .small { font-size: 11px; } .right { text-anchor: end; } .middle { text-anchor: middle; }
    .grid { stroke: #d1d9e0; stroke-width: 1; }
    .floor { stroke: #8250df; stroke-width: 1.5; } .independent { stroke-dasharray: 2 3; }
    .dependent { stroke-dasharray: 6 3; }
    .ours { fill: #0969da; } .yardstick { fill: #8c959f; } .peer { fill: #c2c9d1; }
    .mine { font-weight: 600; }
    .number { paint-order: stroke; stroke: #ffffff; stroke-width: 3; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; } .ink { fill: #f0f6fc; } .dim { fill: #9198a1; }
      .grid { stroke: #2a313a; } .floor { stroke: #ab7df8; }
      .number { stroke: #0d1117; }
      .ours { fill: #4493f8; } .yardstick { fill: #6e7681; } .peer { fill: #444c56; }
    }
"""

def short(name):
    for long_text, text in (("Boost intrusive red-black tree", "Boost intrusive rbtree"),
                            ("java.util.concurrent.DelayQueue", "Java DelayQueue"),
                            ("hierarchical_hash_wheel_timer", "Rust hierarchical_hash_wheel"),
                            ("RussellLuo/timingwheel", "Go RussellLuo/timingwheel"),
                            ("std::priority_queue", "priority_queue"),
                            ("wheel.h, scheduled each time", "wheel.h, scheduled"),
                            ("wheel.h, opened once", "wheel.h, opened")):
        name = name.replace(long_text, text)
    return name


def shown(size):
    """What prefetching and the verbs for many gain is for the table."""
    return [subject for subject in size["subjects"] if not subject["key"].endswith(("_ahead", "_many"))]


class Drawing:
    def __init__(self):
        self.parts = []

    def text(self, x, y, text, classes):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}">{escape(text)}</text>')

    def line(self, x1, y1, x2, y2, classes):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'class="{classes}"/>')

    def rect(self, x, y, width, height, classes, title=""):
        inside = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                          f'class="{classes}">{inside}</rect>')


def decades(values):
    low = math.floor(math.log10(min(values)) - 0.1)
    return low, max(math.ceil(math.log10(max(values))), low + 1)


def power(exponent):
    return f"{10 ** exponent:,}" if exponent >= 0 else f"{10 ** exponent:g}"


def rows_of(subjects, figure):
    rows = [(table.value(subject, figure), subject) for subject in subjects]
    return sorted(((value, subject) for value, subject in rows if value is not None),
                  key=lambda row: row[0])


def draw_panel(drawing, x, y, width, size, panel):
    figure, title, unit = panel
    rows = rows_of(shown(size), figure)
    drawing.text(x, y + 14, title, "ink panel")
    drawing.text(x, y + 30, unit, "dim small")
    if not rows:
        return
    left, right = x + LABEL, x + width - VALUE
    top, bottom = y + HEAD, y + HEAD + ROW * len(rows)
    low, high = decades([value for value, _ in rows])

    def place(value):
        return left + (right - left) * max(0.0, (math.log10(value) - low) / (high - low))

    for exponent in range(low, high + 1):
        at = place(10.0 ** exponent)
        drawing.line(at, top - 2, at, bottom, "grid")
        drawing.text(at, top - 6, power(exponent), "dim small middle")
    if figure != "bytes":
        for key in FLOORS:
            at = place(size["floor"][key])
            if at > left:
                drawing.line(at, top - 2, at, bottom, "floor " + key)
    for index, (value, subject) in enumerate(rows):
        at = top + ROW * index
        is_ours = subject["kind"] == "ours"
        mark = "*" if figure in subject["cut"] else ""
        drawing.text(left - 8, at + 12.5, short(subject["name"]),
                     "small right " + ("ink mine" if is_ours else "dim"))
        drawing.rect(left, at + (ROW - BAR) / 2, max(place(value) - left, 2), BAR, subject["kind"],
                     f"{subject['name']} {subject['version']}: {table.number(value)}")
        drawing.text(place(value) + 6, at + 12.5, table.number(value) + mark,
                     "small number " + ("ink mine" if is_ours else "dim"))


def legend(drawing, x, y):
    for kind, text in (("ours", "ours"), ("peer", "peers"),
                       ("yardstick", "yardsticks, written for this")):
        drawing.rect(x, y - 9, 11, 11, kind)
        drawing.text(x + 17, y, text, "dim small")
        x += 30 + 6.2 * len(text)
    for key, text in FLOORS.items():
        drawing.line(x, y - 10, x, y + 3, "floor " + key)
        drawing.text(x + 8, y, text, "dim small")
        x += 28 + 6.2 * len(text)


def draw(data):
    size = data["sizes"][0]
    panel_width = (WIDTH - 2 * MARGIN - GAP * (COLUMNS - 1)) / COLUMNS
    drawing, y = Drawing(), TOP
    for first in range(0, len(PANELS), COLUMNS):
        band = PANELS[first:first + COLUMNS]
        for column, panel in enumerate(band):
            draw_panel(drawing, MARGIN + column * (panel_width + GAP), y, panel_width, size, panel)
        y += HEAD + ROW * max(len(rows_of(shown(size), panel[0])) for panel in band) + GAP
    body, drawing.parts = drawing.parts, []
    drawing.text(MARGIN, 36, f"{size['timers']:,} timers, ticks of 1 ms: shorter is better", "ink title")
    legend(drawing, MARGIN, 58)
    drawing.text(MARGIN, y, table.machine_line(data), "dim small")
    drawing.text(MARGIN, y + 16, table.floor_line(size) + ".  * stopped early", "dim small")
    height = y + 16 + MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-labelledby="title">',
        f'<title id="title">Nanoseconds per operation of timers at {size["timers"]:,} timers</title>',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height:.0f}" class="ground"/>', *drawing.parts, *body, "</svg>",
        ""])


def write(data, path):
    with open(path, "w", encoding="utf-8") as file:
        file.write(draw(data))


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    source = sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "bench", "results", "wheel.json")
    target = sys.argv[2] if len(sys.argv) > 2 else os.path.join(root, "docs", "benchmarks.svg")
    with open(source, encoding="utf-8") as file:
        write(json.load(file), target)


if __name__ == "__main__":
    main()
