/*
 * forecast.h - GET /v1/forecast: how many timers are due in each second or minute to come.
 *
 * Each partition reads the rows of the time asked for, at most its share of FORECAST_ROWS_MAX. The
 * forecast ends where the first partition stopped, and names that time.
 */
#ifndef TICKWHEEL_API_TIMERS_FORECAST_H
#define TICKWHEEL_API_TIMERS_FORECAST_H

#include "api/core/call.h"

enum {
    FORECAST_COUNT_DEFAULT = 60,
    FORECAST_COUNT_MAX = 1440,
    FORECAST_ROWS_MAX = 200000, /* read for one forecast, from all partitions together */
    FORECAST_ROWS_MIN = 1000,   /* but from each at least */
    FORECASTS_MAX = 4,          /* under way at a time */
};

void forecast_end_of(struct call *call);
void forecast_closed(struct call *call);

#endif
