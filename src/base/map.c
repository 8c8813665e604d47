/* A hash table with linear probing, whose growth is spread over the calls that follow it. */
#include "base/map.h"

#include "base/random.h"

#include <assert.h>
#include <stdlib.h>

enum {
    MAP_CAPACITY_MIN = 16,
    /* minimum size from which a table shrinks; smaller tables take at most 64 KiB */
    MAP_SHRINK_CAPACITY_MIN = 4096,
    /* slots moved in one call while a full table grows; the move ends before the new table is
     * full */
    MAP_GROWTH_STEP_SLOTS = 8,
};

struct map_slot {
    uint64_t key;
    void *value; /* NULL if the slot is free */
};

static size_t map_home(uint64_t key, size_t capacity)
{
    return (size_t)random_mix(key) & (capacity - 1);
}

/* Returns the slot of the key, or the free slot where it would be. */
static struct map_slot *map_find(struct map_slot *slots, size_t capacity, uint64_t key)
{
    size_t i = map_home(key, capacity);

    while (slots[i].value && slots[i].key != key)
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

/* Returns the slot of the key in either table; NULL if absent. */
static struct map_slot *map_find_entry(const struct map *map, uint64_t key)
{
    if (!map->count_)
        return NULL;
    struct map_slot *slot = map_find(map->slots_, map->capacity_, key);
    if (!slot->value && map->old_)
        slot = map_find(map->old_, map->old_capacity_, key);
    return slot->value ? slot : NULL;
}

/* Empties a slot. An entry that was put after it because it was occupied is moved into it, so that
 * no marker for deleted slots is needed. */
static void map_empty(struct map_slot *slots, size_t capacity, struct map_slot *slot)
{
    size_t mask = capacity - 1, hole = (size_t)(slot - slots);

    for (size_t i = (hole + 1) & mask; slots[i].value; i = (i + 1) & mask) {
        size_t home = map_home(slots[i].key, capacity);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            slots[hole] = slots[i];
            hole = i;
        }
    }
    slots[hole].value = NULL;
}

/* Examines the next `count` slots of the old table and moves their entries. Emptying a slot may
 * move another entry into it, which is moved too. */
static void map_move(struct map *map, size_t count)
{
    while (map->old_ && count-- > 0) {
        struct map_slot *from = &map->old_[map->old_next_];

        if (from->value) {
            *map_find(map->slots_, map->capacity_, from->key) = *from;
            map_empty(map->old_, map->old_capacity_, from);
        } else if (++map->old_next_ == map->old_capacity_) {
            free(map->old_);
            map->old_ = NULL;
        }
    }
}

static void map_step(struct map *map)
{
    map_move(map, map->old_capacity_ < map->capacity_ ? MAP_GROWTH_STEP_SLOTS : MAP_STEP_SLOTS);
}

/* Begins to move all entries to a table with another number of slots. */
static bool map_resize(struct map *map, size_t capacity)
{
    struct map_slot *slots = calloc(capacity, sizeof(*slots));

    assert(!map->old_);
    if (!slots)
        return false;
    if (map->count_ > 0) {
        map->old_ = map->slots_;
        map->old_capacity_ = map->capacity_;
        map->old_next_ = 0;
    } else {
        free(map->slots_);
    }
    map->slots_ = slots;
    map->capacity_ = capacity;
    return true;
}

void map_deinit(struct map *map)
{
    free(map->slots_);
    free(map->old_);
    map_init(map);
}

bool map_reserve(struct map *map, size_t count)
{
    size_t capacity = map->capacity_ ? map->capacity_ : MAP_CAPACITY_MIN;

    while (capacity / 4 * 3 < count)
        capacity *= 2;
    if (capacity == map->capacity_)
        return true;
    map_move(map, SIZE_MAX);
    return map_resize(map, capacity);
}

bool map_put(struct map *map, uint64_t key, void *value)
{
    assert(value);
    if (!map_reserve(map, map->count_ + 1))
        return false;
    map_step(map);
    struct map_slot *slot = map_find_entry(map, key);
    if (!slot) {
        slot = map_find(map->slots_, map->capacity_, key);
        map->count_++;
    }
    *slot = (struct map_slot){key, value};
    return true;
}

void *map_get(const struct map *map, uint64_t key)
{
    const struct map_slot *slot = map_find_entry(map, key);

    return slot ? slot->value : NULL;
}

void *map_remove(struct map *map, uint64_t key)
{
    struct map_slot *slot = map_find_entry(map, key);

    if (!slot)
        return NULL;
    void *value = slot->value;
    if (slot >= map->slots_ && slot < map->slots_ + map->capacity_)
        map_empty(map->slots_, map->capacity_, slot);
    else
        map_empty(map->old_, map->old_capacity_, slot);
    map->count_--;
    map_step(map);
    if (!map->old_ && map->capacity_ > MAP_SHRINK_CAPACITY_MIN && map->count_ < map->capacity_ / 8)
        map_resize(map, map->capacity_ / 2); /* if this fails, the table stays large */
    return value;
}

void *map_next(const struct map *map, size_t *cursor)
{
    const size_t end = map->capacity_ + (map->old_ ? map->old_capacity_ : 0);

    while (*cursor < end) {
        size_t at = (*cursor)++;
        void *value =
            at < map->capacity_ ? map->slots_[at].value : map->old_[at - map->capacity_].value;

        if (value)
            return value;
    }
    return NULL;
}
