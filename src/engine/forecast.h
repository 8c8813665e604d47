/*
 * forecast.h - how many timers are due in each of a number of stretches of time.
 *
 * Every live row of one partition up to the end is read, a page at a time, but no more than
 * rows_max: then the forecast is complete up to `until`, and says nothing beyond it. A timer that
 * recurs counts for each of its firings, at most forecast_firings_max of them beside the rows.
 *
 * Ownership  The caller's, with its array; borrowed until the answer.
 */
#ifndef TICKWHEEL_ENGINE_FORECAST_H
#define TICKWHEEL_ENGINE_FORECAST_H

#include "base/time.h"

#include <stddef.h>

struct forecast {
    /* The question. */
    struct wall from;
    uint64_t unit_ms;
    size_t count; /* of units */
    uint64_t rows_max;
    /* The answer; the engine begins with zeros. */
    uint64_t *due;     /* array of `count` */
    uint64_t overdue;  /* rows due before `from` that have not ended */
    uint64_t rows;     /* rows read, of all tenants */
    uint64_t rows_own; /* those of the asking tenant */
    uint64_t firings;  /* firings of recurring timers besides those of rows */
    struct wall until;
};

static inline struct wall forecast_end(const struct forecast *forecast)
{
    return wall_add(forecast->from, forecast->unit_ms * forecast->count);
}

static inline uint64_t forecast_firings_max(const struct forecast *forecast)
{
    return forecast->rows_max / 8;
}

#endif
