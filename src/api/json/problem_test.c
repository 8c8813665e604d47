/* Goal: a problem is valid JSON of RFC 9457 whatever went into it. Method: exact texts, then
 * details and pointers that fill their fields, read back by json.h. */
#include "api/json/problem.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

static void assert_formatted(const struct problem *problem, const char *expected)
{
    struct buffer buffer;

    buffer_init(&buffer);
    problem_format(problem, &buffer);
    buffer_append(&buffer, "", 1);
    assert_string_equal(buffer.data, expected);
    buffer_deinit(&buffer);
}

/* proves: problem */
static void test_format(void **state)
{
    (void)state;
    struct problem problem;
    assert_int_equal(
        problem_set(&problem, ERROR_INVALID, "#/retry/base", "It is %d \"too\" long", 2),
        ERROR_INVALID);
    assert_formatted(&problem, "{\"type\":\"/problems/invalid\",\"title\":\"A field is wrong\","
                               "\"status\":422,\"detail\":\"It is 2 \\\"too\\\" long\","
                               "\"errors\":[{\"pointer\":\"#/retry/base\","
                               "\"detail\":\"It is 2 \\\"too\\\" long\"}]}");
    problem_set(&problem, ERROR_NOT_FOUND, "", "%s", "");
    assert_formatted(&problem, "{\"type\":\"/problems/not-found\","
                               "\"title\":\"There is no such thing\",\"status\":404}");
    problem_set(&problem, ERROR_INVALID, "#/a", "%s", "");
    assert_formatted(&problem, "{\"type\":\"/problems/invalid\",\"title\":\"A field is wrong\","
                               "\"status\":422,\"errors\":[{\"pointer\":\"#/a\","
                               "\"detail\":\"A field is wrong\"}]}");
}

/* Up to PROBLEM_FAULTS faults, by pointer or by parameter; the first is the sentence. */
/* proves: problem */
static void test_faults(void **state)
{
    (void)state;
    struct problem problem;
    problem_init(&problem);
    problem_add(&problem, ERROR_INVALID, "limit", "%s", "It must be 1 to 9");
    problem_add(&problem, ERROR_INVALID, "#/a", "%s", "");
    assert_formatted(&problem, "{\"type\":\"/problems/invalid\",\"title\":\"A field is wrong\","
                               "\"status\":422,\"detail\":\"It must be 1 to 9\","
                               "\"errors\":[{\"parameter\":\"limit\","
                               "\"detail\":\"It must be 1 to 9\"},"
                               "{\"pointer\":\"#/a\",\"detail\":\"A field is wrong\"}]}");
    for (int i = 0; i < PROBLEM_FAULTS; i++)
        problem_add(&problem, ERROR_INVALID, "#/b", "%s", "");
    assert_int_equal(problem.fault_count, PROBLEM_FAULTS);
    assert_string_equal(problem.faults[0].pointer, "limit");
}

/* Characters of one to four bytes that end before, at and behind the end of the field. */
static void test_cut(void **state)
{
    static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};

    (void)state;
    for (size_t c = 0; c < 4; c++) {
        for (size_t shift = 0; shift < 4; shift++) {
            size_t size = strlen(characters[c]);
            char text[400] = "";

            memset(text, '.', shift);
            for (size_t at = shift; at + size < sizeof(text); at += size)
                memcpy(text + at, characters[c], size + 1);
            struct problem problem;
            problem_set(&problem, ERROR_INVALID, "", "%s", text);
            assert_int_equal(strlen(problem.faults[0].detail),
                             shift + (sizeof(problem.faults[0].detail) - 1 - shift) / size * size);
            assert_memory_equal(problem.faults[0].detail, text, strlen(problem.faults[0].detail));
        }
    }
}

/* proves: problem */
static void test_every_code(void **state)
{
    static const enum error_code codes[] = {
#define X(name, slug, title) ERROR_##name,
        ERROR_LIST(X)
#undef X
    };

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        int status = problem_status(codes[i]);

        assert_true(codes[i] == ERROR_NONE ? status == 200 : status >= 400 && status < 600);
        struct problem problem;
        problem_set(&problem, codes[i], "#/x", "\x01\xff%200s\xf0", "\n");
        struct buffer buffer;
        buffer_init(&buffer);
        problem_format(&problem, &buffer);
        struct json_reader reader;
        json_reader_init(&reader, buffer_bytes(&buffer));
        assert_true(json_skip(&reader, NULL));
        assert_true(json_finish(&reader));
        buffer_deinit(&buffer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_every_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
