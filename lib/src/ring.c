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
    uint64_t turn; /* turn of the ring in which the item was put into its sector */
    uint32_t sector;
    int32_t interval;
};

struct ring_sector {
    struct link_bucket items; /* ordered by turn */
    size_t count;
};

struct tw_ring {
    uint64_t turn;
    uint32_t size;
    uint32_t tick;
    /* advance has stopped the ring at `tick`, and items of earlier turns are to be taken */
    bool is_stopped;
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

/* Returns the sector that is `offset` sectors after `sector`, or before it if `offset` is
 * negative. */
static uint32_t ring_sector_at(const struct tw_ring *ring, uint32_t sector, int64_t offset)
{
    int64_t size = ring->size;
    int64_t step = offset % size; /* -size < step < size */
    return (uint32_t)((sector + step + size) % size);
}

static struct tw_ring_item ring_item_copy(const struct ring_item *item)
{
    return (struct tw_ring_item){
        .data = item->data,
        .item = slab_handle(&item->slot),
        .tick = item->sector,
        .interval = item->interval,
    };
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

/* Returns the next item to take; NULL if there is none. */
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

/* Adds an item, for which memory is reserved. Returns false if its interval is too large. */
static bool ring_fill(struct tw_ring *ring, uint32_t sector, const struct tw_ring_entry *entry,
                      tw_handle *ret_item)
{
    tw_handle item = tw_ring_add_moving(ring, (int64_t)sector, entry->interval, entry->data);

    if (ret_item)
        *ret_item = item;
    return item != TW_NONE;
}

struct tw_ring *tw_ring_create_dealt_moving(const struct tw_ring_options *options,
                                            const struct tw_ring_entry *entries, size_t count,
                                            tw_handle *ret_items)
{
    struct tw_ring *ring = tw_ring_create(options);
    bool is_good = ring && tw_ring_reserve(ring, count);

    for (size_t i = 0; i < count && is_good; i++)
        is_good = ring_fill(ring, (uint32_t)(i % ring->size), &entries[i],
                            ret_items ? &ret_items[i] : NULL);
    if (is_good)
        return ring;
    tw_ring_destroy(ring);
    return NULL;
}

struct tw_ring *tw_ring_create_from_lists(const struct tw_ring_options *options,
                                          const struct tw_ring_list *lists, size_t list_count,
                                          tw_handle *ret_items)
{
    struct tw_ring_options with = options ? *options : (struct tw_ring_options){0};
    size_t count = 0;
    bool is_good = list_count > 0 && list_count <= TW_RING_SIZE_MAX;

    for (size_t i = 0; i < list_count && is_good; i++)
        is_good = !__builtin_add_overflow(count, lists[i].count, &count);
    if (!is_good)
        return NULL;
    with.size = (uint32_t)list_count;
    struct tw_ring *ring = tw_ring_create(&with);
    is_good = ring && tw_ring_reserve(ring, count);
    count = 0;
    for (size_t i = 0; i < list_count && is_good; i++)
        for (size_t j = 0; j < lists[i].count && is_good; j++, count++)
            is_good = ring_fill(ring, (uint32_t)i, &lists[i].entries[j],
                                ret_items ? &ret_items[count] : NULL);
    if (is_good)
        return ring;
    tw_ring_destroy(ring);
    return NULL;
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
    /* Because memory is reserved first, none of the adds can fail. */
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
        ret_items[taken_count++] = ring_item_copy(item);
        /* Done before the caller handles the item, so that changes by the handler are not
         * undone. */
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
    *ret_item = ring_item_copy(item);
    return true;
}

size_t tw_ring_read_at(const struct tw_ring *ring, int64_t offset, struct tw_ring_item *ret_items,
                       size_t limit)
{
    const struct tw_link *root =
        &ring->sectors[ring_sector_at(ring, ring->tick, offset)].items.root;
    size_t count = 0;

    for (struct tw_link *link = root->next_; link != root && count < limit; link = link->next_)
        ret_items[count++] = ring_item_copy(ring_item_of(link));
    return count;
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
