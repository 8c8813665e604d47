/*
 * forecast.h - how many timers are due in each of a number of stretches of time.
 *
 * Reads every live row of one partition up to the end, a page at a time. After rows_max rows it
 * stops: the forecast is complete up to `until`, and says nothing about later times. A recurring
 * timer counts for each of its firings, at most forecast_firings_max besides those of the rows.
 *
 * Ownership  The caller's, with its array; borrowed until the answer.
 */
#ifndef TICKWHEEL_ENGINE_FORECAST_H
#define TICKWHEEL_ENGINE_FORECAST_H

#include "base/time.h"

#include <stddef.h>

struct forecast {
    /* The question, set by the caller. */
    struct wall from;
    uint64_t unit_ms;
    size_t count; /* number of units */
    uint64_t rows_max;
    /* The answer. All fields are 0 at the begin. */
    uint64_t *due;     /* timers due in each unit; array of `count` */
    uint64_t overdue;  /* rows due before `from` that have not ended */
    uint64_t rows;     /* rows read, of all tenants */
    uint64_t rows_own; /* how many of `rows` belong to the asking tenant */
    uint64_t firings;  /* firings of recurring timers after the one that their row has */
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
