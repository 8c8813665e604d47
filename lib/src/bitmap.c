/* bitmap.c - building a bitmap and finding its next member. */
#include "bitmap.h"

static uint64_t bitmap_row_words(uint64_t bits)
{
    return (bits + 63) / 64;
}

bool tw__bitmap_init(struct bitmap *bitmap, uint32_t size, struct memory *memory)
{
    uint64_t words[BITMAP_ROWS_MAX];
    uint64_t bits = size;

    *bitmap = (struct bitmap){.size = size};
    do {
        bits = words[bitmap->row_count++] = bitmap_row_words(bits);
        bitmap->word_count += bits;
    } while (bits > 1);

    uint64_t *taken = memory_take(memory, bitmap->word_count, sizeof *taken);
    if (!taken)
        return false;
    memset(taken, 0, (size_t)bitmap->word_count * sizeof *taken);
    for (uint32_t row = 0; row < bitmap->row_count; row++) {
        bitmap->rows[row] = taken;
        taken += words[row];
    }
    return true;
}

void tw__bitmap_deinit(struct bitmap *bitmap, struct memory *memory)
{
    memory_give(memory, bitmap->rows[0], bitmap->word_count, sizeof *bitmap->rows[0]);
    *bitmap = (struct bitmap){0};
}

bool tw__bitmap_next(const struct bitmap *bitmap, uint32_t from, uint32_t *ret_member)
{
    /* 64 bits wide, because the number after the last member may not fit into 32 */
    uint64_t at = from;

    for (uint32_t row = 0; row < bitmap->row_count; row++) {
        uint64_t bits = at / 64 < bitmap_row_words((((uint64_t)bitmap->size - 1) >> (6 * row)) + 1)
                            ? bitmap->rows[row][at / 64] >> at % 64
                            : 0;
        if (bits == 0) { /* this word has no further bit, so the row above is searched */
            at = at / 64 + 1;
            continue;
        }
        at += (unsigned)__builtin_ctzll(bits);
        while (row-- > 0)
            at = at * 64 + (unsigned)__builtin_ctzll(bitmap->rows[row][at]);
        *ret_member = (uint32_t)at;
        return true;
    }
    return false;
}
