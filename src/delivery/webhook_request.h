/*
 * webhook_request.h - the headers and the URL of one webhook, in memory that is used again for the
 * next.
 *
 * Ownership  The request owns the texts and the list; both are valid until the next build or
 *            deinit.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_REQUEST_H
#define TICKWHEEL_DELIVERY_WEBHOOK_REQUEST_H

#include "delivery/signature.h"
#include "engine/delivery.h"

#include <curl/curl.h>

struct webhook_request {
    struct buffer text_;         /* the header lines, each with its NUL */
    struct curl_slist *headers_; /* an array, each entry the next one's predecessor */
    size_t headers_capacity_, headers_count_;
    struct buffer url_;
};

static inline void webhook_request_init(struct webhook_request *request)
{
    *request = (struct webhook_request){0};
}

void webhook_request_deinit(struct webhook_request *request);

/* The header list of this attempt; `signature` may be NULL. Headers of the timer's own that are
 * reserved or malformed are left out. ERROR_NO_MEMORY. */
enum error_code webhook_request_build(struct webhook_request *request,
                                      const struct delivery *delivery, struct signature *signature,
                                      uint64_t now_s, struct curl_slist **ret_headers);

enum webhook_scheme {
    WEBHOOK_SCHEME_OTHER, /* not for us */
    WEBHOOK_SCHEME_HTTP,
    WEBHOOK_SCHEME_HTTPS,
};

/* The target as text for libcurl, without any user and password; NULL when it is no http or https
 * URL or out of memory, which ret_scheme tells apart. */
const char *webhook_request_url(struct webhook_request *request, struct bytes target,
                                enum webhook_scheme *ret_scheme);

#endif
