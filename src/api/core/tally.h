/*
 * tally.h - asks every partition for a survey (engine/survey.h), and every node for what it adds to
 * that, and sums the rows up by name.
 *
 *     tally_ask(call, SURVEY_QUEUES, (struct bytes){0}, 0, NULL, finish);
 *     ...
 *     finish(tally):  answers the call from tally->rows, sorted by name
 *
 * Few that ask partitions are under way at a time (api->tallies); the rest wait in FIFO order.
 *
 * Errors     A partition or a node that fails answers the call with its error, and `finish` is not
 *            called.
 * Ownership  The call's `state` holds the tally: use tally_closed as the route's `closed`.
 * Threads    The worker's that owns the connection.
 */
#ifndef TICKWHEEL_API_CORE_TALLY_H
#define TICKWHEEL_API_CORE_TALLY_H

#include "api/core/scatter.h"
#include "timer/queue_target.h"

#define QUEUE_PEEK_MAX 100                  /* items of a queue in one answer */
#define TALLY_ITEMS    (QUEUE_PEEK_MAX + 1) /* of a queue: one more says that there are more */
#define TALLY_BYTES    (8 << 20)            /* of items, from all partitions together */

struct tally_row {
    size_t name_at, name_size; /* in `names` */
    uint64_t ready, taken, workers;
    struct wall oldest; /* WALL_NEVER: nothing is ready */
    bool is_spilled;
};

struct node_tally {
    struct call *call;
    void (*finish)(struct node_tally *tally);
    struct tally_row *rows;
    size_t row_count, row_capacity;
    struct buffer names; /* failed: out of memory */
    bool is_cut;         /* there are more rows, or items, than are told of */
    void *room;          /* the caller's own, freed with the tally; may be NULL */
    /* Of the partitions, and behind them of the nodes. ITEMS: copies, in the order of each */
    size_t part_count;
    struct tally_part *parts;
    /* Its own. */
    struct concurrency_start start_;
    bool is_limited_; /* it asks partitions */
    struct scatter *scatter_;
    char queue_[QUEUE_FULL_NAME_SIZE_MAX];
};

/* Of one partition, or one node. */
struct tally_part {
    struct survey survey;
    const struct timer *items[TALLY_ITEMS]; /* valid until the reply is left */
    struct timer *copies[TALLY_ITEMS];      /* of them; NULL: out of memory */
    size_t taken;                           /* by tally_next_item */
    bool is_short;                          /* a copy is missing */
};

/* Asks, and calls `finish` later, when all have answered. `queue`, for ITEMS and a single row of
 * QUEUES, is its name at its tenant; `items_max` is for ITEMS; `room` is taken in any case. What
 * is no row is in the surveys of `parts`, as all that is asked of nodes alone. */
void tally_ask(struct call *call, enum survey_kind kind, struct bytes queue, size_t items_max,
               void *room, void (*finish)(struct node_tally *tally));

/* Adds a row of zeros. NULL: out of memory. */
struct tally_row *tally_add(struct node_tally *tally, struct bytes name);

/* Makes one row of those with a name, and sorts them by name. Keeps SURVEY_ROWS_MAX of them. */
void tally_sum(struct node_tally *tally);

static inline struct bytes tally_name(const struct node_tally *tally, const struct tally_row *row)
{
    return (struct bytes){tally->names.data + row->name_at, row->name_size};
}

/* The next item in the order in which workers get them; NULL: no more is known. */
const struct timer *tally_next_item(struct node_tally *tally);

void tally_closed(struct call *call);

#endif
