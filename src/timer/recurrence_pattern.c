/* recurrence_pattern.c - instants of `every` and `cron` without their dates, computed without a
 * walk over those between. */
#include "timer/recurrence_pattern.h"

#include <assert.h>

/* Maximum time by which dates move an instant. The clocks may change in between, by a day. */
#define RECURRENCE_MOVE_MS (UINT64_C(86400000) * (DATES_MOVE_DAYS_MAX + 2))

/* Returns the end of the pattern. It is after `until` if instants may be moved to before that. */
static struct wall recurrence_pattern_until(const struct recurrence *recurrence)
{
    return recurrence->dates.move == DATES_MOVE_PREVIOUS && dates_any(&recurrence->dates)
               ? wall_add(recurrence->until, RECURRENCE_MOVE_MS)
               : recurrence->until;
}

/* ---- every ---- */

/* Returns the index of the last planned instant; the first has index 0. False if there is no last
 * one. */
static bool recurrence_every_index_last(const struct recurrence *recurrence, uint64_t *ret_index)
{
    const struct recurrence_every *every = &recurrence->every;
    const uint64_t end_ms =
        wall_min(recurrence_pattern_until(recurrence), (struct wall){WALL_MS_MAX}).ms;

    if (every->first.ms > end_ms)
        return false;
    *ret_index = (end_ms - every->first.ms) / every->period_ms;
    if (every->count && *ret_index > every->count - 1)
        *ret_index = every->count - 1;
    return true;
}

/* Returns how many instants are planned until `at`, which is included. */
static uint64_t recurrence_every_count_until(const struct recurrence *recurrence, struct wall at)
{
    const struct recurrence_every *every = &recurrence->every;

    assert(every->period_ms);
    uint64_t last;
    if (at.ms < every->first.ms || !recurrence_every_index_last(recurrence, &last))
        return 0;
    uint64_t index = (at.ms - every->first.ms) / every->period_ms;
    return (index < last ? index : last) + 1;
}

/* Returns the planned instant with this index. Cannot overflow, because only indices of planned
 * instants are used. */
static struct wall recurrence_every_planned(const struct recurrence *recurrence, uint64_t index)
{
    return wall_add(recurrence->every.first, index * recurrence->every.period_ms);
}

static struct wall recurrence_every_next(const struct recurrence *recurrence, struct wall after)
{
    uint64_t index = recurrence_every_count_until(recurrence, after), last;

    if (!recurrence_every_index_last(recurrence, &last) || index > last)
        return WALL_NEVER;
    return recurrence_every_planned(recurrence, index);
}

static struct wall recurrence_every_last(const struct recurrence *recurrence, struct wall at)
{
    uint64_t count = recurrence_every_count_until(recurrence, at);

    return count ? recurrence_every_planned(recurrence, count - 1) : WALL_NEVER;
}

/* ---- both ---- */

struct wall recurrence_pattern_next(const struct recurrence *recurrence, struct wall after)
{
    const struct recurrence_cron *cron = &recurrence->cron;

    if (recurrence->kind == RECURRENCE_EVERY)
        return recurrence_every_next(recurrence, after);
    struct wall next = cron_next(&cron->cron, recurrence->zone, cron->dst, after);
    return next.ms <= recurrence_pattern_until(recurrence).ms ? next : WALL_NEVER;
}

struct wall recurrence_pattern_last(const struct recurrence *recurrence, struct wall at)
{
    const struct recurrence_cron *cron = &recurrence->cron;

    if (recurrence->kind == RECURRENCE_EVERY)
        return recurrence_every_last(recurrence, at);
    return cron_last(&cron->cron, recurrence->zone, cron->dst,
                     wall_min(at, recurrence_pattern_until(recurrence)));
}
