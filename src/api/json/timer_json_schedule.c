/* timer_json_schedule.c - reads the schedule in a timer's JSON: every, cron, late and spread. */
#include "api/json/timer_json_parse.h"

#include "api/json/strict.h"
#include "base/json_write.h"

#include <stdio.h>

#define EVERY_MS_MIN       10
#define EVERY_MS_MAX       (UINT64_C(366) * 24 * 3600 * 1000)
#define SPREAD_MS_MAX      (UINT64_C(24) * 3600 * 1000)
#define LATE_MS_MAX        EVERY_MS_MAX
#define SCHEDULE_COUNT_MAX UINT64_C(1000000000000)
#define HAS(parse, field)  ((parse)->seen & TIMER_FIELD_BIT(field))

enum error_code timer_parse_every(struct timer_parse *parse)
{
    return timer_parse_duration_in(parse, "#/every", EVERY_MS_MIN, EVERY_MS_MAX,
                                   &parse->schedule.every_ms);
}

enum error_code timer_parse_count(struct timer_parse *parse)
{
    return strict_integer(parse, "#/count", 1, SCHEDULE_COUNT_MAX, &parse->schedule.count);
}

enum error_code timer_parse_until(struct timer_parse *parse)
{
    return timer_parse_wall(parse, "#/until", &parse->schedule.until);
}

/* Checks texts that are stored unchanged, because nothing in them needs escapes. */
static enum error_code schedule_json_check_plain(struct timer_parse *parse, const char *pointer,
                                                 struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < ' ' || text.data[i] > '~' || memchr("\"\\", text.data[i], 2))
            return timer_parse_invalid(parse, pointer, "It has a character that does not belong");
    return ERROR_NONE;
}

static enum error_code schedule_json_read_plain(struct timer_parse *parse, const char *pointer,
                                                struct bytes *ret_text)
{
    const enum error_code code = timer_parse_string(parse, pointer, ret_text);

    return code ? code : schedule_json_check_plain(parse, pointer, *ret_text);
}

/* Replaces tabs between fields by blanks, because crontabs have both. In JSON a tab is an
 * escape, so the text is in the scratch. */
static void schedule_json_cron_replace_tabs(struct timer_parse *parse, struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\t')
            parse->scratch.data[(size_t)(text.data - parse->scratch.data) + i] = ' ';
}

enum error_code timer_parse_cron(struct timer_parse *parse)
{
    struct error error;
    struct cron cron;
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/cron", &text);

    if (code)
        return code;
    schedule_json_cron_replace_tabs(parse, text);
    parse->schedule.cron = text;
    code = schedule_json_check_plain(parse, "#/cron", text);
    if (!code && (cron_parse(text, &cron, &error) || cron_check_weekdays(text, &error)))
        code = timer_parse_invalid_error(parse, "#/cron", &error);
    return code;
}

enum error_code timer_parse_timezone(struct timer_parse *parse)
{
    struct error error;
    enum error_code code = schedule_json_read_plain(parse, "#/timezone", &parse->schedule.timezone);

    if (!code && zone_name_check(parse->schedule.timezone, &error))
        code = timer_parse_invalid_error(parse, "#/timezone", &error);
    return code;
}

enum error_code timer_parse_dst(struct timer_parse *parse)
{
    struct bytes text;
    struct error error;
    enum error_code code = timer_parse_string(parse, "#/dst", &text);

    if (!code && cron_dst_parse(text, &parse->schedule.dst, &error))
        code = timer_parse_invalid_error(parse, "#/dst", &error);
    return code;
}

enum error_code timer_parse_overlap(struct timer_parse *parse)
{
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/overlap", &text);

    if (!code && !schedule_overlap_parse(text, &parse->schedule.overlap))
        code =
            timer_parse_invalid(parse, "#/overlap", "It must be \"wait\", \"skip\" or \"allow\"");
    return code;
}

/* ---- except, only, on_holiday ---- */

/* Reads the entries into the scratch, as the JSON array that is stored. */
static enum error_code schedule_json_read_entries(struct timer_parse *parse, const char *pointer)
{
    enum error_code code = ERROR_NONE;
    unsigned count = 0;

