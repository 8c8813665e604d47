/*
 * targets.h - what is known of the targets of webhooks: a circuit breaker for each origin that
 * fails.
 *
 *     if (!targets_enter(targets, origin, now, &ticket, &refusal))
 *         postpone by refusal.wait_ms;
 *     ...
 *     targets_leave(targets, &ticket, origin, now, verdict);
 *
 * A target without a failure takes no memory. Those with one are kept up to TARGETS_MAX; beyond it,
 * further ones have no breaker until others have recovered.
 *
 * Threads    Any; a lock is held for a look-up at most. `changed` is called without it.
 */
#ifndef TICKWHEEL_DELIVERY_TARGETS_H
#define TICKWHEEL_DELIVERY_TARGETS_H

#include "base/bytes.h"
#include "delivery/breaker.h"

#define TARGETS_MAX 65536

struct target_status {
    struct bytes origin;
    enum breaker_state state;
    uint32_t failures; /* in a row */
    uint64_t wait_ms;  /* until it is tried again; 0 when closed */
};

struct targets_options {
    struct breaker_options breaker;
    size_t count_max; /* 0: TARGETS_MAX */
    uint64_t seed;    /* of the hash, nobody's to guess */
    /* A breaker opened, again too, or closed; may be NULL. */
    void (*changed)(void *context, const struct target_status *status);
    void *context;
};

struct targets_stats {
    uint64_t open;      /* breakers that are not closed now */
    uint64_t opened;    /* how often one opened, again too */
    uint64_t postponed; /* how many were refused */
};

/* What one that entered shows when it leaves. */
struct target_ticket {
    uint64_t key;
    uint32_t pass;
};

struct targets;

/* NULL when out of memory. */
struct targets *targets_create(const struct targets_options *options);
void targets_destroy(struct targets *targets);

/* Whether a delivery to this origin may begin now. If not, `ret_status` says why and for how long.
 */
bool targets_enter(struct targets *targets, struct bytes origin, struct instant now,
                   struct target_ticket *ret_ticket, struct target_status *ret_status);

/* It is over. */
void targets_leave(struct targets *targets, const struct target_ticket *ticket, struct bytes origin,
                   struct instant now, enum breaker_verdict verdict);

/* How the target stands; closed and without failures when nothing is known of it. */
void targets_status(struct targets *targets, struct bytes origin, struct instant now,
                    struct target_status *ret_status);

void targets_stats(struct targets *targets, struct targets_stats *ret_stats);

#endif
