/* tokens.c - reads the tokens file and finds tokens in constant time. */
#include "ops/tokens.h"

#include "base/base64.h"
#include "base/hex.h"
#include "base/number.h"
#include "sys/entropy.h"
#include "sys/files.h"

#include <openssl/sha.h>
#include <stdlib.h>

#define HASH_PREFIX  BYTES("sha256:")
#define TOKEN_PREFIX "tw_"

static const struct {
    const char *word;
    unsigned scope;
} scopes_known[] = {
#define X(name, word) {word, TOKEN_SCOPE_##name},
    TOKEN_SCOPE_LIST(X)
#undef X
};

static const struct {
    const char *name;
    uint64_t least, most;
    size_t offset;
} limits_known[] = {
#define X(name, least, most) {#name, least, most, offsetof(struct tenant_limits, name)},
    TENANT_LIMIT_LIST(X)
#undef X
};

enum { LIMITS_COUNT = sizeof(limits_known) / sizeof(limits_known[0]) };

/* ---- words ---- */

bool token_scopes_parse(struct bytes text, unsigned *ret_scopes)
{
    if (text.size > 0 && text.data[text.size - 1] == ',')
        return false;
    unsigned scopes = 0;
    while (text.size > 0) {
        const struct bytes word = bytes_cut(&text, ',');
        unsigned scope = 0;

        for (size_t i = 0; i < TOKEN_SCOPE_COUNT; i++)
            if (bytes_equal(word, bytes_of(scopes_known[i].word)))
                scope = scopes_known[i].scope;
        if (!scope || scopes & scope)
            return false;
        scopes |= scope;
    }
    *ret_scopes = scopes;
    return scopes != 0;
}

const char *token_scope_word(enum token_scope scope)
{
    for (size_t i = 0; i < TOKEN_SCOPE_COUNT; i++)
        if (scopes_known[i].scope == scope)
            return scopes_known[i].word;
    return "";
}

static bool tokens_parse_hex(struct bytes text, uint8_t ret_hash[TOKEN_HASH_SIZE])
{
    if (text.size != 2 * TOKEN_HASH_SIZE)
        return false;
    memset(ret_hash, 0, TOKEN_HASH_SIZE);
    for (size_t i = 0; i < text.size; i++) {
        int digit = hex_digit_lower(text.data[i]);

        if (digit < 0)
            return false;
        ret_hash[i / 2] = (uint8_t)(ret_hash[i / 2] << 4 | digit);
    }
    return true;
}

/* ---- the file ---- */

/* Returns the tenant of that name, and adds it if needed. NULL if out of memory. */
static struct token_tenant *tokens_tenant_get(struct tokens *tokens, struct bytes name)
{
    for (size_t i = 0; i < tokens->tenant_count; i++)
        if (bytes_equal(token_tenant_name(&tokens->tenants[i]), name))
            return &tokens->tenants[i];
    struct token_tenant *tenants =
        realloc(tokens->tenants, (tokens->tenant_count + 1) * sizeof(*tenants));
    if (!tenants)
        return NULL;
    tokens->tenants = tenants;
    struct token_tenant *tenant = &tenants[tokens->tenant_count++];
    *tenant = (struct token_tenant){.name_size = (uint8_t)name.size};
    if (name.size)
        memcpy(tenant->name, name.data, name.size);
    return tenant;
}

/* Reads a line with a token. Returns what is wrong with the line; NULL if it is valid. */
static const char *tokens_read_token(struct tokens *tokens, struct token_tenant *tenant,
                                     struct bytes line)
{
    struct bytes scopes;
    struct token token = {.tenant = (size_t)(tenant - tokens->tenants)};

    if (!bytes_next_word(&line, &scopes) || !token_scopes_parse(scopes, &token.scopes))
        return "the scopes are some of schedule, read, admin and payload, parted by commas";
    struct bytes hash;
    if (!bytes_next_word(&line, &hash) || !bytes_has_prefix(hash, HASH_PREFIX) ||
        !tokens_parse_hex(
            (struct bytes){hash.data + HASH_PREFIX.size, hash.size - HASH_PREFIX.size}, token.hash))
        return "the token is given as sha256: and 64 hexadecimal digits; see --make-token";
    struct bytes more;
    if (bytes_next_word(&line, &more))
        return "there is something behind the token";
    for (size_t i = 0; i < tokens->count; i++)
        if (memcmp(tokens->tokens[i].hash, token.hash, TOKEN_HASH_SIZE) == 0)
            return "the token was given before";
    if (tokens->count == TOKENS_MAX)
        return "there are too many tokens; " IN_WORDS(TOKENS_MAX) " are allowed";
    struct token *grown = realloc(tokens->tokens, (tokens->count + 1) * sizeof(*grown));
    if (!grown)
        return "out of memory";
    tokens->tokens = grown;
    tokens->tokens[tokens->count++] = token;
    tenant->has_token = true;
    return NULL;
}

