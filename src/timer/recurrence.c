/* recurrence.c - planned instants of a recurrence: those of its pattern, on the dates that are
 * permitted, or moved to them. The work is bounded by days, not by instants. */
#include "timer/recurrence.h"

#include "calendar/calendar.h"
#include "timer/recurrence_pattern.h"

#define RECURRENCE_DAY_MS (INT64_C(1000) * SECONDS_PER_DAY)

/* ---- days of the zone ---- */

/* Instants that may show a day. Where the clocks change near it, some show another day, too. */
struct recurrence_span {
    int64_t first_ms, last_ms;
    int64_t offset_ms; /* if the clocks do not change near it */
    bool is_plain;     /* the clocks do not change near it */
};

static int64_t recurrence_offset_ms_at(const struct recurrence *recurrence, int64_t at_ms)
{
    return INT64_C(1000) * zone_stretch_at(recurrence->zone, floor_divide(at_ms, 1000)).offset_s;
}

int64_t recurrence_day(const struct recurrence *recurrence, struct wall at)
{
    const int64_t at_ms = (int64_t)at.ms;

    return floor_divide(at_ms + recurrence_offset_ms_at(recurrence, at_ms), RECURRENCE_DAY_MS);
}

static struct recurrence_span recurrence_span(const struct recurrence *recurrence, int64_t day)
{
    const int64_t begin = day * SECONDS_PER_DAY, end = begin + SECONDS_PER_DAY + ZONE_OFFSET_S_MAX;
    struct zone_stretch stretch = zone_stretch_at(recurrence->zone, begin - ZONE_OFFSET_S_MAX);
    int32_t least = stretch.offset_s, most = stretch.offset_s;

    while (stretch.end <= end) {
        stretch = zone_stretch_at(recurrence->zone, stretch.end);
        least = stretch.offset_s < least ? stretch.offset_s : least;
        most = stretch.offset_s > most ? stretch.offset_s : most;
    }
    return (struct recurrence_span){.first_ms = (begin - most) * 1000,
                                    .last_ms = (begin + SECONDS_PER_DAY - least) * 1000 - 1,
                                    .offset_ms = INT64_C(1000) * least,
                                    .is_plain = least == most};
}

/* Returns the first instant of the pattern after `after_ms` that shows `day` or a later one. */
static struct wall recurrence_next_from(const struct recurrence *recurrence, int64_t after_ms,
                                        int64_t day)
{
    struct wall at = {after_ms > 0 ? (uint64_t)after_ms : 0};

    do
        at = recurrence_pattern_next(recurrence, at);
    while (at.ms != WALL_NEVER.ms && recurrence_day(recurrence, at) < day);
    return at;
}

/* Returns the last instant of the pattern until `at_ms` that shows `day` or an earlier one. */
static struct wall recurrence_last_until(const struct recurrence *recurrence, int64_t at_ms,
                                         int64_t day)
{
    for (; at_ms >= 0; at_ms--) {
        const struct wall at = recurrence_pattern_last(recurrence, (struct wall){(uint64_t)at_ms});

        if (at.ms == WALL_NEVER.ms || recurrence_day(recurrence, at) <= day)
            return at;
        at_ms = (int64_t)at.ms;
    }
    return WALL_NEVER;
}

/* Returns the instant at which the clocks first show a reading. If they skip it, that is when they
 * jump over it, or WALL_NEVER if the schedule skips such times. */
static struct wall recurrence_shown_at(const struct recurrence *recurrence, int64_t reading_ms)
{
    const int64_t reading = floor_divide(reading_ms, 1000);
    struct zone_stretch stretch = zone_stretch_at(recurrence->zone, reading - ZONE_OFFSET_S_MAX);

