/*
 * shares.h - which target of webhooks gets the next place in flight, and whether any may: how the
 * places are shared among tenants and targets. A part of budget.h, whose lock guards it.
 *
 * A target that does not answer holds its places until the time-outs, which clients choose. So:
 *
 *   - A target is *proven* for SHARES_PROOF_MS after an answer, until a delivery has none. Targets
 *     that are not proven hold seven eighths of the places at most, those of a tenant half of them.
 *   - A tenant holds seven eighths of the places at most.
 *   - A target that holds no place may take one within these limits. Otherwise a proven one gets
 *     places while it holds less than are left of the limits; an unproven one, less than an eighth.
 *
 * So a share follows the places that are left (dynamic thresholds; Choudhury and Hahne, 1998): few
 * targets may hold many, and however many do, some are left for the next. Tenants take turns, and
 * with each the targets that hold the least. Their number counts as the power of two below it, so
 * that each step is one list, and a decision O(1).
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
    SHARES_OF_TENANTS, /* places of leases: each tenant is one target, which counts as proven */
};

enum share_class { SHARE_PROVEN, SHARE_UNPROVEN, SHARE_CLASSES };

/* Steps for 0, 1, 2 .. 3, 4 .. 7, ... places. */
enum { SHARE_STEPS = 12 };

struct share_tenant {
    struct list link; /* on `ready` or `blocked` while one of its targets is on a list */
    uint64_t key;
    uint64_t blocked_round; /* equal to the round of `shares` while it is on `blocked` */
    uint32_t target_count;
    uint32_t held;
    uint32_t unproven;     /* those of them taken while their target was unproven */
    enum share_class turn; /* class that is examined first */
    /* targets that want a place and are limited only by shares */
    struct list targets[SHARE_CLASSES][SHARE_STEPS];
};

/* A tenant's webhooks to an origin. */
struct share_target {
    struct list link;   /* on a list of its tenant */
    struct list *ready; /* that list, or NULL */
    struct share_tenant *tenant;
    uint64_t key;
    _Atomic uint32_t held; /* places; may be read without the lock */
};

/* Counts places that it takes or gives back; under the lock. */
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
    struct list ready;   /* tenants to examine */
    struct list blocked; /* tenants that wait until a place comes back */
    uint64_t round;      /* incremented when a place comes back; from 1 */
    struct {
        uint64_t key;
        struct wall answered;
    } proofs[SHARES_PROOFS];
};

void shares_init(struct shares *shares, enum shares_rule rule);
void shares_deinit(struct shares *shares);

/* Sets the limit at any time. Places beyond it stay until they come back. */
void shares_set_max(struct shares *shares, uint32_t max);

/* Adds a target of the tenant; shares_part removes one. Neither has places. Returns false if
 * out of memory. */
bool shares_join(struct shares *shares, struct share_target *target, uint64_t tenant_key);
void shares_part(struct shares *shares, struct share_target *target);

/* Notes that a delivery to the target was answered. shares_disprove: that it ended without an
 * answer. */
void shares_prove(struct shares *shares, uint64_t target_key, struct wall now);
void shares_disprove(struct shares *shares, uint64_t target_key);

/* Counts a place that the target takes. shares_end: one that it gives back, with the class that
 * it had. */
void shares_begin(struct shares *shares, struct share_target *target, enum share_class class);
void shares_end(struct shares *shares, struct share_target *target, enum share_class class);

/* Lists a target that wants a place and is limited only by its share. Called whenever it took or
 * gave back a place, or its proof changed. shares_delist removes it. */
void shares_enlist(struct shares *shares, struct share_target *target, struct wall now);
void shares_delist(struct share_target *target);

/* Removes the target that gets the next place from its list, and returns its class; NULL if none
 * may. Amortized O(1), because blocked tenants are examined again only after a place came back. */
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
