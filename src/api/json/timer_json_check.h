/*
 * timer_json_check.h - helpers of the tests of a timer's JSON: requests read out of memory of
 * exactly their size, and tables of refused requests.
 */
#ifndef TICKWHEEL_API_JSON_TIMER_JSON_CHECK_H
#define TICKWHEEL_API_JSON_TIMER_JSON_CHECK_H

#include "api/json/timer_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define NOW ((struct wall){UINT64_C(1795132800000)}) /* 2026-11-20T00:00:00Z */

/* The table's limits refuse one host. */
static inline enum error_code check_host(void *context, struct bytes tenant, struct bytes text,
                                         const struct target *target, struct error *ret_error)
{
    (void)tenant;
    if (!bytes_equal(target_slice(text, target->name), bytes_of(context)))
        return ERROR_NONE;
    return error_set(ret_error, ERROR_INVALID, "this host may not be called");
}

static const struct timer_json_limits limits = {
    .payload_bytes_max = 40,
    .target_bytes_max = 64,
    .labels_max = 3,
    .headers_bytes_max = 48,
    .target_check = check_host,
    .target_context = (char[]){"[::1]"},
};

enum request { CREATE, VALUES };

static inline enum error_code timer_check_parse(enum request request, struct bytes json,
                                                uint32_t *ret_fields, struct timer **ret_timer,
                                                struct problem *ret_problem)
{
    char *exact = malloc(json.size + !json.size);
    enum error_code code;

    memcpy(exact, json.size ? json.data : "", json.size);
    if (request == CREATE)
        code = timer_json_parse_create((struct bytes){exact, json.size}, &limits, NOW, ret_timer,
                                       ret_problem);
    else
        code = timer_json_parse_values((struct bytes){exact, json.size}, &limits, NOW, ret_fields,
                                       ret_timer, ret_problem);
    free(exact); /* the timer owns all that it points to */
    return code;
}

/* Returns the timer of a request that must be valid. */
static inline struct timer *parsed(enum request request, const char *json, uint32_t *ret_fields)
{
    struct timer *timer = NULL;
    struct problem problem;

    if (timer_check_parse(request, bytes_of(json), ret_fields, &timer, &problem))
        fail_msg("%s: %s %s", json, problem.faults[0].pointer, problem.faults[0].detail);
    return timer;
}

#define CREATED(members) parsed(CREATE, "{\"after\":0,\"target\":\"http://h\"" members "}", NULL)

struct bad_case {
    const char *json;
    const char *pointer, *detail;
};

/* Asserts that each request is refused with `code`, at this pointer and for this reason; for any
 * if `detail` is NULL, because another module gives it. */
static inline void timer_check_assert_refused(enum request request, enum error_code code,
                                              const struct bad_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct timer *timer = NULL;
        struct problem problem = {.code = ERROR_NONE};
        uint32_t fields = 77;
        enum error_code got =
            timer_check_parse(request, bytes_of(cases[i].json), &fields, &timer, &problem);

        if (got != code || problem.code != code || timer || fields != 77)
            fail_msg("%s: %s, %s %s", cases[i].json, error_slug(got), problem.faults[0].pointer,
                     problem.faults[0].detail);
        if (strcmp(problem.faults[0].pointer, cases[i].pointer) != 0 ||
            (cases[i].detail && strcmp(problem.faults[0].detail, cases[i].detail) != 0))
            fail_msg("%s: %s %s", cases[i].json, problem.faults[0].pointer,
                     problem.faults[0].detail);
    }
}

#define ASSERT_REFUSED(request, code, cases) \
    timer_check_assert_refused(request, code, cases, sizeof(cases) / sizeof((cases)[0]))

static inline void assert_text(struct bytes text, const char *expected)
{
    if (!bytes_equal(text, bytes_of(expected)))
        fail_msg("'%.*s' is not '%s'", (int)text.size, text.data, expected);
}

#endif
