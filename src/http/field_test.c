/*
 * Goal: header values are read as RFC 9110 and 7240 write them, and nothing else passes. Method:
 * tables of values with what they must mean.
 */
#include "http/field.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void media_types(void **state)
{
    static const struct {
        const char *field;
        bool is_json;
    } cases[] = {
        {"application/json", true},
        {"Application/JSON", true},
        {"application/json; charset=utf-8", true},
        {"application/json;charset=\"UTF-8\"", true},
        {" application/json ; a=b; charset=Utf-8", true},
        {"application/json;", true},
        {"application/json; note=\"a;charset=latin1\"", true},
        {"application/json; charset=latin1", false},
        {"application/json; charset=", false},
        {"application/json; charset", false},
        {"application/jsonl", false},
        {"application/jso", false},
        {"text/plain; application/json", false},
        {"application/json, text/plain", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(http_media_type_is(bytes_of(cases[i].field), "application/json"),
                         cases[i].is_json);
}

static void entity_tags(void **state)
{
    static const struct {
        const char *field;
        enum http_tag_kind kind;
        const char *opaque;
    } cases[] = {
        {"\"3\"", HTTP_TAG_STRONG, "3"}, {"  \"3\"\t", HTTP_TAG_STRONG, "3"},
        {"\"\"", HTTP_TAG_STRONG, ""},   {"\"a!#\xc3\xa4\"", HTTP_TAG_STRONG, "a!#\xc3\xa4"},
        {"W/\"3\"", HTTP_TAG_WEAK, "3"}, {"*", HTTP_TAG_ANY, NULL},
        {" * ", HTTP_TAG_ANY, NULL},     {"\"1\", \"2\"", HTTP_TAG_LIST, NULL},
        {"\"1\",", HTTP_TAG_LIST, NULL}, {"w/\"3\"", HTTP_TAG_BAD, NULL},
        {"3", HTTP_TAG_BAD, NULL},       {"\"3", HTTP_TAG_BAD, NULL},
        {"3\"", HTTP_TAG_BAD, NULL},     {"\"", HTTP_TAG_BAD, NULL},
        {"\"3\"4", HTTP_TAG_BAD, NULL},  {"\"a b\"", HTTP_TAG_BAD, NULL},
        {"**", HTTP_TAG_BAD, NULL},      {"W/", HTTP_TAG_BAD, NULL},
        {"", HTTP_TAG_BAD, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes opaque = {0};

        assert_int_equal(http_tag_parse(bytes_of(cases[i].field), &opaque), cases[i].kind);
        if (cases[i].opaque)
            assert_true(bytes_equal(opaque, bytes_of(cases[i].opaque)));
    }
}

static void preferences(void **state)
{
    static const struct {
        const char *field;
        bool is_minimal;
    } cases[] = {
        {"return=minimal", true},
        {"Return=Minimal", true},
        {"return=\"minimal\"", true},
        {"respond-async, return=minimal", true},
        {"wait=10,return = minimal;x=y", true},
        {"return=representation, return=minimal", false},
        {"return", false},
        {"return=minimal2", false},
        {"x=\"a, return=minimal\"", false},
        {"xreturn=minimal", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(http_prefers(bytes_of(cases[i].field), "return", "minimal"),
                         cases[i].is_minimal);
    assert_false(http_prefers((struct bytes){0}, "return", "minimal"));
}

/* proves: metrics */
static void accepted_types(void **state)
{
    static const struct {
        const char *field;
        unsigned weight;
    } cases[] = {
        {"text/plain", 1000},
        {"Text/Plain; Version=1.0.0", 1000},
        {"text/plain;version=\"1.0.0\";q=0.5", 500},
        {"text/plain;version=0.0.1", 0},
        {"application/json, text/plain;q=0.125;version=1.0.0", 125},
        {"text/plain;version=0.0.1;q=0.9,text/plain;version=1.0.0;q=0.3,*/*;q=0.1", 300},
        {"text/plain;q=1.000", 1000},
        {"text/plain;q=0", 0},
        {"text/plain;q=1.001", 0},
        {"text/plain;q=0.1234", 0},
        {"text/plain;q=2", 0},
        {"text/plain;q=.5", 0},
        {"text/plain;q=0,5", 0},
        {"text/plain;q=0.x", 0},
        {"text/plain;q=", 0},
        {"text/*", 0},
        {"*/*", 0},
        {"text/plainer", 0},
        {"x=\", text/plain\"", 0},
        {"", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(http_accept_weight(bytes_of(cases[i].field), "text/plain", "1.0.0"),
                         cases[i].weight);
    assert_int_equal(http_accept_weight((struct bytes){0}, "text/plain", "1.0.0"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(media_types),
        cmocka_unit_test(entity_tags),
        cmocka_unit_test(preferences),
        cmocka_unit_test(accepted_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
