/*
 * ring.c - the ring: sectors of items, and turns that tell which items to take.
 *
 * Each time the ring stops at a sector, a new turn begins, and an item stores the turn in which it
 * was put into its sector. Items are appended to a sector, so the older ones come first; the items
 * of earlier turns than the ring's are those to take. An item that arrives during the turn, by add,
 * by reschedule or by an interval of a whole rotation, has the number of this turn and is not taken
 * in it.
 */
#include <tickwheel/ring.h>

#include "bitmap.h"
#include "link.h"
#include "memory.h"
#include "slab.h"

#include <assert.h>

enum { SIZE_DEFAULT = 60 };

struct ring_item {
    struct slab_slot slot;
    uint64_t data;
    uint64_t turn; /* turn of the ring when the item was put into its sector */
    uint32_t sector;
    int32_t interval;
};

struct ring_sector {
    struct link_bucket items; /* in order of turn */
    size_t count;
};

struct tw_ring {
    uint64_t turn;
    uint32_t size;
    uint32_t tick;
    bool is_stopped; /* stopped at `tick` by advance: items of earlier turns are to be taken */
    struct ring_sector *sectors;
    struct bitmap filled;
    struct memory memory;
    struct slab slab;
};

static struct ring_item *ring_item_of(struct tw_link *link)
{
    return (struct ring_item *)((char *)link - offsetof(struct ring_item, slot.link));
}

static struct ring_item *ring_item_find(const struct tw_ring *ring, tw_handle handle)
{
    return (struct ring_item *)tw__slab_find(&ring->slab, handle);
}

/* The sector `offset` sectors after `sector`, or before it if negative. */
static uint32_t ring_sector_at(const struct tw_ring *ring, uint32_t sector, int64_t offset)
{
    int64_t size = ring->size;
    int64_t step = offset % size; /* -size < step < size */
    return (uint32_t)((sector + step + size) % size);
}

static bool ring_interval_fits(const struct tw_ring *ring, int64_t interval)
{
    return interval >= -(int64_t)ring->size && interval <= (int64_t)ring->size;
}

/* Puts an item that is in no list into a sector. */
static void ring_item_put(struct tw_ring *ring, struct ring_item *item, uint32_t sector)
{
    item->sector = sector;
    item->turn = ring->turn;
    bucket_push(&ring->sectors[sector].items, &item->slot.link);
    ring->sectors[sector].count++;
    bitmap_set(&ring->filled, sector);
}

/* Removes an item from its sector. */
static void ring_item_lift(struct tw_ring *ring, struct ring_item *item)
{
    ring->sectors[item->sector].count--;
    if (bucket_remove(&item->slot.link))
        bitmap_clear(&ring->filled, item->sector);
}

static void ring_item_drop(struct tw_ring *ring, struct ring_item *item)
{
    ring_item_lift(ring, item);
    tw__slab_give(&ring->slab, &item->slot);
}

/* The next item to take; NULL when there is none. */
static struct ring_item *ring_item_next(const struct tw_ring *ring)
{
    struct link_bucket *items = &ring->sectors[ring->tick].items;

    if (!ring->is_stopped || bucket_is_empty(items))
        return NULL;
    struct ring_item *item = ring_item_of(items->root.next_);
    return item->turn < ring->turn ? item : NULL;
}

struct tw_ring *tw_ring_create(const struct tw_ring_options *options)
{
    static const struct tw_ring_options defaults;

    if (!options)
        options = &defaults;
    assert(options->size <= TW_RING_SIZE_MAX);
    struct memory memory =
        memory_from(tw__memory_source(options->allocate, options->release, options->context));
    struct tw_ring *ring = memory_take(&memory, 1, sizeof *ring);
    if (!ring)
        return NULL;
    *ring = (struct tw_ring){
        .size = options->size ? options->size : SIZE_DEFAULT,
        .memory = memory,
    };
    tw__slab_init(&ring->slab, sizeof(struct ring_item), options->item_count_max, &ring->memory);
    ring->sectors = memory_take(&ring->memory, ring->size, sizeof *ring->sectors);
    if (!ring->sectors || !tw__bitmap_init(&ring->filled, ring->size, &ring->memory)) {
        tw_ring_destroy(ring);
        return NULL;
    }
    for (uint32_t i = 0; i < ring->size; i++) {
        bucket_init(&ring->sectors[i].items, 0, i);
        ring->sectors[i].count = 0;
    }
    return ring;
}

