/*
 * clock.h - what time it is: instants, wall time, a clock to wait on, and a ticker without drift.
 *
 * An instant is monotonic and measures; wall time is what a calendar says and may step. They are
 * different types, so that no sum or comparison can mix them; a duration is a plain number of
 * nanoseconds. Whoever waits is handed a clock, so that a test can hand in a virtual one, which
 * moves only when told to:
 *
 *     struct tw_virtual virtual;
 *     tw_virtual_init(&virtual, (struct tw_instant){1000});
 *     tw_virtual_advance(&virtual, 500);
 *     struct tw_instant now = tw_clock_now(&virtual.clock);
 *
 * The ticker says when the next tick is, as an absolute time: a tick that comes late shortens the
 * wait for the next one, and no error adds up. It reads no clock; tw_ticker_wait does:
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
 * Errors     Only tw_waiter_init and tw_virtual_init fail, where the system has no lock to give.
 * Ownership  All structs are the caller's, and must stay where they are while in use.
 * Memory     None is allocated.
 * Threads    The clocks and tw_waiter_wake: any thread. One waiter, one waiting thread at a time. A
 *            ticker: one thread at a time.
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

/* Nanoseconds since some moment before the process began. */
struct tw_instant {
    uint64_t ns;
};

/* Nanoseconds since 1970-01-01T00:00:00Z, without leap seconds. */
struct tw_wall {
    uint64_t ns;
};

/* Later than every instant. */
#define TW_INSTANT_NEVER_NS UINT64_MAX

/* `ns` after `instant`; the end of time where the sum lies beyond it. */
static inline struct tw_instant tw_instant_add(struct tw_instant instant, uint64_t ns)
{
    struct tw_instant sum = {instant.ns > UINT64_MAX - ns ? UINT64_MAX : instant.ns + ns};
    return sum;
}

/* How long `later` is after `earlier`; 0 when it is not. */
static inline uint64_t tw_instant_since(struct tw_instant earlier, struct tw_instant later)
{
    return later.ns > earlier.ns ? later.ns - earlier.ns : 0;
}

/* `ns` after `wall`; the end of time where the sum lies beyond it. */
static inline struct tw_wall tw_wall_add(struct tw_wall wall, uint64_t ns)
{
    struct tw_wall sum = {wall.ns > UINT64_MAX - ns ? UINT64_MAX : wall.ns + ns};
    return sum;
}

/* How long `later` is after `earlier`; 0 when it is not. */
static inline uint64_t tw_wall_since(struct tw_wall earlier, struct tw_wall later)
{
    return later.ns > earlier.ns ? later.ns - earlier.ns : 0;
}

/* The system's calendar. It can step at any time: for people, not for intervals. */
struct tw_wall tw_wall_now(void);

/* Where one thread waits and others wake it. A wake is remembered until the next wait. */
struct tw_waiter {
    pthread_mutex_t lock_;
    pthread_cond_t changed_;
    bool is_woken_;          /* guarded by lock_ */
    uint64_t until_ns_;      /* on a virtual clock; guarded by that clock's lock */
    struct tw_waiter *next_; /* likewise */
};

/* A source of instants that can be waited on. */
struct tw_clock {
    uint64_t (*now_ns)(const struct tw_clock *clock);

    /* Returns true when `until` was reached, false when the waiter was woken before; the wake is
     * then spent. Never returns early without either. */
    bool (*wait)(const struct tw_clock *clock, struct tw_waiter *waiter, struct tw_instant until);
};

/* The system's monotonic clock. It does not step; it stands while the machine is suspended, so that
 * whoever sleeps through a suspend has no heap of missed ticks. */
const struct tw_clock *tw_clock_monotonic(void);

/* What the clock says. */
static inline struct tw_instant tw_clock_now(const struct tw_clock *clock)
{
    struct tw_instant now = {clock->now_ns(clock)};
    return now;
}

/* Waits on `clock`. Returns true when `until` was reached, false when `waiter` was woken before;
 * the wake is then spent. */
static inline bool tw_clock_wait(const struct tw_clock *clock, struct tw_waiter *waiter,
                                 struct tw_instant until)
{
    return clock->wait(clock, waiter, until);
}

/* A waiter that nobody has woken. False when the system has no lock to give. */
bool tw_waiter_init(struct tw_waiter *waiter);

/* Nobody may be waiting any more. */
void tw_waiter_deinit(struct tw_waiter *waiter);

