/*
 * Connections of brokers: deliveries of all tenants share one and its limit. The queues of the
 * tenants take turns, one delivery each, so none of them waits behind the backlog of another one.
 */
#include "engine/dispatch_queue.h"

#include "base/check.h"

#include <assert.h>
#include <stdlib.h>

struct dispatch_connection *connections_join(struct dispatch *dispatch, uint64_t key)
{
    struct dispatch_connection *connection = map_get(&dispatch->connections, key);

    if (!connection) {
        connection = calloc(1, sizeof(*connection));
        if (!connection)
            return NULL;
        connection->key = key;
        list_init(&connection->link);
        list_init(&connection->ready);
        if (!map_put(&dispatch->connections, key, connection)) {
            free(connection);
            return NULL;
        }
    }
    connection->queue_count++;
    return connection;
}

void connections_part(struct dispatch *dispatch, struct dispatch_connection *connection)
{
    assert(connection->queue_count > 0);
    if (--connection->queue_count > 0)
        return;
    assert(connection->inflight == 0 && list_is_empty(&connection->ready));
    list_remove(&connection->link);
    map_remove(&dispatch->connections, connection->key);
    free(connection);
}

static bool connections_may_send(const struct engine *engine,
                                 const struct dispatch_connection *connection)
{
    return !list_is_empty(&connection->ready) &&
           connection->inflight < engine->options.broker_inflight_max;
}

static void connections_update(struct engine *engine, struct dispatch_connection *connection)
{
    if (!connections_may_send(engine, connection))
        list_remove(&connection->link);
    else if (list_is_empty(&connection->link))
        list_push(&engine->dispatch->broker_ready, &connection->link);
}

void connections_enlist(struct engine *engine, struct dispatch_queue *queue)
{
    assert(queue->kind == DISPATCH_BROKER && !list_is_empty(&queue->timers));
    if (list_is_empty(&queue->link))
        list_push(&queue->connection->ready, &queue->link);
    connections_update(engine, queue->connection);
}

void connections_delist(struct engine *engine, struct dispatch_queue *queue)
{
    assert(queue->kind == DISPATCH_BROKER);
    list_remove(&queue->link);
    connections_update(engine, queue->connection);
}

struct dispatch_queue *connections_next(struct engine *engine)
{
    struct list *link = list_pop(&engine->dispatch->broker_ready);

    if (!link)
        return NULL;
    struct dispatch_connection *connection = list_item(link, struct dispatch_connection, link);
    struct dispatch_queue *queue =
        list_item(list_pop(&connection->ready), struct dispatch_queue, link);
    assert(queue->connection == connection && !list_is_empty(&queue->timers));
    connections_update(engine, connection); /* behind the other connections */
    return queue;
}

void connections_check(const struct engine *engine)
{
    const struct dispatch *dispatch = engine->dispatch;
    size_t cursor = 0, inflight = 0, queues = 0;

    for (const struct dispatch_connection *connection;
         (connection = map_next(&dispatch->connections, &cursor));) {
        CHECK(connection->queue_count > 0);
        CHECK(connection->inflight <= engine->options.broker_inflight_max);
        CHECK(connections_may_send(engine, connection) == !list_is_empty(&connection->link));
        LIST_FOR_EACH (&connection->ready, link) {
            const struct dispatch_queue *queue = list_item(link, struct dispatch_queue, link);

            CHECK(queue->connection == connection && !list_is_empty(&queue->timers));
            CHECK(!dispatch_queue_is_paused(engine, queue));
        }
        inflight += connection->inflight;
        queues += connection->queue_count;
    }
    cursor = 0;
    for (const struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));) {
        inflight -= queue->connection ? queue->inflight : 0;
        queues -= queue->connection != NULL;
    }
    CHECK(inflight == 0 && queues == 0);
}
