/*
 * census.h - how many live timers each tenant has. The unnamed tenant is not counted: it has what
 * the others do not.
 *
 * Errors     Only the first timer of a tenant can fail to be counted, for want of memory.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_STORAGE_CENSUS_H
#define TICKWHEEL_STORAGE_CENSUS_H

#include "base/list.h"
#include "base/map.h"
#include "base/tenant.h"

struct census {
    struct map tenants_;
    struct list changed_;
};

struct census_tenant {
    struct list link_;
    uint64_t count;
    uint8_t name_size;
    char name[TENANT_SIZE_MAX];
};

void census_init(struct census *census);
void census_deinit(struct census *census);

/* Forgets all counts. */
void census_clear(struct census *census);

/* False when out of memory: nothing changed. Who was counted before can always be. */
bool census_add(struct census *census, struct bytes tenant, int64_t change);

uint64_t census_count(const struct census *census, struct bytes tenant);

/* Names, one at a time, the tenants whose counts were changed since they were last named; NULL at
 * the end. */
const struct census_tenant *census_take_changed(struct census *census);

/* Walks all in no order: start with *cursor = 0; NULL at the end. */
const struct census_tenant *census_next(const struct census *census, size_t *cursor);

#endif
