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

/* CLOCK_REALTIME; it can step. */
struct wall wall_now(void);

/* The wall time rounded up to the next millisecond. Delays "from now" count from here, so that a
 * timer is not early by any clock, however fine. */
struct wall wall_coming(void);

/* Wall time in microseconds since the epoch, for measuring lateness. */
uint64_t wall_now_us(void);

/* What the kernel knows of the wall clock: whether a time service keeps it right, and the estimated
 * error. */
struct clock_sync {
    bool is_synchronised;
    uint64_t error_us;
};

struct clock_sync wall_sync(void);

/* CLOCK_MONOTONIC. */
struct instant instant_now(void);

/* CLOCK_BOOTTIME, which goes on while the machine sleeps. It is another clock than that of
 * instant_now. */
struct instant instant_boot_now(void);

/* The wall time at that instant if the wall clock does not step, or a moment less; now for an
 * instant that has passed. */
struct wall instant_wall(struct instant instant);

/* The instant as the system's calls take it, for a wait with a deadline on CLOCK_MONOTONIC. */
struct timespec instant_timespec(struct instant instant);

/* Initializes a condition whose waits take such a deadline. */
void instant_condition_init(pthread_cond_t *condition);

/* A descriptor for poll that is readable from a wall time on, and once the clock is set. A clock
 * that is slewed moves the wall time with it. */
struct clock_alarm {
    int fd_;
};

/* ERROR_IO when the process has no file descriptor left. */
enum error_code clock_alarm_open(struct clock_alarm *alarm);
void clock_alarm_close(struct clock_alarm *alarm);

/* Sets it anew: it is not readable before `at`, unless the clock is set. */
void clock_alarm_set(struct clock_alarm *alarm, struct wall at);

static inline int clock_alarm_fd(const struct clock_alarm *alarm)
{
    return alarm->fd_;
}

#endif
