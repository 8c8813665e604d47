/*
 * bitmap.h - a set of small integers that finds its next member without scanning.
 *
 * A bit per integer, and above it words whose bits tell which words below are not zero, until one
 * word is left: any size up to 2^32 takes at most six rows, so every call is O(1).
 *
 * Errors     Only init fails, for want of memory.
 */
#ifndef TICKWHEEL_BITMAP_H
#define TICKWHEEL_BITMAP_H

#include "memory.h"

#include <stdbool.h>
#include <string.h>

enum { BITMAP_ROWS_MAX = 6 };

struct bitmap {
    /* rows[0] has the members; each further row has a bit for each word of the row before */
    uint64_t *rows[BITMAP_ROWS_MAX];
    uint64_t word_count; /* words in all rows, which are one allocation */
    uint32_t row_count;
    uint32_t size; /* upper bound of the members, which are smaller */
};

/* Initializes an empty set of integers below `size`, which is not 0. Returns false if out of
 * memory. */
bool tw__bitmap_init(struct bitmap *bitmap, uint32_t size, struct memory *memory);

/* Gives the memory back. Has no effect after an init that failed. */
void tw__bitmap_deinit(struct bitmap *bitmap, struct memory *memory);

/* Finds the smallest member that is at least `from`. Returns false if there is none. */
bool tw__bitmap_next(const struct bitmap *bitmap, uint32_t from, uint32_t *ret_member);

static inline bool bitmap_has(const struct bitmap *bitmap, uint32_t member)
{
    return bitmap->rows[0][member >> 6] >> (member & 63) & 1;
}

static inline void bitmap_set(struct bitmap *bitmap, uint32_t member)
{
    for (uint32_t row = 0; row < bitmap->row_count; row++, member >>= 6) {
        uint64_t before = bitmap->rows[row][member >> 6];
        bitmap->rows[row][member >> 6] = before | UINT64_C(1) << (member & 63);
        if (before) /* the word had a bit before, so the rows above have its bit already */
            return;
    }
}

static inline void bitmap_clear(struct bitmap *bitmap, uint32_t member)
{
    for (uint32_t row = 0; row < bitmap->row_count; row++, member >>= 6) {
        bitmap->rows[row][member >> 6] &= ~(UINT64_C(1) << (member & 63));
        if (bitmap->rows[row][member >> 6])
            return;
    }
}

/* Finds the distance from `from` up to the next member, continuing at 0 after the largest: 0 ..
 * size - 1. Returns false if the set is empty. */
static inline bool bitmap_next_round(const struct bitmap *bitmap, uint32_t from,
                                     uint32_t *ret_distance)
{
    uint32_t member;

    if (tw__bitmap_next(bitmap, from, &member)) {
        *ret_distance = member - from;
        return true;
    }
    if (!tw__bitmap_next(bitmap, 0, &member))
        return false;
    *ret_distance = member + (bitmap->size - from);
    return true;
}

#endif
