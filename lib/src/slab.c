#include "slab.h"

#include <assert.h>
#include <string.h>

enum { BLOCK_BITS = 10, BLOCK_SLOTS = 1 << BLOCK_BITS, DIRECTORY_MIN = 16 };

/* So that an index never needs more than 32 bits, a block more included. */
#define USED_COUNT_MAX (UINT32_MAX - BLOCK_SLOTS)

/* The last generation in which a slot is let. */
#define GENERATION_LAST UINT32_MAX

static struct slot *slot_at(const struct slab *slab, uint32_t index)
{
    char *block = slab->blocks[index >> BLOCK_BITS];
    return (struct slot *)(block + (size_t)(index & (BLOCK_SLOTS - 1)) * slab->slot_size);
}

/* Makes room in the directory for one block more. It doubles, so that its cost per slot is nothing;
 * the slots stay where they are. */
static bool directory_grow(struct slab *slab)
{
    if (slab->block_count < slab->block_capacity)
        return true;

    uint32_t capacity = slab->block_capacity ? 2 * slab->block_capacity : DIRECTORY_MIN;
    void **blocks = memory_take(slab->memory, capacity, sizeof *blocks);
    if (!blocks)
        return false;
    if (slab->block_count)
        memcpy(blocks, slab->blocks, slab->block_count * sizeof *blocks);
    memory_give(slab->memory, slab->blocks, slab->block_capacity, sizeof *blocks);
    slab->blocks = blocks;
    slab->block_capacity = capacity;
    return true;
}

static bool slab_grow(struct slab *slab)
{
    if (!directory_grow(slab))
        return false;
    void *block = memory_take(slab->memory, BLOCK_SLOTS, slab->slot_size);
    if (!block)
        return false;
    slab->blocks[slab->block_count++] = block;
    return true;
}

void tw__slab_init(struct slab *slab, size_t slot_size, size_t used_count_max,
                   struct memory *memory)
{
    *slab = (struct slab){.memory = memory, .slot_size = slot_size};
    slab->used_count_max = used_count_max == 0 || used_count_max > USED_COUNT_MAX
                               ? USED_COUNT_MAX
                               : (uint32_t)used_count_max;
}

void tw__slab_deinit(struct slab *slab)
{
    for (uint32_t i = 0; i < slab->block_count; i++)
        memory_give(slab->memory, slab->blocks[i], BLOCK_SLOTS, slab->slot_size);
    memory_give(slab->memory, slab->blocks, slab->block_capacity, sizeof *slab->blocks);
}

bool tw__slab_reserve(struct slab *slab, size_t count)
{
    if (count > slab->used_count_max)
        return false;
    while ((uint64_t)slab->block_count * BLOCK_SLOTS < (uint64_t)count + slab->retired_count)
        if (!slab_grow(slab))
            return false;
    return true;
}

struct slot *tw__slab_take(struct slab *slab)
{
    struct slot *slot = slab->free;

    if (slab->used_count == slab->used_count_max)
        return NULL;
    if (slot) {
        slab->free = (struct slot *)slot->link.next_;
    } else {
        if (slab->slot_count > USED_COUNT_MAX)
            return NULL; /* every index is in use or retired */
        if (slab->slot_count == (uint64_t)slab->block_count * BLOCK_SLOTS && !slab_grow(slab))
            return NULL;
        slot = slot_at(slab, slab->slot_count);
        slot->index = slab->slot_count++;
        slot->generation = 0;
    }
    slot->generation++;
    slot->link = (struct tw_link){0};
    slab->used_count++;
    return slot;
}

void tw__slab_give(struct slab *slab, struct slot *slot)
{
    assert(slot->generation & 1 && !link_is_linked(&slot->link));
    slab->used_count--;
    if (slot->generation == GENERATION_LAST) {
        slot->generation = 0;
        slab->retired_count++;
        return;
    }
    slot->generation++;
    slot->link.next_ = (struct tw_link *)slab->free;
    slab->free = slot;
}

struct slot *tw__slab_find(const struct slab *slab, tw_handle handle)
{
    uint32_t index = (uint32_t)handle;
    uint32_t generation = (uint32_t)(handle >> 32);

    if (index >= slab->slot_count || !(generation & 1))
        return NULL;
    struct slot *slot = slot_at(slab, index);
    return slot->generation == generation ? slot : NULL;
}

size_t tw__slab_check(const struct slab *slab)
{
    size_t used_count = 0, free_count = 0;

    REQUIRE(slab->slot_count <= (uint64_t)slab->block_count * BLOCK_SLOTS);
    for (uint32_t i = 0; i < slab->slot_count; i++) {
        REQUIRE(slot_at(slab, i)->index == i);
        used_count += slot_at(slab, i)->generation & 1;
    }
    for (const struct slot *slot = slab->free; slot; slot = (struct slot *)slot->link.next_) {
        REQUIRE(!(slot->generation & 1));
        free_count++;
    }
    REQUIRE(used_count == slab->used_count);
    REQUIRE(used_count + free_count + slab->retired_count == slab->slot_count);
    return used_count;
}
