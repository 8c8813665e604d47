/* wheel_bucket.c - buckets: chains of chunks, and the bits that say which are not empty. */
#include "wheel_private.h"

_Static_assert(sizeof(struct record) == 32, "two records to a cache line");
_Static_assert(sizeof(struct entry) == 8, "an entry is what a bucket costs per timer");
_Static_assert(sizeof(struct chunk) == CHUNK_SIZE, "a chunk's end is a multiple of its size");
_Static_assert(sizeof(struct block) <= CHUNK_SIZE, "a block's header takes one chunk's place");

uint64_t tw__wheel_bucket_start(const struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    unsigned shift = level * DIGIT_BITS;
    uint64_t above = level == LEVELS - 1 ? 0 : ~UINT64_C(0) << (shift + DIGIT_BITS);
    return (wheel->cursor & above) | (uint64_t)slot << shift;
}

bool tw__wheel_bucket_first(const struct tw_wheel *wheel, unsigned *ret_level, unsigned *ret_slot)
{
    if (!wheel->level_bits)
        return false;
    unsigned level = (unsigned)__builtin_ctz(wheel->level_bits);
    const uint64_t *bits = wheel->bits[level];
    unsigned word = 0;
    while (!bits[word])
        word++;
    *ret_level = level;
    *ret_slot = word * 64 + (unsigned)__builtin_ctzll(bits[word]);
    return true;
}

static void mark_full(struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    wheel->bits[level][slot / 64] |= UINT64_C(1) << (slot % 64);
    wheel->level_bits |= 1u << level;
    uint64_t start = tw__wheel_bucket_start(wheel, level, slot);
    if (start < wheel->next)
        wheel->next = start;
}

static void mark_empty(struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    uint64_t *bits = wheel->bits[level];
    bits[slot / 64] &= ~(UINT64_C(1) << (slot % 64));
    if (!(bits[0] | bits[1] | bits[2] | bits[3]))
        wheel->level_bits &= ~(1u << level);
}

void tw__wheel_bucket_link(struct tw_wheel *wheel, unsigned level, unsigned slot,
                           struct chunk *chunk)
{
    struct bucket *bucket = &wheel->buckets[level][slot];
    chunk->next = NULL;
    chunk->stamp = wheel->sweep;
    if (bucket->head) {
        struct chunk *last = tw__wheel_chunk_of(bucket->end);
        last->count = (uint32_t)(bucket->end - last->entries);
        last->next = chunk;
    } else {
        bucket->head = chunk;
        mark_full(wheel, level, slot);
    }
    bucket->end = chunk->entries;
}

struct entry *tw__wheel_bucket_extend(struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    struct chunk *chunk = tw__wheel_chunk_take(wheel);
    struct bucket *bucket = &wheel->buckets[level][slot];
    if ((uintptr_t)bucket->end & (CHUNK_SIZE - 1)) /* a sweep for memory has made room */
        tw__wheel_chunk_give(wheel, chunk);
    else
        tw__wheel_bucket_link(wheel, level, slot, chunk);
    return bucket->end;
}

struct chunk *tw__wheel_bucket_detach(struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    struct bucket *bucket = &wheel->buckets[level][slot];
    struct chunk *chunk = bucket->head;
    if (chunk == tw__wheel_chunk_of(bucket->end)) {
        chunk->count = (uint32_t)(bucket->end - chunk->entries);
        *bucket = (struct bucket){NULL, NULL};
        mark_empty(wheel, level, slot);
    } else {
        bucket->head = chunk->next;
    }
    return chunk;
}
