/*
 * clock.h - the service's only sight of the machine's clocks, and of the time of timers.
 *
 * Timers have a time of their own: wall_now and instant_timers_now. It is the machine's, or with a
 * virtual clock one that stands until it is moved. Time-outs of sockets and files, signatures, the
 * log and figures have the machine's time in either case: instant_now and wall_machine_now.
 *
 * Threads    Any, except that clock_start_virtual comes before other threads.
 */
#ifndef TICKWHEEL_SYS_CLOCK_H
#define TICKWHEEL_SYS_CLOCK_H

#include "base/error.h"
#include "base/time.h"

#include <pthread.h>
#include <time.h>

/* Returns the time of timers: CLOCK_REALTIME, which can step, or the virtual time. */
struct wall wall_now(void);

/* Returns CLOCK_REALTIME, also beside a virtual clock. */
struct wall wall_machine_now(void);
uint64_t wall_machine_now_us(void);

/* Returns the time of timers rounded up to the next millisecond. Delays count from here, so that a
 * timer is not early even by a clock with a higher resolution. A virtual clock has none. */
struct wall wall_coming(void);

/* Returns the time of timers in microseconds since 1970, for measuring lateness. */
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

/* Returns the instant in the time of timers, by which leases and breakers end: that of instant_now,
 * or the virtual time since the start of the process. */
struct instant instant_timers_now(void);

/* Returns the time of timers at an instant of instant_timers_now, provided that the wall clock does
 * not step; it may be a moment too early. */
struct wall instant_wall(struct instant instant);

/* ---- the virtual clock ---- */

/* Limit of the time that passes on a virtual clock in one run, in milliseconds: 500 years of 365
 * days. Instants count nanoseconds in 64 bits. */
#define CLOCK_VIRTUAL_MS_MAX (UINT64_C(500) * 365 * 24 * 3600 * 1000)

/* Makes the time of timers virtual: it stands at `at`, which is later than 1970. */
void clock_start_virtual(struct wall at);
bool clock_is_virtual(void);

/* Moves the virtual time. One thread at a time; never back, nor beyond the limit. */
void clock_move_virtual(struct wall to);

/* Returns the latest time to which the virtual clock of this run can move. */
struct wall clock_virtual_end(void);

/* ---- waiting ---- */

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
