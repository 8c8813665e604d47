/* Back-off with full jitter: the delay before the next attempt. */
#include "timer/retry.h"

#define RETRY_AFTER_MS_MAX (UINT64_C(24) * 3600 * 1000)

bool retry_policy_equal(const struct retry_policy *a, const struct retry_policy *b)
{
    return a->attempts_max == b->attempts_max && a->base_ms == b->base_ms &&
           a->cap_ms == b->cap_ms && a->timeout_ms == b->timeout_ms;
}

uint64_t retry_delay_ms(const struct retry_policy *policy, uint32_t attempts,
                        uint64_t retry_after_ms, struct random *random)
{
    uint32_t doublings = attempts > 0 ? attempts - 1 : 0;
    uint64_t span_ms = policy->cap_ms;

    if (doublings < 64 && policy->base_ms <= policy->cap_ms >> doublings)
        span_ms = policy->base_ms << doublings;
    uint64_t delay_ms = random_below(random, span_ms == UINT64_MAX ? span_ms : span_ms + 1);
    if (retry_after_ms > RETRY_AFTER_MS_MAX)
        retry_after_ms = RETRY_AFTER_MS_MAX;
    if (delay_ms < retry_after_ms)
        delay_ms = retry_after_ms;
    return delay_ms ? delay_ms : 1;
}
