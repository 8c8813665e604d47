/*
 * replica.h - the storage of a simulated node, in memory, which follows the log.
 */
#ifndef TICKWHEEL_CLUSTER_SIM_REPLICA_H
#define TICKWHEEL_CLUSTER_SIM_REPLICA_H

#include "cluster/ownership.h"
#include "storage/storage.h"

struct replica {
    struct storage *storage;
    struct buffer part; /* of a commit whose last frame is not there yet */
    uint64_t next;      /* records before this offset are applied */
};

void replica_init(struct replica *replica);
void replica_deinit(struct replica *replica);

/* Applies a valid record, unless it was applied already. */
void replica_apply(struct replica *replica, uint64_t offset, const struct frame *frame);

/* What was applied survives a crash from now on. */
void replica_sync(struct replica *replica);

/* The node dies: of the commits behind the last sync the first `kept` stay. */
void replica_crash(struct replica *replica, size_t kept);

/* How far the storage is, as its own place tells. */
struct ownership_place replica_place(const struct replica *replica);

/* Of all rows and the metadata. O(rows). */
uint64_t replica_hash(const struct replica *replica);

/* All rows, for the caller to storage_page_free(). */
struct storage_page replica_rows(const struct replica *replica);

#endif
