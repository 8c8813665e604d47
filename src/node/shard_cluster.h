/*
 * shard_cluster.h - engines of partitions that this node owns in a cluster come to their shard, and
 * go when another node may own the partition.
 *
 * Threads    That of the shard.
 */
#ifndef TICKWHEEL_NODE_SHARD_CLUSTER_H
#define TICKWHEEL_NODE_SHARD_CLUSTER_H

#include "node/shard.h"

/* Once a turn: takes in engines, and lets go of those whose partition has another owner. */
void shard_cluster_turn(struct shard *shard);

/* Whether this node owns those partitions of the shard that the plan gives it, and once had read
 * the logs of all copies up to their ends. */
bool shard_cluster_is_ready(struct shard *shard);

/* The engine has given this read, or it is back. */
void shard_cluster_count_read(struct node *node, const struct engine_read *read, int change);

/* Nothing that the engine of this partition wants is done any more. */
bool shard_cluster_is_leaving(const struct node *node, const struct partition *partition);

#endif
