/*
 * node_log.h - the log of a node without a cluster: the files of its data folder (log_local.h),
 * which the replicas of all its partitions share.
 *
 *     node_log_open(&log, &options, &error);
 *     ... each replica appends to node_log_of(&log, partition) ...
 *     node_log_send(&log, is_quiet);            then one write and one sync for all of them
 *
 * Threads    Any, unless a function says otherwise.
 */
#ifndef TICKWHEEL_NODE_NODE_LOG_H
#define TICKWHEEL_NODE_NODE_LOG_H

#include "log/files/log_local.h"
#include "ops/config.h"
#include "store/storage.h"
#include "timer/tenant_pot.h"

#include <stdatomic.h>

struct node_log {
    struct log_local *local; /* NULL in a cluster */
    uint64_t cluster;        /* id in the frames of this log */
    /* Decaying maximum of the durations of recent writes, in nanoseconds. Below a limit a shard
     * writes on its own thread. */
    _Atomic uint64_t write_ns;
    uint64_t torn;     /* appends that a crash left incomplete; not acknowledged */
    uint64_t lost;     /* records that were skipped by the start */
    struct error loss; /* cause of the loss; its text is empty if nothing was lost */

    /* Set before node_log_open. */
    const struct config *config; /* borrowed, as is the next */
    struct storage *storage;
    const struct tenant_pot *inflight; /* timers in requests that are not answered; borrowed */
    /* Called from any thread when the partition has events. */
    void (*told)(void *context, uint16_t partition);
    /* Called from any thread after a write, which took `ns`. */
    void (*written)(void *context, uint64_t bytes, uint64_t ns);
    void *context;
};

/* Opens the log of the data folder, or begins it. A damaged log that may be skipped is applied as
 * far as it is intact, and another one begins. */
enum error_code node_log_open(struct node_log *log, struct error *ret_error);

/* Starts and ends the threads that write and trim. */
enum error_code node_log_start(struct node_log *log, struct error *ret_error);
void node_log_stop(struct node_log *log);

/* Adds the statistics of the log to those of the storage. */
void node_log_add_stats(const struct node_log *log, struct storage_stats *stats);

/* Closes the log, if one is open. */
void node_log_close(struct node_log *log);

/* Makes durable what the replicas have appended: on this thread if that is little and the disk is
 * quick, because a switch of threads takes longer; otherwise on the log's thread. `is_quiet`: no
 * timer is due on this thread soon, which would wait for a slow disk. */
void node_log_send(struct node_log *log, bool is_quiet);

#endif
