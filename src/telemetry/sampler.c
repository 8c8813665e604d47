/* sampler.c - reads otlp_sampler and otlp_sample_ratio. */
#include "telemetry/sampler.h"

#include "ops/config_otel.h"

#define SAMPLER_ALL (UINT64_C(1) << 63)

enum error_code sampler_init(const struct config *config, struct sampler *ret_sampler,
                             struct error *ret_error)
{
    enum otel_sampler kind;
    bool obeys_parent;
    double ratio;

    if (!config_otel_sampler(config->otlp_sampler, &kind, &obeys_parent))
        return error_set(ret_error, ERROR_INVALID,
                         "otlp_sampler: \"%s\" is none; it must be always_on, always_off or "
                         "traceidratio, also with parentbased_ in front",
                         config->otlp_sampler);
    if (!config_otel_ratio(config->otlp_sample_ratio, &ratio))
        return error_set(ret_error, ERROR_INVALID,
                         "otlp_sample_ratio: \"%s\" is not a number of 0 to 1",
                         config->otlp_sample_ratio);
    if (kind != OTEL_SAMPLER_RATIO)
        ratio = kind == OTEL_SAMPLER_ALWAYS_ON ? 1 : 0;
    *ret_sampler = (struct sampler){
        .obeys_parent = obeys_parent,
        .threshold = ratio >= 1 ? SAMPLER_ALL : (uint64_t)(ratio * (double)SAMPLER_ALL),
    };
    return ERROR_NONE;
}
