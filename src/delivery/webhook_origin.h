/*
 * webhook_origin.h - the origins of plain http targets: the idle connections to each, and the
 * addresses of their names.
 *
 * A name is resolved by libcurl, which then teaches the address that it connected to
 * (webhook_origins_learn). It is good for WEBHOOK_ADDRESS_MS_MAX.
 *
 * Ownership  The table owns the origins. An origin lives while it has a connection or an address.
 * Threads    None: the webhook thread's own.
 */
#ifndef TICKWHEEL_DELIVERY_WEBHOOK_ORIGIN_H
#define TICKWHEEL_DELIVERY_WEBHOOK_ORIGIN_H

#include "base/list.h"
#include "base/map.h"
#include "timer/timer.h"

#include <sys/socket.h>

#define WEBHOOK_ADDRESS_MS_MAX 30000

struct webhook_origin {
    struct list idle; /* its idle connections; for the caller */
    size_t connection_count;
    struct sockaddr_storage address; /* valid while it is fresh */
    struct list link_;               /* in `learnt_`, or alone */
    struct instant learnt_at_;
    uint64_t key_;
    struct bytes text_; /* "http://host:port", stored after this struct */
};

struct webhook_origins {
    struct map map_;     /* key -> webhook_origin */
    uint64_t seed_;      /* seed of the keys */
    struct list learnt_; /* origins with an address, oldest first */
    size_t learnt_count_, learnt_count_max_;
};

/* Initializes for at most `learnt_count_max` addresses. ERROR_IO without entropy. */
enum error_code webhook_origins_init(struct webhook_origins *origins, size_t learnt_count_max);
void webhook_origins_deinit(struct webhook_origins *origins);

/* Returns NULL if it has neither connection nor address. */
struct webhook_origin *webhook_origin_find(const struct webhook_origins *origins,
                                           const struct timer *timer);

/* Returns the origin, and makes it if needed. The caller adds a connection to it, or releases
 * it. NULL if out of memory, or if another origin has its hash. */
struct webhook_origin *webhook_origin_get(struct webhook_origins *origins,
                                          const struct timer *timer);

/* Frees the origin unless it has a connection or an address. */
void webhook_origin_release(struct webhook_origins *origins, struct webhook_origin *origin);

/* True if `address` was learnt and has not expired. */
bool webhook_origin_is_fresh(const struct webhook_origin *origin, struct instant now);

/* Drops the address, which may free the origin. */
void webhook_origin_unlearn(struct webhook_origins *origins, struct webhook_origin *origin);

/* Notes that the timer's target was found at this numeric address. */
void webhook_origins_learn(struct webhook_origins *origins, const struct timer *timer,
                           const char *address, struct instant now);

/* Drops expired addresses. */
void webhook_origins_expire(struct webhook_origins *origins, struct instant now);

/* Returns the address that the host of an http target is. False if it is a name, or a number in
 * another spelling than libcurl's, which would change the Host header. */
bool webhook_target_address(const struct timer *timer, struct sockaddr_storage *ret_address);

/* True if the target is plain http with a name, whose address can be learnt. */
bool webhook_target_is_named(const struct timer *timer);

#endif
