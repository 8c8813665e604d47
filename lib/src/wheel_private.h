/*
 * wheel_private.h - the inside of the wheel, shared by wheel*.c and by their tests only.
 *
 * A timer is a record in the slab; its place in time is an entry of 8 bytes in a bucket. Level l
 * has 256 buckets of 256^l ticks. An entry lies on the level of the highest digit (base 256) in
 * which its tick differs from the cursor, in the bucket of its own digit there; so eight levels
 * hold every 64-bit tick, and all entries of a level are sooner than those of the next.
 *
 * The record is the truth and the entry a reminder to look at it. An entry counts only if the
 * record says so (`entry_at`), which makes cancel and reschedule cheap: cancel marks the record; a
 * later deadline changes the record, and the entry, when it comes up, is moved on. Only an earlier
 * deadline needs a new entry and leaves a stale one behind; the sweep keeps those few.
 *
 * Invariants (tw_wheel_check proves them):
 *  - an armed record (due != TW_NEVER) has an entry at entry_at, and entry_at <= due, except that
 * the entry of one armed when already overdue lies at the cursor;
 *  - nothing lies before the cursor; every chunk of a bucket but the last says how full it is;
 *  - `next` is at most the start of every bucket that is not empty;
 *  - memory for one entry per slot is always there, so nothing but taking a new slot can fail.
 */
#ifndef TICKWHEEL_WHEEL_PRIVATE_H
#define TICKWHEEL_WHEEL_PRIVATE_H

#include <tickwheel/wheel.h>

#include <assert.h>

enum {
    DIGIT_BITS = 8,
    BUCKETS = 1 << DIGIT_BITS, /* of one level */
    LEVELS = 64 / DIGIT_BITS,
    CHUNK_SIZE = 512,
    CHUNK_ENTRIES = (CHUNK_SIZE - 16) / 8,
    SEGMENT_BITS = 16,
    SEGMENT_SLOTS = 1 << SEGMENT_BITS, /* of 32 bytes: 2 MiB, one huge page */
    PREFETCH_DISTANCE = 12,            /* misses in flight while firing; flat between 8 and 24 */
    PREFETCH_WRITE = 8,
    STALE_SLACK = 1024                 /* stale entries not worth a sweep */
};

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* One timer, or a free slot. 32 bytes, so that none straddles a cache line. */
struct record {
    uint64_t due;      /* deadline; TW_NEVER while unarmed or free */
    uint64_t entry_at; /* tick of the entry that counts; TW_NEVER when there is none */
    uint64_t data;     /* the caller's */
    uint32_t
        generation; /* of the tenant, or of the next one while free; GENERATION_LAST: retired */
    uint32_t is_opened : 1;
    uint32_t seen : 31; /* the sweep that last kept the entry that counts; 0 when it is newer */
};

/* A slot whose generations are used up is never let again, so no handle ever comes back to life. */
#define GENERATION_LAST UINT32_MAX

/* An entry of a bucket. Above level 3 the record's entry_at gives the upper half of the tick. */
struct entry {
    uint32_t tick_low;
    uint32_t index;
};

/* The unit in which buckets grow. Aligned to its size: a write position at a multiple of CHUNK_SIZE
 * has no room left. */
struct chunk {
    union {
        struct chunk *next;
        uint64_t size_of_the_field; /* the same layout whatever a pointer's size */
    };
    uint32_t count; /* entries; valid once the chunk is not its bucket's last */
    uint32_t stamp; /* the sweep during which it joined its bucket */
    struct entry entries[CHUNK_ENTRIES];
};

/* First in, first out, so that a timer re-armed for the same tick cannot starve the others. */
struct bucket {
    struct chunk *head; /* NULL when empty */
    struct entry *end;  /* where the next entry goes, in the last chunk; NULL when empty */
};

/* Chunks are allocated in blocks. The first chunk of a block is this header. */
struct block {
    struct block *next;
    size_t size;
    struct chunk *fresh; /* first chunk never used yet */
    struct chunk *end;
};

