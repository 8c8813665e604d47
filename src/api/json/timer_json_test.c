/* Goal: a timer is shown as docs/api.md has it, and what is shown can be sent back and gives an
 * equal timer. Method: whole texts for each kind of timer; then random timers written, their
 * settable fields read back and compared. */
#include "api/json/timer_json_check.h"
#include "base/json.h"
#include "base/json_write.h"
#include "timer/runs.h"
#include "base/random.h"
#include "seed.h"

static void assert_shown(const struct timer *timer, const char *expected)
{
    struct buffer buffer;

    buffer_init(&buffer);
    timer_json_format(timer, &(struct timer_json_view){0}, &buffer);
    assert_false(buffer_failed(&buffer));
    struct json_reader reader;
    json_reader_init(&reader, buffer_bytes(&buffer));
    assert_true(json_skip(&reader, NULL) && json_finish(&reader));
    assert_text(buffer_bytes(&buffer), expected);
    buffer_deinit(&buffer);
}

#define TARGET "\"target\":\"https://shop.example/recheck?a=\\\"\""
#define RETRY                                                                                      \
    "\"retry\":{\"max_attempts\":10,\"base\":\"1s\",\"cap\":\"1h\",\"timeout\":\"15s\",\"give_up_" \
    "after\":\"3d\"}"

/* proves: timer-due, timer-state, timer-content, timer-retry, timer-created, timer-ended */
static void test_shown(void **state)
{
    struct timer timer = {
        .id = {NOW, 1, TIMER_SERIAL(1, 3)},
        .due = {NOW.ms + 86399250},
        .created = NOW,
        .version = 3,
        .retry = RETRY_POLICY_DEFAULT,
        .texts = {.target = BYTES("https://shop.example/recheck?a=\"")},
    };

    (void)state;
    char id[TIMER_ID_TEXT_SIZE];
    timer_id_format(&timer.id, id);
    char expected[1000];
    snprintf(expected, sizeof(expected),
             "{\"id\":\"%s\",\"due\":\"2026-11-20T23:59:59.250Z\",\"state\":\"scheduled\","
             "\"version\":3," TARGET "," RETRY
             ",\"attempts\":0,\"created\":\"2026-11-20T00:00:00.000Z\"}",
             id);
    assert_shown(&timer, expected);

    timer.texts.payload = BYTES("{ \"order\": 42 }");
    timer.texts.headers = BYTES("X-A: b: c\nY: \"\n");
    timer.texts.labels = BYTES("{\"team\":\"checkout\"}");
    timer.texts.last_error = BYTES("500 \xff\n");
    timer.state = TIMER_RETRYING;
    timer.at = (struct wall){UINT64_C(1795219260123)};
    timer.attempts = 2;
    timer.version = UINT32_MAX;
    timer.retry = (struct retry_policy){100, 1, 90061001, 600000, 61000, false};
    snprintf(expected, sizeof(expected),
             "{\"id\":\"%s\",\"due\":\"2026-11-20T23:59:59.250Z\",\"state\":\"retrying\","
             "\"version\":4294967295," TARGET ",\"payload\":{ \"order\": 42 },"
             "\"headers\":{\"X-A\":\"b: c\",\"Y\":\"\\\"\"},\"labels\":{\"team\":\"checkout\"},"
             "\"retry\":{\"max_attempts\":100,\"base\":\"1ms\",\"cap\":\"1d1h1m1s1ms\","
             "\"timeout\":\"10m\",\"give_up_after\":\"1m1s\"},\"attempts\":2,\"created\":\"2026-11-"
             "20T00:00:00.000Z\",\"next_attempt\":\"2026-11-21T00:01:00.123Z\","
             "\"last_error\":\"500 \xef\xbf\xbd\\n\"}",
             id);
    assert_shown(&timer, expected);

    timer.state = TIMER_CANCELLED;
    timer.ended = (struct wall){NOW.ms + 1};
    timer.retry = RETRY_POLICY_DEFAULT;
    timer.texts.labels = timer.texts.last_error = (struct bytes){0};
    snprintf(expected, sizeof(expected),
             "{\"id\":\"%s\",\"due\":\"2026-11-20T23:59:59.250Z\",\"state\":\"cancelled\","
             "\"version\":4294967295," TARGET "," RETRY
             ",\"attempts\":2,\"created\":\"2026-11-20T00:00:00.000Z\","
             "\"ended\":\"2026-11-20T00:00:00.001Z\"}",
             id);
    assert_shown(&timer, expected);

    timer.state = TIMER_DELIVERING;
    timer.texts.headers = (struct bytes){0};
    timer.texts.payload = BYTES("\0\xff");
    timer.texts.content_type = BYTES("a/b;c=\"d\"");
    snprintf(expected, sizeof(expected),
             "{\"id\":\"%s\",\"due\":\"2026-11-20T23:59:59.250Z\",\"state\":\"delivering\","
             "\"version\":4294967295," TARGET ",\"body_base64\":\"AP8=\","
             "\"content_type\":\"a/b;c=\\\"d\\\"\"," RETRY
             ",\"attempts\":2,\"created\":\"2026-11-20T00:00:00.000Z\"}",
             id);
    assert_shown(&timer, expected);
}

