/*
 * signature.h - signs webhooks: Standard Webhooks 1.0, symmetric ("v1,<base64>").
 *
 *     signature_create("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &signature, &error);
 *     signature_append(signature, id, timestamp_s, body, &header_value);
 *
 * HMAC-SHA256 over "id.timestamp.body". While a secret is being replaced there are two, and a
 * webhook has a signature by each, separated by a space. A receiver accepts the one that it can
 * verify.
 *
 * Errors     signature_create refuses a malformed secret; later only memory can be out.
 * Ownership  The secrets are copied into OpenSSL's contexts, and other copies are wiped.
 * Threads    None: one owner, because each signature uses the same contexts.
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

/* Parses one or two secrets, each "whsec_" and base64, separated by a space. ERROR_INVALID says
 * which secret is wrong and why, without showing it. */
enum error_code signature_create(const char *secrets, struct signature **ret_signature,
                                 struct error *ret_error);
void signature_destroy(struct signature *signature);

/* Appends the value of the header webhook-signature. ERROR_NO_MEMORY if OpenSSL is out of
 * memory; check buffer_failed for `out`. */
enum error_code signature_append(struct signature *signature, struct bytes id, uint64_t timestamp_s,
                                 struct bytes body, struct buffer *out);

#endif
