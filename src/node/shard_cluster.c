/*
 * Engines of partitions that this node owns in a cluster come to their shard, and go when another
 * node may own the partition.
 *
 * An engine that goes answers no one any more. It stays until its batches, reads and deliveries are
 * back, for other threads have pointers into it: batches come back from its replica as failed,
 * deliveries with any outcome. Then the commands that it still has are refused, and it is freed.
 */
#include "node/shard_cluster.h"

#include "node/node_limits.h"
#include "node/node_replica.h"
#include "node/node_state.h"
#include "node/shard_commands.h"
#include "node/shard_queue.h"
#include "sys/clock.h"

#include <assert.h>

static void cluster_begin(struct shard *shard, struct node_replica *replica)
{
    assert(replica->engine && !replica->partition->engine);
    assert(shard->partition_count < shard->node->partition_count);
    replica->is_ready = replica->is_draining = replica->is_drained = replica->is_leaving = false;
    replica->partition->engine = replica->engine;
    shard->partitions[shard->partition_count++] = replica->partition;
}

static void cluster_end(struct shard *shard, struct node_replica *replica)
{
    struct partition *partition = replica->partition;
    struct engine_stats stats;
    size_t i = 0;

    shard_queue_settle(shard);
    assert(partition->engine && !partition->commits_out && !replica->reads_out);
    while (shard->partitions[i] != partition)
        i++;
    assert(i < shard->partition_count);
    shard->partitions[i] = shard->partitions[--shard->partition_count];
    engine_stats(partition->engine, &stats);
    node_limits_uncount(replica, stats.pending);
    engine_destroy(partition->engine);
    partition->engine = replica->engine = NULL;
    replica->is_leaving = false;
    shard_doubt_rest(shard->node, &replica->asked);
    node_replica_tell(replica, REPLICA_LEFT);
}

static void cluster_obey(struct shard *shard, struct node_replica *replica)
{
    const unsigned orders = atomic_exchange(&replica->orders, 0);

    if (orders & REPLICA_BEGIN)
        cluster_begin(shard, replica);
    if ((orders & REPLICA_DRAIN) && replica->partition->engine) {
        replica->is_draining = true;
        engine_drain(replica->partition->engine);
        queue_return(shard->queue, replica->partition->index);
    }
    if (!(orders & REPLICA_LEAVE))
        return;
    if (!replica->partition->engine) {
        node_replica_tell(replica, REPLICA_LEFT);
        return;
    }
    replica->is_leaving = true;
    engine_drain(replica->partition->engine);
    queue_return(shard->queue, replica->partition->index);
}

void shard_cluster_count_read(struct node *node, const struct engine_read *read, int change)
{
    node->cluster.replicas[engine_read_partition(read)].reads_out += (size_t)change;
}

bool shard_cluster_is_leaving(const struct node *node, const struct partition *partition)
{
    return node->cluster.replicas[partition->index].is_leaving;
}

/* True if no batch, read or delivery of a leaving engine is in flight. */
static bool cluster_is_back(const struct node_replica *replica)
{
    struct engine_stats stats;

    engine_stats(replica->partition->engine, &stats);
    return !replica->partition->commits_out && !replica->reads_out && !stats.inflight;
}

/* Gives back deliveries that wait for a lease which is over; they are not sent. */
static void cluster_return_deliveries(struct shard *shard, struct partition *partition)
{
    struct delivery *delivery;
    bool has_returned = false;

    while ((delivery = engine_take_delivery(partition->engine))) {
        delivery->outcome = (struct delivery_outcome){.result = DELIVERY_RETURNED};
        engine_delivered(shard_engine(shard, partition), delivery);
        has_returned = true;
    }
    if (has_returned)
        shard_end_turns(shard);
}

void shard_cluster_turn(struct shard *shard)
{
    struct node *node = shard->node;
    bool has_left = false;

    for (size_t i = shard->index; i < node->partition_count; i += node->shards.count) {
        struct node_replica *replica = &node->cluster.replicas[i];
        struct engine *engine = replica->partition->engine;

        if (engine && (replica->is_leaving || replica->is_draining))
            cluster_return_deliveries(shard, replica->partition);
        if (engine && replica->is_leaving && cluster_is_back(replica)) {
            cluster_end(shard, replica);
            engine = NULL;
            has_left = true;
        }
        if (engine && !replica->is_ready && engine_is_ready(engine)) {
            replica->is_ready = true;
            node_replica_tell(replica, REPLICA_RECOVERED);
        }
        if (engine && replica->is_draining && !replica->is_drained && !replica->is_leaving &&
            engine_is_idle(engine)) {
            replica->is_drained = true;
            node_replica_tell(replica, REPLICA_DRAINED);
        }
        cluster_obey(shard, replica);
    }
    if (has_left)
        shard_end_turns(shard);
}

bool shard_cluster_is_ready(struct shard *shard)
{
    const struct node *node = shard->node;
    const uint32_t self = node_self(node);
    bool has_read = true;

    for (size_t i = shard->index; i < node->partition_count; i += node->shards.count) {
        const struct node_replica *replica = &node->cluster.replicas[i];
        const uint32_t planned = atomic_load(&replica->planned);
        const int state = atomic_load(&replica->state);

        if (planned == 0 || state == OWNERSHIP_BROKEN ||
            (planned == self && (state != OWNERSHIP_ACTIVE || !replica->partition->engine)))
            return false;
        has_read =
            has_read && !(atomic_load(&replica->is_followed) && state == OWNERSHIP_RESTORING);
    }
    shard->has_read = shard->has_read || has_read;
    return shard->has_read;
}
