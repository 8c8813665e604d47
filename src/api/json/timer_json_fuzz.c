/*
 * timer_json_fuzz - creates and patches of any bytes: the answer is a timer within all limits whose
 * JSON reads back as the same timer, or a problem that is valid JSON itself; a text is told to be
 * no JSON exactly when jansson says so too (json_fuzz.c lists where they differ); and each label is
 * found among the labels. A patch that is merged into a timer leaves a valid schedule.
 */
#include "api/json/timer_json.h"
#include "base/check.h"
#include "base/json.h"
#include "base/json_oracle.h"
#include "timer/labels.h"
#include "timer/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW ((struct wall){UINT64_C(1795132800000)})

static const struct timer_json_limits limits = {
    .payload_bytes_max = 256,
    .target_bytes_max = 128,
    .labels_max = 8,
    .headers_bytes_max = 256,
};

static json_t *load(struct bytes text)
{
    json_t *json = json_loadb(text.data, text.size, JSON_ALLOW_NUL, NULL);

    CHECK(json != NULL);
    return json;
}

static void check_problem(struct bytes text, enum error_code code, const struct problem *problem)
{
    json_error_t error;
    json_t *json = json_loadb(text.data, text.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);

    CHECK(problem->code == code);
    if (code == ERROR_NOT_JSON)
        CHECK(!json || strstr(problem->faults[0].detail, "nested too deeply") ||
              memchr(text.data, 0, text.size));
    else
        CHECK(json || json_error_code(&error) == json_error_numeric_overflow ||
              json_error_code(&error) == json_error_null_byte_in_key);
    json_decref(json);
    CHECK(code == ERROR_NOT_JSON || code == ERROR_INVALID || code == ERROR_TOO_LARGE);
    CHECK((problem->faults[0].pointer[0] == '#') == (code != ERROR_NOT_JSON));
    CHECK(problem->faults[0].detail[0] != '\0');
    for (const char *at = problem->faults[0].pointer; *at; at++)
        CHECK(*at > ' ' && *at < 0x7f);
    struct buffer buffer;
    buffer_init(&buffer);
    problem_format(problem, &buffer);
    json_decref(load(buffer_bytes(&buffer)));
    buffer_deinit(&buffer);
}

static void check_limits(const struct timer *timer)
{
    CHECK(timer->due.ms <= WALL_MS_MAX);
    CHECK(timer->retry.attempts_max >= 1 && timer->retry.attempts_max <= 100);
    CHECK(timer->retry.base_ms >= 1 && timer->retry.base_ms <= timer->retry.cap_ms);
    CHECK(timer->retry.timeout_ms >= 1);
    CHECK(timer->texts.payload.size <= limits.payload_bytes_max);
    CHECK(timer->texts.target.size <= limits.target_bytes_max);
    CHECK(timer->texts.headers.size <= limits.headers_bytes_max);
    for (size_t i = 0; i < timer->texts.target.size; i++)
        CHECK(timer->texts.target.data[i] > ' ' && timer->texts.target.data[i] < 0x7f);
    for (size_t i = 0; i < timer->texts.headers.size; i++)
        CHECK((uint8_t)timer->texts.headers.data[i] >= ' ' || timer->texts.headers.data[i] == '\n');
}

/* Each label is found by its name and its value, and by no other value. */
static void check_labels(struct bytes labels)
{
    if (!labels.size)
        return;
    json_t *json = load(labels);
    const char *name;
    json_t *value;
    json_object_foreach(json, name, value)
    {
        struct bytes text = {json_string_value(value), json_string_length(value)};
        struct bytes shorter = {text.data, text.size - 1};

        CHECK(labels_have(labels, bytes_of(name), text));
        CHECK(!text.size || !labels_have(labels, bytes_of(name), shorter));
    }
    CHECK(labels_have_all(labels, labels));
    json_decref(json);
}

static void timer_json_fuzz_append_member(struct buffer *out, struct bytes name, struct bytes value)
{
    buffer_append_text(out, ",\"");
    buffer_append_bytes(out, name);
    buffer_append_text(out, "\":");
    buffer_append_bytes(out, value);
}

