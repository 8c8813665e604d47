/*
 * guard_host.h - reads an address out of a URL's host as a resolver would, however it is spelled.
 *
 * Accepts what inet_aton, getaddrinfo and libcurl accept between them: one to four numbers,
 * decimal, octal or hex; brackets, zones, trailing dots, percent-encoding, upper case, and the
 * Unicode characters that IDNA folds into ASCII digits, letters and dots.
 *
 * Threads    Any: no state.
 */
#ifndef TICKWHEEL_DELIVERY_GUARD_HOST_H
#define TICKWHEEL_DELIVERY_GUARD_HOST_H

#include "base/bytes.h"

enum guard_host {
    GUARD_HOST_NAME,      /* a name, which must be resolved */
    GUARD_HOST_ADDRESS,   /* an address, stored in ret_address */
    GUARD_HOST_LOCALHOST, /* a name that always means loopback */
    GUARD_HOST_INVALID,   /* neither a name nor an address; also a number that is no address */
};

/* Parses a host. `ret_address` is set if it is an address; an IPv4 address is stored as IPv4-mapped
 * IPv6. */
enum guard_host guard_host_parse(struct bytes host, uint8_t ret_address[16]);

#endif
