/*
 * runner_fd.c - how a sleeping runner is woken: by its waiter, or by a descriptor in an event loop.
 *
 * On Linux the descriptor is a timerfd: the runner sets it to its next wake-up, and a thread with a
 * sooner deadline sets it to a past time, which makes it readable at once. On other systems it is a
 * pipe, which becomes readable only for sooner deadlines; the loop uses tw_runner_wake_at for the
 * others.
 */
#include "clock_private.h"
#include "runner_private.h"

#include <unistd.h>

#ifdef __linux__

#include <sys/timerfd.h>

static int runner_fd_make(int *ret_fd_write)
{
    *ret_fd_write = -1;
    return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
}

void tw__runner_fd_set(struct tw_runner *runner, struct tw_instant until)
{
    if (runner->fd < 0)
        return;
    struct itimerspec spec = {.it_value = tw__clock_timespec(until)};
    bool is_reached = until.ns == 0;
    if (runner->clock != tw_clock_monotonic()) {
        /* the system can wait only on its own clocks */
        is_reached = until.ns <= tw__runner_now_ns(runner);
        spec.it_value = (struct timespec){0, 0};
    }
    if (is_reached)
        spec.it_value.tv_nsec = 1; /* zero would disarm the timer */
    else if (until.ns == NEVER_NS)
        spec.it_value = (struct timespec){0, 0};
    (void)timerfd_settime(runner->fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

#else

#include <fcntl.h>

static int runner_fd_make(int *ret_fd_write)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        (void)fcntl(ends[i], F_SETFL, O_NONBLOCK);
        (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
    }
    *ret_fd_write = ends[1];
    return ends[0];
}

void tw__runner_fd_set(struct tw_runner *runner, struct tw_instant until)
{
    char bytes[64];
    if (runner->fd < 0)
        return;
    if (until.ns <= tw__runner_now_ns(runner)) {
        (void)!write(runner->fd_write, "", 1); /* if the pipe is full, it is readable already */
        return;
    }
    while (read(runner->fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
        ;
}

#endif

int tw_runner_fd(struct tw_runner *runner)
{
    assert(!runner->is_started);
    if (runner->fd < 0) {
        runner->fd = runner_fd_make(&runner->fd_write);
        /* timers that were set before this call need a dispatch */
        tw__runner_fd_set(runner, (struct tw_instant){0});
    }
    return runner->fd;
}

void tw__runner_fd_close(struct tw_runner *runner)
{
    if (runner->fd >= 0)
        (void)close(runner->fd);
    if (runner->fd_write >= 0)
        (void)close(runner->fd_write);
}

void tw__runner_wake(struct tw_runner *runner)
{
    if (runner->fd >= 0)
        tw__runner_fd_set(runner, (struct tw_instant){0});
    else
        tw_waiter_wake(&runner->waiter);
}
