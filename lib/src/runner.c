/* runner.c - creating a runner, its loop, and stopping it. */
#include "clock_private.h"
#include "runner_private.h"
#include "wheel_runner.h"

#include <string.h>

enum {
    PRUNE_ENTRIES_MAX =
        8192 /* entries of a lane's wheel that are read after its timers were taken */
};

struct tw_runner *tw_runner_create(const struct tw_runner_options *options)
{
    struct tw_runner_options with = options ? *options : (struct tw_runner_options){0};
    struct memory_source source = tw__memory_source(with.allocate, with.release, with.context);
    struct tw_runner *runner =
        memory_source_take(&source, _Alignof(struct tw_runner), sizeof(*runner));
    if (!runner)
        return NULL;
    memset(runner, 0, sizeof(*runner));
    runner->clock = with.clock ? with.clock : tw_clock_monotonic();
    runner->memory = source;
    runner->wait = with.wait;
    if (with.wait == TW_RUNNER_WAIT_BY_POLICY)
        runner->wait = thread_is_realtime() ? TW_RUNNER_INHERIT : TW_RUNNER_YIELD;
    runner->owner = getpid();
    runner->fd = runner->fd_write = -1;
    atomic_init(&runner->latest_ns, tw__runner_now_ns(runner));
    if (tw_waiter_init(&runner->waiter))
        return runner;
    memory_source_give(&source, runner, sizeof(*runner));
    return NULL;
}

void tw_runner_destroy(struct tw_runner *runner)
{
    if (!runner)
        return;
    tw_runner_stop(runner);
    for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels), *next; wheel; wheel = next) {
        next = wheel->next;
        tw__runner_lanes_deinit(wheel);
        memory_source_give(&runner->memory, wheel, sizeof(*wheel));
    }
    tw__runner_fd_close(runner);
    if (!thread_is_forked(runner->owner))
        tw_waiter_deinit(&runner->waiter);
    struct memory_source source = runner->memory;
    memory_source_give(&source, runner, sizeof(*runner));
}

struct tw_runner_wheel *tw_runner_add(struct tw_runner *runner,
                                      const struct tw_runner_wheel_options *options)
{
    assert(options->handler && options->tick_ns <= TICK_NS_MAX);
    struct tw_runner_wheel *wheel =
        memory_source_take(&runner->memory, _Alignof(struct tw_runner_wheel), sizeof(*wheel));
    if (!wheel)
        return NULL;
    memset(wheel, 0, sizeof(*wheel));
    wheel->runner = runner;
    wheel->handler = options->handler;
    wheel->context = options->context;
    wheel->tick_ns = options->tick_ns ? options->tick_ns : TICK_NS_DEFAULT;
    wheel->tick_inverse = UINT64_MAX / wheel->tick_ns;
    wheel->batch_count_max = options->batch_count_max ? options->batch_count_max : BATCH_DEFAULT;
    assert(wheel->batch_count_max <= TIMERS_MAX);
    wheel->timer_count_max = TIMERS_MAX;
    if (options->timer_count_max && options->timer_count_max < TIMERS_MAX)
        wheel->timer_count_max = (uint32_t)options->timer_count_max;
    if (!tw__runner_lanes_init(wheel)) {
        memory_source_give(&runner->memory, wheel, sizeof(*wheel));
        return NULL;
    }
    wheel->next = atomic_load(&runner->wheels);
    atomic_store(&runner->wheels, wheel);
    return wheel;
}

struct tw_instant tw_runner_now(const struct tw_runner *runner)
{
    return tw_clock_now(runner->clock);
}

/* Returns the time, which never goes back even if the clock does. Called by the runner's thread
 * only. */
static struct tw_instant runner_read_clock(struct tw_runner *runner)
{
    uint64_t now_ns = tw__runner_now_ns(runner);
    uint64_t latest_ns = atomic_load_explicit(&runner->latest_ns, memory_order_relaxed);
    if (now_ns <= latest_ns)
        return (struct tw_instant){latest_ns};
    atomic_store_explicit(&runner->latest_ns, now_ns, memory_order_relaxed);
    return (struct tw_instant){now_ns};
}

/* Returns the instant of the next timer of a lane, which is locked; 0 if one may be due now. */
static uint64_t runner_lane_wake_ns(const struct tw_runner_wheel *wheel,
                                    const struct runner_lane *lane)
{
    if (tw_wheel_is_behind(lane->wheel))
        return 0;
    return tw__runner_tick_ns(wheel, tw_wheel_wake_at(lane->wheel));
}

