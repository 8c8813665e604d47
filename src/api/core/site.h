/*
 * site.h - protects the API from web pages: of which site a request may be.
 *
 * A browser lets any page send requests to any address, the loopback included. Two checks stop it:
 *
 *   host      A page can rebind its name to this server's address, and is then of one origin with
 *             it. Its requests still name it as their Host. Tokens stop such a page as well, so
 *             only a server without tokens looks at Host.
 *   origin    A page of another origin can send what changes something, although it cannot read the
 *             answer. Browsers say in Sec-Fetch-Site and Origin where such a request comes from;
 *             clients that are no browsers send neither, and are not concerned.
 *
 * Threads    Any: no state.
 */
#ifndef TICKWHEEL_API_CORE_SITE_H
#define TICKWHEEL_API_CORE_SITE_H

#include "base/bytes.h"
#include "ops/config.h"

/* Parts of a head for the checks; data is NULL for a missing one. A repeated header is given as
 * empty, which passes no check. */
struct site_request {
    struct bytes method;
    struct bytes host;
    struct bytes authority; /* authority of the request target, if it has a scheme; replaces Host */
    struct bytes origin;
    struct bytes fetch_site; /* Sec-Fetch-Site */
};

/* True if the request names this server: a loopback name, the listening address (any address if
 * that is 0.0.0.0 or ::) or one of allowed_hosts; with any port, because a port may be
 * forwarded. A request without Host and authority passes, because browsers send them. */
bool site_is_ours(const struct config *config, const struct site_request *request);

/* True if the request changes something and comes from a page of another origin that is not one
 * of allowed_origins. */
bool site_is_foreign(const struct config *config, const struct site_request *request);

/* Checks allowed_hosts and allowed_origins. INVALID names the setting. */
enum error_code site_check_settings(const struct config *config, struct error *ret_error);

#endif
