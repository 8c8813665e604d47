/*
 * runner_private.h - the inside of the runner, shared by runner*.c and by their tests only.
 *
 * A timer is a cell, which any thread may change and which alone says whether and when the timer is
 * due. A tw_wheel, which only the runner touches, holds one opened timer per cell as a reminder to
 * look at it. `look_at` says when the runner will: so a thread that sets a deadline that is no
 * sooner has nothing to tell the runner. Otherwise it leaves a message: "look at this cell". Both
 * are hints: whoever looks reads the cell and acts on what it finds, so a hint too many is
 * harmless. A timer that is scheduled, cancelled and scheduled again in the same cell costs the
 * runner one look at most, however often.
 *
 * That no hint is missing rests on one pair of rules, both sequentially consistent:
 *  - who sets a deadline writes the cell first and reads `look_at` after;
 *  - who looks clears `look_at` first and reads the cell after. Either the one sees the other's
 *    deadline, or the other sees that nobody will look.
 *
 * The same pair again for sleep: a message is written first and `sleep_until_ns` read after; the
 * runner writes `sleep_until_ns` first and reads after by when the messages ask to be read. Until
 * then they wait in their stripe, so that far timers wake nobody, and a timer that is cancelled by
 * then costs nothing but its cell a place in a block.
 *
 * The word of a cell decides every race. Its verbs move it by compare and swap; the one that wins
 * has the timer: fire, cancel or move.
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

#include <tickwheel/runner.h>

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    LINE = 128, /* two cache lines: processors fetch them in pairs */
    STRIPES = 64,
    STRIPE_FREE_MAX = 128,
    FREE_BATCH = STRIPE_FREE_MAX / 2, /* cells that move between stripe and depot at a time */
    BLOCK_CELLS = 124,
    BACKLOG_MAX = 8192, /* messages of a stripe for which the runner is woken, due or not */
    SEGMENT_MIN_BITS = 6,
    SEGMENTS = 25,
    BATCH_DEFAULT = 64,
    HISTOGRAM_BITS = 4, /* 16 steps in each power of two */
    HISTOGRAM_BUCKETS = (65 - HISTOGRAM_BITS) << HISTOGRAM_BITS
};

#define CELLS_MAX       (UINT32_C(1) << 30)
#define TICK_NS_DEFAULT UINT64_C(1000000)
#define NEVER_NS        TW_INSTANT_NEVER_NS

/* Where the interleaving test takes the processor away from the thread. */
#ifndef TW_RUNNER_HOOK
#define TW_RUNNER_HOOK(place) ((void)0)
#endif

/* A number of the calling thread's own: where its errno lies costs nothing to ask. */
#ifndef TW_RUNNER_SELF
#define TW_RUNNER_SELF ((uintptr_t)&errno)
#endif

/* A cell's word: generation << 32 | version << VERSION_SHIFT | flags | state. */
enum {
    STATE_FREE = 0,
    STATE_IDLE = 1,    /* held, without a deadline; a scheduled one only while it runs */
    STATE_PENDING = 2, /* may fire at `deadline_ns` */
    STATE_MOVING = 3,  /* a thread is changing `deadline_ns`; for a few instructions */
    STATE_MASK = 3,
    FLAG_OPENED = 4,
    FLAG_RUNNING = 8, /* with the handler; only the runner sets and clears it */
    VERSION_SHIFT = 4
};

/* The last generation: a cell that has come to it is never let again. */
#define GENERATION_LAST UINT32_MAX

/* What every verb must read before it can answer: of a hundred thousand timers it stays in the
 * cache. */
struct runner_cell {
    _Atomic uint64_t word;
    _Atomic uint64_t look_at_ns; /* a deadline from here on needs no message; NEVER_NS: each does */
};

/* The rest, which is mostly written. */
struct runner_body {
    _Atomic uint64_t deadline_ns;
    uint64_t data;      /* valid while held */
    tw_handle reminder; /* in the wheel; set once */
    _Atomic uint32_t
        queued;         /* the stripe with an unread message about it, and 1; 0: none. Set under
                                that stripe's lock */
    uint32_t next_free; /* in the depot; guarded by depot_lock */
};

/* Messages: cells to look at. */
struct runner_block {
    struct runner_block *next;
    uint32_t count;
    uint32_t cells[BLOCK_CELLS];
};

/* All but the lock, `earliest_ns` and `armed` is guarded by the lock; counters are atomic so that
 * stats may read them. */
struct runner_stripe {
    _Alignas(LINE) _Atomic uint32_t lock;
    uint32_t free_count;
    struct runner_block *blocks;    /* the first is filled; the others are full */
    _Atomic uint32_t message_count; /* in all blocks */
    _Atomic uint64_t earliest_ns;   /* of what the messages are about, NEVER_NS without any */
    _Atomic uint64_t scheduled;     /* counters, ever */
    _Atomic uint64_t cancelled;
    _Atomic uint64_t opened;
    _Atomic uint64_t closed;
    _Atomic uint64_t messages;
    _Alignas(LINE) _Atomic uint64_t armed; /* opened timers armed minus disarmed, modulo 2^64 */
    uint32_t free[STRIPE_FREE_MAX];
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
    _Atomic uint32_t cell_count; /* ever let */

    /* What stripes have too much of or too little. */
    pthread_mutex_t depot_lock;
    uint32_t depot_free; /* first of a list, CELLS_MAX: empty */
    uint32_t segment_count;
    uint32_t retired_count;
    struct runner_block *depot_blocks;
    struct runner_block *block_pieces[SEGMENTS + 1]; /* as allocated */

