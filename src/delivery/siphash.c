/* siphash.c - SipHash-2-4 by OpenSSL's EVP_MAC. */
#include "delivery/siphash.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

#define HASH_SIZE 8

struct siphash {
    EVP_MAC_CTX *context;
    uint8_t key[SIPHASH_KEY_SIZE];
};

struct siphash *siphash_create(const uint8_t key[SIPHASH_KEY_SIZE])
{
    struct siphash *siphash = calloc(1, sizeof(*siphash));
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    size_t size = HASH_SIZE;
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
        OSSL_PARAM_construct_end(),
    };

    if (siphash) {
        memcpy(siphash->key, key, sizeof(siphash->key));
        siphash->context = mac ? EVP_MAC_CTX_new(mac) : NULL;
    }
    EVP_MAC_free(mac); /* the context keeps its own reference */
    if (siphash &&
        (!siphash->context || !EVP_MAC_init(siphash->context, key, SIPHASH_KEY_SIZE, parameters))) {
        siphash_destroy(siphash);
        siphash = NULL;
    }
    return siphash;
}

void siphash_destroy(struct siphash *siphash)
{
    if (!siphash)
        return;
    EVP_MAC_CTX_free(siphash->context); /* also wipes the context's copy of the key */
    OPENSSL_cleanse(siphash->key, sizeof(siphash->key));
    free(siphash);
}

bool siphash_compute(struct siphash *siphash, struct bytes text, uint64_t *ret_hash)
{
    uint8_t tag[HASH_SIZE];
    size_t size;

    /* The key is passed each time, because OpenSSL 3.0 does not start again without one. */
    if (!EVP_MAC_init(siphash->context, siphash->key, sizeof(siphash->key), NULL) ||
        !EVP_MAC_update(siphash->context, (const uint8_t *)text.data, text.size) ||
        !EVP_MAC_final(siphash->context, tag, &size, sizeof(tag)))
        return false;
    *ret_hash = get_le(tag, sizeof(tag));
    return true;
}
