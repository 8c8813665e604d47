#include "storage/census.h"

#include <assert.h>
#include <stdlib.h>

void census_init(struct census *census)
{
    map_init(&census->tenants_);
    list_init(&census->changed_);
}

void census_deinit(struct census *census)
{
    struct census_tenant *tenant;
    size_t cursor = 0;

    while ((tenant = map_next(&census->tenants_, &cursor)))
        free(tenant);
    map_deinit(&census->tenants_);
}

void census_clear(struct census *census)
{
    census_deinit(census);
    census_init(census);
}

/* Where the tenant is, or would be: names that share a hash stand under another one each. */
static struct census_tenant *find(const struct census *census, struct bytes name, uint64_t *ret_key)
{
    for (uint64_t attempt = 0;; attempt++) {
        struct census_tenant *tenant =
            map_get(&census->tenants_, *ret_key = bytes_hash(attempt, name));

        if (!tenant || bytes_equal(name, (struct bytes){tenant->name, tenant->name_size}))
            return tenant;
    }
}

static struct census_tenant *add_tenant(struct census *census, struct bytes name, uint64_t key)
{
    struct census_tenant *tenant = calloc(1, sizeof(*tenant));

    if (!tenant || !map_put(&census->tenants_, key, tenant)) {
        free(tenant);
        return NULL;
    }
    list_init(&tenant->link_);
    tenant->name_size = (uint8_t)name.size;
    memcpy(tenant->name, name.data, name.size);
    return tenant;
}

bool census_add(struct census *census, struct bytes name, int64_t change)
{
    struct census_tenant *tenant;
    uint64_t key;

    assert(name.size <= TENANT_SIZE_MAX);
    if (!name.size || !change)
        return true;
    tenant = find(census, name, &key);
    if (!tenant && !(tenant = add_tenant(census, name, key)))
        return false;
    tenant->count += (uint64_t)change;
    if (list_is_empty(&tenant->link_))
        list_push(&census->changed_, &tenant->link_);
    return true;
}

uint64_t census_count(const struct census *census, struct bytes name)
{
    uint64_t key;
    const struct census_tenant *tenant = name.size ? find(census, name, &key) : NULL;

    return tenant ? tenant->count : 0;
}

const struct census_tenant *census_take_changed(struct census *census)
{
    struct list *link = list_pop(&census->changed_);

    return link ? list_item(link, struct census_tenant, link_) : NULL;
}

const struct census_tenant *census_next(const struct census *census, size_t *cursor)
{
    return map_next(&census->tenants_, cursor);
}
