/*
 * wheel_private.h - the data structures of the wheel and its hot paths, shared by wheel*.c and
 * their tests only.
 *
 * A timer is a record in the slab; its place in time is an entry of 8 bytes in a bucket. Level l
 * has 256 buckets of 256^l ticks. An entry is on the level of the highest digit (base 256) in which
 * its tick differs from the cursor, in the bucket of that digit; so eight levels hold every 64-bit
 * tick, and all entries of a level are sooner than those of the next.
 *
 * The record decides; the entry is only a reminder to read it. An entry counts only if the record
 * refers to it, which makes cancel and reschedule cheap: cancel marks the record; a later deadline
 * changes the record, and the entry is moved when its bucket is reached. Only an earlier deadline
 * needs a new entry and makes the old entry stale; the sweep bounds their number.
 *
 * An entry has room for 32 bits of its tick. On the levels below LEVEL_FAR the cursor has the other
 * bits, so the tick is known without reading the record. Above, an entry only means "not before
 * this bucket": when the bucket is opened, the timer is entered again at its due.
 *
 * A function reads and writes the 16 bytes of the record, which are in one line of the cache, and
 * most often nothing else of the slot. 32 bits of the record are the tick of the entry and the
 * deadline, while these are one. A timer that was moved to a later deadline has two ticks, and the
 * record has the deadline: as long as the slot has no stale entry, any entry of it is the one that
 * counts. Another array has the second tick for a slot that may have stale entries, and deadlines
 * that need 64 bits: those 2^32 ticks away, and overdue ones.
 *
 * Invariants (tw_wheel_check proves them):
 *  - an armed record has an entry that counts, at or before its due; only a timer armed when it was
 *    already overdue has a later entry, at the cursor;
 *  - no entry is before the cursor; every chunk of a chain but the last stores its number of
 *    entries;
 *  - `next` is at most the start of every non-empty bucket;
 *  - memory for one entry per slot is always allocated, so that only taking a new slot can fail.
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
    PREFETCH_DISTANCE = 40, /* records prefetched ahead while firing */
    FREE_TOP = 32,          /* free slots that are known without reading a record */
    STALE_SLACK = 4096      /* stale entries that do not start a sweep */
};

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A slot: whether a handle or an entry is valid, the deadline, and the data. */
struct wheel_record {
    uint32_t generation; /* generation << 5 | opened << 4 | armed << 3 | state | no_stale */
    uint32_t tick_low;   /* low half of a tick, of which one depends on the state */
    union {
        uint64_t data; /* the caller's */
        struct {
            uint32_t below; /* of a free slot: the one FREE_TOP places below it on the stack */
            uint32_t mark;  /* the runner's, see wheel_runner.h; stays while the slot is free */
        };
    };
};

/* The state in a record's generation: where the slot's entry is, and the deadline last set. */
enum {
    STATE_NONE = 0, /* no entry */
    STATE_WIDE = 2, /* the deadline is in `wheel_extra`; `tick_low` is of the entry, which is on any
                        level, not after the deadline or at the cursor */
    STATE_NEAR = 4, /* the entry is below LEVEL_FAR, at the deadline: `tick_low` is of both */
    STATE_MOVED = 6, /* the entry is below LEVEL_FAR, not after the deadline; `tick_low` is of the
                        deadline, which has the cursor's upper half too */
    STATE_MASK = 6
};

#define NO_STALE        1u /* the slot never had a second entry, so any entry of it counts */
#define IS_ARMED        8u
#define NOT_IN_HANDLE   15u /* bits that are not part of a handle */
#define IS_OPENED       16u
#define GENERATION_STEP 32u

/* A slot whose generations are used up is not used again, so that no stale handle becomes valid. At
 * ten million timers a second through one slot this costs two bytes a second. */
#define GENERATION_RETIRED 0xffffffe0u

/* What some slots need besides the record. */
union wheel_extra {
    uint32_t entry_tick; /* STATE_MOVED without NO_STALE: low half of the tick of the entry */
    uint64_t due;        /* STATE_WIDE: the deadline last set */
};

/* The slab is arrays over the slots, in pieces of SEGMENT_SLOTS elements that never move. */
struct wheel_segment {
    struct wheel_record records[SEGMENT_SLOTS];
};

/* These are written only when a timer needs them, so until then they take no pages. */
struct wheel_extras {
    union wheel_extra extras[SEGMENT_SLOTS];
    uint64_t kept[SEGMENT_SLOTS / 64]; /* a bit per slot: the sweep has kept its entry */
};

