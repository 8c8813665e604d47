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
#include "delivery/targets.h"
#include "engine/delivery.h"

struct webhook_options {
    const char *secrets;       /* one or two "whsec_..." separated by a space; empty for unsigned */
    const struct guard *guard; /* addresses that may be called; borrowed until stop */
    struct targets *targets;   /* breakers of the targets; borrowed until stop */
    const char *ca_file;       /* certificates to trust exclusively; NULL for the system's */
    const char *user_agent;
    const char *event_source; /* ce-source of CloudEvents; NULL for none */
    uint32_t connections_max; /* maximum of open connections, and of deliveries in flight */
    uint64_t connect_timeout_ms;
    uint64_t connection_age_ms_max; /* age from which a connection takes no further request */
    /* maximum over one connection, except concurrent ones of HTTP/2 */
    uint32_t connection_requests_max;
    /* maximum read of an answer's body, with the framing of its chunks; then the connection is
     * closed, and the status counts */
    uint64_t response_bytes_max;
    uint32_t answer_bytes; /* bytes of an answer's body that a delivery keeps; 0 for none */
    void (*done)(void *context,
                 struct list *deliveries); /* takes the whole list of struct delivery */
    void *context;
};

struct webhook;

/* Copies the texts of `options`. ERROR_INVALID for a wrong secret, ERROR_IO if libcurl or the
 * system refuses. */
enum error_code webhook_start(const struct webhook_options *options, struct webhook **ret_webhook,
                              struct error *ret_error);

/* Starts the thread. Must be called once before the first webhook_post; after an error again. */
enum error_code webhook_begin(struct webhook *webhook, struct error *ret_error);

/* Takes the deliveries and empties the list. Does not wait. */
void webhook_post(struct webhook *webhook, struct list *deliveries);

/* Reads the file of certificates again, and applies the secrets. Later webhooks are signed with
 * them and use new connections. On an error nothing changes. May be called from any thread. */
enum error_code webhook_reload(struct webhook *webhook, const char *secrets, const char *ca_file,
                               struct error *ret_error);

/* Ends the thread, if it was started. Transfers in flight are aborted, waiting deliveries do not
 * begin, and all come back as FAILED before this returns. */
void webhook_stop(struct webhook *webhook);

/* Formats the id of a delivery, equal on every attempt: the timer's id and its due time. */
#define WEBHOOK_ID_SIZE 64
void webhook_id_format(const struct timer *timer, char ret_text[WEBHOOK_ID_SIZE]);

/* True if a timer's own headers must not have this name, in any letter case: it is the
 * service's, or would change the framing of the request. Creation refuses it; delivery omits it. */
bool webhook_header_is_reserved(struct bytes name);

#endif
