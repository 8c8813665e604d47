/*
 * wheel_private.h - the inside of the wheel, shared by wheel*.c and by their tests only.
 *
 * A timer is a record in the slab; its place in time is an entry of 8 bytes in a bucket. Level l
 * has 256 buckets of 256^l ticks. An entry lies on the level of the highest digit (base 256) in
 * which its tick differs from the cursor, in the bucket of its own digit there; so eight levels
 * hold every 64-bit tick, and all entries of a level are sooner than those of the next.
 *
 * The record is the truth and the entry a reminder to look at it. An entry counts only if the
 * record says so (`where` and the state), which makes cancel and reschedule cheap: cancel marks the
 * record; a later deadline changes the timer, and the entry, when it comes up, is moved on. Only an
 * earlier deadline needs a new entry and leaves a stale one behind; the sweep keeps those few.
 *
 * An entry has room for 32 bits of its tick. On the levels below LEVEL_FAR the cursor has the rest,
 * so the tick is known without looking at the record. Above, an entry says no more than "not before
 * this bucket": when the bucket is opened, the timer is entered anew at its due.
 *
 * What a verb must read before it can answer are the 8 bytes of the record, so that those of a
 * million timers stay in the cache; deadline and data lie elsewhere, and moving a timer only writes
 * them. A processor waits for what it reads, not for what it writes.
 *
 * Invariants (tw_wheel_check proves them):
 *  - an armed record has an entry that counts, at or before its due; only the entry of one armed
 *    when already overdue is later, at the cursor;
 *  - nothing lies before the cursor; every chunk of a chain but the last says how full it is;
 *  - `next` is at most the start of every bucket that is not empty;
 *  - memory for one entry per slot is always there, so nothing but taking a new slot can fail.
 */
#ifndef TICKWHEEL_WHEEL_PRIVATE_H
#define TICKWHEEL_WHEEL_PRIVATE_H

#include "memory.h"

#include <tickwheel/wheel.h>

#include <assert.h>

enum {
    DIGIT_BITS = 8,
    BUCKETS = 1 << DIGIT_BITS, /* of one level */
    LEVELS = 64 / DIGIT_BITS,
    LEVEL_WORDS = BUCKETS / 64,
    LEVEL_FAR = 32 / DIGIT_BITS,
    CHUNK_SIZE = 512,
    CHUNK_ENTRIES = (CHUNK_SIZE - 16) / 8,
    LINE_SIZE = 64,
    BUCKET_INLINED = (LINE_SIZE - 3 * sizeof(void *)) / 8,
    SEGMENT_BITS = 12,
    SEGMENT_SLOTS = 1 << SEGMENT_BITS,
    PREFETCH_DISTANCE = 40, /* records asked for ahead while firing */
    STALE_SLACK = 4096      /* stale entries not worth a sweep */
};

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A slot of the slab: what must be known to tell whether a handle or an entry is good. */
struct wheel_record {
    uint32_t generation; /* generation << 4 | is it opened << 3 | is it armed << 2 | state */
    uint32_t entry_tick; /* low half of the tick of the entry that counts, if there is one */
};

/* The state in a tenant: which entry counts. */
enum {
    STATE_NONE = 0,
    STATE_NEAR = 1, /* below LEVEL_FAR, at the tick that the cursor's upper half and `where` make */
    STATE_FAR = 2,  /* from LEVEL_FAR up, at or before the due, be the timer armed or not */
    STATE_MASK = 3
};

#define IS_ARMED        4u
#define NOT_IN_HANDLE   7u /* the bits that are not part of a handle */
#define IS_OPENED       8u
#define GENERATION_STEP 16u

/* A slot whose generations are used up is never let again, so no handle ever comes back to life. At
 * ten million timers a second through one slot that costs a byte a second. */
#define GENERATION_RETIRED 0xfffffff0u

/* The rest of a slot. */
struct wheel_timer {
    uint64_t due;  /* the deadline last set, if any was; it counts while the record is armed */
    uint64_t data; /* the caller's */
};

/* A piece of the slab: four arrays over the same slots. */
struct wheel_segment {
    struct wheel_record records[SEGMENT_SLOTS];
    struct wheel_timer timers[SEGMENT_SLOTS];
    uint32_t free_slots[SEGMENT_SLOTS]; /* a piece of the stack of free slots */
    uint64_t kept[SEGMENT_SLOTS / 64];  /* the sweep has kept the entry that counts */
};