static bool is_one_of(struct bytes name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes_equal(name, bytes_of(names[i])))
            return true;
    return false;
}

/* The members of a shown schedule, as members of a create. Whether it says when it is due. */
static bool resend_schedule(struct bytes schedule, struct buffer *out)
{
    static const char *const whens[] = {"every", "cron"};
    struct json_reader reader;

    json_reader_init(&reader, schedule);
    CHECK(json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader));
    struct json_string name;
    bool is_when = false;
    while (json_next_member(&reader, &name)) {
        struct bytes value;
        CHECK(json_skip(&reader, &value));
        is_when |= is_one_of(name.raw, whens, 2);
        timer_json_fuzz_append_member(
            out, bytes_equal(name.raw, BYTES("from")) ? BYTES("at") : name.raw, value);
    }
    CHECK(json_finish(&reader));
    return is_when;
}

/* Appends the targets that are shown as an array of strings. */
static void timer_json_fuzz_resend_targets(struct bytes shown, struct buffer *out)
{
    struct json_reader reader;
    struct json_string name;
    struct buffer targets;

    buffer_init(&targets);
    json_reader_init(&reader, shown);
    CHECK(json_peek(&reader) == JSON_ARRAY && json_enter_array(&reader));
    while (json_next_element(&reader)) {
        CHECK(json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader));
        while (json_next_member(&reader, &name)) {
            struct bytes value;
            CHECK(json_skip(&reader, &value));
            if (!bytes_equal(name.raw, BYTES("target")))
                continue;
            buffer_append_text(&targets, targets.size ? "," : "[");
            buffer_append_bytes(&targets, value);
        }
    }
    buffer_append_text(&targets, "]");
    CHECK(json_finish(&reader));
    timer_json_fuzz_append_member(out, BYTES("targets"), buffer_bytes(&targets));
    buffer_deinit(&targets);
}

/* The settable members of what is shown, as a create. */
static void timer_json_fuzz_resend(struct bytes shown, struct buffer *out)
{
    static const char *const kept[] = {"target",       "payload", "headers",    "labels",
                                       "key",          "watch",   "retry",      "body_base64",
                                       "content_type", "on_dead", "on_success", "method"};
    struct json_reader reader;

    json_reader_init(&reader, shown);
    CHECK(json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader));
    struct json_string name;
    struct bytes due = {0};
    bool is_when = false;
    while (json_next_member(&reader, &name)) {
        struct bytes value;
        CHECK(json_skip(&reader, &value));
        if (is_one_of(name.raw, kept, sizeof(kept) / sizeof(kept[0])))
            timer_json_fuzz_append_member(out, name.raw, value);
        else if (bytes_equal(name.raw, BYTES("targets")))
            timer_json_fuzz_resend_targets(value, out);
        else if (bytes_equal(name.raw, BYTES("schedule")))
            is_when = resend_schedule(value, out);
        else if (bytes_equal(name.raw, BYTES("due")))
            due = value;
    }
    CHECK(json_finish(&reader) && out->size > 0);
    if (!is_when)
        timer_json_fuzz_append_member(out, BYTES("at"), due);
    out->data[0] = '{'; /* in place of the first comma */
    buffer_append_text(out, "}");
}

/* It went by a window that is not kept. */
static bool has_spread(struct bytes schedule)
{
    return schedule.size > 0 && memmem(schedule.data, schedule.size, "\"spread\"", 8);
}