struct tw_wheel {
    /* Time. cursor <= now; they differ only while something due is left. */
    uint64_t next;   /* no bucket that is not empty starts sooner */
    uint64_t now;    /* the latest time given */
    uint64_t cursor; /* everything before it is out; buckets are placed relative to it */

    /* Slab. */
    struct record **segments;
    uint32_t **free_segments; /* a stack of free slots, cut like the slab */
    uint32_t slot_count;      /* slots ever let */
    uint32_t slot_capacity;
    uint32_t free_count;
    uint32_t retired_count;
    uint32_t segment_capacity; /* of the two directories */
    uint32_t timer_count_max;

    /* Counters. */
    uint32_t armed_count;   /* records with due != TW_NEVER */
    uint32_t entered_count; /* records with entry_at != TW_NEVER */
    uint64_t stale_count;   /* entries that do not count: entered + stale are all there are */
    uint64_t visit_count;   /* entries looked at or moved, ever; tests bound work with it */

    /* The chunk being fired, all of its entries at the cursor; taken off its bucket. */
    struct chunk *run;
    uint32_t run_next;
    uint32_t run_count;
    uint32_t opening; /* level whose bucket at the cursor is being moved down; 0 for none */

    /* The sweep over stale entries: from level 0 upwards, one chunk at a time. */
    uint32_t sweep; /* number of the sweep, never 0 */
    uint32_t sweep_credit;
    uint32_t sweep_level;
    uint32_t sweep_slot;
    bool sweep_is_running;
    bool sweep_is_inside; /* the bucket's old chunks are being rotated */

    /* Chunks. */
    struct chunk *chunk_free;
    struct block *blocks;
    struct block *block_fresh; /* the first block that has fresh chunks, or the last */
    uint32_t chunk_capacity;
    uint32_t chunk_used;
    size_t memory;

    void *(*allocate)(void *context, size_t alignment, size_t size);
    void (*release)(void *context, void *memory, size_t size);
    void *context;

    uint32_t level_bits; /* levels that have a bucket that is not empty */
    uint64_t bits[LEVELS][BUCKETS / 64];
    struct bucket buckets[LEVELS][BUCKETS];
};

/* wheel_memory.c: slots and chunks. */

/* Room for at least one more slot, or for `count` in all. False, nothing changed for the worse,
 * when out of memory. */
bool tw__wheel_grow(struct tw_wheel *wheel, uint64_t count);

/* Writes to every page of the memory for `count` timers. */
void tw__wheel_touch(struct tw_wheel *wheel, uint64_t count);

/* A chunk from the pool. The pool grows if it must; where there is no memory, all stale entries are
 * swept, after which there is a chunk. So it cannot fail, but buckets may have changed. */
struct chunk *tw__wheel_chunk_take(struct tw_wheel *wheel);

/* The same out of what the pool has, which the sweep's reserve guarantees. */
struct chunk *tw__wheel_chunk_pop(struct tw_wheel *wheel);

/* Gives a chunk, off its bucket, back to the pool. */
static inline void tw__wheel_chunk_give(struct tw_wheel *wheel, struct chunk *chunk)
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

/* Makes room for one entry in a bucket without any and returns where it goes. */
struct entry *tw__wheel_bucket_extend(struct tw_wheel *wheel, unsigned level, unsigned slot);

/* Makes `chunk` the last of the bucket, however full the one before is. */
void tw__wheel_bucket_link(struct tw_wheel *wheel, unsigned level, unsigned slot,
                           struct chunk *chunk);

/* Takes the first chunk off a bucket that is not empty; its count is valid. */
struct chunk *tw__wheel_bucket_detach(struct tw_wheel *wheel, unsigned level, unsigned slot);

/* The soonest bucket that is not empty; false when all are empty. O(1). */
bool tw__wheel_bucket_first(const struct tw_wheel *wheel, unsigned *ret_level, unsigned *ret_slot);

/* The first tick of a bucket. */
uint64_t tw__wheel_bucket_start(const struct tw_wheel *wheel, unsigned level, unsigned slot);

