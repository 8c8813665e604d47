"""The style rules, as functions: each takes the root of a tree and returns the violations.

A violation is a text "path:line: violation", or "path: violation". tidy_test.py applies every rule to the repository
and, to show that each rule works, to a small tree with a planted offender.
"""

import os
import re
import subprocess

SKIPPED = {".git", "build", "data", "__pycache__", "node_modules"}
TEXT = (".c", ".h", ".py", ".md", ".txt", ".cmake", ".json", ".sh", ".supp", ".in", ".conf", ".yml")

PURPOSE_WORDS_MIN = 4  # of the comment at the top of a source

# From the ground up: what a folder of src/ may include besides itself.
BELOW = {
    "base": set(),
    "sys": {"base"},
    "log": {"base", "sys"},
    "calendar": {"base", "sys"},
    # of the daemon its settings only: it speaks HTTP, and to PostgreSQL where it makes the outbox
    "cli": {"base", "sys", "log", "calendar", "http", "ops"},
    "timer": {"base", "sys", "calendar"},
    "delivery_log": {"base", "sys", "timer"},
    "ops": {"base", "sys", "calendar", "timer"},
    "telemetry": {"base", "sys", "ops"},
    "http": {"base", "sys"},
    "store": {"base", "sys", "log", "timer"},
    "engine": {"base", "calendar", "timer", "store", "tickwheel"},  # no clock, no I/O: nothing of sys
    "cluster": {"base", "sys", "log", "timer", "http", "store", "engine"},
    "delivery": {"tickwheel", "base", "sys", "log", "calendar", "ops", "timer", "store", "engine"},
    "node": {"tickwheel", "base", "sys", "log", "calendar", "timer", "ops", "store", "engine", "cluster",
              "delivery", "delivery_log", "telemetry"},
    "api": {"base", "sys", "calendar", "timer", "ops", "http", "store", "engine", "delivery",
            "delivery_log", "node", "telemetry"},
    # of the API its JSON only: a row has the body of a request
    "source": {"base", "sys", "log", "calendar", "timer", "ops", "store", "engine", "delivery", "node", "api"},
}

# The rooms of src/api: what each may include of src/api besides itself. Files beside the rooms (the table of routes)
# include all of them; tests and their helpers are free.
ROOMS = {"api": {
    "json": set(),
    "core": {"json"},
    "timers": {"json", "core"},
    "queues": {"json", "core"},
    "operations": {"json", "core"},
}}

FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 69
COLUMNS_MAX = 100
LONG_MARK = re.compile(r"/\* long: \S.*")

BANNED = {
    name: "it is unsafe or not re-entrant" for name in
    "strcpy strcat sprintf vsprintf gets strtok atoi atol atoll atof system popen rand srand".split()
}
CLOCKS = {name: "only src/sys and the library's clock read the time" for name in
          "time gettimeofday clock_gettime".split()}
SLEEPS = {name: "wait for something, not for some time" for name in
          "sleep usleep nanosleep clock_nanosleep".split()}
PRINTS = {name: "only programs print" for name in
          "printf fprintf vprintf puts putchar perror".split()}

# Mutable data at file scope that has to be: "object: symbol", with the reason.
GLOBALS_KNOWN = {
    "scarce.c.o: memory",  # stands in for malloc, which knows no caller
    "clock.c.o: clock_virtual",  # stands in for the machine's clock, which is one for all
}


def files(root, *suffixes):
    """Paths below root, relative to it, in order."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - SKIPPED)
        for name in sorted(names):
            if name.endswith(suffixes) and name not in SKIPPED:
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", newline="") as file:
        return file.read()


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_of(text):
    """C without comments and without the contents of quotes; lines and columns stay."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  blank, text, flags=re.S)


def is_test(path):
    return path.startswith(("tests/", "bench/")) or \
        re.search(r"_(test|testing|fuzz|bench|oracle)\.[ch]$|/(fake|testing)/", path) is not None


def test_headers(root):
    """Headers of src/ that only tests include: their helpers, under any name."""
    users = {}
    for path in files(root, ".c", ".h"):
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', read(root, path), flags=re.M):
            for header in ("src/" + name, os.path.join(os.path.dirname(path), name)):
                users.setdefault(header, []).append(path)
    return {header for header, paths in users.items() if header.endswith(".h") and all(is_test(path) for path in paths)}