static const char *tokens_read_limit(struct tenant_limits *limits, struct bytes word)
{
    const char *equals = memchr(word.data, '=', word.size);
    struct bytes name = {word.data, equals ? (size_t)(equals - word.data) : 0};
    size_t i = 0;

    while (i < LIMITS_COUNT && !bytes_equal(name, bytes_of(limits_known[i].name)))
        i++;
    if (!equals || i == LIMITS_COUNT)
        return "the limits are pending_max, rate, burst, body_bytes_max and batch_bytes_max, each "
               "with = and a number";
    char *at = (char *)limits + limits_known[i].offset;
    struct bytes text = {equals + 1, word.size - name.size - 1};
    uint64_t value;
    bool is_read = strstr(limits_known[i].name, "bytes") ? number_parse_scaled(text, &value)
                                                         : number_parse(text, 10, &value);
    if (!is_read || value < limits_known[i].least || value > limits_known[i].most)
        return "a limit is no number, or not one that is possible";
    if (memcmp(at, &(uint64_t){0}, sizeof(value)) != 0)
        return "a limit is given twice";
    memcpy(at, &value, sizeof(value));
    return NULL;
}

static const char *tokens_read_limits(struct token_tenant *tenant, struct bytes line)
{
    if (tenant->has_limits)
        return "the tenant's limits were given before";
    tenant->has_limits = true;
    struct bytes word;
    if (!bytes_next_word(&line, &word))
        return "a limit is missing";
    const char *wrong = NULL;
    do
        wrong = tokens_read_limit(&tenant->limits, word);
    while (!wrong && bytes_next_word(&line, &word));
    if (!wrong && tenant->limits.burst && !tenant->limits.rate)
        wrong = "burst needs a rate";
    if (!wrong && tenant->limits.pending_max && !tenant->name_size)
        wrong = "the unnamed tenant has no pending_max of its own; there is a setting";
    return wrong;
}

static const char *tokens_read_hidden(struct token_tenant *tenant, struct bytes line)
{
    struct bytes word, more;

    if (!bytes_next_word(&line, &word) || !bytes_equal(word, BYTES("payload")) ||
        bytes_next_word(&line, &more))
        return "hide takes a tenant and the word payload";
    tenant->hides_payload = true;
    return NULL;
}

static const char *tokens_read_line(struct tokens *tokens, struct bytes line)
{
    if (line.size && line.data[line.size - 1] == '\r')
        line.size--;
    struct bytes what;
    if (!bytes_next_word(&line, &what) || what.data[0] == '#')
        return NULL;
    bool is_token = bytes_equal(what, BYTES("token"));
    const bool is_hidden = bytes_equal(what, BYTES("hide"));
    if (!is_token && !is_hidden && !bytes_equal(what, BYTES("limit")))
        return "a line begins with token, limit or hide";
    struct bytes name;
    if (!bytes_next_word(&line, &name) || !tenant_is_valid(name))
        return "a tenant has 1 to " IN_WORDS(TENANT_SIZE_MAX) " letters, digits and . _ -";
    struct token_tenant *tenant =
        tokens_tenant_get(tokens, bytes_equal(name, TOKEN_UNNAMED) ? (struct bytes){0} : name);
    if (!tenant)
        return "out of memory";
    if (is_hidden)
        return tokens_read_hidden(tenant, line);
    return is_token ? tokens_read_token(tokens, tenant, line) : tokens_read_limits(tenant, line);
}

static enum error_code tokens_check_all(const struct tokens *tokens, const char *origin,
                                        struct error *ret_error)
{
    if (!tokens->count)
        return error_set(ret_error, ERROR_INVALID,
                         "%s: there is no token in it, so nobody could call; see --make-token",
                         origin);
    for (size_t i = 0; i < tokens->tenant_count; i++) {
        const struct token_tenant *tenant = &tokens->tenants[i];

        if (!tenant->has_token)
            return error_set(ret_error, ERROR_INVALID, "%s: tenant %.*s has a limit and no token",
                             origin, tenant->name_size ? tenant->name_size : 1,
                             tenant->name_size ? tenant->name : "-");
    }
    return ERROR_NONE;
}

enum error_code tokens_parse(struct bytes text, const char *origin, struct tokens **ret_tokens,
                             struct error *ret_error)
{
    struct tokens *tokens = calloc(1, sizeof(*tokens));

