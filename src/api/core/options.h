/*
 * options.h - the options of api_start: settings, metrics, node, tokens.
 */
#ifndef TICKWHEEL_API_CORE_OPTIONS_H
#define TICKWHEEL_API_CORE_OPTIONS_H

#include "http/tls.h"
#include "ops/tokens.h"
#include "node/node.h"

struct api_options {
    const struct config *config; /* borrowed until api_stop, as are metrics and node */
    struct metrics *metrics;
    struct node *node;
    struct tokens
        *tokens; /* taken in any case; NULL without tokens: each caller may do everything */
    struct tls_identity *identity; /* used until api_stop; NULL without TLS */
    /* Checks whether a timer may have this target, as timer_json.h says. Called on any thread. */
    enum error_code (*target_check)(void *context, struct bytes tenant, struct bytes text,
                                    const struct target *target, struct error *ret_error);
    void *target_context;
};

#endif
