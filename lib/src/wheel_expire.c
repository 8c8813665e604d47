/*
 * wheel_expire.c - moving time forward: opening buckets, firing timers.
 *
 * The cursor moves from one non-empty bucket to the next. A bucket of level 0 holds one tick and is
 * fired; a bucket of a higher level is opened: its entries are copied to the levels below, in
 * portions, and no timer fires before that is complete. Opening reads the bucket in sequence and
 * does not touch the records; only firing needs them, so they are prefetched: when a level 0 bucket
 * is filled from level 1, and PREFETCH_DISTANCE entries before they fire.
 */
#include "wheel_private.h"
#include "wheel_runner.h"

enum {
    WAKE_CHUNKS = 2, /* chunks of a bucket that wake_at reads to find an exact answer */
    /* if a bucket has more entries, their records would leave the cache before they fire */
    PREFETCH_ENTRIES_MAX = 4096
};

/* Moves entries of a bucket below LEVEL_FAR, which is being opened, to the levels below. */
static void wheel_open_near(struct tw_wheel *wheel, const struct wheel_entry *entries,
                            uint32_t count)
{
    uint64_t above = wheel->cursor & ~(uint64_t)UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t tick = above | entries[i].tick_low;
        tw__wheel_append(wheel, tw__wheel_shift(wheel, tick), tick, entries[i].index);
    }
}

/* Moves entries from level 1 to level 0, where they fire soon. Most entries are the first of their
 * tick. */
static void wheel_open_last(struct tw_wheel *wheel, const struct wheel_entry *entries,
                            uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        unsigned slot = entries[i].tick_low & (BUCKETS - 1);
        struct wheel_bucket *bucket = &wheel->buckets[0][slot];
        struct wheel_chain *chain = &bucket->chain;
        tw__wheel_prefetch(wheel, entries[i].index);
        if (!chain->end) {
            chain->end = bucket->inlined + 1;
            chain->limit = bucket->inlined + BUCKET_INLINED;
            bucket->inlined[0] = entries[i];
            tw__wheel_bucket_mark_used(wheel, 0, slot);
        } else if (LIKELY(chain->end != chain->limit)) {
            *chain->end++ = entries[i];
        } else {
            tw__wheel_append_extending(wheel, 0, entries[i].tick_low, entries[i].index);
        }
    }
}

/* Moves entries from LEVEL_FAR and above. Where they go depends on the deadline in the record. */
static void wheel_open_far(struct tw_wheel *wheel, const struct wheel_entry *entries,
                           uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i + PREFETCH_DISTANCE < count) {
            uint32_t ahead = entries[i + PREFETCH_DISTANCE].index;
            tw__prefetch(tw__wheel_record(wheel, ahead));
            tw__prefetch(tw__wheel_extra(wheel, ahead));
        }
        uint32_t index = entries[i].index;
        struct wheel_record *record = tw__wheel_record(wheel, index);
        if (tw__wheel_counts(wheel, record, entries[i], LEVEL_FAR))
            tw__wheel_enter_again(wheel, record, index);
        else
            wheel->stale_count--;
    }
}

static void wheel_open_some(struct tw_wheel *wheel, const struct wheel_entry *entries,
                            uint32_t count)
{
    wheel->visit_count += count;
    wheel->opened_count += count;
    if (wheel->opening_level == 1 && wheel->opened_count <= PREFETCH_ENTRIES_MAX)
        wheel_open_last(wheel, entries, count);
    else if (wheel->opening_level < LEVEL_FAR)
        wheel_open_near(wheel, entries, count);
    else
        wheel_open_far(wheel, entries, count);
}

/* Prefetches the chunk that is opened next, because it was filled long ago. */
static void wheel_prefetch_chunk(const struct wheel_chunk *chunk)
{
    for (size_t i = 0; chunk && i < CHUNK_SIZE; i += LINE_SIZE)
        tw__prefetch((const char *)chunk + i);
}

/* Continues to open a bucket, for at most `budget` entries and the rest of a chunk. Returns the
 * rest of the budget. */
