/* Goal: a request that cannot be read for want of memory is answered so, with 503 and not as if it
 * were wrong, and leaves nothing behind. Method: bodies with all that a timer can have, the N-th
 * allocation refused, for every N (scarce.h). */
#include "api/json/timer_json_parse.h"

#include <scarce.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static enum error_code timer_json_fault_test_find_zone(void *context, struct bytes name,
                                                       const struct zone **ret_zone)
{
    void *block = malloc(1); /* as one that is read takes memory */

    (void)context;
    (void)name;
    *ret_zone = zone_utc();
    free(block);
    return block ? ERROR_NONE : ERROR_NO_MEMORY;
}

static const struct timer_json_limits limits = {.payload_bytes_max = 1 << 16,
                                                .target_bytes_max = 2048,
                                                .labels_max = 16,
                                                .headers_bytes_max = 4096,
                                                .zones = {.find = timer_json_fault_test_find_zone}};

static void sweep(const char *name, const char *json)
{
    for (struct scarce scarce = scarce_sweep(name); scarce_next(&scarce);) {
        const struct wall now = {UINT64_C(1800000000000)};
        struct problem problem = {.code = ERROR_NONE};

        scarce_begin(&scarce);
        struct timer *timer = NULL;
        enum error_code code =
            timer_json_parse_create(bytes_of(json), &limits, now, &timer, &problem);
        if (scarce_end(&scarce)) {
            assert_int_equal(code, ERROR_NO_MEMORY);
            assert_int_equal(problem.code, ERROR_NO_MEMORY);
            assert_null(timer);
        } else {
            assert_string_equal(problem.faults[0].detail, "");
            assert_int_equal(code, ERROR_NONE);
        }
        timer_free(timer);
    }
}

static void timer_json_fault_test_create(void **state)
{
    (void)state;
    sweep("a webhook",
          "{\"after\":\"1h\",\"target\":\"http://shop.example/h\\u006fk\",\"payload\":{\"n\":[1]},"
          "\"headers\":{\"X-A\":\"\\u0041\",\"X-B\":\"b\",\"X-C\":\"c\",\"X-D\":\"d\","
          "\"X-E\":\"e\",\"X-F\":\"f\",\"X-G\":\"g\",\"X-H\":\"h\",\"X-I\":\"i\"},"
          "\"labels\":{\"a\":\"\\u00e4\",\"b\":\"c\"},\"key\":\"k\\u0041\","
          "\"watch\":[\"a\",\"b\\u0041\"]}");
    sweep("bytes", "{\"after\":\"1h\",\"target\":\"queue:jobs\",\"body_base64\":\"AAECAw==\","
                   "\"content_type\":\"image/png\"}");
    sweep("a schedule", "{\"cron\":\"0 9 * * MON-FRI\",\"timezone\":\"Europe/Berlin\","
                        "\"target\":\"http://shop.example/\"}");
}

/* A patch that is merged, with names that are decoded, into a timer with as much. */
static void timer_json_fault_test_merge(void **state)
{
    const struct wall now = {UINT64_C(1800000000000)};
    const struct bytes patch =
        BYTES("{\"labels\":{\"\\u0061\":null,\"n\":\"x\"},\"headers\":{\"X-A\":\"1\"},"
              "\"payload\":{\"\\u006e\":{\"a\":null,\"b\":{\"c\":null}}},\"cron\":\"0 7 * * *\","
              "\"timezone\":\"Europe/Rome\",\"late\":{\"missed\":\"each\"},\"watch\":[\"b\"]}");
    struct timer *timer = NULL;
    struct problem problem;

    (void)state;
    assert_int_equal(
        timer_json_parse_create(
            BYTES("{\"every\":\"1h\",\"target\":\"queue:jobs\",\"payload\":{\"n\":{\"\\u0061\":1}},"
                  "\"labels\":{\"a\":\"1\"},\"headers\":{\"X-B\":\"2\"},\"count\":5}"),
            &limits, now, &timer, &problem),
        ERROR_NONE);
    for (struct scarce scarce = scarce_sweep("a merged patch"); scarce_next(&scarce);) {
        struct timer *values = NULL;
        uint32_t fields = 0;

        problem = (struct problem){.code = ERROR_NONE};
        scarce_begin(&scarce);
        enum error_code code =
            timer_json_merge_patch(patch, timer, &limits, now, &fields, &values, &problem);
        if (scarce_end(&scarce)) {
            assert_int_equal(code, ERROR_NO_MEMORY);
            assert_int_equal(problem.code, ERROR_NO_MEMORY);
            assert_null(values);
        } else {
            assert_int_equal(code, ERROR_NONE);
        }
        timer_free(values);
    }
    timer_free(timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timer_json_fault_test_create),
        cmocka_unit_test(timer_json_fault_test_merge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