    while (!code && json_next_element(&parse->reader)) {
        char room[TIMER_JSON_NAME_ROOM], here[40];
        struct bytes entry;
        struct error error;

        snprintf(here, sizeof(here), "%s/%u", pointer, count);
        if (count++ == DATES_ENTRIES_MAX)
            return timer_parse_invalid(parse, pointer, "There may be at most %d entries",
                                       DATES_ENTRIES_MAX);
        code = timer_parse_string_into(parse, here, room, &entry);
        if (!code && dates_check_entry(entry, &error))
            code = timer_parse_invalid_error(parse, here, &error);
        if (!code && count > 1)
            code = timer_parse_keep(parse, (struct bytes){0}, ',');
        if (!code)
            code = timer_parse_keep(parse, (struct bytes){0}, '"');
        if (!code)
            code = timer_parse_keep(parse, entry, '"');
    }
    if (!code && json_error(&parse->reader))
        code = timer_parse_not_json(parse);
    return code;
}

static enum error_code schedule_json_read_dates(struct timer_parse *parse, const char *pointer,
                                                struct bytes *ret_text)
{
    if (json_peek(&parse->reader) == JSON_NONE)
        return timer_parse_not_json(parse);
    if (json_peek(&parse->reader) != JSON_ARRAY)
        return timer_parse_invalid(parse, pointer, "It must be an array of dates and weekdays");
    if (!json_enter_array(&parse->reader))
        return timer_parse_not_json(parse);
    const size_t start = parse->scratch.size;
    struct dates_list list;
    struct error error;
    enum error_code code = timer_parse_keep(parse, (struct bytes){0}, '[');
    if (!code)
        code = schedule_json_read_entries(parse, pointer);
    if (!code)
        code = timer_parse_keep(parse, (struct bytes){0}, ']');
    if (code)
        return code;
    *ret_text = timer_parse_kept(parse, start);
    if (dates_parse(*ret_text, NULL, NULL, &list, &error))
        code = timer_parse_invalid_error(parse, pointer, &error);
    return code;
}

enum error_code timer_parse_except(struct timer_parse *parse)
{
    return schedule_json_read_dates(parse, "#/except", &parse->schedule.except);
}

enum error_code timer_parse_only(struct timer_parse *parse)
{
    return schedule_json_read_dates(parse, "#/only", &parse->schedule.only);
}

enum error_code timer_parse_on_holiday(struct timer_parse *parse)
{
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/on_holiday", &text);

    if (!code && !dates_move_parse(text, &parse->schedule.on_holiday))
        code = timer_parse_invalid(parse, "#/on_holiday",
                                   "It must be \"skip\", \"next_workday\" or \"previous_workday\"");
    return code;
}

/* ---- late, spread ---- */

static enum error_code schedule_json_read_missed(struct timer_parse *parse)
{
    struct bytes text;
    enum error_code code = timer_parse_string(parse, "#/late/missed", &text);

    if (code)
        return code;
#define X(name, word)                                      \
    if (bytes_equal(text, BYTES(word))) {                  \
        parse->schedule.missed = RECURRENCE_MISSED_##name; \
        return ERROR_NONE;                                 \
    }
    RECURRENCE_MISSED_LIST(X)
#undef X
    return timer_parse_invalid(parse, "#/late/missed", "It must be \"last\" or \"each\"");
}

static enum error_code schedule_json_read_late_member(struct timer_parse *parse, size_t field)
{
    return field == 1 ? schedule_json_read_missed(parse)
                      : timer_parse_duration_in(parse, "#/late/drop_after", 1, LATE_MS_MAX,
                                                &parse->schedule.drop_after_ms);
}

enum error_code timer_parse_late(struct timer_parse *parse)
{
    static const char *const known[] = {"drop_after", "missed"};

    return timer_parse_members(parse, "#/late", known, 2, schedule_json_read_late_member);
}

static enum error_code schedule_json_read_window(struct timer_parse *parse, size_t field)
{
    (void)field;
    return timer_parse_duration_in(parse, "#/spread/window", 1, SPREAD_MS_MAX,
                                   &parse->spread_window_ms);
}

enum error_code timer_parse_spread(struct timer_parse *parse)
{
    static const char *const known[] = {"window"};
    const enum error_code code =
        timer_parse_members(parse, "#/spread", known, 1, schedule_json_read_window);

    if (!code && !parse->spread_window_ms)
        return timer_parse_invalid(parse, "#/spread", "A `window` is needed");
    return code;
}

/* ---- all of it ---- */

/* Checks the combinations of schedule fields. */
static enum error_code timer_schedule_check_together(struct timer_parse *parse)
{
    const bool every = HAS(parse, every), cron = HAS(parse, cron);
    const uint64_t given = parse->seen & ~parse->kept; /* a time alone moves the next firing */

