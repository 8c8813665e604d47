/*
 * node_ownership.h - which node owns which partition, and how the replicas of this one stand. The
 * queries by partition are in node.h.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_OWNERSHIP_H
#define TICKWHEEL_NODE_NODE_OWNERSHIP_H

#include "node/node.h"

/* Of METRIC_CLUSTER_LIST. */
struct node_cluster_stats {
    uint64_t nodes, is_planner, topics_wrong, planned, owned, followed, restoring, broken, lease_ms,
        epoch, behind, claims, refused;
    uint64_t log_bytes, sweeps, sweep_rows, sweep_failures, trims, trim_failures, restarts;
    uint64_t copies, copy_rows, copy_failures, copies_given;
};

/* Returns the statistics of the cluster; all 0 without one. */
void node_cluster_stats(struct node *node, struct node_cluster_stats *ret_stats);

#endif
