#!/usr/bin/env python3
"""Goal: the tree keeps the style rules, and each rule finds a violation.

Method: every rule runs over the repository; over a small clean tree, where it must be silent; and over that tree
with a planted offender, which it must name.
"""

import os
import subprocess
import tempfile
import unittest

import circles
import fuzzing
import limits
import metrics
import names
import promises
import rules

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TW_TIDY_BUILD", "")  # a plain build folder; empty: its rule has its self-test only


PROMISES = "# Contract\n\n- `kept`: It is kept.\n- `told`: It is told.\n\n"
LIMITS = {"n-max": "100", "b-max": "16", "b-bytes": "4K", "good-ms": "1h", "other-ms": "3600000",
          "tenant": ""}


OPENAPI = """{"paths": {"/v1/a/{id}": {"get": {"parameters": [{"name": "n", "in": "query", "schema": {"maximum": 100}}],
 "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Redrive"}}}},
 "responses": {"200": {"$ref": "#/components/responses/Fine"}, "400": {}}}}},
 "components": {"responses": {"Fine": {"headers": {"ETag": {}}}},
 "schemas": {"A": {"properties": {"b": {"maxItems": 16, "items": {"enum": ["c"], "maxLength": 4096}}}},
 "Redrive": {"$ref": "#/components/schemas/A"}}}}\n"""


def contract_page(without=None, more="", **others):
    """The clean tree's promises and limits; `others` are further values by id."""
    values = {**LIMITS, **others}
    return PROMISES + "".join(f"- `{name}` ({f'`{value}`' if value else 'by tenant'}): goods\n"
                              for name, value in values.items() if name != without) + more


COVERED = {
    "[limits]": ["n-max", "    GET /v1/a/{id} ?n", "b-max", "    A.b", "b-bytes", "    A.b[]", "good-ms", "    GOOD_MAX",
                 "other-ms", "    OTHER_MAX", "tenant", "    tenant goods"],
    "[steps]": ["STEP_MAX: a step"],
}


def covered(without=None, section=None, more=""):
    """The clean tree's tests/tidy/contract.txt, with `more` at the end of a section."""
    return "".join(f"{head}\n" + "".join(f"{line}\n" for line in lines if line.strip() != without)
                   + (more if head == section else "")
                   for head, lines in COVERED.items())


PURPOSE = "/* A file of the clean tree. */\n"  # at the top of each of its sources
CLEAN = {
    "src/base/good.h": "#ifndef GOOD_H\n#define GOOD_H\n#define GOOD_MAX (60u * 60 * 1000) /* ms */\n"
                       "enum {\n    OTHER_MAX = GOOD_MAX,\n    STEP_MAX = 7,\n};\nstruct opaque;\nint good(void);\n#endif\n",
    "src/base/good.c": '#include "base/good.h"\n\nstruct opaque {\n    int a;\n};\n\nint good(void)\n{\n    return 1; /* strcpy( */\n}\n',
    "src/engine/engine.c": '#include "base/good.h"\n#include <tickwheel/wheel.h>\n',
    "src/sys/now.c": "#include <time.h>\n\nlong now(void)\n{\n    return time(0);\n}\n",
    "lib/include/tickwheel/wheel.h": "int tw_wheel_turn(int by);\n",
    "lib/src/wheel.c": "#include <tickwheel/wheel.h>\n",
    "lib/src/wheel_test.c": "int main(void)\n{\n    return tw_wheel_turn(1);\n}\n",
    "bin/program.c": "#include <stdio.h>\n\nint main(void)\n{\n    printf(\"hi\\n\");\n}\n",
    "src/base/printer.h": "#include <stdio.h>\nstatic inline void f(void)\n{\n    puts(\"x\");\n}\n",
    "src/base/printer_test.c": "#include \"base/printer.h\"\n",
    "docs/README.md": "See [the header](../src/base/good.h).\n",
    "lib/examples/loop.c": "struct known {\n    int a;\n};\nint a;\n/* [quote: loop] */\nint b;\n\nint c;\n/* [end] */\nint d;\n",
    "openapi.json": OPENAPI,
    "src/api/timers/dead_json_fuzz.dict": '"\\"b\\":"\n"\\"c\\""\n',
    "src/api/timers/dead_json_fuzz.c": "int a;\n",
    "src/api/timers/dead_json_fuzz.corpus": 'a "\\x00\\n\\\\"\nb ""\n',
    "src/base/error.h": '#define ERROR_LIST(X) X(NONE, "none") X(IO, "io")\n',
    "src/base/a_test.c": "/* Goal: it fits. */\n/* proves: kept, n-max, b-max */\nstatic void fits(void **state)\n{\n}\n"
                         "int main(void)\n{\n    TEST(fits);\n}\n",
    "tests/e2e/a_test.py": "# proves: told, b-bytes, good-ms\n# proves: other-ms (at), other-ms (beyond)\n"
                           "# proves: goods_max, tenant\n@slow\ndef test_a(self):\n    pass\n",
    "docs/contract.md": contract_page(),
    "tests/tidy/contract.txt": covered(),
    "docs/configuration.md": "- `goods_max` (`2`; 1 to 9): goods\n- `shards` (`1`; 1 to 64): threads\n"
                             "- `name` (9 bytes): a name\n- `sync` (`no`; no or yes): whether\n- `text`: a text\n",
    "src/ops/tokens.h": "#define LIST(X) X(goods, 1, 5)\n",
    "docs/metrics.md": "- `tickwheel_goods_total` {kind}: Goods.\n- `tickwheel_wait_seconds` (histogram): Waits.\n",
    "docs/loop.md": "So:\n\n<!-- quote lib/examples/loop.c loop -->\n```c\nint b;\n\nint c;\n```\n",
}


