/*
 * webhook_origin.h - the origins of plain http targets: the idle connections to each, and the
 * addresses of their names.
 *
 * libcurl resolves a name. The address that it connected to is stored (webhook_origins_learn), and
 * used for WEBHOOK_ADDRESS_MS_MAX.
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
    struct list idle; /* idle connections to the origin; managed by the caller */
    size_t connection_count;
    struct sockaddr_storage address; /* valid while webhook_origin_is_fresh */
    struct list link_;               /* in `learnt_`, or in no list */
    struct instant learnt_at_;
    uint64_t key_;
    struct bytes text_; /* "http://host:port", stored after this struct */
};

struct webhook_origins {
    struct map map_;     /* key -> webhook_origin */
    uint64_t seed_;      /* secret seed of the hashes */
    struct list learnt_; /* origins with an address, oldest first */
    size_t learnt_count_, learnt_count_max_;
};

/* Initializes a table for at most `learnt_count_max` addresses. Returns ERROR_IO if the system has
 * no entropy. */
enum error_code webhook_origins_init(struct webhook_origins *origins, size_t learnt_count_max);
void webhook_origins_deinit(struct webhook_origins *origins);

/* Returns the origin of the timer's target; NULL if it has neither a connection nor an address. */
struct webhook_origin *webhook_origin_find(const struct webhook_origins *origins,
                                           const struct timer *timer);

/* Returns the origin, and makes it if needed. The caller then adds a connection to it, or releases
 * it. Returns NULL if out of memory, or if another origin has the same hash. */
struct webhook_origin *webhook_origin_get(struct webhook_origins *origins,
                                          const struct timer *timer);

/* Frees the origin if it has neither a connection nor an address. */
void webhook_origin_release(struct webhook_origins *origins, struct webhook_origin *origin);

/* True if `address` was learnt and has not expired. */
bool webhook_origin_is_fresh(const struct webhook_origin *origin, struct instant now);

/* Drops the address, which may free the origin. */
void webhook_origin_unlearn(struct webhook_origins *origins, struct webhook_origin *origin);

/* Stores that the timer's target was reached at this numeric address. */
void webhook_origins_learn(struct webhook_origins *origins, const struct timer *timer,
                           const char *address, struct instant now);

/* Drops expired addresses. */
void webhook_origins_expire(struct webhook_origins *origins, struct instant now);

/* Returns the address in the URL of an http target. False if its host is a name, or a number that
 * libcurl would spell differently in the Host header. */
bool webhook_target_address(const struct timer *timer, struct sockaddr_storage *ret_address);

/* True if the target is plain http and its host is a name, whose address can be learned. */
bool webhook_target_is_named(const struct timer *timer);

#endif
