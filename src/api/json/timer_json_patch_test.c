/* Goal: a merge patch changes the fields that it names, as RFC 7396 says, and no other. Method:
 * tables of a timer, a patch, and the timer that must come out: as a create of the merged fields
 * would make it, or with its schedule and its next firing. Each patch is applied twice: the second
 * time changes nothing. */
#include "api/json/timer_json_check.h"

#include "calendar/zones.h"
#include "timer/schedule.h"

/* The timer of a create, as the engine keeps it. */
static struct timer *patch_test_timer(const char *fields)
{
    char json[1024];

    snprintf(json, sizeof(json), "{\"target\":\"http://h\",%s}", fields);
    return parsed(CREATE, json, NULL);
}

/* The changed timer, as the engine makes it (src/engine/change.c). */
static struct timer *patch_test_apply(const struct timer *timer, uint32_t fields,
                                      const struct timer *values)
{
    struct timer_texts texts = timer->texts;

    timer_texts_patch(&texts, fields, &values->texts);
    struct timer *copy = timer_copy(timer, &texts);

    assert_non_null(copy);
    if (fields & PATCH_RETRY)
        copy->retry = values->retry;
    if (fields & PATCH_DUE)
        copy->due = values->due;
    return copy;
}

/* The code, and with success the changed timer. */
static enum error_code patch_test_merge(const struct timer *timer, const char *patch,
                                        struct wall now, struct timer **ret_timer,
                                        struct problem *ret_problem)
{
    struct timer *values = NULL;
    uint32_t fields = 0;
    enum error_code code =
        timer_json_check_patch(bytes_of(patch), &limits, now, &fields, &values, ret_problem);

    if (!code && !values)
        code = timer_json_merge_patch(bytes_of(patch), timer, &limits, now, &fields, &values,
                                      ret_problem);
    if (!code)
        *ret_timer = patch_test_apply(timer, fields, values);
    timer_free(values);
    return code;
}

static struct timer *patch_test_merged(const struct timer *timer, const char *patch,
                                       struct wall now)
{
    struct timer *merged = NULL;
    struct problem problem;

    if (patch_test_merge(timer, patch, now, &merged, &problem))
        fail_msg("%s: %s %s", patch, problem.faults[0].pointer, problem.faults[0].detail);
    return merged;
}

