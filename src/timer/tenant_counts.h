/*
 * tenant_counts.h - how many live timers each tenant has. The unnamed tenant is not counted: its
 * timers are those that no other tenant has.
 *
 * In a cluster each node counts its own, and tells the other nodes the counts of the tenants that
 * are nearest to their limits, at most TENANT_COUNTS_TOLD_MAX:
 *
 *     count = tenant_counts_tell(counts, told);          for the others
 *     tenant_counts_hear(counts, name, count, is_full);  each count that another node has told
 *     tenant_counts_heard(counts, nodes, full);          from now on limits hold over all of them
 *
 * A limit holds for the timers here and for those that were told. While a node with more tenants
 * than it tells does not name a tenant, the timers of that tenant there are unknown: then each node
 * admits an equal part of the rest of the limit, and at most an equal share of the limit.
 *
 * Errors     Only the first timer of a tenant can fail to be counted, for want of memory.
 * Threads    Counting and reading from any thread: a lock is held only to add a tenant, or to note
 *            that its count changed since tenant_counts_take_changed returned it. One thread takes
 *            changes, and one tells and hears; init, deinit and clear are for one owner. A tenant,
 *            once there, stays.
 */
#ifndef TICKWHEEL_TIMER_TENANT_COUNTS_H
#define TICKWHEEL_TIMER_TENANT_COUNTS_H

#include "base/error.h"
#include "base/list.h"
#include "timer/tenant.h"

#include <pthread.h>
#include <stdatomic.h>

#define TENANT_COUNTS_BUCKETS  256
#define TENANT_COUNTS_TOLD_MAX 64

#define TENANT_LIMIT_UNKNOWN UINT64_MAX

struct tenant_counts_tenant {
    struct tenant_counts_tenant *next_; /* next in its bucket; never changes */
    struct list link_;                  /* in `changed_`; guarded by lock_ */
    atomic_bool is_changed_;            /* true while it is in `changed_` */
    _Atomic uint64_t count;
    /* last known limit; 0 if it has none; TENANT_LIMIT_UNKNOWN if no timer was admitted yet */
    _Atomic uint64_t limit;
    _Atomic uint64_t others; /* live timers on other nodes, as last reported by them */
    /* number of other nodes that report only some tenants, and reported this one */
    _Atomic uint32_t named;
    atomic_bool is_told; /* this node reported its count last time */
    /* private to the thread of tenant_counts_hear: next values of `others` and `named` */
    uint64_t others_heard_;
    uint32_t named_heard_;
    uint8_t name_size;
    char name[TENANT_SIZE_MAX];
};

struct tenant_counts {
    pthread_mutex_t lock_;
    struct list changed_; /* tenants with changed counts; guarded by lock_ */
    /* number of nodes that share the limits, including this one; 0 without a cluster */
    _Atomic uint32_t nodes_;
    _Atomic uint32_t full_; /* number of other nodes that report only some of their tenants */
    atomic_bool is_full_;   /* this node reports only some of its tenants */
    struct tenant_counts_tenant *_Atomic buckets_[TENANT_COUNTS_BUCKETS];
};

void tenant_counts_init(struct tenant_counts *tenant_counts);
void tenant_counts_deinit(struct tenant_counts *tenant_counts);

/* Removes all counts. */
void tenant_counts_clear(struct tenant_counts *tenant_counts);

/* Adds `change`, which may be negative. Returns false if out of memory; then nothing changed.
 * Always succeeds for a tenant that was counted before. */
bool tenant_counts_add(struct tenant_counts *tenant_counts, struct bytes tenant, int64_t change);

/* Counts one more timer if the tenant then has at most `max`; 0 means no limit. Returns NONE,
 * TOO_MANY or NO_MEMORY. Exact for the timers of this node with any number of threads: the timer is
 * counted first, and uncounted if that was too many. */
enum error_code tenant_counts_admit(struct tenant_counts *tenant_counts, struct bytes tenant,
                                    uint64_t max);

/* Like tenant_counts_admit, with the limit of the last admission or of tenant_counts_limit; without
 * one if it is unknown. */
enum error_code tenant_counts_admit_known(struct tenant_counts *tenant_counts, struct bytes tenant);

/* True if tenant_counts_admit_known would refuse one more timer now. */
bool tenant_counts_is_full(const struct tenant_counts *tenant_counts, struct bytes tenant);

/* Sets the limit of a tenant, 0 for none, before it admits a timer. Returns false if out of
 * memory. */
bool tenant_counts_limit(struct tenant_counts *tenant_counts, struct bytes tenant, uint64_t max);

/* Subtracts `count` timers, or all if there are fewer. */
void tenant_counts_dismiss(struct tenant_counts *tenant_counts, struct bytes tenant,
                           uint64_t count);

uint64_t tenant_counts_count(const struct tenant_counts *tenant_counts, struct bytes tenant);

/* Returns the number of the tenant's live timers on this node, plus those that other nodes
 * reported. */
uint64_t tenant_counts_everywhere(const struct tenant_counts_tenant *tenant);

/* Returns the number of a tenant's live timers on all nodes. `all` is the number of all tenants'
 * live timers; the unnamed tenant has those that no other has. O(tenants) for the unnamed
 * tenant. */
uint64_t tenant_counts_live(const struct tenant_counts *tenant_counts, struct bytes tenant,
                            uint64_t all);

/* Chooses the tenants to report to other nodes, sorted by name: all tenants with timers that may
 * have a limit, or those nearest to their limits. Returns their number. */
size_t tenant_counts_tell(struct tenant_counts *tenant_counts,
                          const struct tenant_counts_tenant *ret_told[TENANT_COUNTS_TOLD_MAX]);

/* Handles the report of another node that it has `count` timers of the tenant. `is_full` means that
 * the node reports only some of its tenants. Returns false if out of memory. The report counts from
 * the next tenant_counts_heard on. */
bool tenant_counts_hear(struct tenant_counts *tenant_counts, struct bytes tenant, uint64_t count,
                        bool is_full);

/* Ends a round of reports. `nodes` share the limits, including this one; `full` of the others
 * report only some of their tenants. */
void tenant_counts_heard(struct tenant_counts *tenant_counts, uint32_t nodes, uint32_t full);

/* Returns a tenant whose count changed since it was last returned; NULL if there is none. */
const struct tenant_counts_tenant *tenant_counts_take_changed(struct tenant_counts *tenant_counts);

/* Walks all tenants in no order. The first call has *cursor 0; NULL is the end. */
const struct tenant_counts_tenant *tenant_counts_next(const struct tenant_counts *tenant_counts,
                                                      size_t *cursor);

#endif
