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

/* Returns the wall time rounded up to the next millisecond. Delays count from here, so that a
 * timer is not early by any clock, however fine. */
struct wall wall_coming(void);

/* Returns the wall time in microseconds since 1970, for measuring lateness. */
uint64_t wall_now_us(void);

/* State of the wall clock in the kernel: whether a time service disciplines it, and the
 * estimated error. */
struct clock_sync {
    bool is_synchronised;
    uint64_t error_us;
};

struct clock_sync wall_sync(void);

/* CLOCK_MONOTONIC. */
struct instant instant_now(void);

/* Returns CLOCK_BOOTTIME, which continues while the machine sleeps. It is another clock than
 * that of instant_now. */
struct instant instant_boot_now(void);

/* Returns the wall time at that instant if the wall clock does not step, or a moment less; now
 * for a past instant. */
struct wall instant_wall(struct instant instant);

/* Returns the instant for system calls with a deadline on CLOCK_MONOTONIC. */
struct timespec instant_timespec(struct instant instant);

/* Initializes a condition whose waits take such a deadline. */
void instant_condition_init(pthread_cond_t *condition);

/* A descriptor for poll that becomes readable at a wall time, and when the clock is set. Slewing
 * the clock moves that time too. */
struct clock_alarm {
    int fd_;
};

/* ERROR_IO if the process has no file descriptor left. */
enum error_code clock_alarm_open(struct clock_alarm *alarm);
void clock_alarm_close(struct clock_alarm *alarm);

/* Sets the time: it is not readable before `at`, unless the clock is set. */
void clock_alarm_set(struct clock_alarm *alarm, struct wall at);

static inline int clock_alarm_fd(const struct clock_alarm *alarm)
{
    return alarm->fd_;
}

#endif
