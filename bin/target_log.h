/*
 * target_log.h - the log lines about targets that fail and that answer again: at most
 * TARGET_LOG_LINES_MAX in each TARGET_LOG_WINDOW_MS. A line `targets_changed` gives the count of
 * those that were left out.
 *
 * Threads    target_log_write from any thread; the rest from the main one.
 */
#ifndef TICKWHEEL_BIN_TARGET_LOG_H
#define TICKWHEEL_BIN_TARGET_LOG_H

#include "base/time.h"
#include "delivery/targets.h"
#include "ops/event_log.h"

#include <pthread.h>

#define TARGET_LOG_LINES_MAX 20
#define TARGET_LOG_WINDOW_MS 10000

struct target_log {
    const struct event_log *log;
    uint32_t failures_max; /* value of target_breaker_failures */
    pthread_mutex_t lock;
    /* The following fields are guarded by lock. */
    struct instant window_at; /* begin of the window */
    uint32_t lines;           /* number of lines written in the window */
    uint64_t omitted;         /* number of lines left out; reset when a line reports it */
};

void target_log_init(struct target_log *self, const struct event_log *log, uint32_t failures_max);
void target_log_deinit(struct target_log *self);

/* Logs that a breaker opened or closed, but no failed probes in between. */
void target_log_write(struct target_log *self, const struct target_status *status,
                      struct instant now);

/* When a window is over, writes how many lines were left out in it. Returns true if a number waits
 * for the end of its window. */
bool target_log_write_omitted(struct target_log *self, struct instant now);

#endif
