/* Schedules as text: writing, strict reading, and the step to a recurrence. */
#include "timer/schedule.h"

#include "calendar/duration.h"
#include "base/json.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"

#include <stdio.h>

static const char *const missed_texts[] = {
#define X(name, text) text,
    RECURRENCE_MISSED_LIST(X)
#undef X
};

static const char *const overlap_texts[] = {
#define X(name, text) text,
    SCHEDULE_OVERLAP_LIST(X)
#undef X
};

bool schedule_overlap_parse(struct bytes text, enum schedule_overlap *ret_overlap)
{
    for (size_t i = 0; i < sizeof(overlap_texts) / sizeof(overlap_texts[0]); i++)
        if (bytes_equal(text, bytes_of(overlap_texts[i]))) {
            *ret_overlap = (enum schedule_overlap)i;
            return true;
        }
    return false;
}

/* ---- writing ---- */

static bool schedule_has_late(const struct schedule_spec *spec)
{
    return spec->drop_after_ms != UINT64_MAX || spec->missed != RECURRENCE_MISSED_LAST;
}

void schedule_put(const struct schedule_spec *spec, struct buffer *to)
{
    if (spec->every_ms)
        duration_put(to, "every", spec->every_ms);
    if (spec->from.ms != WALL_NEVER.ms)
        rfc3339_put(to, "from", spec->from);
    if (spec->count)
        json_put_number(to, "count", spec->count);
    if (spec->cron.size) {
        json_put_string(to, "cron", spec->cron);
        json_put_string(to, "timezone", spec->timezone.size ? spec->timezone : BYTES("UTC"));
        json_put_text(to, "dst", cron_dst_text(spec->dst));
    }
    if (spec->until.ms != WALL_NEVER.ms)
        rfc3339_put(to, "until", spec->until);
    if ((spec->every_ms || spec->cron.size) && spec->spread_ms)
        duration_put(to, "spread", spec->spread_ms);
    if ((spec->every_ms || spec->cron.size) && spec->overlap != SCHEDULE_OVERLAP_WAIT)
        json_put_text(to, "overlap", overlap_texts[spec->overlap]);
    backfill_put(&spec->backfill, to);
    if (schedule_has_late(spec)) {
        json_open(to, "late", '{');
        if (spec->drop_after_ms != UINT64_MAX)
            duration_put(to, "drop_after", spec->drop_after_ms);
        if (spec->missed != RECURRENCE_MISSED_LAST)
            json_put_text(to, "missed", missed_texts[spec->missed]);
        json_close(to, '}');
    }
}

void schedule_write(const struct schedule_spec *spec, struct buffer *to)
{
    if (!spec->every_ms && !spec->cron.size && !schedule_has_late(spec) && !spec->backfill.of.size)
        return;
    json_open(to, NULL, '{');
    schedule_put(spec, to);
    json_close(to, '}');
}

/* ---- reading; only texts of schedule_write, in which no string has an escape ---- */

static bool schedule_read_text(struct json_reader *reader, struct bytes *ret_text)
{
    struct json_string string;

    if (json_peek(reader) != JSON_STRING || !json_read_string(reader, &string))
        return false;
    *ret_text = string.raw;
    return !string.escaped;
}

static bool schedule_read_duration(struct json_reader *reader, uint64_t *ret_ms)
{
    struct bytes text;

    return schedule_read_text(reader, &text) && !duration_parse(text, ret_ms, NULL);
}

static bool schedule_read_wall(struct json_reader *reader, struct wall *ret_wall)
{
    struct bytes text;

    return schedule_read_text(reader, &text) && !rfc3339_parse(text, ret_wall, NULL);
}

static bool schedule_read_count(struct json_reader *reader, uint64_t *ret_count)
{
    struct bytes number;

    return json_peek(reader) == JSON_NUMBER && json_read_number(reader, &number) &&
           json_number_u64(number, ret_count) == JSON_U64_OK;
}

static bool schedule_read_missed(struct json_reader *reader, enum recurrence_missed *ret_missed)
{
    struct bytes text;

    if (!schedule_read_text(reader, &text))
        return false;
    for (size_t i = 0; i < sizeof(missed_texts) / sizeof(missed_texts[0]); i++)
        if (bytes_equal(text, bytes_of(missed_texts[i]))) {
            *ret_missed = (enum recurrence_missed)i;
            return true;
        }
    return false;
}

