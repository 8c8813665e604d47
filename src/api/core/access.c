/*
 * access.c - checks tokens and scopes, and limits the rate of each tenant.
 *
 * The rate limit is a token bucket in its form as a schedule (GCRA, ITU-T I.371). It keeps one
 * number for each tenant: the time at which its bucket is full again. A request moves that time on
 * by 1/rate; it may lie at most the bucket's depth ahead of now. One number needs no lock.
 */
#include "api/core/access.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>

#define NS_PER_S UINT64_C(1000000000)

/* Use of a tenant's rate. */
struct access_use {
    _Atomic uint64_t full_ns; /* time at which its bucket is full */
    _Atomic uint64_t refused;
};

struct access {
    bool is_open; /* without tokens: each caller may do everything */
    pthread_rwlock_t lock;
    struct tokens *tokens;       /* guarded by lock; NULL if is_open */
    struct access_use *uses;     /* by tenant; the array is guarded by lock */
    _Atomic uint64_t generation; /* generation of the tokens; changed under the lock */
};

static struct access_use *access_create_uses(const struct tokens *tokens)
{
    return calloc(tokens ? tokens->tenant_count + 1 : 1, sizeof(struct access_use));
}

struct access *access_create(struct tokens *tokens)
{
    struct access *access = calloc(1, sizeof(*access));

    if (!access)
        return NULL;
    access->uses = access_create_uses(tokens);
    if (!access->uses) {
        free(access);
        return NULL;
    }
    access->tokens = tokens;
    access->is_open = !tokens;
    pthread_rwlock_init(&access->lock, NULL);
    return access;
}

void access_destroy(struct access *access)
{
    if (!access)
        return;
    pthread_rwlock_destroy(&access->lock);
    tokens_free(access->tokens);
    free(access->uses);
    free(access);
}

bool access_is_open(const struct access *access)
{
    return access->is_open;
}

/* Returns the index of a tenant, tried first at `hint`; tenant_count if there is none. The
 * caller holds the lock. */
static size_t access_tenant_index(const struct tokens *tokens, struct bytes name, size_t hint)
{
    if (hint < tokens->tenant_count && bytes_equal(token_tenant_name(&tokens->tenants[hint]), name))
        return hint;
    size_t i = 0;
    while (i < tokens->tenant_count && !bytes_equal(token_tenant_name(&tokens->tenants[i]), name))
        i++;
    return i;
}

enum error_code access_replace(struct access *access, struct tokens *tokens)
{
    struct access_use *uses = access_create_uses(tokens);

    if (!uses)
        return ERROR_NO_MEMORY;
    pthread_rwlock_wrlock(&access->lock);
    struct tokens *old = access->tokens;
    struct access_use *old_uses = access->uses;
    for (size_t i = 0; i < tokens->tenant_count; i++) {
        size_t before = access_tenant_index(old, token_tenant_name(&tokens->tenants[i]), i);

        if (before < old->tenant_count)
            uses[i] = old_uses[before];
    }
    access->tokens = tokens;
    access->uses = uses;
    atomic_fetch_add(&access->generation, 1);
    pthread_rwlock_unlock(&access->lock);
    tokens_free(old);
    free(old_uses);
    return ERROR_NONE;
}

/* Takes one request from the bucket. Returns 0, or the time to wait until there is room. */
static uint64_t access_use_spend(struct access_use *use, const struct tenant_limits *limits,
                                 uint64_t now_ns)
{
    const uint64_t drop_ns = limits->rate ? NS_PER_S / limits->rate : 0;
    const uint64_t depth = limits->burst ? limits->burst : limits->rate;
    uint64_t before = atomic_load_explicit(&use->full_ns, memory_order_relaxed);

    if (!limits->rate)
        return 0;
    uint64_t after;
    do {
        after = (before > now_ns ? before : now_ns) + drop_ns;
        if (after - now_ns > depth * drop_ns) {
            atomic_fetch_add_explicit(&use->refused, 1, memory_order_relaxed);
            return after - now_ns - depth * drop_ns;
        }
    } while (!atomic_compare_exchange_weak(&use->full_ns, &before, after));
    return 0;
}

/* Returns the token after "Bearer", in any letter case; data is NULL for another scheme. */
static struct bytes access_bearer_of(struct bytes field)
{
    static const struct bytes scheme = {"bearer", 6};
    size_t at = scheme.size;

