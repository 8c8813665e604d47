/*
 * config_otel.h - the variables of the environment by which OpenTelemetry is set up everywhere.
 *
 * They set settings otlp_*, and everything else that sets those wins. A value that does not fit is
 * ignored, as OpenTelemetry says of such variables.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_OPS_CONFIG_OTEL_H
#define TICKWHEEL_OPS_CONFIG_OTEL_H

#include "ops/config.h"

/* The samplers that OpenTelemetry names. Those that begin with `parentbased_` obey the flag of a
 * caller; without a caller they are as the ones without that. */
#define OTEL_SAMPLER_LIST(X)    \
    X(ALWAYS_ON, "always_on")   \
    X(ALWAYS_OFF, "always_off") \
    X(RATIO, "traceidratio")

enum otel_sampler {
#define X(name, text) OTEL_SAMPLER_##name,
    OTEL_SAMPLER_LIST(X)
#undef X
};

/* Reads the name of a sampler. Returns false if there is none of this name. */
bool config_otel_sampler(const char *name, enum otel_sampler *ret_sampler, bool *ret_obeys_parent);

/* Reads a number of 0 to 1, such as 0.25. Returns false for anything else. */
bool config_otel_ratio(const char *text, double *ret_ratio);

/* Sets what the environment, texts "NAME=value" with a NULL after the last, has of them. */
void config_otel_read(struct config *config, char *const environment[]);

#endif
