/* runner_cell.c - cells, the stripes through which threads take and post them, and the runner's
 * look at a cell. */
#include "runner_private.h"
#include "wheel_runner.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define DEPOT_EMPTY CELLS_MAX

enum { REMINDERS_STEP = 1024 };

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

size_t tw__runner_piece_blocks(unsigned piece)
{
    return piece == 0 ? BLOCKS_SPARE : runner_segment_blocks(piece - 1);
}

/* Allocates the next piece of blocks, which are used one by one, so that no call touches them all.
 */
static bool runner_add_blocks(struct tw_runner_wheel *wheel)
{
    size_t size = tw__runner_piece_blocks(wheel->piece_count) * sizeof(struct runner_block);
    struct runner_block *blocks =
        tw__runner_allocate(wheel->runner, _Alignof(struct runner_block), size);
    if (!blocks)
        return false;
    wheel->block_pieces[wheel->piece_count++] = blocks;
    atomic_fetch_add_explicit(&wheel->memory, size, memory_order_relaxed);
    return true;
}

static void runner_release_blocks(struct tw_runner_wheel *wheel)
{
    for (unsigned i = 0; i < wheel->piece_count; i++)
        tw__runner_release(wheel->runner, wheel->block_pieces[i],
                           tw__runner_piece_blocks(i) * sizeof(struct runner_block));
}

bool tw__runner_cells_init(struct tw_runner_wheel *wheel)
{
    wheel->depot_free = DEPOT_EMPTY;
    atomic_init(&wheel->returned_free, DEPOT_EMPTY);
    for (unsigned i = 0; i < STRIPES; i++)
        atomic_init(&wheel->stripes[i].earliest_ns, NEVER_NS);
    for (unsigned i = 0; i < STRIPES; i++)
        wheel->unread[i].earliest_ns = NEVER_NS;
    if (!runner_add_blocks(wheel))
        return false;
    if (pthread_mutex_init(&wheel->depot_lock, NULL) == 0) {
        if (pthread_mutex_init(&wheel->wheel_lock, NULL) == 0)
            return true;
        pthread_mutex_destroy(&wheel->depot_lock);
    }
    runner_release_blocks(wheel);
    return false;
}

void tw__runner_cells_deinit(struct tw_runner_wheel *wheel)
{
    struct tw_runner *runner = wheel->runner;
    for (unsigned i = 0; i < wheel->segment_count; i++)
        tw__runner_release(runner, atomic_load(&wheel->segments[i]), runner_segment_size(i));
    runner_release_blocks(wheel);
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
    if (wheel->piece_count < segment + 2 && !runner_add_blocks(wheel))
        return false;
    struct runner_cell *cells = tw__runner_allocate(wheel->runner, SEGMENT_ALIGNMENT, size);
    if (!cells)
        return false;
    atomic_fetch_add_explicit(&wheel->memory, size, memory_order_relaxed);
    atomic_store_explicit(&wheel->segments[segment], cells, memory_order_release);
    wheel->segment_count++;
    return true;
}

/* Allocates memory for the reminders of `count` cells, a thousand cells at a time. The runner opens
 * a reminder when it first looks at the cell, so other threads seldom take its lock. */
static bool runner_reserve_reminders(struct tw_runner_wheel *wheel, uint64_t count)
{
    if (count <= wheel->reminder_capacity)
        return true;
    uint64_t step = wheel->reminder_capacity;
    uint64_t capacity = wheel->reminder_capacity + (step < REMINDERS_STEP ? step : REMINDERS_STEP);
    capacity = capacity < count ? count : capacity;
    pthread_mutex_lock(&wheel->wheel_lock);
    bool is_reserved = tw__wheel_reserve_untouched(wheel->wheel, (size_t)capacity);
    pthread_mutex_unlock(&wheel->wheel_lock);
    if (is_reserved)
        wheel->reminder_capacity = (uint32_t)capacity;
    return is_reserved;
}

