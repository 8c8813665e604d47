/* signals.c - signals as events of a descriptor. */
#include "sys/signals.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum error_code signals_open(struct signals *signals, struct error *ret_error)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    sigaction(SIGPIPE, &ignore, NULL);
    signals->fd_ = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals->fd_ < 0)
        return error_set(ret_error, ERROR_IO, "signalfd: %s", strerror(errno));
    pthread_sigmask(SIG_BLOCK, &mask, &signals->mask_before_);
    return ERROR_NONE;
}

void signals_close(struct signals *signals)
{
    pthread_sigmask(SIG_SETMASK, &signals->mask_before_, NULL);
    close(signals->fd_);
}

int signals_wait(const struct signals *signals, int other_fd, uint64_t timeout_ms)
{
    struct pollfd wanted[] = {{.fd = signals->fd_, .events = POLLIN},
                              {.fd = other_fd, .events = POLLIN}};
    int timeout = timeout_ms == UINT64_MAX ? -1 : timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;

    /* Any other wake-up is treated as a time-out: the caller continues its loop and waits again. */
    if (poll(wanted, 2, timeout) <= 0 || !wanted[0].revents)
        return 0;
    struct signalfd_siginfo info;
    return read(signals->fd_, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}
