/*
 * node_cluster.h - for each partition a replica (cluster/replica.h) that follows the log of the
 * partition while the plan gives this node a part in it, and an engine on a shard while this node
 * owns it. In a cluster a thread serves the replicas of the partitions of each shard. Without one
 * the shard itself does, all partitions are this node's, and their log is the data folder's
 * (node_log.h).
 *
 * A copy that was there at the start is followed until there is a plan. Without a part in its
 * partition a copy is kept for REPLICA_KEEP_LEASES, and then dropped: its rows go, and a later part
 * begins with a copy of another node, or with the whole log. A copy of a partition whose log has
 * lost records is never dropped.
 */
#ifndef TICKWHEEL_NODE_NODE_CLUSTER_H
#define TICKWHEEL_NODE_NODE_CLUSTER_H

#include "node/node.h"

/* Opens the log of a node without a cluster. */
enum error_code node_cluster_open_log(struct node *node, struct error *ret_error);

/* Prepares the replicas before the shards' threads start. node_cluster_start begins to follow
 * the logs afterwards, and joins the cluster. */
enum error_code node_cluster_init(struct node *node, struct error *ret_error);
enum error_code node_cluster_start(struct node *node, struct error *ret_error);

/* Releases what the node owns and ends the threads, after the shards have ended and all batches
 * are back. */
void node_cluster_stop(struct node *node);
void node_cluster_free(struct node *node);

#endif