    if (!tokens)
        return error_set(ret_error, ERROR_NO_MEMORY, "%s: out of memory", origin);
    enum error_code code = ERROR_NONE;
    for (unsigned number = 1; !code && text.size > 0; number++) {
        const char *wrong = tokens_read_line(tokens, bytes_cut(&text, '\n'));

        if (wrong)
            code = error_set(ret_error, ERROR_INVALID, "%s:%u: %s", origin, number, wrong);
    }
    if (!code)
        code = tokens_check_all(tokens, origin, ret_error);
    if (code)
        tokens_free(tokens);
    else
        *ret_tokens = tokens;
    return code;
}

enum error_code tokens_load(const char *path, struct tokens **ret_tokens, struct error *ret_error)
{
    struct buffer text;

    buffer_init(&text);
    enum error_code code = files_read_regular(path, TOKENS_FILE_SIZE_MAX, &text, ret_error);
    if (!code)
        code = tokens_parse(buffer_bytes(&text), path, ret_tokens, ret_error);
    buffer_deinit(&text);
    return code;
}

void tokens_free(struct tokens *tokens)
{
    if (!tokens)
        return;
    free(tokens->tokens);
    free(tokens->tenants);
    free(tokens);
}

/* ---- tokens ---- */

/* Returns 1 if the hashes are equal, otherwise 0, in constant time: reads every word, and the
 * barrier keeps the compiler from stopping early. */
static size_t tokens_hash_equal(const uint8_t *a, const uint8_t *b)
{
    uint64_t difference = 0;

    for (size_t i = 0; i < TOKEN_HASH_SIZE; i += 8) {
        uint64_t left;

        memcpy(&left, a + i, 8);
        uint64_t right;
        memcpy(&right, b + i, 8);
        difference |= left ^ right;
        __asm__ volatile("" : "+r"(difference));
    }
    return (size_t)(1 ^ (difference | -difference) >> 63);
}

/* Compares every token, even after a match, so that the time does not depend on which one
 * matches. */
const struct token *tokens_find(const struct tokens *tokens, struct bytes text)
{
    uint8_t hash[TOKEN_HASH_SIZE];

    SHA256((const unsigned char *)text.data, text.size, hash);
    return tokens_find_hash(tokens, hash);
}

const struct token *tokens_find_hash(const struct tokens *tokens,
                                     const uint8_t hash[TOKEN_HASH_SIZE])
{
    size_t found = 0; /* index of the match plus 1; 0 if there is none */
    for (size_t i = 0; i < tokens->count; i++)
        found |= (i + 1) & -tokens_hash_equal(hash, tokens->tokens[i].hash);
    return found ? &tokens->tokens[found - 1] : NULL;
}

/* Writes the secret as base64 for URLs, without padding (RFC 4648, section 5). */
static bool tokens_format_token(const uint8_t secret[TOKEN_HASH_SIZE],
                                char ret_token[TOKEN_TEXT_SIZE])
{
    const size_t prefix_size = strlen(TOKEN_PREFIX);
    struct buffer text;

    buffer_init(&text);
    base64_append_url(&text, (struct bytes){(const char *)secret, TOKEN_HASH_SIZE});
    bool is_made = !buffer_failed(&text);
    if (is_made)
        memcpy(ret_token + prefix_size, text.data, TOKEN_TEXT_SIZE - 1 - prefix_size);
    memcpy(ret_token, TOKEN_PREFIX, prefix_size);
    ret_token[TOKEN_TEXT_SIZE - 1] = '\0';
    buffer_deinit(&text);
    return is_made;
}

enum error_code token_make(struct bytes tenant, unsigned scopes, char ret_token[TOKEN_TEXT_SIZE],
                           struct buffer *line, struct error *ret_error)
{
    const char *separator = "";

    if (!tenant_is_valid(tenant))
        return error_set(ret_error, ERROR_INVALID, "a tenant has 1 to %d letters, digits and . _ -",
                         TENANT_SIZE_MAX);
    uint8_t secret[TOKEN_HASH_SIZE];
    if (entropy_fill(secret, sizeof(secret)))
        return error_set(ret_error, ERROR_IO, "the system gives no entropy");
    if (!tokens_format_token(secret, ret_token))
        return error_set(ret_error, ERROR_NO_MEMORY, "out of memory");
    uint8_t hash[TOKEN_HASH_SIZE];
    SHA256((const unsigned char *)ret_token, TOKEN_TEXT_SIZE - 1, hash);
    buffer_printf(line, "token %.*s ", (int)tenant.size, tenant.data);
    for (size_t i = 0; i < TOKEN_SCOPE_COUNT; i++)
        if (scopes & scopes_known[i].scope) {
            buffer_printf(line, "%s%s", separator, scopes_known[i].word);
            separator = ",";
        }
    buffer_append_text(line, " sha256:");
    for (size_t i = 0; i < sizeof(hash); i++)
        buffer_printf(line, "%02x", hash[i]);
    return buffer_failed(line) ? error_set(ret_error, ERROR_NO_MEMORY, "out of memory")
                               : ERROR_NONE;
}
