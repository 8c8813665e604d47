/*
 * wheel_prune.c - removing buckets at the front of the wheel in which no timer is due.
 *
 * Cancelling leaves an entry in its bucket, and wake_at, which may not write, stops at it. So when
 * a call of expire has found such entries, it also removes the next ones, up to the first timer
 * that is armed. Each entry is removed once, and the first armed one ends the search, so the cost
 * is bounded by the number of timers that were cancelled.
 */
#include "wheel_runner.h"

#include "wheel_private.h"

/* A position among the entries of a bucket: first those in its line, then its chunks. */
struct wheel_walk {
    const struct wheel_entry *entries; /* entries of the current chunk, or of the line */
    size_t count;
    const struct wheel_chunk *next; /* chunk after the current one */
    const struct wheel_chunk *last;
    const struct wheel_entry *end; /* end of the entries of the last chunk */
};

static struct wheel_walk wheel_walk_begin(const struct wheel_bucket *bucket)
{
    const struct wheel_chain *chain = &bucket->chain;
    size_t count = chain->head ? BUCKET_INLINED : (size_t)(chain->end - bucket->inlined);
    const struct wheel_chunk *last = chain->head ? tw__wheel_chunk_of(chain->end) : NULL;
    return (struct wheel_walk){bucket->inlined, count, chain->head, last, chain->end};
}

/* Moves to the next chunk and prefetches its records. Returns false after the last one. */
static bool wheel_walk_next(const struct tw_wheel *wheel, struct wheel_walk *walk)
{
    const struct wheel_chunk *chunk = walk->next;
    if (!chunk)
        return false;
    walk->entries = chunk->entries;
    walk->count = chunk == walk->last ? (size_t)(walk->end - chunk->entries) : chunk->count;
    walk->next = chunk == walk->last ? NULL : chunk->next;
    for (size_t i = 0; i < walk->count; i++)
        tw__wheel_prefetch(wheel, walk->entries[i].index);
    return true;
}

/* True if the entry's timer is due in the bucket, which ends at tick `end`. */
static bool wheel_entry_is_due(const struct tw_wheel *wheel, struct wheel_entry entry,
                               unsigned level, uint64_t end, enum wheel_prune how)
{
    const struct wheel_record *record = tw__wheel_record(wheel, entry.index);
    if (!(record->generation & IS_ARMED) || !tw__wheel_counts(wheel, record, entry, level))
        return false;
    return how == PRUNE_KEEPS_LATER || tw__wheel_due(wheel, record, entry.index) <= end;
}

/* Returns the last tick of a bucket. */
static uint64_t wheel_bucket_end(uint64_t start, unsigned level)
{
    unsigned shift = level * DIGIT_BITS;
    return start | ((UINT64_C(1) << shift) - 1);
}

/* True if a timer is due in the bucket, or if the budget is used up. */
static bool wheel_bucket_is_due(const struct tw_wheel *wheel, unsigned level, unsigned slot,
                                uint64_t end, enum wheel_prune how, int64_t *budget)
{
    struct wheel_walk walk = wheel_walk_begin(&wheel->buckets[level][slot]);
    do {
        /* each entry is read now, and again when it is removed */
        if ((*budget -= 2 * (int64_t)walk.count) < 0)
            return true;
        for (size_t i = 0; i < walk.count; i++)
            if (wheel_entry_is_due(wheel, walk.entries[i], level, end, how))
                return true;
    } while (wheel_walk_next(wheel, &walk));
    return false;
}

/* Removes entries, none of which is due in its bucket. */
static void wheel_remove(struct tw_wheel *wheel, const struct wheel_entry *entries, size_t count,
                         unsigned level)
{
    wheel->visit_count += 2 * count;
    for (size_t i = 0; i < count; i++) {
        uint32_t index = entries[i].index;
        struct wheel_record *record = tw__wheel_record(wheel, index);
        if (!tw__wheel_counts(wheel, record, entries[i], level)) {
            wheel->stale_count--;
            continue;
        }
        tw__wheel_enter_again(wheel, record, index);
    }
}

size_t tw__wheel_prune(struct tw_wheel *wheel, enum wheel_prune how, int64_t budget)
{
    struct wheel_entry inlined[BUCKET_INLINED];
    size_t removed = 0;
    if (wheel->phase != PHASE_NONE || wheel->armed_count == 0)
        return 0;
    for (;; removed++) {
        unsigned level, slot;
        uint64_t start = tw__wheel_bucket_first(wheel, &level, &slot);
        uint64_t end = wheel_bucket_end(start, level);
        if (start > wheel->now)
            wheel->next = start;
        if (start <= wheel->now || start == TW_NEVER ||
            wheel_bucket_is_due(wheel, level, slot, end, how, &budget))
            return removed;
        unsigned count = tw__wheel_bucket_take(wheel, level, slot, inlined);
        wheel_remove(wheel, inlined, count, level);
        while (wheel->taken.head) {
            struct wheel_chunk *chunk = tw__wheel_chain_detach(&wheel->taken);
            wheel_remove(wheel, chunk->entries, chunk->count, level);
            tw__wheel_chunk_give(wheel, chunk);
        }
    }
}
