/*
 * access.h - who calls, and what they may.
 *
 * Without tokens everybody is the unnamed tenant and may do everything. With them each request
 * needs one, in its Authorization header, whose scopes fit the route; the caller is then its
 * tenant, within that tenant's limits.
 *
 * Time       Instants, as the caller passes them in.
 * Ownership  A caller is a copy: it stays what it was when tokens are replaced.
 * Threads    Any.
 */
#ifndef TICKWHEEL_API_CORE_ACCESS_H
#define TICKWHEEL_API_CORE_ACCESS_H

#include "base/time.h"
#include "ops/tokens.h"

/* What a route asks of its caller. */
enum access_need {
    ACCESS_UNSAID, /* none of the table */
    ACCESS_OPEN,   /* nothing: also without a token */
    ACCESS_SCHEDULE = TOKEN_SCOPE_SCHEDULE << 8,
    ACCESS_READ = TOKEN_SCOPE_READ << 8,
    ACCESS_ADMIN = TOKEN_SCOPE_ADMIN << 8,
};

struct caller {
    struct tenant_limits limits;
    size_t index_;       /* where the tenant stood among the tokens */
    uint8_t tenant_size; /* 0: the unnamed tenant */
    char tenant[TENANT_SIZE_MAX];
};

static inline struct bytes caller_tenant(const struct caller *caller)
{
    return (struct bytes){caller->tenant, caller->tenant_size};
}

/* The smaller of a setting and of what the tenant is limited to; 0 there is no limit. */
static inline uint64_t caller_limit(uint64_t setting, uint64_t limit)
{
    return limit && limit < setting ? limit : setting;
}

struct access;

/* Takes the tokens; NULL: there are none. NULL when out of memory. */
struct access *access_create(struct tokens *tokens);
void access_destroy(struct access *access);

/* From now on these count. Takes them, unless out of memory; what tenants have spent of their rates
 * is remembered. For an access that began with tokens. */
enum error_code access_replace(struct access *access, struct tokens *tokens);

/* Whether the request with this Authorization header (data NULL: none) may do what needs that.
 * UNAUTHENTICATED, FORBIDDEN, or TOO_MANY with how long to wait; then `ret_caller` is untouched. */
enum error_code access_check(struct access *access, struct bytes authorization,
                             enum access_need need, struct instant now, struct caller *ret_caller,
                             uint64_t *ret_wait_ns);

/* One more of what the rate counts. TOO_MANY: not now. */
enum error_code access_spend(struct access *access, const struct caller *caller,
                             struct instant now);

#endif
