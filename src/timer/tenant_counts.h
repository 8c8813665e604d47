/*
 * tenant_counts.h - how many live timers each tenant has. The unnamed tenant is not counted: its
 * timers are those that no other tenant has.
 *
 * Errors     Only the first timer of a tenant can fail to be counted, for want of memory.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_TIMER_TENANT_COUNTS_H
#define TICKWHEEL_TIMER_TENANT_COUNTS_H

#include "base/list.h"
#include "base/map.h"
#include "timer/tenant.h"

struct tenant_counts {
    struct map tenants_;
    struct list changed_;
};

struct tenant_counts_tenant {
    struct list link_;
    uint64_t count;
    uint8_t name_size;
    char name[TENANT_SIZE_MAX];
};

void tenant_counts_init(struct tenant_counts *tenant_counts);
void tenant_counts_deinit(struct tenant_counts *tenant_counts);

/* Forgets all counts. */
void tenant_counts_clear(struct tenant_counts *tenant_counts);

/* False when out of memory: nothing changed. Who was counted before can always be. */
bool tenant_counts_add(struct tenant_counts *tenant_counts, struct bytes tenant, int64_t change);

uint64_t tenant_counts_count(const struct tenant_counts *tenant_counts, struct bytes tenant);

/* Names, one at a time, the tenants whose counts were changed since they were last named; NULL at
 * the end. */
const struct tenant_counts_tenant *tenant_counts_take_changed(struct tenant_counts *tenant_counts);

/* Walks all in no order: start with *cursor = 0; NULL at the end. */
const struct tenant_counts_tenant *tenant_counts_next(const struct tenant_counts *tenant_counts,
                                                      size_t *cursor);

#endif