static int64_t wheel_open_rest(struct tw_wheel *wheel, int64_t budget)
{
    while (budget > 0) {
        if (!wheel->taken.head) {
            wheel->phase = PHASE_NONE;
            break;
        }
        struct wheel_chunk *chunk = tw__wheel_chain_detach(&wheel->taken);
        wheel_prefetch_chunk(wheel->taken.head);
        budget -= chunk->count;
        wheel_open_some(wheel, chunk->entries, chunk->count);
        tw__wheel_chunk_give(wheel, chunk);
    }
    return budget;
}

/* Counts of a run. They are added to the wheel's counters at its end, so that the loop does not
 * write to memory. */
struct wheel_run_counts {
    uint32_t fired;
    uint32_t stale;
};

static inline void wheel_fire(struct tw_wheel *wheel, struct wheel_record *record, uint32_t index,
                              uint64_t deadline, struct tw_expired *restrict ret_due)
{
    uint32_t generation = record->generation & ~(IS_ARMED | STATE_MASK);
    ret_due->data = record->data;
    ret_due->deadline = deadline;
    ret_due->timer = tw__wheel_handle(generation, index);
    record->generation = generation;
    if (!(generation & IS_OPENED))
        tw__wheel_slot_give(wheel, record, index);
}

/* Handles an entry that may be stale, or whose timer is not armed or was moved. */
static __attribute__((noinline)) void wheel_fire_slowly(struct tw_wheel *wheel,
                                                        struct wheel_record *record, uint32_t index,
                                                        uint64_t tick,
                                                        struct tw_expired *restrict ret_due,
                                                        struct wheel_run_counts *outcome)
{
    struct wheel_entry entry = {(uint32_t)tick, index};
    if (!tw__wheel_counts(wheel, record, entry, 0)) {
        outcome->stale++;
        return;
    }
    uint64_t due = tw__wheel_due(wheel, record, index);
    if (record->generation & IS_ARMED && due <= tick)
        wheel_fire(wheel, record, index, due, &ret_due[outcome->fired++]);
    else
        tw__wheel_enter_again(wheel, record, index);
}

/* Handles one entry that is due at `tick`, the tick of the cursor. */
static inline void wheel_fire_entry(struct tw_wheel *wheel, uint32_t index, uint64_t tick,
                                    struct tw_expired *restrict ret_due,
                                    struct wheel_run_counts *outcome)
{
    struct wheel_record *record = tw__wheel_record(wheel, index);
    bool is_near = (record->generation & (IS_ARMED | STATE_MASK)) == (IS_ARMED | STATE_NEAR);
    if (LIKELY(is_near && record->tick_low == (uint32_t)tick))
        wheel_fire(wheel, record, index, tick, &ret_due[outcome->fired++]);
    else
        wheel_fire_slowly(wheel, record, index, tick, ret_due, outcome);
}

static inline void wheel_count_run(struct tw_wheel *wheel, uint32_t met,
                                   struct wheel_run_counts outcome, int64_t *budget)
{
    wheel->visit_count += met;
    wheel->armed_count -= outcome.fired;
    wheel->stale_count -= outcome.stale;
    *budget -= met - outcome.fired;
}

/* Fires the timers of the run until it ends or `limit` timers have fired. Returns their number. */
static size_t wheel_fire_run(struct tw_wheel *wheel, struct tw_expired *restrict ret_due,
                             size_t limit, int64_t *budget)
{
    const uint32_t *run = wheel->run;
    uint64_t tick = wheel->cursor;
    uint32_t count = wheel->run_count;
    uint32_t from = wheel->run_next;
    uint32_t i = from;
    struct wheel_run_counts outcome = {0, 0};
    while (i < count && outcome.fired < limit) {
        if (i + PREFETCH_DISTANCE < count)
            tw__wheel_prefetch(wheel, run[i + PREFETCH_DISTANCE]);
        wheel_fire_entry(wheel, run[i++], tick, ret_due, &outcome);
    }
    wheel->run_next = i;
    wheel_count_run(wheel, i - from, outcome, budget);
    return outcome.fired;
}

/* Prefetches the first records of the chunk that is fired next. */
static void wheel_prefetch_taken(const struct tw_wheel *wheel)
{
    const struct wheel_chunk *chunk = wheel->taken.head;
    if (!chunk)
        return;
    size_t count = chunk->next ? chunk->count : (size_t)(wheel->taken.end - chunk->entries);
    for (size_t i = 0; i < count && i < PREFETCH_DISTANCE; i++)
        tw__wheel_prefetch(wheel, chunk->entries[i].index);
}

