/*
 * shares.h - which queue of webhooks sends next, and whether it may: how the places in flight are
 * shared among tenants and targets. For the files of dispatch.h.
 *
 * A target that does not answer holds its places until the time-outs, which clients choose. So:
 *
 *   - A target is *proven* for SHARES_PROOF_MS after an answer, until a delivery has none. Targets
 *     that are not proven hold seven eighths of the places at most, those of a tenant half of them.
 *   - A tenant holds seven eighths of the places at most.
 *   - A target that holds no place may take one within these limits. Otherwise a proven one sends
 *     while it holds less than are left of the limits; an unproven one, less than an eighth.
 *
 * So a share follows the places that are left (dynamic thresholds; Choudhury and Hahne, 1998): few
 * targets may hold many, and however many do, some are left for the next. Tenants take turns, and
 * with each the queues that hold the least. Their number counts as the power of two below it, so
 * that each step is one list, and a decision O(1).
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

#define SHARES_PROOF_MS UINT64_C(60000)
#define SHARES_PROOFS   4096
#define SHARES_MIN      16

struct dispatch_queue;

enum share_class { SHARE_PROVEN, SHARE_UNPROVEN, SHARE_CLASSES };

/* 0, 1, 2 .. 3, 4 .. 7, ... deliveries in flight. */
enum { SHARE_STEPS = 12 };

struct share_tenant {
    struct list link; /* on `ready` while a queue of it is */
    uint64_t key;
    uint32_t queue_count;
    uint32_t inflight;     /* places that it holds */
    uint32_t unproven;     /* of them, those taken while their target was unproven */
    enum share_class turn; /* which class is looked at first */
    struct list queues[SHARE_CLASSES][SHARE_STEPS]; /* that may send but for their shares */
};

struct shares {
    uint32_t max, unproven_max, tenant_max, tenant_unproven_max;
    uint32_t inflight, unproven;
    struct map tenants; /* key -> share_tenant */
    struct list ready;
    struct {
        uint64_t key;
        struct wall answered;
    } proofs[SHARES_PROOFS];
};

struct shares *shares_create(uint32_t inflight_max); /* NULL when out of memory */
void shares_destroy(struct shares *shares);

/* A queue of the tenant is made, or freed. NULL when out of memory. */
struct share_tenant *shares_join(struct shares *shares, uint64_t tenant_key);
void shares_part(struct shares *shares, struct share_tenant *tenant);

bool shares_is_proven(const struct shares *shares, uint64_t queue_key, struct wall now);

/* A delivery of the queue was answered; or ended without an answer. */
void shares_prove(struct shares *shares, uint64_t queue_key, struct wall now);
void shares_disprove(struct shares *shares, uint64_t queue_key);

/* A delivery of the tenant begins, or is over. The class is that of its target when it began. */
void shares_begin(struct shares *shares, struct share_tenant *tenant, enum share_class class);
void shares_end(struct shares *shares, struct share_tenant *tenant, enum share_class class);

/* The queue may send but for its shares; to be called whenever it has changed. Or it may not. */
void shares_enlist(struct shares *shares, struct dispatch_queue *queue, struct wall now);
void shares_delist(struct dispatch_queue *queue);

/* Takes the queue that sends next off its list; NULL when none may. Tenants that may not go to
 * `blocked`: while deliveries only begin, they need not be asked again. */
struct dispatch_queue *shares_next(struct shares *shares, struct wall now, struct list *blocked);

/* For tests: aborts unless every limit holds. O(tenants). */
void shares_check(const struct shares *shares);

#endif
