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
    BUCKETS = 1 << DIGIT_BITS, /* buckets of each level */
    LEVELS = 64 / DIGIT_BITS,
    LEVEL_WORDS = BUCKETS / 64,
    LEVEL_FAR = 32 / DIGIT_BITS,
    CHUNK_SIZE = 512,
    CHUNK_ENTRIES = (CHUNK_SIZE - 16) / 8,
    LINE_SIZE = 64,
    BUCKET_INLINED = (LINE_SIZE - 3 * sizeof(void *)) / 8,
    SEGMENT_BITS = 12,
    SEGMENT_SLOTS = 1 << SEGMENT_BITS,
    PREFETCH_DISTANCE = 40, /* number of records by which firing prefetches ahead */
    FREE_TOP = 32,          /* number of free slots that are known without reading a record */
    STALE_SLACK = 4096      /* number of stale entries that do not start a sweep */
};

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A slot: whether a handle or an entry is valid, the deadline, and the data. */
struct wheel_record {
    uint32_t generation; /* generation << 5 | opened << 4 | armed << 3 | state | no_stale */
    uint32_t tick_low;   /* low half of a tick; the state tells which */
    union {
        uint64_t data; /* passed back to the caller */
        struct {
            uint32_t below; /* of a free slot: slot that is FREE_TOP places below it on the stack */
            /* for the runner, see wheel_runner.h; keeps its value while the slot is free */
            uint32_t mark;
        };
    };
};

/* The state in the generation of a record. It tells where the entry of the slot is, and where the
 * deadline last set is. */
enum {
    STATE_NONE = 0, /* there is no entry */
    /* the deadline is in `wheel_extra`, and `tick_low` is that of the entry; the entry is on any
     * level, not after the deadline or at the cursor */
    STATE_WIDE = 2,
    /* the entry is below LEVEL_FAR and at the deadline; `tick_low` is that of both */
    STATE_NEAR = 4,
    /* the entry is below LEVEL_FAR and not after the deadline; `tick_low` is that of the deadline,
     * whose upper half is also that of the cursor */
    STATE_MOVED = 6,
    STATE_MASK = 6
};

/* the slot never had a second entry, so any entry of the slot is valid */
#define NO_STALE        1u
#define IS_ARMED        8u
#define NOT_IN_HANDLE   15u /* bits that are not part of a handle */
#define IS_OPENED       16u
#define GENERATION_STEP 32u

/* Generation of a slot whose generations are used up. It is not used again, so that no stale handle
 * becomes valid. With ten million timers a second in one slot, this costs two bytes a second. */
#define GENERATION_RETIRED 0xffffffe0u

/* What some slots need besides their record. */
union wheel_extra {
    uint32_t entry_tick; /* STATE_MOVED without NO_STALE: low half of the tick of the valid entry */
    uint64_t due;        /* STATE_WIDE: the deadline last set */
};

/* The slab consists of arrays over the slots, in pieces of SEGMENT_SLOTS elements that never
 * move. */
struct wheel_segment {
    struct wheel_record records[SEGMENT_SLOTS];
};

/* Written only when a timer needs them, so that until then they use no pages. */
struct wheel_extras {
    union wheel_extra extras[SEGMENT_SLOTS];
    uint64_t kept[SEGMENT_SLOTS / 64]; /* a bit for each slot: the sweep has kept its entry */
};

/* Finds the pieces of one of the arrays. */
struct wheel_directory {
    /* For each piece, the address that element 0 of the array would have if all pieces were
     * adjacent to this one. So the address of any element of the piece is one addition away,
     * without a mask. */
    uintptr_t *origins;
    uint32_t count;
    uint32_t capacity; /* number of elements of `origins` */
};

/* An entry in a bucket. */
struct wheel_entry {
    uint32_t tick_low;
    uint32_t index;
};

/* The unit by which buckets grow. It is aligned to its size, so a write position at a multiple of
 * CHUNK_SIZE has no room left. */
struct wheel_chunk {
    union {
        struct wheel_chunk *next;
        uint64_t size_of_the_field; /* makes the layout independent of the size of pointers */
    };
    uint32_t count; /* number of entries; valid if the chunk is not the last of its bucket */
    uint32_t stamp; /* number of the sweep during which it was added to its bucket */
    struct wheel_entry entries[CHUNK_ENTRIES];
};

/* A sequence of entries in chunks that are linked from `head`. It is filled up to `end`, which is
 * in the last chunk. */
