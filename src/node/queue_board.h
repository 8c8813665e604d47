/*
 * queue_board.h - where the items of each queue are, and which workers wait for them: what the
 * shards' queues (delivery/queue.h) tell each other.
 *
 * A lease goes straight to the shard whose first item goes before those of the others. A worker
 * that finds nothing waits here, with no shard: the first shard that gets an item takes it. All of
 * this happens under one lock, so no worker waits beside an item, and each is taken once.
 *
 *     shard = queue_board_route(board, request, now)    where to send a lease, unless it waits
 *     queue_board_publish(board, shard, name, first)    a shard's first item, or that it has none
 *     queue_board_take(board, shard)                    a waiting worker for its items
 *
 * Order      Waiting workers are taken in the order in which they came. Items go by priority, and
 *            within one by due time, to QUEUE_BOARD_SLACK_MS between shards: without the slack a
 *            lease would change its shard for each item.
 * Errors     Without memory for a queue's place its workers do not wait: they are answered.
 * Threads    Any.
 */
#ifndef TICKWHEEL_NODE_QUEUE_BOARD_H
#define TICKWHEEL_NODE_QUEUE_BOARD_H

#include "node/node.h"

/* Key of the first item of a queue in a shard; the lower key is served first. */
#define QUEUE_BOARD_NONE UINT64_MAX

static inline uint64_t queue_board_first(unsigned priority, struct wall due)
{
    return (uint64_t)(255 - priority) << 56 | (due.ms & (UINT64_MAX >> 8));
}

struct queue_board;

/* Returns NULL if out of memory. */
struct queue_board *queue_board_create(unsigned shard_count, uint64_t seed, struct instant now);

/* Requires that no worker waits. */
void queue_board_destroy(struct queue_board *board);

#define QUEUE_BOARD_WAITS    (-1) /* the board keeps the request */
#define QUEUE_BOARD_ANSWERED (-2) /* no items: the caller answers */

/* Returns where a lease continues; a lease that was given up is answered. A worker that does not
 * wait visits every shard before it is answered without items, because a shard may not have
 * published an item whose create was answered. `ret_is_first`: the board must be looked at
 * earlier than before. */
int queue_board_route(struct queue_board *board, struct node_queue_request *request,
                      struct instant now, bool *ret_is_first);

void queue_board_publish(struct queue_board *board, unsigned shard, struct bytes name,
                         uint64_t first);

/* Returns the shard where a lease that has items gets more; QUEUE_BOARD_ANSWERED if no shard has
 * any. */
int queue_board_more(struct queue_board *board, struct bytes name);

/* True if an item of another shard precedes this one: it has a higher priority, or was due more
 * than QUEUE_BOARD_SLACK_MS earlier. A lease with items then continues there. */
#define QUEUE_BOARD_SLACK_MS 100
bool queue_board_goes_before(struct queue_board *board, unsigned shard, struct bytes name,
                             uint64_t first);

/* Returns a worker that waits for a queue of which this shard has items; NULL if there is none.
 * Queues take turns. */
struct node_queue_request *queue_board_take(struct queue_board *board, unsigned shard);
bool queue_board_has_work(struct queue_board *board, unsigned shard);

/* Ends the wait of a worker. Returns the request that waited for it, which the caller answers; NULL
 * if none did. */
struct node_queue_request *queue_board_give_up(struct queue_board *board,
                                               struct node_queue_request *request);

bool queue_board_is_given_up(struct queue_board *board, const struct node_queue_request *request);

/* Returns a worker whose wait is over, and removes it; NULL if there is none. */
struct node_queue_request *queue_board_take_late(struct queue_board *board, struct instant now);
struct instant queue_board_wake_at(struct queue_board *board);

/* Returns one waiting worker after another, and lets none wait from now on. */
struct node_queue_request *queue_board_stop(struct queue_board *board);

size_t queue_board_waiting(struct queue_board *board);

/* Calls `tell` with the number of waiting workers of each queue, by its full name, under the
 * lock. The name is valid only during the call. O(waiting workers and queues with items). */
void queue_board_each(struct queue_board *board,
                      void (*tell)(void *context, struct bytes name, size_t workers),
                      void *context);

#endif
