/*
 * tenant_counts.h - how many live timers each tenant has. The unnamed tenant is not counted: its
 * timers are those that no other tenant has.
 *
 * Errors     Only the first timer of a tenant can fail to be counted, for want of memory.
 * Threads    Counting and reading from any thread: a lock is held only to add a tenant, or to note
 *            that its count changed since tenant_counts_take_changed returned it. One thread takes
 *            changes; init, deinit and clear are for one owner. A tenant, once there, stays.
 */
#ifndef TICKWHEEL_TIMER_TENANT_COUNTS_H
#define TICKWHEEL_TIMER_TENANT_COUNTS_H

#include "base/error.h"
#include "base/list.h"
#include "timer/tenant.h"

#include <pthread.h>
#include <stdatomic.h>

#define TENANT_COUNTS_BUCKETS 256

struct tenant_counts_tenant {
    struct tenant_counts_tenant *next_; /* in its bucket; never changes */
    struct list link_;                  /* on `changed_`; guarded by lock_ */
    atomic_bool is_changed_;            /* it is on `changed_` */
    _Atomic uint64_t count;
    uint8_t name_size;
    char name[TENANT_SIZE_MAX];
};

struct tenant_counts {
    pthread_mutex_t lock_;
    struct list changed_; /* guarded by lock_ */
    struct tenant_counts_tenant *_Atomic buckets_[TENANT_COUNTS_BUCKETS];
};

void tenant_counts_init(struct tenant_counts *tenant_counts);
void tenant_counts_deinit(struct tenant_counts *tenant_counts);

/* Forgets all counts. */
void tenant_counts_clear(struct tenant_counts *tenant_counts);

/* False when out of memory: nothing changed. A tenant that was counted before always can be. */
bool tenant_counts_add(struct tenant_counts *tenant_counts, struct bytes tenant, int64_t change);

/* One timer more, if the tenant then has at most `max` (0: no limit): NONE, TOO_MANY or NO_MEMORY.
 * Exact with any number of threads: the timer is counted first, and uncounted if it is too many. */
enum error_code tenant_counts_admit(struct tenant_counts *tenant_counts, struct bytes tenant,
                                    uint64_t max);

/* One timer less, if there is one. */
void tenant_counts_dismiss(struct tenant_counts *tenant_counts, struct bytes tenant);

uint64_t tenant_counts_count(const struct tenant_counts *tenant_counts, struct bytes tenant);

/* Names, one at a time, the tenants whose counts were changed since they were last named; NULL at
 * the end. */
const struct tenant_counts_tenant *tenant_counts_take_changed(struct tenant_counts *tenant_counts);

/* Walks all in no order: start with *cursor = 0; NULL at the end. */
const struct tenant_counts_tenant *tenant_counts_next(const struct tenant_counts *tenant_counts,
                                                      size_t *cursor);

#endif
