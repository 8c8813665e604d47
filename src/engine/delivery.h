/*
 * delivery.h - one attempt to deliver one timer: what the engine hands out and gets back.
 *
 * Ownership  The engine allocates it and lends it, with its timer, to the sender, until it
 *            comes back through engine_delivered. Neither is written meanwhile, except the
 *            `outcome`, by the sender.
 */
#ifndef TICKWHEEL_ENGINE_DELIVERY_H
#define TICKWHEEL_ENGINE_DELIVERY_H

#include "base/trace.h"
#include "engine/explain.h"
#include "timer/awaits.h"
#include "timer/timer.h"

#include <stdatomic.h>

enum delivery_result {
    DELIVERY_DONE,   /* the receiver accepted it */
    DELIVERY_FAILED, /* failed; retried by the timer's policy */
    DELIVERY_ENDED,  /* refused for good; the timer becomes a dead letter at once */
    /* never began; tried again after retry_after_ms, without spending an attempt */
    DELIVERY_POSTPONED,
    DELIVERY_RETURNED, /* never reached a target; handled as if it had not been handed out */
    /* the receiver accepted it and answers later, by `ack_token` (timer/awaits.h) */
    DELIVERY_AWAITED,
};

/* Pause before the next attempt. */
enum delivery_pause {
    DELIVERY_PAUSE_POLICY, /* back-off of the retry policy, at least retry_after_ms */
    DELIVERY_PAUSE_EXACT,  /* retry_after_ms */
};

/* Which timers a postponed delivery delays. */
enum delivery_holds {
    DELIVERY_HOLDS_QUEUE, /* all timers of its dispatch queue */
    DELIVERY_HOLDS_TIMER, /* its timer only */
};

struct delivery_outcome {
    enum delivery_result result;
    enum delivery_pause pause; /* with FAILED */
    enum delivery_holds holds; /* with POSTPONED */
    bool is_answer;            /* true if the target answered; unused with DONE */
    uint16_t status;           /* HTTP status of the answer; 0 if none */
    uint64_t retry_after_ms;   /* FAILED: pause that the receiver asked for; 0 if none */
    /* cause for `last_error`, without secrets; empty with DONE and RETURNED */
    char error[160];
};

struct delivery {
    struct list link;          /* list of whoever holds the delivery */
    const struct timer *timer; /* lent to the sender */
    /* The timer as it is sent, if that differs: to a named target. The sender's; NULL before and
     * after. */
    const struct timer *sent;
    /* Ids of the span of this attempt, if spans are exported; otherwise all 0, and the sender makes
     * ids of its own. */
    struct trace_parent trace;
    uint32_t attempt; /* from 1 */
    uint64_t epoch;   /* epoch of the partition's owner: a fencing token that only rises */
    /* In a cluster, latest time on CLOCK_BOOTTIME at which it may be sent, by the lease of its
     * partition. The value changes and lives as long as the senders. NULL if there is no limit. */
    const _Atomic uint64_t *valid_until_ns;
    struct wall found_due; /* time at which the engine found it due */
    /* due time in the timer's row; earlier than timer->due if several firings were missed and this
     * delivers the last of them */
    struct wall row_due;
    /* cause for which the firing at `row_due` was missed; set if it was */
    enum lateness_stage missed_by;
    bool is_unproven; /* the target has not answered lately, so other deliveries may go first */
    struct lateness lateness; /* causes of its lateness until it left the engine */
    /* Times on the wall clock in microseconds, for lateness by stage. */
    uint64_t handed_us;  /* when it left the engine */
    uint64_t started_us; /* when the request was handed to the network */
    uint64_t ended_us;   /* when the outcome was known */
    struct delivery_outcome outcome;
    /* Token by which the receiver may answer later, which the request carried; empty if it carried
     * none. Set by the sender. */
    char ack_token[AWAITS_TOKEN_SIZE + 1];
    /* First bytes of the body of the answer, allocated with malloc. The sender sets it; the caller
     * of engine_delivered takes and frees it. NULL if there is none. */
    char *answer;
    uint32_t answer_size;
    /* Set by the sender with DONE if the message is in a transaction. That is committed together
     * with the batch that has this outcome (storage_batch.messages). */
    bool is_in_transaction;
    /* Set by the sender, never with RETURNED: engine_take_recorded returns the delivery when its
     * outcome is durable (ERROR_NONE) or could not be written yet. Its timer is no longer lent
     * then. */
    bool wants_record;
    enum error_code recorded;
    void *holder; /* private to the sender */
};

/* Returns the timer as it is sent. */
static inline const struct timer *delivery_sent(const struct delivery *delivery)
{
    return delivery->sent ? delivery->sent : delivery->timer;
}

#endif
