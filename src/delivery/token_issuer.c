/* token_issuer.c - mints tokens, and keeps them for half their life. */
#include "delivery/token_issuer.h"

#include "base/base64.h"
#include "base/json_write.h"
#include "base/random.h"
#include "sys/entropy.h"
#include "sys/files.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS_FILE_BYTES_MAX = 64 * 1024 };

#define TOKEN_ID_SIZE 16

/* A token at the place that the hash of its tenant and audience gives. Another one with that place
 * takes it. */
struct token_issuer_kept {
    struct buffer of;   /* tenant, a line end, and audience */
    struct buffer text; /* the token; empty if there is none */
    uint64_t made_s;
};

struct token_issuer {
    char *name;
    uint32_t life_s;
    struct jwt_keys *keys; /* of the file, or the one that signs; NULL before that is known */
    struct vault *vault;   /* NULL if the keys are those of a file */
    uint64_t looked_s;     /* time at which `keys` was looked up; 0 for never */
    struct buffer wanted;  /* memory for the tenant and audience of a call */
    struct token_issuer_kept kept[TOKEN_ISSUER_KEPT_MAX];
};

static enum error_code token_issuer_read(struct token_issuer *issuer, const char *keys_file,
                                         struct error *ret_error)
{
    struct buffer pem;

    buffer_init(&pem);
    enum error_code code = files_read_regular(keys_file, KEYS_FILE_BYTES_MAX, &pem, ret_error);
    if (!code)
        code = jwt_keys_parse(buffer_bytes(&pem), &issuer->keys, ret_error);
    if (pem.size)
        explicit_bzero(pem.data, pem.size);
    buffer_deinit(&pem);
    return code;
}

enum error_code token_issuer_create(const struct token_issuer_options *options,
                                    struct token_issuer **ret_issuer, struct error *ret_error)
{
    struct token_issuer *issuer = calloc(1, sizeof(*issuer));
    struct error cause;

    if (!issuer)
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory for tokens");
    issuer->life_s = options->life_s;
    issuer->name = strdup(options->issuer);
    enum error_code code = issuer->name ? ERROR_NONE : ERROR_NO_MEMORY;
    error_set(&cause, ERROR_NO_MEMORY, "no memory for tokens");
    if (!*options->keys_file)
        issuer->vault = options->vault;
    else if (!code)
        code = token_issuer_read(issuer, options->keys_file, &cause);
    if (code) {
        token_issuer_destroy(issuer);
        return error_set(ret_error, code, "webhook_token_keys_file: %s", cause.text);
    }
    *ret_issuer = issuer;
    return ERROR_NONE;
}

void token_issuer_destroy(struct token_issuer *issuer)
{
    if (!issuer)
        return;
    for (size_t i = 0; i < TOKEN_ISSUER_KEPT_MAX; i++) {
        buffer_deinit(&issuer->kept[i].of);
        buffer_deinit(&issuer->kept[i].text);
    }
    buffer_deinit(&issuer->wanted);
    jwt_keys_destroy(issuer->keys);
    free(issuer->name);
    free(issuer);
}

bool token_issuer_is_ready(struct token_issuer *issuer, uint64_t now_s, struct error *ret_reason)
{
    struct jwt_keys *keys = NULL;

    if (!issuer->vault || (issuer->keys && issuer->looked_s == now_s))
        return true;
    const struct bytes name = issuer->keys ? jwt_keys_name(issuer->keys) : (struct bytes){0};
    const enum error_code code =
        token_keys_open(issuer->vault, (struct wall){now_s * 1000}, name, &keys, ret_reason);
    if (keys) {
        jwt_keys_destroy(issuer->keys);
        issuer->keys = keys;
    }
    if (!code)
        issuer->looked_s = now_s;
    return !code;
}

static bool token_issuer_mint(struct token_issuer *issuer, struct bytes tenant,
                              struct bytes audience, uint64_t now_s, struct buffer *out)
{
    uint8_t bytes[TOKEN_ID_SIZE];
    struct buffer claims, id;

    if (entropy_fill(bytes, sizeof(bytes)))
        return false;
    buffer_init(&claims);
    buffer_init(&id);
    base64_append_url(&id, (struct bytes){(const char *)bytes, sizeof(bytes)});
    json_open(&claims, NULL, '{');
    json_put_text(&claims, "iss", issuer->name);
    json_put_string(&claims, "sub", tenant.size ? tenant : BYTES("-"));
    json_put_string(&claims, "aud", audience);
    json_put_number(&claims, "iat", now_s);
    json_put_number(&claims, "exp", now_s + issuer->life_s);
    json_put_string(&claims, "jti", buffer_bytes(&id));
    json_close(&claims, '}');
    const bool is_made = !buffer_failed(&claims) && !buffer_failed(&id) &&
                         jwt_append(issuer->keys, buffer_bytes(&claims), out) == ERROR_NONE &&
                         !buffer_failed(out);
    buffer_deinit(&claims);
    buffer_deinit(&id);
    return is_made;
}

struct bytes token_issuer_find(struct token_issuer *issuer, struct bytes tenant,
                               struct bytes audience, uint64_t now_s)
{
    struct buffer *wanted = &issuer->wanted;

    buffer_clear(wanted);
    buffer_append_bytes(wanted, tenant);
    buffer_append_text(wanted, "\n");
    buffer_append_bytes(wanted, audience);
    if (buffer_failed(wanted))
        return (struct bytes){NULL, 0};
    const uint64_t hash = random_mix(bytes_hash(0, buffer_bytes(wanted)));
    struct token_issuer_kept *kept = &issuer->kept[hash % TOKEN_ISSUER_KEPT_MAX];
    if (kept->text.size > 0 && now_s >= kept->made_s &&
        now_s - kept->made_s <= issuer->life_s / 2 &&
        bytes_equal(buffer_bytes(&kept->of), buffer_bytes(wanted)))
        return buffer_bytes(&kept->text);
    buffer_clear(&kept->text);
    buffer_clear(&kept->of);
    buffer_append_bytes(&kept->of, buffer_bytes(wanted));
    kept->made_s = now_s;
    if (buffer_failed(&kept->of) ||
        !token_issuer_mint(issuer, tenant, audience, now_s, &kept->text))
        buffer_clear(&kept->text);
    return buffer_bytes(&kept->text);
}

void token_issuer_append_set(const struct token_issuer *issuer, struct buffer *out)
{
    if (!issuer->vault)
        jwt_keys_append_set(issuer->keys, out);
}
