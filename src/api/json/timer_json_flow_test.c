/*
 * Goal: a flow in a request is stored as it is meant and shown as it was given, and none passes
 * that could be read as another one. Method: tables of requests with what is stored, or with the
 * pointer and sentence of the refusal.
 */
#include "api/json/timer_json_check.h"

#define FLOW(members) "{\"after\":0,\"target\":\"http://h\",\"flow\":{" members "}}"
#define KEY_127                                                        \
    "0123456789012345678901234567890123456789012345678901234567890123" \
    "012345678901234567890123456789012345678901234567890123456789012"
#define KEY_128 KEY_127 "3"

/* proves: flow-key-bytes (at), flow-concurrency-max (at) */
/* proves: flow-rate-max (at), flow-period-ms (at) */
static void test_flows_are_stored_and_shown(void **state)
{
    static const struct {
        const char *json, *text, *shown;
    } cases[] = {
        {FLOW("\"key\":\"customer-42\",\"concurrency\":2"), "customer-42\n2 0 0",
         "\"flow\":{\"key\":\"customer-42\",\"concurrency\":2}"},
        {FLOW("\"rate\":\"10\\/s\",\"key\":\"a\\u0062\""), "ab\n0 10 1000",
         "\"flow\":{\"key\":\"ab\",\"rate\":\"10/s\"}"},
        {FLOW("\"key\":\"\\\"" KEY_127 "\",\"rate\":7"), "\"" KEY_127 "\n0 7 1000",
         "\"rate\":\"7/s\"}"},
        {FLOW("\"key\":\"a\",\"rate\":7"), "a\n0 7 1000",
         "\"flow\":{\"key\":\"a\",\"rate\":\"7/s\"}"},
        {FLOW("\"key\":\"a\",\"period\":\"15m\",\"rate\":100"), "a\n0 100 900000",
         "\"flow\":{\"key\":\"a\",\"rate\":100,\"period\":\"15m\"}"},
        {FLOW("\"key\":\"" KEY_128
              "\",\"concurrency\":100000,\"rate\":1000000,\"period\":\"366d\""),
         KEY_128 "\n100000 1000000 31622400000", "\"rate\":1000000,\"period\":\"366d\"}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct timer *timer = parsed(CREATE, cases[i].json, NULL);
        struct buffer out;

        assert_text(timer->texts.flow, cases[i].text);
        buffer_init(&out);
        timer_json_format(timer, &(struct timer_json_view){0}, &out);
        if (!memmem(out.data, out.size, cases[i].shown, strlen(cases[i].shown)))
            fail_msg("%.*s", (int)out.size, out.data);
        buffer_deinit(&out);
        timer_free(timer);
    }
}

/* proves: flow-key-bytes (beyond), flow-concurrency-max (beyond) */
/* proves: flow-rate-max (beyond), flow-period-ms (beyond) */
static void test_bad_flows(void **state)
{
    static const char *const rate = "It must be a number of starts and s, m, h or d, such as 10/s";
    const struct bad_case cases[] = {
        {FLOW("\"concurrency\":1"), "#/flow", "A `key` is needed"},
        {FLOW("\"key\":\"a\""), "#/flow", "A `concurrency` or a `rate` is needed"},
        {FLOW("\"key\":\"\",\"rate\":1"), "#/flow/key", "It must have 1 to 256 bytes"},
        {FLOW("\"key\":\"..\",\"rate\":1"), "#/flow/key",
         "It must not be . or .., which programs take out of the path of a URL"},
        {FLOW("\"key\":\"" KEY_128 "x\",\"rate\":1"), "#/flow/key", "It must have 1 to 128 bytes"},
        {FLOW("\"key\":\"a\\n\",\"rate\":1"), "#/flow/key", "It must not have control characters"},
        {FLOW("\"key\":\"a\",\"concurrency\":0"), "#/flow/concurrency", "It must be 1 to 100000"},
        {FLOW("\"key\":\"a\",\"concurrency\":100001"), "#/flow/concurrency",
         "It must be 1 to 100000"},
        {FLOW("\"key\":\"a\",\"rate\":1000001"), "#/flow/rate", "It must be 1 to 1000000"},
        {FLOW("\"key\":\"a\",\"rate\":\"10\""), "#/flow/rate", rate},
        {FLOW("\"key\":\"a\",\"rate\":\"0/s\""), "#/flow/rate", rate},
        {FLOW("\"key\":\"a\",\"rate\":\"01/s\""), "#/flow/rate", rate},
        {FLOW("\"key\":\"a\",\"rate\":\"1000000/s\""), "#/flow/rate", rate},
        {FLOW("\"key\":\"a\",\"rate\":\"1/w\""), "#/flow/rate", rate},
        {FLOW("\"key\":\"a\",\"rate\":\"1/s \""), "#/flow/rate", rate},
        {FLOW("\"key\":\"a\",\"rate\":1,\"period\":\"999ms\""), "#/flow/period",
         "It must be 1s to 366d"},
        {FLOW("\"key\":\"a\",\"rate\":1,\"period\":\"367d\""), "#/flow/period",
         "It must be 1s to 366d"},
        {FLOW("\"key\":\"a\",\"rate\":\"1/s\",\"period\":\"1m\""), "#/flow/period",
         "It goes with a `rate` that is a number"},
        {FLOW("\"key\":\"a\",\"concurrency\":1,\"period\":\"1m\""), "#/flow/period",
         "It goes with a `rate` that is a number"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flows_are_stored_and_shown),
        cmocka_unit_test(test_bad_flows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
