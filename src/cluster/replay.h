/*
 * replay.h - applies what the log of a data folder has and its storage lacks, without owning any
 * partition: for a folder at rest that is only read, and before a damaged log is replaced.
 *
 * All records of a private log are valid in their order. What a damaged log lost is passed over,
 * if the log was opened so (log_local.h).
 *
 * Errors     ERROR_CORRUPT if a record is damaged, or is not of this log; what precedes it was
 *            applied. Otherwise as storage_apply.
 * Threads    One.
 */
#ifndef TICKWHEEL_CLUSTER_REPLAY_H
#define TICKWHEEL_CLUSTER_REPLAY_H

#include "log/files/log_local.h"
#include "store/storage.h"

/* Returns the id that frames have in the place of a cluster's, by the id of the log. */
uint64_t replay_cluster(const uint8_t id[LOG_ID_SIZE]);

/* Returns the lowest place of the partitions, from which the storage needs the log, and the
 * highest: the log ends there or later. Both at least 1. */
enum error_code replay_bounds(struct storage *storage, uint16_t partition_count,
                              uint64_t *ret_begin, uint64_t *ret_reached, struct error *ret_error);

/* Opens a folder that no process uses, to read it (diskwheel_storage_open_to_export), with all that
 * its log has. Nothing in the folder is changed. */
struct replay_folder {
    struct storage *storage; /* the caller's to close */
    uint16_t partition_count;
    uint64_t cluster;   /* id of the cluster; 0 for a single node */
    uint64_t torn_logs; /* whether the log ends within a write that was not acknowledged */
};

enum error_code replay_open_folder(const char *folder, struct replay_folder *ret_folder,
                                   struct error *ret_error);

enum error_code replay(struct log_local *local, struct storage *storage, uint16_t partition_count,
                       struct error *ret_error);

#endif
