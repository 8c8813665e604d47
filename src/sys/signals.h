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

/* Restores the process's signal mask. */
void signals_close(struct signals *signals);

/* Returns the number of the next signal. 0 if there was none within `timeout_ms`, or if `other_fd`
 * is readable (-1 for none). UINT64_MAX means no time limit. */
int signals_wait(const struct signals *signals, int other_fd, uint64_t timeout_ms);

/* Returns a descriptor that is readable while there is a signal, for polling together with
 * others. */
static inline int signals_fd(const struct signals *signals)
{
    return signals->fd_;
}

#endif
