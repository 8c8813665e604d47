/* Inboxes of partitions, and the rings by which a shard learns of them. */
#include "node/partition.h"

#include <assert.h>

void partition_init(struct partition *partition, uint16_t index)
{
    *partition = (struct partition){.index = index};
    list_init(&partition->link);
    pthread_mutex_init(&partition->lock, NULL);
    for (int i = 0; i < PARTITION_MESSAGE_COUNT; i++)
        list_init(&partition->inbox[i]);
}

void partition_deinit(struct partition *partition)
{
    engine_destroy(partition->engine);
    pthread_mutex_destroy(&partition->lock);
}

static bool partition_has_messages(const struct partition *partition)
{
    for (int i = 0; i < PARTITION_MESSAGE_COUNT; i++)
        if (!list_is_empty(&partition->inbox[i]))
            return true;
    return false;
}

/* Returns the mailbox to post to, with the partition's link, which the caller then owns; NULL if
 * a ring is on its way. The caller holds the lock. */
static struct mailbox *partition_ring(struct partition *partition)
{
    if (partition->is_rung || !partition->owner)
        return NULL;
    partition->is_rung = true;
    return partition->owner;
}

static struct mailbox *partition_put(struct partition *partition, enum partition_message kind,
                                     struct list *message)
{
    pthread_mutex_lock(&partition->lock);
    list_push(&partition->inbox[kind], message);
    struct mailbox *rung = partition_ring(partition);
    pthread_mutex_unlock(&partition->lock);
    return rung;
}

void partition_post(struct partition *partition, enum partition_message kind, struct list *message)
{
    struct mailbox *rung = partition_put(partition, kind, message);

    if (rung)
        mailbox_post(rung, &partition->link);
}

/* Puts all messages into their inboxes before it wakes a shard. Otherwise the first shard would
 * begin a turn and a commit for only some of them. */
void partition_post_all(struct partition partitions[], enum partition_message kind,
                        struct list *messages, uint16_t (*index_of)(struct list *message))
{
    struct list rings[SHARDS_MAX];
    struct mailbox *rung[SHARDS_MAX];
    size_t rung_count = 0;

    for (struct list *message; (message = list_pop(messages));) {
        struct partition *partition = &partitions[index_of(message)];
        struct mailbox *owner = partition_put(partition, kind, message);

        if (!owner)
            continue;
        size_t i = 0;
        while (i < rung_count && rung[i] != owner)
            i++;
        if (i == rung_count) {
            rung[rung_count++] = owner;
            list_init(&rings[i]);
        }
        list_push(&rings[i], &partition->link);
    }
    for (size_t i = 0; i < rung_count; i++)
        mailbox_post_all(rung[i], &rings[i]);
}

static uint16_t partition_of_outcome(struct list *message)
{
    return list_item(message, struct delivery, link)->timer->id.partition;
}

void partition_post_outcomes(void *partitions, struct list *deliveries)
{
    partition_post_all(partitions, PARTITION_OUTCOMES, deliveries, partition_of_outcome);
}

void partition_take(struct partition *partition, struct list ret_inbox[PARTITION_MESSAGE_COUNT])
{
    pthread_mutex_lock(&partition->lock);
    assert(partition->is_rung);
    partition->is_rung = false;
    for (int i = 0; i < PARTITION_MESSAGE_COUNT; i++)
        list_join(&ret_inbox[i], &partition->inbox[i]);
    pthread_mutex_unlock(&partition->lock);
}

void partition_set_owner(struct partition *partition, struct mailbox *owner)
{
    pthread_mutex_lock(&partition->lock);
    assert(!partition->owner || !owner || partition->owner == owner);
    partition->owner = owner;
    struct mailbox *rung = NULL;
    if (partition_has_messages(partition))
        rung = partition_ring(partition);
    pthread_mutex_unlock(&partition->lock);
    if (rung)
        mailbox_post(rung, &partition->link);
}

void partition_wake(void *context)
{
    struct partition *partition = context;

    pthread_mutex_lock(&partition->lock);
    struct mailbox *owner = partition->owner;
    pthread_mutex_unlock(&partition->lock);
    if (owner)
        mailbox_wake(owner);
}
