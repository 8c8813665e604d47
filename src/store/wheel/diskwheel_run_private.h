/* diskwheel_run_private.h - what writing and reading a run share. */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_RUN_PRIVATE_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_RUN_PRIVATE_H

#include "base/random.h"
#include "store/wheel/diskwheel_run.h"

#define DISKWHEEL_RUN_MAGIC "tickwrun"

enum {
    DISKWHEEL_RUN_VERSION = 1,
    DISKWHEEL_RUN_FOOT = 48,
    DISKWHEEL_FILTER_BITS = 16, /* a record */
    DISKWHEEL_FILTER_PROBES = 7,
    DISKWHEEL_FILTER_LINE = 64, /* bytes; one line of the processor's cache */
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

/* Position of the line that has all bits of a record: so a filter costs one miss of the cache. */
static inline size_t diskwheel_run_filter_line(uint64_t hash, size_t filter_bytes)
{
    const uint64_t lines = filter_bytes / DISKWHEEL_FILTER_LINE;

    return (size_t)((hash >> 32) * lines >> 32) * DISKWHEEL_FILTER_LINE;
}

/* Number of the bit of a probe in its line. `bits` is random_mix of the hash. */
static inline unsigned diskwheel_run_filter_bit(uint64_t bits, unsigned probe)
{
    return (unsigned)(bits >> 9 * probe) & (8 * DISKWHEEL_FILTER_LINE - 1);
}

/* Returns false if there is no filter. */
static inline bool diskwheel_run_filter_has(const uint8_t *filter, size_t filter_bytes,
                                            uint64_t hash)
{
    if (!filter_bytes)
        return false;
    const uint8_t *line = filter + diskwheel_run_filter_line(hash, filter_bytes);
    const uint64_t bits = random_mix(hash);
    for (unsigned probe = 0; probe < DISKWHEEL_FILTER_PROBES; probe++) {
        const unsigned bit = diskwheel_run_filter_bit(bits, probe);

        if (!(line[bit / 8] >> bit % 8 & 1))
            return false;
    }
    return true;
}

#endif