/* An entry of a bucket. */
struct wheel_entry {
    uint32_t tick_low;
    uint32_t index;
};

/* The unit in which buckets grow. Aligned to its size: a write position at a multiple of CHUNK_SIZE
 * has no room left. */
struct wheel_chunk {
    union {
        struct wheel_chunk *next;
        uint64_t size_of_the_field; /* the same layout whatever a pointer's size */
    };
    uint32_t count; /* entries; valid once the chunk is not its bucket's last */
    uint32_t stamp; /* the sweep during which it joined its bucket */
    struct wheel_entry entries[CHUNK_ENTRIES];
};

/* Entries in a row: chunks linked from `head`, filled up to `end`, which lies in the last one. */
struct wheel_chain {
    struct wheel_chunk *head;  /* NULL when there is no chunk */
    struct wheel_entry *end;   /* where the next entry goes */
    struct wheel_entry *limit; /* up to where there is room */
};

/* A cache line. Most buckets hold but a few entries, which lie in the line itself; then come
 * chunks. A bucket is taken whole, so the few are the oldest: first in, first out, and a timer
 * re-armed for the same tick over and over cannot starve the others. */
struct wheel_bucket {
    /* With end NULL the bucket is empty; with head NULL end lies in `few`. */
    _Alignas(LINE_SIZE) struct wheel_chain chain;
    struct wheel_entry inlined[BUCKET_INLINED];
};

/* Chunks are allocated in blocks. The first chunk of a block is this header. */
struct wheel_block {
    struct wheel_block *next;
    size_t size;
    struct wheel_chunk *fresh; /* first chunk never used yet */
    struct wheel_chunk *end;
};

/* So many segments allocated in one go; a list, freed at the end. */
struct wheel_arena {
    struct wheel_arena *next;
    size_t size;
};

struct tw_wheel {
    /* One cache line for what every call needs. Time: cursor <= now, and they differ only while
     * something due is left. */
    _Alignas(LINE_SIZE) uint64_t next; /* no bucket that is not empty starts sooner */
    uint64_t now;                      /* the latest time given */
    uint64_t cursor;                   /* what lies before it is out; levels are relative to it */
    struct wheel_segment **segments;   /* the slab */
    uint32_t slot_count;               /* slots ever let */
    uint32_t slot_capacity;            /* slots for which there is all memory they may need */
    uint32_t free_count;               /* slots let no more, on the stack in the segments */
    uint32_t armed_count;              /* armed records */
    uint64_t stale_count;              /* entries that do not count */
    uint32_t plain_shift;              /* from this level up, enter takes the long way */
    uint32_t words;                    /* a bit per word of `bits` that is not zero */

    uint32_t retired_count;
    uint32_t segment_count;
    uint32_t segment_capacity; /* of the directory */
    uint32_t timer_count_max;
    uint32_t stale_slack; /* STALE_SLACK and TW_WHEEL_MOVES_MAX, for tests to lower */
    uint32_t moves_max;
    uint64_t visit_count; /* entries looked at or moved, ever; tests bound work with it */

    /* The bucket at the cursor, taken off its place: fired if of level 0, else moved down. */
    enum { PHASE_NONE, PHASE_FIRING, PHASE_OPENING } phase;
    uint32_t opening_level; /* its level, while it is opened */
    struct wheel_chain taken;
    uint64_t opened_count; /* entries moved out of it so far */
    uint32_t run_next;
    uint32_t run_count;
    uint32_t run[CHUNK_ENTRIES]; /* timers to fire, run_next to run_count; then those in taken */

    /* The sweep over stale entries: all buckets from level 0 up, one chunk at a time; then `kept`
     * is cleared. */
    enum { SWEEP_IDLE, SWEEP_BUCKETS, SWEEP_KEPT } sweep_phase;
    bool sweep_is_inside;  /* the bucket's old chunks are being rotated */
    uint32_t sweep_number; /* what new chunks are stamped with */
    uint32_t sweep_credit;
    uint32_t sweep_level;
    uint32_t sweep_slot; /* bucket of the level; for SWEEP_KEPT, segment of the slab */

    /* Chunks. */
    struct wheel_chunk *chunk_free;
    struct wheel_block *blocks;
    struct wheel_block *block_fresh; /* the first block that has fresh chunks, or the last */
    uint32_t chunk_capacity;
    uint32_t chunk_used;

