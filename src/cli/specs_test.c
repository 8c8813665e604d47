/*
 * Goal: a text of documents means what its writer meant, or is refused with the line and a reason.
 * Method: texts with the JSON that YAML 1.2's core schema gives them, and texts that readers of
 * YAML disagree about.
 */
#include "cli/specs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static enum error_code specs_test_take(void *context, const struct spec_document *document,
                                       struct error *ret_error)
{
    struct buffer *out = context;

    (void)ret_error;
    buffer_printf(out, "%u:", document->line);
    buffer_append_bytes(out, document->json);
    buffer_append_text(out, "\n");
    return ERROR_NONE;
}

static void specs_test_check(const char *text, const char *expected)
{
    struct buffer out;
    struct error error;

    buffer_init(&out);
    if (specs_read(bytes_of(text), specs_test_take, &out, &error))
        fail_msg("%s: %s", text, error.text);
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, expected);
    buffer_deinit(&out);
}

static void specs_test_refuses(const char *text, const char *why)
{
    struct buffer out;
    struct error error;

    buffer_init(&out);
    assert_int_equal(specs_read(bytes_of(text), specs_test_take, &out, &error), ERROR_INVALID);
    if (!strstr(error.text, why))
        fail_msg("%s: \"%s\" has no \"%s\"", text, error.text, why);
    buffer_deinit(&out);
}

static void test_specs_of_yaml(void **state)
{
    (void)state;
    specs_test_check("", "");
    specs_test_check("# nothing\n---\n---\n", "");
    specs_test_check("a: 1\n---\n\nb: x\n", "1:{\"a\":1}\n4:{\"b\":\"x\"}\n");
    specs_test_check("a: no\nb: yes\nc: on\nd: y\n",
                     "1:{\"a\":\"no\",\"b\":\"yes\",\"c\":\"on\",\"d\":\"y\"}\n");
    specs_test_check(
        "a: 12:30\nb: 2026-12-24\nc: 1_000\nd: 1.2.3\ne: 0o8\nf: 1e\ng: -x\nh: .\n",
        "1:{\"a\":\"12:30\",\"b\":\"2026-12-24\",\"c\":\"1_000\",\"d\":\"1.2.3\",\"e\":\"0o8\","
        "\"f\":\"1e\",\"g\":\"-x\",\"h\":\".\"}\n");
    specs_test_check("a: true\nb: False\nc: ~\nd:\ne: Null\n",
                     "1:{\"a\":true,\"b\":false,\"c\":null,\"d\":null,\"e\":null}\n");
    specs_test_check("a: 12345678901234567890123\nb: -0.50\nc: 1E+3\n",
                     "1:{\"a\":12345678901234567890123,\"b\":-0.50,\"c\":1E+3}\n");
    specs_test_check(
        "a: '010'\n\"b\": \"\\u263a\\n\"\nc: |\n  x\n   y\nd: >-\n  x\n  y\n",
        "1:{\"a\":\"010\",\"b\":\"\xe2\x98\xba\\n\",\"c\":\"x\\n y\\n\",\"d\":\"x y\"}\n");
    specs_test_check("a: [x, {b: []}]\nc:\n- 1\n- d: 2\n",
                     "1:{\"a\":[\"x\",{\"b\":[]}],\"c\":[1,{\"d\":2}]}\n");
}

static void test_specs_of_json(void **state)
{
    (void)state;
    specs_test_check(" {\"a\" : 1.0,\n \"b\": [ {} , \"\\ud83d\\ude00\\/\" ] } ",
                     "1:{\"a\":1.0,\"b\":[{},\"\\ud83d\\ude00\\/\"]}\n");
    specs_test_check("[{\"a\": 1},\n\n{\"a\": 2}]", "1:{\"a\":1}\n3:{\"a\":2}\n");
    specs_test_check("{\"a\": [{}, {\"b\": 1}, [{}, 2], {}]}",
                     "1:{\"a\":[{},{\"b\":1},[{},2],{}]}\n");
    specs_test_check("[]", "");
    specs_test_refuses("{\"a\": 1,\n\"b\": {},\n\"\\u0061\": 2}",
                       "line 3: this key is there twice, first in line 1");
    specs_test_refuses("[1]", "line 1: a document is an object");
    specs_test_refuses("null", "line 1: a document is an object");
}