def room_above(path, target):
    """Whether `path` lies in a room of its folder, and includes `target` of a room above it or beside the rooms."""
    room, other = path.split("/")[2], target.split("/")[1]
    rooms = ROOMS.get(path.split("/")[1], {})
    return room in rooms and not is_test(path) and other != room and other not in rooms[room]


def layers(root):
    """No #include points up."""
    wrong = []
    for path in files(root, ".c", ".h"):
        parts = path.split("/")
        if parts[0] not in ("src", "lib"):
            continue
        folder = parts[1]
        # A comment may quote an include, a string may not.
        text = re.sub(r"/\*.*?\*/", blank, read(root, path), flags=re.S)
        for number, line in enumerate(text.split("\n"), 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^">]+)[>"]', line)
            if not found:
                continue
            target = found[2].split("/")[0]
            if parts[0] == "lib":
                own = [os.path.dirname(path)] + ["tests/support"] * is_test(path)
                if found[1] == '"' and not any(os.path.exists(os.path.join(root, own_folder, found[2])) for own_folder in own):
                    wrong.append(f"{path}:{number}: the library includes {found[2]}")
                continue
            is_ours = target in BELOW or target == "tickwheel"
            if not is_ours or "/" not in found[2]:
                continue
            if target != folder and target not in BELOW.get(folder, set()):
                wrong.append(f"{path}:{number}: {folder} includes {found[2]}")
            if target == folder and room_above(path, found[2]):
                wrong.append(f"{path}:{number}: {folder}/{parts[2]} includes {found[2]}")
    return wrong


# The modules of src/engine from the top down, with their files; the others hold types that all may include. A module
# includes only itself and what stands behind it, and the state of a module is named by its own files.
ENGINE_MODULES = {
    "engine": ("engine",),
    "commands": ("commands", "commands_answer", "create", "change", "complete", "explain", "forecast",
                 "fanout_commands"),
    "lookup": ("lookup",),
    "reload": ("reload",),
    "dispatch": ("dispatch", "dispatch_queue", "pull", "leases", "lateness", "connections", "survey", "survey_rows",
                 "waiting", "dispatch_name", "dispatch_limits", "dispatch_line", "dispatch_spill", "flows", "lanes", "order"),
    "spill": ("spill",),
    "fanout": ("fanout",),
    "outcome": ("outcome",),
    "window": ("window",),
    "dead": ("dead",),
    "second_scan": ("second_scan",),
    "watermark": ("watermark",),
    "commit": ("commit",),
    "effects": ("effects", "given_up", "feed_event"),
    "entries": ("entries", "recent", "live"),
    "tenant": ("tenant",),
    "history": ("history",),
    "position": ("position",),
    "ledger": ("ledger",),
    "budget": ("budget", "shares"),
    "pace": ("pace",),
}
ENGINE_TYPES = {"engine/engine.h", "engine/explain.h", "engine/forecast.h", "engine/survey.h", "engine/command.h", "engine/delivery.h",
                "engine/engine_core.h", "engine/engine_stats.h", "engine/given_up.h", "engine/feed_event.h", "engine/work.h"}
ENGINE_INNER = {"dispatch_queue.h", "dispatch_line.h", "dispatch_spill.h", "lanes.h", "order.h", "shares.h"}  # of one module, for its own files


