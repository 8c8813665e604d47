/*
 * seal.h - seals secrets for the disk: AES-256-GCM, with the name of the key in front.
 *
 *     seal_keys_create("k2=BASE64 k1=BASE64", &keys, &error);
 *     seal_append(keys, bound, secret, &text);         "k2:BASE64", sealed with the first key
 *     seal_open(keys, bound, text, &secret, &error);   by whichever key it names
 *
 * `bound` says what the secret belongs to; a text that was moved to another place does not open.
 * During a rotation there are several keys: the first seals, all of them open.
 *
 * Errors     INVALID of keys, and of a text that does not open; the reason shows no secret.
 *            NO_MEMORY; IO if the system gives no entropy.
 * Ownership  Keys are copied, and wiped when they are destroyed. The caller wipes what was opened.
 * Threads    Immutable once created: any.
 */
#ifndef TICKWHEEL_DELIVERY_SEAL_H
#define TICKWHEEL_DELIVERY_SEAL_H

#include "base/bytes.h"
#include "base/error.h"

#define SEAL_KEYS_MAX        8
#define SEAL_KEY_NAME_MAX    32
#define SEAL_PLAIN_BYTES_MAX 32768 /* maximum size of a secret */

struct seal_keys;

/* Parses keys, each a name of A-Z a-z 0-9 _ -, an equals sign and base64 of 32 bytes, separated by
 * blanks. An empty text makes no keys, which seal nothing. */
enum error_code seal_keys_create(const char *text, struct seal_keys **ret_keys,
                                 struct error *ret_error);
void seal_keys_destroy(struct seal_keys *keys); /* NULL is allowed */

/* True if the text was sealed with the first key. */
bool seal_is_newest(const struct seal_keys *keys, struct bytes text);

/* Appends the sealed form of the secret. */
enum error_code seal_append(const struct seal_keys *keys, struct bytes bound, struct bytes plain,
                            struct buffer *out);

/* Appends the secret. */
enum error_code seal_open(const struct seal_keys *keys, struct bytes bound, struct bytes text,
                          struct buffer *out, struct error *ret_error);

/* Overwrites what the buffer holds with zeros, and frees it. */
void seal_wipe(struct buffer *buffer);

#endif
