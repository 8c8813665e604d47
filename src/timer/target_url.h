/*
 * target_url.h - whether a timer's target is a URL that this version can call.
 *
 * The syntax is RFC 3986, narrowed to what no two parsers read differently: http or https, a host
 * that is a name, an IPv4 address or an IPv6 address in brackets, a port of 1 to 65535, no user, no
 * fragment, and only characters that a URL may hold. Or a queue (timer/queue_target.h), which has
 * no host.
 *
 * Threads    Any.
 */
#ifndef TICKWHEEL_TIMER_TARGET_URL_H
#define TICKWHEEL_TIMER_TARGET_URL_H

#include "base/bytes.h"
#include "base/error.h"

/* On success `ret_host` is the host as it is written, an IPv6 address with its brackets; empty for
 * a queue. ERROR_INVALID with the reason in `ret_error`. */
enum error_code target_url_check(struct bytes url, struct bytes *ret_host, struct error *ret_error);

#endif
