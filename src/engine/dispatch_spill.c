/* Dispatch queues spill their last timers when memory is short, and take spilled ones back. */
#include "engine/dispatch_spill.h"

#include "engine/commit.h"
#include "engine/dispatch_line.h"
#include "engine/order.h"
#include "engine/position.h"

/* Number of timers that are spilled at a time, plus one for each queue, because finding the longest
 * queue must cost less than spilling. */
#define SPILL_STEP 256

/* Maximum of spill steps whose writes are not durable. Other writes wait for them, so as many other
 * writes are allowed between. */
#define SPILL_STEPS_OUT_MAX 4

/* ---- spilled ---- */

void dispatch_spill(struct engine *engine, struct dispatch_queue *queue, struct entry *entry)
{
    order_spills(engine, queue, entry);
    spill_timer(engine, queue ? &queue->backlog : NULL, entry);
    if (queue && queue->is_strict)
        dispatch_queue_update(engine, queue);
}

static struct dispatch_queue *dispatch_spill_longest(const struct engine *engine)
{
    struct dispatch_queue *longest = NULL;
    size_t cursor = 0;

    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        if (!longest || queue->bytes > longest->bytes)
            longest = queue;
    return longest;
}

size_t dispatch_longest_tail_bytes(const struct engine *engine)
{
    const struct dispatch_queue *queue = dispatch_spill_longest(engine);

    if (!queue || list_is_empty(&queue->timers))
        return 0;
    assert(queue->bytes >= entry_footprint(dispatch_first(queue)));
    return queue->bytes - entry_footprint(dispatch_first(queue));
}

static size_t dispatch_spill_step(const struct engine *engine)
{
    return SPILL_STEP + map_count(&engine->dispatch->queues);
}

size_t dispatch_spillable(const struct engine *engine)
{
    size_t spilling = commit_spilling(engine);
    size_t max = SPILL_STEPS_OUT_MAX * dispatch_spill_step(engine) + commit_unwritten(engine);

    assert(commit_spilling(engine) <= commit_unwritten(engine) ||
           !list_is_empty(commit_rewrites(engine)));
    return 2 * spilling < max ? max - 2 * spilling : 0;
}

/* Spills timers from the end of a queue until the rest takes at most `kept` bytes, or `count` are
 * spilled. */
static void dispatch_spill_tail(struct engine *engine, struct dispatch_queue *queue, size_t kept,
                                size_t count)
{
    assert(count > 0 || queue->bytes >= kept);
    while (queue->bytes > kept && count-- > 0 && engine->dispatch->queued > 1) {
        assert(!list_is_empty(&queue->timers));
        struct entry *entry = entry_of(queue->timers.prev);

        dispatch_count_out(engine, queue, entry);
        /* a lane that is empty then need not be kept for it */
        const bool is_last = queue->kind == DISPATCH_LANE && queue->count == 0;
        if (is_last)
            spill_timer(engine, NULL, entry);
        else
            dispatch_spill(engine, queue, entry);
    }
    dispatch_queue_update(engine, queue);
}

void dispatch_halve_longest(struct engine *engine)
{
    struct dispatch_queue *queue = dispatch_spill_longest(engine);

    assert(queue);
    dispatch_spill_tail(engine, queue, queue->bytes / 2, dispatch_spillable(engine));
}

void dispatch_relieve(struct engine *engine)
{
    struct dispatch *dispatch = engine->dispatch;

    assert(dispatch->queued > 0 || dispatch->queued_bytes == 0);
    while (dispatch->queued_bytes > engine->options.near_bytes_max / 2 && dispatch->queued > 1 &&
           dispatch_spillable(engine) > 0) {
        struct dispatch_queue *queue = dispatch_spill_longest(engine);
        assert(queue && queue->bytes > 0);

        dispatch_spill_tail(engine, queue, queue->bytes / 2, dispatch_spill_step(engine));
    }
}

/* ---- for reload.h ---- */

/* Returns the queue of a spilled timer. It is made if it has a strict order, which must know what
 * is spilled. */
static struct dispatch_queue *dispatch_spill_queue(struct engine *engine, const struct timer *timer)
{
    struct dispatch_name name;

    if (timer_order(timer) != TIMER_ORDER_STRICT || !position_is_spilled(engine, timer))
        return dispatch_find(engine, timer);
    dispatch_name_of(engine, timer, &name);
    return dispatch_queue_get(engine, &name);
}

struct spill_backlog *dispatch_pass_over(struct engine *engine, const struct timer *timer)
{
    struct dispatch_queue *queue = dispatch_spill_queue(engine, timer);

    if (timer_order(timer) == TIMER_ORDER_STRICT && position_is_spilled(engine, timer))
        order_spilled(engine, queue, timer);
    return dispatch_backlog(queue);
}

void dispatch_spill_again(struct engine *engine, struct entry *entry)
{
    struct dispatch_queue *queue = dispatch_spill_queue(engine, entry->timer);

    order_spills(engine, queue, entry);
    spill_again(engine, dispatch_backlog(queue), entry);
    if (queue && queue->is_strict)
        dispatch_queue_update(engine, queue);
}

bool dispatch_swap(struct engine *engine, const struct timer *timer)
{
    struct dispatch_queue *queue = dispatch_find(engine, timer);

    if (!queue || !order_is_before_last(queue, timer) || engine->dispatch->queued < 2)
        return false;
    dispatch_spill_tail(engine, queue, 0, 1);
    return true;
}

void dispatch_scan_begins(struct engine *engine)
{
    order_scan_begins(engine);
}

void dispatch_scan_ends(struct engine *engine, bool is_whole)
{
    size_t cursor = 0;

    order_scan_ends(engine, is_whole);
    for (struct dispatch_queue *queue; (queue = dispatch_next(engine, &cursor));)
        if (queue->is_strict && !list_is_empty(&queue->timers)) /* it cannot be freed then */
            dispatch_queue_update(engine, queue);
}

struct dispatch_queue *dispatch_find(const struct engine *engine, const struct timer *timer)
{
    assert(!timer_is_final(timer->state));
    assert(timer->id.partition == engine->options.partition);
    if (dispatch_is_overdue(engine, timer))
        return engine->dispatch->overdue;
    struct dispatch_name name;
    dispatch_name_of(engine, timer, &name);
    return dispatch_queue_where(engine, &name);
}

struct spill_backlog *dispatch_backlog(struct dispatch_queue *queue)
{
    return queue ? &queue->backlog : NULL;
}

size_t dispatch_queue_bytes(const struct dispatch_queue *queue)
{
    return queue ? queue->bytes : 0;
}

void dispatch_backlog_changed(struct engine *engine, struct spill_backlog *backlog)
{
    dispatch_queue_update(engine, list_item(backlog, struct dispatch_queue, backlog));
}