/* The pieces of one of the arrays. */
struct wheel_directory {
    /* The address of element 0 of the array if all pieces lay where this one is: without a mask the
     * address of any element of the piece is an addition away. */
    uintptr_t *origins;
    uint32_t count;
    uint32_t capacity; /* of `origins` */
};

/* An entry of a bucket. */
struct wheel_entry {
    uint32_t tick_low;
    uint32_t index;
};

/* The unit by which buckets grow. Aligned to its size: a write position at a multiple of CHUNK_SIZE
 * has no room left. */
struct wheel_chunk {
    union {
        struct wheel_chunk *next;
        uint64_t size_of_the_field; /* one layout for all pointer sizes */
    };
    uint32_t count; /* entries; valid once the chunk is not its bucket's last */
    uint32_t stamp; /* number of the sweep during which it joined its bucket */
    struct wheel_entry entries[CHUNK_ENTRIES];
};

/* A sequence of entries: chunks linked from `head`, filled up to `end`, which is in the last chunk.
 */
struct wheel_chain {
    struct wheel_chunk *head;  /* NULL when there is no chunk */
    struct wheel_entry *end;   /* position of the next entry */
    struct wheel_entry *limit; /* end of the room */
};

/* One cache line. Most buckets hold only a few entries, which are in the line itself; further
 * entries go to chunks. A bucket is taken whole, so the entries in the line are the oldest: first
 * in, first out, and a timer armed again and again for one tick cannot starve the others. */
struct wheel_bucket {
    /* With end NULL the bucket is empty; with head NULL end is in `inlined`. */
    _Alignas(LINE_SIZE) struct wheel_chain chain;
    struct wheel_entry inlined[BUCKET_INLINED];
};

/* Chunks are allocated in blocks. The first chunk of a block is this header. */
struct wheel_block {
    struct wheel_block *next;
    size_t size;
    struct wheel_chunk *fresh; /* first chunk that was never used */
    struct wheel_chunk *end;
};

/* Pieces of the slab that were allocated together; a list, freed by destroy. */
struct wheel_arena {
    struct wheel_arena *next;
    size_t size;
};

struct tw_wheel {
    /* The fields that every call needs are in one cache line. Time: cursor <= now, and they differ
     * only while due timers are left. */
    union {
        _Alignas(LINE_SIZE) struct tw_wheel_clock_ clock; /* as the inline functions see it */
        struct {
            uint64_t next;   /* no non-empty bucket starts before */
            uint64_t now;    /* latest time passed to expire */
            uint64_t cursor; /* every entry before it was handled; levels are relative to it */
        };
    };
    uint32_t slot_count; /* slots ever used */
    uint32_t fresh_end;  /* end of the slots, never used, that are taken next; 0 if free ones are */
    uintptr_t fresh_record; /* the record of the first of them */
    uint32_t free_count;    /* free slots: a stack, whose top is in `free_top` */
    uint32_t armed_count;   /* armed records */
    uint64_t near_end;      /* see tw__wheel_set_ends */
    uint64_t quick_end;

    struct wheel_directory segments;
    uint32_t words;         /* a bit per non-zero word of `bits` */
    uint32_t slot_capacity; /* slots for which all memory is allocated */
    struct wheel_directory extras;
    uint64_t stale_count; /* entries that do not count */
    uint64_t stale_limit; /* 0 during a sweep; may be too low when slots were added */
    uint32_t retired_count;
    uint32_t timer_count_max;
    uint32_t stale_slack; /* STALE_SLACK and TW_WHEEL_MOVES_MAX; tests lower them */
    uint32_t moves_max;
    uint64_t visit_count; /* entries read or moved since creation; tests bound the work with it */

    /* The bucket at the cursor, taken out of the array: fired if of level 0, otherwise moved down.
     */
    enum { PHASE_NONE, PHASE_FIRING, PHASE_OPENING } phase;
    uint32_t opening_level; /* level of the bucket that is being opened */
    struct wheel_chain taken;
    uint64_t opened_count; /* entries moved out of that bucket so far */
    uint32_t run_next;
    uint32_t run_count;
    uint32_t run[CHUNK_ENTRIES]; /* timers to fire, from run_next to run_count; then those in
                                    `taken` */