struct wheel_chain {
    struct wheel_chunk *head;  /* NULL if there is no chunk */
    struct wheel_entry *end;   /* where the next entry is written */
    struct wheel_entry *limit; /* end of the room for entries */
};

/* A bucket, of one cache line. Most buckets have only a few entries, which are in the line itself;
 * further entries are in chunks. A bucket is emptied as a whole, so the entries in the line are the
 * oldest. So a timer that is armed again and again for one tick cannot starve the others. */
struct wheel_bucket {
    /* if `end` is NULL, the bucket is empty; if `head` is NULL, `end` is in `inlined` */
    _Alignas(LINE_SIZE) struct wheel_chain chain;
    struct wheel_entry inlined[BUCKET_INLINED];
};

/* A block of chunks that were allocated together. Its first chunk is this header. */
struct wheel_block {
    struct wheel_block *next;
    size_t size;
    struct wheel_chunk *fresh; /* first chunk that was never used */
    struct wheel_chunk *end;
};

/* Pieces of the slab that were allocated together. A list, freed by destroy. */
struct wheel_arena {
    struct wheel_arena *next;
    size_t size;
};

struct tw_wheel {
    /* The fields that every call needs are in one cache line. cursor <= now; they differ only while
     * due timers are left. */
    union {
        /* the same fields, as the inline functions of the header see them */
        _Alignas(LINE_SIZE) struct tw_wheel_clock_ clock;
        struct {
            uint64_t next;   /* no bucket with entries starts before this tick */
            uint64_t now;    /* latest time passed to expire */
            uint64_t cursor; /* all entries before it were handled; levels are relative to it */
        };
    };
    uint32_t slot_count; /* number of slots that were ever used */
    /* end of the slots, never used, that are taken next; 0 if free slots are taken instead */
    uint32_t fresh_end;
    uintptr_t fresh_record; /* record of the first of those slots */
    uint32_t free_count;    /* number of free slots; they are a stack, whose top is in `free_top` */
    uint32_t armed_count;   /* number of armed records */
    uint64_t near_end;      /* see tw__wheel_set_ends */
    uint64_t quick_end;

    struct wheel_directory segments;
    uint32_t words;         /* a bit for each word of `bits` that is not zero */
    uint32_t slot_capacity; /* number of slots for which all memory is allocated */
    struct wheel_directory extras;
    uint64_t stale_count; /* number of stale entries */
    /* number from which a sweep is needed; 0 during a sweep; may be too low after slots were
     * added */
    uint64_t stale_limit;
    uint32_t retired_count;
    uint32_t timer_count_max;
    uint32_t stale_slack; /* STALE_SLACK, and TW_WHEEL_MOVES_MAX; tests lower them */
    uint32_t moves_max;
    /* number of entries read or moved since creation; tests limit the work by it */
    uint64_t visit_count;

    /* The bucket at the cursor, which was taken out of the array: it is fired if it is of level 0,
     * otherwise its entries are moved down. */
    enum { PHASE_NONE, PHASE_FIRING, PHASE_OPENING } phase;
    uint32_t opening_level; /* level of the bucket that is being opened */
    struct wheel_chain taken;
    uint64_t opened_count; /* entries moved out of that bucket so far */
    uint32_t run_next;
    uint32_t run_count;
    /* timers to fire, from run_next to run_count; those in `taken` follow */
    uint32_t run[CHUNK_ENTRIES];

    /* The sweep over stale entries. It clears `kept`, then visits all buckets from level 0 up, one
     * chunk at a time. */
    enum { SWEEP_IDLE, SWEEP_KEPT, SWEEP_BUCKETS } sweep_phase;
    bool sweep_is_inside;  /* the old chunks of the current bucket are being rotated */
    uint32_t sweep_number; /* stamp of chunks that are added now */
    uint32_t sweep_credit;
    uint32_t sweep_level;
    uint32_t sweep_slot; /* bucket of the level; in SWEEP_KEPT, piece of `extras` */

    /* Chunks. */
    struct wheel_chunk *chunk_free;
    struct wheel_block *blocks;
    /* first block with chunks that were never used, or the last block */
    struct wheel_block *block_fresh;
    uint32_t chunk_capacity;
    uint32_t chunk_used;

    /* Memory. */
    struct wheel_arena *arenas; /* pieces are allocated many at a time */
    struct memory memory;

