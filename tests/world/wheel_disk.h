/*
 * wheel_disk.h - the store on a wheel, over a disk in memory that fails, and loses what was not
 * synced.
 */
#ifndef TICKWHEEL_WORLD_WHEEL_DISK_H
#define TICKWHEEL_WORLD_WHEEL_DISK_H

#include "store/storage.h"

struct disk_memory;

/* Makes an empty disk. It is to be freed. */
struct disk_memory *wheel_disk_create(uint64_t seed);

struct storage *wheel_disk_open(struct disk_memory *disk, uint16_t partition_count);

/* What was applied survives a crash, unless calls of the disk fail, as some do. */
void wheel_disk_sync(struct disk_memory *disk, struct storage *storage);

/* Ends the storage as a power cut does, and opens it again. */
struct storage *wheel_disk_crash(struct disk_memory *disk, struct storage *storage,
                                 uint16_t partition_count);

#endif
