/*
 * source_log.h - starts the sources of a daemon, and logs when one is read, and when and why it is
 * not.
 *
 * Threads    One.
 */
#ifndef TICKWHEEL_BIN_SOURCE_LOG_H
#define TICKWHEEL_BIN_SOURCE_LOG_H

#include "api/api.h"
#include "ops/event_log.h"
#include "source/source.h"

/* What was logged last. All zero at first. */
struct source_log {
    struct source_logged {
        uint64_t reads;
        bool is_still;
    } of[SOURCES_MAX];
};

/* Starts the sources of the settings with the limits of the API's tenants. sources_stop ends
 * them. */
enum error_code source_log_start(const struct config *config, struct metrics *metrics,
                                 struct node *node, struct api *api, struct sources **ret_sources,
                                 struct error *ret_error);

void source_log_write(const struct event_log *log, struct sources *sources,
                      struct source_log *logged);

#endif
