#include "base/map.h"

#include "base/random.h"

#include <stdlib.h>

struct map_slot {
    uint64_t key;
    void *value; /* NULL: free */
};

static size_t map_home(const struct map *map, uint64_t key)
{
    return (size_t)random_mix(key) & (map->capacity_ - 1);
}

static struct map_slot *map_find(const struct map *map, uint64_t key)
{
    size_t i = map_home(map, key);

    while (map->slots_[i].value && map->slots_[i].key != key)
        i = (i + 1) & (map->capacity_ - 1);
    return &map->slots_[i];
}

void map_deinit(struct map *map)
{
    free(map->slots_);
    map_init(map);
}

static bool map_resize(struct map *map, size_t capacity)
{
    struct map old = *map;

    map->slots_ = calloc(capacity, sizeof(*map->slots_));
    if (!map->slots_) {
        *map = old;
        return false;
    }
    map->capacity_ = capacity;
    for (size_t i = 0; i < old.capacity_; i++)
        if (old.slots_[i].value)
            *map_find(map, old.slots_[i].key) = old.slots_[i];
    free(old.slots_);
    return true;
}

bool map_reserve(struct map *map, size_t count)
{
    size_t capacity = map->capacity_ ? map->capacity_ : 16;

    while (capacity / 4 * 3 < count)
        capacity *= 2;
    return capacity == map->capacity_ || map_resize(map, capacity);
}

bool map_put(struct map *map, uint64_t key, void *value)
{
    struct map_slot *slot;

    if (!map_reserve(map, map->count_ + 1))
        return false;
    slot = map_find(map, key);
    if (!slot->value)
        map->count_++;
    *slot = (struct map_slot){key, value};
    return true;
}

void *map_get(const struct map *map, uint64_t key)
{
    return map->count_ ? map_find(map, key)->value : NULL;
}

void *map_remove(struct map *map, uint64_t key)
{
    size_t mask = map->capacity_ - 1, hole, i;
    void *value;

    if (!map->count_)
        return NULL;
    hole = (size_t)(map_find(map, key) - map->slots_);
    value = map->slots_[hole].value;
    if (!value)
        return NULL;
    /* Close the gap: whoever probed past the hole moves back into it, so no marker stays behind. */
    for (i = (hole + 1) & mask; map->slots_[i].value; i = (i + 1) & mask) {
        size_t home = map_home(map, map->slots_[i].key);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots_[hole] = map->slots_[i];
            hole = i;
        }
    }
    map->slots_[hole].value = NULL;
    map->count_--;
    if (map->capacity_ > 1024 && map->count_ < map->capacity_ / 8)
        map_resize(map, map->capacity_ / 2); /* a failure only leaves it large */
    return value;
}

void *map_next(const struct map *map, size_t *cursor)
{
    while (*cursor < map->capacity_) {
        void *value = map->slots_[(*cursor)++].value;

        if (value)
            return value;
    }
    return NULL;
}
