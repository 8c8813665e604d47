/* wheel_check.c - checks every invariant of the wheel, for tests. */
#include "wheel_runner.h"

#include "wheel_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counts of a walk through the buckets, which must equal the wheel's counters at the end. */
struct wheel_tally {
    uint64_t entries;
    uint64_t counting; /* records whose valid entry was found */
    uint64_t chunks;
    unsigned char *is_seen; /* for each slot: its valid entry was found */
};

static void wheel_check_that(bool holds, const char *invariant)
{
    if (holds)
        return;
    fprintf(stderr, "tw_wheel_check: broken: %s\n", invariant);
    abort();
}

/* Checks a near entry that counts. */
static void wheel_check_near(const struct tw_wheel *wheel, const struct wheel_record *record,
                             struct wheel_entry entry)
{
    uint64_t tick = tw__wheel_near_tick(wheel, entry.tick_low);
    wheel_check_that(tick >= wheel->cursor, "nothing lies before the cursor");
    wheel_check_that(!(record->generation & IS_ARMED) || tick == wheel->cursor ||
                         tick <= tw__wheel_due(wheel, record, entry.index),
                     "an entry comes up no later than its timer is due, or now");
}

static void wheel_check_entry(const struct tw_wheel *wheel, struct wheel_tally *tally,
                              struct wheel_entry entry, unsigned level, uint64_t start)
{
    wheel_check_that(entry.index < wheel->slot_count, "an entry names a slot that was let");
    tally->entries++;
    if (level < LEVEL_FAR) {
        uint64_t tick = (start & ~(uint64_t)UINT32_MAX) | entry.tick_low;
        wheel_check_that((tick ^ start) >> (level * DIGIT_BITS) == 0,
                         "an entry lies in its own bucket");
    }
    const struct wheel_record *record = tw__wheel_record(wheel, entry.index);
    bool is_only = record->generation & NO_STALE;
    wheel_check_that(!is_only || ((record->generation & STATE_MASK) != STATE_NONE &&
                                  !tally->is_seen[entry.index]),
                     "a slot without stale entries has one entry at most");
    if (!tw__wheel_counts(wheel, record, entry, level) || tally->is_seen[entry.index])
        return;
    tally->is_seen[entry.index] = 1;
    tally->counting++;
    if (level >= LEVEL_FAR)
        wheel_check_that(start == wheel->cursor ||
                             tw__wheel_due(wheel, record, entry.index) >= start,
                         "a far entry comes up no later than its timer is due, or now");
    else
        wheel_check_near(wheel, record, entry);
}

static void wheel_check_chain(const struct tw_wheel *wheel, struct wheel_tally *tally,
                              const struct wheel_chain *chain, unsigned level, uint64_t start)
{
    if (!chain->head)
        return;
    const struct wheel_chunk *last = tw__wheel_chunk_of(chain->end);
    for (const struct wheel_chunk *chunk = chain->head; chunk; chunk = chunk->next) {
        uint32_t count = chunk == last ? (uint32_t)(chain->end - chunk->entries) : chunk->count;
        wheel_check_that(count <= CHUNK_ENTRIES, "a chunk holds no more than fits");
        wheel_check_that((chunk == last) == (chunk->next == NULL),
                         "the end lies in the last chunk");
        wheel_check_that(chunk != last || chain->limit == chunk->entries + CHUNK_ENTRIES,
                         "a chain knows its limit");
        tally->chunks++;
        for (uint32_t i = 0; i < count; i++)
            wheel_check_entry(wheel, tally, chunk->entries[i], level, start);
    }
}

