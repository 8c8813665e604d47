/*
 * runner_private.h - the data structures of the runner, shared by runner*.c and their tests only.
 *
 * A timer is a cell, which any thread may change and which alone decides whether and when the timer
 * is due. A tw_wheel, which only the runner uses, holds one opened timer per cell as a reminder to
 * look at the cell. `look_at_ns` is the time of that look: a thread that sets a deadline from there
 * on need not tell the runner. Otherwise it posts a message: "look at this cell". Both are hints:
 * the runner reads the cell and acts on its state, so a superfluous hint is harmless. A timer that
 * is scheduled and cancelled again and again in one cell costs the runner at most one look.
 *
 * No hint is ever missing because of a pair of rules, both sequentially consistent:
 *  - a thread that sets a deadline writes the cell first and reads `look_at_ns` after;
 *  - the runner clears `look_at_ns` first and reads the cell after. Either the runner sees the new
 *    deadline, or the thread sees that no look is planned.
 *
 * An equal pair protects the sleep: a thread writes its message first and reads `sleep_until_ns`
 * after; the runner writes `sleep_until_ns` first and reads the times at which messages must be
 * read after. Until then messages wait in their stripe, so that far timers do not wake the runner,
 * and a timer that is cancelled by then costs only its cell and a place in a block.
 *
 * The word of a cell decides every race. Functions change it by compare-and-swap; the winner fires,
 * cancels or moves the timer.
 *
 * Threads do not share memory that they write often: each works in a stripe, chosen by a hash of
 * its identity, that has a stock of free cells, blocks of messages, and counters. A thread whose
 * stripe is locked takes the next stripe.
 *
 * Locks, in the order in which they are taken: a stripe's, `depot_lock`, `wheel_lock`. None is held
 * while a handler runs.
 */
#ifndef TICKWHEEL_RUNNER_PRIVATE_H
#define TICKWHEEL_RUNNER_PRIVATE_H

#include "memory.h"
#include "thread.h"

#include <tickwheel/runner.h>

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    LINE = 128, /* two cache lines, because processors fetch lines in pairs */
    STRIPES = 64,
    STRIPE_FREE_MAX = 128,
    FREE_BATCH = STRIPE_FREE_MAX / 2, /* cells moved at once between a stripe and the depot */
    BLOCK_CELLS = 124,
    BACKLOG_MAX = 8192, /* messages of a stripe that wake the runner, due or not */
    PORTION_DUE = 4,    /* blocks of messages read before each batch while timers are due */
    PORTION_IDLE = 64,  /* and at other times, before the clock is read again */
    SEGMENT_MIN_BITS = 6,
    SEGMENTS = 25,
    BATCH_DEFAULT = 64,
    HISTOGRAM_BITS = 4, /* 16 steps in each power of two */
    HISTOGRAM_BUCKETS = (65 - HISTOGRAM_BITS) << HISTOGRAM_BITS
};

#define CELLS_MAX       (UINT32_C(1) << 30)
#define TICK_NS_DEFAULT UINT64_C(1000000)
#define NEVER_NS        TW_INSTANT_NEVER_NS

/* Places at which the interleaving test switches threads. */
#ifndef TW_RUNNER_HOOK
#define TW_RUNNER_HOOK(place) ((void)0)
#endif

/* A number that identifies the calling thread: the address of its errno costs no call. */
#ifndef TW_RUNNER_SELF
#define TW_RUNNER_SELF ((uintptr_t)&errno)
#endif

/* A cell's word: generation << 32 | version << VERSION_SHIFT | flags | state. */
enum {
    STATE_FREE = 0,
    STATE_IDLE = 1,    /* held, without a deadline; a scheduled timer only while it runs */
    STATE_PENDING = 2, /* fires at `deadline_ns` */
    STATE_MOVING = 3,  /* a thread is changing `deadline_ns`, which takes a few instructions */
    STATE_MASK = 3,
    FLAG_OPENED = 4,
    FLAG_RUNNING = 8, /* the handler has the timer; only the runner sets and clears it */
    VERSION_SHIFT = 4
};

/* The last generation: a cell that reaches it is not used again. */
#define GENERATION_LAST UINT32_MAX

