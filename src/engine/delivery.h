/*
 * delivery.h - one attempt to deliver one timer: what the engine hands out and gets back.
 *
 * Ownership  The engine allocates it and lends it, with its timer, to the sender, until it
 *            comes back through engine_delivered. Neither is written meanwhile, except the
 *            `outcome`, by the sender.
 */
#ifndef TICKWHEEL_ENGINE_DELIVERY_H
#define TICKWHEEL_ENGINE_DELIVERY_H

#include "engine/explain.h"
#include "timer/timer.h"

#include <stdatomic.h>

enum delivery_result {
    DELIVERY_DONE,      /* the receiver has it */
    DELIVERY_FAILED,    /* try again later, by the timer's retry policy */
    DELIVERY_ENDED,     /* the receiver wants it no more: a dead letter at once */
    DELIVERY_POSTPONED, /* it never began: again after retry_after_ms, and no attempt is spent */
    DELIVERY_RETURNED,  /* no target saw it: as if it had never been handed out */
};

/* How long until the next attempt. */
enum delivery_pause {
    DELIVERY_PAUSE_POLICY, /* the retry policy's back-off, and at least retry_after_ms */
    DELIVERY_PAUSE_EXACT,  /* retry_after_ms */
};

/* What waits together with a delivery that was postponed. */
enum delivery_holds {
    DELIVERY_HOLDS_QUEUE, /* all timers of its dispatch queue */
    DELIVERY_HOLDS_TIMER, /* its timer only */
};

struct delivery_outcome {
    enum delivery_result result;
    enum delivery_pause pause; /* with FAILED */
    enum delivery_holds holds; /* with POSTPONED */
    bool is_answer;            /* unless DONE: the target answered */
    uint16_t status;           /* of HTTP, that the target answered with; 0: none */
    uint64_t retry_after_ms;   /* with FAILED: what the receiver asked for; 0: nothing */
    char error[160];           /* unless DONE or RETURNED: why, for `last_error`; no secrets */
};

struct delivery {
    struct list link;          /* the holder's */
    const struct timer *timer; /* lent */
    uint32_t attempt;          /* 1, 2, ... */
    uint64_t epoch;            /* of the partition's owner: a fencing token that only grows */
    /* In a cluster, on CLOCK_BOOTTIME: until when this node may send it, by the lease of its
     * partition. It moves, and lives as long as the senders. NULL: always. */
    const _Atomic uint64_t *valid_until_ns;
    struct wall found_due; /* when the engine found it due */
    struct wall row_due; /* due time in its row: of the first firing missed, if this is the last */
    bool is_unproven;    /* its target did not answer lately: others may go first */
    struct lateness lateness; /* what made it late until it left the engine */
    /* Stamped on the way, for lateness by stage; wall clock, microseconds. */
    uint64_t handed_us;  /* left the engine */
    uint64_t started_us; /* the request was handed to the network */
    uint64_t ended_us;   /* the outcome was known */
    struct delivery_outcome outcome;
    /* The sender may set it with DONE: the message is in a transaction, which ends with the commit
     * of the batch that has this outcome (storage_batch.messages). */
    bool is_in_transaction;
    /* The sender may set `wants_record`: then the delivery comes back once more, by
     * engine_take_recorded, when its outcome is durable (ERROR_NONE) or could not be written yet;
     * its timer is not lent any more. Never with RETURNED. */
    bool wants_record;
    enum error_code recorded;
    void *holder; /* the sender's, for any use */
};

#endif
