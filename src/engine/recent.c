/* The order in which each tenant's were kept, and two maps: by serial, and by the hash of the
 * key. */
#include "engine/recent.h"

#include "base/footprint.h"
#include "base/map.h"
#include "timer/tenant_latest.h"

#include <assert.h>
#include <stdlib.h>

#define PLACE_BYTES 64 /* memory that both maps use for one timer, in bytes */

struct recent_timer {
    struct tenant_latest_place place;
    struct timer *timer;
    uint64_t hash; /* hash of its key */
};

struct recent {
    struct map by_serial, by_key; /* -> recent_timer */
    struct tenant_latest kept;
    size_t bytes_max;
};

static size_t recent_bytes_of(const struct timer *timer)
{
    return timer->footprint + footprint_of(sizeof(struct recent_timer)) + PLACE_BYTES;
}

struct recent *recent_create(size_t bytes_max)
{
    struct recent *recent = calloc(1, sizeof(*recent));

    if (!recent)
        return NULL;
    map_init(&recent->by_serial);
    map_init(&recent->by_key);
    tenant_latest_init(&recent->kept);
    recent->bytes_max = bytes_max;
    return recent;
}

/* Removes the timer from the list and the maps, and frees its place. */
static struct timer *recent_remove(struct recent *recent, struct recent_timer *kept)
{
    struct timer *timer = kept->timer;

    map_remove(&recent->by_serial, timer->id.serial);
    map_remove(&recent->by_key, kept->hash);
    tenant_latest_remove(&recent->kept, &kept->place);
    free(kept);
    return timer;
}

/* Returns the timer that is dropped first; NULL if none is kept. */
static struct recent_timer *recent_first(const struct recent *recent)
{
    struct tenant_latest_place *place = tenant_latest_first(&recent->kept);

    return place ? list_item(place, struct recent_timer, place) : NULL;
}

void recent_destroy(struct recent *recent)
{
    if (!recent)
        return;
    for (struct recent_timer *kept; (kept = recent_first(recent));)
        timer_free(recent_remove(recent, kept));
    tenant_latest_deinit(&recent->kept);
    map_deinit(&recent->by_serial);
    map_deinit(&recent->by_key);
    free(recent);
}

bool recent_keep(struct recent *recent, struct timer *timer)
{
    const uint64_t hash = name_hash(name_space_of(timer), NAME_KEY, timer->texts.key);

    assert(timer->texts.key.size && !timer_is_final(timer->state));
    assert(!map_get(&recent->by_serial, timer->id.serial));
    /* Two keys with an equal hash are rare; only the first timer is kept. */
    struct recent_timer *kept =
        map_get(&recent->by_key, hash) ? NULL : malloc(sizeof(struct recent_timer));
    if (!kept)
        return false;
    *kept = (struct recent_timer){.timer = timer, .hash = hash};
    if (!map_put(&recent->by_serial, timer->id.serial, kept)) {
        free(kept);
        return false;
    }
    if (!map_put(&recent->by_key, hash, kept)) {
        map_remove(&recent->by_serial, timer->id.serial);
        free(kept);
        return false;
    }
    tenant_latest_add(&recent->kept, tenant_key(timer->texts.tenant), &kept->place,
                      recent_bytes_of(timer));
    return true;
}

const struct timer *recent_find(const struct recent *recent, struct name_space space,
                                struct bytes key)
{
    const struct recent_timer *kept = map_get(&recent->by_key, name_hash(space, NAME_KEY, key));

    if (!kept || !name_fits(kept->timer, NAME_KEY, key) ||
        !bytes_equal(kept->timer->texts.tenant, space.tenant))
        return NULL;
    return kept->timer;
}

struct timer *recent_take(struct recent *recent, uint64_t serial)
{
    struct recent_timer *kept = map_get(&recent->by_serial, serial);

    return kept ? recent_remove(recent, kept) : NULL;
}

struct timer *recent_take_excess(struct recent *recent)
{
    if (recent->kept.amount <= recent->bytes_max)
        return NULL;
    return recent_remove(recent, recent_first(recent));
}

size_t recent_count(const struct recent *recent)
{
    return map_count(&recent->by_serial);
}

bool recent_has(const struct recent *recent, uint64_t serial)
{
    return map_get(&recent->by_serial, serial) != NULL;
}
