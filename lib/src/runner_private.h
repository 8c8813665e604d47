/*
 * runner_private.h - the data structures of the runner, shared by runner*.c and their tests only.
 *
 * A runner's wheel is up to 32 *lanes*. A lane is a tw_wheel behind a lock. Each thread has a home
 * lane, chosen by a hash of its identity, in which it schedules; so threads that schedule do not
 * meet. The handle names the lane. Beside its wheel a lane has a *cell* for each slot of the wheel:
 * the caller's data and the deadline in nanoseconds.
 *
 * A lane's lock guards the whole lane, and decides every race for its timers: the thread that holds
 * it fires, cancels or moves them. One atomic exchange takes it and one store releases it, unless
 * threads inherit priorities: then it is a mutex with that protocol. It is held for one verb, or by
 * the runner for one batch. What remains without a lock is the sleep:
 *
 * The runner never sleeps too long. A thread puts its timer into the lane, unlocks the lane, and
 * then reads `sleep_until_ns`. The runner writes `sleep_until_ns`, and then locks each lane to read
 * its `wake_ns`. If the thread has the lane first, the runner sees the timer and does not sleep. If
 * the runner has it first, the thread locks after the runner has unlocked; so it sees the write of
 * `sleep_until_ns`, and wakes the runner. Acquire to lock and release to unlock suffice for both.
 * The first use of a lane sets its bit in `lanes_used`; that bit and `sleep_until_ns` are
 * sequentially consistent: the runner sees the bit, or the thread sees the sleep.
 *
 * No timer of a lane is due before its `wake_ns`. The runner reads it without the lock to find the
 * lanes with due timers, and locks no others until it is about to sleep. So a busy thread delays
 * due timers only if they are in its lane, for the time of one verb.
 *
 * Locks: a lane's, and within it `memory_lock`. No thread holds two lanes' locks, nor a lock while
 * a handler runs.
 */
#ifndef TICKWHEEL_RUNNER_PRIVATE_H
#define TICKWHEEL_RUNNER_PRIVATE_H

#include "memory.h"
#include "thread.h"
#include "wheel_private.h"

#include <tickwheel/runner.h>

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    LINE = 128, /* two cache lines, because processors fetch lines in pairs */
    LANE_BITS = 5,
    LANES = 1 << LANE_BITS,
    LANE_SHIFT = 32 - LANE_BITS, /* of the lane's number in a handle; below is the slot's index */
    HOME_BITS = 8,
    HOMES = 1 << HOME_BITS,
    GRANT = 64, /* places under the limit that a lane takes or returns at once */
    STEP_MIN = 64,
    STEP_MAX = 1024, /* timers for which a lane takes memory at once */
    PIECE_BITS = 10,
    PIECE_SLOTS = 1 << PIECE_BITS, /* WHEEL_RUN of wheel_runner.h */
    BATCH_DEFAULT = 64,
    HISTOGRAM_BITS = 4, /* 16 steps in each power of two */
    HISTOGRAM_BUCKETS = (65 - HISTOGRAM_BITS) << HISTOGRAM_BITS
};

#define TIMERS_MAX      (UINT32_C(1) << 30)
#define TICK_NS_DEFAULT UINT64_C(1000000)
#define TICK_NS_MAX     (UINT64_C(1) << 62)
#define NEVER_NS        TW_INSTANT_NEVER_NS

/* The largest instant; a later one of the clock counts as it. */
#define LAST_NS (NEVER_NS - 1)

/* The tick of a scheduled timer that is never due. The runner does not let its wheels get there. */
#define TICK_NEVER (TW_NEVER - 1)

/* The tick that begins at LAST_NS, and with a later one all that remain. With ticks of a nanosecond
 * it is also the tick of the instant before, whose timers are then a nanosecond late. */
#define TICK_LAST (TICK_NEVER - 1)

/* Places at which the interleaving test switches threads. */
#ifndef TW_RUNNER_HOOK
#define TW_RUNNER_HOOK(place) ((void)0)
#endif

/* A number that identifies the calling thread. */
#if !defined(TW_RUNNER_SELF) && defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
#define TW_RUNNER_SELF ((uintptr_t)__builtin_thread_pointer())
#endif
#endif
#ifndef TW_RUNNER_SELF
#define TW_RUNNER_SELF ((uintptr_t)&errno)
#endif

/* What a slot has besides its record in the wheel; one line of the cache has both. The slot's mark
 * in the wheel is the upper half of the handle of the timer that the handler has; 0: none. */
struct runner_cell {
    uint64_t data;        /* the caller's */
    uint64_t deadline_ns; /* NEVER_NS: none */
};

/* The cells of a lane, and what is prefetched of its wheel, by PIECE_SLOTS. When it is full, a
 * larger copy takes its place; threads may still read the old one, which is freed by destroy. */
struct runner_directory {
    struct runner_directory *older;
    uint32_t capacity;
    struct runner_place {
        struct runner_cell *cells; /* PIECE_SLOTS */
        const char *records;
        const char *extras;
    } places[];
};

