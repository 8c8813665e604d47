/*
 * mac.h - HMAC-SHA256 (RFC 2104) with one key, by OpenSSL: signs webhooks.
 *
 *     struct mac *mac = mac_create(key);
 *     if (!mac_compute(mac, parts, 2, digest)) ...
 *     mac_destroy(mac);
 *
 * Errors     NULL and false mean that memory is out.
 * Ownership  The key is copied, and wiped by mac_destroy.
 * Threads    None: one owner at a time.
 */
#ifndef TICKWHEEL_DELIVERY_MAC_H
#define TICKWHEEL_DELIVERY_MAC_H

#include "base/bytes.h"

#define MAC_SIZE 32

struct mac;

struct mac *mac_create(struct bytes key);
void mac_destroy(struct mac *mac);

/* Computes the HMAC of the parts as if they were one text. Returns false if out of memory. */
bool mac_compute(struct mac *mac, const struct bytes parts[], size_t count,
                 uint8_t ret_digest[MAC_SIZE]);

#endif
