/*
 * manifest.h - looks through a manifest of RocksDB without trusting it: is it whole, and if not,
 * does anything lie behind the damage?
 *
 * RocksDB ends its reading without a word at the first record that is damaged. At the end of a
 * manifest that is right: there a crash leaves a change that was never completed. In its midst it
 * would lose the changes that follow, and with them tables.
 *
 *     struct manifest manifest;
 *     manifest_begin(&manifest);
 *     for each block of MANIFEST_BLOCK bytes    manifest_add(&manifest, block);
 *     manifest_end(&manifest);
 *
 * The format: blocks of 32 KiB, in them records: checksum 4, size 2, kind 1, and the part of a
 * change that it holds.
 *
 * Threads    No state but the struct: any.
 */
#ifndef TICKWHEEL_STORE_MANIFEST_H
#define TICKWHEEL_STORE_MANIFEST_H

#include "base/bytes.h"

#define MANIFEST_BLOCK 32768

struct manifest {
    uint64_t records;   /* whole ones */
    bool is_broken;     /* whether something in it is not a complete record */
    uint64_t broken_at; /* position of the first such byte */
    bool has_loss;      /* whether a complete record follows */

    uint64_t offset_;    /* position of the next block */
    bool is_open_;       /* between the first and the last part of a record */
    bool was_broken_;    /* broken since the last complete record */
    uint64_t hole_at_;   /* begin of zeros that may be the end */
    uint64_t record_at_; /* begin of the open record */
};

void manifest_begin(struct manifest *manifest);

/* Takes the next MANIFEST_BLOCK bytes; fewer only at the end. */
void manifest_add(struct manifest *manifest, struct bytes block);

void manifest_end(struct manifest *manifest);

#endif
