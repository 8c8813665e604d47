/*
 * signature.h - signs webhooks: Standard Webhooks 1.0, symmetric ("v1,<base64>").
 *
 *     signature_create("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &signature, &error);
 *     signature_append(signature, id, timestamp_s, body, &header_value);
 *
 * HMAC-SHA256 over "id.timestamp.body". While a secret is being exchanged there are two of them,
 * and a webhook carries a signature of each, parted by a space: a receiver accepts whichever it can
 * verify.
 *
 * Errors     A secret that is none; later only want of memory.
 * Ownership  The secrets are copied into OpenSSL's contexts and wiped here.
 * Threads    None: one owner, for the contexts are used again for every signature.
 */
#ifndef TICKWHEEL_DELIVERY_SIGNATURE_H
#define TICKWHEEL_DELIVERY_SIGNATURE_H

#include "base/bytes.h"
#include "base/error.h"

#define SIGNATURE_SECRETS_MAX      2
#define SIGNATURE_SECRET_BYTES_MIN 24 /* minimum size of the decoded secret, by the standard */
#define SIGNATURE_SECRET_BYTES_MAX 64

/* Maximum that signature_append writes: "v1,", 44 characters and a space, for each secret. */
#define SIGNATURE_TEXT_SIZE_MAX (SIGNATURE_SECRETS_MAX * 48)

struct signature;

/* Parses one or two secrets, each "whsec_" and base64, separated by a space. ERROR_INVALID names
 * the secret by its place and its error, never the secret itself. */
enum error_code signature_create(const char *secrets, struct signature **ret_signature,
                                 struct error *ret_error);
void signature_destroy(struct signature *signature);

/* Appends the value of the header webhook-signature. ERROR_NO_MEMORY if OpenSSL is out of
 * memory; check buffer_failed for `out`. */
enum error_code signature_append(struct signature *signature, struct bytes id, uint64_t timestamp_s,
                                 struct bytes body, struct buffer *out);

#endif
