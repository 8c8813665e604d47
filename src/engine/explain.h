/*
 * explain.h - where a timer is, why it waits, and what made it late: plain values, for people.
 */
#ifndef TICKWHEEL_ENGINE_EXPLAIN_H
#define TICKWHEEL_ENGINE_EXPLAIN_H

#include "base/time.h"

#include <stdbool.h>

/* Why a due timer is not being delivered. X(name, text) */
#define WAIT_REASON_LIST(X)                                                            \
    X(ROOM, "room")                 /* deliveries_max webhooks are in flight */        \
    X(TARGET_LIMIT, "target-limit") /* its target's limit is reached */                \
    X(BREAKER, "breaker")           /* its target failed and is left alone */          \
    X(RATE, "rate")                 /* rate of its target */                           \
    X(CATCH_UP, "catch-up")         /* it is overdue, and catch_up_rate_max applies */ \
    X(WORKER, "worker")             /* no worker has pulled it yet */                  \
    X(PAUSED, "paused")             /* its queue or its target is paused */            \
    X(MAINTENANCE, "maintenance")   /* the operator holds all deliveries back */       \
    X(STOPPING, "stopping")         /* the service is stopping */                      \
    X(LEASES, "leases")             /* its tenant has its share of leases */           \
    X(LEASE_MEMORY, "lease-memory") /* leased items have their share of memory */

enum wait_reason {
#define X(name, text) WAIT_##name,
    WAIT_REASON_LIST(X)
#undef X
        WAIT_REASONS,
};

/* Number of reasons from the first on whose times each dispatch queue sums up. */
#define WAIT_SUMMED (WAIT_RATE + 1)

/* Causes of a firing's lateness, in order. X(NAME, text) */
#define LATENESS_LIST(X)                                                                           \
    X(RETRIES, "retries")           /* earlier attempts, and the pauses after them */              \
    X(SET_LATE, "set_late")         /* it was set to a time in the past */                         \
    X(DOWN, "down")                 /* the service was not running */                              \
    X(PUT_BACK, "put_back")         /* it was due, and spilled to disk for want of memory */       \
    X(DISK, "disk")                 /* it was on disk: the engine read it late */                  \
    X(WHEEL, "wheel")               /* it was in memory: the engine was late */                    \
    X(CATCH_UP, "catch_up")         /* it was overdue, and those have a rate */                    \
    X(ROOM, "room")                 /* deliveries_max webhooks were in flight */                   \
    X(TARGET_LIMIT, "target_limit") /* its target's limit was reached, or its turn had not come */ \
    X(BREAKER, "breaker")           /* its target was left alone */                                \
    X(RATE, "rate")                 /* rate of its target */                                       \
    X(WORKER, "worker")             /* no worker pulled it */                                      \
    X(PAUSED, "paused")             /* it, its queue or its target was paused */                   \
    X(MAINTENANCE, "maintenance")   /* the operator held all deliveries back */                    \
    X(HANDOFF, "handoff")           /* from the engine to the first byte of the request */         \
    X(DELIVERY, "delivery")         /* from there to the outcome */                                \
    X(COMMIT, "commit")             /* until the outcome was durable */

enum lateness_stage {
#define X(name, text) LATENESS_##name,
    LATENESS_LIST(X)
#undef X
        LATENESS_STAGES,
};

/* Lateness of one attempt by cause, in milliseconds, saturated at UINT32_MAX. */
struct lateness {
    uint32_t attempt; /* 0 if nothing is known */
    uint32_t ms[LATENESS_STAGES];
};

enum explain_place {
    PLACE_FINAL,
    PLACE_WHEEL,    /* in memory, in the wheel */
    PLACE_DISK,     /* on disk alone */
    PLACE_QUEUED,   /* due, in its dispatch queue */
    PLACE_INFLIGHT, /* being delivered */
};

/* Maximum size of the description of a worker: its address and program. */
#define EXPLAIN_WORKER_SIZE 96

/* A lease of a timer of a queue. */
struct explained_lease {
    struct wall since, until; /* 0 if it is not leased */
    uint8_t worker_size;      /* 0 if the worker is at another node */
    char worker[EXPLAIN_WORKER_SIZE];
};

struct explained {
    enum explain_place place;
    struct wall now;      /* the engine's */
    unsigned wheel_level; /* WHEEL */
    unsigned wheel_bucket;
    bool is_spilled;         /* DISK: due, and spilled for want of room */
    struct wall read_at;     /* DISK: earliest time at which it is read, if there is room */
    enum wait_reason reason; /* QUEUED */
    struct wall until;       /* QUEUED: when that may change; WALL_NEVER: with the next outcome */
    uint32_t inflight, inflight_max; /* QUEUED, INFLIGHT: those of its target */
    struct wall since;               /* QUEUED, INFLIGHT: time at which it was found due */
    struct lateness lateness;        /* lateness of this attempt so far, or of the last known one */
    struct explained_lease lease;    /* INFLIGHT; filled in by the shard, which has the leases */
};

#endif