    while (reading - stretch.offset_s >= stretch.end)
        stretch = zone_stretch_at(recurrence->zone, stretch.end);
    const int64_t at = reading - stretch.offset_s;
    if (at >= stretch.start)
        return at < 0 ? WALL_NEVER
                      : (struct wall){(uint64_t)(at * 1000 + floor_modulo(reading_ms, 1000))};
    const bool skips = recurrence->kind == RECURRENCE_CRON && recurrence->cron.dst == CRON_DST_SKIP;
    return skips || stretch.start < 0 ? WALL_NEVER : (struct wall){(uint64_t)stretch.start * 1000};
}

/* ---- moving ---- */

/* Returns the day to which an instant of `day` is moved; DATES_NONE if it is left out. */
static int64_t recurrence_move_day(const struct recurrence *recurrence, int64_t day)
{
    const struct dates *dates = &recurrence->dates;

    if (dates_permit(dates, day))
        return day;
    return dates->move == DATES_MOVE_SKIP   ? DATES_NONE
           : dates->move == DATES_MOVE_NEXT ? dates_next(dates, day + 1, DATES_MOVE_DAYS_MAX)
                                            : dates_last(dates, day - 1, DATES_MOVE_DAYS_MAX);
}

/* Moves an instant to the same time of another day. */
static struct wall recurrence_move(const struct recurrence *recurrence, struct wall at,
                                   int64_t from, int64_t to)
{
    if (from == to)
        return at;
    const int64_t at_ms = (int64_t)at.ms;
    const int64_t reading_ms = at_ms + recurrence_offset_ms_at(recurrence, at_ms);

    return recurrence_shown_at(recurrence, reading_ms + (to - from) * RECURRENCE_DAY_MS);
}

struct wall recurrence_moved(const struct recurrence *recurrence, struct wall at)
{
    if (!dates_any(&recurrence->dates))
        return at;
    const int64_t day = recurrence_day(recurrence, at);
    const int64_t to = recurrence_move_day(recurrence, day);

    return to == DATES_NONE ? WALL_NEVER : recurrence_move(recurrence, at, day, to);
}

struct wall recurrence_next_plain(const struct recurrence *recurrence, struct wall after,
                                  struct wall *ret_moved)
{
    const struct wall at = recurrence_pattern_next(recurrence, after);

    *ret_moved = at.ms == WALL_NEVER.ms ? at : recurrence_moved(recurrence, at);
    return at;
}

/* Days whose instants are moved to a permitted day, or are its own. */
struct recurrence_sources {
    int64_t first, last, to;
};

static struct recurrence_sources recurrence_sources(const struct recurrence *recurrence, int64_t to)
{
    const struct dates *dates = &recurrence->dates;
    struct recurrence_sources sources = {to, to, to};

    if (dates->move == DATES_MOVE_NEXT)
        while (to - sources.first < DATES_MOVE_DAYS_MAX && !dates_permit(dates, sources.first - 1))
            sources.first--;
    else
        while (sources.last - to < DATES_MOVE_DAYS_MAX && !dates_permit(dates, sources.last + 1))
            sources.last++;
    return sources;
}

/* True if the instants of both days are as far apart as the days: then `ret_shift_ms` is set. */
static bool recurrence_is_shift(const struct recurrence_span *from,
                                const struct recurrence_span *to, int64_t *ret_shift_ms)
{
    *ret_shift_ms = to->first_ms - from->first_ms;
    return from->is_plain && to->is_plain;
}