static const struct {
    const char *before, *patch, *after;
} patched_fields[] = {
    {"\"after\":1", "{\"after\":7}", "\"after\":7"},
    {"\"after\":1", "{\"target\":\"http://other\"}", "\"after\":1,\"target\":\"http://other\""},
    /* labels */
    {"\"labels\":{\"a\":\"1\",\"b\":\"2\"}", "{\"labels\":{\"a\":null,\"c\":\"3\"}}",
     "\"labels\":{\"b\":\"2\",\"c\":\"3\"}"},
    {"\"labels\":{\"a\":\"1\"}", "{\"labels\":{\"a\":\"2\"}}", "\"labels\":{\"a\":\"2\"}"},
    {"\"labels\":{\"a\":\"1\"}", "{\"labels\":{}}", "\"labels\":{\"a\":\"1\"}"},
    {"\"labels\":{\"a\":\"1\"}", "{\"labels\":{\"a\":null}}", ""},
    {"\"labels\":{\"a\":\"1\"}", "{\"labels\":null}", ""},
    {"", "{\"labels\":{\"a\":\"1\",\"b\":null}}", "\"labels\":{\"a\":\"1\"}"},
    {"\"labels\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}",
     "{\"labels\":{\"a\":null,\"b\":null,\"d\":\"4\",\"e\":\"5\"}}",
     "\"labels\":{\"c\":\"3\",\"d\":\"4\",\"e\":\"5\"}"},
    /* headers */
    {"\"headers\":{\"X-A\":\"1\",\"X-B\":\"2\"}", "{\"headers\":{\"X-A\":null,\"X-B\":\"3\"}}",
     "\"headers\":{\"X-B\":\"3\"}"},
    {"\"headers\":{\"X-A\":\"1\"}", "{\"headers\":null}", ""},
    /* retry */
    {"\"retry\":{\"max_attempts\":3,\"base\":\"2s\",\"cap\":\"2h\"}",
     "{\"retry\":{\"max_attempts\":null,\"timeout\":\"1s\"}}",
     "\"retry\":{\"base\":\"2s\",\"cap\":\"2h\",\"timeout\":\"1s\"}"},
    {"\"retry\":{\"cap\":\"5h\"}", "{\"retry\":{\"base\":\"4h\"}}",
     "\"retry\":{\"base\":\"4h\",\"cap\":\"5h\"}"},
    {"\"retry\":{\"max_attempts\":3}", "{\"retry\":null}", ""},
    /* watch */
    {"\"watch\":[\"a\",\"b\"]", "{\"watch\":[\"c\"]}", "\"watch\":[\"c\"]"},
    {"\"watch\":[\"a\"]", "{\"watch\":null}", ""},
    {"\"watch\":[\"a\"]", "{\"watch\":[]}", ""},
    {"", "{\"watch\":[\"a\"]}", "\"watch\":[\"a\"]"},
    /* the method */
    {"", "{\"method\":\"DELETE\"}", "\"method\":\"DELETE\""},
    {"\"payload\":7", "{\"method\":\"PUT\"}", "\"method\":\"PUT\",\"payload\":7"},
    {"\"method\":\"PUT\"", "{\"method\":\"POST\"}", ""},
    {"\"method\":\"PUT\"", "{\"method\":null}", ""},
    {"\"method\":\"GET\"", "{\"method\":null,\"payload\":7}", "\"payload\":7"},
    {"\"payload\":7", "{\"method\":\"GET\",\"payload\":null}", "\"method\":\"GET\""},
    {"\"method\":\"PUT\"", "{\"target\":\"https://other\"}",
     "\"method\":\"PUT\",\"target\":\"https://other\""},
    {"\"method\":\"PUT\"", "{\"target\":\"queue:q\"}", "\"target\":\"queue:q\""},
    /* the content */
    {"\"payload\":{\"a\":{\"b\":1},\"c\":[ 1 ]}", "{\"payload\":{\"a\":{\"b\":null,\"d\":2}}}",
     "\"payload\":{\"a\":{\"d\":2},\"c\":[ 1 ]}"},
    {"\"payload\":{\"a\":1}", "{\"payload\":[null, {\"a\":null}]}",
     "\"payload\":[null, {\"a\":null}]"},
    {"\"payload\":7", "{\"payload\":{\"a\":1}}", "\"payload\":{\"a\":1}"},
    {"\"payload\":7", "{\"payload\":{\"a\":null}}", "\"payload\":{}"},
    {"\"payload\":7", "{\"payload\":null}", ""},
    {"\"payload\":7", "{\"body_base64\":\"AAE=\",\"content_type\":\"a/b\"}",
     "\"body_base64\":\"AAE=\",\"content_type\":\"a/b\""},
    {"\"body_base64\":\"AAE=\",\"content_type\":\"a/b\"", "{\"payload\":{\"a\":1}}",
     "\"payload\":{\"a\":1}"},
    {"\"body_base64\":\"AAE=\",\"content_type\":\"a/b\"", "{\"payload\":2}", "\"payload\":2"},
    {"\"body_base64\":\"AAE=\",\"content_type\":\"a/b\"", "{\"content_type\":\"c/d\"}",
     "\"body_base64\":\"AAE=\",\"content_type\":\"c/d\""},
    {"\"body_base64\":\"AAE=\",\"content_type\":\"a/b\"", "{\"body_base64\":\"AAI=\"}",
     "\"body_base64\":\"AAI=\",\"content_type\":\"a/b\""},
    {"\"body_base64\":\"AAE=\",\"content_type\":\"a/b\"", "{\"payload\":null}",
     "\"body_base64\":\"AAE=\",\"content_type\":\"a/b\""},
    {"\"body_base64\":\"AAE=\",\"content_type\":\"a/b\"",
     "{\"body_base64\":null,\"content_type\":null}", ""},
    /* reports */
    {"", "{\"on_dead\":{\"target\":\"queue:d\"}}", "\"on_dead\":{\"target\":\"queue:d\"}"},
    {"\"on_dead\":{\"target\":\"queue:d\"}", "{\"on_dead\":{}}",
     "\"on_dead\":{\"target\":\"queue:d\"}"},
    {"\"on_dead\":{\"target\":\"queue:d\"},\"on_success\":{\"target\":\"queue:s\"}",
     "{\"on_dead\":{\"target\":\"queue:e\"},\"on_success\":null}",
     "\"on_dead\":{\"target\":\"queue:e\"}"},
    /* the key, which stays */
    {"\"key\":\"k\",\"labels\":{\"a\":\"1\"}", "{\"key\":\"k\"}",
     "\"key\":\"k\",\"labels\":{\"a\":\"1\"}"},
    /* several at a time, with escapes in their names */
    {"\"labels\":{\"a\":\"1\"},\"payload\":1",
     "{\"l\\u0061bels\":{\"\\u0061\":null},\"payload\":null,\"watch\":[\"w\"]}",
     "\"watch\":[\"w\"]"},
};

