/* Goal: a request means exactly what docs/api.md says, and anything else is refused at the field
 * that is wrong. Method: tables of requests with the due time they ask for, or with the code,
 * pointer and sentence of the refusal; requests with all fields, spoiled at every byte. */
#include "api/json/timer_json_check.h"
#include "base/json.h"

#define TARGET ",\"target\":\"http://h\"}"

/* proves: retry */
static void timer_json_parse_test_create(void **state)
{
    struct timer *timer =
        parsed(CREATE,
               " {\"after\": \"1h30m\", \"target\": \"https://shop.example/recheck\",\n"
               "  \"payload\": {\"order\": [42, null]}, \"labels\": {\"team\" : \"checkout\", "
               "\"a\": \"\"},\n"
               "  \"headers\": {\"X-Team\": \"checkout\"},\n"
               "  \"retry\": {\"max_attempts\": 3, \"base\": 500, \"cap\": \"2m\", \"timeout\": "
               "\"5s\"}}\n",
               NULL);

    (void)state;
    assert_int_equal(timer->due.ms, NOW.ms + 5400000);
    assert_text(timer->texts.target, "https://shop.example/recheck");
    assert_text(timer->texts.payload, "{\"order\": [42, null]}");
    assert_text(timer->texts.content_type, "");
    assert_text(timer->texts.labels, "{\"team\":\"checkout\",\"a\":\"\"}");
    assert_text(timer->texts.headers, "X-Team: checkout\n");
    assert_text(timer->texts.last_error, "");
    assert_int_equal(timer->retry.attempts_max, 3);
    assert_int_equal(timer->retry.base_ms, 500);
    assert_int_equal(timer->retry.cap_ms, 120000);
    assert_int_equal(timer->retry.timeout_ms, 5000);
    assert_int_equal(timer->version, 1);
    assert_int_equal(timer->state, TIMER_SCHEDULED);
    timer_free(timer);

    timer = parsed(CREATE, "{\"after\":0,\"target\":\"http://h\"}", NULL);
    assert_int_equal(timer->due.ms, NOW.ms - 1);
    assert_int_equal(timer->created.ms, NOW.ms - 1);
    assert_text(timer->texts.payload, "");
    assert_int_equal(timer->retry.attempts_max, RETRY_POLICY_DEFAULT.attempts_max);
    assert_int_equal(timer->retry.base_ms, RETRY_POLICY_DEFAULT.base_ms);
    assert_int_equal(timer->retry.cap_ms, RETRY_POLICY_DEFAULT.cap_ms);
    assert_int_equal(timer->retry.timeout_ms, RETRY_POLICY_DEFAULT.timeout_ms);
    timer_free(timer);

    timer =
        CREATED(",\"retry\":{\"cap\":\"30d\",\"base\":1,\"timeout\":\"10m\",\"max_attempts\":1e2}");
    assert_int_equal(timer->retry.attempts_max, 100);
    assert_int_equal(timer->retry.base_ms, 1);
    assert_int_equal(timer->retry.cap_ms, UINT64_C(2592000000));
    assert_int_equal(timer->retry.timeout_ms, 600000);
    timer_free(timer);
}

/* proves: after, at, at-range, instant (at) */
static void test_due(void **state)
{
    static const struct {
        const char *json;
        uint64_t due_ms;
    } cases[] = {
        {"{\"after\":\"90s\"" TARGET, UINT64_C(1795132890000)},
        {"{\"after\":90000" TARGET, UINT64_C(1795132890000)},
        {"{\"after\":9.0e4" TARGET, UINT64_C(1795132890000)},
        {"{\"after\":-0" TARGET, UINT64_C(1795132799999)},
        {"{\"after\":\"1\\u0068\"" TARGET, UINT64_C(1795136400000)},
        {"{\"\\u0061fter\":\"1h\"" TARGET, UINT64_C(1795136400000)},
        {"{\"after\":251607167999999" TARGET, WALL_MS_MAX},
        {"{\"after\":\"251607167999999ms\"" TARGET, WALL_MS_MAX},
        {"{\"at\":\"1970-01-01T00:00:00Z\"" TARGET, 0},
        {"{\"at\":100000000000" TARGET, UINT64_C(100000000000)},
        {"{\"at\":1795132890000" TARGET, UINT64_C(1795132890000)},
        {"{\"at\":253402300799999" TARGET, WALL_MS_MAX},
        {"{\"at\":\"2026-11-20T00:01:30Z\"" TARGET, UINT64_C(1795132890000)},
        {"{\"at\":\"2026-11-20T00:01:29.9999+00:00\"" TARGET, UINT64_C(1795132890000)},
        {"{\"at\":\"2026-11-20T01:01:30\\u002b01:00\"" TARGET, UINT64_C(1795132890000)},
        {"{\"at\":\"1969-07-20T20:17:40Z\"" TARGET, 0},
        {"{\"at\":\"9999-12-31T23:59:59.999Z\"" TARGET, WALL_MS_MAX},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct timer *timer = parsed(CREATE, cases[i].json, NULL);

        if (timer->due.ms != cases[i].due_ms)
            fail_msg("%s: %llu", cases[i].json, (unsigned long long)timer->due.ms);
        timer_free(timer);
    }
}

#define LOOKS_LIKE_SECONDS "It looks like seconds; it must be milliseconds since 1970, or RFC 3339"

