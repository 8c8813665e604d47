/*
 * queues_json.h - reads the requests of workers strictly: no unknown field, no number out of range.
 *
 * Threads    None of its own.
 */
#ifndef TICKWHEEL_API_QUEUES_QUEUES_JSON_H
#define TICKWHEEL_API_QUEUES_QUEUES_JSON_H

#include "api/json/problem.h"
#include "delivery/queue.h"

enum {
    QUEUES_ITEMS_MAX = 1000,    /* maximum of items of a lease */
    QUEUES_RECEIPTS_MAX = 1000, /* maximum of receipts of a call */
};

#define QUEUES_LEASE_MS_DEFAULT UINT64_C(30000)
#define QUEUES_LEASE_MS_MIN     UINT64_C(100)
#define QUEUES_LEASE_MS_MAX     (UINT64_C(12) * 3600 * 1000)
#define QUEUES_DELAY_MS_MAX     (UINT64_C(30) * 24 * 3600 * 1000)

struct queues_ask {
    uint32_t items_max;              /* 1 */
    uint64_t wait_ms;                /* 0 */
    uint64_t lease_ms;               /* QUEUES_LEASE_MS_DEFAULT */
    struct delivery_outcome outcome; /* outcome of a nack */
    struct queue_receipt *receipts;  /* the caller frees them after success */
    size_t receipt_count;
};

/* Reads the body of a request of this kind. An invalid receipt is read as one that matches no
 * lease. On error there is nothing to free. */
enum error_code queues_json_parse(struct bytes json, enum queue_kind kind, uint64_t wait_ms_max,
                                  struct queues_ask *ret_ask, struct problem *ret_problem);

#endif