/* Makes the next chunk of the cursor's tick the run. Its first records were prefetched when the
 * previous chunk was taken. */
static void wheel_next_run(struct tw_wheel *wheel)
{
    struct wheel_chunk *chunk = tw__wheel_chain_detach(&wheel->taken);
    wheel->run_next = 0;
    wheel->run_count = chunk->count;
    for (uint32_t i = 0; i < chunk->count; i++)
        wheel->run[i] = chunk->entries[i].index;
    tw__wheel_chunk_give(wheel, chunk);
    wheel_prefetch_taken(wheel);
}

/* Begins a tick of many timers, and makes the first of them the run. */
static __attribute__((noinline)) void wheel_begin_tick(struct tw_wheel *wheel, unsigned slot)
{
    struct wheel_entry inlined[BUCKET_INLINED];
    wheel->phase = PHASE_FIRING;
    wheel->run_count = tw__wheel_bucket_take(wheel, 0, slot, inlined);
    wheel->run_next = 0;
    for (unsigned i = 0; i < BUCKET_INLINED; i++)
        wheel->run[i] = inlined[i].index;
    wheel_prefetch_taken(wheel);
}

/* Begins to open a bucket above level 0. */
static __attribute__((noinline)) void wheel_begin_bucket(struct tw_wheel *wheel, unsigned level,
                                                         unsigned slot, int64_t *budget)
{
    struct wheel_entry inlined[BUCKET_INLINED];
    unsigned count = tw__wheel_bucket_take(wheel, level, slot, inlined);
    wheel->phase = PHASE_OPENING;
    wheel->opening_level = level;
    wheel->opened_count = 0;
    wheel_prefetch_chunk(wheel->taken.head);
    wheel_open_some(wheel, inlined, count);
    *budget -= count;
}

/* Continues with the bucket that is being fired or opened. Returns the number of timers that
 * fired. */
static __attribute__((noinline)) size_t
wheel_continue(struct tw_wheel *wheel, struct tw_expired *ret_due, size_t limit, int64_t *budget)
{
    if (wheel->phase == PHASE_OPENING)
        *budget = wheel_open_rest(wheel, *budget);
    else if (wheel->run_next < wheel->run_count)
        return wheel_fire_run(wheel, ret_due, limit, budget);
    else if (wheel->taken.head)
        wheel_next_run(wheel);
    else
        wheel->phase = PHASE_NONE;
    return 0;
}

/* Fires a tick whose timers are all in the line of the bucket, without copying them. */
static inline size_t wheel_fire_inlined(struct tw_wheel *wheel, struct wheel_bucket *bucket,
                                        unsigned slot, uint32_t count,
                                        struct tw_expired *restrict ret_due, int64_t *budget)
{
    struct wheel_run_counts outcome = {0, 0};
    bucket->chain = (struct wheel_chain){0};
    tw__wheel_bucket_mark_empty(wheel, 0, slot);
    for (uint32_t i = 0; i < count; i++)
        wheel_fire_entry(wheel, bucket->inlined[i].index, wheel->cursor, ret_due, &outcome);
    wheel_count_run(wheel, count, outcome, budget);
    return outcome.fired;
}

