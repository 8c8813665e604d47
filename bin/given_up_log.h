/*
 * given_up_log.h - the firings that were given up, in the log of events: a line for each, up to a
 * number of lines a second.
 *
 *     given_up_log_add(log, given_up);      on any thread, as it happens
 *     given_up_log_write(log, instant_now()) again and again, on the thread that writes the log
 *
 * A line that finds no place is counted in the one before it (`more`), so no number is lost. The
 * threads that deliver never write and never wait for the log.
 *
 * Threads    Any; given_up_log_write on one.
 */
#ifndef TICKWHEEL_BIN_GIVEN_UP_LOG_H
#define TICKWHEEL_BIN_GIVEN_UP_LOG_H

#include "base/time.h"
#include "engine/given_up.h"
#include "ops/event_log.h"

#include <pthread.h>

/* Maximum of lines that one call writes. Calls write once a second. */
#define GIVEN_UP_LINES_MAX 100

struct given_up_log {
    const struct event_log *log; /* borrowed */
    struct instant written;      /* time of the last write; used by the writing thread only */
    pthread_mutex_t lock;        /* guards the fields below */
    struct list waiting;         /* struct given_up */
    size_t count;
};

void given_up_log_init(struct given_up_log *self, const struct event_log *log);
void given_up_log_deinit(struct given_up_log *self);

/* Adds a firing, and takes ownership of it. */
void given_up_log_add(struct given_up_log *self, struct given_up *given_up);

/* Writes the lines that wait, at most once a second. */
void given_up_log_write(struct given_up_log *self, struct instant now);

/* Writes all waiting lines at once, when the daemon stops. */
void given_up_log_write_rest(struct given_up_log *self);

#endif
