/*
 * runner_verbs.c - the functions on one timer, called from any thread.
 *
 * Each is one compare-and-swap of the cell's word, which decides every race; its winner then posts
 * a message, updates a counter, or gives the cell back.
 */
#include "runner_private.h"

#include <sched.h>

/* The cell of a handle; NULL for a handle that was never returned. */
static inline struct runner_cell *runner_find(const struct tw_runner_wheel *wheel, tw_handle timer)
{
    uint32_t index = (uint32_t)timer;
    if (index >= atomic_load_explicit(&wheel->cell_count, memory_order_acquire))
        return NULL;
    return tw__runner_cell(wheel, index);
}

/* Reads the cell's word once no thread is moving its deadline. False when the handle is stale. */
static inline bool runner_read_word(struct runner_cell *cell, tw_handle timer, uint64_t *ret_word)
{
    for (unsigned tries = 1;; tries++) {
        uint64_t word = atomic_load_explicit(&cell->word, memory_order_acquire);
        if (tw__word_generation(word) != timer >> 32 || (word & STATE_MASK) == STATE_FREE)
            return false;
        if ((word & STATE_MASK) != STATE_MOVING) {
            *ret_word = word;
            return true;
        }
        TW_RUNNER_HOOK("spin");
        if (tries % 16 == 0)
            (void)sched_yield();
    }
}

static bool runner_is_stopped(const struct tw_runner_wheel *wheel)
{
    return atomic_load(&wheel->runner->is_stopped);
}

/* Fills a free cell of the stripe, which is locked, and unlocks the stripe. */
static tw_handle runner_fill_cell(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                                  unsigned flags_and_state, uint64_t deadline_ns, uint64_t data)
{
    uint32_t index = stripe->free[--stripe->free_count];
    struct runner_cell *cell = tw__runner_cell(wheel, index);
    struct runner_body *body = tw__runner_body(wheel, index);
    uint64_t word = atomic_load_explicit(&cell->word, memory_order_relaxed);
    body->data = data;
    atomic_store_explicit(&body->deadline_ns, deadline_ns, memory_order_relaxed);
    TW_RUNNER_HOOK("begin: filled");
    atomic_store(&cell->word, word | flags_and_state);
    TW_RUNNER_HOOK("begin: said");
    if (deadline_ns < atomic_load(&cell->look_at_ns)) {
        stripe = tw__runner_post(wheel, stripe, index, deadline_ns);
        tw__runner_stripe_unlock(stripe);
        tw__runner_wake_for(wheel, stripe, deadline_ns);
    } else {
        tw__runner_stripe_unlock(stripe);
    }
    return (tw_handle)tw__word_generation(word) << 32 | index;
}

/* A locked stripe with a free cell for a new timer; NULL when there is none, or the runner is
 * stopped. */
static struct runner_stripe *runner_stripe_for_new(struct tw_runner_wheel *wheel)
{
    struct runner_stripe *stripe = tw__runner_stripe_with_cell(wheel);
    /* Checked under the stripe's lock: stop waits for the threads that are past this check. */
    if (stripe && runner_is_stopped(wheel)) {
        tw__runner_stripe_unlock(stripe);
        stripe = NULL;
    }
    return stripe;
}

tw_handle tw_runner_schedule(struct tw_runner_wheel *wheel, struct tw_instant deadline,
                             uint64_t data)
{
    struct runner_stripe *stripe = runner_stripe_for_new(wheel);
    if (!stripe)
        return TW_NONE;
    tw__count(&stripe->scheduled, 1);
    return runner_fill_cell(wheel, stripe, STATE_PENDING, deadline.ns, data);
}

tw_handle tw_runner_open(struct tw_runner_wheel *wheel, uint64_t data)
{
    struct runner_stripe *stripe = runner_stripe_for_new(wheel);
    if (!stripe)
        return TW_NONE;
    tw__count(&stripe->opened, 1);
    return runner_fill_cell(wheel, stripe, FLAG_OPENED | STATE_IDLE, NEVER_NS, data);
}

