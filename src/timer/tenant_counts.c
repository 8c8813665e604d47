#include "timer/tenant_counts.h"

#include <assert.h>
#include <stdlib.h>

void tenant_counts_init(struct tenant_counts *tenant_counts)
{
    map_init(&tenant_counts->tenants_);
    list_init(&tenant_counts->changed_);
}

void tenant_counts_deinit(struct tenant_counts *tenant_counts)
{
    struct tenant_counts_tenant *tenant;
    size_t cursor = 0;

    while ((tenant = map_next(&tenant_counts->tenants_, &cursor)))
        free(tenant);
    map_deinit(&tenant_counts->tenants_);
}

void tenant_counts_clear(struct tenant_counts *tenant_counts)
{
    tenant_counts_deinit(tenant_counts);
    tenant_counts_init(tenant_counts);
}

/* Where the tenant is, or would be: names that share a hash stand under another one each. */
static struct tenant_counts_tenant *find(const struct tenant_counts *tenant_counts,
                                         struct bytes name, uint64_t *ret_key)
{
    for (uint64_t attempt = 0;; attempt++) {
        struct tenant_counts_tenant *tenant =
            map_get(&tenant_counts->tenants_, *ret_key = bytes_hash(attempt, name));

        if (!tenant || bytes_equal(name, (struct bytes){tenant->name, tenant->name_size}))
            return tenant;
    }
}

static struct tenant_counts_tenant *add_tenant(struct tenant_counts *tenant_counts,
                                               struct bytes name, uint64_t key)
{
    struct tenant_counts_tenant *tenant = calloc(1, sizeof(*tenant));

    if (!tenant || !map_put(&tenant_counts->tenants_, key, tenant)) {
        free(tenant);
        return NULL;
    }
    list_init(&tenant->link_);
    tenant->name_size = (uint8_t)name.size;
    memcpy(tenant->name, name.data, name.size);
    return tenant;
}

bool tenant_counts_add(struct tenant_counts *tenant_counts, struct bytes name, int64_t change)
{
    struct tenant_counts_tenant *tenant;
    uint64_t key;

    assert(name.size <= TENANT_SIZE_MAX);
    if (!name.size || !change)
        return true;
    tenant = find(tenant_counts, name, &key);
    if (!tenant && !(tenant = add_tenant(tenant_counts, name, key)))
        return false;
    tenant->count += (uint64_t)change;
    if (list_is_empty(&tenant->link_))
        list_push(&tenant_counts->changed_, &tenant->link_);
    return true;
}

uint64_t tenant_counts_count(const struct tenant_counts *tenant_counts, struct bytes name)
{
    uint64_t key;
    const struct tenant_counts_tenant *tenant = name.size ? find(tenant_counts, name, &key) : NULL;

    return tenant ? tenant->count : 0;
}

const struct tenant_counts_tenant *tenant_counts_take_changed(struct tenant_counts *tenant_counts)
{
    struct list *link = list_pop(&tenant_counts->changed_);

    return link ? list_item(link, struct tenant_counts_tenant, link_) : NULL;
}

const struct tenant_counts_tenant *tenant_counts_next(const struct tenant_counts *tenant_counts,
                                                      size_t *cursor)
{
    return map_next(&tenant_counts->tenants_, cursor);
}
