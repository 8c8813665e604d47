/*
 * concurrency.h - limits how many expensive requests run at once, of all tenants and of one; the
 * rest wait, first come first served for each tenant, and the tenants take turns.
 *
 *     concurrency_enter(&limit, &job->start, tenant)   calls job->start.begin, now or later
 *     concurrency_leave(&limit, tenant)                the request is over: the next one begins
 *
 * Ownership  A start is the caller's, and in use until its `begin` is called.
 * Threads    Any. `begin` runs on a thread that enters or leaves, one at a time and never within
 *            another `begin`; it may call concurrency_leave itself.
 */
#ifndef TICKWHEEL_API_CORE_CONCURRENCY_H
#define TICKWHEEL_API_CORE_CONCURRENCY_H

#include "base/turns.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* A request that wants to run. */
struct concurrency_start {
    struct turn_link turn_;
    void (*begin)(struct concurrency_start *start);
};

#define CONCURRENCY_PLACES 8 /* largest value of at_once */

struct concurrency {
    pthread_mutex_t lock_;
    size_t each_;                          /* limit of running requests of one tenant */
    uint64_t running_[CONCURRENCY_PLACES]; /* tenants of the running requests; guarded by lock_ */
    size_t running_count_;                 /* guarded by lock_ */
    struct turns waiting_;                 /* waiting requests, by tenant; guarded by lock_ */
    /* number of further requests that may run; guarded by lock_ */
    size_t free_;
    bool is_starting_; /* a thread calls `begin`; guarded by lock_ */
    pthread_cond_t started_;
};

/* Allows `at_once` requests to run, `each` of one tenant. */
void concurrency_init(struct concurrency *limit, size_t at_once, size_t each);

/* Requires that no request runs or waits. Waits for a thread that is returning from the last
 * `begin`. */
void concurrency_deinit(struct concurrency *limit);

/* `tenant` is the tenant_key of the caller. */
void concurrency_enter(struct concurrency *limit, struct concurrency_start *start, uint64_t tenant);
void concurrency_leave(struct concurrency *limit, uint64_t tenant);

#endif
