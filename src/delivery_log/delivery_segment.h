/*
 * delivery_segment.h - a file of the delivery log: entries of one tenant in the order of their
 * stamps, and after the last one, when it is sealed, a table of the newest entry for each hash.
 *
 * Header: "tickdlog" 8, number 8, size of the tenant's name 1, the name 64, zeros, checksum 4; in
 * all 96 bytes. Entries: delivery_entry.h. The end of a sealed segment: the slots
 * (delivery_table.h), and a trailer: "tickdend" 8, offset of the slots 8, last stamp 8, checksum of
 * the slots 4, and of the trailer before it 4; in all 32 bytes.
 *
 * A segment that is not sealed is read from its begin to its first invalid entry: that and what
 * follows was not completely written, and is cut off before the next entry is written.
 *
 * Errors     Codes of the disk; CORRUPT for a file without a valid header.
 * Ownership  A segment owns its table and its pending bytes.
 * Threads    None: one owner. All of it waits for the disk.
 */
#ifndef TICKWHEEL_DELIVERY_LOG_DELIVERY_SEGMENT_H
#define TICKWHEEL_DELIVERY_LOG_DELIVERY_SEGMENT_H

#include "delivery_log/delivery_folder.h"
#include "delivery_log/delivery_query.h"
#include "delivery_log/delivery_table.h"
#include "sys/disk.h"
#include "timer/tenant_latest.h"

#define DELIVERY_SEGMENT_HEADER_SIZE  96
#define DELIVERY_SEGMENT_TRAILER_SIZE 32
#define DELIVERY_SEGMENT_BYTES_MAX    (UINT64_C(8) << 20) /* larger files are not read */

struct delivery_segment {
    struct list link;                 /* for the ring: its segments in the order of their numbers */
    struct list loaded_link;          /* for the ring */
    struct tenant_latest_place place; /* for the ring */
    uint64_t number;
    uint64_t bytes;      /* size of the file; not sealed: offset after the last entry written */
    uint64_t last_stamp; /* stamp of the last entry; 0 if there is none, or it is unknown */
    bool is_sealed, is_loaded;
    bool is_damaged; /* whether it was counted as damaged */
    /* Loaded while the folder was full: invalid bytes after the last entry are still to be cut off,
     * and nothing may be added. */
    bool has_tail;
    /* The following fields belong to a loaded segment that is not sealed. */
    struct delivery_table table;
    struct buffer pending; /* entries that are not written yet */
    uint32_t pending_count;
};

void delivery_segment_deinit(struct delivery_segment *segment);

/* Makes the file of an empty segment, which is loaded. */
enum error_code delivery_segment_make(const struct delivery_folder *folder, uint64_t number,
                                      struct bytes tenant, struct delivery_segment *ret_segment);

/* Reads the header and the trailer of a file. `ret_tenant` has room for TENANT_SIZE_MAX bytes. */
enum error_code delivery_segment_open(const struct delivery_folder *folder, uint64_t number,
                                      struct delivery_segment *ret_segment, char *ret_tenant,
                                      size_t *ret_tenant_size);

/* Reads a segment that is not sealed, and cuts off what is invalid, unless the folder is full. */
enum error_code delivery_segment_load(struct delivery_folder *folder,
                                      struct delivery_segment *segment);

/* Frees the table, and drops entries that are not written. */
void delivery_segment_unload(struct delivery_segment *segment);

/* Adds an encoded entry with this stamp to the pending ones. The segment is loaded and not sealed.
 * Returns false if out of memory; nothing changed. */
bool delivery_segment_add(struct delivery_segment *segment, struct bytes encoded, uint64_t stamp);

/* Writes the pending entries. If that fails, the segment is unloaded and the pending entries are
 * lost. */
enum error_code delivery_segment_flush(const struct delivery_folder *folder,
                                       struct delivery_segment *segment);

/* Writes the table. The segment is loaded and flushed; afterwards it is sealed. */
enum error_code delivery_segment_seal(const struct delivery_folder *folder,
                                      struct delivery_segment *segment);

/* Adds the entries that the query wants to its answer, newest first, until it is full. The segment
 * has no pending entries. Returns false if the segment has entries before `since`: older segments
 * need not be searched. A damaged part is left out, and counted once. */
bool delivery_segment_search(struct delivery_folder *folder, struct delivery_segment *segment,
                             struct delivery_query *query);

#endif