/* Ends the wait that is under way, or the next one. */
void tw_waiter_wake(struct tw_waiter *waiter);

/* A clock that moves only when told to; hand out `&virtual->clock`. */
struct tw_virtual {
    struct tw_clock clock; /* first */
    pthread_mutex_t lock_;
    pthread_cond_t changed_;    /* somebody began to wait */
    uint64_t now_ns_;           /* guarded by lock_, like all below */
    struct tw_waiter *waiters_; /* that wait now */
};

/* A clock that stands at `start`. False when the system has no lock to give. */
bool tw_virtual_init(struct tw_virtual *virtual_clock, struct tw_instant start);

/* Nobody may be waiting any more. */
void tw_virtual_deinit(struct tw_virtual *virtual_clock);

/* Moves the time by `ns`, and ends the waits that reach their end by that. */
void tw_virtual_advance(struct tw_virtual *virtual_clock, uint64_t ns);

/* The same to any instant, also one before now: a broken clock, for tests of those who read it. */
void tw_virtual_set(struct tw_virtual *virtual_clock, struct tw_instant now);

/* Blocks until `count` threads wait for times later than now, with no wake on its way to them: all
 * that the last advance set off is over. */
void tw_virtual_settle(struct tw_virtual *virtual_clock, size_t count);

/* What becomes of ticks that were missed because somebody came late. */
enum tw_ticker_policy {
    TW_TICKER_EACH,    /* each is handed out by itself, one after the other without a wait */
    TW_TICKER_SKIP,    /* the last is handed out, those before it are dropped and counted */
    TW_TICKER_COALESCE /* all are handed out as one */
};

/* Ticks `first` to `first + count - 1`; none when `count` is 0. */
struct tw_ticks {
    uint64_t first;
    uint64_t count;
};

/* Read with the functions below. */
struct tw_ticker {
    uint64_t period_ns_;
    uint64_t next_ns_; /* when the next tick is; paused: how long from the resumption */
    uint64_t tick_;    /* the current one */
    uint64_t skipped_; /* ever */
    enum tw_ticker_policy policy_;
    enum tw_ticker_state_ { TW_TICKER_STOPPED_, TW_TICKER_RUNNING_, TW_TICKER_PAUSED_ } state_;
};

/* A stopped ticker at tick 0. `period_ns` is 1 to INT64_MAX; `policy` says what becomes of ticks
 * that were missed. */
void tw_ticker_init(struct tw_ticker *ticker, uint64_t period_ns, enum tw_ticker_policy policy);

/* The next tick is one period after `now`. Also starts anew one that is running or paused; the
 * number of the current tick stays. */
void tw_ticker_start(struct tw_ticker *ticker, struct tw_instant now);

/* No more ticks until the next start. */
void tw_ticker_stop(struct tw_ticker *ticker);

/* Holds a running ticker in the midst of its period. Ticks missed by `now` stay missed: they come
 * after the resumption. Does nothing to one that is not running. */
void tw_ticker_pause(struct tw_ticker *ticker, struct tw_instant now);

/* Goes on where pause held it: what was left of the period then is left now. */
void tw_ticker_resume(struct tw_ticker *ticker, struct tw_instant now);

/* Back to tick 0 with nothing skipped. Running, the next tick is one period after `now`; paused,
 * one period after the resumption. */
void tw_ticker_reset(struct tw_ticker *ticker, struct tw_instant now);

/* Takes out what is due at `now`, as the policy says; nothing when no tick is due. */
struct tw_ticks tw_ticker_take(struct tw_ticker *ticker, struct tw_instant now);

/* When to take again: not after `now` while there is more to take, and TW_INSTANT_NEVER_NS while
 * not running. */
struct tw_instant tw_ticker_next_at(const struct tw_ticker *ticker);

/* Waits on `clock` for the next tick and takes it. No ticks when `waiter` is woken, or when the
 * ticker is not running. */
struct tw_ticks tw_ticker_wait(struct tw_ticker *ticker, const struct tw_clock *clock,
                               struct tw_waiter *waiter);

/* The last tick that was taken or dropped, and how to make it another: the next one is then
 * `tick + 1`, at the same time as before. */
uint64_t tw_ticker_tick(const struct tw_ticker *ticker);
void tw_ticker_set_tick(struct tw_ticker *ticker, uint64_t tick);

/* Ticks dropped by TW_TICKER_SKIP since the last reset. */
uint64_t tw_ticker_skipped(const struct tw_ticker *ticker);

#ifdef __cplusplus
}
#endif

#endif
