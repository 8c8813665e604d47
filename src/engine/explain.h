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
    X(LEASE_MEMORY, "lease-memory") /* leased items have their share of memory */      \
    X(FLOW, "flow")                 /* limit of its flow */

enum wait_reason {
#define X(name, text) WAIT_##name,
    WAIT_REASON_LIST(X)
#undef X
        WAIT_REASONS,
};

/* Returns the name of a reason, as the API has it. */
const char *wait_text(enum wait_reason reason);

/* Number of reasons, from the first, for which each dispatch queue adds up its waiting time. */
#define WAIT_SUMMED (WAIT_RATE + 1)

/* Causes of a firing's lateness, almost in order of time: new ones go to the end. X(NAME, text,
 * words after "because of") */
#define LATENESS_LIST(X)                                                      \
    X(RETRIES, "retries", "earlier attempts")                                 \
    X(SET_LATE, "set_late", "a due time that was past when it was set")       \
    X(DOWN, "down", "the service not running")                                \
    X(PUT_BACK, "put_back", "want of room in memory")                         \
    X(DISK, "disk", "being read late from disk")                              \
    X(WHEEL, "wheel", "a busy engine")                                        \
    X(CATCH_UP, "catch_up", "the rate for what is overdue")                   \
    X(ROOM, "room", "all places for webhooks being taken")                    \
    X(TARGET_LIMIT, "target_limit", "all places of its target being taken")   \
    X(BREAKER, "breaker", "its target being left alone")                      \
    X(RATE, "rate", "its target's rate")                                      \
    X(WORKER, "worker", "no worker asking for it")                            \
    X(PAUSED, "paused", "a pause of it, its queue or its target")             \
    X(MAINTENANCE, "maintenance", "the operator holding all deliveries back") \
    X(HANDOFF, "handoff", "the way from the engine to the network")           \
    X(DELIVERY, "delivery", "the request")                                    \
    X(COMMIT, "commit", "the commit of its outcome")                          \
    X(FLOW, "flow", "the limits of its flow") /* before HANDOFF in time */

enum lateness_stage {
#define X(name, text, words) LATENESS_##name,
    LATENESS_LIST(X)
#undef X
        LATENESS_STAGES,
};

/* True if the time of the cause passes before the request. */
static inline bool lateness_is_before(enum lateness_stage stage)
{
    return stage <= LATENESS_HANDOFF || stage == LATENESS_FLOW;
}

/* Returns the name of a cause, as the API has it. */
const char *lateness_text(enum lateness_stage stage);

/* Returns a cause as words that complete "late because of". */
const char *lateness_words(enum lateness_stage stage);

/* Lateness of one attempt by cause, in milliseconds, saturated at UINT32_MAX. */
struct lateness {
    uint32_t attempt; /* number of the attempt; 0 if its lateness is unknown */
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

/* The lease of a timer that a worker has pulled from a queue. */
struct explained_lease {
    struct wall since, until; /* bounds of the lease; 0 if the timer is not leased */
    uint8_t worker_size;      /* size of `worker`; 0 if the worker is connected to another node */
    char worker[EXPLAIN_WORKER_SIZE];
};

struct explained {
    enum explain_place place;
    struct wall now;      /* time of the engine */
    unsigned wheel_level; /* WHEEL: level of the wheel, from 0 */
    unsigned wheel_bucket;
    bool is_spilled;         /* DISK: the timer is due, and was moved ahead for want of memory */
    struct wall read_at;     /* DISK: earliest time at which the row is read, if there is memory */
    enum wait_reason reason; /* QUEUED: why it is not being delivered */
    /* QUEUED: when the reason may end; WALL_NEVER if only the next outcome can end it */
    struct wall until;
    /* QUEUED, INFLIGHT: deliveries in flight to its target, and their limit */
    uint32_t inflight, inflight_max;
    struct wall since; /* QUEUED, INFLIGHT: time at which it was found due */
    /* lateness of this attempt so far, or of the last attempt that is remembered */
    struct lateness lateness;
    struct explained_lease lease; /* INFLIGHT; filled in by the shard, which has the leases */
    uint32_t flow_running;        /* QUEUED: timers of its flow that run on this node */
};

#endif