static bool schedule_read_late(struct json_reader *reader, struct schedule_spec *spec)
{
    struct json_string name;
    bool is_good = json_peek(reader) == JSON_OBJECT && json_enter_object(reader);

    while (is_good && json_next_member(reader, &name)) {
        if (bytes_equal(name.raw, BYTES("drop_after")))
            is_good = schedule_read_duration(reader, &spec->drop_after_ms);
        else
            is_good = bytes_equal(name.raw, BYTES("missed")) &&
                      schedule_read_missed(reader, &spec->missed);
    }
    return is_good;
}

static bool schedule_read_dst(struct json_reader *reader, enum cron_dst *ret_dst)
{
    struct bytes text;

    return schedule_read_text(reader, &text) && !cron_dst_parse(text, ret_dst, NULL);
}

static bool schedule_read_overlap(struct json_reader *reader, enum schedule_overlap *ret_overlap)
{
    struct bytes text;

    return schedule_read_text(reader, &text) && schedule_overlap_parse(text, ret_overlap);
}

static bool schedule_read_member(struct json_reader *reader, struct bytes name,
                                 struct schedule_spec *spec)
{
#define IS(text) bytes_equal(name, BYTES(text))
    if (IS("every"))
        return schedule_read_duration(reader, &spec->every_ms);
    if (IS("from"))
        return schedule_read_wall(reader, &spec->from);
    if (IS("count"))
        return schedule_read_count(reader, &spec->count);
    if (IS("cron"))
        return schedule_read_text(reader, &spec->cron);
    if (IS("timezone"))
        return schedule_read_text(reader, &spec->timezone);
    if (IS("dst"))
        return schedule_read_dst(reader, &spec->dst);
    if (IS("until"))
        return schedule_read_wall(reader, &spec->until);
    if (IS("spread"))
        return schedule_read_duration(reader, &spec->spread_ms);
    if (IS("overlap"))
        return schedule_read_overlap(reader, &spec->overlap);
    if (IS("backfill"))
        return backfill_read(reader, &spec->backfill);
    return IS("late") && schedule_read_late(reader, spec);
#undef IS
}

enum error_code schedule_read(struct bytes text, struct schedule_spec *ret_spec,
                              struct error *ret_error)
{
    struct json_reader reader;

    json_reader_init(&reader, text);
    bool is_good = json_peek(&reader) == JSON_OBJECT && json_enter_object(&reader);
    struct schedule_spec spec = SCHEDULE_SPEC_DEFAULT;
    struct json_string name;
    while (is_good && json_next_member(&reader, &name))
        is_good = schedule_read_member(&reader, name.raw, &spec);
    if (!is_good || !json_finish(&reader))
        return error_set(ret_error, ERROR_CORRUPT, "a schedule that makes no sense");
    *ret_spec = spec;
    return ERROR_NONE;
}

/* ---- what follows from it ---- */

static enum error_code schedule_make_cron(const struct schedule_spec *spec,
                                          const struct zone_source *zones,
                                          struct recurrence_cron *ret_cron, struct error *ret_error)
{
    enum error_code code = cron_parse(spec->cron, &ret_cron->cron, ret_error);

    if (code)
        return code;
    ret_cron->dst = spec->dst;
    ret_cron->zone = zone_utc();
    if (!spec->timezone.size || bytes_equal(spec->timezone, BYTES("UTC")))
        return ERROR_NONE;
    code = zones->find ? zones->find(zones->context, spec->timezone, &ret_cron->zone)
                       : ERROR_NOT_FOUND;
    if (code == ERROR_NO_MEMORY || code == ERROR_IO)
        return error_set(ret_error, code, "The time zone cannot be read now");
    if (!code)
        return ERROR_NONE;
    char name[ZONES_SUGGESTION_SIZE];
    const bool has_name = zones->suggest && zones->suggest(zones->context, spec->timezone, name);
    return error_set(ret_error, ERROR_NOT_FOUND, "There is no time zone \"%.*s\"%s%s%s",
                     (int)(spec->timezone.size < 64 ? spec->timezone.size : 64),
                     spec->timezone.data, has_name ? ": did you mean " : "", has_name ? name : "",
                     has_name ? "?" : "");
}

bool schedule_backfill(struct bytes text, struct backfill *ret_backfill)
{
    struct schedule_spec spec;

    /* no other member contains a quote */
    if (!text.size || !memmem(text.data, text.size, "\"backfill\":", 11) ||
        schedule_read(text, &spec, NULL))
        return false;
    *ret_backfill = spec.backfill;
    return spec.backfill.of.size > 0;
}