/* Goal: the fields come out as a create of the merged fields has them. */
/* proves: patch-merge, patch-fields */
static void test_patched_fields(void **state)
{

    (void)state;
    for (size_t i = 0; i < sizeof(patched_fields) / sizeof(patched_fields[0]); i++) {
        char before[512], after[512];
        const char *when = strstr(patched_fields[i].before, "after") ? "" : "\"after\":1";

        snprintf(before, sizeof(before), "%s%s%s", when,
                 *when && *patched_fields[i].before ? "," : "", patched_fields[i].before);
        snprintf(after, sizeof(after), "{%s%s%s%s%s}",
                 strstr(patched_fields[i].after, "\"target\":\"http") ||
                         strstr(patched_fields[i].after, "\"target\":\"queue:q\"")
                     ? ""
                     : "\"target\":\"http://h\",",
                 when, *when && *patched_fields[i].after ? "," : "", patched_fields[i].after, "");
        struct timer *timer = patch_test_timer(before), *wanted = parsed(CREATE, after, NULL);
        struct timer *once = patch_test_merged(timer, patched_fields[i].patch, NOW);
        struct timer *twice = patch_test_merged(once, patched_fields[i].patch, NOW);

#define X(tag, name, ...)                                                         \
    if (!bytes_equal(once->texts.name, wanted->texts.name) ||                     \
        !bytes_equal(twice->texts.name, wanted->texts.name))                      \
        fail_msg("%s: %.*s", patched_fields[i].patch, (int)once->texts.name.size, \
                 once->texts.name.size ? once->texts.name.data : "");
        TIMER_TEXT_LIST(X)
#undef X
        assert_memory_equal(&once->retry, &wanted->retry, sizeof(once->retry));
        assert_int_equal(once->due.ms, wanted->due.ms);
        timer_free(timer);
        timer_free(wanted);
        timer_free(once);
        timer_free(twice);
    }
}

enum { LATER_MS = 25000 };

