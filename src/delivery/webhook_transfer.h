/*
 * webhook_transfer.h - one libcurl handle that delivers one webhook after the other.
 *
 * Settings common to all webhooks are set once; a delivery costs the URL, when it is another than
 * before, the headers and the body. Nothing of the timer is copied but the URL and the headers.
 *
 * Ownership  The delivery and its timer are borrowed from begin to end.
 * Threads    None: one owner. The transfers share the settings.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_TRANSFER_H
#define TICKWHEEL_DELIVERY_WEBHOOK_TRANSFER_H

#include "delivery/guard.h"
#include "delivery/targets.h"
#include "delivery/webhook_outcome.h"
#include "delivery/webhook_request.h"
#include "delivery/webhook_sockets.h"

/* A connection of libcurl's. Two to different servers may share a local port, and then this: one of
 * them is closed early. */
struct webhook_connection_use {
    struct instant opened_at;
    uint32_t requests; /* sent over it */
    bool is_shared;    /* HTTP/2: several at a time */
};

/* Which connections of libcurl's the webhooks to an origin may use. */
struct webhook_generation {
    uint32_t current; /* number */
    bool is_over;     /* a connection of it is at its limits: the next one is wanted */
    bool has_scout;   /* a webhook is under way that opens the next one */
};

#define WEBHOOK_GENERATIONS 4096 /* origins with equal hashes share a generation */

/* Borrowed by the transfers, and by libcurl's connections until its multi handle is gone. */
struct webhook_settings {
    const struct guard *guard;
    struct signature *signature;     /* NULL: unsigned */
    struct webhook_sockets *sockets; /* of libcurl */
    char *ca_file;                   /* a copy of it in memory; NULL: the system's */
    uint32_t trust;                  /* number of `ca_file`, raised with each change */
    char *user_agent;
    char *event_source;                    /* of CloudEvents; NULL: none are sent */
    struct random *trace_high, *trace_low; /* for the ids of traces; the webhook thread's */
    uint64_t connect_timeout_ms;
    uint64_t response_bytes_max;
    uint64_t connection_age_ms_max;
    uint32_t connection_requests_max;
    struct webhook_connection_use *uses;    /* 65,536, by the connection's local port */
    struct webhook_generation *generations; /* WEBHOOK_GENERATIONS, by the hash of the origin */
};

struct webhook_transfer {
    struct list link;            /* the holder's */
    CURL *easy;                  /* to be added to a multi handle between begin and end */
    struct target_ticket ticket; /* the holder's: of the delivery that is under way */
    const struct webhook_settings *settings_;
    struct delivery *delivery_;
    struct webhook_request request_;
    struct webhook_attempt attempt_;
    struct buffer target_;             /* whose URL `easy` has now */
    uint64_t head_bytes_, body_bytes_; /* of the answer, so far */
    char status_class_;                /* '2' of 200, for the headers at hand */
    uint32_t sent_count_; /* how often libcurl began to send: again when a kept-alive connection
                             turns out to be closed */
    long opened_count_;   /* connections opened for this delivery */
    struct webhook_connection_use *use_; /* NULL: no connection yet */
    struct webhook_generation *origin_;  /* of the target; NULL: none yet */
    uint32_t generation_; /* of the connections that `easy` may use, if `has_generation_` */
    bool has_generation_, is_scout_;
    uint32_t trust_;  /* settings' when `easy` was made */
    bool is_cut_off_; /* the connection was closed after the request was sent */
    bool is_worn_;    /* `easy` must be made new before it is used again */
};

/* NULL when out of memory. */
struct webhook_transfer *webhook_transfer_create(const struct webhook_settings *settings);
void webhook_transfer_destroy(struct webhook_transfer *transfer);

/* Makes `easy` ready to deliver within this time. False when this delivery cannot even be tried:
 * its outcome says why, and the transfer is as before. */
bool webhook_transfer_begin(struct webhook_transfer *transfer, struct delivery *delivery,
                            uint64_t timeout_ms);

/* The transfer is over, and `easy` off the multi handle: fills in the outcome, returns the
 * delivery, and says what this means for the target. */
struct delivery *webhook_transfer_end(struct webhook_transfer *transfer, CURLcode result,
                                      struct target_verdict *ret_verdict);

/* Like webhook_transfer_end, for a transfer that is broken off: FAILED for this reason. */
struct delivery *webhook_transfer_abort(struct webhook_transfer *transfer, const char *error);

/* The transfer that `easy` belongs to. */
struct webhook_transfer *webhook_transfer_of(CURL *easy);

#endif
