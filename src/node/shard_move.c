/*
 * A partition changes its shard under load:
 *
 *     reserve   the owner makes the partition's next epoch durable, and works on meanwhile
 *     release   at the end of a turn the owner lets go of the engine and of the leases
 *     adopt     the next owner goes on with the reserved epoch, in its next turn
 *
 * From release to adopt no shard owns the partition, and its messages wait in its inbox. That takes
 * the rest of one turn and the wake-up of a thread, for nothing is read, written or waited for
 * there: batches, reads and deliveries in flight come back to the inbox.
 */
#include "node/shard.h"

#include "sys/clock.h"

#include <assert.h>

struct shard_move {
    struct list link;
    struct partition *partition;
    struct shard *to;
    struct list leases; /* the handover, beside the engine */
    bool is_released;
    struct node_move_times times;
    enum error_code result;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_ended; /* guarded by lock */
};

/* ---- on the shards' threads ---- */

void shard_adopt(struct shard *shard, struct partition *partition, struct list *leases)
{
    shard->partitions[shard->partition_count++] = partition;
    queue_adopt(shard->queue, leases);
    partition_set_owner(partition, shard);
}

void shard_release(struct shard *shard, struct partition *partition, struct list *ret_leases)
{
    assert(shard->partition_count > 0);
    size_t i = 0;
    while (shard->partitions[i] != partition)
        i++;
    partition_set_owner(partition, NULL);
    queue_release(shard->queue, partition->index, ret_leases);
    shard->partitions[i] = shard->partitions[--shard->partition_count];
}

static void move_finish(struct shard *shard, struct shard_move *move, enum error_code result)
{
    atomic_fetch_sub(&shard->node->moving, 1);
    pthread_mutex_lock(&move->lock);
    move->result = result;
    move->is_ended = true;
    pthread_cond_signal(&move->ended);
    pthread_mutex_unlock(&move->lock);
}

static void move_begin(struct shard *shard, struct shard_move *move)
{
    struct engine *engine = shard_engine(shard, move->partition);

    engine_reserve_epoch(engine);
    list_push(&shard->leaving, &move->link);
}

static void move_release(struct shard *shard, struct shard_move *move)
{
    shard_queue_settle(shard);
    shard_send_off(shard);
    engine_release(move->partition->engine);
    shard_release(shard, move->partition, &move->leases);
    move->is_released = true;
    move->times.released = instant_now();
    mailbox_post(&move->to->moves, &move->link);
}

static void move_adopt(struct shard *shard, struct shard_move *move)
{
    engine_adopt(move->partition->engine);
    shard_adopt(shard, move->partition, &move->leases);
    move->times.adopted = instant_now();
    move_finish(shard, move, ERROR_NONE);
}

static void shard_move_take_in(struct shard *shard)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&shard->moves, &messages);
    for (struct list *link; (link = list_pop(&messages));) {
        struct shard_move *move = list_item(link, struct shard_move, link);

        if (move->is_released)
            move_adopt(shard, move);
        else
            move_begin(shard, move);
    }
}

void shard_move_turn(struct shard *shard)
{
    shard_move_take_in(shard);
    if (list_is_empty(&shard->leaving))
        return;
    LIST_FOR_EACH (&shard->leaving, link) {
        struct shard_move *move = list_item(link, struct shard_move, link);

        switch (engine_reservation(move->partition->engine)) {
        case ENGINE_RESERVED:
            list_remove(link);
            move->times.reserved = instant_now();
            move_release(shard, move);
            break;
        case ENGINE_RESERVE_REFUSED:
            list_remove(link);
            move_finish(shard, move, ERROR_IO);
            break;
        default:
            break;
        }
    }
    shard_end_turns(shard);
    shard_send_off(shard);
}

void shard_move_end(struct shard *shard)
{
    shard_move_take_in(shard);
    for (struct list *link; (link = list_pop(&shard->leaving));)
        move_finish(shard, list_item(link, struct shard_move, link), ERROR_STOPPING);
}

/* ---- for the caller ---- */

static void move_wait(struct shard_move *move)
{
    pthread_mutex_lock(&move->lock);
    while (!move->is_ended)
        pthread_cond_wait(&move->ended, &move->lock);
    pthread_mutex_unlock(&move->lock);
}

/* Counted before the look at is_stopping, so that the shards do not end before the move. */
static enum error_code move_carry_out(struct node *node, struct shard_move *move)
{
    struct shard *owner = partition_owner(move->partition);

    if (owner == move->to)
        return ERROR_NONE;
    atomic_fetch_add(&node->moving, 1);
    if (atomic_load(&node->is_stopping)) {
        atomic_fetch_sub(&node->moving, 1);
        return ERROR_STOPPING;
    }
    mailbox_post(&owner->moves, &move->link);
    move_wait(move);
    return move->result;
}

enum error_code node_move(struct node *node, uint16_t partition, unsigned shard,
                          struct node_move_times *ret_times)
{
    struct shard_move move = {.times.asked = instant_now()};

    if (partition >= node->partition_count || shard >= node->shard_count)
        return ERROR_NOT_FOUND;
    if (node->replicas)
        return ERROR_INVALID; /* epochs are those of claims */
    move.partition = &node->partitions[partition];
    move.to = &node->shards[shard];
    list_init(&move.link);
    list_init(&move.leases);
    pthread_mutex_init(&move.lock, NULL);
    pthread_cond_init(&move.ended, NULL);
    pthread_mutex_lock(&node->move_lock);
    enum error_code result = move_carry_out(node, &move);
    pthread_mutex_unlock(&node->move_lock);
    pthread_cond_destroy(&move.ended);
    pthread_mutex_destroy(&move.lock);
    *ret_times = move.times;
    return result;
}