static const struct {
    const char *before, *patch;
    uint64_t due_ms; /* behind NOW; the timer is due 30 s behind NOW */
    const char *schedule;
} patched_schedules[] = {
    /* the rate begins anew */
    {"\"every\":\"30s\"", "{\"every\":\"20s\"}", LATER_MS + 20000,
     "{\"every\":\"20s\",\"from\":\"2026-11-20T00:00:45.000Z\"}"},
    {"\"every\":\"30s\"", "{\"every\":\"20s\",\"at\":1795132800001}", 40001,
     "{\"every\":\"20s\",\"from\":\"2026-11-20T00:00:00.001Z\"}"},
    {"\"every\":\"30s\",\"count\":5", "{\"every\":\"20s\"}", LATER_MS + 20000,
     "{\"every\":\"20s\",\"from\":\"2026-11-20T00:00:45.000Z\",\"count\":5}"},
    /* the rate is the same */
    {"\"every\":\"30s\",\"count\":5", "{\"every\":30000}", 30000,
     "{\"every\":\"30s\",\"count\":5}"},
    {"\"every\":\"30s\"", "{\"every\":\"30s\",\"at\":1795132860000}", 60000,
     "{\"every\":\"30s\",\"from\":\"2026-11-20T00:01:00.000Z\"}"},
    {"\"every\":\"30s\"", "{\"count\":3}", 30000, "{\"every\":\"30s\",\"count\":3}"},
    {"\"every\":\"30s\",\"at\":1795132830000,\"count\":2", "{\"count\":null}", 30000,
     "{\"every\":\"30s\",\"from\":\"2026-11-20T00:00:30.000Z\"}"},
    {"\"every\":\"30s\",\"count\":3", "{\"until\":\"2026-11-20T00:01:00Z\"}", 30000,
     "{\"every\":\"30s\",\"count\":3,\"until\":\"2026-11-20T00:01:00.000Z\"}"},
    {"\"every\":\"30s\",\"until\":1795132890000", "{\"until\":null}", 30000, "{\"every\":\"30s\"}"},
    /* a time alone moves the next firing */
    {"\"every\":\"30s\"", "{\"at\":1795132841000}", 41000, "{\"every\":\"30s\"}"},
    {"\"every\":\"30s\"", "{\"after\":1000,\"count\":9}", LATER_MS + 1000,
     "{\"every\":\"30s\",\"count\":9}"},
    /* lateness */
    {"\"every\":\"30s\",\"late\":{\"missed\":\"each\"}", "{\"late\":{\"drop_after\":\"5m\"}}",
     30000, "{\"every\":\"30s\",\"late\":{\"drop_after\":\"5m\",\"missed\":\"each\"}}"},
    {"\"every\":\"30s\",\"late\":{\"missed\":\"each\",\"drop_after\":\"5m\"}",
     "{\"late\":{\"missed\":null}}", 30000, "{\"every\":\"30s\",\"late\":{\"drop_after\":\"5m\"}}"},
    {"\"every\":\"30s\",\"late\":{\"missed\":\"each\"}", "{\"late\":null}", 30000,
     "{\"every\":\"30s\"}"},
    {"\"after\":30000", "{\"late\":{\"drop_after\":\"1m\"}}", 30000,
     "{\"late\":{\"drop_after\":\"1m\"}}"},
    /* it repeats no longer */
    {"\"every\":\"30s\",\"count\":5,\"until\":1795142890000,\"late\":{\"missed\":\"each\"}",
     "{\"every\":null}", 30000, ""},
    {"\"every\":\"30s\",\"late\":{\"missed\":\"each\",\"drop_after\":\"5m\"}",
     "{\"every\":null,\"after\":1000}", LATER_MS + 1000, "{\"late\":{\"drop_after\":\"5m\"}}"},
    /* it begins to */
    {"\"after\":30000", "{\"every\":\"10s\",\"count\":2}", LATER_MS + 10000,
     "{\"every\":\"10s\",\"from\":\"2026-11-20T00:00:35.000Z\",\"count\":2}"},
    {"\"after\":30000", "{\"cron\":\"* * * * *\"}", 60000,
     "{\"cron\":\"* * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}"},
    {"\"after\":30000", "{\"every\":null,\"cron\":null,\"count\":null,\"spread\":null}", 30000, ""},
    /* cron */
    {"\"cron\":\"30 * * * * *\"", "{\"cron\":\"40 * * * * *\"}", 40000,
     "{\"cron\":\"40 * * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}"},
    {"\"cron\":\"30 * * * * *\",\"dst\":\"skip\"",
     "{\"dst\":null,\"until\":\"2026-11-20T00:02:00Z\"}", 30000,
     "{\"cron\":\"30 * * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\","
     "\"until\":\"2026-11-20T00:02:00.000Z\"}"},
    {"\"cron\":\"30 * * * * *\"", "{\"timezone\":\"UTC\"}", 30000,
     "{\"cron\":\"30 * * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}"},
    {"\"cron\":\"30 * * * * *\"", "{\"at\":1795132831000}", 31000,
     "{\"cron\":\"30 * * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}"},
    {"\"cron\":\"30 * * * * *\"", "{\"count\":7}", 30000,
     "{\"count\":7,\"cron\":\"30 * * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\"}"},
    /* dates: 20 November 2026 is a Friday; the phase stays */
    {"\"cron\":\"30 * * * * *\"", "{\"only\":[ \"\\u0053AT\" ],\"timezone\":\"UTC\"}",
     86400000 + 30000,
     "{\"cron\":\"30 * * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\",\"only\":[\"SAT\"]}"},
    {"\"every\":\"30s\"", "{\"except\":[\"FRI\",\"2026-11-21\"]}", 2 * 86400000,
     "{\"every\":\"30s\",\"except\":[\"FRI\",\"2026-11-21\"]}"},
    {"\"every\":\"30s\",\"except\":[\"SAT\"],\"timezone\":\"UTC\"", "{\"except\":null}", 30000,
     "{\"every\":\"30s\"}"},
    {"\"every\":\"30m\",\"at\":1795132830000,\"except\":[\"SAT\"],\"only\":[\"FRI-SUN\"],"
     "\"on_holiday\":\"next_workday\"",
     "{\"except\":null}", 30000,
     "{\"every\":\"30m\",\"from\":\"2026-11-20T00:00:30.000Z\",\"only\":[\"FRI-SUN\"],"
     "\"on_holiday\":\"next_workday\"}"},
    /* one takes the place of the other */
    {"\"every\":\"30s\",\"count\":5,\"until\":1795142890000", "{\"cron\":\"40 * * * * *\"}", 40000,
     "{\"cron\":\"40 * * * * *\",\"timezone\":\"UTC\",\"dst\":\"shift\","
     "\"until\":\"2026-11-20T02:48:10.000Z\"}"},
    {"\"cron\":\"30 * * * * *\",\"dst\":\"skip\"", "{\"every\":\"10s\"}", LATER_MS + 10000,
     "{\"every\":\"10s\",\"from\":\"2026-11-20T00:00:35.000Z\"}"},
};