    /* The sweep over stale entries: clears `kept`, then visits all buckets from level 0 up, one
     * chunk at a time. */
    enum { SWEEP_IDLE, SWEEP_KEPT, SWEEP_BUCKETS } sweep_phase;
    bool sweep_is_inside;  /* the old chunks of the present bucket are being rotated */
    uint32_t sweep_number; /* stamp of new chunks */
    uint32_t sweep_credit;
    uint32_t sweep_level;
    uint32_t sweep_slot; /* bucket of the level; for SWEEP_KEPT, piece of `extras` */

    /* Chunks. */
    struct wheel_chunk *chunk_free;
    struct wheel_block *blocks;
    struct wheel_block *block_fresh; /* first block with fresh chunks, or the last block */
    uint32_t chunk_capacity;
    uint32_t chunk_used;

    /* Memory. */
    struct wheel_arena *arenas; /* pieces are allocated many at a time */
    struct memory memory;

    /* The FREE_TOP free slots that are taken next: the one with n others below it is at n modulo
     * FREE_TOP. Each record has the slot that gets its place, so the stack takes no memory, and
     * slots can be prefetched that many ahead. */
    uint32_t free_top[FREE_TOP];

    uint64_t bits[LEVELS * LEVEL_WORDS]; /* a bit per non-empty bucket */
    struct wheel_bucket *levels[64]; /* the level of a tick, by the highest bit in which it differs
                                        from the cursor */
    _Alignas(LINE_SIZE) struct wheel_bucket buckets[LEVELS][BUCKETS];
};

_Static_assert(offsetof(struct tw_wheel, next) == offsetof(struct tw_wheel_clock_, next_) &&
                   offsetof(struct tw_wheel, now) == offsetof(struct tw_wheel_clock_, now_) &&
                   offsetof(struct tw_wheel, cursor) == offsetof(struct tw_wheel_clock_, cursor_),
               "programs built with an earlier release read these places");

/* wheel_memory.c: slots and chunks. */

/* Makes room for `count` slots in total. False when out of memory; memory added so far stays. */
bool tw__wheel_grow(struct tw_wheel *wheel, uint64_t count);

/* Writes to every page of the memory that `count` timers need to be created and to fire. */
void tw__wheel_touch(struct tw_wheel *wheel, uint64_t count);

/* Takes a chunk from the pool, which grows if it is empty. Without memory all stale entries are
 * swept, which frees a chunk. So it cannot fail, but buckets may change. */
struct wheel_chunk *tw__wheel_chunk_take(struct tw_wheel *wheel);

/* Takes a chunk that is in the pool; the sweep's reserve guarantees one. */
struct wheel_chunk *tw__wheel_chunk_pop(struct tw_wheel *wheel);

/* Gives a chunk that is in no bucket back to the pool. */
static inline void tw__wheel_chunk_give(struct tw_wheel *wheel, struct wheel_chunk *chunk)
{
    chunk->next = wheel->chunk_free;
    wheel->chunk_free = chunk;
    wheel->chunk_used--;
}

/* The most slots: the indices of one more segment would not fit into 32 bits. */
#define SLOTS_MAX (UINT32_MAX - SEGMENT_SLOTS + 1)

/* Chunks reserved for the sweep; other functions do not take them. */
#define CHUNKS_SPARE 2

/* Chunks that must exist so that one entry for each of `slots` fits, whatever their buckets. */
uint64_t tw__wheel_chunks_needed(uint64_t slots);

/* wheel_bucket.c: entries in buckets. */

/* Sets `near_end` and `quick_end` by the cursor and the sweep: deadlines from the cursor until
 * before `near_end` have the cursor's upper half, and an entry for one before `quick_end` needs no
 * more than an append. The last tick below each multiple of 2^32 counts as far, so that TW_NEVER
 * does. After the cursor has moved both may be too low, never too high, so that only slow paths
 * need to call this. */
void tw__wheel_set_ends(struct tw_wheel *wheel);

/* Appends to a bucket without room. */
void tw__wheel_append_extending(struct tw_wheel *wheel, unsigned shift, uint64_t tick,
                                uint32_t index);

/* Makes room in the bucket of a deadline, if it is full and the deadline is quick. False if that
 * changed nothing. */
bool tw__wheel_make_room(struct tw_wheel *wheel, uint64_t deadline);

/* Enters an entry when tw__wheel_enter_quickly has refused: far entries, any entry while a sweep
 * visits the buckets, and a bucket without room. */
void tw__wheel_enter_slowly(struct tw_wheel *wheel, struct wheel_record *record, uint32_t index,
                            uint32_t generation, uint64_t deadline);

