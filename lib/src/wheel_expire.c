/*
 * wheel_expire.c - time moves on: buckets are opened, timers fire.
 *
 * The cursor goes from one bucket that is not empty to the next. A bucket of level 0 holds one tick
 * and is fired; one of a higher level is opened: its entries are copied to the levels below, in
 * portions, and nothing fires before that is done. Opening reads the bucket in sequence and leaves
 * the records alone; only firing needs them, so they are prefetched: all of a small bucket while it
 * is opened to level 0, and else PREFETCH_DISTANCE entries ahead.
 */
#include "wheel_private.h"

enum {
    LEVEL_FAR = 32 / DIGIT_BITS, /* from here up an entry's 32 bits do not tell its tick */
    WAKE_CHUNKS = 2              /* so much of a bucket is read for the exact wake_at */
};

/* Moves one chunk of the bucket at the cursor to the levels below. */
static void open_chunk(struct tw_wheel *wheel, struct chunk *chunk)
{
    uint64_t above = wheel->cursor & ~(uint64_t)UINT32_MAX;
    for (uint32_t i = 0; i < chunk->count; i++) {
        struct entry entry = chunk->entries[i];
        tw__wheel_append(wheel, above | entry.tick_low, entry.index);
        __builtin_prefetch(tw__wheel_record(wheel, entry.index), 1);
    }
}

/* The same for a bucket of more than 2^32 ticks: the records tell where each goes. */
static void open_chunk_far(struct tw_wheel *wheel, struct chunk *chunk, unsigned level)
{
    for (uint32_t i = 0; i < chunk->count; i++) {
        struct entry entry = chunk->entries[i];
        if (i + PREFETCH_DISTANCE < chunk->count)
            __builtin_prefetch(
                tw__wheel_record(wheel, chunk->entries[i + PREFETCH_DISTANCE].index));
        struct record *record = tw__wheel_record(wheel, entry.index);
        if (tw__wheel_entry_counts(record, entry, level, wheel->cursor))
            tw__wheel_append(wheel, record->entry_at, entry.index);
        else
            wheel->stale_count--;
    }
}

/* Opens the bucket at the cursor, at most `budget` entries and the rest of a chunk. Returns what is
 * left of the budget. */
static int64_t open_bucket(struct tw_wheel *wheel, int64_t budget)
{
    unsigned level = wheel->opening;
    unsigned slot = (unsigned)(wheel->cursor >> (level * DIGIT_BITS)) & (BUCKETS - 1);
    while (budget > 0) {
        if (!wheel->buckets[level][slot].head) {
            wheel->opening = 0;
            break;
        }
        struct chunk *chunk = tw__wheel_bucket_detach(wheel, level, slot);
        budget -= chunk->count;
        wheel->visit_count += chunk->count;
        if (level < LEVEL_FAR)
            open_chunk(wheel, chunk);
        else
            open_chunk_far(wheel, chunk, level);
        tw__wheel_chunk_give(wheel, chunk);
    }
    return budget;
}

/* Takes a timer out whose entry was met at the cursor. */
static inline void fire(struct tw_wheel *wheel, struct record *record, uint32_t index,
                        struct tw_expired *ret_due)
{
    ret_due->data = record->data;
    ret_due->deadline = record->due;
    ret_due->timer = (tw_handle)record->generation << 32 | index;
    wheel->armed_count--;
    if (record->is_opened)
        record->due = TW_NEVER;
    else
        tw__wheel_slot_give(wheel, record, index);
}

/* Goes through the chunk taken off the cursor's bucket, until it ends, `limit` timers fired or the
 * budget is used up. Returns how many fired. */
static size_t fire_run(struct tw_wheel *wheel, struct tw_expired *ret_due, size_t limit,
                       int64_t *budget)
{
    const struct entry *entries = wheel->run->entries;
    uint64_t tick = wheel->cursor;
    uint32_t count = wheel->run_count;
    uint32_t i = wheel->run_next;
    uint32_t from = i;
    size_t fired = 0;
    while (i < count && fired<limit && * budget> 0) {
        if (i + PREFETCH_DISTANCE < count)
            __builtin_prefetch(tw__wheel_record(wheel, entries[i + PREFETCH_DISTANCE].index), 1);
        uint32_t index = entries[i++].index;
        struct record *record = tw__wheel_record(wheel, index);
        if (UNLIKELY(record->entry_at != tick)) {
            wheel->stale_count--;
            --*budget;
            continue;
        }
        record->entry_at = TW_NEVER;
        wheel->entered_count--;
        if (LIKELY(record->due <= tick)) {
            fire(wheel, record, index, &ret_due[fired++]);
        } else {
            if (record->due != TW_NEVER) /* moved to a later deadline since */
                tw__wheel_enter(wheel, record, index, record->due);
            --*budget;
        }
    }
    wheel->visit_count += i - from;
    wheel->run_next = i;
    if (i == count) {
        tw__wheel_chunk_give(wheel, wheel->run);
        wheel->run = NULL;
    }
    return fired;
}

