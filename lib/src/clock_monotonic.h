/*
 * clock_monotonic.h - the system's monotonic clock, and waiting on it.
 */
#ifndef TICKWHEEL_CLOCK_MONOTONIC_H
#define TICKWHEEL_CLOCK_MONOTONIC_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Returns the nanoseconds since some moment before the process began. */
static inline uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Initializes a condition variable whose timed waits use that clock. */
static inline void monotonic_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Waits until `until_ns` on that clock, for at most INT32_MAX seconds; may return earlier. */
static inline void monotonic_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                            uint64_t until_ns)
{
    uint64_t seconds = until_ns / 1000000000u;
    struct timespec until = {.tv_sec = (time_t)(seconds < INT32_MAX ? seconds : INT32_MAX),
                             .tv_nsec = (long)(until_ns % 1000000000u)};

    pthread_cond_timedwait(condition, lock, &until);
}

#endif
