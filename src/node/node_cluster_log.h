/*
 * node_cluster_log.h - the settings of a node, for the logs of its cluster (cluster/cluster_log.h).
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_NODE_CLUSTER_LOG_H
#define TICKWHEEL_NODE_NODE_CLUSTER_LOG_H

#include "cluster/cluster_log.h"
#include "ops/config.h"

/* Returns options that borrow the texts of the configuration. */
struct cluster_log_options node_cluster_log_options(const struct config *config);

#endif