/* The part of a timer that every function must read before it can answer: for a hundred thousand
 * timers it stays in the cache. */
struct runner_cell {
    _Atomic uint64_t word;
    _Atomic uint64_t look_at_ns; /* a deadline from here on needs no message; NEVER_NS: each
                                    deadline needs one */
};

/* The part that is mostly written. */
struct runner_body {
    _Atomic uint64_t deadline_ns;
    uint64_t data;      /* valid while held */
    tw_handle reminder; /* timer of the inner wheel; TW_NONE before the first look */
    _Atomic uint32_t
        queued;         /* number of the stripe with an unread message about the cell, plus 1; 0:
                           none. Set under that stripe's lock */
    uint32_t next_free; /* next in a list of free cells */
};

/* Messages: cells to look at. */
struct runner_block {
    struct runner_block *next;
    uint32_t count;
    uint32_t cells[BLOCK_CELLS];
};

/* Guarded by `lock`, except `lock`, `earliest_ns` and `armed`. Counters are atomic because other
 * threads read them. */
struct runner_stripe {
    _Alignas(LINE) _Atomic uint32_t lock;
    uint32_t free_count;
    struct runner_block *blocks; /* the first is being filled; the others are full */
    struct runner_block *blocks_last;
    _Atomic uint32_t message_count; /* messages in all blocks */
    _Atomic uint64_t earliest_ns;   /* earliest deadline of the messages, NEVER_NS without
                                       messages */
    _Atomic uint64_t scheduled;     /* counters, ever */
    _Atomic uint64_t cancelled;
    _Atomic uint64_t opened;
    _Atomic uint64_t closed;
    _Atomic uint64_t messages;
    _Alignas(LINE) _Atomic uint64_t armed; /* opened timers armed minus disarmed, modulo 2^64 */
    uint32_t free[STRIPE_FREE_MAX];
};

/* Messages that the runner has taken from a stripe and not read yet; all blocks are full. */
struct runner_unread {
    struct runner_block *blocks;
    uint64_t earliest_ns; /* earliest deadline of the messages, NEVER_NS without messages */
};

struct runner_histogram {
    _Atomic uint64_t counts[HISTOGRAM_BUCKETS];
    _Atomic uint64_t max;
};

struct tw_runner_wheel {
    struct tw_runner *runner;
    struct tw_runner_wheel *next;
    void (*handler)(void *context, const struct tw_expired *due, size_t count);
    void *context;
    uint64_t tick_ns;
    uint32_t cell_count_max;
    size_t batch_count_max;

    /* Segment s is 2^(SEGMENT_MIN_BITS + s) cells, and then as many bodies. */
    struct runner_cell *_Atomic segments[SEGMENTS];
    _Atomic uint32_t cell_count; /* cells ever used */

    /* The stock of free cells and blocks that stripes share. */
    pthread_mutex_t depot_lock;
    uint32_t depot_free; /* first of a list; CELLS_MAX when empty */
    uint32_t segment_count;
    uint32_t retired_count;
    struct runner_block *depot_blocks;
    /* Given back without a lock, taken all at once under depot_lock: the runner never waits for a
     * thread that was preempted while it held the lock. */
    _Atomic uint32_t returned_free;
    struct runner_block *_Atomic returned_blocks;
    struct runner_block *block_pieces[SEGMENTS + 1]; /* blocks as allocated; first the spare ones */
    uint32_t piece_count;
    uint32_t piece_next;        /* piece with the next block that was never used */
    uint32_t piece_used;        /* blocks of that piece ever used */
    uint32_t reminder_capacity; /* cells with memory for their reminder */

    pthread_mutex_t wheel_lock;
    struct tw_wheel *wheel; /* guarded by wheel_lock; its ticks are tick_ns long, counted from
                               instant 0 */

