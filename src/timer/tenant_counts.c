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
    atomic_init(&tenant_counts->nodes_, 0);
    atomic_init(&tenant_counts->full_, 0);
    atomic_init(&tenant_counts->is_full_, false);
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

/* Adds a tenant. The caller holds the lock. */
static struct tenant_counts_tenant *tenant_counts_insert(struct tenant_counts *tenant_counts,
                                                         struct bytes name)
{
    struct tenant_counts_tenant *_Atomic *bucket =
        &tenant_counts->buckets_[tenant_counts_bucket(name)];
    struct tenant_counts_tenant *tenant = tenant_counts_find(tenant_counts, name);

    if (tenant) /* another thread has added the tenant */
        return tenant;
    tenant = calloc(1, sizeof(*tenant));
    if (!tenant)
        return NULL;
    list_init(&tenant->link_);
    atomic_init(&tenant->limit, TENANT_LIMIT_UNKNOWN);
    tenant->name_size = (uint8_t)name.size;
    memcpy(tenant->name, name.data, name.size);
    tenant->next_ = atomic_load(bucket);
    /* the tenant must be complete before this store, because readers take no lock */
    atomic_store(bucket, tenant);
    return tenant;
}

/* Returns the tenant, and adds it if needed. NULL if out of memory. */
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

/* Returns how many timers the tenant may have on this node. All nodes know the reported counts. The
 * rest of the limit is divided among the nodes that do not know each other's counts. So the sum
 * stays within the limit, except for rounding up. */
static uint64_t tenant_counts_room(const struct tenant_counts *tenant_counts,
                                   const struct tenant_counts_tenant *tenant, uint64_t max)
{
    const uint64_t others = atomic_load(&tenant->others), left = max > others ? max - others : 0;
    const uint32_t full = atomic_load(&tenant_counts->full_), named = atomic_load(&tenant->named);
    const uint64_t unknown = full > named ? full - named : 0;
    const uint64_t nodes = atomic_load(&tenant_counts->nodes_);

    if (nodes < 2 ||
        (!unknown && (!atomic_load(&tenant_counts->is_full_) || atomic_load(&tenant->is_told))))
        return left;
    const uint64_t part = left / (unknown + 1) + (left % (unknown + 1) > 0);
    const uint64_t share = max / nodes + (max % nodes > 0);
    return part < share ? part : share;
}

static uint64_t tenant_counts_known(const struct tenant_counts_tenant *tenant)
{
    const uint64_t limit = atomic_load(&tenant->limit);

    return limit == TENANT_LIMIT_UNKNOWN ? 0 : limit;
}

static enum error_code tenant_counts_take(struct tenant_counts *tenant_counts,
                                          struct tenant_counts_tenant *tenant, uint64_t max)
{
    const uint64_t before = atomic_fetch_add(&tenant->count, 1);
    if (max && before >= tenant_counts_room(tenant_counts, tenant, max)) {
        atomic_fetch_sub(&tenant->count, 1);
        return ERROR_TOO_MANY;
    }
    tenant_counts_note(tenant_counts, tenant);
    return ERROR_NONE;
}

enum error_code tenant_counts_admit(struct tenant_counts *tenant_counts, struct bytes name,
                                    uint64_t max)
{
    if (!name.size)
        return ERROR_NONE;

    struct tenant_counts_tenant *tenant = tenant_counts_get(tenant_counts, name);

    if (!tenant)
        return ERROR_NO_MEMORY;
    if (atomic_load(&tenant->limit) != max)
        atomic_store(&tenant->limit, max);
    return tenant_counts_take(tenant_counts, tenant, max);
}

enum error_code tenant_counts_admit_known(struct tenant_counts *tenant_counts, struct bytes name)
{
    if (!name.size)
        return ERROR_NONE;

    struct tenant_counts_tenant *tenant = tenant_counts_get(tenant_counts, name);

    return tenant ? tenant_counts_take(tenant_counts, tenant, tenant_counts_known(tenant))
                  : ERROR_NO_MEMORY;
}

bool tenant_counts_is_full(const struct tenant_counts *tenant_counts, struct bytes name)
{
    const struct tenant_counts_tenant *tenant =
        name.size ? tenant_counts_find(tenant_counts, name) : NULL;
    const uint64_t max = tenant ? tenant_counts_known(tenant) : 0;

    return max && atomic_load(&tenant->count) >= tenant_counts_room(tenant_counts, tenant, max);
}

bool tenant_counts_limit(struct tenant_counts *tenant_counts, struct bytes name, uint64_t max)
{
    struct tenant_counts_tenant *tenant = name.size ? tenant_counts_get(tenant_counts, name) : NULL;

    if (tenant)
        atomic_store(&tenant->limit, max);
    return tenant || !name.size;
}