/* Goal: a changed recurrence gives the next firing, and fields of it that stay keep the phase.
 * Method: the timer is made at NOW and patched 25 s later. */
/* proves: patch-schedule, every-start, count, until, timezone, drop-after, missed */
static void test_patched_schedules(void **state)
{
    const struct wall later = wall_add(NOW, LATER_MS);

    (void)state;
    for (size_t i = 0; i < sizeof(patched_schedules) / sizeof(patched_schedules[0]); i++) {
        struct timer *timer = patch_test_timer(patched_schedules[i].before);
        struct timer *once = patch_test_merged(timer, patched_schedules[i].patch, later);
        struct timer *twice = patch_test_merged(once, patched_schedules[i].patch, later);

        assert_int_equal(timer->due.ms, NOW.ms + 30000);
        for (int times = 1; times <= 2; times++) {
            const struct timer *changed = times == 1 ? once : twice;

            if (!bytes_equal(changed->texts.schedule, bytes_of(patched_schedules[i].schedule)))
                fail_msg("%s: %.*s", patched_schedules[i].patch, (int)changed->texts.schedule.size,
                         changed->texts.schedule.data);
            if (changed->due.ms != NOW.ms + patched_schedules[i].due_ms)
                fail_msg("%s: due after %lld ms", patched_schedules[i].patch,
                         (long long)(changed->due.ms - NOW.ms));
        }
        timer_free(timer);
        timer_free(once);
        timer_free(twice);
    }
}

/* Goal: a spread moves the next firing by the difference to the old one, and only that. */
/* proves: patch-schedule, spread */
static void test_patched_spread(void **state)
{
    (void)state;
    for (int key = 0; key < 20; key++) {
        char fields[128];

        snprintf(fields, sizeof(fields), "\"every\":\"1h\",\"key\":\"k%d\"", key);
        struct timer *plain = patch_test_timer(fields);
        struct timer *wide = patch_test_merged(plain, "{\"spread\":{\"window\":\"60s\"}}", NOW);
        struct timer *same = patch_test_merged(wide, "{\"count\":9}", NOW);
        struct timer *none = patch_test_merged(wide, "{\"spread\":null}", NOW);

        snprintf(fields, sizeof(fields),
                 "\"every\":\"1h\",\"key\":\"k%d\",\"spread\":{\"window\":\"60s\"}", key);
        struct timer *wanted = patch_test_timer(fields);

        assert_int_equal(wide->due.ms, wanted->due.ms);
        assert_true(bytes_equal(wide->texts.schedule, wanted->texts.schedule));
        assert_int_equal(same->due.ms, wanted->due.ms);
        assert_int_equal(none->due.ms, plain->due.ms);
        assert_true(bytes_equal(none->texts.schedule, plain->texts.schedule));
        timer_free(plain);
        timer_free(wide);
        timer_free(same);
        timer_free(none);
        timer_free(wanted);
    }
}

static enum error_code patch_test_zone(void *context, struct bytes name,
                                       const struct zone **ret_zone)
{
    return zones_get(context, name, ret_zone, NULL);
}

