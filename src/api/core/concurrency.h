/*
 * turns.h - of what is heavy for the node, so much at a time; the rest waits, in order.
 *
 *     concurrency_enter(&turns, &job->turn)   job->turn.begin is called, now or later
 *     concurrency_leave(&turns)               its work is done: the next one's begin is called
 *
 * Ownership  A turn is the caller's, and touched until its `begin` is called.
 * Threads    Any. `begin` is called from whoever enters or leaves, one at a time and never within
 *            another `begin`; it may leave again itself.
 */
#ifndef TICKWHEEL_API_CORE_CONCURRENCY_H
#define TICKWHEEL_API_CORE_CONCURRENCY_H

#include "base/list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct turn {
    struct list link_;
    void (*begin)(struct turn *turn);
};

struct concurrency {
    pthread_mutex_t lock_;
    struct list waiting_; /* guarded by lock_ */
    size_t free_;         /* guarded by lock_ */
    bool is_giving_;      /* somebody calls `begin`; guarded by lock_ */
    pthread_cond_t given_;
};

void concurrency_init(struct concurrency *turns, size_t at_a_time);

/* When nobody waits and nobody is at work. Whoever called the last `begin` may still be on the way
 * back: that is waited for. */
void concurrency_deinit(struct concurrency *turns);

void concurrency_enter(struct concurrency *turns, struct turn *turn);
void concurrency_leave(struct concurrency *turns);

#endif
