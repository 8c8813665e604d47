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
    LINE = 128, /* size in bytes of two cache lines, because processors fetch lines in pairs */
    LANE_BITS = 5,
    LANES = 1 << LANE_BITS,
    /* position of the lane's number in a handle; the bits below are the index of the slot */
    LANE_SHIFT = 32 - LANE_BITS,
    HOME_BITS = 8,
    HOMES = 1 << HOME_BITS,
    GRANT = 64, /* places under the limit that a lane takes or returns at once */
    STEP_MIN = 64,
    STEP_MAX = 1024, /* maximum of timers for which a lane allocates memory at once */
    PIECE_BITS = 10,
    /* number of cells in a piece; equal to WHEEL_RUN of wheel_runner.h */
    PIECE_SLOTS = 1 << PIECE_BITS,
    BATCH_DEFAULT = 64,
    HISTOGRAM_BITS = 4, /* a histogram has 16 steps in each power of two */
    HISTOGRAM_BUCKETS = (65 - HISTOGRAM_BITS) << HISTOGRAM_BITS
};

#define TIMERS_MAX      (UINT32_C(1) << 30)
#define TICK_NS_DEFAULT UINT64_C(1000000)
#define TICK_NS_MAX     (UINT64_C(1) << 62)
#define NEVER_NS        TW_INSTANT_NEVER_NS

/* The largest instant. A later time of the clock counts as this one. */
#define LAST_NS (NEVER_NS - 1)

/* The tick of a scheduled timer that is never due. The runner does not move its wheels that far. */
#define TICK_NEVER (TW_NEVER - 1)

/* The last tick that can be due. It begins at LAST_NS, and expiring it expires all timers that can
 * be due. With ticks of a nanosecond it also stands for the instant before LAST_NS, whose timers
 * are then a nanosecond late. */
#define TICK_LAST (TICK_NEVER - 1)

/* Places at which the test of interleavings switches threads. */
#ifndef TW_RUNNER_HOOK
#define TW_RUNNER_HOOK(place) ((void)0)
#endif

/* A number that identifies the calling thread, different for each. */
#if !defined(TW_RUNNER_SELF) && defined(__has_builtin)
#if __has_builtin(__builtin_thread_pointer)
#define TW_RUNNER_SELF ((uintptr_t)__builtin_thread_pointer())
#endif
#endif
#ifndef TW_RUNNER_SELF
#define TW_RUNNER_SELF ((uintptr_t)&errno)
#endif

/* What a slot has besides its record in the wheel; both are in one cache line. The mark of the
 * slot in the wheel is the upper half of the handle of the timer that the handler has; 0 if it
 * has none. */
struct runner_cell {
    uint64_t data;        /* passed back to the caller */
    uint64_t deadline_ns; /* NEVER_NS if the timer has no deadline */
};

/* The cells of a lane, in pieces of PIECE_SLOTS, and the addresses in its wheel that are
 * prefetched. When the directory is full, a larger copy replaces it. Threads may still read the old
 * one, so it is freed by destroy. */
struct runner_directory {
    struct runner_directory *older;
    uint32_t capacity;
    struct runner_place {
        struct runner_cell *cells; /* array of PIECE_SLOTS */
        const char *records;
        const char *extras;
    } places[];
};

/* The lock of a lane in TW_RUNNER_INHERIT, in cache lines of its own. */
struct runner_mutex {
    _Alignas(LINE) pthread_mutex_t mutex;
};

/* A lane. Its lock guards it; fields that are atomic are also read without the lock. */
struct runner_lane {
    _Alignas(LINE) _Atomic uint32_t lock; /* 1 while locked; not used if there is a `mutex` */
    uint32_t held;    /* number of timers with valid handles, or in the hands of the handler */
    uint32_t granted; /* maximum of timers without taking more places of the limit */
    _Atomic uint32_t slot_count; /* number of slots that have a cell in the directory */
    struct tw_wheel *wheel;      /* NULL before the first use; ticks count from instant 0 */
    struct runner_directory *_Atomic directory;
    _Atomic uint64_t wake_ns; /* no timer of the lane is due before this instant */
    uint64_t scheduled;       /* number of timers ever scheduled */
    uint64_t cancelled;
    uint64_t fired;
    uint64_t opened;
    /* number of the latest batch with a timer of the lane; how many timers of the lane it has */
    uint64_t batch_number;
    uint64_t batch_made;     /* timers scheduled and opened until that batch */
    uint32_t closed_running; /* timers that were closed while the handler has them */
    uint32_t reserved;       /* number of timers for which there is memory */
    pthread_mutex_t *mutex;  /* used instead of `lock`; NULL unless TW_RUNNER_INHERIT */
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

