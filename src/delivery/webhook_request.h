/*
 * webhook_request.h - the headers of one webhook, in memory that is used again for the
 * next.
 *
 *     webhook_request_build(&request, delivery, &envelope)
 *     webhook_request_lines(&request)    as they are sent, or
 *     webhook_request_list(&request)     as libcurl takes them
 *
 * Ownership  The request owns the texts and the list; both are valid until the next build or
 *            deinit.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_REQUEST_H
#define TICKWHEEL_DELIVERY_WEBHOOK_REQUEST_H

#include "base/trace.h"
#include "delivery/signature.h"
#include "delivery/token_issuer.h"
#include "engine/delivery.h"

#include <curl/curl.h>

struct webhook_request {
    struct buffer text_;         /* header lines, each with its \r\n */
    struct curl_slist *headers_; /* an array, each entry the predecessor of the next */
    size_t headers_capacity_, headers_count_;
    struct bytes secrets_[2]; /* in `text_`: the token, and the end of the ack URL; or empty */
};

/* Hides the token and the secret of the ack URL in the answer of the delivery. */
void webhook_request_hide(const struct webhook_request *request, struct delivery *delivery);

static inline void webhook_request_init(struct webhook_request *request)
{
    *request = (struct webhook_request){0};
}

void webhook_request_deinit(struct webhook_request *request);

/* What the headers contain besides those of the timer. */
struct webhook_envelope {
    struct signature *signature; /* NULL if webhooks are not signed */
    struct token_issuer *issuer; /* NULL if webhooks carry no tokens */
    struct bytes bearer;         /* a token to carry instead; empty for none */
    struct bytes audience;       /* audience of the issuer's token; empty for the target's origin */
    const char *event_source;    /* ce-source of CloudEvents; NULL for none */
    const char *ack_url;         /* URL of the API, if the delivery has a token; otherwise NULL */
    uint64_t now_s;
    struct trace_parent trace; /* trace id and span id of this attempt */
};

/* Returns the trace of one attempt: that of the delivery, or else a new one, which is sampled
 * unless the creation of the timer was not. */
struct trace_parent webhook_request_trace(const struct delivery *delivery, struct random *high,
                                          struct random *low);

/* Gives the delivery a new token for a later answer. Returns ERROR_IO if the system gives no
 * entropy. */
enum error_code webhook_request_make_token(struct delivery *delivery);

/* Builds the headers of an attempt. Omits reserved and malformed headers of the timer. Returns
 * ERROR_NO_MEMORY if memory is out. */
enum error_code webhook_request_build(struct webhook_request *request,
                                      const struct delivery *delivery,
                                      const struct webhook_envelope *envelope);

/* Returns "name: value\r\n" for each header. */
static inline struct bytes webhook_request_lines(const struct webhook_request *request)
{
    return buffer_bytes(&request->text_);
}

/* Returns the headers as a list for libcurl, plus one that disables libcurl's "Expect". The lines
 * are used up by this, so it can be called only once. */
struct curl_slist *webhook_request_list(struct webhook_request *request);

/* Returns the HTTP method of the timer's webhook. */
const char *webhook_request_method(const struct timer *timer);

/* True if the request has a body; with GET and DELETE it has none. */
static inline bool webhook_request_has_body(const struct timer *timer)
{
    return webhook_request_method(timer)[0] == 'P';
}

/* True if the timer has a header of this name that is sent. */
bool webhook_request_has_own(const struct timer *timer, const char *name);

#endif
