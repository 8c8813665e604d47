/* clock.c - the system's clocks, waiting on them, and the virtual clock. */
#include "clock_private.h"
#include "thread.h"

#include <tickwheel/clock.h>

#include <errno.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { NS_PER_S = 1000000000 };

static uint64_t clock_read_ns(clockid_t id)
{
    struct timespec time = {0, 0};
    (void)clock_gettime(id, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

struct tw_wall tw_wall_now(void)
{
    return (struct tw_wall){clock_read_ns(CLOCK_REALTIME)};
}

static uint64_t clock_monotonic_now_ns(const struct tw_clock *clock)
{
    (void)clock;
    return clock_read_ns(CLOCK_MONOTONIC);
}

struct timespec tw__clock_timespec(struct tw_instant instant)
{
    uint64_t seconds = instant.ns / NS_PER_S;
    if (sizeof(time_t) < sizeof(seconds) && seconds > INT32_MAX)
        seconds = INT32_MAX;
    return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(instant.ns % NS_PER_S)};
}

/* Waits once, with the lock held. The wait may end for any reason, so the caller reads the clock
 * again. */
static void clock_wait_once(struct tw_waiter *waiter, struct tw_instant now,
                            struct tw_instant until)
{
    /* Waits for at most a day, so that the time passed to the system fits into time_t. */
    const uint64_t longest = (uint64_t)86400 * NS_PER_S;
    uint64_t left = tw_instant_since(now, until);
    left = left < longest ? left : longest;
#ifdef __APPLE__
    struct timespec span = tw__clock_timespec((struct tw_instant){left});
    (void)pthread_cond_timedwait_relative_np(&waiter->changed_, &waiter->lock_, &span);
#else
    struct timespec end = tw__clock_timespec(tw_instant_add(now, left));
    (void)pthread_cond_timedwait(&waiter->changed_, &waiter->lock_, &end);
#endif
}

static bool clock_monotonic_wait(const struct tw_clock *clock, struct tw_waiter *waiter,
                                 struct tw_instant until)
{
    pthread_mutex_lock(&waiter->lock_);
    struct tw_instant now = {0};
    while (!waiter->is_woken_) {
        if (until.ns == TW_INSTANT_NEVER_NS) {
            pthread_cond_wait(&waiter->changed_, &waiter->lock_);
            continue;
        }
        now = tw_clock_now(clock);
        if (now.ns >= until.ns)
            break;
        clock_wait_once(waiter, now, until);
    }
    bool was_woken = waiter->is_woken_;
    waiter->is_woken_ = false;
    pthread_mutex_unlock(&waiter->lock_);
    return !was_woken;
}

const struct tw_clock *tw_clock_monotonic(void)
{
    static const struct tw_clock monotonic = {clock_monotonic_now_ns, clock_monotonic_wait};
    return &monotonic;
}

void tw__clock_sharpen(void)
{
#if defined(__linux__) && defined(PR_SET_TIMERSLACK)
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
}

void tw__clock_pause(uint64_t ns)
{
    struct timespec time = tw__clock_timespec((struct tw_instant){ns});
    (void)nanosleep(&time, NULL);
}

bool tw_waiter_init(struct tw_waiter *waiter)
{
    pthread_condattr_t attributes;
    waiter->is_woken_ = false;
    waiter->until_ns_ = 0;
    waiter->next_ = NULL;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
#ifndef __APPLE__
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    bool is_made = pthread_cond_init(&waiter->changed_, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (is_made && !thread_mutex_init(&waiter->lock_)) {
        pthread_cond_destroy(&waiter->changed_);
        is_made = false;
    }
    return is_made;
}

void tw_waiter_deinit(struct tw_waiter *waiter)
{
    pthread_mutex_destroy(&waiter->lock_);
    pthread_cond_destroy(&waiter->changed_);
}

void tw_waiter_wake(struct tw_waiter *waiter)
{
    pthread_mutex_lock(&waiter->lock_);
    waiter->is_woken_ = true;
    pthread_cond_signal(&waiter->changed_);
    pthread_mutex_unlock(&waiter->lock_);
}

/* The virtual clock. Its lock is taken before that of a waiter, never after it. */

static struct tw_virtual *clock_virtual_of(const struct tw_clock *clock)
{
    return (struct tw_virtual *)(uintptr_t)clock; /* the clock is the first member */
}

/* Returns `ns`, or the largest instant if `ns` is larger. */
static uint64_t clock_instant_ns(uint64_t ns)
{
    return ns < TW_INSTANT_NEVER_NS ? ns : TW_INSTANT_NEVER_NS - 1;
}

static uint64_t clock_virtual_now_ns(const struct tw_clock *clock)
{
    struct tw_virtual *self = clock_virtual_of(clock);
    pthread_mutex_lock(&self->lock_);
    uint64_t now_ns = self->now_ns_;
    pthread_mutex_unlock(&self->lock_);
    return now_ns;
}

static void clock_virtual_leave(struct tw_virtual *self, struct tw_waiter *waiter)
{
    struct tw_waiter **link = &self->waiters_;
    while (*link != waiter)
        link = &(*link)->next_;
    *link = waiter->next_;
}

/* Waits until the waiter is woken. An advance of the clock also signals it. */
static bool clock_virtual_wait(const struct tw_clock *clock, struct tw_waiter *waiter,
                               struct tw_instant until)
{
    struct tw_virtual *self = clock_virtual_of(clock);
    bool was_woken = false;
    pthread_mutex_lock(&self->lock_);
    waiter->until_ns_ = until.ns;
    waiter->next_ = self->waiters_;
    self->waiters_ = waiter;
    while (!was_woken && self->now_ns_ < until.ns) {
        pthread_mutex_lock(&waiter->lock_);
        pthread_cond_broadcast(&self->changed_);
        pthread_mutex_unlock(&self->lock_);
        /* From here on, an advance finds the waiter in the list, and waits for its lock. */
        if (!waiter->is_woken_)
            pthread_cond_wait(&waiter->changed_, &waiter->lock_);
        pthread_mutex_unlock(&waiter->lock_);
        pthread_mutex_lock(&self->lock_);
        pthread_mutex_lock(&waiter->lock_);
        was_woken = waiter->is_woken_;
        pthread_mutex_unlock(&waiter->lock_);
    }
    pthread_mutex_lock(&waiter->lock_);
    was_woken = waiter->is_woken_;
    waiter->is_woken_ = false;
    pthread_mutex_unlock(&waiter->lock_);
    clock_virtual_leave(self, waiter);
    pthread_mutex_unlock(&self->lock_);
    return !was_woken;
}

bool tw_virtual_init(struct tw_virtual *virtual_clock, struct tw_instant start)
{
    virtual_clock->clock = (struct tw_clock){clock_virtual_now_ns, clock_virtual_wait};
    virtual_clock->now_ns_ = clock_instant_ns(start.ns);
    virtual_clock->waiters_ = NULL;
    if (pthread_mutex_init(&virtual_clock->lock_, NULL) != 0)
        return false;
    if (pthread_cond_init(&virtual_clock->changed_, NULL) == 0)
        return true;
    pthread_mutex_destroy(&virtual_clock->lock_);
    return false;
}

void tw_virtual_deinit(struct tw_virtual *virtual_clock)
{
    pthread_cond_destroy(&virtual_clock->changed_);
    pthread_mutex_destroy(&virtual_clock->lock_);
}

void tw_virtual_set(struct tw_virtual *virtual_clock, struct tw_instant now)
{
    pthread_mutex_lock(&virtual_clock->lock_);
    virtual_clock->now_ns_ = clock_instant_ns(now.ns);
    for (struct tw_waiter *waiter = virtual_clock->waiters_; waiter; waiter = waiter->next_) {
        pthread_mutex_lock(&waiter->lock_);
        pthread_cond_signal(&waiter->changed_);
        pthread_mutex_unlock(&waiter->lock_);
    }
    pthread_mutex_unlock(&virtual_clock->lock_);
}

void tw_virtual_advance(struct tw_virtual *virtual_clock, uint64_t ns)
{
    tw_virtual_set(virtual_clock, tw_instant_add(tw_clock_now(&virtual_clock->clock), ns));
}

static size_t clock_count_settled(struct tw_virtual *self)
{
    size_t count = 0;
    for (struct tw_waiter *waiter = self->waiters_; waiter; waiter = waiter->next_) {
        pthread_mutex_lock(&waiter->lock_);
        count += !waiter->is_woken_ && waiter->until_ns_ > self->now_ns_;
        pthread_mutex_unlock(&waiter->lock_);
    }
    return count;
}

void tw_virtual_settle(struct tw_virtual *virtual_clock, size_t count)
{
    pthread_mutex_lock(&virtual_clock->lock_);
    while (clock_count_settled(virtual_clock) < count)
        pthread_cond_wait(&virtual_clock->changed_, &virtual_clock->lock_);
    pthread_mutex_unlock(&virtual_clock->lock_);
}
