/*
 * token_keys.h - the keys of tokens that the daemon makes itself: one definition of the unnamed
 * tenant, so all nodes of a cluster have the same keys. Private parts are sealed (seal.h).
 *
 *     token_keys_rotate(vault, before, &rotation, &value, &error);    what to define
 *     token_keys_append_set(vault, now, &jwks);
 *     token_keys_open(vault, now, name, &keys, &error);               the key that signs now
 *
 * A key is shown from the rotation on, and signs from `signs` on, so that receivers have read it
 * before. The key before it is shown until its last token has expired. Each node reads its own
 * clock: no change of the definition is needed for a key to begin or to end.
 *
 * Time       The caller hands in the time of the machine, since receivers have no virtual clock.
 * Errors     ERROR_INVALID with the reason, without secrets; TOO_MANY, NO_MEMORY.
 * Threads    Any.
 */
#ifndef TICKWHEEL_DELIVERY_TOKEN_KEYS_H
#define TICKWHEEL_DELIVERY_TOKEN_KEYS_H

#include "delivery/jwt.h"
#include "delivery/vault.h"

#define TOKEN_KEYS_MAX            JWT_KEYS_MAX
#define TOKEN_KEYS_OVERLAP_MS     UINT64_C(86400000) /* default of a rotation */
#define TOKEN_KEYS_OVERLAP_MS_MAX UINT64_C(2592000000)
#define TOKEN_KEYS_MARGIN_MS      UINT64_C(60000) /* by which clocks may differ, and more */

struct token_key {
    struct bytes name;      /* kid */
    struct bytes algorithm; /* ES256 or RS256 */
    struct wall made;
    struct wall signs;   /* time from which it signs, until a later key does */
    struct wall ends;    /* time from which it is not shown; 0 if no key follows it yet */
    struct bytes shown;  /* public key, as JSON */
    struct bytes sealed; /* private key */
};

struct token_keys_rotation {
    enum jwt_algorithm algorithm;
    struct wall now;
    uint64_t overlap_ms; /* time from now until the new key signs */
    uint64_t life_ms;    /* time that a token is valid */
};

/* Returns the definition; NULL before there is one. */
const struct definition *token_keys_row(const struct definitions *definitions);

/* Writes the key of the definition to `room`. */
struct bytes token_keys_row_key(char room[DEFINITION_KEY_SIZE_MAX]);

/* Reads the next key of a definition, and removes it from `value`. Returns false after the last. */
bool token_keys_next(struct bytes *value, struct token_key *ret_key);

/* Finds the key that signs at this time. Returns false if there is no key. */
bool token_keys_signer(struct bytes value, struct wall now, struct token_key *ret_key);

/* True if the key is shown at this time. */
bool token_key_is_shown(const struct token_key *key, struct wall now);

/* Appends the definition with a new key, and without those that have ended. `before` is empty if
 * there is none. A key that would begin to sign after the new one is dropped. */
enum error_code token_keys_rotate(struct vault *vault, struct bytes before,
                                  const struct token_keys_rotation *rotation, struct buffer *out,
                                  struct error *ret_error);

/* Appends the definition with each key sealed by the first key of secrets_keys. `ret_has_changed`
 * is false if they are. */
enum error_code token_keys_reseal(struct vault *vault, struct bytes value, struct buffer *out,
                                  bool *ret_has_changed, struct error *ret_error);

/* Appends the public keys as a JWK set. */
void token_keys_append_set(struct vault *vault, struct wall now, struct buffer *out);

/* Opens the key that signs at this time. *ret_keys is NULL if it is the key of this name, which the
 * caller has. */
enum error_code token_keys_open(struct vault *vault, struct wall now, struct bytes name,
                                struct jwt_keys **ret_keys, struct error *ret_error);

/* True unless the private part of a key does not open; then the reason says why. */
bool token_keys_are_open(struct vault *vault, struct error *ret_reason);

#endif