/* Empties a non-empty bucket: the entries in its line go to `inlined`, the others to wheel->taken.
 * Returns the number of `inlined` entries. */
unsigned tw__wheel_bucket_take(struct tw_wheel *wheel, unsigned level, unsigned slot,
                               struct wheel_entry *inlined);

/* Makes `chunk` the last of the chain, even if the chunk before is not full. */
void tw__wheel_chain_link(struct tw_wheel *wheel, struct wheel_chain *chain,
                          struct wheel_chunk *chunk);

/* Removes the first chunk of a chain that has one; its count is valid. */
struct wheel_chunk *tw__wheel_chain_detach(struct wheel_chain *chain);

/* wheel_sweep.c: stale entries. */

/* Called for a new stale entry when there are more than `stale_limit`: renews the limit, or does a
 * portion of a sweep. Returns true, so that it can be a function's last call. */
bool tw__wheel_sweep_pay(struct tw_wheel *wheel);

/* Counts a new stale entry, and pays for it. Returns true. */
static inline bool tw__wheel_count_stale(struct tw_wheel *wheel)
{
    return LIKELY(++wheel->stale_count <= wheel->stale_limit) || tw__wheel_sweep_pay(wheel);
}

/* Sweeps all buckets: afterwards no entry is stale. O(entries); used only when memory is short. */
void tw__wheel_sweep_all(struct tw_wheel *wheel);

/* The chunk that contains a chain's end. */
static inline struct wheel_chunk *tw__wheel_chunk_of(struct wheel_entry *end)
{
    return (struct wheel_chunk *)(((uintptr_t)end - 1) & ~(uintptr_t)(CHUNK_SIZE - 1));
}

/* The hot paths, inlined into schedule, arm and expire. */

/* Prefetches a line into the second level of the cache. The first level handles few misses at a
 * time, and a processor may drop further prefetches meanwhile: a Zen 4 dropped a quarter of a
 * bucket's records, each of which then cost a full wait when it fired. */
static inline void tw__prefetch(const void *memory)
{
    __builtin_prefetch(memory, 0, 2);
}

/* Prefetches a line that will be written, so that the store does not wait for it. */
static inline void tw__prefetch_to_write(const void *memory)
{
    __builtin_prefetch(memory, 1);
}

/* The address of an element of one of the slab's arrays. */
static inline void *tw__wheel_element(const struct wheel_directory *directory, uint32_t index,
                                      size_t size)
{
    return (void *)(directory->origins[index >> SEGMENT_BITS] + (uintptr_t)index * size);
}

static inline struct wheel_record *tw__wheel_record(const struct tw_wheel *wheel, uint32_t index)
{
    return tw__wheel_element(&wheel->segments, index, sizeof(struct wheel_record));
}

static inline struct wheel_extras *tw__wheel_extras(const struct tw_wheel *wheel, uint32_t piece)
{
    return tw__wheel_element(&wheel->extras, piece << SEGMENT_BITS, sizeof(union wheel_extra));
}

static inline union wheel_extra *tw__wheel_extra(const struct tw_wheel *wheel, uint32_t index)
{
    return tw__wheel_element(&wheel->extras, index, sizeof(union wheel_extra));
}

static inline uint64_t *tw__wheel_kept(const struct tw_wheel *wheel, uint32_t index)
{
    struct wheel_extras *piece = tw__wheel_extras(wheel, index >> SEGMENT_BITS);
    return &piece->kept[(index & (SEGMENT_SLOTS - 1)) / 64];
}

/* Prefetches what a timer that is about to fire needs. */
static inline void tw__wheel_prefetch(const struct tw_wheel *wheel, uint32_t index)
{
    tw__prefetch(tw__wheel_record(wheel, index));
}

static inline tw_handle tw__wheel_handle(uint32_t generation, uint32_t index)
{
    return (tw_handle)(generation & ~NOT_IN_HANDLE) << 32 | index;
}

/* The record of a handle; NULL if the handle is stale. */
static inline struct wheel_record *tw__wheel_lookup(const struct tw_wheel *wheel, tw_handle timer)
{
    if (UNLIKELY((uint32_t)timer >= wheel->slot_count))
        return NULL;
    struct wheel_record *record = tw__wheel_record(wheel, (uint32_t)timer);
    bool is_good = (record->generation ^ (uint32_t)(timer >> 32)) <= NOT_IN_HANDLE;
    return LIKELY(is_good) ? record : NULL;
}

