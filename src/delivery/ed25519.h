/*
 * ed25519.h - Ed25519 signatures (RFC 8032) with one private key, by OpenSSL: signs webhooks that
 * receivers verify by a public key.
 *
 *     struct ed25519 *key = ed25519_create(secret);
 *     if (!ed25519_sign(key, message, signature)) ...
 *     ed25519_destroy(key);
 *
 * Errors     NULL says that the secret is not a key, or that memory is out; false, that memory is
 *            out.
 * Ownership  The secret is copied, and wiped by ed25519_destroy.
 * Threads    None: one owner at a time.
 */
#ifndef TICKWHEEL_DELIVERY_ED25519_H
#define TICKWHEEL_DELIVERY_ED25519_H

#include "base/bytes.h"

#define ED25519_SEED_SIZE      32
#define ED25519_PUBLIC_SIZE    32
#define ED25519_SIGNATURE_SIZE 64

/* Size of a secret that contains its public key: the seed, then the public key. */
#define ED25519_SECRET_SIZE (ED25519_SEED_SIZE + ED25519_PUBLIC_SIZE)

struct ed25519;

/* Takes a seed of 32 bytes, or a secret of 64. Returns NULL if the secret has another size, or its
 * second half is not the public key of the first. */
struct ed25519 *ed25519_create(struct bytes secret);
void ed25519_destroy(struct ed25519 *key);

/* Writes the public key. */
void ed25519_public(const struct ed25519 *key, uint8_t ret_public[ED25519_PUBLIC_SIZE]);

/* Signs the message. Returns false if out of memory. */
bool ed25519_sign(struct ed25519 *key, struct bytes message,
                  uint8_t ret_signature[ED25519_SIGNATURE_SIZE]);

#endif
