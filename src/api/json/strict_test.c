/* Goal: values of strict bodies are taken up to their bounds, and what is wrong is pointed to with
 * its sentence. Method: tables of JSON with the value, or with the code and the sentence. */
#include "api/json/strict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

struct strict_case {
    const char *text;
    uint64_t value; /* or how many strings */
    enum error_code code;
    const char *detail;
};

static void strict_begin(struct timer_parse *parse, const char *text, char *local,
                         struct problem *problem)
{
    *parse = (struct timer_parse){.problem = problem, .json = bytes_of(text), .local = local};
    problem_init(problem);
    json_reader_init(&parse->reader, parse->json);
}

static void strict_assert(const struct strict_case *it, enum error_code code, uint64_t value,
                          const struct problem *problem)
{
    if (code != it->code || (!code && value != it->value))
        fail_msg("%s: code %d, %llu", it->text, (int)code, (unsigned long long)value);
    if (code == ERROR_INVALID) {
        assert_string_equal(problem->faults[0].pointer, "#/it");
        assert_string_equal(problem->faults[0].detail, it->detail);
    }
}

static void test_strict_integers(void **state)
{
    static const struct strict_case cases[] = {
        {"2", 2, ERROR_NONE, NULL},
        {"9", 9, ERROR_NONE, NULL},
        {"2.0e0", 2, ERROR_NONE, NULL},
        {"1", 0, ERROR_INVALID, "It must be 2 to 9"},
        {"10", 0, ERROR_INVALID, "It must be 2 to 9"},
        {"2.5", 0, ERROR_INVALID, "It must be a whole number"},
        {"-2", 0, ERROR_INVALID, "It must not be negative"},
        {"18446744073709551616", 0, ERROR_INVALID, "The number is too large"},
        {"\"2\"", 0, ERROR_INVALID, "It must be a number"},
        {"null", 0, ERROR_INVALID, "It must be a number"},
        {"", 0, ERROR_NOT_JSON, NULL},
        {"-", 0, ERROR_NOT_JSON, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct timer_parse parse;
        struct problem problem;
        char local[TIMER_JSON_SCRATCH_SIZE];
        uint64_t value = 77;

        strict_begin(&parse, cases[i].text, local, &problem);
        enum error_code code = strict_integer(&parse, "#/it", 2, 9, &value);
        strict_assert(&cases[i], code, value, &problem);
        assert_true(!code || value == 77);
    }
}

static void take_letter(void *reading, struct bytes text)
{
    uint64_t *count = reading;

    assert_true(bytes_equal(text, BYTES("a")));
    ++*count;
}

static void test_strict_strings(void **state)
{
    static const struct strict_case cases[] = {
        {"[\"a\"]", 1, ERROR_NONE, NULL},
        {"[\"a\",\"\\u0061\",\"a\"]", 3, ERROR_NONE, NULL},
        {"[\"a\",\"a\",\"a\",\"a\"]", 0, ERROR_INVALID, "There may be at most 3"},
        {"[]", 0, ERROR_INVALID, "There must be at least one"},
        {"[\"a\",1]", 0, ERROR_INVALID, "It must be a string"},
        {"\"a\"", 0, ERROR_INVALID, "It must be an array of strings"},
        {"", 0, ERROR_NOT_JSON, NULL},
        {"[\"a\"", 0, ERROR_NOT_JSON, NULL},
        {"[\"a\",]", 0, ERROR_NOT_JSON, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct timer_parse parse;
        struct problem problem;
        char local[TIMER_JSON_SCRATCH_SIZE];
        uint64_t count = 0;

        strict_begin(&parse, cases[i].text, local, &problem);
        enum error_code code = strict_strings(&parse, "#/it", 3, take_letter, &count);
        strict_assert(&cases[i], code, count, &problem);
        assert_true(count <= 3);
    }
}

static void test_twice(void **state)
{
    struct timer_parse parse;
    struct problem problem;

    (void)state;
    strict_begin(&parse, "{}", NULL, &problem);
    assert_int_equal(strict_twice(&parse, "#/retry", BYTES("a/b")), ERROR_INVALID);
    assert_string_equal(problem.faults[0].pointer, "#/retry/a~1b");
    assert_string_equal(problem.faults[0].detail, "It is given twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strict_integers),
        cmocka_unit_test(test_strict_strings),
        cmocka_unit_test(test_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
