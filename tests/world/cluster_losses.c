/* cluster_losses.c - nodes of a simulated cluster that know of records which a fail-over has lost
 * (table.h): who they are, and that they notice. */
#include "cluster.h"

#include <inttypes.h>

void cluster_mislead(struct sim_cluster *cluster, struct peer *peer)
{
    if (!peer->is_misled)
        peer->misled_us = cluster->world->time_us;
    peer->is_misled = peer->was_misled = peer->tenure.is_misled = true;
}

void cluster_note_misled(struct sim_cluster *cluster, struct peer *peer)
{
    const uint64_t next = replica_next(peer->replica);

    if (!cluster->table.has_lost || replica_is_failing(peer->replica))
        return;
    if (!truth_matches(&cluster->truth, replica_place(peer->replica)))
        cluster_mislead(cluster, peer);
    else if (replica_applied(peer->replica) == next) /* its append may have landed again */
        peer->is_misled = peer->tenure.is_misled = false;
}

bool cluster_is_misled_long(const struct sim_cluster *cluster, const struct peer *peer)
{
    const uint64_t lease_us = 1000 * (LEASE_MS + LEASE_MS / (OWNERSHIP_DRIFT / 2));

    return peer->is_misled && cluster->world->time_us > peer->misled_us + lease_us;
}

void cluster_check_claim(const struct sim_cluster *cluster, const struct peer *peer)
{
    const struct truth *truth = &cluster->truth;
    const struct ownership_place *place = replica_place(peer->replica);
    bool is_valid = false;

    for (uint64_t i = truth->size; i > 0 && !is_valid; i--)
        is_valid = truth->records[i - 1].is_valid &&
                   truth->records[i - 1].frame.kind == FRAME_CLAIM &&
                   truth->records[i - 1].frame.incarnation == place->incarnation;
    if (!is_valid && !peer->is_misled)
        world_fail(cluster->world, 0, "one node serves, and no other",
                   "node %" PRIu32 " owns the partition by a claim that no reader accepts",
                   peer->number);
}