static void check_round_trip(const struct timer *timer)
{
    if (has_spread(timer->texts.schedule))
        return;
    struct buffer shown;
    buffer_init(&shown);
    struct buffer again;
    buffer_init(&again);
    timer_json_format(timer, &(struct timer_json_view){0}, &shown);
    timer_json_fuzz_resend(buffer_bytes(&shown), &again);
    struct timer *back;
    struct problem problem;
    CHECK(timer_json_parse_create(buffer_bytes(&again), &limits, NOW, &back, &problem) ==
          ERROR_NONE);
    CHECK(back->due.ms == timer->due.ms);
    CHECK(back->retry.attempts_max == timer->retry.attempts_max &&
          back->retry.base_ms == timer->retry.base_ms &&
          back->retry.cap_ms == timer->retry.cap_ms &&
          back->retry.timeout_ms == timer->retry.timeout_ms);
#define X(tag, name, ...) CHECK(bytes_equal(back->texts.name, timer->texts.name));
    TIMER_TEXT_LIST(X)
#undef X
    timer_free(back);
    buffer_deinit(&shown);
    buffer_deinit(&again);
}

/* A patch of a timer, as text: what it is checked to be, it is when it is merged. */
static void check_merge(struct bytes text, const char *before)
{
    const struct wall later = wall_add(NOW, 2500);
    struct timer *timer, *values = NULL;
    struct problem problem;
    uint32_t fields = 0;

    CHECK(!timer_json_parse_create(bytes_of(before), &limits, NOW, &timer, &problem));
    enum error_code code =
        timer_json_merge_patch(text, timer, &limits, later, &fields, &values, &problem);

    CHECK(!code || code == ERROR_INVALID || code == ERROR_TOO_LARGE);
    if (!code) {
        struct timer_texts texts = timer->texts;
        struct schedule schedule;

        CHECK(fields < PATCH_ACK_TIMEOUT << 1);
        check_limits(values);
        check_labels(values->texts.labels);
        texts.schedule = values->texts.schedule;
        struct timer *changed = timer_copy(timer, &texts);

        CHECK(!schedule_of(changed, &limits.zones, &schedule, NULL));
        timer_free(changed);
    }
    timer_free(values);
    timer_free(timer);
}

/* The text as a patch: refused by itself, or merged into a timer of each sort. */
static void check_patch(struct bytes text)
{
    struct timer *values = NULL;
    struct problem problem;
    uint32_t fields;
    enum error_code code = timer_json_check_patch(text, &limits, NOW, &fields, &values, &problem);

    if (code) {
        check_problem(text, code, &problem);
        return;
    }
    if (values)
        check_limits(values);
    timer_free(values);
    check_merge(text, "{\"after\":1,\"target\":\"http://h\",\"key\":\"k\","
                      "\"labels\":{\"a\":\"1\"},\"headers\":{\"X-A\":\"1\"},"
                      "\"payload\":{\"a\":{\"b\":1}},\"retry\":{\"base\":\"2s\"},"
                      "\"on_dead\":{\"target\":\"queue:d\"}}");
    check_merge(text,
                "{\"every\":\"1s\",\"target\":\"queue:q\",\"count\":5,\"until\":1795142800000,"
                "\"key\":\"k\",\"spread\":{\"window\":\"1m\"},"
                "\"late\":{\"missed\":\"each\",\"drop_after\":\"5m\"}}");
    check_merge(text, "{\"cron\":\"30 * * * * *\",\"target\":\"http://h\",\"dst\":\"skip\","
                      "\"body_base64\":\"AAE=\",\"content_type\":\"a/b\",\"watch\":[\"w\"],"
                      "\"method\":\"PUT\"}");
    check_merge(text, "{\"after\":1,\"target\":\"https://h\",\"method\":\"DELETE\"}");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes text = {(const char *)data, size};
    struct timer *timer;
    struct problem problem;
    enum error_code code = timer_json_parse_create(text, &limits, NOW, &timer, &problem);

    if (code) {
        check_problem(text, code, &problem);
    } else {
        check_limits(timer);
        check_round_trip(timer);
        check_labels(timer->texts.labels);
        timer_free(timer);
    }
    uint32_t fields;
    code = timer_json_parse_values(text, &limits, NOW, &fields, &timer, &problem);
    if (code) {
        check_problem(text, code, &problem);
    } else {
        check_limits(timer);
        CHECK(fields != 0 && fields < PATCH_ACK_TIMEOUT << 1);
        timer_free(timer);
    }
    check_patch(text);
    return 0;
}