/* Returns the first instant after `after` to which one of the day `from` is moved. */
static struct wall recurrence_first_of(const struct recurrence *recurrence, int64_t from,
                                       int64_t to, struct wall after)
{
    const struct recurrence_span span = recurrence_span(recurrence, from);
    const struct recurrence_span there = recurrence_span(recurrence, to);
    struct wall best = WALL_NEVER;
    int64_t shift_ms, begin_ms = span.first_ms - 1;

    if (recurrence_is_shift(&span, &there, &shift_ms)) {
        if (begin_ms < (int64_t)after.ms - shift_ms)
            begin_ms = (int64_t)after.ms - shift_ms;
        const struct wall at = recurrence_next_from(recurrence, begin_ms, from);

        return at.ms != WALL_NEVER.ms && (int64_t)at.ms <= span.last_ms
                   ? (struct wall){(uint64_t)((int64_t)at.ms + shift_ms)}
                   : WALL_NEVER;
    }
    for (struct wall at = recurrence_next_from(recurrence, begin_ms, from);
         at.ms != WALL_NEVER.ms && (int64_t)at.ms <= span.last_ms;
         at = recurrence_pattern_next(recurrence, at)) {
        const struct wall moved = recurrence_day(recurrence, at) == from
                                      ? recurrence_move(recurrence, at, from, to)
                                      : WALL_NEVER;

        if (moved.ms > after.ms)
            best = wall_min(best, moved);
    }
    return best;
}

/* Returns the last instant until `until` to which one of the day `from` is moved; WALL_NEVER if
 * there is none. */
static struct wall recurrence_last_of(const struct recurrence *recurrence, int64_t from, int64_t to,
                                      struct wall until)
{
    const struct recurrence_span span = recurrence_span(recurrence, from);
    const struct recurrence_span there = recurrence_span(recurrence, to);
    struct wall best = WALL_NEVER;
    int64_t shift_ms, end_ms = span.last_ms;

    if (recurrence_is_shift(&span, &there, &shift_ms)) {
        if (end_ms > (int64_t)until.ms - shift_ms)
            end_ms = (int64_t)until.ms - shift_ms;
        const struct wall at = recurrence_last_until(recurrence, end_ms, from);

        return at.ms != WALL_NEVER.ms && (int64_t)at.ms >= span.first_ms
                   ? (struct wall){(uint64_t)((int64_t)at.ms + shift_ms)}
                   : WALL_NEVER;
    }
    for (struct wall at = recurrence_next_from(recurrence, span.first_ms - 1, from);
         at.ms != WALL_NEVER.ms && (int64_t)at.ms <= span.last_ms;
         at = recurrence_pattern_next(recurrence, at)) {
        const struct wall moved = recurrence_day(recurrence, at) == from
                                      ? recurrence_move(recurrence, at, from, to)
                                      : WALL_NEVER;

        if (moved.ms <= until.ms && (best.ms == WALL_NEVER.ms || moved.ms > best.ms))
            best = moved;
    }
    return best;
}

/* ---- the next one ---- */

static struct wall recurrence_next_permitted(const struct recurrence *recurrence, struct wall after)
{
    const struct dates *dates = &recurrence->dates;
    struct wall at = recurrence_pattern_next(recurrence, after);
    int64_t end = INT64_MAX;

    while (at.ms != WALL_NEVER.ms) {
        int64_t day = recurrence_day(recurrence, at);

        if (dates_permit(dates, day))
            return at;
        if (end == INT64_MAX)
            end = day + DATES_SEARCH_DAYS;
        day = day < end ? dates_next(dates, day + 1, end - day) : DATES_NONE;
        if (day == DATES_NONE)
            return WALL_NEVER;
        const int64_t before_ms = recurrence_span(recurrence, day).first_ms - 1;
        if (before_ms > (int64_t)at.ms)
            at.ms = (uint64_t)before_ms;
        at = recurrence_pattern_next(recurrence, at);
    }
    return at;
}

static struct wall recurrence_next_moved(const struct recurrence *recurrence, struct wall after)
{
    const struct dates *dates = &recurrence->dates;
    int64_t to = recurrence_day(recurrence, after) - 1;
    const int64_t begin = to;
    bool is_far = false; /* the search ends as far after the first instant of the pattern */
    int64_t end = begin;

