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

/* An attempt that is over. A connection of our own (webhook_direct.h) tells its end in libcurl's
 * words too. */
struct webhook_attempt {
    CURLcode result;
    bool has_answer;          /* the headers of a final answer are complete */
    bool has_lapsed;          /* it was given up before the request: this node may not send it */
    bool has_odd_status;      /* it was broken off at a status line that is none */
    bool has_long_header;     /* it was broken off at a header that is longer than it reads */
    bool is_resolved;         /* there was an address */
    bool is_connected;        /* and a connection, on which a request could be sent */
    bool was_kept;            /* that connection had carried a request before */
    const char *refused_kind; /* an address was refused: of which kind (guard_refusal); or NULL */
    int open_errno;           /* no socket could be opened: why; or 0 */
    int connect_errno;        /* it could not be connected: why; or 0 */
    uint16_t status;          /* of the last status line; 0: none */
    const char *retry_after;  /* with `has_answer`: that header's value; NULL: there is none */
    uint64_t timeout_ms;      /* of the whole attempt */
    uint64_t connect_timeout_ms;
};

/* Fills in the outcome of the attempt. */
void webhook_outcome_set(struct delivery_outcome *ret_outcome,
                         const struct webhook_attempt *attempt);

/* What the attempt says about its target: with any answer the origin is alive, and the path too
 * when the status is below 500. No answer is the origin's failure; it says nothing when it was this
 * side that could not or would not, or when the time-out was too short to tell. */
struct target_verdict webhook_outcome_verdict(const struct webhook_attempt *attempt);

/* The outcome of an attempt that never became a transfer. */
void webhook_outcome_fail(struct delivery_outcome *ret_outcome, enum delivery_result result,
                          const char *error);

#endif
