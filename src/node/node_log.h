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
    /* What a write has taken lately, as a maximum that fades. Below it a shard writes by itself. */
    _Atomic uint64_t write_ns;
    uint64_t torn;     /* appends that a crash left incomplete; not acknowledged */
    uint64_t lost;     /* records that the start has skipped */
    struct error loss; /* why; text empty: none was */

    /* Set before node_log_open. */
    const struct config *config; /* borrowed, as is the next */
    struct storage *storage;
    const struct tenant_pot *inflight; /* timers in requests that are not answered; borrowed */
    /* From any thread: the partition has events. */
    void (*told)(void *context, uint16_t partition);
    /* From any thread: a write has ended, after `ns`. */
    void (*written)(void *context, uint64_t bytes, uint64_t ns);
    void *context;
};

/* Opens the log of the data folder, or begins it. A damaged log that may be skipped is applied as
 * far as it is intact, and another one begins. */
enum error_code node_log_open(struct node_log *log, struct error *ret_error);

/* Starts and ends the threads that write and trim. */
enum error_code node_log_start(struct node_log *log, struct error *ret_error);
void node_log_stop(struct node_log *log);

/* Adds what is known of the log to the statistics of the storage. */
void node_log_add_stats(const struct node_log *log, struct storage_stats *stats);

/* Fine when none is open. */
void node_log_close(struct node_log *log);

/* Makes durable what the replicas have appended: on this thread if that is little and the disk is
 * quick, because a switch of threads takes longer; otherwise on the log's thread. `is_quiet`: no
 * timer is due on this thread soon, which would wait for a slow disk. */
void node_log_send(struct node_log *log, bool is_quiet);

#endif
