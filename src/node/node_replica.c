/* node_replica.c - what other threads ask of a replica, and tell it; see node_replica.h. */
#include "node/node_replica.h"

#include "delivery/brokers.h"
#include "node/node_state.h"
#include "sys/clock.h"

void node_replica_wake(struct node_replica *replica)
{
    atomic_store(&replica->is_woken, true);
    event_loop_wake(replica->loop);
}

void node_replica_tell(struct node_replica *replica, enum node_replica_news news)
{
    pthread_mutex_lock(&replica->lock);
    replica->news |= news;
    pthread_mutex_unlock(&replica->lock);
    node_replica_wake(replica);
}

static void node_replica_give(struct node_replica *replica, uint32_t owner, bool is_wanted)
{
    bool is_news = atomic_exchange(&replica->planned, owner) != owner;

    is_news |= atomic_exchange(&replica->is_wanted, is_wanted) != is_wanted;
    if (!is_news)
        return;
    node_replica_tell(replica, REPLICA_PLANNED);
    partition_wake(replica->partition);
}

void node_replica_plan(struct node_replica *replica, const struct plan_entry *entry)
{
    const uint32_t self = node_self(replica->node);
    bool is_wanted = entry->owner == self || entry->next == self;

    atomic_store(&replica->coming, entry->next);
    for (size_t i = 0; i < PLAN_STANDBYS_MAX; i++) {
        atomic_store(&replica->standbys[i], entry->standbys[i]);
        is_wanted = is_wanted || entry->standbys[i] == self;
    }
    node_replica_give(replica, entry->owner, is_wanted);
}

void node_replica_refuse(struct node_replica *replica)
{
    node_replica_give(replica, 0, atomic_load(&replica->is_wanted));
}

uint32_t node_self(const struct node *node)
{
    return node->cluster.control ? node->config->cluster_node_id : 1;
}

bool node_replica_may_act(const struct node *node, uint16_t partition)
{
    const uint64_t until_ns = node->cluster.replicas[partition].acts_until_ns;

    return until_ns == UINT64_MAX || instant_boot_now().ns < until_ns;
}

const _Atomic uint64_t *node_replica_valid_until(const struct node *node, uint16_t partition)
{
    return &node->cluster.replicas[partition].acts_until_ns;
}

void node_replica_commit(struct node *node, struct list *batches)
{
    for (struct list *link; (link = list_pop(batches));) {
        const struct storage_batch *batch = list_item(link, struct storage_batch, link);
        struct node_replica *replica = &node->cluster.replicas[batch->partition];

        pthread_mutex_lock(&replica->lock);
        list_push(&replica->batches, link);
        pthread_mutex_unlock(&replica->lock);
        node_replica_wake(replica);
    }
}

bool node_replica_takes(const struct node *node, const struct delivery *delivery)
{
    const struct timer *timer = delivery->timer;

    return node->cluster.delivers_once &&
           brokers_is_exactly_once(senders_find(node->senders, TARGET_KAFKA), timer->texts.target,
                                   &timer->target);
}

void node_replica_post(struct node *node, uint16_t partition, struct list *deliveries)
{
    if (!list_is_empty(deliveries))
        node_once_post(node->cluster.replicas[partition].once, deliveries);
}
