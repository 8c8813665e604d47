/*
 * node_state.h - struct node: the parts that the threads of a node share. Each part has its lock,
 * or says whose it is, and a header of its own, which knows nothing of the node.
 *
 * Calls between files of this folder go down only, also within a line:
 *
 *     start and stop   passing, node
 *     the cluster      node_cluster, node_serve, node_control, node_hold, node_copy
 *     requests         node_work_passed, node_admission, node_survey, node_status,
 *                      backup_plan, backup
 *     shards           node_engines, shard, shard_cluster, shard_queue, shard_commands
 *     queues           node_work, node_queue
 *     what is shared   node_ownership, node_limits, node_replica, node_once, node_members,
 *                      node_zones
 *     parts            node_holds; backup_record; node_disk, storage_loops, storage_health;
 *                      node_deliveries, node_spans, node_figures, node_log,
 *                      node_report, node_counts,
 *                      node_advance, clock_mark,
 *                      node_clock, partition, feed, census, queue_board, measure
 */
#ifndef TICKWHEEL_NODE_NODE_STATE_H
#define TICKWHEEL_NODE_NODE_STATE_H

#include "delivery/brokers.h"
#include "delivery/sender.h"
#include "delivery_log/delivery_log.h"
#include "engine/budget.h"
#include "node/backup.h"
#include "node/node.h"
#include "node/node_clock.h"
#include "node/node_counts.h"
#include "node/node_disk.h"
#include "node/node_holds.h"
#include "node/node_log.h"
#include "node/node_report.h"
#include "node/partition.h"
#include "node/queue_board.h"
#include "node/shard.h"
#include "telemetry/spans.h"

#include <pthread.h>

/* The replicas of the partitions, and what a node of a cluster has beside the others. */
struct node_cluster {
    struct node_replica *replicas;               /* [partition_count], node_replica.h */
    struct node_replica_thread *replica_threads; /* [shards.count] */
    struct node_control *control;                /* node_members.h; NULL without a cluster */
    atomic_uint copies;                          /* copies from other nodes that are under way */
    bool delivers_once; /* whether a connection delivers in transactions of the log; node_once.h */
};

struct node {
    /* Written by the thread that starts the node, before the others run. */
    const struct config *config;
    struct metrics *metrics;
    struct node_events events;
    struct node_route route; /* callbacks of a cluster; all 0 if this node owns every partition */
    struct partition *partitions;
    uint16_t partition_count;

    /* Opaque parts, each with its lock and its header. */
    struct zones *zones;
    struct feed *feed;
    struct targets *targets;
    struct senders *senders; /* NULL from the end of deliveries on, at a stop */
    struct queue_board *board;
    struct budget *budget;             /* places in flight that the engines share */
    struct delivery_log *delivery_log; /* NULL if it is turned off */
    struct spans *spans;               /* NULL without otlp_endpoint; node_spans.h */
    struct node_figures *figures;      /* node_figures.c */
    struct node_advance *advance;      /* node_advance.h; NULL if the clock is real */

    struct node_clock clock;         /* written by the control thread */
    struct node_counts counts;       /* any thread */
    struct node_calendars calendars; /* any thread; has its own lock */
    struct node_holds holds;         /* any thread that changes them, one at a time */
    struct node_disk disk;           /* the read thread */
    struct node_log log;             /* without a cluster: the shards, and its threads */
    struct node_report report;       /* written by the shards, read by any thread */
    struct node_backups backups;     /* the backup thread */
    struct node_shards shards;       /* each its own thread */
    struct node_cluster cluster;     /* the control thread, and those of the replicas */
    atomic_bool is_stopping;         /* no more work is admitted */
};

#endif
