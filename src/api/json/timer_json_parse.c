/* timer_json_parse.c - reads the fields of a timer, and the body of a create. */
#include "api/json/timer_json_parse.h"

#include "api/json/strict.h"
#include "calendar/duration.h"
#include "sys/clock.h"

#include <stdio.h>
#include <stdlib.h>

#define BIT(field) TIMER_FIELD_BIT(field)

#define AFTER_NUMBER_LEAST UINT64_C(60000) /* a smaller number looks like seconds */

#define AT_NUMBER_LEAST UINT64_C(100000000000) /* in 1973; as seconds, in the year 5138 */

/* Limit of `debounce`. */
#define DEBOUNCE_MS_MAX (UINT64_C(366) * 24 * 3600 * 1000)

/* Limits of `retry`. */
#define ATTEMPTS_MAX         100
#define CAP_MS_MAX           (UINT64_C(30) * 24 * 3600 * 1000)
#define GIVE_UP_MS_MAX       (UINT64_C(366) * 24 * 3600 * 1000)
#define RETRY_TIMEOUT_MS_MAX (UINT64_C(10) * 60 * 1000)

/* ---- when ---- */

/* Reports a number that looks like seconds, or refuses it. */
static enum error_code parse_check_bare_after(struct timer_parse *parse, uint64_t after_ms)
{
    const struct timer_json_limits *limits = parse->limits;

    if (after_ms == 0 || after_ms >= AFTER_NUMBER_LEAST)
        return ERROR_NONE;
    if (limits->bare_after == TIMER_JSON_BARE_REFUSED)
        return timer_parse_invalid(
            parse, "#/after",
            "A number is milliseconds: give a unit, as in \"%llums\" or \"%llus\"",
            (unsigned long long)after_ms, (unsigned long long)after_ms);
    if (limits->bare_after == TIMER_JSON_BARE_NOTED && limits->is_after_bare)
        *limits->is_after_bare = true;
    return ERROR_NONE;
}

enum error_code timer_parse_after(struct timer_parse *parse)
{
    const bool is_number = json_peek(&parse->reader) == JSON_NUMBER;
    uint64_t after_ms;
    enum error_code code = timer_parse_duration(parse, "#/after", &after_ms);

    if (!code && is_number)
        code = parse_check_bare_after(parse, after_ms);
    if (code)
        return code;
    if (after_ms == 0)
        parse->now.ms -= !clock_is_virtual(); /* now, so it is due already */
    parse->due = wall_add(parse->now, after_ms);
    if (parse->due.ms > WALL_MS_MAX)
        return timer_parse_invalid(parse, "#/after", "It is beyond the year 9999");
    return ERROR_NONE;
}

/* Refuses a number below AT_NUMBER_LEAST: most clients count in seconds, and such a timer would
 * fire at once. A time that long ago can be written as a text. */
enum error_code timer_parse_at(struct timer_parse *parse)
{
    bool is_number = json_peek(&parse->reader) == JSON_NUMBER;
    enum error_code code = timer_parse_wall(parse, "#/at", &parse->due);

    if (!code && is_number && parse->due.ms < AT_NUMBER_LEAST)
        code = timer_parse_invalid(
            parse, "#/at",
            "It looks like seconds; it must be milliseconds since 1970, or RFC 3339");
    return code;
}

/* ---- debounce ---- */

static enum error_code parse_read_debounce_field(struct timer_parse *parse, size_t field)
{
    return field == 0 ? timer_parse_duration_in(parse, "#/debounce/for", 1, DEBOUNCE_MS_MAX,
                                                &parse->debounce.for_ms)
                      : timer_parse_duration_in(parse, "#/debounce/at_most", 1, DEBOUNCE_MS_MAX,
                                                &parse->debounce.at_most_ms);
}

enum error_code timer_parse_debounce(struct timer_parse *parse)
{
    static const char *const known[] = {"for", "at_most"};
    struct debounce *debounce = &parse->debounce;

    const enum error_code code =
        timer_parse_members(parse, "#/debounce", known, 2, parse_read_debounce_field);
    if (code)
        return code;
    if (!debounce->for_ms || !debounce->at_most_ms)
        return timer_parse_invalid(parse, "#/debounce", "`for` and `at_most` are needed");
    if (debounce->for_ms > debounce->at_most_ms)
        return timer_parse_invalid(parse, "#/debounce/for", "It must not be longer than `at_most`");
    return ERROR_NONE;
}