    to = dates_next(dates, to, DATES_SEARCH_DAYS);
    while (to != DATES_NONE && (!is_far || to <= end)) {
        const struct recurrence_sources sources = recurrence_sources(recurrence, to);
        int64_t day = sources.first, later = to;
        struct wall best = WALL_NEVER;

        for (;;) {
            const struct wall at = recurrence_next_from(
                recurrence, recurrence_span(recurrence, day).first_ms - 1, day);

            if (at.ms == WALL_NEVER.ms && day == sources.first)
                return WALL_NEVER;
            if (at.ms == WALL_NEVER.ms)
                break;
            day = recurrence_day(recurrence, at);
            if (!is_far) {
                is_far = true;
                end = (day > begin ? day : begin) + DATES_SEARCH_DAYS;
            }
            if (day > sources.last) {
                /* no day between has an instant of the pattern */
                const int64_t moved = recurrence_move_day(recurrence, day);
                later = (moved != DATES_NONE ? moved : day) - 1;
                break;
            }
            best = wall_min(best, recurrence_first_of(recurrence, day++, to, after));
        }
        if (best.ms != WALL_NEVER.ms)
            return best.ms <= recurrence->until.ms ? best : WALL_NEVER;
        to = dates_next(dates, (later > to ? later : to) + 1, DATES_SEARCH_DAYS);
    }
    return WALL_NEVER;
}

struct wall recurrence_next(const struct recurrence *recurrence, struct wall after)
{
    if (!dates_any(&recurrence->dates))
        return recurrence_pattern_next(recurrence, after);
    if (after.ms > WALL_MS_MAX)
        return WALL_NEVER;
    return recurrence->dates.move == DATES_MOVE_SKIP ? recurrence_next_permitted(recurrence, after)
                                                     : recurrence_next_moved(recurrence, after);
}

/* ---- the last one ---- */

static struct wall recurrence_last_permitted(const struct recurrence *recurrence, struct wall at)
{
    const struct dates *dates = &recurrence->dates;
    int64_t begin = INT64_MIN;

    at = recurrence_pattern_last(recurrence, at);
    while (at.ms != WALL_NEVER.ms) {
        int64_t day = recurrence_day(recurrence, at);

        if (dates_permit(dates, day))
            return at;
        if (begin == INT64_MIN)
            begin = day - DATES_SEARCH_DAYS;
        day = day > begin ? dates_last(dates, day - 1, day - begin) : DATES_NONE;
        if (day == DATES_NONE || at.ms == 0)
            return WALL_NEVER;
        int64_t until_ms = recurrence_span(recurrence, day).last_ms;
        if (until_ms >= (int64_t)at.ms)
            until_ms = (int64_t)at.ms - 1;
        at = until_ms < 0 ? WALL_NEVER
                          : recurrence_pattern_last(recurrence, (struct wall){(uint64_t)until_ms});
    }
    return at;
}

static struct wall recurrence_last_moved(const struct recurrence *recurrence, struct wall until)
{
    const struct dates *dates = &recurrence->dates;
    int64_t to = recurrence_day(recurrence, until) + 1;
    const int64_t begin = to;
    bool is_far = false;
    int64_t end = begin;

    to = dates_last(dates, to, DATES_SEARCH_DAYS);
    while (to != DATES_NONE && (!is_far || to >= end)) {
        const struct recurrence_sources sources = recurrence_sources(recurrence, to);
        int64_t day = sources.last, earlier = to;
        struct wall best = WALL_NEVER;

        for (;;) {
            const struct wall at =
                recurrence_last_until(recurrence, recurrence_span(recurrence, day).last_ms, day);

            if (at.ms == WALL_NEVER.ms && day == sources.last)
                return WALL_NEVER;
            if (at.ms == WALL_NEVER.ms)
                break;
            day = recurrence_day(recurrence, at);
            if (!is_far) {
                is_far = true;
                end = (day < begin ? day : begin) - DATES_SEARCH_DAYS;
            }
            if (day < sources.first) {
                const int64_t moved = recurrence_move_day(recurrence, day);
                earlier = (moved != DATES_NONE ? moved : day) + 1;
                break;
            }
            const struct wall last = recurrence_last_of(recurrence, day--, to, until);
            if (last.ms != WALL_NEVER.ms && (best.ms == WALL_NEVER.ms || last.ms > best.ms))
                best = last;
        }
        if (best.ms != WALL_NEVER.ms)
            return best;
        to = dates_last(dates, (earlier < to ? earlier : to) - 1, DATES_SEARCH_DAYS);
    }
    return WALL_NEVER;
}

