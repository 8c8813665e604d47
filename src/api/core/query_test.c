/*
 * Goal: a query is read strictly, and each of its faults is reported with the name of its
 * parameter. Method: a form of three parameters, by hand.
 */
#include "api/core/query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

struct query_values {
    uint64_t number;
    struct wall wall;
    unsigned words;
};

static const char *const query_test_names[] = {"number", "time", "word"};

static void query_test_take(void *context, size_t index, struct bytes value,
                            struct problem *problem)
{
    struct query_values *values = context;

    if (index == 0)
        query_number("number", value, 1, 10, &values->number, problem);
    else if (index == 1)
        query_wall("time", value, &values->wall, problem);
    else
        values->words++;
}

static enum error_code query_test_read(const char *text, struct query_values *ret_values,
                                       struct problem *ret_problem)
{
    const struct query_form form = {query_test_names, 3, .repeatable = 1u << 2, .parameters_max = 8,
                                    .take = query_test_take};
    char *room = malloc(strlen(text) + 1);

    assert_non_null(room);
    *ret_values = (struct query_values){0};
    enum error_code code = query_read(bytes_of(text), room, &form, ret_values, ret_problem);
    free(room);
    return code;
}

static void takes_each_parameter(void **state)
{
    (void)state;
    struct query_values values;
    struct problem problem;
    assert_int_equal(
        query_test_read("number=10&word=a&time=1970-01-01T00:00:00.007Z&word=b", &values, &problem),
        ERROR_NONE);
    assert_int_equal(values.number, 10);
    assert_int_equal(values.wall.ms, 7);
    assert_int_equal(values.words, 2);
    assert_int_equal(query_test_read("", &values, &problem), ERROR_NONE);
}

static void reports_each_fault(void **state)
{
    static const struct problem_fault wanted[] = {
        {"number", "It must be 1 to 10"},
        {"time", "It must be a time of RFC 3339, or milliseconds since 1970"},
        {"colour", "The parameters are number, time and word"},
        {"time", "It is given twice"},
    };

    (void)state;
    struct query_values values;
    struct problem problem;
    assert_int_equal(
        query_test_read("number=11&word=a&time=now&colour=red&time=1", &values, &problem),
        ERROR_INVALID);
    assert_int_equal(problem.code, ERROR_INVALID);
    assert_int_equal(problem.fault_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(problem.faults[i].pointer, wanted[i].pointer);
        assert_string_equal(problem.faults[i].detail, wanted[i].detail);
    }
}

static void refuses_what_cannot_be_read(void **state)
{
    (void)state;
    struct query_values values;
    struct problem problem;
    assert_int_equal(query_test_read("number=%zz", &values, &problem), ERROR_BAD_REQUEST);
    assert_int_equal(
        query_test_read("word&word&word&word&word&word&word&word&word", &values, &problem),
        ERROR_BAD_REQUEST);
    assert_string_equal(problem.faults[0].detail,
                        "The query is malformed, or has more than 8 parameters");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_each_parameter),
        cmocka_unit_test(reports_each_fault),
        cmocka_unit_test(refuses_what_cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
