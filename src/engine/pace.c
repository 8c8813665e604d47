/* Lets through at most a number of events a second: a token bucket. */
#include "engine/pace.h"

#include <assert.h>

/* tokens of one event, in trillionths; a rate of 1 adds one token each millisecond */
#define ONE      UINT64_C(1000000000000)
#define BURST_MS 100

static uint64_t pace_burst(uint64_t rate)
{
    assert(rate > 0 && rate <= PACE_RATE_MAX);
    return rate * BURST_MS > ONE ? rate * BURST_MS : ONE;
}

void pace_init(struct pace *pace, uint64_t rate, struct wall now)
{
    assert(now.ms < WALL_NEVER.ms);
    *pace = (struct pace){pace_burst(rate), now};
}

bool pace_has(struct pace *pace, uint64_t rate, struct wall now)
{
    uint64_t full = pace_burst(rate), passed_ms = wall_since(pace->told, now);

    if (pace->tokens > full) /* the rate was higher before */
        pace->tokens = full;
    uint64_t room = full - pace->tokens;
    pace->tokens += passed_ms > room / rate ? room : passed_ms * rate;
    assert(pace->tokens <= full);
    pace->told = now;
    return pace->tokens >= ONE;
}

void pace_take(struct pace *pace, uint64_t rate, struct wall now)
{
    bool has = pace_has(pace, rate, now);

    assert(has);
    (void)has;
    assert(pace->told.ms == now.ms);
    pace->tokens -= ONE;
}

static struct wall pace_when(const struct pace *pace, uint64_t rate, uint64_t tokens)
{
    assert(tokens <= pace_burst(rate));
    if (pace->tokens >= tokens)
        return pace->told;
    return wall_add(pace->told, (tokens - pace->tokens - 1) / rate + 1);
}

struct wall pace_next(const struct pace *pace, uint64_t rate)
{
    return pace_when(pace, rate, ONE);
}

struct wall pace_full(const struct pace *pace, uint64_t rate)
{
    return pace_when(pace, rate, pace_burst(rate));
}
