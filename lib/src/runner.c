/* runner.c - creating a runner, its loop, and stopping it. */
#include "clock_private.h"
#include "runner_private.h"
#include "wheel_runner.h"

#include <string.h>

enum {
    SKIP_BATCH = 64, /* reminders looked at together */
    SKIP_ROUNDS = 64,
    SKIP_ENTRIES_MAX = 8192 /* entries of the wheel read in a round */
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
    runner->owner = getpid();
    runner->fd = runner->fd_write = -1;
    if (tw_waiter_init(&runner->waiter))
        return runner;
    memory_source_give(&source, runner, sizeof(*runner));
    return NULL;
}

static void runner_wheel_destroy(struct tw_runner_wheel *wheel)
{
    struct tw_runner *runner = wheel->runner;
    size_t batch_size = wheel->batch_count_max * sizeof(struct tw_expired);
    tw_wheel_destroy(wheel->wheel);
    tw__runner_release(runner, wheel->batch, batch_size);
    tw__runner_release(runner, wheel->reminders, batch_size);
    tw__runner_release(runner, wheel, sizeof(*wheel));
}

void tw_runner_destroy(struct tw_runner *runner)
{
    if (!runner)
        return;
    tw_runner_stop(runner);
    for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels), *next; wheel; wheel = next) {
        next = wheel->next;
        tw__runner_cells_deinit(wheel);
        runner_wheel_destroy(wheel);
    }
    tw__runner_fd_close(runner);
    if (!thread_is_forked(runner->owner))
        tw_waiter_deinit(&runner->waiter);
    struct memory_source source = runner->memory;
    memory_source_give(&source, runner, sizeof(*runner));
}

/* `now` in ticks of the wheel. */
static uint64_t runner_tick_at(const struct tw_runner_wheel *wheel, struct tw_instant now)
{
    return now.ns / wheel->tick_ns;
}

/* Initializes a wheel, whose memory is zeroed. False when out of memory. */
static bool runner_wheel_init(struct tw_runner_wheel *wheel, struct tw_runner *runner)
{
    size_t batch_size = wheel->batch_count_max * sizeof(struct tw_expired);
    struct tw_wheel_options options = {.start = runner_tick_at(wheel, tw_runner_now(runner)),
                                       .allocate = runner->memory.allocate,
                                       .release = runner->memory.release,
                                       .context = runner->memory.context};
    wheel->batch = tw__runner_allocate(runner, _Alignof(struct tw_expired), batch_size);
    wheel->reminders = tw__runner_allocate(runner, _Alignof(struct tw_expired), batch_size);
    wheel->wheel = tw_wheel_create(&options);
    atomic_init(&wheel->memory, sizeof(*wheel) + 2 * batch_size);
    return wheel->batch && wheel->reminders && wheel->wheel && tw__runner_cells_init(wheel);
}