def body(lines, mark=""):
    return "int f(void)\n{\n" + mark + "    ;\n" * (lines - 2 - bool(mark)) + "}\n"


# rule -> (path, contents) pairs, each an offender by itself.
OFFENDERS = {
    rules.purposes: [
        ("src/base/bad.c", "#include <stdio.h>\n"),
        ("src/base/bad_test.c", "#include <stdio.h>\n\n/* A comment, but not at the top. */\n"),
        ("lib/include/tickwheel/bad.h", "/* bad.h */\n"),
        ("lib/src/bad.c", "\n"),
        ("bin/bad.c", "int main(void)\n{\n}\n"),
        ("tests/world/bad.h", "#define BAD\n"),
    ],
    names.unique_tags: [
        ("tests/e2e/bad.c", "struct known {\n    int a;\n};\n"),
        ("src/base/zbad.h", "enum known { A };\n"),
        ("src/base/zbad.c", "struct opaque {\n    int a;\n};\n"),
    ],
    names.unique_statics: [
        ("src/base/zbad.c", "static int f(void)\n{\n    return 1;\n}\n"),
        ("src/base/zbad_test.c", "static const struct known *f(int a,\n                             int b)\n{\n}\n"),
    ],
    names.prefixed_statics: [
        ("src/base/zbad.c", "static int f(void)\n{\n    return 1;\n}\n"),
        ("src/base/zbad.c", "static const struct known *zbadly_find(int a,\n                             int b)\n{\n}\n"),
    ],
    circles.circles: [("src/sys/bad.c", "long time(int a)\n{\n    return now();\n}\n")],
    metrics.metric_names: [
        ("docs/bad.md", "See `tickwheel_bads_total`.\n"),
        ("docs/bad.md", "See `tickwheel_goods_total_count`.\n"),
        ("docs/bad.md", "See `tickwheel_wai_`.\n"),
        ("tests/e2e/bad.py", "x = daemon.metric(\"tickwheel_bads_total\")\n"),
        ("tests/e2e/bad.py", "x = metric(self.daemon, 'tickwheel_bads')\n"),
    ],
    rules.layers: [
        ("src/base/up.c", '#include "sys/clock.h"\n'),
        ("src/sys/up.c", '#include "ops/config.h"\n'),
        ("src/http/up.c", '#  include "ops/metrics.h"\n'),
        ("src/store/up.c", '#include "engine/engine.h"\n'),
        ("src/engine/up.c", '#include "sys/clock.h"\n'),
        ("src/delivery/up.c", '#include "node/node.h"\n'),
        ("src/node/up.c", '#include "api/api.h"\n'),
        ("src/api/json/up.c", '#include "api/core/call.h"\n'),
        ("src/api/core/up.h", '#include "api/api.h"\n'),
        ("src/api/timers/up.c", '#include "api/queues/queues.h"\n'),
        ("src/base/up.h", "#include <tickwheel/wheel.h>\n"),
        ("lib/src/up.c", '#include "base/good.h"\n'),
        ("lib/include/tickwheel/up.h", '#include "../../src/base/good.h"\n'),
    ],
    rules.engine_modules: [
        ("src/engine/commit.c", '#include "engine/window.h"\n'),
        ("src/engine/window.h", '#include "engine/dispatch.h"\n'),
        ("src/engine/reload.c", '#include "engine/dispatch_queue.h"\n'),
        ("src/engine/reload.c", "int a(struct engine *engine)\n{\n    return engine->window->is_ready;\n}\n"),
        ("src/engine/stray.c", '#include "engine/engine.h"\n'),
    ],
    rules.file_lengths: [("src/base/long.c", "\n" * 1001)],
    rules.function_lengths: [("src/base/long.c", body(70))],
    rules.banned_calls: [
        ("src/base/bad.c", "void f(void)\n{\n    strcpy(a, b);\n}\n"),
        ("src/base/bad.c", "void f(void)\n{\n    x = atoi (b);\n}\n"),
        ("src/base/bad.c", "void f(void)\n{\n    printf(\"x\");\n}\n"),
        ("src/engine/bad.c", "void f(void)\n{\n    x = time(NULL);\n}\n"),
        ("src/node/bad.c", "void f(void)\n{\n    clock_gettime(a, b);\n}\n"),
        ("src/sys/bad.c", "void f(void)\n{\n    usleep(1);\n}\n"),
        ("tests/e2e/bad.c", "void f(void)\n{\n    sleep(1);\n}\n"),
        ("src/base/bad_test.c", "void f(void)\n{\n    srand(1);\n}\n"),
        ("src/base/bad.h", "void f(void)\n{\n    puts(\"x\");\n}\n"),  # included by nobody
    ],
    rules.whitespace: [
        ("src/base/bad.c", "int a; \n"),
        ("src/base/bad.c", "\tint a;\n"),
        ("src/base/bad.c", "int a;"),
        ("src/base/bad.c", "int a;\r\n"),
        ("src/base/bad.h", "/* " + "x" * 95 + " */\n"),
        ("docs/bad.md", "text \n"),
    ],
    rules.one_door: [
        ("src/api/bad.c", "void f(void)\n{\n    node_submit(node, request);\n}\n"),
        ("src/api/timers/batch.c", "void f(void)\n{\n    node_queue_submit(node, request);\n}\n"),
    ],
    rules.secret_comparisons: [
        ("src/ops/bad.c", "const struct token *tokens_find(int a)\n{\n    return memcmp(a, b, 32) ? NULL : a;\n}\n"),
        ("src/ops/bad.c", "int tokens_hash_equal(const char *a,\n               int b)\n{\n    for (;;)\n        if (a != b)\n"
                          "            return 0;\n    return 1;\n}\n"),
    ],
    rules.mains: [("src/base/bad.c", "int main(void)\n{\n}\n")],
    rules.untested_functions: [("lib/include/tickwheel/more.h", "void tw_more(void);\n")],
    rules.machine_paths: [("docs/bad.md", "Run /" + "home/me/tickwheel.\n")],
    rules.headers_alone: [
        ("lib/include/tickwheel/bad.h", "size_t tw_bad(void);\n"),
        ("src/base/bad.h", "struct x { uint64_t y; };\n"),
    ],
    rules.documented_links: [("docs/bad.md", "See [it](gone.md).\n"), ("docs/bad.md", "# It\n\n[it](#gone)\n")],
    rules.short_documents: [("docs/c.md", "word " * 45001)],
    rules.named_pages: [
        ("src/base/bad.h", "/* See docs/gone.md. */\n"),
        ("src/base/bad.c", "const char *text = \"see gone.md\";\n"),
        ("src/base/bad.c", "const char *section = \"loop.md#gone\";\n"),
        ("tests/e2e/bad_test.py", "# as docs/gone.md says\n"),
        ("packaging/bad.yml", "runbook: docs/loop.md#gone\n"),
    ],
    fuzzing.fuzz_words: [
        ("src/api/timers/dead_json_fuzz.dict", '"\\"b\\":"\n'),
        ("src/api/timers/dead_json_fuzz.dict", '"\\"c\\""\n"b"\n'),
    ],
    fuzzing.fuzz_corpora: [
        ("src/base/a_fuzz.c", "int a;\n"),
        ("src/base/a_fuzz.corpus", ""),
        *[("src/api/timers/dead_json_fuzz.corpus", text)
          for text in ('a "b"', 'a "b"\na "c"\n', 'b "b"\na "c"\n', 'a b\n', 'a "\\x61"\n', 'a "\\x0A"\n', 'a "\t"\n',
                       'a "\\"\n', 'a/b "c"\n', '.a "b"\n', '\n', 'a "b"\r\n', 'a "\x80"\n')],
    ],
    promises.proved: [
        ("docs/contract.md", contract_page(more="\n- `new`: It is new.\n")),
        ("docs/contract.md", contract_page(more="\n- `kept`: It is kept.\n")),
        ("docs/contract.md", contract_page(new="5")),
        ("docs/configuration.md", "- `goods_max` (`2`; 1 to 9): goods\n- `bads_max` (`2`; 1 to 9): bads\n"),
        ("docs/contract.md", contract_page(more="\n- `b-max`: It is new.\n")),
        ("src/base/b_test.c", "/* proves: gone */\nstatic void b(void **state)\n{\n}\nint c[] = {TEST(b)};\n"),
        ("src/base/b_test.c", "/* proves: kept */\nstatic void b(void **state)\n{\n}\n"),
        ("src/base/b_test.c", "/* proves: kept */\n\nstatic void b(void **state)\n{\n}\nint c[] = {TEST(b)};\n"),
        ("src/base/b_test.c", "/* proves: kept (at) */\nstatic void b(void **state)\n{\n}\nint c[] = {TEST(b)};\n"),
        ("tests/e2e/b_test.py", "# proves: told (under)\ndef test_b(self):\n    pass\n"),
        ("tests/e2e/b_test.py", "# proves: told\ndef helper(self):\n    pass\n"),
        ("tests/e2e/b_test.py", "# proves: told,kept\ndef test_b(self):\n    pass\n"),
    ],
    limits.limits_known: [
        *[("tests/tidy/contract.txt", covered(section="[limits]", more=f"n-max\n    {name}\n"))
          for name in ("GET /v1/a/{id} ?m", "A.c", "A.b{name}", "GONE_MAX", "bads_max", "name", "tenant bads")],
        ("tests/tidy/contract.txt", covered(section="[limits]", more="gone\n")),
        ("tests/tidy/contract.txt", covered(section="[steps]", more="GONE_MAX: a step\n")),
        *[("docs/contract.md", contract_page(**{name: value}))
          for name, value in (("n-max", "101"), ("b-max", ""), ("b-bytes", "4000"), ("good-ms", "1h1ms"), ("other-ms", "3600"),
                              ("new", "5"))],
        ("docs/contract.md", contract_page(more="- `goods_max` (set elsewhere): goods\n")),
        ("src/sys/more.c", "#define GOOD_MAX (60u * 60 * 1000)\n"),
        ("src/sys/more.c", "#define MORE_MAX 5\n"),
    ],
    rules.quotes: [
        ("docs/bad.md", "<!-- quote lib/examples/loop.c loop -->\n```c\nint b;\nint c;\n```\n"),
        ("docs/bad.md", "<!-- quote lib/examples/loop.c loop -->\n\n```c\nint b;\n\nint c;\n```\n"),
        ("docs/bad.md", "<!-- quote lib/examples/loop.c gone -->\n```c\nint b;\n```\n"),
        ("docs/bad.md", "<!-- quote lib/examples/gone.c loop -->\n```c\nint b;\n```\n"),
    ],
}

