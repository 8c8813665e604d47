/*
 * node_state.h - struct node: the parts that the threads of a node share.
 *
 * Each part has a header of its own, which knows nothing of the node.
 */
#ifndef TICKWHEEL_NODE_NODE_STATE_H
#define TICKWHEEL_NODE_NODE_STATE_H

#include "delivery/brokers.h"
#include "delivery/sender.h"
#include "engine/budget.h"
#include "node/backup.h"
#include "node/census.h"
#include "node/node.h"
#include "node/node_clock.h"
#include "node/node_counts.h"
#include "node/node_disk.h"
#include "node/node_holds.h"
#include "node/node_report.h"
#include "node/partition.h"
#include "node/queue_board.h"

#include <pthread.h>

struct shard;

struct node {
    const struct config *config;
    struct metrics *metrics;
    struct targets *targets;
    struct node_events events;
    struct node_route route; /* all 0 if every partition is here */
    struct senders *senders;
    struct queue_board *board;
    struct feed *feed;
    struct census *queues, *tenants; /* waiting timers by queue and by tenant */
    pthread_mutex_t refusals_lock;   /* guards `refusals` */
    struct node_refusals refusals;   /* all 0 if refusals are not counted */
    struct budget *budget;           /* places in flight that the engines share */
    struct node_counts counts;
    struct node_holds holds;
    struct node_disk disk;
    struct node_report report;
    struct node_backups backups;
    struct zones *zones;
    uint16_t partition_count;
    unsigned shard_count, shards_running;
    struct partition *partitions;
    struct node_replica *replicas; /* [partition_count], node_cluster.h; NULL without a cluster */
    atomic_uint copies;            /* copies from other nodes that are under way */
    /* whether a connection delivers in transactions of the log; node_once.h */
    bool delivers_once;
    struct node_control *control; /* node_control.h; NULL without a cluster */
    struct node_clock clock;
    struct shard *shards;
    struct event_loop *loops[SHARDS_MAX]; /* loops of the shards */

    /* number of leases sent to other nodes; rotates the first node to ask */
    atomic_uint gathers;
    _Atomic uint64_t placed;    /* number of timers placed by node_partition_next */
    atomic_uint next_partition; /* next partition for timers that no shard keeps */
    atomic_bool is_stopping;    /* no more work is admitted */
    atomic_bool shards_end;     /* shards end when nothing is in flight */
    atomic_bool shards_give_up; /* shards end at once */
};

#endif