    /* Home of each thread: the number of its lane plus 1; 0 if it has none yet. */
    _Atomic uint8_t homes[HOMES];
    _Atomic uint32_t lanes_used; /* a bit for each lane that has a wheel */
    _Atomic uint32_t home_next;  /* lane that the next home gets */
    _Atomic uint32_t ungranted;  /* places of the limit that no lane has taken */
    _Atomic uint32_t granted_max;
    _Atomic uint32_t reserved; /* sum of `reserved` of all lanes */

    pthread_mutex_t memory_lock; /* allows one call of the source of memory at a time */
    /* set by destroy: no other thread is active, and the lock may be locked for ever */
    bool is_ending;
    _Atomic size_t memory; /* number of bytes allocated */

    /* Fields of the runner's thread. */
    struct tw_expired *batch; /* array that is passed to the handler */
    _Atomic uint64_t callbacks;
    _Atomic uint64_t callback_ns_max;
    struct runner_histogram late;

    struct runner_mutex mutexes[LANES]; /* initialized in TW_RUNNER_INHERIT only */
    struct runner_lane lanes[LANES];
};

struct tw_runner {
    const struct tw_clock *clock;
    struct memory_source memory;
    enum tw_runner_wait wait; /* YIELD or INHERIT */
    /* new wheels are added in front, and none is ever removed */
    struct tw_runner_wheel *_Atomic wheels;
    pid_t owner; /* process in which the runner's thread runs */
    pthread_t thread;
    bool is_started;
    atomic_bool is_stopped;
    atomic_bool is_dispatching; /* set during dispatch, to detect misuse */
    struct tw_waiter waiter;
    int fd;       /* -1 if a thread waits with `waiter` */
    int fd_write; /* other end of the pipe, on systems without timerfd */
    _Atomic uint64_t wakes;
    /* end of the sleep that the runner has announced; 0 while it is awake */
    _Alignas(LINE) _Atomic uint64_t sleep_until_ns;
    /* latest time read while handling timers; written by the runner only */
    _Atomic uint64_t latest_ns;
};

/* runner_lane.c: lanes, their locks and their memory. */

/* Initializes the lanes of a wheel whose memory is zeroed. Returns false if a lock cannot be
 * created. */
bool tw__runner_lanes_init(struct tw_runner_wheel *wheel);
void tw__runner_lanes_deinit(struct tw_runner_wheel *wheel);

/* Waits until the lock of the lane is free, and takes it. */
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

/* Returns a lane with room for one more timer, locked. Called when the calling thread's home has no
 * lane that can be locked at once, or its lane has no room. `lane` is that lane, locked, or NULL.
 * Returns NULL if no lane has room, because the limit is reached or memory is out. */
struct runner_lane *tw__runner_lane_find_room(struct tw_runner_wheel *wheel, _Atomic uint8_t *home,
                                              struct runner_lane *lane);

/* Returns places under the limit, if the lane has many that it does not use. */
void tw__runner_lane_return(struct tw_runner_wheel *wheel, struct runner_lane *lane);

/* Makes room for the cell of a slot in the lane's directory. Returns false if out of memory. */
bool tw__runner_lane_cover(struct tw_runner_wheel *wheel, struct runner_lane *lane, uint32_t index);

/* runner_fd.c: a descriptor to wait on. */

/* Makes the descriptor readable from `until` on. If `until` is 0, at once. */
void tw__runner_fd_set(struct tw_runner *runner, struct tw_instant until);
void tw__runner_fd_close(struct tw_runner *runner);

/* Ends the runner's sleep. */
void tw__runner_wake(struct tw_runner *runner);

