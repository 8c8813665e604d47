/*
 * stepclock.c - a wall clock that a test can step, for LD_PRELOAD: what the process is told is the
 * system's time plus control.clock_offset_ns. The monotonic clocks are left alone, as a step of the
 * real clock leaves them.
 */
#include "control.h"

#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)

static int read_clock(clockid_t clock, struct timespec *ret_now)
{
    long result = syscall(SYS_clock_gettime, clock, ret_now);

    if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return (int)result;
    int64_t offset_ns = atomic_load(&control_get()->clock_offset_ns);
    int64_t ns = (int64_t)ret_now->tv_sec * SECOND_NS + ret_now->tv_nsec + offset_ns;
    ret_now->tv_sec = (time_t)(ns / SECOND_NS);
    ret_now->tv_nsec = (long)(ns % SECOND_NS);
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    return read_clock(clock, ret_now);
}

int gettimeofday(struct timeval *restrict ret_now, void *restrict zone)
{
    (void)zone;
    struct timespec now;
    read_clock(CLOCK_REALTIME, &now);
    *ret_now = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret_now)
{
    struct timespec now;

    read_clock(CLOCK_REALTIME, &now);
    if (ret_now)
        *ret_now = now.tv_sec;
    return now.tv_sec;
}
