/*
 * oauth.h - tokens of OAuth 2.0 clients, fetched and kept by the webhook thread.
 *
 *     switch (oauth_find(oauth, tenant, &client, delivery, now, &answer)) {
 *     case OAUTH_READY:  send it with answer.token
 *     case OAUTH_WAITS:  the delivery comes back by options.ready or .failed
 *     case OAUTH_FAILED: answer.reason
 *
 * Of each client there is one request in flight, by libcurl's multi handle of the caller. A token
 * is used until a tenth of its life is left, at most a minute. After a failed request none is made
 * for a second; deliveries meanwhile get the same reason.
 *
 * Addresses  The guard checks the token endpoint's as those of webhooks.
 * Ownership  Tokens are kept in memory alone, and wiped. Texts of a client are borrowed for the
 *            call.
 * Threads    None: the webhook thread's own.
 */
#ifndef TICKWHEEL_DELIVERY_OAUTH_H
#define TICKWHEEL_DELIVERY_OAUTH_H

#include "delivery/oauth_message.h"
#include "delivery/webhook_transfer.h"

#define OAUTH_CLIENTS_MAX      1024  /* maximum of clients whose token is kept or fetched */
#define OAUTH_ANSWER_BYTES_MAX 65536 /* maximum of bytes of an answer's body */
#define OAUTH_TIMEOUT_MS_MAX   10000 /* time-out of a request for a token */

struct oauth_options {
    const struct webhook_settings *settings; /* borrowed */
    CURLM *multi;                            /* borrowed */
    /* Take the deliveries that waited: to be tried again, or failed. */
    void (*ready)(void *context, struct list *deliveries);
    void (*failed)(void *context, struct list *deliveries, const char *reason);
    void *context;
};

struct oauth;

/* Returns NULL if out of memory. */
struct oauth *oauth_create(const struct oauth_options *options);

/* Wipes the tokens. No delivery may wait: oauth_abort ends those that do. */
void oauth_destroy(struct oauth *oauth);

enum oauth_state { OAUTH_READY, OAUTH_WAITS, OAUTH_FAILED };

struct oauth_found {
    struct bytes token; /* valid until the next call */
    char reason[OAUTH_REASON_SIZE];
};

/* Finds the token of the tenant's client, or begins to fetch it and takes the delivery. */
enum oauth_state oauth_find(struct oauth *oauth, struct bytes tenant,
                            const struct oauth_client *client, struct delivery *delivery,
                            struct instant now, struct oauth_found *ret_found);

/* Drops the token, because the receiver has refused it. */
void oauth_refused(struct oauth *oauth, struct bytes tenant, const struct oauth_client *client);

/* Ends a request of this handle, which libcurl reports as finished. Returns false if the handle is
 * not one of `oauth`. */
bool oauth_end(struct oauth *oauth, CURL *easy, CURLcode result);

/* Ends all requests. Deliveries that wait go to options.failed. */
void oauth_abort(struct oauth *oauth, const char *reason);

#endif
