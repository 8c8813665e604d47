/*
 * metrics_text.h - the metrics in Prometheus' text formats.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_OPS_METRICS_TEXT_H
#define TICKWHEEL_OPS_METRICS_TEXT_H

#include "base/bytes.h"
#include "calendar/zones.h"
#include "ops/metrics.h"

#define METRICS_WAITING_ROWS 257 /* the last one is of the names without a row */
#define METRICS_OTHERS       "(others)"

/* The waiting timers of a queue or a tenant. No character of a name needs an escape. */
struct metrics_waiting_row {
    char tenant[72], queue[72];
    uint64_t ready, oldest_ms;
};

struct metrics_waiting {
    char tzdata[ZONES_VERSION_SIZE]; /* the version of the tz database */
    struct absent_names zones;       /* missing ones that timers need */
    struct absent_names calendars;   /* likewise */
    size_t queue_count, tenant_count;
    struct metrics_waiting_row queues[METRICS_WAITING_ROWS], tenants[METRICS_WAITING_ROWS];
};

enum metrics_format {
    METRICS_TEXT,        /* Prometheus' text exposition format 0.0.4 */
    METRICS_OPENMETRICS, /* OpenMetrics 1.0.0, with exemplars */
};

const char *metrics_content_type(enum metrics_format format);

/* Appends everything. */
void metrics_format(struct metrics *metrics, enum metrics_format format,
                    const struct metrics_waiting *waiting, struct buffer *buffer);

/* docs/metrics.md: a row for each metric. */
void metrics_format_docs(struct buffer *buffer);

#endif