static void wheel_check_bucket(const struct tw_wheel *wheel, struct wheel_tally *tally,
                               unsigned level, unsigned slot)
{
    const struct wheel_bucket *bucket = &wheel->buckets[level][slot];
    const struct wheel_chain *chain = &bucket->chain;
    bool has_bit = wheel->bits[level * LEVEL_WORDS + slot / 64] >> (slot % 64) & 1;
    wheel_check_that(has_bit == (chain->end != NULL),
                     "a bit is set just where a bucket is not empty");
    wheel_check_that(chain->end || (!chain->head && !chain->limit), "an empty bucket is empty");
    if (!chain->end)
        return;
    uint64_t start = tw__wheel_bucket_start(wheel, level, slot);
    unsigned digit = (unsigned)(wheel->cursor >> (level * DIGIT_BITS)) & (BUCKETS - 1);
    wheel_check_that(slot > digit || (slot == digit && level == 0),
                     "buckets are ahead of the cursor");
    wheel_check_that(wheel->next <= start, "no bucket starts before next");
    size_t count = chain->head ? BUCKET_INLINED : (size_t)(chain->end - bucket->inlined);
    wheel_check_that(count >= 1 && count <= BUCKET_INLINED,
                     "a bucket's first entries lie in its line");
    wheel_check_that(chain->head || chain->limit == bucket->inlined + BUCKET_INLINED,
                     "a bucket knows its limit");
    for (size_t i = 0; i < count; i++)
        wheel_check_entry(wheel, tally, bucket->inlined[i], level, start);
    wheel_check_chain(wheel, tally, chain, level, start);
}

/* Checks the bucket that is being fired or opened. */
static void wheel_check_taken(const struct tw_wheel *wheel, struct wheel_tally *tally)
{
    uint32_t low = (uint32_t)wheel->cursor;
    for (uint32_t i = wheel->run_next; i < wheel->run_count; i++)
        wheel_check_entry(wheel, tally, (struct wheel_entry){low, wheel->run[i]}, 0, wheel->cursor);
    unsigned level = wheel->phase == PHASE_OPENING ? wheel->opening_level : 0;
    wheel_check_chain(wheel, tally, &wheel->taken, level, wheel->cursor);
    if (wheel->phase != PHASE_FIRING)
        wheel_check_that(wheel->run_next == wheel->run_count, "nothing fires but in its phase");
    if (wheel->phase == PHASE_NONE)
        wheel_check_that(!wheel->taken.head, "what was taken is gone through");
    else
        wheel_check_that(wheel->next <= wheel->cursor, "what was taken is due");
}

static void wheel_check_records(const struct tw_wheel *wheel, const struct wheel_tally *tally)
{
    uint64_t armed = 0, retired = 0;
    for (uint32_t i = 0; i < wheel->slot_count; i++) {
        const struct wheel_record *record = tw__wheel_record(wheel, i);
        uint32_t state = record->generation & STATE_MASK;
        wheel_check_that((state != STATE_NONE) == tally->is_seen[i],
                         "a record's entry is where the record says");
        retired += record->generation >= GENERATION_RETIRED;
        bool is_armed = record->generation & IS_ARMED;
        armed += is_armed;
        wheel_check_that(!is_armed || state != STATE_NONE, "an armed record has an entry");
    }
    wheel_check_that(armed == wheel->armed_count, "armed_count");
    wheel_check_that(tally->entries == tally->counting + wheel->stale_count, "stale_count");
    wheel_check_that(retired == wheel->retired_count, "retired_count");
}

static void wheel_check_free_slots(const struct tw_wheel *wheel, struct wheel_tally *tally)
{
    wheel_check_that(wheel->free_count + wheel->retired_count <= wheel->slot_count,
                     "free slots were let");
    if (wheel->fresh_end > wheel->slot_count)
        wheel_check_that(
            wheel->free_count == 0 && wheel->fresh_end <= wheel->slot_capacity &&
                wheel->slot_count >> SEGMENT_BITS == (wheel->fresh_end - 1) >> SEGMENT_BITS &&
                wheel->fresh_record == (uintptr_t)tw__wheel_record(wheel, wheel->slot_count),
            "fresh slots are in one piece, and taken when none is free");
    wheel_check_that(wheel->slot_count <= wheel->slot_capacity &&
                         wheel->slot_capacity <= (uint64_t)wheel->segments.count << SEGMENT_BITS &&
                         wheel->slot_capacity <= (uint64_t)wheel->extras.count << SEGMENT_BITS,
                     "slot_capacity");
    wheel_check_that(wheel->slot_count - wheel->retired_count <= wheel->timer_count_max,
                     "timer_count_max");
    for (uint32_t i = 0; i < wheel->slot_count; i++)
        tally->is_seen[i] = 0;
    uint32_t top[FREE_TOP];
    memcpy(top, wheel->free_top, sizeof(top));
    for (uint32_t below = wheel->free_count; below-- > 0;) {
        uint32_t index = top[below % FREE_TOP];
        wheel_check_that(index < wheel->slot_count && !tally->is_seen[index],
                         "a slot is free once");
        tally->is_seen[index] = 1;
        const struct wheel_record *record = tw__wheel_record(wheel, index);
        wheel_check_that(!(record->generation & IS_ARMED) &&
                             record->generation < GENERATION_RETIRED,
                         "a free slot is unarmed and may be let again");
        top[below % FREE_TOP] = record->below;
    }
}

