/*
 * sampler.h - decides which traces are exported, by the samplers that OpenTelemetry names.
 *
 * A trace that comes from a caller keeps the caller's flag with the samplers that begin with
 * `parentbased_`. `always_on`, `always_off` and `traceidratio` decide anew.
 *
 * Threads    Constant once made: any.
 */
#ifndef TICKWHEEL_TELEMETRY_SAMPLER_H
#define TICKWHEEL_TELEMETRY_SAMPLER_H

#include "base/trace.h"
#include "ops/config.h"

struct sampler {
    bool obeys_parent;  /* the flag of a caller decides */
    uint64_t threshold; /* a new trace is sampled if the low half of its id, halved, is below */
};

/* Makes the sampler of the settings. ERROR_INVALID if otlp_sample_ratio is not a number of 0 to
 * 1. */
enum error_code sampler_init(const struct config *config, struct sampler *ret_sampler,
                             struct error *ret_error);

/* True if the trace is to be sampled. `parent` is the caller's span; NULL if there is none. */
static inline bool sampler_decide(const struct sampler *sampler, const struct trace_parent *trace,
                                  const struct trace_parent *parent)
{
    if (parent && sampler->obeys_parent)
        return parent->is_sampled;
    return trace->trace_low >> 1 < sampler->threshold;
}

#endif