struct tw_runner_wheel *tw_runner_add(struct tw_runner *runner,
                                      const struct tw_runner_wheel_options *options)
{
    assert(options->handler);
    struct tw_runner_wheel *wheel =
        tw__runner_allocate(runner, _Alignof(struct tw_runner_wheel), sizeof(*wheel));
    if (!wheel)
        return NULL;
    memset(wheel, 0, sizeof(*wheel));
    wheel->runner = runner;
    wheel->handler = options->handler;
    wheel->context = options->context;
    wheel->tick_ns = options->tick_ns ? options->tick_ns : TICK_NS_DEFAULT;
    wheel->batch_count_max = options->batch_count_max ? options->batch_count_max : BATCH_DEFAULT;
    assert(wheel->batch_count_max <= CELLS_MAX);
    wheel->cell_count_max = CELLS_MAX;
    if (options->timer_count_max && options->timer_count_max < CELLS_MAX)
        wheel->cell_count_max = (uint32_t)options->timer_count_max;
    if (!runner_wheel_init(wheel, runner)) {
        runner_wheel_destroy(wheel);
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

/* Called when reminders came and no timer was due: looks at the timers of the next ones, too, until
 * one is found for which the runner must wake. Others were cancelled or moved to a later deadline.
 * Called with wheel_lock held. */
static void runner_skip_reminders(struct tw_runner_wheel *wheel, uint64_t now_ns)
{
    for (unsigned round = 0; round < SKIP_ROUNDS; round++) {
        uint64_t next[SKIP_BATCH];
        size_t count = tw__wheel_peek(wheel->wheel, next, SKIP_BATCH, SKIP_ENTRIES_MAX);
        for (size_t i = 0; i < count; i++)
            tw__runner_prefetch(wheel, (uint32_t)next[i]);
        for (size_t i = 0; i < count; i++)
            (void)tw__runner_look(wheel, (uint32_t)next[i], now_ns, NULL);
        /* Peek goes by the order of the entries: it returns one of these again if one is due. */
        uint64_t left;
        bool has_more = tw__wheel_peek(wheel->wheel, &left, 1, SKIP_ENTRIES_MAX) == 1;
        for (size_t i = 0; has_more && i < count; i++)
            if (next[i] == left)
                return;
        if (!has_more && tw__wheel_prune(wheel->wheel, PRUNE_MOVES_LATER, SKIP_ENTRIES_MAX) == 0)
            return;
    }
}

/* Takes a batch of due timers, which are running from then on. Sets `ret_is_done` when no more are
 * due. */
static size_t runner_take_due(struct tw_runner_wheel *wheel, struct tw_instant now,
                              bool *ret_is_done)
{
    size_t due = 0;
    pthread_mutex_lock(&wheel->wheel_lock);
    size_t count = tw_wheel_expire(wheel->wheel, runner_tick_at(wheel, now), wheel->reminders,
                                   wheel->batch_count_max);
    /* Reminders are due by the wheel's time. It is after `now` if the wheel was added since `now`
     * was read. */
    uint64_t wheel_ns = tw_wheel_now(wheel->wheel) * wheel->tick_ns;
    uint64_t now_ns = wheel_ns > now.ns ? wheel_ns : now.ns;
    for (size_t i = 0; i < count; i++)
        tw__runner_prefetch(wheel, (uint32_t)wheel->reminders[i].data);
    for (size_t i = 0; i < count; i++)
        due +=
            tw__runner_look(wheel, (uint32_t)wheel->reminders[i].data, now_ns, &wheel->batch[due]);
    *ret_is_done = !tw_wheel_is_behind(wheel->wheel);
    if (count > 0 && due == 0 && *ret_is_done)
        runner_skip_reminders(wheel, now_ns);
    pthread_mutex_unlock(&wheel->wheel_lock);
    return due;
}

/* Ends a batch after its handler has returned. */
static void runner_finish_batch(struct tw_runner_wheel *wheel, size_t count)
{
    uint32_t first = CELLS_MAX, last = CELLS_MAX;
    for (size_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)wheel->batch[i].timer;
        if (!tw__runner_finish(wheel, wheel->batch[i].timer))
            continue;
        tw__runner_body(wheel, index)->next_free = first;
        last = first == CELLS_MAX ? index : last;
        first = index;
    }
    if (first != CELLS_MAX)
        tw__runner_cells_give(wheel, first, last);
}

/* Handles a batch. Returns its length, and the time after the handler in `now`. */
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
    struct tw_instant after = tw__runner_read_clock(wheel->runner);
    uint64_t took = tw_instant_since(*now, after);
    if (took > atomic_load_explicit(&wheel->callback_ns_max, memory_order_relaxed))
        atomic_store_explicit(&wheel->callback_ns_max, took, memory_order_relaxed);
    tw__count(&wheel->callbacks, 1);
    *now = after;
    return count;
}

/* The instant of a wheel's next reminder. */
static uint64_t runner_wheel_wake_ns(struct tw_runner_wheel *wheel)
{
    pthread_mutex_lock(&wheel->wheel_lock);
    uint64_t tick = tw_wheel_wake_at(wheel->wheel);
    pthread_mutex_unlock(&wheel->wheel_lock);
    return tick > UINT64_MAX / wheel->tick_ns ? NEVER_NS : tick * wheel->tick_ns;
}

/* Reads the messages that are needed now. While timers are due these are messages of stripes with a
 * deadline by `now`, a few before each batch, so that threads that schedule do not delay due
 * timers. At other times they are also messages about deadlines before the next reminder, and
 * backlogs. Returns false when some are left. */
static bool runner_read_messages(struct tw_runner_wheel *wheel, struct tw_instant now)
{
    if (atomic_load(&wheel->dirty) == 0 && wheel->unread_mask == 0)
        return true;
    uint64_t wake_ns = runner_wheel_wake_ns(wheel);
    if (wake_ns <= now.ns)
        return tw__runner_messages_read(wheel, READ_ASKED, now.ns, PORTION_DUE);
    return tw__runner_messages_read(wheel, READ_BACKLOG, wake_ns, PORTION_IDLE);
}

