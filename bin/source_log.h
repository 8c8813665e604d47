/*
 * source_log.h - starts the sources of a daemon, and logs when one is read, when and why it is not,
 * and what it refuses.
 *
 * Threads    One.
 */
#ifndef TICKWHEEL_BIN_SOURCE_LOG_H
#define TICKWHEEL_BIN_SOURCE_LOG_H

#include "api/api.h"
#include "ops/event_log.h"
#include "source/source.h"

/* All zero at first. */
struct source_log {
    struct sources *sources; /* sources_stop ends them */
    struct source_logged {   /* what was logged last */
        uint64_t reads, refused;
        bool is_still;
    } of[SOURCES_MAX];
};

/* Checks the setting. */
enum error_code source_log_check(const struct config *config, struct error *ret_error);

/* Starts the sources for the node of these options, with the limits of the API's tenants. */
enum error_code source_log_start(struct source_log *log, const struct api_options *options,
                                 struct api *api, struct error *ret_error);

/* Logs what changed since the last call. */
void source_log_write(struct source_log *log, const struct event_log *to);

/* Checks a target for API and sources, whose context is the node. */
enum error_code source_log_check_target(void *node, struct bytes tenant, struct bytes text,
                                        const struct target *target, struct error *ret_error);

#endif
