/*
 * wheel_sweep.c - the sweep, which removes stale entries so that their number stays bounded.
 *
 * An entry becomes stale when its timer is moved to an earlier deadline and so gets a second entry.
 * When there are more stale entries than slots plus STALE_SLACK, a sweep starts. It visits all
 * buckets, level 0 first, and rotates each, chunk by chunk: the entries that count are appended
 * again, the others are dropped; the entries in the bucket's own line are left alone. Each further
 * stale entry pays for SWEEP_CREDIT entries of the sweep; a step that visits less costs COST_MIN.
 * So no call sweeps more than one chunk. Let S be the slots ever used. A sweep visits at most
 * 2 * S + STALE_SLACK entries in chunks and those made meanwhile, and each bucket costs one call
 * and a half besides: at most 0.3 * S + 3,700 entries become stale meanwhile. So there are never
 * more than 1.5 stale entries for each slot ever used, plus 2 * STALE_SLACK, plus those in the
 * lines of the buckets, at most BUCKET_INLINED each.
 *
 * Two entries of one record at one tick are equal, and one of them must be dropped, or a timer
 * moved back and forth between two ticks would fill the memory. So a bit per slot says that the
 * sweep has kept its entry, and further equal entries are dropped. That never drops the entry that
 * counts:
 *  - an entry made during the sweep clears the bit, so that the bit describes the entry that
 *    counts, also in a slot that is used for the first time;
 *  - a kept entry is not visited again in one sweep: entries only move to lower levels, which the
 *    sweep has finished, and the entries that a rotated bucket keeps go to chunks with the sweep's
 *    stamp;
 *  - of far entries that look equal (32 bits equal, the others unknown) the first visited is kept,
 *    which is also the first to be reached, because buckets are swept in order of time. The
 *    sweep begins by clearing the bits.
 */
#include "wheel_private.h"

#include <string.h>

enum { SWEEP_CREDIT = 8, COST_MIN = 2 };

static void wheel_sweep_set_limit(struct tw_wheel *wheel)
{
    wheel->stale_limit = (uint64_t)wheel->slot_count + wheel->stale_slack;
}

static void wheel_sweep_start(struct tw_wheel *wheel)
{
    wheel->stale_limit = 0;
    /* The number may wrap: each sweep renews all stamps except those of the previous sweep. */
    wheel->sweep_number++;
    wheel->sweep_level = 0;
    wheel->sweep_slot = 0;
    wheel->sweep_credit = 0;
    wheel->sweep_is_inside = false;
    wheel->sweep_phase = SWEEP_KEPT;
}

/* Moves to the next bucket with entries, which may be the current one. Returns false after the last
 * one. */
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

/* True if the entry is to be kept: it is valid, and the sweep has not kept an equal one. */
static bool wheel_sweep_keeps(struct tw_wheel *wheel, struct wheel_entry entry, unsigned level)
{
    const struct wheel_record *record = tw__wheel_record(wheel, entry.index);
    uint64_t *kept = tw__wheel_kept(wheel, entry.index);
    uint64_t bit = UINT64_C(1) << (entry.index % 64);
    if (!tw__wheel_counts(wheel, record, entry, level) || (*kept & bit))
        return false;
    *kept |= bit;
    return true;
}

/* Appends those entries of the first chunk that are to be kept to the chain, and drops the others.
 * Returns how many entries the chunk had. */
static uint32_t wheel_sweep_rotate(struct tw_wheel *wheel, struct wheel_chain *chain,
                                   unsigned level)
{
    struct wheel_chunk *chunk = tw__wheel_chain_detach(chain);
    uint32_t count = chunk->count;
    wheel->visit_count += count;
    for (uint32_t i = 0; i < count; i++)
        tw__prefetch(tw__wheel_record(wheel, chunk->entries[i].index));
    for (uint32_t i = 0; i < count; i++) {
        if (!wheel_sweep_keeps(wheel, chunk->entries[i], level)) {
            wheel->stale_count--;
            continue;
        }
        if (chain->end == chain->limit)
            tw__wheel_chain_link(wheel, chain, tw__wheel_chunk_pop(wheel));
        tw__wheel_chain_push(chain, chunk->entries[i]);
    }
    tw__wheel_chunk_give(wheel, chunk);
    return count;
}

