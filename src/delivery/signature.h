/*
 * signature.h - signs webhooks: Standard Webhooks 1.0, symmetric ("v1,<base64>") and asymmetric
 * ("v1a,<base64>").
 *
 *     signature_create("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &signature, &error);
 *     signature_append(signature, id, timestamp_s, body, &header_value);
 *
 * Over "id.timestamp.body": HMAC-SHA256 by a secret "whsec_...", which the receiver has too, and
 * Ed25519 by a private key "whsk_...", of which the receiver has the public key "whpk_...". While a
 * secret is being replaced there are two, and a webhook has a signature by each, separated by a
 * space. A receiver accepts the one that it can verify.
 *
 * Errors     signature_create refuses a malformed secret; later only memory can be out.
 * Ownership  The secrets are copied into OpenSSL's contexts, and other copies are wiped.
 * Threads    None: one owner, because each signature uses the same contexts.
 */
#ifndef TICKWHEEL_DELIVERY_SIGNATURE_H
#define TICKWHEEL_DELIVERY_SIGNATURE_H

#include "base/bytes.h"
#include "base/error.h"

#define SIGNATURE_SECRETS_MAX      2  /* maximum of secrets of each scheme */
#define SIGNATURE_SECRET_BYTES_MIN 24 /* minimum size of the decoded secret, by the standard */
#define SIGNATURE_SECRET_BYTES_MAX 64

/* Maximum that signature_append writes, with a space for each signature: "v1," and 44 characters,
 * "v1a," and 88 characters. */
#define SIGNATURE_TEXT_SIZE_MAX (SIGNATURE_SECRETS_MAX * (48 + 93))

struct signature;

/* Adds a secret, "whsec_..." or "whsk_...", and makes the signature if it is NULL. ERROR_INVALID
 * says what is wrong, without showing the secret; then `*signature` is unchanged. */
enum error_code signature_add(struct signature **signature, struct bytes secret,
                              struct error *ret_error);

/* Removes blanks, line ends and the next secret from the text. Returns false if there is none. */
bool signature_next_secret(struct bytes *text, struct bytes *ret_secret);

/* Parses up to two secrets "whsec_..." and up to two "whsk_...", in base64, separated by spaces.
 * ERROR_INVALID says which secret is wrong and why, without showing it. */
enum error_code signature_create(const char *secrets, struct signature **ret_signature,
                                 struct error *ret_error);
void signature_destroy(struct signature *signature);

/* Appends the value of the header webhook-signature. ERROR_NO_MEMORY if OpenSSL is out of
 * memory; check buffer_failed for `out`. */
enum error_code signature_append(struct signature *signature, struct bytes id, uint64_t timestamp_s,
                                 struct bytes body, struct buffer *out);

/* Makes a private key. Appends a line with it, "whsk_...", and one with its public key,
 * "whpk_...". ERROR_IO if the system gives no entropy. */
enum error_code signature_make_key(struct buffer *out);

#endif
