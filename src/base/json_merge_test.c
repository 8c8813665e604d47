/* Goal: json_merge does what RFC 7396 says. Method: the table of its appendix A and the example of
 * its section 3; cases that the RFC leaves open (names given twice, escapes, blanks); texts that
 * are no JSON; many members. */
#include "base/json_merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

struct merge_case {
    const char *target, *patch, *result;
};

static void assert_merges(const struct merge_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct buffer out;

        buffer_init(&out);
        assert_int_equal(json_merge(bytes_of(cases[i].target), bytes_of(cases[i].patch), &out),
                         ERROR_NONE);
        buffer_append(&out, "", 1);
        assert_string_equal(out.data, cases[i].result);
        buffer_deinit(&out);
    }
}

#define ASSERT_MERGES(cases) assert_merges(cases, sizeof(cases) / sizeof((cases)[0]))

/* Goal: the table of RFC 7396, appendix A, row by row. */
/* proves: patch-merge */
static void test_appendix(void **state)
{
    static const struct merge_case cases[] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
        {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
        {"{\"a\":\"foo\"}", "null", "null"},
        {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
    };

    (void)state;
    ASSERT_MERGES(cases);
}

/* Goal: the document of RFC 7396, section 3. */
static void test_section_3(void **state)
{
    static const struct merge_case cases[] = {
        {"{\"title\":\"Goodbye!\",\"author\":{\"givenName\":\"John\",\"familyName\":\"Doe\"},"
         "\"tags\":[\"example\",\"sample\"],\"content\":\"This will be unchanged\"}",
         "{\"title\":\"Hello!\",\"phoneNumber\":\"+01-123-456-7890\","
         "\"author\":{\"familyName\":null},\"tags\":[\"example\"]}",
         "{\"title\":\"Hello!\",\"author\":{\"givenName\":\"John\"},\"tags\":[\"example\"],"
         "\"content\":\"This will be unchanged\",\"phoneNumber\":\"+01-123-456-7890\"}"},
    };

    (void)state;
    ASSERT_MERGES(cases);
}

/* Goal: bytes that the patch does not change stay; nulls in arrays stay; the last of equal names
 * counts, also when one of them is escaped; a name that the target has twice is there once. */
/* proves: patch-merge */
static void test_what_the_rfc_leaves_open(void **state)
{
    static const struct merge_case cases[] = {
        {"", "{\"a\":{\"b\":null,\"c\":1}}", "{\"a\":{\"c\":1}}"},
        {"", "{ \"a\" : 1 }", "{ \"a\" : 1 }"},
        {"{ \"a\" : [1, 2] , \"b\" : 1.0 }", "{\"b\": 2.50 }", "{\"a\":[1, 2],\"b\":2.50}"},
        {"1", "{\"a\":[null, {\"b\":null}]}", "{\"a\":[null, {\"b\":null}]}"},
        {"{}", "{\"a\":1,\"a\":2}", "{\"a\":2}"},
        {"{}", "{\"b\":{\"a\":1,\"a\":null}}", "{\"b\":{}}"},
        {"{\"a\":0}", "{\"a\":null,\"\\u0061\":2}", "{\"\\u0061\":2}"},
        {"{\"\\u0061\":0,\"\\u00e4\":1}", "{\"a\":{\"x\":1},\"\xc3\xa4\":null}",
         "{\"a\":{\"x\":1}}"},
        {"{\"a\":0,\"b\":1,\"a\":2}", "{\"a\":3}", "{\"a\":3,\"b\":1}"},
        {"{\"a\":{\"x\":1},\"a\":{\"y\":2}}", "{\"a\":{\"z\":3}}", "{\"a\":{\"x\":1,\"z\":3}}"},
        {"{\"a\":1,\"a\":2}", "{\"a\":null}", "{}"},
        {"{\"\":1,\"\\\"\":2}", "{\"\":null,\"\\u0022\":3}", "{\"\\u0022\":3}"},
        {"{\"a\":1}", "{}", "{\"a\":1}"},
    };

    (void)state;
    ASSERT_MERGES(cases);
}

/* Goal: what is not JSON is refused, in either text. */
static void test_merge_not_json(void **state)
{
    static const char *const wrong[] = {"{",   "{\"a\":}", "{\"a\":{\"b\":1}", "[1,",
                                        "nul", "{} x",     "{\"a\":{\"a\":1]}"};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct buffer out;

        buffer_init(&out);
        assert_int_equal(json_merge(BYTES("{\"a\":{}}"), bytes_of(wrong[i]), &out), ERROR_NOT_JSON);
        assert_int_equal(json_merge(bytes_of(wrong[i]), BYTES("{\"a\":{}}"), &out), ERROR_NOT_JSON);
        assert_int_equal(json_merge(bytes_of(wrong[i]), BYTES("1"), &out), ERROR_NOT_JSON);
        buffer_deinit(&out);
    }
    struct buffer out;

    buffer_init(&out);
    assert_int_equal(json_merge(BYTES("1"), BYTES(""), &out), ERROR_NOT_JSON);
    buffer_deinit(&out);
}

/* Goal: 50,000 members that change as many others come out in their order. Method: names that hash
 * and sort badly do not matter, because names are compared; the result is built by hand. */
static void test_many_members(void **state)
{
    enum { MEMBERS = 50000 };
    struct buffer target, patch, out, expected;

    (void)state;
    buffer_init(&target);
    buffer_init(&patch);
    buffer_init(&out);
    buffer_init(&expected);
    for (unsigned i = 0; i < MEMBERS; i++) {
        buffer_printf(&target, "%s\"k%u\":%u", i ? "," : "{", i, i);
        buffer_printf(&patch, "%s\"k%u\":%s", i ? "," : "{", MEMBERS - 1 - i, i % 2 ? "null" : "0");
        if (i % 2 == 1)
            buffer_printf(&expected, "%s\"k%u\":0", i > 1 ? "," : "{", i);
    }
    buffer_append_text(&target, "}");
    buffer_append_text(&patch, "}");
    buffer_append_text(&expected, "}");
    assert_int_equal(json_merge(buffer_bytes(&target), buffer_bytes(&patch), &out), ERROR_NONE);
    assert_true(bytes_equal(buffer_bytes(&out), buffer_bytes(&expected)));
    buffer_deinit(&target);
    buffer_deinit(&patch);
    buffer_deinit(&out);
    buffer_deinit(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appendix),
        cmocka_unit_test(test_section_3),
        cmocka_unit_test(test_what_the_rfc_leaves_open),
        cmocka_unit_test(test_merge_not_json),
        cmocka_unit_test(test_many_members),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
