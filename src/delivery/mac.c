/* mac.c - HMAC-SHA256 by OpenSSL's EVP_MAC. */
#include "delivery/mac.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>

/* A struct mac is an OpenSSL context that holds the key. */
static EVP_MAC_CTX *mac_context(struct mac *mac)
{
    return (EVP_MAC_CTX *)(void *)mac;
}

struct mac *mac_create(struct bytes key)
{
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *context = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0),
        OSSL_PARAM_construct_end(),
    };

    EVP_MAC_free(hmac); /* the context keeps its own reference */
    if (context && !EVP_MAC_init(context, (const uint8_t *)key.data, key.size, parameters)) {
        EVP_MAC_CTX_free(context);
        context = NULL;
    }
    return (struct mac *)(void *)context;
}

void mac_destroy(struct mac *mac)
{
    EVP_MAC_CTX_free(mac_context(mac)); /* also wipes the context's copy of the key */
}

bool mac_compute(struct mac *mac, const struct bytes parts[], size_t count,
                 uint8_t ret_digest[MAC_SIZE])
{
    EVP_MAC_CTX *context = mac_context(mac);

    /* With NULL as key, OpenSSL starts again with the key of the context. That saves computing the
     * key schedule, and an allocation. */
    if (!EVP_MAC_init(context, NULL, 0, NULL))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!EVP_MAC_update(context, (const uint8_t *)parts[i].data, parts[i].size))
            return false;
    size_t size;
    return EVP_MAC_final(context, ret_digest, &size, MAC_SIZE) != 0;
}
