/* runner_cell.c - cells, the stripes through which threads take and post them, and the runner's
 * look at a cell. */
#include "runner_private.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define DEPOT_EMPTY CELLS_MAX

enum { SEGMENT_ALIGNMENT = 64 }; /* so that no cell and no body crosses a cache line */

static bool runner_stripe_try_lock(struct runner_stripe *stripe)
{
    return atomic_load_explicit(&stripe->lock, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&stripe->lock, 1, memory_order_acquire) == 0;
}

/* The stripe that a thread tries first. */
static inline unsigned runner_stripe_of_thread(void)
{
    return (unsigned)((uint64_t)TW_RUNNER_SELF * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

_Static_assert(STRIPES == 1 << (64 - 58), "a stripe for each value of the hash");

struct runner_stripe *tw__runner_stripe_lock(struct tw_runner_wheel *wheel)
{
    for (unsigned i = runner_stripe_of_thread();;) {
        for (unsigned tries = 0; tries < STRIPES; tries++, i++)
            if (runner_stripe_try_lock(&wheel->stripes[i % STRIPES]))
                return &wheel->stripes[i % STRIPES];
        (void)sched_yield();
    }
}

void tw__runner_stripe_lock_this(struct runner_stripe *stripe)
{
    /* A stripe's lock is held for a short time, unless its holder has been preempted. */
    for (unsigned tries = 1; !runner_stripe_try_lock(stripe); tries++) {
        TW_RUNNER_HOOK("spin");
        if (tries % 64 == 0)
            (void)sched_yield();
    }
}

/* Allocates `count` blocks of messages as piece number `piece`. */
static bool runner_add_blocks(struct tw_runner_wheel *wheel, unsigned piece, size_t count)
{
    size_t size = count * sizeof(struct runner_block);
    struct runner_block *blocks =
        tw__runner_allocate(wheel->runner, _Alignof(struct runner_block), size);
    if (!blocks)
        return false;
    wheel->block_pieces[piece] = blocks;
    atomic_fetch_add_explicit(&wheel->memory, size, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        blocks[i].next = wheel->depot_blocks;
        wheel->depot_blocks = &blocks[i];
    }
    return true;
}

static size_t runner_segment_cells(unsigned segment)
{
    return (size_t)1 << (SEGMENT_MIN_BITS + segment);
}

static size_t runner_segment_size(unsigned segment)
{
    return runner_segment_cells(segment) *
           (sizeof(struct runner_cell) + sizeof(struct runner_body));
}

/* A block for each BLOCK_CELLS cells, since a cell is in one block at most; and one that is not
 * full. */
static size_t runner_segment_blocks(unsigned segment)
{
    return runner_segment_cells(segment) / BLOCK_CELLS + 1;
}

/* Blocks that are not full: one in each stripe, the block that the runner reads, and the next that
 * it reads. */
enum { BLOCKS_SPARE = STRIPES + 2 };

bool tw__runner_cells_init(struct tw_runner_wheel *wheel)
{
    wheel->depot_free = DEPOT_EMPTY;
    for (unsigned i = 0; i < STRIPES; i++)
        atomic_init(&wheel->stripes[i].earliest_ns, NEVER_NS);
    if (!runner_add_blocks(wheel, SEGMENTS, BLOCKS_SPARE))
        return false;
    if (pthread_mutex_init(&wheel->depot_lock, NULL) == 0) {
        if (pthread_mutex_init(&wheel->wheel_lock, NULL) == 0)
            return true;
        pthread_mutex_destroy(&wheel->depot_lock);
    }
    tw__runner_release(wheel->runner, wheel->block_pieces[SEGMENTS],
                       BLOCKS_SPARE * sizeof(struct runner_block));
    return false;
}

void tw__runner_cells_deinit(struct tw_runner_wheel *wheel)
{
    struct tw_runner *runner = wheel->runner;
    for (unsigned i = 0; i < wheel->segment_count; i++)
        tw__runner_release(runner, atomic_load(&wheel->segments[i]), runner_segment_size(i));
    for (unsigned i = 0; i < SEGMENTS; i++)
        tw__runner_release(runner, wheel->block_pieces[i],
                           runner_segment_blocks(i) * sizeof(struct runner_block));
    tw__runner_release(runner, wheel->block_pieces[SEGMENTS],
                       BLOCKS_SPARE * sizeof(struct runner_block));
    pthread_mutex_destroy(&wheel->wheel_lock);
    pthread_mutex_destroy(&wheel->depot_lock);
}

/* The depot; its functions are called with depot_lock held. */

/* Allocates memory for the cell after the last. Its message blocks first: a cell without room for
 * its message must not exist. */
static bool runner_add_segment(struct tw_runner_wheel *wheel)
{
    unsigned segment = wheel->segment_count;
    size_t size = runner_segment_size(segment);
    if (!wheel->block_pieces[segment] &&
        !runner_add_blocks(wheel, segment, runner_segment_blocks(segment)))
        return false;
    struct runner_cell *cells = tw__runner_allocate(wheel->runner, SEGMENT_ALIGNMENT, size);
    if (!cells)
        return false;
    atomic_fetch_add_explicit(&wheel->memory, size, memory_order_relaxed);
    atomic_store_explicit(&wheel->segments[segment], cells, memory_order_release);
    wheel->segment_count++;
    return true;
}

/* Gives new cells, with their reminders, to a locked stripe that has none. */
static bool runner_take_fresh(struct tw_runner_wheel *wheel, struct runner_stripe *stripe)
{
    uint32_t index = atomic_load_explicit(&wheel->cell_count, memory_order_relaxed);
    uint64_t most = (uint64_t)wheel->cell_count_max + wheel->retired_count;
    most = most < CELLS_MAX ? most : CELLS_MAX;
    pthread_mutex_lock(&wheel->wheel_lock);
    for (unsigned i = 0; i < FREE_BATCH && index < most; i++, index++) {
        if (index + (1u << SEGMENT_MIN_BITS) == 1u << (SEGMENT_MIN_BITS + wheel->segment_count) &&
            !runner_add_segment(wheel))
            break;
        tw_handle reminder = tw_wheel_open(wheel->wheel, index);
        if (reminder == TW_NONE)
            break;
        struct runner_cell *cell = tw__runner_cell(wheel, index);
        struct runner_body *body = tw__runner_body(wheel, index);
        atomic_init(&cell->word, (uint64_t)1 << 32);
        atomic_init(&cell->look_at_ns, NEVER_NS);
        atomic_init(&body->deadline_ns, NEVER_NS);
        atomic_init(&body->queued, 0);
        body->reminder = reminder;
        stripe->free[stripe->free_count++] = index;
    }
    pthread_mutex_unlock(&wheel->wheel_lock);
    /* Reverses the stack, so that the lowest cells are used first: neighbours in memory are used
     * one after the other. */
    for (uint32_t i = 0; i < stripe->free_count / 2; i++) {
        uint32_t swap = stripe->free[i];
        stripe->free[i] = stripe->free[stripe->free_count - 1 - i];
        stripe->free[stripe->free_count - 1 - i] = swap;
    }
    atomic_store_explicit(&wheel->cell_count, index, memory_order_release);
    return stripe->free_count > 0;
}

static bool runner_take_used(struct tw_runner_wheel *wheel, struct runner_stripe *stripe)
{
    while (stripe->free_count < FREE_BATCH && wheel->depot_free != DEPOT_EMPTY) {
        stripe->free[stripe->free_count++] = wheel->depot_free;
        wheel->depot_free = tw__runner_body(wheel, wheel->depot_free)->next_free;
    }
    return stripe->free_count > 0;
}

static bool runner_stripe_fill(struct tw_runner_wheel *wheel, struct runner_stripe *stripe)
{
    pthread_mutex_lock(&wheel->depot_lock);
    bool is_filled = runner_take_used(wheel, stripe) || runner_take_fresh(wheel, stripe);
    pthread_mutex_unlock(&wheel->depot_lock);
    return is_filled;
}

struct runner_stripe *tw__runner_stripe_with_cell(struct tw_runner_wheel *wheel)
{
    struct runner_stripe *stripe = tw__runner_stripe_lock(wheel);
    if (stripe->free_count > 0 || runner_stripe_fill(wheel, stripe))
        return stripe;
    tw__runner_stripe_unlock(stripe);
    /* Another stripe may have free cells. Only one stripe is locked at a time, so that no deadlock
     * can arise. */
    for (unsigned i = 0; i < STRIPES; i++) {
        stripe = &wheel->stripes[i];
        tw__runner_stripe_lock_this(stripe);
        if (stripe->free_count > 0)
            return stripe;
        tw__runner_stripe_unlock(stripe);
    }
    return NULL;
}

void tw__runner_cells_give(struct tw_runner_wheel *wheel, uint32_t first, uint32_t last)
{
    pthread_mutex_lock(&wheel->depot_lock);
    tw__runner_body(wheel, last)->next_free = wheel->depot_free;
    wheel->depot_free = first;
    pthread_mutex_unlock(&wheel->depot_lock);
}

static void runner_retire_cell(struct tw_runner_wheel *wheel)
{
    pthread_mutex_lock(&wheel->depot_lock);
    wheel->retired_count++;
    pthread_mutex_unlock(&wheel->depot_lock);
}

/* Moves the older half of a full stripe's free cells to the depot. */
static void runner_stripe_return_half(struct tw_runner_wheel *wheel, struct runner_stripe *stripe)
{
    for (unsigned i = 0; i + 1 < FREE_BATCH; i++)
        tw__runner_body(wheel, stripe->free[i])->next_free = stripe->free[i + 1];
    tw__runner_cells_give(wheel, stripe->free[0], stripe->free[FREE_BATCH - 1]);
    stripe->free_count -= FREE_BATCH;
    memmove(stripe->free, stripe->free + FREE_BATCH, stripe->free_count * sizeof(stripe->free[0]));
}

void tw__runner_cell_give(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                          uint32_t index)
{
    uint64_t word =
        atomic_load_explicit(&tw__runner_cell(wheel, index)->word, memory_order_relaxed);
    if (tw__word_generation(word) == GENERATION_LAST) {
        runner_retire_cell(wheel);
        return;
    }
    if (stripe->free_count == STRIPE_FREE_MAX)
        runner_stripe_return_half(wheel, stripe);
    stripe->free[stripe->free_count++] = index;
    /* It is used next, so its body is prefetched. */
    __builtin_prefetch(tw__runner_body(wheel, index), 1);
}

/* Messages. */

static struct runner_block *runner_take_block(struct tw_runner_wheel *wheel)
{
    pthread_mutex_lock(&wheel->depot_lock);
    struct runner_block *block = wheel->depot_blocks;
    assert(block);
    wheel->depot_blocks = block->next;
    pthread_mutex_unlock(&wheel->depot_lock);
    return block;
}

static void runner_give_block(struct tw_runner_wheel *wheel, struct runner_block *block)
{
    pthread_mutex_lock(&wheel->depot_lock);
    block->next = wheel->depot_blocks;
    wheel->depot_blocks = block;
    pthread_mutex_unlock(&wheel->depot_lock);
}

static void runner_stripe_queue(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                                uint32_t index)
{
    if (!stripe->blocks || stripe->blocks->count == BLOCK_CELLS) {
        struct runner_block *block = runner_take_block(wheel);
        block->next = stripe->blocks;
        block->count = 0;
        stripe->blocks = block;
    }
    stripe->blocks->cells[stripe->blocks->count++] = index;
    uint32_t count = atomic_load_explicit(&stripe->message_count, memory_order_relaxed) + 1;
    atomic_store_explicit(&stripe->message_count, count, memory_order_relaxed);
    tw__count(&stripe->messages, 1);
}

struct runner_stripe *tw__runner_post(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                                      uint32_t index, uint64_t deadline_ns)
{
    struct runner_body *body = tw__runner_body(wheel, index);
    for (;;) {
        uint32_t number = (uint32_t)(stripe - wheel->stripes), queued = 0;
        if (atomic_compare_exchange_strong(&body->queued, &queued, number + 1)) {
            TW_RUNNER_HOOK("post: queued");
            runner_stripe_queue(wheel, stripe, index);
            break;
        }
        if (queued == number + 1)
            break;
        /* The message is in another stripe, which must now be read sooner. Under its lock, check
         * that it still is. */
        tw__runner_stripe_unlock(stripe);
        TW_RUNNER_HOOK("post: elsewhere");
        stripe = &wheel->stripes[queued - 1];
        tw__runner_stripe_lock_this(stripe);
    }
    if (deadline_ns < atomic_load_explicit(&stripe->earliest_ns, memory_order_relaxed))
        atomic_store(&stripe->earliest_ns, deadline_ns);
    TW_RUNNER_HOOK("post: written");
    uint64_t bit = UINT64_C(1) << (stripe - wheel->stripes);
    if (!(atomic_load_explicit(&wheel->dirty, memory_order_relaxed) & bit))
        atomic_fetch_or(&wheel->dirty, bit);
    return stripe;
}

void tw__runner_wake_for(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                         uint64_t deadline_ns)
{
    _Atomic uint64_t *sleep_until = &wheel->runner->sleep_until_ns;
    /* A backlog is read better while no timer is due. */
    if (atomic_load_explicit(&stripe->message_count, memory_order_relaxed) >= BACKLOG_MAX)
        deadline_ns = 0;
    TW_RUNNER_HOOK("posted");
    for (uint64_t until = atomic_load(sleep_until); deadline_ns < until;)
        if (atomic_compare_exchange_weak(sleep_until, &until, 0)) {
            tw__runner_wake(wheel->runner);
            return;
        }
}

static void runner_read_block(struct tw_runner_wheel *wheel, const struct runner_block *block,
                              uint64_t now_ns)
{
    pthread_mutex_lock(&wheel->wheel_lock);
    for (uint32_t i = 0; i < block->count; i++) {
        if (i + 12 < block->count)
            tw__runner_prefetch(wheel, block->cells[i + 12]);
        atomic_store(&tw__runner_body(wheel, block->cells[i])->queued, 0);
        (void)tw__runner_look(wheel, block->cells[i], now_ns, NULL);
    }
    pthread_mutex_unlock(&wheel->wheel_lock);
}

static void runner_read_stripe(struct tw_runner_wheel *wheel, struct runner_stripe *stripe)
{
    tw__runner_stripe_lock_this(stripe);
    struct runner_block *blocks = stripe->blocks;
    stripe->blocks = NULL;
    atomic_store_explicit(&stripe->message_count, 0, memory_order_relaxed);
    atomic_store(&stripe->earliest_ns, NEVER_NS);
    tw__runner_stripe_unlock(stripe);
    uint64_t now_ns = tw__runner_read_clock(wheel->runner).ns; /* after the messages were posted */
    while (blocks) {
        struct runner_block *block = blocks;
        blocks = block->next;
        runner_read_block(wheel, block, now_ns);
        runner_give_block(wheel, block);
    }
}

void tw__runner_messages_take(struct tw_runner_wheel *wheel, uint64_t until_ns)
{
    for (uint64_t bits = atomic_load(&wheel->dirty); bits; bits &= bits - 1) {
        struct runner_stripe *stripe = &wheel->stripes[__builtin_ctzll(bits)];
        if (atomic_load(&stripe->earliest_ns) > until_ns &&
            atomic_load_explicit(&stripe->message_count, memory_order_relaxed) < BACKLOG_MAX / 2)
            continue;
        /* Clears the mark first, then reads: a message posted in between marks the stripe again. */
        atomic_fetch_and(&wheel->dirty, ~(bits & -bits));
        TW_RUNNER_HOOK("take: unmarked");
        runner_read_stripe(wheel, stripe);
    }
}

uint64_t tw__runner_messages_earliest(struct tw_runner_wheel *wheel)
{
    uint64_t earliest = NEVER_NS;
    for (uint64_t bits = atomic_load(&wheel->dirty); bits; bits &= bits - 1) {
        uint64_t ns = atomic_load(&wheel->stripes[__builtin_ctzll(bits)].earliest_ns);
        earliest = ns < earliest ? ns : earliest;
    }
    return earliest;
}

/* Sets the reminder to the tick at which the deadline is reached, or makes it due at once if that
 * is reached by `now_ns`. It also serves every other deadline after the tick before. */
static void runner_set_reminder(struct tw_runner_wheel *wheel, struct runner_cell *cell,
                                const struct runner_body *body, uint64_t deadline_ns,
                                uint64_t now_ns)
{
    if (deadline_ns == NEVER_NS) {
        (void)tw_wheel_disarm(wheel->wheel, body->reminder);
        return;
    }
    uint64_t tick = deadline_ns / wheel->tick_ns + (deadline_ns % wheel->tick_ns != 0);
    uint64_t look_at_ns = tick ? (tick - 1) * wheel->tick_ns + 1 : 0;
    if (deadline_ns <= now_ns && tick > tw_wheel_now(wheel->wheel)) {
        tick = tw_wheel_now(wheel->wheel); /* reached before its tick: due at once */
        look_at_ns = 0;
    }
    (void)tw_wheel_arm(wheel->wheel, body->reminder, tick);
    atomic_store_explicit(&cell->look_at_ns, look_at_ns, memory_order_release);
}

bool tw__runner_look(struct tw_runner_wheel *wheel, uint32_t index, uint64_t now_ns,
                     struct tw_expired *ret_due)
{
    struct runner_cell *cell = tw__runner_cell(wheel, index);
    struct runner_body *body = tw__runner_body(wheel, index);
    atomic_store(&cell->look_at_ns, NEVER_NS);
    TW_RUNNER_HOOK("look: cleared");
    uint64_t word = atomic_load(&cell->word);
    if ((word & STATE_MASK) != STATE_PENDING) {
        /* A thread that is moving it will see that no look is planned, and post a message. */
        (void)tw_wheel_disarm(wheel->wheel, body->reminder);
        return false;
    }
    TW_RUNNER_HOOK("look: pending");
    uint64_t deadline_ns = atomic_load(&body->deadline_ns);
    if (!ret_due || deadline_ns > now_ns) {
        runner_set_reminder(wheel, cell, body, deadline_ns, now_ns);
        return false;
    }
    TW_RUNNER_HOOK("look: due");
    /* The version proves that the deadline read is still the timer's. */
    uint64_t running = tw__word_next(word, (word & FLAG_OPENED) | FLAG_RUNNING | STATE_IDLE);
    if (!atomic_compare_exchange_strong(&cell->word, &word, running))
        return false; /* cancelled; or moved, and then a message was posted */
    tw__count(word & FLAG_OPENED ? &wheel->fired_opened : &wheel->fired_once, 1);
    *ret_due = (struct tw_expired){body->data, deadline_ns,
                                   (tw_handle)tw__word_generation(word) << 32 | index};
    return true;
}

bool tw__runner_finish(struct tw_runner_wheel *wheel, tw_handle timer)
{
    struct runner_cell *cell = tw__runner_cell(wheel, (uint32_t)timer);
    uint64_t word = atomic_load_explicit(&cell->word, memory_order_acquire);
    TW_RUNNER_HOOK("finish");
    if (tw__word_generation(word) == timer >> 32 && !(word & FLAG_OPENED)) {
        /* No other thread writes the word of a running scheduled timer. */
        word = tw__word_freed(word & ~(uint64_t)FLAG_RUNNING);
        atomic_store_explicit(&cell->word, word, memory_order_release);
        tw__count(&wheel->finished_once, 1);
    } else {
        /* it may have been closed meanwhile */
        word = atomic_fetch_and(&cell->word, ~(uint64_t)FLAG_RUNNING);
    }
    if ((word & STATE_MASK) != STATE_FREE)
        return false;
    if (tw__word_generation(word) != GENERATION_LAST)
        return true;
    runner_retire_cell(wheel);
    return false;
}