    pthread_mutex_t wheel_lock;
    struct tw_wheel *wheel; /* guarded by wheel_lock; its ticks are tick_ns long, from instant 0 */

    /* The runner's own. */
    struct tw_expired *batch; /* what the handler is called with */
    struct tw_expired *reminders;
    uint32_t left_next;          /* take_left has been through the cells before */
    _Atomic uint64_t fired_once; /* counters, ever; written by the runner alone */
    _Atomic uint64_t fired_opened;
    _Atomic uint64_t finished_once;
    _Atomic uint64_t left_once; /* taken by take_left */
    _Atomic uint64_t left_opened;
    _Atomic uint64_t callbacks;
    _Atomic uint64_t callback_ns_max;
    _Atomic size_t memory; /* without the wheel's */
    struct runner_histogram late;

    _Alignas(LINE) _Atomic uint64_t dirty; /* a bit per stripe that may have messages */
    struct runner_stripe stripes[STRIPES];
};

struct tw_runner {
    const struct tw_clock *clock;
    struct memory_source memory;
    struct tw_runner_wheel *_Atomic wheels; /* only ever added to, in front */
    pthread_t thread;
    bool is_started;
    atomic_bool is_stopped;
    atomic_bool is_dispatching; /* for catching misuse */
    struct tw_waiter waiter;
    int fd;       /* -1: a thread waits with `waiter` */
    int fd_write; /* the other end of a pipe, where there is no timerfd */
    _Atomic uint64_t wakes;
    _Alignas(LINE) _Atomic uint64_t sleep_until_ns; /* 0 while awake */
};

/* runner_cell.c: cells, stripes and messages. */

/* The cells and locks of a wheel whose memory is zeroed. False when out of memory, after which
 * tw__runner_cells_deinit is not called. */
bool tw__runner_cells_init(struct tw_runner_wheel *wheel);
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

/* Puts a cell that is free into the stripe, which is locked. */
void tw__runner_cell_give(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                          uint32_t index);

/* Puts cells that are free and linked by next_free into the depot. */
void tw__runner_cells_give(struct tw_runner_wheel *wheel, uint32_t first, uint32_t last);

/* Leaves a message for a cell whose deadline is now `deadline_ns`, in the stripe, which is locked.
 * Returns the stripe that is locked instead: where there was a message for the cell before, that
 * one's stripe. */
struct runner_stripe *tw__runner_post(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                                      uint32_t index, uint64_t deadline_ns);

/* After the stripe was unlocked: wakes the runner if it would sleep too long for that. */
void tw__runner_wake_for(struct tw_runner_wheel *wheel, struct runner_stripe *stripe,
                         uint64_t deadline_ns);

/* Looks at all cells of which there are messages in stripes that ask for it by `until_ns`, or that
 * have many. Only the runner. */
void tw__runner_messages_take(struct tw_runner_wheel *wheel, uint64_t until_ns);

/* The earliest that a message asks for which was not taken yet. */
uint64_t tw__runner_messages_earliest(struct tw_runner_wheel *wheel);

/* Looks at a cell, wheel_lock held: a timer that waits has a reminder after that. With `now_ns` of
 * 0 that is all; else a timer due by then is made to run, and true returned. */
bool tw__runner_look(struct tw_runner_wheel *wheel, uint32_t index, uint64_t now_ns,
                     struct tw_expired *ret_due);

/* After the handler has returned from the timer: a scheduled one is done. Returns whether its cell
 * is free now, to be given by the caller. */
bool tw__runner_finish(struct tw_runner_wheel *wheel, tw_handle timer);

/* runner_fd.c: a descriptor to wait on. */

/* The runner sleeps in whoever watches the descriptor: readable from `until` on; 0: at once. */
void tw__runner_fd_set(struct tw_runner *runner, struct tw_instant until);
void tw__runner_fd_close(struct tw_runner *runner);

/* Ends the runner's sleep. */
void tw__runner_wake(struct tw_runner *runner);

/* runner_stats.c */

void tw__histogram_add(struct runner_histogram *histogram, uint64_t ns);

/* No less than the `per_mille` share of what was added, and at most a sixteenth more; 0 without
 * any. */
uint64_t tw__histogram_at(const struct runner_histogram *histogram, uint64_t per_mille);

/* Adds to a counter that one thread at a time writes. */
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

/* A cell that has been let. */
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

/* Asks for the memory of a cell that is looked at some steps later. */
static inline void tw__runner_prefetch(const struct tw_runner_wheel *wheel, uint32_t index)
{
    __builtin_prefetch(tw__runner_cell(wheel, index), 1);
    __builtin_prefetch(tw__runner_body(wheel, index), 1);
}

static inline uint32_t tw__word_generation(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

/* The word with other flags and state, and the next version. */
static inline uint64_t tw__word_next(uint64_t word, unsigned flags_and_state)
{
    uint32_t version = ((uint32_t)word >> VERSION_SHIFT) + 1;
    return (word & ~(uint64_t)UINT32_MAX) | (uint32_t)(version << VERSION_SHIFT) | flags_and_state;
}

/* The word after the last of a tenant: free, handles stale; FLAG_RUNNING stays. */
static inline uint64_t tw__word_freed(uint64_t word)
{
    return (uint64_t)(tw__word_generation(word) + 1) << 32 | (word & FLAG_RUNNING);
}

#endif