/* proves: runs, run-planned, run-outcome */
static void test_runs_shown(void **state)
{
    const struct run done = {.planned = NOW,
                             .started = {NOW.ms + 2},
                             .duration_ms = 31,
                             .attempts = 1,
                             .status = 200,
                             .outcome = RUN_DONE};
    const struct run dropped = {
        .planned = {NOW.ms + 1000}, .outcome = RUN_DROPPED, .error = BYTES("\"late\"")};
    char rooms[2][RUNS_BYTES_MAX];
    struct timer timer = {.retry = RETRY_POLICY_DEFAULT};
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer);
    timer_json_put_runs(&timer, &buffer);
    assert_text(buffer_bytes(&buffer), "\"runs\":[]");
    buffer_clear(&buffer);
    timer_json_format(&timer, &(struct timer_json_view){0}, &buffer);
    assert_false(memmem(buffer.data, buffer.size, "runs", 4));
    timer.texts.runs = runs_add((struct bytes){0}, &done, rooms[0]);
    timer.texts.runs = runs_add(timer.texts.runs, &dropped, rooms[1]);
    buffer_clear(&buffer);
    timer_json_put_runs(&timer, &buffer);
    assert_text(
        buffer_bytes(&buffer),
        "\"runs\":[{\"planned\":\"2026-11-20T00:00:01.000Z\",\"attempts\":0,"
        "\"outcome\":\"dropped\",\"error\":\"\\\"late\\\"\"},"
        "{\"planned\":\"2026-11-20T00:00:00.000Z\",\"started\":\"2026-11-20T00:00:00.002Z\","
        "\"duration_ms\":31,\"attempts\":1,\"outcome\":\"done\",\"status\":200}]");
    buffer_clear(&buffer);
    timer_json_format(&timer, &(struct timer_json_view){0}, &buffer);
    assert_non_null(memmem(buffer.data, buffer.size, ",\"runs\":[{", 10));
    buffer_deinit(&buffer);
}

/* proves: report, report-timer */
static void test_reports_shown(void **state)
{
    struct timer timer = {.retry = RETRY_POLICY_DEFAULT,
                          .texts = {.on_dead = BYTES("queue:d"),
                                    .on_success = BYTES("http://s/"),
                                    .report_of = BYTES("06h")}};
    static const char shown[] = ",\"on_dead\":{\"target\":\"queue:d\"},"
                                "\"on_success\":{\"target\":\"http://s/\"},\"report_of\":\"06h\",";
    struct buffer buffer;

    (void)state;
    buffer_init(&buffer);
    timer_json_format(&timer, &(struct timer_json_view){0}, &buffer);
    assert_non_null(memmem(buffer.data, buffer.size, shown, sizeof(shown) - 1));
    buffer_deinit(&buffer);
}

/* Headers that were not written here make no text that is no JSON. */
static void test_damaged_headers(void **state)
{
    static const char *const texts[] = {"X",    "X\n",     "X:\n",       "\n",
                                        "X: a", "X: a\nY", "X: a\nY:\n", ":\n: "};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct timer timer = {.retry = RETRY_POLICY_DEFAULT,
                              .texts = {.headers = bytes_of(texts[i])}};
        struct buffer buffer;

        buffer_init(&buffer);
        timer_json_format(&timer, &(struct timer_json_view){0}, &buffer);
        struct json_reader reader;
        json_reader_init(&reader, buffer_bytes(&buffer));
        assert_true(json_skip(&reader, NULL) && json_finish(&reader));
        buffer_deinit(&buffer);
    }
}

/* ---- there and back ---- */

