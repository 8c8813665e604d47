/* Circuit breaker: the transitions between closed, open and half-open. */
#include "delivery/breaker.h"

const char *breaker_state_text(enum breaker_state state)
{
    static const char *const texts[] = {
#define X(name, text) text,
        BREAKER_STATE_LIST(X)
#undef X
    };

    return texts[state];
}

static void breaker_change(struct breaker *breaker, enum breaker_state state)
{
    breaker->state = state;
    breaker->generation++;
}

static void breaker_open(struct breaker *breaker, struct instant now, uint64_t pause_ms)
{
    breaker->pause_ms = pause_ms;
    breaker->open_until = instant_add_ms(now, pause_ms);
    breaker_change(breaker, BREAKER_OPEN);
}

bool breaker_enter(struct breaker *breaker, const struct breaker_options *options,
                   struct instant now, enum breaker_entrant entrant, uint32_t *ret_pass)
{
    if (options->failures_max > 0 && breaker->state != BREAKER_CLOSED) {
        if (breaker->state == BREAKER_HALF_OPEN || now.ns < breaker->open_until.ns)
            return false;
        if (entrant == BREAKER_WITNESS)
            breaker_change(breaker, BREAKER_HALF_OPEN);
    }
    *ret_pass = breaker->generation;
    return true;
}

uint64_t breaker_wait_ms(const struct breaker *breaker, const struct breaker_options *options,
                         struct instant now)
{
    if (breaker->state == BREAKER_CLOSED)
        return 0;
    if (breaker->state == BREAKER_HALF_OPEN)
        return options->pause_ms;
    uint64_t left_ns = instant_since_ns(now, breaker->open_until);
    return (left_ns + 999999) / 1000000;
}

static uint64_t breaker_doubled(uint64_t pause_ms, const struct breaker_options *options)
{
    return pause_ms < options->pause_max_ms / 2 ? 2 * pause_ms : options->pause_max_ms;
}

static uint64_t breaker_first_pause_ms(const struct breaker_options *options)
{
    return options->pause_ms < options->pause_max_ms ? options->pause_ms : options->pause_max_ms;
}

bool breaker_leave(struct breaker *breaker, const struct breaker_options *options,
                   struct instant now, uint32_t pass, enum breaker_verdict verdict)
{
    const bool is_probe = breaker->state == BREAKER_HALF_OPEN;
    const bool was_closed = breaker->state == BREAKER_CLOSED;

    if (options->failures_max == 0 || pass != breaker->generation)
        return false;
    if (verdict == BREAKER_UNKNOWN) {
        if (is_probe) { /* the next delivery probes at once */
            breaker_open(breaker, now, breaker->pause_ms);
            breaker->open_until = now;
        }
        return false;
    }
    if (verdict == BREAKER_ALIVE) {
        breaker->failures = 0;
        if (!was_closed)
            breaker_change(breaker, BREAKER_CLOSED);
        return !was_closed;
    }
    if (breaker->failures < UINT32_MAX)
        breaker->failures++;
    if (was_closed && breaker->failures < options->failures_max)
        return false;
    breaker_open(breaker, now,
                 !was_closed ? breaker_doubled(breaker->pause_ms, options)
                             : breaker_first_pause_ms(options));
    return true;
}

void breaker_reset(struct breaker *breaker)
{
    const uint32_t generation = breaker->generation + 1;

    *breaker = (struct breaker){.state = BREAKER_CLOSED, .generation = generation};
}