def engine_modules(root):
    """The modules of the engine call down only, and none names another one's state."""
    wrong, of = [], {file: module for module, names in ENGINE_MODULES.items() for file in names}
    order = list(ENGINE_MODULES)
    for path in files(root, ".c", ".h"):
        own = of.get(os.path.splitext(os.path.basename(path))[0])
        if not path.startswith("src/engine/") or is_test(path) or path[4:] in ENGINE_TYPES:
            continue
        text = re.sub(r"/\*.*?\*/", blank, read(root, path), flags=re.S)
        if not own:
            wrong.append(f"{path}: of no module in ENGINE_MODULES")
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for found in re.finditer(r'#\s*include\s*"engine/((\w+)\.h)"', line):
                other = of.get(found[2])
                if "engine/" + found[1] in ENGINE_TYPES or not other:
                    continue
                if order.index(other) < order.index(own):
                    wrong.append(f"{path}:{number}: {own} includes {other}, which is above it")
                elif other != own and found[1] in ENGINE_INNER:
                    wrong.append(f"{path}:{number}: {found[1]} is of {other} alone")
            for found in re.finditer(r"\bengine->(\w+)->", line):
                if found[1] in ENGINE_MODULES and found[1] != own:
                    wrong.append(f"{path}:{number}: {own} names the state of {found[1]}")
    return wrong


def file_lengths(root):
    """No file is too long to read in one go."""
    return [f"{path}: {count} lines" for path in files(root, ".c", ".h", ".py", ".cmake")
            if (count := read(root, path).count("\n")) > FILE_LINES_MAX]


def functions(text):
    """(first line, last line) of each function body; it begins and ends in column 1."""
    lines = code_of(text).split("\n")
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            yield start, number
            start = None


def function_lengths(root):
    """No function is longer than a screen, unless it says why: a comment that begins with "long: "."""
    wrong = []
    for path in files(root, ".c", ".h"):
        text = read(root, path)
        lines = text.split("\n")
        for start, end in functions(text):
            body = "\n".join(lines[max(0, start - 12):end])
            if end - start + 1 > FUNCTION_LINES_MAX and not LONG_MARK.search(body):
                wrong.append(f"{path}:{start}: a function of {end - start + 1} lines")
    return wrong


def bans_of(path):
    """Name -> reason, of the calls that this file may not make."""
    bans = dict(BANNED)
    bans.update(SLEEPS)
    if is_test(path):
        return bans
    if not path.startswith(("src/sys/", "lib/src/clock", "lib/src/runner")):
        bans.update(CLOCKS)
    if path.startswith("src/sys/") or path.startswith("lib/src/clock"):
        for name in ("nanosleep", "clock_nanosleep"):
            del bans[name]
    if path.startswith(("src/", "lib/")) and not path.startswith("lib/examples/"):
        bans.update(PRINTS)
    if path.startswith("lib/"):
        bans.pop("fprintf", None)  # a failing check prints the broken invariant before it aborts
    return bans


def banned_calls(root):
    """No call that overflows, races, sleeps, or reads the time outside of the clock modules."""
    wrong, helpers = [], test_headers(root)
    for path in files(root, ".c", ".h"):
        bans = bans_of("tests/" + path if path in helpers else path)
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(bans) + r")\s*\(")
        for number, line in enumerate(code_of(read(root, path)).split("\n"), 1):
            wrong += [f"{path}:{number}: {name}(): {bans[name]}" for name in pattern.findall(line)]
    return wrong


# Files of src/api that may submit to the node directly; all others use call_ask, which names the tenant.
DOORS = {"node_submit": {"src/api/core/call.c", "src/api/timers/batch.c"}, "node_queue_submit": {"src/api/queues/queues.c"}}


def one_door(root):
    """Requests of the API to the node are made in the caller's name."""
    return [f"{path}:{number}: {found[1]}(): use call_ask"
            for path in files(root, ".c") if path.startswith("src/api/") and not is_test(path)
            for number, line in enumerate(code_of(read(root, path)).split("\n"), 1)
            for found in re.finditer(r"\b(node_\w*submit)\s*\(", line)
            if path not in DOORS.get(found[1], ())]


def secret_comparisons(root):
    """Looking for a token takes constant time: no call that stops at a difference, no early return."""
    wrong = []
    for path in files(root, ".c"):
        text = code_of(read(root, path))
        for function in re.finditer(r"(?ms)^[^\n;]*\b(tokens_find|tokens_hash_equal)\([^;{]*\)\n\{.*?^\}", text):
            number = text.count("\n", 0, function.start()) + 1
            early = re.findall(r"\b(?:memcmp|strn?cmp|bytes_equal|break|goto)\b", function[0])
            if early or function[0].count("return") > 1 or function[0].count("if (") > 0:
                wrong.append(f"{path}:{number}: {function[1]} may stop at a difference")
    return wrong