static void wheel_check_chunks(const struct tw_wheel *wheel, const struct wheel_tally *tally)
{
    uint64_t unused = 0, capacity = 0;
    for (const struct wheel_chunk *chunk = wheel->chunk_free; chunk; chunk = chunk->next)
        unused++;
    for (const struct wheel_block *block = wheel->blocks; block; block = block->next) {
        unused += (uint64_t)(block->end - block->fresh);
        capacity += block->size / CHUNK_SIZE - 1;
    }
    wheel_check_that(tally->chunks == wheel->chunk_used, "chunk_used");
    wheel_check_that(capacity == wheel->chunk_capacity, "chunk_capacity");
    wheel_check_that(unused + wheel->chunk_used == capacity,
                     "a chunk is in a bucket, in flight or free");
    wheel_check_that(wheel->slot_capacity == 0 ||
                         capacity >= tw__wheel_chunks_needed(wheel->slot_capacity),
                     "chunks for one entry per slot are there");
    wheel_check_that(wheel->stale_count <= UINT64_C(3) * wheel->slot_count / 2 + 2 * STALE_SLACK +
                                               LEVELS * BUCKETS * BUCKET_INLINED,
                     "stale entries are few");
}

void tw_wheel_check(const struct tw_wheel *wheel)
{
    struct wheel_tally tally = {0};
    tally.is_seen = calloc((size_t)wheel->slot_count + 1, 1);
    wheel_check_that(tally.is_seen != NULL, "memory for the check itself");
    wheel_check_that(wheel->cursor <= wheel->now && wheel->now < TW_NEVER,
                     "the cursor is not ahead of time");
    wheel_check_that(wheel->near_end <= (wheel->cursor | UINT32_MAX) &&
                         wheel->quick_end <= wheel->near_end &&
                         (wheel->sweep_phase != SWEEP_BUCKETS || wheel->quick_end == 0),
                     "near deadlines have the cursor's upper half");
    for (unsigned word = 0; word < LEVELS * LEVEL_WORDS; word++)
        wheel_check_that((wheel->bits[word] != 0) == (wheel->words >> word & 1),
                         "a word's bit sums it up");
    /* In order of time, because of far entries that look equal the first one counts. */
    wheel_check_taken(wheel, &tally);
    for (unsigned level = 0; level < LEVELS; level++)
        for (unsigned slot = 0; slot < BUCKETS; slot++)
            wheel_check_bucket(wheel, &tally, level, slot);
    wheel_check_records(wheel, &tally);
    wheel_check_free_slots(wheel, &tally);
    wheel_check_chunks(wheel, &tally);
    free(tally.is_seen);
}

uint64_t tw__wheel_earliest(const struct tw_wheel *wheel)
{
    uint64_t earliest = TW_NEVER;
    for (uint32_t i = 0; i < wheel->slot_count; i++) {
        const struct wheel_record *record = tw__wheel_record(wheel, i);
        if (record->generation & IS_ARMED && tw__wheel_due(wheel, record, i) < earliest)
            earliest = tw__wheel_due(wheel, record, i);
    }
    return earliest;
}
