/* Goal: of a body's few fields each is found once, whatever its spelling, and what is wrong is
 * pointed to. Method: tables of bodies with the values, or with the code, pointer and sentence. */
#include "api/json/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static const char *const names[] = {"watch", "fire"};

/* Out of memory that ends where the text ends. */
static enum error_code read(const char *text, struct bytes values[2], struct problem *problem,
                            char **ret_room)
{
    size_t size = strlen(text);

    *ret_room = malloc(size + !size);
    memcpy(*ret_room, text, size);
    return members_read((struct bytes){*ret_room, size}, names, 2, values, problem);
}

static void test_found(void **state)
{
    static const struct {
        const char *text, *watch, *fire;
    } cases[] = {
        {"{}", NULL, NULL},
        {" { } ", NULL, NULL},
        {"{\"fire\":true}", NULL, "true"},
        {"{\"fire\" : [ 1 ] ,\"watch\":{\"fire\":1}}", "{\"fire\":1}", "[ 1 ]"},
        {"{\"w\\u0061tch\":\"a\",\"\\u0066ire\":null}", "\"a\"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes values[2];
        struct problem problem;
        char *room;

        assert_int_equal(read(cases[i].text, values, &problem, &room), ERROR_NONE);
        assert_true(cases[i].watch ? bytes_equal(values[0], bytes_of(cases[i].watch))
                                   : !values[0].data);
        assert_true(cases[i].fire ? bytes_equal(values[1], bytes_of(cases[i].fire))
                                  : !values[1].data);
        free(room);
    }
}

/* proves: not-json */
static void test_refused(void **state)
{
    static const struct {
        const char *text, *pointer, *detail;
        enum error_code code;
    } cases[] = {
        {"[]", "#", "It must be an object", ERROR_INVALID},
        {"null", "#", "It must be an object", ERROR_INVALID},
        {"{\"Fire\":1}", "#/Fire", "There is no field `Fire`: did you mean `fire`?", ERROR_INVALID},
        {"{\"a/b\":1}", "#/a~1b", "There is no field `a/b`", ERROR_INVALID},
        {"{\"\":1}", "#/", "There is no field ``", ERROR_INVALID},
        {"{\"fire\":1,\"fire\":1}", "#/fire", "It is given twice", ERROR_INVALID},
        {"{\"fire\":1,\"\\u0066ire\":1}", "#/fire", "It is given twice", ERROR_INVALID},
        {"{\"fire\":1,}", "", "Byte 10: a name in quotes is expected", ERROR_NOT_JSON},
        {"{\"nope\":1,\"fire\":tru}", "", "Byte 17: a value is expected", ERROR_NOT_JSON},
        {"{} {}", "", "Byte 3: something follows the value", ERROR_NOT_JSON},
        {"", "", "Byte 0: a value is expected", ERROR_NOT_JSON},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes values[2];
        struct problem problem;
        char *room;

        assert_int_equal(read(cases[i].text, values, &problem, &room), cases[i].code);
        assert_string_equal(problem.faults[0].pointer, cases[i].pointer);
        assert_string_equal(problem.faults[0].detail, cases[i].detail);
        free(room);
    }
}

static void test_strings(void **state)
{
    static const struct {
        const char *text;
        size_t min, count;
        const char *detail; /* NULL: it is taken */
    } cases[] = {
        {"[]", 0, 0, NULL},
        {"[\"a\",\"b\"]", 0, 2, NULL},
        {"[ \"a\" , \"b\",\"\"]", 1, 3, NULL},
        {"[]", 1, 0, "It must have 1 to 3 elements"},
        {"[\"\",\"\",\"\",\"\"]", 1, 0, "It must have 1 to 3 elements"},
        {"[\"\",\"\",\"\",\"\"]", 0, 0, "It may have at most 3 elements"},
        {"[\"a\",1]", 0, 0, "It must be an array of strings"},
        {"[[\"a\"]]", 0, 0, "It must be an array of strings"},
        {"\"a\"", 0, 0, "It must be an array of strings"},
        {"{}", 1, 0, "It must be an array of strings"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct problem problem;
        size_t count = 7;
        enum error_code code = members_count_strings(bytes_of(cases[i].text), "#/ids", cases[i].min,
                                                     3, &count, &problem);

        assert_int_equal(code, cases[i].detail ? ERROR_INVALID : ERROR_NONE);
        assert_int_equal(count, cases[i].detail ? 7 : cases[i].count);
        if (cases[i].detail) {
            assert_string_equal(problem.faults[0].pointer, "#/ids");
            assert_string_equal(problem.faults[0].detail, cases[i].detail);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_strings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
