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
#include "delivery/named.h"
#include "delivery/signatures.h"
#include "delivery/targets.h"
#include "delivery/webhook_answer.h"
#include "delivery/webhook_outcome.h"
#include "delivery/webhook_request.h"
#include "delivery/webhook_sockets.h"

/* A connection of libcurl, found by its local port. Two connections to different servers may have
 * the same port; then one of them is closed early. */
struct webhook_connection_use {
    struct instant opened_at;
    uint32_t requests; /* number of requests sent over it */
    bool is_shared;    /* HTTP/2: several requests may be in flight */
};

/* The libcurl connections that webhooks to an origin may use at present. */
struct webhook_generation {
    uint32_t current; /* number of the generation */
    /* one of its connections has reached its limits, so the next generation begins */
    bool is_over;
    bool has_scout; /* a webhook in flight opens the first connection of the next generation */
};

#define WEBHOOK_GENERATIONS 4096 /* number of entries; origins with equal hashes share one */

/* Settings of all transfers. They are borrowed by transfers, and by libcurl's connections until the
 * multi handle is freed. */
struct webhook_settings {
    const struct guard *guard;
    struct signatures *signatures;   /* what signs the webhooks of each tenant */
    struct token_issuer *issuer;     /* NULL if webhooks carry no tokens */
    struct webhook_sockets *sockets; /* libcurl's sockets in the event loop */
    /* path of the certificates' copy in memory; NULL for the system's certificates */
    char *ca_file;
    uint32_t trust; /* number of `ca_file`, incremented with each change */
    char *user_agent;
    /* value of ce-source in CloudEvents; NULL if webhooks are not CloudEvents */
    char *event_source;
    /* URL of the API, by which receivers answer later; NULL if they cannot */
    char *ack_url;
    /* generators of trace ids; used by the webhook thread only */
    struct random *trace_high, *trace_low;
    uint64_t connect_timeout_ms;
    uint64_t response_bytes_max;
    uint32_t answer_bytes; /* number of bytes of an answer's body to keep with the delivery */
    uint64_t connection_age_ms_max;
    uint32_t connection_requests_max;
    /* array of 65,536, indexed by the connection's local port */
    struct webhook_connection_use *uses;
    /* array of WEBHOOK_GENERATIONS, indexed by the hash of the origin */
    struct webhook_generation *generations;
};

/* Returns what signs the delivery: secrets of its named target, or else of its tenant. */
static inline struct signature *webhook_signature_of(const struct webhook_settings *settings,
                                                     const struct delivery *delivery)
{
    struct signature *own = named_signature_of(delivery);

    return own ? own : signatures_find(settings->signatures, delivery->timer->texts.tenant);
}

struct webhook_transfer {
    struct list link; /* list of whoever holds the transfer */
    CURL *easy;       /* handle; the caller adds it to a multi handle between begin and end */
    struct target_ticket ticket; /* ticket of the delivery in flight; stored for the caller */
    const struct webhook_settings *settings_;
    struct delivery *delivery_;
    struct webhook_request request_;
    struct webhook_attempt attempt_;
    struct buffer target_;             /* target of which `easy` has the URL */
    uint64_t head_bytes_, body_bytes_; /* bytes of the answer that were received */
    struct webhook_answer chunks_;     /* decodes the body if it comes in chunks */
    bool has_chunks_, are_chunks_over_;
    /* first digit of the status to which the current headers belong, such as '2' of 200 */
    char status_class_;
    /* number of times that libcurl began to send the request; more than once if a kept connection
     * turned out to be closed */
    uint32_t sent_count_;
    long opened_count_; /* number of connections that were opened for this delivery */
    struct webhook_connection_use *use_; /* NULL until there is a connection */
    /* entry of the target's origin; NULL if there is none yet */
    struct webhook_generation *origin_;
    uint32_t generation_; /* generation of connections that `easy` may use, if `has_generation_` */
    bool has_generation_, is_scout_;
    uint32_t trust_;           /* `trust` of the settings when `easy` was made */
    bool is_cut_off_;          /* the connection was closed after the request was sent */
    bool is_worn_by_identity_; /* the delivery in flight has an identity of its own */
    bool is_worn_;             /* `easy` must be replaced before it is used again */
};

/* Makes a transfer without a delivery. Returns NULL if out of memory. */
struct webhook_transfer *webhook_transfer_create(const struct webhook_settings *settings);
void webhook_transfer_destroy(struct webhook_transfer *transfer);

/* Prepares `easy` to deliver within `timeout_ms`. Returns false if the delivery cannot be tried;
 * then its outcome has the reason, and the transfer is unchanged. */
bool webhook_transfer_begin(struct webhook_transfer *transfer, struct delivery *delivery,
                            uint64_t timeout_ms);

/* Ends a transfer whose `easy` was removed from the multi handle. Fills in the outcome, and returns
 * the delivery and what it says about the target. */
struct delivery *webhook_transfer_end(struct webhook_transfer *transfer, CURLcode result,
                                      struct target_verdict *ret_verdict);

/* Like webhook_transfer_end, for a transfer that is aborted: the outcome is FAILED with this
 * text. */
struct delivery *webhook_transfer_abort(struct webhook_transfer *transfer, const char *error);

/* Returns the transfer that `easy` belongs to. */
struct webhook_transfer *webhook_transfer_of(CURL *easy);

#endif
