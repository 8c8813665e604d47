"""The table of a run of run.py: for a terminal, and for docs/benchmarks.md."""

import math

FIGURES = [("fill", "fill"), ("cancel", "cancel"), ("expire", "expire"), ("coarse", "coarse"), ("churn", "churn"),
           ("periodic", "periodic"), ("burst", "burst"), ("bytes", "bytes"), ("slow_steps", "slow")]

NOT_TIMES = {"bytes", "slow_steps"}  # of one operation

GROWTH_MAX = 2  # at ten times the size

# What the chunk wheel must reach: a title, the subject, the figure, and at most how many times which others. "floor"
# is the prefetched one of the same run, of 16 bytes as the records of the wheel are. Exact peers are never late, as Linux's timers are.
LISTS = {"lists", "seastar", "ratas", "wahern", "vpp", "linux"}
EXACT = "the best exact peer"
MUST = [
    ("fill, many", "scheduled_many", "fill", [(1.2, "the best list", LISTS)]),
    ("fill", "scheduled", "fill", [(1.2, "the best list", LISTS)]),
    ("cancel, many", "opened_many", "cancel", [(1.3, "floor", None)]),
    ("expire by 1 ms", "opened", "expire", [(4, "floor", None), (0.25, EXACT, None)]),
    ("expire by 16 ms", "opened", "coarse", [(2.5, "floor", None)]),
    ("churn, many", "opened_many", "churn", [(1.5, "floor", None), (0.5, "the lazy heap", {"lazy_queue"})]),
    ("periodic", "opened", "periodic", [(3, "floor", None), (0.25, EXACT, None)]),
    ("burst, random order", "opened", "burst", [(1.3, "floor", None)]),
    ("burst, pool order", "scheduled", "burst", [(1, "VPP", {"vpp"})]),
]
INSTRUCTIONS_MUST = 50  # of fill
BYTES_MUST = 36
HUGE_MUST = [("expire", 1.5), ("bytes", 1.05)]

# The subjects that ours are divided by: (title, kinds).
RIVALS = [("best peer", ["peer"]), ("best of peers and yardsticks", ["peer", "yardstick"])]

BEGIN = "<!-- made by bench/wheel/table.py: begin -->"
END = "<!-- made by bench/wheel/table.py: end -->"


def value(subject, figure):
    found = subject["figures"].get(figure)
    return found["median"] if found else None


def number(figure):
    if figure is None:
        return "–"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.1f}"


def best(subjects, figure, kinds):
    """The least figure of those kinds, and the name of its subject."""
    found = [(value(subject, figure), subject["name"]) for subject in subjects
             if subject["kind"] in kinds and value(subject, figure) is not None]
    return min(found, default=(None, None))


def ratio(figure, other):
    return figure / other if figure is not None and other else None


def figure_rows(size):
    """(subject, cells) for each; the last cell is the lateness."""
    for subject in size["subjects"]:
        cells = []
        for figure, _ in FIGURES:
            mark = "*" if figure in subject["cut"] else ""
            cells.append(number(value(subject, figure)) + mark)
        late = subject["late_ticks"]
        yield subject, [*cells, "–" if late is None else str(late)]


def ratio_rows(size, kinds):
    """(name, cells): each of ours divided by the best of those kinds."""
    for subject in size["subjects"]:
        if subject["kind"] == "ours":
            ratios = [ratio(value(subject, figure), best(size["subjects"], figure, kinds)[0])
                      for figure, _ in FIGURES]
            yield subject["name"], ["–" if found is None else f"{found:.2f}" for found in ratios]


def floor_rows(size):
    """(name, cells): the time per operation of ours divided by the floor of the same run; none for earlier runs."""
    floor = size["floor"].get("ahead")
    for subject in size["subjects"]:
        if floor and subject["kind"] == "ours":
            yield subject["name"], ["–" if figure in NOT_TIMES or value(subject, figure) is None
                                    else f"{value(subject, figure) / floor:.2f}" for figure, _ in FIGURES]


def floor_cells(size):
    """The floor in the columns of times, as far as the run has it."""
    floor = size["floor"].get("ahead")
    return ["–" if figure in NOT_TIMES or floor is None else number(floor) for figure, _ in FIGURES] + ["–"]


def rival(size, who, keys, figure):
    """The figure that a limit of MUST multiplies."""
    if who == "floor":
        return size["floor"]["ahead"]
    found = [value(subject, figure) for subject in size["subjects"]
             if (subject["key"] in keys if keys else subject["kind"] in ("peer", "yardstick") and subject["late_ticks"] == 0)]
    return min((figure for figure in found if figure is not None), default=None)


def must_cells(now, most, unit=""):
    return [f"at most {most}{unit}", f"{now:.2f}{unit}" if isinstance(now, float) else str(now),
            "met" if now <= most else "not met"]


def must_rows(data):
    """(name, [asked, measured, met]): what the wheel must reach; none for earlier runs."""
    size = data["sizes"][0]
    subjects = {subject["key"]: subject for subject in size["subjects"]}
    if "instructions" not in size:
        return
    for key, count in size["instructions"].items():
        if key.startswith("scheduled"):
            yield f"fill{', many' if key.endswith('many') else ''}, instructions", must_cells(count, INSTRUCTIONS_MUST)
    for title, key, figure, limits in MUST:
        for most, who, keys in limits if key in subjects else []:
            times = ratio(value(subjects[key], figure), rival(size, who, keys, figure))
            if times:
                yield title, must_cells(times, most, " × " + who)
    if "opened" in subjects:
        yield "bytes with handles", must_cells(value(subjects["opened"], "bytes"), BYTES_MUST)
        for subject in data.get("huge", {"subjects": []})["subjects"]:
            for figure, most in HUGE_MUST:
                yield (f"{figure}, {data['huge']['timers']:,} timers",
                       must_cells(ratio(value(subject, figure), value(subjects["opened"], figure)), most,
                                  f" × of {size['timers']:,}"))