    if (every && cron)
        return timer_parse_invalid(parse, "#/cron", "Give either `every` or `cron`");
    if (given & (TIMER_FIELD_BIT(every) | TIMER_FIELD_BIT(cron)) && HAS(parse, after))
        return timer_parse_invalid(parse, "#/after", "It goes with neither `every` nor `cron`");
    if (given & TIMER_FIELD_BIT(cron) && HAS(parse, at))
        return timer_parse_invalid(parse, "#/at", "It does not go with `cron`");
    if (!every && !cron && HAS(parse, count))
        return timer_parse_invalid(parse, "#/count", "It goes with `every` or `cron`");
    if (!every && !cron && HAS(parse, until))
        return timer_parse_invalid(parse, "#/until", "It goes with `every` or `cron`");
    if (!every && !cron && parse->seen & TIMER_FIELDS_DATES)
        return timer_parse_invalid(parse,
                                   HAS(parse, except) ? "#/except"
                                   : HAS(parse, only) ? "#/only"
                                                      : "#/on_holiday",
                                   "It goes with `every` or `cron`");
    if (HAS(parse, on_holiday) && !HAS(parse, except) && !HAS(parse, only))
        return timer_parse_invalid(parse, "#/on_holiday", "It goes with `except` or `only`");
    if (!cron && !HAS(parse, except) && !HAS(parse, only) && HAS(parse, timezone))
        return timer_parse_invalid(parse, "#/timezone", "It goes with `cron`, `except` or `only`");
    if (!cron && HAS(parse, dst))
        return timer_parse_invalid(parse, "#/dst", "It goes with `cron`");
    if (!every && !cron && parse->schedule.missed != RECURRENCE_MISSED_LAST)
        return timer_parse_invalid(parse, "#/late/missed", "It goes with `every` or `cron`");
    if (!every && !cron && HAS(parse, overlap))
        return timer_parse_invalid(parse, "#/overlap", "It goes with `every` or `cron`");
    if (parse->schedule.overlap == SCHEDULE_OVERLAP_SKIP &&
        parse->schedule.missed == RECURRENCE_MISSED_EACH)
        return timer_parse_invalid(parse, "#/overlap", "`skip` contradicts `late.missed` `each`");
    if (HAS(parse, spread) && !parse->texts.key.size)
        return timer_parse_invalid(parse, "#/spread", "It goes by the `key`, and there is none");
    return ERROR_NONE;
}

static enum error_code timer_schedule_make(struct timer_parse *parse, struct wall created,
                                           struct schedule *ret_schedule)
{
    struct error error;

    switch (schedule_make(&parse->schedule, created, parse->limits->tenant, &parse->limits->zones,
                          ret_schedule, &error)) {
    case ERROR_NONE:
        return ERROR_NONE;
    case ERROR_NO_MEMORY:
    case ERROR_IO: /* it may be readable another time */
        return problem_set(parse->problem, error.code, "", "%s", error.text);
    default:
        return timer_parse_invalid_error(parse, ret_schedule->wrong, &error);
    }
}

enum error_code timer_parse_when(struct timer_parse *parse)
{
    const bool recurs = HAS(parse, every) || HAS(parse, cron);
    struct schedule_spec *spec = &parse->schedule;
    enum error_code code = timer_schedule_check_together(parse);

    if (code)
        return code;
    if (parse->retry.until_next && !recurs)
        return timer_parse_invalid(parse, "#/retry/until", TIMER_UNTIL_REPEATS);
    if (HAS(parse, spread))
        spec->spread_ms = bytes_hash(0, parse->texts.key) % parse->spread_window_ms;
    if (!recurs) {
        parse->due = wall_min(wall_add(parse->due, spec->spread_ms), (struct wall){WALL_MS_MAX});
        return ERROR_NONE;
    }
    if (HAS(parse, at))
        spec->from = parse->due;
    struct schedule schedule;
    code = timer_schedule_make(parse, parse->now, &schedule);
    if (code)
        return code;
    parse->due = schedule_first(&schedule, parse->now);
    if (parse->due.ms == WALL_NEVER.ms)
        return timer_parse_invalid(parse, HAS(parse, every) ? "#/every" : "#/cron",
                                   "It would never fire");
    parse->texts.zoned = schedule_mark(&schedule, parse->due, parse->zoned);
    return ERROR_NONE;
}

/* ---- of a timer that is changed ---- */