void tenant_counts_dismiss(struct tenant_counts *tenant_counts, struct bytes name, uint64_t less)
{
    struct tenant_counts_tenant *tenant = tenant_counts_find(tenant_counts, name);
    uint64_t count = tenant ? atomic_load(&tenant->count) : 0;

    while (count &&
           !atomic_compare_exchange_weak(&tenant->count, &count, count > less ? count - less : 0))
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

/* Returns the next tenant. The cursor is the index of a bucket and, in its upper bits, how many
 * tenants of that bucket were returned. */
static struct tenant_counts_tenant *tenant_counts_walk(const struct tenant_counts *tenant_counts,
                                                       size_t *cursor)
{
    for (;;) {
        const size_t bucket = *cursor & (TENANT_COUNTS_BUCKETS - 1);
        size_t named = *cursor >> CURSOR_BUCKET_BITS;

        if (*cursor == SIZE_MAX)
            return NULL;

        struct tenant_counts_tenant *tenant = atomic_load(&tenant_counts->buckets_[bucket]);

        while (tenant && named-- > 0)
            tenant = tenant->next_;
        if (tenant) {
            *cursor += TENANT_COUNTS_BUCKETS;
            return tenant;
        }
        *cursor = bucket + 1 < TENANT_COUNTS_BUCKETS ? bucket + 1 : SIZE_MAX;
    }
}

const struct tenant_counts_tenant *tenant_counts_next(const struct tenant_counts *tenant_counts,
                                                      size_t *cursor)
{
    return tenant_counts_walk(tenant_counts, cursor);
}

/* ---- several nodes ---- */

uint64_t tenant_counts_everywhere(const struct tenant_counts_tenant *tenant)
{
    return atomic_load(&tenant->count) + atomic_load(&tenant->others);
}

uint64_t tenant_counts_live(const struct tenant_counts *tenant_counts, struct bytes name,
                            uint64_t all)
{
    const struct tenant_counts_tenant *tenant;

    if (name.size) {
        tenant = tenant_counts_find(tenant_counts, name);
        return tenant ? tenant_counts_everywhere(tenant) : 0;
    }
    for (size_t cursor = 0; (tenant = tenant_counts_next(tenant_counts, &cursor));) {
        const uint64_t count = tenant_counts_everywhere(tenant);

        all -= count < all ? count : all;
    }
    return all;
}

/* Returns the part of its limit that the tenant has used, to sort by. 0 if its limit is unknown. */
static double tenant_counts_nearness(const struct tenant_counts_tenant *tenant)
{
    const uint64_t limit = atomic_load(&tenant->limit);

    return limit == TENANT_LIMIT_UNKNOWN ? 0 : (double)atomic_load(&tenant->count) / (double)limit;
}

struct tenant_counts_rank {
    double nearness;
    uint64_t count;
    struct tenant_counts_tenant *tenant;
};

static bool tenant_counts_is_before(const struct tenant_counts_rank *a,
                                    const struct tenant_counts_rank *b)
{
    return a->nearness != b->nearness ? a->nearness > b->nearness : a->count > b->count;
}

static int tenant_counts_compare(const void *left, const void *right)
{
    const struct tenant_counts_tenant *a = ((const struct tenant_counts_rank *)left)->tenant;
    const struct tenant_counts_tenant *b = ((const struct tenant_counts_rank *)right)->tenant;
    const size_t shared = a->name_size < b->name_size ? a->name_size : b->name_size;
    const int order = memcmp(a->name, b->name, shared);

    return order ? order : (a->name_size > b->name_size) - (a->name_size < b->name_size);
}

size_t tenant_counts_tell(struct tenant_counts *tenant_counts,
                          const struct tenant_counts_tenant *ret_told[TENANT_COUNTS_TOLD_MAX])
{
    struct tenant_counts_rank ranks[TENANT_COUNTS_TOLD_MAX];
    struct tenant_counts_tenant *tenant;
    size_t count = 0, cursor = 0, candidates = 0;

    while ((tenant = tenant_counts_walk(tenant_counts, &cursor))) {
        const struct tenant_counts_rank rank = {tenant_counts_nearness(tenant),
                                                atomic_load(&tenant->count), tenant};
        const bool counts = rank.count > 0 && atomic_load(&tenant->limit) != 0;
        size_t at = count;

        candidates += counts;
        while (counts && at > 0 && tenant_counts_is_before(&rank, &ranks[at - 1]))
            at--;
        if (!counts || at == TENANT_COUNTS_TOLD_MAX) {
            atomic_store(&tenant->is_told, false);
            continue;
        }
        if (count == TENANT_COUNTS_TOLD_MAX)
            atomic_store(&ranks[--count].tenant->is_told, false);
        memmove(&ranks[at + 1], &ranks[at], (count++ - at) * sizeof(ranks[0]));
        ranks[at] = rank;
    }
    atomic_store(&tenant_counts->is_full_, candidates > count);
    qsort(ranks, count, sizeof(ranks[0]), tenant_counts_compare);
    for (size_t i = 0; i < count; i++) {
        atomic_store(&ranks[i].tenant->is_told, true);
        ret_told[i] = ranks[i].tenant;
    }
    return count;
}

bool tenant_counts_hear(struct tenant_counts *tenant_counts, struct bytes name, uint64_t count,
                        bool is_full)
{
    struct tenant_counts_tenant *tenant = tenant_counts_get(tenant_counts, name);

    if (!tenant)
        return false;
    tenant->others_heard_ += count;
    tenant->named_heard_ += is_full;
    return true;
}

void tenant_counts_heard(struct tenant_counts *tenant_counts, uint32_t nodes, uint32_t full)
{
    struct tenant_counts_tenant *tenant;
    size_t cursor = 0;

    atomic_store(&tenant_counts->nodes_, nodes);
    atomic_store(&tenant_counts->full_, full);
    while ((tenant = tenant_counts_walk(tenant_counts, &cursor))) {
        atomic_store(&tenant->others, tenant->others_heard_);
        atomic_store(&tenant->named, tenant->named_heard_);
        tenant->others_heard_ = 0;
        tenant->named_heard_ = 0;
    }
}
