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
    struct buffer text_;         /* the header lines, each with the \r\n that ends it */
    struct curl_slist *headers_; /* an array, each entry the next one's predecessor */
    size_t headers_capacity_, headers_count_;
};

static inline void webhook_request_init(struct webhook_request *request)
{
    *request = (struct webhook_request){0};
}

void webhook_request_deinit(struct webhook_request *request);

/* What goes around every payload. */
struct webhook_envelope {
    struct signature *signature; /* NULL: unsigned */
    const char *event_source;    /* the ce-source of CloudEvents; NULL: no CloudEvents */
    uint64_t now_s;
    struct trace_parent trace; /* of this attempt */
};

/* The trace of one attempt: a new one, sampled unless the request that made the timer said that its
 * own is not. */
struct trace_parent webhook_request_trace(const struct timer *timer, struct random *high,
                                          struct random *low);

/* Builds the headers of this attempt. Headers of the timer's own that are reserved or malformed are
 * left out. ERROR_NO_MEMORY. */
enum error_code webhook_request_build(struct webhook_request *request,
                                      const struct delivery *delivery,
                                      const struct webhook_envelope *envelope);

/* "name: value\r\n" for each header. */
static inline struct bytes webhook_request_lines(const struct webhook_request *request)
{
    return buffer_bytes(&request->text_);
}

/* The headers as a list for libcurl, with the one that switches its own "Expect" off. The lines are
 * gone with it. Not twice. */
struct curl_slist *webhook_request_list(struct webhook_request *request);

/* Whether the timer has such a header of its own, one that is sent. */
bool webhook_request_has_own(const struct timer *timer, const char *name);

#endif
