/*
 * access.h - authentication and authorization of a request: its tenant, scopes and rate.
 *
 * Without tokens every request belongs to the unnamed tenant and may do everything. With tokens a
 * request needs one in its Authorization header, with the scope of the route. It then acts for the
 * token's tenant, within the limits of that tenant.
 *
 * Time       Instants, passed in.
 * Ownership  A struct caller is a copy: it does not change when tokens are replaced.
 * Threads    Any.
 */
#ifndef TICKWHEEL_API_CORE_ACCESS_H
#define TICKWHEEL_API_CORE_ACCESS_H

#include "base/time.h"
#include "ops/tokens.h"
#include "timer/tenant.h"

/* The scope that a route needs. */
enum access_need {
    ACCESS_UNSAID, /* not set: no row of the table of routes may have it */
    ACCESS_OPEN,   /* no token */
    ACCESS_SCHEDULE = TOKEN_SCOPE_SCHEDULE << 8,
    ACCESS_READ = TOKEN_SCOPE_READ << 8,
    ACCESS_ADMIN = TOKEN_SCOPE_ADMIN << 8,
    ACCESS_METRICS = ACCESS_ADMIN | 1, /* as ACCESS_ADMIN; no token with metrics_access = open */
};

/* The scope that a need names, as tokens and documents write it; empty for none. */
static inline const char *access_need_word(enum access_need need)
{
    return token_scope_word((enum token_scope)(need >> 8));
}

struct caller {
    struct tenant_limits limits;
    unsigned scopes;      /* of the token; all of them without tokens */
    size_t index_;        /* index of the tenant when the token was checked */
    uint64_t generation_; /* of the tokens by which it was checked */
    enum access_need need_;
    uint8_t hash_[TOKEN_HASH_SIZE]; /* of the token */
    uint8_t tenant_size;            /* 0: the unnamed tenant */
    char tenant[TENANT_SIZE_MAX];
};

static inline struct bytes caller_tenant(const struct caller *caller)
{
    return (struct bytes){caller->tenant, caller->tenant_size};
}

/* The key by which it takes turns with others and holds shares. */
static inline uint64_t caller_key(const struct caller *caller)
{
    return tenant_key(caller_tenant(caller));
}

/* The smaller of a setting and of the tenant's limit, where 0 means no limit. */
static inline uint64_t caller_limit(uint64_t setting, uint64_t limit)
{
    return limit && limit < setting ? limit : setting;
}

static inline bool caller_may(const struct caller *caller, enum token_scope scope)
{
    return (caller->scopes & (unsigned)scope) != 0;
}

/* What the tokens file gives a tenant, and what its rate refused. */
struct access_tenant {
    struct bytes name; /* valid during the call; empty: the unnamed tenant */
    struct tenant_limits limits;
    uint64_t refused; /* requests and lines of batches, since the start */
};

struct access;

/* Takes the tokens; NULL: no tokens are configured. NULL when out of memory. */
struct access *access_create(struct tokens *tokens);
void access_destroy(struct access *access);

/* Replaces the tokens, and takes them unless out of memory. A tenant keeps its use of its rate.
 * Only for an access that was created with tokens. */
enum error_code access_replace(struct access *access, struct tokens *tokens);

/* Whether there are no tokens, now and later. */
bool access_is_open(const struct access *access);

/* Checks the Authorization header (data NULL: none) against a need. Returns UNAUTHENTICATED or
 * FORBIDDEN, which leave `ret_caller` untouched, or RATE_EXCEEDED with the time to wait. */
enum error_code access_check(struct access *access, struct bytes authorization,
                             enum access_need need, struct instant now, struct caller *ret_caller,
                             uint64_t *ret_wait_ns);

/* Checks the token of a caller again, if tokens were replaced since it was checked. Returns
 * UNAUTHENTICATED if it was removed or moved to another tenant, and FORBIDDEN if it lost the scope.
 * Otherwise the caller takes over the present scopes and limits of the token. */
enum error_code access_recheck(struct access *access, struct caller *caller);

/* Counts one more timer against the rate. RATE_EXCEEDED: over the rate now. */
enum error_code access_spend(struct access *access, const struct caller *caller,
                             struct instant now);

/* Tells of each tenant of the tokens file, under a lock: `tell` copies what it needs. */
void access_tell_tenants(struct access *access,
                         void (*tell)(void *context, const struct access_tenant *tenant),
                         void *context);

#endif
