/*
 * delivery.h - one attempt to deliver one timer: what the engine hands out and gets back.
 *
 * Ownership  The engine allocates it and lends it, with its timer, to whoever delivers, until it
 *            comes back through engine_delivered. Neither is written by anyone else meanwhile,
 *            except the `outcome` by who delivers.
 */
#ifndef TICKWHEEL_ENGINE_DELIVERY_H
#define TICKWHEEL_ENGINE_DELIVERY_H

#include "storage/timer.h"

enum delivery_result {
    DELIVERY_DONE,   /* the receiver has it */
    DELIVERY_FAILED, /* try again later, by the timer's retry policy */
    DELIVERY_ENDED,  /* the receiver wants it no more: a dead letter at once */
};

struct delivery_outcome {
    enum delivery_result result;
    uint64_t
        retry_after_ms; /* with FAILED: the receiver asked for at least so long; 0: it did not */
    char error[160];    /* with FAILED and ENDED: why, for `last_error`; no secrets */
};

struct delivery {
    struct list link;          /* the holder's */
    const struct timer *timer; /* lent */
    uint32_t attempt;          /* 1, 2, ... */
    uint64_t epoch;            /* of the partition's owner: a fencing token that only grows */
    struct wall noticed;       /* when the engine found it due */
    /* Stamped on the way, for lateness by stage; wall clock, microseconds. */
    uint64_t handed_us;  /* left the engine */
    uint64_t started_us; /* the request was handed to the network */
    uint64_t ended_us;   /* the outcome was known */
    struct delivery_outcome outcome;
};

#endif
