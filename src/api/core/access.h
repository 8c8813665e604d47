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

/* Scope that a route needs. */
enum access_need {
    ACCESS_UNSAID, /* unset: no row of the table of routes may have it */
    ACCESS_OPEN,   /* no token */
    ACCESS_SCHEDULE = TOKEN_SCOPE_SCHEDULE << 8,
    ACCESS_READ = TOKEN_SCOPE_READ << 8,
    ACCESS_ADMIN = TOKEN_SCOPE_ADMIN << 8,
    ACCESS_METRICS = ACCESS_ADMIN | 1, /* like ACCESS_ADMIN; no token with metrics_access = open */
};

/* Returns the name of the scope in tokens and documents; empty for none. */
static inline const char *access_need_word(enum access_need need)
{
    return token_scope_word((enum token_scope)(need >> 8));
}

struct caller {
    struct tenant_limits limits;
    unsigned scopes;      /* of the token; all without tokens */
    bool hides_payload;   /* of the tenant */
    size_t index_;        /* index of the tenant when the token was checked */
    uint64_t generation_; /* generation of the tokens when it was checked */
    enum access_need need_;
    uint8_t hash_[TOKEN_HASH_SIZE]; /* hash of the token */
    uint8_t tenant_size;            /* 0 for the unnamed tenant */
    char tenant[TENANT_SIZE_MAX];
};

static inline struct bytes caller_tenant(const struct caller *caller)
{
    return (struct bytes){caller->tenant, caller->tenant_size};
}

/* Returns the key by which it takes turns and has shares. */
static inline uint64_t caller_key(const struct caller *caller)
{
    return tenant_key(caller_tenant(caller));
}

/* Returns the smaller of a setting and the tenant's limit; 0 means unlimited. */
static inline uint64_t caller_limit(uint64_t setting, uint64_t limit)
{
    return limit && limit < setting ? limit : setting;
}

static inline bool caller_may(const struct caller *caller, enum token_scope scope)
{
    return (caller->scopes & (unsigned)scope) != 0;
}

/* A tenant of the tokens file, and what its rate refused. */
struct access_tenant {
    struct bytes name; /* valid during the call; empty for the unnamed tenant */
    struct tenant_limits limits;
    uint64_t refused; /* refused requests and lines of batches since the start */
};

struct access;

/* Makes it with these tokens, which it takes; NULL if none are configured. Returns NULL if out
 * of memory. */
struct access *access_create(struct tokens *tokens);
void access_destroy(struct access *access);

/* Replaces the tokens, and takes them unless out of memory. Tenants keep the state of their
 * rates. Only if it was created with tokens. */
enum error_code access_replace(struct access *access, struct tokens *tokens);

/* True if there are no tokens, now and later. */
bool access_is_open(const struct access *access);

/* Checks the Authorization header (data NULL if missing) against a need. Returns UNAUTHENTICATED
 * or FORBIDDEN, with `ret_caller` untouched, or RATE_EXCEEDED with the time to wait. */
enum error_code access_check(struct access *access, struct bytes authorization,
                             enum access_need need, struct instant now, struct caller *ret_caller,
                             uint64_t *ret_wait_ns);

/* Checks a caller's token again if tokens were replaced. Returns UNAUTHENTICATED if it was
 * removed or belongs to another tenant now, FORBIDDEN if it lost the scope. Otherwise the caller
 * gets the token's present scopes and limits. */
enum error_code access_recheck(struct access *access, struct caller *caller);

/* Counts one more timer against the rate. RATE_EXCEEDED if it exceeds the rate. */
enum error_code access_spend(struct access *access, const struct caller *caller,
                             struct instant now);

/* Calls `tell` for each tenant of the tokens file, under a lock: `tell` copies what it needs. */
void access_tell_tenants(struct access *access,
                         void (*tell)(void *context, const struct access_tenant *tenant),
                         void *context);

#endif