/* Marks expired timers as running, and sets the handles and deadlines by which their callers know
 * them. */
static void runner_begin_timers(struct tw_runner_wheel *wheel, struct runner_lane *lane,
                                struct tw_expired *timers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch(tw__runner_cell(lane, timers[i].timer), 1);
    for (size_t i = 0; i < count; i++) {
        tw_handle inner = timers[i].timer;
        struct runner_cell *cell = tw__runner_cell(lane, inner);
        *tw__wheel_mark(lane->wheel, inner) = (uint32_t)(inner >> 32);
        timers[i].timer = inner | (uint64_t)(lane - wheel->lanes) << LANE_SHIFT;
        timers[i].data = cell->data;
        timers[i].deadline = cell->deadline_ns;
        cell->deadline_ns = NEVER_NS;
    }
    lane->fired += count;
}

/* Returns the number of the batch that is being taken; never 0. */
static uint64_t runner_batch_number(const struct tw_runner_wheel *wheel)
{
    return atomic_load_explicit(&wheel->callbacks, memory_order_relaxed) + 1;
}

/* True if the next due timer of the lane may have the same slot as one in the batch. A slot stores
 * only one timer that the handler has, so the batch must end first. */
static bool runner_lane_may_repeat(const struct tw_runner_wheel *wheel,
                                   const struct runner_lane *lane)
{
    return lane->batch_number == runner_batch_number(wheel) &&
           lane->batch_made != lane->scheduled + lane->opened;
}

/* Takes timers of a lane that are due by `until_ns` into the batch, which has `batch_count` so far.
 * Returns false if the batch must end first. */
static bool runner_lane_take(struct tw_runner_wheel *wheel, struct runner_lane *lane,
                             uint64_t until_ns, size_t *batch_count)
{
    uint64_t tick = tw__runner_tick_begun(wheel, until_ns);
    struct tw_expired *due = wheel->batch + *batch_count;
    size_t limit = wheel->batch_count_max - *batch_count;
    tw__runner_lane_lock(lane);
    if (runner_lane_may_repeat(wheel, lane)) {
        tw__runner_lane_unlock(lane);
        return false;
    }
    size_t count = tw_wheel_expire(lane->wheel, tick, due, limit);
    runner_begin_timers(wheel, lane, due, count);
    if (count > 0) {
        lane->batch_number = runner_batch_number(wheel);
        lane->batch_made = lane->scheduled + lane->opened;
    }
    /* Nothing was due: the timers at this position were cancelled or moved to a later deadline, and
     * possibly those after them too. */
    if (count == 0 && !tw_wheel_is_behind(lane->wheel))
        (void)tw__wheel_prune(lane->wheel, PRUNE_MOVES_LATER, PRUNE_ENTRIES_MAX);
    atomic_store_explicit(&lane->wake_ns, runner_lane_wake_ns(wheel, lane), memory_order_relaxed);
    tw__runner_lane_unlock(lane);
    *batch_count += count;
    return true;
}

/* Returns the lane with the earliest timer; NULL if there are no lanes. `ret_wake_ns` is the
 * instant of that timer, `ret_other_ns` that of the earliest timer in another lane. */
static struct runner_lane *runner_lane_first(struct tw_runner_wheel *wheel, uint64_t *ret_wake_ns,
                                             uint64_t *ret_other_ns)
{
    struct runner_lane *first = NULL;
    *ret_wake_ns = *ret_other_ns = NEVER_NS;
    for (uint32_t bits = atomic_load(&wheel->lanes_used); bits;) {
        struct runner_lane *lane = tw__runner_lane_next(wheel, &bits);
        uint64_t ns = atomic_load_explicit(&lane->wake_ns, memory_order_relaxed);
        if (!first || ns < *ret_wake_ns) {
            *ret_other_ns = *ret_wake_ns;
            *ret_wake_ns = ns;
            first = lane;
        } else if (ns < *ret_other_ns) {
            *ret_other_ns = ns;
        }
    }
    return first;
}

/* Takes a batch of due timers, which are running from then on. From each lane in turn it takes
 * those that are due before all timers of the other lanes. Sets `ret_is_done` if no more are
 * due. */
