/*
 * A shard's part of the queues: leases and receipts go to its queue (delivery/queue.h), and what
 * the queue wants is pulled from its engines, the highest priority first and then in order of due
 * times, across partitions. The first item left is published on the board, for other workers.
 */
#include "node/shard_queue.h"

#include "node/measure.h"
#include "node/node_deliveries.h"
#include "node/node_queue.h"
#include "node/node_replica.h"
#include "node/node_spans.h"
#include "node/node_state.h"
#include "node/queue_board.h"
#include "node/shard_commands.h"
#include "sys/clock.h"
#include "timer/queue_target.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Maximum of items handed out in one turn, so that commits and requests need not wait. */
#define GIVE_MAX 1000

/* First due times of one queue and priority in each partition of the shard. All are looked up once.
 * After an item was taken, only its partition is looked up again. */
struct queue_heads {
    char name[QUEUE_FULL_NAME_SIZE_MAX];
    size_t name_size; /* 0 if the heads are of no queue */
    unsigned priority;
    bool has_given;     /* an item was taken since the board was updated */
    struct wall dues[]; /* in the order of shard->partitions; WALL_NEVER if there is none */
};

bool shard_queue_create(struct shard *shard, const uint8_t *secret)
{
    const size_t count = shard->node->partition_count;

    shard->queue = queue_create(secret, shard->index, instant_timers_now());
    shard->heads = calloc(1, sizeof(*shard->heads) + count * sizeof(struct wall));
    return shard->queue && shard->heads;
}

void shard_queue_destroy(struct shard *shard)
{
    queue_destroy(shard->queue);
    free(shard->heads);
}

void shard_queue_submit(struct shard *shard, struct node_queue_request *request)
{
    queue_submit(shard->queue, shard->timers_at, &request->queue);
}

void shard_queue_take_in(struct shard *shard)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&shard->workers, &messages);
    for (struct list *link; (link = list_pop(&messages));)
        shard_queue_submit(shard, list_item(link, struct node_queue_request, link_));
}

/* ---- pulling ---- */

static struct bytes shard_queue_heads_name(const struct queue_heads *heads)
{
    return (struct bytes){heads->name, heads->name_size};
}

static void shard_queue_heads_look(struct shard *shard, size_t index)
{
    struct queue_heads *heads = shard->heads;

    if (!engine_peek(shard->partitions[index]->engine, shard_queue_heads_name(heads),
                     heads->priority, &heads->dues[index]))
        heads->dues[index] = WALL_NEVER;
}

static void shard_queue_heads_look_at_all(struct shard *shard, unsigned priority)
{
    shard->heads->priority = priority;
    for (size_t i = 0; i < shard->partition_count; i++)
        shard_queue_heads_look(shard, i);
}

static void shard_queue_heads_set(struct shard *shard, struct bytes name)
{
    struct queue_heads *heads = shard->heads;

    if (bytes_equal(name, shard_queue_heads_name(heads)))
        return;
    assert(name.size <= sizeof(heads->name));
    memcpy(heads->name, name.data, name.size);
    heads->name_size = name.size;
    shard_queue_heads_look_at_all(shard, QUEUE_PRIORITY_COUNT - 1);
}

/* Returns the partition that has the next item; -1 if none has any. */
static int shard_queue_heads_first(struct shard *shard)
{
    struct queue_heads *heads = shard->heads;

    for (;;) {
        int first = -1;

        for (size_t i = 0; i < shard->partition_count; i++)
            if (heads->dues[i].ms != UINT64_MAX &&
                (first < 0 || heads->dues[i].ms < heads->dues[first].ms))
                first = (int)i;
        if (first >= 0 || heads->priority == 0)
            return first;
        shard_queue_heads_look_at_all(shard, heads->priority - 1);
    }
}

static void shard_queue_heads_publish(struct shard *shard)
{
    const struct queue_heads *heads = shard->heads;
    int first = shard_queue_heads_first(shard);

    queue_board_publish(shard->node->board, shard->index, shard_queue_heads_name(heads),
                        first < 0 ? QUEUE_BOARD_NONE
                                  : queue_board_first(heads->priority, heads->dues[first]));
}

/* Drops the heads, which may be wrong. If items were taken, publishes the new first item on the
 * board. */
static void shard_queue_heads_forget(struct shard *shard)
{
    if (shard->heads->has_given)
        shard_queue_heads_publish(shard);
    shard->heads->has_given = false;
    shard->heads->name_size = 0;
}

static struct delivery *shard_queue_pull_from(struct shard *shard, size_t index)
{
    struct queue_heads *heads = shard->heads;
    if (!node_replica_may_act(shard->node, shard->partitions[index]->index))
        return NULL;
    struct engine *engine = shard_engine(shard, shard->partitions[index]);
    struct delivery *delivery = engine_pull(engine, shard_queue_heads_name(heads), heads->priority);

    shard_answer(shard, engine);
    return delivery;
}

/* Returns an item. NULL if the next item is another shard's, there is none, or the limit of leases
 * is reached. Then the board shows none until the engine names the queue again. */
static struct delivery *shard_queue_pull(struct shard *shard, struct bytes name)
{
    struct queue_heads *heads = shard->heads;

