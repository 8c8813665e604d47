/*
 * survey.h - counts the due timers of one partition that wait or are in flight, by queue or by
 * target, or all live ones; or shows the first items of a queue; or tells what a node knows of
 * itself.
 *
 * It tells of the asking tenant's timers alone; of due ones, those in memory. Each timer that waits
 * is looked at once.
 *
 * Ownership  The caller's, borrowed until the answer; then survey_deinit. The timers of ITEMS stay
 *            the engine's, as those of every answer (command.h).
 */
#ifndef TICKWHEEL_ENGINE_SURVEY_H
#define TICKWHEEL_ENGINE_SURVEY_H

#include "base/bytes.h"
#include "base/time.h"
#include "timer/timer.h"

/* Maximum of rows of a survey; of TENANTS, as many as have tokens or rows of /metrics. */
#define SURVEY_ROWS_MAX    1000
#define SURVEY_TENANTS_MAX 8192

enum survey_kind {
    SURVEY_QUEUES,  /* a row for each built-in queue, by its full name */
    SURVEY_TARGETS, /* a row for each origin and broker connection */
    SURVEY_ITEMS,   /* the items of one queue, in the order in which workers get them */
    /* Surveys of a node instead of a partition, which the node answers (node/node_survey.c). */
    SURVEY_WORKERS, /* a row for each queue with workers that wait on the node */
    /* of all tenants: a row for each with timers that wait on the node, and another for each
     * whose rate refused requests there */
    SURVEY_TENANTS,
    SURVEY_FAILURES, /* no rows, but `failures` */
    SURVEY_STATS,    /* of all tenants: no rows, but `numbers`, in the order of ops/stats.h */
    /* of a partition again: a row for each state and origin of live timers, named "STATE ORIGIN" */
    SURVEY_LIVE,
    /* of a node: a row for each delivery in its delivery log that `queue` asks for, named by its
     * bytes, the newest first; and a last one without a name, whose `ready` is the stamp before
     * which the search goes on. Without a delivery log no row */
    SURVEY_DELIVERIES,
};

static inline bool survey_is_of_node(enum survey_kind kind)
{
    return kind >= SURVEY_WORKERS && kind != SURVEY_LIVE;
}

/* True if nodes of version 0.1 do not know it: they refuse a message that has one, and answer
 * BAD_REQUEST in that way. */
static inline bool survey_is_recent(enum survey_kind kind)
{
    return kind == SURVEY_DELIVERIES;
}

static inline size_t survey_rows_max(enum survey_kind kind)
{
    return kind == SURVEY_TENANTS ? SURVEY_TENANTS_MAX : SURVEY_ROWS_MAX;
}

struct survey_row {
    size_t name_at, name_size; /* in `names` */
    uint64_t ready;            /* due and not in flight; WORKERS: workers; LIVE: all */
    /* in flight, or leased items of a queue; TENANTS: refused requests */
    uint64_t taken;
    struct wall oldest; /* due time of the first ready one; WALL_NEVER if there is none */
    /* further due ones may be only on disk. TENANTS: the row counts refused requests, not
     * waiting timers. LIVE, in a row without a name: the counts are not complete yet */
    bool is_spilled;
    uint64_t workers; /* workers that wait for the queue; set by survey_join */
};

/* A host of webhooks, one of its paths, or a broker connection that fails at a node. */
struct survey_failure {
    size_t at; /* offset in `names` of its origin, path and error, one after another */
    size_t origin_size, path_size, error_size;
    uint8_t state;     /* enum breaker_state (delivery/breaker.h); 0 if closed */
    uint32_t failures; /* consecutive failures */
    uint64_t wait_ms;  /* time until it is tried again */
};

struct survey {
    /* The question. */
    enum survey_kind kind;
    uint32_t node; /* number of a node; 0 for this one */
    /* ITEMS: full name. QUEUES, WORKERS: the only queue to report; empty for all. DELIVERIES: the
     * encoded question (delivery_log/delivery_query.h) */
    struct bytes queue;
    const struct timer **items; /* ITEMS: array of `items_max` */
    size_t items_max;
    /* The answer; the engine begins with nothing. */
    struct survey_row *rows; /* several rows may have one name */
    size_t row_count, row_capacity_;
    struct buffer names; /* has failed if out of memory */
    bool is_cut; /* more rows exist than allowed; TENANTS: other tenants have waiting timers */
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

/* Adds an empty row. Returns NULL if there are too many, or out of memory, in which case `names`
 * has failed. */
struct survey_row *survey_add(struct survey *survey, struct bytes name);

/* Like survey_add, with any number of rows. */
struct survey_row *survey_append(struct survey *survey, struct bytes name);

void survey_deinit(struct survey *survey);

/* Appends the rows and failures of `part`, which answered a part of the question. */
void survey_join(struct survey *survey, const struct survey *part);

/* Merges the rows with equal names, sorts them by name and keeps as many as are allowed; and sorts
 * the failures. */
void survey_merge(struct survey *survey);

/* ---- failures ---- */

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

/* Adds a failure with its numbers and these texts. Without memory `names` has failed. */
void survey_add_failure(struct survey *survey, const struct survey_failure *failure,
                        struct bytes origin, struct bytes path, struct bytes error);

/* Sorts the failures by origin, each origin before its paths. For a target that several nodes
 * report it keeps the worst: one that holds deliveries back, then the most consecutive failures.
 * It keeps those of the first SURVEY_ROWS_MAX origins; is_cut if there are more. */
void survey_sort_failures(struct survey *survey);

#endif