static size_t runner_take_due(struct tw_runner_wheel *wheel, struct tw_instant now,
                              bool *ret_is_done)
{
    size_t count = 0;
    for (;;) {
        uint64_t wake_ns, other_ns;
        struct runner_lane *lane = runner_lane_first(wheel, &wake_ns, &other_ns);
        *ret_is_done = !lane || wake_ns > now.ns;
        if (*ret_is_done || count == wheel->batch_count_max)
            return count;
        if (!runner_lane_take(wheel, lane, other_ns < now.ns ? other_ns : now.ns, &count))
            return count;
    }
}

/* Ends the batch after its handler has returned. The timers of a lane are together in the batch. */
static void runner_finish_batch(struct tw_runner_wheel *wheel, size_t count)
{
    for (size_t i = 0; i < count;) {
        struct runner_lane *lane = tw__runner_lane_of(wheel, wheel->batch[i].timer);
        tw__runner_lane_lock(lane);
        for (; i < count && tw__runner_lane_of(wheel, wheel->batch[i].timer) == lane; i++) {
            tw_handle inner = tw__runner_inner(wheel->batch[i].timer);
            uint32_t *running = tw__wheel_mark(lane->wheel, inner);
            if (*running != inner >> 32)
                continue; /* the handler has closed the timer */
            *running = 0;
            if (!tw__wheel_is_opened(inner))
                tw__runner_lane_drop(wheel, lane);
        }
        for (; lane->closed_running > 0; lane->closed_running--)
            tw__runner_lane_drop(wheel, lane);
        tw__runner_lane_unlock(lane);
    }
}

/* Handles a batch. Returns its length, and sets `now` to the time after the handler. */
static size_t runner_handle_batch(struct tw_runner_wheel *wheel, struct tw_instant *now,
                                  bool *ret_is_done)
{
    size_t count = runner_take_due(wheel, *now, ret_is_done);
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        tw__histogram_add(&wheel->late,
                          tw_instant_since((struct tw_instant){wheel->batch[i].deadline}, *now));
    wheel->handler(wheel->context, wheel->batch, count);
    runner_finish_batch(wheel, count);
    struct tw_instant after = runner_read_clock(wheel->runner);
    uint64_t took = tw_instant_since(*now, after);
    if (took > atomic_load_explicit(&wheel->callback_ns_max, memory_order_relaxed))
        atomic_store_explicit(&wheel->callback_ns_max, took, memory_order_relaxed);
    tw__count(&wheel->callbacks, 1);
    *now = after;
    return count;
}

/* Handles due timers, one batch of each wheel in turn, until none is left or each wheel has handled
 * `limit`. Sets `ret_is_done` if none is left. */
static size_t runner_handle_all(struct tw_runner *runner, size_t limit, bool *ret_is_done)
{
    size_t handled = 0;
    for (;;) {
        struct tw_instant now = runner_read_clock(runner);
        size_t most = 0;
        *ret_is_done = true;
        for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels); wheel;
             wheel = wheel->next) {
            bool is_done;
            if (atomic_load(&runner->is_stopped))
                return handled;
            size_t count = runner_handle_batch(wheel, &now, &is_done);
            handled += count;
            most = count > most ? count : most;
            *ret_is_done = *ret_is_done && is_done;
        }
        limit -= most < limit ? most : limit;
        if (*ret_is_done || limit == 0)
            return handled;
    }
}

/* Publishes the end of the next sleep in `sleep_until_ns`. */
static struct tw_instant runner_announce_sleep(struct tw_runner *runner)
{
    uint64_t until = NEVER_NS, wake_ns, other_ns;
    for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels); wheel; wheel = wheel->next) {
        (void)runner_lane_first(wheel, &wake_ns, &other_ns);
        until = wake_ns < until ? wake_ns : until;
    }
    until += until == 0; /* 0 would mean awake */
    TW_RUNNER_HOOK("lie down");
    atomic_store(&runner->sleep_until_ns, until);
    TW_RUNNER_HOOK("lain down");
    return (struct tw_instant){until};
}

/* True if no timer that was set before runner_announce_sleep is due before `until`. A timer set
 * later wakes the runner. */