/* runner_stats.c */

void tw__histogram_add(struct runner_histogram *histogram, uint64_t ns);

/* Returns a value that is at least the `per_mille` quantile of the added values, and at most a
 * sixteenth above it. 0 if no value was added. */
uint64_t tw__histogram_at(const struct runner_histogram *histogram, uint64_t per_mille);

/* Adds to a counter that only one thread at a time writes. */
static inline void tw__count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t sum = atomic_load_explicit(counter, memory_order_relaxed) + more;
    atomic_store_explicit(counter, sum, memory_order_relaxed);
}

/* Returns the next lane among `bits`, which is not 0, and clears its bit. */
static inline struct runner_lane *tw__runner_lane_next(struct tw_runner_wheel *wheel,
                                                       uint32_t *bits)
{
    unsigned number = (unsigned)__builtin_ctz(*bits);
    *bits &= *bits - 1;
    return &wheel->lanes[number];
}

/* Returns the lane of a handle, which need not belong to a timer. */
static inline struct runner_lane *tw__runner_lane_of(struct tw_runner_wheel *wheel, tw_handle timer)
{
    return &wheel->lanes[(uint32_t)timer >> LANE_SHIFT];
}

/* Returns the home of the calling thread. */
static inline _Atomic uint8_t *tw__runner_home(struct tw_runner_wheel *wheel)
{
    uint64_t hash = (uint64_t)TW_RUNNER_SELF * UINT64_C(0x9e3779b97f4a7c15);
    return &wheel->homes[hash >> (64 - HOME_BITS)];
}

/* Returns a lane with room for one more timer, locked: that of the calling thread, or another. NULL
 * if none has room. */
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

/* Returns the handle in the wheel of the lane, which lacks the number of the lane. */
static inline tw_handle tw__runner_inner(tw_handle timer)
{
    return timer & ~((uint64_t)(LANES - 1) << LANE_SHIFT);
}

/* Returns the entry of the directory for a slot below slot_count. */
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

/* True if the lane has so many places under the limit that it returns some. */
static inline bool tw__runner_lane_has_many(const struct runner_lane *lane)
{
    return lane->granted - lane->held > 2 * GRANT;
}

/* Gives up a place under the limit. */
static inline void tw__runner_lane_drop(struct tw_runner_wheel *wheel, struct runner_lane *lane)
{
    lane->held--;
    if (tw__runner_lane_has_many(lane))
        tw__runner_lane_return(wheel, lane);
}

/* Returns the number of complete ticks before an instant. */
static inline uint64_t tw__runner_tick(const struct tw_runner_wheel *wheel, uint64_t ns)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    uint64_t tick = (uint64_t)((wide)ns * wheel->tick_inverse >> 64); /* may be one too low */
    return tick + (ns - tick * wheel->tick_ns >= wheel->tick_ns);
#else
    return ns / wheel->tick_ns;
#endif
}

/* Returns the last tick of the wheels that has begun at an instant. */
static inline uint64_t tw__runner_tick_begun(const struct tw_runner_wheel *wheel, uint64_t ns)
{
    if (UNLIKELY(ns >= LAST_NS))
        return TICK_LAST;
    uint64_t tick = tw__runner_tick(wheel, ns);
    return tick < TICK_LAST ? tick : TICK_LAST - 1;
}

/* Returns the instant at which a tick of the wheels begins. */
static inline uint64_t tw__runner_tick_ns(const struct tw_runner_wheel *wheel, uint64_t tick)
{
    if (UNLIKELY(tick >= TICK_NEVER))
        return NEVER_NS;
    return UNLIKELY(tick > LAST_NS / wheel->tick_ns || tick == TICK_LAST) ? LAST_NS
                                                                          : tick * wheel->tick_ns;
}

/* Returns the time of the runner's clock, limited to LAST_NS, so that timers that are never due
 * stay so. */
static inline uint64_t tw__runner_now_ns(const struct tw_runner *runner)
{
    uint64_t now_ns = tw_clock_now(runner->clock).ns;
    return now_ns < LAST_NS ? now_ns : LAST_NS;
}

#endif