/* After a successful cancel or close: counts it and gives the cell back. The runner gives back a
 * cell whose handler is running. */
static void runner_give_back(struct tw_runner_wheel *wheel, tw_handle timer, uint64_t word)
{
    struct runner_stripe *stripe = tw__runner_stripe_lock(wheel);
    tw__count(word & FLAG_OPENED ? &stripe->closed : &stripe->cancelled, 1);
    if (!(word & FLAG_RUNNING))
        tw__runner_cell_give(wheel, stripe, (uint32_t)timer);
    tw__runner_stripe_unlock(stripe);
}

enum tw_runner_answer tw_runner_cancel(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_cell *cell = runner_find(wheel, timer);
    uint64_t word;
    while (cell && runner_read_word(cell, timer, &word)) {
        assert(!(word & FLAG_OPENED));
        if (word & FLAG_RUNNING)
            return TW_RUNNER_RUNNING;
        TW_RUNNER_HOOK("cancel");
        if (atomic_compare_exchange_weak(&cell->word, &word, tw__word_freed(word))) {
            TW_RUNNER_HOOK("cancelled");
            runner_give_back(wheel, timer, word);
            return TW_RUNNER_OK;
        }
    }
    return TW_RUNNER_DONE;
}

/* Adds to the count of opened timers with a deadline. The counter has its own cache line and needs
 * no lock. */
static void runner_count_armed(struct tw_runner_wheel *wheel, tw_handle timer, uint64_t more)
{
    atomic_fetch_add_explicit(&wheel->stripes[(uint32_t)timer / FREE_BATCH % STRIPES].armed, more,
                              memory_order_relaxed);
}

enum tw_runner_answer tw_runner_close(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_cell *cell = runner_find(wheel, timer);
    uint64_t word;
    while (cell && runner_read_word(cell, timer, &word)) {
        assert(word & FLAG_OPENED);
        if (!atomic_compare_exchange_weak(&cell->word, &word, tw__word_freed(word)))
            continue;
        if ((word & STATE_MASK) == STATE_PENDING)
            runner_count_armed(wheel, timer, UINT64_MAX);
        runner_give_back(wheel, timer, word);
        return word & FLAG_RUNNING ? TW_RUNNER_RUNNING : TW_RUNNER_OK;
    }
    return TW_RUNNER_DONE;
}

/* Changes the word, which this thread owns while it is STATE_MOVING, to `state`. The runner may
 * clear FLAG_RUNNING meanwhile. */
static void runner_end_move(struct runner_cell *cell, unsigned state)
{
    uint64_t word = atomic_load(&cell->word), next;
    do
        next = tw__word_next(word, (word & (FLAG_OPENED | FLAG_RUNNING)) | state);
    while (!atomic_compare_exchange_weak(&cell->word, &word, next));
}

/* Sets the new deadline of a timer whose word this thread changed from `word` to STATE_MOVING. */
static void runner_move(struct tw_runner_wheel *wheel, struct runner_cell *cell, tw_handle timer,
                        uint64_t word, uint64_t deadline_ns)
{
    bool was_pending = (word & STATE_MASK) == STATE_PENDING;
    bool is_pending = deadline_ns != NEVER_NS || !(word & FLAG_OPENED);
    TW_RUNNER_HOOK("move: began");
    atomic_store(&tw__runner_body(wheel, (uint32_t)timer)->deadline_ns, deadline_ns);
    TW_RUNNER_HOOK("move: stored");
    if (was_pending != is_pending)
        runner_count_armed(wheel, timer, is_pending ? 1 : UINT64_MAX);
    runner_end_move(cell, is_pending ? STATE_PENDING : STATE_IDLE);
    TW_RUNNER_HOOK("moved");
    if (deadline_ns < atomic_load(&cell->look_at_ns)) {
        TW_RUNNER_HOOK("move: message");
        struct runner_stripe *stripe = tw__runner_stripe_lock(wheel);
        stripe = tw__runner_post(wheel, stripe, (uint32_t)timer, deadline_ns);
        tw__runner_stripe_unlock(stripe);
        tw__runner_wake_for(wheel, stripe, deadline_ns);
    }
}

