/*
 * targets.h - the breakers of webhook targets: for each tenant, one for each origin and one for
 * each path that fails.
 *
 *     if (!targets_enter(targets, timer, now, &ticket, &refusal))
 *         postpone by refusal.wait_ms;
 *     ...
 *     targets_leave(targets, &ticket, timer, now, verdict);
 *
 * Failures for one tenant do not delay another one. An origin that does not answer delays the
 * deliveries to all its paths; a path that answers with errors delays only its own. A time-out
 * below TARGETS_TIMEOUT_MS_MIN says nothing about the target, since a client may choose 1 ms.
 *
 * A target without failures uses no memory. There are breakers for at most TARGETS_MAX failing
 * origins, and for as many paths. Further ones have no breaker until others have recovered.
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
#define TARGETS_PATH_SIZE      512
#define TARGETS_ERROR_SIZE     128

enum target_scope { TARGET_ORIGIN, TARGET_PATH, TARGET_SCOPES };

/* What a delivery says about its origin and its path. */
struct target_verdict {
    enum breaker_verdict of[TARGET_SCOPES];
};

#define TARGET_VERDICT_UNKNOWN ((struct target_verdict){{BREAKER_UNKNOWN, BREAKER_UNKNOWN}})

struct target_status {
    struct bytes origin;
    /* what the other fields are about: TARGET_ORIGIN, or TARGET_PATH if only the path fails */
    enum target_scope scope;
    struct bytes path; /* with TARGET_PATH: URL without query; otherwise empty */
    enum breaker_state state;
    uint32_t failures; /* consecutive failures */
    uint64_t wait_ms;  /* milliseconds until the next try; 0 if the breaker is closed */
    uint8_t error_size;
    char error[TARGETS_ERROR_SIZE]; /* beginning of the last failure's text, without a NUL */
};

struct targets_options {
    struct breaker_options breaker;
    size_t count_max; /* maximum of origins with breakers, and of paths; 0 means TARGETS_MAX */
    uint64_t seed;    /* secret seed of the hash */
    /* Called when a breaker opened, opened again or closed; may be NULL. */
    void (*changed)(void *context, const struct target_status *status);
    void *context;
};

struct targets_stats {
    uint64_t open;      /* breakers that are not closed */
    uint64_t opened;    /* number of times that a breaker opened, including again */
    uint64_t postponed; /* number of deliveries that were refused */
};

/* Passed from targets_enter to targets_leave. */
struct target_ticket {
    uint32_t passes[TARGET_SCOPES];
};

struct targets;

/* Returns NULL if out of memory. */
struct targets *targets_create(const struct targets_options *options);
void targets_destroy(struct targets *targets);

/* True if a delivery of this timer may begin now. If not, `ret_status` has the reason and the time
 * to wait. */
bool targets_enter(struct targets *targets, const struct timer *timer, struct instant now,
                   struct target_ticket *ret_ticket, struct target_status *ret_status);

/* Handles the result of a delivery. `error` describes its failure; empty if it succeeded. */
void targets_leave(struct targets *targets, const struct target_ticket *ticket,
                   const struct timer *timer, struct instant now, struct target_verdict verdict,
                   struct bytes error);

/* Returns the state of the timer's target. A target without a breaker counts as closed, without
 * failures. */
void targets_status(struct targets *targets, const struct timer *timer, struct instant now,
                    struct target_status *ret_status);

/* Appends why the target is left alone, in a sentence without its full stop:
 *
 *     https://shop.example/recheck failed 20 times in a row, the last time with "HTTP 500"; it is
 *     left alone for 7s more
 */
void target_status_say(const struct target_status *status, struct buffer *out);

/* Closes the breakers of a tenant's target and of its paths, by its name
 * (timer/target_pauses.h). Returns how many had failures. O(failing targets). */
size_t targets_reset(struct targets *targets, struct bytes tenant, struct bytes name);

/* Calls `tell` for each of the tenant's targets that has failures, in no order. `tell` must copy
 * the texts; that of a path has at most TARGETS_PATH_SIZE bytes. */
void targets_each(struct targets *targets, struct bytes tenant, struct instant now,
                  void (*tell)(void *context, const struct target_status *status), void *context);

void targets_stats(struct targets *targets, struct targets_stats *ret_stats);

#endif
