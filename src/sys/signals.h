/*
 * signals.h - the requests to stop, taken from a file descriptor instead of in a handler.
 *
 *     signals_open(&signals, &error);        before any thread is started
 *     signal = signals_wait(&signals, UINT64_MAX);
 *
 * Catches SIGTERM, SIGINT and SIGHUP, and ignores SIGPIPE: a peer that hangs up is an error of that
 * one write.
 *
 * Threads    signals_open in the main thread before it starts another, so that all inherit the
 * mask; waiting in one thread.
 */
#ifndef TICKWHEEL_SYS_SIGNALS_H
#define TICKWHEEL_SYS_SIGNALS_H

#include "base/error.h"

#include <signal.h>
#include <stdint.h>

struct signals {
    int fd_;
    sigset_t mask_before_;
};

enum error_code signals_open(struct signals *signals, struct error *ret_error);

/* Puts the process's signal mask back as it was. */
void signals_close(struct signals *signals);

/* The next signal's number; 0 when `timeout_ms` passed without one, or when `other_fd` is readable,
 * which is -1 for none. UINT64_MAX waits for ever. */
int signals_wait(const struct signals *signals, int other_fd, uint64_t timeout_ms);

/* The descriptor that is readable once there is a signal, for a wait for several things. */
static inline int signals_fd(const struct signals *signals)
{
    return signals->fd_;
}

#endif
