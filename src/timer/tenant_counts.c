/* Counts of live timers by tenant: a hash table to which tenants are only ever added, so that it is
 * read without a lock. */
#include "timer/tenant_counts.h"

#include <assert.h>
#include <stdlib.h>

enum { CURSOR_BUCKET_BITS = 8 };

_Static_assert(TENANT_COUNTS_BUCKETS == 1 << CURSOR_BUCKET_BITS, "a cursor holds a bucket's index");

void tenant_counts_init(struct tenant_counts *tenant_counts)
{
    pthread_mutex_init(&tenant_counts->lock_, NULL);
    list_init(&tenant_counts->changed_);
    for (size_t i = 0; i < TENANT_COUNTS_BUCKETS; i++)
        atomic_init(&tenant_counts->buckets_[i], NULL);
}

void tenant_counts_deinit(struct tenant_counts *tenant_counts)
{
    for (size_t i = 0; i < TENANT_COUNTS_BUCKETS; i++) {
        struct tenant_counts_tenant *next, *tenant = atomic_load(&tenant_counts->buckets_[i]);

        for (; tenant; tenant = next) {
            next = tenant->next_;
            free(tenant);
        }
        atomic_store(&tenant_counts->buckets_[i], NULL);
    }
    pthread_mutex_destroy(&tenant_counts->lock_);
}

void tenant_counts_clear(struct tenant_counts *tenant_counts)
{
    tenant_counts_deinit(tenant_counts);
    tenant_counts_init(tenant_counts);
}

static size_t tenant_counts_bucket(struct bytes name)
{
    return (size_t)(bytes_hash(0, name) % TENANT_COUNTS_BUCKETS);
}

static struct tenant_counts_tenant *tenant_counts_find(const struct tenant_counts *tenant_counts,
                                                       struct bytes name)
{
    struct tenant_counts_tenant *tenant =
        atomic_load(&tenant_counts->buckets_[tenant_counts_bucket(name)]);

    while (tenant && !bytes_equal(name, (struct bytes){tenant->name, tenant->name_size}))
        tenant = tenant->next_;
    return tenant;
}

/* With the lock held. */
static struct tenant_counts_tenant *tenant_counts_insert(struct tenant_counts *tenant_counts,
                                                         struct bytes name)
{
    struct tenant_counts_tenant *_Atomic *bucket =
        &tenant_counts->buckets_[tenant_counts_bucket(name)];
    struct tenant_counts_tenant *tenant = tenant_counts_find(tenant_counts, name);

    if (tenant) /* another thread was first */
        return tenant;
    tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    list_init(&tenant->link_);
    tenant->name_size = (uint8_t)name.size;
    memcpy(tenant->name, name.data, name.size);
    tenant->next_ = atomic_load(bucket);
    atomic_store(bucket, tenant); /* complete from here on, for readers take no lock */
    return tenant;
}

/* NULL when out of memory. */
static struct tenant_counts_tenant *tenant_counts_get(struct tenant_counts *tenant_counts,
                                                      struct bytes name)
{
    struct tenant_counts_tenant *tenant = tenant_counts_find(tenant_counts, name);

    assert(name.size <= TENANT_SIZE_MAX);
    if (tenant)
        return tenant;
    pthread_mutex_lock(&tenant_counts->lock_);
    tenant = tenant_counts_insert(tenant_counts, name);
    pthread_mutex_unlock(&tenant_counts->lock_);
    return tenant;
}

static void tenant_counts_note(struct tenant_counts *tenant_counts,
                               struct tenant_counts_tenant *tenant)
{
    if (atomic_load(&tenant->is_changed_))
        return;
    pthread_mutex_lock(&tenant_counts->lock_);
    if (!atomic_exchange(&tenant->is_changed_, true))
        list_push(&tenant_counts->changed_, &tenant->link_);
    pthread_mutex_unlock(&tenant_counts->lock_);
}

bool tenant_counts_add(struct tenant_counts *tenant_counts, struct bytes name, int64_t change)
{
    if (!name.size || !change)
        return true;

    struct tenant_counts_tenant *tenant = tenant_counts_get(tenant_counts, name);

    if (!tenant)
        return false;
    atomic_fetch_add(&tenant->count, (uint64_t)change);
    tenant_counts_note(tenant_counts, tenant);
    return true;
}

enum error_code tenant_counts_admit(struct tenant_counts *tenant_counts, struct bytes name,
                                    uint64_t max)
{
    if (!name.size)
        return ERROR_NONE;

    struct tenant_counts_tenant *tenant = tenant_counts_get(tenant_counts, name);

    if (!tenant)
        return ERROR_NO_MEMORY;
    if (atomic_fetch_add(&tenant->count, 1) >= max && max) {
        atomic_fetch_sub(&tenant->count, 1);
        return ERROR_TOO_MANY;
    }
    tenant_counts_note(tenant_counts, tenant);
    return ERROR_NONE;
}

void tenant_counts_dismiss(struct tenant_counts *tenant_counts, struct bytes name)
{
    struct tenant_counts_tenant *tenant = tenant_counts_find(tenant_counts, name);
    uint64_t count = tenant ? atomic_load(&tenant->count) : 0;

    while (count && !atomic_compare_exchange_weak(&tenant->count, &count, count - 1))
        continue;
    if (count)
        tenant_counts_note(tenant_counts, tenant);
}

uint64_t tenant_counts_count(const struct tenant_counts *tenant_counts, struct bytes name)
{
    const struct tenant_counts_tenant *tenant =
        name.size ? tenant_counts_find(tenant_counts, name) : NULL;

    return tenant ? atomic_load(&tenant->count) : 0;
}

const struct tenant_counts_tenant *tenant_counts_take_changed(struct tenant_counts *tenant_counts)
{
    pthread_mutex_lock(&tenant_counts->lock_);

    struct list *link = list_pop(&tenant_counts->changed_);

    struct tenant_counts_tenant *tenant = NULL;
    if (link) {
        tenant = list_item(link, struct tenant_counts_tenant, link_);
        atomic_store(&tenant->is_changed_, false);
    }
    pthread_mutex_unlock(&tenant_counts->lock_);
    return tenant;
}

/* The cursor is a bucket's index and, above it, how many of its chain were named. */
const struct tenant_counts_tenant *tenant_counts_next(const struct tenant_counts *tenant_counts,
                                                      size_t *cursor)
{
    for (;;) {
        const size_t bucket = *cursor & (TENANT_COUNTS_BUCKETS - 1);
        size_t named = *cursor >> CURSOR_BUCKET_BITS;

        if (*cursor == SIZE_MAX)
            return NULL;

        const struct tenant_counts_tenant *tenant = atomic_load(&tenant_counts->buckets_[bucket]);

        while (tenant && named-- > 0)
            tenant = tenant->next_;
        if (tenant) {
            *cursor += TENANT_COUNTS_BUCKETS;
            return tenant;
        }
        *cursor = bucket + 1 < TENANT_COUNTS_BUCKETS ? bucket + 1 : SIZE_MAX;
    }
}
