/*
 * turns.h - of what is heavy for the node, so much at a time; the rest waits, in order.
 *
 *     turns_enter(&turns, &job->turn)   job->turn.begin is called, now or later
 *     turns_leave(&turns)               its work is done: the next one's begin is called
 *
 * Ownership  A turn is the caller's, and touched until its `begin` is called.
 * Threads    Any. `begin` is called from whoever enters or leaves, one at a time and never within
 *            another `begin`; it may leave again itself.
 */
#ifndef TICKWHEEL_API_TURNS_H
#define TICKWHEEL_API_TURNS_H

#include "base/list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct turn {
    struct list link_;
    void (*begin)(struct turn *turn);
};

struct turns {
    pthread_mutex_t lock_;
    struct list waiting_; /* guarded by lock_ */
    size_t free_;         /* guarded by lock_ */
    bool is_giving_;      /* somebody calls `begin`; guarded by lock_ */
    pthread_cond_t given_;
};

void turns_init(struct turns *turns, size_t at_a_time);

/* When nobody waits and nobody is at work. Whoever called the last `begin` may still be on the way
 * back: that is waited for. */
void turns_deinit(struct turns *turns);

void turns_enter(struct turns *turns, struct turn *turn);
void turns_leave(struct turns *turns);

#endif
