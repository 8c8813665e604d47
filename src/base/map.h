/*
 * map.h - a hash table from a 64-bit key to a pointer; open addressing, at most 3/4 full.
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

struct map {
    struct map_slot *slots_;
    size_t capacity_, count_;
};

static inline void map_init(struct map *map)
{
    *map = (struct map){0};
}

void map_deinit(struct map *map);

/* Room for `count` entries in all. False when out of memory, and nothing changed. */
bool map_reserve(struct map *map, size_t count);

/* Adds or replaces; `value` is not NULL. False when out of memory, and nothing changed. */
bool map_put(struct map *map, uint64_t key, void *value);

/* NULL when absent. */
void *map_get(const struct map *map, uint64_t key);

/* Takes the entry out and returns its value; NULL when absent. */
void *map_remove(struct map *map, uint64_t key);

static inline size_t map_count(const struct map *map)
{
    return map->count_;
}

/* Walks all entries in no order: start with *cursor = 0; NULL at the end. The map must not change
 * between calls. */
void *map_next(const struct map *map, size_t *cursor);

#endif
