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

/* Slots of the old table that one call examines. 8 suffice for growth; a table that shrinks is
 * 7/8 empty and needs 32. */
#define MAP_STEP_SLOTS 32

struct map {
    struct map_slot *slots_;
    size_t capacity_, count_; /* `count_` of both tables */
    struct map_slot *old_;    /* entries that were not moved; NULL if all are in `slots_` */
    size_t old_capacity_;
    size_t old_next_; /* number of empty slots at the front of `old_` */
};

static inline void map_init(struct map *map)
{
    *map = (struct map){0};
}

void map_deinit(struct map *map);

/* Reserves room for `count` entries in all. Returns false if out of memory; nothing changed.
 * O(1) while `count` grows by single steps; a larger step during a move first ends that move in
 * O(entries). */
bool map_reserve(struct map *map, size_t count);

/* Adds or replaces; `value` is not NULL. Returns false if out of memory; nothing changed. */
bool map_put(struct map *map, uint64_t key, void *value);

/* Returns NULL if absent. */
void *map_get(const struct map *map, uint64_t key);

/* Removes the entry and returns its value; NULL if absent. */
void *map_remove(struct map *map, uint64_t key);

static inline size_t map_count(const struct map *map)
{
    return map->count_;
}

/* Walks all entries once, in no order: start with *cursor 0; NULL at the end. The map must not
 * change between calls: map_put, map_remove and map_reserve move entries, map_get does not. */
void *map_next(const struct map *map, size_t *cursor);

#endif