    /* The FREE_TOP free slots that are taken next. The one that has n others below it on the stack
     * is at n modulo FREE_TOP. Each record stores the slot that takes its place here, so the stack
     * needs no memory, and slots can be prefetched that many ahead. */
    uint32_t free_top[FREE_TOP];

    uint64_t bits[LEVELS * LEVEL_WORDS]; /* a bit for each bucket with entries */
    /* the buckets of a tick's level, by the highest bit in which the tick differs from the
     * cursor */
    struct wheel_bucket *levels[64];
    _Alignas(LINE_SIZE) struct wheel_bucket buckets[LEVELS][BUCKETS];
};

_Static_assert(offsetof(struct tw_wheel, next) == offsetof(struct tw_wheel_clock_, next_) &&
                   offsetof(struct tw_wheel, now) == offsetof(struct tw_wheel_clock_, now_) &&
                   offsetof(struct tw_wheel, cursor) == offsetof(struct tw_wheel_clock_, cursor_),
               "programs built with an earlier release read these places");

/* Sets `near_end` and `quick_end` according to the cursor and the sweep. Deadlines from the cursor
 * until before `near_end` have the upper half of the cursor. An entry for a deadline before
 * `quick_end` only needs to be appended. The last tick below each multiple of 2^32 counts as far,
 * so that TW_NEVER does. After the cursor has moved both may be too low but never too high, so only
 * slow paths need to call this. */
static inline void tw__wheel_set_ends(struct tw_wheel *wheel)
{
    wheel->near_end = wheel->cursor | UINT32_MAX;
    wheel->quick_end = wheel->sweep_phase == SWEEP_BUCKETS ? 0 : wheel->near_end;
}

/* wheel_memory.c: slots and chunks. */

/* Makes room for `count` slots in total. Returns false if out of memory; memory that was added
 * stays. */
bool tw__wheel_grow(struct tw_wheel *wheel, uint64_t count);

/* Writes to every page of the memory that `count` timers need when they are created and fire. */
void tw__wheel_touch(struct tw_wheel *wheel, uint64_t count);

/* Adds `chunks` chunks to the pool, or as many as one block has. Returns false if out of memory. */
bool tw__wheel_add_chunks(struct tw_wheel *wheel, uint64_t chunks);

/* Takes a chunk that is in the pool. The reserve for the sweep guarantees that there is one. */
struct wheel_chunk *tw__wheel_chunk_pop(struct tw_wheel *wheel);

/* Returns a chunk that is in no bucket to the pool. */
static inline void tw__wheel_chunk_give(struct tw_wheel *wheel, struct wheel_chunk *chunk)
{
    chunk->next = wheel->chunk_free;
    wheel->chunk_free = chunk;
    wheel->chunk_used--;
}

/* Maximum of slots. The indices of one more segment would not fit into 32 bits. */
#define SLOTS_MAX (UINT32_MAX - SEGMENT_SLOTS + 1)

/* Number of chunks that only the sweep may take. */
#define CHUNKS_SPARE 2

/* Returns how many chunks must exist so that one entry for each of `slots` fits, whatever the
 * buckets. */
uint64_t tw__wheel_chunks_needed(uint64_t slots);

/* wheel_chain.c: the chunks of a bucket. */

/* Makes `chunk` the last of the chain, even if the one before is not full. */
void tw__wheel_chain_link(struct tw_wheel *wheel, struct wheel_chain *chain,
                          struct wheel_chunk *chunk);

/* Removes the first chunk of a chain that has one; its count is valid. */
struct wheel_chunk *tw__wheel_chain_detach(struct wheel_chain *chain);

/* wheel_bucket.c: entries in buckets. */

/* Appends an entry to a bucket that has no room. */
void tw__wheel_append_extending(struct tw_wheel *wheel, unsigned shift, uint64_t tick,
                                uint32_t index);

/* Makes room in the bucket of a deadline, if the bucket is full and the deadline is quick. Returns
 * false if nothing changed. */
bool tw__wheel_make_room(struct tw_wheel *wheel, uint64_t deadline);

/* Adds an entry that tw__wheel_enter_quickly has refused: a far entry, any entry while a sweep
 * visits the buckets, or one for a bucket without room. */
void tw__wheel_enter_slowly(struct tw_wheel *wheel, struct wheel_record *record, uint32_t index,
                            uint32_t generation, uint64_t deadline);

/* Empties a bucket that has entries. Those in its line are copied to `inlined`, the others moved to
 * wheel->taken. Returns the number of `inlined` entries. */