static __attribute__((noinline)) size_t wheel_expire(struct tw_wheel *wheel,
                                                     struct tw_expired *ret_due, size_t limit)
{
    size_t fired = 0;
    /* reserves the rest of a chunk, because a chunk that was begun is finished */
    int64_t budget = (int64_t)wheel->moves_max - CHUNK_ENTRIES;
    budget += (int64_t)(limit < INT32_MAX ? limit : INT32_MAX);
    int64_t budget_all = budget;
    for (;;) {
        unsigned level, slot;
        bool may_go_on = fired < limit && budget > 0;
        if (UNLIKELY(wheel->phase != PHASE_NONE)) {
            if (!may_go_on)
                break;
            fired += wheel_continue(wheel, ret_due + fired, limit - fired, &budget);
            continue;
        }
        uint64_t start = tw__wheel_bucket_first(wheel, &level, &slot);
        if (start > wheel->now) {
            wheel->next = start;
            wheel->cursor = wheel->now;
            if (UNLIKELY(budget < budget_all))
                (void)tw__wheel_prune(wheel, PRUNE_KEEPS_LATER, budget);
            return fired;
        }
        if (UNLIKELY(!may_go_on))
            break;
        wheel->cursor = start;
        if (UNLIKELY(level > 0)) {
            wheel_begin_bucket(wheel, level, slot, &budget);
            continue;
        }
        struct wheel_bucket *bucket = &wheel->buckets[0][slot];
        size_t count = (size_t)(bucket->chain.end - bucket->inlined);
        if (LIKELY(!bucket->chain.head && count <= limit - fired))
            fired +=
                wheel_fire_inlined(wheel, bucket, slot, (uint32_t)count, ret_due + fired, &budget);
        else
            wheel_begin_tick(wheel, slot);
    }
    wheel->next = wheel->cursor; /* more is due, so the next call must search again */
    return fired;
}

size_t tw_wheel_expire_due(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due,
                           size_t limit)
{
    now -= now == TW_NEVER;
    wheel->now = now > wheel->now ? now : wheel->now;
    return wheel_expire(wheel, ret_due, limit);
}

/* The symbols that the library exports, for calls that the compiler does not inline. */
extern inline size_t tw_wheel_expire(struct tw_wheel *wheel, uint64_t now,
                                     struct tw_expired *ret_due, size_t limit);
extern inline bool tw_wheel_is_behind(const struct tw_wheel *wheel);

/* Returns the tick at which an entry of the bucket that starts at `start` must be read; TW_NEVER if
 * it need not be in this bucket. For a far entry that is the timer's deadline, if it is within the
 * bucket. */
static uint64_t wheel_entry_wakes_at(const struct tw_wheel *wheel, struct wheel_entry entry,
                                     unsigned level, uint64_t start)
{
    if (level < LEVEL_FAR)
        return (start & ~(uint64_t)UINT32_MAX) | entry.tick_low;
    const struct wheel_record *record = tw__wheel_record(wheel, entry.index);
    if (!(record->generation & IS_ARMED))
        return TW_NEVER;
    uint64_t due = tw__wheel_due(wheel, record, entry.index);
    return (due ^ start) >> (level * DIGIT_BITS) == 0 ? due : TW_NEVER;
}

/* Returns the earliest tick in a bucket above level 0, or its start if the bucket is too large to
 * read. */
static uint64_t wheel_bucket_earliest(const struct tw_wheel *wheel, unsigned level, unsigned slot,
                                      uint64_t start)
{
    const struct wheel_bucket *bucket = &wheel->buckets[level][slot];
    const struct wheel_chunk *chunk = bucket->chain.head;
    const struct wheel_chunk *last = chunk ? tw__wheel_chunk_of(bucket->chain.end) : NULL;
    const struct wheel_entry *entries = bucket->inlined;
    size_t count = chunk ? BUCKET_INLINED : (size_t)(bucket->chain.end - bucket->inlined);
    uint64_t first = TW_NEVER;
    for (unsigned left = WAKE_CHUNKS;; left--) {
        for (size_t i = 0; i < count; i++) {
            uint64_t tick = wheel_entry_wakes_at(wheel, entries[i], level, start);
            first = tick < first ? tick : first;
        }
        if (!chunk)
            return first == TW_NEVER ? start : first;
        if (left == 0)
            return start;
        entries = chunk->entries;
        count = chunk == last ? (size_t)(bucket->chain.end - entries) : chunk->count;
        chunk = chunk->next;
    }
}

uint64_t tw_wheel_wake_at(const struct tw_wheel *wheel)
{
    unsigned level, slot;
    if (wheel->armed_count == 0)
        return TW_NEVER;
    if (wheel->phase != PHASE_NONE)
        return wheel->cursor;
    uint64_t start = tw__wheel_bucket_first(wheel, &level, &slot);
    bool is_exact = level == 0 || start <= wheel->now;
    return is_exact ? start : wheel_bucket_earliest(wheel, level, slot, start);
}
