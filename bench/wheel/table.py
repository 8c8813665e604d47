"""The table of a run of run.py: for a terminal, and for docs/benchmarks.md."""

FIGURES = [("fill", "fill"), ("cancel", "cancel"), ("expire", "expire"), ("churn", "churn"),
           ("periodic", "periodic"), ("burst", "burst"), ("bytes", "bytes"), ("step_us", "step µs")]

NOT_TIMES = {"bytes", "step_us"}  # of one operation

# The targets of the chunk wheel, at this number of timers.
TARGETS_AT = 1000000
TARGETS = {
    "opened": {"fill": 3, "cancel": 3, "expire": 25, "churn": 6, "periodic": 12, "burst": 10,
               "bytes": 48, "step_us": 200},
    "scheduled": {"fill": 7, "cancel": 15, "expire": 32, "churn": 16, "periodic": 20, "burst": 4,
                  "bytes": 48, "step_us": 200},
}
GROWTH_MAX = 2  # at ten times the size

# What the chunk wheel must reach: a figure of a subject, and at most how many times which others. "floor" is the
# prefetched one of the same run; the Linux wheel is no exact peer, as its timers are late by design.
LISTS = {"lists", "seastar", "ratas", "wahern", "vpp", "linux"}
MUST = [
    ("scheduled", "fill", [(1.2, "the best list", LISTS)]),
    ("opened_ahead", "cancel", [(1.3, "floor", None)]),
    ("opened", "expire", [(4, "floor", None), (0.25, "the best exact peer", None)]),
    ("opened_ahead", "churn", [(1.5, "floor", None), (0.5, "the lazy heap", {"lazy_queue"})]),
    ("opened", "periodic", [(3, "floor", None), (0.25, "the best exact peer", None)]),
    ("opened", "burst", [(1.3, "floor", None)]),
    ("scheduled", "burst", [(1, "VPP", {"vpp"})]),
]
BYTES_MUST = 36

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


def targets_of(subject):
    return TARGETS.get(subject["key"].removesuffix("_ahead"), {})


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


def target_rows(size):
    """(name, cells): the chunk wheel's figures divided by their targets."""
    for subject in size["subjects"]:
        targets = targets_of(subject)
        if targets:
            ratios = [ratio(value(subject, figure), targets[figure]) for figure, _ in FIGURES]
            yield subject["name"], ["–" if found is None else f"{found:.2f}{'!' * (found > 1)}"
                                    for found in ratios]


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
             if (subject["key"] in keys if keys else subject["kind"] == "peer" and not subject["late_ticks"])]
    return min((figure for figure in found if figure is not None), default=None)


def must_rows(size):
    """(name, cells): figure, figure ÷ floor, and each limit with what is reached; none for earlier runs."""
    subjects = {subject["key"]: subject for subject in size["subjects"]}
    for key, figure, limits in MUST if "ahead" in size["floor"] else []:
        if key not in subjects:
            continue
        now = value(subjects[key], figure)
        reached = [(ratio(now, rival(size, who, keys, figure)), most, who) for most, who, keys in limits]
        texts = [f"{times:.2f} of {most} × {who}{'!' * (times > most)}" for times, most, who in reached if times]
        yield (f"{figure}, {subjects[key]['name']}",
               [number(now), f"{now / size['floor']['ahead']:.1f}", "; ".join(texts)])
    if "ahead" in size["floor"] and "opened" in subjects:
        now = value(subjects["opened"], "bytes")
        yield "bytes with handles", [number(now), "–", f"at most {BYTES_MUST}{'!' * (now > BYTES_MUST)}"]


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
              if subject["kind"] != "peer" and subject["note"] and not subject["key"].endswith("_ahead")]
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
        if size["timers"] == TARGETS_AT:
            lines += ["", "Divided by the target; ! where it is missed"]
            lines += [line(name, cells) for name, cells in target_rows(size)]
        if "ahead" in size["floor"]:
            lines += ["", "Divided by the floor, prefetched"]
            lines += [line(name, cells) for name, cells in floor_rows(size)]
            lines += ["", line("Must show; ! where it does not", ["now", "÷ floor", "reached"])]
            lines += [f"{line(name, cells[:2])}   {cells[2]}" for name, cells in must_rows(size)]
    for size in data["sizes"][1:]:
        lines += ["", f"At {size['timers']:,} timers, divided by the figure at "
                      f"{data['sizes'][0]['timers']:,}; ! where more than doubled"]
        lines += [line(name, cells) for name, cells in growth_rows(data["sizes"][0], size)]
    lines += ["", "* stopped early: too slow for the whole of it", *notes(data)]
    lines += [f"left out: {what}, {why}" for what, why in data["left_out"]]
    return "\n".join(lines)


def markdown_table(head, rows, more=()):
    titles = [*(title for _, title in FIGURES), *more]
    lines = ["| " + " | ".join([head, *titles]) + " |",
             "| --- |" + " ---: |" * len(titles)]
    return lines + ["| " + " | ".join([name, *cells]) + " |" for name, cells in rows]


def emphasized(size):
    for subject, cells in figure_rows(size):
        name = f"**{subject['name']}**" if subject["kind"] == "ours" else subject["name"]
        yield name, [cell.replace("*", "\\*") for cell in cells]
    yield "memory floor, prefetched", floor_cells(size)


def must_table(size):
    lines = ["| must show (! it does not) | now | ÷ floor | reached |", "| --- | ---: | ---: | --- |"]
    return lines + ["| " + " | ".join([name, *cells]) + " |" for name, cells in must_rows(size)]


def as_markdown(data):
    lines = ["Measured " + machine_line(data) + "."]
    for size in data["sizes"]:
        lines += ["", f"### {size['timers']:,} timers, ns per operation", "", floor_line(size) + ".", ""]
        lines += markdown_table("", emphasized(size), ["late"])
        for title, kinds, found in list(rivals_of(size))[:1]:  # the text has the yardsticks too
            lines += ["", f"The {title}: {names_of(found)}.", ""]
            lines += markdown_table(f"ours ÷ {title}", ratio_rows(size, kinds))
        if size["timers"] == TARGETS_AT:
            lines += ["", *markdown_table("ours ÷ target (! is missed)", target_rows(size))]
        if "ahead" in size["floor"]:
            lines += ["", *markdown_table("ours ÷ floor, prefetched", floor_rows(size))]
            lines += ["", *must_table(size)]
    for size in data["sizes"][1:]:
        lines += ["", *markdown_table(f"{size['timers']:,} ÷ {data['sizes'][0]['timers']:,} timers",
                                      growth_rows(data["sizes"][0], size))]
    lines += ["", "\\* stopped early: too slow for the whole of it."]
    lines += ["", *(f"- {note}." for note in notes(data))]
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