static enum error_code timer_schedule_read(const struct timer *timer,
                                           struct schedule_spec *ret_spec)
{
    *ret_spec = SCHEDULE_SPEC_DEFAULT;
    return timer->texts.schedule.size ? schedule_read(timer->texts.schedule, ret_spec, NULL)
                                      : ERROR_NONE;
}

enum error_code timer_schedule_keep(const struct timer *timer, uint64_t given, uint64_t removed,
                                    struct buffer *out)
{
    struct schedule_spec spec;
    enum error_code code = timer_schedule_read(timer, &spec);

    if (code)
        return code;
    const bool every =
        spec.every_ms && !(removed & TIMER_FIELD_BIT(every)) && !(given & TIMER_FIELD_BIT(cron));
    const bool cron =
        spec.cron.size && !(removed & TIMER_FIELD_BIT(cron)) && !(given & TIMER_FIELD_BIT(every));
    const bool recurs = every || cron || given & (TIMER_FIELD_BIT(every) | TIMER_FIELD_BIT(cron));

    if (recurs && spec.until.ms != WALL_NEVER.ms)
        json_put_number(out, "until", spec.until.ms);
    spec.until = WALL_NEVER;
    spec.from = WALL_NEVER; /* timer_parse_when_changed keeps it, and the spread */
    spec.spread_ms = 0;
    spec.backfill.of = (struct bytes){0};
    if (!recurs || removed & TIMER_FIELD_BIT(count) || (spec.cron.size && !cron) ||
        (spec.every_ms && !every))
        spec.count = 0;
    if (!every)
        spec.every_ms = 0;
    if (!cron)
        spec.cron = (struct bytes){0};
    const uint64_t lists = TIMER_FIELD_BIT(except) | TIMER_FIELD_BIT(only);
    if (removed & TIMER_FIELD_BIT(except) || !recurs)
        spec.except = (struct bytes){0};
    if (removed & TIMER_FIELD_BIT(only) || !recurs)
        spec.only = (struct bytes){0};
    const bool has_dates = spec.except.size || spec.only.size || given & lists;
    if (!has_dates)
        spec.on_holiday = DATES_MOVE_SKIP;
    if (!cron && !has_dates)
        spec.timezone = (struct bytes){0};
    if (!recurs)
        spec.missed = RECURRENCE_MISSED_LAST, spec.overlap = SCHEDULE_OVERLAP_WAIT;
    schedule_put(&spec, out);
    return ERROR_NONE;
}

/* True if the planned instants change, so that the next firing begins with them. */
static bool timer_schedule_restarts(const struct timer_parse *parse,
                                    const struct schedule_spec *old, uint64_t named)
{
    const struct schedule_spec *new = &parse->schedule;
    const struct bytes utc = BYTES("UTC");

    if (HAS(parse, every))
        return new->every_ms != old->every_ms ||
               (named & TIMER_FIELD_BIT(every) && HAS(parse, at) && parse->due.ms != old->from.ms);
    return HAS(parse, cron) && (!bytes_equal(new->cron, old->cron) || new->dst != old->dst ||
                                !bytes_equal(new->timezone.size ? new->timezone : utc,
                                             old->timezone.size ? old->timezone : utc));
}

/* True if the dates of the planned instants change, so that the next firing follows from now. */
static bool timer_schedule_redates(const struct timer_parse *parse, const struct schedule_spec *old)
{
    const struct schedule_spec *new = &parse->schedule;

    return (HAS(parse, every) || HAS(parse, cron)) &&
           (!bytes_equal(new->except, old->except) || !bytes_equal(new->only, old->only) ||
            new->on_holiday != old->on_holiday || !bytes_equal(new->timezone, old->timezone));
}

/* Sets the spread and the phase: those of the timer, unless the patch has others. */
static void timer_schedule_inherit(struct timer_parse *parse, const struct schedule_spec *old,
                                   uint64_t named)
{
    struct schedule_spec *new = &parse->schedule;

    if (HAS(parse, spread))
        new->spread_ms = bytes_hash(0, parse->texts.key) % parse->spread_window_ms;
    else if (HAS(parse, every) || HAS(parse, cron))
        new->spread_ms = named &TIMER_FIELD_BIT(spread) ? 0 : old->spread_ms;
    if (!HAS(parse, every))
        return;
    if (!timer_schedule_restarts(parse, old, named))
        new->from = old->from;
    else
        new->from = HAS(parse, at) ? parse->due : wall_add(parse->now, new->every_ms);
}

