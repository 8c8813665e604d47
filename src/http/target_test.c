/*
 * Goal: a request target is split and decoded exactly, and a malformed one is refused. Method:
 * tables.
 */
#include "http/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void targets(void **state)
{
    static const struct {
        const char *target, *path, *query; /* path NULL: refused */
    } cases[] = {
        {"/", "/", ""},
        {"/a/b", "/a/b", ""},
        {"/a?x=1", "/a", "x=1"},
        {"/a?", "/a", ""},
        {"/a?x?y", "/a", "x?y"},
        {"/?a/b", "/", "a/b"},
        {"http://host:80/a?b", "/a", "b"},
        {"HTTPS://host/a", "/a", ""},
        {"http://host", NULL, NULL},
        {"http://host?x", NULL, NULL},
        {"", NULL, NULL},
        {"*", NULL, NULL},
        {"a/b", NULL, NULL},
        {"/a b", NULL, NULL},
        {"/a\tb", NULL, NULL},
        {"/a#b", NULL, NULL},
        {"/\x7f", NULL, NULL},
        {"/\xc3\xa4", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_target target;
        enum error_code error = http_target_parse(bytes_of(cases[i].target), &target);

        assert_int_equal(error, cases[i].path ? ERROR_NONE : ERROR_BAD_REQUEST);
        if (!error) {
            assert_true(bytes_equal(target.path, bytes_of(cases[i].path)));
            assert_true(bytes_equal(target.query, bytes_of(cases[i].query)));
        }
    }
}

static void authorities(void **state)
{
    static const struct {
        const char *target, *authority; /* NULL: none */
    } cases[] = {
        {"/a", NULL},
        {"/http://host/a", NULL},
        {"http://host:80/a?b", "host:80"},
        {"HTTPS://host/a", "host"},
        {"http:///a", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct http_target target = {.authority = BYTES("before")};

        assert_int_equal(http_target_parse(bytes_of(cases[i].target), &target), ERROR_NONE);
        assert_int_equal(!target.authority.data, !cases[i].authority);
        if (cases[i].authority)
            assert_true(bytes_equal(target.authority, bytes_of(cases[i].authority)));
    }
}

static void segments(void **state)
{
    struct bytes path = BYTES("/a//b/"), segment;

    (void)state;
    assert_true(http_path_next(&path, &segment) && bytes_equal(segment, BYTES("a")));
    assert_true(http_path_next(&path, &segment) && segment.size == 0);
    assert_true(http_path_next(&path, &segment) && bytes_equal(segment, BYTES("b")));
    assert_true(http_path_next(&path, &segment) && segment.size == 0);
    assert_false(http_path_next(&path, &segment));
}

static void escapes(void **state)
{
    static const struct {
        const char *text, *decoded; /* NULL: refused */
    } cases[] = {
        {"", ""},       {"abc", "abc"},   {"a%20b", "a b"},       {"%41%4a%4A", "AJJ"},
        {"a+b", "a+b"}, {"%2F%25", "/%"}, {"%c3%a4", "\xc3\xa4"}, {"%", NULL},
        {"%4", NULL},   {"a%4", NULL},    {"%4g", NULL},          {"%g4", NULL},
        {"%00", NULL},  {"a%00b", NULL},  {"%%41", NULL},         {"%-1", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes decoded;
        char room[32];
        enum error_code error = http_percent_decode(bytes_of(cases[i].text), room, &decoded);

        assert_int_equal(error, cases[i].decoded ? ERROR_NONE : ERROR_BAD_REQUEST);
        if (!error)
            assert_true(bytes_equal(decoded, bytes_of(cases[i].decoded)));
    }
}

static void queries(void **state)
{
    struct bytes query = BYTES("a=1&b=&c&&label=k%3Av+w&=x&a==2");
    static const char *const wanted[][2] = {{"a", "1"},         {"b", ""}, {"c", ""},
                                            {"label", "k:v w"}, {"", "x"}, {"a", "=2"}};

    (void)state;
    struct http_parameter parameters[6];
    char room[64];
    size_t count;
    assert_int_equal(http_query_parse(query, room, parameters, 6, &count), ERROR_NONE);
    assert_int_equal(count, 6);
    for (size_t i = 0; i < count; i++) {
        assert_true(bytes_equal(parameters[i].name, bytes_of(wanted[i][0])));
        assert_true(bytes_equal(parameters[i].value, bytes_of(wanted[i][1])));
    }
    assert_int_equal(http_query_parse(query, room, parameters, 5, &count), ERROR_BAD_REQUEST);
    assert_int_equal(http_query_parse(BYTES("a=%0"), room, parameters, 6, &count),
                     ERROR_BAD_REQUEST);
    assert_int_equal(http_query_parse(BYTES("%zz=1"), room, parameters, 6, &count),
                     ERROR_BAD_REQUEST);
    assert_int_equal(http_query_parse(BYTES(""), room, parameters, 6, &count), ERROR_NONE);
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets), cmocka_unit_test(authorities), cmocka_unit_test(segments),
        cmocka_unit_test(escapes), cmocka_unit_test(queries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