struct wall recurrence_last(const struct recurrence *recurrence, struct wall at)
{
    if (!dates_any(&recurrence->dates))
        return recurrence_pattern_last(recurrence, at);
    at = wall_min(wall_min(at, recurrence->until), (struct wall){WALL_MS_MAX});
    return recurrence->dates.move == DATES_MOVE_SKIP ? recurrence_last_permitted(recurrence, at)
                                                     : recurrence_last_moved(recurrence, at);
}

/* ---- where it comes from ---- */

/* Returns the instant of the day `from` that is moved to the planned instant `at` of the day `to`;
 * WALL_NEVER if there is none. */
static struct wall recurrence_origin_on(const struct recurrence *recurrence, int64_t from,
                                        int64_t to, struct wall at)
{
    const struct recurrence_span span = recurrence_span(recurrence, from);
    const struct recurrence_span there = recurrence_span(recurrence, to);
    const struct wall before = {at.ms ? at.ms - 1 : 0};
    int64_t shift_ms;

    if (recurrence_first_of(recurrence, from, to, before).ms != at.ms)
        return WALL_NEVER;
    if (recurrence_is_shift(&span, &there, &shift_ms))
        return (struct wall){(uint64_t)((int64_t)at.ms - shift_ms)};
    struct wall origin = recurrence_next_from(recurrence, span.first_ms - 1, from);
    while (origin.ms != WALL_NEVER.ms &&
           (recurrence_day(recurrence, origin) != from ||
            recurrence_move(recurrence, origin, from, to).ms != at.ms))
        origin = recurrence_pattern_next(recurrence, origin);
    return origin;
}

static bool recurrence_moves(const struct recurrence *recurrence)
{
    return dates_any(&recurrence->dates) && recurrence->dates.move != DATES_MOVE_SKIP;
}

struct wall recurrence_origin_first(const struct recurrence *recurrence, struct wall at)
{
    if (!recurrence_moves(recurrence))
        return at;
    const int64_t to = recurrence_day(recurrence, at);
    const struct recurrence_sources sources = recurrence_sources(recurrence, to);
    struct wall origin = WALL_NEVER;

    for (int64_t day = sources.first; day <= sources.last && origin.ms == WALL_NEVER.ms; day++)
        origin = recurrence_origin_on(recurrence, day, to, at);
    return origin.ms != WALL_NEVER.ms ? origin : at;
}

struct wall recurrence_origin_last(const struct recurrence *recurrence, struct wall at)
{
    if (!recurrence_moves(recurrence))
        return at;
    const int64_t to = recurrence_day(recurrence, at);
    const struct recurrence_sources sources = recurrence_sources(recurrence, to);
    struct wall origin = WALL_NEVER;

    for (int64_t day = sources.last; day >= sources.first && origin.ms == WALL_NEVER.ms; day--)
        origin = recurrence_origin_on(recurrence, day, to, at);
    return origin.ms != WALL_NEVER.ms ? origin : at;
}

/* ---- missed occurrences ---- */

struct wall recurrence_resume(const struct recurrence *recurrence,
                              const struct recurrence_late *late, struct wall previous,
                              struct wall now)
{
    /* An occurrence planned exactly at now - drop_after is still fired; an earlier one is too
     * late. */
    if (now.ms > late->drop_after_ms)
        previous = wall_max(previous, (struct wall){now.ms - late->drop_after_ms - 1});
    if (late->missed == RECURRENCE_MISSED_LAST) {
        struct wall last = recurrence_last(recurrence, now);
        if (last.ms != WALL_NEVER.ms && last.ms > previous.ms)
            return last;
    }
    return recurrence_next(recurrence, previous);
}
