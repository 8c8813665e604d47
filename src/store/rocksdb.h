/*
 * rocksdb.h - the embedded storage: RocksDB inside the process, under one data folder.
 *
 * The record and key formats are specified in record.h.
 */
#ifndef TICKWHEEL_STORE_ROCKSDB_H
#define TICKWHEEL_STORE_ROCKSDB_H

#include "store/storage.h"

/* How files that damage has cost changes are handled. */
enum rocksdb_damage {
    ROCKSDB_DAMAGE_REFUSE, /* refused (default) */
    ROCKSDB_DAMAGE_SKIP,   /* the intact parts are used, and the rest is counted */
};

struct rocksdb_options {
    const char *folder;       /* made if missing */
    uint16_t partition_count; /* fixed when the folder is made; ERROR_INVALID if it differs later */
    /* id of the cluster whose log the partitions follow; 0 for a single node. ERROR_INVALID for
     * a folder of another kind or cluster */
    uint64_t cluster;
    uint64_t retain_ms;      /* age at which final records are dropped */
    uint64_t cache_bytes;    /* size of the block cache; 0 means 64 MiB */
    uint64_t memtable_bytes; /* size of each of four memtables; 0 means 32 MiB */
    /* size of a file of the log beside it, for which room is held back; 0 means 16 MiB */
    uint64_t segment_bytes;
    enum rocksdb_damage damage;
};

/* Opens or makes the folder. Fails with ERROR_IO if another process has it or it cannot be read,
 * ERROR_INVALID if it has another partition count or a newer version, ERROR_CORRUPT if files are
 * missing or damaged. The text says which, and what can be done. */
enum error_code rocksdb_storage_open(const struct rocksdb_options *options,
                                     struct storage **ret_storage, struct error *ret_error);

/* Opens a folder that no process uses, to read and export it without changing it. It may lack what
 * its log has (cluster/replay.h). Returns its partition count and the id of its cluster; 0 for a
 * single node's. */
enum error_code rocksdb_storage_open_to_export(const char *folder, struct storage **ret_storage,
                                               uint16_t *ret_partition_count, uint64_t *ret_cluster,
                                               struct error *ret_error);

/* Lets storage_apply change such a folder's storage: from now on it uses links to the files, which
 * go when it is closed. Nobody reads meanwhile. */
enum error_code rocksdb_storage_use_links(struct storage *storage, struct error *ret_error);

#endif