/* The tick with the cursor's upper half and this low half, which no entry below LEVEL_FAR and no
 * deadline of STATE_NEAR or STATE_MOVED leaves: the cursor does not pass an entry. */
static inline uint64_t tw__wheel_near_tick(const struct tw_wheel *wheel, uint32_t tick_low)
{
    return (wheel->cursor & ~(uint64_t)UINT32_MAX) | tick_low;
}

/* Whether a deadline is known to be near: not overdue, and with the cursor's upper half. */
static inline bool tw__wheel_is_near(const struct tw_wheel *wheel, uint64_t deadline)
{
    return deadline >= wheel->cursor && deadline < wheel->near_end;
}

/* The deadline last set for a slot that has an entry. */
static inline uint64_t tw__wheel_due(const struct tw_wheel *wheel,
                                     const struct wheel_record *record, uint32_t index)
{
    if (UNLIKELY((record->generation & STATE_MASK) == STATE_WIDE))
        return tw__wheel_extra(wheel, index)->due;
    return tw__wheel_near_tick(wheel, record->tick_low);
}

/* Whether the entry of a bucket on that level is the one of its record. Of entries of one record
 * that look equal the first to be reached is: two at one tick are alike, and of far entries only 32
 * bits can be compared. */
static inline bool tw__wheel_counts(const struct tw_wheel *wheel, const struct wheel_record *record,
                                    struct wheel_entry entry, unsigned level)
{
    uint32_t state = record->generation & STATE_MASK;
    if (LIKELY(record->generation & NO_STALE))
        return true;
    if (state == STATE_MOVED)
        return level < LEVEL_FAR &&
               tw__wheel_extra(wheel, entry.index)->entry_tick == entry.tick_low;
    bool can_be = level < LEVEL_FAR ? state != STATE_NONE : state == STATE_WIDE;
    return can_be && record->tick_low == entry.tick_low;
}

/* The level of `tick`, times DIGIT_BITS. */
static inline unsigned tw__wheel_shift(const struct tw_wheel *wheel, uint64_t tick)
{
    return ((unsigned)__builtin_clzll((tick ^ wheel->cursor) | 1) ^ 63u) & ~(DIGIT_BITS - 1u);
}

/* The chain of the bucket of `tick`, which differs from the cursor in `bit` at most. */
static inline struct wheel_chain *tw__wheel_chain_at(struct tw_wheel *wheel, unsigned bit,
                                                     uint64_t tick)
{
    unsigned shift = bit & ~(DIGIT_BITS - 1u);
    return &wheel->levels[bit][(tick >> shift) & (BUCKETS - 1)].chain;
}

/* Appends to a chain with room. Many buckets are filled alternately, too many for the hardware
 * prefetcher. A single prefetch is not dropped, so this one goes to the first level of the cache.
 */
static inline void tw__wheel_chain_push(struct wheel_chain *chain, struct wheel_entry entry)
{
    struct wheel_entry *end = chain->end;
    end->tick_low = entry.tick_low;
    __builtin_prefetch(end + LINE_SIZE / sizeof(*end), 1);
    end->index = entry.index;
    chain->end = end + 1;
}

/* Appends an entry at `tick`, which is not before the cursor and on that level. Cannot fail. */
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

/* Appends an entry for `deadline`. Returns false and changes nothing when that is not quick: for
 * deadlines not after `cursor` or not before `quick_end`, which are the wheel's, and for full
 * buckets. */
static inline bool tw__wheel_append_between(struct tw_wheel *wheel, uint64_t cursor,
                                            uint64_t quick_end, uint32_t index, uint64_t deadline)
{
    if (UNLIKELY(deadline <= cursor || deadline >= quick_end))
        return false;
    uint32_t tick = (uint32_t)deadline;
    uint32_t differs = tick ^ (uint32_t)cursor; /* not 0: both have the upper half of the cursor */
    struct wheel_chain *chain =
        tw__wheel_chain_at(wheel, (unsigned)__builtin_clz(differs) ^ 31u, tick);
    if (UNLIKELY(chain->end == chain->limit))
        return false;
    tw__wheel_chain_push(chain, (struct wheel_entry){tick, index});
    return true;
}

static inline bool tw__wheel_append_quickly(struct tw_wheel *wheel, uint32_t index,
                                            uint64_t deadline)
{
    return tw__wheel_append_between(wheel, wheel->cursor, wheel->quick_end, index, deadline);
}