struct tw_ring *tw_ring_create_dealt(const struct tw_ring_options *options, const uint64_t *data,
                                     size_t count, tw_handle *ret_items)
{
    struct tw_ring *ring = tw_ring_create(options);

    if (!ring || !tw_ring_reserve(ring, count)) {
        tw_ring_destroy(ring);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        tw_handle item = tw_ring_add(ring, (int64_t)(i % ring->size), data[i]);
        assert(item != TW_NONE);
        if (ret_items)
            ret_items[i] = item;
    }
    return ring;
}

void tw_ring_destroy(struct tw_ring *ring)
{
    if (!ring)
        return;
    tw__slab_deinit(&ring->slab);
    tw__bitmap_deinit(&ring->filled, &ring->memory);
    memory_give(&ring->memory, ring->sectors, ring->size, sizeof *ring->sectors);
    struct memory memory = ring->memory;
    memory_give(&memory, ring, 1, sizeof *ring);
}

bool tw_ring_reserve(struct tw_ring *ring, size_t count)
{
    return tw__slab_reserve(&ring->slab, count);
}

tw_handle tw_ring_add(struct tw_ring *ring, int64_t offset, uint64_t data)
{
    return tw_ring_add_moving(ring, offset, 0, data);
}

bool tw_ring_add_many(struct tw_ring *ring, int64_t offset, const uint64_t *data, size_t count,
                      tw_handle *ret_items)
{
    /* With the memory reserved, none of the adds can fail. */
    if (count > SIZE_MAX - tw_ring_count(ring) ||
        !tw_ring_reserve(ring, tw_ring_count(ring) + count))
        return false;
    for (size_t i = 0; i < count; i++) {
        tw_handle item = tw_ring_add(ring, offset, data[i]);
        assert(item != TW_NONE);
        if (ret_items)
            ret_items[i] = item;
    }
    return true;
}

tw_handle tw_ring_add_moving(struct tw_ring *ring, int64_t offset, int64_t interval, uint64_t data)
{
    if (!ring_interval_fits(ring, interval))
        return TW_NONE;
    struct ring_item *item = (struct ring_item *)tw__slab_take(&ring->slab);
    if (!item)
        return TW_NONE;
    item->data = data;
    item->interval = (int32_t)interval;
    ring_item_put(ring, item, ring_sector_at(ring, ring->tick, offset));
    return slab_handle(&item->slot);
}

bool tw_ring_set_interval(struct tw_ring *ring, tw_handle handle, int64_t interval)
{
    struct ring_item *item = ring_item_find(ring, handle);

    if (!item || !ring_interval_fits(ring, interval))
        return false;
    item->interval = (int32_t)interval;
    return true;
}

bool tw_ring_reschedule(struct tw_ring *ring, tw_handle handle, int64_t offset)
{
    struct ring_item *item = ring_item_find(ring, handle);

    if (!item)
        return false;
    ring_item_lift(ring, item);
    ring_item_put(ring, item, ring_sector_at(ring, ring->tick, offset));
    return true;
}

bool tw_ring_remove(struct tw_ring *ring, tw_handle handle)
{
    struct ring_item *item = ring_item_find(ring, handle);

    if (!item)
        return false;
    ring_item_drop(ring, item);
    return true;
}

size_t tw_ring_remove_many(struct tw_ring *ring, const tw_handle *items, size_t count)
{
    size_t removed_count = 0;

    for (size_t i = 0; i < count; i++)
        removed_count += tw_ring_remove(ring, items[i]);
    return removed_count;
}

