/* wheel_disk.c - see wheel_disk.h. */
#include "wheel_disk.h"

#define DISK_SECTORS 192

#include "log/files/log_disk_testing.h"
#include "store/wheel/diskwheel_store.h"

enum { RUNS_MAX = 4 }; /* few, so that runs are rewritten */

struct disk_memory *wheel_disk_create(uint64_t seed)
{
    return disk_memory_create(seed);
}

struct storage *wheel_disk_open(struct disk_memory *disk, uint16_t partition_count)
{
    const struct diskwheel_options options = {.disk = &disk->disk,
                                              .folder = "/d",
                                              .partition_count = partition_count,
                                              .retain_ms = UINT64_MAX,
                                              .runs_max = RUNS_MAX};
    struct storage *storage = NULL;
    const enum error_code code = diskwheel_storage_open(&options, &storage, NULL);

    assert(!code);
    return storage;
}

void wheel_disk_sync(struct disk_memory *disk, struct storage *storage)
{
    if (random_below(&disk->random, 4) == 0)
        disk_memory_fail(disk, 1 + random_below(&disk->random, 40),
                         1 + random_below(&disk->random, 3), EIO);
    storage_flush(storage, NULL);
    diskwheel_storage_rest(storage); /* the disk in memory is no thread's */
    disk_memory_fail(disk, 0, 0, 0);
}

struct storage *wheel_disk_crash(struct disk_memory *disk, struct storage *storage,
                                 uint16_t partition_count)
{
    diskwheel_storage_crash(storage);
    disk_memory_cut(disk);
    return wheel_disk_open(disk, partition_count);
}