    if (field.size <= at || strncasecmp(field.data, scheme.data, scheme.size) != 0 ||
        field.data[at] != ' ')
        return (struct bytes){0};
    while (at < field.size && field.data[at] == ' ')
        at++;
    return (struct bytes){field.data + at, field.size - at};
}

static void access_caller_set(struct access *access, const struct token *token,
                              enum access_need need, struct caller *ret_caller)
{
    const struct token_tenant *tenant = &access->tokens->tenants[token->tenant];

    *ret_caller = (struct caller){.limits = tenant->limits,
                                  .hides_payload = tenant->hides_payload,
                                  .scopes = token->scopes,
                                  .index_ = token->tenant,
                                  .generation_ = atomic_load(&access->generation),
                                  .need_ = need,
                                  .tenant_size = tenant->name_size};
    memcpy(ret_caller->hash_, token->hash, TOKEN_HASH_SIZE);
    memcpy(ret_caller->tenant, tenant->name, tenant->name_size);
}

static enum error_code access_check_locked(struct access *access, struct bytes authorization,
                                           enum access_need need, struct instant now,
                                           struct caller *ret_caller, uint64_t *ret_wait_ns)
{
    struct bytes text = access_bearer_of(authorization);
    const struct token *token = text.size ? tokens_find(access->tokens, text) : NULL;

    if (!token)
        return ERROR_UNAUTHENTICATED;
    if (!(token->scopes & (unsigned)need >> 8))
        return ERROR_FORBIDDEN;
    const struct token_tenant *tenant = &access->tokens->tenants[token->tenant];
    access_caller_set(access, token, need, ret_caller);
    *ret_wait_ns = access_use_spend(&access->uses[token->tenant], &tenant->limits, now.ns);
    return *ret_wait_ns ? ERROR_RATE_EXCEEDED : ERROR_NONE;
}

enum error_code access_check(struct access *access, struct bytes authorization,
                             enum access_need need, struct instant now, struct caller *ret_caller,
                             uint64_t *ret_wait_ns)
{
    if (need == ACCESS_OPEN || access->is_open) {
        *ret_caller = (struct caller){.scopes = access->is_open ? ~0u : 0};
        return ERROR_NONE;
    }
    pthread_rwlock_rdlock(&access->lock);
    enum error_code error =
        access_check_locked(access, authorization, need, now, ret_caller, ret_wait_ns);
    pthread_rwlock_unlock(&access->lock);
    return error;
}

enum error_code access_recheck(struct access *access, struct caller *caller)
{
    enum error_code error = ERROR_NONE;

    if (access->is_open || !caller->need_ || /* it needed no token */
        caller->generation_ == atomic_load(&access->generation))
        return ERROR_NONE;
    pthread_rwlock_rdlock(&access->lock);
    const struct token *token = tokens_find_hash(access->tokens, caller->hash_);
    if (!token || !bytes_equal(token_tenant_name(&access->tokens->tenants[token->tenant]),
                               caller_tenant(caller)))
        error = ERROR_UNAUTHENTICATED;
    else if (!(token->scopes & (unsigned)caller->need_ >> 8))
        error = ERROR_FORBIDDEN;
    else
        access_caller_set(access, token, caller->need_, caller);
    pthread_rwlock_unlock(&access->lock);
    return error;
}

enum error_code access_spend(struct access *access, const struct caller *caller, struct instant now)
{
    if (!caller->limits.rate)
        return ERROR_NONE;
    pthread_rwlock_rdlock(&access->lock);
    size_t tenant = access_tenant_index(access->tokens, caller_tenant(caller), caller->index_);
    uint64_t wait_ns = 0;
    if (tenant < access->tokens->tenant_count)
        wait_ns = access_use_spend(&access->uses[tenant], &caller->limits, now.ns);
    pthread_rwlock_unlock(&access->lock);
    return wait_ns ? ERROR_RATE_EXCEEDED : ERROR_NONE;
}

void access_tell_tenants(struct access *access,
                         void (*tell)(void *context, const struct access_tenant *tenant),
                         void *context)
{
    pthread_rwlock_rdlock(&access->lock);
    const struct tokens *tokens = access->tokens;
    for (size_t i = 0; tokens && i < tokens->tenant_count; i++) {
        const struct access_tenant tenant = {
            .name = token_tenant_name(&tokens->tenants[i]),
            .limits = tokens->tenants[i].limits,
            .refused = atomic_load_explicit(&access->uses[i].refused, memory_order_relaxed),
        };

        tell(context, &tenant);
    }
    pthread_rwlock_unlock(&access->lock);
}
