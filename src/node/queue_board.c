/*
 * A line for each queue that has items or waiting workers; it goes when it has neither. Waits end
 * by a wheel, in ticks of a millisecond.
 */
#include "node/queue_board.h"

#include "base/map.h"
#include "base/random.h"
#include "tickwheel/wheel.h"
#include "timer/queue_target.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#define BOARD_TICK_NS 1000000

/* Items of a queue in one shard. */
struct queue_board_seat {
    struct list link; /* on the shard's `busy` list while it has items and workers wait */
    uint64_t first;
    struct queue_board_line *line;
};

struct queue_board_line {
    struct list waiting; /* of struct node_queue_request */
    uint64_t hash;
    struct queue_board_seat seats[];
};

struct queue_board {
    pthread_mutex_t lock; /* guards the fields below */
    struct map lines;
    struct tw_wheel *waits;
    uint64_t seed;
    size_t waiting;
    bool is_stopped;
    /* an item could not be published for want of memory, so no worker waits any more */
    bool is_blind;
    unsigned shard_count;
    struct list busy[]; /* seats, by shard */
};

struct queue_board *queue_board_create(unsigned shard_count, uint64_t seed, struct instant now)
{
    struct queue_board *board = calloc(1, sizeof(*board) + shard_count * sizeof(board->busy[0]));

    if (!board)
        return NULL;
    board->waits = tw_wheel_create(&(struct tw_wheel_options){.start = now.ns / BOARD_TICK_NS});
    if (!board->waits) {
        free(board);
        return NULL;
    }
    pthread_mutex_init(&board->lock, NULL);
    map_init(&board->lines);
    board->seed = seed;
    board->shard_count = shard_count;
    for (unsigned i = 0; i < shard_count; i++)
        list_init(&board->busy[i]);
    return board;
}

void queue_board_destroy(struct queue_board *board)
{
    if (!board)
        return;
    assert(board->waiting == 0);
    struct queue_board_line *line;
    size_t cursor = 0;
    while ((line = map_next(&board->lines, &cursor)))
        free(line);
    map_deinit(&board->lines);
    tw_wheel_destroy(board->waits);
    pthread_mutex_destroy(&board->lock);
    free(board);
}

/* ---- lines; under the lock ---- */

static struct queue_board_line *board_find(const struct queue_board *board, struct bytes name)
{
    return map_get(&board->lines, random_mix(bytes_hash(board->seed, name)));
}

static struct queue_board_line *board_get(struct queue_board *board, struct bytes name)
{
    struct queue_board_line *line = board_find(board, name);

    if (line)
        return line;
    line = calloc(1, sizeof(*line) + board->shard_count * sizeof(line->seats[0]));
    if (!line)
        return NULL;
    line->hash = random_mix(bytes_hash(board->seed, name));
    list_init(&line->waiting);
    for (unsigned i = 0; i < board->shard_count; i++) {
        line->seats[i] = (struct queue_board_seat){.first = QUEUE_BOARD_NONE, .line = line};
        list_init(&line->seats[i].link);
    }
    if (map_put(&board->lines, line->hash, line))
        return line;
    free(line);
    return NULL;
}

/* Updates on which shards' lists the seats are, and frees a line without items and workers. */
static void board_update(struct queue_board *board, struct queue_board_line *line)
{
    bool is_used = !list_is_empty(&line->waiting);

    for (unsigned i = 0; i < board->shard_count; i++) {
        struct queue_board_seat *seat = &line->seats[i];
        bool has_items = seat->first != QUEUE_BOARD_NONE;

        is_used = is_used || has_items;
        if (!has_items || list_is_empty(&line->waiting))
            list_remove(&seat->link);
        else if (list_is_empty(&seat->link))
            list_push(&board->busy[i], &seat->link);
    }
    if (is_used)
        return;
    map_remove(&board->lines, line->hash);
    free(line);
}

