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

/* A connection of libcurl's, by its local port. Two connections to different servers may share a
 * port: one of them is closed early then. */
struct webhook_connection_use {
    struct instant opened_at;
    uint32_t requests; /* number of requests sent over it */
    bool is_shared;    /* HTTP/2: several at a time */
};

/* The connections of libcurl's that the webhooks to an origin may use. */
struct webhook_generation {
    uint32_t current; /* number */
    bool is_over;     /* one of its connections is at its limits: the next generation begins */
    bool has_scout;   /* a webhook in flight opens the next one */
};

#define WEBHOOK_GENERATIONS 4096 /* origins with equal hashes share a generation */

/* Borrowed by the transfers, and by libcurl's connections until its multi handle is freed. */
struct webhook_settings {
    const struct guard *guard;
    struct signature *signature;     /* NULL: unsigned */
    struct webhook_sockets *sockets; /* of libcurl */
    char *ca_file;                   /* copy in memory; NULL for the system's */
    uint32_t trust;                  /* number of `ca_file`, incremented with each change */
    char *user_agent;
    char *event_source; /* of CloudEvents; NULL for none */
    /* for the ids of traces; private to the webhook thread */
    struct random *trace_high, *trace_low;
    uint64_t connect_timeout_ms;
    uint64_t response_bytes_max;
    uint32_t answer_bytes; /* bytes of an answer's body that a delivery keeps */
    uint64_t connection_age_ms_max;
    uint32_t connection_requests_max;
    struct webhook_connection_use *uses;    /* 65,536, by the connection's local port */
    struct webhook_generation *generations; /* WEBHOOK_GENERATIONS, by the hash of the origin */
};

struct webhook_transfer {
    struct list link;            /* the holder's */
    CURL *easy;                  /* add it to a multi handle between begin and end */
    struct target_ticket ticket; /* for the holder: ticket of the delivery in flight */
    const struct webhook_settings *settings_;
    struct delivery *delivery_;
    struct webhook_request request_;
    struct webhook_attempt attempt_;
    struct buffer target_;             /* target of the present URL of `easy` */
    uint64_t head_bytes_, body_bytes_; /* bytes of the answer so far */
    char status_class_;                /* '2' of 200, for the present headers */
    /* number of times that libcurl began to send: again if a kept connection turns out to be
     * closed */
    uint32_t sent_count_;
    long opened_count_;                  /* number of connections opened for this delivery */
    struct webhook_connection_use *use_; /* NULL if there is no connection yet */
    struct webhook_generation *origin_;  /* origin of the target; NULL if none yet */
    uint32_t generation_; /* generation of connections that `easy` may use, if `has_generation_` */
    bool has_generation_, is_scout_;
    uint32_t trust_;  /* trust of the settings when `easy` was made */
    bool is_cut_off_; /* the connection was closed after the request was sent */
    bool is_worn_;    /* `easy` must be made anew before it is used again */
};

/* Returns NULL if out of memory. */
struct webhook_transfer *webhook_transfer_create(const struct webhook_settings *settings);
void webhook_transfer_destroy(struct webhook_transfer *transfer);

/* Prepares `easy` to deliver within this time. Returns false if the delivery cannot be tried:
 * its outcome has the reason, and the transfer is unchanged. */
bool webhook_transfer_begin(struct webhook_transfer *transfer, struct delivery *delivery,
                            uint64_t timeout_ms);

/* Ends a transfer whose `easy` is off the multi handle: fills in the outcome, returns the
 * delivery, and what it shows about the target. */
struct delivery *webhook_transfer_end(struct webhook_transfer *transfer, CURLcode result,
                                      struct target_verdict *ret_verdict);

/* Like webhook_transfer_end, for a transfer that is aborted: FAILED for this reason. */
struct delivery *webhook_transfer_abort(struct webhook_transfer *transfer, const char *error);

/* Returns the transfer that `easy` belongs to. */
struct webhook_transfer *webhook_transfer_of(CURL *easy);

#endif
