/*
 * survey.h - answers questions about one partition or one node: how many due timers wait or are in
 * flight, by queue or by target; how many timers live; the first items of a queue; what a node
 * reports of itself.
 *
 * The answer is about the asking tenant's timers. Due timers count while they are in memory.
 * The timers of a queue are visited if some of them came back after an attempt, and overdue ones.
 *
 * Ownership  The caller's, borrowed until the answer; then survey_deinit. The timers of ITEMS stay
 *            the engine's, as those of every answer (command.h).
 */
#ifndef TICKWHEEL_ENGINE_SURVEY_H
#define TICKWHEEL_ENGINE_SURVEY_H

#include "base/bytes.h"
#include "base/time.h"
#include "engine/explain.h"
#include "timer/timer.h"

/* Maximum of rows of a survey. TENANTS has its own, because all tenants with tokens or with rows in
 * /metrics must fit. */
#define SURVEY_ROWS_MAX    1000
#define SURVEY_TENANTS_MAX 8192

enum survey_kind {
    SURVEY_QUEUES,  /* a row for each built-in queue, by its full name */
    SURVEY_TARGETS, /* a row for each origin and broker connection */
    SURVEY_ITEMS,   /* the items of one queue, in the order in which workers get them */
    /* Surveys of a node instead of a partition, which the node answers (node/node_survey.c). */
    SURVEY_WORKERS, /* a row for each queue with workers that wait on the node */
    /* tenants of a node: a row for each with timers that wait there, and another one for each whose
     * requests were refused there because of its rate */
    SURVEY_TENANTS,
    SURVEY_FAILURES, /* failing targets of a node: no rows, but `failures` */
    /* statistics of a node, for all tenants: no rows, but `numbers`, in the order of ops/stats.h */
    SURVEY_STATS,
    /* survey of a partition: a row for each state and origin of live timers, named "STATE
     * ORIGIN" */
    SURVEY_LIVE,
    /* delivery log of a node: a row for each delivery that matches `queue`, newest first, whose
     * name is the encoded delivery. In a last row without a name, `ready` is the stamp before which
     * to continue the search. No rows if there is no delivery log */
    SURVEY_DELIVERIES,
    /* of a partition again, of all tenants: a row for each reason for which due timers wait, and
     * each target, named by survey_put_held */
    SURVEY_HELD,
    /* survey of a partition: a row for each flow and limits of the tenant's timers that wait for it
     * or run, named by the text of timer/flow.h */
    SURVEY_FLOWS,
};

static inline bool survey_is_of_node(enum survey_kind kind)
{
    return kind >= SURVEY_WORKERS && kind != SURVEY_LIVE && kind < SURVEY_HELD;
}

/* True if nodes of an earlier version do not know this kind. They refuse a message that has one,
 * which is reported as BAD_REQUEST. */
static inline bool survey_is_recent(enum survey_kind kind)
{
    return kind >= SURVEY_DELIVERIES;
}

static inline size_t survey_rows_max(enum survey_kind kind)
{
    return kind == SURVEY_TENANTS ? SURVEY_TENANTS_MAX : SURVEY_ROWS_MAX;
}

struct survey_row {
    size_t name_at, name_size; /* in `names` */
    /* timers that are due and not in flight. WORKERS: waiting workers. LIVE: all timers */
    uint64_t ready;
    /* timers in flight, or leased items of a queue. TENANTS: refused requests */
    uint64_t taken;
    struct wall oldest; /* earliest due time of those in `ready`; WALL_NEVER if there is none */
    /* further due timers may be on disk only. TENANTS: the row counts refused requests instead of
     * waiting timers. LIVE, in a row without a name: the counts are not complete yet */
    bool is_spilled;
    uint64_t workers; /* workers that wait for the queue; set by survey_join */
};

/* A failing webhook origin, one of its paths, or a broker connection, as a node sees it. */
struct survey_failure {
    size_t at; /* offset in `names` of its origin, path and error, one after another */
    size_t origin_size, path_size, error_size;
    uint8_t state;     /* enum breaker_state (delivery/breaker.h); 0 if closed */
    uint32_t failures; /* consecutive failures */
    uint64_t wait_ms;  /* milliseconds until the next try */
};

struct survey {
    /* The question, set by the caller. */
    enum survey_kind kind;
    uint32_t node; /* number of the node to ask; 0 for this one */
    /* ITEMS: full name of the queue. QUEUES, WORKERS: the only queue to report; empty for all.
     * DELIVERIES: the encoded question (delivery_log/delivery_query.h) */
    struct bytes queue;
    const struct timer **items; /* ITEMS: array of `items_max` */
    size_t items_max;
    /* The answer, which is empty when the engine begins. */
    struct survey_row *rows; /* several rows may have one name */
    size_t row_count, row_capacity_;
    struct buffer names; /* texts of all rows and failures; marked as failed if out of memory */
    /* more rows exist than the maximum. TENANTS: tenants without a row have waiting timers */
    bool is_cut;
    size_t item_count;
    struct survey_failure *failures;
    size_t failure_count, failure_capacity_;
    uint64_t *numbers;
    size_t number_count;
};

static inline struct bytes survey_name(const struct survey *survey, const struct survey_row *row)
{
    const char *names = survey->names.data;

    return (struct bytes){names ? names + row->name_at : NULL, row->name_size};
}

/* Adds an empty row. Returns NULL if the maximum is reached, or if out of memory, in which case
 * `names` has failed. */
struct survey_row *survey_add(struct survey *survey, struct bytes name);

/* Like survey_add, without a maximum of rows. */
struct survey_row *survey_append(struct survey *survey, struct bytes name);

void survey_deinit(struct survey *survey);

/* Appends the rows and failures of `part`, the answer of another partition or node. */
void survey_join(struct survey *survey, const struct survey *part);

/* Merges the rows with equal names, sorts them by name and keeps as many as are allowed; and sorts
 * the failures. */
void survey_merge(struct survey *survey);

/* ---- what holds timers back ---- */

/* What timers of a row of HELD wait for. */
struct survey_held {
    enum wait_reason reason;
    /* both empty: the timers may be of any tenant and target */
    struct bytes tenant;
    struct bytes target; /* URL without its query, or the origin */
};

/* Appends the name of a row. */
void survey_put_held(const struct survey_held *held, struct buffer *out);

/* Returns false if the name is none of survey_put_held. */
bool survey_get_held(struct bytes name, struct survey_held *ret_held);

/* ---- failures ---- */

static inline struct bytes survey_origin(const struct survey *survey,
                                         const struct survey_failure *failure)
{
    const char *names = survey->names.data;

    return (struct bytes){names ? names + failure->at : NULL, failure->origin_size};
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

/* Adds a failure with these numbers and texts. If out of memory, `names` has failed. */
void survey_add_failure(struct survey *survey, const struct survey_failure *failure,
                        struct bytes origin, struct bytes path, struct bytes error);

/* Sorts the failures by origin, each origin before its paths. If several nodes report a target,
 * keeps the worst failure: one that holds deliveries back, then the one with the most consecutive
 * failures. Keeps those of the first SURVEY_ROWS_MAX origins, and sets is_cut if there are more. */
void survey_sort_failures(struct survey *survey);

#endif
