/*
 * ring.h - a ring of sectors for recurring work: each tick moves to the next sector and returns its
 * items.
 *
 * A plain item is returned once per rotation, always in its sector. A rescheduling item has an
 * interval of its own: each time it is returned, the ring moves it that number of sectors forward,
 * or back if the interval is negative, so that the caller need not schedule it again:
 *
 *     struct tw_ring *ring = tw_ring_create(&(struct tw_ring_options){.size = 60});
 *     tw_ring_add(ring, 1, session);            // next tick, then once a rotation
 *     tw_ring_add_moving(ring, 1, 15, monitor); // next tick, then each 15 ticks
 *
 *     struct tw_ring_item items[64];
 *     for (uint64_t left = ticks_passed; left > 0;) {
 *         left -= tw_ring_advance(ring, left);
 *         for (size_t n; (n = tw_ring_take(ring, items, 64)) > 0;)
 *             for (size_t i = 0; i < n; i++)
 *                 handle(ring, &items[i]);
 *     }
 *
 * The handler receives copies and may change the ring: it may add, remove and move items, also
 * those of the current sector, and its last change counts.
 *
 * Offsets    A sector is named by its offset from the current tick, in any number of rotations: 1
 *            is the next tick, the soonest; 0 is a whole rotation later, as the current sector has
 *            had its turn; negative offsets count back, so -1 is a rotation less one.
 * Time       In ticks, whose length the caller chooses by calling advance. The current tick is 0 ..
 *            size - 1, at first 0.
 * Errors     Only create, reserve and the adds can fail: when memory is short, over the limit given
 *            at creation, or because an interval is larger than the ring. Misuse is a bug in the
 *            caller, which assert() reports.
 * Ownership  The ring keeps the items; the caller keeps handles. The handle of an item that was
 *            removed is stale: using it is harmless and never touches another item.
 * Memory     Per sector, and per item held at once; a removed item's place is free at once. Freed
 *            by destroy.
 * Threads    No globals and no locks: one ring, one thread at a time.
 */
#ifndef TICKWHEEL_RING_H
#define TICKWHEEL_RING_H

#include <tickwheel/wheel.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most sectors of a ring. */
#define TW_RING_SIZE_MAX INT32_MAX

struct tw_ring;

/* Zero means the default in every field, so `(struct tw_ring_options){0}` is a good start. */
struct tw_ring_options {
    /* Sectors, 1 .. TW_RING_SIZE_MAX. Default 60. */
    uint32_t size;

    /* The most items held at once. Default: about 2^32, the number of distinct handles. */
    size_t item_count_max;

    /* The source of memory, for callers that count or own it. `allocate` returns `size` bytes at a
     * multiple of `alignment`, a power of two; NULL means out of memory. `release` gives the bytes
     * back. Set both or neither; both receive `context`. Default: the C library. */
    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;
};

/* A copy of an item. */
struct tw_ring_item {
    uint64_t data;    /* as given to add */
    tw_handle item;   /* still good: the item stays in the ring */
    uint32_t tick;    /* from take: the sector from which it was taken; otherwise its sector now */
    int32_t interval; /* 0 for a plain item */
};

/* An item of a new ring: `data` and `interval` as for tw_ring_add_moving, where an interval of 0 is
 * that of a plain item. */
struct tw_ring_entry {
    uint64_t data;
    int64_t interval;
};

/* The items of one sector of a new ring. */
struct tw_ring_list {
    const struct tw_ring_entry *entries;
    size_t count;
};

/* An empty ring. `options` may be NULL for all defaults and is copied. NULL when out of memory. */
struct tw_ring *tw_ring_create(const struct tw_ring_options *options);

/* A ring of `count` plain items, dealt to the sectors one by one: the first to sector 0, the next
 * to sector 1, after the last sector to sector 0 again. `ret_items`, unless NULL, receives their
 * handles in the order of `data`. NULL when out of memory or over the limit. */
struct tw_ring *tw_ring_create_dealt(const struct tw_ring_options *options, const uint64_t *data,
                                     size_t count, tw_handle *ret_items);

/* A ring of `count` items with intervals of their own, dealt to the sectors as
 * tw_ring_create_dealt does. `ret_items`, unless NULL, receives their handles in the order of
 * `entries`. NULL when an interval is larger than the ring, too. */
struct tw_ring *tw_ring_create_dealt_moving(const struct tw_ring_options *options,
                                            const struct tw_ring_entry *entries, size_t count,
                                            tw_handle *ret_items);

/* A ring of `list_count` sectors, whatever the size in `options`: sector i begins with the items of
 * `lists` at i. `ret_items`, unless NULL, receives the handles, those of the first list first. NULL
 * when out of memory or over the limit, when an interval is larger than the ring, or when
 * `list_count` is 0 or more than TW_RING_SIZE_MAX. */
struct tw_ring *tw_ring_create_from_lists(const struct tw_ring_options *options,
                                          const struct tw_ring_list *lists, size_t list_count,
                                          tw_handle *ret_items);