/* Sweeps one chunk, or leaves a bucket. Returns the cost in entries. */
static uint32_t wheel_sweep_step_buckets(struct tw_wheel *wheel)
{
    if (!wheel->sweep_is_inside && !wheel_sweep_seek(wheel)) {
        wheel->sweep_phase = SWEEP_IDLE;
        wheel_sweep_set_limit(wheel);
        tw__wheel_set_ends(wheel);
        return COST_MIN;
    }
    struct wheel_bucket *bucket = &wheel->buckets[wheel->sweep_level][wheel->sweep_slot];
    struct wheel_chain *chain = &bucket->chain;
    if (!wheel->sweep_is_inside && chain->head && chain->head->stamp != wheel->sweep_number) {
        /* Entries that are kept go to a new chunk, which separates them from those still to be
         * swept. */
        tw__wheel_chain_link(wheel, chain, tw__wheel_chunk_pop(wheel));
        wheel->sweep_is_inside = true;
    }
    if (chain->head && chain->head->stamp != wheel->sweep_number) {
        uint32_t count = wheel_sweep_rotate(wheel, chain, wheel->sweep_level);
        return count > COST_MIN ? count : COST_MIN;
    }
    if (wheel->sweep_is_inside && chain->head && chain->end == chain->head->entries) {
        /* No entry was kept, so the bucket has no chunks again. */
        tw__wheel_chunk_give(wheel, tw__wheel_chain_detach(chain));
        chain->end = bucket->inlined + BUCKET_INLINED;
        chain->limit = chain->end;
    }
    wheel->sweep_is_inside = false;
    wheel->sweep_slot++;
    return COST_MIN;
}

/* Does a step of the sweep. Returns its cost in entries, at most CHUNK_ENTRIES. */
static uint32_t wheel_sweep_step(struct tw_wheel *wheel)
{
    if (wheel->sweep_phase == SWEEP_BUCKETS)
        return wheel_sweep_step_buckets(wheel);
    if (wheel->sweep_slot << SEGMENT_BITS < wheel->slot_count) {
        struct wheel_extras *extras = tw__wheel_extras(wheel, wheel->sweep_slot++);
        memset(extras->kept, 0, sizeof(extras->kept));
    } else {
        wheel->sweep_phase = SWEEP_BUCKETS;
        tw__wheel_set_ends(wheel);
        wheel->sweep_slot = 0;
    }
    return CHUNK_ENTRIES;
}

bool tw__wheel_sweep_pay(struct tw_wheel *wheel)
{
    if (wheel->sweep_phase == SWEEP_IDLE) {
        wheel_sweep_set_limit(wheel);
        if (wheel->stale_count <= wheel->stale_limit)
            return true;
        wheel_sweep_start(wheel);
    }
    uint64_t visited = wheel->visit_count;
    if (wheel->sweep_credit < 2 * CHUNK_ENTRIES)
        wheel->sweep_credit += SWEEP_CREDIT;
    while (wheel->sweep_credit >= CHUNK_ENTRIES && wheel->visit_count == visited &&
           wheel->sweep_phase != SWEEP_IDLE)
        wheel->sweep_credit -= wheel_sweep_step(wheel);
    return true;
}

void tw__wheel_sweep_all(struct tw_wheel *wheel)
{
    while (wheel->sweep_phase != SWEEP_IDLE)
        (void)wheel_sweep_step(wheel);
    wheel_sweep_start(wheel);
    while (wheel->sweep_phase != SWEEP_IDLE)
        (void)wheel_sweep_step(wheel);
}