# Contents that look like an offender and are none.
INNOCENT = {
    names.unique_tags: [("src/base/zc.c", "struct known;\nstruct known *f(const struct known a[2]);\n/* enum known { */\n"),
                        ("src/base/zc_test.c", "struct opaque {\n    int a;\n};\n")],
    names.prefixed_statics: [
        ("src/base/zc_lines.c", "struct part {\n    int a;\n};\nstatic int part_end(void)\n{\n}\n"
                                "static int zc_begin(void)\n{\n}\nstatic int line_end(void)\n{\n}\n"),
        ("src/base/zc_test.c", "static int f(void)\n{\n}\n"),
    ],
    names.unique_statics: [
        ("src/base/zc.c", "static const int a[] = {zc_a(1)};\nint f(void)\n{\n}\nstatic int (*g)(int f);\n"),
        ("lib/src/zc.c", "static int f(void)\n{\n}\n"),
    ],
    circles.circles: [
        ("src/sys/c.c", "long later(void)\n{\n    return now();\n}\n"),
        ("src/sys/c.c", "static long time(int a)\n{\n    return now();\n}\nstruct now {\n    int time;\n};\n"),
        ("src/sys/c_test.c", "long time(int a)\n{\n    return now();\n}\n"),
    ],
    metrics.metric_names: [
        ("docs/c.md", "`tickwheel_goods_total`, `tickwheel_wait_seconds_count`, `tickwheel_wait_`, tickwheel_static\n"),
        ("tests/e2e/c.py", "x = daemon.metric(\"tickwheel_goods_total\")\nfolder = \"tickwheel_static\"\n"),
    ],
    rules.layers: [
        ("src/base/c.c", '/*\n#include "sys/clock.h"\n*/\n'),
        ("src/api/timers/down.c", '#include "api/core/call.h"\n#include "api/timers/b.h"\n#include "http/a.h"\n'),
        ("src/api/all.c", '#include "api/timers/b.h"\n'),
        ("src/api/json/all_test.c", '#include "api/core/call.h"\n'),
    ],
    rules.engine_modules: [
        ("src/engine/window.c", '#include "engine/commit.h"\n#include "engine/engine.h"\n'),
        ("src/engine/window.c", "int a(struct engine *engine)\n{\n    return engine->window->is_ready;\n}\n"),
    ],
    rules.one_door: [("src/api/core/call.c", "void f(void)\n{\n    node_submit(node, request);\n}\n")],
    rules.secret_comparisons: [
        ("src/ops/c.c", "int tokens_find(int a)\n{\n    return a;\n}\nint g(void)\n{\n    memcmp(a, b, 1);\n}\n"),
    ],
    rules.function_lengths: [
        ("src/base/fits.c", body(69)),
        ("src/base/says_why.c", body(80, "    /* long: a table of cases reads best in one piece */\n")),
    ],
    rules.banned_calls: [
        ("src/base/c.c", "int a = 1; // strcpy(a, b)\nconst char *b = \"system(\";\n"),
        ("src/base/c.c", "int mystrcpy(int x);\nint f(struct s *s)\n{\n    s->time(1);\n    s.time(2);\n}\n"),
        ("src/base/c_test.c", "void f(void)\n{\n    printf(\"x\");\n}\n"),
    ],
    rules.untested_functions: [
        ("lib/include/tickwheel/c.h",
         "struct tw_c {\n    struct tw_d (*now)(void);\n};\ntypedef void tw_handler(int a,\n    int b);\n"),
    ],
    rules.named_pages: [("src/base/c.c", "/* docs/loop.md, README.md. */\nconst char *a = \"metrics.md\";\n"),
                        ("tests/e2e/c_test.py", "page = \"page.md\"\n")],
    rules.documented_links: [("docs/c.md", "# A `b` [c](README.md), d\n\n[a](https://x.example/y#z) [b](README.md) [c](#a-b-c-d)\n")],
    promises.proved: [
        ("src/base/b_test.c", "/* proves: kept */\n/* proves: goods_max (beyond) */\nstatic void b(void **state)\n{\n}\n"
                              "int c[] = {TEST(b)};\n"),
    ],
    limits.limits_known: [
        ("tests/tidy/contract.txt", covered(without="A.b[]", section="[limits]", more="b-bytes\n    A.{b[],b[]}\n")),
        ("tests/tidy/contract.txt", covered(without="GET /v1/a/{id} ?n", section="[limits]", more="n-max\n    * ?n\n")),
        ("openapi.json", OPENAPI.replace('"schemas": {', '"schemas": {"Answer": {"maxItems": 5}, ')),
    ],
    rules.machine_paths: [("docs/c.md", "https://x.example/" + "work/a\n")],
}


