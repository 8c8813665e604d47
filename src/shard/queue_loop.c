/*
 * The built-in queue on the engine thread: what workers ask goes to the queue (delivery/queue.h),
 * and what the queue wants is pulled from the engines, the highest priority first and then in order
 * of due times, across partitions.
 */
#include "shard/node_private.h"

#include "timer/queue_target.h"
#include "sys/clock.h"
#include "sys/entropy.h"

#include <stdlib.h>
#include <string.h>

/* Items handed out in one turn, so that commits and requests are not kept waiting. */
#define GIVE_MAX 1000

/* The first due time of one queue and priority in each partition: looked up once, and then only
 * where one was taken. */
struct queue_heads {
    char name[QUEUE_FULL_NAME_SIZE_MAX];
    size_t name_size; /* 0: of no queue */
    unsigned priority;
    struct wall dues[]; /* WALL_NEVER: none */
};

enum error_code queue_loop_create(struct node *node)
{
    uint8_t secret[QUEUE_SECRET_SIZE];

    if (entropy_fill(secret, sizeof(secret)) != ERROR_NONE)
        return ERROR_IO;
    node->queue = queue_create(secret, instant_now());
    explicit_bzero(secret, sizeof(secret));
    node->heads = calloc(1, sizeof(*node->heads) + node->partition_count * sizeof(struct wall));
    return node->queue && node->heads ? ERROR_NONE : ERROR_NO_MEMORY;
}

void queue_loop_destroy(struct node *node)
{
    queue_destroy(node->queue);
    free(node->heads);
}

void queue_loop_take_in(struct node *node)
{
    struct list messages;

    list_init(&messages);
    mailbox_take(&node->workers, &messages);
    LIST_FOR_EACH (&messages, link) {
        struct node_queue_request *request = list_item(link, struct node_queue_request, link_);

        list_remove(link);
        queue_submit(node->queue, instant_now(), &request->queue);
    }
}

/* ---- pulling ---- */

static void look(struct node *node, uint16_t partition)
{
    struct queue_heads *heads = node->heads;
    struct bytes name = {heads->name, heads->name_size};

    if (!engine_peek(node->engines[partition], name, heads->priority, &heads->dues[partition]))
        heads->dues[partition] = WALL_NEVER;
}

static void look_at_all(struct node *node, unsigned priority)
{
    node->heads->priority = priority;
    for (uint16_t i = 0; i < node->partition_count; i++)
        look(node, i);
}

/* The partition to take the next from; -1 when there is nothing at all. */
static int find_first(struct node *node)
{
    struct queue_heads *heads = node->heads;

    for (;;) {
        int first = -1;

        for (uint16_t i = 0; i < node->partition_count; i++)
            if (heads->dues[i].ms != UINT64_MAX &&
                (first < 0 || heads->dues[i].ms < heads->dues[first].ms))
                first = i;
        if (first >= 0 || heads->priority == 0)
            return first;
        look_at_all(node, heads->priority - 1);
    }
}

static struct delivery *pull(struct node *node, struct bytes name)
{
    struct queue_heads *heads = node->heads;
    int first;

    if (!bytes_equal(name, (struct bytes){heads->name, heads->name_size})) {
        memcpy(heads->name, name.data, name.size);
        heads->name_size = name.size;
        look_at_all(node, QUEUE_PRIORITY_COUNT - 1);
    }
    while ((first = find_first(node)) >= 0) {
        struct engine *engine = engine_loop_engine_of(node, (uint16_t)first);
        struct delivery *delivery =
            engine_pull(engine, (struct bytes){heads->name, heads->name_size}, heads->priority);

        engine_loop_answer(node, engine);
        if (delivery) {
            look(node, (uint16_t)first);
            delivery->handed_us = delivery->started_us = wall_now_us();
            return delivery;
        }
        heads->dues[first] = WALL_NEVER; /* as many are out as may be */
    }
    return NULL;
}

/* ---- one turn ---- */

static void take_woken(struct node *node)
{
    struct bytes name;

    for (uint16_t i = 0; i < node->partition_count; i++)
        while (engine_take_woken(node->engines[i], &name)) {
            queue_wake(node->queue, name);
            node->heads->name_size = 0; /* what was looked up does not know of it */
        }
}

static void take_ended(struct node *node)
{
    struct delivery *delivery;

    while ((delivery = queue_take_ended(node->queue))) {
        struct engine *engine = engine_loop_engine_of(node, delivery->timer->id.partition);

        if (delivery->outcome.result != DELIVERY_RETURNED)
            engine_loop_measure(node, delivery);
        engine_delivered(engine, delivery);
        engine_loop_answer(node, engine);
    }
}

static void take_recorded(struct node *node)
{
    struct delivery *delivery;

    for (uint16_t i = 0; i < node->partition_count; i++)
        while ((delivery = engine_take_recorded(node->engines[i])))
            queue_recorded(node->queue, delivery);
}

static void take_replies(struct node *node)
{
    struct queue_request *reply;

    while ((reply = queue_take_reply(node->queue))) {
        struct node_queue_request *request = list_item(reply, struct node_queue_request, queue);

        atomic_fetch_sub(&node->inflight, reply->receipt_count);
        request->done(request);
    }
}

void queue_loop_turn(struct node *node)
{
    struct bytes name;

    if (atomic_load(&node->stops_waiting))
        queue_stop_waiting(node->queue);
    queue_advance(node->queue, instant_now());
    node->now = wall_now();
    take_ended(node);
    take_recorded(node);
    take_woken(node);
    node->heads->name_size = 0;
    for (int i = 0; i < GIVE_MAX && queue_wants(node->queue, &name); i++) {
        struct delivery *delivery = pull(node, name);

        queue_give(node->queue, instant_now(), delivery);
    }
    engine_loop_end_turns(node);
    take_woken(node);
    take_replies(node);
}

void queue_loop_drain(struct node *node)
{
    queue_stop_waiting(node->queue);
    queue_return_all(node->queue);
}

uint64_t queue_loop_wait_ns(struct node *node, struct instant now)
{
    struct bytes name;

    if (queue_wants(node->queue, &name))
        return 0;
    return instant_since_ns(now, queue_wake_at(node->queue));
}
