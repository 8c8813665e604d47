/* wheel_bucket.c - buckets, the chains of chunks in them, and the bits that say which are not
 * empty. */
#include "wheel_private.h"

_Static_assert(sizeof(struct record) == 16, "four records to a cache line");
_Static_assert(sizeof(struct entry) == 8, "an entry is what a bucket costs per timer");
_Static_assert(sizeof(struct bucket) == LINE_SIZE, "a bucket's few end with its line");
_Static_assert(sizeof(struct chunk) == CHUNK_SIZE, "a chunk's end is a multiple of its size");
_Static_assert(sizeof(struct block) <= CHUNK_SIZE, "a block's header takes one chunk's place");

void tw__wheel_chain_link(struct tw_wheel *wheel, struct chain *chain, struct chunk *chunk)
{
    chunk->next = NULL;
    chunk->stamp = wheel->sweep_number;
    if (chain->head) {
        struct chunk *last = tw__wheel_chunk_of(chain->end);
        last->count = (uint32_t)(chain->end - last->entries);
        last->next = chunk;
    } else {
        chain->head = chunk;
    }
    chain->end = chunk->entries;
}

struct chunk *tw__wheel_chain_detach(struct chain *chain)
{
    struct chunk *chunk = chain->head;
    if (chunk == tw__wheel_chunk_of(chain->end)) {
        chunk->count = (uint32_t)(chain->end - chunk->entries);
        *chain = (struct chain){NULL, NULL};
    } else {
        chain->head = chunk->next;
    }
    return chunk;
}

static inline bool is_chunk_full(const struct chain *chain)
{
    return ((uintptr_t)chain->end & (CHUNK_SIZE - 1)) == 0;
}

/* Where the next entry goes of a bucket that is empty or filled to the end of a cache line. */
static struct entry *extend(struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    struct bucket *bucket = &wheel->buckets[level][slot];
    if (!bucket->chain.end) {
        wheel->bits[level][slot / 64] |= UINT64_C(1) << (slot % 64);
        wheel->level_bits |= 1u << level;
        uint64_t start = tw__wheel_bucket_start(wheel, level, slot);
        wheel->next = start < wheel->next ? start : wheel->next;
        return bucket->few;
    }
    if (bucket->chain.head ? is_chunk_full(&bucket->chain)
                           : bucket->chain.end == bucket->few + BUCKET_FEW) {
        struct chunk *chunk = tw__wheel_chunk_take(wheel);
        /* Taking it may have swept, and so made room. */
        if (bucket->chain.head && !is_chunk_full(&bucket->chain))
            tw__wheel_chunk_give(wheel, chunk);
        else
            tw__wheel_chain_link(wheel, &bucket->chain, chunk);
    }
    /* Buckets are filled side by side, too many for the processor to foresee what comes next. */
    __builtin_prefetch((char *)bucket->chain.end + LINE_SIZE, 1);
    return bucket->chain.end;
}

void tw__wheel_append_extending(struct tw_wheel *wheel, unsigned shift, uint64_t tick,
                                uint32_t index)
{
    unsigned level = shift / DIGIT_BITS;
    unsigned slot = (unsigned)(tick >> shift) & (BUCKETS - 1);
    struct entry *entry = extend(wheel, level, slot);
    *entry = (struct entry){(uint32_t)tick, index};
    wheel->buckets[level][slot].chain.end = entry + 1;
}

void tw__wheel_enter_special(struct tw_wheel *wheel, struct record *record, uint32_t index,
                             uint32_t tenant, uint64_t tick)
{
    unsigned shift = tw__wheel_shift(wheel, tick);
    if (wheel->sweep_phase == SWEEP_BUCKETS)
        *tw__wheel_kept(wheel, index) &= ~(UINT64_C(1) << (index % 64));
    record->where = (uint32_t)tick;
    record->tenant = tenant | (shift < LEVEL_FAR * DIGIT_BITS ? STATE_NEAR : STATE_FAR);
    tw__wheel_append(wheel, shift, tick, index);
}

unsigned tw__wheel_bucket_take(struct tw_wheel *wheel, unsigned level, unsigned slot,
                               struct entry *few)
{
    struct bucket *bucket = &wheel->buckets[level][slot];
    unsigned count = bucket->chain.head ? BUCKET_FEW : (unsigned)(bucket->chain.end - bucket->few);
    for (unsigned i = 0; i < BUCKET_FEW; i++)
        few[i] = bucket->few[i];
    wheel->taken = bucket->chain.head ? bucket->chain : (struct chain){NULL, NULL};
    bucket->chain = (struct chain){NULL, NULL};
    tw__wheel_bucket_mark_empty(wheel, level, slot);
    return count;
}