    /* Memory. */
    struct wheel_arena *arenas; /* segments are allocated many at a time */
    struct memory memory;

    uint64_t bits[LEVELS * LEVEL_WORDS]; /* a bit per bucket that is not empty */
    _Alignas(LINE_SIZE) struct wheel_bucket buckets[LEVELS][BUCKETS];
};

/* wheel_memory.c: slots and chunks. */

/* Room for `count` slots in all. False, nothing changed for the worse,
 * when out of memory. */
bool tw__wheel_grow(struct tw_wheel *wheel, uint64_t count);

/* Writes to every page of the memory for `count` timers. */
void tw__wheel_touch(struct tw_wheel *wheel, uint64_t count);

/* A chunk from the pool. The pool grows if it must; where there is no memory, all stale entries are
 * swept, after which there is a chunk. So it cannot fail, but buckets may have changed. */
struct wheel_chunk *tw__wheel_chunk_take(struct tw_wheel *wheel);

/* The same out of what the pool has, which the sweep's reserve guarantees. */
struct wheel_chunk *tw__wheel_chunk_pop(struct tw_wheel *wheel);

/* Gives a chunk, off its bucket, back to the pool. */
static inline void tw__wheel_chunk_give(struct tw_wheel *wheel, struct wheel_chunk *chunk)
{
    chunk->next = wheel->chunk_free;
    wheel->chunk_free = chunk;
    wheel->chunk_used--;
}

/* The most slots: an index that needs a segment of its own would no longer fit. */
#define SLOTS_MAX (UINT32_MAX - SEGMENT_SLOTS + 1)

/* Chunks that the sweep may need at a time; ordinary use leaves them alone. */
#define CHUNKS_SPARE 2

/* Chunks that must exist so that one entry for each of `slots` can be held however they lie. */
uint64_t tw__wheel_chunks_needed(uint64_t slots);

/* wheel_bucket.c: entries in buckets. */

/* The rest of append, for a bucket without room. */
void tw__wheel_append_extending(struct tw_wheel *wheel, unsigned shift, uint64_t tick,
                                uint32_t index);

/* The rest of enter, for what tw__wheel_enter_quickly has refused: far entries, all while a sweep
 * goes through the buckets, and a bucket without room. */
void tw__wheel_enter_slowly(struct tw_wheel *wheel, struct wheel_record *record, uint32_t index,
                            uint32_t generation, uint64_t deadline);

/* Takes all of a bucket that is not empty: what lay in its line goes to `few`, the rest to
 * wheel->taken. Returns how many `few` are. */
unsigned tw__wheel_bucket_take(struct tw_wheel *wheel, unsigned level, unsigned slot,
                               struct wheel_entry *inlined);

/* Makes `chunk` the last of the chain, however full the one before is. */
void tw__wheel_chain_link(struct tw_wheel *wheel, struct wheel_chain *chain,
                          struct wheel_chunk *chunk);

/* Takes the first chunk off a chain that has one; its count is valid. */
struct wheel_chunk *tw__wheel_chain_detach(struct wheel_chain *chain);

/* wheel_sweep.c: stale entries. */

/* Called for each new stale entry: pays a portion of a sweep when there are too many. */
void tw__wheel_sweep_pay(struct tw_wheel *wheel);

/* Sweeps all: afterwards no entry is stale. O(entries); only for want of memory. */
void tw__wheel_sweep_all(struct tw_wheel *wheel);

/* The chunk in which a chain's end lies. */
static inline struct wheel_chunk *tw__wheel_chunk_of(struct wheel_entry *end)
{
    return (struct wheel_chunk *)(((uintptr_t)end - 1) & ~(uintptr_t)(CHUNK_SIZE - 1));
}

/* The hot paths, inlined into schedule, arm and expire alike. */

/* Asks for a line as far as the second level of the cache. The first takes few misses at a time,
 * and a processor may drop what it is asked for meanwhile: a Zen 4 lost a quarter of a bucket's
 * records so, and each cost a full wait when it fired. */
static inline void tw__prefetch(const void *memory)
{
    __builtin_prefetch(memory, 0, 2);
}

static inline struct wheel_segment *tw__wheel_segment(const struct tw_wheel *wheel, uint32_t index)
{
    return wheel->segments[index >> SEGMENT_BITS];
}

