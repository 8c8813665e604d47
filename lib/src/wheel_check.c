/* wheel_check.c - every invariant of the wheel, for tests. */
#include "wheel_private.h"

#include <stdio.h>
#include <stdlib.h>

/* What the walk through the buckets finds; compared with the wheel's counters at the end. */
struct census {
    uint64_t entries;
    uint64_t counting; /* records whose entry was met */
    uint64_t chunks;
    unsigned char *is_met; /* by slot */
};

static void check(bool holds, const char *invariant)
{
    if (holds)
        return;
    fprintf(stderr, "tw_wheel_check: broken: %s\n", invariant);
    abort();
}

/* Whether the record says that this is its entry. Of a far one 32 bits are all that can be
 * compared. */
static bool counts(const struct record *record, struct entry entry, unsigned level)
{
    uint32_t state = level < LEVEL_FAR ? STATE_NEAR : STATE_FAR;
    return (record->tenant & STATE_MASK) == state && record->where == entry.tick_low;
}

static void check_entry(const struct tw_wheel *wheel, struct census *census, struct entry entry,
                        unsigned level, uint64_t start)
{
    check(entry.index < wheel->slot_count, "an entry names a slot that was let");
    census->entries++;
    if (level < LEVEL_FAR) {
        uint64_t tick = (start & ~(uint64_t)UINT32_MAX) | entry.tick_low;
        check((tick ^ start) >> (level * DIGIT_BITS) == 0, "an entry lies in its own bucket");
    }
    const struct record *record = tw__wheel_record(wheel, entry.index);
    if (!counts(record, entry, level) || census->is_met[entry.index])
        return;
    census->is_met[entry.index] = 1;
    census->counting++;
    if (level >= LEVEL_FAR)
        check(tw__wheel_timer(wheel, entry.index)->due >= start,
              "a far entry comes up no later than its timer is due");
}

static void check_chain(const struct tw_wheel *wheel, struct census *census,
                        const struct chain *chain, unsigned level, uint64_t start)
{
    if (!chain->head)
        return;
    const struct chunk *last = tw__wheel_chunk_of(chain->end);
    for (const struct chunk *chunk = chain->head; chunk; chunk = chunk->next) {
        uint32_t count = chunk == last ? (uint32_t)(chain->end - chunk->entries) : chunk->count;
        check(count <= CHUNK_ENTRIES, "a chunk holds no more than fits");
        check((chunk == last) == (chunk->next == NULL), "the end lies in the last chunk");
        check(chunk != last || chain->limit == chunk->entries + CHUNK_ENTRIES,
              "a chain knows its limit");
        census->chunks++;
        for (uint32_t i = 0; i < count; i++)
            check_entry(wheel, census, chunk->entries[i], level, start);
    }
}

static void check_bucket(const struct tw_wheel *wheel, struct census *census, unsigned level,
                         unsigned slot)
{
    const struct bucket *bucket = &wheel->buckets[level][slot];
    const struct chain *chain = &bucket->chain;
    bool has_bit = wheel->bits[level * LEVEL_WORDS + slot / 64] >> (slot % 64) & 1;
    check(has_bit == (chain->end != NULL), "a bit is set just where a bucket is not empty");
    check(chain->end || (!chain->head && !chain->limit), "an empty bucket is empty");
    if (!chain->end)
        return;
    uint64_t start = tw__wheel_bucket_start(wheel, level, slot);
    unsigned digit = (unsigned)(wheel->cursor >> (level * DIGIT_BITS)) & (BUCKETS - 1);
    check(slot > digit || (slot == digit && level == 0), "buckets are ahead of the cursor");
    check(wheel->next <= start, "no bucket starts before next");
    size_t count = chain->head ? BUCKET_FEW : (size_t)(chain->end - bucket->few);
    check(count >= 1 && count <= BUCKET_FEW, "a bucket's first entries lie in its line");
    check(chain->head || chain->limit == bucket->few + BUCKET_FEW, "a bucket knows its limit");
    for (size_t i = 0; i < count; i++)
        check_entry(wheel, census, bucket->few[i], level, start);
    check_chain(wheel, census, chain, level, start);
}

/* The bucket that is being fired or opened. */
static void check_taken(const struct tw_wheel *wheel, struct census *census)
{
    uint32_t low = (uint32_t)wheel->cursor;
    for (uint32_t i = wheel->run_next; i < wheel->run_count; i++)
        check_entry(wheel, census, (struct entry){low, wheel->run[i]}, 0, wheel->cursor);
    unsigned level = wheel->phase == PHASE_OPENING ? wheel->opening : 0;
    check_chain(wheel, census, &wheel->taken, level, wheel->cursor);
    if (wheel->phase != PHASE_FIRING)
        check(wheel->run_next == wheel->run_count, "nothing fires but in its phase");
    if (wheel->phase == PHASE_NONE)
        check(!wheel->taken.head, "what was taken is gone through");
    else
        check(wheel->next <= wheel->cursor, "what was taken is due");
}