/* Returns the mark after these patches, "" for none, one after the other, and the due time. */
static void patch_test_mark(const char *fields, const char *const patches[2],
                            char ret_mark[SCHEDULE_MARK_SIZE], struct wall *ret_due)
{
    struct calendars_row row = {.is_shared = true, .name = BYTES("de")};
    struct timer_json_limits zoned = limits;
    struct calendars *calendars;
    struct zones *zones;
    struct timer *timer = NULL;
    struct problem problem;
    char json[512];

    assert_int_equal(zones_create(ZONES_FOLDER, &zones, NULL), ERROR_NONE);
    assert_int_equal(holidays_parse(BYTES("[]"), &row.days, NULL), ERROR_NONE);
    assert_int_equal(calendars_create(&row, 1, &calendars), ERROR_NONE);
    holidays_leave(row.days);
    zoned.zones =
        (struct zone_source){.find = patch_test_zone, .context = zones, .calendars = calendars};
    snprintf(json, sizeof(json), "{\"target\":\"http://h\",\"key\":\"k\",%s}", fields);
    assert_int_equal(timer_json_parse_create(bytes_of(json), &zoned, NOW, &timer, &problem),
                     ERROR_NONE);
    timer->created = NOW;
    for (size_t i = 0; i < 2 && patches[i]; i++) {
        struct timer *values = NULL;
        uint32_t named = 0;

        if (timer_json_merge_patch(bytes_of(patches[i]), timer, &zoned, NOW, &named, &values,
                                   &problem))
            fail_msg("%s: %s %s", patches[i], problem.faults[0].pointer, problem.faults[0].detail);
        struct timer *next = patch_test_apply(timer, named, values);
        timer_free(values);
        timer_free(timer);
        timer = next;
    }
    assert_true(timer->texts.zoned.size < SCHEDULE_MARK_SIZE);
    snprintf(ret_mark, SCHEDULE_MARK_SIZE, "%.*s", (int)timer->texts.zoned.size,
             timer->texts.zoned.data);
    *ret_due = timer->due;
    timer_free(timer);
    calendars_leave(calendars);
    zones_destroy(zones);
}

/* Goal: with another spread, or the phase that it has, a firing follows later changes of its zone
 * and calendars, unless its time was set by hand. Method: marks beside those of a create. */
/* proves: patch-schedule, zone-rules */
static void test_a_patch_keeps_the_mark(void **state)
{
#define MARK_CRON  "\"cron\":\"0 9 * * *\",\"timezone\":\"Europe/Berlin\""
#define MARK_WIDE  "\"spread\":{\"window\":\"60s\"}"
#define MARK_PHASE "\"every\":\"1d\",\"at\":1795132800000"
#define MARK_EVERY MARK_PHASE ",\"except\":[\"calendar:de\"]"
    static const struct {
        const char *create, *patches[2], *like; /* `like` NULL: no mark */
    } rows[] = {
        {MARK_CRON, {"{" MARK_WIDE "}"}, MARK_CRON "," MARK_WIDE},
        {MARK_CRON "," MARK_WIDE, {"{\"spread\":null}"}, MARK_CRON},
        {MARK_CRON, {"{\"late\":{\"missed\":\"each\"}}"}, MARK_CRON},
        {MARK_CRON, {"{\"after\":\"1h\"}", "{" MARK_WIDE "}"}, NULL},
        {MARK_EVERY, {"{" MARK_PHASE "}"}, MARK_EVERY},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char mark[SCHEDULE_MARK_SIZE], like[SCHEDULE_MARK_SIZE] = "";
        struct wall due, due_like;

        patch_test_mark(rows[i].create, rows[i].patches, mark, &due);
        patch_test_mark(rows[i].like ? rows[i].like : rows[i].create, (const char *const[2]){NULL},
                        like, &due_like);
        assert_true(like[0]);
        assert_string_equal(mark, rows[i].like ? like : "");
        assert_int_equal(due.ms == due_like.ms, rows[i].like != NULL);
    }
}

