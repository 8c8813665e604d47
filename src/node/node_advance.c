/* node_advance.c - moves the virtual clock from instant to instant; see node_advance.h. */
#include "node/node_advance.h"

#include "calendar/rfc3339.h"
#include "node/clock_mark.h"
#include "node/partition.h"
#include "sys/clock.h"
#include "sys/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct node_advance {
    struct node_advance_options options;
    pthread_t thread;
    _Atomic uint64_t round;

    pthread_mutex_t lock;   /* guards what follows */
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    bool is_stopping;
    struct node_advance_request *request; /* request that runs; NULL if none does */
    uint64_t settled_moves;               /* moves of all shards when they were settled last */
    struct engine_progress told;          /* counts at the last answer */
    struct node_advance_shard shards[SHARDS_MAX];
};

/* ---- what the shards report; with the lock ---- */

static bool advance_is_settled(const struct node_advance *advance, uint64_t round, struct wall now)
{
    for (unsigned i = 0; i < advance->options.shard_count; i++) {
        const struct node_advance_shard *shard = &advance->shards[i];

        if (shard->round < round || !shard->is_settled || shard->next.ms <= now.ms)
            return false;
    }
    return true;
}

static uint64_t advance_moves(const struct node_advance *advance)
{
    uint64_t moves = 0;

    for (unsigned i = 0; i < advance->options.shard_count; i++)
        moves += advance->shards[i].moves;
    return moves;
}

static struct wall advance_next(const struct node_advance *advance)
{
    struct wall next = WALL_NEVER;

    for (unsigned i = 0; i < advance->options.shard_count; i++)
        next = wall_min(next, advance->shards[i].next);
    return next;
}

static struct engine_progress advance_counts(const struct node_advance *advance)
{
    struct engine_progress sum = {0};

    for (unsigned i = 0; i < advance->options.shard_count; i++) {
        const struct engine_progress *counts = &advance->shards[i].counts;

        sum.fired += counts->fired;
        sum.delivered += counts->delivered;
        sum.failed += counts->failed;
        sum.other += counts->other;
        sum.live += counts->live;
    }
    return sum;
}

static bool advance_has_happened(const struct engine_progress *counts)
{
    return counts->fired || counts->delivered || counts->failed || counts->other;
}

/* Waits until everything that is due has been done. Returns false if the time is over or the node
 * stops. */
static bool advance_settle(struct node_advance *advance, struct instant until)
{
    const struct timespec end = instant_timespec(until);

    for (;;) {
        const uint64_t round = atomic_fetch_add(&advance->round, 1) + 1;

        advance->options.wake(advance->options.context);
        while (!advance_is_settled(advance, round, wall_now()))
            if (advance->is_stopping ||
                pthread_cond_timedwait(&advance->changed, &advance->lock, &end) != 0)
                return false;
        const uint64_t moves = advance_moves(advance);
        if (moves == advance->settled_moves)
            return true;
        advance->settled_moves = moves;
    }
}

/* ---- the thread ---- */

static struct engine_progress advance_since(const struct engine_progress *begin,
                                            const struct engine_progress *now)
{
    return (struct engine_progress){.fired = now->fired - begin->fired,
                                    .delivered = now->delivered - begin->delivered,
                                    .failed = now->failed - begin->failed,
                                    .other = now->other - begin->other};
}

/* Moves the clock, with the lock. */
static void advance_run(struct node_advance *advance, struct node_advance_request *request)
{
    const struct instant until = instant_add_ms(instant_now(), NODE_ADVANCE_MS_MAX);
    const bool stops_at_next = request->to.ms == UINT64_MAX;
    const struct wall to = wall_min(request->to, clock_virtual_end());
    bool is_settled = advance_settle(advance, until);
    const struct engine_progress begin = advance_counts(advance);
    struct engine_progress now;

    /* With no live timer nothing can happen, although engines wake to drop what is old. */
    while (is_settled && wall_now().ms < to.ms && instant_now().ns < until.ns) {
        const struct wall next = advance_next(advance);

        if (stops_at_next && (next.ms > to.ms || advance_counts(advance).live == 0)) {
            request->is_done = true;
            break;
        }
        clock_move_virtual(wall_min(next, to));
        is_settled = advance_settle(advance, until);
        now = advance_counts(advance);
        const struct engine_progress moved = advance_since(&begin, &now);
        if (is_settled && stops_at_next && advance_has_happened(&moved)) {
            request->is_done = true;
            break;
        }
    }
    now = advance_counts(advance);
    request->counts = advance_since(&advance->told, &now);
    advance->told = now;
    request->is_done |= is_settled && wall_now().ms >= to.ms;
    request->now = wall_now();
    request->result = advance->is_stopping ? ERROR_STOPPING : ERROR_NONE;
}