def growth_rows(small, large):
    """(name, cells): figures at the larger size divided by those at the smaller."""
    by_key = {subject["key"]: subject for subject in small["subjects"]}
    for subject in large["subjects"]:
        if subject["key"] in by_key:
            ratios = [ratio(value(subject, figure), value(by_key[subject["key"]], figure))
                      for figure, _ in FIGURES]
            yield subject["name"], ["–" if found is None else f"{found:.2f}{'!' * (found > GROWTH_MAX)}"
                                    for found in ratios]


def rivals_of(size):
    """(title, kinds, [(figure, name)]) of the rivals that were measured."""
    for title, kinds in RIVALS:
        found = [best(size["subjects"], figure, kinds) for figure, _ in FIGURES]
        if any(name for _, name in found):
            yield title, kinds, found


def names_of(found):
    return "; ".join(f"{title} {name}" for (_, title), (_, name) in zip(FIGURES, found) if name)


def machine_line(data):
    machine = data["machine"]
    return (f"{data['date']}, {machine['processor']}, {machine['cores']} cores, "
            f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, {machine['compiler']}, "
            f"{machine['flags']}; load average {machine['load_before']} before, "
            f"{machine['load_after']} after")


def floor_line(size):
    return (f"Memory floor, a random read of one of {size['timers']:,} records of 32 bytes: "
            f"{size['floor']['dependent']:.1f} ns if its address comes from the read before, "
            f"{size['floor']['independent']:.1f} ns if all are known"
            + (f"; a read and write of one of 16 bytes, prefetched: {size['floor']['ahead']:.1f} ns"
               if "ahead" in size["floor"] else ""))


def notes(data):
    size = data["sizes"][0]
    found = [f"{subject['name']} ({subject['version']}): {subject['note']}"
             for subject in size["subjects"] if subject["kind"] == "peer" and subject["note"]]
    found += [f"{subject['name']}: {subject['note']}" for subject in size["subjects"]
              if subject["kind"] != "peer" and subject["note"] and not subject["key"].endswith(("_ahead", "_many"))]
    return found


def line(name, cells):
    return f"{name:<41}" + "".join(f"{cell:>9}" for cell in cells)


def as_text(data):
    titles = [*(title for _, title in FIGURES), "late"]
    lines = [machine_line(data)]
    for size in data["sizes"]:
        lines += ["", f"{size['timers']:,} timers, ns per operation", floor_line(size), "",
                  line("", titles)]
        lines += [line(subject["name"], cells) for subject, cells in figure_rows(size)]
        lines += [line("floor, prefetched", floor_cells(size))]
        for title, kinds, found in rivals_of(size):
            lines += ["", line(title, [number(figure) for figure, _ in found]), "  " + names_of(found)]
            lines += [line("  " + name, cells) for name, cells in ratio_rows(size, kinds)]
        if "ahead" in size["floor"]:
            lines += ["", "Divided by the floor, prefetched"]
            lines += [line(name, cells) for name, cells in floor_rows(size)]
    for size in data["sizes"][1:]:
        lines += ["", f"At {size['timers']:,} timers, divided by the figure at "
                      f"{data['sizes'][0]['timers']:,}; ! where more than doubled"]
        lines += [line(name, cells) for name, cells in growth_rows(data["sizes"][0], size)]
    lines += ["", f"{'Must show':<32}{'asked':<40}{'measured':<36}"]
    lines += [f"{name:<32}{asked:<40}{measured:<36}{met}" for name, (asked, measured, met) in must_rows(data)]
    lines += ["", "* stopped early: too slow for the whole of it", *notes(data)]
    lines += [f"left out: {what}, {why}" for what, why in data["left_out"]]
    return "\n".join(lines)


def leaders(size, figures, count=2):
    """The keys of the rivals that are best over all figures: by the product of what each takes of them."""
    products = {subject["key"]: math.prod(value(subject, figure) for figure in figures) for subject in size["subjects"]
                if subject["kind"] != "ours" and all(value(subject, figure) for figure in figures)}
    return sorted(products, key=products.get)[:count]


def as_markdown(data):
    """Ours and the leaders at the smaller size alone; the plot has all subjects, the run prints the other sizes."""
    size, left_out = data["sizes"][0], {"coarse", "slow_steps"}
    shown = [place for place, (figure, _) in enumerate(FIGURES) if figure not in left_out]
    rivals = leaders(size, [FIGURES[place][0] for place in shown])
    lines = [f"Measured {machine_line(data)}.", "", f"{floor_line(size)}.", "",
             "| " + " | ".join(["ns per operation", *(FIGURES[place][1] for place in shown), "late"]) + " |",
             "|---|" + "---:|" * (len(shown) + 1)]
    for subject, cells in figure_rows(size):
        if not subject["key"].endswith("_ahead") and (subject["kind"] == "ours" or subject["key"] in rivals):
            name = f"**{subject['name']}**" if subject["kind"] == "ours" else subject["name"]
            lines.append("| " + " | ".join([name, *(cells[place].replace("*", "\\*") for place in [*shown, -1])]) + " |")
    lines += ["", "\\* stopped early: too slow for the whole of it."]
    lines += [f"- Left out: {what}, {why}." for what, why in data["left_out"]]
    return "\n".join(lines)


def write(data, path):
    """Puts the tables of `data` into the document, between its two marks."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n\n{as_markdown(data)}\n\n{END}{after}")
