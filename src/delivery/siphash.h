/*
 * siphash.h - SipHash-2-4 with one key and 64 bits of result, by OpenSSL: signs receipts.
 *
 * A secret key makes the result unpredictable, as HMAC-SHA256 does (mac.h), for a fifth of its
 * cost. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
 *
 *     struct siphash *siphash = siphash_create(key);
 *     if (!siphash_compute(siphash, text, &hash)) ...
 *     siphash_destroy(siphash);
 *
 * Errors     NULL and false mean that memory is out.
 * Ownership  The key is copied, and wiped by siphash_destroy.
 * Threads    None: one owner at a time.
 */
#ifndef TICKWHEEL_DELIVERY_SIPHASH_H
#define TICKWHEEL_DELIVERY_SIPHASH_H

#include "base/bytes.h"

#define SIPHASH_KEY_SIZE 16

struct siphash;

struct siphash *siphash_create(const uint8_t key[SIPHASH_KEY_SIZE]);
void siphash_destroy(struct siphash *siphash);

/* Returns the hash as SipHash's authors print it: the first byte of the tag is the lowest. */
bool siphash_compute(struct siphash *siphash, struct bytes text, uint64_t *ret_hash);

#endif