/* A lane's lock in TW_RUNNER_INHERIT, in lines of its own. */
struct runner_mutex {
    _Alignas(LINE) pthread_mutex_t mutex;
};

/* Guarded by its lock; what is atomic is also read without it. */
struct runner_lane {
    _Alignas(LINE) _Atomic uint32_t lock; /* 1 while locked; not used with `mutex` */
    uint32_t held;               /* timers: valid handles, and those that the handler has */
    uint32_t granted;            /* the most timers without asking for more of the limit */
    _Atomic uint32_t slot_count; /* slots with a place in `pieces` */
    struct tw_wheel *wheel;      /* NULL before the first use; ticks count from instant 0 */
    struct runner_directory *_Atomic directory;
    _Atomic uint64_t wake_ns; /* no timer is due before */
    uint64_t scheduled;       /* counters, ever */
    uint64_t cancelled;
    uint64_t fired;
    uint64_t opened;
    uint64_t batch_number;   /* the latest batch with a timer of the lane, and the lane's timers */
    uint64_t batch_made;     /* scheduled and opened by then */
    uint32_t closed_running; /* timers closed while the handler has them */
    uint32_t reserved;       /* timers for which there is memory */
    pthread_mutex_t *mutex;  /* in place of `lock`; NULL unless TW_RUNNER_INHERIT */
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
    uint64_t tick_inverse; /* 2^64 / tick_ns, rounded down */
    uint32_t timer_count_max;
    size_t batch_count_max;

    /* A thread's home: the number of its lane, plus 1; 0: none yet. */
    _Atomic uint8_t homes[HOMES];
    _Atomic uint32_t lanes_used; /* a bit for each lane with a wheel */
    _Atomic uint32_t home_next;  /* lane of the next home */
    _Atomic uint32_t ungranted;  /* what is left of the limit */
    _Atomic uint32_t granted_max;
    _Atomic uint32_t reserved; /* sum over the lanes */

    pthread_mutex_t memory_lock; /* one call of the source of memory at a time */
    bool is_ending;              /* destroy: no other thread, and the lock may be locked for ever */
    _Atomic size_t memory;       /* bytes allocated */

    /* Used by the runner's thread only. */
    struct tw_expired *batch; /* the array passed to the handler */
    _Atomic uint64_t callbacks;
    _Atomic uint64_t callback_ns_max;
    struct runner_histogram late;

    struct runner_mutex mutexes[LANES]; /* initialised in TW_RUNNER_INHERIT */
    struct runner_lane lanes[LANES];
};

struct tw_runner {
    const struct tw_clock *clock;
    struct memory_source memory;
    enum tw_runner_wait wait;               /* YIELD or INHERIT */
    struct tw_runner_wheel *_Atomic wheels; /* wheels are added in front and never removed */
    pid_t owner;                            /* the process with the thread */
    pthread_t thread;
    bool is_started;
    atomic_bool is_stopped;
    atomic_bool is_dispatching; /* set during dispatch, to detect misuse */
    struct tw_waiter waiter;
    int fd;       /* -1: a thread waits with `waiter` */
    int fd_write; /* other end of the pipe, on systems without timerfd */
    _Atomic uint64_t wakes;
    _Alignas(LINE) _Atomic uint64_t sleep_until_ns; /* 0 while awake */
    _Atomic uint64_t latest_ns; /* latest instant read in handling; written by the runner only */
};

/* runner_lane.c: lanes, their locks and their memory. */

/* The lanes of a wheel whose memory is zeroed. False without a lock. */
bool tw__runner_lanes_init(struct tw_runner_wheel *wheel);
void tw__runner_lanes_deinit(struct tw_runner_wheel *wheel);

/* Waits for a lock. */
void tw__runner_lane_wait(struct runner_lane *lane);

static inline bool tw__runner_lane_try_lock(struct runner_lane *lane)
{
    if (UNLIKELY(lane->mutex != NULL))
        return pthread_mutex_trylock(lane->mutex) == 0;
    return atomic_exchange_explicit(&lane->lock, 1, memory_order_acquire) == 0;
}

static inline void tw__runner_lane_lock(struct runner_lane *lane)
{
    TW_RUNNER_HOOK("lock");
    if (UNLIKELY(!tw__runner_lane_try_lock(lane)))
        tw__runner_lane_wait(lane);
}

static inline void tw__runner_lane_unlock(struct runner_lane *lane)
{
    if (UNLIKELY(lane->mutex != NULL))
        pthread_mutex_unlock(lane->mutex);
    else
        atomic_store_explicit(&lane->lock, 0, memory_order_release);
    TW_RUNNER_HOOK("unlocked");
}

/* A lane, locked, with room for one more timer, when the calling thread's home has none that can be
 * locked at once, or the lane has no room; `lane` is that, locked, or NULL. NULL when no lane has
 * room: over the limit or out of memory. */
struct runner_lane *tw__runner_lane_find_room(struct tw_runner_wheel *wheel, _Atomic uint8_t *home,
                                              struct runner_lane *lane);