def archives(build):
    return [os.path.join(build, path) for path in files(build, ".a")]


def globals_of(archive):
    """"object: symbol" of whatever an archive keeps in writable memory."""
    listed = subprocess.run(["nm", "--format=sysv", archive], capture_output=True, text=True,
                            check=True).stdout
    member, found = "", []
    for line in listed.split("\n"):
        head = re.match(r"Symbols from .*\[(.*)\]:", line)
        if head:
            member = head[1]
        columns = [column.strip() for column in line.split("|")]
        if len(columns) != 7 or columns[3] not in ("OBJECT", "TLS"):
            continue
        section = columns[6]
        is_writable = re.match(r"\.(data|bss|tdata|tbss)", section) or section == "*COM*"
        # Relocated once by the loader, then read-only.
        if is_writable and not section.startswith(".data.rel.ro"):
            found.append(f"{member}: {columns[0]}")
    return found


def mutable_globals(build):
    """No writable global state. `build` is a build folder, not a source tree."""
    return [f"{os.path.basename(archive)}: {symbol}"
            for archive in archives(build) for symbol in globals_of(archive)
            if symbol not in GLOBALS_KNOWN]


def whitespace(root):
    """No trailing blanks, no tabs, no carriage returns, one newline at the end, 100 columns of C."""
    wrong = []
    for path in files(root, *TEXT) + [path for path in ("Makefile", "README.md")
                                      if os.path.exists(os.path.join(root, path))]:
        if "/golden/" in path:
            continue
        text = read(root, path)
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            wrong.append(f"{path}: ends in no newline, or in several")
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                wrong.append(f"{path}:{number}: trailing blanks")
            if "\t" in line and os.path.basename(path) != "Makefile":
                wrong.append(f"{path}:{number}: a tab")
            if len(line) > COLUMNS_MAX and path.endswith((".c", ".h")):
                wrong.append(f"{path}:{number}: {len(line)} columns")
    return wrong


def mains(root):
    """Only programs, tests, benchmarks and examples have a main."""
    return [f"{path}:{number}: a main"
            for path in files(root, ".c")
            if not is_test(path) and not path.startswith(("bin/", "lib/examples/"))
            for number, line in enumerate(code_of(read(root, path)).split("\n"), 1)
            if re.match(r"(int|void)\s+main\s*\(", line)]


def untested_functions(root):
    """Each function of the library's public headers is called by a test."""
    tested = "\n".join(code_of(read(root, path)) for path in files(root, ".c")
                       if is_test(path) and not path.startswith("bench/"))
    wrong = []
    for path in files(root, ".h"):
        if not path.startswith("lib/include/"):
            continue
        # A type before a pointer to a function, or made of one, is none.
        text = re.sub(r"(?m)^typedef [^;]*;", blank, code_of(read(root, path)))
        declared = re.findall(r"\b(tw_\w*[^\W_])\s*\((?!\*)", text)  # private ones end in "_"
        wrong += [f"{path}: no test calls {name}" for name in sorted(set(declared))
                  if not re.search(rf"\b{name}\s*\(", tested)]
    return wrong


def machine_paths(root):
    """No file contains a path of the machine on which it was written."""
    # In pieces, so that this file passes.
    pattern = re.compile(r"(?<![\w.])/(" + "|".join(["ho" + "me", "ro" + "ot", "wo" + "rk", "Us" + "ers"])
                         + r")/\w")
    wrong = []
    for path in files(root, ""):
        try:
            text = read(root, path)
        except UnicodeDecodeError:
            continue
        wrong += [f"{path}:{number}: {found.group()}"
                  for number, line in enumerate(text.split("\n"), 1)
                  for found in [pattern.search(line)] if found]
    return wrong