def plant(root, path, contents):
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    with open(os.path.join(root, path), "w", encoding="utf-8", newline="") as file:
        file.write(contents)


class Tree(tempfile.TemporaryDirectory):
    """A clean little tree."""

    def __enter__(self):
        root = super().__enter__()
        for path, contents in CLEAN.items():
            plant(root, path, (PURPOSE if path.endswith((".c", ".h")) else "") + contents)
        return root


class TheRepository(unittest.TestCase):
    def check(self, rule, where=ROOT):
        wrong = rule(where)
        if wrong:
            self.fail("\n" + rule.__doc__ + "\n" + "\n".join(wrong))


def add_rule(rule):
    setattr(TheRepository, "test_" + rule.__name__, lambda self: self.check(rule))


for each in OFFENDERS:
    add_rule(each)


class TheRules(unittest.TestCase):
    def test_each_is_silent_on_a_clean_tree(self):
        for rule in OFFENDERS:
            with self.subTest(rule=rule.__name__), Tree() as root:
                self.assertEqual(rule(root), [])

    def test_each_names_its_offender(self):
        for rule, offenders in OFFENDERS.items():
            for path, contents in offenders:
                with self.subTest(rule=rule.__name__, path=path), Tree() as root:
                    plant(root, path, contents)
                    wrong = rule(root)
                    self.assertEqual(len(wrong), 1, wrong)
                    self.assertTrue(wrong[0].startswith(path + ":"), wrong)

    def test_each_leaves_the_innocent_alone(self):
        for rule, innocents in INNOCENT.items():
            for path, contents in innocents:
                with self.subTest(rule=rule.__name__, path=path), Tree() as root:
                    plant(root, path, contents)
                    self.assertEqual(rule(root), [])


