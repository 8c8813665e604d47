/*
 * survey.h - counts the due timers of one partition that wait or are in flight, by queue or by
 * target; or shows the first items of a queue; or tells what a node knows of itself.
 *
 * It tells of the asking tenant's timers alone, and of those in memory. Each timer that waits is
 * looked at once.
 *
 * Ownership  The caller's, borrowed until the answer; then survey_deinit. The timers of ITEMS stay
 *            the engine's, as those of every answer (command.h).
 */
#ifndef TICKWHEEL_ENGINE_SURVEY_H
#define TICKWHEEL_ENGINE_SURVEY_H

#include "base/bytes.h"
#include "base/time.h"
#include "timer/timer.h"

/* Rows of one survey; of TENANTS, which are as many as have tokens or rows of /metrics. */
#define SURVEY_ROWS_MAX    1000
#define SURVEY_TENANTS_MAX 8192

enum survey_kind {
    SURVEY_QUEUES,  /* a row for each built-in queue, by its full name */
    SURVEY_TARGETS, /* a row for each origin and broker connection */
    SURVEY_ITEMS,   /* the items of one queue, in the order in which workers get them */
    /* Of a node, in place of a partition: the node answers them (node/node_survey.c). */
    SURVEY_WORKERS,  /* a row for each queue for which workers wait there */
    SURVEY_TENANTS,  /* of all tenants: a row for each that has timers which wait there, and another
                       one for each of which its rate refused requests there */
    SURVEY_FAILURES, /* no rows, but `failures` */
    SURVEY_STATS,    /* of all tenants: no rows, but `numbers`, in the order of ops/stats.h */
};

static inline bool survey_is_of_node(enum survey_kind kind)
{
    return kind >= SURVEY_WORKERS;
}

static inline size_t survey_rows_max(enum survey_kind kind)
{
    return kind == SURVEY_TENANTS ? SURVEY_TENANTS_MAX : SURVEY_ROWS_MAX;
}

struct survey_row {
    size_t name_at, name_size; /* in `names` */
    uint64_t ready;            /* due, and not in flight; WORKERS: the workers */
    uint64_t taken;            /* in flight; of a queue: leased. TENANTS: the refused */
    struct wall oldest;        /* the due time of the first that is ready; WALL_NEVER: none is */
    bool is_spilled;           /* further ones that are due may be on disk alone. TENANTS: the row
                                  is of the refused, and not of those that wait */
};

/* A host of webhooks, or one of its paths, or a connection to a broker, that fails at a node. */
struct survey_failure {
    size_t at; /* in `names`: its origin, path and error, one behind the other */
    size_t origin_size, path_size, error_size;
    uint8_t state;     /* enum breaker_state (delivery/breaker.h); 0: closed */
    uint32_t failures; /* in a row */
    uint64_t wait_ms;  /* until it is tried again */
};

struct survey {
    /* The question. */
    enum survey_kind kind;
    uint32_t node;      /* of a node: its number; 0: this one */
    struct bytes queue; /* ITEMS: the full name. QUEUES, WORKERS: the only one to tell of; empty:
                           all */
    const struct timer **items; /* ITEMS: room for `items_max` */
    size_t items_max;
    /* The answer; the engine begins with nothing. */
    struct survey_row *rows; /* a name may have several */
    size_t row_count;
    struct buffer names;
    bool is_cut; /* there are more rows than may be; TENANTS: further ones have timers that wait */
    size_t item_count;
    struct survey_failure *failures;
    size_t failure_count, failure_capacity_;
    uint64_t *numbers;
    size_t number_count;
};

static inline struct bytes survey_name(const struct survey *survey, const struct survey_row *row)
{
    return (struct bytes){survey->names.data + row->name_at, row->name_size};
}

/* Adds an empty row. NULL: there are as many as may be; or out of memory, and `names` failed. */
struct survey_row *survey_add(struct survey *survey, struct bytes name);

void survey_deinit(struct survey *survey);

/* ---- survey_failures.c ---- */

static inline struct bytes survey_origin(const struct survey *survey,
                                         const struct survey_failure *failure)
{
    return (struct bytes){survey->names.data + failure->at, failure->origin_size};
}

static inline struct bytes survey_path(const struct survey *survey,
                                       const struct survey_failure *failure)
{
    return (struct bytes){survey->names.data + failure->at + failure->origin_size,
                          failure->path_size};
}

static inline struct bytes survey_error(const struct survey *survey,
                                        const struct survey_failure *failure)
{
    return (struct bytes){survey->names.data + failure->at + failure->origin_size +
                              failure->path_size,
                          failure->error_size};
}

/* Adds a failure with its numbers and these texts; out of memory: `names` failed. */
void survey_add_failure(struct survey *survey, const struct survey_failure *failure,
                        struct bytes origin, struct bytes path, struct bytes error);

/* Sorts them by origin, each origin before its paths. Of one target that several nodes tell of it
 * keeps the failure that is worst: one that holds deliveries back, and then the longest row of
 * failures. It keeps those of the first SURVEY_ROWS_MAX origins; is_cut: there are more. */
void survey_sort_failures(struct survey *survey);

#endif
