/* Tallies of tenants in a map; one is freed with its last thing. */
#include "timer/tenant_tallies.h"

#include "base/check.h"

#include <assert.h>
#include <stdlib.h>

void tenant_tallies_init(struct tenant_tallies *tallies)
{
    *tallies = (struct tenant_tallies){.others = {0}};
    map_init(&tallies->tenants);
}

void tenant_tallies_clear(struct tenant_tallies *tallies)
{
    size_t cursor = 0;

    for (struct tenant_tally *tally; (tally = map_next(&tallies->tenants, &cursor));)
        free(tally);
    map_deinit(&tallies->tenants);
    tenant_tallies_init(tallies);
}

static struct tenant_tally *tenant_tallies_get(struct tenant_tallies *tallies, struct bytes tenant)
{
    const uint64_t key = tenant_key(tenant);
    struct tenant_tally *tally = map_get(&tallies->tenants, key);

    if (tally)
        return tally;
    tally = calloc(1, sizeof(*tally));
    if (tally) {
        tally->key = key;
        if (map_put(&tallies->tenants, key, tally))
            return tally;
    }
    free(tally);
    return &tallies->others;
}

void tenant_tallies_add(struct tenant_tallies *tallies, struct bytes tenant, uint64_t bytes)
{
    struct tenant_tally *tally = tenant_tallies_get(tallies, tenant);

    tally->bytes += bytes;
    tally->count++;
    tallies->bytes += bytes;
    tallies->count++;
}

void tenant_tallies_subtract(struct tenant_tallies *tallies, struct bytes tenant, uint64_t bytes)
{
    struct tenant_tally *tally = map_get(&tallies->tenants, tenant_key(tenant));

    if (!tally)
        tally = &tallies->others;
    if (tally->count == 0)
        return;
    if (bytes > tally->bytes || tally->count == 1)
        bytes = tally->bytes;
    tally->count--;
    tally->bytes -= bytes;
    tallies->count--;
    tallies->bytes -= bytes;
    if (tally->count > 0)
        return;
    if (tally == &tallies->others)
        return;
    map_remove(&tallies->tenants, tally->key);
    free(tally);
}

uint64_t tenant_tallies_bytes(const struct tenant_tallies *tallies, struct bytes tenant)
{
    const struct tenant_tally *tally = map_get(&tallies->tenants, tenant_key(tenant));

    return tally ? tally->bytes : tallies->others.bytes;
}

uint64_t tenant_tallies_level(struct tenant_tallies *tallies, uint64_t max)
{
    uint64_t rest = max, sharing = map_count(&tallies->tenants), level = 0;
    bool has_less = true;
    size_t cursor = 0;

    for (struct tenant_tally *tally; (tally = map_next(&tallies->tenants, &cursor));)
        tally->is_below = false;
    while (has_less && sharing > 0) {
        has_less = false;
        level = rest / sharing;
        cursor = 0;
        for (struct tenant_tally *tally; (tally = map_next(&tallies->tenants, &cursor));)
            if (!tally->is_below && tally->bytes <= level) {
                tally->is_below = has_less = true;
                rest -= tally->bytes;
                sharing--;
            }
    }
    return level;
}

void tenant_tallies_check(const struct tenant_tallies *tallies)
{
    uint64_t bytes = tallies->others.bytes, count = tallies->others.count;
    size_t cursor = 0;

    for (const struct tenant_tally *tally; (tally = map_next(&tallies->tenants, &cursor));) {
        CHECK(tally->count > 0);
        bytes += tally->bytes;
        count += tally->count;
    }
    CHECK(bytes == tallies->bytes && count == tallies->count);
}