/* Reads messages and handles due timers, a batch of each wheel in turn, until none is left or each
 * wheel has handled its `limit`. Sets `ret_is_done` when none is left. */
static size_t runner_handle_all(struct tw_runner *runner, size_t limit, bool *ret_is_done)
{
    size_t handled = 0;
    for (;;) {
        struct tw_instant now = tw__runner_read_clock(runner);
        size_t most = 0;
        *ret_is_done = true;
        for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels); wheel;
             wheel = wheel->next) {
            bool is_done;
            if (atomic_load(&runner->is_stopped))
                return handled;
            bool is_read = runner_read_messages(wheel, now);
            size_t count = runner_handle_batch(wheel, &now, &is_done);
            handled += count;
            most = count > most ? count : most;
            *ret_is_done = *ret_is_done && is_read && is_done;
        }
        limit -= most < limit ? most : limit;
        if (*ret_is_done || limit == 0)
            return handled;
    }
}

/* Publishes the end of the next sleep in `sleep_until_ns`. */
static struct tw_instant runner_announce_sleep(struct tw_runner *runner)
{
    uint64_t until = NEVER_NS;
    for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels); wheel; wheel = wheel->next) {
        uint64_t ns = runner_wheel_wake_ns(wheel);
        until = ns < until ? ns : until;
    }
    until += until == 0; /* 0 means awake */
    TW_RUNNER_HOOK("lie down");
    atomic_store(&runner->sleep_until_ns, until);
    TW_RUNNER_HOOK("lain down");
    return (struct tw_instant){until};
}

/* Whether no message posted before runner_announce_sleep asks for an earlier end; a later message
 * wakes the runner. */
static bool runner_may_sleep(struct tw_runner *runner, struct tw_instant until)
{
    for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels); wheel; wheel = wheel->next)
        if (tw__runner_messages_earliest(wheel) < until.ns)
            return false;
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
    /* A wake-up before the descriptor was set is not lost: its thread posted a message and changed
     * the published end of the sleep. */
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
    /* Waits until every thread that began to schedule before is_stopped was set has finished. */
    for (struct tw_runner_wheel *wheel = atomic_load(&runner->wheels); wheel; wheel = wheel->next)
        for (unsigned i = 0; i < STRIPES; i++) {
            tw__runner_stripe_lock_this(&wheel->stripes[i]);
            tw__runner_stripe_unlock(&wheel->stripes[i]);
        }
    if (!runner->is_started)
        return;
    assert(!pthread_equal(pthread_self(), runner->thread));
    tw_waiter_wake(&runner->waiter);
    pthread_join(runner->thread, NULL);
}

/* Takes the cell's timer if it is pending. */
static bool runner_take_left_cell(struct tw_runner_wheel *wheel, uint32_t index,
                                  struct tw_expired *ret_left)
{
    struct runner_cell *cell = tw__runner_cell(wheel, index);
    uint64_t word = atomic_load(&cell->word), next;
    do {
        while ((word & STATE_MASK) == STATE_MOVING) {
            TW_RUNNER_HOOK("spin");
            word = atomic_load(&cell->word);
        }
        if ((word & STATE_MASK) != STATE_PENDING)
            return false;
        ret_left->deadline = atomic_load(&tw__runner_body(wheel, index)->deadline_ns);
        next = word & FLAG_OPENED ? tw__word_next(word, FLAG_OPENED | STATE_IDLE)
                                  : tw__word_freed(word);
    } while (!atomic_compare_exchange_weak(&cell->word, &word, next));
    ret_left->data = tw__runner_body(wheel, index)->data;
    ret_left->timer = (tw_handle)tw__word_generation(word) << 32 | index;
    tw__count(word & FLAG_OPENED ? &wheel->left_opened : &wheel->left_once, 1);
    if (!(word & FLAG_OPENED)) {
        struct runner_stripe *stripe = tw__runner_stripe_lock(wheel);
        tw__runner_cell_give(wheel, stripe, index);
        tw__runner_stripe_unlock(stripe);
    }
    return true;
}

size_t tw_runner_take_left(struct tw_runner_wheel *wheel, struct tw_expired *ret_left, size_t limit)
{
    assert(atomic_load(&wheel->runner->is_stopped));
    size_t count = 0;
    /* No timer becomes pending any more, so one pass over all cells is enough. */
    while (count < limit && wheel->left_next < atomic_load(&wheel->cell_count))
        count += runner_take_left_cell(wheel, wheel->left_next++, &ret_left[count]);
    return count;
}