static inline struct wheel_record *tw__wheel_record(const struct tw_wheel *wheel, uint32_t index)
{
    return &tw__wheel_segment(wheel, index)->records[index & (SEGMENT_SLOTS - 1)];
}

/* The timer of a record: both lie at the same place of the same segment. */
static inline struct wheel_timer *tw__wheel_timer(const struct tw_wheel *wheel, uint32_t index)
{
    return &tw__wheel_segment(wheel, index)->timers[index & (SEGMENT_SLOTS - 1)];
}

static inline uint32_t *tw__wheel_free_slot(const struct tw_wheel *wheel, uint32_t place)
{
    return &tw__wheel_segment(wheel, place)->free_slots[place & (SEGMENT_SLOTS - 1)];
}

static inline uint64_t *tw__wheel_kept(const struct tw_wheel *wheel, uint32_t index)
{
    return &tw__wheel_segment(wheel, index)->kept[(index & (SEGMENT_SLOTS - 1)) / 64];
}

/* For a record that is about to be fired. */
static inline void tw__wheel_prefetch(const struct tw_wheel *wheel, uint32_t index)
{
    tw__prefetch(tw__wheel_record(wheel, index));
    tw__prefetch(tw__wheel_timer(wheel, index));
}

static inline tw_handle tw__wheel_handle(uint32_t generation, uint32_t index)
{
    return (tw_handle)(generation & ~NOT_IN_HANDLE) << 32 | index;
}

/* Where a slot lies: found once and handed on. */
struct wheel_slot {
    struct wheel_record *record; /* NULL: there is none */
    struct wheel_timer *timer;
    uint32_t index;
};

static inline struct wheel_slot tw__wheel_slot(const struct tw_wheel *wheel, uint32_t index)
{
    struct wheel_segment *segment = tw__wheel_segment(wheel, index);
    uint32_t place = index & (SEGMENT_SLOTS - 1);
    return (struct wheel_slot){&segment->records[place], &segment->timers[place], index};
}

/* None if the handle is stale. */
static inline struct wheel_slot tw__wheel_lookup(const struct tw_wheel *wheel, tw_handle timer)
{
    struct wheel_slot none = {NULL, NULL, 0};
    if (UNLIKELY((uint32_t)timer >= wheel->slot_count))
        return none;
    struct wheel_slot slot = tw__wheel_slot(wheel, (uint32_t)timer);
    bool is_good = (slot.record->generation ^ (uint32_t)(timer >> 32)) <= NOT_IN_HANDLE;
    return LIKELY(is_good) ? slot : none;
}

/* The tick of a STATE_NEAR record's entry, which is less than 2^32 ticks from the cursor. */
static inline uint64_t tw__wheel_near_tick(const struct tw_wheel *wheel, uint32_t entry_tick)
{
    return wheel->cursor + (uint32_t)(entry_tick - (uint32_t)wheel->cursor);
}

/* The level on which `tick` lies, times DIGIT_BITS. */
static inline unsigned tw__wheel_shift(const struct tw_wheel *wheel, uint64_t tick)
{
    return (63u - (unsigned)__builtin_clzll((tick ^ wheel->cursor) | 1)) & ~(DIGIT_BITS - 1u);
}

/* The chain of the bucket of that level in which `tick` lies. */
static inline struct wheel_chain *tw__wheel_chain_at(struct tw_wheel *wheel, unsigned shift,
                                                     uint64_t tick)
{
    return &wheel->buckets[shift / DIGIT_BITS][(tick >> shift) & (BUCKETS - 1)].chain;
}

/* Where there is room. Buckets are filled side by side, too many of them for the processor to
 * foresee which line comes next. One line at a time is not dropped, so it is asked for as near as
 * it gets. */
static inline void tw__wheel_chain_push(struct wheel_chain *chain, struct wheel_entry entry)
{
    struct wheel_entry *end = chain->end;
    __builtin_prefetch(end + LINE_SIZE / sizeof(*end), 1);
    *end = entry;
    chain->end = end + 1;
}

