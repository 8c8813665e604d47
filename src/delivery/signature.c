/* Signs webhooks by Standard Webhooks 1.0, with up to two secrets of each scheme. */
#include "delivery/signature.h"

#include "base/base64.h"
#include "delivery/ed25519.h"
#include "delivery/mac.h"
#include "sys/entropy.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_BYTES_MAX    128
#define PREFIX_SIZE     (ID_BYTES_MAX + 24) /* room for "id.timestamp." */
#define SEPARATORS      " \t\r\n"
#define SECRET_PREFIX   "whsec_"
#define PRIVATE_PREFIX  "whsk_"
#define PUBLIC_PREFIX   "whpk_"
#define BASE64_SIZE_MAX ((SIGNATURE_SECRET_BYTES_MAX + 2) / 3 * 4)

struct signature {
    struct mac *macs[SIGNATURE_SECRETS_MAX]; /* of the secrets "whsec_..." */
    size_t mac_count;
    struct ed25519 *keys[SIGNATURE_SECRETS_MAX]; /* of the secrets "whsk_..." */
    size_t key_count;
};

/* Adds the secret whose base64 was decoded. */
static enum error_code signature_add_decoded(struct signature *signature, bool is_private,
                                             struct bytes key, size_t number,
                                             struct error *ret_error)
{
    if (is_private) {
        signature->keys[signature->key_count] = ed25519_create(key);
        if (!signature->keys[signature->key_count])
            return error_set(ret_error, ERROR_INVALID,
                             "secret %zu is not a private key of ed25519: its 32 bytes, or these "
                             "and the 32 of its public key",
                             number);
        signature->key_count++;
        return ERROR_NONE;
    }
    if (key.size < SIGNATURE_SECRET_BYTES_MIN || key.size > SIGNATURE_SECRET_BYTES_MAX)
        return error_set(ret_error, ERROR_INVALID, "secret %zu is not of %d to %d bytes", number,
                         SIGNATURE_SECRET_BYTES_MIN, SIGNATURE_SECRET_BYTES_MAX);
    signature->macs[signature->mac_count] = mac_create(key);
    if (!signature->macs[signature->mac_count])
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory to sign webhooks");
    signature->mac_count++;
    return ERROR_NONE;
}

static enum error_code signature_add_secret(struct signature *signature, struct bytes secret,
                                            struct error *ret_error)
{
    const size_t number = signature->mac_count + signature->key_count + 1;
    const bool is_private = bytes_has_prefix(secret, BYTES(PRIVATE_PREFIX));
    const struct bytes prefix = is_private ? BYTES(PRIVATE_PREFIX) : BYTES(SECRET_PREFIX);

    if (!bytes_has_prefix(secret, prefix))
        return error_set(ret_error, ERROR_INVALID,
                         "secret %zu begins neither with \"" SECRET_PREFIX
                         "\" nor with \"" PRIVATE_PREFIX "\"",
                         number);
    if ((is_private ? signature->key_count : signature->mac_count) == SIGNATURE_SECRETS_MAX)
        return error_set(ret_error, ERROR_INVALID, "more than %d secrets that begin with \"%s\"",
                         SIGNATURE_SECRETS_MAX, prefix.data);
    secret.data += prefix.size;
    secret.size -= prefix.size;
    uint8_t key[BASE64_SIZE_MAX];
    size_t key_size = 0;
    enum error_code code;
    if (secret.size > BASE64_SIZE_MAX)
        code = signature_add_decoded(signature, is_private, (struct bytes){NULL, SIZE_MAX}, number,
                                     ret_error);
    else if (!base64_decode(secret, key, &key_size))
        code = error_set(ret_error, ERROR_INVALID, "secret %zu is not base64 behind its \"%s\"",
                         number, prefix.data);
    else
        code = signature_add_decoded(
            signature, is_private, (struct bytes){(const char *)key, key_size}, number, ret_error);
    OPENSSL_cleanse(key, sizeof(key));
    return code;
}

enum error_code signature_add(struct signature **signature, struct bytes secret,
                              struct error *ret_error)
{
    struct signature *own = *signature ? *signature : calloc(1, sizeof(*own));

    if (!own)
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory to sign webhooks");
    const enum error_code code = signature_add_secret(own, secret, ret_error);
    if (!code)
        *signature = own;
    else if (!*signature)
        signature_destroy(own);
    return code;
}