static const struct {
    const char *before, *patch, *pointer, *detail;
} refused_patches[] = {
    {"", "{}", "#", "There is no field to change"},
    {"", "[]", "#", "It must be an object"},
    {"", "null", "#", "It must be an object"},
    {"", "{\"after\":null}", "#/after", "A timer's time cannot be removed"},
    {"", "{\"at\":null}", "#/at", "A timer's time cannot be removed"},
    {"", "{\"target\":null}", "#/target", "A timer needs a target"},
    {"\"key\":\"k\"", "{\"key\":null}", "#/key", "The key stays for the timer's life"},
    {"\"key\":\"k\"", "{\"key\":\"l\"}", "#/key", "The key stays for the timer's life"},
    {"", "{\"key\":\"k\"}", "#/key", "The key stays for the timer's life"},
    {"", "{\"id\":null}", "#/id", "It is read-only: the server sets it"},
    {"", "{\"label\":null}", "#/label", "There is no field `label`: did you mean `labels`?"},
    {"", "{\"labels\":{\"a\":\"1\"},\"l\\u0061bels\":null}", "#/labels", "It is given twice"},
    {"", "{\"labels\":{\"a\":1}}", "#/labels/a", "It must be a string"},
    {"", "{\"labels\":[]}", "#/labels", "It must be an object of strings"},
    {"", "{\"headers\":{\"Host\":\"x\"}}", "#/headers/Host", "The server sets this header itself"},
    {"\"headers\":{\"X-A\":\"1\"}", "{\"headers\":{\"x-a\":\"2\"}}", "#/headers/x-a",
     "This header is named twice"},
    {"\"labels\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}", "{\"labels\":{\"d\":\"4\"}}", "#/labels",
     "It may have at most 3 members"},
    {"\"retry\":{\"cap\":\"2s\"}", "{\"retry\":{\"base\":\"3s\"}}", "#/retry/base",
     "It must not be longer than `cap` (2s)"},
    {"\"retry\":{\"base\":\"2h\",\"cap\":\"3h\"}", "{\"retry\":{\"cap\":null}}", "#/retry/base",
     "It must not be longer than `cap` (1h)"},
    {"", "{\"on_dead\":{}}", "#/on_dead", "A `target` is needed"},
    {"\"on_dead\":{\"target\":\"queue:d\"}", "{\"on_dead\":{\"target\":null}}", "#/on_dead/target",
     "A report needs a target"},
    {"", "{\"on_dead\":\"queue:d\"}", "#/on_dead", "It must be an object"},
    {"", "{\"report_of\":null}", "#/report_of", "It is read-only: the server sets it"},
    {"\"payload\":1", "{\"content_type\":\"a/b\"}", "#/content_type",
     "It goes with `body_base64`: a `payload` is application/json"},
    {"\"body_base64\":\"AAE=\",\"content_type\":\"a/b\"", "{\"content_type\":null}",
     "#/content_type", "`body_base64` needs a `content_type`"},
    {"", "{\"payload\":1,\"body_base64\":\"\",\"content_type\":\"a/b\"}", "#/body_base64",
     "Give either `payload` or `body_base64`"},
    {"", "{\"after\":1,\"at\":1795132890000}", "#/at", "Give either `after` or `at`"},
    {"", "{\"every\":\"1s\",\"cron\":\"* * * * *\"}", "#/cron", "Give either `every` or `cron`"},
    {"", "{\"every\":\"1s\",\"after\":1}", "#/after", "It goes with neither `every` nor `cron`"},
    {"", "{\"cron\":\"* * * * *\",\"at\":1795132890000}", "#/at", "It does not go with `cron`"},
    {"", "{\"count\":2}", "#/count", "It goes with `every` or `cron`"},
    {"", "{\"until\":2}", "#/until", "It goes with `every` or `cron`"},
    {"", "{\"timezone\":\"UTC\"}", "#/timezone", "It goes with `cron`, `except` or `only`"},
    {"", "{\"late\":{\"missed\":\"each\"}}", "#/late/missed", "It goes with `every` or `cron`"},
    {"", "{\"spread\":{\"window\":\"1m\"}}", "#/spread", "It goes by the `key`, and there is none"},
    {"\"key\":\"k\"", "{\"spread\":{\"window\":\"1m\"}}", "#/spread",
     "It goes with `after`, `at`, `every` or `cron`"},
    {"\"key\":\"k\"", "{\"spread\":{\"window\":null}}", "#/spread", "A `window` is needed"},
    {"\"every\":\"1s\",\"count\":5", "{\"cron\":\"* * * * *\",\"count\":1001}", "#/count",
     "With `cron`, `except` or `only` it must be 1 to 1000"},
    {"\"every\":\"1s\"", "{\"on_holiday\":\"skip\"}", "#/on_holiday",
     "It goes with `except` or `only`"},
    {"\"every\":\"1s\",\"only\":[\"MON\"]", "{\"except\":[\"MON\"]}", "#/except",
     "It would never fire"},
    {"\"every\":\"1s\"", "{\"until\":\"2026-11-20T00:00:00Z\"}", "#/until", "It would never fire"},
    {"\"every\":\"1s\",\"until\":1795132810000", "{\"every\":\"20s\"}", "#/every",
     "It would never fire"},
    {"\"every\":\"1s\"", "{\"cron\":\"0 0 1 * *\",\"until\":1795132810000}", "#/until",
     "It would never fire"},
    /* the method */
    {"\"method\":\"GET\"", "{\"payload\":1}", "#/method",
     "GET and DELETE have no body: leave `payload` out"},
    {"\"payload\":1", "{\"method\":\"DELETE\"}", "#/method",
     "GET and DELETE have no body: leave `payload` out"},
    {"", "{\"method\":\"PUT\",\"target\":\"queue:q\"}", "#/method",
     "It goes with an http or https `target`"},
};