unsigned tw__wheel_bucket_take(struct tw_wheel *wheel, unsigned level, unsigned slot,
                               struct wheel_entry *inlined);

/* wheel_sweep.c: stale entries. */

/* Called for a new stale entry if there are more than `stale_limit`. Computes the limit again, or
 * does a part of a sweep. Returns true, so that it can be the last call of a function. */
bool tw__wheel_sweep_pay(struct tw_wheel *wheel);

/* Counts a new stale entry, and does the part of a sweep that is due for it. Returns true. */
static inline bool tw__wheel_count_stale(struct tw_wheel *wheel)
{
    return LIKELY(++wheel->stale_count <= wheel->stale_limit) || tw__wheel_sweep_pay(wheel);
}

/* Sweeps all buckets, so that no entry is stale afterwards. O(entries); used only when memory is
 * short. */
void tw__wheel_sweep_all(struct tw_wheel *wheel);

/* Returns the chunk that contains the end of a chain. */
static inline struct wheel_chunk *tw__wheel_chunk_of(struct wheel_entry *end)
{
    return (struct wheel_chunk *)(((uintptr_t)end - 1) & ~(uintptr_t)(CHUNK_SIZE - 1));
}

/* The hot paths, inlined into schedule, arm and expire. */

/* Prefetches a line into the second level of the cache. The first level handles few misses at a
 * time, and a processor may drop further prefetches meanwhile. A Zen 4 dropped a quarter of a
 * bucket's records; each of those then cost a full wait when it fired. */
static inline void tw__prefetch(const void *memory)
{
    __builtin_prefetch(memory, 0, 2);
}

/* Prefetches a line that will be written, so that the store does not wait for it. */
static inline void tw__prefetch_to_write(const void *memory)
{
    __builtin_prefetch(memory, 1);
}

/* Returns the address of an element of one of the arrays of the slab. */
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

/* Prefetches what is needed when a timer fires. */
static inline void tw__wheel_prefetch(const struct tw_wheel *wheel, uint32_t index)
{
    tw__prefetch(tw__wheel_record(wheel, index));
}

static inline tw_handle tw__wheel_handle(uint32_t generation, uint32_t index)
{
    return (tw_handle)(generation & ~NOT_IN_HANDLE) << 32 | index;
}

/* Returns the record of a handle; NULL if the handle is stale. */
static inline struct wheel_record *tw__wheel_lookup(const struct tw_wheel *wheel, tw_handle timer)
{
    if (UNLIKELY((uint32_t)timer >= wheel->slot_count))
        return NULL;
    struct wheel_record *record = tw__wheel_record(wheel, (uint32_t)timer);
    bool is_good = (record->generation ^ (uint32_t)(timer >> 32)) <= NOT_IN_HANDLE;
    return LIKELY(is_good) ? record : NULL;
}

/* Returns the tick with the upper half of the cursor and this low half. All entries below
 * LEVEL_FAR, and all deadlines in STATE_NEAR or STATE_MOVED, have that upper half, because the
 * cursor does not pass an entry. */
static inline uint64_t tw__wheel_near_tick(const struct tw_wheel *wheel, uint32_t tick_low)
{
    return (wheel->cursor & ~(uint64_t)UINT32_MAX) | tick_low;
}

/* True if a deadline is known to be near: not overdue, and with the upper half of the cursor. */
static inline bool tw__wheel_is_near(const struct tw_wheel *wheel, uint64_t deadline)
{
    return deadline >= wheel->cursor && deadline < wheel->near_end;
}

/* Returns the deadline last set for a slot that has an entry. */
static inline uint64_t tw__wheel_due(const struct tw_wheel *wheel,
                                     const struct wheel_record *record, uint32_t index)
{
    if (UNLIKELY((record->generation & STATE_MASK) == STATE_WIDE))
        return tw__wheel_extra(wheel, index)->due;
    return tw__wheel_near_tick(wheel, record->tick_low);
}

/* True if the entry, in a bucket of that level, is the valid one of its record. Of entries of one
 * record that look equal, the first one to be reached is valid: two at one tick are alike, and of
 * far entries only 32 bits can be compared. */
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

/* Returns the level of `tick`, times DIGIT_BITS. */
static inline unsigned tw__wheel_shift(const struct tw_wheel *wheel, uint64_t tick)
{
    return ((unsigned)__builtin_clzll((tick ^ wheel->cursor) | 1) ^ 63u) & ~(DIGIT_BITS - 1u);
}

