/*
 * targets.h - the breakers of webhook targets: for each tenant, one for each origin and one for
 * each path that fails.
 *
 *     if (!targets_enter(targets, timer, now, &ticket, &refusal))
 *         postpone by refusal.wait_ms;
 *     ...
 *     targets_leave(targets, &ticket, timer, now, verdict);
 *
 * No tenant waits for the failures of another one. An origin that does not answer holds back all
 * its paths; a path whose answers are errors holds back itself only. A time-out below
 * TARGETS_TIMEOUT_MS_MIN says nothing about the target: a client may choose 1 ms.
 *
 * A target without a failure takes no memory. Failing origins are kept up to TARGETS_MAX, and paths
 * likewise; beyond it, further ones have no breaker until others have recovered.
 *
 * Threads    Any; a lock is held for a look-up, and by targets_each for a walk through all failing
 *            targets. `changed` is called without it.
 */
#ifndef TICKWHEEL_DELIVERY_TARGETS_H
#define TICKWHEEL_DELIVERY_TARGETS_H

#include "delivery/breaker.h"
#include "timer/timer.h"

#define TARGETS_MAX            65536
#define TARGETS_TIMEOUT_MS_MIN 1000

enum target_scope { TARGET_ORIGIN, TARGET_PATH, TARGET_SCOPES };

/* What a delivery says about its origin and its path. */
struct target_verdict {
    enum breaker_verdict of[TARGET_SCOPES];
};

#define TARGET_VERDICT_UNKNOWN ((struct target_verdict){{BREAKER_UNKNOWN, BREAKER_UNKNOWN}})

struct target_status {
    struct bytes origin;
    enum target_scope scope; /* of what the rest is: TARGET_ORIGIN unless only the path fails */
    struct bytes path;       /* with TARGET_PATH: the URL without its query; otherwise empty */
    enum breaker_state state;
    uint32_t failures; /* in a row */
    uint64_t wait_ms;  /* until it is tried again; 0 when closed */
};

struct targets_options {
    struct breaker_options breaker;
    size_t count_max; /* of origins, and of paths; 0: TARGETS_MAX */
    uint64_t seed;    /* of the hash; secret */
    /* A breaker opened, again too, or closed; may be NULL. */
    void (*changed)(void *context, const struct target_status *status);
    void *context;
};

struct targets_stats {
    uint64_t open;      /* breakers that are not closed now */
    uint64_t opened;    /* how often one opened, again too */
    uint64_t postponed; /* how many were refused */
};

/* Given at entry, shown when it leaves. */
struct target_ticket {
    uint32_t passes[TARGET_SCOPES];
};

struct targets;

/* NULL when out of memory. */
struct targets *targets_create(const struct targets_options *options);
void targets_destroy(struct targets *targets);

/* Whether a delivery of this timer may begin now. If not, `ret_status` says why and for how long.
 */
bool targets_enter(struct targets *targets, const struct timer *timer, struct instant now,
                   struct target_ticket *ret_ticket, struct target_status *ret_status);

/* It is over; `error` says how it failed, if it did. */
void targets_leave(struct targets *targets, const struct target_ticket *ticket,
                   const struct timer *timer, struct instant now, struct target_verdict verdict,
                   struct bytes error);

/* How the timer's target stands; closed and without failures when nothing is known of it. */
void targets_status(struct targets *targets, const struct timer *timer, struct instant now,
                    struct target_status *ret_status);

/* Closes the breakers of a tenant's target and of its paths, by its name (timer/target_pauses.h).
 * Returns how many there were that had failures. O(targets that fail). */
size_t targets_reset(struct targets *targets, struct bytes tenant, struct bytes name);

/* A target that fails, or failed. */
struct target_view {
    struct bytes origin;
    struct bytes path; /* the URL without its query, at most TARGETS_PATH_SIZE of it; empty: the
                          whole origin */
    enum breaker_state state;
    uint32_t failures;  /* in a row */
    uint64_t wait_ms;   /* until it is tried again */
    struct bytes error; /* how it failed last, at most TARGETS_ERROR_SIZE of it */
};

#define TARGETS_PATH_SIZE  512
#define TARGETS_ERROR_SIZE 128

/* Tells of the targets of a tenant that have failures, in no order. `tell` copies the texts. */
void targets_each(struct targets *targets, struct bytes tenant, struct instant now,
                  void (*tell)(void *context, const struct target_view *view), void *context);

void targets_stats(struct targets *targets, struct targets_stats *ret_stats);

#endif
