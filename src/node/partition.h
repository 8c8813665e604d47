/*
 * partition.h - a partition of a running node: its engine, its inbox, and the shard that owns it.
 *
 * Messages for a partition wait in its inbox. The first one posts the partition to the mailbox of
 * the shard that owns it, which takes the whole inbox in its next turn. A partition keeps its shard
 * as long as the node runs.
 *
 * Threads    partition_post and partition_post_all from any thread. The engine is the owner's; all
 *            other calls are too.
 */
#ifndef TICKWHEEL_NODE_PARTITION_H
#define TICKWHEEL_NODE_PARTITION_H

#include "engine/engine.h"
#include "sys/mailbox.h"

#include <pthread.h>
#include <stdatomic.h>

#define SHARDS_MAX 64 /* maximum of shards of a node */

enum partition_message {
    PARTITION_COMMITS,  /* struct storage_batch, back from the replica */
    PARTITION_OUTCOMES, /* struct delivery, back from a sender */
    PARTITION_READS,    /* struct engine_read, back from the read thread */
    PARTITION_REQUESTS, /* struct node_request */
    PARTITION_ACKS,     /* struct node_queue_request with receipts */
    PARTITION_MESSAGE_COUNT,
};

struct partition {
    struct list link; /* is_rung: in the mailbox of its owner, or on the way there */
    struct engine *engine;
    uint16_t index;
    size_t commits_out;      /* batches at the replica; written by the owner */
    _Atomic uint64_t placed; /* number of timers that node_partition_next has placed here */
    pthread_mutex_t lock;
    /* mailbox of the shard; NULL before the start and at the end. Guarded by lock, as are the
     * next two */
    struct mailbox *owner;
    bool is_rung;
    struct list inbox[PARTITION_MESSAGE_COUNT];
};

void partition_init(struct partition *partition, uint16_t index);
void partition_deinit(struct partition *partition); /* destroys its engine too */

void partition_post(struct partition *partition, enum partition_message kind, struct list *message);

/* Posts messages for several partitions, and rings each shard once. `index_of` returns the
 * partition of a message. The list is empty afterwards. */
void partition_post_all(struct partition partitions[], enum partition_message kind,
                        struct list *messages, uint16_t (*index_of)(struct list *message));

/* Moves the inbox to `ret_inbox`, after the ring arrived at the owner. */
void partition_take(struct partition *partition, struct list ret_inbox[PARTITION_MESSAGE_COUNT]);

/* Gives deliveries with outcomes back to their engines. May be called from any thread. */
void partition_post_outcomes(void *partitions, struct list *deliveries);

/* Makes `owner` the receiver of the partition's messages, and rings it if some wait. With NULL
 * messages wait. */
void partition_set_owner(struct partition *partition, struct mailbox *owner);

/* Wakes the shard that owns the partition, if one does. May be called from any thread. */
void partition_wake(void *partition);

#endif
