/*
 * wheel_sweep.c - keeping stale entries few.
 *
 * An entry becomes stale when its timer is moved to an earlier deadline and so gets a second one.
 * Once there are more stale entries than ones that count, plus STALE_SLACK, a sweep starts: it goes
 * through all buckets, level 0 first, and rotates each, chunk by chunk: the entries that count are
 * appended anew, the others dropped. Each further stale entry pays for SWEEP_CREDIT entries swept,
 * so no call sweeps more than one chunk, and while a sweep lasts at most 1/SWEEP_CREDIT of the
 * entries it has to go through become stale anew. All in all there are never more than 1.5 stale
 * entries for each slot ever let, plus 2 * STALE_SLACK.
 *
 * Two entries of one record at one tick look alike, and one of them must go, or a timer moved to
 * and fro between two ticks would fill the memory. So a record remembers the sweep that kept its
 * entry
 * (`seen`), and a second one that looks the same in the same sweep is dropped. This cannot drop
 * both:
 *  - a new entry resets `seen`, so it speaks of the entry that counts;
 *  - within a sweep an entry that was kept is not met again: entries only ever move to lower
 * levels, which the sweep has left behind, and a rotated bucket's new chunks carry the sweep's
 * stamp;
 *  - the number of the sweep may wrap: each whole sweep meets every entry except those that moved
 * down meanwhile, which happens seven times at most, so `seen` is never older than eight sweeps.
 */
#include "wheel_private.h"

enum { SWEEP_CREDIT = 8, SWEEP_NUMBER_MAX = INT32_MAX };

static void start(struct tw_wheel *wheel)
{
    wheel->sweep = wheel->sweep == SWEEP_NUMBER_MAX ? 1 : wheel->sweep + 1;
    wheel->sweep_level = 0;
    wheel->sweep_slot = 0;
    wheel->sweep_credit = 0;
    wheel->sweep_is_inside = false;
    wheel->sweep_is_running = true;
}

/* Moves on to the next bucket that is not empty, the present one included. False after the last. */
static bool seek(struct tw_wheel *wheel)
{
    for (; wheel->sweep_level < LEVELS; wheel->sweep_level++, wheel->sweep_slot = 0) {
        const uint64_t *bits = wheel->bits[wheel->sweep_level];
        for (unsigned slot = wheel->sweep_slot; slot < BUCKETS; slot = (slot | 63) + 1) {
            uint64_t rest = bits[slot / 64] >> (slot % 64);
            if (rest) {
                wheel->sweep_slot = slot + (unsigned)__builtin_ctzll(rest);
                return true;
            }
        }
    }
    return false;
}

/* Appends what counts of the bucket's first chunk to the bucket, and drops the rest. */
static void rotate(struct tw_wheel *wheel, unsigned level, unsigned slot)
{
    struct bucket *bucket = &wheel->buckets[level][slot];
    uint64_t first = tw__wheel_bucket_start(wheel, level, slot);
    struct chunk *chunk = tw__wheel_bucket_detach(wheel, level, slot);
    wheel->visit_count += chunk->count;
    for (uint32_t i = 0; i < chunk->count; i++)
        __builtin_prefetch(tw__wheel_record(wheel, chunk->entries[i].index), 1);
    for (uint32_t i = 0; i < chunk->count; i++) {
        struct record *record = tw__wheel_record(wheel, chunk->entries[i].index);
        if (!tw__wheel_entry_counts(record, chunk->entries[i], level, first) ||
            record->seen == wheel->sweep) {
            wheel->stale_count--;
            continue;
        }
        record->seen = wheel->sweep;
        if (((uintptr_t)bucket->end & (CHUNK_SIZE - 1)) == 0)
            tw__wheel_bucket_link(wheel, level, slot, tw__wheel_chunk_pop(wheel));
        *bucket->end++ = chunk->entries[i];
    }
    tw__wheel_chunk_give(wheel, chunk);
}

/* One chunk, or the step into or out of a bucket. */
static void step(struct tw_wheel *wheel)
{
    if (!wheel->sweep_is_inside) {
        if (!seek(wheel)) {
            wheel->sweep_is_running = false;
            return;
        }
        /* What is kept goes to a chunk of its own, so that it is told from what is to be swept. */
        tw__wheel_bucket_link(wheel, wheel->sweep_level, wheel->sweep_slot,
                              tw__wheel_chunk_pop(wheel));
        wheel->sweep_is_inside = true;
    }
    struct bucket *bucket = &wheel->buckets[wheel->sweep_level][wheel->sweep_slot];
    if (bucket->head && bucket->head->stamp != wheel->sweep) {
        rotate(wheel, wheel->sweep_level, wheel->sweep_slot);
        return;
    }
    if (bucket->head && bucket->end == bucket->head->entries) /* nothing was worth keeping */
        tw__wheel_chunk_give(wheel,
                             tw__wheel_bucket_detach(wheel, wheel->sweep_level, wheel->sweep_slot));
    wheel->sweep_is_inside = false;
    wheel->sweep_slot++;
}

void tw__wheel_sweep_pay(struct tw_wheel *wheel)
{
    if (!wheel->sweep_is_running) {
        if (wheel->stale_count <= (uint64_t)wheel->entered_count + STALE_SLACK)
            return;
        start(wheel);
    }
    wheel->sweep_credit += SWEEP_CREDIT;
    while (wheel->sweep_credit >= CHUNK_ENTRIES && wheel->sweep_is_running) {
        wheel->sweep_credit -= CHUNK_ENTRIES;
        step(wheel);
    }
}

void tw__wheel_sweep_all(struct tw_wheel *wheel)
{
    /* The sweep under way is finished first, not abandoned: see the bound on the age of `seen`. */
    while (wheel->sweep_is_running)
        step(wheel);
    start(wheel);
    while (wheel->sweep_is_running)
        step(wheel);
}
