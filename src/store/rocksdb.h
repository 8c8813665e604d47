/*
 * rocksdb.h - the embedded storage: RocksDB inside the process, under one data folder.
 *
 * The record and key formats are specified in docs/storage.md.
 */
#ifndef TICKWHEEL_STORE_ROCKSDB_H
#define TICKWHEEL_STORE_ROCKSDB_H

#include "store/storage.h"

/* How a commit becomes durable. */
enum rocksdb_sync {
    ROCKSDB_SYNC_ALWAYS, /* synced before it is acknowledged (default) */
    ROCKSDB_SYNC_NEVER,  /* left to the operating system: power loss may lose seconds */
};

/* What to do with a log that is damaged where it was acknowledged. */
enum rocksdb_damage {
    ROCKSDB_DAMAGE_REFUSE, /* it is not opened (default) */
    ROCKSDB_DAMAGE_SKIP,   /* the intact parts before and behind it are used; the rest is counted */
};

struct rocksdb_options {
    const char *folder; /* made when missing */
    uint16_t
        partition_count;  /* fixed when the folder is made; another value later is ERROR_INVALID */
    uint64_t cluster;     /* id of the cluster whose log the partitions follow; 0: a single node. A
                             folder of another kind, or of another cluster, is ERROR_INVALID */
    uint64_t retain_ms;   /* final records older than this are gone */
    uint64_t cache_bytes; /* block cache; 0: 64 MiB */
    uint64_t memtable_bytes; /* of one of four; 0: 32 MiB */
    uint64_t segment_bytes;  /* of the log's files; 0: 16 MiB */
    enum rocksdb_sync sync;
    enum rocksdb_damage damage;
};

/* Opens or makes the folder. ERROR_IO when it is locked by another process or cannot be read,
 * ERROR_INVALID when it was made with another partition count or by a newer version, ERROR_CORRUPT
 * when files are missing or damaged; the text says which, and what can be done. */
enum error_code rocksdb_storage_open(const struct rocksdb_options *options,
                                     struct storage **ret_storage, struct error *ret_error);

/* Opens a folder that no process has open, to read and export it: nothing in it changes. Answers
 * its partition count, and the id of its cluster; 0: it is a single node's, or of a version that
 * did not write the id. */
enum error_code rocksdb_storage_open_to_export(const char *folder, struct storage **ret_storage,
                                               uint16_t *ret_partition_count, uint64_t *ret_cluster,
                                               struct error *ret_error);

#endif
