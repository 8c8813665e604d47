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
#include "engine/delivery.h"

#include <curl/curl.h>

struct webhook_request {
    struct buffer text_;         /* header lines, each with its \r\n */
    struct curl_slist *headers_; /* an array, each entry the predecessor of the next */
    size_t headers_capacity_, headers_count_;
};

static inline void webhook_request_init(struct webhook_request *request)
{
    *request = (struct webhook_request){0};
}

void webhook_request_deinit(struct webhook_request *request);

/* Settings for every request. */
struct webhook_envelope {
    struct signature *signature; /* NULL: unsigned */
    const char *event_source;    /* ce-source of CloudEvents; NULL for none */
    uint64_t now_s;
    struct trace_parent trace; /* trace of this attempt */
};

/* Makes the trace of one attempt, sampled unless the trace of the creating request is not. */
struct trace_parent webhook_request_trace(const struct timer *timer, struct random *high,
                                          struct random *low);

/* Builds the headers of this attempt. Reserved or malformed headers of the timer are omitted.
 * ERROR_NO_MEMORY. */
enum error_code webhook_request_build(struct webhook_request *request,
                                      const struct delivery *delivery,
                                      const struct webhook_envelope *envelope);

/* Returns "name: value\r\n" for each header. */
static inline struct bytes webhook_request_lines(const struct webhook_request *request)
{
    return buffer_bytes(&request->text_);
}

/* Returns the headers as a list for libcurl, with the one that disables its own "Expect". This
 * consumes the lines. Call it once. */
struct curl_slist *webhook_request_list(struct webhook_request *request);

/* The method of the timer's webhook. */
const char *webhook_request_method(const struct timer *timer);

/* Whether its request has a body: it has none with GET and DELETE. */
static inline bool webhook_request_has_body(const struct timer *timer)
{
    return webhook_request_method(timer)[0] == 'P';
}

/* True if the timer has an own header of this name that is sent. */
bool webhook_request_has_own(const struct timer *timer, const char *name);

#endif