    /* Used by the runner's thread only. */
    struct tw_expired *batch; /* the array passed to the handler */
    struct tw_expired *reminders;
    uint64_t unread_mask; /* a bit for each stripe with blocks in `unread` */
    unsigned unread_next; /* the stripe to read first */
    struct runner_unread unread[STRIPES];
    uint32_t left_next;          /* take_left has visited the cells before it */
    _Atomic uint64_t fired_once; /* counters since creation; written by the runner only */
    _Atomic uint64_t fired_opened;
    _Atomic uint64_t finished_once;
    _Atomic uint64_t left_once; /* timers taken by take_left */
    _Atomic uint64_t left_opened;
    _Atomic uint64_t callbacks;
    _Atomic uint64_t callback_ns_max;
    _Atomic size_t memory; /* bytes, without those of the inner wheel */
    struct runner_histogram late;

    _Alignas(LINE) _Atomic uint64_t dirty; /* a bit for each stripe that may have messages */
    struct runner_stripe stripes[STRIPES];
};

struct tw_runner {
    const struct tw_clock *clock;
    struct memory_source memory;
    struct tw_runner_wheel *_Atomic wheels; /* wheels are added in front and never removed */
    pid_t owner;                            /* the process with the thread */
    pthread_t thread;
    bool is_started;
    atomic_bool is_stopped;
    atomic_bool is_dispatching; /* set during dispatch, to detect misuse */
    struct tw_waiter waiter;
    int fd;             /* -1: a thread waits with `waiter` */
    int fd_write;       /* other end of the pipe, on systems without timerfd */
    uint64_t latest_ns; /* latest instant read in handling; used by the runner's thread only */
    _Atomic uint64_t wakes;
    _Alignas(LINE) _Atomic uint64_t sleep_until_ns; /* 0 while awake */
};

/* runner_cell.c: cells, stripes and messages. */

/* The cells and locks of a wheel whose memory is zeroed. False when out of memory, after which
 * tw__runner_cells_deinit is not called. */
bool tw__runner_cells_init(struct tw_runner_wheel *wheel);

/* Blocks of a piece: piece 0 has the spare ones, piece s + 1 those of segment s. */
size_t tw__runner_piece_blocks(unsigned piece);

void tw__runner_cells_deinit(struct tw_runner_wheel *wheel);

/* The calling thread's stripe, or another that is free, locked. */
struct runner_stripe *tw__runner_stripe_lock(struct tw_runner_wheel *wheel);
void tw__runner_stripe_lock_this(struct runner_stripe *stripe);

static inline void tw__runner_stripe_unlock(struct runner_stripe *stripe)
{
    atomic_store_explicit(&stripe->lock, 0, memory_order_release);
}

/* A stripe, locked, that has a free cell; NULL when none has: over the limit or out of memory. */
struct runner_stripe *tw__runner_stripe_with_cell(struct tw_runner_wheel *wheel);

/* Gives a free cell to the stripe, which is locked. */
void tw__runner_cell_give(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                          uint32_t index);

/* Gives free cells, linked by next_free, to the depot. */
void tw__runner_cells_give(struct tw_runner_wheel *wheel, uint32_t first, uint32_t last);

/* Posts a message about a cell whose deadline is now `deadline_ns` to the stripe, which is locked.
 * If another stripe has an unread message about the cell, unlocks this one and locks the other.
 * Returns the locked stripe. */
struct runner_stripe *tw__runner_post(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                                      uint32_t index, uint64_t deadline_ns);

/* Called after the stripe was unlocked: wakes the runner if it would sleep beyond `deadline_ns`. */
void tw__runner_wake_for(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                         uint64_t deadline_ns);

/* Which messages must be read: only those of stripes with a deadline by a given time, or also those
 * of stripes with a backlog. */
enum runner_read { READ_ASKED, READ_BACKLOG };

/* Reads messages and looks at their cells, up to `blocks_max` blocks. Returns false when messages
 * of that kind are left: deadlines by `until_ns`, or a backlog. Only the runner calls it. */
bool tw__runner_messages_read(struct tw_runner_wheel *wheel, enum runner_read what,
                              uint64_t until_ns, unsigned blocks_max);

/* The earliest deadline of the unread messages. */
uint64_t tw__runner_messages_earliest(struct tw_runner_wheel *wheel);

/* Looks at a cell at `now_ns`; called with wheel_lock held. A pending timer has a reminder after
 * that. Unless `ret_due` is NULL, a timer due by `now_ns` is marked as running and stored in it
 * instead, and true is returned. */
