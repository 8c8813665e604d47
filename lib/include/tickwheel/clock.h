/*
 * clock.h - time sources: instants, wall time, a clock to wait on, and a drift-free ticker.
 *
 * An instant is monotonic and measures intervals; wall time is the calendar's and may step. They
 * are different types, so that no sum or comparison can mix them; a duration is a plain number of
 * nanoseconds. Functions that wait take a clock as a parameter. A test can pass a virtual clock,
 * which moves only when the test moves it:
 *
 *     struct tw_virtual virtual;
 *     tw_virtual_init(&virtual, (struct tw_instant){1000});
 *     tw_virtual_advance(&virtual, 500);
 *     struct tw_instant now = tw_clock_now(&virtual.clock);
 *
 * The ticker returns the absolute time of the next tick: a tick that is taken late shortens the
 * wait for the next tick, so that errors do not add up. It reads no clock; only tw_ticker_wait
 * does:
 *
 *     struct tw_ticker ticker;
 *     tw_ticker_init(&ticker, 1000000, TW_TICKER_COALESCE);
 *     tw_ticker_start(&ticker, tw_clock_now(clock));
 *     for (;;) {
 *         struct tw_ticks ticks = tw_ticker_wait(&ticker, clock, &waiter);
 *         if (ticks.count == 0)
 *             break; // woken, or the ticker is stopped
 *         work(ticks.first, ticks.count);
 *     }
 *
 * Time       Nanoseconds, 64 bits. Sums stop at the end of the range and never wrap to the past.
 * Errors     Only tw_waiter_init and tw_virtual_init fail, when the system cannot create a lock.
 * Ownership  All structs are the caller's, and must stay where they are while in use.
 * Memory     None is allocated.
 * Threads    Any thread may use the clocks and tw_waiter_wake. A waiter serves one waiting thread
 *            at a time; a ticker belongs to one thread at a time.
 */
#ifndef TICKWHEEL_CLOCK_H
#define TICKWHEEL_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Nanoseconds since a moment before the process began. */
struct tw_instant {
    uint64_t ns;
};

/* Nanoseconds since 1970-01-01T00:00:00Z, without leap seconds. */
struct tw_wall {
    uint64_t ns;
};

/* Later than every instant: a clock shows TW_INSTANT_NEVER_NS - 1 at most. */
#define TW_INSTANT_NEVER_NS UINT64_MAX

/* `ns` after `instant`; TW_INSTANT_NEVER_NS if the sum would overflow. */
static inline struct tw_instant tw_instant_add(struct tw_instant instant, uint64_t ns)
{
    struct tw_instant sum = {instant.ns > UINT64_MAX - ns ? UINT64_MAX : instant.ns + ns};
    return sum;
}

/* Nanoseconds from `earlier` to `later`; 0 when `later` is not after `earlier`. */
static inline uint64_t tw_instant_since(struct tw_instant earlier, struct tw_instant later)
{
    return later.ns > earlier.ns ? later.ns - earlier.ns : 0;
}

/* `ns` after `wall`; the largest wall time when the sum would overflow. */
static inline struct tw_wall tw_wall_add(struct tw_wall wall, uint64_t ns)
{
    struct tw_wall sum = {wall.ns > UINT64_MAX - ns ? UINT64_MAX : wall.ns + ns};
    return sum;
}

/* Nanoseconds from `earlier` to `later`; 0 when `later` is not after `earlier`. */
static inline uint64_t tw_wall_since(struct tw_wall earlier, struct tw_wall later)
{
    return later.ns > earlier.ns ? later.ns - earlier.ns : 0;
}

/* The system's wall clock. It can step at any time: show it to people, do not measure intervals
 * with it. */
struct tw_wall tw_wall_now(void);

/* A place where one thread waits and other threads wake it. A wake is remembered until the next
 * wait. */
struct tw_waiter {
    pthread_mutex_t lock_;
    pthread_cond_t changed_;
    bool is_woken_;          /* guarded by lock_ */
    uint64_t until_ns_;      /* used on a virtual clock; guarded by that clock's lock */
    struct tw_waiter *next_; /* guarded as until_ns_ */
};

/* A source of instants that can be waited on. */
struct tw_clock {
    uint64_t (*now_ns)(const struct tw_clock *clock);

    /* Returns true when `until` was reached, false when the waiter was woken before; the wake is
     * then spent. Never returns early for another reason. */
    bool (*wait)(const struct tw_clock *clock, struct tw_waiter *waiter, struct tw_instant until);
};

/* The system's monotonic clock. It does not step, and it stands still while the machine is
 * suspended, so that no ticks are missed during a suspend. */
const struct tw_clock *tw_clock_monotonic(void);

/* The clock's current instant. */
static inline struct tw_instant tw_clock_now(const struct tw_clock *clock)
{
    struct tw_instant now = {clock->now_ns(clock)};
    return now;
}

/* The instant `delay_ns` after the current one of `clock`. */
static inline struct tw_instant tw_instant_after(const struct tw_clock *clock, uint64_t delay_ns)
{
    return tw_instant_add(tw_clock_now(clock), delay_ns);
}

/* Waits on `clock`. Returns true when `until` was reached, false when `waiter` was woken before;
 * the wake is then spent. */
static inline bool tw_clock_wait(const struct tw_clock *clock, struct tw_waiter *waiter,
                                 struct tw_instant until)
{
    return clock->wait(clock, waiter, until);
}

/* Initializes a waiter without a wake. False when the system cannot create a lock. */
bool tw_waiter_init(struct tw_waiter *waiter);

/* No thread may be waiting any more. */
void tw_waiter_deinit(struct tw_waiter *waiter);