/* wheel_sweep.c: stale entries. */

/* Called for each new stale entry: pays a portion of a sweep when there are too many. */
void tw__wheel_sweep_pay(struct tw_wheel *wheel);

/* Sweeps all: afterwards no entry is stale. O(entries); only for want of memory. */
void tw__wheel_sweep_all(struct tw_wheel *wheel);

/* Whether a record's entry is one that lies in this bucket with these low bits. */
static inline bool tw__wheel_entry_counts(const struct record *record, struct entry entry,
                                          unsigned level, uint64_t start)
{
    return (uint32_t)record->entry_at == entry.tick_low && record->entry_at != TW_NEVER &&
           (record->entry_at ^ start) >> (level * DIGIT_BITS) == 0;
}

/* The chunk in which a bucket's end lies; the bucket is not empty. */
static inline struct chunk *tw__wheel_chunk_of(struct entry *end)
{
    return (struct chunk *)(((uintptr_t)end - 1) & ~(uintptr_t)(CHUNK_SIZE - 1));
}

/* The hot paths, inlined into schedule, arm and expire alike. */

static inline struct record *tw__wheel_record(const struct tw_wheel *wheel, uint32_t index)
{
    return &wheel->segments[index >> SEGMENT_BITS][index & (SEGMENT_SLOTS - 1)];
}

/* NULL if the handle is stale. */
static inline struct record *tw__wheel_lookup(const struct tw_wheel *wheel, tw_handle timer)
{
    uint32_t index = (uint32_t)timer;
    if (UNLIKELY(index >= wheel->slot_count))
        return NULL;
    struct record *record = tw__wheel_record(wheel, index);
    return LIKELY(record->generation == (uint32_t)(timer >> 32)) ? record : NULL;
}

/* The level on which `tick` lies. */
static inline unsigned tw__wheel_level(const struct tw_wheel *wheel, uint64_t tick)
{
    return (63u - (unsigned)__builtin_clzll((tick ^ wheel->cursor) | 1)) / DIGIT_BITS;
}

/* Puts an entry at `tick`, which is not before the cursor. Cannot fail. */
static inline void tw__wheel_append(struct tw_wheel *wheel, uint64_t tick, uint32_t index)
{
    unsigned level = tw__wheel_level(wheel, tick);
    unsigned slot = (unsigned)(tick >> (level * DIGIT_BITS)) & (BUCKETS - 1);
    struct bucket *bucket = &wheel->buckets[level][slot];
    struct entry *entry = bucket->end;
    if (UNLIKELY(((uintptr_t)entry & (CHUNK_SIZE - 1)) == 0))
        entry = tw__wheel_bucket_extend(wheel, level, slot);
    __builtin_prefetch(entry + PREFETCH_WRITE, 1);
    entry->tick_low = (uint32_t)tick;
    entry->index = index;
    bucket->end = entry + 1;
}

/* Gives a record without an entry one for `deadline`, which is not TW_NEVER. */
static inline void tw__wheel_enter(struct tw_wheel *wheel, struct record *record, uint32_t index,
                                   uint64_t deadline)
{
    uint64_t tick = deadline > wheel->cursor ? deadline : wheel->cursor;
    record->entry_at = tick;
    record->seen = 0;
    wheel->entered_count++;
    tw__wheel_append(wheel, tick, index);
}

/* Ends a tenancy: all handles to the slot are stale from here on. An entry that is still in a
 * bucket stays the slot's, for the next tenant to use or for expire to drop. */
static inline void tw__wheel_slot_give(struct tw_wheel *wheel, struct record *record,
                                       uint32_t index)
{
    record->due = TW_NEVER;
    if (UNLIKELY(++record->generation == GENERATION_LAST)) {
        wheel->retired_count++;
        return;
    }
    uint32_t place = wheel->free_count++;
    wheel->free_segments[place >> SEGMENT_BITS][place & (SEGMENT_SLOTS - 1)] = index;
}

#endif
