/* Schedules as text: writing, strict reading, and the step to a recurrence. */
#include "timer/schedule.h"

#include "calendar/duration.h"
#include "base/json.h"
#include "base/json_write.h"
#include "calendar/rfc3339.h"
#include "timer/awaits.h"

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
    } else if (spec->timezone.size) {
        json_put_string(to, "timezone", spec->timezone);
    }
    if (spec->except.size)
        json_put_raw(to, "except", spec->except);
    if (spec->only.size)
        json_put_raw(to, "only", spec->only);
    if (spec->on_holiday != DATES_MOVE_SKIP)
        json_put_text(to, "on_holiday", dates_move_text(spec->on_holiday));
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

/* Reads a list of dates; only the forms of its entries are checked. */
static bool schedule_read_dates(struct json_reader *reader, struct bytes *ret_text)
{
    struct dates_list list;

    return json_peek(reader) == JSON_ARRAY && json_skip(reader, ret_text) &&
           !memchr(ret_text->data, '\\', ret_text->size) &&
           !dates_parse(*ret_text, NULL, NULL, &list, NULL);
}

static bool schedule_read_move(struct json_reader *reader, enum dates_move *ret_move)
{
    struct bytes text;

    return schedule_read_text(reader, &text) && dates_move_parse(text, ret_move);
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
    if (IS("except"))
        return schedule_read_dates(reader, &spec->except);
    if (IS("only"))
        return schedule_read_dates(reader, &spec->only);
    if (IS("on_holiday"))
        return schedule_read_move(reader, &spec->on_holiday);
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

static enum error_code schedule_take_zone(const struct schedule_spec *spec,
                                          const struct zone_source *zones,
                                          const struct zone **ret_zone, struct error *ret_error)
{
    *ret_zone = zone_utc();
    if (!spec->timezone.size || bytes_equal(spec->timezone, BYTES("UTC")))
        return ERROR_NONE;
    enum error_code code =
        zones->find ? zones->find(zones->context, spec->timezone, ret_zone) : ERROR_NOT_FOUND;
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

    /* no other member contains this text */
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

/* ---- dates ---- */

struct schedule_owner {
    struct bytes tenant;
    const struct zone_source *zones;
};

static enum error_code schedule_find_calendar(void *context, struct bytes name,
                                              const struct holidays **ret_days)
{
    const struct schedule_owner *owner = context;
    const struct zone_source *zones = owner->zones;
    const struct calendars_row *row = calendars_find(zones->calendars, owner->tenant, name);

    if (row)
        *ret_days = row->days;
    else if (zones->lacks_calendar)
        zones->lacks_calendar(zones->context, name);
    return row ? ERROR_NONE : ERROR_NOT_FOUND;
}

/* Returns the most firings that the pattern has on one day. */
static uint64_t schedule_daily(const struct schedule_spec *spec, const struct cron *cron)
{
    if (spec->every_ms)
        return UINT64_C(24) * 3600 * 1000 / spec->every_ms;
    return (uint64_t)__builtin_popcountll(cron->seconds_) *
           (uint64_t)__builtin_popcountll(cron->minutes_) *
           (uint64_t)__builtin_popcount(cron->hours_);
}

static enum error_code schedule_make_dates(const struct schedule_spec *spec, struct bytes tenant,
                                           const struct zone_source *zones,
                                           struct schedule *schedule, struct error *ret_error)
{
    struct schedule_owner owner = {tenant, zones};
    struct dates *dates = &schedule->recurrence.dates;
    enum error_code code = ERROR_NONE;

    dates->move = spec->on_holiday;
    schedule->wrong = "#/on_holiday";
    if (spec->on_holiday != DATES_MOVE_SKIP &&
        schedule_daily(spec, &schedule->recurrence.cron.cron) > SCHEDULE_MOVED_DAILY_MAX)
        return error_set(ret_error, ERROR_INVALID, "At most %d firings of a day can be moved",
                         SCHEDULE_MOVED_DAILY_MAX);
    schedule->wrong = "#/except";
    if (spec->except.size)
        code = dates_parse(spec->except, schedule_find_calendar, &owner, &dates->except, ret_error);
    if (code)
        return code;
    schedule->wrong = "#/only";
    if (spec->only.size)
        code = dates_parse(spec->only, schedule_find_calendar, &owner, &dates->only, ret_error);
    return code;
}

bool schedule_recurs(struct bytes text)
{
    struct schedule_spec spec;

    return text.size && !schedule_read(text, &spec, NULL) && (spec.every_ms || spec.cron.size);
}

/* Reads both texts; false unless both repeat with the same instants, `count` and `spread` apart. */
static bool schedule_read_same(struct bytes a, struct bytes b, struct schedule_spec *left,
                               struct schedule_spec *right)
{
    if (!a.size || !b.size || schedule_read(a, left, NULL) || schedule_read(b, right, NULL))
        return false;
    return (left->every_ms || left->cron.size) && left->every_ms == right->every_ms &&
           left->from.ms == right->from.ms && bytes_equal(left->cron, right->cron) &&
           bytes_equal(left->timezone, right->timezone) && left->dst == right->dst &&
           bytes_equal(left->except, right->except) && bytes_equal(left->only, right->only) &&
           left->on_holiday == right->on_holiday;
}

bool schedule_plans_same(struct bytes a, struct bytes b)
{
    struct schedule_spec left, right;

    return schedule_read_same(a, b, &left, &right) && left.count == right.count &&
           left.spread_ms == right.spread_ms;
}

bool schedule_counts_same(struct bytes a, struct bytes b)
{
    struct schedule_spec left, right;

    return schedule_read_same(a, b, &left, &right);
}

/* True if `count` does not follow from the index of an instant. */
static bool schedule_is_walked(const struct schedule_spec *spec)
{
    return spec->count && (spec->cron.size || spec->except.size || spec->only.size);
}

enum error_code schedule_make(const struct schedule_spec *spec, struct wall created,
                              struct bytes tenant, const struct zone_source *zones,
                              struct schedule *ret_schedule, struct error *ret_error)
{
    struct schedule *schedule = ret_schedule;
    struct recurrence *recurrence = &schedule->recurrence;
    const bool is_walked = schedule_is_walked(spec);
    enum error_code code = ERROR_NONE;

    *schedule = (struct schedule){
        .recurs = spec->every_ms || spec->cron.size,
        .recurrence = {.kind = spec->cron.size ? RECURRENCE_CRON : RECURRENCE_EVERY,
                       .until = spec->until},
        .late = {spec->missed, spec->drop_after_ms},
        .overlap = spec->overlap,
        .spread_ms = spec->spread_ms,
        .count = is_walked ? spec->count : 0,
        .counted_until = {created.ms ? created.ms - 1 : 0},
    };
    schedule->wrong = "#/count";
    if (is_walked && spec->count > SCHEDULE_COUNT_WALKED_MAX)
        return error_set(ret_error, ERROR_INVALID,
                         "With `cron`, `except` or `only` it must be 1 to %d",
                         SCHEDULE_COUNT_WALKED_MAX);
    schedule->wrong = "#/cron";
    if (spec->cron.size) {
        recurrence->cron.dst = spec->dst;
        code = cron_parse(spec->cron, &recurrence->cron.cron, ret_error);
    } else {
        recurrence->every = (struct recurrence_every){
            spec->from.ms != WALL_NEVER.ms ? spec->from : wall_add(created, spec->every_ms),
            spec->every_ms, is_walked ? 0 : spec->count};
    }
    if (code)
        return code;
    schedule->wrong = "#/timezone";
    code = schedule_take_zone(spec, zones, &recurrence->zone, ret_error);
    return code ? code : schedule_make_dates(spec, tenant, zones, schedule, ret_error);
}

void schedule_read_counted(struct schedule *schedule, struct bytes text)
{
    char room[SCHEDULE_COUNTED_SIZE];
    unsigned long long counted, until_ms;

    if (!schedule->count || !text.size || text.size >= sizeof(room))
        return;
    memcpy(room, text.data, text.size);
    room[text.size] = '\0';
    if (sscanf(room, "%llu %llu", &counted, &until_ms) != 2 || until_ms > WALL_MS_MAX)
        return;
    schedule->counted = counted;
    schedule->counted_until = (struct wall){until_ms};
}

enum error_code schedule_of(const struct timer *timer, const struct zone_source *zones,
                            struct schedule *ret_schedule, struct error *ret_error)
{
    struct schedule_spec spec = SCHEDULE_SPEC_DEFAULT;
    enum error_code code = ERROR_NONE;

    if (timer->texts.schedule.size)
        code = schedule_read(timer->texts.schedule, &spec, ret_error);
    if (!code)
        code = schedule_make(&spec, timer->created, timer->texts.tenant, zones, ret_schedule,
                             ret_error);
    if (!code)
        schedule_read_counted(ret_schedule, timer->texts.counted);
    return code;
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

/* Returns the last instant that `count` permits, if that is not after `at`; otherwise WALL_NEVER.
 * It steps over the instants that are not counted yet. */
static struct wall schedule_end(const struct schedule *schedule, struct wall at)
{
    struct wall last = schedule->counted_until;

    if (!schedule->count)
        return WALL_NEVER;
    for (uint64_t i = schedule->counted; i < schedule->count; i++) {
        last = recurrence_next(&schedule->recurrence, last);
        if (last.ms > at.ms)
            return WALL_NEVER;
    }
    return last;
}

/* Returns the first planned instant after `after` that `count` permits. */
static struct wall schedule_next_counted(const struct schedule *schedule, struct wall after)
{
    const struct wall end = schedule_end(schedule, after);

    return end.ms <= after.ms ? WALL_NEVER : recurrence_next(&schedule->recurrence, after);
}

struct wall schedule_first(const struct schedule *schedule, struct wall created)
{
    const struct wall before = {created.ms ? created.ms - 1 : 0};

    return schedule_fires_at(schedule, schedule_next_counted(schedule, before));
}

bool schedule_plans(const struct schedule *schedule, struct wall due)
{
    const struct wall planned = schedule_without_spread(schedule, due);
    const struct wall before = {planned.ms ? planned.ms - 1 : 0};

    return recurrence_next(&schedule->recurrence, before).ms == planned.ms;
}

struct wall schedule_next(const struct schedule *schedule, struct wall due, struct wall now)
{
    if (!schedule->recurs)
        return WALL_NEVER;
    const struct wall planned = schedule_without_spread(schedule, due);
    const struct wall at = schedule_without_spread(schedule, now);

    if (!schedule->count)
        return schedule_fires_at(
            schedule, recurrence_resume(&schedule->recurrence, &schedule->late, planned, at));
    struct recurrence recurrence = schedule->recurrence;
    recurrence.until = wall_min(recurrence.until, schedule_end(schedule, wall_max(planned, at)));
    return schedule_fires_at(schedule,
                             recurrence_resume(&recurrence, &schedule->late, planned, at));
}

struct wall schedule_after(const struct schedule *schedule, struct wall due)
{
    if (!schedule->recurs)
        return WALL_NEVER;
    return schedule_fires_at(
        schedule, schedule_next_counted(schedule, schedule_without_spread(schedule, due)));
}

struct wall schedule_latest(const struct schedule *schedule, struct wall due, struct wall now)
{
    if (!schedule->recurs || schedule->late.missed != RECURRENCE_MISSED_LAST)
        return due;
    const struct wall at = schedule_without_spread(schedule, now);
    const struct wall until = wall_min(at, schedule_end(schedule, at));
    struct wall last = schedule_fires_at(schedule, recurrence_last(&schedule->recurrence, until));

    return last.ms != WALL_NEVER.ms && last.ms > due.ms && last.ms <= now.ms ? last : due;
}

/* ---- counting ---- */

void schedule_take(struct schedule *schedule, struct wall due)
{
    const struct wall until = schedule_without_spread(schedule, due);

    while (schedule->counted < schedule->count) {
        const struct wall at = recurrence_next(&schedule->recurrence, schedule->counted_until);

        if (at.ms > until.ms)
            break;
        schedule->counted++;
        schedule->counted_until = at;
    }
}

struct bytes schedule_counted(const struct schedule *schedule, char room[SCHEDULE_COUNTED_SIZE])
{
    if (!schedule->counted)
        return (struct bytes){0};
    const int size =
        snprintf(room, SCHEDULE_COUNTED_SIZE, "%llu %llu", (unsigned long long)schedule->counted,
                 (unsigned long long)schedule->counted_until.ms);

    return (struct bytes){room, (size_t)size};
}

uint32_t schedule_count(const struct schedule *schedule, struct wall from, struct wall to,
                        struct wall *ret_first, struct wall *ret_last)
{
    if (!schedule->recurs || from.ms >= to.ms)
        return 0;
    const struct recurrence *recurrence = &schedule->recurrence;
    const struct wall before = schedule_without_spread(schedule, (struct wall){from.ms - 1});
    const struct wall until = schedule_without_spread(schedule, (struct wall){to.ms - 1});
    const struct wall last =
        recurrence_last(recurrence, wall_min(until, schedule_end(schedule, until)));
    struct wall at = recurrence_next(recurrence, before);

    if (last.ms == WALL_NEVER.ms || at.ms > last.ms)
        return 0;
    *ret_first = schedule_fires_at(schedule, at);
    *ret_last = schedule_fires_at(schedule, last);
    if (recurrence->kind == RECURRENCE_EVERY && !dates_any(&recurrence->dates)) {
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

struct bytes schedule_counted_anew(struct wall from, char room[SCHEDULE_COUNTED_SIZE])
{
    const int size = snprintf(room, SCHEDULE_COUNTED_SIZE, "0 %llu",
                              (unsigned long long)(from.ms ? from.ms - 1 : 0));

    return (struct bytes){room, (size_t)size};
}

/* ---- other rules of a zone ---- */

/* Limit of steps over planned instants whose local time is earlier than that of the firing. They
 * occur within an hour that the clocks repeat. */
#define SCHEDULE_STEPS 10000

static int64_t schedule_offset_ms_at(const struct schedule *schedule, int64_t at_ms)
{
    return INT64_C(1000) * zone_stretch_at(schedule->recurrence.zone, at_ms / 1000).offset_s;
}

static bool schedule_is_zoned(const struct schedule *schedule)
{
    return schedule->recurs && schedule->recurrence.kind == RECURRENCE_CRON &&
           schedule->recurrence.zone != zone_utc();
}

static bool schedule_is_dated(const struct schedule *schedule)
{
    return schedule->recurs && dates_has_calendar(&schedule->recurrence.dates);
}

struct bytes schedule_mark(const struct schedule *schedule, struct wall due,
                           char room[SCHEDULE_MARK_SIZE])
{
    const struct recurrence *recurrence = &schedule->recurrence;

    if (!(schedule_is_zoned(schedule) || schedule_is_dated(schedule)) || due.ms > WALL_MS_MAX)
        return (struct bytes){0};
    const struct wall planned = schedule_without_spread(schedule, due);
    int size = snprintf(room, SCHEDULE_MARK_SIZE, "%llu%+lld", (unsigned long long)due.ms,
                        (long long)schedule_offset_ms_at(schedule, (int64_t)planned.ms) / 1000);

    if (schedule_is_dated(schedule)) {
        const struct wall before =
            recurrence_last(recurrence, (struct wall){planned.ms ? planned.ms - 1 : 0});
        const struct wall origin = recurrence_origin_first(recurrence, planned);

        size += snprintf(room + size, SCHEDULE_MARK_SIZE - (size_t)size, " %llu %llu",
                         before.ms == WALL_NEVER.ms ? 0 : (unsigned long long)before.ms,
                         (unsigned long long)origin.ms);
    }
    return (struct bytes){room, (size_t)size};
}

/* What schedule_mark has written. */
struct schedule_marked {
    struct wall due;
    int64_t offset_ms;
    bool is_dated; /* `before` and `origin` are known */
    struct wall before, origin;
};

static bool schedule_read_mark(struct bytes mark, struct schedule_marked *ret_marked)
{
    char text[SCHEDULE_MARK_SIZE];
    unsigned long long due_ms, before_ms = 0, origin_ms = 0;
    long long offset_s;

    if (!mark.size || mark.size >= sizeof(text))
        return false;
    memcpy(text, mark.data, mark.size);
    text[mark.size] = '\0';
    const int count =
        sscanf(text, "%llu%lld %llu %llu", &due_ms, &offset_s, &before_ms, &origin_ms);
    *ret_marked = (struct schedule_marked){.due = {due_ms},
                                           .offset_ms = offset_s * 1000,
                                           .is_dated = count == 4,
                                           .before = {before_ms},
                                           .origin = {origin_ms}};
    return count >= 2 && before_ms <= WALL_MS_MAX && origin_ms <= WALL_MS_MAX;
}

bool schedule_is_marked(struct bytes mark, struct wall due)
{
    struct schedule_marked marked;

    return schedule_read_mark(mark, &marked) && marked.due.ms == due.ms;
}

/* Returns the first planned instant whose local time is not earlier than that of `due` was. */
static struct wall schedule_rederive_zoned(const struct schedule *schedule, int64_t was_ms,
                                           struct wall due)
{
    const int64_t planned_ms = (int64_t)schedule_without_spread(schedule, due).ms;
    const int64_t now_ms = schedule_offset_ms_at(schedule, planned_ms);

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

/* Returns where the calendars have the firing now. Instants that have passed while they were not
 * permitted stay left out; a firing that was moved, and is no longer, is not lost. */
static struct wall schedule_rederive_dated(const struct schedule *schedule,
                                           const struct schedule_marked *marked, struct wall now)
{
    const struct recurrence *recurrence = &schedule->recurrence;
    const struct wall floor = schedule_without_spread(schedule, wall_min(marked->due, now));
    struct wall at = wall_max(marked->before, (struct wall){floor.ms ? floor.ms - 1 : 0});

    at = recurrence_next(recurrence, at);
    if (recurrence->dates.move == DATES_MOVE_SKIP)
        return at;
    const struct wall moved = recurrence_moved(recurrence, marked->origin);
    /* a firing that is over may now be moved to a later date: it does not fire again */
    for (int i = 0; i < SCHEDULE_STEPS && at.ms < moved.ms; i++) {
        if (recurrence_origin_last(recurrence, at).ms > marked->before.ms)
            return at;
        at = recurrence_next(recurrence, at);
    }
    return moved;
}

struct wall schedule_rederive(const struct schedule *schedule, struct bytes mark, struct wall due,
                              struct wall now)
{
    struct schedule_marked marked;

    if (!(schedule_is_zoned(schedule) || schedule_is_dated(schedule)) ||
        !schedule_read_mark(mark, &marked) || marked.due.ms != due.ms)
        return due;
    const int64_t planned_ms = (int64_t)schedule_without_spread(schedule, due).ms;
    if (schedule_is_zoned(schedule) &&
        schedule_offset_ms_at(schedule, planned_ms) != marked.offset_ms)
        return schedule_rederive_zoned(schedule, marked.offset_ms, due);
    if (!schedule_is_dated(schedule) || !marked.is_dated)
        return due;
    return schedule_fires_at(schedule, schedule_rederive_dated(schedule, &marked, now));
}

bool schedule_is_moved(const struct timer *timer, const struct zone_source *zones, struct wall now,
                       struct wall *ret_due)
{
    struct schedule schedule;

    *ret_due = timer->due;
    if (timer->attempts == 0 && !timer_awaits(timer) && timer->texts.zoned.size &&
        !schedule_of(timer, zones, &schedule, NULL))
        *ret_due = schedule_rederive(&schedule, timer->texts.zoned, timer->due, now);
    return ret_due->ms != timer->due.ms && ret_due->ms != WALL_NEVER.ms;
}

bool schedule_drops(const struct schedule *schedule, struct wall due, struct wall now)
{
    return wall_since(due, now) > schedule->late.drop_after_ms;
}
