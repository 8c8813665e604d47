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
    struct buffer part; /* frames of a commit whose last frame has not come yet */
    /* whether it applies the copies of sweeps, because it began without their rows */
    bool takes_copies;
};

void mirror_init(struct mirror *mirror);
void mirror_deinit(struct mirror *mirror);

/* Applies a valid record. */
void mirror_apply(struct mirror *mirror, uint64_t offset, const struct frame *frame);

/* Returns a hash of all rows, pointers, names, counts of tenants and the metadata. O(rows). */
uint64_t mirror_hash(struct storage *storage);

/* Returns all rows of this kind, for the caller to storage_page_free(). */
struct storage_page mirror_rows(struct storage *storage, enum storage_scan_kind kind);

#endif
