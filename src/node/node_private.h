/*
 * node_private.h - the inside of a node, shared by its files.
 *
 *   node.c           start, stop, the door, health, metrics
 *   engine_loop.c    the engine thread
 *   storage_loops.c  the commit thread and the read thread
 */
#ifndef TICKWHEEL_NODE_NODE_PRIVATE_H
#define TICKWHEEL_NODE_NODE_PRIVATE_H

#include "delivery/webhook.h"
#include "engine/engine.h"
#include "node/node.h"
#include "sys/mailbox.h"

#include <stdatomic.h>

/* What the engine thread tells the others about itself. */
struct node_report {
    pthread_mutex_t lock;      /* guards what follows */
    pthread_cond_t changed;    /* on CLOCK_MONOTONIC */
    struct engine_stats stats; /* the sum of all partitions */
    struct storage_stats storage;
    bool is_drained;  /* while stopping: no delivery is out */
    bool is_finished; /* the engine thread has ended */
};

struct node {
    const struct config *config;
    struct metrics *metrics;
    struct guard guard;
    struct storage *storage;
    struct webhook *webhook;
    uint16_t partition_count;
    struct engine **engines; /* the engine thread's, while it runs */
    struct wall advanced_at; /* the same: when it last let time pass */

    /* Into the engine thread. */
    struct mailbox requests, commits, reads, outcomes;
    /* Into the other two. */
    struct mailbox to_commit, to_read;
    pthread_t engine_thread, commit_thread, read_thread;

    atomic_size_t inflight; /* timers in requests not yet answered */
    atomic_uint next_partition;
    atomic_bool is_ready;        /* every partition is recovered */
    atomic_bool is_failing;      /* the last commit failed */
    atomic_bool is_disk_full;    /* free disk is below the reserve */
    atomic_bool is_stopping;     /* the door is shut */
    atomic_bool engine_ends;     /* the engine thread ends as soon as nothing is out ... */
    atomic_bool engine_gives_up; /* ... or at once */
    atomic_bool storage_ends; /* the commit and read threads end when their mailboxes are empty */
    struct node_report report;
};

void *engine_loop(void *node);
void *commit_loop(void *node);
void *read_loop(void *node);

/* After all threads have ended: fails what the engines still wait for, so that every request is
 * answered. */
void engine_loop_fail_rest(struct node *node);

#endif
