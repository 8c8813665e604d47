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
    struct tw_link link; /* while in use: for lists of the owner; while free: the next free slot */
    uint32_t index;
    uint32_t generation; /* odd while in use */
};

struct slab_block {
    char *slots;
    uint32_t run; /* in the first block of a run: number of its blocks; 0 in the others */
};

struct slab {
    struct memory *memory;
    struct slab_block *blocks;
    struct slab_slot *free; /* linked through link.next_ */
    size_t slot_size;
    uint32_t block_count;
    uint32_t block_capacity;
    uint32_t slot_count; /* number of slots that were ever taken; only these are initialized */
    uint32_t used_count;
    uint32_t used_count_max;
    uint32_t retired_count;
};

/* Initializes a slab without memory. A `used_count_max` of 0 means as many slots as there are
 * handles. */
void tw__slab_init(struct slab *slab, size_t slot_size, size_t used_count_max,
                   struct memory *memory);

/* Frees all slots, even those in use. */
void tw__slab_deinit(struct slab *slab);

/* Allocates memory for `count` slots in use at the same time. Returns false if that fails. */
bool tw__slab_reserve(struct slab *slab, size_t count);

/* Returns a slot that is in no list, and whose owner's part is not initialized. NULL if none can be
 * had. */
struct slab_slot *tw__slab_take(struct slab *slab);

/* Takes back a slot that is in no list. All its handles become stale. */
void tw__slab_give(struct slab *slab, struct slab_slot *slot);

/* Returns the slot in use with this handle; NULL if there is none. */
struct slab_slot *tw__slab_find(const struct slab *slab, tw_handle handle);

/* For checks: returns the number of slots in use, counted one by one. */
size_t tw__slab_check(const struct slab *slab);

static inline tw_handle slab_handle(const struct slab_slot *slot)
{
    return (uint64_t)slot->generation << 32 | slot->index;
}

#endif
