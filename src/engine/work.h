/*
 * work.h - what a worker asks of a queue, as a command for the node that has the items: a lease of
 * items, or a report on leases. No engine sees it: the queue of that node (delivery/queue.h)
 * answers.
 *
 * Ownership  The caller's, borrowed until the answer. The timers of the items are valid only during
 *            `done` of the request.
 */
#ifndef TICKWHEEL_ENGINE_WORK_H
#define TICKWHEEL_ENGINE_WORK_H

#include "engine/delivery.h"

enum work_report { WORK_ACK, WORK_NACK, WORK_EXTEND };

/* Same values as enum queue_verdict (delivery/queue.h). */
enum work_verdict { WORK_OK, WORK_STALE, WORK_UNKNOWN };

/* Same fields as struct queue_receipt (delivery/queue.h). */
struct command_receipt {
    uint64_t number, proof;
};

struct command_work_item {
    struct command_receipt receipt;
    uint32_t attempt;
    const struct timer *timer;
};

struct command_work {
    struct bytes queue; /* full name (timer/queue_target.h) */
    uint64_t lease_ms;

    /* Fields of LEASE. */
    uint32_t items_max;              /* maximum of items, at least 1 */
    uint64_t bytes_max;              /* size from which no further item is added */
    struct command_work_item *items; /* array of `items_max` */

    /* Fields of REPORT. */
    enum work_report report;
    struct delivery_outcome outcome; /* outcome of a NACK */
    const struct command_receipt *receipts;
    uint8_t *verdicts; /* answer to each receipt; enum work_verdict */
    size_t receipt_count;

    size_t item_count; /* LEASE: number of items in the answer */
};

#endif
