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
    uint32_t failures_max; /* consecutive failures that open it; 0 for never */
    uint64_t pause_ms;     /* first pause */
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

/* What a delivery shows about its target. */
enum breaker_verdict {
    BREAKER_ALIVE,
    BREAKER_FAILED,
    BREAKER_UNKNOWN, /* it never reached the target */
};

/* What a delivery may show about its target. */
enum breaker_entrant {
    BREAKER_WITNESS, /* it may be the probe */
    /* its lack of an answer means nothing: it may pass when a probe may, but is none */
    BREAKER_MINOR,
};

/* All zero if closed. */
struct breaker {
    enum breaker_state state;
    uint32_t failures;         /* consecutive failures */
    uint32_t generation;       /* number of changes of the state */
    uint64_t pause_ms;         /* last pause */
    struct instant open_until; /* while OPEN */
};

/* True if a delivery may begin now; pass `ret_pass` to breaker_leave. While HALF_OPEN one is in
 * flight, and no other may begin. */
bool breaker_enter(struct breaker *breaker, const struct breaker_options *options,
                   struct instant now, enum breaker_entrant entrant, uint32_t *ret_pass);

/* Closes the breaker without failures. Deliveries that entered before do not count. */
void breaker_reset(struct breaker *breaker);

/* Returns how long it is useless to ask again: until a probe may begin; while one is in flight,
 * the first pause. 0 if closed. */
uint64_t breaker_wait_ms(const struct breaker *breaker, const struct breaker_options *options,
                         struct instant now);

/* Takes the result of a delivery that entered. Returns whether the breaker opened (again) or
 * closed. */
bool breaker_leave(struct breaker *breaker, const struct breaker_options *options,
                   struct instant now, uint32_t pass, enum breaker_verdict verdict);

#endif
