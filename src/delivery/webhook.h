/*
 * webhook.h - delivers timers by HTTP POST: one thread, one libcurl multi handle, thousands in
 * flight.
 *
 * Signed by Standard Webhooks 1.0 when there is a secret. Addresses are checked at connect, and the
 * connection goes to the checked address (guard.h). docs/webhooks.md tells the receiver's side.
 *
 *     webhook_start(&options, &webhook, &error);
 *     webhook_begin(webhook, &error);           when there is something to post
 *     webhook_post(webhook, &deliveries);       they come back through options.done
 *     webhook_stop(webhook);
 *
 * Outcome    2xx is DONE. 410 is ENDED, so is a target that is no http or https URL. Any other
 *            is FAILED and carries its Retry-After. A status counts as
 *            soon as the headers are complete: what happens to the body after that changes nothing.
 * Attempts   An attempt is at most one request on the wire. When a kept connection is closed after
 *            the request was sent on it, the attempt has failed: the receiver may have read it.
 * Targets    A failing target is left alone for a while (targets.h): deliveries to it meanwhile
 *            come back at once as POSTPONED, with the time to wait.
 * Fairness   Up to connections_max deliveries are out at a time, the others wait in order of
 *            arrival. It is the caller's to bound how many of them go to one target, so that others
 *            have room.
 * Errors     Every delivery comes back with an outcome; nothing is dropped, not at stop either.
 * Threads    webhook_post from any thread. `done` is called from the webhook thread, with every
 *            delivery that ended in one turn of its loop; once more from within webhook_stop, when
 *            something was posted too late for the thread to see.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_H
#define TICKWHEEL_DELIVERY_WEBHOOK_H

#include "delivery/guard.h"
#include "delivery/named.h"
#include "delivery/targets.h"
#include "delivery/token_issuer.h"
#include "engine/delivery.h"

struct webhook_options {
    /* secrets for signatures_create; empty to send unsigned webhooks */
    const char *secrets;
    const struct guard *guard; /* addresses that may be called; borrowed until stop */
    struct targets *targets;   /* breakers of the targets; borrowed until stop */
    struct named *named;       /* named targets; borrowed until stop. NULL: none are posted */
    /* certificates to trust instead of the system's; NULL for the system's */
    const char *ca_file;
    struct token_issuer_options tokens; /* `issuer` is NULL if webhooks carry no tokens */
    const char *user_agent;
    /* value of ce-source in CloudEvents; NULL if webhooks are not CloudEvents */
    const char *event_source;
    /* URL of the API, by which receivers answer later; NULL if they cannot */
    const char *ack_url;
    uint32_t connections_max; /* maximum of open connections, and of deliveries in flight */
    uint64_t connect_timeout_ms;
    uint64_t connection_age_ms_max; /* age from which a connection takes no further request */
    /* maximum of requests over one connection; concurrent ones of HTTP/2 may exceed it */
    uint32_t connection_requests_max;
    /* maximum to read of an answer's body, including the framing of chunks. Beyond it the
     * connection is closed, and the status counts */
    uint64_t response_bytes_max;
    /* number of bytes of an answer's body to keep with the delivery; 0 keeps none */
    uint32_t answer_bytes;
    void (*done)(void *context,
                 struct list *deliveries); /* becomes the owner of the list of struct delivery */
    void *context;
};

struct webhook;

/* Copies the texts of `options`. Returns ERROR_INVALID for a wrong secret, ERROR_IO if libcurl or
 * the system fails. */
enum error_code webhook_start(const struct webhook_options *options, struct webhook **ret_webhook,
                              struct error *ret_error);

/* Starts the thread. Must be called once before the first webhook_post; after an error again. */
enum error_code webhook_begin(struct webhook *webhook, struct error *ret_error);

/* Takes the deliveries and empties the list. Does not wait. */
void webhook_post(struct webhook *webhook, struct list *deliveries);

/* Reads the files of certificates and of the keys of tokens again, and applies the secrets. Later
 * webhooks are signed with them and use new connections. On an error nothing changes. May be called
 * from any thread. */
enum error_code webhook_reload(struct webhook *webhook, const char *secrets, const char *ca_file,
                               const struct token_issuer_options *tokens, struct error *ret_error);

/* Appends the public keys of tokens as a JWK set. May be called from any thread. */
void webhook_append_key_set(struct webhook *webhook, struct buffer *out);

/* Ends the thread, if it was started. Aborts transfers in flight and begins no more deliveries. All
 * come back as FAILED before this returns. */
void webhook_stop(struct webhook *webhook);

/* Formats the id of a delivery, equal on every attempt: the timer's id and its due time. */
#define WEBHOOK_ID_SIZE 64
void webhook_id_format(const struct timer *timer, char ret_text[WEBHOOK_ID_SIZE]);

/* True if a timer's own headers must not have this name, in any letter case, because the service
 * sets that header or it would change the framing of the request. Creation refuses such a header;
 * delivery omits it. */
bool webhook_header_is_reserved(struct bytes name);

/* True for a token of RFC 9110, as in a header's name. */
bool webhook_header_is_name(struct bytes text);

#endif