/* Returns the time of the next firing with another spread. */
static struct wall timer_schedule_respread(struct wall due, uint64_t old_ms, uint64_t new_ms)
{
    struct wall planned = {due.ms > old_ms ? due.ms - old_ms : 0};

    return wall_min(wall_add(planned, new_ms), (struct wall){WALL_MS_MAX});
}

/* Refuses a schedule that has ended before its next firing. */
static enum error_code timer_schedule_check_end(struct timer_parse *parse,
                                                const struct schedule *schedule, uint64_t named)
{
    static const struct {
        uint64_t bit;
        const char *pointer;
    } causes[] = {
        {TIMER_FIELD_BIT(until), "#/until"},
        {TIMER_FIELD_BIT(count), "#/count"},
        {TIMER_FIELD_BIT(every), "#/every"},
        {TIMER_FIELD_BIT(cron), "#/cron"},
        {TIMER_FIELD_BIT(except), "#/except"},
        {TIMER_FIELD_BIT(only), "#/only"},
        {UINT64_MAX, "#"},
    };

    if (!(named & TIMER_FIELDS_RECURRENCE) ||
        (parse->due.ms != WALL_NEVER.ms &&
         schedule_first(schedule, timer_schedule_respread(parse->due, schedule->spread_ms, 0)).ms !=
             WALL_NEVER.ms))
        return ERROR_NONE;
    size_t i = 0;
    while (!(named & causes[i].bit))
        i++;
    return timer_parse_invalid(parse, causes[i].pointer, "It would never fire");
}

enum error_code timer_parse_when_changed(struct timer_parse *parse, const struct timer *timer,
                                         uint64_t named, uint32_t *fields)
{
    const bool recurs = HAS(parse, every) || HAS(parse, cron);
    const bool has_time = HAS(parse, at) || HAS(parse, after);
    const struct schedule_spec *spec = &parse->schedule;

    if (!(named & TIMER_FIELDS_SCHEDULE))
        return ERROR_NONE;
    *fields |= PATCH_SCHEDULE;
    enum error_code code = timer_schedule_check_together(parse);
    struct schedule_spec old;
    if (!code && timer_schedule_read(timer, &old))
        code = problem_set(parse->problem, ERROR_CORRUPT, "", "%s", "");
    if (!code && old.backfill.of.size)
        code = timer_parse_invalid(parse, "#", "The plan of a backfill does not change");
    if (code)
        return code;
    const bool restarts = timer_schedule_restarts(parse, &old, named);

    timer_schedule_inherit(parse, &old, named);
    if (!recurs) {
        if (HAS(parse, spread) && !has_time)
            return timer_parse_invalid(parse, "#/spread",
                                       "It goes with `after`, `at`, `every` or `cron`");
        parse->due =
            wall_min(wall_add(parse->due, parse->schedule.spread_ms), (struct wall){WALL_MS_MAX});
        return ERROR_NONE;
    }
    struct schedule schedule;
    code = timer_schedule_make(parse, timer->created, &schedule);
    if (code)
        return code;
    char room[SCHEDULE_COUNTED_SIZE];
    schedule_read_counted(&schedule, restarts || timer_schedule_redates(parse, &old)
                                         ? schedule_counted_anew(parse->now, room)
                                         : timer->texts.counted);
    if ((restarts && (HAS(parse, every) || !has_time)) ||
        (!has_time && timer_schedule_redates(parse, &old))) {
        parse->due = schedule_first(&schedule, parse->now);
        parse->texts.zoned = schedule_mark(&schedule, parse->due, parse->zoned);
        *fields |= PATCH_DUE;
    } else if (!has_time && spec->spread_ms != old.spread_ms) {
        parse->due = timer_schedule_respread(timer->due, old.spread_ms, spec->spread_ms);
        if (schedule_is_marked(timer->texts.zoned, timer->due))
            parse->texts.zoned = schedule_mark(&schedule, parse->due, parse->zoned);
        *fields |= PATCH_DUE;
    } else if (!has_time) {
        parse->due = timer->due;
        parse->texts.zoned = timer->texts.zoned;
    } else if (named & TIMER_FIELD_BIT(every) && HAS(parse, at)) { /* the timer's phase */
        parse->due = timer->due;
        parse->texts.zoned = timer->texts.zoned;
        *fields &= ~(uint32_t)PATCH_DUE;
    }
    return timer_schedule_check_end(parse, &schedule, named);
}
