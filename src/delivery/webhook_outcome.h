/*
 * webhook_outcome.h - what became of one attempt: its end as an outcome and a few words.
 *
 * Threads    Any: no state.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_OUTCOME_H
#define TICKWHEEL_DELIVERY_WEBHOOK_OUTCOME_H

#include "delivery/targets.h"
#include "engine/delivery.h"

#include <curl/curl.h>

/* An attempt that has ended. Connections of our own (webhook_direct.h) report their end with
 * libcurl's codes too. */
struct webhook_attempt {
    CURLcode result;
    bool has_answer;          /* the headers of a final answer are complete */
    bool has_lapsed;          /* ended before the request: this node may not send it */
    bool has_odd_status;      /* ended at an invalid status line */
    bool has_long_header;     /* ended at a header that is too long to read */
    bool is_resolved;         /* whether there was an address */
    bool is_connected;        /* whether there was a connection that could send a request */
    bool was_kept;            /* that connection had carried a request before */
    const char *refused_kind; /* kind of a refused address (guard_refusal); or NULL */
    int open_errno;           /* errno if no socket could be opened; or 0 */
    int connect_errno;        /* errno if it could not be connected; or 0 */
    uint16_t status;          /* status of the last status line; 0 if none */
    const char *retry_after;  /* with `has_answer`: value of that header; NULL if there is none */
    uint64_t timeout_ms;      /* limit of the whole attempt */
    uint64_t connect_timeout_ms;
};

/* Fills in the outcome of the attempt. */
void webhook_outcome_set(struct delivery_outcome *ret_outcome,
                         const struct webhook_attempt *attempt);

/* Returns what the attempt shows about its target. With any answer the origin is alive, and the
 * path too if the status is below 500. A missing answer is a failure of the origin, unless this
 * side caused it, or the time-out was too short to tell. */
struct target_verdict webhook_outcome_verdict(const struct webhook_attempt *attempt);

/* Appends the next bytes of the answer's body to those that the delivery keeps, up to `max` in all.
 * Without memory it keeps fewer. */
void webhook_outcome_keep(struct delivery *delivery, struct bytes body, uint32_t max);

/* Sets the outcome of an attempt that never became a transfer. */
void webhook_outcome_fail(struct delivery_outcome *ret_outcome, enum delivery_result result,
                          const char *error);

#endif