/* Returns the chain of the bucket of `tick`. `bit` is any bit of the highest digit in which the
 * tick differs from the cursor. */
static inline struct wheel_chain *tw__wheel_chain_at(struct tw_wheel *wheel, unsigned bit,
                                                     uint64_t tick)
{
    unsigned shift = bit & ~(DIGIT_BITS - 1u);
    return &wheel->levels[bit][(tick >> shift) & (BUCKETS - 1)].chain;
}

/* Appends to a chain that has room. Many buckets are filled alternately, too many for the
 * hardware prefetcher. A single prefetch is not dropped, so this one is into the first level of
 * the cache. */
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

/* Appends an entry for `deadline`. Returns false and changes nothing if that is not quick: for
 * deadlines not after `cursor` or not before `quick_end`, which are those of the wheel, and for
 * full buckets. */
static inline bool tw__wheel_append_between(struct tw_wheel *wheel, uint64_t cursor,
                                            uint64_t quick_end, uint32_t index, uint64_t deadline)
{
    if (UNLIKELY(deadline <= cursor || deadline >= quick_end))
        return false;
    uint32_t tick = (uint32_t)deadline;
    /* not 0, because both have the upper half of the cursor */
    uint32_t differs = tick ^ (uint32_t)cursor;
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

/* Gives a record a new entry for `deadline`, which becomes the valid one. `generation` is the
 * record's, without a state. Returns false and changes nothing if that is not quick. */
static inline bool tw__wheel_enter_quickly(struct tw_wheel *wheel, struct wheel_record *record,
                                           uint32_t index, uint32_t generation, uint64_t deadline)
{
    if (UNLIKELY(!tw__wheel_append_quickly(wheel, index, deadline)))
        return false;
    record->generation = generation | STATE_NEAR;
    record->tick_low = (uint32_t)deadline;
    return true;
}

/* Gives a record a new entry for `deadline`, which is not TW_NEVER, whether that is quick or
 * not. */
static inline void tw__wheel_enter(struct tw_wheel *wheel, struct wheel_record *record,
                                   uint32_t index, uint32_t generation, uint64_t deadline)
{
    if (UNLIKELY(!tw__wheel_enter_quickly(wheel, record, index, generation, deadline)))
        tw__wheel_enter_slowly(wheel, record, index, generation, deadline);
}

/* Handles a record whose entry was reached, but not at the deadline of an armed timer. If the timer
 * is armed, gives it a new entry. */
static inline void tw__wheel_enter_again(struct tw_wheel *wheel, struct wheel_record *record,
                                         uint32_t index)
{
    uint32_t generation = record->generation & ~(uint32_t)STATE_MASK;
    uint64_t due = tw__wheel_due(wheel, record, index);
    record->generation = generation;
    if (generation & IS_ARMED)
        tw__wheel_enter(wheel, record, index, generation, due);
}

/* Returns the first tick of a bucket. */
static inline uint64_t tw__wheel_bucket_start(const struct tw_wheel *wheel, unsigned level,
                                              unsigned slot)
{
    unsigned shift = level * DIGIT_BITS;
    uint64_t above = level == LEVELS - 1 ? 0 : ~UINT64_C(0) << (shift + DIGIT_BITS);
    return (wheel->cursor & above) | (uint64_t)slot << shift;
}

/* Finds the first bucket with entries and returns its first tick; TW_NEVER if all are empty. There
 * is no loop, and no branch that depends on the bucket, because such a branch would be mispredicted
 * at each tick. */
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

/* Frees a slot; all its handles become stale. An entry that is still in a bucket remains that of
 * the slot: the next timer of the slot uses it, or expire drops it. */
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

/* Returns IS_OPENED or 0. Passing a valid handle of one kind to a function for the other kind is a
 * bug in the caller. */
static inline uint32_t tw__wheel_kind_of(tw_handle timer)
{
    return (uint32_t)(timer >> 32) & IS_OPENED;
}

/* Removes the deadline of a record. Returns true if it had one. The early return is deliberate: a
 * counter that depended on the value just read would make each call wait for the previous one. */
static inline bool tw__wheel_clear_deadline(struct tw_wheel *wheel, struct wheel_record *record)
{
    if (UNLIKELY(!(record->generation & IS_ARMED)))
        return false;
    wheel->armed_count--;
    record->generation &= ~IS_ARMED;
    return true;
}

/* Frees the slot of a timer. Returns false if the handle is stale. */
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