static void test_refused_specs(void **state)
{
    static const char *const numbers[] = {"010",  "0o17",  "0x1F", ".5", "1.", "+1",
                                          ".inf", "-.Inf", ".NaN", "00", "-01"};

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char text[32];

        snprintf(text, sizeof(text), "a: 1\nb: %s\n", numbers[i]);
        specs_test_refuses(text, "line 2: readers of YAML disagree about this number");
    }
    specs_test_refuses("a: &x 1\n", "line 1: anchors");
    specs_test_refuses("a: 1\nb: *x\n", "line 2: anchors");
    specs_test_refuses("a: &x [*x]\n", "line 1: anchors");
    specs_test_refuses("<<: *x\n", "anchors");
    specs_test_refuses("a: !!str 1\n", "line 1: tags");
    specs_test_refuses("!t {a: 1}\n", "line 1: tags");
    specs_test_refuses("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n",
                       "line 5: this key is there twice, first in line 3");
    specs_test_refuses("a: 1\n1: x\n", "line 2: a key is a string");
    specs_test_refuses("null: x\n", "line 1: a key is a string");
    specs_test_refuses("? [a]\n: b\n", "line 1: a key is a string");
    specs_test_refuses("a: [1\nb: 2\n", "this is no YAML");
    specs_test_refuses("a: 1\n\tb: 2\n", "this is no YAML");
    specs_test_refuses("a: \xff\n", "this is no YAML");
    specs_test_refuses("- a\n", "line 1: a document is an object");
    specs_test_refuses("just text\n", "line 1: a document is an object");
}

/* Returns a document of so many levels: an object with arrays in each other. The caller deinits
 * it. */
static struct buffer deep_specs(const char *key, unsigned levels)
{
    struct buffer text;

    buffer_init(&text);
    buffer_printf(&text, "{%s: ", key);
    for (unsigned i = 1; i < levels; i++)
        buffer_append_text(&text, "[");
    for (unsigned i = 1; i < levels; i++)
        buffer_append_text(&text, "]");
    buffer_append(&text, "}", 2);
    return text;
}

/* proves: apply-depth (at), apply-depth (beyond) */
static void test_depth_of_specs(void **state)
{
    static const char *const keys[] = {"a", "\"a\""}; /* YAML, JSON */

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct buffer out, good = deep_specs(keys[i], 60), deep = deep_specs(keys[i], 61),
                           deeper = deep_specs(keys[i], 200);
        struct error error;

        buffer_init(&out);
        assert_int_equal(specs_read(bytes_of(good.data), specs_test_take, &out, &error),
                         ERROR_NONE);
        specs_test_refuses(deep.data, "line 1: it is nested too deeply");
        specs_test_refuses(deeper.data, "line 1: it is nested too deeply");
        buffer_deinit(&out);
        buffer_deinit(&good);
        buffer_deinit(&deep);
        buffer_deinit(&deeper);
    }
}

static enum error_code specs_test_lines(void *context, const struct spec_document *document,
                                        struct error *ret_error)
{
    (void)context, (void)ret_error;
    assert_int_equal(spec_line(document, BYTES("/kind")), 2);
    assert_int_equal(spec_line(document, BYTES("/retry")), 3);
    assert_int_equal(spec_line(document, BYTES("/retry/a~1b")), 5);
    assert_int_equal(spec_line(document, BYTES("/retry/nowhere/0")), 3);
    assert_int_equal(spec_line(document, BYTES("/nowhere")), 2);
    assert_int_equal(spec_line(document, BYTES("")), 2);
    return ERROR_NONE;
}

static void test_lines_of_specs(void **state)
{
    struct error error;

    (void)state;
    assert_int_equal(specs_read(BYTES("---\nkind: x\nretry:\n  base: 1s\n  a/b: [1]\n"),
                                specs_test_lines, NULL, &error),
                     ERROR_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specs_of_yaml),  cmocka_unit_test(test_specs_of_json),
        cmocka_unit_test(test_refused_specs),  cmocka_unit_test(test_depth_of_specs),
        cmocka_unit_test(test_lines_of_specs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
