/*
 * mirror.h - the storage that the log of a simulated cluster stands for, in memory, and looks at
 * the storages of nodes.
 */
#ifndef TICKWHEEL_WORLD_MIRROR_H
#define TICKWHEEL_WORLD_MIRROR_H

#include "cluster/frame.h"
#include "store/storage.h"

struct mirror {
    struct storage *storage;
    struct buffer part; /* of a commit whose last frame is not there yet */
    bool takes_copies;  /* of sweeps: it began with none of the rows */
};

void mirror_init(struct mirror *mirror);
void mirror_deinit(struct mirror *mirror);

/* Applies a valid record. */
void mirror_apply(struct mirror *mirror, uint64_t offset, const struct frame *frame);

/* Of all rows, pointers, names, counts of tenants and the metadata. O(rows). */
uint64_t mirror_hash(struct storage *storage);

/* Returns all rows of this kind, for the caller to storage_page_free(). */
struct storage_page mirror_rows(struct storage *storage, enum storage_scan_kind kind);

#endif
