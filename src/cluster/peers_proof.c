/* peers_proof.c - secrets of the cluster, and the proofs of messages that are made with them. */
#include "cluster/peers_private.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

unsigned peers_newest_key(struct peers *peers)
{
    pthread_mutex_lock(&peers->secrets_lock);
    const unsigned newest = peers->newest;
    pthread_mutex_unlock(&peers->secrets_lock);
    return newest;
}

bool peers_has_former_key(struct peers *peers)
{
    pthread_mutex_lock(&peers->secrets_lock);
    const bool has_former = peers->secrets[(peers->newest + 1) % 2].text != NULL;
    pthread_mutex_unlock(&peers->secrets_lock);
    return has_former;
}

static void peers_forget_secret(struct peers_secret *secret)
{
    if (secret->text)
        explicit_bzero(secret->text, secret->size);
    free(secret->text);
    *secret = (struct peers_secret){0};
}

void peers_forget_secrets(struct peers *peers)
{
    peers_forget_secret(&peers->secrets[0]);
    peers_forget_secret(&peers->secrets[1]);
}

enum error_code peers_set_secret(struct peers *peers, struct bytes secret, bool is_founded)
{
    assert(secret.size > 0);
    char *copy = malloc(secret.size);
    if (!copy)
        return ERROR_NO_MEMORY;
    memcpy(copy, secret.data, secret.size);
    pthread_mutex_lock(&peers->secrets_lock);
    const struct peers_secret *newest = &peers->secrets[peers->newest % 2];
    const bool is_same =
        newest->text && bytes_equal((struct bytes){newest->text, newest->size}, secret);
    if (is_founded)
        peers_forget_secret(&peers->secrets[(peers->newest + 1) % 2]);
    if (is_founded && !is_same)
        peers->newest++; /* the previous secret becomes the former one */
    peers_forget_secret(&peers->secrets[peers->newest % 2]);
    peers->secrets[peers->newest % 2] = (struct peers_secret){copy, secret.size};
    pthread_mutex_unlock(&peers->secrets_lock);
    return ERROR_NONE;
}

/* Derives the key for messages in one direction from the secret `key`. */
static bool peers_key(struct peers *peers, unsigned key, const char *way,
                      uint8_t ret_key[PEERS_MAC_SIZE])
{
    unsigned size = 0;

    pthread_mutex_lock(&peers->secrets_lock);
    const struct peers_secret *secret = &peers->secrets[key % 2];
    const bool is_used = secret->text && (key == peers->newest || key + 1 == peers->newest);
    const bool is_done = is_used && HMAC(EVP_sha256(), secret->text, (int)secret->size,
                                         (const uint8_t *)way, strlen(way), ret_key, &size);
    pthread_mutex_unlock(&peers->secrets_lock);
    return is_done;
}

bool peers_mac(struct peers *peers, unsigned key, const char *way, const uint8_t *asked,
               struct bytes message, uint8_t ret_mac[PEERS_MAC_SIZE])
{
    uint8_t digests[2 * PEERS_MAC_SIZE] = {0}, inner[PEERS_MAC_SIZE] = {0};
    unsigned size = 0;

    /* Derives the key of the direction of the message, and from it the key of this question. */
    if (!peers_key(peers, key, way, digests))
        return false;
    if (asked)
        memcpy(inner, asked, PEERS_MAC_SIZE);
    if (!HMAC(EVP_sha256(), digests, PEERS_MAC_SIZE, inner, PEERS_MAC_SIZE,
              digests + PEERS_MAC_SIZE, &size))
        return false;
    return HMAC(EVP_sha256(), digests + PEERS_MAC_SIZE, PEERS_MAC_SIZE,
                (const uint8_t *)message.data, message.size, ret_mac, &size) != NULL;
}

bool peers_is_proven(struct peers *peers, const uint8_t *proof, struct bytes message,
                     unsigned *ret_key)
{
    const unsigned newest = peers_newest_key(peers);

    for (unsigned age = 0; age < 2; age++) {
        uint8_t mac[PEERS_MAC_SIZE];

        *ret_key = newest - age;
        if (peers_mac(peers, *ret_key, PEERS_ASKS, NULL, message, mac) &&
            CRYPTO_memcmp(mac, proof, PEERS_MAC_SIZE) == 0)
            return true;
    }
    return false;
}

void peers_put_greeting(struct peers *peers, unsigned key, const char *way, const uint8_t *asked,
                        struct buffer *out)
{
    const struct wire_head head = {WIRE_GREETING, peers->cluster, peers->id, 0};

    buffer_append(out, (char[PEERS_MAC_SIZE]){0}, PEERS_MAC_SIZE);
    const size_t begin = wire_begin(out, &head);
    wire_end(out, begin);
    if (buffer_failed(out))
        return;
    const struct bytes message = {out->data + PEERS_MAC_SIZE, out->size - PEERS_MAC_SIZE};
    (void)peers_mac(peers, key, way, asked, message, (uint8_t *)out->data);
}