bool tw__runner_look(struct tw_runner_wheel *wheel, uint32_t index, uint64_t now_ns,
                     struct tw_expired *ret_due);

/* Called after the handler has returned: ends a scheduled timer. Returns whether its cell is free
 * now; the caller then gives it back. */
bool tw__runner_finish(struct tw_runner_wheel *wheel, tw_handle timer);

/* runner_fd.c: a descriptor to wait on. */

/* Makes the descriptor readable from `until` on; at once if `until` is 0. */
void tw__runner_fd_set(struct tw_runner *runner, struct tw_instant until);
void tw__runner_fd_close(struct tw_runner *runner);

/* Ends the runner's sleep. */
void tw__runner_wake(struct tw_runner *runner);

/* runner_stats.c */

void tw__histogram_add(struct runner_histogram *histogram, uint64_t ns);

/* A value not below the `per_mille` share of the added values, and at most a sixteenth above it; 0
 * without values. */
uint64_t tw__histogram_at(const struct runner_histogram *histogram, uint64_t per_mille);

/* Adds to a counter that only one thread at a time writes. */
static inline void tw__count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t sum = atomic_load_explicit(counter, memory_order_relaxed) + more;
    atomic_store_explicit(counter, sum, memory_order_relaxed);
}

static inline void *tw__runner_allocate(struct tw_runner *runner, size_t alignment, size_t size)
{
    return memory_source_take(&runner->memory, alignment, size);
}

static inline void tw__runner_release(struct tw_runner *runner, void *memory, size_t size)
{
    memory_source_give(&runner->memory, memory, size);
}

/* The cell of an index below cell_count. */
static inline struct runner_cell *tw__runner_cell(const struct tw_runner_wheel *wheel,
                                                  uint32_t index)
{
    uint32_t place = index + (1u << SEGMENT_MIN_BITS);
    unsigned bits = 31u - (unsigned)__builtin_clz(place);
    struct runner_cell *segment =
        atomic_load_explicit(&wheel->segments[bits - SEGMENT_MIN_BITS], memory_order_relaxed);
    return &segment[place - (1u << bits)];
}

static inline struct runner_body *tw__runner_body(const struct tw_runner_wheel *wheel,
                                                  uint32_t index)
{
    uint32_t place = index + (1u << SEGMENT_MIN_BITS);
    unsigned bits = 31u - (unsigned)__builtin_clz(place);
    struct runner_cell *segment =
        atomic_load_explicit(&wheel->segments[bits - SEGMENT_MIN_BITS], memory_order_relaxed);
    return (struct runner_body *)(segment + (1u << bits)) + (place - (1u << bits));
}

/* Prefetches the memory of a cell that is looked at some steps later. */
static inline void tw__runner_prefetch(const struct tw_runner_wheel *wheel, uint32_t index)
{
    __builtin_prefetch(tw__runner_cell(wheel, index), 1);
    __builtin_prefetch(tw__runner_body(wheel, index), 1);
}

/* The time, which does not go back even if the clock does. Only the runner. */
static inline struct tw_instant tw__runner_read_clock(struct tw_runner *runner)
{
    uint64_t now_ns = tw_runner_now(runner).ns;
    runner->latest_ns = now_ns > runner->latest_ns ? now_ns : runner->latest_ns;
    return (struct tw_instant){runner->latest_ns};
}

static inline uint32_t tw__word_generation(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

/* The word with the given flags and state, and the next version. */
static inline uint64_t tw__word_next(uint64_t word, unsigned flags_and_state)
{
    uint32_t version = ((uint32_t)word >> VERSION_SHIFT) + 1;
    return (word & ~(uint64_t)UINT32_MAX) | (uint32_t)(version << VERSION_SHIFT) | flags_and_state;
}

/* The word of a freed cell: the next generation, so that handles are stale; FLAG_RUNNING stays. */
static inline uint64_t tw__word_freed(uint64_t word)
{
    return (uint64_t)(tw__word_generation(word) + 1) << 32 | (word & FLAG_RUNNING);
}

#endif
