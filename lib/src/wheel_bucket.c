/* wheel_bucket.c - entries in buckets, and the bits of the non-empty buckets. */
#include "wheel_private.h"

_Static_assert(sizeof(struct wheel_record) == 16, "four records to a cache line");
_Static_assert(sizeof(struct wheel_entry) == 8, "an entry is what a bucket costs per timer");
_Static_assert(sizeof(struct wheel_bucket) == LINE_SIZE, "a bucket's few end with its line");
_Static_assert(sizeof(struct wheel_chunk) == CHUNK_SIZE, "a chunk's end is a multiple of its size");
_Static_assert(sizeof(struct wheel_block) <= CHUNK_SIZE,
               "a block's header takes one chunk's place");

/* Takes a chunk from the pool, which grows if it is empty. If memory is out, sweeps all stale
 * entries, which frees a chunk. So it cannot fail, but buckets may change. */
static struct wheel_chunk *wheel_bucket_chunk(struct tw_wheel *wheel)
{
    if (UNLIKELY(wheel->chunk_used + CHUNKS_SPARE >= wheel->chunk_capacity)) {
        /* The chunks for all slots are in use, because stale entries wait for their sweep. */
        if (!tw__wheel_add_chunks(wheel, wheel->chunk_capacity / 8 + 16))
            tw__wheel_sweep_all(wheel);
        assert(wheel->chunk_used + CHUNKS_SPARE < wheel->chunk_capacity);
    }
    return tw__wheel_chunk_pop(wheel);
}

/* Makes room in a bucket that is empty or full. */
static void wheel_bucket_extend(struct tw_wheel *wheel, struct wheel_bucket *bucket, unsigned level,
                                unsigned slot)
{
    struct wheel_chain *chain = &bucket->chain;
    if (!chain->end) {
        chain->end = bucket->inlined;
        chain->limit = bucket->inlined + BUCKET_INLINED;
        tw__wheel_bucket_mark_used(wheel, level, slot);
        uint64_t start = tw__wheel_bucket_start(wheel, level, slot);
        wheel->next = start < wheel->next ? start : wheel->next;
        return;
    }
    struct wheel_chunk *chunk = wheel_bucket_chunk(wheel);
    if (chain->end != chain->limit) /* taking the chunk has swept this bucket, so it has room */
        tw__wheel_chunk_give(wheel, chunk);
    else
        tw__wheel_chain_link(wheel, chain, chunk);
}

bool tw__wheel_make_room(struct tw_wheel *wheel, uint64_t deadline)
{
    if (deadline <= wheel->cursor || deadline >= wheel->quick_end)
        return false;
    unsigned shift = tw__wheel_shift(wheel, deadline);
    struct wheel_chain *chain = tw__wheel_chain_at(wheel, shift, deadline);
    if (chain->end != chain->limit)
        return false;
    wheel_bucket_extend(wheel, (struct wheel_bucket *)chain, shift / DIGIT_BITS,
                        (unsigned)(deadline >> shift) & (BUCKETS - 1));
    return true;
}

void tw__wheel_append_extending(struct tw_wheel *wheel, unsigned shift, uint64_t tick,
                                uint32_t index)
{
    unsigned level = shift / DIGIT_BITS;
    unsigned slot = (unsigned)(tick >> shift) & (BUCKETS - 1);
    struct wheel_bucket *bucket = &wheel->buckets[level][slot];
    wheel_bucket_extend(wheel, bucket, level, slot);
    tw__wheel_chain_push(&bucket->chain, (struct wheel_entry){(uint32_t)tick, index});
}

void tw__wheel_enter_slowly(struct tw_wheel *wheel, struct wheel_record *record, uint32_t index,
                            uint32_t generation, uint64_t deadline)
{
    uint64_t tick = deadline > wheel->cursor ? deadline : wheel->cursor;
    unsigned shift = tw__wheel_shift(wheel, tick);
    uint32_t state = STATE_NEAR;
    tw__wheel_set_ends(wheel);
    if (wheel->sweep_phase == SWEEP_BUCKETS)
        *tw__wheel_kept(wheel, index) &= ~(UINT64_C(1) << (index % 64));
    if (tick != deadline || shift >= LEVEL_FAR * DIGIT_BITS) {
        state = STATE_WIDE;
        tw__wheel_extra(wheel, index)->due = deadline;
    }
    record->tick_low = (uint32_t)tick;
    record->generation = generation | state;
    tw__wheel_append(wheel, shift, tick, index);
}

unsigned tw__wheel_bucket_take(struct tw_wheel *wheel, unsigned level, unsigned slot,
                               struct wheel_entry *inlined)
{
    struct wheel_bucket *bucket = &wheel->buckets[level][slot];
    unsigned count =
        bucket->chain.head ? BUCKET_INLINED : (unsigned)(bucket->chain.end - bucket->inlined);
    for (unsigned i = 0; i < BUCKET_INLINED; i++)
        inlined[i] = bucket->inlined[i];
    wheel->taken = bucket->chain.head ? bucket->chain : (struct wheel_chain){0};
    bucket->chain = (struct wheel_chain){0};
    tw__wheel_bucket_mark_empty(wheel, level, slot);
    return count;
}
