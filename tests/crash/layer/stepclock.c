/*
 * stepclock.c - a wall clock that a test can step, for LD_PRELOAD: what the process is told is the
 * system's time plus control.clock_offset_ns. The monotonic clocks are left alone, as a step of the
 * real clock leaves them.
 */
#include "control.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS    INT64_C(1000000000)
#define TIMERFD_NAME "anon_inode:[timerfd]"

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

/* ---- alarms at a wall time ----
 *
 * The kernel knows nothing of the steps, so an alarm is looked at here, every few milliseconds of a
 * wait: it is readable once the shown time has come, and once the shown clock was stepped. */

enum { ALARMS_MAX = 64, SLICE_NS = 5000000 };

static struct {
    _Atomic int fd; /* and 1, so that 0 is none */
    _Atomic int64_t at_ns, offset_ns;
    _Atomic int epoll; /* that waits for it, and 1 */
    _Atomic uint64_t data;
} alarms[ALARMS_MAX];

int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *ret_old)
{
    static const struct itimerspec disarmed;
    long result = syscall(SYS_timerfd_settime, fd, flags,
                          flags & TFD_TIMER_CANCEL_ON_SET ? &disarmed : when, ret_old);

    for (size_t i = 0; i < ALARMS_MAX && flags & TFD_TIMER_CANCEL_ON_SET; i++) {
        int none = 0;
        if (atomic_load(&alarms[i].fd) != fd + 1 &&
            !atomic_compare_exchange_strong(&alarms[i].fd, &none, fd + 1))
            continue;
        atomic_store(&alarms[i].offset_ns, atomic_load(&control_get()->clock_offset_ns));
        atomic_store(&alarms[i].at_ns,
                     (int64_t)when->it_value.tv_sec * SECOND_NS + when->it_value.tv_nsec);
        break;
    }
    return (int)result;
}

/* ALARMS_MAX for a descriptor that is no alarm. */
static size_t find_alarm(int fd)
{
    size_t found = 0;

    while (found < ALARMS_MAX && (fd < 0 || atomic_load(&alarms[found].fd) != fd + 1))
        found++;
    return found;
}

static bool alarm_is_readable(size_t alarm)
{
    struct timespec now;

    read_clock(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec >= atomic_load(&alarms[alarm].at_ns) ||
           atomic_load(&alarms[alarm].offset_ns) != atomic_load(&control_get()->clock_offset_ns);
}

static int poll_once(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                     const sigset_t *mask)
{
    struct timespec left = timeout ? *timeout : (struct timespec){0};

    return (int)syscall(SYS_ppoll, fds, count, timeout ? &left : NULL, mask, (size_t)8);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    int64_t left_ns = timeout ? (int64_t)timeout->tv_sec * SECOND_NS + timeout->tv_nsec : INT64_MAX;
    nfds_t at = 0;

    while (at < count && find_alarm(fds[at].fd) == ALARMS_MAX)
        at++;
    if (at == count)
        return poll_once(fds, count, timeout, mask);
    for (;;) {
        struct timespec slice = {.tv_nsec = left_ns < SLICE_NS ? (long)left_ns : SLICE_NS};
        int ready = poll_once(fds, count, &slice, mask);
        if (ready != 0)
            return ready;
        if (alarm_is_readable(find_alarm(fds[at].fd))) {
            fds[at].revents = POLLIN;
            return 1;
        }
        if (left_ns <= SLICE_NS)
            return 0;
        left_ns -= SLICE_NS;
    }
}

/* An alarm joins its epoll before it is set for the first time. */
int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    char path[64], name[64];
    int none = 0;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t size = operation == EPOLL_CTL_ADD ? readlink(path, name, sizeof(name)) : 0;
    const bool is_alarm = size == (ssize_t)strlen(TIMERFD_NAME) &&
                          memcmp(name, TIMERFD_NAME, strlen(TIMERFD_NAME)) == 0;
    for (size_t i = 0; is_alarm && i < ALARMS_MAX; i++, none = 0) {
        if (atomic_load(&alarms[i].fd) != fd + 1 &&
            !atomic_compare_exchange_strong(&alarms[i].fd, &none, fd + 1))
            continue;
        atomic_store(&alarms[i].at_ns, INT64_MAX);
        atomic_store(&alarms[i].offset_ns, atomic_load(&control_get()->clock_offset_ns));
        atomic_store(&alarms[i].data, event->data.u64);
        atomic_store(&alarms[i].epoll, epoll + 1);
        break;
    }
    return (int)syscall(SYS_epoll_ctl, epoll, operation, fd, event);
}

/* The alarm that the epoll waits for; ALARMS_MAX: none. */
static size_t find_alarm_of(int epoll)
{
    size_t found = 0;

    while (found < ALARMS_MAX && atomic_load(&alarms[found].epoll) != epoll + 1)
        found++;
    return found;
}

int epoll_pwait2(int epoll, struct epoll_event *events, int count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    const size_t alarm = find_alarm_of(epoll);
    int64_t left_ns = timeout ? (int64_t)timeout->tv_sec * SECOND_NS + timeout->tv_nsec : INT64_MAX;

    if (alarm == ALARMS_MAX)
        return (int)syscall(SYS_epoll_pwait2, epoll, events, count, timeout, mask, (size_t)8);
    for (;; left_ns -= SLICE_NS) {
        const struct timespec slice = {.tv_nsec = left_ns < SLICE_NS ? (long)left_ns : SLICE_NS};
        const int ready =
            (int)syscall(SYS_epoll_pwait2, epoll, events, count, &slice, mask, (size_t)8);

        if (ready != 0)
            return ready;
        if (alarm_is_readable(alarm)) {
            events[0].events = EPOLLIN;
            events[0].data.u64 = atomic_load(&alarms[alarm].data);
            return 1;
        }
        if (left_ns <= SLICE_NS)
            return 0;
    }
}

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms)
{
    const struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                                     .tv_nsec = (long)(timeout_ms % 1000) * 1000000};

    return epoll_pwait2(epoll, events, count, timeout_ms < 0 ? NULL : &timeout, NULL);
}