static void check_records(const struct tw_wheel *wheel, const struct census *census)
{
    uint64_t armed = 0, retired = 0;
    for (uint32_t i = 0; i < wheel->slot_count; i++) {
        const struct record *record = tw__wheel_record(wheel, i);
        uint32_t state = record->tenant & STATE_MASK;
        check(state <= STATE_FAR, "a record is in a state");
        check((state != STATE_NONE) == census->is_met[i],
              "a record's entry is where the record says");
        retired += record->tenant >= TENANT_RETIRED;
        bool is_armed = record->tenant & TENANT_IS_ARMED;
        uint64_t due = tw__wheel_timer(wheel, i)->due;
        if (state == STATE_NEAR) {
            uint64_t tick = tw__wheel_near_tick(wheel, record->where);
            check(tick >= wheel->cursor, "nothing lies before the cursor");
            check(!is_armed || tick <= due || tick == wheel->cursor,
                  "an entry comes up no later than its timer is due");
        }
        armed += is_armed;
        check(!is_armed || state != STATE_NONE, "an armed record has an entry");
    }
    check(armed == wheel->armed_count, "armed_count");
    check(census->entries == census->counting + wheel->stale_count, "stale_count");
    check(retired == wheel->retired_count, "retired_count");
}

static void check_free_slots(const struct tw_wheel *wheel, struct census *census)
{
    check(wheel->free_count + wheel->retired_count <= wheel->slot_count, "free slots were let");
    check(wheel->slot_count <= wheel->slot_capacity &&
              wheel->slot_capacity <= (uint64_t)wheel->segment_count << SEGMENT_BITS,
          "slot_capacity");
    check(wheel->slot_count - wheel->retired_count <= wheel->timer_count_max, "timer_count_max");
    for (uint32_t i = 0; i < wheel->slot_count; i++)
        census->is_met[i] = 0;
    for (uint32_t i = 0; i < wheel->free_count; i++) {
        uint32_t index = *tw__wheel_free_slot(wheel, i);
        check(index < wheel->slot_count && !census->is_met[index], "a slot is free once");
        census->is_met[index] = 1;
        const struct record *record = tw__wheel_record(wheel, index);
        check(!(record->tenant & TENANT_IS_ARMED) && record->tenant < TENANT_RETIRED,
              "a free slot is unarmed and may be let again");
    }
}

static void check_chunks(const struct tw_wheel *wheel, const struct census *census)
{
    uint64_t unused = 0, capacity = 0;
    for (const struct chunk *chunk = wheel->chunk_free; chunk; chunk = chunk->next)
        unused++;
    for (const struct block *block = wheel->blocks; block; block = block->next) {
        unused += (uint64_t)(block->end - block->fresh);
        capacity += block->size / CHUNK_SIZE - 1;
    }
    check(census->chunks == wheel->chunk_used, "chunk_used");
    check(capacity == wheel->chunk_capacity, "chunk_capacity");
    check(unused + wheel->chunk_used == capacity, "a chunk is in a bucket, in flight or free");
    check(wheel->slot_capacity == 0 || capacity >= tw__wheel_chunks_needed(wheel->slot_capacity),
          "chunks for one entry per slot are there");
    check(wheel->stale_count <=
              UINT64_C(3) * wheel->slot_count / 2 + 2 * STALE_SLACK + LEVELS * BUCKETS * BUCKET_FEW,
          "stale entries are few");
}

void tw_wheel_check(const struct tw_wheel *wheel)
{
    struct census census = {0};
    census.is_met = calloc((size_t)wheel->slot_count + 1, 1);
    check(census.is_met != NULL, "memory for the check itself");
    check(wheel->cursor <= wheel->now && wheel->now < TW_NEVER, "the cursor is not ahead of time");
    for (unsigned word = 0; word < LEVELS * LEVEL_WORDS; word++)
        check((wheel->bits[word] != 0) == (wheel->words >> word & 1), "a word's bit sums it up");
    for (unsigned level = 0; level < LEVELS; level++)
        for (unsigned slot = 0; slot < BUCKETS; slot++)
            check_bucket(wheel, &census, level, slot);
    check_taken(wheel, &census);
    check_records(wheel, &census);
    check_free_slots(wheel, &census);
    check_chunks(wheel, &census);
    free(census.is_met);
}
