/*
 * shares.h - which target of webhooks gets the next place in flight, and whether any may: how the
 * places are shared among tenants and targets. A part of budget.h, whose lock guards it.
 *
 * A target that does not answer holds its places until its deliveries time out, after a time that
 * clients choose. So:
 *
 *   - A target is *proven* for SHARES_PROOF_MS after an answer, unless a delivery has ended without
 *     one since. Unproven targets together hold at most seven eighths of the places, those of a
 *     tenant at most half.
 *   - A tenant holds at most seven eighths of the places.
 *   - A target that holds no place may take one within these limits. A proven one may take more
 *     while it holds fewer than are free within the limits; an unproven one, fewer than an eighth
 *     of those.
 *
 * So a share depends on the places that are free (dynamic thresholds; Choudhury and Hahne, 1998):
 * few targets may hold many, and however many do, some are free for the next. Tenants take turns.
 * Of a tenant's targets, the one that holds the fewest is next. Targets are listed by the number of
 * their places, rounded down to a power of two, so a decision is O(1).
 *
 * Leases have no targets, only tenants (SHARES_OF_TENANTS), which share them by base/share.h.
 *
 * Below SHARES_MIN places nothing is divided.
 *
 * Proofs are kept in a table of fixed size; one may displace another.
 */
#ifndef TICKWHEEL_ENGINE_SHARES_H
#define TICKWHEEL_ENGINE_SHARES_H

#include "base/list.h"
#include "base/map.h"
#include "base/time.h"

#include <stdatomic.h>

#define SHARES_PROOF_MS UINT64_C(60000)
#define SHARES_PROOFS   4096
#define SHARES_MIN      16

enum shares_rule {
    SHARES_OF_TARGETS, /* places of webhooks */
    SHARES_OF_TENANTS, /* leases: each tenant counts as one target, which is always proven */
};

enum share_class { SHARE_PROVEN, SHARE_UNPROVEN, SHARE_CLASSES };

/* Number of lists of targets by places held: 0, 1, 2 .. 3, 4 .. 7 and so on. */
enum { SHARE_STEPS = 12 };

struct share_tenant {
    struct list link; /* on `ready` or `blocked` while one of its targets wants a place */
    uint64_t key;
    uint64_t blocked_round; /* round of `shares` in which the tenant was put onto `blocked` */
    uint32_t target_count;
    uint32_t held;
    uint32_t unproven;     /* how many of `held` were taken while their target was unproven */
    enum share_class turn; /* class of targets that is tried first */
    /* targets that want a place and are limited only by their share */
    struct list targets[SHARE_CLASSES][SHARE_STEPS];
};

/* A tenant's webhooks to an origin. */
struct share_target {
    struct list link;   /* on one of the tenant's lists of targets */
    struct list *ready; /* the list that `link` is on; NULL if on none */
    struct share_tenant *tenant;
    uint64_t key;
    _Atomic uint32_t held; /* number of places; may be read without the lock */
};

/* Adds `places`, which may be negative, to the places that the target holds. The caller holds the
 * lock. */
static inline void share_target_hold(struct share_target *target, int32_t places)
{
    const uint32_t held = atomic_load_explicit(&target->held, memory_order_relaxed);

    atomic_store_explicit(&target->held, held + (uint32_t)places, memory_order_relaxed);
}

struct shares {
    enum shares_rule rule;
    uint32_t max, unproven_max, tenant_max, tenant_unproven_max;
    uint32_t held, unproven;
    struct map tenants;  /* key -> share_tenant */
    struct list ready;   /* tenants to examine for the next place */
    struct list blocked; /* tenants that cannot get a place until one is given back */
    uint64_t round;      /* incremented when a place is given back; starts at 1 */
    struct {
        uint64_t key;
        struct wall answered;
    } proofs[SHARES_PROOFS];
};

void shares_init(struct shares *shares, enum shares_rule rule);
void shares_deinit(struct shares *shares);

/* Sets the limit. Places in use beyond a lower limit stay until they are given back. */
void shares_set_max(struct shares *shares, uint32_t max);

/* Adds a target of the tenant; shares_part removes one. Neither may hold places then. Returns false
 * if out of memory. */
bool shares_join(struct shares *shares, struct share_target *target, uint64_t tenant_key);
void shares_part(struct shares *shares, struct share_target *target);

/* Records that a delivery to the target was answered. shares_disprove: that one ended without an
 * answer. */
void shares_prove(struct shares *shares, uint64_t target_key, struct wall now);
void shares_disprove(struct shares *shares, uint64_t target_key);

/* Counts a place that the target takes. shares_end: one that it gives back, in the class in which
 * it was taken. */
void shares_begin(struct shares *shares, struct share_target *target, enum share_class class);
void shares_end(struct shares *shares, struct share_target *target, enum share_class class);

/* Adds a target to the lists if it wants a place and is limited only by its share. Called after
 * each place that it took or gave back, and when its proof changed. shares_delist removes it. */
void shares_enlist(struct shares *shares, struct share_target *target, struct wall now);
void shares_delist(struct share_target *target);

/* Removes the target that gets the next place from its list, and returns its class; NULL if none
 * may have one. Amortized O(1), because blocked tenants are examined again only after a place was
 * given back. */
struct share_target *shares_next(struct shares *shares, struct wall now,
                                 enum share_class *ret_class);

/* True if shares_next may find a target. */
static inline bool shares_has_ready(const struct shares *shares)
{
    return !list_is_empty(&shares->ready) && shares->held < shares->max;
}

/* For tests: aborts unless every invariant holds, except for limits, which may have been
 * lowered. O(tenants and their targets that want a place). */
void shares_check(const struct shares *shares);

#endif
