/*
 * wheel_sweep.c - keeping stale entries few.
 *
 * An entry becomes stale when its timer is moved to an earlier deadline and so gets a second one.
 * Once there are more stale entries than slots, plus STALE_SLACK, a sweep starts: it goes
 * through all buckets, level 0 first, and rotates each, chunk by chunk: the entries that count are
 * appended anew, the others dropped; the few in the bucket's line are left alone. Each further
 * stale entry pays for SWEEP_CREDIT entries swept, so no call sweeps more than one chunk, and while
 * a sweep lasts at most 1/SWEEP_CREDIT of the entries it has to go through become stale anew. All
 * in all there are never more than 1.5 stale entries for each slot ever let, plus 2 * STALE_SLACK.
 *
 * Two entries of one record at one tick look alike, and one of them must go, or a timer moved to
 * and fro between two ticks would fill the memory. So a bit per slot says that the sweep has kept
 * its entry, and another that looks the same is dropped. That never drops the one that counts:
 *  - an entry made during the sweep clears the bit, so the bit speaks of the entry that counts;
 *  - an entry that was kept is not met again in the same sweep: entries only ever move to lower
 * levels, which the sweep has left behind, and what a rotated bucket keeps goes to chunks with its
 * stamp;
 *  - of far entries that look alike (32 bits equal, the rest not known) the one met first is kept,
 * which is the one that comes up first, as buckets are swept in the order of time. The sweep ends
 * by clearing the bits.
 */
#include "wheel_private.h"

#include <string.h>

enum { SWEEP_CREDIT = 8 };

static void wheel_sweep_start(struct tw_wheel *wheel)
{
    /* May wrap: each sweep renews all stamps but those of the one before. */
    wheel->sweep_number++;
    wheel->sweep_level = 0;
    wheel->sweep_slot = 0;
    wheel->sweep_credit = 0;
    wheel->sweep_is_inside = false;
    wheel->sweep_phase = SWEEP_BUCKETS;
    wheel->plain_shift = 0;
}

/* Moves on to the next bucket that is not empty, the present one included. False after the last. */
static bool wheel_sweep_seek(struct tw_wheel *wheel)
{
    for (; wheel->sweep_level < LEVELS; wheel->sweep_level++, wheel->sweep_slot = 0) {
        const uint64_t *bits = &wheel->bits[wheel->sweep_level * LEVEL_WORDS];
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

/* Whether the entry is worth keeping: it counts, and it is the first seen that does. */
static bool wheel_sweep_keeps(struct tw_wheel *wheel, struct wheel_entry entry, unsigned level)
{
    const struct wheel_record *record = tw__wheel_record(wheel, entry.index);
    uint32_t state = level < LEVEL_FAR ? STATE_NEAR : STATE_FAR;
    uint64_t *kept = tw__wheel_kept(wheel, entry.index);
    uint64_t bit = UINT64_C(1) << (entry.index % 64);
    if ((record->generation & STATE_MASK) != state || record->entry_tick != entry.tick_low ||
        (*kept & bit))
        return false;
    *kept |= bit;
    return true;
}

/* Appends what is worth keeping of the chain's first chunk to the chain, and drops the rest. */
static void wheel_sweep_rotate(struct tw_wheel *wheel, struct wheel_chain *chain, unsigned level)
{
    struct wheel_chunk *chunk = tw__wheel_chain_detach(chain);
    wheel->visit_count += chunk->count;
    for (uint32_t i = 0; i < chunk->count; i++)
        tw__prefetch(tw__wheel_record(wheel, chunk->entries[i].index));
    for (uint32_t i = 0; i < chunk->count; i++) {
        if (!wheel_sweep_keeps(wheel, chunk->entries[i], level)) {
            wheel->stale_count--;
            continue;
        }
        if (chain->end == chain->limit)
            tw__wheel_chain_link(wheel, chain, tw__wheel_chunk_pop(wheel));
        tw__wheel_chain_push(chain, chunk->entries[i]);
    }
    tw__wheel_chunk_give(wheel, chunk);
}

/* One chunk, or the step into or out of a bucket. */
static void wheel_sweep_step_buckets(struct tw_wheel *wheel)
{
    if (!wheel->sweep_is_inside && !wheel_sweep_seek(wheel)) {
        wheel->sweep_phase = SWEEP_KEPT;
        wheel->plain_shift = LEVEL_FAR * DIGIT_BITS;
        wheel->sweep_slot = 0;
        return;
    }
    struct wheel_bucket *bucket = &wheel->buckets[wheel->sweep_level][wheel->sweep_slot];
    struct wheel_chain *chain = &bucket->chain;
    if (!wheel->sweep_is_inside && chain->head && chain->head->stamp != wheel->sweep_number) {
        /* What is kept goes to a chunk of its own, so that it is told from what is to be swept. */
        tw__wheel_chain_link(wheel, chain, tw__wheel_chunk_pop(wheel));
        wheel->sweep_is_inside = true;
    }
    if (chain->head && chain->head->stamp != wheel->sweep_number) {
        wheel_sweep_rotate(wheel, chain, wheel->sweep_level);
        return;
    }
    if (wheel->sweep_is_inside && chain->head && chain->end == chain->head->entries) {
        /* Nothing was worth keeping: the bucket ends with its few again. */
        tw__wheel_chunk_give(wheel, tw__wheel_chain_detach(chain));
        chain->end = bucket->inlined + BUCKET_INLINED;
        chain->limit = chain->end;
    }
    wheel->sweep_is_inside = false;
    wheel->sweep_slot++;
}

static void wheel_sweep_step(struct tw_wheel *wheel)
{
    if (wheel->sweep_phase == SWEEP_BUCKETS) {
        wheel_sweep_step_buckets(wheel);
        return;
    }
    if (wheel->sweep_slot << SEGMENT_BITS < wheel->slot_count) {
        struct wheel_segment *segment = wheel->segments[wheel->sweep_slot++];
        memset(segment->kept, 0, sizeof(segment->kept));
    } else {
        wheel->sweep_phase = SWEEP_IDLE;
    }
}

void tw__wheel_sweep_pay(struct tw_wheel *wheel)
{
    if (wheel->sweep_phase == SWEEP_IDLE) {
        if (wheel->stale_count <= (uint64_t)wheel->slot_count + wheel->stale_slack)
            return;
        wheel_sweep_start(wheel);
    }
    wheel->sweep_credit += SWEEP_CREDIT;
    if (wheel->sweep_credit >= CHUNK_ENTRIES) {
        wheel->sweep_credit -= CHUNK_ENTRIES;
        wheel_sweep_step(wheel);
    }
}

void tw__wheel_sweep_all(struct tw_wheel *wheel)
{
    while (wheel->sweep_phase != SWEEP_IDLE)
        wheel_sweep_step(wheel);
    wheel_sweep_start(wheel);
    while (wheel->sweep_phase != SWEEP_IDLE)
        wheel_sweep_step(wheel);
}
