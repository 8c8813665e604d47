/*
 * shard.h - a thread with the partitions that it owns: their engines, and its part of the queues.
 *
 * Threads    That of the shard, unless a function says otherwise.
 */
#ifndef TICKWHEEL_NODE_SHARD_H
#define TICKWHEEL_NODE_SHARD_H

#include "delivery/queue.h"
#include "node/partition.h"
#include "sys/clock.h"
#include "sys/mailbox.h"

struct node;

struct shard {
    struct node *node;
    unsigned index;
    pthread_t thread;
    struct event_loop loop; /* loop of the thread, which others may join */
    struct mailbox rings;   /* struct partition: those with messages */
    struct mailbox workers; /* struct node_queue_request: leases */

    /* Private to the thread. */
    struct partition **partitions; /* partitions that it owns; has room for all */
    size_t partition_count;
    size_t placed; /* number of partitions that node_partition_next has chosen */
    struct event_task task;
    /* Makes the batches of a turn durable within the turn, if it can, in a node without a cluster;
     * or NULL. It is no task of the loop. */
    struct event_task *committer;
    bool is_quiet; /* no timer is due soon, so that this thread may wait for a quick disk */
    struct queue *queue;
    struct queue_heads *heads;
    struct wall now, advanced_at; /* wall time of this turn, and of the last */
    struct instant turn_at;       /* time of this turn */
    struct instant timers_at;     /* time of this turn, by the clock of timers */
    uint64_t round, moves;        /* see node_advance.h */
    struct instant reported;
    bool is_stale; /* whether there were turns since the last report */
    /* in a cluster: whether all copies have once been read up to the ends of their logs */
    bool has_read;
    struct clock_alarm alarm; /* for waits that a step of the clock may end */
    struct event_source alarm_source;
    struct wall alarm_at; /* time to which the alarm is set; 0 if it is not */
};

/* The shards of a node. Those that run are the first ones. */
struct node_shards {
    struct shard *all;
    unsigned count, running;
    struct event_loop *loops[SHARDS_MAX];
    atomic_bool end;     /* shards end when nothing is in flight */
    atomic_bool give_up; /* shards end at once */
};

/* Initializes everything but the thread and the partitions. Returns false if out of memory or
 * file descriptors. */
bool shard_init(struct shard *shard, struct node *node, unsigned index, const uint8_t *secret);
void shard_deinit(struct shard *shard);

void *shard_run(void *shard);

/* Wakes all shards after a change that no message reports. */
void shards_wake(void *shards);

/* Sends off what the engines want done. */
void shard_send_off(struct shard *shard);

/* Fails everything that engines still wait for, after all threads have ended, so that every
 * request is answered. */
void shard_fail_rest(struct shard *shard);

#endif