static void *advance_thread(void *argument)
{
    struct node_advance *advance = argument;

    pthread_mutex_lock(&advance->lock);
    while (!advance->is_stopping || advance->request) {
        struct node_advance_request *request = advance->request;

        if (!request) {
            pthread_cond_wait(&advance->changed, &advance->lock);
            continue;
        }
        advance_run(advance, request);
        pthread_mutex_unlock(&advance->lock);
        struct error error;
        const enum error_code code =
            clock_mark_write(advance->options.folder, request->now, &error);
        if (code && !request->result)
            request->result = code;
        pthread_mutex_lock(&advance->lock);
        advance->request = NULL;
        pthread_mutex_unlock(&advance->lock);
        request->done(request);
        pthread_mutex_lock(&advance->lock);
    }
    pthread_mutex_unlock(&advance->lock);
    return NULL;
}

/* ---- for other threads ---- */

enum error_code node_advance_start(const struct node_advance_options *options,
                                   struct node_advance **ret_advance, struct error *ret_error)
{
    struct node_advance *advance = calloc(1, sizeof(*advance));

    if (!advance)
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    advance->options = *options;
    pthread_mutex_init(&advance->lock, NULL);
    instant_condition_init(&advance->changed);
    if (thread_start(&advance->thread, advance_thread, advance, "tw-clock") == 0) {
        *ret_advance = advance;
        return ERROR_NONE;
    }
    pthread_cond_destroy(&advance->changed);
    pthread_mutex_destroy(&advance->lock);
    free(advance);
    return error_set(ret_error, ERROR_IO, "no thread for the virtual clock");
}

void node_advance_interrupt(struct node_advance *advance)
{
    if (!advance)
        return;
    pthread_mutex_lock(&advance->lock);
    advance->is_stopping = true;
    pthread_cond_broadcast(&advance->changed);
    pthread_mutex_unlock(&advance->lock);
}

void node_advance_stop(struct node_advance *advance)
{
    if (!advance)
        return;
    node_advance_interrupt(advance);
    pthread_join(advance->thread, NULL);
    pthread_cond_destroy(&advance->changed);
    pthread_mutex_destroy(&advance->lock);
    free(advance);
}

enum error_code node_advance_ask(struct node_advance *advance, struct node_advance_request *request,
                                 struct error *ret_error)
{
    enum error_code code = ERROR_NONE;
    char now[RFC3339_TEXT_SIZE], end[RFC3339_TEXT_SIZE];

    request->counts = (struct engine_progress){0};
    request->is_done = false;
    pthread_mutex_lock(&advance->lock);
    rfc3339_format(wall_now(), now);
    rfc3339_format(wall_min(clock_virtual_end(), (struct wall){WALL_MS_MAX}), end);
    if (advance->is_stopping)
        code = ERROR_STOPPING;
    else if (advance->request)
        code = error_set(ret_error, ERROR_CLOCK_RUNS, "Another request moves the clock");
    else if (request->to.ms < wall_now().ms)
        code = error_set(ret_error, ERROR_INVALID, "The clock is at %s and does not go back", now);
    else if (request->to.ms != UINT64_MAX &&
             (request->to.ms > clock_virtual_end().ms || request->to.ms > WALL_MS_MAX))
        code = error_set(ret_error, ERROR_INVALID, "In this run the clock can go up to %s", end);
    if (!code) {
        advance->request = request;
        pthread_cond_broadcast(&advance->changed);
    }
    pthread_mutex_unlock(&advance->lock);
    return code;
}

bool node_advance_is_running(struct node_advance *advance)
{
    pthread_mutex_lock(&advance->lock);
    const bool is_running = advance->request != NULL;
    pthread_mutex_unlock(&advance->lock);
    return is_running;
}

uint64_t node_advance_round(const struct node_advance *advance)
{
    return atomic_load(&advance->round);
}

void node_advance_report(struct node_advance *advance, unsigned shard,
                         const struct node_advance_shard *report)
{
    pthread_mutex_lock(&advance->lock);
    advance->shards[shard] = *report;
    pthread_cond_broadcast(&advance->changed);
    pthread_mutex_unlock(&advance->lock);
}
