/*
 * tokens.h - the tokens file: tokens with their scopes, and the limits of each tenant.
 *
 *     # a comment
 *     token shop schedule,read sha256:9f86d081...0f00a08
 *     limit shop pending_max=1000000 rate=500 burst=1000 body_bytes_max=1M
 *     hide shop payload
 *
 * The tenant "-" is the unnamed tenant, which owns the timers made without tokens.
 *
 * A token is 256 random bits, so its SHA-256 gives nothing away and need not be slow. It is never
 * stored, so that a reader of the file cannot call.
 *
 * Errors     ERROR_INVALID with the file and the line; the line's text is not repeated, for it may
 *            hold a token that was put there by mistake.
 * Threads    Immutable once parsed: any.
 */
#ifndef TICKWHEEL_OPS_TOKENS_H
#define TICKWHEEL_OPS_TOKENS_H

#include "base/error.h"
#include "timer/tenant.h"

/* maximum number, because each request is compared with every token */
#define TOKENS_MAX           4096
#define TOKENS_FILE_SIZE_MAX (1 << 20)
#define TOKEN_HASH_SIZE      32
#define TOKEN_TEXT_SIZE      47 /* "tw_", 43 characters of A-Z a-z 0-9 - _, and the NUL */

/* X(name, word): a scope, which says what a token allows; none includes another. */
#define TOKEN_SCOPE_LIST(X)                                                    \
    X(SCHEDULE, "schedule") /* make, change and end timers; work on queues */  \
    X(READ, "read")         /* see timers */                                   \
    X(ADMIN, "admin")       /* see what concerns the daemon and all tenants */ \
    X(PAYLOAD, "payload")   /* see sensitive headers; allows no call by itself */

enum token_scope {
#define X(name, word) TOKEN_SCOPE_BIT_##name,
    TOKEN_SCOPE_LIST(X)
#undef X
        TOKEN_SCOPE_COUNT,
#define X(name, word) TOKEN_SCOPE_##name = 1 << TOKEN_SCOPE_BIT_##name,
    TOKEN_SCOPE_LIST(X)
#undef X
};

/* X(name, least, most, help): a limit that can be set for each tenant; 0 means no limit. */
#define TENANT_LIMIT_LIST(X)                                                                      \
    X(pending_max, 1, UINT64_MAX / 2) /* live timers */                                           \
    X(rate, 1, 1000000)               /* requests, and lines of batches, a second */              \
    X(burst, 1, 1000000)              /* of them at once, after a pause; default: one second's */ \
    X(body_bytes_max, 1, UINT64_C(1) << 40)  /* of one request, or one line of a batch */         \
    X(batch_bytes_max, 1, UINT64_C(1) << 50) /* of one batch */

struct tenant_limits {
#define X(name, least, most) uint64_t name;
    TENANT_LIMIT_LIST(X)
#undef X
};

struct token {
    uint8_t hash[TOKEN_HASH_SIZE];
    unsigned scopes; /* bits of enum token_scope */
    size_t tenant;   /* index in tokens.tenants */
};

struct token_tenant {
    char name[TENANT_SIZE_MAX];
    uint8_t name_size; /* 0 for the unnamed tenant */
    bool has_limits;   /* a line of the file sets limits for the tenant */
    bool has_token;
    bool hides_payload; /* payloads are hidden from tokens without scope payload */
    struct tenant_limits limits;
};

struct tokens {
    struct token *tokens;
    size_t count;
    struct token_tenant *tenants;
    size_t tenant_count;
};

#define TOKEN_UNNAMED BYTES("-")

static inline struct bytes token_tenant_name(const struct token_tenant *tenant)
{
    return (struct bytes){tenant->name, tenant->name_size};
}

/* Reads the text of a tokens file, which must have at least one token. Error texts name `origin` as
 * its source. */
enum error_code tokens_parse(struct bytes text, const char *origin, struct tokens **ret_tokens,
                             struct error *ret_error);
enum error_code tokens_load(const char *path, struct tokens **ret_tokens, struct error *ret_error);
void tokens_free(struct tokens *tokens);

/* Returns the token that a client presented; NULL if the file does not have it. The time depends
 * only on the number of tokens in the file. */
const struct token *tokens_find(const struct tokens *tokens, struct bytes text);

/* Like tokens_find, by the hash of the token. */
const struct token *tokens_find_hash(const struct tokens *tokens,
                                     const uint8_t hash[TOKEN_HASH_SIZE]);

/* Parses scopes such as "schedule,read". Each may be named once; there must be at least one. */
bool token_scopes_parse(struct bytes text, unsigned *ret_scopes);

/* Returns the word of one scope. */
const char *token_scope_word(enum token_scope scope);

/* Makes a token, and the line of the tokens file that accepts it. */
enum error_code token_make(struct bytes tenant, unsigned scopes, char ret_token[TOKEN_TEXT_SIZE],
                           struct buffer *line, struct error *ret_error);

#endif