/* Gives a record a new entry for `deadline` and makes it the entry that counts. `generation` is the
 * record's without a state. Returns false and changes nothing when that is not quick. */
static inline bool tw__wheel_enter_quickly(struct tw_wheel *wheel, struct wheel_record *record,
                                           uint32_t index, uint32_t generation, uint64_t deadline)
{
    if (UNLIKELY(!tw__wheel_append_quickly(wheel, index, deadline)))
        return false;
    record->generation = generation | STATE_NEAR;
    record->tick_low = (uint32_t)deadline;
    return true;
}

/* Gives a record a new entry for `deadline`, which is not TW_NEVER, in every case. */
static inline void tw__wheel_enter(struct tw_wheel *wheel, struct wheel_record *record,
                                   uint32_t index, uint32_t generation, uint64_t deadline)
{
    if (UNLIKELY(!tw__wheel_enter_quickly(wheel, record, index, generation, deadline)))
        tw__wheel_enter_slowly(wheel, record, index, generation, deadline);
}

/* Handles a record whose entry was reached, but not at the deadline of an armed timer: enters the
 * timer again if it is armed. */
static inline void tw__wheel_enter_again(struct tw_wheel *wheel, struct wheel_record *record,
                                         uint32_t index)
{
    uint32_t generation = record->generation & ~(uint32_t)STATE_MASK;
    uint64_t due = tw__wheel_due(wheel, record, index);
    record->generation = generation;
    if (generation & IS_ARMED)
        tw__wheel_enter(wheel, record, index, generation, due);
}

/* The first tick of a bucket. */
static inline uint64_t tw__wheel_bucket_start(const struct tw_wheel *wheel, unsigned level,
                                              unsigned slot)
{
    unsigned shift = level * DIGIT_BITS;
    uint64_t above = level == LEVELS - 1 ? 0 : ~UINT64_C(0) << (shift + DIGIT_BITS);
    return (wheel->cursor & above) | (uint64_t)slot << shift;
}

/* Finds the soonest non-empty bucket and returns its first tick; TW_NEVER when all are empty.
 * Without a loop and without a branch that depends on the bucket, because such a branch would be
 * mispredicted at each tick. */
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

/* Puts a slot on the stack of free slots. */
static inline void tw__wheel_push_free(struct tw_wheel *wheel, struct wheel_record *record,
                                       uint32_t index)
{
    uint32_t *place = &wheel->free_top[wheel->free_count++ % FREE_TOP];
    record->below = *place;
    *place = index;
}

/* Frees a slot: all its handles are stale from now on. An entry that is still in a bucket stays the
 * slot's: the next timer of the slot uses it, or expire drops it. */
static inline void tw__wheel_slot_give(struct tw_wheel *wheel, struct wheel_record *record,
                                       uint32_t index)
{
    uint32_t generation = record->generation & ~(IS_OPENED | IS_ARMED);
    generation += GENERATION_STEP;
    record->generation = generation;
    if (UNLIKELY(generation >= GENERATION_RETIRED))
        wheel->retired_count++;
    else
        tw__wheel_push_free(wheel, record, index);
    wheel->fresh_end = 0;
}

/* IS_OPENED or 0. Passing a valid handle of one kind to a function for the other kind is a bug in
 * the caller. */
static inline uint32_t tw__wheel_kind_of(tw_handle timer)
{
    return (uint32_t)(timer >> 32) & IS_OPENED;
}

/* Removes a record's deadline and returns whether it had one. The early return is deliberate: a
 * counter that depended on the value just read would make each call wait for the call before it. */
static inline bool tw__wheel_clear_deadline(struct tw_wheel *wheel, struct wheel_record *record)
{
    if (UNLIKELY(!(record->generation & IS_ARMED)))
        return false;
    wheel->armed_count--;
    record->generation &= ~IS_ARMED;
    return true;
}

/* Frees the slot of a timer. False if the handle is stale. */
static inline bool tw__wheel_end(struct tw_wheel *wheel, tw_handle timer, uint32_t kind)
{
    struct wheel_record *record = tw__wheel_lookup(wheel, timer);
    (void)kind; /* used by assert() only */
    if (UNLIKELY(!record))
        return false;
    assert(tw__wheel_kind_of(timer) == kind);
    (void)tw__wheel_clear_deadline(wheel, record);
    tw__wheel_slot_give(wheel, record, (uint32_t)timer);
    return true;
}

#endif
