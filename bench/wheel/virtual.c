/* virtual.c - clock and poll functions that replace the system's for a peer's event loop. */
#include "virtual.h"

#include "bench.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
    uint64_t now_ms; /* 0 until set, then replaces the system's time */
} virtual_time;

void virtual_set(uint64_t now_ms)
{
    virtual_time.now_ms = now_ms;
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int is_time_of_day = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
                         clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME ||
                         clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!is_time_of_day || !virtual_time.now_ms)
        return (int)syscall(SYS_clock_gettime, clock, ret_time);
    ret_time->tv_sec = (time_t)(virtual_time.now_ms / 1000);
    ret_time->tv_nsec = (long)(virtual_time.now_ms % 1000 * 1000000);
    return 0;
}

int epoll_wait(int epoll, struct epoll_event *ret_events, int count, int timeout)
{
    (void)epoll, (void)ret_events, (void)count, (void)timeout;
    return 0;
}

int epoll_pwait(int epoll, struct epoll_event *ret_events, int count, int timeout,
                const sigset_t *mask)
{
    (void)mask;
    return epoll_wait(epoll, ret_events, count, timeout);
}

void fired_init(struct fired *fired, uint32_t count, uint64_t start)
{
    *fired = (struct fired){.now = start};
    fired->ids = bench_allocate(count * sizeof(uint32_t));
}

uint64_t fired_take(struct fired *fired, uint32_t *ret_ids, uint64_t limit)
{
    uint64_t n = fired->end - fired->begin;
    n = n < limit ? n : limit;
    for (uint64_t i = 0; i < n; i++)
        ret_ids[i] = fired->ids[fired->begin + i];
    fired->begin += n;
    if (fired->begin == fired->end)
        fired->begin = fired->end = 0;
    return n;
}