    if (!bytes_equal(name, shard_queue_heads_name(heads)))
        shard_queue_heads_forget(shard);
    shard_queue_heads_set(shard, name);
    int first;
    while ((first = shard_queue_heads_first(shard)) >= 0) {
        if (queue_has_given(shard->queue) &&
            queue_board_goes_before(shard->node->board, shard->index, name,
                                    queue_board_first(heads->priority, heads->dues[first])))
            return NULL;
        struct delivery *delivery = shard_queue_pull_from(shard, (size_t)first);

        if (delivery) {
            shard_queue_heads_look(shard, (size_t)first);
            heads->has_given = true;
            delivery->handed_us = delivery->started_us = wall_now_us();
            node_spans_handed(shard->node, shard->index, delivery);
            return delivery;
        }
        heads->dues[first] = WALL_NEVER; /* the limit of leases is reached */
    }
    heads->has_given = false;
    queue_board_publish(shard->node->board, shard->index, name, QUEUE_BOARD_NONE);
    return NULL;
}

/* ---- one turn ---- */

static void shard_queue_take_woken(struct shard *shard)
{
    struct bytes name;

    for (size_t i = 0; i < shard->partition_count; i++)
        while (engine_take_woken(shard->partitions[i]->engine, &name)) {
            shard_queue_heads_forget(shard); /* the heads do not contain this item */
            shard_queue_heads_set(shard, name);
            shard_queue_heads_publish(shard);
            shard_queue_heads_forget(shard);
            queue_wake(shard->queue, name);
        }
}

static void shard_queue_take_ended(struct shard *shard)
{
    struct delivery *delivery;

    while ((delivery = queue_take_ended(shard->queue))) {
        struct partition *partition = &shard->node->partitions[delivery->timer->id.partition];
        struct engine *engine = shard_engine(shard, partition);

        shard_delivered(shard, engine, delivery);
        shard_answer(shard, engine);
    }
}

static void shard_queue_take_recorded(struct shard *shard)
{
    struct delivery *delivery;

    for (size_t i = 0; i < shard->partition_count; i++)
        while ((delivery = engine_take_recorded(shard->partitions[i]->engine)))
            queue_recorded(shard->queue, delivery);
}

static void shard_queue_reply(struct shard *shard, struct node_queue_request *request)
{
    struct node *node = shard->node;
    struct queue_request *reply = &request->queue;

    if (reply->kind != QUEUE_LEASE) {
        node_queue_acks_done(request);
    } else if (reply->error) {
        request->done(request);
    } else {
        if (!list_is_empty(reply->leases)) {
            request->leased(request);
            request->has_items_ = true;
        }
        list_init(&request->link_);
        node_queue_route(node, request);
    }
}

static void shard_queue_take_replies(struct shard *shard)
{
    struct queue_request *reply;

    while ((reply = queue_take_reply(shard->queue)))
        shard_queue_reply(shard, list_item(reply, struct node_queue_request, queue));
}

/* Serves a worker that waits on the board, if no other is being served. */
static bool shard_queue_serve_next(struct shard *shard)
{
    struct node_queue_request *request = queue_board_take(shard->node->board, shard->index);

    if (!request)
        return false;
    list_init(&request->link_);
    shard_queue_submit(shard, request);
    return true;
}

static void shard_queue_give(struct shard *shard, int items_max)
{
    struct bytes name;

    while (items_max-- > 0 && (queue_wants(shard->queue, &name) || shard_queue_serve_next(shard))) {
        if (!queue_wants(shard->queue, &name))
            continue;
        queue_give(shard->queue, shard->timers_at, shard_queue_pull(shard, name));
    }
    shard_queue_heads_forget(shard);
    shard_queue_take_replies(shard);
}

void shard_queue_turn(struct shard *shard)
{
    queue_advance(shard->queue, shard->timers_at);
    shard_queue_take_ended(shard);
    shard_queue_take_recorded(shard);
    shard_queue_take_woken(shard);
    shard_queue_give(shard, GIVE_MAX);
    shard_end_turns(shard);
    for (size_t i = 0; i < shard->partition_count; i++)
        engine_end_pulls(shard->partitions[i]->engine);
    shard_queue_take_woken(shard);
    struct node_queue_request *late;
    if (shard->index == 0)
        while ((late = queue_board_take_late(shard->node->board, shard->turn_at)))
            node_queue_answer_empty(late);
}

void shard_queue_settle(struct shard *shard)
{
    struct bytes name;

    while (queue_wants(shard->queue, &name))
        queue_give(shard->queue, shard->timers_at, shard_queue_pull(shard, name));
    shard_queue_heads_forget(shard);
    shard_queue_take_ended(shard);
    shard_end_turns(shard);
    shard_queue_take_recorded(shard);
    shard_queue_take_replies(shard);
}

void shard_queue_drain(struct shard *shard)
{
    queue_stop_waiting(shard->queue);
    queue_return_all(shard->queue);
}

struct wall shard_queue_lease_end(const struct shard *shard)
{
    const struct instant now = instant_timers_now(), at = queue_wake_at(shard->queue);

    /* rounded up, because the lease has not ended a moment before */
    return at.ns == UINT64_MAX
               ? WALL_NEVER
               : wall_add(wall_now(), (instant_since_ns(now, at) + 999999) / 1000000);
}

uint64_t shard_queue_wait_ns(struct shard *shard, struct instant now)
{
    struct node *node = shard->node;
    struct instant at = queue_wake_at(shard->queue);
    struct bytes name;

    if (clock_is_virtual()) /* leases end when the clock has been moved */
        at = (struct instant){at.ns <= instant_timers_now().ns ? 0 : UINT64_MAX};

    if (queue_wants(shard->queue, &name) || queue_board_has_work(node->board, shard->index))
        return 0;
    if (shard->index == 0) {
        struct instant late = queue_board_wake_at(node->board);

        if (late.ns < at.ns)
            at = late;
    }
    return at.ns == UINT64_MAX ? UINT64_MAX : instant_since_ns(now, at);
}