/* Sets the time of a timer that each call moves, as the first call does. */
static enum error_code parse_use_debounce(struct timer_parse *parse)
{
    if (!(parse->seen & BIT(debounce)))
        return ERROR_NONE;
    if (parse->seen & (BIT(after) | BIT(at) | BIT(every) | BIT(cron) | BIT(spread)))
        return timer_parse_invalid(
            parse, "#/debounce", "It takes the place of `after`, `at`, `every`, `cron`, `spread`");
    if (!parse->texts.key.size)
        return timer_parse_invalid(parse, "#/debounce", "It needs a `key`");
    parse->debounce.first = parse->now;
    parse->due = debounce_due(&parse->debounce, parse->now);
    parse->texts.debounce = debounce_write(&parse->debounce, parse->debounced);
    return ERROR_NONE;
}

/* ---- retry ---- */

#define RETRY_FIELD_LIST(X) X(max_attempts) X(base) X(cap) X(timeout) X(give_up_after) X(until)

enum retry_field {
#define X(name) RETRY_##name,
    RETRY_FIELD_LIST(X)
#undef X
        RETRY_FIELD_COUNT,
};

static const char *const retry_fields[] = {
#define X(name) #name,
    RETRY_FIELD_LIST(X)
#undef X
};

static enum error_code parse_read_max_attempts(struct timer_parse *parse)
{
    uint64_t attempts;
    enum error_code code =
        strict_integer(parse, "#/retry/max_attempts", 1, ATTEMPTS_MAX, &attempts);

    if (!code)
        parse->retry.attempts_max = (uint32_t)attempts;
    return code;
}

static enum error_code parse_read_retry_until(struct timer_parse *parse)
{
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/retry/until", &text);

    if (!code && !bytes_equal(text, BYTES("next")))
        code = timer_parse_invalid(parse, "#/retry/until", "It must be \"next\"");
    if (!code)
        parse->retry.until_next = true;
    return code;
}

static enum error_code parse_read_retry_field(struct timer_parse *parse, size_t field)
{
    switch ((enum retry_field)field) {
    case RETRY_max_attempts:
        return parse_read_max_attempts(parse);
    case RETRY_base:
        return timer_parse_duration_in(parse, "#/retry/base", 1, CAP_MS_MAX, &parse->retry.base_ms);
    case RETRY_cap:
        return timer_parse_duration_in(parse, "#/retry/cap", 1, CAP_MS_MAX, &parse->retry.cap_ms);
    case RETRY_give_up_after:
        return timer_parse_duration_in(parse, "#/retry/give_up_after", 1, GIVE_UP_MS_MAX,
                                       &parse->retry.give_up_ms);
    case RETRY_until:
        return parse_read_retry_until(parse);
    default:
        return timer_parse_duration_in(parse, "#/retry/timeout", 1, RETRY_TIMEOUT_MS_MAX,
                                       &parse->retry.timeout_ms);
    }
}

/* Fields that the object lacks keep their defaults. */
enum error_code timer_parse_retry(struct timer_parse *parse)
{
    const enum error_code code = timer_parse_members(parse, "#/retry", retry_fields,
                                                     RETRY_FIELD_COUNT, parse_read_retry_field);

    if (code)
        return code;
    if (!parse->is_patch && parse->retry.base_ms > parse->retry.cap_ms) {
        char text[DURATION_TEXT_SIZE];
        duration_format(parse->retry.cap_ms, text);
        return timer_parse_invalid(parse, "#/retry/base", "It must not be longer than `cap` (%s)",
                                   text);
    }
    return ERROR_NONE;
}

/* ---- all fields ---- */

static enum error_code timer_parse_unknown_field(struct timer_parse *parse, struct bytes name)
{
    const char *known[FIELD_COUNT];
    size_t count = 0;

    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (timer_fields[i].parse)
            known[count++] = timer_fields[i].name;
    return timer_parse_unknown(parse, "#", name, known, count);
}

/* Removes the field of a null in a patch, unless a timer needs it. */
static enum error_code timer_parse_remove_field(struct timer_parse *parse, enum timer_field field)
{
    const struct timer_field_row *row = &timer_fields[field];

    if (row->kept) {
        char pointer[32];

        snprintf(pointer, sizeof(pointer), "#/%s", row->name);
        return timer_parse_invalid(parse, pointer, "%s", row->kept);
    }
    parse->removed |= UINT64_C(1) << field;
    return timer_parse_skip(parse);
}

enum error_code timer_parse_read_field(void *reading, struct bytes name)
{
    struct timer_parse *parse = reading;
    enum timer_field field = timer_field_find(name);