void schedule_write_done(struct bytes text, struct buffer *to)
{
    struct schedule_spec spec;

    if (schedule_read(text, &spec, NULL))
        return;
    spec.backfill.done += spec.backfill.done < spec.backfill.count;
    schedule_write(&spec, to);
}

bool schedule_recurs(struct bytes text)
{
    struct schedule_spec spec;

    return text.size && !schedule_read(text, &spec, NULL) && (spec.every_ms || spec.cron.size);
}

bool schedule_plans_same(struct bytes a, struct bytes b)
{
    struct schedule_spec left, right;

    if (!a.size || !b.size || schedule_read(a, &left, NULL) || schedule_read(b, &right, NULL))
        return false;
    return (left.every_ms || left.cron.size) && left.every_ms == right.every_ms &&
           left.from.ms == right.from.ms && left.count == right.count &&
           bytes_equal(left.cron, right.cron) && bytes_equal(left.timezone, right.timezone) &&
           left.dst == right.dst && left.spread_ms == right.spread_ms;
}

enum error_code schedule_make(const struct schedule_spec *spec, struct wall created,
                              const struct zone_source *zones, struct schedule *ret_schedule,
                              struct error *ret_error)
{
    struct schedule schedule = {
        .recurs = spec->every_ms || spec->cron.size,
        .recurrence = {.kind = spec->cron.size ? RECURRENCE_CRON : RECURRENCE_EVERY,
                       .until = spec->until},
        .late = {spec->missed, spec->drop_after_ms},
        .overlap = spec->overlap,
        .spread_ms = spec->spread_ms,
    };
    enum error_code code = ERROR_NONE;

    if (spec->cron.size)
        code = schedule_make_cron(spec, zones, &schedule.recurrence.cron, ret_error);
    else
        schedule.recurrence.every = (struct recurrence_every){
            spec->from.ms != WALL_NEVER.ms ? spec->from : wall_add(created, spec->every_ms),
            spec->every_ms, spec->count};
    if (!code)
        *ret_schedule = schedule;
    return code;
}

enum error_code schedule_of(const struct timer *timer, const struct zone_source *zones,
                            struct schedule *ret_schedule, struct error *ret_error)
{
    struct schedule_spec spec = SCHEDULE_SPEC_DEFAULT;
    enum error_code code = ERROR_NONE;

    if (timer->texts.schedule.size)
        code = schedule_read(timer->texts.schedule, &spec, ret_error);
    return code ? code : schedule_make(&spec, timer->created, zones, ret_schedule, ret_error);
}

/* Returns when the firing of a planned instant is due: the timer's spread is added. */
static struct wall schedule_fires_at(const struct schedule *schedule, struct wall planned)
{
    if (planned.ms == WALL_NEVER.ms)
        return planned;
    struct wall at = wall_add(planned, schedule->spread_ms);
    return wall_min(at, (struct wall){WALL_MS_MAX});
}

/* Returns the planned instant of a firing due at `at`, by removing the spread. */
static struct wall schedule_without_spread(const struct schedule *schedule, struct wall at)
{
    return (struct wall){at.ms > schedule->spread_ms ? at.ms - schedule->spread_ms : 0};
}

struct wall schedule_first(const struct schedule *schedule, struct wall created)
{
    const struct wall before = {created.ms ? created.ms - 1 : 0};

    return schedule_fires_at(schedule, recurrence_next(&schedule->recurrence, before));
}

struct wall schedule_next(const struct schedule *schedule, struct wall due, struct wall now)
{
    if (!schedule->recurs)
        return WALL_NEVER;
    return schedule_fires_at(schedule, recurrence_resume(&schedule->recurrence, &schedule->late,
                                                         schedule_without_spread(schedule, due),
                                                         schedule_without_spread(schedule, now)));
}

struct wall schedule_after(const struct schedule *schedule, struct wall due)
{
    if (!schedule->recurs)
        return WALL_NEVER;
    return schedule_fires_at(
        schedule, recurrence_next(&schedule->recurrence, schedule_without_spread(schedule, due)));
}

struct wall schedule_latest(const struct schedule *schedule, struct wall due, struct wall now)
{
    if (!schedule->recurs || schedule->late.missed != RECURRENCE_MISSED_LAST)
        return due;
    struct wall last = schedule_fires_at(
        schedule, recurrence_last(&schedule->recurrence, schedule_without_spread(schedule, now)));
    return last.ms != WALL_NEVER.ms && last.ms > due.ms && last.ms <= now.ms ? last : due;
}

