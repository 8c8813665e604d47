/*
 * node_report.h - what the shards of a node tell other threads about themselves, several times a
 * second.
 *
 * Threads    Any: members are atomic, or guarded by the lock.
 */
#ifndef TICKWHEEL_NODE_NODE_REPORT_H
#define TICKWHEEL_NODE_NODE_REPORT_H

#include "delivery/queue.h"
#include "engine/engine.h"
#include "node/partition.h"
#include "ops/config.h"

/* Report of a shard for other threads. */
struct shard_report {
    struct engine_stats stats; /* sum over its partitions */
    struct queue_stats queue;
    uint64_t used_ns; /* processor time of its thread */
    bool is_ready;    /* its partitions have been recovered */
    bool has_engines; /* all its partitions that are this node's have one */
    bool is_failing;  /* no commit, nor claim, gets into the log */
    bool is_drained;  /* while stopping: no delivery is in flight */
    bool is_finished; /* its thread has ended */
};

struct node_report {
    struct mailbox news;    /* woken when what node_health or node_damage tells may have changed */
    atomic_bool is_damaged; /* a partition cannot be read */

    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    unsigned count;         /* of shards */
    struct shard_report shards[SHARDS_MAX];
};

/* False: no file descriptors. */
bool node_report_init(struct node_report *report);
void node_report_deinit(struct node_report *report);

/* The next report of a shard; and the last one: its thread has ended. */
void node_report_put(struct node_report *report, unsigned shard, const struct shard_report *put);
void node_report_finish(struct node_report *report, unsigned shard);

/* Adds up the reports of all shards; is_ready and has_engines: all are, or have. */
void node_report_sum(struct node_report *report, struct shard_report *ret_sum);

/* Waits until `says` is true of the report of each shard, for at most `timeout_ms`. */
void node_report_await(struct node_report *report, bool (*says)(const struct shard_report *shard),
                       uint64_t timeout_ms);

#endif
