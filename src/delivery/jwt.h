/*
 * jwt.h - private keys that sign JSON Web Tokens (RFC 7519), ES256 or RS256, by OpenSSL.
 *
 *     jwt_keys_parse(pem, &keys, &error);
 *     jwt_append(keys, BYTES("{\"iss\":...}"), &token);      signed by the first key
 *     jwt_keys_append_set(keys, &jwks);                      the public keys of all (RFC 7517)
 *     jwt_keys_make(JWT_ES256, &keys);                       or a new key
 *
 * The name of a key (kid) is its thumbprint (RFC 7638), so equal keys have equal names everywhere.
 *
 * Errors     ERROR_INVALID says which key is wrong and why, without a part of it.
 * Ownership  The keys are copied into OpenSSL's memory, which jwt_keys_destroy wipes.
 * Threads    None: one owner.
 */
#ifndef TICKWHEEL_DELIVERY_JWT_H
#define TICKWHEEL_DELIVERY_JWT_H

#include "base/bytes.h"
#include "base/error.h"

#define JWT_KEYS_MAX     8
#define JWT_RSA_BITS_MIN 2048
#define JWT_RSA_BITS_MAX 4096

enum jwt_algorithm { JWT_ES256, JWT_RS256 };

struct jwt_keys;

/* Parses private keys in PEM, one after the other: P-256 for ES256, RSA for RS256. Keys with a
 * pass phrase are refused. */
enum error_code jwt_keys_parse(struct bytes pem, struct jwt_keys **ret_keys,
                               struct error *ret_error);
void jwt_keys_destroy(struct jwt_keys *keys);

/* Makes one key. RS256 takes a tenth of a second. */
enum error_code jwt_keys_make(enum jwt_algorithm algorithm, struct jwt_keys **ret_keys);

/* Returns the name of the first key. */
struct bytes jwt_keys_name(const struct jwt_keys *keys);

/* Returns the algorithm of the first key, such as "ES256". */
const char *jwt_keys_algorithm(const struct jwt_keys *keys);

/* Appends the public key of the first key as JSON. */
void jwt_keys_append_public(const struct jwt_keys *keys, struct buffer *out);

/* Appends the first key, with its private part, in PEM. The caller wipes it. */
enum error_code jwt_keys_append_private(const struct jwt_keys *keys, struct buffer *out);

/* Appends the token: header, claims and signature. `claims` is a JSON object. Returns
 * ERROR_NO_MEMORY if OpenSSL is out of memory; check buffer_failed for `out`. */
enum error_code jwt_append(const struct jwt_keys *keys, struct bytes claims, struct buffer *out);

/* Appends {"keys":[...]} with the public keys, in their order. */
void jwt_keys_append_set(const struct jwt_keys *keys, struct buffer *out);

#endif
