/*
 * slab.h - slots of one size that never move, named by handles with a generation.
 *
 * A slot is the first member of the owner's struct. Slots lie in blocks, and blocks are allocated
 * by the run: as many at once as are reserved, else a quarter of those there are, up to 4 MiB. A
 * slot given back is the next to be taken, so memory follows the most slots ever held at once.
 *
 * Errors     take and reserve fail for want of memory or over the limit.
 * Ownership  A handle is stale once its slot was given back, and never comes to life again: a slot
 *            whose generations are used up is retired.
 */
#ifndef TICKWHEEL_SLAB_H
#define TICKWHEEL_SLAB_H

#include "link.h"
#include "memory.h"

#include <tickwheel/wheel.h>

struct slab_slot {
    struct tw_link link; /* in use: the owner's; free: the next free slot */
    uint32_t index;
    uint32_t generation; /* odd while in use */
};

struct slab_block {
    char *slots;
    uint32_t run; /* blocks allocated together, said by the first of them; 0 in the others */
};

struct slab {
    struct memory *memory;
    struct slab_block *blocks;
    struct slab_slot *free; /* linked through link.next_ */
    size_t slot_size;
    uint32_t block_count;
    uint32_t block_capacity;
    uint32_t slot_count; /* slots ever let: those below it have been initialised */
    uint32_t used_count;
    uint32_t used_count_max;
    uint32_t retired_count;
};

/* A slab without memory yet. `used_count_max` of 0 means as many as can be named. */
void tw__slab_init(struct slab *slab, size_t slot_size, size_t used_count_max,
                   struct memory *memory);

/* Frees all slots, also those in use. */
void tw__slab_deinit(struct slab *slab);

/* Takes now the memory for `count` slots in use at once. */
bool tw__slab_reserve(struct slab *slab, size_t count);

/* A slot off every list, the owner's part of it uninitialised; NULL when there is none. */
struct slab_slot *tw__slab_take(struct slab *slab);

/* Takes back a slot that is on no list. All its handles are stale from here on. */
void tw__slab_give(struct slab *slab, struct slab_slot *slot);

/* The slot in use that has this handle; NULL if there is none. */
struct slab_slot *tw__slab_find(const struct slab *slab, tw_handle handle);

/* Slots in use, counted one by one; for checks. */
size_t tw__slab_check(const struct slab *slab);

static inline tw_handle slab_handle(const struct slab_slot *slot)
{
    return (uint64_t)slot->generation << 32 | slot->index;
}

#endif
