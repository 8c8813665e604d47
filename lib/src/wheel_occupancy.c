/* wheel_occupancy.c - counts the entries of the buckets. */
#include "wheel_private.h"

static size_t wheel_chain_count(const struct wheel_chain *chain)
{
    const struct wheel_chunk *last = tw__wheel_chunk_of(chain->end);
    size_t count = 0;
    for (const struct wheel_chunk *chunk = chain->head; chunk; chunk = chunk->next)
        count += chunk == last ? (size_t)(chain->end - chunk->entries) : chunk->count;
    return count;
}

static size_t wheel_bucket_count(const struct wheel_bucket *bucket)
{
    if (!bucket->chain.head)
        return (size_t)(bucket->chain.end - bucket->inlined);
    return BUCKET_INLINED + wheel_chain_count(&bucket->chain);
}

void tw_wheel_get_occupancy(const struct tw_wheel *wheel, struct tw_wheel_occupancy *ret_occupancy)
{
    struct tw_wheel_occupancy occupancy = {0, 0, 0};
    for (unsigned i = 0; i < LEVELS * BUCKETS; i++) {
        const struct wheel_bucket *bucket = &wheel->buckets[i / BUCKETS][i % BUCKETS];
        if (!bucket->chain.end)
            continue;
        size_t count = wheel_bucket_count(bucket);
        occupancy.bucket_count++;
        occupancy.entry_count += count;
        occupancy.entry_count_max =
            count > occupancy.entry_count_max ? count : occupancy.entry_count_max;
    }
    *ret_occupancy = occupancy;
}