size_t tw_ring_remove_at(struct tw_ring *ring, int64_t offset)
{
    struct ring_sector *sector = &ring->sectors[ring_sector_at(ring, ring->tick, offset)];
    size_t removed_count = sector->count;

    while (!bucket_is_empty(&sector->items))
        ring_item_drop(ring, ring_item_of(sector->items.root.next_));
    return removed_count;
}

uint64_t tw_ring_advance(struct tw_ring *ring, uint64_t ticks)
{
    uint64_t distance = tw_ring_wake_in(ring);

    if (distance == 0 || ticks == 0)
        return 0;
    ring->is_stopped = distance <= ticks && distance != TW_NEVER;
    if (ring->is_stopped) {
        ring->turn++;
        ticks = distance;
    }
    ring->tick = ring_sector_at(ring, ring->tick, (int64_t)(ticks % ring->size));
    return ticks;
}

size_t tw_ring_take(struct tw_ring *ring, struct tw_ring_item *ret_items, size_t limit)
{
    size_t taken_count = 0;
    struct ring_item *item;

    while (taken_count < limit && (item = ring_item_next(ring)) != NULL) {
        ret_items[taken_count++] = (struct tw_ring_item){
            .data = item->data,
            .item = slab_handle(&item->slot),
            .tick = item->sector,
            .interval = item->interval,
        };
        /* Before the caller handles it, so that the handler's own changes are not undone. */
        ring_item_lift(ring, item);
        ring_item_put(ring, item, ring_sector_at(ring, item->sector, item->interval));
    }
    return taken_count;
}

uint64_t tw_ring_wake_in(const struct tw_ring *ring)
{
    uint32_t distance;

    if (ring_item_next(ring))
        return 0;
    if (!bitmap_next_round(&ring->filled, (ring->tick + 1) % ring->size, &distance))
        return TW_NEVER;
    return (uint64_t)distance + 1;
}

uint32_t tw_ring_tick(const struct tw_ring *ring)
{
    return ring->tick;
}

bool tw_ring_set_tick(struct tw_ring *ring, uint64_t tick)
{
    if (tick >= ring->size)
        return false;
    ring->tick = (uint32_t)tick;
    ring->is_stopped = false;
    return true;
}

void tw_ring_reset(struct tw_ring *ring)
{
    tw_ring_set_tick(ring, 0);
}

bool tw_ring_find(const struct tw_ring *ring, tw_handle handle, struct tw_ring_item *ret_item)
{
    const struct ring_item *item = ring_item_find(ring, handle);

    if (!item)
        return false;
    *ret_item = (struct tw_ring_item){
        .data = item->data, .item = handle, .tick = item->sector, .interval = item->interval};
    return true;
}

uint32_t tw_ring_size(const struct tw_ring *ring)
{
    return ring->size;
}

size_t tw_ring_count(const struct tw_ring *ring)
{
    return ring->slab.used_count;
}

size_t tw_ring_count_at(const struct tw_ring *ring, int64_t offset)
{
    return ring->sectors[ring_sector_at(ring, ring->tick, offset)].count;
}

size_t tw_ring_memory(const struct tw_ring *ring)
{
    return ring->memory.bytes;
}

void tw_ring_check(const struct tw_ring *ring)
{
    size_t count = 0;

    REQUIRE(ring->tick < ring->size);
    for (uint32_t i = 0; i < ring->size; i++) {
        const struct link_bucket *items = &ring->sectors[i].items;
        uint64_t turn = 0;
        REQUIRE(bucket_check(items) == ring->sectors[i].count);
        REQUIRE(bitmap_has(&ring->filled, i) == (ring->sectors[i].count > 0));
        for (struct tw_link *link = items->root.next_; link != &items->root; link = link->next_) {
            const struct ring_item *item = ring_item_of(link);
            REQUIRE(item->sector == i);
            REQUIRE(item->turn >= turn && item->turn <= ring->turn);
            REQUIRE(ring_interval_fits(ring, item->interval));
            turn = item->turn;
        }
        count += ring->sectors[i].count;
    }
    REQUIRE(count == tw__slab_check(&ring->slab));
}
