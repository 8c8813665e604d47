/* Signs webhooks by Standard Webhooks 1.0, with one or two secrets. */
#include "delivery/signature.h"

#include "base/base64.h"
#include "delivery/mac.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define ID_BYTES_MAX    128
#define PREFIX_SIZE     (ID_BYTES_MAX + 24) /* room for "id.timestamp." */
#define SEPARATORS      " \t\r\n"
#define SECRET_PREFIX   "whsec_"
#define BASE64_SIZE_MAX ((SIGNATURE_SECRET_BYTES_MAX + 2) / 3 * 4)

struct signature {
    struct mac *macs[SIGNATURE_SECRETS_MAX];
    size_t count;
};

static enum error_code signature_add_secret(struct signature *signature, struct bytes secret,
                                            struct error *ret_error)
{
    size_t number = signature->count + 1;

    if (signature->count == SIGNATURE_SECRETS_MAX)
        return error_set(ret_error, ERROR_INVALID, "more than %d secrets", SIGNATURE_SECRETS_MAX);
    if (!bytes_has_prefix(secret, BYTES(SECRET_PREFIX)))
        return error_set(ret_error, ERROR_INVALID,
                         "secret %zu does not begin with \"" SECRET_PREFIX "\"", number);
    secret.data += sizeof(SECRET_PREFIX) - 1;
    secret.size -= sizeof(SECRET_PREFIX) - 1;
    uint8_t key[BASE64_SIZE_MAX];
    size_t key_size = 0;
    bool is_base64 = secret.size <= BASE64_SIZE_MAX && base64_decode(secret, key, &key_size);
    if (is_base64 && key_size >= SIGNATURE_SECRET_BYTES_MIN &&
        key_size <= SIGNATURE_SECRET_BYTES_MAX)
        signature->macs[signature->count] = mac_create((struct bytes){(const char *)key, key_size});
    OPENSSL_cleanse(key, sizeof(key));
    if (!is_base64 && secret.size <= BASE64_SIZE_MAX)
        return error_set(ret_error, ERROR_INVALID,
                         "secret %zu is not base64 behind its \"" SECRET_PREFIX "\"", number);
    if (!is_base64 || key_size < SIGNATURE_SECRET_BYTES_MIN ||
        key_size > SIGNATURE_SECRET_BYTES_MAX)
        return error_set(ret_error, ERROR_INVALID, "secret %zu is not of %d to %d bytes", number,
                         SIGNATURE_SECRET_BYTES_MIN, SIGNATURE_SECRET_BYTES_MAX);
    if (!signature->macs[signature->count])
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory to sign webhooks");
    signature->count++;
    return ERROR_NONE;
}

enum error_code signature_create(const char *secrets, struct signature **ret_signature,
                                 struct error *ret_error)
{
    struct signature *signature = calloc(1, sizeof(*signature));

    if (!signature)
        return error_set(ret_error, ERROR_NO_MEMORY, "no memory to sign webhooks");
    enum error_code code = ERROR_NONE;
    for (secrets += strspn(secrets, SEPARATORS); *secrets && !code;
         secrets += strspn(secrets, SEPARATORS)) {
        struct bytes secret = {secrets, strcspn(secrets, SEPARATORS)};

        code = signature_add_secret(signature, secret, ret_error);
        secrets += secret.size;
    }
    if (!code && signature->count == 0)
        code = error_set(ret_error, ERROR_INVALID, "there is no secret");
    if (code) {
        signature_destroy(signature);
        return code;
    }
    *ret_signature = signature;
    return ERROR_NONE;
}

void signature_destroy(struct signature *signature)
{
    if (!signature)
        return;
    for (size_t i = 0; i < signature->count; i++)
        mac_destroy(signature->macs[i]);
    free(signature);
}

enum error_code signature_append(struct signature *signature, struct bytes id, uint64_t timestamp_s,
                                 struct bytes body, struct buffer *out)
{
    assert(id.size <= ID_BYTES_MAX);
    char prefix[PREFIX_SIZE];
    const int prefix_size = snprintf(prefix, sizeof(prefix), "%.*s.%llu.", (int)id.size, id.data,
                                     (unsigned long long)timestamp_s);
    const struct bytes parts[] = {{prefix, (size_t)prefix_size}, body};
    for (size_t i = 0; i < signature->count; i++) {
        uint8_t digest[MAC_SIZE];

        if (!mac_compute(signature->macs[i], parts, 2, digest))
            return ERROR_NO_MEMORY;
        buffer_append_text(out, i == 0 ? "v1," : " v1,");
        base64_append(out, (struct bytes){(const char *)digest, sizeof(digest)});
    }
    return ERROR_NONE;
}