    if (field == FIELD_COUNT)
        return timer_parse_unknown_field(parse, name);
    if (field != FIELD_payload && timer_parse_is_absent(parse))
        return timer_parse_skip(parse); /* a payload may be null */
    if (!timer_fields[field].parse || parse->seen & UINT64_C(1) << field) {
        char pointer[32];
        timer_pointer("#", name, pointer, sizeof(pointer));
        return timer_parse_invalid(parse, pointer, "%s",
                                   timer_fields[field].parse
                                       ? "It is given twice"
                                       : "It is read-only: the server sets it");
    }
    parse->seen |= UINT64_C(1) << field;
    if (timer_parse_removes(parse))
        return timer_parse_remove_field(parse, field);
    return timer_fields[field].parse(parse);
}

enum error_code timer_parse_check_together(struct timer_parse *parse)
{
    const uint64_t seen = parse->seen;

    if (seen & BIT(after) && seen & BIT(at))
        return timer_parse_invalid(parse, "#/at", "Give either `after` or `at`");
    if (seen & BIT(target) && seen & BIT(targets))
        return timer_parse_invalid(parse, "#/targets", "Give either `target` or `targets`");
    if (seen & BIT(payload) && seen & BIT(body_base64))
        return timer_parse_invalid(parse, "#/body_base64",
                                   "Give either `payload` or `body_base64`");
    if (seen & BIT(body_base64) && !(seen & BIT(content_type)))
        return timer_parse_invalid(parse, "#/content_type", "`body_base64` needs a `content_type`");
    if (seen & BIT(content_type) && !(seen & BIT(body_base64)))
        return timer_parse_invalid(parse, "#/content_type",
                                   "It goes with `body_base64`: a `payload` is application/json");
    return ERROR_NONE;
}

enum error_code timer_parse_read_fields(struct timer_parse *parse)
{
    enum error_code code = timer_parse_body(parse, timer_parse_read_field, parse);

    return code || parse->is_patch ? code : timer_parse_check_together(parse);
}

enum error_code timer_parse_make(struct timer_parse *parse, struct timer **ret_timer)
{
    struct buffer schedule;

    buffer_init(&schedule);
    schedule_write(&parse->schedule, &schedule);
    parse->texts.schedule = buffer_bytes(&schedule);
    struct timer *timer = NULL;
    if (!buffer_failed(&schedule))
        timer = timer_alloc_parsed(&parse->texts, &parse->target);
    buffer_deinit(&schedule);
    if (!timer)
        return timer_parse_no_memory(parse);
    timer->due = parse->due;
    timer->created = parse->now;
    timer->retry = parse->retry;
    *ret_timer = timer;
    return ERROR_NONE;
}

void timer_parse_init(struct timer_parse *parse, struct bytes json,
                      const struct timer_json_limits *limits, struct wall now,
                      struct problem *problem, char *local)
{
    *parse = (struct timer_parse){
        .limits = limits,
        .now = now,
        .problem = problem,
        .json = json,
        .retry = RETRY_POLICY_DEFAULT,
        .texts = {.tenant = limits->tenant},
        .schedule = SCHEDULE_SPEC_DEFAULT,
        .texts.trace = limits->trace,
        .local = local,
    };
    json_reader_init(&parse->reader, json);
}

enum error_code timer_parse_end(struct timer_parse *parse, enum error_code code)
{
    code = timer_parse_prefer_not_json(parse, code);
    if (parse->scratch.data != parse->local)
        free(parse->scratch.data);
    return code;
}

enum error_code timer_json_parse_create(struct bytes json, const struct timer_json_limits *limits,
                                        struct wall now, struct timer **ret_timer,
                                        struct problem *ret_problem)
{
    struct timer_parse parse;
    char local[TIMER_JSON_SCRATCH_SIZE];

    timer_parse_init(&parse, json, limits, now, ret_problem, local);
    parse.texts.key = limits->key;
    enum error_code code = timer_parse_read_fields(&parse);
    if (!code && !(parse.seen & (BIT(after) | BIT(at) | BIT(every) | BIT(cron) | BIT(debounce))))
        code = timer_parse_invalid(
            &parse, "#", "One of `after`, `at`, `every`, `cron` and `debounce` is needed");
    if (!code)
        code = parse_use_debounce(&parse);
    if (!code)
        code = timer_parse_when(&parse);
    if (!code && !(parse.seen & (BIT(target) | BIT(targets))))
        code = timer_parse_invalid(&parse, "#", "A `target` is needed");
    if (!code)
        code = timer_parse_check_method(&parse, parse.texts.method, &parse.texts);
    if (!code)
        code = timer_parse_check_order(&parse, &parse.texts);
    if (!code)
        code = timer_parse_make(&parse, ret_timer);
    return timer_parse_end(&parse, code);
}