bool signature_next_secret(struct bytes *text, struct bytes *ret_secret)
{
    size_t start = 0;

    while (start < text->size && strchr(SEPARATORS, text->data[start]))
        start++;
    size_t end = start;
    while (end < text->size && !strchr(SEPARATORS, text->data[end]))
        end++;
    *ret_secret = (struct bytes){text->data + start, end - start};
    *text = (struct bytes){text->data + end, text->size - end};
    return ret_secret->size > 0;
}

enum error_code signature_create(const char *secrets, struct signature **ret_signature,
                                 struct error *ret_error)
{
    struct signature *signature = NULL;
    struct bytes rest = bytes_of(secrets), secret;
    enum error_code code = ERROR_NONE;

    while (!code && signature_next_secret(&rest, &secret))
        code = signature_add(&signature, secret, ret_error);
    if (!code && !signature)
        code = error_set(ret_error, ERROR_INVALID, "there is no secret");
    if (code)
        signature_destroy(signature);
    else
        *ret_signature = signature;
    return code;
}

void signature_destroy(struct signature *signature)
{
    if (!signature)
        return;
    for (size_t i = 0; i < signature->mac_count; i++)
        mac_destroy(signature->macs[i]);
    for (size_t i = 0; i < signature->key_count; i++)
        ed25519_destroy(signature->keys[i]);
    free(signature);
}

/* Appends one signature, after a space unless it is the first. */
static void signature_append_one(struct buffer *out, size_t start, const char *scheme,
                                 const uint8_t *bytes, size_t size)
{
    if (out->size > start)
        buffer_append(out, " ", 1);
    buffer_append_text(out, scheme);
    base64_append(out, (struct bytes){(const char *)bytes, size});
}

/* Appends the signatures by private keys. Ed25519 reads a message twice, so it must be in one
 * piece: a copy is made. */
static enum error_code signature_append_private(struct signature *signature,
                                                const struct bytes parts[2], struct buffer *out,
                                                size_t start)
{
    enum error_code code = ERROR_NONE;
    struct buffer message;

    buffer_init(&message);
    buffer_append_bytes(&message, parts[0]);
    buffer_append_bytes(&message, parts[1]);
    if (buffer_failed(&message))
        code = ERROR_NO_MEMORY;
    for (size_t i = 0; i < signature->key_count && !code; i++) {
        uint8_t bytes[ED25519_SIGNATURE_SIZE];

        if (!ed25519_sign(signature->keys[i], buffer_bytes(&message), bytes))
            code = ERROR_NO_MEMORY;
        else
            signature_append_one(out, start, "v1a,", bytes, sizeof(bytes));
    }
    buffer_deinit(&message);
    return code;
}

enum error_code signature_append(struct signature *signature, struct bytes id, uint64_t timestamp_s,
                                 struct bytes body, struct buffer *out)
{
    assert(id.size <= ID_BYTES_MAX);
    const size_t start = out->size;
    char prefix[PREFIX_SIZE];
    const int prefix_size = snprintf(prefix, sizeof(prefix), "%.*s.%llu.", (int)id.size, id.data,
                                     (unsigned long long)timestamp_s);
    const struct bytes parts[] = {{prefix, (size_t)prefix_size}, body};
    for (size_t i = 0; i < signature->mac_count; i++) {
        uint8_t digest[MAC_SIZE];

        if (!mac_compute(signature->macs[i], parts, 2, digest))
            return ERROR_NO_MEMORY;
        signature_append_one(out, start, "v1,", digest, sizeof(digest));
    }
    return signature->key_count ? signature_append_private(signature, parts, out, start)
                                : ERROR_NONE;
}

enum error_code signature_make_key(struct buffer *out)
{
    char secret[ED25519_SECRET_SIZE];

    if (entropy_fill(secret, ED25519_SEED_SIZE))
        return ERROR_IO;
    struct ed25519 *key = ed25519_create((struct bytes){secret, ED25519_SEED_SIZE});
    if (key) {
        const struct bytes public = {secret + ED25519_SEED_SIZE, ED25519_PUBLIC_SIZE};

        ed25519_public(key, (uint8_t *)secret + ED25519_SEED_SIZE);
        buffer_append_text(out, PRIVATE_PREFIX);
        base64_append(out, (struct bytes){secret, sizeof(secret)});
        buffer_append_text(out, "\n" PUBLIC_PREFIX);
        base64_append(out, public);
        buffer_append_text(out, "\n");
    }
    OPENSSL_cleanse(secret, sizeof(secret));
    const bool is_made = key && !buffer_failed(out);
    ed25519_destroy(key);
    return is_made ? ERROR_NONE : ERROR_NO_MEMORY;
}
