/*
 * slab.h - slots of one size that never move, named by handles with a generation.
 *
 * A slot is the first member of the owner's struct. Slots are in blocks, and blocks are allocated
 * in runs: the number that reserve needs, or a quarter of the existing blocks, up to 4 MiB. The
 * slot given back last is taken next, so memory follows the most slots ever held at once.
 *
 * Errors     take and reserve fail when memory is short or over the limit.
 * Ownership  A handle is stale once its slot was given back, and never becomes valid again: a slot
 *            whose generations are used up is retired.
 */
#ifndef TICKWHEEL_SLAB_H
#define TICKWHEEL_SLAB_H

#include "link.h"
#include "memory.h"

#include <tickwheel/wheel.h>

struct slab_slot {
    struct tw_link link; /* in use: for the owner's list; free: the next free slot */
    uint32_t index;
    uint32_t generation; /* odd while in use */
};

struct slab_block {
    char *slots;
    uint32_t run; /* in the first block of a run, the run's length; 0 in the others */
};

struct slab {
    struct memory *memory;
    struct slab_block *blocks;
    struct slab_slot *free; /* linked through link.next_ */
    size_t slot_size;
    uint32_t block_count;
    uint32_t block_capacity;
    uint32_t slot_count; /* slots ever taken; those below it are initialised */
    uint32_t used_count;
    uint32_t used_count_max;
    uint32_t retired_count;
};

/* A slab without memory yet. A `used_count_max` of 0 means the number of distinct handles. */
void tw__slab_init(struct slab *slab, size_t slot_size, size_t used_count_max,
                   struct memory *memory);

/* Frees all slots, those in use included. */
void tw__slab_deinit(struct slab *slab);

/* Allocates memory for `count` slots in use at once. */
bool tw__slab_reserve(struct slab *slab, size_t count);

/* A slot in no list, the owner's part uninitialised; NULL when there is none. */
struct slab_slot *tw__slab_take(struct slab *slab);

/* Takes back a slot that is in no list. All its handles are stale from now on. */
void tw__slab_give(struct slab *slab, struct slab_slot *slot);

/* The slot in use with this handle; NULL if there is none. */
struct slab_slot *tw__slab_find(const struct slab *slab, tw_handle handle);

/* Slots in use, counted one by one; for checks. */
size_t tw__slab_check(const struct slab *slab);

static inline tw_handle slab_handle(const struct slab_slot *slot)
{
    return (uint64_t)slot->generation << 32 | slot->index;
}

#endif