def headers_alone(root):
    """Each header compiles by itself; the public ones as strict C11 and without the service's folders."""
    wrong = []
    for path in files(root, ".h"):
        if path.startswith("lib/include/"):
            flags = ["-std=c11", "-pedantic", "-Ilib/include"]
            flags += ["-D_GNU_SOURCE"] if path.endswith("/uv.h") else []  # libuv's header needs it
        elif path.startswith("src/"):
            flags = ["-std=c11", "-D_GNU_SOURCE", "-Isrc", "-Ilib/include", "-Itests/support",
                     "-I/usr/include/postgresql"]  # where Debian puts libpq's header
        else:
            continue
        done = subprocess.run(
            [os.environ.get("CC", "cc"), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags,
             "-include", path, "-xc", "/dev/null"],
            cwd=root, capture_output=True, text=True, check=False)
        if done.returncode:
            wrong.append(f"{path}: {done.stderr.strip().splitlines()[0]}")
    return wrong


def headings(text):
    """The anchors of a document: its headings as links name them."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, flags=re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


def documented_links(root):
    """Each link of the documents to a file of the tree leads to an existing file, and to a heading of it."""
    wrong = []
    for path in files(root, ".md"):
        for number, line in enumerate(read(root, path).split("\n"), 1):
            for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", line):
                to = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
                if "://" in target:
                    continue
                if not os.path.exists(os.path.join(root, to)):
                    wrong.append(f"{path}:{number}: there is no {target}")
                elif heading and to.endswith(".md") and heading not in headings(read(root, to)):
                    wrong.append(f"{path}:{number}: there is no heading {heading} in {to}")
    return wrong


def named_pages(root):
    """A page that a source, a script, a test or a package names is there, with the heading that it names."""
    wrong = []
    for path in files(root, ".c", ".h", ".py", ".json", ".yml", ".conf", ".txt", ".go", ".java", ".ts", ".toml", ".properties",
                      ".service"):
        if path.startswith("tests/tidy/"):
            continue
        for number, line in enumerate(read(root, path).split("\n"), 1):
            for page, heading in re.findall(r"(?<![\w/.-])((?:docs/)?[A-Za-z][\w-]*\.md)\b(?:#([\w-]+))?", line):
                places = [page] if "/" in page else ["docs/" + page, page, os.path.join(os.path.dirname(path), page)]
                there = [each for each in places if os.path.exists(os.path.join(root, each))]
                if not there and (page.startswith("docs/") or path.startswith(("src/", "bin/", "packaging/")) and
                                  not is_test(path)):
                    wrong.append(f"{path}:{number}: there is no {page}")
                elif there and heading and heading not in headings(read(root, there[0])):
                    wrong.append(f"{path}:{number}: there is no heading {heading} in {there[0]}")
    return wrong


def short_documents(root):
    """docs/ has at most 28 pages, of 45,000 words together: who adds to it leaves out something else."""
    words = {path: len(read(root, path).split()) for path in files(root, ".md") if path.startswith("docs/")}
    if len(words) <= 28 and sum(words.values()) <= 45000:
        return []
    return [f"{max(words, key=words.get)}: the longest of {len(words)} pages with {sum(words.values())} words"]


def quotes(root):
    """A block after <!-- quote FILE NAME --> in a document equals the marked part of the source."""
    wrong = []
    for path in files(root, ".md"):
        text = read(root, path)
        for quote in re.finditer(r"<!-- quote (\S+) (\S+) -->\n(?:```c\n(.*?)```\n)?", text, flags=re.S):
            source = os.path.join(root, quote[1])
            part = os.path.exists(source) and re.search(
                rf"/\* \[quote: {re.escape(quote[2])}\] \*/\n(.*?)^ */\* \[end\] \*/\n",
                read(root, quote[1]), flags=re.S | re.M)
            if not part or part[1].rstrip() != (quote[3] or "").rstrip():
                number = text.count("\n", 0, quote.start()) + 1
                wrong.append(f"{path}:{number}: not what {quote[1]} says under {quote[2]}")
    return wrong


def purposes(root):
    """Each .c and .h opens with a comment that says what it is for."""
    wrong = []
    for path in files(root, ".c", ".h"):
        opening = re.match(r"/\*(.*?)\*/", read(root, path), flags=re.S)
        words = re.findall(r"[A-Za-z]{2,}", opening[1]) if opening else []
        if len(words) < PURPOSE_WORDS_MIN:
            wrong.append(f"{path}: does not open with its purpose")
    return wrong
