/*
 * node_private.h - the inside of a node, shared by its files.
 *
 *   node.c           start, stop, the door, health, metrics
 *   engine_loop.c    the engine thread
 *   queue_loop.c     the built-in queue, on the engine thread
 *   backup.c         copies of the storage
 *   storage_loops.c  the commit thread and the read thread
 */
#ifndef TICKWHEEL_SHARD_NODE_PRIVATE_H
#define TICKWHEEL_SHARD_NODE_PRIVATE_H

#include "delivery/brokers.h"
#include "delivery/sender.h"
#include "engine/engine.h"
#include "shard/node.h"
#include "sys/mailbox.h"

#include <stdatomic.h>

/* What the engine thread tells the others about itself. */
struct node_report {
    pthread_mutex_t lock;      /* guards what follows */
    pthread_cond_t changed;    /* on CLOCK_MONOTONIC */
    struct engine_stats stats; /* the sum of all partitions */
    struct storage_stats storage;
    struct error storage_error; /* of the last read or commit that failed; text empty: none did */
    struct queue_stats queue;
    bool is_drained;  /* while stopping: no delivery is out */
    bool is_finished; /* the engine thread has ended */
};

struct node {
    const struct config *config;
    struct metrics *metrics;
    struct storage *storage;
    struct targets *targets;
    struct node_events events;
    struct senders *senders;
    struct queue *queue; /* the engine thread's, while it runs */
    struct queue_heads *heads;
    uint16_t partition_count;
    struct tenant_counts tenant_counts; /* live timers by tenant */
    _Atomic uint64_t pending_all;       /* live timers */
    struct zones *zones;                /* NULL: the tz database is not installed */
    struct engine **engines;            /* the engine thread's, while it runs */
    struct wall now, advanced_at;       /* the engine thread's: of this turn, and of the last */

    /* Into the engine thread. */
    struct mailbox requests, commits, reads, outcomes, workers;
    /* Into the other two. */
    struct mailbox to_commit, to_read;
    pthread_t engine_thread, commit_thread, read_thread;

    pthread_mutex_t backup_lock; /* guards the next two */
    pthread_t backup_thread;
    bool has_backup_thread; /* to be joined */
    atomic_bool backs_up;   /* one is under way */

    atomic_size_t inflight; /* timers in requests not yet answered */
    atomic_uint next_partition;
    atomic_bool is_ready;        /* every partition is recovered */
    atomic_bool is_failing;      /* the last commit failed */
    atomic_bool is_disk_full;    /* free disk is below the reserve */
    atomic_bool is_choked;       /* what is in doubt after failed commits has its share of memory */
    atomic_bool is_stopping;     /* the door is shut */
    atomic_bool stops_waiting;   /* workers of the queue are not kept any more */
    atomic_bool engine_ends;     /* the engine thread ends as soon as nothing is out ... */
    atomic_bool engine_gives_up; /* ... or at once */
    atomic_bool storage_ends; /* the commit and read threads end when their mailboxes are empty */
    struct node_report report;
};

void *engine_loop(void *node);
void *commit_loop(void *node);
void *read_loop(void *node);

/* Answers what the engine has answered. */
void engine_loop_answer(struct node *node, struct engine *engine);

/* Shows how late a delivery is that has ended. */
void engine_loop_measure(struct node *node, const struct delivery *delivery);

/* The engine of a partition, in a turn: begins one at node->now unless it is under way. */
struct engine *engine_loop_engine_of(struct node *node, uint16_t partition);

/* Ends the turns that are under way, and answers what they answered. */
void engine_loop_end_turns(struct node *node);

/* ---- queue_loop.c ---- */

enum error_code queue_loop_create(struct node *node);
void queue_loop_destroy(struct node *node);

/* Takes in what workers ask. */
void queue_loop_take_in(struct node *node);

/* Does what there is to do now, within bounds. */
void queue_loop_turn(struct node *node);

/* At a stop: gives everything back. */
void queue_loop_drain(struct node *node);

/* How long it has nothing to do, if nothing comes. */
uint64_t queue_loop_wait_ns(struct node *node, struct instant now);

/* ---- backup.c ---- */

/* Waits for the one under way. */
void backup_join(struct node *node);

/* ---- engine_loop.c ---- */

/* After all threads have ended: fails what the engines still wait for, so that every request is
 * answered. */
void engine_loop_fail_rest(struct node *node);

#endif