static bool runner_may_sleep(struct tw_runner *runner, struct tw_instant until)
{
    for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels); wheel; wheel = wheel->next)
        for (uint32_t bits = atomic_load(&wheel->lanes_used); bits;) {
            struct runner_lane *lane = tw__runner_lane_next(wheel, &bits);
            tw__runner_lane_lock(lane);
            bool is_sooner = atomic_load_explicit(&lane->wake_ns, memory_order_relaxed) < until.ns;
            tw__runner_lane_unlock(lane);
            if (is_sooner)
                return false;
        }
    return !atomic_load(&runner->is_stopped);
}

static void *runner_thread_main(void *argument)
{
    struct tw_runner *runner = argument;
    tw__clock_sharpen();
    while (!atomic_load(&runner->is_stopped)) {
        bool is_done;
        (void)runner_handle_all(runner, SIZE_MAX, &is_done);
        struct tw_instant until = runner_announce_sleep(runner);
        if (runner_may_sleep(runner, until)) {
            (void)tw_clock_wait(runner->clock, &runner->waiter, until);
            tw__count(&runner->wakes, 1);
        }
        atomic_store(&runner->sleep_until_ns, 0);
    }
    return NULL;
}

bool tw_runner_start(struct tw_runner *runner)
{
    assert(!runner->is_started && runner->fd < 0);
    runner->is_started = thread_start(&runner->thread, runner_thread_main, runner);
    return runner->is_started;
}

size_t tw_runner_dispatch(struct tw_runner *runner, size_t limit)
{
    bool is_done, is_nested = atomic_exchange(&runner->is_dispatching, true);
    assert(!runner->is_started && !is_nested);
    (void)is_nested;
    atomic_store(&runner->sleep_until_ns, 0);
    tw__count(&runner->wakes, 1);
    size_t handled = runner_handle_all(runner, limit, &is_done);
    struct tw_instant until = runner_announce_sleep(runner);
    tw__runner_fd_set(runner, until);
    /* A wake-up before the descriptor was set is not lost, because the thread that wakes also
     * changes the published end of the sleep. */
    if (!is_done || !runner_may_sleep(runner, until) || tw_runner_wake_at(runner).ns != until.ns) {
        atomic_store(&runner->sleep_until_ns, 0);
        tw__runner_fd_set(runner, (struct tw_instant){0});
    }
    atomic_store(&runner->is_dispatching, false);
    return handled;
}

struct tw_instant tw_runner_wake_at(const struct tw_runner *runner)
{
    return (struct tw_instant){atomic_load(&runner->sleep_until_ns)};
}

uint64_t tw_runner_wakes(const struct tw_runner *runner)
{
    return atomic_load_explicit(&runner->wakes, memory_order_relaxed);
}

void tw_runner_stop(struct tw_runner *runner)
{
    if (atomic_exchange(&runner->is_stopped, true) || thread_is_forked(runner->owner))
        return;
    if (!runner->is_started)
        return;
    assert(!pthread_equal(pthread_self(), runner->thread));
    tw_waiter_wake(&runner->waiter);
    pthread_join(runner->thread, NULL);
}

/* Takes up to `limit` pending timers of a lane, which is locked. Returns their number. */
static size_t runner_take_left_lane(struct tw_runner_wheel *wheel, struct runner_lane *lane,
                                    struct tw_expired *ret_left, size_t limit)
{
    size_t count = 0;
    do
        count += tw_wheel_expire(lane->wheel, TW_NEVER, ret_left + count, limit - count);
    while (count < limit && tw_wheel_is_behind(lane->wheel));
    runner_begin_timers(wheel, lane, ret_left, count);
    lane->fired -= count;
    for (size_t i = 0; i < count; i++) {
        tw_handle inner = tw__runner_inner(ret_left[i].timer);
        *tw__wheel_mark(lane->wheel, inner) = 0;
        if (!tw__wheel_is_opened(inner))
            tw__runner_lane_drop(wheel, lane);
    }
    return count;
}

size_t tw_runner_take_left(struct tw_runner_wheel *wheel, struct tw_expired *ret_left, size_t limit)
{
    assert(atomic_load(&wheel->runner->is_stopped));
    size_t count = 0;
    /* Threads read is_stopped with their lane locked. So a timer that they set is in the lane when
     * it can be locked here. */
    for (uint32_t bits = atomic_load(&wheel->lanes_used); bits && count < limit;) {
        struct runner_lane *lane = tw__runner_lane_next(wheel, &bits);
        tw__runner_lane_lock(lane);
        count += runner_take_left_lane(wheel, lane, ret_left + count, limit - count);
        tw__runner_lane_unlock(lane);
    }
    return count;
}
