/*
 * map.h - a hash table from a 64-bit key to a pointer; open addressing, at most 3/4 full.
 *
 * A table that grows or shrinks is moved in steps: each map_put and each map_remove examines at
 * most MAP_STEP_SLOTS slots of the old table, so no single call pays for all entries. Beside that
 * a call costs its probe, a few slots.
 *
 * Errors     map_put fails only for want of memory; map_reserve beforehand makes it succeed.
 * Ownership  Values are borrowed. Keys must be unique; any 64-bit value is a key.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_BASE_MAP_H
#define TICKWHEEL_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Number of slots of the old table that one call examines at most. 8 suffice for a table that
 * grows. One that shrinks is 7/8 empty, and needs 32. */
#define MAP_STEP_SLOTS 32

struct map {
    struct map_slot *slots_;
    size_t capacity_, count_; /* `count_` includes both tables */
    /* table whose entries are still to be moved; NULL if all are in `slots_` */
    struct map_slot *old_;
    size_t old_capacity_;
    size_t old_next_; /* number of slots at the front of `old_` that were emptied */
};

static inline void map_init(struct map *map)
{
    *map = (struct map){0};
}

void map_deinit(struct map *map);

/* Makes room for `count` entries in total. Returns false if out of memory; then nothing changed.
 * O(1) while `count` grows by single steps. A larger step during a move first ends that move, in
 * O(entries). */
bool map_reserve(struct map *map, size_t count);

/* Adds or replaces an entry; `value` is not NULL. Returns false if out of memory; then nothing
 * changed. */
bool map_put(struct map *map, uint64_t key, void *value);

/* Returns the value; NULL if the key is absent. */
void *map_get(const struct map *map, uint64_t key);

/* Removes the entry and returns its value; NULL if absent. */
void *map_remove(struct map *map, uint64_t key);

static inline size_t map_count(const struct map *map)
{
    return map->count_;
}

/* Walks all entries once, in no order. The first call has *cursor 0; NULL is the end. The map must
 * not change between calls: map_put, map_remove and map_reserve move entries, map_get does not. */
void *map_next(const struct map *map, size_t *cursor);

#endif
