/* node_ownership.c - who owns which partition, by log and plan; see node_ownership.h. */
#include "node/node_ownership.h"

#include "node/node_members.h"
#include "node/node_replica.h"
#include "node/node_state.h"
#include "sys/clock.h"

#include <assert.h>

/* Returns the owner; unknown until the log has been read to its end. */
static uint32_t ownership_owner(const struct node_replica *replica)
{
    return atomic_load(&replica->state) == OWNERSHIP_RESTORING ? atomic_load(&replica->told_owner)
                                                               : atomic_load(&replica->owner);
}

bool node_owns(struct node *node, uint16_t partition, uint32_t *ret_node)
{
    const uint32_t self = node_self(node);

    *ret_node = 0;
    if (!node->cluster.control || node_replica_may_act(node, partition)) {
        *ret_node = self;
        return true;
    }
    const struct node_replica *replica = &node->cluster.replicas[partition];
    const uint32_t owner = ownership_owner(replica), planned = atomic_load(&replica->planned);
    if (owner != 0 && owner != self)
        *ret_node = owner;
    else if (planned != self)
        *ret_node = planned;
    return false;
}

static void ownership_count_members(struct node_control *control, struct node_cluster_stats *stats)
{
    pthread_mutex_lock(&control->lock);
    for (size_t i = 0; i < control->member_count; i++)
        stats->nodes += control->members[i].is_alive;
    stats->is_planner = control->planner == control->node->config->cluster_node_id;
    pthread_mutex_unlock(&control->lock);
}

/* Returns how many records of a followed log have not been read, by the last note of its owner. */
static uint64_t ownership_behind(const struct node_replica *replica)
{
    const uint64_t next = atomic_load(&replica->next), end = atomic_load(&replica->end);

    return atomic_load(&replica->is_followed) && end > next ? end - next : 0;
}

static void ownership_count_sweeps(const struct node_replica *replica,
                                   struct node_cluster_stats *stats)
{
    stats->log_bytes += atomic_load(&replica->log_bytes);
    stats->sweeps += atomic_load(&replica->sweeps);
    stats->sweep_rows += atomic_load(&replica->sweep_rows);
    stats->sweep_failures += atomic_load(&replica->sweep_failures);
    stats->trims += atomic_load(&replica->trims);
    stats->trim_failures += atomic_load(&replica->trim_failures);
    stats->restarts += atomic_load(&replica->restarts);
    stats->copies += atomic_load(&replica->copies);
    stats->copy_rows += atomic_load(&replica->copy_rows);
    stats->copy_failures += atomic_load(&replica->copy_failures);
    stats->copies_given += atomic_load(&replica->copies_given);
}

void node_cluster_stats(struct node *node, struct node_cluster_stats *ret_stats)
{
    const struct instant now = instant_boot_now();

    *ret_stats = (struct node_cluster_stats){0};
    if (!node->cluster.control)
        return;
    ownership_count_members(node->cluster.control, ret_stats);
    ret_stats->topics_wrong = atomic_load(&node->cluster.control->topics_wrong);
    for (uint16_t i = 0; i < node->partition_count; i++) {
        const struct node_replica *replica = &node->cluster.replicas[i];
        const struct instant until = {atomic_load(&replica->acts_until_ns)};
        const uint64_t left_ms = instant_since_ns(now, until) / 1000000;
        const uint64_t epoch = atomic_load(&replica->epoch);
        const uint64_t behind = ownership_behind(replica);

        ret_stats->planned += atomic_load(&replica->planned) == node->config->cluster_node_id;
        ret_stats->owned += until.ns > now.ns;
        if (until.ns > now.ns && (ret_stats->owned == 1 || left_ms < ret_stats->lease_ms))
            ret_stats->lease_ms = left_ms;
        if (epoch > ret_stats->epoch)
            ret_stats->epoch = epoch;
        if (behind > ret_stats->behind)
            ret_stats->behind = behind;
        ret_stats->followed += atomic_load(&replica->is_followed);
        ret_stats->restoring += atomic_load(&replica->is_followed) &&
                                atomic_load(&replica->state) == OWNERSHIP_RESTORING;
        ret_stats->broken += atomic_load(&replica->state) == OWNERSHIP_BROKEN;
        ret_stats->claims += atomic_load(&replica->claims);
        ret_stats->refused += atomic_load(&replica->refused);
        ownership_count_sweeps(replica, ret_stats);
    }
}

bool node_partition(struct node *node, uint16_t partition, struct node_partition_view *ret_view)
{
    static const char *const words[] = {
        [OWNERSHIP_RESTORING] = "restoring", [OWNERSHIP_STANDBY] = "standby",
        [OWNERSHIP_CLAIMING] = "claiming",   [OWNERSHIP_RECOVERING] = "recovering",
        [OWNERSHIP_ACTIVE] = "active",       [OWNERSHIP_DRAINING] = "draining",
        [OWNERSHIP_LEAVING] = "leaving",     [OWNERSHIP_BROKEN] = "broken",
    };

    if (!node->cluster.control)
        return false;
    const struct node_replica *replica = &node->cluster.replicas[partition];
    *ret_view = (struct node_partition_view){
        .owner = ownership_owner(replica),
        .planned = atomic_load(&replica->planned),
        .next = atomic_load(&replica->coming),
        .epoch = atomic_load(&replica->epoch),
        .behind = ownership_behind(replica),
        .state =
            atomic_load(&replica->is_followed) ? words[atomic_load(&replica->state)] : "absent",
    };
    static_assert((int)NODE_STANDBYS_MAX == (int)PLAN_STANDBYS_MAX, "a view has all of them");
    for (size_t i = 0; i < NODE_STANDBYS_MAX; i++)
        ret_view->standbys[i] = atomic_load(&replica->standbys[i]);
    return true;
}
