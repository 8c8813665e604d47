/*
 * Goal: texts of equal meaning are equal in canonical form, others are not, and a difference names
 * the innermost member with both values. Method: pairs of texts.
 */
#include "cli/canonical.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void canonical_test_check(const char *text, const char *expected)
{
    struct buffer out;

    buffer_init(&out);
    canonical_append(&out, bytes_of(text));
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, expected);
    buffer_deinit(&out);
}

static void test_canonical_form(void **state)
{
    (void)state;
    canonical_test_check(" { \"b\" : [ 1 , 2.0 ,{\"y\":1,\"x\":{}} ] , \"a\" : null } ",
                         "{\"a\":null,\"b\":[1,2.0,{\"x\":{},\"y\":1}]}");
    canonical_test_check("\"\\u0041\\/\\u00e9\\n\"", "\"A/\xc3\xa9\\n\"");
    canonical_test_check("{\"\\u0062\":1,\"a\":\"\"}", "{\"a\":\"\",\"b\":1}");
    canonical_test_check("{}", "{}");
    canonical_test_check("[]", "[]");
    canonical_test_check("-1e3", "-1e3");
}

static void canonical_test_note(void *context, struct bytes name, struct bytes old,
                                struct bytes new)
{
    buffer_printf(context, "%.*s:%.*s>%.*s;", (int)name.size, name.data, (int)old.size,
                  old.data ? old.data : "", (int)new.size, new.data ? new.data : "");
}

static void canonical_test_differ(const char *old, const char *new, const char *expected)
{
    struct buffer out;

    buffer_init(&out);
    canonical_differ(bytes_of(old), bytes_of(new), canonical_test_note, &out);
    buffer_append(&out, "", 1);
    assert_string_equal(out.data, expected);
    buffer_deinit(&out);
}

static void test_canonical_differences(void **state)
{
    (void)state;
    canonical_test_differ("{\"a\":1}", "{\"a\":1}", "");
    canonical_test_differ("{\"a\":1,\"b\":2,\"c\":3}", "{\"a\":1,\"c\":4,\"d\":5}",
                          "b:2>;c:3>4;d:>5;");
    canonical_test_differ("{\"a\":{\"x\":1,\"y\":[1]}}", "{\"a\":{\"x\":2,\"y\":[1,2]}}",
                          "a.x:1>2;a.y:[1]>[1,2];");
    canonical_test_differ("{\"a\":{\"x\":1}}", "{}", "a.x:1>;");
    canonical_test_differ("{}", "{\"a\":{\"x\":{\"y\":true}}}", "a.x.y:>true;");
    canonical_test_differ("{\"a\":{\"x\":1}}", "{\"a\":1}", "a:{\"x\":1}>1;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_form),
        cmocka_unit_test(test_canonical_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
