/*
 * guard.h - which network addresses a delivery may go to (protection against server-side request
 * forgery).
 *
 * Refused unless a named network allows it: loopback, private, link-local, unique-local,
 * carrier-grade NAT, multicast, broadcast, unspecified, documentation, benchmarking, reserved and
 * cloud metadata addresses, for IPv4 and IPv6, and an IPv6 address that embeds such an IPv4 address
 * (mapped, compatible, 6to4, NAT64, Teredo, ISATAP).
 *
 *     guard_init(&guard, "10.0.0.0/8, ::1", &error);
 *     if (guard_refusal(&guard, address)) refuse();
 *
 * Time       None.
 * Errors     Only guard_init can fail. What cannot be understood is refused.
 * Ownership  The guard is the caller's memory and holds no other.
 * Threads    Immutable after guard_init: any.
 */
#ifndef TICKWHEEL_DELIVERY_GUARD_H
#define TICKWHEEL_DELIVERY_GUARD_H

#include "base/bytes.h"
#include "base/error.h"

#include <sys/socket.h>

#define GUARD_NETWORKS_MAX 64

struct guard_network {
    uint8_t address[16]; /* IPv4 addresses are stored as IPv4-mapped */
    uint8_t prefix_bits; /* 0 .. 128 */
};

struct guard {
    struct guard_network allowed[GUARD_NETWORKS_MAX];
    size_t allowed_count;
};

/* Parses `allow`: networks separated by commas or spaces ("127.0.0.0/8, ::1/128"), possibly none.
 * An address without a prefix is a network of one address. Bits beyond the prefix are an error. An
 * IPv4 network also allows the mapped, tunnelled and translated forms of its addresses; an IPv6
 * network never allows an IPv4 address. ERROR_INVALID names the wrong part. */
enum error_code guard_init(struct guard *ret_guard, const char *allow, struct error *ret_error);

/* Returns NULL if the address is allowed; otherwise its kind, for people: "loopback", "private",
 * "cloud metadata". Never the address itself. */
const char *guard_refusal(const struct guard *guard, const struct sockaddr *address);

/* True if the host of a new target is allowed. An address, in any spelling that a resolver accepts
 * (dotted, decimal, octal, hex, short, bracketed IPv6 with zone), must be allowed. A name is
 * accepted here and checked at connect; "localhost" and names below it count as loopback. A text
 * that is no host, and a number that is no address, are refused. */
bool guard_allows_host(const struct guard *guard, struct bytes host);

#endif
