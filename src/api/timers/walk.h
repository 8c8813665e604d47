/*
 * walk.h - reads rows of all partitions, one partition after the other, a page at a time and a
 * bounded number in all. Reads of other calls come between the pages.
 *
 *     job->walk = (struct timer_walk){.from = {STORAGE_DEAD_FROM, 0}, .to = {WALL_NEVER, 0},
 *                                     .kind = STORAGE_SCAN_ALL, .rows_max = 100000,
 *                                     .take = take, .finish = finish};
 *     timer_walk_begin(&job->walk, call);
 *
 * A row that moves during the walk may be read twice, or not at all.
 *
 * Errors     `finish` finds them in `error`.
 * Ownership  The caller's, until the call is closed; call->walk points to it.
 * Threads    `take` is called on the thread of a shard, one at a time. `finish` is called on the
 *            worker's that owns the connection.
 */
#ifndef TICKWHEEL_API_TIMERS_WALK_H
#define TICKWHEEL_API_TIMERS_WALK_H

#include "api/core/call.h"

struct timer_walk {
    /* The question. */
    struct storage_position from, to; /* the rows of each partition */
    enum storage_scan_kind kind;
    uint64_t rows_max;
    /* Takes a timer of the caller, which is valid during the call. May set `error`. */
    void (*take)(struct timer_walk *walk, const struct timer *timer);
    void (*finish)(struct timer_walk *walk); /* answers the call */
    /* The answer. */
    enum error_code error;
    bool is_cut; /* more rows exist than were read */
    struct call *call;
    /* Its own. */
    struct concurrency_start start_; /* for the read of a page */
    struct node_request node_;
    uint64_t rows_; /* rows read; in a partition's last page those of other tenants are unknown */
};

void timer_walk_begin(struct timer_walk *walk, struct call *call);

#endif
