/*
 * delivery_ring.h - the segments of all tenants in one folder, bounded by bytes and by age: what is
 * added beyond the bound replaces the oldest segment of a tenant that has the most.
 *
 *     delivery_ring_add(ring, tenant, encoded);
 *     delivery_ring_flush(ring, now);                     each second
 *     delivery_ring_search(ring, &query, now);
 *
 * Promises   A tenant with less than half of the bytes of the one that has the most loses nothing
 *            but by age. What was flushed survives the end of the process. The files that could be
 *            opened never take more than `bytes_max` after a flush.
 * Errors     An entry that cannot be kept is dropped and counted. A damaged segment is searched as
 *            far as it is valid, and counted. So is a file that cannot be opened or read; it stays,
 *            unless its header is invalid.
 * Threads    None: one owner. All of it waits for the disk.
 */
#ifndef TICKWHEEL_DELIVERY_LOG_DELIVERY_RING_H
#define TICKWHEEL_DELIVERY_LOG_DELIVERY_RING_H

#include "base/time.h"
#include "delivery_log/delivery_query.h"
#include "sys/disk.h"

#include <stdatomic.h>

struct delivery_ring_options {
    const char *folder;            /* is copied */
    const struct disk_calls *disk; /* NULL for the operating system's */
    uint64_t bytes_max; /* limit of the bytes of all files; at least DELIVERY_RING_BYTES_MIN */
    /* maximum age of a delivery, in milliseconds since it ended; older ones are dropped */
    uint64_t age_ms_max;
    /* While it is true nothing is written, and what is added is dropped. Borrowed; NULL: never. */
    const atomic_bool *is_disk_full;
};

#define DELIVERY_RING_BYTES_MIN (UINT64_C(1) << 20)

struct delivery_ring_stats {
    uint64_t bytes;   /* size of all files, each rounded up to blocks of the disk */
    uint64_t dropped; /* number of entries that could not be kept */
    uint64_t failed;  /* of these, those whose write failed */
    uint64_t damaged; /* number of segments in which something was invalid */
};

struct delivery_ring;

/* Makes the folder, or finds the segments in it. A full disk is no error: the folder is made when
 * there is room. */
enum error_code delivery_ring_open(const struct delivery_ring_options *options,
                                   struct delivery_ring **ret_ring, struct error *ret_error);

/* Closes the ring. Entries that were not flushed are lost. */
void delivery_ring_close(struct delivery_ring *ring);

/* Adds an encoded entry of a tenant. */
void delivery_ring_add(struct delivery_ring *ring, struct bytes tenant, struct bytes encoded);

/* Writes what was added, and drops what exceeds the limits. */
void delivery_ring_flush(struct delivery_ring *ring, struct wall now);

/* Answers the query, except for calling `done`. It includes what was added before. */
void delivery_ring_search(struct delivery_ring *ring, struct delivery_query *query,
                          struct wall now);

void delivery_ring_stats(const struct delivery_ring *ring, struct delivery_ring_stats *ret_stats);

/* Returns the cause of the last write that failed; its text is empty if none did. */
const struct error *delivery_ring_failure(const struct delivery_ring *ring);

/* For tests: aborts unless every invariant holds. */
void delivery_ring_check(const struct delivery_ring *ring);

#endif
