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
    DELIVERY_DONE,   /* the receiver has it */
    DELIVERY_FAILED, /* retry later, by the timer's policy */
    DELIVERY_ENDED,  /* refused for good: a dead letter at once */
    /* it never began: again after retry_after_ms, without spending an attempt */
    DELIVERY_POSTPONED,
    DELIVERY_RETURNED, /* no target saw it: as if it had never been handed out */
};

/* Pause before the next attempt. */
enum delivery_pause {
    DELIVERY_PAUSE_POLICY, /* back-off of the retry policy, at least retry_after_ms */
    DELIVERY_PAUSE_EXACT,  /* retry_after_ms */
};

/* What waits together with a postponed delivery. */
enum delivery_holds {
    DELIVERY_HOLDS_QUEUE, /* all timers of its dispatch queue */
    DELIVERY_HOLDS_TIMER, /* its timer only */
};

struct delivery_outcome {
    enum delivery_result result;
    enum delivery_pause pause; /* with FAILED */
    enum delivery_holds holds; /* with POSTPONED */
    bool is_answer;            /* unless DONE: whether the target answered */
    uint16_t status;           /* HTTP status of the answer; 0 if none */
    uint64_t retry_after_ms;   /* FAILED: pause that the receiver asked for; 0 if none */
    /* unless DONE or RETURNED: cause, for `last_error`, without secrets */
    char error[160];
};

struct delivery {
    struct list link;          /* the holder's */
    const struct timer *timer; /* lent */
    uint32_t attempt;          /* from 1 */
    uint64_t epoch;            /* epoch of the partition's owner: a fencing token that only rises */
    /* In a cluster, limit on CLOCK_BOOTTIME for sending it, by the lease of its partition. It
     * moves, and lives as long as the senders. NULL for no limit. */
    const _Atomic uint64_t *valid_until_ns;
    struct wall found_due; /* time at which the engine found it due */
    /* due time in its row: that of the first missed firing if this is the last */
    struct wall row_due;
    enum lateness_stage missed_by; /* why the firing at `row_due` was missed, if it was */
    bool is_unproven;              /* its target did not answer lately: others may precede it */
    struct lateness lateness;      /* causes of its lateness until it left the engine */
    /* Time stamps for lateness by stage; wall clock in microseconds. */
    uint64_t handed_us;  /* left the engine */
    uint64_t started_us; /* the request was handed to the network */
    uint64_t ended_us;   /* the outcome was known */
    struct delivery_outcome outcome;
    /* First bytes of the body of the answer, from malloc; set by the sender, taken and freed by the
     * caller of engine_delivered. NULL for none. */
    char *answer;
    uint32_t answer_size;
    /* Set by the sender with DONE if the message is in a transaction, which is committed with
     * the batch that has this outcome (storage_batch.messages). */
    bool is_in_transaction;
    /* Set by the sender to get the delivery back from engine_take_recorded when its outcome is
     * durable (ERROR_NONE) or could not be written yet. Its timer is no longer lent then. Never
     * with RETURNED. */
    bool wants_record;
    enum error_code recorded;
    void *holder; /* for any use of the sender */
};

#endif