static struct node_queue_request *board_take_out(struct queue_board *board,
                                                 struct queue_board_line *line,
                                                 struct node_queue_request *request)
{
    tw_wheel_cancel(board->waits, request->wait_timer_);
    list_remove(&request->link_);
    request->is_waiting_ = false;
    if (request->whole_)
        request->whole_->here_ = NULL;
    board->waiting--;
    board_update(board, line);
    return request;
}

/* ---- leases ---- */

#define BOARD_NOWHERE (-3)

/* Returns the shard with the first item, or NOWHERE. */
static int board_best(const struct queue_board *board, struct bytes name)
{
    const struct queue_board_line *line = board_find(board, name);
    int best = BOARD_NOWHERE;

    for (unsigned i = 0; line && i < board->shard_count; i++)
        if (line->seats[i].first != QUEUE_BOARD_NONE &&
            (best < 0 || line->seats[i].first < line->seats[best].first))
            best = (int)i;
    return best;
}

static bool board_wait(struct queue_board *board, struct node_queue_request *request,
                       bool *ret_is_first)
{
    uint64_t tick = request->wait_until_.ns / BOARD_TICK_NS + 1;
    struct queue_board_line *line = board_get(board, request->queue.queue);

    if (!line)
        return false;
    *ret_is_first = tick < tw_wheel_wake_at(board->waits);
    request->wait_timer_ = tw_wheel_schedule(board->waits, tick, (uint64_t)(uintptr_t)request);
    if (request->wait_timer_ == TW_NONE) {
        board_update(board, line);
        return false;
    }
    list_push(&line->waiting, &request->link_);
    request->is_waiting_ = true;
    if (request->whole_)
        request->whole_->here_ = request;
    board->waiting++;
    board_update(board, line);
    return true;
}

int queue_board_route(struct queue_board *board, struct node_queue_request *request,
                      struct instant now, bool *ret_is_first)
{
    *ret_is_first = false;
    pthread_mutex_lock(&board->lock);
    bool may_wait = request->wait_until_.ns > now.ns && !board->is_stopped && !board->is_blind;
    int shard = board->is_stopped || request->is_given_up_ ||
                        (request->whole_ && request->whole_->is_given_up_)
                    ? QUEUE_BOARD_ANSWERED
                    : board_best(board, request->queue.queue);
    if (shard == BOARD_NOWHERE && may_wait && board_wait(board, request, ret_is_first))
        shard = QUEUE_BOARD_WAITS;
    else if (shard == BOARD_NOWHERE)
        shard = request->visited_ < board->shard_count ? (int)request->visited_++
                                                       : QUEUE_BOARD_ANSWERED;
    pthread_mutex_unlock(&board->lock);
    return shard;
}

int queue_board_more(struct queue_board *board, struct bytes name)
{
    pthread_mutex_lock(&board->lock);
    int shard = board_best(board, name);
    pthread_mutex_unlock(&board->lock);
    return shard == BOARD_NOWHERE ? QUEUE_BOARD_ANSWERED : shard;
}

bool queue_board_goes_before(struct queue_board *board, unsigned shard, struct bytes name,
                             uint64_t first)
{
    if (board->shard_count == 1)
        return false;
    pthread_mutex_lock(&board->lock);
    const struct queue_board_line *line = board_find(board, name);
    uint64_t best = QUEUE_BOARD_NONE;
    for (unsigned i = 0; line && i < board->shard_count; i++)
        if (i != shard && line->seats[i].first < best)
            best = line->seats[i].first;
    pthread_mutex_unlock(&board->lock);
    /* a higher priority counts more than any difference in time */
    return best < first && first - best > QUEUE_BOARD_SLACK_MS;
}

void queue_board_publish(struct queue_board *board, unsigned shard, struct bytes name,
                         uint64_t first)
{
    pthread_mutex_lock(&board->lock);
    struct queue_board_line *line =
        first == QUEUE_BOARD_NONE ? board_find(board, name) : board_get(board, name);
    if (line) {
        line->seats[shard].first = first;
        board_update(board, line);
    } else if (first != QUEUE_BOARD_NONE) {
        board->is_blind = true;
    }
    pthread_mutex_unlock(&board->lock);
}