/* Frees the ring and its items; NULL is fine. */
void tw_ring_destroy(struct tw_ring *ring);

/* Allocates memory for `count` items held at once. False, with the ring unchanged, when out of
 * memory or over the limit. */
bool tw_ring_reserve(struct tw_ring *ring, size_t count);

/* Adds a plain item at `offset` from the current tick that will return `data`. TW_NONE when over
 * the limit or out of memory. */
tw_handle tw_ring_add(struct tw_ring *ring, int64_t offset, uint64_t data);

/* Adds `count` plain items at one offset, one for each of `data`; `ret_items`, unless NULL,
 * receives their handles. All or none: false when over the limit or out of memory. */
bool tw_ring_add_many(struct tw_ring *ring, int64_t offset, const uint64_t *data, size_t count,
                      tw_handle *ret_items);

/* Adds a rescheduling item that will return `data`, first at `offset`, then each time `interval`
 * sectors after its last sector: with 0 or a multiple of the size it stays in its sector; with a
 * negative interval it goes back round the ring, so -2 on a ring of 5 visits 0, 3, 1, 4, 2, 0.
 * TW_NONE when the interval is larger than the ring in either direction, when over the limit or out
 * of memory. */
tw_handle tw_ring_add_moving(struct tw_ring *ring, int64_t offset, int64_t interval, uint64_t data);

/* Changes an item's interval, from the next time that it is returned. Returns false if the handle
 * is stale or the interval is larger than the ring. */
bool tw_ring_set_interval(struct tw_ring *ring, tw_handle item, int64_t interval);

/* Moves an item to `offset` from the current tick; its interval stays. Returns false if the handle
 * is stale. */
bool tw_ring_reschedule(struct tw_ring *ring, tw_handle item, int64_t offset);

/* Removes an item. Returns false if the handle is stale, so removing twice is harmless. O(1). */
bool tw_ring_remove(struct tw_ring *ring, tw_handle item);

/* Removes `count` items; stale handles are skipped. Returns the number removed. */
size_t tw_ring_remove_many(struct tw_ring *ring, const tw_handle *items, size_t count);

/* Removes all items of the sector at `offset`. Returns their number. O(items in it). */
size_t tw_ring_remove_at(struct tw_ring *ring, int64_t offset);

/* Moves forward by up to `ticks` sectors and stops at the first that has items, so that none is
 * skipped. Returns the number of sectors moved, which is 0 only while the current sector still has
 * items to take. O(1), whatever the number of empty sectors between. */
uint64_t tw_ring_advance(struct tw_ring *ring, uint64_t ticks);

/* Copies up to `limit` items of the current sector; each has then had its turn, and a rescheduling
 * item has moved. Returns their number; 0 when all have been taken, or when the ring did not
 * advance to this sector. Items added to the sector meanwhile are returned a whole rotation later;
 * items removed before they were copied are not returned. */
size_t tw_ring_take(struct tw_ring *ring, struct tw_ring_item *ret_items, size_t limit);

/* Ticks until the next item is due: 0 while items are left to take, otherwise 1 .. size; TW_NEVER
 * if the ring has no items. O(1). */
uint64_t tw_ring_wake_in(const struct tw_ring *ring);

/* The current tick, which is also the number of the current sector. */
uint32_t tw_ring_tick(const struct tw_ring *ring);

/* Makes `tick` the current tick without returning any items: the items of that sector are due a
 * whole rotation later, and so are the items not yet taken from the old sector. Returns false, and
 * does nothing, if there is no such tick. */
bool tw_ring_set_tick(struct tw_ring *ring, uint64_t tick);

/* tw_ring_set_tick to 0. The items stay where they are. */
void tw_ring_reset(struct tw_ring *ring);

/* A copy of an item as it is now. False, with nothing returned, if the handle is stale. */
bool tw_ring_find(const struct tw_ring *ring, tw_handle item, struct tw_ring_item *ret_item);

/* The number of sectors. */
uint32_t tw_ring_size(const struct tw_ring *ring);

/* The number of items. */
size_t tw_ring_count(const struct tw_ring *ring);

/* The number of items in the sector at `offset`. O(1). */
size_t tw_ring_count_at(const struct tw_ring *ring, int64_t offset);

/* Copies up to `limit` items of the sector at `offset`, without taking them: nothing moves, and no
 * item has had its turn. They are in the order in which they will be taken. Returns their number;
 * tw_ring_count_at tells how many there are. O(items copied). */
size_t tw_ring_read_at(const struct tw_ring *ring, int64_t offset, struct tw_ring_item *ret_items,
                       size_t limit);

/* All bytes allocated for this ring. */
size_t tw_ring_memory(const struct tw_ring *ring);

/* For tests: aborts unless every invariant of the ring holds, whether or not assert() is compiled
 * in. O(items + sectors). */
void tw_ring_check(const struct tw_ring *ring);

#ifdef __cplusplus
}
#endif

#endif
