/* slab.c - slots in blocks: growing, taking, giving back, finding by handle. */
#include "slab.h"

#include <assert.h>
#include <string.h>

enum {
    BLOCK_BITS = 10,
    BLOCK_SLOTS = 1 << BLOCK_BITS,
    DIRECTORY_MIN = 16,
    RUN_SIZE_MAX = 4 << 20 /* maximum of bytes allocated before they are needed */
};

/* Maximum of slots. It leaves room for one more block below 2^32, so that an index fits into 32
 * bits. */
#define USED_COUNT_MAX (UINT32_MAX - BLOCK_SLOTS)

/* The last generation of a slot, after which it is retired. */
#define GENERATION_LAST UINT32_MAX

static struct slab_slot *slab_slot_at(const struct slab *slab, uint32_t index)
{
    char *slots = slab->blocks[index >> BLOCK_BITS].slots;
    return (struct slab_slot *)(slots + (size_t)(index & (BLOCK_SLOTS - 1)) * slab->slot_size);
}

/* Makes room in the directory for `run` more blocks. It doubles, so that its cost for each slot is
 * constant. Slots do not move. */
static bool slab_directory_grow(struct slab *slab, uint32_t run)
{
    uint32_t capacity = slab->block_capacity ? slab->block_capacity : DIRECTORY_MIN;

    while (capacity - slab->block_count < run)
        capacity *= 2;
    if (capacity == slab->block_capacity)
        return true;
    struct slab_block *blocks = memory_take(slab->memory, capacity, sizeof *blocks);
    if (!blocks)
        return false;
    if (slab->block_count)
        memcpy(blocks, slab->blocks, slab->block_count * sizeof *blocks);
    memory_give(slab->memory, slab->blocks, slab->block_capacity, sizeof *blocks);
    slab->blocks = blocks;
    slab->block_capacity = capacity;
    return true;
}

/* Adds `run` blocks, which is not 0. */
static bool slab_grow(struct slab *slab, uint32_t run)
{
    size_t block_size = BLOCK_SLOTS * slab->slot_size;

    if (!slab_directory_grow(slab, run))
        return false;
    char *slots = memory_take(slab->memory, run, block_size);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < run; i++, slots += block_size)
        slab->blocks[slab->block_count++] = (struct slab_block){slots, i == 0 ? run : 0};
    return true;
}

/* Adds a quarter of the existing blocks, or one block if there is no memory for that many. */
static bool slab_grow_ahead(struct slab *slab)
{
    size_t run_max = RUN_SIZE_MAX / (BLOCK_SLOTS * slab->slot_size);
    uint32_t run = slab->block_count / 4;

    if (run > run_max)
        run = (uint32_t)run_max;
    return (run > 1 && slab_grow(slab, run)) || slab_grow(slab, 1);
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
    for (uint32_t i = 0; i < slab->block_count; i += slab->blocks[i].run)
        memory_give(slab->memory, slab->blocks[i].slots, slab->blocks[i].run,
                    BLOCK_SLOTS * slab->slot_size);
    memory_give(slab->memory, slab->blocks, slab->block_capacity, sizeof *slab->blocks);
}

bool tw__slab_reserve(struct slab *slab, size_t count)
{
    if (count > slab->used_count_max)
        return false;
    uint64_t needed = ((uint64_t)count + slab->retired_count + BLOCK_SLOTS - 1) / BLOCK_SLOTS;
    return needed <= slab->block_count || slab_grow(slab, (uint32_t)(needed - slab->block_count));
}

struct slab_slot *tw__slab_take(struct slab *slab)
{
    struct slab_slot *slot = slab->free;

    if (slab->used_count == slab->used_count_max)
        return NULL;
    if (slot) {
        slab->free = (struct slab_slot *)slot->link.next_;
    } else {
        if (slab->slot_count > USED_COUNT_MAX)
            return NULL; /* every index is in use or retired */
        if (slab->slot_count == (uint64_t)slab->block_count * BLOCK_SLOTS && !slab_grow_ahead(slab))
            return NULL;
        slot = slab_slot_at(slab, slab->slot_count);
        slot->index = slab->slot_count++;
        slot->generation = 0;
    }
    slot->generation++;
    slot->link = (struct tw_link){0};
    slab->used_count++;
    return slot;
}

void tw__slab_give(struct slab *slab, struct slab_slot *slot)
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

struct slab_slot *tw__slab_find(const struct slab *slab, tw_handle handle)
{
    uint32_t index = (uint32_t)handle;
    uint32_t generation = (uint32_t)(handle >> 32);

    if (index >= slab->slot_count || !(generation & 1))
        return NULL;
    struct slab_slot *slot = slab_slot_at(slab, index);
    return slot->generation == generation ? slot : NULL;
}

size_t tw__slab_check(const struct slab *slab)
{
    size_t used_count = 0, free_count = 0;

    REQUIRE(slab->slot_count <= (uint64_t)slab->block_count * BLOCK_SLOTS);
    for (uint32_t i = 0; i < slab->slot_count; i++) {
        REQUIRE(slab_slot_at(slab, i)->index == i);
        used_count += slab_slot_at(slab, i)->generation & 1;
    }
    for (const struct slab_slot *slot = slab->free; slot;
         slot = (struct slab_slot *)slot->link.next_) {
        REQUIRE(!(slot->generation & 1));
        free_count++;
    }
    REQUIRE(used_count == slab->used_count);
    REQUIRE(used_count + free_count + slab->retired_count == slab->slot_count);
    return used_count;
}
