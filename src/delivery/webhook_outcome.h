/*
 * webhook_outcome.h - turns the end of an attempt into the outcome of its delivery.
 *
 * Threads    Any: no state.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_OUTCOME_H
#define TICKWHEEL_DELIVERY_WEBHOOK_OUTCOME_H

#include "delivery/targets.h"
#include "engine/delivery.h"

#include <curl/curl.h>

/* The end of an attempt. Connections without libcurl (webhook_direct.h) report it by libcurl's
 * codes too. */
struct webhook_attempt {
    CURLcode result;
    bool has_answer; /* the headers of a final answer are complete */
    /* it ended before the request was sent, because this node may no longer send it */
    bool has_lapsed;
    bool has_odd_status;      /* ended at an invalid status line */
    bool has_long_header;     /* ended at a header that is too long to read */
    bool is_resolved;         /* an address was found */
    bool is_connected;        /* a connection was made over which a request could be sent */
    bool was_kept;            /* that connection had carried a request before */
    const char *refused_kind; /* kind of the address that guard_refusal refused; NULL if none was */
    int open_errno;           /* errno if no socket could be opened; otherwise 0 */
    int connect_errno;        /* errno if the connection failed; otherwise 0 */
    uint16_t status;          /* status of the last status line; 0 if none */
    const char *retry_after;  /* value of Retry-After, with `has_answer`; NULL if there is none */
    bool answers_later;       /* with `has_answer`: it has the header "Tickwheel-Ack: later" */
    bool may_wait;            /* the request had the URL by which its receiver answers later */
    uint64_t timeout_ms;      /* time limit of the whole attempt */
    uint64_t connect_timeout_ms;
};

/* Fills in the outcome of the attempt. */
void webhook_outcome_set(struct delivery_outcome *ret_outcome,
                         const struct webhook_attempt *attempt);

/* Returns what the attempt says about its target. Any answer means that the origin works, and a
 * status below 500 that the path works too. A missing answer is a failure of the origin, unless
 * this side caused it or the time-out was too short. */
struct target_verdict webhook_outcome_verdict(const struct webhook_attempt *attempt);

/* Appends the next bytes of the answer's body to those that the delivery keeps, up to `max` in
 * total. If out of memory, keeps fewer. */
void webhook_outcome_keep(struct delivery *delivery, struct bytes body, uint32_t max);

/* Sets the outcome of a delivery that failed before an attempt began. */
void webhook_outcome_fail(struct delivery_outcome *ret_outcome, enum delivery_result result,
                          const char *error);

#endif