/* Returns places under the limit of which a lane has many. */
void tw__runner_lane_return(struct tw_runner_wheel *wheel, struct runner_lane *lane);

/* Gives the slot a place in the lane's pieces. False when out of memory. */
bool tw__runner_lane_cover(struct tw_runner_wheel *wheel, struct runner_lane *lane, uint32_t index);

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

/* The next lane with a wheel among `bits`, which loses its bit; `bits` is not 0. */
static inline struct runner_lane *tw__runner_lane_next(struct tw_runner_wheel *wheel,
                                                       uint32_t *bits)
{
    unsigned number = (unsigned)__builtin_ctz(*bits);
    *bits &= *bits - 1;
    return &wheel->lanes[number];
}

/* The lane of a handle, which may be of no timer. */
static inline struct runner_lane *tw__runner_lane_of(struct tw_runner_wheel *wheel, tw_handle timer)
{
    return &wheel->lanes[(uint32_t)timer >> LANE_SHIFT];
}

/* The calling thread's home. */
static inline _Atomic uint8_t *tw__runner_home(struct tw_runner_wheel *wheel)
{
    uint64_t hash = (uint64_t)TW_RUNNER_SELF * UINT64_C(0x9e3779b97f4a7c15);
    return &wheel->homes[hash >> (64 - HOME_BITS)];
}

/* A lane, locked, with room for one more timer: the calling thread's, or another; NULL when none
 * has. */
static inline struct runner_lane *tw__runner_lane_with_room(struct tw_runner_wheel *wheel)
{
    _Atomic uint8_t *home = tw__runner_home(wheel);
    unsigned settled = atomic_load_explicit(home, memory_order_relaxed);
    TW_RUNNER_HOOK("lock");
    if (UNLIKELY(settled == 0))
        return tw__runner_lane_find_room(wheel, home, NULL);
    struct runner_lane *lane = &wheel->lanes[settled - 1];
    if (UNLIKELY(!tw__runner_lane_try_lock(lane)))
        return tw__runner_lane_find_room(wheel, home, NULL);
    if (UNLIKELY(lane->held >= lane->granted))
        return tw__runner_lane_find_room(wheel, home, lane);
    return lane;
}

/* The handle in the lane's wheel: without the lane's number. */
static inline tw_handle tw__runner_inner(tw_handle timer)
{
    return timer & ~((uint64_t)(LANES - 1) << LANE_SHIFT);
}

/* The place of a slot below slot_count. */
static inline const struct runner_place *tw__runner_place(const struct runner_lane *lane,
                                                          uint32_t index)
{
    const struct runner_directory *directory =
        atomic_load_explicit(&lane->directory, memory_order_acquire);
    return &directory->places[index >> PIECE_BITS];
}

static inline struct runner_cell *tw__runner_cell(const struct runner_lane *lane, tw_handle inner)
{
    return &tw__runner_place(lane, (uint32_t)inner)->cells[inner & (PIECE_SLOTS - 1)];
}

/* Whether a lane has so many places under the limit that it returns some. */
static inline bool tw__runner_lane_has_many(const struct runner_lane *lane)
{
    return lane->granted - lane->held > 2 * GRANT;
}

/* A place under the limit becomes free. */
static inline void tw__runner_lane_drop(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    lane->held--;
    if (tw__runner_lane_has_many(lane))
        tw__runner_lane_return(wheel, lane);
}

/* The number of complete ticks before an instant. */
static inline uint64_t tw__runner_tick(const struct tw_runner_wheel *wheel, uint64_t ns)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    uint64_t tick = (uint64_t)((wide)ns * wheel->tick_inverse >> 64); /* or one less */
    return tick + (ns - tick * wheel->tick_ns >= wheel->tick_ns);
#else
    return ns / wheel->tick_ns;
#endif
}

/* The tick of the wheels at an instant: the last that has begun. */
static inline uint64_t tw__runner_tick_begun(const struct tw_runner_wheel *wheel, uint64_t ns)
{
    if (UNLIKELY(ns >= LAST_NS))
        return TICK_LAST;
    uint64_t tick = tw__runner_tick(wheel, ns);
    return tick < TICK_LAST ? tick : TICK_LAST - 1;
}

/* The instant at which a tick of the wheels begins. */
static inline uint64_t tw__runner_tick_ns(const struct tw_runner_wheel *wheel, uint64_t tick)
{
    if (UNLIKELY(tick >= TICK_NEVER))
        return NEVER_NS;
    return UNLIKELY(tick > LAST_NS / wheel->tick_ns || tick == TICK_LAST) ? LAST_NS
                                                                          : tick * wheel->tick_ns;
}

/* The time of the runner's clock, which no timer that is never due has reached. */
static inline uint64_t tw__runner_now_ns(const struct tw_runner *runner)
{
    uint64_t now_ns = tw_clock_now(runner->clock).ns;
    return now_ns < LAST_NS ? now_ns : LAST_NS;
}

#endif
