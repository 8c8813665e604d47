/*
 * clock.h - the service's only sight of the machine's clocks.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_SYS_CLOCK_H
#define TICKWHEEL_SYS_CLOCK_H

#include "base/error.h"
#include "base/time.h"

#include <pthread.h>
#include <time.h>

/* Returns CLOCK_REALTIME, which can step. */
struct wall wall_now(void);

/* Returns the wall time rounded up to the next millisecond. Delays count from here, so that a timer
 * is not early even by a clock with a higher resolution. */
struct wall wall_coming(void);

/* Returns the wall time in microseconds since 1970, for measuring lateness. */
uint64_t wall_now_us(void);

/* What the kernel knows about the wall clock: whether a time service adjusts it, and the estimated
 * error. */
struct clock_sync {
    bool is_synchronised;
    uint64_t error_us;
};

struct clock_sync wall_sync(void);

/* Returns CLOCK_MONOTONIC. */
struct instant instant_now(void);

/* Returns CLOCK_BOOTTIME, which continues while the machine sleeps. It is another clock than
 * that of instant_now. */
struct instant instant_boot_now(void);

/* Returns the wall time at that instant, provided that the wall clock does not step; it may be a
 * moment too early. For a past instant, returns the present time. */
struct wall instant_wall(struct instant instant);

/* Converts the instant for system calls with a deadline on CLOCK_MONOTONIC. */
struct timespec instant_timespec(struct instant instant);

/* Initializes a condition variable whose waits take such a deadline. */
void instant_condition_init(pthread_cond_t *condition);

/* A descriptor that becomes readable, for poll, at a wall time and when the clock is set. If the
 * clock is slewed, the alarm follows it. */
struct clock_alarm {
    int fd_;
};

/* Returns ERROR_IO if the process has no file descriptor left. */
enum error_code clock_alarm_open(struct clock_alarm *alarm);
void clock_alarm_close(struct clock_alarm *alarm);

/* Sets the time of the alarm. Before `at` the descriptor is readable only if the clock is set. */
void clock_alarm_set(struct clock_alarm *alarm, struct wall at);

static inline int clock_alarm_fd(const struct clock_alarm *alarm)
{
    return alarm->fd_;
}

#endif