/* Moves the cursor to the next bucket due by now and takes it up. False when there is none: then
 * the cursor is at now. */
static bool advance(struct tw_wheel *wheel)
{
    unsigned level, slot;
    if (tw__wheel_bucket_first(wheel, &level, &slot)) {
        uint64_t start = tw__wheel_bucket_start(wheel, level, slot);
        if (start <= wheel->now) {
            wheel->cursor = start;
            if (level == 0) {
                wheel->run = tw__wheel_bucket_detach(wheel, level, slot);
                wheel->run_next = 0;
                wheel->run_count = wheel->run->count;
            } else {
                wheel->opening = level;
            }
            return true;
        }
        wheel->next = start;
    } else {
        wheel->next = TW_NEVER;
    }
    wheel->cursor = wheel->now;
    return false;
}

static size_t expire(struct tw_wheel *wheel, struct tw_expired *ret_due, size_t limit)
{
    size_t fired = 0;
    int64_t budget = TW_WHEEL_MOVES_MAX;
    if (limit < INT64_MAX / 2)
        budget += (int64_t)limit;
    while (fired < limit && budget > 0) {
        if (wheel->run)
            fired += fire_run(wheel, ret_due + fired, limit - fired, &budget);
        else if (wheel->opening)
            budget = open_bucket(wheel, budget);
        else if (!advance(wheel))
            return fired;
    }
    wheel->next = wheel->cursor; /* not done: look again at once */
    return fired;
}

size_t tw_wheel_expire(struct tw_wheel *wheel, uint64_t now, struct tw_expired *ret_due,
                       size_t limit)
{
    now -= now == TW_NEVER;
    if (now > wheel->now)
        wheel->now = now;
    if (LIKELY(wheel->now < wheel->next)) {
        wheel->cursor = wheel->now;
        return 0;
    }
    return expire(wheel, ret_due, limit);
}

bool tw_wheel_is_behind(const struct tw_wheel *wheel)
{
    return wheel->next <= wheel->now;
}

/* The earliest tick in a bucket above level 0, if the bucket is small enough to be read through. */
static uint64_t earliest(const struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    uint64_t start = tw__wheel_bucket_start(wheel, level, slot);
    const struct bucket *bucket = &wheel->buckets[level][slot];
    const struct chunk *last = tw__wheel_chunk_of(bucket->end);
    uint64_t first = TW_NEVER;
    unsigned left = WAKE_CHUNKS;
    for (const struct chunk *chunk = bucket->head; chunk; chunk = chunk->next) {
        if (left-- == 0)
            return start;
        uint32_t count = chunk == last ? (uint32_t)(bucket->end - chunk->entries) : chunk->count;
        for (uint32_t i = 0; i < count; i++) {
            struct entry entry = chunk->entries[i];
            uint64_t tick = (start & ~(uint64_t)UINT32_MAX) | entry.tick_low;
            if (level >= LEVEL_FAR) {
                const struct record *record = tw__wheel_record(wheel, entry.index);
                if (!tw__wheel_entry_counts(record, entry, level, start))
                    continue;
                tick = record->entry_at;
            }
            if (tick < first)
                first = tick;
        }
    }
    return first == TW_NEVER ? start : first;
}

uint64_t tw_wheel_wake_at(const struct tw_wheel *wheel)
{
    unsigned level, slot;
    if (wheel->armed_count == 0)
        return TW_NEVER;
    if (wheel->run || wheel->opening)
        return wheel->cursor;
    if (!tw__wheel_bucket_first(wheel, &level, &slot))
        return TW_NEVER;
    if (level == 0)
        return tw__wheel_bucket_start(wheel, level, slot);
    return earliest(wheel, level, slot);
}
