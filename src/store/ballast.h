/*
 * ballast.h - disk space that a data folder holds back, to work on while the disk is full.
 *
 * The file RESERVE takes its space when the folder is opened. It is removed when a write finds no
 * room: cancels, outcomes and the next start then have what it took. It is made again when the disk
 * has room for it twice.
 *
 * Errors     None: a file system without room, or that cannot reserve space, has no ballast.
 * Threads    One at a time; ballast_held from any.
 */
#ifndef TICKWHEEL_STORE_BALLAST_H
#define TICKWHEEL_STORE_BALLAST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BALLAST_NAME "RESERVE" /* name of the file */

struct ballast {
    char *path;            /* path of the file; NULL if there is no ballast */
    uint64_t bytes;        /* size of the complete file */
    _Atomic uint64_t held; /* present size of the file; 0 if it was removed */
};

/* Sizes of a store that fit its disk. */
struct ballast_sizes {
    uint64_t flush_bytes;   /* changes in memory that a flush writes */
    uint64_t segment_bytes; /* size of a file of the log */
};

/* Returns the sizes for a disk of `disk_bytes`, at most those wanted: a flush and a new file of
 * the log take a small part of a small disk. */
struct ballast_sizes ballast_fit(struct ballast_sizes wanted, uint64_t disk_bytes);

/* Looks for the file in `folder`. Returns false if out of memory. */
bool ballast_init(struct ballast *ballast, const char *folder, struct ballast_sizes sizes);
void ballast_deinit(struct ballast *ballast);

/* Makes the file if the disk has room for it twice. */
void ballast_fill(struct ballast *ballast, uint64_t free_bytes);

/* Removes the file. Returns the number of bytes freed. */
uint64_t ballast_release(struct ballast *ballast);

static inline uint64_t ballast_held(const struct ballast *ballast)
{
    return atomic_load_explicit(&ballast->held, memory_order_relaxed);
}

/* Returns the free bytes, including those of the file, below which no timer may be created:
 * flushes and the log need them besides the ballast. */
uint64_t ballast_floor(const struct ballast *ballast);

#endif
