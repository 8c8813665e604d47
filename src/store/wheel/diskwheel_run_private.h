/* diskwheel_run_private.h - what writing and reading a run share. */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_RUN_PRIVATE_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_RUN_PRIVATE_H

#include "base/random.h"
#include "store/wheel/diskwheel_run.h"

#define DISKWHEEL_RUN_MAGIC "tickwrun"

enum {
    DISKWHEEL_RUN_VERSION = 1,
    DISKWHEEL_RUN_FOOT = 48,
    DISKWHEEL_FILTER_BITS = 14, /* a record */
    DISKWHEEL_FILTER_PROBES = 6,
};

/* Makes the tables and slices of a run without any from the blocks at its begin, up to the first
 * position that has none, which is `end` at most. That is where its index was, unless the block
 * there is damaged. Returns false if out of memory. */
bool diskwheel_run_mend(struct diskwheel_run *run, uint64_t end, uint64_t *ret_index_at);

/* Hash of a record in its table's filter: by partition and serial, or by the name. */
static inline uint64_t diskwheel_run_hash(enum diskwheel_table table, struct record_key key)
{
    if (table == DISKWHEEL_NAMES)
        return random_mix(key.high);
    const uint64_t partition = table == DISKWHEEL_TIMERS ? key.high >> 48 : key.high;
    return random_mix(key.low ^ random_mix(partition + 1));
}

/* Bit of a probe in a filter of this size: double hashing (Kirsch & Mitzenmacher 2006). */
static inline uint64_t diskwheel_run_probe(uint64_t hash, unsigned probe, size_t filter_bytes)
{
    return ((hash & UINT32_MAX) + probe * (hash >> 32 | 1)) % (8 * (uint64_t)filter_bytes);
}

/* Returns false if there is no filter. */
static inline bool diskwheel_run_filter_has(const uint8_t *filter, size_t filter_bytes,
                                            uint64_t hash)
{
    if (!filter_bytes)
        return false;
    for (unsigned probe = 0; probe < DISKWHEEL_FILTER_PROBES; probe++) {
        const uint64_t bit = diskwheel_run_probe(hash, probe, filter_bytes);

        if (!(filter[bit / 8] >> bit % 8 & 1))
            return false;
    }
    return true;
}

#endif
