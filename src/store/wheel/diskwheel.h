/*
 * diskwheel.h - the store on a timing wheel: timers in one folder, in runs of due order.
 *
 * Changes are in memory, and in their log; when there are many they are written as runs, one for
 * each distance of their due times. What ends a timer is a mark beside its run. A run whose timers
 * are all over is removed; runs with few are rewritten together.
 */
#ifndef TICKWHEEL_STORE_WHEEL_DISKWHEEL_H
#define TICKWHEEL_STORE_WHEEL_DISKWHEEL_H

#include "store/storage.h"
#include "sys/disk.h"

struct diskwheel_options {
    const struct disk_calls *disk; /* NULL for that of the system */
    const char *folder;            /* made if missing */
    uint16_t partition_count; /* fixed when the folder is made; ERROR_INVALID if it differs later */
    uint64_t cluster;         /* id of the cluster; 0 for a single node */
    uint64_t retain_ms;       /* age at which final records are dropped */
    uint64_t memory_bytes;    /* size of the changes in memory; 0 means 64 MiB */
    unsigned runs_max;        /* number of runs beyond which some are rewritten; 0 means 512 */
};

/* Opens or makes the folder. ERROR_INVALID for another partition count, cluster or version,
 * ERROR_CORRUPT if files are missing or damaged. */
enum error_code diskwheel_storage_open(const struct diskwheel_options *options,
                                       struct storage **ret_storage, struct error *ret_error);

#endif
