/* ed25519.c - Ed25519 by OpenSSL's EVP_DigestSign. */
#include "delivery/ed25519.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct ed25519 {
    EVP_PKEY *pair;
    EVP_MD_CTX *context; /* used again for each message */
    uint8_t public[ED25519_PUBLIC_SIZE];
};

struct ed25519 *ed25519_create(struct bytes secret)
{
    struct ed25519 *key = calloc(1, sizeof(*key));
    size_t size = sizeof(key->public);

    if (!key || (secret.size != ED25519_SEED_SIZE && secret.size != ED25519_SECRET_SIZE))
        goto failed;
    key->context = EVP_MD_CTX_new();
    key->pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, (const uint8_t *)secret.data,
                                             ED25519_SEED_SIZE);
    if (!key->context || !key->pair ||
        EVP_PKEY_get_raw_public_key(key->pair, key->public, &size) != 1)
        goto failed;
    if (secret.size == ED25519_SECRET_SIZE &&
        memcmp(secret.data + ED25519_SEED_SIZE, key->public, ED25519_PUBLIC_SIZE) != 0)
        goto failed;
    return key;
failed:
    ERR_clear_error();
    ed25519_destroy(key);
    return NULL;
}

void ed25519_destroy(struct ed25519 *key)
{
    if (!key)
        return;
    EVP_MD_CTX_free(key->context);
    EVP_PKEY_free(key->pair); /* also wipes the secret */
    free(key);
}

void ed25519_public(const struct ed25519 *key, uint8_t ret_public[ED25519_PUBLIC_SIZE])
{
    memcpy(ret_public, key->public, ED25519_PUBLIC_SIZE);
}

bool ed25519_sign(struct ed25519 *key, struct bytes message,
                  uint8_t ret_signature[ED25519_SIGNATURE_SIZE])
{
    size_t size = ED25519_SIGNATURE_SIZE;

    EVP_MD_CTX_reset(key->context);
    return EVP_DigestSignInit(key->context, NULL, NULL, NULL, key->pair) == 1 &&
           EVP_DigestSign(key->context, ret_signature, &size, (const uint8_t *)message.data,
                          message.size) == 1;
}
