/*
 * sensitive_headers.h - the headers of timers whose values are secrets: they are stored and sent,
 * and shown as "***" (docs/security.md).
 *
 * Threads    None; a pure function.
 */
#ifndef TICKWHEEL_TIMER_SENSITIVE_HEADERS_H
#define TICKWHEEL_TIMER_SENSITIVE_HEADERS_H

#include "base/bytes.h"

#define HEADER_MASK "***" /* what is shown instead of a value */

/* True for authorization, cookie, proxy-authorization, x-api-key, and the names of the list `more`,
 * which are separated by commas or blanks; in any letter case. */
bool header_is_sensitive(struct bytes name, struct bytes more);

#endif
