/*
 * breaker.h - a circuit breaker: leaves a target alone that fails, and tries it now and then.
 *
 *     if (!breaker_enter(&breaker, &options, now, BREAKER_WITNESS, &pass))
 *         postpone by breaker_wait_ms(&breaker, &options, now);
 *     ...
 *     breaker_leave(&breaker, &options, now, pass, verdict);
 *
 *     CLOSED ──failures_max in a row──► OPEN ──pause over, one enters──► HALF_OPEN
 *        ▲                               ▲                                 │    │
 *        └──────────── it is alive ──────│─────────────────────────────────┘    │
 *                                        └── it failed: the pause is doubled ───┘
 *
 * A delivery that entered before the last change of the state says nothing about the target as it
 * is now: its result is not counted. So a hundred deliveries that still hang when the target is
 * back do not open the breaker again.
 *
 * Time       Instants, as the caller passes them in.
 * Errors     None.
 * Threads    No state but its own: one breaker, one thread at a time.
 */
#ifndef TICKWHEEL_DELIVERY_BREAKER_H
#define TICKWHEEL_DELIVERY_BREAKER_H

#include "base/time.h"

#include <stdbool.h>

struct breaker_options {
    /* number of consecutive failures that opens the breaker; 0 disables it */
    uint32_t failures_max;
    uint64_t pause_ms; /* pause after the first opening; doubled after each failed probe */
    uint64_t pause_max_ms;
};

/* X(name, text) */
#define BREAKER_STATE_LIST(X) \
    X(CLOSED, "closed")       \
    X(OPEN, "open")           \
    X(HALF_OPEN, "half-open")

enum breaker_state {
#define X(name, text) BREAKER_##name,
    BREAKER_STATE_LIST(X)
#undef X
};

const char *breaker_state_text(enum breaker_state state);

/* What the result of a delivery says about its target. */
enum breaker_verdict {
    BREAKER_ALIVE,
    BREAKER_FAILED,
    BREAKER_UNKNOWN, /* the delivery never reached the target */
};

/* What the result of a delivery can say about its target. */
enum breaker_entrant {
    BREAKER_WITNESS, /* may be the probe, because its result counts */
    /* its failure says nothing, so it is never the probe; it may enter when a probe may */
    BREAKER_MINOR,
};

/* A closed breaker without failures is all zero. */
struct breaker {
    enum breaker_state state;
    uint32_t failures;         /* consecutive failures */
    uint32_t generation;       /* number of state changes; a pass with an older number is ignored */
    uint64_t pause_ms;         /* length of the last pause */
    struct instant open_until; /* end of the pause; valid while OPEN */
};

/* True if a delivery may begin now; `ret_pass` is then for breaker_leave. While HALF_OPEN the probe
 * is in flight, and no other delivery may begin. */
bool breaker_enter(struct breaker *breaker, const struct breaker_options *options,
                   struct instant now, enum breaker_entrant entrant, uint32_t *ret_pass);

/* Closes the breaker and clears its failures. Results of deliveries that entered before are
 * ignored. */
void breaker_reset(struct breaker *breaker);

/* Returns in how many milliseconds a probe may begin. While a probe is in flight, the first pause.
 * 0 if the breaker is closed. */
uint64_t breaker_wait_ms(const struct breaker *breaker, const struct breaker_options *options,
                         struct instant now);

/* Handles the result of a delivery that entered. Returns true if the breaker opened, opened again
 * or closed. */
bool breaker_leave(struct breaker *breaker, const struct breaker_options *options,
                   struct instant now, uint32_t pass, enum breaker_verdict verdict);

#endif
