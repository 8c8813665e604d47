/*
 * tally.h - asks every partition for a survey (engine/survey.h), and every node for what it adds to
 * that.
 *
 *     tally_ask(call, SURVEY_QUEUES, (struct bytes){0}, 0, NULL, finish);
 *     ...
 *     finish(tally):  survey_merge(&tally->sum), and answers the call from its rows
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

#define QUEUE_PEEK_MAX 100 /* maximum of items in one answer */
/* items asked of a queue: the last one shows that there are more */
#define TALLY_ITEMS (QUEUE_PEEK_MAX + 1)
/* maximum of their memory, from all partitions together */
#define TALLY_BYTES (8 << 20)

struct node_tally {
    struct call *call;
    void (*finish)(struct node_tally *tally);
    struct survey sum; /* rows and failures of all parts, unmerged */
    void *room;        /* for the caller, freed with the tally; may be NULL */
    /* Surveys of the partitions, and after them those of the nodes. For ITEMS they have copies,
     * each in its own order. */
    size_t part_count;
    struct tally_part *parts;
    /* Its own. */
    struct concurrency_start start_;
    bool is_limited_; /* whether it asks partitions */
    struct scatter *scatter_;
    char queue_[QUEUE_FULL_NAME_SIZE_MAX];
};

/* Survey of one partition or node. */
struct tally_part {
    struct survey survey;
    const struct timer *items[TALLY_ITEMS]; /* valid until the reply is left */
    struct timer *copies[TALLY_ITEMS];      /* copies of the items; NULL if out of memory */
    size_t taken;                           /* by tally_next_item */
    bool is_short;                          /* a copy is missing */
    bool is_missing; /* the node is of an earlier version, and cannot answer */
};

/* Asks, and calls `finish` when all have answered. `queue`, for ITEMS and a single row of QUEUES,
 * is the tenant's name of the queue. For DELIVERIES it is the question, which is borrowed until
 * `finish`. `items_max` is for ITEMS. `room` is freed with the tally, or at once if this fails.
 * Results that are not rows, such as the answers of surveys of nodes, are in `parts`. */
void tally_ask(struct call *call, enum survey_kind kind, struct bytes queue, size_t items_max,
               void *room, void (*finish)(struct node_tally *tally));

/* Returns the next item in the order of the workers; NULL if no more is known. */
const struct timer *tally_next_item(struct node_tally *tally);

void tally_closed(struct call *call);

#endif
