/* node_cluster_log.c - see node_cluster_log.h. */
#include "node/node_cluster_log.h"

#include "cluster/ownership.h"

struct cluster_log_options node_cluster_log_options(const struct config *config)
{
    return (struct cluster_log_options){
        .brokers = config->cluster_brokers,
        .uri = config->cluster_log,
        .name = config->cluster_name,
        .partition_count = (uint16_t)config->partitions,
        .replica_count = config->cluster_replicas,
        .durability = config->cluster_durability == CONFIG_CLUSTER_DURABILITY_SERVER
                          ? CLUSTER_LOG_SERVER
                          : CLUSTER_LOG_REPLICATED,
        .append_timeout_ms = OWNERSHIP_APPEND_LEASES * config->cluster_lease_ms,
        .secret = bytes_of(config->cluster_secret),
    };
}