/* proves: after-wrong, at-wrong, at-zero, at-range, one-schedule, invalid, instant (beyond) */
static void test_bad_due(void **state)
{
    static const struct bad_case cases[] = {
        {"{\"target\":\"http://h\"}", "#",
         "One of `after`, `at`, `every`, `cron` and `debounce` is needed"},
        {"{\"after\":1,\"at\":1795132890000" TARGET, "#/at", "Give either `after` or `at`"},
        {"{\"after\":1,\"after\":1" TARGET, "#/after", "It is given twice"},
        {"{\"after\":1,\"aft\\u0065r\":1" TARGET, "#/after", "It is given twice"},
        {"{\"after\":-1" TARGET, "#/after", "It must not be negative"},
        {"{\"after\":-1.5" TARGET, "#/after", "It must not be negative"},
        {"{\"after\":1.5" TARGET, "#/after", "It must be a whole number"},
        {"{\"after\":18446744073709551616" TARGET, "#/after", "The number is too large"},
        {"{\"after\":1e400" TARGET, "#/after", "The number is too large"},
        {"{\"after\":18446744073709551615" TARGET, "#/after", "It is beyond the year 9999"},
        {"{\"after\":9223372036854775807" TARGET, "#/after", "It is beyond the year 9999"},
        {"{\"after\":251607168000000" TARGET, "#/after", "It is beyond the year 9999"},
        {"{\"after\":\"251607168000000ms\"" TARGET, "#/after", "It is beyond the year 9999"},
        {"{\"after\":\"99999999999999999999s\"" TARGET, "#/after", "It is longer than 2^64 - 1 ms"},
        {"{\"after\":\"30\"" TARGET, "#/after",
         "A whole number must be followed by one of w, d, h, m, s, ms"},
        {"{\"after\":\"\"" TARGET, "#/after", "It is empty"},
        {"{\"after\":\"1h\\u0000\"" TARGET, "#/after",
         "A whole number must be followed by one of w, d, h, m, s, ms"},
        {"{\"after\":null" TARGET, "#",
         "One of `after`, `at`, `every`, `cron` and `debounce` is needed"},
        {"{\"at\":\"0001-01-01T00:00:00Z\"" TARGET, "#/at",
         "It is in the year 1, the zero time of a program that set no time"},
        {"{\"after\":[1]" TARGET, "#/after",
         "It must be a duration such as \"1h30m\" or a number of milliseconds"},
        {"{\"at\":-1" TARGET, "#/at", "It must not be negative"},
        {"{\"at\":0" TARGET, "#/at", LOOKS_LIKE_SECONDS},
        {"{\"at\":1795387000" TARGET, "#/at", LOOKS_LIKE_SECONDS},
        {"{\"at\":99999999999" TARGET, "#/at", LOOKS_LIKE_SECONDS},
        {"{\"at\":0.1" TARGET, "#/at", "It must be a whole number"},
        {"{\"at\":253402300800000" TARGET, "#/at", "It is beyond the year 9999"},
        {"{\"at\":1e99" TARGET, "#/at", "The number is too large"},
        {"{\"at\":\"9999-12-31T23:59:59.9999Z\"" TARGET, "#/at", "It is beyond the year 9999"},
        {"{\"at\":\"9999-12-31T23:59:59-00:01\"" TARGET, "#/at", "It is beyond the year 9999"},
        {"{\"at\":\"tomorrow\"" TARGET, "#/at",
         "It is not of the form 2026-11-20T23:59:59Z (RFC 3339)"},
        {"{\"at\":\"2026-02-29T00:00:00Z\"" TARGET, "#/at", "2026-02 has no day 29"},
        {"{\"at\":true" TARGET, "#/at",
         "It must be a time such as \"2026-11-20T23:59:59Z\" or Unix milliseconds"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
}

/* proves: retry, retry-attempts, retry-backoff, retry-timeout */
static void test_bad_retry(void **state)
{
#define RETRY(members) "{\"after\":1,\"retry\":{" members "}" TARGET
    static const char *const milliseconds =
        "It must be a duration such as \"1h30m\" or a number of milliseconds";
    const struct bad_case cases[] = {
        {RETRY("\"until\":\"later\""), "#/retry/until", "It must be \"next\""},
        {RETRY("\"until\":\"next\""), "#/retry/until", "It goes with `every` or `cron`"},
        {RETRY("\"max_attempts\":0"), "#/retry/max_attempts", "It must be 1 to 100"},
        {RETRY("\"max_attempts\":101"), "#/retry/max_attempts", "It must be 1 to 100"},
        {RETRY("\"max_attempts\":4294967297"), "#/retry/max_attempts", "It must be 1 to 100"},
        {RETRY("\"max_attempts\":-1"), "#/retry/max_attempts", "It must not be negative"},
        {RETRY("\"max_attempts\":2.5"), "#/retry/max_attempts", "It must be a whole number"},
        {RETRY("\"max_attempts\":\"3\""), "#/retry/max_attempts", "It must be a number"},
        {RETRY("\"base\":\"0s\""), "#/retry/base", "It must be 1ms to 30d"},
        {RETRY("\"base\":\"31d\""), "#/retry/base", "It must be 1ms to 30d"},
        {RETRY("\"base\":\"1x\""), "#/retry/base",
         "A whole number must be followed by one of w, d, h, m, s, ms"},
        {RETRY("\"base\":{}"), "#/retry/base", milliseconds},
        {RETRY("\"cap\":0"), "#/retry/cap", "It must be 1ms to 30d"},
        {RETRY("\"cap\":2592000001"), "#/retry/cap", "It must be 1ms to 30d"},
        {RETRY("\"timeout\":\"0ms\""), "#/retry/timeout", "It must be 1ms to 10m"},
        {RETRY("\"timeout\":\"10m1ms\""), "#/retry/timeout", "It must be 1ms to 10m"},
        {RETRY("\"base\":\"2s\",\"cap\":\"1s\""), "#/retry/base",
         "It must not be longer than `cap` (1s)"},
        {RETRY("\"base\":\"2h\""), "#/retry/base", "It must not be longer than `cap` (1h)"},
        {RETRY("\"cap\":\"999ms\""), "#/retry/base", "It must not be longer than `cap` (999ms)"},
        {RETRY("\"cap\":1,\"cap\":1"), "#/retry/cap", "It is given twice"},
        {RETRY("\"attempts\":1"), "#/retry/attempts", "There is no field `attempts`"},
        {RETRY("\"max_attempt\":1"), "#/retry/max_attempt",
         "There is no field `max_attempt`: did you mean `max_attempts`?"},
        {RETRY("\"bas\":1"), "#/retry/bas", "There is no field `bas`: did you mean `base`?"},
        {"{\"after\":1,\"retry\":3" TARGET, "#/retry", "It must be an object"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
}

/* proves: problem, invalid */
static void test_bad_fields(void **state)
{
    static const struct bad_case cases[] = {
        {"[]", "#", "It must be an object"},
        {"null", "#", "It must be an object"},
        {"\"after\"", "#", "It must be an object"},
        {"{\"after\":1}", "#", "A `target` is needed"},
        {"{\"aftr\":1" TARGET, "#/aftr", "There is no field `aftr`: did you mean `after`?"},
        {"{\"After\":1" TARGET, "#/After", "There is no field `After`: did you mean `after`?"},
        {"{\"playload\":1" TARGET, "#/playload",
         "There is no field `playload`: did you mean `payload`?"},
        {"{\"body_base46\":1" TARGET, "#/body_base46",
         "There is no field `body_base46`: did you mean `body_base64`?"},
        {"{\"Content-Type\":1" TARGET, "#/Content-Type",
         "There is no field `Content-Type`: did you mean `content_type`?"},
        {"{\"delay\":1" TARGET, "#/delay", "There is no field `delay`"},
        {"{\"\":1" TARGET, "#/", "There is no field ``"},
        {"{\"x\":1" TARGET, "#/x", "There is no field `x`"},
        {"{\"a/b~c%d e\":1" TARGET, "#/a~1b~0c%25d%20e", "There is no field `a/b~c%d e`"},
        {"{\"\\\"\\\\<>^`{|}#[]\":1" TARGET, "#/%22%5C%3C%3E%5E%60%7B%7C%7D%23%5B%5D",
         "There is no field `\"\\<>^`{|}#[]`"},
        {"{\"\\u00e9\\n\":1" TARGET, "#/%C3%A9%0A", "There is no field `\xc3\xa9?`"},
        {"{\"after\\u0000\":1" TARGET, "#/after%00",
         "There is no field `after?`: did you mean `after`?"},
        {"{\"0123456789012345678901234567890123456789012345\":1" TARGET,
         "#/0123456789012345678901234567890123456789012345",
         "There is no field `0123456789012345678901234567890123456789012345`"},
        {"{\"012345678901234567890123456789012345678901234\xe2\x82\xac\":1" TARGET,
         "#/012345678901234567890123456789012345678901234%E2%82%AC",
         "There is no field `01234567890123456789012345678901234567890123...`"},
        {"{\"\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
         "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
         "\xe2\x82\xac\xe2\x82\xac\":1" TARGET,
         "#",
         "There is no field `"
         "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac"
         "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac..."
         "`"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, cases);
}

/* Faults of several fields are reported together; a syntax error is reported alone. */
/* proves: problem */
static void test_every_fault(void **state)
{
    static const char *const pointers[] = {"#/after", "#/colour", "#/retry/base", "#/after"};

    (void)state;
    struct timer *timer = NULL;
    struct problem problem;
    assert_int_equal(
        timer_check_parse(CREATE,
                          BYTES("{\"after\":\"1 s\",\"colour\":[1,{\"x\":2}],\"target\":"
                                "\"http://a\",\"retry\":{\"base\":0,\"cap\":1},\"after\":1}"),
                          NULL, &timer, &problem),
        ERROR_INVALID);
    assert_int_equal(problem.fault_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(problem.faults[i].pointer, pointers[i]);
    assert_int_equal(timer_check_parse(CREATE, BYTES("{\"after\":\"1 s\",\"colour\":[1,}"), NULL,
                                       &timer, &problem),
                     ERROR_NOT_JSON);
    assert_int_equal(problem.fault_count, 1);
    char many[400];
    size_t size = 0;
    for (int i = 0; i < 20; i++)
        size += (size_t)snprintf(many + size, sizeof(many) - size, "%s\"colour\":1", i ? "," : "{");
    snprintf(many + size, sizeof(many) - size, "}");
    assert_int_equal(timer_check_parse(CREATE, bytes_of(many), NULL, &timer, &problem),
                     ERROR_INVALID);
    assert_int_equal(problem.fault_count, PROBLEM_FAULTS);
}

/* Names about as long as a pointer can be: the pointer is whole, or that of the parent. */
/* proves: problem */
static void test_long_names(void **state)
{
    const size_t pointer_max = sizeof(((struct problem_fault *)0)->pointer) - 1;

    (void)state;
    for (size_t size = pointer_max - 10; size < pointer_max + 10; size++) {
        char name[200];

        memset(name, 'x', size);
        name[size] = '\0';
        char json[300];
        snprintf(json, sizeof(json), "{\"%s\":1}", name);
        char pointer[300];
        snprintf(pointer, sizeof(pointer), size + 2 <= pointer_max ? "#/%s" : "#", name);
        struct timer *timer = NULL;
        struct problem problem;
        assert_int_equal(timer_check_parse(CREATE, bytes_of(json), NULL, &timer, &problem),
                         ERROR_INVALID);
        assert_string_equal(problem.faults[0].pointer, pointer);
    }
}

/* proves: patch-fields */
static void test_other_fields(void **state)
{
    static const char *const names[] = {"id",       "due",     "state", "version",   "schedule",
                                        "attempts", "created", "ended", "last_error"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char json[100], pointer[40];
        struct bad_case one = {json, pointer, "It is read-only: the server sets it"};

        snprintf(json, sizeof(json), "{\"%s\":{},\"after\":1,\"target\":\"http://h\"}", names[i]);
        snprintf(pointer, sizeof(pointer), "#/%s", names[i]);
        timer_check_assert_refused(CREATE, ERROR_INVALID, &one, 1);
        timer_check_assert_refused(VALUES, ERROR_INVALID, &one, 1);
    }
}

#define TIMER(fields) "{\"after\":1,\"target\":\"http://h\"," fields "}"

/* Keys and events: escapes are read, limits are kept, and a key is set by a create alone. */
/* proves: key, watch, watch-count */
static void timer_json_parse_test_names(void **state)
{
    static const struct bad_case wrong[] = {
        {TIMER("\"key\":7"), "#/key", "It must be a string"},
        {TIMER("\"key\":\"\""), "#/key", "It must have 1 to 256 bytes"},
        {TIMER("\"key\":\"a\\nb\""), "#/key", "It must not have control characters"},
        {TIMER("\"watch\":\"a\""), "#/watch", "It must be an array of strings"},
        {TIMER("\"watch\":[\"a\",1]"), "#/watch/1", "It must be a string"},
        {TIMER("\"watch\":[\"\"]"), "#/watch/0", "It must have 1 to 256 bytes"},
        {TIMER("\"watch\":[\"a\\u0000\"]"), "#/watch/0", "It must not have control characters"},
        {TIMER("\"watch\":[\"a\",\"b\",\"\\u0061\"]"), "#/watch/2", "It is given twice"},
        {TIMER("\"watch\":[1,2,3,4]"), "#/watch/0", "It must be a string"},
    };
    static const struct bad_case fixed[] = {
        {"{\"key\":\"k\"}", "#/key", "The key stays for the timer's life"},
    };
    struct bad_case many = {NULL, "#/watch", "It may have at most 16 events"};
    char json[600] = "{\"after\":1,\"target\":\"http://h\",\"watch\":[\"0\"", long_key[400];
    struct bad_case longer = {long_key, "#/key", "It must have 1 to 256 bytes"};

    (void)state;
    timer_check_assert_refused(CREATE, ERROR_INVALID, wrong, sizeof(wrong) / sizeof(wrong[0]));
    timer_check_assert_refused(VALUES, ERROR_INVALID, fixed, sizeof(fixed) / sizeof(fixed[0]));
    for (int i = 1; i < 16; i++)
        snprintf(json + strlen(json), sizeof(json) - strlen(json), ",\"e%d\"", i);
    snprintf(json + strlen(json), sizeof(json) - strlen(json), "]}");
    struct problem problem;
    struct timer *timer;
    assert_int_equal(timer_check_parse(CREATE, bytes_of(json), NULL, &timer, &problem), ERROR_NONE);
    timer_free(timer);
    snprintf(strrchr(json, ']'), 20, ",\"one too many\"]}");
    many.json = json;
    timer_check_assert_refused(CREATE, ERROR_INVALID, &many, 1);
    snprintf(long_key, sizeof(long_key), TIMER("\"key\":\"%0257d\""), 0);
    timer_check_assert_refused(CREATE, ERROR_INVALID, &longer, 1);
    assert_int_equal(
        timer_check_parse(CREATE,
                          BYTES(TIMER("\"key\":\"\\u00fc/1\",\"watch\":[\"order:\\u00fc\",\"b\"]")),
                          NULL, &timer, &problem),
        ERROR_NONE);
    assert_true(bytes_equal(timer->texts.key, BYTES("\303\274/1")));
    assert_true(bytes_equal(timer->texts.watch, BYTES("order:\303\274\nb\n")));
    timer_free(timer);
}

#define AGAIN(fields) "{\"target\":\"http://h\"," fields "}"

static const struct bad_case bad_schedules[] = {
    {AGAIN("\"every\":\"1s\",\"cron\":\"* * * * *\""), "#/cron", "Give either `every` or `cron`"},
    {AGAIN("\"every\":\"1s\",\"after\":1"), "#/after", "It goes with neither `every` nor `cron`"},
    {AGAIN("\"cron\":\"* * * * *\",\"at\":1795132890000"), "#/at", "It does not go with `cron`"},
    {AGAIN("\"after\":1,\"count\":1"), "#/count", "It goes with `every` or `cron`"},
    {AGAIN("\"cron\":\"* * * * *\",\"count\":1001"), "#/count",
     "With `cron`, `except` or `only` it must be 1 to 1000"},
    {AGAIN("\"after\":1,\"except\":[\"SAT\"]"), "#/except", "It goes with `every` or `cron`"},
    {AGAIN("\"after\":1,\"only\":[\"SAT\"]"), "#/only", "It goes with `every` or `cron`"},
    {AGAIN("\"every\":\"1h\",\"on_holiday\":\"skip\""), "#/on_holiday",
     "It goes with `except` or `only`"},
    {AGAIN("\"every\":\"1h\",\"only\":[\"SAT\"],\"on_holiday\":\"later\""), "#/on_holiday",
     "It must be \"skip\", \"next_workday\" or \"previous_workday\""},
    {AGAIN("\"every\":\"1s\",\"only\":[\"SAT\"],\"on_holiday\":\"next_workday\""), "#/on_holiday",
     "At most 1440 firings of a day can be moved"},
    {AGAIN("\"every\":\"1h\",\"except\":[]"), "#/except", "It must have an entry"},
    {AGAIN("\"every\":\"1h\",\"except\":\"SAT\""), "#/except",
     "It must be an array of dates and weekdays"},
    {AGAIN("\"every\":\"1h\",\"except\":[\"2026-02-29\"]"), "#/except/0",
     "It must be a date (2026-12-24), a range (2026-12-24/2027-01-01), weekdays (SAT, FRI-SUN) or "
     "calendar:NAME"},
    {AGAIN("\"every\":\"1h\",\"except\":[\"SAT\",\"sun\"]"), "#/except/1",
     "It must be a date (2026-12-24), a range (2026-12-24/2027-01-01), weekdays (SAT, FRI-SUN) or "
     "calendar:NAME"},
    {AGAIN("\"every\":\"1h\",\"except\":[\"calendar:nowhere\"]"), "#/except",
     "There is no calendar \"nowhere\""},
    {AGAIN("\"cron\":\"0 9 * * *\",\"except\":[\"SUN-SAT\"]"), "#/cron", "It would never fire"},
    {AGAIN("\"cron\":\"0 9 * * SUN\",\"only\":[\"MON\"]"), "#/cron", "It would never fire"},
    {AGAIN("\"after\":1,\"until\":1"), "#/until", "It goes with `every` or `cron`"},
    {AGAIN("\"every\":\"1s\",\"timezone\":\"UTC\""), "#/timezone",
     "It goes with `cron`, `except` or `only`"},
    {AGAIN("\"after\":1,\"dst\":\"skip\""), "#/dst", "It goes with `cron`"},
    {AGAIN("\"after\":1,\"late\":{\"missed\":\"each\"}"), "#/late/missed",
     "It goes with `every` or `cron`"},
    {AGAIN("\"debounce\":{\"for\":\"1s\",\"at_most\":\"9s\"}"), "#/debounce", "It needs a `key`"},
    {AGAIN("\"key\":\"k\",\"debounce\":{\"for\":\"1s\"}"), "#/debounce",
     "`for` and `at_most` are needed"},
    {AGAIN("\"key\":\"k\",\"debounce\":{\"for\":\"9s\",\"at_most\":\"1s\"}"), "#/debounce/for",
     "It must not be longer than `at_most`"},
    {AGAIN("\"key\":\"k\",\"debounce\":{\"for\":0,\"at_most\":\"1s\"}"), "#/debounce/for",
     "It must be 1ms to 366d"},
    {AGAIN("\"key\":\"k\",\"after\":1,\"debounce\":{\"for\":1,\"at_most\":1}"), "#/debounce",
     "It takes the place of `after`, `at`, `every`, `cron`, `spread`"},
    {AGAIN("\"key\":\"k\",\"debounce\":{\"for\":1,\"at_most\":1,\"first\":1}"), "#/debounce/first",
     NULL},
    {AGAIN("\"key\":\"k\",\"debounce\":{\"for\":1,\"at_most\":\"366d1ms\"}"), "#/debounce/at_most",
     "It must be 1ms to 366d"},
    {AGAIN("\"after\":1,\"overlap\":\"wait\""), "#/overlap", "It goes with `every` or `cron`"},
    {AGAIN("\"every\":\"1s\",\"overlap\":\"never\""), "#/overlap",
     "It must be \"wait\", \"skip\" or \"allow\""},
    {AGAIN("\"every\":\"1s\",\"overlap\":\"skip\",\"late\":{\"missed\":\"each\"}"), "#/overlap",
     "`skip` contradicts `late.missed` `each`"},
    {AGAIN("\"after\":1,\"spread\":{\"window\":\"1m\"}"), "#/spread",
     "It goes by the `key`, and there is none"},
    {AGAIN("\"every\":9"), "#/every", "It must be 10ms to 366d"},
    {AGAIN("\"every\":\"367d\""), "#/every", "It must be 10ms to 366d"},
    {AGAIN("\"every\":\"1s\",\"count\":0"), "#/count", "It must be 1 to 1000000000000"},
    {AGAIN("\"every\":\"1s\",\"count\":\"1\""), "#/count", "It must be a number"},
    {AGAIN("\"every\":\"1s\",\"until\":1"), "#/every", "It would never fire"},
    {AGAIN("\"cron\":7"), "#/cron", "It must be a string"},
    {AGAIN("\"cron\":\"* * * * *\",\"timezone\":\"../x\""), "#/timezone", NULL},
    {AGAIN("\"cron\":\"* * * * *\",\"timezone\":\"Europe/Berlin\""), "#/timezone",
     "There is no time zone \"Europe/Berlin\""},
    {AGAIN("\"cron\":\"* * * * *\",\"dst\":\"jump\""), "#/dst", NULL},
    {AGAIN("\"cron\":\"0 0 31 2 *\""), "#/cron", NULL},
    {AGAIN("\"cron\":\"* * * * * *\\\"\""), "#/cron", "It has a character that does not belong"},
    {AGAIN("\"after\":1,\"late\":{\"drop_after\":0}"), "#/late/drop_after",
     "It must be 1ms to 366d"},
    {AGAIN("\"after\":1,\"late\":{\"x\":0}"), "#/late/x", NULL},
    {AGAIN("\"after\":1,\"late\":1"), "#/late", "It must be an object"},
    {AGAIN("\"after\":1,\"late\":{\"drop_after\":1,\"drop_after\":1}"), "#/late/drop_after",
     "It is given twice"},
    {AGAIN("\"every\":\"1s\",\"late\":{\"missed\":\"each\",\"m\\u0069ssed\":\"last\"}"),
     "#/late/missed", "It is given twice"},
    {AGAIN("\"every\":\"1s\",\"late\":{\"missed\":\"all\"}"), "#/late/missed",
     "It must be \"last\" or \"each\""},
    {AGAIN("\"after\":1,\"late\":{\"drop_after\":\"366d1ms\"}"), "#/late/drop_after",
     "It must be 1ms to 366d"},
    {AGAIN("\"every\":\"366d1ms\""), "#/every", "It must be 10ms to 366d"},
    {AGAIN("\"every\":18446744073709551616"), "#/every", "The number is too large"},
    {AGAIN("\"every\":\"1s\",\"count\":1000000000001"), "#/count", "It must be 1 to 1000000000000"},
    {AGAIN("\"every\":\"1s\",\"count\":18446744073709551617"), "#/count",
     "The number is too large"},
    {AGAIN("\"every\":\"1s\",\"until\":253402300800000"), "#/until", "It is beyond the year 9999"},
    {AGAIN("\"after\":1,\"key\":\"k\",\"spread\":{}"), "#/spread", "A `window` is needed"},
    {AGAIN("\"after\":1,\"key\":\"k\",\"spread\":{\"window\":0}"), "#/spread/window",
     "It must be 1ms to 1d"},
    {AGAIN("\"after\":1,\"key\":\"k\",\"spread\":{\"window\":\"1d1ms\"}"), "#/spread/window",
     "It must be 1ms to 1d"},
    {AGAIN("\"after\":1,\"key\":\"k\",\"spread\":{\"window\":1,\"w\\u0069ndow\":1}"),
     "#/spread/window", "It is given twice"},
    {AGAIN("\"after\":1,\"key\":\"k\",\"spread\":{\"windows\":1}"), "#/spread/windows", NULL},
};

/* Parses a create with `count` entries of `except`, which are those of `entry`. */
static enum error_code parse_dates(const char *entry, int count, const char *more)
{
    struct holidays *days;
    struct calendars_row row = {.is_shared = true, .name = BYTES("de")};
    struct timer_json_limits here = limits;
    struct calendars *calendars;
    struct problem problem;
    struct timer *timer = NULL;
    struct buffer json;

    assert_int_equal(holidays_parse(BYTES("[\"2026-12-25\"]"), &days, NULL), ERROR_NONE);
    row.days = days;
    assert_int_equal(calendars_create(&row, 1, &calendars), ERROR_NONE);
    holidays_leave(days);
    here.zones.calendars = calendars;
    buffer_init(&json);
    buffer_printf(&json, "{\"target\":\"http://h\",%s,\"except\":[", more);
    for (int i = 0; i < count; i++)
        buffer_printf(&json, "%s\"%s\"", i ? "," : "", entry);
    buffer_append_text(&json, "]}");
    const enum error_code code =
        timer_json_parse_create(buffer_bytes(&json), &here, NOW, &timer, &problem);
    timer_free(timer);
    buffer_deinit(&json);
    calendars_leave(calendars);
    return code;
}

/* Goal: dates at each limit are accepted, and refused beyond it. */
/* proves: walked-count, dates-entries, dates-calendars, moved-daily */
static void test_dates_at_their_limits(void **state)
{
    static const char every[] = "\"every\":\"1h\"";

    (void)state;
    assert_int_equal(parse_dates("2026-12-24", 32, every), ERROR_NONE);
    assert_int_equal(parse_dates("2026-12-24", 33, every), ERROR_INVALID);
    assert_int_equal(parse_dates("calendar:de", 8, every), ERROR_NONE);
    assert_int_equal(parse_dates("calendar:de", 9, every), ERROR_INVALID);
    assert_int_equal(parse_dates("SAT", 1, "\"every\":\"1h\",\"count\":1000"), ERROR_NONE);
    assert_int_equal(parse_dates("SAT", 1, "\"every\":\"1h\",\"count\":1001"), ERROR_INVALID);
    assert_int_equal(
        parse_dates("SAT", 1, "\"cron\":\"* * * * *\",\"on_holiday\":\"next_workday\""),
        ERROR_NONE);
    assert_int_equal(parse_dates("SAT", 1, "\"every\":\"1m\",\"on_holiday\":\"previous_workday\""),
                     ERROR_NONE);
    assert_int_equal(
        parse_dates("SAT", 1, "\"cron\":\"*/30 * * * * *\",\"on_holiday\":\"next_workday\""),
        ERROR_INVALID);
}

/* What recurs: what goes with what, the limits, and the first due time and the text that follow. */
/* proves: null-absent, one-schedule, every, every-start, count, until, timezone, drop-after */
/* proves: missed, spread, debounce-ms */
static void test_schedules(void **state)
{
    static const struct {
        const char *json;
        uint64_t due_ms; /* behind NOW */
        const char *schedule;
    } right[] = {
        {AGAIN("\"every\":\"10s\""), 10000, "{\"every\":\"10s\"}"},
        {AGAIN("\"every\":60000,\"at\":1795132801500,\"count\":2"), 1500,
         "{\"every\":\"1m\",\"from\":\"2026-11-20T00:00:01.500Z\",\"count\":2}"},
        {AGAIN("\"every\":60000,\"at\":1795132799000"), 59000,
         "{\"every\":\"1m\",\"from\":\"2026-11-19T23:59:59.000Z\"}"},
        {AGAIN("\"cron\":\"30 1 * * *\",\"until\":1795232800000"), 5400000,
         "{\"cron\":\"30 1 * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\","
         "\"until\":\"2026-11-21T03:46:40.000Z\"}"},
        {AGAIN("\"after\":5,\"late\":{\"drop_after\":\"5m\"}"), 5,
         "{\"late\":{\"drop_after\":\"5m\"}}"},
        {AGAIN("\"every\":\"1s\",\"late\":{\"drop_after\":\"5m\",\"missed\":\"each\"}"), 1000,
         "{\"every\":\"1s\",\"late\":{\"drop_after\":\"5m\",\"missed\":\"each\"}}"},
        {AGAIN("\"every\":\"1s\",\"overlap\":\"wait\""), 1000, "{\"every\":\"1s\"}"},
        {AGAIN("\"every\":\"1s\",\"overlap\":\"skip\""), 1000,
         "{\"every\":\"1s\",\"overlap\":\"skip\"}"},
        {AGAIN("\"after\":5,\"late\":{}"), 5, ""},
        /* null is a field that is left out, as serializers write it; a tab is a blank */
        {AGAIN(
             "\"after\":5,\"at\":null,\"every\":null,\"cron\":null,\"timezone\":null,\"dst\":null,"
             "\"count\":null,\"until\":null,\"spread\":null,\"key\":null,\"watch\":null,"
             "\"labels\":null,\"headers\":null,\"retry\":{\"base\":null,\"cap\":null},\"body_"
             "base64\":null,"
             "\"content_type\":null,\"on_dead\":null,\"on_success\":null,\"id\":null,\"late\":"
             "null"),
         5, ""},
        {AGAIN("\"after\":5,\"late\":{\"drop_after\":null,\"missed\":null}"), 5, ""},
        {AGAIN("\"cron\":\"30\\t1 *\\t* *\""), 5400000,
         "{\"cron\":\"30 1 * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}"},
        {AGAIN("\"every\":\"1h\",\"at\":\"1970-01-01T00:00:00Z\""), 0,
         "{\"every\":\"1h\",\"from\":\"1970-01-01T00:00:00.000Z\"}"},
        {AGAIN("\"after\":5,\"late\":{\"dr\\u006fp_after\":\"366d\"}"), 5,
         "{\"late\":{\"drop_after\":\"366d\"}}"},
        {AGAIN("\"every\":10"), 10, "{\"every\":\"10ms\"}"},
        {AGAIN("\"every\":\"366d\",\"count\":1000000000000"), UINT64_C(31622400000),
         "{\"every\":\"366d\",\"count\":1000000000000}"},
        {AGAIN("\"every\":\"1d\",\"until\":\"9999-12-31T23:59:59.999Z\""), 86400000,
         "{\"every\":\"1d\",\"until\":\"9999-12-31T23:59:59.999Z\"}"},
        {AGAIN("\"cron\":\"0 9 * * *\",\"count\":2,\"except\":[ \"FRI-SUN\" , \"2026-11-23\"],"
               "\"timezone\":\"UTC\",\"on_holiday\":\"next_workday\""),
         (4 * 24 + 9) * 3600000,
         "{\"count\":2,\"cron\":\"0 9 * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\","
         "\"except\":[\"FRI-SUN\",\"2026-11-23\"],\"on_holiday\":\"next_workday\"}"},
        {AGAIN("\"every\":\"12h\",\"only\":[\"2026-12-01/2026-12-05\"],\"on_holiday\":\"skip\""),
         11 * 86400000, "{\"every\":\"12h\",\"only\":[\"2026-12-01/2026-12-05\"]}"},
        {AGAIN("\"cron\":\"0 0 2 * * *\",\"dst\":\"both\""), 7200000,
         "{\"cron\":\"0 0 2 * * *\",\"timezone\":\"UTC\",\"dst\":\"both\"}"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_INVALID, bad_schedules);
    struct problem problem;
    struct timer *timer;
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        assert_int_equal(timer_check_parse(CREATE, bytes_of(right[i].json), NULL, &timer, &problem),
                         ERROR_NONE);
        assert_int_equal(timer->due.ms - NOW.ms, right[i].due_ms);
        assert_true(bytes_equal(timer->texts.schedule, bytes_of(right[i].schedule)));
        timer_free(timer);
    }
}

/* A spread is one for each key, and stays within its window. */
/* proves: spread */
static void test_spread(void **state)
{
    (void)state;
    uint64_t sum = 0;
    struct problem problem;
    struct timer *timer;
    for (int key = 0; key < 100; key++) {
        uint64_t offsets[2];
        for (int i = 0; i < 2; i++) {
            char json[160];

            snprintf(json, sizeof(json),
                     AGAIN("\"%s\":1000,\"key\":\"k%d\",\"spread\":{\"window\":\"60s\"}"),
                     i ? "every" : "after", key);
            assert_int_equal(timer_check_parse(CREATE, bytes_of(json), NULL, &timer, &problem),
                             ERROR_NONE);
            offsets[i] = timer->due.ms - NOW.ms - 1000;
            timer_free(timer);
        }
        assert_int_equal(offsets[0], offsets[1]);
        assert_true(offsets[0] < 60000);
        sum += offsets[0];
    }
    assert_in_range(sum / 100, 20000, 40000);
    for (int key = 0; key < 10; key++) { /* never beyond the last day */
        char json[160];

        snprintf(json, sizeof(json),
                 AGAIN("\"at\":\"9999-12-31T23:59:59Z\",\"key\":\"k%d\","
                       "\"spread\":{\"window\":\"1d\"}"),
                 key);
        assert_int_equal(timer_check_parse(CREATE, bytes_of(json), NULL, &timer, &problem),
                         ERROR_NONE);
        assert_int_equal(timer->due.ms, WALL_MS_MAX);
        timer_free(timer);
    }
}

/* What is no JSON at all is told as that, even behind a field that is wrong. */
/* proves: not-json */
static void test_not_json(void **state)
{
    static const struct bad_case cases[] = {
        {"", "", "Byte 0: a value is expected"},
        {"{\"after\":1,}", "", "Byte 11: a name in quotes is expected"},
        {"{\"after\":01}", "", "Byte 10: a number has no leading zeros"},
        {"{\"after\":\"1h\"" TARGET "}", "", "Byte 34: something follows the value"},
        {"{\"nope\":1,\"after\":1h}", "", "Byte 19: a comma or } is expected"},
        {"{\"labels\":{\"a\":1},\"after\":tru}", "", "Byte 26: a value is expected"},
        {"{\"payload\":{\"a\":\"\\ud800\"}}", "", "Byte 17: this surrogate has no other half"},
        {"{\"payload\":\"\xff\"}", "", "Byte 12: this is not UTF-8"},
        {"[1", "", "Byte 2: a comma or ] is expected"},
        {"{\"retry\":{\"base\":\"1x\",}}", "", "Byte 22: a name in quotes is expected"},
        {"{\"headers\":{\"host\":\"x\"}", "", "Byte 23: a comma or } is expected"},
        {"{\"target\":\"http://h", "", "Byte 19: the text ends inside a string"},
    };

    (void)state;
    ASSERT_REFUSED(CREATE, ERROR_NOT_JSON, cases);
    ASSERT_REFUSED(VALUES, ERROR_NOT_JSON, cases);
}

static const char *const all_fields[] = {
    ("{\"after\":\"1\\u00681m\",\"target\":\"http:\\/\\/h:1/a\",\"payload\":[{\"a\":\"\xc3\xa9\"}],"
     "\"labels\":{\"\\u0061\":\"\\n\"},\"headers\":{\"X\\u002d1\":\"b\"},\"key\":\"\\u006b\","
     "\"watch\":[\"a\",\"\\u0062\"],\"retry\":{\"max_attempts\":2,\"base\":\"\\u0031s\","
     "\"cap\":9000,\"timeout\":\"5s\"}}"),
    ("{\"cron\":\"0 9 * * \\u0031\",\"timezone\":\"\\u0055TC\",\"dst\":\"\\u0073kip\","
     "\"until\":\"2030-01-01T00:00:00\\u005a\",\"late\":{\"drop_after\":\"1\\u0068\","
     "\"missed\":\"eac\\u0068\"},\"key\":\"k\",\"spread\":{\"window\":\"1\\u006d\"},"
     "\"body_base64\":\"A\\u0041==\",\"content_type\":\"a\\u002fb\",\"target\":\"queue:a\"}"),
    ("{\"every\":\"1\\u0068\",\"at\":\"2027-01-01T00:00:00\\u005a\",\"count\":3,"
     "\"target\":\"queue:a\"}"),
};

/* proves: debounce, debounce-ms */
static void test_debounce(void **state)
{
    struct timer *timer = parsed(CREATE,
                                 "{\"target\":\"queue:a\",\"key\":\"k\",\"debounce\":{\"for\":"
                                 "\"1ms\",\"at_most\":\"366d\"}}",
                                 NULL);

    (void)state;
    assert_text(timer->texts.debounce,
                "{\"for\":\"1ms\",\"at_most\":\"366d\",\"first\":\"2026-11-20T00:00:00.000Z\"}");
    assert_int_equal(timer->due.ms, timer->created.ms + 1);
    assert_int_equal(timer->texts.schedule.size, 0);
    timer_free(timer);
}

static void test_all_fields(void **state)
{
    (void)state;
    struct timer *timer = NULL;
    struct problem problem;
    assert_int_equal(timer_check_parse(CREATE, bytes_of(all_fields[0]), NULL, &timer, &problem),
                     ERROR_NONE);
    assert_text(timer->texts.target, "http://h:1/a");
    assert_text(timer->texts.labels, "{\"a\":\"\\n\"}");
    assert_text(timer->texts.headers, "X-1: b\n");
    assert_text(timer->texts.watch, "a\nb\n");
    timer_free(timer);
    for (size_t i = 1; i < sizeof(all_fields) / sizeof(all_fields[0]); i++) {
        if (timer_check_parse(CREATE, bytes_of(all_fields[i]), NULL, &timer, &problem))
            fail_msg("%s: %s", problem.faults[0].pointer, problem.faults[0].detail);
        timer_free(timer);
    }
}

static bool is_json(struct bytes text)
{
    struct json_reader reader;

    json_reader_init(&reader, text);
    return json_skip(&reader, NULL) && json_finish(&reader);
}

/* It is no JSON exactly when it is not. */
static void assert_told(struct bytes text)
{
    for (int i = 0; i < 2; i++) {
        struct problem problem;
        struct timer *timer;
        uint32_t fields;
        enum error_code code = i ? timer_check_parse(VALUES, text, &fields, &timer, &problem)
                                 : timer_check_parse(CREATE, text, NULL, &timer, &problem);

        if ((code == ERROR_NOT_JSON) == is_json(text))
            fail_msg("%.*s: %s", (int)text.size, text.data, problem.faults[0].detail);
        if (!code)
            timer_free(timer);
    }
}

/* Each text cut off at each byte, without it, with another in its place and with one before it. */
/* proves: not-json */
static void test_spoiled(void **state)
{
    static const char others[] = "x0-\"\\{}[]:, t\xff\x01";

    (void)state;
    for (size_t i = 0; i < sizeof(all_fields) / sizeof(all_fields[0]); i++) {
        struct bytes text = bytes_of(all_fields[i]);

        char spoiled[600];
        assert_true(text.size < sizeof(spoiled));
        for (size_t at = 0; at < text.size; at++) {
            size_t rest = text.size - at - 1;

            assert_told((struct bytes){text.data, at});
            memcpy(spoiled, text.data, at);
            memcpy(spoiled + at, text.data + at + 1, rest);
            assert_told((struct bytes){spoiled, at + rest});
            for (size_t k = 0; k < sizeof(others); k++) {
                spoiled[at] = others[k];
                memcpy(spoiled + at + 1, text.data + at + 1, rest);
                assert_told((struct bytes){spoiled, text.size});
                memcpy(spoiled + at + 1, text.data + at, rest + 1);
                assert_told((struct bytes){spoiled, text.size + 1});
            }
        }
    }
}

/* proves: patch-fields */
static void test_values(void **state)
{
    static const struct {
        const char *json;
        uint32_t fields;
    } cases[] = {
        {"{\"after\":1}", PATCH_DUE},
        {"{\"at\":1795132890000}", PATCH_DUE},
        {"{\"target\":\"http://h\"}", PATCH_TARGET},
        {"{\"payload\":null}", PATCH_PAYLOAD},
        {"{\"content_type\":\"text/plain\",\"body_base64\":\"\"}", PATCH_PAYLOAD},
        {"{\"headers\":{}}", PATCH_HEADERS},
        {"{\"labels\":{}}", PATCH_LABELS},
        {"{\"retry\":{}}", PATCH_RETRY},
        {"{\"labels\":{},\"after\":1,\"retry\":{\"base\":5}}",
         PATCH_LABELS | PATCH_DUE | PATCH_RETRY},
    };

    (void)state;
    struct timer *timer;
    uint32_t fields;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        timer = parsed(VALUES, cases[i].json, &fields);
        assert_int_equal(fields, cases[i].fields);
        timer_free(timer);
    }
    timer = parsed(VALUES, "{\"payload\":[1],\"after\":\"1s\",\"retry\":{\"max_attempts\":2}}",
                   &fields);
    assert_text(timer->texts.payload, "[1]");
    assert_int_equal(timer->due.ms, NOW.ms + 1000);
    assert_int_equal(timer->retry.attempts_max, 2);
    assert_int_equal(timer->retry.base_ms, 1000);
    timer_free(timer);
}

/* proves: body-base64, patch-time, patch-fields */
static void test_bad_values(void **state)
{
    static const struct bad_case cases[] = {
        {"{}", "#", "There is no field to change"},
        {"[]", "#", "It must be an object"},
        {"{\"after\":1,\"at\":1795132890000}", "#/at", "Give either `after` or `at`"},
        {"{\"payload\":1,\"body_base64\":\"\",\"content_type\":\"a/b\"}", "#/body_base64",
         "Give either `payload` or `body_base64`"},
        {"{\"body_base64\":\"\"}", "#/content_type", "`body_base64` needs a `content_type`"},
        {"{\"content_type\":\"a/b\"}", "#/content_type",
         "It goes with `body_base64`: a `payload` is application/json"},
        {"{\"version\":2}", "#/version", "It is read-only: the server sets it"},
        {"{\"target\":null}", "#", "There is no field to change"},
        {"{\"label\":{}}", "#/label", "There is no field `label`: did you mean `labels`?"},
    };

    (void)state;
    ASSERT_REFUSED(VALUES, ERROR_INVALID, cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timer_json_parse_test_create),
        cmocka_unit_test(test_due),
        cmocka_unit_test(test_bad_due),
        cmocka_unit_test(test_bad_retry),
        cmocka_unit_test(test_bad_fields),
        cmocka_unit_test(test_other_fields),
        cmocka_unit_test(test_every_fault),
        cmocka_unit_test(timer_json_parse_test_names),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_dates_at_their_limits),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_debounce),
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_spoiled),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_bad_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