/* Gives new cells to a locked stripe that has none. */
static bool runner_take_fresh(struct tw_runner_wheel *wheel, struct runner_stripe *stripe)
{
    uint32_t index = atomic_load_explicit(&wheel->cell_count, memory_order_relaxed);
    uint64_t most = (uint64_t)wheel->cell_count_max + wheel->retired_count;
    most = most < CELLS_MAX ? most : CELLS_MAX;
    for (unsigned i = 0; i < FREE_BATCH && index < most; i++, index++) {
        if (index + (1u << SEGMENT_MIN_BITS) == 1u << (SEGMENT_MIN_BITS + wheel->segment_count) &&
            !runner_add_segment(wheel))
            break;
        if (!runner_reserve_reminders(wheel, (uint64_t)index + 1))
            break;
        struct runner_cell *cell = tw__runner_cell(wheel, index);
        struct runner_body *body = tw__runner_body(wheel, index);
        atomic_init(&cell->word, (uint64_t)1 << 32);
        atomic_init(&cell->look_at_ns, NEVER_NS);
        atomic_init(&body->deadline_ns, NEVER_NS);
        atomic_init(&body->queued, 0);
        body->reminder = TW_NONE;
        stripe->free[stripe->free_count++] = index;
    }
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
    if (wheel->depot_free == DEPOT_EMPTY)
        wheel->depot_free = atomic_exchange(&wheel->returned_free, DEPOT_EMPTY);
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
    uint32_t head = atomic_load_explicit(&wheel->returned_free, memory_order_relaxed);
    do
        tw__runner_body(wheel, last)->next_free = head;
    while (!atomic_compare_exchange_weak(&wheel->returned_free, &head, first));
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
    if (!wheel->depot_blocks)
        wheel->depot_blocks = atomic_exchange(&wheel->returned_blocks, NULL);
    struct runner_block *block = wheel->depot_blocks;
    if (block) {
        wheel->depot_blocks = block->next;
    } else {
        for (; wheel->piece_used == tw__runner_piece_blocks(wheel->piece_next); wheel->piece_next++)
            wheel->piece_used = 0;
        assert(wheel->piece_next < wheel->piece_count);
        block = &wheel->block_pieces[wheel->piece_next][wheel->piece_used++];
    }
    pthread_mutex_unlock(&wheel->depot_lock);
    return block;
}

static void runner_give_block(struct tw_runner_wheel *wheel, struct runner_block *block)
{
    struct runner_block *head = atomic_load_explicit(&wheel->returned_blocks, memory_order_relaxed);
    do
        block->next = head;
    while (!atomic_compare_exchange_weak(&wheel->returned_blocks, &head, block));
}