/* Ends the current wait, or the next wait when no thread waits now. */
void tw_waiter_wake(struct tw_waiter *waiter);

/* A clock that moves only in tw_virtual_advance and tw_virtual_set, to the largest instant at most;
 * pass on `&virtual->clock`. */
struct tw_virtual {
    struct tw_clock clock; /* first */
    pthread_mutex_t lock_;
    pthread_cond_t changed_;    /* a thread began to wait */
    uint64_t now_ns_;           /* guarded by lock_, as are all fields below */
    struct tw_waiter *waiters_; /* waiters that wait now */
};

/* Initializes a clock that stands at `start`. False when the system cannot create a lock. */
bool tw_virtual_init(struct tw_virtual *virtual_clock, struct tw_instant start);

/* No thread may be waiting any more. */
void tw_virtual_deinit(struct tw_virtual *virtual_clock);

/* Moves the time forward by `ns` and ends the waits whose time has been reached. */
void tw_virtual_advance(struct tw_virtual *virtual_clock, uint64_t ns);

/* Sets the time to `now`, which may be before the current time: a broken clock, for tests of code
 * that reads a clock. */
void tw_virtual_set(struct tw_virtual *virtual_clock, struct tw_instant now);

/* Blocks until `count` threads wait for instants after the current time and none of them has a
 * pending wake, that is until every thread has finished the work that the last advance caused. */
void tw_virtual_settle(struct tw_virtual *virtual_clock, size_t count);

/* How ticks are handed out that were missed because the ticker was read late. */
enum tw_ticker_policy {
    TW_TICKER_EACH,    /* each by itself, one after the other without a wait */
    TW_TICKER_SKIP,    /* only the last; the ticks before it are dropped and counted */
    TW_TICKER_COALESCE /* all as one */
};

/* Ticks `first` to `first + count - 1`; none when `count` is 0. */
struct tw_ticks {
    uint64_t first;
    uint64_t count;
};

/* Read with the functions below. */
struct tw_ticker {
    uint64_t period_ns_;
    uint64_t last_ns_; /* instant of the last tick or start; while paused, the time since then */
    uint64_t missed_;  /* ticks to take that were due before the last pause or change of period */
    uint64_t tick_;    /* the current tick */
    uint64_t skipped_; /* dropped since the last reset */
    enum tw_ticker_policy policy_;
    enum tw_ticker_state_ { TW_TICKER_STOPPED_, TW_TICKER_RUNNING_, TW_TICKER_PAUSED_ } state_;
};

/* A stopped ticker at tick 0. `period_ns` is 1 to INT64_MAX; `policy` says how missed ticks are
 * handed out. */
void tw_ticker_init(struct tw_ticker *ticker, uint64_t period_ns, enum tw_ticker_policy policy);

/* Starts a ticker, or restarts a running or paused one: the next tick is one period after `now`.
 * The number of the current tick stays. */
void tw_ticker_start(struct tw_ticker *ticker, struct tw_instant now);

/* Stops the ticker: there are no more ticks until the next start. */
void tw_ticker_stop(struct tw_ticker *ticker);

/* Pauses a running ticker in the middle of its period. Ticks missed by `now` are handed out after
 * the resumption. Does nothing when the ticker is not running. */
void tw_ticker_pause(struct tw_ticker *ticker, struct tw_instant now);

/* Resumes a paused ticker: the part of the period that was left at the pause is left at `now`. */
void tw_ticker_resume(struct tw_ticker *ticker, struct tw_instant now);

/* Sets the tick and the count of skipped ticks to 0. The next tick of a running ticker is one
 * period after `now`, that of a paused ticker one period after the resumption. */
void tw_ticker_reset(struct tw_ticker *ticker, struct tw_instant now);

/* Takes the ticks that are due at `now`, as the policy says; a count of 0 when none is due. */
struct tw_ticks tw_ticker_take(struct tw_ticker *ticker, struct tw_instant now);

/* The instant at which to call tw_ticker_take again: not after `now` while ticks are left to take,
 * and TW_INSTANT_NEVER_NS while the ticker is not running. */
struct tw_instant tw_ticker_next_at(const struct tw_ticker *ticker);

/* Waits on `clock` for the next tick and takes it. Returns a count of 0 when `waiter` is woken or
 * the ticker is not running. */
struct tw_ticks tw_ticker_wait(struct tw_ticker *ticker, const struct tw_clock *clock,
                               struct tw_waiter *waiter);

/* Reads and sets the number of the current tick, the last that was taken or dropped. After setting
 * it the next tick is `tick + 1`, at its old instant. */
uint64_t tw_ticker_tick(const struct tw_ticker *ticker);
void tw_ticker_set_tick(struct tw_ticker *ticker, uint64_t tick);

/* The period. */
uint64_t tw_ticker_period(const struct tw_ticker *ticker);

/* Changes the period to `period_ns`, 1 to INT64_MAX, at `now`. No tick is lost or doubled: the next
 * tick is one new period after the last one, or at `now` if that instant has passed, and ticks
 * missed by `now` are handed out as they would have been. A paused ticker continues likewise; a
 * stopped one uses the new period when it is started. */
void tw_ticker_set_period(struct tw_ticker *ticker, uint64_t period_ns, struct tw_instant now);

/* Whether the ticker is started, and neither paused nor stopped since then. */
bool tw_ticker_is_running(const struct tw_ticker *ticker);

/* Ticks dropped by TW_TICKER_SKIP since the last reset. */
uint64_t tw_ticker_skipped(const struct tw_ticker *ticker);

#ifdef __cplusplus
}
#endif

#endif