enum tw_runner_answer tw_runner_reschedule(struct tw_runner_wheel *wheel, tw_handle timer,
                                           struct tw_instant deadline)
{
    struct runner_cell *cell = runner_find(wheel, timer);
    uint64_t word;
    while (cell && runner_read_word(cell, timer, &word)) {
        assert(!(word & FLAG_OPENED));
        if (word & FLAG_RUNNING)
            return TW_RUNNER_RUNNING;
        TW_RUNNER_HOOK("reschedule");
        if (atomic_compare_exchange_weak(&cell->word, &word, tw__word_next(word, STATE_MOVING))) {
            runner_move(wheel, cell, timer, word, deadline.ns);
            return TW_RUNNER_OK;
        }
    }
    return TW_RUNNER_DONE;
}

enum runner_set_how { SET_TO, SET_SOONER };

static enum tw_runner_answer runner_set_deadline(struct tw_runner_wheel *wheel, tw_handle timer,
                                                 uint64_t deadline_ns, enum runner_set_how how)
{
    struct runner_cell *cell = runner_find(wheel, timer);
    uint64_t word;
    while (cell && runner_read_word(cell, timer, &word)) {
        assert(word & FLAG_OPENED);
        TW_RUNNER_HOOK("set");
        uint64_t moving = tw__word_next(word, (word & (FLAG_OPENED | FLAG_RUNNING)) | STATE_MOVING);
        if (!atomic_compare_exchange_weak(&cell->word, &word, moving))
            continue;
        /* Stopped: take_left, which waits for timers that are moving, may have visited this cell
         * already. */
        if (runner_is_stopped(wheel)) {
            runner_end_move(cell, word & STATE_MASK);
            return TW_RUNNER_DONE;
        }
        uint64_t old_ns = atomic_load(&tw__runner_body(wheel, (uint32_t)timer)->deadline_ns);
        if (how == SET_SOONER && (word & STATE_MASK) == STATE_PENDING && old_ns < deadline_ns)
            deadline_ns = old_ns;
        runner_move(wheel, cell, timer, word, deadline_ns);
        return TW_RUNNER_OK;
    }
    return TW_RUNNER_DONE;
}

enum tw_runner_answer tw_runner_arm(struct tw_runner_wheel *wheel, tw_handle timer,
                                    struct tw_instant deadline)
{
    return runner_set_deadline(wheel, timer, deadline.ns, SET_TO);
}

enum tw_runner_answer tw_runner_arm_sooner(struct tw_runner_wheel *wheel, tw_handle timer,
                                           struct tw_instant deadline)
{
    return runner_set_deadline(wheel, timer, deadline.ns, SET_SOONER);
}

enum tw_runner_answer tw_runner_disarm(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_cell *cell = runner_find(wheel, timer);
    uint64_t word;
    while (cell && runner_read_word(cell, timer, &word)) {
        assert(word & FLAG_OPENED);
        bool is_armed = (word & STATE_MASK) == STATE_PENDING;
        uint64_t idle = tw__word_next(word, (word & (FLAG_OPENED | FLAG_RUNNING)) | STATE_IDLE);
        if (is_armed && !atomic_compare_exchange_weak(&cell->word, &word, idle))
            continue;
        if (is_armed)
            runner_count_armed(wheel, timer, UINT64_MAX);
        if (word & FLAG_RUNNING)
            return TW_RUNNER_RUNNING;
        return is_armed ? TW_RUNNER_OK : TW_RUNNER_DONE;
    }
    return TW_RUNNER_DONE;
}