uint32_t schedule_count(const struct schedule *schedule, struct wall from, struct wall to,
                        struct wall *ret_first, struct wall *ret_last)
{
    if (!schedule->recurs || from.ms >= to.ms)
        return 0;
    const struct recurrence *recurrence = &schedule->recurrence;
    const struct wall before = schedule_without_spread(schedule, (struct wall){from.ms - 1});
    const struct wall last =
        recurrence_last(recurrence, schedule_without_spread(schedule, (struct wall){to.ms - 1}));
    struct wall at = recurrence_next(recurrence, before);

    if (last.ms == WALL_NEVER.ms || at.ms > last.ms)
        return 0;
    *ret_first = schedule_fires_at(schedule, at);
    *ret_last = schedule_fires_at(schedule, last);
    if (recurrence->kind == RECURRENCE_EVERY) {
        const uint64_t count = (last.ms - at.ms) / recurrence->every.period_ms + 1;

        return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    }
    uint32_t count = 1;
    while (count < SCHEDULE_COUNTED && at.ms < last.ms) {
        at = recurrence_next(recurrence, at);
        count++;
    }
    return count;
}

/* ---- other rules of a zone ---- */

/* Limit of steps over planned instants whose local time is earlier than that of the firing. They
 * occur within an hour that the clocks repeat. */
#define SCHEDULE_STEPS 10000

static int64_t schedule_offset_ms_at(const struct schedule *schedule, int64_t at_ms)
{
    return INT64_C(1000) * zone_stretch_at(schedule->recurrence.cron.zone, at_ms / 1000).offset_s;
}

static bool schedule_is_zoned(const struct schedule *schedule)
{
    return schedule->recurs && schedule->recurrence.kind == RECURRENCE_CRON &&
           schedule->recurrence.cron.zone != zone_utc();
}

struct bytes schedule_mark(const struct schedule *schedule, struct wall due,
                           char room[SCHEDULE_MARK_SIZE])
{
    if (!schedule_is_zoned(schedule) || due.ms > WALL_MS_MAX)
        return (struct bytes){0};
    const int64_t planned_ms = (int64_t)schedule_without_spread(schedule, due).ms;
    const int size = snprintf(room, SCHEDULE_MARK_SIZE, "%llu%+lld", (unsigned long long)due.ms,
                              (long long)schedule_offset_ms_at(schedule, planned_ms) / 1000);

    return (struct bytes){room, (size_t)size};
}

struct wall schedule_rederive(const struct schedule *schedule, struct bytes mark, struct wall due)
{
    char text[SCHEDULE_MARK_SIZE];
    unsigned long long marked_ms;
    long long offset_s;

    if (!schedule_is_zoned(schedule) || !mark.size || mark.size >= sizeof(text))
        return due;
    memcpy(text, mark.data, mark.size);
    text[mark.size] = '\0';
    if (sscanf(text, "%llu%lld", &marked_ms, &offset_s) != 2 || marked_ms != due.ms)
        return due;
    const int64_t planned_ms = (int64_t)schedule_without_spread(schedule, due).ms;
    const int64_t now_ms = schedule_offset_ms_at(schedule, planned_ms), was_ms = offset_s * 1000;
    if (now_ms == was_ms)
        return due;
    /* If the clocks change near the instant, either offset may apply, and the earlier instant is
     * taken. */
    const int64_t shown_ms = planned_ms + was_ms, near_ms = shown_ms - now_ms;
    const int64_t other_ms = shown_ms - schedule_offset_ms_at(schedule, near_ms);
    int64_t from_ms = near_ms < other_ms ? near_ms : other_ms;
    if (from_ms < 1)
        from_ms = 1;
    struct wall at = {(uint64_t)from_ms - 1};
    for (int i = 0; i < SCHEDULE_STEPS; i++) {
        at = recurrence_next(&schedule->recurrence, at);
        if (at.ms == WALL_NEVER.ms)
            return due;
        if ((int64_t)at.ms + schedule_offset_ms_at(schedule, (int64_t)at.ms) >= shown_ms)
            return schedule_fires_at(schedule, at);
    }
    return due;
}

bool schedule_drops(const struct schedule *schedule, struct wall due, struct wall now)
{
    return wall_since(due, now) > schedule->late.drop_after_ms;
}