/* Puts an entry at `tick`, which is not before the cursor and on that level. Cannot fail. */
static inline void tw__wheel_append(struct tw_wheel *wheel, unsigned shift, uint64_t tick,
                                    uint32_t index)
{
    struct wheel_chain *chain = tw__wheel_chain_at(wheel, shift, tick);
    if (UNLIKELY(chain->end == chain->limit)) {
        tw__wheel_append_extending(wheel, shift, tick, index);
        return;
    }
    tw__wheel_chain_push(chain, (struct wheel_entry){(uint32_t)tick, index});
}

/* Gives a record an entry for `deadline`, which is not TW_NEVER, as the one that counts. `tenant`
 * is the record's without a state. False, with nothing done, where that is not quickly done. */
static inline bool tw__wheel_enter_quickly(struct tw_wheel *wheel, struct wheel_record *record,
                                           uint32_t index, uint32_t generation, uint64_t deadline)
{
    uint64_t tick = deadline > wheel->cursor ? deadline : wheel->cursor;
    unsigned shift = tw__wheel_shift(wheel, tick);
    struct wheel_chain *chain = tw__wheel_chain_at(wheel, shift, tick);
    if (UNLIKELY(shift >= wheel->plain_shift || chain->end == chain->limit))
        return false;
    record->entry_tick = (uint32_t)tick;
    record->generation = generation | STATE_NEAR;
    tw__wheel_chain_push(chain, (struct wheel_entry){(uint32_t)tick, index});
    return true;
}

/* The same in any case. */
static inline void tw__wheel_enter(struct tw_wheel *wheel, struct wheel_record *record,
                                   uint32_t index, uint32_t generation, uint64_t deadline)
{
    if (UNLIKELY(!tw__wheel_enter_quickly(wheel, record, index, generation, deadline)))
        tw__wheel_enter_slowly(wheel, record, index, generation, deadline);
}

/* The first tick of a bucket. */
static inline uint64_t tw__wheel_bucket_start(const struct tw_wheel *wheel, unsigned level,
                                              unsigned slot)
{
    unsigned shift = level * DIGIT_BITS;
    uint64_t above = level == LEVELS - 1 ? 0 : ~UINT64_C(0) << (shift + DIGIT_BITS);
    return (wheel->cursor & above) | (uint64_t)slot << shift;
}

/* The soonest bucket that is not empty, and its first tick; TW_NEVER when all are empty. There is
 * no loop and no branch to guess: which bucket it is changes with every tick. */
static inline uint64_t tw__wheel_bucket_first(const struct tw_wheel *wheel, unsigned *ret_level,
                                              unsigned *ret_slot)
{
    *ret_level = *ret_slot = 0;
    if (wheel->words == 0)
        return TW_NEVER;
    unsigned word = (unsigned)__builtin_ctz(wheel->words);
    *ret_level = word / LEVEL_WORDS;
    *ret_slot = word % LEVEL_WORDS * 64 + (unsigned)__builtin_ctzll(wheel->bits[word]);
    if (LIKELY(*ret_level == 0))
        return (wheel->cursor & ~(uint64_t)(BUCKETS - 1)) | *ret_slot;
    return tw__wheel_bucket_start(wheel, *ret_level, *ret_slot);
}

static inline void tw__wheel_bucket_mark_empty(struct tw_wheel *wheel, unsigned level,
                                               unsigned slot)
{
    unsigned word = level * LEVEL_WORDS + slot / 64;
    uint64_t bits = wheel->bits[word] & ~(UINT64_C(1) << (slot % 64));
    wheel->bits[word] = bits;
    wheel->words &= ~((uint32_t)(bits == 0) << word);
}

static inline void tw__wheel_bucket_mark_used(struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    unsigned word = level * LEVEL_WORDS + slot / 64;
    wheel->bits[word] |= UINT64_C(1) << (slot % 64);
    wheel->words |= UINT32_C(1) << word;
}

/* Ends a tenancy: all handles to the slot are stale from here on. An entry that is still in a
 * bucket stays the slot's, for the next tenant to use or for expire to drop. */
static inline void tw__wheel_slot_give(struct tw_wheel *wheel, struct wheel_record *record,
                                       uint32_t index)
{
    uint32_t generation = record->generation & ~(IS_OPENED | IS_ARMED);
    generation += GENERATION_STEP;
    record->generation = generation;
    if (UNLIKELY(generation >= GENERATION_RETIRED))
        wheel->retired_count++;
    else
        *tw__wheel_free_slot(wheel, wheel->free_count++) = index;
}

#endif