/* Goal: what cannot be removed, changed or combined is refused at its field. */
/* proves: patch-merge, patch-schedule, patch-fields, key */
static void test_refused_patches(void **state)
{

    (void)state;
    for (size_t i = 0; i < sizeof(refused_patches) / sizeof(refused_patches[0]); i++) {
        char before[256];
        const char *when = strstr(refused_patches[i].before, "every") ? "" : "\"after\":1";
        struct timer *timer, *merged = NULL;
        struct problem problem;

        snprintf(before, sizeof(before), "%s%s%s", when,
                 *when && *refused_patches[i].before ? "," : "", refused_patches[i].before);
        timer = patch_test_timer(before);
        if (patch_test_merge(timer, refused_patches[i].patch, NOW, &merged, &problem) !=
            ERROR_INVALID)
            fail_msg("%s", refused_patches[i].patch);
        if (strcmp(problem.faults[0].pointer, refused_patches[i].pointer) != 0 ||
            strcmp(problem.faults[0].detail, refused_patches[i].detail) != 0)
            fail_msg("%s: %s %s", refused_patches[i].patch, problem.faults[0].pointer,
                     problem.faults[0].detail);
        timer_free(timer);
    }
}

/* Goal: the merged payload, not the patch, is held to the limit; and every fault of a patch is
 * told. */
/* proves: patch-merge, payload_bytes_max */
static void test_patched_limits(void **state)
{
    static const char most[] = "{\"payload\":{\"a\":\"0123456789012345678901234567890\"}}";
    struct timer *timer = patch_test_timer("\"after\":1,\"payload\":{\"b\":\"0123456789\"}");
    struct timer *merged;
    struct problem problem;

    (void)state;
    assert_int_equal(patch_test_merge(timer, most, NOW, &merged, &problem), ERROR_TOO_LARGE);
    assert_string_equal(problem.faults[0].pointer, "#/payload");
    merged = patch_test_merged(
        timer, "{\"payload\":{\"b\":null,\"a\":\"0123456789012345678901234567890\"}}", NOW);
    assert_text(merged->texts.payload, "{\"a\":\"0123456789012345678901234567890\"}");
    timer_free(merged);
    assert_int_equal(patch_test_merge(timer,
                                      "{\"traget\":null,\"after\":\"x\",\"labels\":{\"a\":1},"
                                      "\"target\":null,\"retry\":{\"base\":0}}",
                                      NOW, &merged, &problem),
                     ERROR_INVALID);
    assert_int_equal(problem.fault_count, 5);
    timer_free(timer);
}

/* Goal: values that do not depend on the timer are there without it; all others ask for it. */
static void test_without_the_timer(void **state)
{
    static const struct {
        const char *patch;
        bool is_whole;
    } cases[] = {
        {"{\"after\":1}", true},       {"{\"at\":1795132890000,\"target\":\"http://h\"}", true},
        {"{\"watch\":[\"a\"]}", true}, {"{\"target\":\"http://h\",\"payload\":\"x\"}", false},
        {"{\"payload\": {} }", false}, {"{\"payload\":null}", false},
        {"{\"watch\":null}", false},   {"{\"labels\":{}}", false},
        {"{\"every\":\"1s\"}", false}, {"{\"after\":1,\"key\":\"k\"}", false},
        {"{\"retry\":{}}", false},     {"{\"late\":{}}", false},
        {"{\"headers\":{}}", false},   {"{\"method\":\"PUT\"}", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct timer *values = NULL;
        struct problem problem;
        uint32_t fields;

        assert_int_equal(timer_json_check_patch(bytes_of(cases[i].patch), &limits, NOW, &fields,
                                                &values, &problem),
                         ERROR_NONE);
        if ((values != NULL) != cases[i].is_whole)
            fail_msg("%s", cases[i].patch);
        timer_free(values);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patched_fields),    cmocka_unit_test(test_patched_schedules),
        cmocka_unit_test(test_patched_spread),    cmocka_unit_test(test_a_patch_keeps_the_mark),
        cmocka_unit_test(test_refused_patches),   cmocka_unit_test(test_patched_limits),
        cmocka_unit_test(test_without_the_timer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
