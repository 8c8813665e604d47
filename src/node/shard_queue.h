/*
 * shard_queue.h - a shard's part of the queues.
 *
 * Threads    That of the shard.
 */
#ifndef TICKWHEEL_NODE_SHARD_QUEUE_H
#define TICKWHEEL_NODE_SHARD_QUEUE_H

#include "node/node.h"
#include "node/shard.h"

bool shard_queue_create(struct shard *shard, const uint8_t *secret);
void shard_queue_destroy(struct shard *shard);

/* Takes the workers' new requests. */
void shard_queue_take_in(struct shard *shard);
void shard_queue_submit(struct shard *shard, struct node_queue_request *request);

/* Does the work of a turn, within bounds. */
void shard_queue_turn(struct shard *shard);

/* Completes everything that was begun, so that a partition may leave the node. */
void shard_queue_settle(struct shard *shard);

/* Gives everything back at a stop. */
void shard_queue_drain(struct shard *shard);

/* Returns the time at which the next lease ends; WALL_NEVER if there is none. */
struct wall shard_queue_lease_end(const struct shard *shard);

/* Returns how long it has nothing to do, if nothing arrives. */
uint64_t shard_queue_wait_ns(struct shard *shard, struct instant now);

#endif