class MutableGlobals(unittest.TestCase):
    """The rule that examines the compiled archives."""

    def archive(self, root, source):
        plant(root, "x.c", source)
        subprocess.run([os.environ.get("CC", "cc"), "-fPIE", "-c", "x.c"], cwd=root, check=True)
        subprocess.run(["ar", "rcs", "libx.a", "x.o"], cwd=root, check=True)

    def test_names_its_offenders(self):
        for source in ("int a;", "static int a = 1; int *f(void) { return &a; }",
                       "int f(void) { static int a; return a++; }", "_Thread_local int a;",
                       "const char *a = \"text\";"):
            with self.subTest(source=source), tempfile.TemporaryDirectory() as root:
                self.archive(root, source)
                wrong = rules.mutable_globals(root)
                self.assertEqual(len(wrong), 1, wrong)
                self.assertTrue(wrong[0].startswith("libx.a: x.o: a"), wrong)

    def test_leaves_constants_alone(self):
        with tempfile.TemporaryDirectory() as root:
            self.archive(root, "extern int f(void); const int a = 1; "
                               "static const char *const b[] = {\"x\", \"y\"}; "
                               "const char *g(int i) { return b[i]; } int (*const h)(void) = f;")
            self.assertEqual(rules.mutable_globals(root), [])

    @unittest.skipUnless(BUILD, "a sanitizer's or coverage build has data of its own")
    def test_the_build(self):
        self.assertTrue(rules.archives(BUILD), "nothing is built in " + BUILD)
        wrong = rules.mutable_globals(BUILD)
        if wrong:
            self.fail("\n" + "\n".join(wrong))


if __name__ == "__main__":
    unittest.main(verbosity=2)