/* ---- workers that wait ---- */

struct node_queue_request *queue_board_take(struct queue_board *board, unsigned shard)
{
    pthread_mutex_lock(&board->lock);
    struct node_queue_request *request = NULL;
    if (!list_is_empty(&board->busy[shard])) {
        struct list *link = list_pop(&board->busy[shard]);
        struct queue_board_line *line = list_item(link, struct queue_board_seat, link)->line;

        request = board_take_out(board, line,
                                 list_item(line->waiting.next, struct node_queue_request, link_));
    }
    pthread_mutex_unlock(&board->lock);
    return request;
}

bool queue_board_has_work(struct queue_board *board, unsigned shard)
{
    pthread_mutex_lock(&board->lock);
    bool has_work = !list_is_empty(&board->busy[shard]);
    pthread_mutex_unlock(&board->lock);
    return has_work;
}

struct node_queue_request *queue_board_give_up(struct queue_board *board,
                                               struct node_queue_request *request)
{
    pthread_mutex_lock(&board->lock);
    struct node_queue_request *waiting = request->is_waiting_ ? request : request->here_;
    request->is_given_up_ = true;
    if (waiting)
        board_take_out(board, board_find(board, waiting->queue.queue), waiting);
    pthread_mutex_unlock(&board->lock);
    return waiting;
}

bool queue_board_is_given_up(struct queue_board *board, const struct node_queue_request *request)
{
    pthread_mutex_lock(&board->lock);
    const bool is_given_up = request->is_given_up_;
    pthread_mutex_unlock(&board->lock);
    return is_given_up;
}

struct node_queue_request *queue_board_take_late(struct queue_board *board, struct instant now)
{
    pthread_mutex_lock(&board->lock);
    struct node_queue_request *request = NULL;
    struct tw_expired due;
    if (tw_wheel_expire(board->waits, now.ns / BOARD_TICK_NS, &due, 1) == 1) {
        request = (struct node_queue_request *)(uintptr_t)due.data;
        board_take_out(board, board_find(board, request->queue.queue), request);
    }
    pthread_mutex_unlock(&board->lock);
    return request;
}

struct instant queue_board_wake_at(struct queue_board *board)
{
    pthread_mutex_lock(&board->lock);
    uint64_t tick = tw_wheel_wake_at(board->waits);
    pthread_mutex_unlock(&board->lock);
    return (struct instant){tick < UINT64_MAX / BOARD_TICK_NS ? tick * BOARD_TICK_NS : UINT64_MAX};
}

struct node_queue_request *queue_board_stop(struct queue_board *board)
{
    pthread_mutex_lock(&board->lock);
    board->is_stopped = true;
    struct node_queue_request *request = NULL;
    struct queue_board_line *line;
    size_t cursor = 0;
    while (!request && (line = map_next(&board->lines, &cursor)))
        if (!list_is_empty(&line->waiting))
            request = board_take_out(
                board, line, list_item(line->waiting.next, struct node_queue_request, link_));
    pthread_mutex_unlock(&board->lock);
    return request;
}

size_t queue_board_waiting(struct queue_board *board)
{
    pthread_mutex_lock(&board->lock);
    size_t waiting = board->waiting;
    pthread_mutex_unlock(&board->lock);
    return waiting;
}

void queue_board_each(struct queue_board *board,
                      void (*tell)(void *context, struct bytes name, size_t workers), void *context)
{
    pthread_mutex_lock(&board->lock);
    size_t cursor = 0;
    for (const struct queue_board_line *line; (line = map_next(&board->lines, &cursor));) {
        size_t workers = 0;

        LIST_FOR_EACH (&line->waiting, link)
            workers++;
        if (workers)
            tell(context,
                 list_item(line->waiting.next, struct node_queue_request, link_)->queue.queue,
                 workers);
    }
    pthread_mutex_unlock(&board->lock);
}