/* Up to `size_max` random characters: ASCII with or without controls, and a few longer ones. */
static struct bytes random_text(struct random *random, unsigned lowest, size_t size_max, char *to)
{
    static const char *const long_ones[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    size_t want = random_below(random, size_max - 3), size = 0;

    while (size < want) {
        uint64_t pick = random_below(random, 20);

        if (pick < 3) {
            memcpy(to + size, long_ones[pick], strlen(long_ones[pick]));
            size += strlen(long_ones[pick]);
        } else {
            to[size++] = (char)(lowest + random_below(random, 0x7f - lowest));
        }
    }
    return (struct bytes){to, size};
}

struct sent {
    struct buffer labels, headers, payload;
};

static void random_texts(struct random *random, struct sent *sent, struct timer_texts *texts)
{
    static const char *const payloads[] = {"null", "[1 , 2]", "{\"a\":{}}", "\"\\u0000\"", "-1e5"};
    size_t labels = random_below(random, 4), headers = random_below(random, 3);

    buffer_clear(&sent->labels);
    buffer_clear(&sent->headers);
    buffer_clear(&sent->payload);
    char text[40];
    for (size_t i = 0; i < labels; i++) {
        buffer_append_text(&sent->labels, i ? "," : "{");
        text[0] = (char)('a' + i); /* so that no name comes twice */
        json_append_string(&sent->labels,
                           (struct bytes){text, 1 + random_text(random, 0, 20, text + 1).size});
        buffer_append_text(&sent->labels, ":");
        json_append_string(&sent->labels, random_text(random, 0, 20, text));
    }
    if (labels)
        buffer_append_text(&sent->labels, "}");
    for (size_t i = 0; i < headers; i++) {
        buffer_printf(&sent->headers, "X-%zu: x", i);
        buffer_append_bytes(&sent->headers, random_text(random, 0x20, 12, text));
        buffer_append_text(&sent->headers, "x\n");
    }
    *texts = (struct timer_texts){.target = BYTES("http://h/a?b"),
                                  .labels = buffer_bytes(&sent->labels),
                                  .headers = buffer_bytes(&sent->headers)};
    switch (random_below(random, 3)) {
    case 0:
        texts->payload = bytes_of(payloads[random_below(random, 5)]);
        break;
    case 1:
        for (size_t i = random_below(random, 40); i > 0; i--)
            buffer_append(&sent->payload, &(char){(char)random_next(random)}, 1);
        texts->payload = buffer_bytes(&sent->payload);
        texts->content_type = BYTES("text/plain; a=\"\\\"\"");
        break;
    }
}

/* Makes a create of what is shown: `due` becomes `at`, and what the server says is left out. */
static void timer_json_test_resend(struct bytes shown, struct buffer *out)
{
    static const char *const kept[] = {"due",         "target",       "payload", "headers",
                                       "body_base64", "content_type", "labels",  "retry"};
    struct json_reader reader;
    const char *separator = "{";

    json_reader_init(&reader, shown);
    assert_int_equal(json_peek(&reader), JSON_OBJECT);
    assert_true(json_enter_object(&reader));
    struct json_string name;
    struct bytes value;
    while (json_next_member(&reader, &name)) {
        assert_true(json_skip(&reader, &value));
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
            if (!bytes_equal(name.raw, bytes_of(kept[i])))
                continue;
            buffer_append_text(out, separator);
            json_append_string(out, i == 0 ? BYTES("at") : name.raw);
            buffer_append_text(out, ":");
            buffer_append_bytes(out, value);
            separator = ",";
        }
    }
    assert_true(json_finish(&reader));
    buffer_append_text(out, "}");
}

/* proves: stored-unchanged, timer-content */
static void timer_json_test_round_trip(void **state)
{
    struct random random = random_seeded(testing_seed());

    (void)state;
    struct buffer shown = {0}, again = {0};
    struct sent sent = {0};
    for (int run = 0; run < 3000; run++) {
        struct timer_texts texts;

        random_texts(&random, &sent, &texts);
        struct timer *timer = timer_alloc(&texts);
        assert_non_null(timer);
        timer->due.ms = random_below(&random, WALL_MS_MAX + 1);
        timer->retry = (struct retry_policy){
            1 + (uint32_t)random_below(&random, 100),    1 + random_below(&random, 1000000),
            1000000 + random_below(&random, 1000000000), 1 + random_below(&random, 600000),
            1 + random_below(&random, 600000),           false};
        buffer_clear(&shown);
        buffer_clear(&again);
        timer_json_format(timer, &(struct timer_json_view){0}, &shown);
        timer_json_test_resend(buffer_bytes(&shown), &again);
        struct timer *back = NULL;
        struct problem problem;
        if (timer_check_parse(CREATE, buffer_bytes(&again), NULL, &back, &problem))
            fail_msg("%.*s: %s %s", (int)again.size, again.data, problem.faults[0].pointer,
                     problem.faults[0].detail);
        assert_int_equal(back->due.ms, timer->due.ms);
        assert_int_equal(back->retry.attempts_max, timer->retry.attempts_max);
        assert_int_equal(back->retry.base_ms, timer->retry.base_ms);
        assert_int_equal(back->retry.cap_ms, timer->retry.cap_ms);
        assert_int_equal(back->retry.timeout_ms, timer->retry.timeout_ms);
        assert_int_equal(back->retry.give_up_ms, timer->retry.give_up_ms);
#define X(tag, text, ...)                                  \
    if (!bytes_equal(back->texts.text, timer->texts.text)) \
        fail_msg(#text " differs in run %d: %.*s", run, (int)shown.size, shown.data);
        TIMER_TEXT_LIST(X)
#undef X
        timer_free(timer);
        timer_free(back);
    }
    buffer_deinit(&shown);
    buffer_deinit(&again);
    buffer_deinit(&sent.labels);
    buffer_deinit(&sent.headers);
    buffer_deinit(&sent.payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shown),
        cmocka_unit_test(test_runs_shown),
        cmocka_unit_test(test_reports_shown),
        cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(timer_json_test_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
