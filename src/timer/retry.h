/*
 * retry.h - how long to wait before the next attempt: exponential back-off with full jitter.
 *
 * Full jitter (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015): uniform
 * between 0 and min(cap, base * 2^(attempts - 1)), so that many timers that failed together do
 * not return together.
 */
#ifndef TICKWHEEL_TIMER_RETRY_H
#define TICKWHEEL_TIMER_RETRY_H

#include "base/random.h"
#include "timer/timer.h"

bool retry_policy_equal(const struct retry_policy *a, const struct retry_policy *b);

/* After `attempts` failed attempts (1 ..), in milliseconds. What the receiver asked for
 * (`retry_after_ms`) is the least, up to a day; never below 1, so that a retry is never at once. */
uint64_t retry_delay_ms(const struct retry_policy *policy, uint32_t attempts,
                        uint64_t retry_after_ms, struct random *random);

#endif
