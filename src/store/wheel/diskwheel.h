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
    /* maximum of the changes in memory; 0 means 64 MiB. Beside them a timer has two to three bytes
     * of index in memory, and each of its names two */
    uint64_t memory_bytes;
    /* size of a file of the log beside it, for which room is held back; 0 means 16 MiB */
    uint64_t segment_bytes;
    unsigned runs_max; /* number of runs beyond which small ones are rewritten; 0 means 512 */
};

/* Opens or makes the folder. Fails with ERROR_IO if another process has it or it cannot be read,
 * ERROR_INVALID for another partition count, cluster or version, or if it has files of others,
 * ERROR_CORRUPT if files are missing or damaged. The text says which, and what can be done. */
enum error_code diskwheel_storage_open(const struct diskwheel_options *options,
                                       struct storage **ret_storage, struct error *ret_error);

/* Opens a folder that no process uses, to read and export it. Nothing in it is changed: what
 * storage_apply adds from its log stays in memory. Returns its partition count and the id of its
 * cluster; 0 for a single node's. */
enum error_code diskwheel_storage_open_to_export(const char *folder, struct storage **ret_storage,
                                                 uint16_t *ret_partition_count,
                                                 uint64_t *ret_cluster, struct error *ret_error);

#endif
