/*
 * node_holds.h - what holds deliveries of a node back: maintenance, and pauses of queues and
 * targets. The engines look at both before each delivery.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_HOLDS_H
#define TICKWHEEL_NODE_NODE_HOLDS_H

#include "delivery/targets.h"
#include "node/feed.h"
#include "node/node.h"

#include <pthread.h>
#include <stdatomic.h>

struct node_holds {
    const struct config *config;    /* borrowed, as are the next two */
    struct feed *feed;              /* reports changes to the clients that watch */
    struct targets *targets;        /* whose breakers are reset */
    void (*changed)(void *context); /* wakes the shards */
    void *context;

    pthread_mutex_t lock;             /* serializes changes and guards their files */
    struct target_pause_board pauses; /* queues and targets that are paused; has its own lock */
    atomic_bool is_maintained;        /* no delivery begins */
    pthread_mutex_t note_lock;        /* guards the next two */
    char note[NODE_NOTE_SIZE_MAX];    /* of the maintenance */
    size_t note_size;
};

/* `changed` may be called from node_holds_load on. */
void node_holds_init(struct node_holds *holds, const struct config *config,
                     void (*changed)(void *context), void *context);
void node_holds_deinit(struct node_holds *holds);

/* Reads the files at the start, and resumes what was not ended. In a cluster nothing is held yet.
 */
enum error_code node_holds_load(struct node_holds *holds, struct feed *feed,
                                struct targets *targets, struct error *ret_error);

#endif
