/*
 * shard_cluster.h - engines of partitions that this node owns in a cluster come to their shard, and
 * go when another node may own the partition.
 *
 * Threads    That of the shard.
 */
#ifndef TICKWHEEL_NODE_SHARD_CLUSTER_H
#define TICKWHEEL_NODE_SHARD_CLUSTER_H

#include "node/shard.h"

/* Takes new engines, and releases those whose partition has another owner. Called once a turn. */
void shard_cluster_turn(struct shard *shard);

/* True if this node owns the partitions of the shard that the plan gives it, and has once read
 * the logs of all copies to their ends. */
bool shard_cluster_is_ready(struct shard *shard);

/* Counts a read that the engine has started, or one that is back. */
void shard_cluster_count_read(struct node *node, const struct engine_read *read, int change);

/* True if the engine of this partition is leaving: nothing that it wants is done any more. */
bool shard_cluster_is_leaving(const struct node *node, const struct partition *partition);

#endif
