/*
 * Connections of brokers. The deliveries of all tenants over a connection share its limit. The
 * tenants' queues take turns, one delivery each, so that none waits for the backlog of another.
 */
#include "engine/dispatch_queue.h"

#include "base/check.h"

#include <stdlib.h>

struct dispatch_connection *connections_join(struct dispatch *dispatch, uint64_t key)
{
    struct dispatch_connection *connection = map_get(&dispatch->connections, key);

    if (!connection) {
        connection = calloc(1, sizeof(*connection));
        if (!connection)
            return NULL;
        connection->key = key;
        list_init(&connection->ready);
        if (!budget_open(&dispatch->member, &connection->claim, BUDGET_CONNECTION, key, 0)) {
            free(connection);
            return NULL;
        }
        if (!map_put(&dispatch->connections, key, connection)) {
            budget_close(&connection->claim);
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
    assert(connection->wanted == 0 && list_is_empty(&connection->ready));
    budget_close(&connection->claim);
    map_remove(&dispatch->connections, connection->key);
    free(connection);
}

void connections_want(struct engine *engine, struct dispatch_queue *queue, size_t wanted)
{
    struct dispatch_connection *connection = queue->connection;

    assert(queue->kind == DISPATCH_BROKER);
    assert(connection->wanted >= queue->wanted);
    connection->wanted += wanted - queue->wanted;
    queue->wanted = wanted;
    if (wanted == 0)
        list_remove(&queue->link);
    else if (list_is_empty(&queue->link))
        list_push(&connection->ready, &queue->link);
    dispatch_want(engine->dispatch, &connection->claim,
                  connection->wanted < BUDGET_ALL_PLACES ? connection->wanted : BUDGET_ALL_PLACES);
}

struct dispatch_queue *connections_next(struct dispatch_connection *connection)
{
    struct list *link = list_pop(&connection->ready);

    assert(!link == (connection->wanted == 0));
    return link ? list_item(link, struct dispatch_queue, link) : NULL;
}

void connections_check(const struct engine *engine)
{
    const struct dispatch *dispatch = engine->dispatch;
    size_t cursor = 0, queues = 0;

    for (const struct dispatch_connection *connection;
         (connection = map_next(&dispatch->connections, &cursor));) {
        size_t wanted = 0;

        CHECK(connection->queue_count > 0);
        LIST_FOR_EACH (&connection->ready, link) {
            const struct dispatch_queue *queue = list_item(link, struct dispatch_queue, link);

            CHECK(queue->connection == connection && !list_is_empty(&queue->timers));
            CHECK(!dispatch_queue_is_paused(engine, queue));
            CHECK(queue->wanted > 0);
            wanted += queue->wanted;
        }
        CHECK(wanted == connection->wanted);
        queues += connection->queue_count;
    }
    cursor = 0;
    for (const struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        queues -= queue->connection != NULL;
    CHECK(queues == 0);
}