static void runner_stripe_queue(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                                uint32_t index)
{
    if (!stripe->blocks || stripe->blocks->count == BLOCK_CELLS) {
        struct runner_block *block = runner_take_block(wheel);
        block->next = stripe->blocks;
        stripe->blocks_last = stripe->blocks ? stripe->blocks_last : block;
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

/* Takes the messages of a stripe, in front of those that were taken before: the newest are read
 * first. The first block may be partly filled; it is read at once. */
static void runner_take_messages(struct tw_runner_wheel *wheel, unsigned number)
{
    struct runner_stripe *stripe = &wheel->stripes[number];
    struct runner_unread *unread = &wheel->unread[number];
    struct runner_block *blocks = stripe->blocks, *last = stripe->blocks_last;
    uint64_t earliest_ns = atomic_load(&stripe->earliest_ns);
    stripe->blocks = NULL;
    atomic_store_explicit(&stripe->message_count, 0, memory_order_relaxed);
    atomic_store(&stripe->earliest_ns, NEVER_NS);
    tw__runner_stripe_unlock(stripe);
    if (blocks) {
        last->next = unread->blocks;
        unread->blocks = blocks;
    }
    unread->earliest_ns = earliest_ns < unread->earliest_ns ? earliest_ns : unread->earliest_ns;
}

/* Reads up to `blocks_max` blocks of a stripe's messages. Returns how many are still allowed; none
 * when the stripe is locked and `what` does not require to wait for it. */
static unsigned runner_read_stripe(struct tw_runner_wheel *wheel, unsigned number,
                                   enum runner_read what, unsigned blocks_max)
{
    struct runner_unread *unread = &wheel->unread[number];
    uint64_t bit = UINT64_C(1) << number;
    if (atomic_load(&wheel->dirty) & bit) {
        if (what == READ_ASKED) {
            tw__runner_stripe_lock_this(&wheel->stripes[number]);
        } else if (!runner_stripe_try_lock(&wheel->stripes[number])) {
            TW_RUNNER_HOOK("spin");
            (void)sched_yield(); /* its holder may have been preempted */
            return 0;
        }
        /* Cleared under the lock under which messages are posted and the mark is set. */
        atomic_fetch_and(&wheel->dirty, ~bit);
        TW_RUNNER_HOOK("take: unmarked");
        runner_take_messages(wheel, number);
    }
    uint64_t now_ns = tw__runner_read_clock(wheel->runner).ns; /* after the messages were posted */
    for (; unread->blocks && blocks_max > 0; blocks_max--) {
        struct runner_block *block = unread->blocks;
        unread->blocks = block->next;
        runner_read_block(wheel, block, now_ns);
        runner_give_block(wheel, block);
    }
    if (unread->blocks) {
        wheel->unread_mask |= bit;
    } else {
        wheel->unread_mask &= ~bit;
        unread->earliest_ns = NEVER_NS;
    }
    return blocks_max;
}

/* The earliest deadline of a stripe's messages, taken or not. */
static uint64_t runner_stripe_earliest(struct tw_runner_wheel *wheel, unsigned number)
{
    uint64_t posted_ns = atomic_load(&wheel->stripes[number].earliest_ns);
    uint64_t taken_ns = wheel->unread[number].earliest_ns;
    return posted_ns < taken_ns ? posted_ns : taken_ns;
}

static bool runner_must_read(struct tw_runner_wheel *wheel, unsigned number, enum runner_read what,
                             uint64_t until_ns)
{
    struct runner_stripe *stripe = &wheel->stripes[number];
    if (runner_stripe_earliest(wheel, number) <= until_ns)
        return true;
    if (what == READ_ASKED)
        return false;
    return wheel->unread[number].blocks ||
           atomic_load_explicit(&stripe->message_count, memory_order_relaxed) >= BACKLOG_MAX / 2;
}

bool tw__runner_messages_read(struct tw_runner_wheel *wheel, enum runner_read what,
                              uint64_t until_ns, unsigned blocks_max)
{
    uint64_t bits = atomic_load(&wheel->dirty) | wheel->unread_mask;
    unsigned first = wheel->unread_next;
    for (unsigned i = 0; i < STRIPES && bits; i++) {
        unsigned number = (first + i) % STRIPES;
        if (!(bits >> number & 1) || !runner_must_read(wheel, number, what, until_ns))
            continue;
        wheel->unread_next = number; /* goes on here when the portion ends */
        if (blocks_max == 0)
            return false;
        blocks_max = runner_read_stripe(wheel, number, what, blocks_max);
        if (blocks_max == 0 && runner_must_read(wheel, number, what, until_ns))
            return false;
    }
    return true;
}

uint64_t tw__runner_messages_earliest(struct tw_runner_wheel *wheel)
{
    uint64_t earliest = NEVER_NS;
    for (uint64_t bits = atomic_load(&wheel->dirty) | wheel->unread_mask; bits; bits &= bits - 1) {
        uint64_t ns = runner_stripe_earliest(wheel, (unsigned)__builtin_ctzll(bits));
        earliest = ns < earliest ? ns : earliest;
    }
    return earliest;
}

/* Sets the reminder to the tick at which the deadline is reached, or makes it due at once if that
 * is reached by `now_ns`. It also serves every other deadline after the tick before. */
static void runner_set_reminder(struct tw_runner_wheel *wheel, struct runner_cell *cell,
                                struct runner_body *body, uint32_t index, uint64_t deadline_ns,
                                uint64_t now_ns)
{
    if (body->reminder == TW_NONE)
        body->reminder = tw_wheel_open(wheel->wheel, index);
    assert(body->reminder != TW_NONE); /* its memory is reserved */
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
        runner_set_reminder(wheel, cell, body, index, deadline_ns, now_ns);
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
