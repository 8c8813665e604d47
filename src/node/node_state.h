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
#include "node/census.h"
#include "node/node.h"
#include "node/node_clock.h"
#include "node/node_counts.h"
#include "node/node_holds.h"
#include "node/partition.h"
#include "node/queue_board.h"
#include "node/storage_health.h"
#include "sys/mailbox.h"

#include <pthread.h>

struct shard;

struct node {
    const struct config *config;
    struct metrics *metrics;
    struct storage *storage;
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

    pthread_mutex_t commit_lock; /* held during a commit */
    _Atomic uint64_t commit_ns;  /* decaying maximum of recent commit durations */
    struct mailbox to_commit, to_read;
    struct mailbox news; /* woken when the results of node_health or node_damage may have changed */
    pthread_t commit_thread, read_thread;

    pthread_mutex_t backup_lock; /* guards the next two fields */
    pthread_t backup_thread;
    bool has_backup_thread; /* whether a thread must be joined */
    atomic_bool backs_up;   /* whether a backup runs */

    /* number of leases sent to other nodes; rotates the first node to ask */
    atomic_uint gathers;
    _Atomic uint64_t placed;    /* number of timers placed by node_partition_next */
    atomic_uint next_partition; /* next partition for timers that no shard keeps */
    atomic_bool is_failing;     /* the last commit failed */
    struct storage_health health;
    atomic_bool is_damaged;     /* a partition cannot be read */
    atomic_bool is_lost;        /* the data folder was removed or replaced */
    atomic_bool is_disk_full;   /* free disk is below the reserve */
    atomic_bool is_disk_scarce; /* less than disk_reserve_bytes above the reserve is free */
    struct tenant_pot disk;     /* bytes of creates while is_disk_scarce */
    atomic_bool is_choked;   /* timers in doubt after failed commits fill their share of memory */
    atomic_bool is_stopping; /* no more work is admitted */
    atomic_bool shards_end;  /* shards end when nothing is in flight */
    atomic_bool shards_give_up;      /* shards end at once */
    atomic_bool wants_look;          /* the read thread should check the disk */
    _Atomic uint64_t looked_ns;      /* time of its last check */
    _Atomic uint64_t unlooked_bytes; /* committed since */
    atomic_bool storage_ends; /* the commit and read threads end when their mailboxes are empty */

    pthread_mutex_t report_lock;   /* guards the fields below, and the reports of the shards */
    pthread_cond_t report_changed; /* on CLOCK_MONOTONIC */
    struct storage_stats storage_stats;
    struct error storage_error; /* last read or commit that failed; empty text if none did */
};

#endif
